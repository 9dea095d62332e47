//! Metrics of the controller that creates routes. `manager/metrics.rs` says how to add one.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

#[derive(Clone, Default)]
pub(crate) struct RouteMetrics {
    /// Runs of the route controller.
    pub(super) syncs: Counter,
    /// Routes in the last list.
    pub(super) routes: Gauge,
    /// Maximum number of routes in a list; 0 means no limit.
    pub(super) limit: Gauge,
}

impl RouteMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();

        registry.register(
            "route_controller_route_sync",
            "Runs of the route controller",
            metrics.syncs.clone(),
        );
        registry.register(
            "skydock_routes",
            "Routes in the last answer of the cloud",
            metrics.routes.clone(),
        );
        registry.register(
            "skydock_routes_limit",
            "Maximum number of routes in an answer of the cloud; with more, no route is created or deleted",
            metrics.limit.clone(),
        );

        metrics
    }
}
