//! Which nodes may be behind load balancers (labels, taints), and which changes of nodes matter.
//! All functions are pure.

use skydock_cloud::NodeFields;
use skydock_controller_base::objects::{
    constants::{LABEL_CONTROL_PLANE, LABEL_EXCLUDE_FROM_LB, TAINT_SHUTDOWN, TAINT_TO_BE_DELETED},
    kinds::NodeKind,
};
use skydock_kube::informer::Entry;

use crate::NodeRules;

/// Returns true if a node may be behind load balancers. Whether it is ready is left to health
/// checks. A node whose instance is reported as stopped needs no health check, and AWS rejects it
/// as a target.
///
/// A cordoned node is excluded only if this is configured: it may serve for a long time, and
/// cordoning all old nodes before their Pods are moved would cut off all traffic. The autoscaler's
/// taint `DeletionCandidateOfClusterAutoscaler` does not exclude a node either: it is removed when
/// the node is needed.
pub(crate) fn eligible(entry: &Entry<NodeKind>, rules: NodeRules) -> bool {
    let node = &entry.view;

    let excluded = node
        .labels
        .get(LABEL_EXCLUDE_FROM_LB)
        .is_some_and(|value| !is_false(value));
    let has = |key: &str| node.taints.iter().any(|taint| taint.key == key);

    // A node that is ready is running, whatever taints are left on it.
    let leaving = has(TAINT_TO_BE_DELETED) || (has(TAINT_SHUTDOWN) && !node.ready);

    let by_role = rules.exclude_control_plane && node.labels.contains_key(LABEL_CONTROL_PLANE);
    let cordoned = rules.exclude_unschedulable && node.unschedulable;

    entry.object.deletion_timestamp.is_none() && !excluded && !leaving && !by_role && !cordoned
}

/// Returns true if nothing that is read here has changed, for example after a heartbeat: then no
/// new selection is needed.
pub(crate) fn same(old: &Entry<NodeKind>, new: &Entry<NodeKind>) -> bool {
    old.view == new.view && old.object.deletion_timestamp == new.object.deletion_timestamp
}

/// Returns true if this change may affect load balancers without a node selector, for a provider
/// that reads these fields of the nodes.
///
/// Upstream does not react when a node is about to leave (deletion, autoscaler's taint) or gets
/// other addresses until something else changes; here, the load balancers follow at once.
pub(crate) fn matters(
    old: &Entry<NodeKind>,
    new: &Entry<NodeKind>,
    rules: NodeRules,
    node_fields: NodeFields,
) -> bool {
    let was = eligible(old, rules);
    let is = eligible(new, rules);
    was != is || (is && !node_fields.is_same(&old.view, &new.view))
}

/// Returns true for texts that Go's `strconv.ParseBool` parses as false. All others count as true
/// here, even invalid ones.
fn is_false(text: &str) -> bool {
    matches!(text, "0" | "f" | "F" | "FALSE" | "false" | "False")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use skydock_controller_base::{
        objects::constants::LABEL_ZONE,
        testing::{node, with},
    };

    use super::*;

    fn entry(change: &Value) -> Entry<NodeKind> {
        let plain = with(
            &node("a"),
            &json!({"spec": {"taints": null, "providerID": "fake://a"}}),
        );
        Entry::new(with(&plain, change))
    }

    fn excluded(value: &str) -> Value {
        json!({"metadata": {"labels": {LABEL_EXCLUDE_FROM_LB: value}}})
    }

    fn tainted(key: &str) -> Value {
        json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}})
    }

    fn ready(change: &Value) -> Value {
        let mut change = change.clone();
        change["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        change
    }

    fn leaving() -> Value {
        tainted(TAINT_TO_BE_DELETED)
    }

    fn deleted() -> Value {
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    }

    // Holds: S-55, S-56, S-57
    #[test]
    fn exclusion_shutdown_and_deletion_make_a_node_ineligible() {
        for (change, expected) in [
            (json!({}), true),
            (
                json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
                true,
            ),
            (json!({"spec": {"providerID": null}}), true),
            (
                json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}),
                true,
            ),
            (excluded(""), false),
            (excluded("true"), false),
            (excluded("foo"), false),
            (excluded("false"), true),
            (excluded("0"), true),
            (excluded("f"), true),
            (leaving(), false),
            (tainted(TAINT_SHUTDOWN), false),
            (ready(&tainted(TAINT_SHUTDOWN)), true),
            (tainted("node.kubernetes.io/unreachable"), true),
            (deleted(), false),
        ] {
            assert_eq!(
                eligible(&entry(&change), NodeRules::default()),
                expected,
                "{change}"
            );
        }
        assert!(
            eligible(&Entry::new(node("a")), NodeRules::default()),
            "uninitialized"
        );
    }

    #[test]
    fn a_heartbeat_does_not_change_the_node_selection() {
        let plain = entry(&json!({}));
        let heartbeat = json!({
            "metadata": {"resourceVersion": "2"}, "status": {"conditions": [{"type": "MemoryPressure", "status": "False"}]},
        });
        assert!(same(&plain, &entry(&heartbeat)));
        for change in [
            excluded(""),
            leaving(),
            deleted(),
            json!({"spec": {"providerID": "fake://b"}}),
        ] {
            assert!(!same(&plain, &entry(&change)), "{change}");
        }
    }

    // Holds: S-45, S-58, S-59
    #[test]
    fn what_a_provider_reads_matters_to_load_balancers() {
        let plain = json!({});
        let zone = |zone: &str| json!({"metadata": {"labels": {LABEL_ZONE: zone}}});
        let address = json!([{"type": "InternalIP", "address": "10.0.0.9"}]);
        // For a provider that reads targets, and for one that reads whole nodes.
        for (old, new, expected) in [
            (plain.clone(), excluded("true"), [true; 2]),
            (excluded("true"), plain.clone(), [true; 2]),
            (excluded("true"), excluded("foo"), [false; 2]),
            (
                json!({"spec": {"providerID": null}}),
                plain.clone(),
                [true; 2],
            ),
            (
                plain.clone(),
                json!({"spec": {"providerID": "fake://b"}}),
                [true; 2],
            ),
            (plain.clone(), leaving(), [true; 2]),
            (plain.clone(), deleted(), [true; 2]),
            (
                plain.clone(),
                json!({"status": {"addresses": address}}),
                [true; 2],
            ),
            (zone("a"), zone("b"), [true; 2]),
            (
                plain.clone(),
                json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
                [false, true],
            ),
            (
                plain.clone(),
                json!({"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}),
                [false, true],
            ),
            (
                plain.clone(),
                json!({"metadata": {"labels": {"x": "y"}}}),
                [false, true],
            ),
            (
                plain.clone(),
                json!({"spec": {"unschedulable": true}}),
                [false, true],
            ),
            (
                plain.clone(),
                json!({"metadata": {"annotations": {"x": "y"}}}),
                [false; 2],
            ),
        ] {
            let found = [NodeFields::Target, NodeFields::All].map(|node_fields| {
                matters(
                    &entry(&old),
                    &entry(&new),
                    NodeRules::default(),
                    node_fields,
                )
            });
            assert_eq!(found, expected, "{old} > {new}");
        }
    }

    // Holds: S-45
    #[test]
    fn upstreams_cases_of_a_changed_node() {
        let machine = |id: Value| json!({"spec": {"providerID": id}});
        let taints = |taints: Value| json!({"spec": {"taints": taints}});
        let ready =
            |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        let other = json!([{"key": "other", "effect": "NoSchedule"}]);
        let providers = [
            (json!({}), json!({}), false),
            (machine(json!(null)), machine(json!("fake://a")), true),
            (machine(json!("")), machine(json!("fake://a")), true),
            (machine(json!("fake://a")), machine(json!(null)), true),
            (machine(json!("fake://a")), machine(json!("fake://b")), true),
        ];
        let labels = [
            (json!({}), json!({}), false),
            (json!({}), excluded("true"), true),
            (excluded("true"), json!({}), true),
            (
                json!({}),
                json!({"metadata": {"labels": {"x": "y"}}}),
                false,
            ),
        ];
        let noise = [
            (json!({}), json!({})),
            (taints(json!(null)), taints(other.clone())),
            (taints(other), taints(json!(null))),
            (ready("False"), ready("True")),
            (ready("True"), ready("Unknown")),
            (
                json!({}),
                json!({"status": {"conditions": [{"type": "DiskPressure", "status": "True"}]}}),
            ),
        ];
        let both = |one: &Value, two: &Value, three: &Value| entry(&with(&with(one, two), three));
        for (provider, label) in providers
            .iter()
            .flat_map(|provider| labels.iter().map(move |label| (provider, label)))
        {
            for (before, after) in &noise {
                let (old, new) = (
                    both(&provider.0, &label.0, before),
                    both(&provider.1, &label.1, after),
                );
                let expected = provider.2 || label.2;
                assert_eq!(
                    matters(&old, &new, NodeRules::default(), NodeFields::Target),
                    expected,
                    "{old:?} > {new:?}"
                );
            }
        }
        // Upstream treats it as a change; but no load balancer has such a node.
        let hidden = |id: &str| entry(&with(&machine(json!(id)), &excluded("true")));
        assert!(!matters(
            &hidden("fake://a"),
            &hidden("fake://b"),
            NodeRules::default(),
            NodeFields::All
        ));
    }

    #[test]
    fn control_plane_and_cordoned_nodes_are_excluded_only_by_rule() {
        let master = json!({"metadata": {"labels": {LABEL_CONTROL_PLANE: ""}}});
        let cordoned = json!({
            "spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]},
        });
        let tainted = json!({"spec": {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}});
        for (exclude_control_plane, exclude_unschedulable) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let rules = NodeRules {
                exclude_control_plane,
                exclude_unschedulable,
            };
            assert_eq!(
                eligible(&entry(&master), rules),
                !exclude_control_plane,
                "{rules:?}"
            );
            assert_eq!(
                eligible(&entry(&cordoned), rules),
                !exclude_unschedulable,
                "{rules:?}"
            );
            assert_eq!(
                matters(
                    &entry(&json!({})),
                    &entry(&cordoned),
                    rules,
                    NodeFields::Target
                ),
                exclude_unschedulable,
                "{rules:?}"
            );
            assert!(
                eligible(&entry(&json!({})), rules) && eligible(&entry(&tainted), rules),
                "{rules:?}"
            );
        }
    }
}
