//! The token bucket of a rate limit, and the pauses that an answer asks for.

use std::time::Duration;

use tokio::time::Instant;

/// Maximum wait for a token.
const LONGEST: Duration = Duration::from_secs(600);

/// A token bucket with a constant refill rate.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// Creates a full bucket: `rate` tokens per second, at most `burst` tokens.
    pub(crate) fn new(rate: f64, burst: u16, now: Instant) -> Self {
        Self {
            rate,
            burst: f64::from(burst),
            tokens: f64::from(burst),
            at: now,
        }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// The time until a token is available.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        self.tokens =
            (self.tokens + now.duration_since(self.at).as_secs_f64() * self.rate).min(self.burst);
        self.at = now;

        // A small rounding error is not worth a timer.
        if self.tokens >= 1.0 - 1e-6 {
            self.tokens -= 1.0;
            return Ok(());
        }

        // Timers have a resolution of one millisecond.
        let wait = Duration::try_from_secs_f64((1.0 - self.tokens) / self.rate).unwrap_or(LONGEST);
        Err(wait.max(Duration::from_millis(1)))
    }

    /// Returns true if the bucket is full.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.tokens + now.duration_since(self.at).as_secs_f64() * self.rate >= self.burst
    }
}

/// Returns the pause that an answer asks for, limited to `most`: 429 and 503 with a `Retry-After`
/// in seconds or as a date.
pub(crate) fn pause(
    head: &http::response::Parts,
    now: jiff::Timestamp,
    most: Duration,
) -> Option<Duration> {
    if !matches!(head.status.as_u16(), 429 | 503) {
        return None;
    }

    let text = head
        .headers
        .get(http::header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim();

    let pause = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
            Duration::try_from(date.duration_since(now)).ok()?
        }
    };

    (!pause.is_zero()).then_some(pause.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_immediately_and_the_rest_at_the_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10.0, 3, start);
        for _ in 0..3 {
            assert_eq!(bucket.take(start), Ok(()));
        }

        assert_eq!(bucket.take(start), Err(Duration::from_millis(100)));
        for (after, full) in [(0, false), (299, false), (300, true)] {
            assert_eq!(
                bucket.is_full(start + Duration::from_millis(after)),
                full,
                "{after} ms"
            );
        }

        let later = start + Duration::from_millis(100);
        assert_eq!(bucket.take(later), Ok(()));
        assert!(bucket.take(later).is_err());
        let much_later = later + Duration::from_secs(60);
        assert!(bucket.is_full(much_later));
        for _ in 0..3 {
            assert_eq!(bucket.take(much_later), Ok(()));
        }

        assert!(bucket.take(much_later).is_err());
    }

    #[test]
    fn retry_after_is_in_seconds_or_a_date() {
        let now: jiff::Timestamp = "2015-10-21T07:27:50Z".parse().unwrap();
        let table = [
            (429, Some("7"), Some(7)),
            (503, Some("Wed, 21 Oct 2015 07:28:00 GMT"), Some(10)),
            (429, Some("999999"), Some(90)),
            (429, Some("Wed, 21 Oct 2015 07:27:00 GMT"), None),
            (429, Some("0"), None),
            (429, Some("-1"), None),
            (429, Some("soon"), None),
            (429, None, None),
            (500, Some("7"), None),
            (200, Some("7"), None),
        ];
        for (status, after, seconds) in table {
            let mut response = http::Response::builder().status(status);
            if let Some(after) = after {
                response = response.header("retry-after", after);
            }
            let head = response.body(()).unwrap().into_parts().0;
            assert_eq!(
                pause(&head, now, Duration::from_secs(90)),
                seconds.map(Duration::from_secs),
                "{status} {after:?}"
            );
        }
    }
}
