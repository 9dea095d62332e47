//! Events on the objects of the call that is running.
pub use crate::bindings::imports::skydock::provider::events::Severity;

use crate::bindings::imports::skydock::provider::events as host;
use crate::inside_a_plugin;
use crate::types::{Node, Service};

/// Publishes an event on a node. `reason` is CamelCase, at most 128 bytes; `message` is cut at 1024 bytes. False if the node
/// is none of the running call's: then nothing is published.
pub fn on_node(node: &Node, severity: Severity, reason: &str, message: &str) -> bool {
    inside_a_plugin();
    host::publish(&node.name, severity, reason, message)
}

/// Publishes an event on a service, as [`on_node`] does on a node.
pub fn on_service(service: &Service, severity: Severity, reason: &str, message: &str) -> bool {
    inside_a_plugin();
    host::publish(&format!("{}/{}", service.namespace, service.name), severity, reason, message)
}
