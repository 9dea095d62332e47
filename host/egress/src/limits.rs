//! How many requests and bytes at a time: of a plugin, and to a server.

pub(crate) mod body_memory;
pub(crate) mod breaker;
pub(crate) mod connections;
pub(crate) mod host_limiter;
pub(crate) mod hosts;
pub(crate) mod instance;
pub(crate) mod pace;
pub(crate) mod pauses;
pub(crate) mod shares;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. No code panics while it holds one of these locks.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
