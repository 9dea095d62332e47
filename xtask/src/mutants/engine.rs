//! Runs cargo-mutants with options that make it fast: one crate, only its own tests, no copy of the
//! tree for each mutant, no debug information.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Mutated;
use super::mutant::{self, Mutant};
use super::results::{Outcome, Ran};
use super::scope::Module;
use crate::tool::Tool;

const CARGO_MUTANTS: Tool = Tool {
    name: "cargo-mutants",
    version: "27.1.0",
};
/// Tests of a mutant may take this many times as long as without a mutant.
const PATIENCE: u32 = 5;
/// Minimum timeout of tests: on a busy machine, one second can easily become ten.
const LEAST: Duration = Duration::from_secs(30);

/// A runner of mutants.
pub(super) struct Engine {
    program: PathBuf,
    /// The copy of the workspace.
    tree: PathBuf,
    /// Output directory of cargo-mutants.
    output: PathBuf,
    /// Target directory, which is shared with other builds so that dependencies are not compiled
    /// again.
    target: PathBuf,
}

impl Engine {
    /// Installs cargo-mutants if it is missing.
    ///
    /// # Errors
    /// If it cannot be installed.
    pub(super) fn new(root: &Path, home: &Path) -> Result<Self> {
        Ok(Self {
            program: CARGO_MUTANTS.program()?,
            tree: home.join("tree"),
            output: home.to_owned(),
            target: root.join("target"),
        })
    }

    /// Returns the mutants of these modules.
    ///
    /// # Errors
    /// If a module has no file, or cargo-mutants fails.
    pub(super) fn list(&self, modules: impl Iterator<Item = Module>) -> Result<Vec<Mutated>> {
        let modules: Vec<_> = modules.collect();
        let mut command = self.mutants(&modules);
        let output = command
            .args(["--list", "--json"])
            .stdin(Stdio::null())
            .output();
        let output = output.context("cannot start cargo-mutants")?;
        ensure!(
            output.status.success(),
            "cargo-mutants cannot list: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let mut mutants = mutant::parse(&output.stdout)?;
        Ok(modules
            .into_iter()
            .map(|module| {
                let of_file = mutants.remove(&module.file()).unwrap_or_default();
                (module, of_file)
            })
            .collect())
    }

    /// Builds the tests of a module and runs those that are tried first, without a mutant. Returns
    /// the timeout for tests with a mutant.
    ///
    /// # Errors
    /// If they fail.
    pub(super) fn baseline(&self, module: &Module) -> Result<Duration> {
        let test = |more: &[&str]| -> Result<Duration> {
            let mut command = Command::new("cargo");
            command
                .args(["test", "--quiet", "--lib", "--package", &module.package])
                .args(more)
                .current_dir(&self.tree);
            let start = Instant::now();
            let output = self
                .fast(&mut command)
                .stdin(Stdio::null())
                .output()
                .context("cannot start cargo")?;
            ensure!(
                output.status.success(),
                "the tests of {} fail without a mutant:\n{}{}",
                module.package,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            Ok(start.elapsed())
        };
        test(&["--no-run"])?;
        Ok((test(&[])? * PATIENCE).max(LEAST))
    }

    /// Runs mutants of a module: first with the tests of its top-level module, and those that
    /// survive with all tests of its crate.
    ///
    /// # Errors
    /// If cargo-mutants fails.
    pub(super) fn run<'a>(
        &self,
        module: &Module,
        mutants: &[&'a Mutant],
        limit: Duration,
    ) -> Result<Vec<(&'a Mutant, Ran)>> {
        let mut ran = self.run_against(module, mutants, limit, &[&module.first_tests()])?;
        let survivors: Vec<_> = ran
            .iter()
            .filter(|(_, ran)| ran.outcome == Outcome::Missed)
            .map(|(mutant, _)| *mutant)
            .collect();
        if !survivors.is_empty() {
            ran.retain(|(_, ran)| ran.outcome != Outcome::Missed);
            ran.extend(self.run_against(module, &survivors, limit, &[])?);
        }
        Ok(ran)
    }

    fn run_against<'a>(
        &self,
        module: &Module,
        mutants: &[&'a Mutant],
        limit: Duration,
        tests: &[&str],
    ) -> Result<Vec<(&'a Mutant, Ran)>> {
        let mut command = self.mutants(std::slice::from_ref(module));
        command
            .args([
                "--in-place",
                "--baseline",
                "skip",
                "--cap-lints",
                "false",
                "--no-shuffle",
                "--cargo-arg",
                "--lib",
            ])
            .args([
                "--timeout",
                &limit.as_secs().to_string(),
                "--annotations",
                "none",
            ])
            .arg("--output")
            .arg(&self.output)
            .args(["--test-package", &module.package]);
        for mutant in mutants {
            command.args(["--re", &format!("^{}$", escaped(&mutant.name))]);
        }
        let output = command
            .arg("--")
            .args(tests)
            .stdin(Stdio::null())
            .output()
            .context("cannot start cargo-mutants")?;
        // These exit codes mean that mutants survived or timed out, which is not a failure of
        // cargo-mutants.
        let known = output
            .status
            .code()
            .is_some_and(|code| [0, 2, 3].contains(&code));
        ensure!(
            known,
            "cargo-mutants failed on {module}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let answers = self.output.join("mutants.out");
        let text = fs::read(answers.join("outcomes.json"))
            .context("cannot read what cargo-mutants found")?;
        let outcomes = outcomes(
            &serde_json::from_slice(&text).context("cannot read what cargo-mutants found")?,
        );
        let mut all = Vec::new();
        for mutant in mutants {
            let (outcome, log) = outcomes
                .get(&mutant.name)
                .with_context(|| format!("cargo-mutants says nothing about {}", mutant.name))?;
            let log = fs::read(answers.join(log)).with_context(|| format!("cannot read {log}"))?;
            all.push((
                *mutant,
                Ran {
                    outcome: *outcome,
                    failed: failed(&String::from_utf8_lossy(&log)),
                },
            ));
        }
        Ok(all)
    }

    /// Returns a cargo-mutants command for these modules in the copy.
    fn mutants(&self, modules: &[Module]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("mutants").arg("--dir").arg(&self.tree).args([
            "--no-config",
            "--colors",
            "never",
        ]);
        // The mutants of a package that is given twice would be listed twice.
        let packages: BTreeSet<_> = modules.iter().map(|module| &module.package).collect();
        command.args(
            packages
                .into_iter()
                .flat_map(|package| ["--package", package]),
        );
        command.args(
            modules
                .iter()
                .flat_map(|module| ["--file".to_owned(), module.file()]),
        );
        self.fast(&mut command);
        command
    }

    /// Sets the environment for fast builds, and for test runs that leave no files behind.
    fn fast<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        crate::like_a_shell(command);
        command
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
            // A failing case is sufficient. Shrinking it would take minutes.
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .env("RUST_BACKTRACE", "0")
    }
}

/// Returns the outcome of each mutant, with the path of its log.
fn outcomes(answer: &Value) -> BTreeMap<String, (Outcome, String)> {
    let all = answer
        .get("outcomes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    all.filter_map(|one| {
        let name = one.pointer("/scenario/Mutant/name")?.as_str()?;
        let outcome = match one.get("summary")?.as_str()? {
            "CaughtMutant" => Outcome::Caught,
            "MissedMutant" => Outcome::Missed,
            "Timeout" => Outcome::Timeout,
            "Unviable" => Outcome::Unviable,
            _ => return None,
        };
        Some((
            name.to_owned(),
            (outcome, one.get("log_path")?.as_str()?.to_owned()),
        ))
    })
    .collect()
}

/// Returns the names of the failed tests, without their modules.
fn failed(log: &str) -> Vec<String> {
    let lines = log
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    lines
        .filter_map(|test| test.trim_end_matches(" - should panic").rsplit("::").next())
        .map(str::to_owned)
        .collect()
}

/// Escapes a text for use in a regular expression.
fn escaped(text: &str) -> String {
    // Other characters must not be escaped: `\>` matches the end of a word.
    let special = |c| r"\.+*?()|[]{}^$".contains(c);
    text.chars()
        .flat_map(|c| special(c).then_some('\\').into_iter().chain([c]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_outcome_of_each_mutant() {
        let mutant = |name: &str, summary: &str| {
            let scenario = serde_json::json!({"Mutant": {"name": name}});
            serde_json::json!({"scenario": scenario, "summary": summary, "log_path": format!("log/{name}.log")})
        };
        let answer = serde_json::json!({"outcomes": [
            {"scenario": "Baseline", "summary": "Success", "log_path": "log/baseline.log"},
            mutant("a", "CaughtMutant"), mutant("b", "MissedMutant"), mutant("c", "Timeout"), mutant("d", "Unviable"),
        ]});
        let outcomes = outcomes(&answer);
        let expected = [
            ("a", Outcome::Caught),
            ("b", Outcome::Missed),
            ("c", Outcome::Timeout),
            ("d", Outcome::Unviable),
        ];
        let expected =
            expected.map(|(name, outcome)| (name.to_owned(), (outcome, format!("log/{name}.log"))));
        assert_eq!(outcomes, expected.into());
    }

    #[test]
    fn finds_the_names_of_failed_tests() {
        let log = "test node::plan::tests::a ... ok\ntest node::plan::tests::b ... FAILED\ntest c - should panic ... FAILED\n\
            failures:\n    node::plan::tests::b\n";
        assert_eq!(failed(log), ["b", "c"]);
    }

    #[test]
    fn names_are_escaped_in_a_regular_expression() {
        assert_eq!(
            escaped("a.rs:1:2: replace f -> [u8] with a || b"),
            r"a\.rs:1:2: replace f -> \[u8\] with a \|\| b"
        );
    }
}
