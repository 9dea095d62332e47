//! The subcommands that do not run controllers.

pub mod accepted;
pub mod check;
pub(crate) mod developers;
pub mod doctor;
pub mod inspect;
pub mod migrate;
pub mod precompile;
pub(crate) mod replay;
