//! What the operator allows a plugin to claim, to read and to reach.

pub(crate) mod permissions;
pub(crate) mod way_out;
