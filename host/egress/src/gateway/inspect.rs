//! The decision which rule applies to a request, which may need its body.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::request::Parts;
use skydock_credentials::{
    certificate_needs_body,
    request::actions::{self, is_bodiless},
};
use tokio::time::Instant;

use super::{
    Admitted,
    candidates::{deciding_rule, longest_between, most_body},
    denial::{named_method, other_method, unclear, writes},
    policy::RuleClient,
};
use crate::{
    body::upload::{GuestBody, MAX_BUFFERED, collect, too_long},
    limits::body_memory::BodyMemory,
    request_error::{Cause, Code, RequestError},
    rules::{compiled::ActionMatch, overrides},
};

/// The body of a request.
pub(super) enum Content {
    /// In memory.
    Buffered(Bytes),
    /// The plugin is still writing it.
    Streamed(GuestBody),
}

/// What only the body of a request shows.
struct NeededFromBody {
    /// The actions that it names, which decide which rule applies.
    actions: bool,
    /// Whether it has a parameter that servers may read as the method.
    method: bool,
    /// The content itself: a credential signs it, or a client certificate depends on it.
    content: bool,
}

impl Admitted {
    /// Determines the rule that applies, and reads the body if this is necessary to decide.
    pub(super) async fn inspect(
        &mut self,
        head: &Parts,
        body: GuestBody,
        deadline: Instant,
    ) -> Result<(Arc<RuleClient>, Content), RequestError> {
        let between = longest_between(&self.candidates, self.options);

        if is_bodiless(&head.method) {
            expect_no_body(head, body, between, deadline).await?;
            let client = deciding_rule(&self.candidates, &self.actions, &self.authentication)?;
            return Ok((client, Content::Buffered(Bytes::new())));
        }

        let needed = self.needed_from_body(head);
        // Other bodies are streamed, since a rule may allow more than `MAX_BUFFERED`.
        if !(needed.actions || needed.method || needed.content) {
            return Ok((
                deciding_rule(&self.candidates, &self.actions, &self.authentication)?,
                Content::Streamed(body),
            ));
        }

        let bytes = self.buffer(body, between, deadline).await?;
        let client = self.decide_by_body(head, &bytes, &needed)?;
        Ok((client, Content::Buffered(bytes)))
    }

    /// Determines the rule that applies to a request with this body.
    fn decide_by_body(
        &mut self,
        head: &Parts,
        bytes: &Bytes,
        needed: &NeededFromBody,
    ) -> Result<Arc<RuleClient>, RequestError> {
        let headers = &head.headers;
        // As in the head, such a name is denied whatever the rule allows.
        if needed.method
            && let Some(name) = overrides::denied_name_in_body(headers, bytes).map_err(unclear)?
        {
            let what = format!("body parameter {name}");
            return Err(other_method(Cause::RuleMethod, &what));
        }
        if needed.actions {
            let named = actions::of_body(headers, bytes).map_err(unclear)?;
            self.actions.named.extend(named);
            self.actions.open = false;
        }

        let client = deciding_rule(&self.candidates, &self.actions, &self.authentication)?;
        if needed.method {
            let methods = overrides::methods_in_body(headers, bytes);
            let denied = client.rule.denied_method(&methods);
            let denied = denied.map(|method| (Cause::RuleMethod, method));
            let written = overrides::first_write(&methods).filter(|_| self.dry_run);
            let written = written.map(|method| (Cause::DryRun, method));
            if let Some((cause, method)) = denied.or(written) {
                return Err(named_method(cause, "body parameter", method));
            }
        }
        if self.dry_run && client.rule.reads(&head.method, &self.actions) == ActionMatch::No {
            return Err(writes(&head.method));
        }

        // The body was read with the largest limit of all candidates.
        if bytes.len() as u64 > client.rule.limits.request_body {
            return Err(too_long(client.rule.limits.request_body));
        }
        Ok(client)
    }

    /// Returns the actions that a request names, as far as they are known without reading more of
    /// it. Those that decide nothing are for metrics only.
    pub(super) fn known_actions(&self, head: &Parts, content: &Content) -> Vec<String> {
        let named = &self.actions.named;
        if !named.is_empty() {
            return named.clone();
        }

        let mut named = actions::of_head(head).unwrap_or_default().named;
        if let Content::Buffered(bytes) = content {
            named.extend(actions::of_body(&head.headers, bytes).unwrap_or_default());
        }
        named
    }

    /// Returns what must be known before the request is sent, but is not in its head.
    fn needed_from_body(&self, head: &Parts) -> NeededFromBody {
        let any = |holds: &dyn Fn(&RuleClient) -> bool| self.candidates.iter().any(|it| holds(it));

        let undecided =
            |client: &RuleClient| client.rule.allows_actions(&self.actions) == ActionMatch::Open;
        // If a rule allows all methods, there is nothing to get around.
        let limited = |client: &RuleClient| client.rule.limits_methods();
        let inspected = |client: &RuleClient| {
            let credential = client.rule.credential.as_ref();
            credential.is_some_and(|it| it.needs_body(head))
                || client.rule.certificate.is_some() && certificate_needs_body(head)
        };

        NeededFromBody {
            actions: self.actions.open && (self.dry_run || any(&undecided)),
            method: overrides::may_be_in_body(head) && (self.dry_run || any(&limited)),
            content: any(&inspected),
        }
    }

    /// Reads the body into memory, when there is enough of it.
    async fn buffer(
        &self,
        body: GuestBody,
        between: Duration,
        deadline: Instant,
    ) -> Result<Bytes, RequestError> {
        let most = most_body(&self.candidates).min(MAX_BUFFERED);
        let reservation = BodyMemory::of(&self.capacity.body_memory, self.kind)
            .reserve(most)
            .await?;
        Ok(reservation.attach_to(collect(body, most, between, deadline).await?))
    }
}

/// Checks that a request whose method has no body has none. Servers differ in whether they read the
/// body of such requests, so its meaning cannot be determined.
async fn expect_no_body(
    head: &Parts,
    body: GuestBody,
    between: Duration,
    deadline: Instant,
) -> Result<(), RequestError> {
    match collect(body, 0, between, deadline).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Code::HttpRequestBodySize => Err(RequestError::denied(
            Cause::RequestBody,
            format!("a {} request must not have a body", head.method),
        )),
        Err(error) => Err(error),
    }
}
