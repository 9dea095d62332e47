//! From a file to code that can run: reading, checking, compiling, and what is kept for the next start.

pub(crate) mod accepted;
pub(crate) mod artifacts;
pub(crate) mod code;
pub(crate) mod compile;
pub(crate) mod identity;
pub(crate) mod info;
pub(crate) mod inspect;
pub(crate) mod last_good;
pub mod metadata;
pub(crate) mod outline;
pub(crate) mod own_directory;
pub(crate) mod shape;
pub(crate) mod source;
pub(crate) mod watch;
