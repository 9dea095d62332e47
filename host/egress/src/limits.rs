//! Limits on requests, connections and memory: of a plugin, and for each host.

pub(crate) mod body_memory;
pub(crate) mod breaker;
pub(crate) mod connections;
pub(crate) mod host_limiter;
pub(crate) mod hosts;
pub(crate) mod instance;
pub(crate) mod pace;
pub(crate) mod pauses;
pub(crate) mod shares;
