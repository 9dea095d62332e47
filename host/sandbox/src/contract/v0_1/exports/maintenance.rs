//! The interface `maintenance`: the periodic work of a plugin.

use std::time::Duration;

use super::Guest;
use crate::contract::{Running, v0_1::from_guest::single_answer};

/// Bounds of the delay before the next maintenance.
const PAUSE: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(10)..=Duration::from_secs(24 * 60 * 60);

impl<'a> Guest<'a, '_> {
    /// Calls `maintenance.maintain`.
    pub(crate) fn maintain(self) -> Running<'a, Duration> {
        let Self {
            functions, store, ..
        } = self;
        Box::pin(async move {
            let answer = call!(functions, store, Maintain: maintenance.call_maintain());
            Ok(single_answer(answer).map(pause))
        })
    }
}

/// Returns the delay before the next maintenance, within its bounds.
fn pause(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds).clamp(*PAUSE.start(), *PAUSE.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_before_the_next_maintenance_has_bounds() {
        for (milliseconds, seconds) in [
            (0, 10),
            (10_000, 10),
            (60_000, 60),
            (u64::MAX, 24 * 60 * 60),
        ] {
            assert_eq!(
                pause(milliseconds),
                Duration::from_secs(seconds),
                "{milliseconds} ms"
            );
        }
    }
}
