//! A step of a task: a command whose output is captured, and shown only if needed.

mod binaries;
mod counts;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use owo_colors::Style;

use self::counts::Counts;
use crate::console;

/// A `cargo` command. All steps use cargo, so that each can be shown, copied and run manually.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// Name: one word for the table and the log file.
    pub(crate) name: &'static str,
    /// Arguments of `cargo`.
    pub(crate) args: Vec<String>,
    /// The test binaries are run side by side, and all of them even if one fails. Otherwise, the
    /// command is run as it is.
    side_by_side: bool,
}

impl Step {
    /// Creates a step that runs `cargo` with these arguments, separated by spaces.
    pub(crate) fn cargo(name: &'static str, words: &str) -> Self {
        Self {
            name,
            args: words.split_whitespace().map(str::to_owned).collect(),
            side_by_side: false,
        }
    }

    /// Runs the binaries of a `cargo test` command side by side. They must not need more than their
    /// share of the machine.
    pub(crate) fn side_by_side(self) -> Self {
        Self {
            side_by_side: true,
            ..self
        }
    }

    /// Adds an argument for each of these test targets.
    pub(crate) fn with_tests<'a>(mut self, targets: impl IntoIterator<Item = &'a str>) -> Self {
        for target in targets {
            self.args.extend(["--test".to_owned(), target.to_owned()]);
        }
        self
    }

    fn command(&self, root: &Path) -> Command {
        let mut command = crate::cargo(root);
        command.args(&self.args).stdin(Stdio::null());
        command
    }
}

/// Displays the command as it is typed into a shell.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cargo")?;
        for arg in &self.args {
            // Arguments with special characters are quoted. No argument contains a quote.
            let plain = arg
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_=./:,".contains(c));
            if plain {
                write!(f, " {arg}")?
            } else {
                write!(f, " '{arg}'")?
            }
        }
        Ok(())
    }
}

/// A step that was run.
struct Done<'a> {
    step: &'a Step,
    ok: bool,
    time: Duration,
    /// `None` if the step has no tests.
    counts: Option<Counts>,
    /// What it has skipped.
    skipped: Option<String>,
}

/// Runs the steps in order until one fails, and prints a table of them.
///
/// # Errors
/// If a step fails or cannot be started. Its complete output has already been printed.
pub(crate) fn run_all(root: &Path, steps: &[Step], verbose: bool) -> Result<()> {
    let logs = root.join("target/xtask");
    fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let begin = Instant::now();
    let mut done: Vec<Done<'_>> = Vec::new();
    for step in steps {
        console::line(format_args!(
            "{} {step}",
            console::paint(step.name, Style::new().bold())
        ));
        let ended = if verbose {
            run(root, step, &logs, true, &mut io::stdout())?
        } else {
            let spinner = console::spinner(step.name);
            let mut shown = Vec::new();
            let ended = run(root, step, &logs, false, &mut shown)?;
            spinner.finish_and_clear();
            // A reader that has closed the pipe does not need more output.
            let _ = io::stdout().write_all(&shown);
            ended
        };
        let ok = ended.ok;
        done.push(ended);
        if !ok {
            break;
        }
    }
    console::line("");
    for row in table(&done, steps) {
        console::line(row);
    }
    console::line(format_args!("{} in all", console::seconds(begin.elapsed())));
    match done.iter().find(|done| !done.ok) {
        None => Ok(()),
        Some(Done { step, .. }) => {
            bail!("step {} failed; to run just this step: {step}", step.name)
        }
    }
}

/// Runs a step. The visible part of its output is written to `out`.
fn run<'a>(
    root: &Path,
    step: &'a Step,
    logs: &Path,
    verbose: bool,
    out: &mut impl Write,
) -> Result<Done<'a>> {
    let start = Instant::now();
    let mut command = step.command(root);
    let log = logs.join(format!("{}.log", step.name));
    let mut file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    // Captured output may be shown on our own stdout. For rustfmt, color depends only on `TERM`.
    if console::color() {
        command.env("CARGO_TERM_COLOR", "always");
    } else {
        command.env("CARGO_TERM_COLOR", "never").env("TERM", "dumb");
    }
    let open = || File::open(&log).with_context(|| format!("cannot read {}", log.display()));
    let ok = if step.side_by_side {
        binaries::run(command, root, logs, &mut file, verbose, out)?
    } else {
        command
            .stderr(file.try_clone().context("cannot share the log file")?)
            .stdout(file);
        let mut child = command.spawn().context("cannot start cargo")?;
        let status = if verbose {
            followed(&mut child, &mut open()?, out)
        } else {
            child.wait()
        };
        let ok = status.context("cannot wait for cargo")?.success();
        if !ok && !verbose {
            show(&mut open()?, out);
        }
        ok
    };
    let counts =
        Counts::of_log(open()?).with_context(|| format!("cannot read {}", log.display()))?;
    let mut lines = BufReader::new(open()?).lines().map_while(Result::ok);
    let skipped = lines.find_map(|line| line.strip_prefix("skipped: ").map(str::to_owned));
    Ok(Done {
        step,
        ok,
        time: start.elapsed(),
        counts,
        skipped,
    })
}

/// Waits for the end of a command, and copies its log to `out` in the meantime.
///
/// A pipe would not work, since background processes of a test would keep it open.
fn followed(child: &mut Child, log: &mut File, out: &mut impl Write) -> io::Result<ExitStatus> {
    loop {
        let ended = child.try_wait()?;
        show(log, out);
        if let Some(status) = ended {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Copies the rest of a log. A reader that has closed the pipe does not need more output.
fn show(log: &mut File, out: &mut impl Write) {
    let _ = io::copy(log, out);
}

/// Returns one row for each step, with its result, duration and number of tests, followed by a row
/// with the sums. Steps that were not reached are listed too.
fn table(done: &[Done<'_>], all: &[Step]) -> Vec<String> {
    let width = all.iter().map(|step| step.name.len()).max().unwrap_or(0);
    let reached = done.iter().map(|done| {
        let (word, style) = if done.ok {
            ("ok     ", Style::new().green())
        } else {
            ("failed ", Style::new().red().bold())
        };
        let counts = done
            .counts
            .map_or_else(String::new, |counts| format!("  {counts}"));
        let skipped = done
            .skipped
            .as_ref()
            .map_or_else(String::new, |what| format!("  skipped: {what}"));
        let (word, time) = (console::paint(word, style), console::seconds(done.time));
        format!(
            "{word} {:width$}  {time:>12}{counts}{skipped}",
            done.step.name
        )
    });
    let missed = all.iter().skip(done.len()).map(|step| {
        format!(
            "{} {}",
            console::paint("not run", Style::new().dimmed()),
            step.name
        )
    });
    let sum = done
        .iter()
        .filter_map(|done| done.counts)
        .reduce(|mut sum, counts| {
            sum += counts;
            sum
        });
    reached
        .chain(missed)
        .chain(sum.map(|sum| format!("tests: {sum}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(step: &Step, ok: bool, millis: u64, counts: Option<Counts>) -> Done<'_> {
        Done {
            step,
            ok,
            time: Duration::from_millis(millis),
            counts,
            skipped: None,
        }
    }

    #[test]
    fn a_step_is_shown_as_a_shell_command() {
        let step = Step::cargo("real", "test --workspace").with_tests(["real*", "story"]);
        assert_eq!(
            step.to_string(),
            "cargo test --workspace --test 'real*' --test story"
        );
    }

    #[test]
    fn the_table_lists_failed_skipped_and_unreached_steps() {
        let steps = [
            Step::cargo("format", "fmt"),
            Step::cargo("lints", "clippy"),
            Step::cargo("tests", "test"),
        ];
        let [format, lints, _] = &steps;
        let done = [
            done(format, true, 400, None),
            done(lints, false, 75_000, None),
        ];
        let rows = table(&done, &steps);
        assert_eq!(
            rows,
            [
                "ok      format         0.4 s",
                "failed  lints     1 min 15 s",
                "not run tests"
            ]
        );
        let partly = Done {
            skipped: Some("advisories".to_owned()),
            ..self::done(format, true, 400, None)
        };
        assert_eq!(
            table(&[partly], &steps[..1]),
            ["ok      format         0.4 s  skipped: advisories"]
        );
    }

    #[test]
    fn the_table_has_test_counts_per_step_and_in_total() {
        let steps = [
            Step::cargo("build", "build"),
            Step::cargo("tests", "test"),
            Step::cargo("real", "test"),
        ];
        let [build, tests, real] = &steps;
        let counts = |passed, failed, skipped| {
            Some(Counts {
                passed,
                failed,
                skipped,
            })
        };
        let done = [
            done(build, true, 0, None),
            done(tests, true, 0, counts(20, 0, 1)),
            done(real, false, 0, counts(3, 1, 0)),
        ];
        assert_eq!(
            table(&done, &steps),
            [
                "ok      build         0.0 s",
                "ok      tests         0.0 s  20 passed, 0 failed, 1 skipped",
                "failed  real          0.0 s  3 passed, 1 failed, 0 skipped",
                "tests: 23 passed, 1 failed, 1 skipped",
            ]
        );
    }

    #[test]
    fn tests_are_counted_with_and_without_verbose_output() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        write(
            "Cargo.toml",
            "[package]\nname = \"counted\"\nedition = \"2024\"\n[workspace]\n[lib]\npath = \"lib.rs\"\n",
        );
        write(
            "lib.rs",
            "#[test]\nfn a() {}\n#[test]\n#[ignore]\nfn b() {}\n#[test]\nfn c() { assert!(false) }\n",
        );
        let step = Step::cargo("counted", "test --offline --lib");
        for step in [&step, &step.clone().side_by_side()] {
            for verbose in [false, true] {
                let mut shown = Vec::new();
                let Done { ok, counts, .. } =
                    run(root.path(), step, root.path(), verbose, &mut shown).unwrap();
                let expected = (
                    false,
                    Some(Counts {
                        passed: 1,
                        failed: 1,
                        skipped: 1,
                    }),
                );
                assert_eq!((ok, counts), expected, "{step:?}, verbose: {verbose}");
                let shown = String::from_utf8(shown).unwrap();
                assert!(
                    shown.contains("test a ... ok") && shown.contains("c stdout"),
                    "verbose: {verbose}: {shown}"
                );
            }
        }
    }

    #[test]
    fn all_binaries_run_and_only_failed_ones_are_shown() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        fs::create_dir(root.path().join("tests")).unwrap();
        write(
            "Cargo.toml",
            "[package]\nname = \"several\"\nedition = \"2024\"\n[workspace]\n[lib]\npath = \"lib.rs\"\n",
        );
        write("lib.rs", "#[test]\nfn inner() {}\n");
        write("tests/bad.rs", "#[test]\nfn broken() { assert!(false) }\n");
        // In the folder of the package.
        write(
            "tests/good.rs",
            "#[test]\nfn outer() { assert!(std::path::Path::new(\"tests/good.rs\").exists()) }\n",
        );
        let step = Step::cargo("several", "test --offline --tests").side_by_side();
        let mut shown = Vec::new();
        let Done { ok, counts, .. } =
            run(root.path(), &step, root.path(), false, &mut shown).unwrap();
        assert_eq!(
            (ok, counts),
            (
                false,
                Some(Counts {
                    passed: 2,
                    failed: 1,
                    skipped: 0
                })
            )
        );
        let shown = String::from_utf8(shown).unwrap();
        assert!(
            shown.contains("broken") && !shown.contains("outer") && !shown.contains("inner"),
            "{shown}"
        );
        write("tests/bad.rs", "no Rust\n");
        let mut shown = Vec::new();
        let Done { ok, counts, .. } =
            run(root.path(), &step, root.path(), false, &mut shown).unwrap();
        assert_eq!((ok, counts), (false, None));
        assert!(
            String::from_utf8(shown).unwrap().contains("bad.rs"),
            "the compiler's words"
        );
    }

    #[test]
    fn a_failed_step_fails_the_run_and_names_its_command() {
        let root = crate::root();
        let steps = [
            Step::cargo("nonsense", "no-such-command-of-cargo"),
            Step::cargo("never", "--version"),
        ];
        let error = run_all(&root, &steps, false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "step nonsense failed; to run just this step: cargo no-such-command-of-cargo"
        );
        run_all(&root, &[Step::cargo("version", "--version")], false).unwrap();
    }
}
