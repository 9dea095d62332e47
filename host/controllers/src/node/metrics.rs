//! Metrics of the controller that initializes nodes. `manager/metrics.rs` says how to add one.

use prometheus_client::{
    metrics::histogram::{Histogram, exponential_buckets},
    registry::Registry,
};
use skydock_controller_base::controller::context::counted::{CountedGauge, Counts};

#[derive(Clone)]
pub(crate) struct NodeMetrics {
    /// Seconds from the creation of a node to the removal of its uninitialized taint.
    pub(super) taint_removal_delay: Histogram,
    /// Seconds from the creation of a node to the end of its initialization.
    pub(crate) initial_sync_delay: Histogram,
    /// Nodes by state.
    pub(super) states: Counts,
    /// Age of the oldest node that waits for initialization.
    pub(super) oldest_wait: Counts,
}

impl NodeMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let delay = || Histogram::new(exponential_buckets(1.0, 4.0, 6));
        let metrics = Self {
            taint_removal_delay: delay(),
            initial_sync_delay: delay(),
            states: Counts::default(),
            oldest_wait: Counts::default(),
        };

        registry.register(
            "node_controller_cloud_provider_taint_removal_delay_seconds",
            "Seconds from the creation of a node to the removal of its uninitialized taint",
            metrics.taint_removal_delay.clone(),
        );
        registry.register(
            "node_controller_initial_node_sync_delay_seconds",
            "Seconds from the creation of a node to the end of its initialization",
            metrics.initial_sync_delay.clone(),
        );
        registry.register_collector(Box::new(CountedGauge::new(
            "skydock_nodes",
            "Nodes by state: uninitialized, initialized, or foreign, whose provider IDs are those of other providers",
            metrics.states.clone(),
        )));
        registry.register_collector(Box::new(CountedGauge::new(
            "skydock_node_uninitialized_oldest_seconds",
            "Age of the oldest node that waits for initialization, or 0",
            metrics.oldest_wait.clone(),
        )));

        metrics
    }
}
