//! What the controllers count. Names, labels and buckets are upstream's, except those that begin with `skydock_`.

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

use crate::Controller;

type FloatGauge = Gauge<f64, AtomicU64>;
type Labels<const N: usize> = [(&'static str, String); N];
type Histograms = Family<Labels<1>, Histogram, fn() -> Histogram>;

/// All metrics of the controllers. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    /// Seconds from a node's creation to the end of its taint.
    pub taint_removal_delay: Histogram,
    /// Seconds from a node's creation to the end of its initialisation.
    pub initial_node_sync_delay: Histogram,
    /// Load balancers whose nodes were changed.
    pub loadbalancer_sync: Counter,
    /// Load balancers whose nodes could not be changed.
    pub nodesync_error: Counter,
    /// Seconds of a pass over all load balancers after a change of nodes.
    pub nodesync_latency: Histogram,
    /// Seconds of changing the nodes of one load balancer.
    pub update_loadbalancer_host_latency: Histogram,
    /// Runs of the route controller.
    pub route_sync: Counter,
    /// Routes in the last list.
    pub routes: Gauge,
    /// Most routes that a list may have; 0 is no limit.
    pub routes_limit: Gauge,
    /// Events that were not written, because there were too many.
    pub events_dropped: Counter,
    cidr_allocations: Family<Labels<1>, Counter>,
    cidr_releases: Family<Labels<1>, Counter>,
    cidr_usage: Family<Labels<1>, FloatGauge>,
    cidr_max: Family<Labels<1>, Gauge>,
    cidr_tries: Histograms,
    /// Nodes whose machine is gone and that are not deleted, because they are too many.
    pub node_deletions_held: Gauge,
    long_in_progress: Family<Labels<1>, Gauge>,
    running: Family<Labels<2>, Gauge>,
    errors: Family<Labels<2>, Counter>,
    queue_depth: Family<Labels<1>, Gauge>,
    queue_adds: Family<Labels<1>, Counter>,
    queue_retries: Family<Labels<1>, Counter>,
    queue_duration: Histograms,
    work_duration: Histograms,
    unfinished_work: Family<Labels<1>, FloatGauge>,
    longest_running: Family<Labels<1>, FloatGauge>,
}

/// Metrics of one work queue.
#[derive(Clone)]
pub struct QueueMetrics {
    pub(crate) depth: Gauge,
    pub(crate) adds: Counter,
    pub(crate) retries: Counter,
    pub(crate) queue_duration: Histogram,
    pub(crate) work_duration: Histogram,
    pub(crate) unfinished_work: FloatGauge,
    pub(crate) longest_running: FloatGauge,
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

fn queue_time() -> Histogram {
    Histogram::new(exponential_buckets(1e-8, 10.0, 10))
}

impl Metrics {
    /// Makes the metrics and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::new();
        let m = &metrics;
        registry.register(
            "node_controller_cloud_provider_taint_removal_delay_seconds",
            "Seconds from the creation of a node to the removal of its uninitialized taint",
            m.taint_removal_delay.clone(),
        );
        registry.register(
            "node_controller_initial_node_sync_delay_seconds",
            "Seconds from the creation of a node to the end of its initialisation",
            m.initial_node_sync_delay.clone(),
        );
        registry.register(
            "service_controller_loadbalancer_sync",
            "Load balancers whose nodes were changed",
            m.loadbalancer_sync.clone(),
        );
        registry.register(
            "service_controller_nodesync_error",
            "Load balancers whose nodes could not be changed",
            m.nodesync_error.clone(),
        );
        registry.register(
            "service_controller_nodesync_latency_seconds",
            "Seconds of a pass over all load balancers after a change of nodes",
            m.nodesync_latency.clone(),
        );
        registry.register(
            "service_controller_update_loadbalancer_host_latency_seconds",
            "Seconds of changing the nodes of one load balancer",
            m.update_loadbalancer_host_latency.clone(),
        );
        registry.register(
            "node_ipam_controller_cidrset_cidrs_allocations",
            "Pod CIDRs that were taken into use",
            m.cidr_allocations.clone(),
        );
        registry.register(
            "node_ipam_controller_cidrset_cidrs_releases",
            "Pod CIDRs that became free",
            m.cidr_releases.clone(),
        );
        registry.register(
            "node_ipam_controller_cidrset_usage_cidrs",
            "Share of the Pod CIDRs that is in use, from 0 to 1",
            m.cidr_usage.clone(),
        );
        registry.register("node_ipam_controller_cidrset_max_cidrs", "Pod CIDRs there are", m.cidr_max.clone());
        // Upstream's spelling, for the dashboards and alerts that were made with it.
        registry.register(
            "node_ipam_controller_cirdset_max_cidrs",
            "The same as node_ipam_controller_cidrset_max_cidrs",
            m.cidr_max.clone(),
        );
        registry.register(
            "node_ipam_controller_cidrset_allocation_tries_per_request",
            "Pod CIDRs looked at to find one that is free",
            m.cidr_tries.clone(),
        );
        registry.register("route_controller_route_sync", "Runs of the route controller", m.route_sync.clone());
        registry.register("running_managed_controllers", "1 while a controller runs", m.running.clone());
        registry.register(
            "skydock_controller_errors",
            "Errors of the cloud (by case), of the API server (kind kubernetes) and of Pod CIDRs",
            m.errors.clone(),
        );
        registry.register("skydock_routes", "Routes in the last list of the cloud", m.routes.clone());
        registry.register(
            "skydock_routes_limit",
            "Most routes that a list of the cloud may have; with more no routes are made",
            m.routes_limit.clone(),
        );
        registry.register(
            "skydock_events_dropped",
            "Events that were not written, because there were too many",
            m.events_dropped.clone(),
        );
        registry.register(
            "skydock_node_deletions_held",
            "Nodes whose machine is gone and that are not deleted, because they are too many",
            m.node_deletions_held.clone(),
        );
        registry.register(
            "skydock_long_in_progress",
            "Objects that the cloud has been at work on for more than ten minutes",
            m.long_in_progress.clone(),
        );
        registry.register("workqueue_depth", "Items waiting", m.queue_depth.clone());
        registry.register("workqueue_adds", "Items added", m.queue_adds.clone());
        registry.register("workqueue_retries", "Items added to be tried later", m.queue_retries.clone());
        registry.register(
            "workqueue_queue_duration_seconds",
            "Seconds an item waited before it was worked on",
            m.queue_duration.clone(),
        );
        registry.register("workqueue_work_duration_seconds", "Seconds of work on an item", m.work_duration.clone());
        registry.register(
            "workqueue_unfinished_work_seconds",
            "Seconds of work in progress, over all items",
            m.unfinished_work.clone(),
        );
        registry.register(
            "workqueue_longest_running_processor_seconds",
            "Seconds of the longest work in progress",
            m.longest_running.clone(),
        );
        metrics
    }

    fn new() -> Self {
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
            queue_depth: Family::default(),
            queue_adds: Family::default(),
            queue_retries: Family::default(),
            queue_duration: Family::new_with_constructor(queue_time),
            work_duration: Family::new_with_constructor(queue_time),
            unfinished_work: Family::default(),
            longest_running: Family::default(),
        }
    }

    /// Metrics of the queue of this name.
    #[must_use]
    pub fn queue(&self, name: &str) -> QueueMetrics {
        let labels = [("name", name.to_owned())];
        QueueMetrics {
            depth: self.queue_depth.get_or_create_owned(&labels),
            adds: self.queue_adds.get_or_create_owned(&labels),
            retries: self.queue_retries.get_or_create_owned(&labels),
            queue_duration: self.queue_duration.get_or_create_owned(&labels),
            work_duration: self.work_duration.get_or_create_owned(&labels),
            unfinished_work: self.unfinished_work.get_or_create_owned(&labels),
            longest_running: self.longest_running.get_or_create_owned(&labels),
        }
    }

    /// Metrics of the Pod CIDRs of one cluster CIDR.
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

    /// Counts an error; `kind` is [`skydock_cloud::CloudError::kind`], `kubernetes`, or what is wrong with Pod CIDRs.
    pub fn error(&self, controller: Controller, kind: &str) {
        let labels = [("controller", controller.alias().to_owned()), ("kind", kind.to_owned())];
        self.errors.get_or_create(&labels).inc();
    }

    /// Objects that the cloud has been at work on for long.
    pub(crate) fn long_in_progress(&self, controller: Controller) -> Gauge {
        self.long_in_progress.get_or_create_owned(&[("controller", controller.alias().to_owned())])
    }

    /// Says whether a controller runs.
    pub fn running(&self, controller: Controller, running: bool) {
        let labels = [("name", controller.alias().to_owned()), ("manager", "cloud-controller-manager".to_owned())];
        self.running.get_or_create(&labels).set(running.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds: OPS-48, OPS-50
    #[test]
    fn c04_metrics_carry_upstreams_names_and_labels() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.queue("Nodes").adds.inc();
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
    fn every_metric_of_our_own_is_on_the_page_for_operators() {
        let page = include_str!("../../../docs/operating.md");
        let mut registry = Registry::default();
        // A family without series is not written.
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
