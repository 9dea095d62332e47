//! Which nodes are behind a load balancer.

use std::{
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use k8s_openapi::api::core::v1::Node;
use kube::core::{Selector, SelectorExt};
use skydock_cloud::NodeSet;

use super::{NodeRules, ServiceEntry};
use crate::{
    constants::{LABEL_CONTROL_PLANE, LABEL_EXCLUDE_FROM_LB, TAINT_SHUTDOWN, TAINT_TO_BE_DELETED},
    informer::{Entry, Informer},
};

/// True if a node may be behind load balancers. Whether it is ready is for health checks to find out; but no health check is needed where
/// the cloud says that the machine is stopped, and AWS refuses such a target.
///
/// A cordoned node is left out only where that is asked for: it may go on serving for a long time, and whoever cordons all
/// old nodes before their Pods move would cut off everything. The autoscaler's `DeletionCandidateOfClusterAutoscaler` is no
/// reason either: it is taken back when the node is needed.
pub fn eligible(entry: &Entry<Node>, rules: NodeRules) -> bool {
    let node = &entry.view;
    let excluded = node.labels.get(LABEL_EXCLUDE_FROM_LB).is_some_and(|value| !is_false(value));
    let has = |key: &str| node.taints.iter().any(|taint| taint.key == key);
    // A node that is ready runs, whatever is left on it.
    let leaving = has(TAINT_TO_BE_DELETED) || (has(TAINT_SHUTDOWN) && !node.ready);
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

/// What Go's `strconv.ParseBool` takes for false. All else, also what it does not understand, stands for true here.
fn is_false(text: &str) -> bool {
    matches!(text, "0" | "f" | "F" | "FALSE" | "false" | "False")
}

/// What a load balancer knows its nodes by, their names and provider IDs, as a keyed hash of 128 bits. While nodes come and go
/// each of thousands of load balancers was told of another set of thousands: the sets themselves would fill the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint(u64, u64);

/// Nodes for a load balancer.
#[derive(Clone)]
pub(super) struct Choice {
    pub(super) nodes: NodeSet,
    pub(super) fingerprint: Fingerprint,
}

/// Chooses nodes. A choice is made once for each state of the cache, and shared by all services that make the same.
///
/// There are two versions, since most changes of a node are of no interest to load balancers: which nodes are chosen follows
/// the one, and only who is about to tell the cloud needs the nodes as the other has them.
pub(super) struct Selection {
    nodes: Arc<Informer<Node>>,
    rules: NodeRules,
    keys: (RandomState, RandomState),
    /// Of what decides which nodes are chosen.
    version: AtomicU64,
    /// Of all that is told of a node.
    views: AtomicU64,
    choices: Mutex<Option<Arc<Choices>>>,
    /// Held while a choice is made, so that of many that need it one makes it. To wait for it holds up no thread.
    making: tokio::sync::Mutex<()>,
}

/// What was chosen for one state of the cache.
#[derive(Clone)]
struct Choices {
    version: u64,
    views: u64,
    /// All that may be behind load balancers.
    eligible: Choice,
    /// Those of them that a selector takes. A cluster has a few selectors.
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
    pub(super) fn new(nodes: Arc<Informer<Node>>, rules: NodeRules) -> Self {
        let keys = (RandomState::new(), RandomState::new());
        let (version, views) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { nodes, rules, keys, version, views, choices: Mutex::default(), making: tokio::sync::Mutex::default() }
    }

    /// To be called after each change of a node; `chosen` if it may decide which nodes are chosen.
    pub(super) fn changed(&self, chosen: bool) {
        self.views.fetch_add(1, Ordering::SeqCst);
        if chosen {
            self.version.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Which nodes are for the load balancer of this service now.
    pub(super) async fn fingerprint(&self, service: &ServiceEntry) -> Fingerprint {
        self.choose(&service.view.node_selector, false).await.fingerprint
    }

    /// The nodes for the load balancer of this service, as they are now.
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
        // Read before the list, which may then be newer than this says, but never older.
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

    /// A choice that was made before, and holds.
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

    fn entry(change: &Value) -> Entry<Node> {
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
            (tainted(TAINT_SHUTDOWN), false),
            (ready(&tainted(TAINT_SHUTDOWN)), true),
            (tainted("node.kubernetes.io/unreachable"), true),
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

    fn choosing(name: &str, selector: Option<&str>) -> ServiceEntry {
        let annotations = selector.map(|selector| json!({ANNOTATION_NODE_SELECTOR: selector}));
        let change = json!({"metadata": {"annotations": annotations}});
        Arc::new(Entry::new(with(&crate::testing::service(name), &change)))
    }

    #[tokio::test]
    async fn services_that_make_the_same_choice_share_it() {
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
    async fn only_what_decides_is_chosen_anew_and_nodes_are_told_as_now() {
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
        assert!(Arc::ptr_eq(&selection.known().unwrap().eligible.nodes, &first.nodes), "nothing was chosen anew");
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
    async fn a_selector_that_comes_later_sees_labels_as_they_are_now() {
        let nodes = Arc::new(Informer::default());
        let selection = Selection::new(Arc::clone(&nodes), NodeRules::default());
        nodes.apply(node("a"));
        selection.changed(true);
        selection.of(&choosing("all", None)).await;
        // Nobody asked for this label when it came.
        nodes.apply(with(&node("a"), &json!({"metadata": {"resourceVersion": "2", "labels": {"pool": "edge"}}})));
        selection.changed(false);
        assert_eq!(selection.of(&choosing("edge", Some("pool=edge"))).await.nodes.len(), 1);
    }
}
