//! Connections: names, the addresses that are allowed, and TLS.

pub(crate) mod address;
pub(crate) mod dial;
pub(crate) mod issuer;
pub(crate) mod own;
