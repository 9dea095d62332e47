//! Metrics of the requests of the sidecars.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};

/// Buckets in seconds, up to the deadline of the longest request.
const DURATIONS: [f64; 10] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 120.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    code: String,
}

/// Metrics of the requests of the sidecars. Clones share their values.
#[derive(Clone, Debug)]
pub struct CsiMetrics {
    requests: Family<Answered, Histogram, fn() -> Histogram>,
}

impl CsiMetrics {
    /// Creates metrics and registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let requests: Family<_, _, fn() -> _> =
            Family::new_with_constructor(|| Histogram::new(DURATIONS));
        registry.register_with_unit(
            "skydock_csi_request_duration",
            "Seconds to answer a request of a CSI sidecar, by method and gRPC code",
            Unit::Seconds,
            requests.clone(),
        );
        Self { requests }
    }

    /// Counts an answer. The code is the name that it has in Go.
    pub(crate) fn answered(&self, method: &'static str, code: String, took: Duration) {
        let requests = self.requests.get_or_create(&Answered { method, code });
        requests.observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn operating_md_lists_the_metric_of_requests() {
        let mut registry = Registry::default();
        let metrics = CsiMetrics::register(&mut registry);
        metrics.answered("CreateVolume", "OK".into(), Duration::from_secs(1));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let name = "skydock_csi_request_duration_seconds";
        let line = format!("{name}_count{{method=\"CreateVolume\",code=\"OK\"}} 1");
        assert!(text.contains(&line), "{text}");
        let page = include_str!("../../../docs/operating.md");
        assert!(page.contains(&format!("`{name}`")));
    }
}
