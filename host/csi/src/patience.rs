//! How long a request waits for the cloud, and when it asks again.

use std::time::Duration;

/// For requests without a deadline: longer than those of the sidecars, which are 10 s to a minute.
const LONGEST: Duration = Duration::from_mins(2);

/// Time that an answer has to reach the caller before its deadline.
const MARGIN: Duration = Duration::from_millis(300);

/// Requests that wait for the cloud ask again at multiples of this, so that they do it together.
const GRID: Duration = Duration::from_millis(500);

/// The same for clouds that are faster.
const FINE_GRID: Duration = Duration::from_millis(100);

/// The part of the time that a request has waited for which it waits again, at least: it ends at most
/// so much later than it could.
const PATIENCE: u32 = 8;

/// Returns for how long a request with this header may wait.
pub(crate) fn time_left(grpc_timeout: Option<&str>) -> Duration {
    let asked = grpc_timeout.and_then(parse).unwrap_or(LONGEST);
    asked.min(LONGEST).saturating_sub(MARGIN)
}

/// Parses the header `grpc-timeout`: at most eight digits, and a unit.
fn parse(header: &str) -> Option<Duration> {
    let (digits, unit) = header.split_at_checked(header.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }

    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// Returns how long to wait before the next question: as long as the plugin says, and longer for what
/// has taken long, such as a volume that the cloud cannot place.
pub(crate) fn delay(asked: Duration, waited: Duration) -> Duration {
    asked.max(waited / PATIENCE)
}

/// Returns when to ask again, in time since any fixed moment: after this delay, together with
/// others.
pub(crate) fn ask_again(now: Duration, after: Duration) -> Duration {
    let grid = if after < GRID { FINE_GRID } else { GRID };
    let (at, grid) = ((now + after).as_millis(), grid.as_millis());
    let at = at.div_ceil(grid) * grid;
    Duration::from_millis(u64::try_from(at).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_until_shortly_before_its_deadline() {
        for (header, milliseconds) in [
            (None, 119_700),
            (Some("10S"), 9_700),
            (Some("1M"), 59_700),
            (Some("1H"), 119_700),
            (Some("15000m"), 14_700),
            (Some("15000000u"), 14_700),
            (Some("99999999n"), 0),
            (Some("200m"), 0),
            (Some("0S"), 0),
            // Not valid.
            (Some("S"), 119_700),
            (Some(""), 119_700),
            (Some("10"), 119_700),
            (Some("-1S"), 119_700),
            (Some("123456789S"), 119_700),
            (Some("1ü"), 119_700),
        ] {
            let left = Duration::from_millis(milliseconds);
            assert_eq!(time_left(header), left, "{header:?}");
        }
    }

    #[test]
    fn what_takes_long_is_asked_for_less_often() {
        for (asked, waited, expected) in [
            (1000, 0, 1000),
            (1000, 8000, 1000),
            (1000, 40_000, 5000),
            (100, 8000, 1000),
            (30_000, 60_000, 30_000),
        ] {
            let milliseconds = Duration::from_millis;
            let found = delay(milliseconds(asked), milliseconds(waited));
            assert_eq!(found, milliseconds(expected), "{asked} after {waited}");
        }
    }

    #[test]
    fn those_that_wait_ask_at_the_same_time() {
        for (now, after, at) in [
            (0, 1000, 1000),
            (10, 1000, 1500),
            (490, 1000, 1500),
            (500, 1000, 1500),
            (510, 1000, 2000),
            (10, 100, 200),
            (110, 499, 700),
            (0, 500, 500),
        ] {
            let milliseconds = Duration::from_millis;
            let found = ask_again(milliseconds(now), milliseconds(after));
            assert_eq!(found, milliseconds(at), "{now} + {after}");
            assert!(found >= milliseconds(now + after));
        }
    }
}
