//! `skydock plugin inspect` shows what a plugin is before it is used in a cluster.
#![allow(clippy::unwrap_used)] // helpers are not test functions for clippy

use std::{path::Path, process::Command};

/// Returns the output for the provider `static`, or the error.
fn inspect(flags: &[&str]) -> Result<String, String> {
    inspect_plugin("static", flags)
}

/// Returns the output for a plugin, or the error.
fn inspect_plugin(name: &str, flags: &[&str]) -> Result<String, String> {
    let plugin =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../target/plugins/{name}.wasm"));
    assert!(
        plugin.is_file(),
        "there is no plugin {}: run `cargo xtask guests`",
        plugin.display()
    );
    let dir = tempfile::tempdir().unwrap();
    let inventory = dir.path().join("inventory.yaml");
    std::fs::write(
        &inventory,
        "apiVersion: static.skydock.dev/v1alpha1\nkind: Inventory\nmachines: []\n",
    )
    .unwrap();
    let mut inspect = Command::new(env!("CARGO_BIN_EXE_skydock"));
    inspect
        .args(["plugin", "inspect"])
        .arg(plugin)
        .arg("--cloud-config")
        .arg(inventory)
        .args(flags);
    let output = inspect.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
}

#[test]
fn inspect_shows_capabilities_and_provider_id_prefixes() {
    let told = inspect(&[]).unwrap();
    for line in [
        "contract        0.1.1",
        "capabilities    instances, load-balancers",
        "provider IDs    static://",
    ] {
        assert!(
            told.lines().any(|other| other.trim_end() == line),
            "{line} is missing in:\n{told}"
        );
    }
}

#[test]
fn inspect_shows_our_plugins_without_a_configuration() {
    for (name, prefixes) in [
        ("static", &["static://", "*"][..]),
        ("openstack", &["openstack:///", "openstack://*/"]),
        ("aws", &["aws://"]),
        ("simcloud", &["simcloud://"]),
    ] {
        let plugin =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../target/plugins/{name}.wasm"));
        let mut inspect = Command::new(env!("CARGO_BIN_EXE_skydock"));
        inspect
            .args(["plugin", "inspect", "-o", "json"])
            .arg(&plugin);
        let output = inspect.output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let provider = format!("{name} {}", env!("CARGO_PKG_VERSION"));
        assert_eq!(said["provider"], serde_json::json!([provider]));
        assert_eq!(said["providerIDs"], serde_json::json!(prefixes));
        assert!(said["wantsToReach"].is_array() && said["capabilities"].is_array());
        // It was not loaded.
        assert!(said["loaded"].is_null(), "{said}");
    }
}

#[test]
fn inspect_shows_the_contract_that_a_plugin_was_built_for() {
    let told = inspect_plugin("hostile/contract_0_1_0", &[]).unwrap();
    assert!(told.contains("\ncontract        0.1.0\n"), "{told}");
}

#[test]
fn inspect_applies_the_plugin_limits() {
    assert!(inspect(&["--plugin-limit=memory=2Mi"]).is_ok());
    let rejected = inspect(&["--plugin-limit=memory=1Mi"]).unwrap_err();
    assert!(
        rejected.contains("exceeds the limit of 0x100000 bytes"),
        "{rejected}"
    );
}

#[test]
fn inspect_shows_why_a_plugin_panicked_but_no_configuration() {
    let rejected = inspect_plugin("hostile/traps_in_configure", &[]).unwrap_err();
    assert!(
        rejected.contains("; its last output: panic: no region in apiVersion: [redacted]"),
        "{rejected}"
    );
}
