//! Metrics of requests. No label is chosen by a plugin.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use http::Method;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use tokio::time::Instant;

use crate::{
    observe::minutes::{Minute, Minutes},
    request_error::Cause,
};

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
    durations: Family<Rule, Histogram, fn() -> Histogram>,
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
            "Seconds until the answer to a request is read, including waiting",
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
            durations: self.0.durations.get_or_create(&labels).clone(),
            in_flight: self.0.in_flight.get_or_create(&labels).clone(),
            sent: self.0.sent.get_or_create(&labels).clone(),
            received: self.0.received.get_or_create(&labels).clone(),
            minutes: self.minutes(rule),
            all: self.clone(),
            labels,
        }
    }
}

/// The metrics of the requests of one rule, which are looked up once, and not for each request.
#[derive(Debug)]
pub(crate) struct RuleMetrics {
    all: EgressMetrics,
    labels: Rule,
    durations: Histogram,
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

    pub(crate) fn throttled(&self) {
        self.all.0.throttled.get_or_create(&self.labels).inc();
    }

    pub(crate) fn started(&self) {
        self.in_flight.inc();
    }

    pub(crate) fn ended(&self, end: &End<'_>) {
        self.in_flight.dec();
        self.durations.observe(end.took.as_secs_f64());
        self.sent.inc_by(end.sent);
        self.received.inc_by(end.received);

        let code = match end.status {
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
            method: end.method.to_string(),
            code,
        };

        self.all.0.requests.get_or_create(&labels).inc();
        let is_failure = end.status.is_none_or(|status| status >= 500);
        self.minutes.count(self.all.minute(), |minute| {
            minute.ended += 1;
            minute.failed += u64::from(is_failure);
        });
        self.all.breakers_open(self.plugin(), end.breakers_open);
    }

    /// A request that was counted under this rule is one of the other rule.
    pub(crate) fn moved(&self, other: &Self) {
        self.in_flight.dec();
        other.in_flight.inc();
    }
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) struct End<'a> {
    pub(crate) method: &'a Method,
    pub(crate) status: Option<u16>,
    pub(crate) took: Duration,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Open circuit breakers of the plugin's hosts.
    pub(crate) breakers_open: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_minutes_of_a_rule_have_its_requests() {
        let metrics = EgressMetrics::default();
        let (plugin, rule): (Arc<str>, Arc<str>) = ("p".into(), "api".into());
        let of_rule = metrics.of_rule(&plugin, &rule);
        for status in [Some(200), Some(404), Some(503), None] {
            of_rule.started();
            of_rule.ended(&End {
                method: &Method::GET,
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
