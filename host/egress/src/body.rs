//! Bodies on their way up and down.

pub(crate) mod download;
pub(crate) mod upload;
