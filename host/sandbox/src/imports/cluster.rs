//! The cluster as a plugin sees it: its objects, and in the modules below, the object that a call
//! is about, the nodes that it is lent, and what it writes.

pub(super) mod annotations;
mod events;
pub(super) mod lent_nodes;
pub(super) mod lists;
mod objects;
pub(super) mod subject;

use std::{net::IpAddr, sync::Arc};

use parking_lot::RwLock;
use skydock_cloud::{Cluster, Holder, Node, ObjectKind, ObjectName, Service};

use super::{Shared, State};
use crate::{
    answers::{Rejected, Taken, addresses::forms},
    grants::owned::Owned,
};

/// Slot for the cluster that a plugin sees. It is empty until the caches are filled, and again
/// after they are gone.
///
/// To the plugin, an empty slot is an empty cluster.
#[derive(Clone, Default)]
pub struct ClusterSlot(Arc<RwLock<Option<Arc<dyn Cluster>>>>);

impl ClusterSlot {
    /// Fills the slot.
    pub fn set(&self, cluster: Arc<dyn Cluster>) {
        *self.0.write() = Some(cluster);
    }

    /// Empties the slot.
    pub fn clear(&self) {
        *self.0.write() = None;
    }

    pub(crate) fn get(&self) -> Option<Arc<dyn Cluster>> {
        self.0.read().clone()
    }
}

impl Shared {
    /// Returns what is known to have this address, or the IPv4 address that it leads to. Nothing is
    /// known while the slot is empty; no answer is used then.
    pub(crate) fn taken(&self, address: IpAddr) -> Taken {
        let gateways = self.gateways.as_ref();
        let translated = gateways
            .map(|gateways| gateways.translated(address))
            .filter(|translated| *translated != address);

        // An IPv4 address can hide in an IPv6 address, so each form of it is checked.
        let forms = || forms(address).chain(translated);

        let is_api_server = |form| gateways.is_some_and(|gateways| gateways.is_api_server(form));
        let cluster = self.cluster.get();
        let holders = |form| cluster.as_ref().map(|it| it.holders(form));

        Taken {
            translated,
            api_server: forms().any(is_api_server),
            holders: forms().filter_map(holders).flatten().collect(),
        }
    }

    /// Returns what is known to have this name.
    pub(crate) fn named(&self, name: &str) -> Vec<Holder> {
        let cluster = self.cluster.get();
        cluster.map(|it| it.named(name)).unwrap_or_default()
    }

    /// Rejects the name of a Service.
    pub(crate) fn no_service(&self, namespace: &str, name: &str) -> Result<(), Rejected> {
        let cluster = self.cluster.get();
        if cluster.is_some_and(|cluster| cluster.has_service(namespace, name)) {
            return Err(Rejected::ServiceName(format!("{namespace}/{name}")));
        }
        Ok(())
    }
}

impl State {
    /// Returns the cluster while the plugin is in service.
    pub(crate) fn cluster(&self) -> Option<Arc<dyn Cluster>> {
        self.while_serving(&self.shared.cluster)?.get()
    }

    /// Returns the plugin's view of it.
    pub(crate) fn view(&self) -> View {
        View {
            cluster: self.cluster(),
            owned: Arc::clone(&self.owned),
        }
    }
}

/// One plugin's view of the cluster.
pub(crate) struct View {
    cluster: Option<Arc<dyn Cluster>>,
    owned: Arc<Owned>,
}

impl View {
    /// Returns the nodes that the plugin may see, each converted.
    pub(crate) fn nodes<T>(&self, convert: impl Fn(&Node) -> T) -> Vec<T> {
        let Some(cluster) = &self.cluster else {
            return Vec::new();
        };
        cluster
            .nodes()
            .iter()
            .filter(|node| self.owned.may_see(node))
            .map(|node| convert(node))
            .collect()
    }

    /// Returns the Services, each converted.
    pub(crate) fn services<T>(&self, convert: impl Fn(&Service) -> T) -> Vec<T> {
        let Some(cluster) = &self.cluster else {
            return Vec::new();
        };
        cluster
            .services()
            .iter()
            .map(|service| convert(service))
            .collect()
    }

    /// Returns the object with this name if the plugin may see it.
    pub(super) fn object(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
    ) -> Option<ObjectName> {
        let cluster = self.cluster.as_ref()?;
        match kind {
            ObjectKind::Node => cluster
                .node(name)
                .filter(|node| self.owned.may_see(node))
                .map(|node| ObjectName::node(&node)),
            ObjectKind::Service => cluster
                .service(namespace, name)
                .map(|service| ObjectName::service(&service)),
        }
    }

    /// Returns the object with this name as JSON if the plugin may see it.
    pub(crate) fn json(&self, kind: ObjectKind, namespace: &str, name: &str) -> Option<String> {
        self.object(kind, namespace, name)?;
        self.cluster.as_ref()?.object_json(kind, namespace, name)
    }
}
