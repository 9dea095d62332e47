//! The log of calls.

use std::collections::BTreeMap;
use std::time::Duration;

/// A call to the cloud through the proxy.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The operation.
    pub operation: String,
    /// The path and query for the cloud.
    pub path: String,
    /// The time of the request since the start of the proxy.
    pub at: Duration,
    /// The time until the header of the answer was passed on.
    pub took: Duration,
    /// The status of the answer, or `None` if the connection was closed without one.
    pub status: Option<u16>,
    /// The names of the injected faults.
    pub faults: Vec<&'static str>,
}

/// All recorded calls.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) calls: Vec<Call>,
    /// The issued tokens.
    pub(super) tokens: Vec<String>,
}

impl Log {
    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for call in &self.calls {
            *counts.entry(call.operation.clone()).or_default() += 1;
        }
        counts
    }
}
