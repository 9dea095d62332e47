//! A step: a command whose output is shown only if it fails.

use std::fmt;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use owo_colors::Style;

use super::binaries;
use super::counts::{self, Counts};
use crate::console;

/// A `cargo` command. All steps use cargo, so that each can be shown, copied and run manually.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// Name: one word for the table and the log file.
    pub(super) name: &'static str,
    /// Arguments of `cargo`.
    args: Vec<String>,
    /// The test binaries are run side by side, and all of them even if one fails. Otherwise, the
    /// command is run as it is.
    side_by_side: bool,
}

impl Step {
    /// Creates a step that runs `cargo` with these arguments, separated by spaces.
    pub(super) fn cargo(name: &'static str, words: &str) -> Self {
        Self {
            name,
            args: words.split_whitespace().map(str::to_owned).collect(),
            side_by_side: false,
        }
    }

    /// Creates a step that runs the test targets whose names begin with its own.
    pub(super) fn of_prefix(prefix: &'static str) -> Self {
        Self::cargo(prefix, "test --workspace").with_tests(&[&format!("{prefix}*")])
    }

    /// Adds an argument for each of these test targets.
    pub(super) fn with_tests(mut self, targets: &[&str]) -> Self {
        for target in targets {
            self.args.extend(["--test", target].map(str::to_owned));
        }
        self
    }

    /// Runs the binaries of a `cargo test` command side by side. They must not need more than their
    /// share of the machine.
    pub(super) fn side_by_side(mut self) -> Self {
        self.side_by_side = true;
        self
    }

    /// Runs the step. Its output goes into the file `log`.
    fn run(&self, root: &Path, log: &Path) -> Result<Done<'_>> {
        let start = Instant::now();
        let mut command = crate::cargo(root);
        command.args(&self.args).stdin(Stdio::null());
        // What fails is shown on our own stdout. For rustfmt, color depends only on `TERM`.
        if console::color() {
            command.env("CARGO_TERM_COLOR", "always");
        } else {
            command.env("CARGO_TERM_COLOR", "never").env("TERM", "dumb");
        }

        // Not a pipe, which background processes of a test would keep open.
        let mut file =
            File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let failure = if self.side_by_side {
            binaries::run(command, root, &log.with_extension("d"), &mut file)?
        } else {
            let errors = file.try_clone().context("cannot share the log file")?;
            let status = command.stderr(errors).stdout(file).status();
            let ok = status.context("cannot start cargo")?.success();
            (!ok).then(|| console::read(log)).transpose()?
        };

        Ok(Done {
            step: self,
            failure,
            time: start.elapsed(),
            counts: counts::of_log(&console::read(log)?),
        })
    }
}

/// Displays the command as it is typed into a shell.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cargo")?;
        for arg in &self.args {
            // No argument contains a quote.
            let quote = if arg.contains('*') { "'" } else { "" };
            write!(f, " {quote}{arg}{quote}")?;
        }
        Ok(())
    }
}

/// A step that was run.
struct Done<'a> {
    step: &'a Step,
    /// The part of its output that shows why it failed. `None` if it succeeded.
    failure: Option<String>,
    time: Duration,
    /// `None` if the step has no tests.
    counts: Option<Counts>,
}

/// Runs the steps in order until one fails, and prints a table of them. The output of each is in
/// `target/xtask/NAME.log`.
///
/// # Errors
/// If a step fails or cannot be started. Its output has already been printed.
pub(super) fn run_all(root: &Path, steps: &[Step]) -> Result<()> {
    let logs = root.join("target/xtask");
    fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let begin = Instant::now();
    let mut done: Vec<Done<'_>> = Vec::new();
    for step in steps {
        let name = console::paint(step.name, Style::new().bold());
        console::line(format_args!("{name} {step}"));
        done.push(step.run(root, &logs.join(format!("{}.log", step.name)))?);
        if let Some(output) = done.last().and_then(|done| done.failure.as_ref()) {
            console::line(output);
            break;
        }
    }

    console::line("");
    table(&done, steps).iter().for_each(console::line);
    console::line(format_args!("{} in all", console::seconds(begin.elapsed())));
    match done.iter().find(|done| done.failure.is_some()) {
        None => Ok(()),
        Some(Done { step, .. }) => {
            bail!("step {} failed; to run just this step: {step}", step.name)
        }
    }
}

/// Returns one row for each step, with its result, duration and number of tests, followed by a row
/// with the sums. Steps that were not reached are listed too.
fn table(done: &[Done<'_>], all: &[Step]) -> Vec<String> {
    let width = all.iter().map(|step| step.name.len()).max().unwrap_or(0);
    let mut rows = Vec::new();
    let mut sum: Option<Counts> = None;
    for done in done {
        let result = match done.failure {
            None => console::paint("ok     ", Style::new().green()),
            Some(_) => console::paint("failed ", Style::new().red().bold()),
        };
        let (name, time) = (done.step.name, console::seconds(done.time));
        let mut row = format!("{result} {name:width$}  {time:>12}");
        if let Some(counts) = done.counts {
            row += &format!("  {counts}");
            *sum.get_or_insert_default() += counts;
        }
        rows.push(row);
    }
    for step in all.iter().skip(done.len()) {
        let result = console::paint("not run", Style::new().dimmed());
        rows.push(format!("{result} {}", step.name));
    }
    rows.extend(sum.map(|sum| format!("tests: {sum}")));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_each_step_its_tests_and_the_sums() {
        let steps = ["format", "tests", "real", "clouds"].map(|name| Step::cargo(name, ""));
        let done = |at: usize, millis, counts: Option<[u64; 3]>| Done {
            step: &steps[at],
            failure: (at == 2).then(String::new),
            time: Duration::from_millis(millis),
            counts: counts.map(|[passed, failed, skipped]| Counts {
                passed,
                failed,
                skipped,
            }),
        };
        let done = [
            done(0, 400, None),
            done(1, 75_000, Some([20, 0, 1])),
            done(2, 0, Some([3, 1, 0])),
        ];
        let expected = [
            "ok      format         0.4 s",
            "ok      tests     1 min 15 s  20 passed, 0 failed, 1 skipped",
            "failed  real           0.0 s  3 passed, 1 failed, 0 skipped",
            "not run clouds",
            "tests: 23 passed, 1 failed, 1 skipped",
        ];
        assert_eq!(table(&done, &steps), expected);
    }

    /// Runs a step in a package with two passing tests, a failing and an ignored one, in three
    /// binaries. Returns its failure and the numbers.
    fn ran(step: &Step, bad: &str) -> (String, Option<Counts>) {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        fs::create_dir(root.path().join("tests")).unwrap();
        write(
            "Cargo.toml",
            "[package]\nname = \"a\"\n[workspace]\n[lib]\npath = \"a.rs\"\n",
        );
        write(
            "a.rs",
            "#[test]\nfn inner() {}\n#[test]\n#[ignore]\nfn no() {}\n",
        );
        write("tests/bad.rs", bad);
        // Runs in the folder of the package.
        let exists = "assert!(std::path::Path::new(\"tests/good.rs\").exists())";
        write(
            "tests/good.rs",
            &format!("#[test]\nfn outer() {{ {exists} }}\n"),
        );
        let done = step.run(root.path(), &root.path().join("a.log")).unwrap();
        (done.failure.unwrap(), done.counts)
    }

    #[test]
    fn all_binaries_run_and_only_failed_ones_are_shown() {
        let step = Step::cargo("a", "test --offline --tests --no-fail-fast");
        let bad = "#[test]\nfn broken() { panic!(\"why\") }\n";
        let expected = Counts {
            passed: 2,
            failed: 1,
            skipped: 1,
        };
        for (step, shows_all) in [(&step, true), (&step.clone().side_by_side(), false)] {
            let (failure, counts) = ran(step, bad);
            assert_eq!(counts, Some(expected));
            assert!(
                failure.contains("broken") && failure.contains("why"),
                "{failure}"
            );
            assert_eq!(failure.contains("outer"), shows_all, "{failure}");
            let (failure, counts) = ran(step, "no Rust\n");
            assert!(
                failure.contains("bad.rs"),
                "the compiler's words: {failure}"
            );
            assert_eq!(counts, None);
        }
    }

    #[test]
    fn a_failed_step_ends_the_run_and_names_its_command() {
        let root = crate::root();
        let steps = [
            Step::cargo("no", "no-such-command"),
            Step::cargo("never", "--version"),
        ];
        let error = run_all(&root, &steps).unwrap_err().to_string();
        assert_eq!(
            error,
            "step no failed; to run just this step: cargo no-such-command"
        );
        run_all(&root, &steps[1..]).unwrap();
    }
}
