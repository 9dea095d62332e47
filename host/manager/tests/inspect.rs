//! `skydock plugin inspect` tells who a plugin is before it is let near a cluster.

use std::{path::Path, process::Command};

// Holds: OPS-06
#[test]
fn a_plugin_is_told_by_its_capabilities_and_prefixes() {
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/plugins/static.wasm");
    assert!(plugin.is_file(), "there is no plugin {}: run `cargo xtask guests`", plugin.display());
    let dir = tempfile::tempdir().unwrap();
    let inventory = dir.path().join("inventory.yaml");
    std::fs::write(&inventory, "apiVersion: static.skydock.dev/v1alpha1\nkind: Inventory\nmachines: []\n").unwrap();
    let mut inspect = Command::new(env!("CARGO_BIN_EXE_skydock"));
    inspect.args(["plugin", "inspect"]).arg(plugin).arg("--cloud-config").arg(inventory);
    let output = inspect.output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    for line in ["capabilities    instances, load-balancers", "provider IDs    static://"] {
        assert!(told.lines().any(|other| other.trim_end() == line), "{line} is missing in:\n{told}");
    }
}
