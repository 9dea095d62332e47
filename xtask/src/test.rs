//! `cargo xtask test`: everything that has to hold, in one command.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::step::{self, Step};

/// Test targets whose names begin like this need a control plane of real Kubernetes processes.
const REAL: &str = "real";

/// Test targets whose names begin like this need clouds: real OpenStack services, or an AWS.
const CLOUDS: &str = "clouds";

/// The package that tells the demo story.
const STORY: &str = "skydock-story";

/// A file of integration tests.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TestTarget {
    package: String,
    name: String,
}

/// Runs all steps, with `quick` those that need neither a real control plane nor a cloud, or with `only` the one of that name.
///
/// # Errors
/// If a step fails, or there is none of that name.
pub(crate) fn run(root: &Path, quick: bool, only: Option<&str>, verbose: bool) -> Result<()> {
    let mut steps = plan(&test_targets(root)?, quick);
    if let Some(name) = only {
        steps = vec![chosen(steps, name)?];
    }
    step::run_all(root, &steps, verbose)
}

/// The step of that name.
fn chosen(mut steps: Vec<Step>, name: &str) -> Result<Step> {
    let Some(at) = steps.iter().position(|step| step.name == name) else {
        let names: Vec<_> = steps.iter().map(|step| step.name).collect();
        bail!("there is no step {name:?}; the steps are {}", names.join(", "));
    };
    Ok(steps.swap_remove(at))
}

/// The steps, cheapest first.
///
/// Every step that compiles for the host says `--workspace`: with one and the same set of packages cargo settles on one and
/// the same set of features, and no dependency is compiled twice.
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
        Step::cargo("lints", "clippy --workspace --all-targets -- -D warnings"),
        Step::cargo("guests", "xtask guests"),
        // The binaries too: end-to-end tests start them.
        Step::cargo("build", "build --workspace --bins --tests"),
        Step::cargo("tests", "test --workspace --lib --bins").with_tests(without_real(false)),
    ];
    // With no test target named, cargo would run all there are.
    if without_real(true).next().is_some() {
        steps.push(Step::cargo("story", "test --workspace").with_tests(without_real(true)));
    }
    if quick {
        return steps;
    }
    steps.push(Step::cargo("docs", "test --workspace --doc"));
    let of = |prefix: &'static str| {
        let step = Step::cargo(prefix, "test --workspace").with_tests([format!("{prefix}*").as_str()]);
        targets.iter().any(begins(prefix)).then_some(step)
    };
    steps.extend(of(REAL));
    steps.extend(of(CLOUDS).map(Step::beside));
    steps.push(Step::cargo("audit", "xtask audit"));
    steps
}

/// The workspace's files of integration tests, as cargo sees them.
fn test_targets(root: &Path) -> Result<Vec<TestTarget>> {
    let output = crate::cargo(root)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    let metadata = serde_json::from_slice(&output.stdout).context("cannot read the answer of cargo metadata")?;
    Ok(parse(&metadata))
}

/// Picks the test targets out of the answer of `cargo metadata`.
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
    fn the_full_run_goes_from_cheap_to_dear() {
        let steps = plan(&targets(), false);
        assert_eq!(
            names(&steps),
            ["format", "parity", "lints", "guests", "build", "tests", "story", "docs", "real", "clouds", "audit"]
        );
    }

    #[test]
    fn a_quick_run_needs_no_real_control_plane_cloud_or_network() {
        let steps = plan(&targets(), true);
        assert_eq!(names(&steps), ["format", "parity", "lints", "guests", "build", "tests", "story"]);
        let dear = |arg: &String| arg.starts_with(REAL) || arg.starts_with(CLOUDS);
        assert!(steps.iter().all(|step| !step.args.iter().any(dear)));
    }

    #[test]
    fn every_file_of_tests_runs_in_exactly_one_step() {
        let steps = plan(&targets(), false);
        assert_eq!(command(&steps, "tests"), "cargo test --workspace --lib --bins --test calls --test api_contract");
        assert_eq!(command(&steps, "story"), "cargo test --workspace --test embedded");
        assert_eq!(command(&steps, "real"), "cargo test --workspace --test 'real*'");
        assert_eq!(command(&steps, "clouds"), "cargo test --workspace --test 'clouds*'");
    }

    #[test]
    fn a_step_without_tests_is_left_out_because_cargo_would_run_all_tests_instead() {
        let steps = plan(&[target("skydock-plugin", "calls")], false);
        assert_eq!(names(&steps), ["format", "parity", "lints", "guests", "build", "tests", "docs", "audit"]);
    }

    #[test]
    fn one_step_is_chosen_by_its_name() {
        let step = chosen(plan(&targets(), false), "real").unwrap();
        assert_eq!(step.to_string(), "cargo test --workspace --test 'real*'");
    }

    #[test]
    fn a_step_that_does_not_exist_is_answered_with_those_that_do() {
        let error = chosen(plan(&targets(), false), "unit").unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no step \"unit\"; the steps are format, parity, lints, guests, build, tests, story, docs, real, clouds, audit"
        );
    }

    #[test]
    fn clouds_are_waited_for_while_the_control_plane_is() {
        let beside: Vec<_> =
            plan(&targets(), false).into_iter().filter(|step| step.beside).map(|step| step.name).collect();
        assert_eq!(beside, ["clouds"]);
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
    fn cargo_is_asked_for_this_workspace() {
        // Whatever there is, it belongs to a package of ours; an unreadable answer would be an error.
        for target in test_targets(&crate::root()).unwrap() {
            assert!(!target.package.is_empty() && !target.name.is_empty());
        }
    }
}
