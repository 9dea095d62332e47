//! Which nodes are behind a load balancer.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use k8s_openapi::api::core::v1::Node;
use kube::core::{Selector, SelectorExt};
use skydock_cloud::NodeSet;

use super::{NodeRules, ServiceEntry};
use crate::{
    constants::{LABEL_CONTROL_PLANE, LABEL_EXCLUDE_FROM_LB, TAINT_TO_BE_DELETED},
    informer::{Entry, Informer},
};

/// Name and provider ID: what a load balancer knows a node by.
type NodeId = (String, Option<String>);

/// The nodes behind a load balancer, ordered by name. Shared, because thousands of nodes are behind each of a thousand
/// load balancers; and each node as well, because while nodes come and go every load balancer was told of others.
pub(super) type NodeIds = Arc<[Arc<NodeId>]>;

/// True if a node may be behind load balancers. Whether it is ready is for health checks to find out.
///
/// A cordoned node is left out only where that is asked for: it may go on serving for a long time, and whoever cordons all
/// old nodes before their Pods move would cut off everything. The autoscaler's `DeletionCandidateOfClusterAutoscaler` is no
/// reason either: it is taken back when the node is needed.
pub fn eligible(entry: &Entry<Node>, rules: NodeRules) -> bool {
    let node = &entry.view;
    let excluded = node.labels.get(LABEL_EXCLUDE_FROM_LB).is_some_and(|value| parse_bool(value) != Some(false));
    let leaving = node.taints.iter().any(|taint| taint.key == TAINT_TO_BE_DELETED);
    let by_role = rules.exclude_control_plane && node.labels.contains_key(LABEL_CONTROL_PLANE);
    let cordoned = rules.exclude_unschedulable && node.unschedulable;
    entry.object.deletion_timestamp.is_none() && !excluded && !leaving && !by_role && !cordoned
}

/// True if nothing that is read here has changed, as when a kubelet only says that it lives: nothing is chosen anew.
pub(super) fn same(old: &Entry<Node>, new: &Entry<Node>) -> bool {
    old.view == new.view && old.object.deletion_timestamp == new.object.deletion_timestamp
}

/// True if load balancers without a node selector may have to know of this change.
///
/// Upstream waits for another reason when a node is about to leave (deletion, autoscaler's taint); here it goes at once.
pub fn matters(old: &Entry<Node>, new: &Entry<Node>, rules: NodeRules) -> bool {
    let was = eligible(old, rules);
    let is = eligible(new, rules);
    was != is || (is && old.view.provider_id != new.view.provider_id)
}

/// True if a service selects the one and not the other.
pub(super) fn selects_one(service: &ServiceEntry, old: &Entry<Node>, new: &Entry<Node>) -> bool {
    let selector = &service.view.node_selector;
    !selector.selects_all() && selector.matches(&old.view.labels) != selector.matches(&new.view.labels)
}

/// As Go's `strconv.ParseBool`.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// What a set is known by. It shares with the one before what is the same: mostly all, since most changes of nodes are none
/// to load balancers.
fn ids(nodes: &NodeSet, before: Option<&NodeIds>) -> NodeIds {
    let mut known = before.into_iter().flat_map(|before| before.iter()).peekable();
    let id = |node: &Arc<skydock_cloud::Node>| {
        while known.next_if(|id| id.0 < node.name).is_some() {}
        let same = known.next_if(|id| id.0 == node.name && id.1 == node.provider_id);
        same.map_or_else(|| Arc::new((node.name.clone(), node.provider_id.clone())), Arc::clone)
    };
    let ids: NodeIds = nodes.iter().map(id).collect();
    before.filter(|before| **before == ids).map_or(ids, Arc::clone)
}

/// Chooses nodes. A choice is made once for each state of the cache, and shared by all services that make the same.
pub(super) struct Selection {
    nodes: Arc<Informer<Node>>,
    rules: NodeRules,
    version: AtomicU64,
    choices: Mutex<Option<Choices>>,
}

/// What was chosen for one state of the cache.
struct Choices {
    version: u64,
    /// All that may be behind load balancers.
    eligible: (NodeSet, NodeIds),
    /// Those of them that a selector takes. A cluster has a few selectors.
    selected: Vec<(Selector, (NodeSet, NodeIds))>,
}

impl Selection {
    pub(super) fn new(nodes: Arc<Informer<Node>>, rules: NodeRules) -> Self {
        Self { nodes, rules, version: AtomicU64::new(0), choices: Mutex::default() }
    }

    /// To be called after each change of a node.
    pub(super) fn nodes_changed(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// The nodes for the load balancer of this service as they are now.
    pub(super) fn of(&self, service: &ServiceEntry) -> (NodeSet, NodeIds) {
        let mut choices = self.choices.lock().unwrap_or_else(PoisonError::into_inner);
        // Read before the list, which may then be newer than this says, but never older.
        let version = self.version.load(Ordering::SeqCst);
        let known = choices.take();
        let current = match known {
            Some(known) if known.version == version => known,
            known => Choices { version, eligible: self.eligible(known.as_ref()), selected: Vec::new() },
        };
        let current = choices.insert(current);
        let selector = &service.view.node_selector;
        if selector.selects_all() {
            return current.eligible.clone();
        }
        if let Some((_, chosen)) = current.selected.iter().find(|(known, _)| known == selector) {
            return chosen.clone();
        }
        let nodes: NodeSet = current.eligible.0.iter().filter(|node| selector.matches(&node.labels)).cloned().collect();
        let ids = ids(&nodes, Some(&current.eligible.1));
        current.selected.push((selector.clone(), (Arc::clone(&nodes), Arc::clone(&ids))));
        (nodes, ids)
    }

    fn eligible(&self, before: Option<&Choices>) -> (NodeSet, NodeIds) {
        let list = self.nodes.list();
        let may_be = list.iter().filter(|entry| eligible(entry, self.rules));
        let nodes: NodeSet = may_be.map(|entry| Arc::clone(&entry.view)).collect();
        let ids = ids(&nodes, before.map(|before| &before.eligible.1));
        (nodes, ids)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        constants::ANNOTATION_NODE_SELECTOR,
        testing::{node, with},
    };

    fn entry(change: &Value) -> Entry<Node> {
        let plain = with(&node("a"), &json!({"spec": {"taints": null, "providerID": "fake://a"}}));
        Entry::new(with(&plain, change))
    }

    fn excluded(value: &str) -> Value {
        json!({"metadata": {"labels": {LABEL_EXCLUDE_FROM_LB: value}}})
    }

    fn leaving() -> Value {
        json!({"spec": {"taints": [{"key": TAINT_TO_BE_DELETED, "effect": "NoSchedule"}]}})
    }

    fn deleted() -> Value {
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    }

    #[test]
    fn s55_s56_s57_eligible_nodes() {
        for (change, expected) in [
            (json!({}), true),
            (json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}), true),
            (json!({"spec": {"providerID": null}}), true),
            (json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}), true),
            (excluded(""), false),
            (excluded("true"), false),
            (excluded("foo"), false),
            (excluded("false"), true),
            (excluded("0"), true),
            (excluded("f"), true),
            (leaving(), false),
            (deleted(), false),
        ] {
            assert_eq!(eligible(&entry(&change), NodeRules::default()), expected, "{change}");
        }
        assert!(eligible(&Entry::new(node("a")), NodeRules::default()), "uninitialised");
    }

    #[test]
    fn a_heartbeat_changes_no_choice() {
        let plain = entry(&json!({}));
        let heartbeat = json!({
            "metadata": {"resourceVersion": "2"}, "status": {"conditions": [{"type": "MemoryPressure", "status": "False"}]},
        });
        assert!(same(&plain, &entry(&heartbeat)));
        for change in [excluded(""), leaving(), deleted(), json!({"spec": {"providerID": "fake://b"}})] {
            assert!(!same(&plain, &entry(&change)), "{change}");
        }
    }

    #[test]
    fn s45_s58_s59_changes_that_matter_to_load_balancers() {
        let plain = json!({});
        for (old, new, expected) in [
            (plain.clone(), excluded("true"), true),
            (excluded("true"), plain.clone(), true),
            (excluded("true"), excluded("foo"), false),
            (json!({"spec": {"providerID": null}}), plain.clone(), true),
            (plain.clone(), json!({"spec": {"providerID": "fake://b"}}), true),
            (plain.clone(), leaving(), true),
            (plain.clone(), deleted(), true),
            (plain.clone(), json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}), false),
            (plain.clone(), json!({"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}), false),
            (plain.clone(), json!({"metadata": {"labels": {"x": "y"}}}), false),
            (plain.clone(), json!({"status": {"addresses": []}}), false),
        ] {
            assert_eq!(matters(&entry(&old), &entry(&new), NodeRules::default()), expected, "{old} > {new}");
        }
    }

    #[test]
    fn s45_upstreams_cases_of_a_changed_node() {
        let machine = |id: Value| json!({"spec": {"providerID": id}});
        let taints = |taints: Value| json!({"spec": {"taints": taints}});
        let ready = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
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
            (json!({}), json!({"metadata": {"labels": {"x": "y"}}}), false),
        ];
        let noise = [
            (json!({}), json!({})),
            (taints(json!(null)), taints(other.clone())),
            (taints(other), taints(json!(null))),
            (ready("False"), ready("True")),
            (ready("True"), ready("Unknown")),
            (json!({}), json!({"status": {"conditions": [{"type": "DiskPressure", "status": "True"}]}})),
        ];
        let both = |one: &Value, two: &Value, three: &Value| entry(&with(&with(one, two), three));
        for (provider, label) in providers.iter().flat_map(|provider| labels.iter().map(move |label| (provider, label)))
        {
            for (before, after) in &noise {
                let (old, new) = (both(&provider.0, &label.0, before), both(&provider.1, &label.1, after));
                let expected = provider.2 || label.2;
                assert_eq!(matters(&old, &new, NodeRules::default()), expected, "{old:?} > {new:?}");
            }
        }
        // Upstream takes it for a change; no load balancer has such a node.
        let hidden = |id: &str| entry(&with(&machine(json!(id)), &excluded("true")));
        assert!(!matters(&hidden("fake://a"), &hidden("fake://b"), NodeRules::default()));
    }

    #[test]
    fn nodes_of_the_control_plane_and_cordoned_ones_are_left_out_only_by_rule() {
        let master = json!({"metadata": {"labels": {LABEL_CONTROL_PLANE: ""}}});
        let cordoned = json!({
            "spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]},
        });
        let tainted =
            json!({"spec": {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}});
        for (exclude_control_plane, exclude_unschedulable) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let rules = NodeRules { exclude_control_plane, exclude_unschedulable };
            assert_eq!(eligible(&entry(&master), rules), !exclude_control_plane, "{rules:?}");
            assert_eq!(eligible(&entry(&cordoned), rules), !exclude_unschedulable, "{rules:?}");
            assert_eq!(matters(&entry(&json!({})), &entry(&cordoned), rules), exclude_unschedulable, "{rules:?}");
            assert!(eligible(&entry(&json!({})), rules) && eligible(&entry(&tainted), rules), "{rules:?}");
        }
    }

    #[test]
    fn services_that_make_the_same_choice_share_it() {
        let nodes = Arc::new(Informer::default());
        let selection = Selection::new(Arc::clone(&nodes), NodeRules::default());
        nodes.apply(with(&node("a"), &json!({"metadata": {"labels": {"pool": "edge"}}})));
        nodes.apply(node("b"));
        let service = |name: &str, selector: Option<&str>| {
            let annotations = selector.map(|selector| json!({ANNOTATION_NODE_SELECTOR: selector}));
            let change = json!({"metadata": {"annotations": annotations}});
            Arc::new(Entry::new(with(&crate::testing::service(name), &change)))
        };
        let chosen = |service: &ServiceEntry| {
            let (nodes, ids) = selection.of(service);
            assert!(nodes.iter().map(|node| &node.name).eq(ids.iter().map(|id| &id.0)));
            (nodes, ids)
        };
        for (selector, names) in [(None, 2), (Some("pool=edge"), 1), (Some("pool!=edge"), 1), (Some("pool=x"), 0)] {
            let (one, other) = (chosen(&service("one", selector)), chosen(&service("other", selector)));
            assert_eq!(one.0.len(), names, "{selector:?}");
            assert!(Arc::ptr_eq(&one.0, &other.0) && Arc::ptr_eq(&one.1, &other.1), "{selector:?}");
        }
        nodes.delete("a");
        selection.nodes_changed();
        assert_eq!(chosen(&service("one", Some("pool=edge"))).0.len(), 0);
        assert_eq!(chosen(&service("one", None)).0.len(), 1);
    }

    #[test]
    fn while_the_nodes_are_the_same_their_list_is_shared() {
        let nodes = Arc::new(Informer::default());
        let selection = Selection::new(Arc::clone(&nodes), NodeRules::default());
        let service = Arc::new(Entry::new(crate::testing::service("web")));
        nodes.apply(node("a"));
        selection.nodes_changed();
        let (_, first) = selection.of(&service);
        let ready = json!({"metadata": {"resourceVersion": "2"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        nodes.apply(with(&node("a"), &ready));
        selection.nodes_changed();
        let (fresh, second) = selection.of(&service);
        assert!(fresh[0].ready && Arc::ptr_eq(&first, &second));
        for name in ["B", "b"] {
            nodes.apply(node(name));
        }
        selection.nodes_changed();
        let (_, third) = selection.of(&service);
        let names = |ids: &NodeIds| ids.iter().map(|id| id.0.clone()).collect::<Vec<_>>();
        assert_eq!(names(&third), ["B", "a", "b"]);
        assert!(Arc::ptr_eq(&first[0], &third[1]), "also if others come, what is the same is shared");
        let moved = json!({"metadata": {"resourceVersion": "3"}, "spec": {"providerID": "fake://moved"}});
        nodes.apply(with(&node("a"), &moved));
        nodes.delete("B");
        selection.nodes_changed();
        let (_, fourth) = selection.of(&service);
        assert_eq!(names(&fourth), ["a", "b"]);
        assert_eq!(fourth[0].1.as_deref(), Some("fake://moved"));
        assert!(Arc::ptr_eq(&fourth[1], &third[2]));
    }
}
