//! Rules in report-only mode: what they would deny is reported, and sent nevertheless.

use std::time::Duration;

use http::request::Parts;
use tokio::time::Instant;

use super::{Shared, admit::choose, policy::Policy};
use crate::{actions::Actions, audit::WouldDeny, hosts::lock, rule::Target};

/// How often a report is logged. The metrics and the audit have all of them.
const LOG: Duration = Duration::from_secs(10);

/// Decides on a request that is allowed as if the rules in report-only mode were the only ones, if
/// there are any for its target.
pub(super) fn report(
    shared: &Shared,
    policy: &Policy,
    head: &Parts,
    target: &Target,
    actions: &Actions,
) -> Option<WouldDeny> {
    let rules = policy.trials_for(target);
    let first = rules.first()?;
    // If only the body, which was not read, would tell, nothing is reported.
    let (rule, refusal) = choose(&rules, head, target, actions).err()?;
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
            host = %target,
            "a rule in report-only mode would deny a request that is allowed: {}",
            refusal.sentence()
        );
    }
    Some(denied)
}
