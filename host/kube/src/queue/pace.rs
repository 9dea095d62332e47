//! Spreads re-checks over time.

use std::time::Duration;

use tokio::time::Instant;

/// Rate of re-checks. It is limited because nothing waits for re-checks, and each may cost a call
/// to the cloud. The time at which a re-check may be handed out is its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Time between two re-checks.
    pub interval: Duration,
    /// Number of re-checks without delay after a time without any; at least 1.
    pub burst: u32,
    /// Maximum number that are processed at the same time; at least 1. The other workers are for
    /// changes.
    pub in_flight: usize,
}

/// Assigns a time to each re-check.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Time of the next slot if there were no bursts.
    next: Option<Instant>,
}

impl Slots {
    /// Returns the next free time, which may be now.
    pub(super) fn reserve(&mut self, pace: &Pace, now: Instant) -> Instant {
        // Unused slots of the past can be taken at once, up to a burst.
        let credit = pace.interval * pace.burst.saturating_sub(1);
        // A clock that began a moment ago cannot go back: then there is no burst.
        let earliest = now.checked_sub(credit).unwrap_or(now);
        let slot = self.next.map_or(earliest, |next| next.max(earliest));
        self.next = Some(slot + pace.interval);
        slot.max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_burst_there_is_one_slot_for_each_interval() {
        let pace = Pace {
            interval: Duration::from_secs(1),
            burst: 3,
            in_flight: 1,
        };
        let start = Instant::now() + Duration::from_secs(3600);
        let mut slots = Slots::default();
        let mut waits = |now: Instant, n: usize| -> Vec<u64> {
            (0..n)
                .map(|_| (slots.reserve(&pace, now) - now).as_secs())
                .collect()
        };

        assert_eq!(waits(start, 6), [0, 0, 0, 1, 2, 3]);
        assert_eq!(
            waits(start + Duration::from_secs(2), 1),
            [2],
            "what is reserved stays so"
        );
        assert_eq!(
            waits(start + Duration::from_secs(600), 5),
            [0, 0, 0, 1, 2],
            "no more than a burst is saved up"
        );
    }
}
