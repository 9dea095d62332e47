//! The subcommands that do not run controllers.

pub mod accepted;
pub mod check;
pub(crate) mod developers;
pub mod inspect;
pub mod migrate;
pub mod precompile;
