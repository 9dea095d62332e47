//! Consequences of a cloud's error: whether to publish a warning, and when to retry.

use std::{hash::Hash, time::Duration};

use skydock_cloud::CloudError;
use skydock_kube::queue::{Limiter, Priority, Queue};

/// First delay after a conflict.
pub(crate) const SOON: Duration = Duration::from_millis(100);

/// Minimum and maximum delay that a cloud may ask for, as in the plugin contract.
const DELAY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));

/// When to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// Only when the object changes.
    OnChange,
    /// After exactly this delay; this is not counted as a failure.
    After(Duration),
    /// After a moment, then with back-off: another writer changed the object at the same time.
    Soon,
    /// With back-off.
    BackOff,
}

impl Again {
    /// Returns when to retry after this error.
    #[must_use]
    pub(crate) fn after(error: &CloudError) -> Self {
        match error {
            CloudError::ImplementedElsewhere | CloudError::Invalid(_) => Self::OnChange,
            CloudError::Throttled(retry) | CloudError::InProgress(retry) => {
                Self::After(retry.after.clamp(DELAY.0, DELAY.1))
            }
            CloudError::Conflict(_) => Self::Soon,
            CloudError::NotFound(_) | CloudError::Denied(_) | CloudError::Unavailable(_) | CloudError::Internal(_) => {
                Self::BackOff
            }
        }
    }

    /// Returns the delay after this many earlier failures; `None` if only a change can help.
    #[must_use]
    pub(crate) fn wait(self, limiter: &Limiter, failures: u32) -> Option<Duration> {
        match self {
            Self::OnChange => None,
            Self::After(delay) => Some(delay),
            Self::Soon => Some(limiter.delay(SOON, failures)),
            Self::BackOff => Some(limiter.delay(limiter.base, failures)),
        }
    }

    /// Puts an item back into its queue.
    pub(crate) fn schedule<K: Clone + Eq + Hash>(self, queue: &Queue<K>, key: &K) {
        self.schedule_as(queue, key, Priority::Change);
    }

    /// Like [`Again::schedule`], with a priority: a re-check that failed may stay one, so that changes still go first.
    pub(crate) fn schedule_as<K: Clone + Eq + Hash>(self, queue: &Queue<K>, key: &K, priority: Priority) {
        match self {
            Self::OnChange => queue.forget(key),
            Self::After(delay) => queue.try_after(key.clone(), delay, priority),
            Self::Soon => {
                queue.retry_race(key.clone(), SOON, priority);
            }
            Self::BackOff => {
                queue.retry_as(key.clone(), queue.base(), priority);
            }
        }
    }
}

/// Returns true if an error deserves a warning event on the object. Work in progress is not a failure, a conflict is retried
/// within moments, and objects of other implementations are ignored.
#[must_use]
pub(crate) fn warns(error: &CloudError) -> bool {
    !matches!(error, CloudError::InProgress(_) | CloudError::Conflict(_) | CloudError::ImplementedElsewhere)
}

/// Returns true if an error is likely to be temporary and says nothing about the object.
#[must_use]
pub(crate) fn passes(error: &CloudError) -> bool {
    matches!(
        error,
        CloudError::Conflict(_) | CloudError::Throttled(_) | CloudError::InProgress(_) | CloudError::Unavailable(_)
    )
}

/// Returns true if an error is counted in metrics.
#[must_use]
pub(crate) fn counts(error: &CloudError) -> bool {
    !matches!(error, CloudError::InProgress(_) | CloudError::ImplementedElsewhere)
}

#[cfg(test)]
mod tests {
    use skydock_cloud::Retry;

    use super::*;

    fn retry(after: Duration) -> Retry {
        Retry { after, message: String::new() }
    }

    #[test]
    fn each_error_decides_on_retry_and_warning() {
        let text = String::new;
        let minute = Duration::from_secs(60);
        for (error, again, warning) in [
            (CloudError::NotFound(text()), Again::BackOff, true),
            (CloudError::ImplementedElsewhere, Again::OnChange, false),
            (CloudError::Conflict(text()), Again::Soon, false),
            (CloudError::Throttled(retry(minute)), Again::After(minute), true),
            (CloudError::InProgress(retry(minute)), Again::After(minute), false),
            (CloudError::Denied(text()), Again::BackOff, true),
            (CloudError::Invalid(text()), Again::OnChange, true),
            (CloudError::Unavailable(text()), Again::BackOff, true),
            (CloudError::Internal(text()), Again::BackOff, true),
        ] {
            assert_eq!(Again::after(&error), again, "{error}");
            assert_eq!(warns(&error), warning, "{error}");
        }
    }

    #[test]
    fn a_delay_is_clamped_to_100_ms_and_one_hour() {
        let after = |delay| Again::after(&CloudError::InProgress(retry(delay)));
        assert_eq!(after(Duration::ZERO), Again::After(Duration::from_millis(100)));
        assert_eq!(after(Duration::MAX), Again::After(Duration::from_secs(3600)));
    }
}
