//! Tracks which failures of a node were reported. Attempts follow within milliseconds at first, and
//! each of them would otherwise be a line in the log and an event.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use tokio::time::Instant;

/// Time during which a failure is not reported again. It is about as long as the first 14 attempts
/// take; those after them are further apart.
const PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of different failures that are reported within the period. A message may differ
/// each time, for example by the ID of a request.
const DIFFERENT: usize = 3;

/// Hashes of the failures that were reported within the period, and when.
#[derive(Default)]
pub(super) struct ReportedFailures(Vec<(u64, Instant)>);

impl ReportedFailures {
    /// Returns true if this failure of the node with this UID is to be reported, and records that
    /// it is.
    pub(super) fn is_news(&mut self, uid: &str, message: &str, now: Instant) -> bool {
        let mut hasher = DefaultHasher::new();
        (uid, message).hash(&mut hasher);
        let failure = hasher.finish();

        self.0
            .retain(|(_, at)| now.saturating_duration_since(*at) < PERIOD);
        if self.0.len() >= DIFFERENT || self.0.iter().any(|(reported, _)| *reported == failure) {
            return false;
        }

        self.0.push((failure, now));
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the indexes of the failures that are reported.
    fn reported(failures: &[(u64, &str, &str)]) -> Vec<usize> {
        let (start, mut reported) = (Instant::now(), ReportedFailures::default());
        assert!(reported.is_empty());
        let mut is_news = |(millis, uid, message): &(u64, &str, &str)| {
            reported.is_news(uid, message, start + Duration::from_millis(*millis))
        };
        (0..failures.len())
            .filter(|index| is_news(&failures[*index]))
            .collect()
    }

    #[test]
    fn a_failure_is_told_at_once_and_then_once_a_minute() {
        // milliseconds, UID and message of each failure; which of them are reported
        for (failures, expected) in [
            (
                vec![(0, "u", "a"), (5, "u", "a"), (59_999, "u", "a")],
                vec![0],
            ),
            (
                vec![(0, "u", "a"), (60_000, "u", "a"), (60_001, "u", "a")],
                vec![0, 1],
            ),
            // The minute is counted from when it was reported, not from when it last happened.
            (
                vec![(0, "u", "a"), (40_000, "u", "a"), (70_000, "u", "a")],
                vec![0, 2],
            ),
            (
                vec![(0, "u", "a"), (5, "u", "b"), (10, "u", "b")],
                vec![0, 1],
            ),
            // Failures that alternate.
            (
                vec![(0, "u", "a"), (5, "u", "b"), (10, "u", "a"), (20, "u", "b")],
                vec![0, 1],
            ),
            // Messages that differ each time.
            (
                vec![
                    (0, "u", "a"),
                    (5, "u", "b"),
                    (10, "u", "c"),
                    (20, "u", "d"),
                    (60_000, "u", "e"),
                ],
                vec![0, 1, 2, 4],
            ),
            // Another node with the same name.
            (vec![(0, "u", "a"), (5, "v", "a")], vec![0, 1]),
        ] {
            assert_eq!(reported(&failures), expected, "{failures:?}");
        }
    }

    #[test]
    fn attempts_with_back_off_are_told_at_growing_intervals() {
        // As in the queue: 5 ms, twice as long after each failure, and at most 1000 s.
        let mut attempts = vec![(0, "u", "a")];
        let mut delay = 5;
        while attempts.len() < 20 {
            attempts.push((attempts[attempts.len() - 1].0 + delay, "u", "a"));
            delay = (2 * delay).min(1_000_000);
        }

        let seconds: Vec<_> = reported(&attempts)
            .into_iter()
            .map(|index| attempts[index].0 / 1000)
            .collect();
        assert_eq!(seconds, [0, 81, 163, 327, 655, 1310, 2310]);
    }
}
