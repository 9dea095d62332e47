//! `skydock:provider/cluster`: the objects a plugin may see.

use std::sync::{Arc, PoisonError, RwLock};

use skydock_cloud::{Cluster, ObjectKind};

use super::State;
use crate::{
    bindings::skydock::provider::{cluster, types},
    convert,
};

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
    /// A node is the plugin's if its provider ID is, or if it has none yet.
    fn may_see(&self, node: &skydock_cloud::Node) -> bool {
        let owned = |id: &str| self.prefixes.iter().any(|prefix| id.starts_with(prefix.as_str()));
        node.provider_id.as_deref().is_none_or(owned)
    }
}

impl types::Host for State {}

impl cluster::Host for State {
    fn nodes(&mut self) -> Vec<types::Node> {
        let Some(cluster) = self.shared.cluster.get() else { return Vec::new() };
        cluster.nodes().iter().filter(|node| self.may_see(node)).map(|node| convert::node(node)).collect()
    }

    fn services(&mut self) -> Vec<types::Service> {
        let Some(cluster) = self.shared.cluster.get() else { return Vec::new() };
        cluster.services().iter().map(|service| convert::service(service)).collect()
    }

    fn object_json(&mut self, kind: cluster::ObjectKind, namespace: String, name: String) -> Option<String> {
        let cluster = self.shared.cluster.get()?;
        match kind {
            cluster::ObjectKind::Node => {
                let visible = namespace.is_empty() && cluster.node(&name).is_some_and(|node| self.may_see(&node));
                visible.then(|| cluster.object_json(ObjectKind::Node, "", &name))?
            }
            cluster::ObjectKind::Service => {
                let served = cluster.service(&namespace, &name).is_some();
                served.then(|| cluster.object_json(ObjectKind::Service, &namespace, &name))?
            }
        }
    }
}
