//! Where objects are kept, how they are written, and how they are watched.

pub(crate) mod persist;
pub(crate) mod plane;
pub(crate) mod store;
pub(crate) mod watch;
pub(crate) mod write;
