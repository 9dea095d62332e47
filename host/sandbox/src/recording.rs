//! Recordings of what a plugin does, and their replay.

pub(crate) mod redact;
pub(crate) mod replay;
pub(crate) mod tape;
