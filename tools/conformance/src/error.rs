//! Errors of the kit itself.

use std::io;

use skydock_sandbox::RuntimeError;

/// Reasons why a plugin cannot be checked, which are not the plugin's.
#[derive(Debug, thiserror::Error)]
pub enum KitError {
    /// The runtime does not start.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The gateway is not created.
    #[error("cannot create the gateway that denies all requests: {0}")]
    Gateway(String),
    /// A file is not written.
    #[error("cannot use a temporary directory: {0}")]
    Files(#[from] io::Error),
}
