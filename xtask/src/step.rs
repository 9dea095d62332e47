//! One step of a chore: a command, run with its output kept aside and shown only when it is wanted.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use owo_colors::Style;

use crate::console;

/// A command of `cargo`, which is all a step ever is: it can be shown, copied and run by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// One word, for the table and the log file.
    pub(crate) name: &'static str,
    /// Arguments to `cargo`.
    pub(crate) args: Vec<String>,
}

impl Step {
    /// A step that runs `cargo` with these words, separated by blanks.
    pub(crate) fn cargo(name: &'static str, words: &str) -> Self {
        Self { name, args: words.split_whitespace().map(str::to_owned).collect() }
    }

    /// The same step with one more argument for each of these test targets.
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

/// The command as it is typed into a shell.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cargo")?;
        for arg in &self.args {
            // What a shell would take apart or expand is quoted; none of our arguments holds a quote itself.
            let plain = arg.chars().all(|c| c.is_ascii_alphanumeric() || "-_=./:,".contains(c));
            if plain { write!(f, " {arg}")? } else { write!(f, " '{arg}'")? }
        }
        Ok(())
    }
}

/// Runs the steps in their order, up to the first that fails, and prints a table of them.
///
/// # Errors
/// If a step fails or cannot be started; its whole output has been printed then.
pub(crate) fn run_all(root: &Path, steps: &[Step], verbose: bool) -> Result<()> {
    let logs = root.join("target/xtask");
    fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let begin = Instant::now();
    let mut done = Vec::new();
    let mut failed = None;
    for step in steps {
        console::line(format_args!("{} {step}", console::paint(step.name, Style::new().bold())));
        let start = Instant::now();
        let ok = run(root, step, &logs, verbose)?;
        done.push((step, ok, start.elapsed()));
        if !ok {
            failed = Some(step);
            break;
        }
    }
    console::line("");
    for row in table(&done, steps) {
        console::line(row);
    }
    console::line(format_args!("{} in all", console::seconds(begin.elapsed())));
    match failed {
        None => Ok(()),
        Some(step) => bail!("step {} failed; to run just this step: {step}", step.name),
    }
}

/// Runs one step; true if it succeeded.
fn run(root: &Path, step: &Step, logs: &Path, verbose: bool) -> Result<bool> {
    let mut command = step.command(root);
    if verbose {
        return Ok(command.status().context("cannot start cargo")?.success());
    }
    let log = logs.join(format!("{}.log", step.name));
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    command.stderr(file.try_clone().context("cannot share the log file")?).stdout(file);
    // Kept output is shown on our own stdout, if at all. rustfmt asks for nothing but the terminal's name.
    if console::colour() {
        command.env("CARGO_TERM_COLOR", "always");
    } else {
        command.env("CARGO_TERM_COLOR", "never").env("TERM", "dumb");
    }
    let spinner = console::spinner(step.name);
    let status = command.status();
    spinner.finish_and_clear();
    let ok = status.context("cannot start cargo")?.success();
    if !ok {
        show(&log)?;
    }
    Ok(ok)
}

/// Copies a log to stdout, whole.
fn show(log: &PathBuf) -> Result<()> {
    let mut file = File::open(log).with_context(|| format!("cannot read {}", log.display()))?;
    // A reader that has gone away has seen what it wanted.
    let _ = io::copy(&mut file, &mut io::stdout().lock());
    Ok(())
}

/// One row per step: what came of it and how long it took. Steps that were not reached are named too.
fn table(done: &[(&Step, bool, Duration)], all: &[Step]) -> Vec<String> {
    let width = all.iter().map(|step| step.name.len()).max().unwrap_or(0);
    let reached = done.iter().map(|(step, ok, time)| {
        let (word, style) =
            if *ok { ("ok     ", Style::new().green()) } else { ("failed ", Style::new().red().bold()) };
        format!("{} {:width$}  {:>12}", console::paint(word, style), step.name, console::seconds(*time))
    });
    let missed = all
        .iter()
        .skip(done.len())
        .map(|step| format!("{} {}", console::paint("not run", Style::new().dimmed()), step.name));
    reached.chain(missed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_shown_as_a_command_that_a_shell_takes_as_it_is() {
        let step = Step::cargo("real", "test --workspace").with_tests(["real*", "story"]);
        assert_eq!(step.to_string(), "cargo test --workspace --test 'real*' --test story");
    }

    #[test]
    fn the_table_names_steps_that_failed_and_steps_that_were_not_reached() {
        let steps = [Step::cargo("format", "fmt"), Step::cargo("lints", "clippy"), Step::cargo("tests", "test")];
        let [format, lints, _] = &steps;
        let done = [(format, true, Duration::from_millis(400)), (lints, false, Duration::from_secs(75))];
        let rows = table(&done, &steps);
        assert_eq!(rows, ["ok      format         0.4 s", "failed  lints     1 min 15 s", "not run tests"]);
    }

    #[test]
    fn a_step_that_fails_fails_the_run_and_names_its_command() {
        let root = crate::root();
        let steps = [Step::cargo("nonsense", "no-such-command-of-cargo"), Step::cargo("never", "--version")];
        let error = run_all(&root, &steps, false).unwrap_err();
        assert_eq!(error.to_string(), "step nonsense failed; to run just this step: cargo no-such-command-of-cargo");
        run_all(&root, &[Step::cargo("version", "--version")], false).unwrap();
    }
}
