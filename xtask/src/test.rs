//! `cargo xtask test`: runs all checks and tests.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::step::{self, Step};

/// Prefix of test targets that need a control plane of real Kubernetes processes.
const REAL: &str = "real";

/// Prefix of test targets that need clouds: real OpenStack services, or an AWS endpoint.
const CLOUDS: &str = "clouds";

/// The package with the demo.
const STORY: &str = "skydock-story";

/// A test target: a file of integration tests.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TestTarget {
    package: String,
    name: String,
}

/// Runs all steps; with `quick`, only those that need neither a real control plane nor a cloud; with `only`, the step with that
/// name.
///
/// # Errors
/// If a step fails, or no step has that name.
pub(crate) fn run(root: &Path, quick: bool, only: Option<&str>, verbose: bool) -> Result<()> {
    let mut steps = plan(&test_targets(root)?, quick);
    if let Some(name) = only {
        steps = vec![chosen(steps, name)?];
    }
    step::run_all(root, &steps, verbose)
}

/// Returns the step with this name.
fn chosen(mut steps: Vec<Step>, name: &str) -> Result<Step> {
    let Some(at) = steps.iter().position(|step| step.name == name) else {
        let names: Vec<_> = steps.iter().map(|step| step.name).collect();
        bail!("there is no step {name:?}; the steps are {}", names.join(", "));
    };
    Ok(steps.swap_remove(at))
}

/// Returns the steps, fastest first.
///
/// Every step that compiles for the host uses `--workspace`: with the same set of packages, cargo chooses the same set of
/// features, and does not compile dependencies twice.
fn plan(targets: &[TestTarget], quick: bool) -> Vec<Step> {
    let begins = |prefix: &'static str| move |target: &TestTarget| target.name.starts_with(prefix);
    let without_real = |of_story: bool| {
        let dear = move |target: &TestTarget| begins(REAL)(target) || begins(CLOUDS)(target);
        let wanted = targets.iter().filter(move |target| !dear(target) && (target.package == STORY) == of_story);
        wanted.map(|target| target.name.as_str())
    };
    let mut steps = vec![
        Step::cargo("format", "fmt --all --check"),
        Step::cargo("parity", "xtask parity --check"),
        Step::cargo("tidy", "xtask tidy --check"),
        Step::cargo("lints", "clippy --workspace --all-targets -- -D warnings"),
        Step::cargo("guests", "xtask guests"),
        // Includes the binaries, which end-to-end tests start.
        Step::cargo("build", "build --workspace --bins --tests"),
        Step::cargo("tests", "test --workspace --lib --bins").with_tests(without_real(false)),
    ];
    // Without a test target, cargo would run all tests.
    if without_real(true).next().is_some() {
        steps.push(Step::cargo("story", "test --workspace").with_tests(without_real(true)));
    }
    if quick {
        return steps;
    }
    steps.push(Step::cargo("docs", "xtask docs"));
    let of = |prefix: &'static str| {
        let step = Step::cargo(prefix, "test --workspace").with_tests([format!("{prefix}*").as_str()]);
        targets.iter().any(begins(prefix)).then_some(step)
    };
    steps.extend(of(REAL));
    steps.extend(of(CLOUDS));
    steps.push(Step::cargo("audit", "xtask audit"));
    steps
}

/// Returns the integration test targets of the workspace.
fn test_targets(root: &Path) -> Result<Vec<TestTarget>> {
    let output = crate::cargo(root)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    let metadata = serde_json::from_slice(&output.stdout).context("cannot read the answer of cargo metadata")?;
    Ok(parse(&metadata))
}

/// Extracts the test targets from the output of `cargo metadata`.
fn parse(metadata: &Value) -> Vec<TestTarget> {
    let list = |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |value: &Value| value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut targets = Vec::new();
    for package in list(metadata, "packages") {
        for target in list(&package, "targets") {
            if list(&target, "kind").iter().any(|kind| kind == "test") {
                targets.push(TestTarget { package: text(&package), name: text(&target) });
            }
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(package: &str, name: &str) -> TestTarget {
        TestTarget { package: package.to_owned(), name: name.to_owned() }
    }

    fn targets() -> Vec<TestTarget> {
        vec![
            target("skydock-plugin", "calls"),
            target("skydock-planes", "api_contract"),
            target("skydock-planes", "real"),
            target("skydock-clouds", "clouds_openstack"),
            target("skydock-story", "embedded"),
            target("skydock-story", "real_story"),
        ]
    }

    fn names(steps: &[Step]) -> Vec<&str> {
        steps.iter().map(|step| step.name).collect()
    }

    fn command(steps: &[Step], name: &str) -> String {
        steps.iter().find(|step| step.name == name).map(ToString::to_string).unwrap()
    }

    #[test]
    fn the_full_run_is_ordered_from_fast_to_slow() {
        let steps = plan(&targets(), false);
        assert_eq!(
            names(&steps),
            [
                "format", "parity", "tidy", "lints", "guests", "build", "tests", "story", "docs", "real", "clouds",
                "audit"
            ]
        );
    }

    #[test]
    fn a_quick_run_needs_no_real_control_plane_cloud_or_network() {
        let steps = plan(&targets(), true);
        assert_eq!(names(&steps), ["format", "parity", "tidy", "lints", "guests", "build", "tests", "story"]);
        let dear = |arg: &String| arg.starts_with(REAL) || arg.starts_with(CLOUDS);
        assert!(steps.iter().all(|step| !step.args.iter().any(dear)));
    }

    #[test]
    fn every_test_target_runs_in_exactly_one_step() {
        let steps = plan(&targets(), false);
        assert_eq!(command(&steps, "tests"), "cargo test --workspace --lib --bins --test calls --test api_contract");
        assert_eq!(command(&steps, "story"), "cargo test --workspace --test embedded");
        assert_eq!(command(&steps, "real"), "cargo test --workspace --test 'real*'");
        assert_eq!(command(&steps, "clouds"), "cargo test --workspace --test 'clouds*'");
    }

    #[test]
    fn a_step_without_test_targets_is_omitted() {
        let steps = plan(&[target("skydock-plugin", "calls")], false);
        assert_eq!(names(&steps), ["format", "parity", "tidy", "lints", "guests", "build", "tests", "docs", "audit"]);
    }

    #[test]
    fn a_step_is_chosen_by_name() {
        let step = chosen(plan(&targets(), false), "real").unwrap();
        assert_eq!(step.to_string(), "cargo test --workspace --test 'real*'");
    }

    #[test]
    fn an_unknown_step_error_lists_the_valid_steps() {
        let error = chosen(plan(&targets(), false), "unit").unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no step \"unit\"; the steps are format, parity, tidy, lints, guests, build, tests, story, docs, real, clouds, audit"
        );
    }

    #[test]
    fn workflows_name_steps_that_exist_and_leave_none_out() {
        let root = crate::root();
        let text = std::fs::read_to_string(root.join(".github/workflows/ci.yml")).unwrap();
        let steps = plan(&test_targets(&root).unwrap(), false);
        let slow: Vec<_> = names(&steps).split_off(plan(&test_targets(&root).unwrap(), true).len());
        let mut named: Vec<_> = text.lines().filter_map(|line| line.trim().strip_prefix("- step: ")).collect();
        let only = text.split("xtask test --only ").skip(1).filter_map(|rest| rest.split_whitespace().next());
        for name in only.filter(|name| *name != "${{") {
            assert!(names(&steps).contains(&name), "{name}");
        }
        named.sort_by_key(|name| slow.iter().position(|step| step == name));
        assert_eq!(named, slow);
        assert!(text.contains("xtask test --quick"));
    }

    #[test]
    fn guests_are_built_before_the_tests_that_load_them() {
        let steps = plan(&targets(), true);
        let place = |name| steps.iter().position(|step| step.name == name).unwrap();
        assert!(place("guests") < place("tests"));
    }

    #[test]
    fn test_targets_are_read_from_cargo_metadata() {
        let metadata = serde_json::json!({"packages": [
            {"name": "a", "targets": [{"name": "a", "kind": ["lib"]}, {"name": "calls", "kind": ["test"]}]},
            {"name": "b", "targets": [{"name": "b", "kind": ["bin"]}]},
        ]});
        assert_eq!(parse(&metadata), [target("a", "calls")]);
    }

    #[test]
    fn reads_the_test_targets_of_this_workspace() {
        // All targets must belong to our packages; invalid output would be an error.
        for target in test_targets(&crate::root()).unwrap() {
            assert!(!target.package.is_empty() && !target.name.is_empty());
        }
    }
}
