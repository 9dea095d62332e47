//! The outcome of a request, as metrics count it.

use std::{sync::Arc, time::Duration};

use http::Method;

#[derive(Debug)]
pub(crate) struct RequestOutcome<'a> {
    pub(crate) action: &'a Arc<str>,
    pub(crate) method: &'a Method,
    /// The path, with the names of parameters.
    pub(crate) path: &'a str,
    pub(crate) status: Option<u16>,
    pub(crate) took: Duration,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Open circuit breakers of the plugin's hosts.
    pub(crate) breakers_open: usize,
}
