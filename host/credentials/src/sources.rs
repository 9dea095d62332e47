//! Where secrets come from: files, environment variables, issuers, and the clock that both sides must agree on.

pub(crate) mod absolute_path;
pub(crate) mod clock;
pub(crate) mod failure;
pub(crate) mod file;
pub(crate) mod issuer_client;
pub(crate) mod metrics;
pub(crate) mod skew;
pub(crate) mod variable;
