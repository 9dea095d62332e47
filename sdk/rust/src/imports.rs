//! Functions of the host.

pub mod cache;
pub mod cluster;
pub mod events;
pub mod log;
pub mod objects;
