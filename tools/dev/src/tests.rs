//! The page with all flags, written from the definitions that the programs parse. It is here
//! because this program has the commands for developers, and the library of `skydock` all others.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};
use skydock::cli::{Cli, ForeignFlag, Otherwise, Takes, flags_of_providers, foreign_flags};

use crate::{bench::BenchArgs, build::BuildArgs, cli::DevArgs, new::NewArgs, test::TestArgs};

/// Stands for the heading of flags without one.
const OTHERS: &str = "";

#[test]
fn the_page_with_all_flags_is_up_to_date() {
    snapbox::assert_data_eq!(page(), snapbox::file!["../../../docs/flags.md"].raw());
}

#[test]
fn a_flag_is_a_row_with_its_default() {
    let command = Command::new("a").args([
        Arg::new("one")
            .long("one")
            .value_name("N")
            .default_value("3")
            .help("A | b."),
        Arg::new("two")
            .long("two")
            .num_args(0..=1)
            .value_name("BOOL")
            .help("C [default: 7 or 8]."),
        Arg::new("three")
            .short('t')
            .long("three")
            .action(clap::ArgAction::SetTrue)
            .help_heading("Other")
            .help("D"),
        Arg::new("file")
            .value_name("FILE")
            .required(true)
            .value_parser(["x", "y"])
            .help("E."),
    ]);
    let mut page = String::new();
    tables(&mut page, command);
    let row = |row: &str| {
        assert!(
            page.lines().any(|line| line == row),
            "{row} is missing in:\n{page}"
        );
    };
    row("| `--one N` | `3` | A \\| b. |");
    row("| `--two[=BOOL]` | 7 or 8 | C. |");
    row("| `-t`, `--three` | | D. |");
    row("| `FILE` | | E. `x` or `y`. |");
    row("### Other");
}

fn page() -> String {
    let mut page = "# Flags\n\nAll flags of Skydock. `SNAPSHOTS=overwrite cargo test -p skydock-dev --bin skydock-dev flags` writes this page from the \
        definitions that the program parses.\n\n\
        Flags are written as upstream's: booleans are set with `=`, for example `--leader-elect=false`, other values follow after `=` or \
        as the next word, and the last of several values counts; those of `--controllers`, `--feature-gates`, \
        `--load-balancer-allowed-cidrs`, `--load-balancer-classes` and flags that may be repeated add up. Durations are written as in \
        Go: `15s`, `5m0s`, `100ms`. Flags cannot be set with environment variables, but `RUST_LOG` takes precedence over `--v`.\n"
        .to_owned();
    let cli = Cli::command();
    section(&mut page, "skydock", cli.clone());
    foreign(&mut page);
    for command in cli.get_subcommands() {
        let nested = command.get_subcommands().map(|inner| {
            (
                format!("skydock {} {}", command.get_name(), inner.get_name()),
                inner,
            )
        });
        let own = [(format!("skydock {}", command.get_name()), command)];
        let all: Vec<_> = if command.has_subcommands() {
            nested.collect()
        } else {
            own.into()
        };
        for (name, command) in all {
            let command = match name.as_str() {
                "skydock dev" => DevArgs::command(),
                "skydock plugin new" => NewArgs::command(),
                "skydock plugin build" => BuildArgs::command(),
                "skydock plugin test" => TestArgs::command(),
                "skydock plugin bench" => BenchArgs::command(),
                _ => command.clone(),
            };
            section(&mut page, &name, command);
        }
    }
    page
}

/// Writes the tables of the flags that only upstream has.
fn foreign(page: &mut String) {
    page.push_str(
        "\n### Flags of upstream that may stay\n\nSkydock already behaves as they say:\n\n",
    );
    for flag in by_name() {
        for value in flag.fixed.iter().filter(|value| !value.is_empty()) {
            let _ = writeln!(page, "- `--{}={value}`", flag.name);
        }
    }

    page.push_str(
        "\n### Flags of upstream that have no effect\n\nThey are accepted with a warning. With `--strict-flags`, they are rejected.\n\n\
         | Flag | Reason |\n| --- | --- |\n",
    );
    rows(page, |flag| match flag.otherwise {
        Otherwise::NoEffect(why) => Some(why),
        Otherwise::Rejected(_) => None,
    });

    page.push_str(
        "\n### Flags of upstream that are rejected\n\n| Flag | Instead |\n| --- | --- |\n",
    );
    rows(page, |flag| match flag.otherwise {
        Otherwise::NoEffect(_) => None,
        Otherwise::Rejected(instead) => Some(instead),
    });

    page.push_str(
        "\n### Flags of one provider's program that are rejected\n\n| Flag | Instead |\n| --- | --- |\n",
    );
    for (name, instead) in flags_of_providers() {
        let _ = writeln!(page, "| `--{name}` | {} |", cell(&instead));
    }
}

fn by_name() -> impl Iterator<Item = &'static ForeignFlag> {
    let mut flags: Vec<_> = foreign_flags().collect();
    flags.sort_by_key(|flag| flag.name);
    flags.into_iter()
}

/// Writes a row for each flag about which there is something to say.
fn rows(page: &mut String, said: impl Fn(&ForeignFlag) -> Option<&'static str>) {
    // Some may have any value.
    let is_fixed = |flag: &ForeignFlag| flag.takes == Takes::Bool && flag.fixed.len() == 2;
    for flag in by_name().filter(|flag| !is_fixed(flag)) {
        if let Some(text) = said(flag) {
            let _ = writeln!(page, "| `--{}` | {} |", flag.name, cell(text));
        }
    }
}

/// Writes the section of a command.
fn section(page: &mut String, name: &str, command: Command) {
    let about = command
        .get_long_about()
        .or(command.get_about())
        .map(ToString::to_string)
        .unwrap_or_default();
    let _ = writeln!(page, "\n## {name}\n\n{}", sentence(about.trim()));
    tables(page, command);
}

/// Writes a table for each heading, in the order of the help.
fn tables(page: &mut String, mut command: Command) {
    // Adds what clap infers: the number of values of each flag.
    command.build();
    let shown = |arg: &&Arg| !["help", "version"].contains(&arg.get_id().as_str());
    let args: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    let mut headings: Vec<&str> = Vec::new();
    for heading in args
        .iter()
        .map(|arg| arg.get_help_heading().unwrap_or(OTHERS))
    {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        if heading != OTHERS {
            let _ = write!(page, "\n### {heading}\n");
        }
        page.push_str("\n| Flag | Default | Description |\n| --- | --- | --- |\n");
        let of_heading = || {
            args.iter()
                .filter(|arg| arg.get_help_heading().unwrap_or(OTHERS) == heading)
        };
        of_heading().for_each(|arg| row(page, arg));
        for (arg, list) in of_heading().filter_map(|arg| Some((arg, list(arg)?))) {
            // Several commands have this flag.
            if !page.contains(&list) {
                let _ = writeln!(page, "\n`{}`:\n\n{list}", written(arg));
            }
        }
    }
}

/// Writes the row of a flag.
fn row(page: &mut String, arg: &Arg) {
    assert_eq!(
        arg.get_env(),
        None,
        "the page says that no flag has an environment variable"
    );
    let help = arg
        .get_long_help()
        .filter(|_| list(arg).is_none())
        .or(arg.get_help())
        .map(ToString::to_string);
    let mut help = help.unwrap_or_default();
    let mut default = String::new();
    // A default that depends on something is part of the text.
    if let Some((before, after)) = help
        .split_once(" [default: ")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        && let Some((value, after)) = after.split_once(']')
    {
        (default, help) = (value.to_owned(), before + after);
    } else if !arg.is_hide_default_value_set() && arg.get_action().takes_values() {
        let values: Vec<_> = arg
            .get_default_values()
            .iter()
            .map(|value| value.to_string_lossy())
            .collect();
        default = if values.is_empty() {
            String::new()
        } else {
            format!("`{}`", values.join(","))
        };
    }
    let values: Vec<_> = arg
        .get_possible_values()
        .iter()
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let paragraphs: Vec<_> = help
        .split("\n\n")
        .map(|text| sentence(text.trim()))
        .collect();
    help = paragraphs.join(" ");
    if !values.is_empty() && arg.get_action().takes_values() && values != ["`true`", "`false`"] {
        let _ = write!(help, " {}.", values.join(" or "));
    }
    let short = arg
        .get_short()
        .map(|short| format!("`-{short}`, "))
        .unwrap_or_default();
    let default = if default.is_empty() {
        default
    } else {
        format!(" {default}")
    };
    let _ = writeln!(
        page,
        "| {short}`{}` |{default} | {} |",
        written(arg),
        cell(&help)
    );
}

/// Returns how the flag is written on a command line.
fn written(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default().join(" ");
    match arg.get_long() {
        None => names,
        Some(long) if !arg.get_action().takes_values() => format!("--{long}"),
        Some(long)
            if arg
                .get_num_args()
                .is_some_and(|range| range.min_values() == 0) =>
        {
            format!("--{long}[={names}]")
        }
        Some(long) => format!("--{long} {names}"),
    }
}

/// Returns the long help if it is a list, which has no place in a table.
fn list(arg: &Arg) -> Option<String> {
    let help = arg.get_long_help()?.to_string();
    let (_, list) = help.split_once("\n- ")?;
    Some(format!("- {list}"))
}

/// Returns the text with a full stop.
fn sentence(text: &str) -> String {
    if text.is_empty() || text.ends_with(['.', '…']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

/// Returns the text as it is written in a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}
