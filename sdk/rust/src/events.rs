//! Events on the objects of the call that is running.
pub use crate::bindings::imports::skydock::provider::events::Severity;

use crate::bindings::imports::skydock::provider::events as host;
use crate::inside_a_plugin;
use crate::types::{Node, Service};

/// Publishes an event on a node (`NAME`) or a service (`NAMESPACE/NAME`). `reason` is CamelCase, at most 128 bytes; `message` is
/// cut at 1024 bytes. False if the object is none of the running call's: then nothing is published. Calls about routes are about
/// the nodes that they lead to, and `maintain` about all that [`cluster`](crate::cluster) shows.
pub fn publish(name: &str, severity: Severity, reason: &str, message: &str) -> bool {
    inside_a_plugin();
    host::publish(name, severity, reason, message)
}

/// As [`publish`], on a node.
pub fn on_node(node: &Node, severity: Severity, reason: &str, message: &str) -> bool {
    publish(&node.name, severity, reason, message)
}

/// As [`publish`], on a service.
pub fn on_service(service: &Service, severity: Severity, reason: &str, message: &str) -> bool {
    publish(&format!("{}/{}", service.namespace, service.name), severity, reason, message)
}
