//! The subcommands that do not run controllers.

pub mod accepted;
pub mod inspect;
pub mod precompile;
