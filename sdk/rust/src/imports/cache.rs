//! A small store in the host's memory that all instances of the plugin share. It is kept when the
//! plugin is reloaded, but it is not shared between hosts.
//!
//! Limits: keys of 1 to 256 bytes, values of at most 64 KiB, 8 MiB in total, 24 hours. If the total
//! is exceeded, the entries that expire first are dropped.
use std::time::Duration;

use crate::bindings::imports::skydock::provider::cache as host;
use crate::inside_a_plugin;

/// Result of [`reserve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// The key has the caller's value, for the whole lifetime requested.
    Held,
    /// The key has this other value. Nothing was changed.
    Taken(Vec<u8>),
    /// The key or the value exceeds the limits. Nothing was changed.
    Rejected,
}

/// Returns the value of this key, unless it has expired.
#[must_use]
pub fn get(key: &str) -> Option<Vec<u8>> {
    inside_a_plugin();
    host::get(key)
}

/// Sets the value. Returns false, and sets nothing, if the key or the value exceeds the limits.
#[must_use = "a key or value out of bounds is not set"]
pub fn set(key: &str, value: &[u8], lifetime: Duration) -> bool {
    inside_a_plugin();
    host::set(key, value, millis(lifetime))
}

/// Sets the value unless the key has another one, as one atomic step. If the key has the same
/// value, its lifetime is extended. An empty value is always rejected, because the host's answer to
/// a rejected reservation is an empty value.
#[must_use = "the reservation may be another's"]
pub fn reserve(key: &str, value: &[u8], lifetime: Duration) -> Reservation {
    if value.is_empty() {
        return Reservation::Rejected;
    }
    inside_a_plugin();
    outcome(value, host::reserve(key, value, millis(lifetime)))
}

/// Removes the key. Does nothing if it does not exist.
pub fn remove(key: &str) {
    inside_a_plugin();
    host::remove(key);
}

/// Interprets the host's answer to `reserve`: none if the value was set, an empty value if it was
/// rejected, otherwise the existing value.
fn outcome(ours: &[u8], answer: Option<Vec<u8>>) -> Reservation {
    match answer {
        None => Reservation::Held,
        Some(theirs) if theirs == ours => Reservation::Held,
        Some(theirs) if theirs.is_empty() => Reservation::Rejected,
        Some(theirs) => Reservation::Taken(theirs),
    }
}

/// Converts to whole milliseconds. A value that does not fit far exceeds the host's limit anyway.
fn millis(lifetime: Duration) -> u64 {
    u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_held_by_the_value_that_was_set() {
        assert_eq!(outcome(b"me", None), Reservation::Held);
        assert_eq!(outcome(b"me", Some(b"me".to_vec())), Reservation::Held);
        assert_eq!(
            outcome(b"me", Some(b"you".to_vec())),
            Reservation::Taken(b"you".to_vec())
        );
        assert_eq!(outcome(b"me", Some(Vec::new())), Reservation::Rejected);
    }

    #[test]
    fn an_empty_value_is_rejected_without_a_host_call() {
        assert_eq!(
            reserve("key", b"", Duration::from_secs(1)),
            Reservation::Rejected
        );
    }

    #[test]
    #[should_panic(expected = "only inside a plugin")]
    fn the_cache_panics_outside_a_plugin() {
        let _ = get("key");
    }

    #[test]
    fn a_lifetime_too_long_for_milliseconds_is_capped() {
        assert_eq!(millis(Duration::from_secs(2)), 2000);
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }
}
