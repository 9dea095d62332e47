//! `skydock migrate` prints a manifest on standard output, and what was dropped on standard error.
#![allow(clippy::unwrap_used)] // helpers are not test functions for clippy

use std::{fs, path::Path, process::Command};

const MANIFEST: &str = "kind: Deployment\nmetadata: {name: ccm}\nspec: {template: {spec: {containers: [{name: ccm, \
                        image: example.com/cloud-controller-manager, args: [--kube-api-qps=5, --v=2]}]}}}\n";

/// Returns the exit code, and the standard output and errors.
fn migrate(manifest: &str) -> (i32, String, String) {
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/plugins/static.wasm");
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("ccm.yaml"), manifest).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_skydock"))
        .args(["migrate", "ccm.yaml", "--image=skydock:1", "--plugin"])
        .arg(plugin)
        .current_dir(dir.path())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn migrate_prints_the_manifest_and_what_was_dropped() {
    let (code, out, said) = migrate(MANIFEST);
    assert_eq!(code, 0, "{said}");
    for line in [
        "kind: ConfigMap",
        "      file: /plugins/static.wasm",
        "        image: skydock:1",
        "        - --v=2",
    ] {
        assert!(out.lines().any(|other| other == line), "{line}: {out}");
    }
    assert_eq!(
        said,
        "Deployment ccm: dropped --kube-api-qps=5: the client has no rate limit\n"
    );
}

#[test]
fn migrate_rejects_a_template() {
    let template = MANIFEST.replace("--v=2", "'--v={{ .Values.level }}'");
    let (code, out, said) = migrate(&template);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(
        said.starts_with("skydock: ccm.yaml: it is a template"),
        "{said}"
    );
}
