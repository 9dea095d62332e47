//! The version of the contract that this host supports.

/// Version of the contract (`wit/`) that this host supports. All versions 0.1.x are compatible.
pub const CONTRACT: &str = "0.1.0";

/// Name of the contract's package.
pub(crate) const PACKAGE: &str = "skydock:provider";
