//! The deadline of a call.

use std::{fmt, time::Duration};

use skydock_cloud::{Function, units::duration};

use crate::limits::Limits;

/// The wall-clock time that a call may take, and the limit that sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// From when the call has an instance.
    pub limit: Duration,
    /// Key in `--plugin-limit`.
    key: &'static str,
}

impl Deadline {
    /// Returns the deadline of a call of this function.
    pub fn of(function: Function, limits: &Limits) -> Self {
        if function.only_reads() {
            Self::of_read(limits)
        } else {
            Self::of_write(limits)
        }
    }

    /// Returns the deadline of a call that changes nothing.
    pub fn of_read(limits: &Limits) -> Self {
        Self {
            limit: limits.read_deadline,
            key: "read-deadline",
        }
    }

    /// Returns the deadline of a call that may change the cloud.
    pub fn of_write(limits: &Limits) -> Self {
        Self {
            limit: limits.write_deadline,
            key: "write-deadline",
        }
    }
}

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (--plugin-limit {})", duration(self.limit), self.key)
    }
}
