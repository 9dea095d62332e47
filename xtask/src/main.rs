//! All development tasks of the repository: `cargo xtask --help`.

mod audit;
mod bench;
mod checkout;
mod command;
mod console;
mod demo;
mod guests;
mod mutants;
mod parity;
mod source;
mod step;
mod test;
mod tidy;
mod tool;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use owo_colors::Style;

/// Every chore of the repository, in one place.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
enum Chore {
    /// Shows Skydock at work: a cluster, a plugin, and what goes right when things go wrong.
    Demo {
        /// Tell it to a machine: one JSON object a line, figures last.
        #[arg(long)]
        json: bool,
        /// Leave the cluster running at the end, and say how to reach it.
        #[arg(long)]
        keep: bool,
    },
    /// Runs everything that has to hold, and stops at the first thing that does not.
    Test {
        /// Leave out what needs a real control plane, a cloud or a network.
        #[arg(long)]
        quick: bool,
        /// Run this step alone, such as `tests`; a wrong name is answered with all there are.
        #[arg(long, value_name = "STEP", conflicts_with = "quick")]
        only: Option<String>,
        /// Show the output of every step, not only of one that failed.
        #[arg(long, short)]
        verbose: bool,
    },
    /// Builds the plugins and the fixtures of the tests into `target/plugins`.
    Guests,
    /// Shows which test holds which statement of upstream's behavior and which promise of the documents, and writes
    /// docs/parity.md and docs/promises.md.
    Parity {
        /// Write nothing; fail if a page is not up to date.
        #[arg(long)]
        check: bool,
    },
    /// Lists the texts of all messages in docs/messages.txt, and rejects words that the glossary of docs/style.md retires.
    Tidy {
        /// Write nothing; fail if the list is not up to date.
        #[arg(long)]
        check: bool,
    },
    /// Changes the rules in small ways, one at a time, and fails if no test notices; writes docs/mutants.md. Takes hours, and goes on
    /// where it was ended.
    Mutants(mutants::Selection),
    /// Measures; `cargo xtask bench controllers --help` says what can be chosen.
    #[command(subcommand)]
    Bench(Bench),
    /// Checks the dependencies: licenses, banned crates, sources, known holes.
    Audit,
}

/// What is measured.
#[derive(Subcommand)]
enum Bench {
    /// The controllers, beside Kubernetes' own framework on the same control plane; some 30 minutes, 2 with `--quick`.
    #[command(disable_help_flag = true)]
    Controllers {
        /// Arguments of the benchmark.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Skydock with its plugins, beside the official cloud controller managers of OpenStack and AWS on the same clouds; some 45 minutes, 12
    /// with `--quick`.
    #[command(disable_help_flag = true)]
    Clouds {
        /// Arguments of the benchmark.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Skydock with ten times the nodes, and ten times the services; some 30 minutes, 5 with `--quick`.
    #[command(disable_help_flag = true)]
    Scale {
        /// Arguments of the benchmark.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match run(&Chore::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            console::note(format_args!("{} {error:#}", console::paint("error:", Style::new().red().bold())));
            ExitCode::FAILURE
        }
    }
}

fn run(chore: &Chore) -> Result<()> {
    let root = root();
    match chore {
        Chore::Demo { json, keep } => demo::run(&root, *json, *keep),
        Chore::Test { quick, only, verbose } => test::run(&root, *quick, only.as_deref(), *verbose),
        Chore::Guests => guests::run(&root),
        Chore::Parity { check } => parity::run(&root, *check),
        Chore::Tidy { check } => tidy::run(&root, *check),
        Chore::Mutants(selection) => mutants::run(&root, selection),
        Chore::Bench(Bench::Controllers { arguments }) => bench::run(&root, "skydock-bench", "release", arguments),
        Chore::Bench(Bench::Clouds { arguments }) => bench::run(&root, "skydock-bench-clouds", "dist", arguments),
        Chore::Bench(Bench::Scale { arguments }) => bench::run(&root, "skydock-scale", "release", arguments),
        Chore::Audit => audit::run(&root),
    }
}

/// Returns the root of the workspace. Cargo sets the directory of this package, even if the checkout was moved.
fn root() -> PathBuf {
    let package =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| package.clone(), Path::to_path_buf)
}

/// Returns a command for the cargo that runs this task, in the root of the workspace.
fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}
