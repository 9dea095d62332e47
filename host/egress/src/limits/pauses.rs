//! Pauses that a cloud has asked for, for example by `Retry-After`.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// Maximum time a request waits for the end of a pause that the cloud has asked for. If the pause
/// is longer, the plugin receives an answer, so that its call can end.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The end of the pauses of one host, by rule: one API of a host may be overloaded while another is
/// not.
#[derive(Debug, Default)]
pub(crate) struct Pauses(Mutex<HashMap<Arc<str>, Instant>>);

impl Pauses {
    /// Records that the cloud has asked for a pause in its answer to a request of this rule.
    pub(crate) fn begin(&self, rule: &Arc<str>, pause: Duration) {
        let now = Instant::now();
        let mut paused = self.0.lock();
        // Rules can be removed, so expired entries are deleted.
        paused.retain(|_, until| *until > now);
        let until = paused.entry(rule.clone()).or_insert(now);
        *until = (*until).max(now + pause);
    }

    /// Returns the end of a rule's pause.
    pub(crate) fn until(&self, rule: &str, now: Instant) -> Option<Instant> {
        self.0
            .lock()
            .get(rule)
            .copied()
            .filter(|until| *until > now)
    }

    /// Waits for the end of a rule's pause. Returns true if there was one.
    ///
    /// # Errors
    /// The remaining time, if a request with this deadline should not wait for so long.
    pub(crate) async fn wait(&self, rule: &str, deadline: Instant) -> Result<bool, Duration> {
        let mut waited = false;
        loop {
            let now = Instant::now();
            let Some(until) = self.until(rule, now) else {
                return Ok(waited);
            };

            let left = deadline.saturating_duration_since(now);
            let pause = until - now;
            if pause > LONGEST_WAIT.min(left / 2) {
                return Err(pause);
            }

            waited = true;
            sleep_until(until).await;
        }
    }

    /// Returns true if a rule is paused.
    pub(crate) fn is_paused(&self, now: Instant) -> bool {
        self.0.lock().values().any(|until| *until > now)
    }
}
