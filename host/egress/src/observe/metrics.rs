//! Metrics of requests. Of their labels, a plugin chooses only the action, and few of these.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use tokio::time::Instant;

use super::{
    minutes::{Minute, Minutes},
    official::{Official, OfficialMetrics},
    outcome::RequestOutcome,
};
use crate::request_error::Cause;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Plugin {
    plugin: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Rule {
    plugin: Arc<str>,
    rule: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    plugin: Arc<str>,
    rule: Arc<str>,
    method: String,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Timed {
    plugin: Arc<str>,
    rule: Arc<str>,
    action: Arc<str>,
    method: String,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Denial {
    plugin: Arc<str>,
    rule: Arc<str>,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct File {
    file: String,
}

/// Buckets in seconds, from fast local answers to long polls.
const DURATIONS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0,
];

/// Metrics `skydock_egress_…` of the requests of all plugins of a process. Clones share their
/// values. By default, they are not registered.
#[derive(Clone, Debug, Default)]
pub struct EgressMetrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    requests: Family<Request, Counter>,
    durations: Family<Timed, Histogram, fn() -> Histogram>,
    actions: KnownActions,
    /// The same requests with the names of an official cloud-controller-manager.
    official: OnceLock<OfficialMetrics>,
    in_flight: Family<Rule, Gauge>,
    sent: Family<Rule, Counter>,
    received: Family<Rule, Counter>,
    denials: Family<Denial, Counter>,
    report_only: Family<Denial, Counter>,
    audit_dropped: Counter,
    throttled: Family<Rule, Counter>,
    breakers_open: Family<Plugin, Gauge>,
    expirations: Family<File, Gauge>,
    /// The last minutes of each rule, by its name. Denials without a rule have an empty one.
    minutes: Mutex<BTreeMap<Arc<str>, Arc<Minutes>>>,
    started: Instant,
}

impl Default for Families {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
            actions: KnownActions::default(),
            official: OnceLock::new(),
            in_flight: Family::default(),
            sent: Family::default(),
            received: Family::default(),
            denials: Family::default(),
            report_only: Family::default(),
            audit_dropped: Counter::default(),
            throttled: Family::default(),
            breakers_open: Family::default(),
            expirations: Family::default(),
            minutes: Mutex::default(),
            started: Instant::now(),
        }
    }
}

impl EgressMetrics {
    /// Creates metrics and registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let all = Families::default();
        let registry = registry.sub_registry_with_prefix("skydock_egress");

        registry.register(
            "requests",
            "Requests that were allowed, by rule, method and class of the status code, or `failed`",
            all.requests.clone(),
        );
        registry.register_with_unit(
            "request_duration",
            "Seconds until the answer to a request is read, including waiting, by rule, action, method and class of the status code, or `failed`",
            Unit::Seconds,
            all.durations.clone(),
        );
        registry.register(
            "in_flight",
            "Requests that are waiting or in flight",
            all.in_flight.clone(),
        );
        registry.register_with_unit(
            "sent",
            "Bytes of request bodies",
            Unit::Bytes,
            all.sent.clone(),
        );
        registry.register_with_unit(
            "received",
            "Bytes of answer bodies",
            Unit::Bytes,
            all.received.clone(),
        );

        registry.register(
            "denials",
            "Requests that were denied, by rule, if any, and reason",
            all.denials.clone(),
        );
        registry.register(
            "report_only_denials",
            "Requests that were allowed, and that a rule in report-only mode would have denied, by rule and reason",
            all.report_only.clone(),
        );

        registry.register(
            "audit_dropped",
            "Lines of the audit that were dropped, because they could not be written or too many waited",
            all.audit_dropped.clone(),
        );

        registry.register(
            "throttled",
            "Requests that Skydock delayed, or answered with 429 itself, because of a rate limit or Retry-After",
            all.throttled.clone(),
        );
        registry.register(
            "circuit_breakers_open",
            "Open circuit breakers: hosts that repeatedly did not answer and are not contacted for a while",
            all.breakers_open.clone(),
        );

        registry.register(
            "client_certificate_expiration_timestamp_seconds",
            "Expiry of the client certificate in this file as Unix time, as of the last time it was read",
            all.expirations.clone(),
        );

        Self(Arc::new(all))
    }

    /// Registers metrics of the same requests with the names of this official
    /// cloud-controller-manager. Only the first counts.
    pub fn also_as(&self, official: Official, registry: &mut Registry) {
        let official = OfficialMetrics::register(official, registry);
        let _ = self.0.official.set(official);
    }

    pub(crate) fn denied(&self, plugin: &Arc<str>, rule: &Arc<str>, cause: Cause) {
        let labels = Denial {
            plugin: plugin.clone(),
            rule: rule.clone(),
            reason: cause.as_str(),
        };
        self.0.denials.get_or_create(&labels).inc();
        self.minutes(rule)
            .count(self.minute(), |minute| minute.denied += 1);
    }

    pub(crate) fn would_deny(&self, plugin: &Arc<str>, rule: &Arc<str>, reason: &'static str) {
        let labels = Denial {
            plugin: plugin.clone(),
            rule: rule.clone(),
            reason,
        };
        self.0.report_only.get_or_create(&labels).inc();
    }

    pub(crate) fn audit_dropped(&self) {
        self.0.audit_dropped.inc();
    }

    fn breakers_open(&self, plugin: &Arc<str>, hosts: usize) {
        let hosts = i64::try_from(hosts).unwrap_or(i64::MAX);
        self.0
            .breakers_open
            .get_or_create(&Plugin {
                plugin: plugin.clone(),
            })
            .set(hosts);
    }

    /// Records the expiry of a client certificate, in seconds since 1970.
    pub(crate) fn expires(&self, file: &Path, at: i64) {
        self.0
            .expirations
            .get_or_create(&File {
                file: file.display().to_string(),
            })
            .set(at);
    }

    /// Returns the last minutes of each rule by its name: the oldest first, the current one last.
    /// Denials without a rule have an empty name.
    #[must_use]
    pub fn last_minutes(&self) -> Vec<(Arc<str>, Vec<Minute>)> {
        let now = self.minute();
        let all = self.0.minutes.lock();
        all.iter()
            .map(|(rule, minutes)| (Arc::clone(rule), minutes.until(now)))
            .collect()
    }

    fn minutes(&self, rule: &Arc<str>) -> Arc<Minutes> {
        let mut all = self.0.minutes.lock();
        Arc::clone(all.entry(Arc::clone(rule)).or_default())
    }

    /// Returns the number of the current minute.
    fn minute(&self) -> u64 {
        self.0.started.elapsed().as_secs() / 60
    }

    /// Returns the metrics of the requests of a rule.
    pub(crate) fn of_rule(&self, plugin: &Arc<str>, rule: &Arc<str>) -> RuleMetrics {
        let labels = Rule {
            plugin: plugin.clone(),
            rule: rule.clone(),
        };

        // Not only at the first request, so that the metrics have zeros from the start.
        RuleMetrics {
            in_flight: self.0.in_flight.get_or_create(&labels).clone(),
            sent: self.0.sent.get_or_create(&labels).clone(),
            received: self.0.received.get_or_create(&labels).clone(),
            minutes: self.minutes(rule),
            all: self.clone(),
            labels,
        }
    }
}

/// Maximum number of actions with a label of their own. AWS's providers use about 100.
const MAX_ACTIONS: usize = 200;
/// Maximum length of such an action in bytes.
const MAX_ACTION: usize = 64;
/// The label of all other actions, and of requests that name several.
const OTHER: &str = "other";

/// The actions that have a label of their own. A plugin chooses names of actions, which rules may
/// allow by a pattern: it should neither fill memory with them nor show secrets.
#[derive(Debug, Default)]
struct KnownActions(Mutex<HashSet<Arc<str>>>);

impl KnownActions {
    fn label(&self, named: &[String]) -> Arc<str> {
        let Some(action) = named.first() else {
            return "".into();
        };
        if named.iter().any(|other| other != action) {
            return OTHER.into();
        }

        let mut known = self.0.lock();
        if let Some(label) = known.get(action.as_str()) {
            return label.clone();
        }

        let is_name = action.len() <= MAX_ACTION
            && action.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && skydock_secrets::without_generated(action) == *action;
        if !is_name || known.len() >= MAX_ACTIONS {
            return OTHER.into();
        }

        let label: Arc<str> = action.as_str().into();
        known.insert(label.clone());
        label
    }
}

/// The metrics of the requests of one rule, which are looked up once, and not for each request.
#[derive(Debug)]
pub(crate) struct RuleMetrics {
    all: EgressMetrics,
    labels: Rule,
    in_flight: Gauge,
    sent: Counter,
    received: Counter,
    minutes: Arc<Minutes>,
}

impl RuleMetrics {
    pub(crate) fn plugin(&self) -> &Arc<str> {
        &self.labels.plugin
    }

    pub(crate) fn rule(&self) -> &Arc<str> {
        &self.labels.rule
    }

    pub(crate) fn denied(&self, cause: Cause) {
        self.all.denied(self.plugin(), self.rule(), cause);
    }

    /// Returns the label for a request that names these actions.
    pub(crate) fn action(&self, named: &[String]) -> Arc<str> {
        self.all.0.actions.label(named)
    }

    pub(crate) fn throttled(&self) {
        self.all.0.throttled.get_or_create(&self.labels).inc();
    }

    pub(crate) fn started(&self) {
        self.in_flight.inc();
    }

    pub(crate) fn ended(&self, outcome: &RequestOutcome<'_>) {
        self.in_flight.dec();
        self.sent.inc_by(outcome.sent);
        self.received.inc_by(outcome.received);

        let code = match outcome.status {
            None => "failed",
            Some(100..200) => "1xx",
            Some(200..300) => "2xx",
            Some(300..400) => "3xx",
            Some(400..500) => "4xx",
            Some(_) => "5xx",
        };

        let labels = Request {
            plugin: self.plugin().clone(),
            rule: self.rule().clone(),
            method: outcome.method.to_string(),
            code,
        };

        let timed = Timed {
            plugin: self.plugin().clone(),
            rule: self.rule().clone(),
            action: outcome.action.clone(),
            method: outcome.method.to_string(),
            code,
        };

        self.all.0.requests.get_or_create(&labels).inc();
        let durations = self.all.0.durations.get_or_create(&timed);
        durations.observe(outcome.took.as_secs_f64());
        if let Some(official) = self.all.0.official.get() {
            official.ended(outcome);
        }
        let is_failure = outcome.status.is_none_or(|status| status >= 500);
        self.minutes.count(self.all.minute(), |minute| {
            minute.ended += 1;
            minute.failed += u64::from(is_failure);
        });
        self.all.breakers_open(self.plugin(), outcome.breakers_open);
    }

    /// A request that was counted under this rule is one of the other rule.
    pub(crate) fn moved(&self, other: &Self) {
        self.in_flight.dec();
        other.in_flight.inc();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Method;

    use super::*;

    #[test]
    fn few_actions_have_a_label() {
        let known = KnownActions::default();
        let label = |named: &str| {
            let named: Vec<String> = named.split_whitespace().map(str::to_owned).collect();
            known.label(&named).to_string()
        };
        let long = "A".repeat(65);
        for (named, expected) in [
            ("", ""),
            (
                "DescribeLoadBalancerPolicyTypes",
                "DescribeLoadBalancerPolicyTypes",
            ),
            ("RunInstances RunInstances", "RunInstances"),
            ("RunInstances DescribeInstances", OTHER),
            ("Describe.Instances", OTHER),
            (long.as_str(), OTHER),
            ("Describe4fQ9zK2mX7bT1vN8cR5wJ3hL6pD0s", OTHER),
        ] {
            assert_eq!(label(named), expected, "{named:?}");
        }

        for number in 2..300 {
            let action = format!("Describe{number}");
            let expected = if number < 200 { action.as_str() } else { OTHER };
            assert_eq!(label(&action), expected);
        }
        assert_eq!(label("RunInstances"), "RunInstances");
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_minutes_of_a_rule_have_its_requests() {
        let metrics = EgressMetrics::default();
        let (plugin, rule): (Arc<str>, Arc<str>) = ("p".into(), "api".into());
        let of_rule = metrics.of_rule(&plugin, &rule);
        for status in [Some(200), Some(404), Some(503), None] {
            of_rule.started();
            of_rule.ended(&RequestOutcome {
                action: &"".into(),
                method: &Method::GET,
                path: "/",
                status,
                took: Duration::ZERO,
                sent: 0,
                received: 0,
                breakers_open: 0,
            });
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        metrics.denied(&plugin, &"".into(), Cause::NoRule);

        let last = metrics.last_minutes();
        let [(none, denials), (api, requests)] = last.as_slice() else {
            panic!("{last:?}")
        };
        assert_eq!((&**none, &**api), ("", "api"));
        let expected = Minute {
            ended: 4,
            failed: 2,
            denied: 0,
        };
        assert_eq!(requests[8], expected);
        assert_eq!(requests[9], Minute::default());
        assert_eq!(denials[9].denied, 1);
    }
}
