//! Reports operations in the cloud that take too long. Work in progress, and what another writer is
//! changing, is not a failure and is not reported at first.

use std::{sync::Arc, time::Duration};

use prometheus_client::metrics::gauge::Gauge;
use skydock_cloud::CloudError;
use skydock_kube::events::REMINDER_PERIOD;
use tokio::time::Instant;

use crate::calls::retry;

/// Time after which an operation is reported: most operations in clouds take seconds, and the
/// longest some minutes.
const LONG: Duration = Duration::from_secs(10 * 60);

/// Tracks for how long an operation on one object has been in progress.
#[derive(Clone, Debug, Default)]
pub struct ProgressTracker {
    since: Option<Instant>,
    /// Time of the next report.
    next_report: Option<Instant>,
    counted: Option<Arc<Counted>>,
}

/// Increments a gauge for as long as it exists.
#[derive(Debug)]
struct Counted(Gauge);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl ProgressTracker {
    /// Returns true while an operation is in progress.
    pub fn is_tried(&self) -> bool {
        self.since.is_some()
    }

    /// Records an error. Returns how long the operation has been in progress if it is to be
    /// reported.
    pub fn track(&mut self, error: &CloudError, long: &Gauge, now: Instant) -> Option<Duration> {
        if !matches!(error, CloudError::InProgress(_) | CloudError::Conflict(_)) {
            // A temporary error says nothing about the operation.
            if !retry::is_temporary(error) {
                *self = Self::default();
            }
            return None;
        }

        let since = *self.since.get_or_insert(now);
        if now < *self.next_report.get_or_insert(since + LONG) {
            return None;
        }

        self.next_report = Some(now + REMINDER_PERIOD);
        self.counted.get_or_insert_with(|| {
            long.inc();
            Arc::new(Counted(long.clone()))
        });

        Some(now - since)
    }
}

/// Formats a duration for an event.
pub fn minutes(time: Duration) -> String {
    format!("{} minutes", time.as_secs() / 60)
}

#[cfg(test)]
mod tests {
    use skydock_cloud::Retry;

    use super::*;

    #[test]
    fn long_progress_is_reported_after_10_minutes_then_half_hourly() {
        let minute = Duration::from_secs(60);
        let at_it = CloudError::InProgress(Retry {
            after: minute,
            message: String::new(),
        });
        let (start, gauge, mut progress) =
            (Instant::now(), Gauge::default(), ProgressTracker::default());
        assert!(!progress.is_tried());

        let mut reported = Vec::new();
        for minutes in 0..=75 {
            if let Some(lasted) = progress.track(&at_it, &gauge, start + minutes * minute) {
                assert_eq!(lasted, minutes * minute);
                reported.push(minutes);
            }
            assert_eq!(gauge.get(), i64::from(minutes >= 10), "{minutes}");
        }
        assert_eq!(reported, [10, 40, 70]);

        let other = |progress: &mut ProgressTracker, error| {
            progress.track(&error, &gauge, start + 76 * minute)
        };
        assert_eq!(
            other(&mut progress, CloudError::Unavailable(String::new())),
            None
        );
        assert!(progress.is_tried());
        assert_eq!(
            gauge.get(),
            1,
            "nobody knows that it is not in progress any more"
        );
        assert_eq!(
            other(&mut progress, CloudError::Denied(String::new())),
            None
        );
        assert_eq!((progress.is_tried(), gauge.get()), (false, 0));
        assert_eq!(progress.track(&at_it, &gauge, start + 77 * minute), None);
        assert_eq!(progress.track(&at_it, &gauge, start + 86 * minute), None);
        assert!(
            progress
                .track(&at_it, &gauge, start + 87 * minute)
                .is_some()
        );

        let busy = CloudError::Conflict(String::new());
        progress = ProgressTracker::default();
        assert_eq!(progress.track(&busy, &gauge, start), None);

        let lasted = progress.track(&busy, &gauge, start + LONG);
        assert_eq!(lasted, Some(LONG), "a conflict that does not end");
        drop(progress);
        assert_eq!(gauge.get(), 0, "what is forgotten is in progress no more");
    }
}
