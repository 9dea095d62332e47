//! Decisions based on the head of a request.

use std::sync::Arc;

use http::{Method, request::Parts};
use skydock_cloud::{CallKind, text::beginning};
use tokio::time::Instant;

use super::{
    Admitted, Call, Phase, Shared,
    denial::{guest_authenticates, other_method, unclear, writes},
    policy::Wired,
};
use crate::{
    body::upload::too_long,
    network::address::is_metadata_address,
    observe::meter::{self, Audited, Meter},
    refusal::{About, Cause, Code, Refusal},
    rules::{
        config::GuestAuth,
        grant::{METHODS, Verdict},
        headers::{self, Authentication},
        overrides,
        path::{self, Meaning, Prefix},
        rule::{Host, Target},
        uri,
    },
};
use skydock_credentials::request::actions::{self, Actions};

/// Error for requests of a plugin before it is in service.
const NOT_YET: &str = "plugins must not send requests during instantiation, configure or info";

/// Maximum bytes of a path in a sentence: enough for the prefix that a rule would allow.
const SHOWN: usize = 128;

/// A refusal, and the rule that caused it.
pub(super) type Refused = (Option<Arc<str>>, Refusal);

pub(super) fn admit(
    shared: &Arc<Shared>,
    head: &Parts,
    call: &Call<'_>,
) -> Result<Admitted, Refusal> {
    decide(shared, head, call).map_err(|(rule, refusal)| {
        let name = rule.clone().unwrap_or_else(|| Arc::from(""));
        shared
            .surroundings
            .metrics
            .denied(&shared.plugin, &name, refusal.cause());

        refusal.of(About {
            rule,
            method: head.method.clone(),
            // A URI that is not valid may be the reason for the refusal.
            target: uri::target(&head.uri).ok(),
        })
    })
}

fn decide(shared: &Arc<Shared>, head: &Parts, call: &Call<'_>) -> Result<Admitted, Refused> {
    let started = Instant::now();
    let nobody = |refusal| (None, refusal);

    // A plugin has no effect before it has passed every check.
    if call.phase == Phase::Loading {
        return Err(nobody(Refusal::new(
            Code::InternalError,
            Cause::Loading,
            NOT_YET,
        )));
    }

    if !METHODS.contains(&head.method) {
        let sentence = "the method must be one of GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS";
        return Err(nobody(Refusal::new(
            Code::HttpRequestMethodInvalid,
            Cause::Method,
            sentence,
        )));
    }

    let target = uri::target(&head.uri).map_err(nobody)?;
    uri::refuse_metadata(&target).map_err(nobody)?;
    headers::check(head, &target).map_err(nobody)?;

    if let Some(name) = overrides::in_head(head) {
        return Err(nobody(other_method(Cause::Header, &name)));
    }

    let policy = shared.policy.load_full();
    let rules = policy.for_target(&target);
    // If no rule uses actions, parameters with these names can have any meaning.
    let asked = call.dry_run || rules.iter().any(|wired| !wired.grant.actions.is_empty());
    let actions = if asked {
        actions::of_head(head)
    } else {
        Ok(Actions::default())
    };
    let actions = actions.map_err(|why| nobody(unclear(why)))?;

    let candidates = choose(&rules, head, &target, &actions)?;
    let Some(first) = candidates.first() else {
        return Err(nobody(unruled(&target, &head.method)));
    };

    let rule = |refusal| (Some(first.grant.name.clone()), refusal);
    // If the body may name an action, this is decided when it is read.
    if call.dry_run
        && candidates
            .iter()
            .all(|wired| wired.grant.reads(&head.method, &actions) == Verdict::No)
    {
        return Err(rule(writes(&head.method)));
    }

    let authentication = Authentication::of(head);
    refuse_guest_authentication(&candidates, &authentication)?;

    // Only the body may show which rule applies, so the most generous limit counts until then.
    let most = candidates
        .iter()
        .map(|wired| wired.grant.limits.request_body)
        .max()
        .unwrap_or_default();
    if headers::content_length(&head.headers).is_some_and(|length| length > most) {
        return Err(rule(too_long(most)));
    }

    // Only requests that are allowed take room, so that denied ones cannot use it up.
    let host = shared.hosts.get(&target).map_err(rule)?;
    let kind = CallKind::from(call.capability);
    host.look(kind).map_err(rule)?;
    let capacity = shared.capacity.load_full();
    let ticket = call.instance.admit(&capacity, kind).map_err(rule)?;

    let meter = Meter {
        metrics: first.metrics.clone(),
        hosts: shared.hosts.clone(),
        method: head.method.clone(),
        path: meter::without_values(&head.uri),
        target: target.clone(),
        started,
        status: None,
        sent: Arc::default(),
        received: 0,
        error: None,
        audit: shared
            .surroundings
            .audit
            .load_full()
            .map(|audit| Box::new(Audited::new(audit, policy.digest.clone(), call.capability))),
    };

    Ok(Admitted {
        shared: shared.clone(),
        policy: policy.clone(),
        candidates,
        actions,
        authentication,
        target,
        host,
        kind,
        capacity,
        started,
        dry_run: call.dry_run,
        left: call.left,
        options: call.options,
        instance: call.instance.slots(),
        ticket,
        meter: Box::new(meter.start()),
    })
}

/// Denies a request that the plugin authenticates, if none of the rules allows that. A credential
/// replaces the authentication.
pub(super) fn refuse_guest_authentication(
    candidates: &[Arc<Wired>],
    authentication: &Authentication,
) -> Result<(), Refused> {
    let refused = |wired: &Arc<Wired>| {
        let grant = &wired.grant;
        let is_denied = grant.guest_auth == GuestAuth::Denied && grant.credential.is_none();
        is_denied.then(|| authentication.unlisted(&grant.listed))?
    };

    match candidates.first() {
        Some(first) if candidates.iter().all(|wired| refused(wired).is_some()) => {
            let name = &first.grant.name;
            let what = refused(first).unwrap_or_default();
            Err((Some(name.clone()), guest_authenticates(name, &what)))
        }
        _ => Ok(()),
    }
}

/// Returns the rules that may apply: the first that allows the request, and all rules before it for
/// which the body must be read to decide.
pub(super) fn choose(
    rules: &[&Arc<Wired>],
    head: &Parts,
    target: &Target,
    actions: &Actions,
) -> Result<Vec<Arc<Wired>>, Refused> {
    let path = head.uri.path();

    // Also if a later rule allows every path: it must not apply to a request that an earlier rule
    // would handle if the path were unambiguous.
    if let Some(first) = rules.iter().find(|wired| !wired.grant.paths.is_empty())
        && let Some(trick) = path::trick(path)
    {
        let sentence = format!(
            "{trick}, but rule `{}` allows only certain paths",
            first.grant.name
        );
        return Err((
            Some(first.grant.name.clone()),
            Refusal::denied(Cause::Path, sentence),
        ));
    }

    let mut meaning = None;
    let mut chosen = Vec::new();
    // The message names the rule that comes nearest to allowing the request, since operators fix
    // that one.
    let mut nearest: Option<(u8, Refused)> = None;
    let mut note = |nearness: u8, wired: &Arc<Wired>, cause, what: &str| {
        if nearest.as_ref().is_none_or(|(other, _)| *other < nearness) {
            let name = &wired.grant.name;
            let sentence = format!("rule `{name}` allows {target}, but not {what}");
            nearest = Some((
                nearness,
                (Some(name.clone()), Refusal::denied(cause, sentence)),
            ));
        }
    };

    for wired in rules {
        if !wired.grant.methods.contains(&head.method) {
            // A rule for this path is nearer than one for this method.
            let nearness = if wired.grant.permits_path(path) { 3 } else { 1 };
            note(
                nearness,
                wired,
                Cause::RuleMethod,
                &format!("method {}: add it to `methods`", head.method),
            );
        } else if !wired.grant.permits_path(path) {
            let meaning = meaning.get_or_insert_with(|| Meaning::of(path));
            // A server might read this path as one that the rule allows, so no later rule may apply
            // to it.
            if let Some(prefix) = wired.grant.may_permit_path(meaning)
                && wired.grant.permits_actions(actions) != Verdict::No
            {
                return Err((Some(wired.grant.name.clone()), ambiguous(path, prefix)));
            }

            let what = match path {
                "/" => "path /: adding it to `paths` would allow all paths".to_owned(),
                path => format!(
                    "path {}: add a prefix of it to `paths`",
                    beginning(path, SHOWN)
                ),
            };
            note(2, wired, Cause::Path, &what);
        } else {
            match wired.grant.permits_actions(actions) {
                Verdict::No => {
                    let what = match wired.grant.denied_action(actions) {
                        Some(action) => format!("the action {action}: add it to `actions`"),
                        None => "a request that names no action".to_owned(),
                    };
                    note(4, wired, Cause::Action, &what);
                }
                // Only the body shows whether this rule applies, so a later one may.
                Verdict::Open => chosen.push((*wired).clone()),
                Verdict::Yes => {
                    chosen.push((*wired).clone());
                    break;
                }
            }
        }
    }

    match nearest {
        Some((_, refused)) if chosen.is_empty() => Err(refused),
        _ => Ok(chosen),
    }
}

pub(super) fn unruled(target: &Target, method: &Method) -> Refusal {
    let sentence = match target.host {
        Host::Address(address) if is_metadata_address(address) => {
            format!("no rule allows {target}, a metadata service, which is always denied")
        }
        _ => format!("no rule allows {target}: add one that allows {method}"),
    };

    Refusal::denied(Cause::NoRule, sentence)
}

/// The refusal of a path that differs from one that a rule allows only for some servers.
fn ambiguous(path: &str, prefix: &Prefix) -> Refusal {
    let sentence = format!(
        "a server might read the path {} as {prefix} or one below it: send it as `paths` spells it, or, if only upper and lower case \
         differ, add this spelling to `paths`",
        beginning(path, SHOWN)
    );
    Refusal::denied(Cause::Path, sentence)
}
