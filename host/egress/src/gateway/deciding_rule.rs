//! Which of the chosen rules decides on a request, once all its actions are known.

use std::sync::Arc;

use skydock_credentials::request::actions::Actions;

use super::{choose::denied_authentication, denial::guest_authenticates, policy::RuleClient};
use crate::{
    request_error::{Cause, RequestError},
    rules::{compiled::ActionMatch, headers::Authentication},
};

/// Returns the first of these rules that allows the actions, which are all known.
pub(super) fn deciding_rule(
    candidates: &[Arc<RuleClient>],
    actions: &Actions,
    authentication: &Authentication,
) -> Result<Arc<RuleClient>, RequestError> {
    let decides = candidates
        .iter()
        .find(|client| client.rule.permits_actions(actions) == ActionMatch::Yes);
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
