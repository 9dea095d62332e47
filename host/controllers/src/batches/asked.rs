//! When the cloud was last asked about each object.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Minimum time between questions about an object if it changes: somebody may change it all the time,
/// as a kubelet can, and calls of an account are limited.
const INTERVAL: Duration = Duration::from_secs(5);

/// Times of questions, by the key of the object.
#[derive(Default)]
pub(crate) struct Asked(Mutex<HashMap<String, Instant>>);

impl Asked {
    /// Records a question about these objects.
    pub(crate) fn record(&self, keys: impl IntoIterator<Item = String>) {
        let now = Instant::now();
        let mut asked = self.0.lock();
        asked.retain(|_, at| now.duration_since(*at) < INTERVAL);
        asked.extend(keys.into_iter().map(|key| (key, now)));
    }

    /// Returns how long to wait with the next question about an object.
    pub(crate) fn wait(&self, key: &str) -> Duration {
        let asked = self.0.lock();
        asked
            .get(key)
            .map_or(Duration::ZERO, |at| INTERVAL.saturating_sub(at.elapsed()))
    }
}
