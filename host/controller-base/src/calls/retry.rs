//! Consequences of an error of the cloud or the API server: when to retry, and who hears of it.

use std::{hash::Hash, time::Duration};

use skydock_cloud::{CloudError, Retry};
use skydock_kube::{
    api::ApiError,
    queue::{Limiter, Priority, Queue, Rate},
};

/// First delay after a conflict.
pub const SOON: Duration = Duration::from_millis(100);

/// How often what someone else has undone on an object is restored: they may undo it again each
/// time.
pub const RESTORES: Rate = Rate {
    per_second: 0.1,
    burst: 3.0,
};

/// When to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryWhen {
    /// Only when the object changes.
    OnChange,
    /// After exactly this delay; this is not counted as a failure.
    After(Duration),
    /// After a moment, then with back-off: another writer changed the object at the same time.
    Soon,
    /// With back-off.
    BackOff,
}

impl RetryWhen {
    /// Returns when to retry after this error.
    #[must_use]
    pub fn after(error: &CloudError) -> Self {
        Consequence::of(error).retry
    }

    /// Returns when to repeat a write that failed in this way: an object that does not exist needs
    /// none.
    #[must_use]
    pub fn after_write(error: &ApiError) -> Self {
        match error {
            ApiError::Gone(_) => Self::OnChange,
            ApiError::Changed(_) => Self::Soon,
            ApiError::Forbidden(..) | ApiError::Rejected(..) | ApiError::Failed(..) => {
                Self::BackOff
            }
        }
    }

    fn when_asked(retry: &Retry) -> Self {
        Self::After(Retry::bounded(retry.after))
    }

    /// Returns the delay after this many earlier failures; `None` if only a change can help.
    #[must_use]
    pub fn delay(self, limiter: &Limiter, failures: u32) -> Option<Duration> {
        match self {
            Self::OnChange => None,
            Self::After(delay) => Some(delay),
            Self::Soon => Some(limiter.delay(SOON, failures)),
            Self::BackOff => Some(limiter.delay(limiter.base, failures)),
        }
    }

    /// Puts an item back into its queue.
    pub fn schedule<K: Clone + Eq + Hash>(self, queue: &Queue<K>, key: &K) {
        self.schedule_as(queue, key, Priority::Change);
    }

    /// Like [`RetryWhen::schedule`], with a priority: a re-check that failed may stay one, so that
    /// changes still go first.
    pub fn schedule_as<K: Clone + Eq + Hash>(self, queue: &Queue<K>, key: &K, priority: Priority) {
        match self {
            Self::OnChange => queue.forget(key),
            Self::After(delay) => queue.add_attempt_after(key.clone(), delay, priority),
            Self::Soon => {
                queue.retry_after_conflict(key.clone(), SOON, priority);
            }
            Self::BackOff => {
                queue.retry(key.clone(), queue.base(), priority);
            }
        }
    }
}

/// What follows from a cloud's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Consequence {
    retry: RetryWhen,
    /// Whether it deserves a warning event on the object.
    warns: bool,
    /// Whether it is counted in metrics.
    counts: bool,
    /// Whether it is likely to be temporary and says nothing about the object.
    is_temporary: bool,
}

impl Consequence {
    /// Work in progress is not a failure, a conflict is retried within moments, and objects of
    /// other implementations are ignored.
    fn of(error: &CloudError) -> Self {
        let failure = Self {
            retry: RetryWhen::BackOff,
            warns: true,
            counts: true,
            is_temporary: false,
        };

        match error {
            CloudError::NotFound(_) | CloudError::Denied(_) | CloudError::Internal(_) => failure,
            CloudError::Invalid(_) => Self {
                retry: RetryWhen::OnChange,
                ..failure
            },
            CloudError::ImplementedElsewhere => Self {
                retry: RetryWhen::OnChange,
                warns: false,
                counts: false,
                ..failure
            },
            CloudError::Unavailable(_) => Self {
                is_temporary: true,
                ..failure
            },
            CloudError::Throttled(retry) => Self {
                retry: RetryWhen::when_asked(retry),
                is_temporary: true,
                ..failure
            },
            CloudError::Conflict(_) => Self {
                retry: RetryWhen::Soon,
                warns: false,
                is_temporary: true,
                ..failure
            },
            CloudError::InProgress(retry) => Self {
                retry: RetryWhen::when_asked(retry),
                warns: false,
                counts: false,
                is_temporary: true,
            },
        }
    }
}

/// Returns true if an error deserves a warning event on the object.
#[must_use]
pub fn warns(error: &CloudError) -> bool {
    Consequence::of(error).warns
}

/// Returns true if an error is likely to be temporary and says nothing about the object.
#[must_use]
pub fn is_temporary(error: &CloudError) -> bool {
    Consequence::of(error).is_temporary
}

/// Returns true if an error is counted in metrics.
#[must_use]
pub fn counts(error: &CloudError) -> bool {
    Consequence::of(error).counts
}

#[cfg(test)]
mod tests {
    use skydock_kube::api::Action;

    use super::*;

    fn retry(after: Duration) -> Retry {
        Retry {
            after,
            message: String::new(),
        }
    }

    #[test]
    fn each_cloud_error_has_its_consequences() {
        let text = String::new;
        let minute = Duration::from_secs(60);
        // the error; when to retry, whether it warns, counts, is temporary
        for (error, retry, rest) in [
            (
                CloudError::NotFound(text()),
                RetryWhen::BackOff,
                (true, true, false),
            ),
            (
                CloudError::ImplementedElsewhere,
                RetryWhen::OnChange,
                (false, false, false),
            ),
            (
                CloudError::Conflict(text()),
                RetryWhen::Soon,
                (false, true, true),
            ),
            (
                CloudError::Throttled(retry(minute)),
                RetryWhen::After(minute),
                (true, true, true),
            ),
            (
                CloudError::InProgress(retry(minute)),
                RetryWhen::After(minute),
                (false, false, true),
            ),
            (
                CloudError::Denied(text()),
                RetryWhen::BackOff,
                (true, true, false),
            ),
            (
                CloudError::Invalid(text()),
                RetryWhen::OnChange,
                (true, true, false),
            ),
            (
                CloudError::Unavailable(text()),
                RetryWhen::BackOff,
                (true, true, true),
            ),
            (
                CloudError::Internal(text()),
                RetryWhen::BackOff,
                (true, true, false),
            ),
        ] {
            assert_eq!(RetryWhen::after(&error), retry, "{error}");
            assert_eq!(
                (warns(&error), counts(&error), is_temporary(&error)),
                rest,
                "{error}"
            );
        }
    }

    #[test]
    fn a_failed_write_is_repeated_unless_the_object_is_gone() {
        let action = || Action {
            verb: "patch",
            resource: "nodes".to_owned(),
        };
        for (error, retry) in [
            (ApiError::Gone(action()), RetryWhen::OnChange),
            (ApiError::Changed(action()), RetryWhen::Soon),
            (
                ApiError::Forbidden(action(), String::new()),
                RetryWhen::BackOff,
            ),
            (
                ApiError::Rejected(action(), String::new()),
                RetryWhen::BackOff,
            ),
            (
                ApiError::Failed(action(), String::new()),
                RetryWhen::BackOff,
            ),
        ] {
            assert_eq!(RetryWhen::after_write(&error), retry, "{error}");
        }
    }

    #[test]
    fn a_delay_is_clamped_to_100_ms_and_one_hour() {
        let after = |delay| RetryWhen::after(&CloudError::InProgress(retry(delay)));
        assert_eq!(
            after(Duration::ZERO),
            RetryWhen::After(Duration::from_millis(100))
        );
        assert_eq!(
            after(Duration::MAX),
            RetryWhen::After(Duration::from_secs(3600))
        );
    }
}
