//! Suspends calls to a cloud that throttles requests, for as long as it asks.

use std::time::Duration;

use parking_lot::Mutex;
use skydock_cloud::CloudError;
use skydock_controller_base::calls::retry::RetryWhen;
use skydock_kube::queue::{Priority, Queue};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Time until which no calls are made. Set by a call that failed as a whole because the cloud asked
/// to wait.
#[derive(Default)]
pub(crate) struct Pause(Mutex<Option<Instant>>);

impl Pause {
    /// Makes a call. Returns `None` if the cloud has asked to wait, or after the shutdown: nothing
    /// is to follow from its answer then.
    pub(crate) async fn call<T>(
        &self,
        stop: &CancellationToken,
        call: impl Future<Output = Result<T, CloudError>>,
    ) -> Option<Result<T, CloudError>> {
        if stop.is_cancelled() || self.left().is_some() {
            return None;
        }

        let answer = stop.run_until_cancelled(call).await?;
        if let Err(error) = &answer {
            self.after(error);
        }
        Some(answer)
    }

    /// Ends the processing of a key that no call was made about. Unless this process is shutting
    /// down, it is queued again for when the cloud may be called.
    pub(crate) fn put_back(
        &self,
        queue: &Queue<String>,
        key: &str,
        priority: Priority,
        stop: &CancellationToken,
    ) {
        let key = key.to_owned();
        if !stop.is_cancelled() {
            let delay = self.left().unwrap_or_default();
            queue.add_after(key.clone(), delay, priority);
        }
        queue.done(&key);
    }

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

    async fn unexpected() -> Result<u8, CloudError> {
        unreachable!("no call is to be made")
    }

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

    #[tokio::test(start_paused = true)]
    async fn no_call_is_made_while_the_cloud_asks_to_wait() {
        let (pause, stop) = (Pause::default(), CancellationToken::new());
        let error = CloudError::Throttled(Retry {
            after: Duration::from_secs(9),
            message: String::new(),
        });

        let called = pause.call(&stop, async { Ok(1) }).await;
        assert_eq!(called, Some(Ok(1)));
        let failing = async || -> Result<u8, CloudError> { Err(error.clone()) };
        let called = pause.call(&stop, failing()).await;
        assert_eq!(called, Some(Err(error.clone())));
        let called = pause.call(&stop, unexpected()).await;
        assert_eq!(called, None);

        tokio::time::advance(Duration::from_secs(9)).await;
        let called = pause.call(&stop, async { Ok(2) }).await;
        assert_eq!(called, Some(Ok(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn no_answer_is_awaited_after_the_shutdown() {
        let (pause, stop) = (Pause::default(), CancellationToken::new());
        let never = std::future::pending::<Result<u8, CloudError>>();
        let (called, ()) = tokio::join!(pause.call(&stop, never), async { stop.cancel() });
        assert_eq!(called, None);
        let called = pause.call(&stop, unexpected()).await;
        assert_eq!(called, None);
    }
}
