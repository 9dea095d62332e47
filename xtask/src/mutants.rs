//! `cargo xtask mutants`: makes small changes to the code, one at a time, and checks that a test
//! fails.
//!
//! A mutant that no test catches is a rule without a test. `tests/mutants.yaml` lists the modules
//! that are mutated, and the few mutants without an observable effect, with the reason. The mutants
//! are created by cargo-mutants; only the tests of the crate that owns the module are run. Results
//! are stored in `target/mutants/results.json` by function and change, so that an interrupted run
//! can be continued.

mod copy;
mod engine;
mod mutant;
mod page;
mod results;
mod scope;
mod selection;

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use self::engine::Engine;
use self::mutant::Mutant;
use self::results::{Outcome, Results};
use self::scope::{Module, Scope};
use crate::console;

pub(crate) use self::selection::Selection;

/// File with the modules that are mutated, and the mutants without an effect.
const SCOPE: &str = "tests/mutants.yaml";
/// File with the table of the results.
const PAGE: &str = "docs/mutants.md";
/// Directory for the copy of the sources that is mutated, the results, and the logs of
/// cargo-mutants.
const HOME: &str = "target/mutants";
/// Number of mutants for each start of cargo-mutants. Their results are lost if the run is
/// interrupted.
const CHUNK: usize = 20;

/// A module with its mutants.
type Mutated = (Module, Vec<Mutant>);

/// Runs the selected mutants without a valid result, and writes the table.
///
/// # Errors
/// If cargo-mutants or a build fails, if a mutant survives that is not listed, or if a listed
/// mutant is caught or does not exist.
pub(crate) fn run(root: &Path, selection: &Selection) -> Result<()> {
    let text =
        fs::read_to_string(root.join(SCOPE)).with_context(|| format!("cannot read {SCOPE}"))?;
    let scope = Scope::parse(&text).with_context(|| format!("cannot read {SCOPE}"))?;
    let home = root.join(HOME);
    copy::refresh(root, &home.join("tree"), |name, content| {
        scope.copied(name, content)
    })?;
    let engine = Engine::new(root, &home)?;
    let all = engine.list(scope.modules())?;
    let mut results = Results::load(root, &home.join("results.json"), scope.modules())?;
    let selected = selection.of(&all)?;
    for (module, mutants) in &selected {
        run_module(&engine, module, mutants, &mut results, selection.again)?;
    }
    let page = root.join(PAGE);
    let before = fs::read_to_string(&page).unwrap_or_default();
    let after = page::page(&before, &all, &scope, &results);
    fs::write(&page, after).with_context(|| format!("cannot write {PAGE}"))?;
    let problems = problems(&all, &selected, &scope, &results);
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

/// Runs the mutants of a module without a valid result, and prints a summary.
fn run_module(
    engine: &Engine,
    module: &Module,
    mutants: &[&Mutant],
    results: &mut Results,
    again: bool,
) -> Result<()> {
    let open: Vec<_> = mutants
        .iter()
        .copied()
        .filter(|mutant| again || results.of(module, mutant).is_none())
        .collect();
    let start = Instant::now();
    if !open.is_empty() {
        console::line(format_args!(
            "{module}: {} of {} mutants to run",
            open.len(),
            mutants.len()
        ));
        let limit = engine.baseline(module)?;
        for chunk in open.chunks(CHUNK) {
            for (mutant, outcome) in engine.run(module, chunk, limit)? {
                results.set(module, mutant, &outcome);
            }
            results.save()?;
        }
    }
    let survivors: Vec<_> = mutants
        .iter()
        .filter(|mutant| results.of(module, mutant) == Some(Outcome::Missed))
        .collect();
    let sum = format!(
        "{module}: {} mutants, {} survive",
        mutants.len(),
        survivors.len()
    );
    if open.is_empty() {
        console::line(sum);
    } else {
        let each = start.elapsed().as_secs_f64() / open.len() as f64;
        console::line(format_args!("{sum}; {} run, {each:.1} s each", open.len()));
    }
    for survivor in survivors {
        console::line(format_args!("  survives: {}", survivor.name));
    }
    Ok(())
}

/// Returns the problems that must be fixed, one line each.
fn problems(
    all: &[Mutated],
    selected: &[(&Module, Vec<&Mutant>)],
    scope: &Scope,
    results: &Results,
) -> Vec<String> {
    let mut problems = scope.problems(all);
    for (module, mutants) in selected {
        for mutant in mutants {
            let listed = scope.is_equivalent(module, mutant);
            match results.of(module, mutant) {
                Some(Outcome::Missed) if !listed => problems.push(format!(
                    "no test notices {}: hold it by one, or list it in {SCOPE} with the reason why it changes nothing",
                    mutant.name
                )),
                Some(Outcome::Caught | Outcome::Timeout | Outcome::Unviable) if listed => problems.push(format!(
                    "{SCOPE} lists {} of {module} as a change of nothing, and it is noticed: take it out",
                    mutant.change
                )),
                _ => {}
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::results::Ran;
    use super::*;

    /// Returns the problems if two mutants of a module have these outcomes. The second one is
    /// listed as a mutant without an effect.
    fn wrong(outcomes: [Outcome; 2]) -> Vec<String> {
        let text = "crates:\n- {package: p, folder: host/p, modules: [plan]}\n\
            equivalent:\n- {package: p, module: plan, change: change 2, why: It is the same.}\n";
        let scope = Scope::parse(text).unwrap();
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("host/p/src")).unwrap();
        fs::write(
            root.path().join("host/p/src/plan.rs"),
            "fn rule() {}\n#[test]\nfn a() {}\n",
        )
        .unwrap();
        let mut results = Results::load(
            root.path(),
            &root.path().join("results.json"),
            scope.modules(),
        )
        .unwrap();
        let mutants: Vec<_> = (1..=100)
            .map(|n| Mutant {
                name: format!("host/p/src/plan.rs:{n}:1: change {n}"),
                change: format!("change {n}"),
            })
            .collect();
        let all: Vec<Mutated> = scope
            .modules()
            .map(|module| (module, mutants.clone()))
            .collect();
        let selected: Vec<_> = all
            .iter()
            .map(|(module, mutants)| (module, mutants.iter().take(2).collect()))
            .collect();
        for (module, mutants) in &all {
            for (mutant, outcome) in mutants.iter().zip(outcomes) {
                results.set(
                    module,
                    mutant,
                    &Ran {
                        outcome,
                        failed: Vec::new(),
                    },
                );
            }
        }
        problems(&all, &selected, &scope, &results)
    }

    #[test]
    fn a_survivor_must_be_caught_or_listed() {
        assert_eq!(wrong([Outcome::Caught, Outcome::Missed]), [""; 0]);
        assert_eq!(wrong([Outcome::Timeout, Outcome::Missed]), [""; 0]);
        assert_eq!(wrong([Outcome::Unviable, Outcome::Missed]), [""; 0]);
        assert_eq!(
            wrong([Outcome::Missed, Outcome::Missed]),
            [
                "no test notices host/p/src/plan.rs:1:1: change 1: hold it by one, or list it in tests/mutants.yaml with the reason \
              why it changes nothing"
            ]
        );
    }

    #[test]
    fn a_listed_mutant_that_is_caught_is_a_problem() {
        for outcome in [Outcome::Caught, Outcome::Timeout, Outcome::Unviable] {
            assert_eq!(
                wrong([Outcome::Caught, outcome]),
                [
                    "tests/mutants.yaml lists change 2 of p plan as a change of nothing, and it is noticed: take it out"
                ]
            );
        }
    }
}
