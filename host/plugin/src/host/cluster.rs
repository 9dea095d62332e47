//! `skydock:provider/cluster`: the objects a plugin may see.

use std::sync::{Arc, PoisonError, RwLock};

use skydock_cloud::{Cluster, ObjectKind};
use wasmtime::{StoreContextMut, component::Linker};

use super::State;
use crate::{
    bindings::skydock::provider::{cluster, types},
    convert,
};

/// The interface in the contract.
const INTERFACE: &str = "skydock:provider/cluster@0.1.0";

/// Where a plugin finds the cluster once there is one: empty until the caches are filled, and again when they go.
///
/// An empty slot is an empty cluster to the plugin.
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

    fn view(&self) -> View {
        View { cluster: self.cluster(), prefixes: Arc::clone(&self.prefixes) }
    }
}

/// What one plugin sees of the cluster.
struct View {
    cluster: Option<Arc<dyn Cluster>>,
    prefixes: Arc<[String]>,
}

impl View {
    /// A node is the plugin's if its provider ID is, or if it has none yet.
    fn may_see(&self, node: &skydock_cloud::Node) -> bool {
        let owned = |id: &str| self.prefixes.iter().any(|prefix| id.starts_with(prefix.as_str()));
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

    fn object_json(&self, kind: cluster::ObjectKind, namespace: &str, name: &str) -> Option<String> {
        let cluster = self.cluster.as_ref()?;
        match kind {
            cluster::ObjectKind::Node => {
                let visible = namespace.is_empty() && cluster.node(name).is_some_and(|node| self.may_see(&node));
                visible.then(|| cluster.object_json(ObjectKind::Node, "", name))?
            }
            cluster::ObjectKind::Service => {
                let served = cluster.service(namespace, name).is_some();
                served.then(|| cluster.object_json(ObjectKind::Service, namespace, name))?
            }
        }
    }
}

impl types::Host for State {}

/// Linked by hand, so that whole lists are lent a few at a time ([`Lists`](super::lists)).
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
    interface.func_wrap(
        "object-json",
        |call: Call<'_>, (kind, namespace, name): (cluster::ObjectKind, String, String)| {
            Ok((call.data().view().object_json(kind, &namespace, &name),))
        },
    )
}
