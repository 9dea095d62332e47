//! `skydock plugin test --scenarios` and `skydock plugin bench`, with simcloud.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};
use skydock_support::checkout;

/// Returns a command about a plugin.
fn program(dir: &Path, tool: &str, plugin: &str) -> Command {
    let plugin = checkout().join(format!("target/plugins/{plugin}.wasm"));
    assert!(
        plugin.is_file(),
        "there is no plugin {}: run `cargo xtask guests`",
        plugin.display()
    );
    let mut program = Command::new(env!("CARGO_BIN_EXE_skydock-dev"));
    // Machine code is cached there.
    program
        .args(["plugin", tool])
        .arg(plugin)
        .env("HOME", dir)
        .env_remove("XDG_CACHE_HOME");
    program
}

/// Runs the program with the example provider.
fn run(dir: &Path, tool: &str, arguments: &[&str]) -> Output {
    program(dir, tool, "simcloud")
        .arg("--simcloud")
        .args(arguments)
        .env("SECRET", "abcdefgh")
        .output()
        .unwrap()
}

#[test]
fn the_example_provider_passes_all_scenarios() {
    let (dir, file) = (
        tempfile::tempdir().unwrap(),
        checkout().join("tools/simcloud/scenarios.yaml"),
    );
    let report = dir.path().join("report.json");
    let arguments = [
        "--format=json",
        "--scenarios",
        file.to_str().unwrap(),
        "--output",
        report.to_str().unwrap(),
    ];
    let output = run(dir.path(), "test", &arguments);
    let text = fs::read_to_string(&report).unwrap_or_default();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let report: Value = serde_json::from_str(&text).unwrap();
    // A skipped step is one that has tested nothing.
    assert_eq!(
        (&report["failed"], &report["skipped"]),
        (&0.into(), &0.into()),
        "{text}"
    );
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.starts_with("scenarios 0.1.1: ") && said.ends_with(" steps passed\n"),
        "{said}"
    );
}

#[test]
fn what_is_not_as_expected_is_reported_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("scenarios.yaml");
    let text = r#"apiVersion: skydock.dev/v1alpha1
kind: Scenarios
given: {nodes: [{name: n1}], services: [{name: web, ports: [{port: 80, nodePort: 30080}]}]}
before:
- http: {method: POST, url: "${SIMCLOUD_URL}/_sim/servers", body: {name: n1}}
  expect: {status: 201}
scenarios:
- name: wrong
  steps:
  - call: instances.describe
  - call: instances.check
    expect: {answer: [absent]}
  - call: instances.check
  after:
  - run: [sh, -c, "echo ${SECRET}; exit 1"]
- name: created-by-each-call
  steps:
  - call: load-balancers.ensure
    service: web
    expect: {maxRequests: {POST: 0}}
- name: program
  steps:
  - run: [cat]
    input: {a: 1}
    expect: {json: {scenario: program, input: {a: 1}, nodes: [{name: n1}], services: [{name: web}]}}
- name: zones
  steps:
  - call: zones.locate
"#;
    fs::write(&file, text).unwrap();
    let output = run(dir.path(), "test", &["--scenarios", file.to_str().unwrap()]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        output.status.code(),
        Some(1),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for line in [
        "ok       wrong.1: instances.describe",
        "FAILED   wrong.2: instances.check",
        &format!("         at:       {}:11", file.display()),
        "         expected: [\"absent\"]",
        "         seen:     [0] is \"running\", not \"absent\"; [\"running\"]",
        "skipped  wrong.3: wrong.2 failed",
        "FAILED   wrong.after.1: sh -c echo ${SECRET}; exit 1",
        "         seen:     exit code 1: ${SECRET}",
        "         expected: at most 0 requests (POST) a call",
        "         seen:     requests by method: {\"GET\": 1, \"POST\": 1}",
        "ok       program.1: cat",
        "skipped  zones.1: it does not export `zones`",
        "scenarios 0.1.1: 2 of 5 steps passed, 2 skipped",
    ] {
        assert!(
            said.lines().any(|it| it == line),
            "{line}\nis missing in\n{said}"
        );
    }
}

#[test]
fn the_calls_of_a_plugin_are_measured() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), "bench", &["--calls=5", "--format=json"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    let functions = figures["functions"].as_array().unwrap();
    let of = |name: &str| functions.iter().find(|it| it["function"] == name).unwrap();
    assert_eq!(functions.len(), 9, "{figures}");
    assert!(
        functions
            .iter()
            .all(|it| it["failed"] == 0 && it["calls"] == 5 && it["memory"] != 0),
        "{figures}"
    );
    assert_eq!(
        (
            &of("instances.check")["requests"],
            &of("load-balancers.ensure")["requests"]
        ),
        (&3.0.into(), &1.0.into())
    );
}

/// Its answers are from a file, so that no patience changes them.
#[test]
fn a_plugin_without_requests_is_measured_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let inventory = checkout().join("deploy/example/cloud.yaml");
    let arguments = [
        "--nodes=nobody",
        "--calls=2",
        "--format=json",
        "--cloud-config",
        inventory.to_str().unwrap(),
    ];
    let output = program(dir.path(), "bench", "static")
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    let described = figures["functions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["function"] == "instances.describe");
    assert_eq!(
        described.map(|it| (&it["calls"], &it["failed"])),
        Some((&json!(2), &json!(2))),
        "{figures}"
    );
    // A wait would be told there.
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
