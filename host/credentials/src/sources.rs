//! What [`kinds`](crate::kinds) of credentials use to get their secrets: files, environment
//! variables, a client for issuers, and the clock that both sides must agree on. A new kind begins in
//! `kinds.rs`.

pub(crate) mod absolute_path;
pub(crate) mod clock;
pub(crate) mod failure;
pub(crate) mod file;
pub(crate) mod issuer_client;
pub(crate) mod metrics;
pub(crate) mod skew;
pub(crate) mod variable;
