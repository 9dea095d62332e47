//! Serves health, metrics and what the process is configured with: over HTTPS with authentication
//! and authorization, as a Go program that is built on `k8s.io/apiserver` (0.36), and over plain
//! HTTP.
//!
//! A request goes through these modules: `connections` (limits, TLS), `guard`, `authenticator` (who
//! is it?), `authorizer` (may they?), `served` (the answer). [`secure`] has the options, and keeps
//! certificates and authorities up to date.
//!
//! Decisions are functions from values. Only `review` and `authenticator::cluster` ask the API
//! server. Whatever cannot be decided is denied.

#![forbid(unsafe_code)]

mod authenticator;
mod authorizer;
mod cache;
mod connections;
mod guard;
mod review;
pub mod secure;
mod served;
mod status;
pub mod tls;
mod zpages;

use std::net::SocketAddr;

use axum::Router;
use tokio_util::sync::CancellationToken;

pub use self::{
    authorizer::{AlwaysAllowPaths, PathError},
    served::{Election, Readiness, Served},
    zpages::{Zpages, overview},
};

/// Why serving cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be used.
    #[error("cannot listen on {address}; set another one with {flags}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The flags that set it.
        flags: &'static str,
        /// The reason.
        source: std::io::Error,
    },
    /// Certificates or authorities cannot be used.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
}

/// Starts serving plain HTTP until `stop`, without authentication. Returns the address, which
/// contains the actual port if port 0 was requested.
///
/// # Errors
/// If the address cannot be used.
pub async fn start_plain(
    address: SocketAddr,
    router: Router,
    stop: CancellationToken,
) -> Result<SocketAddr, ServeError> {
    let flags = "--metrics-bind-address";
    let (listener, bound) = connections::listen(address, false, flags)?;

    let protocol = connections::Protocol::Plain;
    tokio::spawn(connections::serve(listener, protocol, router, stop));
    Ok(bound)
}
