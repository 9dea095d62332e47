//! The nodes that calls are lent: their targets, which are kept for later calls, who reads more of
//! them, and those of the last call for a Service.

use std::{
    any::Any,
    collections::{HashMap, HashSet},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use skydock_cloud as cloud;

use crate::imports::State;

/// Number of sets whose targets are kept. Each Service that selects its nodes has its own set.
const KEPT: usize = 4;

/// A set, which may have been dropped, and its targets: a vector of the contract's type, or
/// [`Packed`].
type Kept = (Weak<[Arc<cloud::Node>]>, Arc<dyn Any + Send + Sync>);

/// The targets of the most recently used sets of one plugin.
#[derive(Default)]
pub(crate) struct Targets {
    /// The one used last is at the end.
    kept: Mutex<Vec<Kept>>,
    /// The last fingerprint.
    last: AtomicU64,
}

/// Targets in the form in which they are copied as a whole.
pub(crate) struct Packed<T> {
    /// Stands for these targets, and never for others.
    pub(crate) fingerprint: u64,
    pub(crate) targets: Arc<T>,
}

impl Targets {
    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock()
    }

    /// Returns the targets of these nodes.
    fn of<T: Send + Sync + 'static>(
        &self,
        nodes: &cloud::NodeSet,
        convert: impl Fn(&cloud::Node) -> T,
    ) -> Arc<Vec<T>> {
        if let Some(targets) = self.find(nodes) {
            return targets;
        }

        // Without the lock, because this takes a while and other calls may need other sets.
        let targets: Arc<Vec<T>> = Arc::new(nodes.iter().map(|node| convert(node)).collect());

        keep(&mut self.kept(), nodes, &targets);
        targets
    }

    /// Returns the targets of these nodes as `pack` makes them. Equal targets have the same
    /// fingerprint as long as they are kept.
    fn packed<T: PartialEq + Send + Sync + 'static>(
        &self,
        nodes: &cloud::NodeSet,
        pack: impl FnOnce(&cloud::NodeSet) -> T,
    ) -> Arc<Packed<T>> {
        if let Some(packed) = self.find(nodes) {
            return packed;
        }

        let targets = pack(nodes);

        let mut kept = self.kept();
        // Most changes of nodes make another set with equal targets. The set before may have been
        // dropped since, but is still there.
        let equal = kept
            .iter()
            .filter_map(|(_, it)| Arc::clone(it).downcast::<Packed<T>>().ok())
            .find(|it| *it.targets == targets);

        let packed = equal.unwrap_or_else(|| {
            Arc::new(Packed {
                fingerprint: self.last.fetch_add(1, Ordering::Relaxed),
                targets: Arc::new(targets),
            })
        });
        keep(&mut kept, nodes, &packed);
        packed
    }

    fn find<T: Send + Sync + 'static>(&self, nodes: &cloud::NodeSet) -> Option<Arc<T>> {
        let mut kept = self.kept();
        let at = kept
            .iter()
            .position(|(set, targets)| is(set, nodes) && targets.is::<T>())?;

        // At the end, because the set is the one used last.
        let found = kept.remove(at);
        let targets = Arc::clone(&found.1);
        kept.push(found);
        targets.downcast().ok()
    }
}

/// Keeps the targets of a set.
fn keep<T: Send + Sync + 'static>(kept: &mut Vec<Kept>, nodes: &cloud::NodeSet, targets: &Arc<T>) {
    // Another call may have converted the same nodes in the meantime.
    kept.retain(|(set, of)| set.strong_count() > 0 && !(is(set, nodes) && of.is::<T>()));
    if kept.len() >= KEPT {
        kept.remove(0);
    }

    let targets = Arc::clone(targets);
    kept.push((Arc::downgrade(nodes), targets));
}

impl State {
    /// Returns the nodes that the current call is lent.
    pub(crate) fn lent_nodes(&self) -> &cloud::NodeSet {
        &self.subject.nodes
    }

    /// Returns the targets of these nodes, which calls about the same nodes share.
    pub(crate) fn targets<T: Send + Sync + 'static>(
        &self,
        convert: impl Fn(&cloud::Node) -> T,
    ) -> Arc<Vec<T>> {
        self.shared.targets.of(&self.subject.nodes, convert)
    }

    /// Returns the same in the form that `pack` makes, with its fingerprint.
    pub(crate) fn packed<T: PartialEq + Send + Sync + 'static>(
        &self,
        pack: impl FnOnce(&cloud::NodeSet) -> T,
    ) -> Arc<Packed<T>> {
        self.shared.targets.packed(&self.subject.nodes, pack)
    }

    /// Returns the fingerprint of the targets. With a tape, none is ever repeated: a recording has
    /// the targets of each call, and does not depend on what the plugin remembers.
    pub(crate) fn fingerprint<T: PartialEq + Send + Sync + 'static>(
        &mut self,
        pack: impl FnOnce(&cloud::NodeSet) -> T,
    ) -> u64 {
        if self.tape.is_none() {
            return self.packed(pack).fingerprint;
        }

        self.fingerprints += 1;
        self.fingerprints
    }

    /// Returns the difference from the nodes of the last successful call; `None` if those are not
    /// known.
    pub(crate) fn changes<T>(&self, convert: impl Fn(&cloud::Node) -> T) -> Option<Changes<T>> {
        self.subject
            .before
            .as_ref()
            .map(|before| changes(before, &self.subject.nodes, convert))
    }
}

/// The Services, by UID, in whose calls the plugin has read whole nodes.
#[derive(Default)]
pub(crate) struct NodeReaders(Mutex<HashSet<String>>);

impl NodeReaders {
    /// Returns which fields of nodes the plugin has read for this Service.
    pub(crate) fn of(&self, uid: &str) -> cloud::NodeFields {
        if self.0.lock().contains(uid) {
            cloud::NodeFields::All
        } else {
            cloud::NodeFields::Target
        }
    }

    /// Forgets a Service.
    pub(crate) fn remove(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}

impl State {
    /// Records that the plugin reads whole nodes in the current call.
    pub(crate) fn add_node_reader(&self) {
        if let Some(uid) = self.subject.service_uid() {
            self.shared.node_readers.0.lock().insert(uid.to_owned());
        }
    }
}

/// Number of Services whose last nodes are kept. If it is exceeded, all are forgotten, and the next
/// calls fill the map again.
const REMEMBERED: usize = 16_384;

/// The nodes of the last successful call for each Service, with the generation that handled it.
#[derive(Default)]
pub(crate) struct LastNodes(Mutex<HashMap<String, (u64, cloud::NodeSet)>>);

impl LastNodes {
    fn known(&self) -> MutexGuard<'_, HashMap<String, (u64, cloud::NodeSet)>> {
        self.0.lock()
    }

    /// Removes and returns those of the Service with this UID. They stay unknown until a call
    /// succeeds, because a failed call may have applied a part of them.
    pub(crate) fn take(&self, uid: &str, generation: u64) -> Option<cloud::NodeSet> {
        self.known()
            .remove(uid)
            .filter(|(number, _)| *number == generation)
            .map(|(_, nodes)| nodes)
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

/// The difference between two sets of nodes.
pub(crate) struct Changes<T> {
    pub(crate) added: Vec<T>,
    pub(crate) removed: Vec<T>,
}

/// Returns the difference between two sets, each ordered by name.
fn changes<T>(
    before: &[Arc<cloud::Node>],
    now: &[Arc<cloud::Node>],
    convert: impl Fn(&cloud::Node) -> T,
) -> Changes<T> {
    let same = |one: &cloud::Node, other: &cloud::Node| {
        one.provider_id == other.provider_id && one.addresses == other.addresses
    };

    // Most nodes are the same object, so comparing pointers is enough.
    let kept = |node: &Arc<cloud::Node>, others: &[Arc<cloud::Node>]| {
        let found = others
            .binary_search_by(|other| other.name.cmp(&node.name))
            .ok()
            .and_then(|at| others.get(at));
        found.is_some_and(|other| Arc::ptr_eq(node, other) || same(node, other))
    };

    let missing = |from: &[Arc<cloud::Node>], others: &[Arc<cloud::Node>]| -> Vec<T> {
        from.iter()
            .filter(|node| !kept(node, others))
            .map(|node| convert(node))
            .collect()
    };

    Changes {
        added: missing(now, before),
        removed: missing(before, now),
    }
}

fn is(set: &Weak<[Arc<cloud::Node>]>, nodes: &cloud::NodeSet) -> bool {
    std::ptr::addr_eq(set.as_ptr(), Arc::as_ptr(nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(node: &cloud::Node) -> String {
        node.name.clone()
    }

    #[test]
    fn targets_are_shared_by_calls_with_the_same_nodes() {
        let set = |name: &str| {
            cloud::NodeSet::from([Arc::new(cloud::Node {
                name: name.into(),
                ..cloud::Node::default()
            })])
        };
        let (targets, one, other) = (Targets::default(), set("a"), set("b"));
        let first = targets.of(&one, name);

        assert_eq!(*first, ["a"]);
        assert!(Arc::ptr_eq(&first, &targets.of(&Arc::clone(&one), name)));
        assert_eq!(
            *targets.of(&one, |node| node.name.len()),
            [1],
            "another version of the contract has its own"
        );
        assert!(Arc::ptr_eq(&first, &targets.of(&one, name)));
        assert_eq!(*targets.of(&other, name), ["b"]);
        assert_eq!(*targets.of(&set("a"), name), ["a"]);
    }

    #[test]
    fn changes_are_detected_by_name_and_provider_id() {
        let node = |name: &str, id: &str| {
            Arc::new(cloud::Node {
                name: name.into(),
                provider_id: Some(id.into()),
                ..cloud::Node::default()
            })
        };
        let (stays, ready) = (
            node("a", "1"),
            Arc::new(cloud::Node {
                ready: true,
                ..(*node("b", "2")).clone()
            }),
        );
        let before = [
            Arc::clone(&stays),
            node("b", "2"),
            node("c", "3"),
            node("d", "4"),
        ];
        let now = [stays, ready, node("c", "5"), node("e", "6")];
        let shown = |node: &cloud::Node| {
            format!(
                "{}={}",
                node.name,
                node.provider_id.as_deref().unwrap_or_default()
            )
        };
        let found = changes(&before, &now, shown);

        assert_eq!(
            (found.added, found.removed),
            (
                vec!["c=5".into(), "e=6".into()],
                vec!["c=3".into(), "d=4".into()]
            )
        );
        let none = changes(&now, &now, shown);
        assert!(none.added.is_empty() && none.removed.is_empty());
    }

    #[test]
    fn last_nodes_are_kept_only_after_success_of_the_same_plugin() {
        let (last, nodes) = (LastNodes::default(), cloud::NodeSet::from([Arc::default()]));
        assert!(last.take("u", 1).is_none());
        last.set("u", 1, &nodes);
        assert!(Arc::ptr_eq(&last.take("u", 1).unwrap(), &nodes));
        assert!(
            last.take("u", 1).is_none(),
            "until a call has succeeded again"
        );
        last.set("u", 1, &nodes);
        assert!(last.take("u", 2).is_none());
    }

    #[test]
    fn the_least_recently_used_node_set_is_evicted() {
        let targets = Targets::default();
        let sets: Vec<cloud::NodeSet> = (0..KEPT).map(|_| Arc::from([Arc::default()])).collect();
        let first: Vec<_> = sets.iter().map(|set| targets.of(set, name)).collect();
        for (set, made) in sets.iter().zip(&first) {
            assert!(Arc::ptr_eq(&targets.of(set, name), made), "made once");
        }
        let other: cloud::NodeSet = Arc::from([Arc::default()]);
        targets.of(&other, name);
        assert!(
            !Arc::ptr_eq(&targets.of(&sets[0], name), &first[0]),
            "the one that was asked for longest ago gave way"
        );

        drop((sets, other));
        targets.of(&Arc::from([Arc::default()]), name);
        assert_eq!(targets.kept().len(), 1, "sets that are gone are forgotten");
    }

    #[test]
    fn equal_targets_of_other_nodes_have_the_same_fingerprint() {
        let set = |name: &str, ready| {
            cloud::NodeSet::from([Arc::new(cloud::Node {
                name: name.into(),
                ready,
                ..cloud::Node::default()
            })])
        };
        let targets = Targets::default();
        let names = |set: &cloud::NodeSet| set.iter().map(|node| name(node)).collect::<Vec<_>>();
        let of = |set: &cloud::NodeSet| targets.packed(set, names).fingerprint;
        let first = set("a", false);
        let fingerprint = of(&first);

        assert_eq!(of(&first), fingerprint, "the same set");
        assert_eq!(of(&set("a", true)), fingerprint, "another node changed");
        drop(first);
        assert_eq!(of(&set("a", false)), fingerprint, "the set before is gone");
        let other = set("b", false);
        assert_ne!(of(&other), fingerprint, "the name changed");
        let kept = targets.packed::<Vec<String>>(&other, |_| panic!("made twice"));
        assert_eq!(*kept.targets, ["b"]);

        // Evicted, the number is not used for anything else.
        let more: Vec<_> = (0..KEPT)
            .map(|number| set(&number.to_string(), false))
            .collect();
        let mut all: HashSet<u64> = more.iter().map(of).collect();
        all.extend([fingerprint, of(&other)]);
        assert_eq!(all.len(), KEPT + 2);
        assert!(targets.kept().len() <= KEPT);
    }
}
