use serde_json::json;

use super::*;
use crate::resources::schema::core::{NODE, SERVICE};

fn merged(schema: &Object, mut original: Value, patch: &Value) -> Value {
    merge(&mut original, patch, schema).unwrap();
    original
}

/// Merges patches into Nodes: name, original, patch, and what is expected.
fn check<const N: usize>(cases: [(&str, Value, Value, Value); N]) {
    for (name, original, patch, expected) in cases {
        assert_eq!(merged(&NODE, original, &patch), expected, "{name}");
    }
}

#[test]
fn patches_merge_as_in_kubernetes() {
    check([
        (
            "maps merge, and null removes",
            json!({"metadata": {"labels": {"a": "1", "b": "1"}}}),
            json!({"metadata": {"labels": {"a": null, "c": "1"}}}),
            json!({"metadata": {"labels": {"b": "1", "c": "1"}}}),
        ),
        (
            "a null for what is not there does not come in",
            json!({}),
            json!({"metadata": {"labels": {"a": null, "b": "1"}}}),
            json!({"metadata": {"labels": {"b": "1"}}}),
        ),
        (
            "conditions merge by type",
            json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}, {"type": "X", "status": "False"}]}}),
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
            json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "r"}, {"type": "X", "status": "False"}]}}),
        ),
        (
            "a new element comes before what only the server has, unless the server had that first",
            json!({"status": {"conditions": [{"type": "A"}]}}),
            json!({"status": {"conditions": [{"type": "B"}]}}),
            json!({"status": {"conditions": [{"type": "B"}, {"type": "A"}]}}),
        ),
        (
            "an order says where what the server has goes",
            json!({"status": {"conditions": [{"type": "A"}]}}),
            json!({"status": {"$setElementOrder/conditions": [{"type": "A"}, {"type": "B"}], "conditions": [{"type": "B"}]}}),
            json!({"status": {"conditions": [{"type": "A"}, {"type": "B"}]}}),
        ),
        (
            "taints have no merge key: the list is replaced",
            json!({"spec": {"taints": [{"key": "a"}]}}),
            json!({"spec": {"taints": [{"key": "b"}]}}),
            json!({"spec": {"taints": [{"key": "b"}]}}),
        ),
        (
            "finalizers merge as a set",
            json!({"metadata": {"finalizers": ["a"]}}),
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"finalizers": ["a", "b"]}}),
        ),
        (
            "a scalar takes the place of anything",
            json!({"spec": {"providerID": "a"}}),
            json!({"spec": {"providerID": "b"}}),
            json!({"spec": {"providerID": "b"}}),
        ),
    ]);
}

#[test]
fn directives_in_patches_work_as_in_kubernetes() {
    check([
        (
            "one element is deleted by its key",
            json!({"status": {"conditions": [{"type": "A"}, {"type": "B"}]}}),
            json!({"status": {"conditions": [{"$patch": "delete", "type": "A"}]}}),
            json!({"status": {"conditions": [{"type": "B"}]}}),
        ),
        (
            "addresses are replaced with a directive in the list",
            json!({"status": {"addresses": [{"type": "InternalIP", "address": "1"}, {"type": "InternalIP", "address": "2"}]}}),
            json!({"status": {"addresses": [{"type": "Hostname", "address": "h"}, {"$patch": "replace"}]}}),
            json!({"status": {"addresses": [{"type": "Hostname", "address": "h"}]}}),
        ),
        (
            "a map is replaced with a directive",
            json!({"metadata": {"labels": {"a": "1"}}}),
            json!({"metadata": {"labels": {"$patch": "replace", "b": "1"}}}),
            json!({"metadata": {"labels": {"b": "1"}}}),
        ),
        (
            "a map is emptied with a directive",
            json!({"metadata": {"labels": {"a": "1"}}}),
            json!({"metadata": {"labels": {"$patch": "delete"}}}),
            json!({"metadata": {"labels": {}}}),
        ),
        (
            "retainKeys removes what it does not name",
            json!({"status": {"nodeInfo": {"a": "1", "b": "1"}}}),
            json!({"status": {"nodeInfo": {"$retainKeys": ["b", "c"], "c": "1"}}}),
            json!({"status": {"nodeInfo": {"b": "1", "c": "1"}}}),
        ),
        (
            "a finalizer is deleted from its list",
            json!({"metadata": {"finalizers": ["a", "b", "c"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"], "$setElementOrder/finalizers": ["a", "c"]}}),
            json!({"metadata": {"finalizers": ["a", "c"]}}),
        ),
    ]);
}

#[test]
fn service_ports_merge_by_port_even_across_protocols() {
    let original = json!({"spec": {"ports": [{"port": 53, "protocol": "TCP", "nodePort": 30000}, {"port": 80}]}});
    let patch = json!({"spec": {"ports": [{"port": 53, "name": "dns"}], "$setElementOrder/ports": [{"port": 80}, {"port": 53}]}});
    let expected = json!({"spec": {"ports": [{"port": 80}, {"port": 53, "protocol": "TCP", "nodePort": 30000, "name": "dns"}]}});
    assert_eq!(merged(&SERVICE, original, &patch), expected);
}

#[test]
fn load_balancer_ingress_is_replaced_as_a_whole() {
    let original = json!({"status": {"loadBalancer": {"ingress": [{"ip": "1"}, {"ip": "2"}]}}});
    let patch = json!({"status": {"loadBalancer": {"ingress": [{"ip": "3"}]}}});
    let expected = json!({"status": {"loadBalancer": {"ingress": [{"ip": "3"}]}}});
    assert_eq!(merged(&SERVICE, original.clone(), &patch), expected);
    let cleared = merged(
        &SERVICE,
        original,
        &json!({"status": {"loadBalancer": {"ingress": null}}}),
    );
    assert_eq!(cleared, json!({"status": {"loadBalancer": {}}}));
}

#[test]
fn rejects_malformed_patches() {
    for (patch, expected) in [
        (
            json!({"status": {"conditions": [{"status": "True"}]}}),
            "merge key \"type\"",
        ),
        (
            json!({"status": {"conditions": ["x"]}}),
            "must be an object",
        ),
        (
            json!({"metadata": {"labels": {"$patch": "explode"}}}),
            "unknown directive",
        ),
        (
            json!({"metadata": {"labels": {"$retainKeys": ["a"], "b": "1"}}}),
            "not in its $retainKeys",
        ),
        (
            json!({"metadata": {"$setElementOrder/finalizers": "a"}}),
            "must be a list",
        ),
        (json!([]), "must be an object"),
    ] {
        let mut node = json!({"status": {"conditions": [{"type": "Ready"}]}});
        let error = merge(&mut node, &patch, &NODE).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_list_patched_onto_none_is_kept_unchanged() {
    let addresses = json!([{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "InternalIP", "address": "fd00::1"}]);
    let patched = merged(
        &NODE,
        json!({"status": {}}),
        &json!({"status": {"addresses": addresses}}),
    );
    assert_eq!(patched["status"]["addresses"], addresses);
}
