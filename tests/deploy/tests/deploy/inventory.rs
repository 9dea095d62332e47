//! The inventories under `deploy/` must be read without any complaint.

use skydock_static::inventory::Inventory;

use crate::variants::text;

fn inventory(file: &str) -> Inventory {
    Inventory::parse(&text(file)).unwrap_or_else(|problems| panic!("{file}: {problems:?}"))
}

#[test]
fn the_base_inventory_has_no_machines_or_pools() {
    let base = inventory("base/cloud.yaml");
    assert!(
        base.machines.is_none(),
        "without machines, no node may be taken for gone"
    );
    assert!(base.pools.0.is_empty());
}

#[test]
fn the_example_inventory_has_machines_and_addresses() {
    let example = inventory("example/cloud.yaml");
    assert!(example.machines.is_some());
    assert!(
        example.pools.0.iter().any(|pool| pool.auto_assign),
        "a Service would have to name its pool"
    );
}
