//! What there is to count. No label is the guest's to choose.

use std::{path::Path, sync::Arc, time::Duration};

use http::Method;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use crate::refusal::Cause;

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

/// Seconds: from a neighbor that answers at once to a long poll.
const DURATIONS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0];

/// Metrics of the requests of all plugins of a process, all named `skydock_egress_…`. Clones count together.
#[derive(Clone, Debug)]
pub struct EgressMetrics {
    requests: Family<Request, Counter>,
    durations: Family<Rule, Histogram, fn() -> Histogram>,
    in_flight: Family<Rule, Gauge>,
    sent: Family<Rule, Counter>,
    received: Family<Rule, Counter>,
    denials: Family<Denial, Counter>,
    throttled: Family<Rule, Counter>,
    left_alone: Family<Plugin, Gauge>,
    expirations: Family<File, Gauge>,
}

impl Default for EgressMetrics {
    /// Metrics that nobody reads.
    fn default() -> Self {
        Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
            in_flight: Family::default(),
            sent: Family::default(),
            received: Family::default(),
            denials: Family::default(),
            throttled: Family::default(),
            left_alone: Family::default(),
            expirations: Family::default(),
        }
    }
}

impl EgressMetrics {
    /// Makes metrics and registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        let registry = registry.sub_registry_with_prefix("skydock_egress");
        registry.register(
            "requests",
            "Requests that were permitted, by rule, method and class of the answer's status, or `failed`",
            all.requests.clone(),
        );
        registry.register_with_unit(
            "request_duration",
            "Time of a request until its answer is read, waiting included",
            Unit::Seconds,
            all.durations.clone(),
        );
        registry.register("in_flight", "Requests that wait or are on their way", all.in_flight.clone());
        registry.register_with_unit("sent", "Bytes of requests' bodies", Unit::Bytes, all.sent.clone());
        registry.register_with_unit("received", "Bytes of answers' bodies", Unit::Bytes, all.received.clone());
        registry.register(
            "denials",
            "Requests that were refused, by reason; without a rule if none was in question",
            all.denials.clone(),
        );
        registry.register(
            "throttled",
            "Requests that waited, or were answered 429, for a rate or a pause that the cloud asked for",
            all.throttled.clone(),
        );
        registry.register(
            "hosts_left_alone",
            "Hosts that did not answer several times and are not asked for a while",
            all.left_alone.clone(),
        );
        registry.register(
            "client_certificate_expiration_timestamp_seconds",
            "When the client certificate of this file is not valid any more, as Unix time; of the file that was read last",
            all.expirations.clone(),
        );
        all
    }

    pub(crate) fn denied(&self, plugin: &Arc<str>, rule: &Arc<str>, cause: Cause) {
        let labels = Denial { plugin: plugin.clone(), rule: rule.clone(), reason: cause.as_str() };
        self.denials.get_or_create(&labels).inc();
    }

    pub(crate) fn throttled(&self, plugin: &Arc<str>, rule: &Arc<str>) {
        self.throttled.get_or_create(&Rule { plugin: plugin.clone(), rule: rule.clone() }).inc();
    }

    pub(crate) fn left_alone(&self, plugin: &Arc<str>, hosts: usize) {
        let hosts = i64::try_from(hosts).unwrap_or(i64::MAX);
        self.left_alone.get_or_create(&Plugin { plugin: plugin.clone() }).set(hosts);
    }

    /// A client certificate was read that is valid until then, in seconds since 1970.
    pub(crate) fn expires(&self, file: &Path, at: i64) {
        self.expirations.get_or_create(&File { file: file.display().to_string() }).set(at);
    }

    pub(crate) fn in_flight(&self, plugin: &Arc<str>, rule: &Arc<str>, change: i64) {
        self.in_flight.get_or_create(&Rule { plugin: plugin.clone(), rule: rule.clone() }).inc_by(change);
    }

    pub(crate) fn ended(&self, plugin: &Arc<str>, rule: &Arc<str>, end: &End<'_>) {
        let labels = Rule { plugin: plugin.clone(), rule: rule.clone() };
        self.durations.get_or_create(&labels).observe(end.took.as_secs_f64());
        self.sent.get_or_create(&labels).inc_by(end.sent);
        self.received.get_or_create(&labels).inc_by(end.received);
        let Rule { plugin, rule } = labels;
        let code = match end.status {
            None => "failed",
            Some(100..200) => "1xx",
            Some(200..300) => "2xx",
            Some(300..400) => "3xx",
            Some(400..500) => "4xx",
            Some(_) => "5xx",
        };
        self.requests.get_or_create(&Request { plugin, rule, method: end.method.to_string(), code }).inc();
    }
}

/// How a request ended.
#[derive(Debug)]
pub(crate) struct End<'a> {
    pub(crate) method: &'a Method,
    pub(crate) status: Option<u16>,
    pub(crate) took: Duration,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}
