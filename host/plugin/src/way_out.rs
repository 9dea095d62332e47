//! Where the requests of a plugin go.

use std::{fmt, sync::Arc};

use skydock_egress::Gateway;

/// Gives each component its gateway. What the operator has bound to one component is not another's, though both are the same plugin.
pub trait WayOut: fmt::Debug + Send + Sync {
    /// The gateway for the component with this SHA-256, in hexadecimal.
    fn gateway(&self, digest: &str) -> Arc<Gateway>;
}
