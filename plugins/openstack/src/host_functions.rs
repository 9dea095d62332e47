//! The host functions that the rules need. A trait, because native tests run without a host.

use std::time::Duration;

use skydock_sdk::types::{Node, Service};

/// The functions of the host that a plugin can use.
pub trait HostFunctions {
    /// Returns the value kept under this key, unless it has expired.
    fn cached(&self, key: &str) -> Option<Vec<u8>>;

    /// Caches a value for this time, for all plugin instances. A value that does not fit is not
    /// cached.
    fn cache(&self, key: &str, value: &[u8], lifetime: Duration);

    /// Removes a value from the cache.
    fn uncache(&self, key: &str);

    /// Sets or removes an annotation of the Service of the current call. The host writes it even if
    /// the call fails.
    fn annotate(&self, service: &Service, key: &str, value: Option<&str>);

    /// Publishes an event on the Service.
    fn publish(&self, service: &Service, event: &Event);

    /// Returns all nodes of this provider, or `None` if the host does not know them yet.
    fn nodes(&self) -> Option<Vec<Node>>;
}

/// An event on a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// True if the event is a warning.
    pub warning: bool,
    /// The reason in CamelCase, the same as upstream's if it has one.
    pub reason: &'static str,
    /// The message, one sentence.
    pub message: String,
}

impl Event {
    /// Creates a warning.
    #[must_use]
    pub fn warning(reason: &'static str, message: String) -> Self {
        Self {
            warning: true,
            reason,
            message,
        }
    }
}
