//! Time limits of requests.
use std::time::Duration;

/// Time that a plugin keeps to return its result after its last request.
const MARGIN: Duration = Duration::from_secs(1);

/// Time limit in a native build, where there is no call: slightly less than the shorter of the two
/// deadlines in `wit/v0.1.1/plugin.wit`.
const UNKNOWN: Duration = Duration::from_secs(25);

/// Returns the time limit of a request that is sent now, given the remaining time of the current
/// call. Zero means that it must not be sent.
pub(super) fn limit(asked: Option<Duration>, remaining: Option<Duration>) -> Duration {
    let most = remaining.map(|remaining| remaining.saturating_sub(MARGIN));
    match (asked, most) {
        (Some(asked), Some(most)) => asked.min(most),
        (Some(limit), None) | (None, Some(limit)) => limit,
        (None, None) => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_before_the_deadline_of_the_call() {
        let seconds = Duration::from_secs;
        assert_eq!(limit(None, Some(seconds(30))), seconds(29));
        assert_eq!(limit(Some(seconds(5)), Some(seconds(30))), seconds(5));
        assert_eq!(limit(Some(seconds(60)), Some(seconds(30))), seconds(29));
        assert_eq!(limit(Some(seconds(5)), Some(seconds(1))), Duration::ZERO);
        assert_eq!(limit(Some(seconds(60)), None), seconds(60));
        assert!(limit(None, None) < seconds(30));
    }
}
