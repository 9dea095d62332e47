//! Concurrency of a plugin's calls: any number, one for each capability, or one at a time.

/// Which calls of a plugin may run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Any calls, each in its own instance.
    Any,
    /// One call at a time for each capability, all in the same instance of that capability.
    PerInterface,
    /// One call at a time, all in the same instance.
    None,
}
