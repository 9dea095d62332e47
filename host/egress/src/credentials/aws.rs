//! AWS: requests signed anew with keys that the guest never sees.

pub(crate) mod actions;
pub(crate) mod credential;
pub(crate) mod endpoint;
pub(crate) mod request;
pub(crate) mod sigv4;
pub(crate) mod source;
pub(crate) mod sts;
