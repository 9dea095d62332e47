//! Metrics about the configuration file.

use prometheus_client::{metrics::gauge::Gauge, registry::Registry};

/// Metrics about the file.
#[derive(Clone, Debug, Default)]
pub struct FileMetrics {
    /// 1 while the file is rejected.
    pub(super) rejected: Gauge,
    /// 1 while the file names another plugin.
    pub(super) restart_required: Gauge,
}

impl FileMetrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "skydock_configuration_rejected",
            "1 while the configuration file on disk is rejected",
            metrics.rejected.clone(),
        );
        registry.register(
            "skydock_configuration_restart_required",
            "1 while the configuration file on disk names another plugin than the one that runs",
            metrics.restart_required.clone(),
        );

        metrics
    }
}
