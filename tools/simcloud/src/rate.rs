//! Limit of the rate of requests.
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::history::Millis;

/// A limit for all clients together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// Requests per second in the long run.
    pub per_second: NonZeroU32,
    /// Requests at once after a pause.
    pub burst: NonZeroU32,
}

/// How much of a limit is used: a bucket that leaks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// Thousandths of requests.
    level: u64,
    at: Millis,
}

impl Used {
    /// Takes a request. If it exceeds the limit, returns the seconds to wait, at least 1.
    pub(crate) fn take(&mut self, now: Millis, limit: RateLimit) -> Option<u64> {
        let rate = u64::from(limit.per_second.get());
        let burst = u64::from(limit.burst.get()) * 1000;

        let gone = now.saturating_sub(self.at).saturating_mul(rate);
        *self = Self {
            // The limit may have been lowered since the last request.
            level: self.level.saturating_sub(gone).min(burst),
            at: now,
        };

        if self.level + 1000 <= burst {
            self.level += 1000;
            return None;
        }

        Some((self.level + 1000 - burst).div_ceil(rate * 1000).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_followed_by_the_rate() {
        let limit = |per_second, burst| RateLimit {
            per_second: NonZeroU32::new(per_second).unwrap(),
            burst: NonZeroU32::new(burst).unwrap(),
        };
        let mut used = Used::default();
        let taken: Vec<_> = [0, 0, 0, 499, 500, 500, 60_000, 60_000, 60_000]
            .map(|now| used.take(now, limit(2, 2)))
            .to_vec();
        let wait = Some(1);
        assert_eq!(
            taken,
            [None, None, wait, wait, None, wait, None, None, wait]
        );
    }
}
