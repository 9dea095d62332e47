//! Counts what calls do, by the metrics of runtime and egress.

use std::collections::BTreeMap;

use prometheus_client::{encoding::text::encode, registry::Registry};
use skydock_egress::EgressMetrics;
use skydock_plugin::PluginMetrics;

/// The metrics of one scene.
pub(crate) struct Meter {
    registry: Registry,
    pub(crate) plugin: PluginMetrics,
    pub(crate) egress: EgressMetrics,
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
    /// Largest linear memory of an instance in bytes.
    pub(crate) memory: u64,
}

impl Meter {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let (plugin, egress) = (PluginMetrics::register(&mut registry), EgressMetrics::register(&mut registry));
        Self { registry, plugin, egress }
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
        let is_new = |(kind, count): &(&String, &u64)| **count > before.ended.get(*kind).copied().unwrap_or_default();
        self.ended.iter().filter(is_new).map(|(kind, _)| kind.clone()).collect()
    }
}

/// Reads the text format of Prometheus.
fn parse(text: &str) -> Reading {
    let mut reading = Reading::default();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counters and bytes")]
        let value = value.parse::<f64>().unwrap_or_default() as u64;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        match name {
            "skydock_plugin_traps_total" => {
                let kind = labels.split_once("kind=\"").and_then(|(_, rest)| rest.split_once('"'));
                let kind = kind.map_or("unknown", |(kind, _)| kind);
                *reading.ended.entry(kind.to_owned()).or_default() += value;
            }
            "skydock_plugin_bad_answers_total" => reading.rejected += value,
            "skydock_egress_denials_total" if labels.contains("reason=\"loading\"") => reading.early += value,
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
                    skydock_plugin_memory_peak_bytes{plugin=\"p\"} 65536\n";
        let reading = parse(text);
        assert_eq!((reading.denied, reading.memory), (3, 65536));
        assert_eq!(reading.ended_since(&Reading::default()), ["cpu"]);
        assert!(reading.ended_since(&reading).is_empty());
    }
}
