//! Where the embedded plane answers otherwise than Kubernetes does, and why that may be.
//!
//! None of it concerns what Skydock, kubectl or a test of ours asks. A difference that is listed and no longer met fails the
//! test, too.

use super::{compare::Found, request::Request};

/// A difference that may be.
pub(crate) struct Known {
    /// What it is, and why that does no harm.
    pub(crate) reason: &'static str,
    pub(crate) is: fn(&Request, &Found) -> bool,
}

pub(crate) const KNOWN: &[Known] = &[];
