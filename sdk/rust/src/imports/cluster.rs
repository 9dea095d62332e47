//! The cluster's objects from the host's cache. Read-only.
use crate::bindings::imports::skydock::provider::cluster as host;
use crate::inside_a_plugin;
use crate::types::{Node, Service};

/// Returns the UID of the namespace `kube-system`, which identifies this cluster in any account.
/// None until the host has read it.
#[must_use]
pub fn uid() -> Option<String> {
    inside_a_plugin();
    host::uid()
}

/// Returns a number that grows when the result of [`nodes`] or [`services`] changes. None until the
/// host's caches are filled: until then, a missing object means nothing.
#[must_use]
pub fn revision() -> Option<u64> {
    inside_a_plugin();
    host::revision()
}

/// Returns the nodes whose provider ID this plugin owns, and those without a provider ID.
#[must_use]
pub fn nodes() -> Vec<Node> {
    inside_a_plugin();
    host::nodes()
}

/// Returns the Services of type LoadBalancer that this plugin serves, including those that are
/// being deleted.
#[must_use]
pub fn services() -> Vec<Service> {
    inside_a_plugin();
    host::services()
}

/// Returns a node as JSON, for fields that [`Node`] does not contain. None if it does not exist or
/// is not this plugin's.
#[must_use]
pub fn node_json(name: &str) -> Option<String> {
    inside_a_plugin();
    host::node_json(name)
}

/// Returns a Service as JSON, for fields that [`Service`] does not contain. None if it does not
/// exist or is not this plugin's.
#[must_use]
pub fn service_json(namespace: &str, name: &str) -> Option<String> {
    inside_a_plugin();
    host::service_json(namespace, name)
}
