//! `cargo xtask test`: runs all checks and tests.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::step::{self, Step};

/// Prefix of test targets that need a control plane of real Kubernetes processes.
const REAL: &str = "real";

/// Prefix of test targets that need clouds: real OpenStack services, or an AWS endpoint.
const CLOUDS: &str = "clouds";

/// Runs all steps; with `quick`, only those that need neither a real control plane nor a cloud;
/// with `only`, the step with that name.
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
fn plan(targets: &[String], quick: bool) -> Vec<Step> {
    let begins = |prefix: &'static str| move |target: &String| target.starts_with(prefix);
    let others = targets
        .iter()
        .filter(|target| !begins(REAL)(target) && !begins(CLOUDS)(target));
    let tests = Step::cargo("tests", "test --workspace --lib --bins")
        .with_tests(others.map(String::as_str));
    let mut steps = vec![
        Step::cargo("format", "fmt --all --check"),
        Step::cargo("parity", "xtask parity --check"),
        Step::cargo("tidy", "xtask tidy --check"),
        Step::cargo("lints", "clippy --workspace --all-targets -- -D warnings"),
        // A workspace of its own.
        Step::cargo(
            "recorder",
            "test --locked --manifest-path tests/bench/hot/Cargo.toml --target-dir target/hot",
        ),
        Step::cargo("guests", "xtask guests"),
        // Includes the binaries, which end-to-end tests start.
        Step::cargo("build", "build --workspace --bins --tests"),
        tests.side_by_side(),
    ];
    if quick {
        return steps;
    }
    steps.push(Step::cargo("docs", "xtask docs"));
    steps.push(Step::cargo("sdks", "xtask sdk"));
    steps.push(Step::cargo("components", "xtask sdk --component"));
    let of = |prefix: &'static str| {
        let step =
            Step::cargo(prefix, "test --workspace").with_tests([format!("{prefix}*").as_str()]);
        targets.iter().any(begins(prefix)).then_some(step)
    };
    steps.extend(of(REAL));
    steps.extend(of(CLOUDS));
    steps.push(Step::cargo("audit", "xtask audit"));
    steps
}

/// Returns the names of the integration test targets of the workspace.
fn test_targets(root: &Path) -> Result<Vec<String>> {
    let output = crate::cargo(root)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let metadata = serde_json::from_slice(&output.stdout)
        .context("cannot read the answer of cargo metadata")?;
    Ok(parse(&metadata))
}

/// Extracts the test targets from the output of `cargo metadata`.
fn parse(metadata: &Value) -> Vec<String> {
    let list = |value: &Value, key: &str| {
        value
            .get(key)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let text = |value: &Value| {
        value
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let mut targets = Vec::new();
    for package in list(metadata, "packages") {
        for target in list(&package, "targets") {
            let name = text(&target);
            // Two packages may have a target with the same name.
            if list(&target, "kind").iter().any(|kind| kind == "test") && !targets.contains(&name) {
                targets.push(name);
            }
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets() -> Vec<String> {
        [
            "calls",
            "api_contract",
            "real",
            "clouds_openstack",
            "embedded",
            "real_story",
        ]
        .map(str::to_owned)
        .into()
    }

    fn names(steps: &[Step]) -> Vec<&str> {
        steps.iter().map(|step| step.name).collect()
    }

    fn command(steps: &[Step], name: &str) -> String {
        steps
            .iter()
            .find(|step| step.name == name)
            .map(ToString::to_string)
            .unwrap()
    }

    #[test]
    fn the_full_run_is_ordered_from_fast_to_slow() {
        let steps = plan(&targets(), false);
        assert_eq!(
            names(&steps),
            [
                "format",
                "parity",
                "tidy",
                "lints",
                "recorder",
                "guests",
                "build",
                "tests",
                "docs",
                "sdks",
                "components",
                "real",
                "clouds",
                "audit"
            ]
        );
    }

    #[test]
    fn a_quick_run_needs_no_real_control_plane_cloud_or_network() {
        let steps = plan(&targets(), true);
        let expected = [
            "format", "parity", "tidy", "lints", "recorder", "guests", "build", "tests",
        ];
        assert_eq!(names(&steps), expected);
        let dear = |arg: &String| arg.starts_with(REAL) || arg.starts_with(CLOUDS);
        assert!(steps.iter().all(|step| !step.args.iter().any(dear)));
    }

    #[test]
    fn every_test_target_runs_in_exactly_one_step() {
        let steps = plan(&targets(), false);
        let tests =
            "cargo test --workspace --lib --bins --test calls --test api_contract --test embedded";
        assert_eq!(command(&steps, "tests"), tests);
        assert_eq!(
            command(&steps, "real"),
            "cargo test --workspace --test 'real*'"
        );
        assert_eq!(
            command(&steps, "clouds"),
            "cargo test --workspace --test 'clouds*'"
        );
    }

    #[test]
    fn a_step_without_test_targets_is_omitted() {
        let steps = plan(&["calls".to_owned()], false);
        assert_eq!(
            names(&steps),
            [
                "format",
                "parity",
                "tidy",
                "lints",
                "recorder",
                "guests",
                "build",
                "tests",
                "docs",
                "sdks",
                "components",
                "audit"
            ]
        );
    }

    #[test]
    fn a_step_is_chosen_by_name() {
        let step = chosen(plan(&targets(), false), "real").unwrap();
        assert_eq!(step.to_string(), "cargo test --workspace --test 'real*'");
    }

    #[test]
    fn an_unknown_step_error_lists_the_valid_steps() {
        let error = chosen(plan(&targets(), false), "unit")
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "there is no step \"unit\"; the steps are format, parity, tidy, lints, recorder, guests, build, tests, docs, sdks, components, real, clouds, audit"
        );
    }

    #[test]
    fn workflows_name_steps_that_exist_and_leave_none_out() {
        let root = crate::root();
        let text = std::fs::read_to_string(root.join(".github/workflows/ci.yml")).unwrap();
        let steps = plan(&test_targets(&root).unwrap(), false);
        let slow: Vec<_> = names(&steps).split_off(plan(&test_targets(&root).unwrap(), true).len());
        let mut named: Vec<_> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("- step: "))
            .collect();
        let only = text
            .split("xtask test --only ")
            .skip(1)
            .filter_map(|rest| rest.split_whitespace().next());
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
        assert_eq!(parse(&metadata), ["calls"]);
    }

    #[test]
    fn reads_the_test_targets_of_this_workspace() {
        let targets = test_targets(&crate::root()).unwrap();
        assert!(
            targets.iter().any(|target| target == "features"),
            "{targets:?}"
        );
    }
}
