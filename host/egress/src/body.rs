//! The bodies of requests (upload) and of answers (download).

pub(crate) mod download;
pub(crate) mod upload;
