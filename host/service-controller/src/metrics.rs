//! Metrics of the controller of load balancers. `manager/metrics.rs` in `skydock-controllers` says
//! how to add one.

pub(crate) mod reconciliation;

use prometheus_client::{
    metrics::{
        counter::Counter,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use skydock_controller_base::controller::context::counted::{CountedGauge, Counts};

use self::reconciliation::ReconciliationMetrics;

/// Metrics of the service controller. Clones share them.
#[derive(Clone)]
pub struct ServiceMetrics {
    /// Load balancers whose nodes were updated.
    pub loadbalancer_sync: Counter,
    /// Load balancers whose nodes could not be updated.
    pub(crate) nodesync_error: Counter,
    /// Seconds to update all load balancers after nodes changed.
    pub(crate) nodesync_latency: Histogram,
    /// Seconds to update the nodes of one load balancer.
    pub(crate) update_loadbalancer_host_latency: Histogram,
    /// Services by the state of their load balancers.
    pub(crate) states: Counts,
    /// What is done for load balancers, as OpenStack's official manager counts it.
    pub(crate) reconciliations: ReconciliationMetrics,
}

impl ServiceMetrics {
    /// Returns the number of Services whose last attempt failed; `None` if nobody attends to them.
    #[must_use]
    pub fn failing(&self) -> Option<u64> {
        self.states.in_state("failing")
    }

    /// Creates the metrics and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let latency = || Histogram::new(exponential_buckets(1.0, 2.0, 15));
        let metrics = Self {
            loadbalancer_sync: Counter::default(),
            nodesync_error: Counter::default(),
            nodesync_latency: latency(),
            update_loadbalancer_host_latency: latency(),
            states: Counts::default(),
            reconciliations: ReconciliationMetrics::default(),
        };

        registry.register(
            "service_controller_loadbalancer_sync",
            "Load balancers whose nodes were updated",
            metrics.loadbalancer_sync.clone(),
        );
        registry.register(
            "service_controller_nodesync_error",
            "Load balancers whose nodes could not be updated",
            metrics.nodesync_error.clone(),
        );
        registry.register(
            "service_controller_nodesync_latency_seconds",
            "Seconds to update all load balancers after nodes changed",
            metrics.nodesync_latency.clone(),
        );
        registry.register(
            "service_controller_update_loadbalancer_host_latency_seconds",
            "Seconds to update the nodes of one load balancer",
            metrics.update_loadbalancer_host_latency.clone(),
        );
        registry.register_collector(Box::new(CountedGauge::new(
            "skydock_services",
            "Services with a load balancer by its state: ready, pending, failing or deleting",
            metrics.states.clone(),
        )));

        metrics
    }

    /// Also registers the metrics that only the official cloud-controller-manager of OpenStack has.
    pub fn also_as_openstack(&self, registry: &mut Registry) {
        self.reconciliations.register(registry);
    }
}
