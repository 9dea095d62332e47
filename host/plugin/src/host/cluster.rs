//! `skydock:provider/cluster`: the objects that a plugin may see.

use std::sync::{Arc, PoisonError, RwLock};

use skydock_cloud::{Cluster, ObjectKind, ObjectName};
use wasmtime::{StoreContextMut, component::Linker};

use super::{Owned, State};
use crate::{bindings::skydock::provider::types, convert};

/// Name of the interface in the contract.
const INTERFACE: &str = "skydock:provider/cluster@0.1.0";

/// Slot for the cluster that a plugin sees. It is empty until the caches are filled, and again after they are gone.
///
/// To the plugin, an empty slot is an empty cluster.
#[derive(Clone, Default)]
pub struct ClusterSlot(Arc<RwLock<Option<Arc<dyn Cluster>>>>);

impl ClusterSlot {
    /// Fills the slot.
    pub fn set(&self, cluster: Arc<dyn Cluster>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(cluster);
    }

    /// Empties the slot.
    pub fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn get(&self) -> Option<Arc<dyn Cluster>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl State {
    pub(super) fn cluster(&self) -> Option<Arc<dyn Cluster>> {
        self.while_serving(&self.shared.cluster)?.get()
    }

    pub(super) fn view(&self) -> View {
        View { cluster: self.cluster(), owned: Arc::clone(&self.owned) }
    }
}

/// One plugin's view of the cluster.
pub(super) struct View {
    cluster: Option<Arc<dyn Cluster>>,
    owned: Arc<Owned>,
}

impl View {
    /// Returns true if the plugin owns the node's provider ID, or if the node has none.
    fn may_see(&self, node: &skydock_cloud::Node) -> bool {
        let owned = |id: &str| self.owned.provider_ids.iter().any(|prefix| id.starts_with(prefix.as_str()));
        node.provider_id.as_deref().is_none_or(owned)
    }

    fn nodes(&self) -> Vec<types::Node> {
        let Some(cluster) = &self.cluster else { return Vec::new() };
        cluster.nodes().iter().filter(|node| self.may_see(node)).map(|node| convert::node(node)).collect()
    }

    fn services(&self) -> Vec<types::Service> {
        let Some(cluster) = &self.cluster else { return Vec::new() };
        cluster.services().iter().map(|service| convert::service(service)).collect()
    }

    /// Returns the object with this name if the plugin may see it.
    pub(super) fn object(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<ObjectName> {
        let cluster = self.cluster.as_ref()?;
        match kind {
            ObjectKind::Node => {
                cluster.node(name).filter(|node| self.may_see(node)).map(|node| ObjectName::node(&node))
            }
            ObjectKind::Service => cluster.service(namespace, name).map(|service| ObjectName::service(&service)),
        }
    }

    fn json(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<String> {
        self.object(kind, namespace, name)?;
        self.cluster.as_ref()?.object_json(kind, namespace, name)
    }
}

impl types::Host for State {}

/// Linked manually, so that only a few complete lists are lent at a time ([`Lists`](super::lists)).
pub(super) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Call<'a> = StoreContextMut<'a, State>;
    let mut interface = linker.instance(INTERFACE)?;
    interface.func_wrap_async("nodes", |call: Call<'_>, (): ()| {
        let (shared, view) = (Arc::clone(&call.data().shared), call.data().view());
        Box::new(async move { Ok((shared.lists.lend(move || view.nodes()).await,)) })
    })?;
    interface.func_wrap_async("services", |call: Call<'_>, (): ()| {
        let (shared, view) = (Arc::clone(&call.data().shared), call.data().view());
        Box::new(async move { Ok((shared.lists.lend(move || view.services()).await,)) })
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
