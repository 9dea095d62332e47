//! Bodies of requests on their way up, and of answers on their way down.

pub(crate) mod download;
pub(crate) mod upload;
