//! Rules in report-only mode: what they would deny is reported, and sent nevertheless.

use std::sync::Arc;

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

        let log = policy.report_only_log.lock().log(&denied, Instant::now());
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
