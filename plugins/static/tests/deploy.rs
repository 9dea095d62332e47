//! The inventories under `deploy/` must be read without any complaint.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which clippy does not know for such")]

use std::{fs, path::Path};

use skydock_static::inventory::Inventory;

fn inventory(file: &str) -> Inventory {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file);
    let text = fs::read_to_string(&path).unwrap();
    Inventory::parse(&text).unwrap_or_else(|problems| panic!("{}: {problems:?}", path.display()))
}

#[test]
fn the_base_inventory_has_no_machines_or_pools() {
    let base = inventory("base/cloud.yaml");
    assert!(base.machines.is_none(), "without machines, no node may be taken for gone");
    assert!(base.pools.0.is_empty());
}

#[test]
fn the_example_inventory_has_machines_and_addresses() {
    let example = inventory("example/cloud.yaml");
    assert!(example.machines.is_some());
    assert!(example.pools.0.iter().any(|pool| pool.auto_assign), "a Service would have to name its pool");
}
