//! Parses `Retry-After` (RFC 9110, 10.2.3).
use std::time::{Duration, SystemTime};

/// Returns the delay. A date is relative to `date`, the date of the response, so that the clocks do
/// not need to agree, or else to `now`. None if the value cannot be parsed.
pub(super) fn delay(value: &str, date: Option<&str>, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Digits that are too many for a number still mean a long delay.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }

    let until = httpdate::parse_http_date(value).ok()?;
    let from = date
        .and_then(|date| httpdate::parse_http_date(date.trim()).ok())
        .unwrap_or(now);
    Some(until.duration_since(from).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_seconds_and_dates() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:00 GMT").unwrap();
        let seconds = |value, date| delay(value, date, now).map(|delay| delay.as_secs());
        assert_eq!(seconds(" 120 ", None), Some(120));
        assert_eq!(seconds("0", None), Some(0));
        assert_eq!(seconds("99999999999999999999999", None), Some(u64::MAX));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT", None), Some(37));
        assert_eq!(seconds("Sunday, 06-Nov-94 08:49:37 GMT", None), Some(37));
        assert_eq!(
            seconds(
                "Sun, 06 Nov 1994 08:49:37 GMT",
                Some("Sun, 06 Nov 1994 08:49:30 GMT")
            ),
            Some(7)
        );
        assert_eq!(
            seconds("Sun, 06 Nov 1994 08:40:00 GMT", None),
            Some(0),
            "it is over"
        );

        for value in ["", "soon", "-1", "1.5", "+1"] {
            assert_eq!(seconds(value, None), None, "{value}");
        }
    }
}
