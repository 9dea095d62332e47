//! Counts what calls do, by the metrics of runtime and egress.

use std::collections::BTreeMap;

use prometheus_client::{encoding::text::encode, registry::Registry};
use skydock_sandbox::PluginMetrics;

/// The metrics of one loaded plugin.
pub(crate) struct Meter {
    registry: Registry,
    pub(crate) plugin: PluginMetrics,
}

/// Values at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    /// Number of calls that ended their instance, by reason.
    pub(crate) ended: BTreeMap<String, u64>,
    /// Rejected answers and elements.
    pub(crate) rejected: u64,
    /// Denied requests of calls.
    pub(crate) denied: u64,
    /// Denied requests of `configure` and `info`.
    pub(crate) early: u64,
    /// Answered and failed requests, by method.
    pub(crate) requests: BTreeMap<String, u64>,
    /// Requests that were delayed by a rate limit or by `Retry-After`.
    pub(crate) delayed: u64,
    /// Requests that are waiting or in flight.
    pub(crate) in_flight: u64,
    /// CPU time of calls in microseconds.
    pub(crate) cpu: u64,
    /// Largest linear memory of an instance in bytes.
    pub(crate) memory: u64,
}

impl Meter {
    /// Registers the metrics of a plugin. Those of its requests are in the registry already.
    pub(crate) fn new(mut registry: Registry) -> Self {
        let plugin = PluginMetrics::default();
        // It is read before and after each call.
        plugin.register_effects(&mut registry);
        Self { registry, plugin }
    }

    pub(crate) fn read(&self) -> Reading {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        parse(&text)
    }
}

impl Reading {
    /// Returns the reasons that were added after an earlier reading.
    pub(crate) fn ended_since(&self, before: &Self) -> Vec<String> {
        let is_new = |(kind, count): &(&String, &u64)| {
            **count > before.ended.get(*kind).copied().unwrap_or_default()
        };
        self.ended
            .iter()
            .filter(is_new)
            .map(|(kind, _)| kind.clone())
            .collect()
    }

    /// Returns the requests since an earlier reading, by method.
    pub(crate) fn requests_since(&self, before: &Self) -> BTreeMap<String, u64> {
        let since = self.requests.iter().map(|(method, count)| {
            (
                method.clone(),
                count.saturating_sub(before.requests.get(method).copied().unwrap_or_default()),
            )
        });
        since.filter(|(_, count)| *count > 0).collect()
    }
}

/// Reads the text format of Prometheus.
fn parse(text: &str) -> Reading {
    let mut reading = Reading::default();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else {
            continue;
        };
        let number = value.parse::<f64>().unwrap_or_default();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counters, bytes and times"
        )]
        let (value, micros) = (number as u64, (number * 1e6) as u64);

        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let label = |name: &str| {
            let found = labels
                .split_once(&format!("{name}=\""))
                .and_then(|(_, rest)| rest.split_once('"'));
            found.map_or("unknown", |(value, _)| value).to_owned()
        };

        match name {
            "skydock_plugin_traps_total" => {
                *reading.ended.entry(label("kind")).or_default() += value;
            }
            "skydock_egress_requests_total" => {
                *reading.requests.entry(label("method")).or_default() += value;
            }
            "skydock_egress_throttled_total" => reading.delayed += value,
            "skydock_egress_in_flight" => reading.in_flight += value,
            "skydock_plugin_guest_cpu_seconds_total" => reading.cpu += micros,
            "skydock_plugin_bad_answers_total" => reading.rejected += value,
            // While the plugin is loaded, no call has been made that a denial could belong to.
            "skydock_egress_denials_total" if labels.contains("reason=\"loading\"") => {
                reading.early += value;
            }
            "skydock_egress_denials_total" => reading.denied += value,
            "skydock_plugin_memory_peak_bytes" => reading.memory = reading.memory.max(value),
            _ => {}
        }
    }

    reading
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_are_counted() {
        let text = "# TYPE x counter\nskydock_plugin_traps_total{plugin=\"p\",kind=\"cpu\"} 2\n\
                    skydock_egress_denials_total{plugin=\"p\",rule=\"\",reason=\"no_rule\"} 3\n\
                    skydock_egress_requests_total{plugin=\"p\",rule=\"api\",method=\"GET\",code=\"2xx\"} 3\n\
                    skydock_egress_requests_total{plugin=\"p\",rule=\"api\",method=\"GET\",code=\"4xx\"} 1\n\
                    skydock_egress_throttled_total{plugin=\"p\",rule=\"api\"} 2\n\
                    skydock_egress_in_flight{plugin=\"p\",rule=\"api\"} 1\n\
                    skydock_plugin_guest_cpu_seconds_total{plugin=\"p\"} 0.0025\n\
                    skydock_plugin_memory_peak_bytes{plugin=\"p\"} 65536\n";
        let reading = parse(text);
        assert_eq!(
            (
                reading.denied,
                reading.memory,
                reading.in_flight,
                reading.cpu
            ),
            (3, 65536, 1, 2500)
        );
        assert_eq!(reading.delayed, 2);
        assert_eq!(
            reading.requests_since(&Reading::default()),
            [("GET".to_owned(), 4)].into()
        );
        assert!(reading.requests_since(&reading).is_empty());
        assert_eq!(reading.ended_since(&Reading::default()), ["cpu"]);
        assert!(reading.ended_since(&reading).is_empty());
    }
}
