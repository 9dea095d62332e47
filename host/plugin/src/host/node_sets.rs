//! `skydock:provider/node-sets`: the nodes that a call is lent.
//!
//! A call is lent one set at most, the one it is about. So a handle needs to say nothing, and no table has to be kept.

use wasmtime::component::Resource;

use super::State;
use crate::{
    bindings::skydock::provider::{
        node_sets::{Host, HostNodeSet, NodeSet, Target},
        types,
    },
    convert,
};

/// The handle for one call: wasmtime ends a guest that has kept it when the call is over.
pub(crate) fn lent() -> Resource<NodeSet> {
    Resource::new_borrow(0)
}

impl Host for State {}

/// A list lives here no longer than until it is copied into the guest's memory, and that has a limit of its own.
impl HostNodeSet for State {
    fn size(&mut self, _: Resource<NodeSet>) -> u32 {
        u32::try_from(self.objects.nodes.len()).unwrap_or(u32::MAX)
    }

    fn targets(&mut self, _: Resource<NodeSet>) -> Vec<Target> {
        self.objects.nodes.iter().map(|node| convert::target(node)).collect()
    }

    fn nodes(&mut self, _: Resource<NodeSet>) -> Vec<types::Node> {
        self.objects.nodes.iter().map(|node| convert::node(node)).collect()
    }

    /// Guests own no set, so there is none to drop.
    fn drop(&mut self, _: Resource<NodeSet>) -> wasmtime::Result<()> {
        Ok(())
    }
}
