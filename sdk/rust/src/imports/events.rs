//! Events on the objects of the current call.
pub use crate::bindings::imports::skydock::provider::events::Severity;

use crate::bindings::imports::skydock::provider::events as host;
use crate::inside_a_plugin;
use crate::types::{Node, Service};

/// Publishes an event on a node (`NAME`) or a Service (`NAMESPACE/NAME`). `reason` is CamelCase, at
/// most 128 bytes; `message` is cut off at 1024 bytes. Returns false, and publishes nothing, if the
/// object is not one of the current call: calls about routes are about the nodes that the routes
/// lead to, and `maintain` is about all objects that [`cluster`](crate::imports::cluster) returns.
pub fn publish(name: &str, severity: Severity, reason: &str, message: &str) -> bool {
    inside_a_plugin();
    host::publish(name, severity, reason, message)
}

/// Publishes an event on a node, like [`publish`].
pub fn on_node(node: &Node, severity: Severity, reason: &str, message: &str) -> bool {
    publish(&node.name, severity, reason, message)
}

/// Publishes an event on a Service, like [`publish`].
pub fn on_service(service: &Service, severity: Severity, reason: &str, message: &str) -> bool {
    publish(
        &format!("{}/{}", service.namespace, service.name),
        severity,
        reason,
        message,
    )
}
