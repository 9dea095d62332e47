//! When controllers repeat a call.

use std::time::Duration;

use skydock_cloud::CloudError;

/// Minimum and maximum delay that a cloud may ask for.
const DELAY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));

/// First delay after a failure. Controllers begin with 5 s; nobody wants to wait that long in a
/// test.
const BACK_OFF: Duration = Duration::from_millis(500);

/// Largest delay after repeated failures.
const LONGEST: Duration = Duration::from_secs(10);

/// Returns the delay before the call is repeated, after this many earlier failures; `None` if only
/// a change of the object can help.
pub(crate) fn delay(error: &CloudError, failures: u32) -> Option<Duration> {
    let doubled = |first: Duration| {
        first
            .saturating_mul(2_u32.saturating_pow(failures))
            .min(LONGEST)
    };

    match error {
        CloudError::ImplementedElsewhere | CloudError::Invalid(_) => None,
        CloudError::InProgress(retry) | CloudError::Throttled(retry) => {
            Some(retry.after.clamp(DELAY.0, DELAY.1))
        }
        CloudError::Conflict(_) => Some(doubled(DELAY.0)),
        CloudError::NotFound(_)
        | CloudError::Denied(_)
        | CloudError::Unavailable(_)
        | CloudError::Internal(_) => Some(doubled(BACK_OFF)),
    }
}

#[cfg(test)]
mod tests {
    use skydock_cloud::Retry;

    use super::*;

    #[test]
    fn calls_are_repeated_as_controllers_do() {
        let text = || "x".to_owned();
        let retry = |millis| Retry {
            after: Duration::from_millis(millis),
            message: text(),
        };
        for (error, failures, millis) in [
            (CloudError::Invalid(text()), 0, None),
            (CloudError::ImplementedElsewhere, 0, None),
            (CloudError::InProgress(retry(1500)), 3, Some(1500)),
            (CloudError::Throttled(retry(1)), 0, Some(100)),
            (CloudError::Conflict(text()), 0, Some(100)),
            (CloudError::Conflict(text()), 2, Some(400)),
            (CloudError::Unavailable(text()), 1, Some(1000)),
            (CloudError::NotFound(text()), 40, Some(10_000)),
        ] {
            assert_eq!(
                delay(&error, failures),
                millis.map(Duration::from_millis),
                "{error}"
            );
        }
    }
}
