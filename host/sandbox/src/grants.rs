//! What the operator allows a plugin to claim, to read and to reach.

pub(crate) mod gateway_provider;
pub(crate) mod owned;
pub(crate) mod permissions;
