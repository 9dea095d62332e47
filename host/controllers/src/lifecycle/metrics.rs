//! Metrics of the controller that taints and deletes nodes. `manager/metrics.rs` says how to add
//! one.

use prometheus_client::{metrics::gauge::Gauge, registry::Registry};

#[derive(Clone)]
pub(crate) struct LifecycleMetrics {
    /// Nodes whose instance does not exist, and whose deletion is stopped because the deletion
    /// limit is exceeded.
    pub(super) deletions_held: Gauge,
    /// Nodes that are not ready and have no provider ID.
    pub(super) unidentified: Gauge,
}

impl LifecycleMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let deletions_held = Gauge::default();
        registry.register(
            "skydock_node_deletions_held",
            "Nodes whose instance does not exist, and whose deletion is stopped because the deletion limit is exceeded",
            deletions_held.clone(),
        );

        let unidentified = Gauge::default();
        registry.register(
            "skydock_nodes_without_provider_id",
            "Nodes that are not ready and have no provider ID, so that nobody can find out whether their instances exist",
            unidentified.clone(),
        );

        Self {
            deletions_held,
            unidentified,
        }
    }
}
