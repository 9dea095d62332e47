//! Exponential back-off: the delays of items that failed.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use tokio::time::Instant;

/// Exponential back-off for each item, and optionally a token bucket for all items; the longer
/// delay applies.
#[derive(Clone, Copy, Debug)]
pub struct Limiter {
    /// Delay after the first failure; it doubles with each further one.
    pub base: Duration,
    /// Longest delay.
    pub max: Duration,
    /// Bucket for all items.
    pub bucket: Option<Rate>,
}

/// Tokens of a bucket.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// New tokens per second.
    pub per_second: f64,
    /// Maximum number of tokens.
    pub burst: f64,
}

impl Limiter {
    /// The default limiter of controllers in client-go, used for nodes: 5 ms doubling up to 1000 s,
    /// and 10 per second with bursts of 100 for all items.
    pub const NODES: Self = Self {
        base: Duration::from_millis(5),
        max: Duration::from_secs(1000),
        bucket: Some(Rate {
            per_second: 10.0,
            burst: 100.0,
        }),
    };

    /// The limiter of the service controller: 5 s doubling up to 300 s.
    pub const SERVICES: Self = Self {
        base: Duration::from_secs(5),
        max: Duration::from_secs(300),
        bucket: None,
    };

    /// Returns the delay of an item that has failed `failures` times before.
    #[must_use]
    pub fn delay(&self, base: Duration, failures: u32) -> Duration {
        base.checked_mul(2_u32.saturating_pow(failures.min(31)))
            .unwrap_or(self.max)
            .min(self.max)
    }
}

/// Number of groups into which items that failed together are divided; it is small, so that each
/// group still fills batches.
const GROUPS: u64 = 4;

/// Returns a delay that is up to 15 % shorter, depending on the item, so that items that failed
/// together are not all retried together.
#[must_use]
pub fn with_jitter(wait: Duration, whose: &impl Hash) -> Duration {
    let mut hasher = DefaultHasher::new();
    whose.hash(&mut hasher);
    let group = u32::try_from(hasher.finish() % GROUPS).unwrap_or(0);
    wait - wait / 20 * group
}

/// A token bucket, which may be in debt. Those of plugins are in other crates, which this one must not
/// use.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    rate: Rate,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// Creates a full one.
    #[must_use]
    pub fn full(rate: Rate, now: Instant) -> Self {
        Self {
            rate,
            tokens: rate.burst,
            at: now,
        }
    }

    /// Takes one token, and returns how long to wait for it.
    pub fn reserve(&mut self, now: Instant) -> Duration {
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * self.rate.per_second;
        // A negative number is debt: the next caller waits longer.
        self.tokens = (self.tokens + earned).min(self.rate.burst) - 1.0;
        self.at = now;
        self.debt()
    }

    /// Returns when the tokens that were taken are there: the past, if none was missing.
    #[must_use]
    pub fn refilled_at(&self) -> Instant {
        self.at + self.debt()
    }

    fn debt(&self) -> Duration {
        Duration::from_secs_f64((-self.tokens).max(0.0) / self.rate.per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds: S-40
    #[test]
    fn the_service_limiter_waits_5_10_20_40_80_160_300_300_seconds() {
        let waits: Vec<u64> = (0..8)
            .map(|n| Limiter::SERVICES.delay(Limiter::SERVICES.base, n).as_secs())
            .collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300]);
    }

    // Holds: N-03
    #[test]
    fn the_node_limiter_starts_at_5_ms_and_ends_at_1000_s() {
        assert_eq!(
            Limiter::NODES.delay(Limiter::NODES.base, 0),
            Duration::from_millis(5)
        );
        assert_eq!(
            Limiter::NODES.delay(Limiter::NODES.base, 3),
            Duration::from_millis(40)
        );
        assert_eq!(
            Limiter::NODES.delay(Limiter::NODES.base, u32::MAX),
            Duration::from_secs(1000)
        );
    }

    // Holds: N-03
    #[test]
    fn after_a_burst_of_100_ten_items_pass_per_second() {
        let start = Instant::now();
        let mut bucket = Bucket::full(Limiter::NODES.bucket.unwrap(), start);
        for _ in 0..100 {
            assert_eq!(bucket.reserve(start), Duration::ZERO);
        }
        assert_eq!(bucket.refilled_at(), start);
        assert_eq!(bucket.reserve(start), Duration::from_millis(100));
        assert_eq!(bucket.reserve(start), Duration::from_millis(200));
        assert_eq!(bucket.refilled_at(), start + Duration::from_millis(200));
        assert_eq!(
            bucket.reserve(start + Duration::from_secs(60)),
            Duration::ZERO
        );
    }
}
