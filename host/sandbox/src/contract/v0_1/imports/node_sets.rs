//! The interface `node-sets`: the nodes that a call is lent.
//!
//! Linked manually: the code that `bindgen!` generates would create a list for each call, and there
//! may be thousands of calls about the same thousands of nodes.

use std::sync::Arc;

use skydock_cloud as cloud;
use skydock_recording::{Diverged, List, observed, observed_later};
use wasmtime::{
    StoreContextMut,
    component::{Linker, Resource, ResourceType},
};

use crate::{
    contract::v0_1::{
        bindings::skydock::provider::{
            node_sets::{NodeChanges, NodeSet, PackedTargets, Target},
            types::Node,
        },
        to_guest,
    },
    imports::State,
    words::names::interface,
};

/// Links the interface. Targets are shared by all calls about the same nodes, and only a few lists
/// of complete nodes are lent at a time ([`Lists`](crate::imports::Lists)). Copying them to the
/// guest's memory counts as its CPU time.
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Call<'a> = StoreContextMut<'a, State>;
    type Handle = (Resource<NodeSet>,);
    let mut interface = linker.instance(&interface("node-sets"))?;

    // Guests do not own sets, so dropping a handle has no effect.
    interface.resource("node-set", ResourceType::host::<NodeSet>(), |_, _| Ok(()))?;

    interface.func_wrap("[method]node-set.size", |call: Call<'_>, _: Handle| {
        let state = call.data();
        let size = |()| u32::try_from(state.lent_nodes().len()).unwrap_or(u32::MAX);
        Ok((observed(state.tape(), "node-sets.size", (), size)?,))
    })?;

    interface.func_wrap("[method]node-set.targets", |call: Call<'_>, _: Handle| {
        Ok((targets(call.data())?,))
    })?;

    interface.func_wrap(
        "[method]node-set.fingerprint",
        |mut call: Call<'_>, _: Handle| Ok((call.data_mut().fingerprint(packed),)),
    )?;

    interface.func_wrap(
        "[method]node-set.packed-targets",
        |call: Call<'_>, _: Handle| {
            let state = call.data();
            let packed = match state.tape() {
                None => Arc::clone(&state.packed(packed).targets),
                // Recorded in their other form, so that a recording is for plugins of all versions.
                Some(_) => Arc::new(to_guest::packed(&targets(state)?)),
            };
            Ok((packed,))
        },
    )?;

    interface.func_wrap_async("[method]node-set.nodes", |call: Call<'_>, _: Handle| {
        let state = call.data();
        // The Service of the call then follows labels, taints and readiness of nodes, too.
        state.add_node_reader();
        let shared = Arc::clone(&state.shared);
        let nodes = Arc::clone(state.lent_nodes());
        let tape = state.tape().cloned();

        let nodes =
            move |()| async move { List(shared.lists.lend(move || to_guest::nodes(&nodes)).await) };

        Box::new(async move {
            let nodes: List<Node> = observed_later(tape, "node-sets.nodes", (), nodes).await?;
            Ok((nodes.0,))
        })
    })?;

    interface.func_wrap("[method]node-set.changes", |call: Call<'_>, _: Handle| {
        let state = call.data();
        Ok((observed(state.tape(), "node-sets.changes", (), |()| {
            let changes = state.changes(to_guest::target);
            changes.map(|changes| NodeChanges {
                added: changes.added,
                removed: changes.removed,
            })
        })?,))
    })?;

    Ok(())
}

/// Returns the targets of the nodes of the call, or those of the recording.
fn targets(state: &State) -> Result<Arc<Vec<Target>>, Diverged> {
    let targets = |()| List(state.targets(to_guest::target));
    Ok(observed(state.tape(), "node-sets.targets", (), targets)?.0)
}

fn packed(nodes: &cloud::NodeSet) -> PackedTargets {
    let targets: Vec<_> = nodes.iter().map(|node| to_guest::target(node)).collect();
    to_guest::packed(&targets)
}
