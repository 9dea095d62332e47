//! The difference between this machine's clock and a server's, for signatures and assertions, which
//! are valid for a few minutes.

use std::sync::atomic::{AtomicI64, Ordering};

use http::{HeaderMap, header::DATE};
use jiff::{SignedDuration, Timestamp};

/// Smaller differences are no reason for a rejection: AWS and token endpoints accept five minutes.
const NOTABLE: i64 = 60;

/// Maximum correction, in seconds. A server that states a wrong time receives signatures that are
/// valid up to this much later.
const MOST: i64 = 15 * 60;

/// How far a server's clock is ahead of this machine's, in seconds.
#[derive(Debug, Default)]
pub(crate) struct Skew(AtomicI64);

impl Skew {
    /// Returns the server's time.
    pub(crate) fn corrected(&self, now: Timestamp) -> Timestamp {
        let ahead = SignedDuration::from_secs(self.0.load(Ordering::Relaxed));
        now.checked_add(ahead).unwrap_or(now)
    }

    /// Follows the clock of a server that has rejected authentication. Returns true if the
    /// correction has changed, so that a retry may succeed.
    pub(crate) fn follow(&self, credential: &str, server: Timestamp, now: Timestamp) -> bool {
        let ahead = server.duration_since(now).as_secs();
        if ahead.abs() > MOST {
            tracing::error!(
                credential,
                ahead_seconds = ahead,
                "the clock of this machine differs from that of the server by more than {} minutes, so the server rejects \
                 requests: set the clock",
                MOST / 60
            );
            return false;
        }

        let before = self.0.load(Ordering::Relaxed);
        if (ahead - before).abs() < NOTABLE {
            return false;
        }

        // A clock that was set meanwhile needs no correction.
        let ahead = if ahead.abs() < NOTABLE { 0 } else { ahead };
        self.0.store(ahead, Ordering::Relaxed);

        tracing::warn!(
            credential,
            ahead_seconds = ahead,
            "the clock of this machine differs from that of the server: authentication uses the time of the server; set the \
             clock"
        );

        true
    }
}

/// Returns the time of a server, as of its answer.
pub fn server_time(headers: &HeaderMap) -> Option<Timestamp> {
    let text = headers.get(DATE)?.to_str().ok()?;
    let date = jiff::fmt::rfc2822::parse(text.trim()).ok()?;
    Some(date.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_corrected_within_a_bound() {
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        let at = |seconds| now + SignedDuration::from_secs(seconds);
        let skew = Skew::default();
        for (server, is_changed, corrected) in [
            (30, false, 0),
            (901, false, 0),
            (600, true, 600),
            (610, false, 600),
            (-900, true, -900),
            (7200, false, -900),
            (-3600, false, -900),
            (5, true, 0),
        ] {
            assert_eq!(skew.follow("c", at(server), now), is_changed, "{server}");
            assert_eq!(skew.corrected(now), at(corrected), "{server}");
        }
    }

    #[test]
    fn a_server_states_its_time_in_its_date() {
        let headers = |text: &str| HeaderMap::from_iter([(DATE, text.parse().unwrap())]);
        let expected = "1994-11-06T08:49:37Z".parse().unwrap();
        assert_eq!(
            server_time(&headers("Sun, 06 Nov 1994 08:49:37 GMT")),
            Some(expected)
        );
        assert_eq!(server_time(&headers("soon")), None);
        assert_eq!(server_time(&HeaderMap::new()), None);
    }
}
