//! `skydock:provider/node-sets`: the nodes that a call is lent.
//!
//! Linked by hand: what `bindgen!` makes would have a list of its own for each call, and calls that are about the same
//! thousands of nodes come by the thousand.

use std::sync::{Arc, Mutex, PoisonError};

use skydock_cloud as cloud;
use wasmtime::{
    StoreContextMut,
    component::{Linker, Resource, ResourceType},
};

use super::State;
use crate::{
    bindings::skydock::provider::{
        node_sets::{NodeSet, Target},
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

/// The targets of the set that was asked for last, of one plugin.
#[derive(Default)]
pub(crate) struct Targets(Mutex<Option<(cloud::NodeSet, Arc<[Target]>)>>);

impl Targets {
    fn of(&self, nodes: &cloud::NodeSet) -> Arc<[Target]> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, targets)) = last.as_ref().filter(|(set, _)| Arc::ptr_eq(set, nodes)) {
            return Arc::clone(targets);
        }
        let targets: Arc<[Target]> = nodes.iter().map(|node| convert::target(node)).collect();
        *last = Some((Arc::clone(nodes), Arc::clone(&targets)));
        targets
    }
}

/// A list lives here no longer than until it is copied into the guest's memory, which has a limit of its own; copying counts
/// as the guest's CPU time.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Call<'a> = StoreContextMut<'a, State>;
    type Handle = (Resource<NodeSet>,);
    let mut interface = linker.instance(INTERFACE)?;
    // Guests own no set, so nothing ends with a handle.
    interface.resource("node-set", ResourceType::host::<NodeSet>(), |_, _| Ok(()))?;
    interface.func_wrap("[method]node-set.size", |call: Call<'_>, _: Handle| {
        let size = call.data().objects.nodes.len();
        Ok((u32::try_from(size).unwrap_or(u32::MAX),))
    })?;
    interface.func_wrap("[method]node-set.targets", |call: Call<'_>, _: Handle| {
        let state = call.data();
        Ok((state.shared.targets.of(&state.objects.nodes),))
    })?;
    interface.func_wrap("[method]node-set.nodes", |call: Call<'_>, _: Handle| {
        let nodes = call.data().objects.nodes.iter();
        Ok((nodes.map(|node| convert::node(node)).collect::<Vec<Node>>(),))
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
}
