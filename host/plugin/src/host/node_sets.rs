//! `skydock:provider/node-sets`: the nodes that a call is lent.
//!
//! Linked by hand: what `bindgen!` makes would have a list of its own for each call, and calls that are about the same
//! thousands of nodes come by the thousand.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use skydock_cloud as cloud;
use wasmtime::{
    StoreContextMut,
    component::{Linker, Resource, ResourceType},
};

use super::State;
use crate::{
    bindings::skydock::provider::{
        node_sets::{NodeChanges, NodeSet, Target},
        types::Node,
    },
    convert,
};

/// The interface in the contract.
const INTERFACE: &str = "skydock:provider/node-sets@0.1.0";

/// The handle for one call, which is lent one set at most: so it has nothing to say. wasmtime ends a guest that has kept it when
/// the call is over.
pub(crate) fn lent() -> Resource<NodeSet> {
    Resource::new_borrow(0)
}

/// Sets whose targets are kept. Services that choose their nodes by a selector have a set of their own each.
const KEPT: usize = 4;

/// A set that may be gone by now, and its targets.
type Kept = (Weak<[Arc<cloud::Node>]>, Arc<[Target]>);

/// The targets of the sets that were asked for last, of one plugin; the last one at the end.
#[derive(Default)]
pub(crate) struct Targets(Mutex<Vec<Kept>>);

impl Targets {
    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, nodes: &cloud::NodeSet) -> Arc<[Target]> {
        if let Some(targets) = self.find(nodes) {
            return targets;
        }
        // Not under the lock: it takes a while, and others want other sets.
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

/// Services whose last nodes are kept. Beyond it all are forgotten, and told anew by the next calls.
const REMEMBERED: usize = 16_384;

/// The nodes of the last call about each service that succeeded, with the generation of the plugin that it was made to.
#[derive(Default)]
pub(crate) struct LastNodes(Mutex<HashMap<String, (u64, cloud::NodeSet)>>);

impl LastNodes {
    fn known(&self) -> MutexGuard<'_, HashMap<String, (u64, cloud::NodeSet)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes those of this service, known by its UID. They are not known any more until a call has succeeded: one that fails may have
    /// done a part.
    pub(crate) fn take(&self, uid: &str, generation: u64) -> Option<cloud::NodeSet> {
        self.known().remove(uid).filter(|(number, _)| *number == generation).map(|(_, nodes)| nodes)
    }

    /// A call with these nodes has succeeded.
    pub(crate) fn set(&self, uid: &str, generation: u64, nodes: &cloud::NodeSet) {
        let mut known = self.known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(uid.to_owned(), (generation, Arc::clone(nodes)));
    }
}

/// What is different between two sets, each in order of names.
fn changes(before: &[Arc<cloud::Node>], now: &[Arc<cloud::Node>]) -> NodeChanges {
    let same = |one: &cloud::Node, other: &cloud::Node| {
        one.provider_id == other.provider_id && one.addresses == other.addresses
    };
    // Most are not even other objects.
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

/// Targets are shared by all calls about the same nodes, and whole nodes are lent a few at a time ([`Lists`](super::lists)). Copying
/// them into the guest's memory counts as its CPU time.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Call<'a> = StoreContextMut<'a, State>;
    type Handle = (Resource<NodeSet>,);
    let mut interface = linker.instance(INTERFACE)?;
    // Guests own no set, so nothing ends with a handle.
    interface.resource("node-set", ResourceType::host::<NodeSet>(), |_, _| Ok(()))?;
    interface.func_wrap("[method]node-set.size", |call: Call<'_>, _: Handle| {
        let size = call.data().subject.nodes.len();
        Ok((u32::try_from(size).unwrap_or(u32::MAX),))
    })?;
    interface.func_wrap("[method]node-set.targets", |call: Call<'_>, _: Handle| {
        let state = call.data();
        Ok((state.shared.targets.of(&state.subject.nodes),))
    })?;
    interface.func_wrap_async("[method]node-set.nodes", |call: Call<'_>, _: Handle| {
        let (shared, nodes) = (Arc::clone(&call.data().shared), Arc::clone(&call.data().subject.nodes));
        let make = move || nodes.iter().map(|node| convert::node(node)).collect::<Vec<Node>>();
        Box::new(async move { Ok((shared.lists.lend(make).await,)) })
    })?;
    interface.func_wrap("[method]node-set.changes", |call: Call<'_>, _: Handle| {
        let subject = &call.data().subject;
        Ok((subject.before.as_ref().map(|before| changes(before, &subject.nodes)),))
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_made_once_for_calls_about_the_same_nodes() {
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
    fn what_is_different_is_told_by_name_id_and_addresses() {
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
    fn nodes_of_a_call_that_failed_or_of_another_plugin_are_not_known() {
        let (last, nodes) = (LastNodes::default(), cloud::NodeSet::from([Arc::default()]));
        assert!(last.take("u", 1).is_none());
        last.set("u", 1, &nodes);
        assert!(Arc::ptr_eq(&last.take("u", 1).unwrap(), &nodes));
        assert!(last.take("u", 1).is_none(), "until a call has succeeded again");
        last.set("u", 1, &nodes);
        assert!(last.take("u", 2).is_none());
    }

    #[test]
    fn services_with_sets_of_their_own_take_turns() {
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
