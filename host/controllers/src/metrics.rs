//! Metrics of the controllers. Names, labels and buckets are upstream's, except those that begin with `skydock_`.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use skydock_kube::queue::{QueueMetrics, WorkqueueMetrics};

use crate::Controller;

type FloatGauge = Gauge<f64, AtomicU64>;
type Labels<const N: usize> = [(&'static str, String); N];
type Histograms = Family<Labels<1>, Histogram, fn() -> Histogram>;

/// All metrics of the controllers. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    /// Seconds from the creation of a node to the removal of its uninitialized taint.
    pub taint_removal_delay: Histogram,
    /// Seconds from the creation of a node to the end of its initialization.
    pub initial_node_sync_delay: Histogram,
    /// Load balancers whose nodes were updated.
    pub loadbalancer_sync: Counter,
    /// Load balancers whose nodes could not be updated.
    pub nodesync_error: Counter,
    /// Seconds to update all load balancers after nodes changed.
    pub nodesync_latency: Histogram,
    /// Seconds to update the nodes of one load balancer.
    pub update_loadbalancer_host_latency: Histogram,
    /// Runs of the route controller.
    pub route_sync: Counter,
    /// Routes in the last list.
    pub routes: Gauge,
    /// Maximum number of routes in a list; 0 means no limit.
    pub routes_limit: Gauge,
    /// Events that were dropped because there were too many.
    pub events_dropped: Counter,
    cidr_allocations: Family<Labels<1>, Counter>,
    cidr_releases: Family<Labels<1>, Counter>,
    cidr_usage: Family<Labels<1>, FloatGauge>,
    cidr_max: Family<Labels<1>, Gauge>,
    cidr_tries: Histograms,
    /// Nodes whose instance does not exist and that are kept because the deletion limit is exceeded.
    pub node_deletions_held: Gauge,
    long_in_progress: Family<Labels<1>, Gauge>,
    running: Family<Labels<2>, Gauge>,
    errors: Family<Labels<2>, Counter>,
    workqueue: WorkqueueMetrics,
}

/// Metrics of the Pod CIDRs of one cluster CIDR.
#[derive(Clone)]
pub(crate) struct CidrSetMetrics {
    pub(crate) allocations: Counter,
    pub(crate) releases: Counter,
    pub(crate) usage: FloatGauge,
    pub(crate) max: Gauge,
    pub(crate) tries: Histogram,
}

fn cidr_tries() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 5.0, 5))
}

fn node_delay() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 4.0, 6))
}

fn service_latency() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 15))
}

impl Metrics {
    /// Creates the metrics and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::new(registry);
        let m = &metrics;
        registry.register(
            "node_controller_cloud_provider_taint_removal_delay_seconds",
            "Seconds from the creation of a node to the removal of its uninitialized taint",
            m.taint_removal_delay.clone(),
        );
        registry.register(
            "node_controller_initial_node_sync_delay_seconds",
            "Seconds from the creation of a node to the end of its initialization",
            m.initial_node_sync_delay.clone(),
        );
        registry.register(
            "service_controller_loadbalancer_sync",
            "Load balancers whose nodes were updated",
            m.loadbalancer_sync.clone(),
        );
        registry.register(
            "service_controller_nodesync_error",
            "Load balancers whose nodes could not be updated",
            m.nodesync_error.clone(),
        );
        registry.register(
            "service_controller_nodesync_latency_seconds",
            "Seconds to update all load balancers after nodes changed",
            m.nodesync_latency.clone(),
        );
        registry.register(
            "service_controller_update_loadbalancer_host_latency_seconds",
            "Seconds to update the nodes of one load balancer",
            m.update_loadbalancer_host_latency.clone(),
        );
        registry.register(
            "node_ipam_controller_cidrset_cidrs_allocations",
            "Pod CIDRs that were allocated",
            m.cidr_allocations.clone(),
        );
        registry.register(
            "node_ipam_controller_cidrset_cidrs_releases",
            "Pod CIDRs that were released",
            m.cidr_releases.clone(),
        );
        registry.register(
            "node_ipam_controller_cidrset_usage_cidrs",
            "Share of the Pod CIDRs that are allocated, from 0 to 1",
            m.cidr_usage.clone(),
        );
        registry.register(
            "node_ipam_controller_cidrset_max_cidrs",
            "Number of Pod CIDRs in the cluster CIDR",
            m.cidr_max.clone(),
        );
        // The misspelled name of upstream, for existing dashboards and alerts.
        registry.register(
            "node_ipam_controller_cirdset_max_cidrs",
            "The same as node_ipam_controller_cidrset_max_cidrs",
            m.cidr_max.clone(),
        );
        registry.register(
            "node_ipam_controller_cidrset_allocation_tries_per_request",
            "Pod CIDRs checked to find a free one",
            m.cidr_tries.clone(),
        );
        registry.register("route_controller_route_sync", "Runs of the route controller", m.route_sync.clone());
        registry.register("running_managed_controllers", "1 while the controller is running", m.running.clone());
        registry.register(
            "skydock_controller_errors",
            "Errors of the cloud (by error case), of the API server (kind kubernetes), and of Pod CIDRs",
            m.errors.clone(),
        );
        registry.register("skydock_routes", "Routes in the last answer of the cloud", m.routes.clone());
        registry.register(
            "skydock_routes_limit",
            "Maximum number of routes in an answer of the cloud; with more, no routes are created",
            m.routes_limit.clone(),
        );
        registry.register(
            "skydock_events_dropped",
            "Events that were dropped because there were too many",
            m.events_dropped.clone(),
        );
        registry.register(
            "skydock_node_deletions_held",
            "Nodes whose instance does not exist and that are kept because the deletion limit is exceeded",
            m.node_deletions_held.clone(),
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
            taint_removal_delay: node_delay(),
            initial_node_sync_delay: node_delay(),
            loadbalancer_sync: Counter::default(),
            nodesync_error: Counter::default(),
            nodesync_latency: service_latency(),
            update_loadbalancer_host_latency: service_latency(),
            route_sync: Counter::default(),
            routes: Gauge::default(),
            routes_limit: Gauge::default(),
            events_dropped: Counter::default(),
            cidr_allocations: Family::default(),
            cidr_releases: Family::default(),
            cidr_usage: Family::default(),
            cidr_max: Family::default(),
            cidr_tries: Family::new_with_constructor(cidr_tries),
            node_deletions_held: Gauge::default(),
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

    /// Returns the metrics of the Pod CIDRs of one cluster CIDR.
    pub(crate) fn cidr_set(&self, cluster_cidr: &str) -> CidrSetMetrics {
        let labels = [("clusterCIDR", cluster_cidr.to_owned())];
        CidrSetMetrics {
            allocations: self.cidr_allocations.get_or_create_owned(&labels),
            releases: self.cidr_releases.get_or_create_owned(&labels),
            usage: self.cidr_usage.get_or_create_owned(&labels),
            max: self.cidr_max.get_or_create_owned(&labels),
            tries: self.cidr_tries.get_or_create_owned(&labels),
        }
    }

    /// Counts an error. `kind` is [`skydock_cloud::CloudError::kind`], `kubernetes`, or a problem with Pod CIDRs.
    pub fn error(&self, controller: Controller, kind: &str) {
        let labels = [("controller", controller.alias().to_owned()), ("kind", kind.to_owned())];
        self.errors.get_or_create(&labels).inc();
    }

    /// Returns the number of objects whose operation in the cloud has been in progress for a long time.
    pub(crate) fn long_in_progress(&self, controller: Controller) -> Gauge {
        self.long_in_progress.get_or_create_owned(&[("controller", controller.alias().to_owned())])
    }

    /// Sets whether a controller is running.
    pub fn running(&self, controller: Controller, running: bool) {
        let labels = [("name", controller.alias().to_owned()), ("manager", "cloud-controller-manager".to_owned())];
        self.running.get_or_create(&labels).set(running.into());
    }
}

#[cfg(test)]
mod tests {
    use skydock_kube::queue::{Limiter, Priority, Queue};

    use super::*;

    // Holds: C-04, OPS-48, OPS-50
    #[test]
    fn metrics_carry_upstreams_names_and_labels() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let queue = Queue::new(Limiter::NODES, metrics.queue("Nodes"));
        queue.add("n1", Priority::Change);
        metrics.running(Controller::Node, true);
        metrics.error(Controller::Service, "denied");
        metrics.loadbalancer_sync.inc();
        metrics.initial_node_sync_delay.observe(3.0);
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
        metrics.error(Controller::Service, "denied");
        drop(metrics.long_in_progress(Controller::Service));
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
