//! Functions of the host: cache, cluster, events, log, and objects.

pub mod cache;
pub mod cluster;
pub mod events;
pub mod log;
pub mod objects;
