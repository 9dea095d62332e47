//! `skydock config check` checks the file, the files that it names, and the plugin.
#![allow(clippy::unwrap_used)] // helpers are not test functions for clippy

use std::{fs, path::Path, process::Command};

use tempfile::TempDir;

const INVENTORY: &str = "apiVersion: static.skydock.dev/v1alpha1\nkind: Inventory\nmachines: []\n";

/// A folder with a configuration of the plugin `static`, and the files that it names.
fn folder(more: &str) -> TempDir {
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/plugins/static.wasm");
    assert!(
        plugin.is_file(),
        "there is no plugin {}: run `cargo xtask guests`",
        plugin.display()
    );
    let dir = tempfile::tempdir().unwrap();
    fs::copy(plugin, dir.path().join("static.wasm")).unwrap();
    fs::write(dir.path().join("cloud.yaml"), INVENTORY).unwrap();
    let text = format!(
        "apiVersion: skydock.dev/v1alpha1\nkind: SkydockConfiguration\nplugins:\n- name: metal\n  file: static.wasm\n  \
         cloudConfig: cloud.yaml\n{more}"
    );
    fs::write(
        dir.path().join("config.yaml"),
        text.replace("DIR", dir.path().to_str().unwrap()),
    )
    .unwrap();
    dir
}

/// Returns the exit code, and the standard output and errors.
fn check(dir: &TempDir, flags: &[&str]) -> (i32, String, String) {
    let mut check = Command::new(env!("CARGO_BIN_EXE_skydock"));
    check
        .args(["config", "check", "config.yaml"])
        .args(flags)
        .current_dir(dir.path());
    let output = check.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn a_check_shows_what_the_plugin_answers() {
    let dir = folder("  permissions: {providerIDs: [static://]}\n");
    let (code, out, said) = check(&dir, &[]);
    assert_eq!((code, said.as_str()), (0, ""), "{out}");
    for line in [
        "plugin metal: static.wasm",
        "  provider IDs    static://",
        "config.yaml: ok",
    ] {
        assert!(out.lines().any(|other| other == line), "{line}: {out}");
    }
}

#[test]
fn a_configuration_that_the_plugin_rejects_is_an_error() {
    let dir = folder("");
    fs::write(
        dir.path().join("cloud.yaml"),
        INVENTORY.replace("machines", "machine"),
    )
    .unwrap();
    let (code, _, said) = check(&dir, &[]);
    let line = "config.yaml:6:16: error: plugins[0].cloudConfig: the plugin cannot be loaded: it rejected its configuration: invalid: cloud.yaml:3";
    assert!(code == 1 && said.starts_with(line), "{said}");
    assert_eq!(check(&dir, &["--offline"]).0, 0);
}

#[test]
fn files_that_cannot_be_used_are_errors_unless_offline() {
    let dir = folder(
        "  egress:\n  - {name: a, to: 'https://a.example:443', credential: t, tls: {caFile: DIR/cloud.yaml}}\n\
         credentials:\n- {name: t, type: header, for: {plugin: metal, digest: any}, valueFile: DIR/none}\n",
    );
    fs::write(dir.path().join("static.wasm"), "not a component").unwrap();
    let (code, _, said) = check(&dir, &[]);
    let expected = [
        "config.yaml:5:9: error: plugins[0].file: static.wasm is not a WebAssembly component",
        "config.yaml:8:64: error: plugins[0].egress[0].tls: ",
        "config.yaml:10:73: error: credentials[0].valueFile: cannot read ",
        "skydock: config.yaml has 3 errors and 0 warnings",
    ];
    assert_eq!(code, 1);
    let each = said.lines().zip(expected);
    assert!(
        said.lines().count() == expected.len()
            && each
                .into_iter()
                .all(|(line, start)| line.starts_with(start)),
        "{said}"
    );
    assert_eq!(check(&dir, &["--offline"]).0, 0);
}

#[test]
fn warnings_are_errors_only_if_strict() {
    let dir = folder(
        "credentials:\n- {name: t, type: header, for: {plugin: metal, digest: any}, valueFile: /run/token}\n",
    );
    let (code, out, said) = check(&dir, &["--offline"]);
    let warning = "config.yaml:8:10: warning: credentials[0].name: credential `t` is not used";
    assert!(code == 0 && said.starts_with(warning), "{said}");
    assert_eq!(out, "config.yaml: ok, with 1 warning\n");
    let (code, _, said) = check(&dir, &["--offline", "--strict"]);
    let last = said.lines().last();
    assert_eq!(
        (code, last),
        (1, Some("skydock: config.yaml has 0 errors and 1 warning"))
    );
}

#[test]
fn a_secret_that_is_too_short_is_a_warning() {
    let dir = folder(
        "  permissions: {providerIDs: ['static://']}\n  \
         egress: [{name: r, to: 'https://cloud.example:443', credential: t}]\n\
         credentials:\n- {name: t, type: header, for: {plugin: metal, digest: any}, valueFile: DIR/token}\n",
    );
    fs::write(dir.path().join("token"), "hunter2\n").unwrap();
    let (code, _, said) = check(&dir, &[]);
    assert!(
        code == 0
            && said.contains("credentials[0].valueFile: the secret in ")
            && said.contains("fewer than 16 bytes"),
        "{said}"
    );
    assert!(!said.contains("hunter2"), "{said}");
    fs::write(dir.path().join("token"), "hunter2hunter2hunter2\n").unwrap();
    assert_eq!(check(&dir, &[]).2, "");
}

#[test]
fn an_environment_variable_that_is_not_set_is_a_warning() {
    let dir = folder(
        "  permissions: {providerIDs: ['static://']}\n  \
         egress: [{name: r, to: 'https://cloud.example:443', credential: t}]\n\
         credentials:\n- {name: t, type: header, for: {plugin: metal, digest: any}, valueEnv: METAL_TOKEN}\n",
    );
    let (code, _, said) = check(&dir, &[]);
    let words = "credentials[0].valueEnv: the environment variable METAL_TOKEN is not set here";
    assert!(code == 0 && said.contains(words), "{said}");
    assert_eq!(check(&dir, &["--offline"]).2, "");

    for (value, is_short) in [("hunter2", true), ("hunter2hunter2hunter2", false)] {
        let mut check = Command::new(env!("CARGO_BIN_EXE_skydock"));
        check.args(["config", "check", "config.yaml"]);
        check.current_dir(dir.path()).env("METAL_TOKEN", value);
        let output = check.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.contains("fewer than 16 bytes"), is_short, "{said}");
        assert!(
            output.status.success() && !said.contains("hunter2"),
            "{said}"
        );
    }
}
