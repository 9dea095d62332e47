//! Decisions based on the head of a request: its method, URI and headers.

use std::{fmt, sync::Arc, time::Duration};

use http::request::Parts;
use skydock_cloud::CallKind;
use skydock_credentials::request::actions::{self, Actions};
use tokio::{sync::Semaphore, time::Instant};

use super::{
    Call, GatewayState, Options, PluginPhase,
    candidates::most_body,
    choose::{choose, deny_guest_authentication, unruled},
    denial::{Denial, named_method, other_method, unclear, writes},
    policy::{Policy, RuleClient},
};
use crate::{
    body::upload::too_long,
    limits::{
        hosts::HostState,
        instance::{Capacity, Ticket},
    },
    observe::meter::{Audited, RequestMeter},
    request_error::{About, Cause, Code, RequestError},
    rules::{
        compiled::{ActionMatch, METHODS},
        headers::{self, Authentication},
        overrides, uri,
    },
    target::Target,
};

/// Error for requests of a plugin before it is in service.
const NOT_YET: &str = "plugins must not send requests during instantiation, configure or info";

/// A request that is allowed as far as its head shows. It is sent with [`Admitted::send`] in
/// `send.rs`, whose steps are in `inspect.rs`, `attempt.rs` and `recheck.rs`; `report_only.rs` looks
/// at it beside them.
pub struct Admitted {
    pub(super) shared: Arc<GatewayState>,
    /// The rules that it was admitted with.
    pub(super) policy: Arc<Policy>,
    pub(super) candidates: Vec<Arc<RuleClient>>,
    pub(super) actions: Actions,
    pub(super) authentication: Authentication,
    pub(super) target: Target,
    pub(super) host: Arc<HostState>,
    pub(super) kind: CallKind,
    pub(super) capacity: Arc<Capacity>,
    pub(super) started: Instant,
    pub(super) dry_run: bool,
    /// Time that is left of the call.
    pub(super) left: Duration,
    pub(super) options: Options,
    /// Concurrent requests of the instance.
    pub(super) instance_slots: Arc<Semaphore>,
    pub(super) ticket: Ticket,
    pub(super) meter: Box<RequestMeter>,
}

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admitted")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

pub(super) fn admit(
    shared: &Arc<GatewayState>,
    head: &Parts,
    call: &Call<'_>,
) -> Result<Admitted, RequestError> {
    decide(shared, head, call).map_err(|Denial { rule, error }| {
        let name = rule.clone().unwrap_or_else(|| Arc::from(""));
        shared
            .dependencies
            .metrics
            .denied(&shared.plugin, &name, error.cause());

        error.of(About {
            rule,
            method: head.method.clone(),
            // A URI that is not valid may be the reason for the error.
            target: uri::target(&head.uri).ok(),
        })
    })
}

fn decide(shared: &Arc<GatewayState>, head: &Parts, call: &Call<'_>) -> Result<Admitted, Denial> {
    let started = Instant::now();
    let target = check_head(head, call)?;

    let policy = shared.policy.load_full();
    let rules = policy.for_target(&target);
    let actions = named_actions(head, call, &rules)?;
    let candidates = choose(&rules, head, &target, &actions)?;
    let Some(first) = candidates.first() else {
        return Err(unruled(&target, &head.method).into());
    };

    let by_first = |error| Denial::by(&first.rule.name, error);
    if call.dry_run {
        check_reads(head, &candidates, &actions).map_err(by_first)?;
    }
    let authentication = Authentication::of(head);
    deny_guest_authentication(&candidates, &authentication)?;
    check_length(head, &candidates).map_err(by_first)?;

    // Only requests that are allowed take room, so that denied ones cannot use it up.
    let host = shared.hosts.get(&target).map_err(by_first)?;
    let kind = CallKind::from(call.capability);
    host.check(kind).map_err(by_first)?;
    let capacity = shared.capacity.load_full();
    let ticket = call.instance.admit(&capacity, kind).map_err(by_first)?;

    let meter = RequestMeter::start(
        head,
        target.clone(),
        started,
        first.metrics.clone(),
        shared.hosts.clone(),
        audited(shared, &policy, call),
    );

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
        instance_slots: call.instance.slots(),
        ticket,
        meter: Box::new(meter),
    })
}

/// Checks what does not depend on any rule, and returns the target.
fn check_head(head: &Parts, call: &Call<'_>) -> Result<Target, RequestError> {
    // A plugin has no effect before it has passed every check.
    if call.phase == PluginPhase::Loading {
        return Err(RequestError::new(
            Code::InternalError,
            Cause::Loading,
            NOT_YET,
        ));
    }

    if !METHODS.contains(&head.method) {
        let sentence = "the method must be one of GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS";
        return Err(RequestError::new(
            Code::HttpRequestMethodInvalid,
            Cause::Method,
            sentence,
        ));
    }

    let target = uri::target(&head.uri)?;
    uri::deny_metadata(&target)?;
    headers::check(head, &target)?;

    match overrides::denied_name_in_head(head) {
        Some(name) => Err(other_method(Cause::Header, &name)),
        None => Ok(target),
    }
}

/// Returns the actions that the head names, if it matters. If no rule uses actions, parameters with
/// these names can have any meaning.
fn named_actions(
    head: &Parts,
    call: &Call<'_>,
    rules: &[&Arc<RuleClient>],
) -> Result<Actions, RequestError> {
    if call.dry_run || rules.iter().any(|client| !client.rule.actions.is_empty()) {
        actions::of_head(head).map_err(unclear)
    } else {
        Ok(Actions::default())
    }
}

/// Denies a request that may change something. If the body may name an action, this is decided when
/// it is read.
fn check_reads(
    head: &Parts,
    candidates: &[Arc<RuleClient>],
    actions: &Actions,
) -> Result<(), RequestError> {
    let is_write =
        |client: &Arc<RuleClient>| client.rule.reads(&head.method, actions) == ActionMatch::No;
    if candidates.iter().all(is_write) {
        return Err(writes(&head.method));
    }

    match overrides::first_write(&overrides::methods_in_uri(head)) {
        Some(method) => Err(named_method(Cause::DryRun, "parameter", method)),
        None => Ok(()),
    }
}

/// Denies a request whose body is announced to be too long.
pub(super) fn check_length(
    head: &Parts,
    candidates: &[Arc<RuleClient>],
) -> Result<(), RequestError> {
    let most = most_body(candidates);
    let length = headers::content_length(&head.headers);
    if length.is_some_and(|length| length > most) {
        Err(too_long(most))
    } else {
        Ok(())
    }
}

/// Returns what the audit needs to know about a request, if there is an audit.
fn audited(shared: &GatewayState, policy: &Policy, call: &Call<'_>) -> Option<Box<Audited>> {
    let audit = shared.dependencies.audit.load_full()?;
    let audited = Audited::new(audit, policy.digest.clone(), call.capability);
    Some(Box::new(audited))
}
