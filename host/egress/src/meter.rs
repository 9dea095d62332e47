//! Measurement of requests.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use http::Method;
use tokio::time::Instant;

use crate::{
    hosts::Hosts,
    metrics::{EgressMetrics, End},
    refusal::{About, Refusal},
    rule::Target,
};

/// The measurement of a request, from its admission until its answer is read or it is canceled.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) metrics: EgressMetrics,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) plugin: Arc<str>,
    pub(crate) rule: Arc<str>,
    pub(crate) method: Method,
    pub(crate) target: Target,
    pub(crate) path: String,
    pub(crate) started: Instant,
    pub(crate) status: Option<u16>,
    pub(crate) sent: Arc<AtomicU64>,
    pub(crate) received: u64,
}

impl Meter {
    pub(crate) fn start(self) -> Self {
        self.metrics.in_flight(&self.plugin, &self.rule, 1);
        self
    }

    /// Sets the rule that applies, which may differ from the first candidate.
    pub(crate) fn rule(&mut self, rule: &Arc<str>) {
        if self.rule != *rule {
            self.metrics.in_flight(&self.plugin, &self.rule, -1);
            self.metrics.in_flight(&self.plugin, rule, 1);
            self.rule = rule.clone();
        }
    }

    /// Returns which request this is.
    pub(crate) fn about(&self) -> About {
        About {
            rule: Some(self.rule.clone()),
            method: self.method.clone(),
            target: Some(self.target.clone()),
        }
    }

    /// Records why there is no answer, or no complete one.
    pub(crate) fn failed(&mut self, refusal: &Refusal) {
        self.status = None;
        if refusal.cause().is_denial() {
            self.metrics
                .denied(&self.plugin, &self.rule, refusal.cause());
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let (took, sent) = (self.started.elapsed(), self.sent.load(Ordering::Relaxed));
        let end = End {
            method: &self.method,
            status: self.status,
            took,
            sent,
            received: self.received,
        };
        self.metrics.ended(&self.plugin, &self.rule, &end);
        self.metrics.in_flight(&self.plugin, &self.rule, -1);
        self.metrics.breakers_open(&self.plugin, self.hosts.open());
        tracing::debug!(
            target: "egress",
            plugin = %self.plugin,
            rule = %self.rule,
            method = %self.method,
            host = %self.target,
            path = %self.path,
            status = self.status.unwrap_or_default(),
            sent,
            received = self.received,
            seconds = took.as_secs_f64(),
            "request"
        );
    }
}

/// Returns a path for the log: names of query parameters are kept, but their values, which may be
/// secrets, are removed.
pub(crate) fn without_values(uri: &http::Uri) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
