//! What follows from an error of the cloud: whether to tell somebody, and when to try again.

use std::{hash::Hash, time::Duration};

use skydock_cloud::CloudError;

use crate::queue::{Limiter, Priority, Queue};

/// First wait after a lost race.
pub(crate) const SOON: Duration = Duration::from_millis(100);

/// Least and longest delay a cloud may ask for; the contract's bounds.
const DELAY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));

/// When to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// Not before the object changes.
    OnChange,
    /// After exactly this delay; it is no failure.
    After(Duration),
    /// Within moments, then with back-off: a race was lost.
    Soon,
    /// With back-off.
    BackOff,
}

impl Again {
    /// What an error asks for.
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

    /// How long to wait after so many failures before this one; `None` if only a change can help.
    #[must_use]
    pub(crate) fn wait(self, limiter: &Limiter, failures: u32) -> Option<Duration> {
        match self {
            Self::OnChange => None,
            Self::After(delay) => Some(delay),
            Self::Soon => Some(limiter.delay(SOON, failures)),
            Self::BackOff => Some(limiter.delay(limiter.base, failures)),
        }
    }

    /// Puts an item back into its queue accordingly.
    pub(crate) fn schedule<K: Clone + Eq + Hash>(self, queue: &Queue<K>, key: &K) {
        self.schedule_as(queue, key, Priority::Change);
    }

    /// As [`Again::schedule`]: a re-check that failed may remain one, so that changes still go first.
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

/// True if an error is worth a warning on the object. Work in progress is no failure, a race lost is repeated within
/// moments, and what another implementation owns is none of our business.
#[must_use]
pub(crate) fn warns(error: &CloudError) -> bool {
    !matches!(error, CloudError::InProgress(_) | CloudError::Conflict(_) | CloudError::ImplementedElsewhere)
}

/// True if an error is likely to pass by itself, and says nothing about the object.
#[must_use]
pub(crate) fn passes(error: &CloudError) -> bool {
    matches!(
        error,
        CloudError::Conflict(_) | CloudError::Throttled(_) | CloudError::InProgress(_) | CloudError::Unavailable(_)
    )
}

/// True if an error counts as one in metrics.
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
    fn each_case_of_error_has_its_own_consequence() {
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
    fn a_delay_is_kept_between_100_ms_and_one_hour() {
        let after = |delay| Again::after(&CloudError::InProgress(retry(delay)));
        assert_eq!(after(Duration::ZERO), Again::After(Duration::from_millis(100)));
        assert_eq!(after(Duration::MAX), Again::After(Duration::from_secs(3600)));
    }
}
