//! Metrics of the controllers; those of a single controller are in its folder. Names, labels and buckets are upstream's, except those that begin with `skydock_`.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use skydock_kube::queue::{QueueMetrics, WorkqueueMetrics};

use crate::{
    descriptor::Controller, ipam::metrics::IpamMetrics, lifecycle::metrics::LifecycleMetrics,
    node::metrics::NodeMetrics, route::metrics::RouteMetrics, service::metrics::ServiceMetrics,
};

type Labels<const N: usize> = [(&'static str, String); N];

/// All metrics of the controllers. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    pub(crate) node: NodeMetrics,
    pub(crate) lifecycle: LifecycleMetrics,
    pub(crate) service: ServiceMetrics,
    pub(crate) route: RouteMetrics,
    pub(crate) ipam: IpamMetrics,
    /// Events that were dropped because there were too many.
    pub events_dropped: Counter,
    long_in_progress: Family<Labels<1>, Gauge>,
    running: Family<Labels<2>, Gauge>,
    errors: Family<Labels<2>, Counter>,
    workqueue: WorkqueueMetrics,
}

impl Metrics {
    /// Creates the metrics and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::new(registry);
        let m = &metrics;
        registry.register("running_managed_controllers", "1 while the controller is running", m.running.clone());
        registry.register(
            "skydock_controller_errors",
            "Errors of the cloud (by error case), of the API server (kind kubernetes), and of Pod CIDRs",
            m.errors.clone(),
        );
        registry.register(
            "skydock_events_dropped",
            "Events that were dropped because there were too many",
            m.events_dropped.clone(),
        );
        registry.register(
            "skydock_long_in_progress",
            "Objects whose operation in the cloud has been running for more than ten minutes",
            m.long_in_progress.clone(),
        );
        metrics
    }

    fn new(registry: &mut Registry) -> Self {
        Self {
            node: NodeMetrics::register(registry),
            lifecycle: LifecycleMetrics::register(registry),
            service: ServiceMetrics::register(registry),
            route: RouteMetrics::register(registry),
            ipam: IpamMetrics::register(registry),
            events_dropped: Counter::default(),
            long_in_progress: Family::default(),
            running: Family::default(),
            errors: Family::default(),
            workqueue: WorkqueueMetrics::register(registry),
        }
    }

    /// The metrics of the queue of this name.
    #[must_use]
    pub fn queue(&self, name: &str) -> QueueMetrics {
        self.workqueue.queue(name)
    }

    /// Counts an error. `kind` is [`skydock_cloud::CloudError::kind`], `kubernetes`, or a problem with Pod CIDRs.
    pub fn error(&self, controller: Controller, kind: &str) {
        let labels = [("controller", controller.alias.to_owned()), ("kind", kind.to_owned())];
        self.errors.get_or_create(&labels).inc();
    }

    /// Returns the number of objects whose operation in the cloud has been in progress for a long time.
    pub(crate) fn long_in_progress(&self, controller: Controller) -> Gauge {
        self.long_in_progress.get_or_create_owned(&[("controller", controller.alias.to_owned())])
    }

    /// Sets whether a controller is running.
    pub fn running(&self, controller: Controller, running: bool) {
        let labels = [("name", controller.alias.to_owned()), ("manager", "cloud-controller-manager".to_owned())];
        self.running.get_or_create(&labels).set(running.into());
    }
}

#[cfg(test)]
mod tests {
    use skydock_kube::queue::{Limiter, Priority, Queue};

    use super::*;
    use crate::{node, service};

    // Holds: C-04, OPS-48, OPS-50
    #[test]
    fn metrics_carry_upstreams_names_and_labels() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let queue = Queue::new(Limiter::NODES, metrics.queue("Nodes"));
        queue.add("n1", Priority::Change);
        metrics.running(&node::CONTROLLER, true);
        metrics.error(&service::CONTROLLER, "denied");
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
            assert!(text.lines().any(|other| other == line), "{line} is missing in:\n{text}");
        }
    }

    // Holds: OPS-49, OPS-50, OPS-51
    #[test]
    fn every_own_metric_is_documented() {
        let page = include_str!("../../../docs/operating.md");
        let mut registry = Registry::default();
        // A family without series is not encoded.
        let metrics = Metrics::register(&mut registry);
        metrics.error(&service::CONTROLLER, "denied");
        drop(metrics.long_in_progress(&service::CONTROLLER));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let ours: Vec<_> = types.filter(|(name, _)| name.starts_with("skydock_")).collect();
        assert_eq!(ours.len(), 6, "{ours:?}");
        for (name, kind) in ours {
            let name = format!("`{name}{}`", if kind == "counter" { "_total" } else { "" });
            assert!(page.contains(&name), "{name}");
        }
    }
}
