//! Selects the nodes behind a load balancer.

use std::{
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use kube::core::{Selector, SelectorExt};
use skydock_cloud::NodeSet;
use skydock_kube::informer::{Entry, Informer};

use super::{NodeRules, ServiceEntry};
use crate::constants::{LABEL_CONTROL_PLANE, LABEL_EXCLUDE_FROM_LB, TAINT_SHUTDOWN, TAINT_TO_BE_DELETED};
use crate::kinds::NodeKind;

/// Returns true if a node may be behind load balancers. Whether it is ready is left to health checks. A node whose instance is
/// reported as stopped needs no health check, and AWS rejects it as a target.
///
/// A cordoned node is excluded only if this is configured: it may serve for a long time, and cordoning all old nodes before
/// their Pods are moved would cut off all traffic. The autoscaler's taint `DeletionCandidateOfClusterAutoscaler` does not
/// exclude a node either: it is removed when the node is needed.
pub fn eligible(entry: &Entry<NodeKind>, rules: NodeRules) -> bool {
    let node = &entry.view;
    let excluded = node.labels.get(LABEL_EXCLUDE_FROM_LB).is_some_and(|value| !is_false(value));
    let has = |key: &str| node.taints.iter().any(|taint| taint.key == key);
    // A node that is ready is running, whatever taints are left on it.
    let leaving = has(TAINT_TO_BE_DELETED) || (has(TAINT_SHUTDOWN) && !node.ready);
    let by_role = rules.exclude_control_plane && node.labels.contains_key(LABEL_CONTROL_PLANE);
    let cordoned = rules.exclude_unschedulable && node.unschedulable;
    entry.object.deletion_timestamp.is_none() && !excluded && !leaving && !by_role && !cordoned
}

/// Returns true if nothing that is read here has changed, for example after a heartbeat: then no new selection is needed.
pub(super) fn same(old: &Entry<NodeKind>, new: &Entry<NodeKind>) -> bool {
    old.view == new.view && old.object.deletion_timestamp == new.object.deletion_timestamp
}

/// Returns true if this change may affect load balancers without a node selector.
///
/// Upstream does not react when a node is about to leave (deletion, autoscaler's taint) until something else changes; here, the
/// node is removed at once.
pub fn matters(old: &Entry<NodeKind>, new: &Entry<NodeKind>, rules: NodeRules) -> bool {
    let was = eligible(old, rules);
    let is = eligible(new, rules);
    was != is || (is && old.view.provider_id != new.view.provider_id)
}

/// Returns true for texts that Go's `strconv.ParseBool` parses as false. All others count as true here, even invalid ones.
fn is_false(text: &str) -> bool {
    matches!(text, "0" | "f" | "F" | "FALSE" | "false" | "False")
}

/// Identifies the nodes of a load balancer, by their names and provider IDs, as a keyed hash of 128 bits. While nodes are added
/// and removed, each of thousands of load balancers was last updated with a different set of thousands of nodes: storing the
/// sets would fill the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint(u64, u64);

/// Nodes for a load balancer.
#[derive(Clone)]
pub(super) struct Choice {
    pub(super) nodes: NodeSet,
    pub(super) fingerprint: Fingerprint,
}

/// Selects nodes. A selection is made once for each state of the cache, and shared by all Services with the same selector.
///
/// There are two versions, because most changes of nodes do not affect which nodes are selected: `version` determines the
/// selected nodes, while `views` is only needed to send their current data to the cloud.
pub(super) struct Selection {
    nodes: Arc<Informer<NodeKind>>,
    rules: NodeRules,
    keys: (RandomState, RandomState),
    /// Counts changes that may affect which nodes are selected.
    version: AtomicU64,
    /// Counts all changes of nodes.
    views: AtomicU64,
    choices: Mutex<Option<Arc<Choices>>>,
    /// Locked while a selection is made, so that it is made only once if several tasks need it. Waiting for it does not block a
    /// thread.
    making: tokio::sync::Mutex<()>,
}

/// Selections for one state of the cache.
#[derive(Clone)]
struct Choices {
    version: u64,
    views: u64,
    /// All nodes that may be behind load balancers.
    eligible: Choice,
    /// Those of them that each selector matches. A cluster has few selectors.
    selected: Vec<(Selector, Choice)>,
}

impl Choices {
    fn get(&self, selector: &Selector) -> Option<&Choice> {
        if selector.selects_all() {
            return Some(&self.eligible);
        }
        self.selected.iter().find(|(known, _)| known == selector).map(|(_, choice)| choice)
    }
}

impl Selection {
    pub(super) fn new(nodes: Arc<Informer<NodeKind>>, rules: NodeRules) -> Self {
        let keys = (RandomState::new(), RandomState::new());
        let (version, views) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { nodes, rules, keys, version, views, choices: Mutex::default(), making: tokio::sync::Mutex::default() }
    }

    /// Must be called after each change of a node; `chosen` says whether the change may affect which nodes are selected.
    pub(super) fn changed(&self, chosen: bool) {
        self.views.fetch_add(1, Ordering::SeqCst);
        if chosen {
            self.version.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Returns the fingerprint of the current nodes for the load balancer of this Service.
    pub(super) async fn fingerprint(&self, service: &ServiceEntry) -> Fingerprint {
        self.choose(&service.view.node_selector, false).await.fingerprint
    }

    /// Returns the current nodes for the load balancer of this Service.
    pub(super) async fn of(&self, service: &ServiceEntry) -> Choice {
        self.choose(&service.view.node_selector, true).await
    }

    async fn choose(&self, selector: &Selector, as_now: bool) -> Choice {
        if let Some(choice) = self.made(selector, as_now) {
            return choice;
        }
        let _making = self.making.lock().await;
        if let Some(choice) = self.made(selector, as_now) {
            return choice;
        }
        // Read before the list, which may then be newer than these versions, but never older.
        let (version, views) = (self.version.load(Ordering::SeqCst), self.views.load(Ordering::SeqCst));
        let known = self.known();
        let mut choices = match known {
            Some(known) if known.version == version && known.views == views => Choices::clone(&known),
            known => {
                let same = known.filter(|known| known.version == version).map(|known| known.eligible.fingerprint);
                Choices { version, views, eligible: self.eligible(same), selected: Vec::new() }
            }
        };
        let choice = choices.get(selector).cloned().unwrap_or_else(|| {
            let all = choices.eligible.nodes.iter();
            let nodes: NodeSet = all.filter(|node| selector.matches(&node.labels)).cloned().collect();
            let choice = Choice { fingerprint: self.hash(&nodes), nodes };
            choices.selected.push((selector.clone(), choice.clone()));
            choice
        });
        *self.choices.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(choices));
        choice
    }

    /// Returns an existing selection that is still valid.
    fn made(&self, selector: &Selector, as_now: bool) -> Option<Choice> {
        let (version, views) = (self.version.load(Ordering::SeqCst), self.views.load(Ordering::SeqCst));
        let known = self.known().filter(|known| known.version == version && (!as_now || known.views == views))?;
        known.get(selector).cloned()
    }

    fn known(&self) -> Option<Arc<Choices>> {
        self.choices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn eligible(&self, same: Option<Fingerprint>) -> Choice {
        let list = self.nodes.list();
        let may_be = list.iter().filter(|entry| eligible(entry, self.rules));
        let nodes: NodeSet = may_be.map(|entry| Arc::clone(&entry.view)).collect();
        Choice { fingerprint: same.unwrap_or_else(|| self.hash(&nodes)), nodes }
    }

    fn hash(&self, nodes: &NodeSet) -> Fingerprint {
        let hash = |key: &RandomState| {
            let mut hasher = key.build_hasher();
            nodes.iter().for_each(|node| (&node.name, &node.provider_id).hash(&mut hasher));
            hasher.finish()
        };
        Fingerprint(hash(&self.keys.0), hash(&self.keys.1))
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

    fn entry(change: &Value) -> Entry<NodeKind> {
        let plain = with(&node("a"), &json!({"spec": {"taints": null, "providerID": "fake://a"}}));
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
            (tainted(TAINT_SHUTDOWN), false),
            (ready(&tainted(TAINT_SHUTDOWN)), true),
            (tainted("node.kubernetes.io/unreachable"), true),
            (deleted(), false),
        ] {
            assert_eq!(eligible(&entry(&change), NodeRules::default()), expected, "{change}");
        }
        assert!(eligible(&Entry::new(node("a")), NodeRules::default()), "uninitialized");
    }

    #[test]
    fn a_heartbeat_does_not_change_the_node_selection() {
        let plain = entry(&json!({}));
        let heartbeat = json!({
            "metadata": {"resourceVersion": "2"}, "status": {"conditions": [{"type": "MemoryPressure", "status": "False"}]},
        });
        assert!(same(&plain, &entry(&heartbeat)));
        for change in [excluded(""), leaving(), deleted(), json!({"spec": {"providerID": "fake://b"}})] {
            assert!(!same(&plain, &entry(&change)), "{change}");
        }
    }

    // Holds: S-45, S-58, S-59
    #[test]
    fn only_eligibility_and_provider_id_matter_to_load_balancers() {
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

    // Holds: S-45
    #[test]
    fn upstreams_cases_of_a_changed_node() {
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
        // Upstream treats it as a change; but no load balancer has such a node.
        let hidden = |id: &str| entry(&with(&machine(json!(id)), &excluded("true")));
        assert!(!matters(&hidden("fake://a"), &hidden("fake://b"), NodeRules::default()));
    }

    #[test]
    fn control_plane_and_cordoned_nodes_are_excluded_only_by_rule() {
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

    fn choosing(name: &str, selector: Option<&str>) -> ServiceEntry {
        let annotations = selector.map(|selector| json!({ANNOTATION_NODE_SELECTOR: selector}));
        let change = json!({"metadata": {"annotations": annotations}});
        Arc::new(Entry::new(with(&crate::testing::service(name), &change)))
    }

    #[tokio::test]
    async fn services_with_equal_selectors_share_a_node_set() {
        let nodes = Arc::new(Informer::default());
        let selection = Selection::new(Arc::clone(&nodes), NodeRules::default());
        nodes.apply(with(&node("a"), &json!({"metadata": {"labels": {"pool": "edge"}}})));
        nodes.apply(node("b"));
        let mut seen = Vec::new();
        for (selector, names) in [(None, 2), (Some("pool=edge"), 1), (Some("pool!=edge"), 1), (Some("pool=x"), 0)] {
            let one = selection.of(&choosing("one", selector)).await;
            let other = selection.of(&choosing("other", selector)).await;
            assert_eq!(one.nodes.len(), names, "{selector:?}");
            assert!(Arc::ptr_eq(&one.nodes, &other.nodes) && one.fingerprint == other.fingerprint, "{selector:?}");
            assert_eq!(selection.fingerprint(&choosing("one", selector)).await, one.fingerprint, "{selector:?}");
            assert!(!seen.contains(&one.fingerprint), "{selector:?}");
            seen.push(one.fingerprint);
        }
        let edge = selection.of(&choosing("one", Some("pool=edge"))).await;
        selection.of(&choosing("one", Some("pool=y"))).await;
        let still = selection.of(&choosing("one", Some("pool=edge"))).await;
        assert!(Arc::ptr_eq(&edge.nodes, &still.nodes), "another choice takes away none");
        nodes.delete("a");
        selection.changed(true);
        assert_eq!(selection.of(&choosing("one", Some("pool=edge"))).await.nodes.len(), 0);
        assert_eq!(selection.of(&choosing("one", None)).await.nodes.len(), 1);
    }

    #[tokio::test]
    async fn node_sets_are_recomputed_only_for_relevant_changes() {
        let nodes = Arc::new(Informer::default());
        let selection = Selection::new(Arc::clone(&nodes), NodeRules::default());
        let service = choosing("web", None);
        nodes.apply(node("a"));
        selection.changed(true);
        let first = selection.of(&service).await;
        let ready = json!({"metadata": {"resourceVersion": "2"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        nodes.apply(with(&node("a"), &ready));
        selection.changed(false);
        assert_eq!(selection.fingerprint(&service).await, first.fingerprint);
        assert!(Arc::ptr_eq(&selection.known().unwrap().eligible.nodes, &first.nodes), "nothing was selected again");
        let now = selection.of(&service).await;
        assert!(now.nodes[0].ready && now.fingerprint == first.fingerprint);

        let moved = json!({"metadata": {"resourceVersion": "3"}, "spec": {"providerID": "fake://moved"}});
        nodes.apply(with(&node("a"), &moved));
        selection.changed(true);
        let moved = selection.of(&service).await;
        assert_ne!(moved.fingerprint, first.fingerprint);
        nodes.apply(node("b"));
        selection.changed(true);
        assert_ne!(selection.fingerprint(&service).await, moved.fingerprint);
        nodes.delete("b");
        selection.changed(true);
        assert_eq!(selection.fingerprint(&service).await, moved.fingerprint, "the same nodes are the same set");
    }

    #[tokio::test]
    async fn a_later_selector_sees_the_current_labels() {
        let nodes = Arc::new(Informer::default());
        let selection = Selection::new(Arc::clone(&nodes), NodeRules::default());
        nodes.apply(node("a"));
        selection.changed(true);
        selection.of(&choosing("all", None)).await;
        // No selector used this label when it was added.
        nodes.apply(with(&node("a"), &json!({"metadata": {"resourceVersion": "2", "labels": {"pool": "edge"}}})));
        selection.changed(false);
        assert_eq!(selection.of(&choosing("edge", Some("pool=edge"))).await.nodes.len(), 1);
    }
}
