//! Suspends calls to a cloud that throttles requests, for as long as it asks.

use std::time::Duration;

use parking_lot::Mutex;
use skydock_cloud::CloudError;
use skydock_controller_base::calls::retry::RetryWhen;
use tokio::time::Instant;

/// Time until which no calls are made. Set by a call that failed as a whole because the cloud asked
/// to wait.
#[derive(Default)]
pub(crate) struct Pause(Mutex<Option<Instant>>);

impl Pause {
    /// Records the error of a whole call. An error that does not ask to wait is ignored.
    pub(crate) fn after(&self, error: &CloudError) {
        if let RetryWhen::After(delay) = RetryWhen::after(error) {
            let until = Instant::now() + delay;
            let mut known = self.0.lock();
            // Concurrent calls may have been asked to wait for different times.
            *known = (*known).max(Some(until));
        }
    }

    /// Returns the remaining time; `None` if calls may be made.
    pub(crate) fn left(&self) -> Option<Duration> {
        let until = *self.0.lock();
        until?
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use skydock_cloud::Retry;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_longest_requested_wait_counts_until_it_ends() {
        let pause = Pause::default();
        let retry = |seconds| Retry {
            after: Duration::from_secs(seconds),
            message: String::new(),
        };
        pause.after(&CloudError::Unavailable("down".into()));
        assert_eq!(pause.left(), None);
        pause.after(&CloudError::Throttled(retry(9)));
        pause.after(&CloudError::InProgress(retry(2)));
        assert_eq!(pause.left(), Some(Duration::from_secs(9)));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(pause.left(), None);
    }
}
