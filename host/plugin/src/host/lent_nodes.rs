//! Data that is kept about the nodes that calls are lent.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use skydock_cloud as cloud;

use crate::{
    bindings::skydock::provider::node_sets::{NodeChanges, Target},
    convert,
};

/// Number of sets whose targets are kept. Each Service that selects its nodes has its own set.
const KEPT: usize = 4;

/// A set, which may have been dropped, and its targets.
type Kept = (Weak<[Arc<cloud::Node>]>, Arc<[Target]>);

/// The targets of the most recently used sets of one plugin, the latest at the end.
#[derive(Default)]
pub(crate) struct Targets(Mutex<Vec<Kept>>);

impl Targets {
    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the targets of these nodes.
    pub(super) fn of(&self, nodes: &cloud::NodeSet) -> Arc<[Target]> {
        if let Some(targets) = self.find(nodes) {
            return targets;
        }
        // Without the lock, because this takes a while and other calls may need other sets.
        let targets: Arc<[Target]> = nodes.iter().map(|node| convert::target(node)).collect();
        let mut kept = self.kept();
        kept.retain(|(set, _)| set.strong_count() > 0 && !is(set, nodes));
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push((Arc::downgrade(nodes), Arc::clone(&targets)));
        targets
    }

    fn find(&self, nodes: &cloud::NodeSet) -> Option<Arc<[Target]>> {
        let mut kept = self.kept();
        let at = kept.iter().position(|(set, _)| is(set, nodes))?;
        let found = kept.remove(at);
        let targets = Arc::clone(&found.1);
        kept.push(found);
        Some(targets)
    }
}

/// Number of Services whose last nodes are kept. If it is exceeded, all are forgotten, and the next calls fill the map again.
const REMEMBERED: usize = 16_384;

/// The nodes of the last successful call for each Service, with the generation that handled it.
#[derive(Default)]
pub(crate) struct LastNodes(Mutex<HashMap<String, (u64, cloud::NodeSet)>>);

impl LastNodes {
    fn known(&self) -> MutexGuard<'_, HashMap<String, (u64, cloud::NodeSet)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes and returns those of the Service with this UID. They stay unknown until a call succeeds, because a failed call may have
    /// applied a part of them.
    pub(crate) fn take(&self, uid: &str, generation: u64) -> Option<cloud::NodeSet> {
        self.known().remove(uid).filter(|(number, _)| *number == generation).map(|(_, nodes)| nodes)
    }

    /// Records the nodes of a successful call.
    pub(crate) fn set(&self, uid: &str, generation: u64, nodes: &cloud::NodeSet) {
        let mut known = self.known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(uid.to_owned(), (generation, Arc::clone(nodes)));
    }
}

/// Returns the difference between two sets, each ordered by name.
pub(super) fn changes(before: &[Arc<cloud::Node>], now: &[Arc<cloud::Node>]) -> NodeChanges {
    let same = |one: &cloud::Node, other: &cloud::Node| {
        one.provider_id == other.provider_id && one.addresses == other.addresses
    };
    // Most nodes are the same object, so comparing pointers is enough.
    let kept = |node: &Arc<cloud::Node>, others: &[Arc<cloud::Node>]| {
        let found = others.binary_search_by(|other| other.name.cmp(&node.name)).ok().and_then(|at| others.get(at));
        found.is_some_and(|other| Arc::ptr_eq(node, other) || same(node, other))
    };
    let missing = |from: &[Arc<cloud::Node>], others: &[Arc<cloud::Node>]| -> Vec<Target> {
        from.iter().filter(|node| !kept(node, others)).map(|node| convert::target(node)).collect()
    };
    NodeChanges { added: missing(now, before), removed: missing(before, now) }
}

fn is(set: &Weak<[Arc<cloud::Node>]>, nodes: &cloud::NodeSet) -> bool {
    std::ptr::addr_eq(set.as_ptr(), Arc::as_ptr(nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_shared_by_calls_with_the_same_nodes() {
        let set = |name: &str| {
            let labels = [("topology.kubernetes.io/zone".to_owned(), name.to_owned())].into();
            cloud::NodeSet::from([Arc::new(cloud::Node { name: name.into(), labels, ..cloud::Node::default() })])
        };
        let (targets, one, other) = (Targets::default(), set("a"), set("b"));
        let first = targets.of(&one);
        assert_eq!((first[0].name.as_str(), first[0].zone.as_deref()), ("a", Some("a")));
        assert!(Arc::ptr_eq(&first, &targets.of(&Arc::clone(&one))));
        assert_eq!(targets.of(&other)[0].name, "b");
        assert_eq!(targets.of(&set("a"))[0].name, "a");
        assert_eq!(targets.of(&set(""))[0].zone, None, "an empty label says nothing");
    }

    #[test]
    fn changes_are_detected_by_name_and_provider_id() {
        let node = |name: &str, id: &str| {
            Arc::new(cloud::Node { name: name.into(), provider_id: Some(id.into()), ..cloud::Node::default() })
        };
        let (stays, ready) = (node("a", "1"), Arc::new(cloud::Node { ready: true, ..(*node("b", "2")).clone() }));
        let before = [Arc::clone(&stays), node("b", "2"), node("c", "3"), node("d", "4")];
        let now = [stays, ready, node("c", "5"), node("e", "6")];
        let names = |all: Vec<Target>| -> Vec<_> {
            all.into_iter().map(|it| format!("{}={}", it.name, it.provider_id.unwrap_or_default())).collect()
        };
        let found = changes(&before, &now);
        assert_eq!(
            (names(found.added), names(found.removed)),
            (vec!["c=5".into(), "e=6".into()], vec!["c=3".into(), "d=4".into()])
        );
        let none = changes(&now, &now);
        assert!(none.added.is_empty() && none.removed.is_empty());
    }

    #[test]
    fn last_nodes_are_kept_only_after_success_of_the_same_plugin() {
        let (last, nodes) = (LastNodes::default(), cloud::NodeSet::from([Arc::default()]));
        assert!(last.take("u", 1).is_none());
        last.set("u", 1, &nodes);
        assert!(Arc::ptr_eq(&last.take("u", 1).unwrap(), &nodes));
        assert!(last.take("u", 1).is_none(), "until a call has succeeded again");
        last.set("u", 1, &nodes);
        assert!(last.take("u", 2).is_none());
    }

    #[test]
    fn the_least_recently_used_node_set_is_evicted() {
        let targets = Targets::default();
        let sets: Vec<cloud::NodeSet> = (0..KEPT).map(|_| Arc::from([Arc::default()])).collect();
        let first: Vec<_> = sets.iter().map(|set| targets.of(set)).collect();
        for (set, made) in sets.iter().zip(&first) {
            assert!(Arc::ptr_eq(&targets.of(set), made), "made once");
        }
        let other: cloud::NodeSet = Arc::from([Arc::default()]);
        targets.of(&other);
        assert!(!Arc::ptr_eq(&targets.of(&sets[0]), &first[0]), "the one that was asked for longest ago gave way");
        drop((sets, other));
        targets.of(&Arc::from([Arc::default()]));
        assert_eq!(targets.kept().len(), 1, "sets that are gone are forgotten");
    }
}
