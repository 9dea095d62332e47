//! The subcommands that do not run controllers.
//!
//! A subcommand is a case of `Command`, or of the enum of its group such as `PluginCommand`, in
//! `cli.rs`, and a module with `run` here, by its last word: `plugin inspect` is `inspect.rs`.
//! `lib.rs` calls it.

pub mod accepted;
pub mod check;
pub(crate) mod developers;
pub mod doctor;
pub mod inspect;
pub mod migrate;
pub mod precompile;
pub(crate) mod replay;
