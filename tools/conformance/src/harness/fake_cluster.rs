//! The cluster that the plugin sees: fixed objects, of which none beyond them may be read.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use skydock_cloud::{
    Cluster, ForeignObject, Holder, NamedBy, Node, ObjectAnnotations, ObjectEvent, ObjectKind,
    ObjectName, ReadError, Service,
};

/// A cluster whose objects can be replaced.
#[derive(Default)]
pub(crate) struct FakeCluster {
    nodes: Mutex<Vec<Arc<Node>>>,
    services: Mutex<Vec<Arc<Service>>>,
}

impl FakeCluster {
    pub(crate) fn new(nodes: Vec<Arc<Node>>) -> Self {
        Self {
            nodes: Mutex::new(nodes),
            services: Mutex::default(),
        }
    }

    /// Sets the only Service.
    pub(crate) fn set_service(&self, service: Option<&Service>) {
        self.set_services(service.map(|it| Arc::new(it.clone())).into_iter().collect());
    }

    pub(crate) fn set_services(&self, services: Vec<Arc<Service>>) {
        *self.services.lock().unwrap_or_else(PoisonError::into_inner) = services;
    }

    pub(crate) fn set_nodes(&self, nodes: Vec<Arc<Node>>) {
        *self.nodes.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
    }
}

#[async_trait]
impl Cluster for FakeCluster {
    fn uid(&self) -> Option<String> {
        Some("5a1c0de5-0000-4000-8000-000000000001".to_owned())
    }

    fn revision(&self) -> Option<u64> {
        None
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes().into_iter().find(|node| node.name == name)
    }

    fn services(&self) -> Vec<Arc<Service>> {
        self.services
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn service(&self, namespace: &str, name: &str) -> Option<Arc<Service>> {
        self.services()
            .into_iter()
            .find(|it| it.namespace == namespace && it.name == name)
    }

    fn has_service(&self, namespace: &str, name: &str) -> bool {
        self.service(namespace, name).is_some()
    }

    fn object_json(&self, _: ObjectKind, _: &str, _: &str) -> Option<String> {
        None
    }

    fn holders(&self, _: IpAddr) -> Vec<Holder> {
        Vec::new()
    }

    fn named(&self, _: &str) -> Vec<Holder> {
        Vec::new()
    }

    fn publish(&self, _: ObjectEvent) {}

    fn annotate(&self, _: ObjectAnnotations) {}

    async fn read(
        &self,
        _: &ForeignObject,
        _: Option<&NamedBy>,
        _: Option<&ObjectName>,
    ) -> Result<String, ReadError> {
        Err(ReadError::Unavailable(
            "the conformance kit has no such objects".to_owned(),
        ))
    }
}
