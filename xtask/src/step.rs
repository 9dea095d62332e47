//! One step of a chore: a command, run with its output kept aside and shown only when it is wanted.

mod counts;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use owo_colors::Style;

use self::counts::Counts;
use crate::console;

/// A command of `cargo`, which is all a step ever is: it can be shown, copied and run by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// One word, for the table and the log file.
    pub(crate) name: &'static str,
    /// Arguments to `cargo`.
    pub(crate) args: Vec<String>,
    /// Whether it runs at the same time as the step before it: both wait for others more than they compute.
    pub(crate) beside: bool,
}

impl Step {
    /// A step that runs `cargo` with these words, separated by blanks.
    pub(crate) fn cargo(name: &'static str, words: &str) -> Self {
        Self { name, args: words.split_whitespace().map(str::to_owned).collect(), beside: false }
    }

    /// The same step, run at the same time as the one before it.
    pub(crate) fn beside(self) -> Self {
        Self { beside: true, ..self }
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

/// A step that was run.
struct Done<'a> {
    step: &'a Step,
    ok: bool,
    time: Duration,
    /// None if the step has no tests.
    counts: Option<Counts>,
}

/// Runs the steps in their order, those beside one another at the same time, up to the first that fails, and prints a table of them.
///
/// # Errors
/// If a step fails or cannot be started; its whole output has been printed then.
pub(crate) fn run_all(root: &Path, steps: &[Step], verbose: bool) -> Result<()> {
    let logs = root.join("target/xtask");
    fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let begin = Instant::now();
    let mut done: Vec<Done<'_>> = Vec::new();
    // What is followed line by line is read in order: there, no step runs beside another.
    for group in steps.chunk_by(|_, next| next.beside && !verbose) {
        for step in group {
            console::line(format_args!("{} {step}", console::paint(step.name, Style::new().bold())));
        }
        done.extend(run_group(root, group, &logs, verbose)?);
        if done.iter().any(|done| !done.ok) {
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
        Some(Done { step, .. }) => bail!("step {} failed; to run just this step: {step}", step.name),
    }
}

/// Runs steps at the same time, and shows the whole output of those that failed.
fn run_group<'a>(root: &Path, group: &'a [Step], logs: &Path, verbose: bool) -> Result<Vec<Done<'a>>> {
    let names: Vec<_> = group.iter().map(|step| step.name).collect();
    let spinner = (!verbose).then(|| console::spinner(names.join(" and ")));
    let one = |step: &'a Step| {
        let start = Instant::now();
        let mut shown = Vec::new();
        let (ok, counts) = if verbose {
            run(root, step, logs, true, &mut io::stdout())
        } else {
            run(root, step, logs, false, &mut shown)
        }?;
        Ok((Done { step, ok, time: start.elapsed(), counts }, shown))
    };
    let ended: Vec<Result<_>> = thread::scope(|scope| {
        let running: Vec<_> = group.iter().map(|step| scope.spawn(|| one(step))).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a step panicked")))).collect()
    });
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    let mut done = Vec::new();
    for ended in ended {
        let (ended, shown) = ended?;
        // A reader that has gone away has seen what it wanted.
        let _ = io::stdout().write_all(&shown);
        done.push(ended);
    }
    Ok(done)
}

/// Runs one step; true if it succeeded, and how many tests it ran. What is to be shown of its output goes to `out`.
fn run(root: &Path, step: &Step, logs: &Path, verbose: bool, out: &mut impl Write) -> Result<(bool, Option<Counts>)> {
    let mut command = step.command(root);
    let log = logs.join(format!("{}.log", step.name));
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    command.stderr(file.try_clone().context("cannot share the log file")?).stdout(file);
    // Kept output is shown on our own stdout, if at all. rustfmt asks for nothing but the terminal's name.
    if console::colour() {
        command.env("CARGO_TERM_COLOR", "always");
    } else {
        command.env("CARGO_TERM_COLOR", "never").env("TERM", "dumb");
    }
    let open = || File::open(&log).with_context(|| format!("cannot read {}", log.display()));
    let mut child = command.spawn().context("cannot start cargo")?;
    let status = if verbose { followed(&mut child, &mut open()?, out) } else { child.wait() };
    let ok = status.context("cannot wait for cargo")?.success();
    if !ok && !verbose {
        show(&mut open()?, out);
    }
    let counts = Counts::of_log(open()?).with_context(|| format!("cannot read {}", log.display()))?;
    Ok((ok, counts))
}

/// Waits for the end of a command, and shows what comes into its log meanwhile.
///
/// A pipe would do too, but for processes that a test has left behind: they would keep it open.
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

/// Copies what is left of a log. A reader that has gone away has seen what it wanted.
fn show(log: &mut File, out: &mut impl Write) {
    let _ = io::copy(log, out);
}

/// One row per step: what came of it, how long it took and how many tests it ran; the sum of these last. Steps that were not
/// reached are named too.
fn table(done: &[Done<'_>], all: &[Step]) -> Vec<String> {
    let width = all.iter().map(|step| step.name.len()).max().unwrap_or(0);
    let reached = done.iter().map(|done| {
        let (word, style) =
            if done.ok { ("ok     ", Style::new().green()) } else { ("failed ", Style::new().red().bold()) };
        let counts = done.counts.map_or_else(String::new, |counts| format!("  {counts}"));
        let (word, time) = (console::paint(word, style), console::seconds(done.time));
        format!("{word} {:width$}  {time:>12}{counts}", done.step.name)
    });
    let missed = all
        .iter()
        .skip(done.len())
        .map(|step| format!("{} {}", console::paint("not run", Style::new().dimmed()), step.name));
    let sum = done.iter().filter_map(|done| done.counts).reduce(|mut sum, counts| {
        sum += counts;
        sum
    });
    reached.chain(missed).chain(sum.map(|sum| format!("tests: {sum}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(step: &Step, ok: bool, millis: u64, counts: Option<Counts>) -> Done<'_> {
        Done { step, ok, time: Duration::from_millis(millis), counts }
    }

    #[test]
    fn a_step_is_shown_as_a_command_that_a_shell_takes_as_it_is() {
        let step = Step::cargo("real", "test --workspace").with_tests(["real*", "story"]);
        assert_eq!(step.to_string(), "cargo test --workspace --test 'real*' --test story");
    }

    #[test]
    fn the_table_names_steps_that_failed_and_steps_that_were_not_reached() {
        let steps = [Step::cargo("format", "fmt"), Step::cargo("lints", "clippy"), Step::cargo("tests", "test")];
        let [format, lints, _] = &steps;
        let done = [done(format, true, 400, None), done(lints, false, 75_000, None)];
        let rows = table(&done, &steps);
        assert_eq!(rows, ["ok      format         0.4 s", "failed  lints     1 min 15 s", "not run tests"]);
    }

    #[test]
    fn the_table_counts_the_tests_of_each_step_and_of_all() {
        let steps = [Step::cargo("build", "build"), Step::cargo("tests", "test"), Step::cargo("real", "test")];
        let [build, tests, real] = &steps;
        let counts = |passed, failed, skipped| Some(Counts { passed, failed, skipped });
        let done =
            [done(build, true, 0, None), done(tests, true, 0, counts(20, 0, 1)), done(real, false, 0, counts(3, 1, 0))];
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
    fn tests_are_counted_whether_their_output_is_shown_or_not() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        write(
            "Cargo.toml",
            "[package]\nname = \"counted\"\nedition = \"2024\"\n[workspace]\n[lib]\npath = \"lib.rs\"\n",
        );
        write("lib.rs", "#[test]\nfn a() {}\n#[test]\n#[ignore]\nfn b() {}\n#[test]\nfn c() { assert!(false) }\n");
        let step = Step::cargo("counted", "test --offline --lib");
        for verbose in [false, true] {
            let mut shown = Vec::new();
            let (ok, counts) = run(root.path(), &step, root.path(), verbose, &mut shown).unwrap();
            assert_eq!((ok, counts), (false, Some(Counts { passed: 1, failed: 1, skipped: 1 })), "verbose: {verbose}");
            let shown = String::from_utf8(shown).unwrap();
            assert!(shown.contains("test a ... ok") && shown.contains("c stdout"), "verbose: {verbose}: {shown}");
        }
    }

    #[test]
    fn steps_beside_one_another_run_at_the_same_time() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        write("Cargo.toml", "[package]\nname = \"met\"\nedition = \"2024\"\n[workspace]\n[lib]\npath = \"lib.rs\"\n");
        // Each says that it is there, and waits for the other.
        write(
            "lib.rs",
            "fn meet(me: &str, other: &str) {\n    std::fs::write(me, me).unwrap();\n    for _ in 0..600 {\n        \
             if std::path::Path::new(other).exists() { return; }\n        \
             std::thread::sleep(std::time::Duration::from_millis(100));\n    }\n    panic!(\"alone\");\n}\n\
             #[test]\nfn one() { meet(\"one\", \"two\") }\n#[test]\nfn two() { meet(\"two\", \"one\") }\n",
        );
        let step = |name| Step::cargo(name, &format!("test --offline --lib -- --exact {name}"));
        run_all(root.path(), &[step("one"), step("two").beside()], false).unwrap();
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
