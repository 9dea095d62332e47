//! Metrics of the controllers; those of a single controller are in its folder. Names, labels and
//! buckets are upstream's, except those that begin with `skydock_`.
//!
//! A metric is a field and a `register` in the `metrics.rs` of what it is about: a controller, or
//! `context` in `skydock-controller-base` for all of them; `clients`, `election` or `queue` in
//! `skydock-kube`; `skydock-sandbox` (plugins); `observe` in `skydock-egress`; `sources` in
//! `skydock-credentials`; `config` or `process` in `skydock`. Health has its metrics in `served.rs`
//! of `skydock-serving`. It needs a row under "Metrics" in `docs/operating.md`, which tests compare
//! with the program, and an alert in `deploy/components/alerts` if somebody must act.

use prometheus_client::registry::Registry;
use skydock_controller_base::controller::context::metrics::SharedMetrics;
use skydock_service_controller::ServiceMetrics;

use crate::{
    certificates::metrics::CertificateMetrics, ipam::metrics::IpamMetrics,
    lifecycle::metrics::LifecycleMetrics, node::metrics::NodeMetrics, route::metrics::RouteMetrics,
};

/// All metrics of the controllers. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    /// Those that all controllers have, for [`recorder`](crate::recorder).
    pub shared: SharedMetrics,
    pub(crate) node: NodeMetrics,
    pub(crate) lifecycle: LifecycleMetrics,
    pub(crate) service: ServiceMetrics,
    pub(crate) route: RouteMetrics,
    pub(crate) ipam: IpamMetrics,
    pub(crate) certificates: CertificateMetrics,
}

impl Metrics {
    /// Returns the number of Services whose load balancer could not be ensured or deleted in the last
    /// attempt; `None` if nobody attends to them.
    #[must_use]
    pub fn failing_services(&self) -> Option<u64> {
        self.service.failing()
    }

    /// Creates the metrics and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            shared: SharedMetrics::register(registry),
            node: NodeMetrics::register(registry),
            lifecycle: LifecycleMetrics::register(registry),
            service: ServiceMetrics::register(registry),
            route: RouteMetrics::register(registry),
            ipam: IpamMetrics::register(registry),
            certificates: CertificateMetrics::register(registry),
        }
    }

    /// Also registers the metrics that only the official cloud-controller-manager of OpenStack has.
    pub fn also_as_openstack(&self, registry: &mut Registry) {
        self.service.also_as_openstack(registry);
    }
}

#[cfg(test)]
mod tests {
    use skydock_kube::queue::{Limiter, Priority, Queue};
    use skydock_service_controller as service;

    use super::*;
    use crate::node;

    // Holds: C-04
    #[test]
    fn metrics_carry_upstreams_names_and_labels() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let queue = Queue::new(Limiter::NODES, metrics.shared.queue("Nodes"));
        queue.add("n1", Priority::Change);
        metrics.shared.running(&node::CONTROLLER, true);
        metrics.shared.error(&service::CONTROLLER, "denied");
        metrics.service.loadbalancer_sync.inc();
        metrics.node.initial_sync_delay.observe(3.0);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "workqueue_adds_total{name=\"Nodes\"} 1",
            "running_managed_controllers{name=\"cloud-node\",manager=\"cloud-controller-manager\"} 1",
            "skydock_controller_errors_total{controller=\"service\",kind=\"denied\"} 1",
            "service_controller_loadbalancer_sync_total 1",
            "node_controller_initial_node_sync_delay_seconds_bucket{le=\"4.0\"} 1",
            "node_controller_initial_node_sync_delay_seconds_bucket{le=\"1024.0\"} 1",
        ] {
            assert!(
                text.lines().any(|other| other == line),
                "{line} is missing in:\n{text}"
            );
        }
    }

    #[test]
    fn every_own_metric_is_documented() {
        let page = include_str!("../../../../docs/operating.md");
        let mut registry = Registry::default();
        // A family without series is not encoded.
        let metrics = Metrics::register(&mut registry);
        metrics.shared.error(&service::CONTROLLER, "denied");
        drop(metrics.shared.long_in_progress(&service::CONTROLLER));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let types = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let ours: Vec<_> = types
            .filter(|(name, _)| name.starts_with("skydock_"))
            .collect();
        for known in [
            ("skydock_controller_errors", "counter"),
            ("skydock_long_in_progress", "gauge"),
            ("skydock_node_deletions_held", "gauge"),
        ] {
            assert!(ours.contains(&known), "{known:?} is missing in {ours:?}");
        }
        for (name, kind) in ours {
            let name = format!("`{name}{}`", if kind == "counter" { "_total" } else { "" });
            assert!(page.contains(&name), "{name}");
        }
    }
}
