//! What a plugin may use: limits, and the accounts that show what it has used.

#![forbid(unsafe_code)]

pub mod account;
pub mod deadline;
pub mod files;
pub mod limits;
pub mod meter;
pub mod own_directory;
pub mod ticker;
