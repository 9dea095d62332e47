//! The log of denials by rules in report-only mode, each at most once a minute.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::observe::audit::WouldDeny;

/// How often a denial with the same rule and reason is logged. The metrics and the audit have all of
/// them.
const INTERVAL: Duration = Duration::from_secs(60);

/// When denials by rules in report-only mode were last logged, by rule and reason. Both are from
/// lists of the operator and Skydock, so their number has a limit.
#[derive(Debug, Default)]
pub(crate) struct ReportOnlyLog(BTreeMap<(Arc<str>, &'static str), Logged>);

#[derive(Debug)]
struct Logged {
    at: Instant,
    /// Denials since then, which are not logged.
    suppressed: u64,
}

impl ReportOnlyLog {
    /// Returns how many denials like this one were not logged since the last one that was, or
    /// `None` if this one is not to be logged either.
    pub(crate) fn log(&mut self, denied: &WouldDeny, now: Instant) -> Option<u64> {
        let key = (denied.rule.clone(), denied.reason);
        let Some(last) = self.0.get_mut(&key) else {
            let logged = Logged {
                at: now,
                suppressed: 0,
            };
            self.0.insert(key, logged);
            return Some(0);
        };

        if now < last.at + INTERVAL {
            last.suppressed += 1;
            return None;
        }
        last.at = now;
        Some(std::mem::take(&mut last.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_and_reason_is_logged_once_a_minute() {
        let start = Instant::now();
        let mut denials = ReportOnlyLog::default();
        let mut log = |rule: &str, reason, seconds| {
            let denied = WouldDeny {
                rule: rule.into(),
                reason,
            };
            denials.log(&denied, start + Duration::from_secs(seconds))
        };

        assert_eq!(log("a", "path", 0), Some(0));
        assert_eq!(log("a", "path", 1), None);
        assert_eq!(log("a", "method", 1), Some(0), "another reason");
        assert_eq!(log("b", "path", 1), Some(0), "another rule");
        assert_eq!(log("a", "path", 59), None);
        assert_eq!(log("a", "path", 60), Some(2));
        assert_eq!(log("a", "path", 61), None);
        assert_eq!(log("a", "path", 120), Some(1));
    }
}
