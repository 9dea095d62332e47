//! The cluster's objects as the host's cache has them. Read only.
use crate::bindings::imports::skydock::provider::cluster as host;
use crate::inside_a_plugin;
use crate::types::{Node, Service};

/// UID of the namespace `kube-system`: who this cluster is, in any account. None until the host has read it.
#[must_use]
pub fn uid() -> Option<String> {
    inside_a_plugin();
    host::uid()
}

/// A number that grows when [`nodes`] or [`services`] would answer something else. None until the host's caches are full: then nothing
/// may be concluded from what they lack.
#[must_use]
pub fn revision() -> Option<u64> {
    inside_a_plugin();
    host::revision()
}

/// The nodes that this plugin owns by provider ID, and those that have none yet.
#[must_use]
pub fn nodes() -> Vec<Node> {
    inside_a_plugin();
    host::nodes()
}

/// The services of type LoadBalancer that this plugin serves, those that are being deleted included.
#[must_use]
pub fn services() -> Vec<Service> {
    inside_a_plugin();
    host::services()
}

/// A node as JSON, for fields that [`Node`] leaves out. None if it is not there or not this plugin's.
#[must_use]
pub fn node_json(name: &str) -> Option<String> {
    inside_a_plugin();
    host::node_json(name)
}

/// A service as JSON, for fields that [`Service`] leaves out. None if it is not there or not this plugin's.
#[must_use]
pub fn service_json(namespace: &str, name: &str) -> Option<String> {
    inside_a_plugin();
    host::service_json(namespace, name)
}
