//! The time of day, which rules are given and never read.

use jiff::Timestamp;

/// Where credentials get the time of day from: dates of signatures, validity of assertions, expiry of what issuers hand out.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
