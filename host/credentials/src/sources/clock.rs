//! The current time, which is passed to rules so that they do not read the clock.

use jiff::Timestamp;

/// A clock for dates of signatures, validity of assertions, and expiry of what issuers return.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
