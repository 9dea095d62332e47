//! A small store in the host's memory that all instances of the plugin share, across reloads, not across hosts.
//!
//! Bounds: keys of 1 to 256 bytes, values of at most 64 KiB, 8 MiB in all, 24 hours; the entry that expires first gives way.
use std::time::Duration;

use crate::bindings::imports::skydock::provider::cache as host;
use crate::inside_a_plugin;

/// What became of [`reserve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// The key holds the caller's value now, for the whole of the time asked for.
    Held,
    /// Another value is there already: this one. Nothing has changed.
    Taken(Vec<u8>),
    /// The key or the value is out of bounds. Nothing has changed.
    Refused,
}

/// The value under this key, unless it has expired.
#[must_use]
pub fn get(key: &str) -> Option<Vec<u8>> {
    inside_a_plugin();
    host::get(key)
}

/// Sets the value. False if the key or the value is out of bounds; then nothing is set.
#[must_use = "a key or value out of bounds is not set"]
pub fn set(key: &str, value: &[u8], lifetime: Duration) -> bool {
    inside_a_plugin();
    host::set(key, value, millis(lifetime))
}

/// Sets the value unless there is another one, as one step that no other instance can come between. With the value that is
/// there already it prolongs its lifetime. An empty value cannot be told from a refusal, and is refused.
#[must_use = "the reservation may be another's"]
pub fn reserve(key: &str, value: &[u8], lifetime: Duration) -> Reservation {
    if value.is_empty() {
        return Reservation::Refused;
    }
    inside_a_plugin();
    outcome(value, host::reserve(key, value, millis(lifetime)))
}

/// Removes the key. No harm if it is not there.
pub fn remove(key: &str) {
    inside_a_plugin();
    host::remove(key);
}

/// Reads the host's answer to `reserve`: nothing if it was set, else the value that is there; empty if it was refused.
fn outcome(ours: &[u8], answer: Option<Vec<u8>>) -> Reservation {
    match answer {
        None => Reservation::Held,
        Some(theirs) if theirs == ours => Reservation::Held,
        Some(theirs) if theirs.is_empty() => Reservation::Refused,
        Some(theirs) => Reservation::Taken(theirs),
    }
}

/// Whole milliseconds; what does not fit is far above the host's bound anyway.
fn millis(lifetime: Duration) -> u64 {
    u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_held_by_whoever_set_the_value_and_may_be_prolonged() {
        assert_eq!(outcome(b"me", None), Reservation::Held);
        assert_eq!(outcome(b"me", Some(b"me".to_vec())), Reservation::Held);
        assert_eq!(outcome(b"me", Some(b"you".to_vec())), Reservation::Taken(b"you".to_vec()));
        assert_eq!(outcome(b"me", Some(Vec::new())), Reservation::Refused);
    }

    #[test]
    fn an_empty_value_is_refused_before_the_host_is_asked() {
        assert_eq!(reserve("key", b"", Duration::from_secs(1)), Reservation::Refused);
    }

    #[test]
    #[should_panic(expected = "only inside a plugin")]
    fn natively_the_cache_says_why_it_is_not_there() {
        let _ = get("key");
    }

    #[test]
    fn a_lifetime_that_does_not_fit_is_cut() {
        assert_eq!(millis(Duration::from_secs(2)), 2000);
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }
}
