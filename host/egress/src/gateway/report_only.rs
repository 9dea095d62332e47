//! Rules in report-only mode: what they would deny is reported, and sent nevertheless.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::request::Parts;
use tokio::time::Instant;

use super::{
    Admitted,
    admit::check_length,
    choose::{choose, deny_guest_authentication},
    denial::Denial,
    policy::RuleClient,
};
use crate::observe::audit::WouldDeny;

/// How often a report with the same rule and reason is logged. The metrics and the audit have all of
/// them.
const LOG: Duration = Duration::from_secs(60);

/// When denials were last logged, by rule and reason. Both are from lists of the operator and
/// Skydock, so their number has a limit.
#[derive(Debug, Default)]
pub(super) struct Reported(BTreeMap<(Arc<str>, &'static str), Logged>);

#[derive(Debug)]
struct Logged {
    at: Instant,
    /// Denials since then, which are not logged.
    suppressed: u64,
}

impl Reported {
    /// Returns how many denials like this one were not logged since the last one that was, or
    /// `None` if this one is not to be logged either.
    fn log(&mut self, denied: &WouldDeny, now: Instant) -> Option<u64> {
        let key = (denied.rule.clone(), denied.reason);
        let Some(last) = self.0.get_mut(&key) else {
            let logged = Logged {
                at: now,
                suppressed: 0,
            };
            self.0.insert(key, logged);
            return Some(0);
        };

        if now < last.at + LOG {
            last.suppressed += 1;
            return None;
        }
        last.at = now;
        Some(std::mem::take(&mut last.suppressed))
    }
}

impl Admitted {
    /// Decides on the request as if the rules in report-only mode were the only ones, if there are
    /// any for its target. What is only known later (the address, the answer) is not considered.
    pub(super) fn would_deny(&self, head: &Parts) -> Option<WouldDeny> {
        let Self { shared, policy, .. } = self;
        let rules = policy.report_only_for(&self.target);
        let first = rules.first()?;
        let Denial { rule, error } = self.decide_by(&rules, head).err()?;

        let denied = WouldDeny {
            rule: rule.unwrap_or_else(|| first.rule.name.clone()),
            reason: error.cause().as_str(),
        };

        let metrics = &shared.dependencies.metrics;
        metrics.would_deny(&shared.plugin, &denied.rule, denied.reason);

        let log = policy.reported.lock().log(&denied, Instant::now());
        if let Some(suppressed) = log {
            tracing::warn!(
                target: "egress",
                plugin = %shared.plugin,
                rule = %denied.rule,
                reason = denied.reason,
                method = %head.method,
                host = %self.target,
                not_logged = suppressed,
                "a rule in report-only mode would deny a request that is allowed: {}",
                error.sentence()
            );
        }

        Some(denied)
    }

    fn decide_by(&self, rules: &[&Arc<RuleClient>], head: &Parts) -> Result<(), Denial> {
        // If only the body, which was not read, would tell, nothing is denied.
        let chosen = choose(rules, head, &self.target, &self.actions)?;
        deny_guest_authentication(&chosen, &self.authentication)?;

        match chosen.first() {
            Some(first) => {
                check_length(head, &chosen).map_err(|error| Denial::by(&first.rule.name, error))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_and_reason_is_logged_once_a_minute() {
        let start = Instant::now();
        let mut reported = Reported::default();
        let mut log = |rule: &str, reason, seconds| {
            let denied = WouldDeny {
                rule: rule.into(),
                reason,
            };
            reported.log(&denied, start + Duration::from_secs(seconds))
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
