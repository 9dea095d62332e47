//! The wall clock of a plane, which can be shifted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// A clock. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    /// Difference between this clock and the machine's.
    offset: Arc<Mutex<SignedDuration>>,
}

impl Clock {
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::now()
            .saturating_add(*self.offset())
            .unwrap_or(Timestamp::MAX)
    }

    /// Shifts the clock forwards or backwards.
    pub(crate) fn shift(&self, by: SignedDuration) {
        let mut offset = self.offset();
        *offset = offset.saturating_add(by);
    }

    fn offset(&self) -> MutexGuard<'_, SignedDuration> {
        self.offset.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
