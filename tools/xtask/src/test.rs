//! `cargo xtask test`: runs all checks and tests.

mod binaries;
mod counts;
mod step;

use std::path::Path;

use anyhow::{Result, bail};

use self::step::Step;

/// Prefixes of test targets that need more than a compiler, each with a step of its own: other
/// languages, what SDKs are built to, a control plane of real Kubernetes processes, clouds.
const SLOW: [&str; 4] = ["sdks", "components", "real", "clouds"];

/// Prefix of test targets that are too long for a run of all steps: they run only by name.
const LONG: &str = "long";

/// Runs all steps; with `quick`, only those that need neither other languages, nor a real control
/// plane, nor a cloud; with `only`, the step with that name, which may be [`LONG`].
///
/// # Errors
/// If a step fails, or no step has that name.
pub(crate) fn run(root: &Path, quick: bool, only: Option<&str>) -> Result<()> {
    let targets = crate::targets(root)?;
    let tests = targets.iter().filter(|target| target.is_test);
    let tests: Vec<_> = tests.map(|target| &*target.name).collect();
    let mut steps = plan(&tests, quick);
    if let Some(name) = only {
        steps.push(Step::of_prefix(LONG));
        steps = vec![chosen(steps, name)?];
    }
    step::run_all(root, &steps)
}

fn chosen(mut steps: Vec<Step>, name: &str) -> Result<Step> {
    let Some(at) = steps.iter().position(|step| step.name == name) else {
        let names: Vec<_> = steps.iter().map(|step| step.name).collect();
        bail!(
            "there is no step {name:?}; the steps are {}",
            names.join(", ")
        );
    };
    Ok(steps.swap_remove(at))
}

/// Returns the steps, fastest first.
///
/// No step compiles a dependency again: those that compile for the host use `--workspace`, and
/// other commands choose the same features (`tests/features`).
fn plan(targets: &[&str], quick: bool) -> Vec<Step> {
    let is_slow = |target: &str| {
        let mut prefixes = SLOW.iter().chain([&LONG]);
        prefixes.any(|prefix| target.starts_with(prefix))
    };
    let mut fast: Vec<_> = targets.iter().filter(|it| !is_slow(it)).copied().collect();
    // Two packages may have a target with the same name.
    fast.sort_unstable();
    fast.dedup();

    let mut steps = vec![
        Step::cargo("format", "fmt --all --check"),
        Step::cargo("parity", "xtask parity"),
        Step::cargo(
            "lints",
            "clippy --workspace --all-targets -- --deny warnings",
        ),
        Step::cargo("guests", "xtask guests"),
        // Includes the programs, which end-to-end tests start.
        Step::cargo("build", "build --workspace --bins --tests"),
        Step::cargo("tests", "test --workspace --lib --bins")
            .with_tests(&fast)
            .side_by_side(),
    ];
    if quick {
        return steps;
    }

    steps.push(Step::cargo("examples", "test --workspace --doc"));
    steps.push(Step::cargo(
        "docs",
        "doc --workspace --no-deps --document-private-items",
    ));
    steps.extend(SLOW.map(Step::of_prefix));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGETS: [&str; 7] = [
        "calls",
        "clouds_aws",
        "real",
        "sdks",
        "real_story",
        "long_swaps",
        "calls",
    ];

    /// Returns the commands of the steps that run tests of targets.
    fn commands(quick: bool) -> Vec<String> {
        let steps = plan(&TARGETS, quick);
        let commands = steps.iter().map(ToString::to_string);
        commands.filter(|it| it.contains("--test ")).collect()
    }

    #[test]
    fn every_test_target_runs_in_exactly_one_step() {
        let fast = "cargo test --workspace --lib --bins --test calls";
        let slow = SLOW.map(|prefix| format!("cargo test --workspace --test '{prefix}*'"));
        assert_eq!(commands(true), [fast]);
        assert_eq!(commands(false), [&[fast.to_owned()], &slow[..]].concat());
    }

    #[test]
    fn plugins_and_programs_are_built_before_tests_that_use_them() {
        let steps = plan(&TARGETS, true);
        let place = |name| steps.iter().position(|step| step.name == name).unwrap();
        assert!(place("guests") < place("tests"));
        assert!(place("build") < place("tests"));
    }

    #[test]
    fn the_error_for_an_unknown_step_lists_all() {
        let error = chosen(plan(&TARGETS, false), "unit").unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("there is no step \"unit\"; the steps are format, "));
        for step in plan(&TARGETS, false) {
            assert!(error.contains(step.name), "{error}");
        }
    }
}
