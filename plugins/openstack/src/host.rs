//! What the rules need of the host, as a trait: natively, as in a test, there is no host.

use std::time::Duration;

use skydock_sdk::types::{Node, Service};

/// What a plugin may ask of its host.
pub trait Host {
    /// The value kept under this key, unless it has expired.
    fn kept(&self, key: &str) -> Option<Vec<u8>>;

    /// Keeps a value for so long, for all instances. A value that does not fit is not kept.
    fn keep(&self, key: &str, value: &[u8], lifetime: Duration);

    /// Forgets a value.
    fn forget(&self, key: &str);

    /// Sets or removes an annotation of the service of the running call; written however the call ends.
    fn annotate(&self, service: &Service, key: &str, value: Option<&str>);

    /// Tells the service's owner something.
    fn tell(&self, service: &Service, event: &Event);

    /// All nodes that are this provider's; none while the host does not know them yet.
    fn nodes(&self) -> Option<Vec<Node>>;
}

/// An event on a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// True if somebody should look.
    pub warning: bool,
    /// CamelCase; upstream's where it has one.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
}

impl Event {
    /// Something somebody should look at.
    #[must_use]
    pub fn warning(reason: &'static str, message: String) -> Self {
        Self { warning: true, reason, message }
    }
}
