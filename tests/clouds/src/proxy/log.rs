//! The log of calls.

use std::collections::BTreeMap;
use std::time::Duration;

/// A call to the cloud, through the proxy.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Its operation.
    pub operation: String,
    /// Path and query, as the cloud sees them.
    pub path: String,
    /// When it began, since the proxy's start.
    pub at: Duration,
    /// How long it took, until the answer's head was handed over.
    pub took: Duration,
    /// The status that was answered; none if the connection was closed instead.
    pub status: Option<u16>,
    /// What was done to it: names of faults.
    pub faults: Vec<&'static str>,
}

/// All calls.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) calls: Vec<Call>,
    /// Tokens that were handed out.
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
