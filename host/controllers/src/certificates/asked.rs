//! When the cloud was last asked about each node.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Minimum time between questions about a node if it changes, or has more requests: its kubelet can
/// cause both all the time, and calls of an account are limited.
const INTERVAL: Duration = Duration::from_secs(5);

/// Times of questions, by node.
#[derive(Default)]
pub(super) struct Asked(Mutex<HashMap<String, Instant>>);

impl Asked {
    /// Records a question about these nodes.
    pub(super) fn record(&self, nodes: impl IntoIterator<Item = String>) {
        let now = Instant::now();
        let mut asked = self.0.lock();
        asked.retain(|_, at| now.duration_since(*at) < INTERVAL);
        asked.extend(nodes.into_iter().map(|node| (node, now)));
    }

    /// Returns how long to wait with the next question about a node.
    pub(super) fn wait(&self, node: &str) -> Duration {
        let asked = self.0.lock();
        asked
            .get(node)
            .map_or(Duration::ZERO, |at| INTERVAL.saturating_sub(at.elapsed()))
    }
}
