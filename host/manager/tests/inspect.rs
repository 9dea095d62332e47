//! `skydock plugin inspect` tells who a plugin is before it is let near a cluster.
#![allow(clippy::unwrap_used)] // a test: what clippy allows in test functions does not reach the helpers beside them

use std::{path::Path, process::Command};

/// What is told of the provider `static`, or why it cannot be used.
fn inspect(flags: &[&str]) -> Result<String, String> {
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/plugins/static.wasm");
    assert!(plugin.is_file(), "there is no plugin {}: run `cargo xtask guests`", plugin.display());
    let dir = tempfile::tempdir().unwrap();
    let inventory = dir.path().join("inventory.yaml");
    std::fs::write(&inventory, "apiVersion: static.skydock.dev/v1alpha1\nkind: Inventory\nmachines: []\n").unwrap();
    let mut inspect = Command::new(env!("CARGO_BIN_EXE_skydock"));
    inspect.args(["plugin", "inspect"]).arg(plugin).arg("--cloud-config").arg(inventory).args(flags);
    let output = inspect.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

// Holds: OPS-06
#[test]
fn a_plugin_is_told_by_its_capabilities_and_prefixes() {
    let told = inspect(&[]).unwrap();
    for line in ["capabilities    instances, load-balancers", "provider IDs    static://"] {
        assert!(told.lines().any(|other| other.trim_end() == line), "{line} is missing in:\n{told}");
    }
}

#[test]
fn it_is_tried_within_the_limits_it_is_to_have() {
    assert!(inspect(&["--plugin-limit=memory=2Mi"]).is_ok());
    let refused = inspect(&["--plugin-limit=memory=1Mi"]).unwrap_err();
    assert!(refused.contains("exceeds the limit of 0x100000 bytes"), "{refused}");
}
