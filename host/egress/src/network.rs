//! Connections: the resolution of names, TLS, and the addresses of this machine.

pub(crate) mod dial;
pub(crate) mod issuer;
pub(crate) mod own;
