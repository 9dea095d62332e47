//! The interface `cluster`: nodes, Services, and the UID of the cluster.

use std::sync::Arc;

use skydock_cloud::ObjectKind;
use skydock_recording::{List, observed, observed_later};
use wasmtime::{
    StoreContextMut,
    component::{Linker, LinkerInstance},
};

use crate::{
    contract::v0_1::{
        bindings::skydock::provider::types::{Node, Service},
        to_guest,
    },
    imports::State,
    words::names::interface,
};

type Call<'a> = StoreContextMut<'a, State>;

/// Linked manually, so that only a few complete lists are lent at a time
/// ([`Lists`](crate::imports::Lists)).
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut interface = linker.instance(&interface("cluster"))?;
    add_lists(&mut interface)?;
    add_identity(&mut interface)?;
    add_json(&mut interface)
}

/// Complete lists of nodes and Services.
fn add_lists(interface: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    interface.func_wrap_async("nodes", |call: Call<'_>, (): ()| {
        // The Service of the call then follows labels, taints and readiness of nodes, too.
        call.data().add_node_reader();
        let shared = Arc::clone(&call.data().shared);
        let view = call.data().view();
        let tape = call.data().tape().cloned();

        let nodes = move |()| async move {
            List(shared.lists.lend(move || view.nodes(to_guest::node)).await)
        };

        Box::new(async move {
            let nodes: List<Node> = observed_later(tape, "cluster.nodes", (), nodes).await?;
            Ok((nodes.0,))
        })
    })?;

    interface.func_wrap_async("services", |call: Call<'_>, (): ()| {
        let shared = Arc::clone(&call.data().shared);
        let view = call.data().view();
        let tape = call.data().tape().cloned();

        let services = move |()| async move {
            List(
                shared
                    .lists
                    .lend(move || view.services(to_guest::service))
                    .await,
            )
        };

        Box::new(async move {
            let services: List<Service> =
                observed_later(tape, "cluster.services", (), services).await?;
            Ok((services.0,))
        })
    })
}

/// The cluster's identity, and the revision of what it has.
fn add_identity(interface: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    interface.func_wrap("uid", |call: Call<'_>, (): ()| {
        let state = call.data();
        Ok((observed(state.tape(), "cluster.uid", (), |()| {
            state.cluster().and_then(|it| it.uid())
        })?,))
    })?;

    interface.func_wrap("revision", |call: Call<'_>, (): ()| {
        let state = call.data();
        Ok((observed(state.tape(), "cluster.revision", (), |()| {
            state.cluster().and_then(|it| it.revision())
        })?,))
    })
}

/// Single objects as the API server has them.
fn add_json(interface: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    interface.func_wrap("node-json", |call: Call<'_>, arguments: (String,)| {
        let state = call.data();
        Ok((observed(
            state.tape(),
            "cluster.node-json",
            arguments,
            |(name,)| state.view().json(ObjectKind::Node, "", &name),
        )?,))
    })?;

    interface.func_wrap(
        "service-json",
        |call: Call<'_>, arguments: (String, String)| {
            let state = call.data();
            Ok((observed(
                state.tape(),
                "cluster.service-json",
                arguments,
                |(namespace, name)| state.view().json(ObjectKind::Service, &namespace, &name),
            )?,))
        },
    )
}
