//! Rules in report-only mode: what they would deny is reported, and sent nevertheless.

use std::{sync::Arc, time::Duration};

use http::request::Parts;
use tokio::time::Instant;

use super::{
    Admitted,
    admit::{Refused, choose, refuse_guest_authentication},
    policy::Wired,
};
use crate::{
    body::upload::too_long, limits::hosts::lock, observe::audit::WouldDeny, rules::headers,
};

/// How often a report is logged. The metrics and the audit have all of them.
const LOG: Duration = Duration::from_secs(10);

impl Admitted {
    /// Decides on the request as if the rules in report-only mode were the only ones, if there are
    /// any for its target. What is only known later (the address, the answer) is not considered.
    pub(super) fn would_deny(&self, head: &Parts) -> Option<WouldDeny> {
        let Self { shared, policy, .. } = self;
        let rules = policy.trials_for(&self.target);
        let first = rules.first()?;
        let (rule, refusal) = self.try_out(&rules, head).err()?;

        let denied = WouldDeny {
            rule: rule.unwrap_or_else(|| first.grant.name.clone()),
            reason: refusal.cause().as_str(),
        };

        let metrics = &shared.surroundings.metrics;
        metrics.would_deny(&shared.plugin, &denied.rule, denied.reason);

        let now = Instant::now();
        let mut reported = lock(&policy.reported);
        if reported.is_none_or(|at| now >= at + LOG) {
            *reported = Some(now);
            tracing::warn!(
                target: "egress",
                plugin = %shared.plugin,
                rule = %denied.rule,
                method = %head.method,
                host = %self.target,
                "a rule in report-only mode would deny a request that is allowed: {}",
                refusal.sentence()
            );
        }

        Some(denied)
    }

    fn try_out(&self, rules: &[&Arc<Wired>], head: &Parts) -> Result<(), Refused> {
        // If only the body, which was not read, would tell, nothing is denied.
        let chosen = choose(rules, head, &self.target, &self.actions)?;
        refuse_guest_authentication(&chosen, &self.authentication)?;

        let most = chosen.iter().map(|wired| wired.grant.limits.request_body);
        let length = headers::content_length(&head.headers);
        match (chosen.first(), most.max()) {
            (Some(first), Some(most)) if length.is_some_and(|length| length > most) => {
                Err((Some(first.grant.name.clone()), too_long(most)))
            }
            _ => Ok(()),
        }
    }
}
