//! The candidates: the chosen rules, of which only the body of a request may show which applies.
//!
//! Until all actions of the request are known, the limits of all candidates count.

use std::{sync::Arc, time::Duration};

use skydock_credentials::request::actions::Actions;

use super::{
    Options, choose::denied_authentication, denial::guest_authenticates, http_client::Timeouts,
    policy::RuleClient,
};
use crate::{
    request_error::{Cause, RequestError},
    rules::{compiled::ActionMatch, headers::Authentication},
};

/// Returns the most bytes of a body that one of them allows.
pub(super) fn most_body(candidates: &[Arc<RuleClient>]) -> u64 {
    let most = candidates
        .iter()
        .map(|client| client.rule.limits.request_body);
    most.max().unwrap_or_default()
}

/// Returns the longest pause between two parts of a body that one of them allows.
pub(super) fn longest_between(candidates: &[Arc<RuleClient>], options: Options) -> Duration {
    let between = candidates
        .iter()
        .map(|client| Timeouts::of(&client.rule, options).between);
    between.max().unwrap_or_default()
}

/// Returns the shortest time for the whole request that one of them sets, if any does.
pub(super) fn shortest_total(candidates: &[Arc<RuleClient>]) -> Option<Duration> {
    let total = candidates
        .iter()
        .filter_map(|client| client.rule.limits.total);
    total.min()
}

/// Returns the first of these rules that allows the actions, which are all known.
pub(super) fn deciding_rule(
    candidates: &[Arc<RuleClient>],
    actions: &Actions,
    authentication: &Authentication,
) -> Result<Arc<RuleClient>, RequestError> {
    let decides = candidates
        .iter()
        .find(|client| client.rule.allows_actions(actions) == ActionMatch::Yes);
    let Some(client) = decides else {
        return Err(no_rule_allows_actions());
    };

    match denied_authentication(&client.rule, authentication) {
        Some(what) => Err(guest_authenticates(&client.rule.name, &what)),
        None => Ok(client.clone()),
    }
}

fn no_rule_allows_actions() -> RequestError {
    RequestError::denied(
        Cause::Action,
        "no rule allows the actions in the request body, or the body does not name one",
    )
}
