//! What happened to the requests of a rule in each of the last minutes, for people who look at it
//! now. Metrics have all of it, but only a program that reads them again and again sees changes.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Minutes that are kept, including the current one.
const KEPT: u64 = 10;

/// Requests of a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Minute {
    /// Those that ended, however they did.
    pub ended: u64,
    /// Those of them without an answer, or with status 500 or more.
    pub failed: u64,
    /// Those that were denied, before or after the rule was chosen.
    pub denied: u64,
}

/// The last minutes that had requests, oldest first, with their numbers.
#[derive(Debug, Default)]
pub(crate) struct Minutes(Mutex<VecDeque<(u64, Minute)>>);

impl Minutes {
    /// Counts a request in this minute, which is not before those of earlier calls, or is one of
    /// them.
    pub(crate) fn count(&self, minute: u64, change: impl FnOnce(&mut Minute)) {
        let mut kept = self.0.lock();
        kept.retain(|(number, _)| number + KEPT > minute);
        if kept.back().is_none_or(|(number, _)| *number < minute) {
            kept.push_back((minute, Minute::default()));
        }
        if let Some((_, last)) = kept.back_mut() {
            change(last);
        }
    }

    /// Returns the last minutes, the oldest first and this one last.
    pub(crate) fn until(&self, minute: u64) -> Vec<Minute> {
        let kept = self.0.lock();
        let found = |number: Option<u64>| {
            let kept = kept.iter().find(|(kept, _)| Some(*kept) == number);
            kept.map(|(_, minute)| *minute).unwrap_or_default()
        };
        (0..KEPT)
            .rev()
            .map(|before| found(minute.checked_sub(before)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(minutes: &Minutes, from: u64) -> Vec<u64> {
        minutes.until(from).iter().map(|it| it.ended).collect()
    }

    #[test]
    fn only_the_last_minutes_are_kept() {
        let minutes = Minutes::default();
        assert_eq!(ended(&minutes, 0), [0; 10]);
        for (minute, requests) in [(0, 1), (1, 2), (4, 3), (12, 4)] {
            for _ in 0..requests {
                minutes.count(minute, |it| it.ended += 1);
            }
        }
        assert_eq!(ended(&minutes, 12), [0, 3, 0, 0, 0, 0, 0, 0, 0, 4]);
        assert_eq!(ended(&minutes, 14), [0, 0, 0, 0, 0, 0, 0, 4, 0, 0]);
        assert_eq!(ended(&minutes, 40), [0; 10]);
        assert!(minutes.0.lock().len() <= 10);
    }

    #[test]
    fn a_request_that_is_late_counts_in_the_last_minute() {
        let minutes = Minutes::default();
        minutes.count(5, |it| it.failed += 1);
        minutes.count(4, |it| it.failed += 1);
        assert_eq!(minutes.until(5).last().unwrap().failed, 2);
    }
}
