//! AWS: requests are signed again, with keys that the plugin never receives.

pub(crate) mod credential;
pub(crate) mod imds;
pub(crate) mod request;
pub(crate) mod sigv4;
pub(crate) mod source;
pub(crate) mod sts;
