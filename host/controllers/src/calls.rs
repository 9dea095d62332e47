//! How calls of the cloud are repeated: back-off, progress, and pauses while the cloud is not available.

pub(crate) mod pause;
pub(crate) mod progress;
pub(crate) mod retry;
