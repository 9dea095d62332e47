//! The interface `cluster`.

use std::sync::Arc;

use skydock_cloud::ObjectKind;
use wasmtime::{StoreContextMut, component::Linker};

use crate::{contract::v0_1::to_guest, host::State};

/// Name of the interface.
const INTERFACE: &str = "skydock:provider/cluster@0.1.0";

/// Linked manually, so that only a few complete lists are lent at a time ([`Lists`](crate::host::Lists)).
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Call<'a> = StoreContextMut<'a, State>;
    let mut interface = linker.instance(INTERFACE)?;
    interface.func_wrap_async("nodes", |call: Call<'_>, (): ()| {
        let (shared, view) = (Arc::clone(&call.data().shared), call.data().view());
        Box::new(async move { Ok((shared.lists.lend(move || view.nodes(to_guest::node)).await,)) })
    })?;
    interface.func_wrap_async("services", |call: Call<'_>, (): ()| {
        let (shared, view) = (Arc::clone(&call.data().shared), call.data().view());
        Box::new(async move { Ok((shared.lists.lend(move || view.services(to_guest::service)).await,)) })
    })?;
    interface.func_wrap("uid", |call: Call<'_>, (): ()| Ok((call.data().cluster().and_then(|it| it.uid()),)))?;
    interface
        .func_wrap("revision", |call: Call<'_>, (): ()| Ok((call.data().cluster().and_then(|it| it.revision()),)))?;
    interface.func_wrap("node-json", |call: Call<'_>, (name,): (String,)| {
        Ok((call.data().view().json(ObjectKind::Node, "", &name),))
    })?;
    interface.func_wrap("service-json", |call: Call<'_>, (namespace, name): (String, String)| {
        Ok((call.data().view().json(ObjectKind::Service, &namespace, &name),))
    })
}
