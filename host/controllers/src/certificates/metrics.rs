//! Metrics of the controller that approves certificates of kubelets.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

#[derive(Clone)]
pub(crate) struct CertificateMetrics {
    pub(super) approved: Counter,
    pub(super) pending: Gauge,
}

impl CertificateMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            approved: Counter::default(),
            pending: Gauge::default(),
        };

        registry.register(
            "skydock_kubelet_serving_requests_approved",
            "Requests for serving certificates of kubelets that were approved",
            metrics.approved.clone(),
        );
        registry.register(
            "skydock_kubelet_serving_requests_pending",
            "Requests for serving certificates of kubelets that nobody has decided",
            metrics.pending.clone(),
        );

        metrics
    }
}
