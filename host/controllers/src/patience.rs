//! Work in progress is no failure, and nobody is told of it. If it does not end, somebody is.

use std::{sync::Arc, time::Duration};

use prometheus_client::metrics::gauge::Gauge;
use skydock_cloud::CloudError;
use tokio::time::Instant;

use crate::{events::TELL_AGAIN, retry};

/// After so long it is told: most of what clouds make takes seconds, and the longest of it some minutes.
const LONG: Duration = Duration::from_secs(10 * 60);

/// For how long the cloud has said of one object that it is at it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patience {
    since: Option<Instant>,
    /// When to tell, next time.
    tell: Option<Instant>,
    counted: Option<Arc<Counted>>,
}

/// Counts as one for as long as it is there.
#[derive(Debug)]
struct Counted(Gauge);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Patience {
    /// True while the cloud is at it.
    pub(crate) fn is_tried(&self) -> bool {
        self.since.is_some()
    }

    /// Takes note of an error. Says how long it has been in progress, if that is to be told now.
    pub(crate) fn note(&mut self, error: &CloudError, long: &Gauge, now: Instant) -> Option<Duration> {
        if !matches!(error, CloudError::InProgress(_)) {
            // One that passes says nothing about the work.
            if !retry::passes(error) {
                *self = Self::default();
            }
            return None;
        }
        let since = *self.since.get_or_insert(now);
        if now < *self.tell.get_or_insert(since + LONG) {
            return None;
        }
        self.tell = Some(now + TELL_AGAIN);
        self.counted.get_or_insert_with(|| {
            long.inc();
            Arc::new(Counted(long.clone()))
        });
        Some(now - since)
    }
}

/// A time for an event.
pub(crate) fn minutes(time: Duration) -> String {
    format!("{} minutes", time.as_secs() / 60)
}

#[cfg(test)]
mod tests {
    use skydock_cloud::Retry;

    use super::*;

    #[test]
    fn what_does_not_end_is_told_after_ten_minutes_and_each_half_hour() {
        let minute = Duration::from_secs(60);
        let at_it = CloudError::InProgress(Retry { after: minute, message: String::new() });
        let (start, gauge, mut patience) = (Instant::now(), Gauge::default(), Patience::default());
        assert!(!patience.is_tried());
        let mut told = Vec::new();
        for minutes in 0..=75 {
            if let Some(lasted) = patience.note(&at_it, &gauge, start + minutes * minute) {
                assert_eq!(lasted, minutes * minute);
                told.push(minutes);
            }
            assert_eq!(gauge.get(), i64::from(minutes >= 10), "{minutes}");
        }
        assert_eq!(told, [10, 40, 70]);
        let other = |patience: &mut Patience, error| patience.note(&error, &gauge, start + 76 * minute);
        assert_eq!(other(&mut patience, CloudError::Unavailable(String::new())), None);
        assert!(patience.is_tried());
        assert_eq!(gauge.get(), 1, "nobody knows that it is not in progress any more");
        assert_eq!(other(&mut patience, CloudError::Denied(String::new())), None);
        assert_eq!((patience.is_tried(), gauge.get()), (false, 0));
        assert_eq!(patience.note(&at_it, &gauge, start + 77 * minute), None);
        assert_eq!(patience.note(&at_it, &gauge, start + 86 * minute), None);
        assert!(patience.note(&at_it, &gauge, start + 87 * minute).is_some());
        drop(patience);
        assert_eq!(gauge.get(), 0, "what is forgotten is in progress no more");
    }
}
