//! What a plugin may use: limits, and the accounts that show what it has used.

pub(crate) mod account;
pub(crate) mod deadline;
pub(crate) mod limits;
pub(crate) mod meter;
pub(crate) mod ticker;
