//! The gateways for the requests of plugins.

use std::{fmt, sync::Arc};

use skydock_egress::Gateway;

/// Provides the gateway of each component. What the operator has bound to one component is not
/// available to another, even of the same plugin.
pub trait WayOut: fmt::Debug + Send + Sync {
    /// Returns the gateway for the component with this SHA-256, in hexadecimal.
    fn gateway(&self, digest: &str) -> Arc<Gateway>;
}
