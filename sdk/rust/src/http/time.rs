//! How long a request may take.
use std::time::Duration;

/// What a plugin is left to answer in, once its last request is over.
const MARGIN: Duration = Duration::from_secs(1);

/// Natively there is no call: the shorter of the two deadlines in `wit/v0.1.0/plugin.wit`, less some.
const UNKNOWN: Duration = Duration::from_secs(25);

/// How long a request may take that is sent now, with what is left of the running call. Zero: it must not be sent.
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
    fn a_request_ends_in_time_for_the_call_to_answer() {
        let seconds = Duration::from_secs;
        assert_eq!(limit(None, Some(seconds(30))), seconds(29));
        assert_eq!(limit(Some(seconds(5)), Some(seconds(30))), seconds(5));
        assert_eq!(limit(Some(seconds(60)), Some(seconds(30))), seconds(29));
        assert_eq!(limit(Some(seconds(5)), Some(seconds(1))), Duration::ZERO);
        assert_eq!(limit(Some(seconds(60)), None), seconds(60));
        assert!(limit(None, None) < seconds(30));
    }
}
