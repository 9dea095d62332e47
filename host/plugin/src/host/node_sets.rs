//! `skydock:provider/node-sets`: the nodes that a call is lent.
//!
//! Linked manually: the code that `bindgen!` generates would create a list for each call, and there may be thousands of calls about the
//! same thousands of nodes.

use std::sync::Arc;

use wasmtime::{
    StoreContextMut,
    component::{Linker, Resource, ResourceType},
};

use super::{State, lent_nodes::changes};
use crate::{
    bindings::skydock::provider::{node_sets::NodeSet, types::Node},
    convert,
};

/// Name of the interface in the contract.
const INTERFACE: &str = "skydock:provider/node-sets@0.1.0";

/// Returns the handle of a call's set. A call has at most one set, so the handle contains no data. If a guest keeps it after the call,
/// wasmtime ends the guest.
pub(crate) fn lent() -> Resource<NodeSet> {
    Resource::new_borrow(0)
}

/// Links the interface. Targets are shared by all calls about the same nodes, and only a few lists of complete nodes are lent at a time
/// ([`Lists`](super::lists)). Copying them to the guest's memory counts as its CPU time.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Call<'a> = StoreContextMut<'a, State>;
    type Handle = (Resource<NodeSet>,);
    let mut interface = linker.instance(INTERFACE)?;
    // Guests do not own sets, so dropping a handle has no effect.
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
