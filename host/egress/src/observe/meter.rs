//! Measurement of one request: when its `RequestMeter` is dropped, it is counted in `metrics.rs`,
//! and has its line in `audit.rs`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use http::{Method, request::Parts};
use skydock_cloud::{Capability, text::beginning};
use skydock_credentials::request::actions::Actions;
use tokio::time::Instant;

use crate::{
    limits::hosts::Hosts,
    observe::{
        audit::{Audit, AuditLine, WouldDeny},
        metrics::RuleMetrics,
        outcome::RequestOutcome,
    },
    request_error::{About, RequestError},
    rules::compiled::CompiledRule,
    target::Target,
};

/// Maximum number of actions of a request in the audit: a plugin chooses them, and should not fill
/// the file with one request.
const MAX_ACTIONS: usize = 16;

/// Maximum bytes of each of these actions.
const MAX_ACTION_BYTES: usize = 128;

/// The measurement of a request, from its admission until its answer is read or it is canceled: it
/// is counted when this is dropped.
#[derive(Debug)]
pub(crate) struct RequestMeter {
    metrics: Arc<RuleMetrics>,
    hosts: Arc<Hosts>,
    /// The label for the action that it names.
    action: Arc<str>,
    method: Method,
    target: Target,
    path: String,
    started: Instant,
    pub(crate) status: Option<u16>,
    pub(crate) sent: Arc<AtomicU64>,
    pub(crate) received: u64,
    /// Why there is no complete answer.
    error: Option<&'static str>,
    audit: Option<Box<Audited>>,
}

/// What only the audit needs to know about a request.
#[derive(Debug)]
pub(crate) struct Audited {
    audit: Arc<Audit>,
    time: jiff::Timestamp,
    digest: Arc<str>,
    capability: Capability,
    actions: Vec<String>,
    credential: Option<String>,
    would_deny: Option<WouldDeny>,
}

impl Audited {
    pub(crate) fn new(audit: Arc<Audit>, digest: Arc<str>, capability: Capability) -> Self {
        Self {
            audit,
            time: jiff::Timestamp::try_from(SystemTime::now()).unwrap_or_default(),
            digest,
            capability,
            actions: Vec::new(),
            credential: None,
            would_deny: None,
        }
    }
}

impl RequestMeter {
    /// Starts the measurement of a request that is admitted with this head. The metrics are those
    /// of the first rule that may apply.
    pub(crate) fn start(
        head: &Parts,
        target: Target,
        started: Instant,
        metrics: Arc<RuleMetrics>,
        hosts: Arc<Hosts>,
        audit: Option<Box<Audited>>,
    ) -> Self {
        metrics.started();

        Self {
            metrics,
            hosts,
            action: Arc::default(),
            method: head.method.clone(),
            path: without_values(&head.uri),
            target,
            started,
            status: None,
            sent: Arc::default(),
            received: 0,
            error: None,
            audit,
        }
    }

    /// Sets the rule that applies, which may differ from the first candidate.
    pub(crate) fn rule(&mut self, metrics: &Arc<RuleMetrics>) {
        self.metrics.moved(metrics);
        self.metrics = metrics.clone();
    }

    /// Records which actions the request names, for metrics.
    pub(crate) fn names(&mut self, actions: &[String]) {
        self.action = self.metrics.action(actions);
    }

    /// Records by which rule the request is sent, for the audit.
    pub(crate) fn decided(
        &mut self,
        rule: &CompiledRule,
        actions: &Actions,
        would_deny: Option<WouldDeny>,
    ) {
        if let Some(audited) = &mut self.audit {
            audited.actions = without_the_rest(&actions.named);
            audited.credential = rule.credential.as_ref().map(|it| it.name().to_owned());
            audited.would_deny = would_deny;
        }
    }

    /// Returns which request this is.
    pub(crate) fn about(&self) -> About {
        About {
            rule: Some(self.metrics.rule().clone()),
            method: self.method.clone(),
            target: Some(self.target.clone()),
        }
    }

    /// Records why there is no answer, or no complete one.
    pub(crate) fn failed(&mut self, error: &RequestError) {
        self.status = None;
        self.error = Some(error.cause().as_str());
        if error.cause().is_denial() {
            self.metrics.denied(error.cause());
        }
    }
}

impl Drop for RequestMeter {
    fn drop(&mut self) {
        let took = self.started.elapsed();
        let sent = self.sent.load(Ordering::Relaxed);

        let outcome = RequestOutcome {
            action: &self.action,
            method: &self.method,
            path: &self.path,
            status: self.status,
            took,
            sent,
            received: self.received,
            breakers_open: self.hosts.open(),
        };
        self.metrics.ended(&outcome);

        // The search takes time, so it is only made if the path is shown.
        if self.audit.is_some() || tracing::enabled!(target: "egress", tracing::Level::DEBUG) {
            self.path = without_secrets(&self.path);
        }

        tracing::debug!(
            target: "egress",
            plugin = %self.metrics.plugin(),
            rule = %self.metrics.rule(),
            method = %self.method,
            host = %self.target,
            path = %self.path,
            status = self.status.unwrap_or_default(),
            sent,
            received = self.received,
            seconds = took.as_secs_f64(),
            "request"
        );

        if let Some(audited) = self.audit.take() {
            let canceled = self.status.is_none().then_some("canceled");
            audited.audit.record(AuditLine {
                time: audited.time,
                plugin: self.metrics.plugin().clone(),
                digest: audited.digest,
                capability: audited.capability.name(),
                rule: self.metrics.rule().clone(),
                method: self.method.to_string(),
                host: self.target.to_string(),
                path: std::mem::take(&mut self.path),
                actions: audited.actions,
                credential: audited.credential,
                status: self.status,
                error: self.error.or(canceled),
                would_deny: audited.would_deny,
                sent_bytes: sent,
                received_bytes: self.received,
                seconds: took.as_secs_f64(),
            });
        }
    }
}

/// Returns a path for the log: names of query parameters are kept, but their values, which may be
/// secrets, are removed.
fn without_values(uri: &http::Uri) -> String {
    let mut text = uri.path().to_owned();
    for (at, pair) in uri
        .query()
        .into_iter()
        .flat_map(|query| query.split('&'))
        .enumerate()
    {
        text.push(if at == 0 { '?' } else { '&' });
        text.push_str(pair.split('=').next().unwrap_or_default());
    }

    text.truncate(text.floor_char_boundary(512));
    text
}

/// Returns a path for the log without what looks like a secret in it, such as the token of a
/// webhook, and without names in the query that look generated.
fn without_secrets(path: &str) -> String {
    // What is found in URLs depends on what is before the path.
    const HOST: &str = "https://hook";
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));

    let whole = format!("{HOST}{path}");
    let shown = skydock_secrets::redacted(&whole);
    let query = skydock_secrets::redacted(query);
    let query = skydock_secrets::without_generated(&query);
    format!("{}{query}", shown.strip_prefix(HOST).unwrap_or(path))
}

/// Returns the beginning of the list of actions, with the beginning of each.
fn without_the_rest(named: &[String]) -> Vec<String> {
    let logged = named.iter().take(MAX_ACTIONS);
    let logged = logged.map(|action| beginning(action, MAX_ACTION_BYTES).into_owned());

    let rest = named.len().saturating_sub(MAX_ACTIONS);
    let rest = (rest > 0).then(|| format!("… and {rest} more"));
    logged.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_in_the_audit_are_limited() {
        let short = ["A".to_owned(), "B".to_owned()];
        assert_eq!(without_the_rest(&short), short);
        let many = vec!["Describe".to_owned() + &"A".repeat(1_000_000); 1000];
        let logged = without_the_rest(&many);
        assert_eq!(logged.last().map(String::as_str), Some("… and 984 more"));
        assert!(logged.concat().len() < 3000);
    }

    // Holds: SEC-38
    #[test]
    fn a_logged_path_has_nothing_that_looks_like_a_secret() {
        for (path, shown) in [
            (
                "/bot123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11/send?x",
                "/[redacted]/send?x",
            ),
            (
                "/services/T00000000/B00000000/abcDEF0123456789ghiJKL45",
                "/services/T00000000/B00000000/[redacted]",
            ),
            (
                "/v1/auth/token/lookup/hvs.CAESIJ0a1b2c3d4e5f6a7b8c9d",
                "/v1/auth/token/lookup/[redacted]",
            ),
            (
                "/x/y?Hunter2-Sw0rdfish-9f8e7d6c5b4a&limit",
                "/x/y?[redacted]&limit",
            ),
        ] {
            assert_eq!(without_secrets(path), shown);
        }
        for path in [
            "/v2.1/servers/123e4567-e89b-12d3-a456-426614174000?limit&marker",
            "/subscriptions/123e4567-e89b-12d3-a456-426614174000/resourceGroups/rg?api-version",
            "/compute/v1/projects/my-project-123456/zones/europe-west4-a/instances?pageToken&filter",
            "/",
        ] {
            assert_eq!(without_secrets(path), path);
        }
    }

    #[test]
    fn a_logged_path_omits_query_values() {
        let table = [
            (
                "https://a.example/v3/x?limit=5&marker=secret&flag",
                "/v3/x?limit&marker&flag",
            ),
            ("https://a.example", "/"),
            ("https://a.example/x?", "/x?"),
        ];
        for (uri, logged) in table {
            assert_eq!(without_values(&uri.parse().unwrap()), logged);
        }
    }
}
