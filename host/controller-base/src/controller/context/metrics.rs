//! Metrics that all controllers have.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use skydock_kube::queue::{QueueMetrics, WorkqueueMetrics};

use crate::controller::descriptor::Controller;

type Labels<const N: usize> = [(&'static str, String); N];

/// Metrics that all controllers have. Clones share them.
#[derive(Clone)]
pub struct SharedMetrics {
    long_in_progress: Family<Labels<1>, Gauge>,
    running: Family<Labels<2>, Gauge>,
    errors: Family<Labels<2>, Counter>,
    pub(crate) events_dropped: Counter,
    workqueue: WorkqueueMetrics,
}

impl SharedMetrics {
    /// Creates the metrics and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            long_in_progress: Family::default(),
            running: Family::default(),
            errors: Family::default(),
            events_dropped: Counter::default(),
            workqueue: WorkqueueMetrics::register(registry),
        };

        let m = &metrics;
        registry.register(
            "running_managed_controllers",
            "1 while the controller is running",
            m.running.clone(),
        );
        registry.register(
            "skydock_controller_errors",
            "Errors of the cloud (by error case), of the API server (kind kubernetes), and of Pod CIDRs",
            m.errors.clone(),
        );
        registry.register(
            "skydock_long_in_progress",
            "Objects whose operation in the cloud has been running for more than ten minutes",
            m.long_in_progress.clone(),
        );
        registry.register(
            "skydock_events_dropped",
            "Events that were dropped because there were too many",
            m.events_dropped.clone(),
        );

        metrics
    }

    /// Returns the metrics of the work queue with this name.
    pub fn queue(&self, name: &str) -> QueueMetrics {
        self.workqueue.queue(name)
    }

    /// Counts an error. `kind` is [`skydock_cloud::CloudError::kind`], `kubernetes`, or a problem
    /// with Pod CIDRs.
    pub fn error(&self, controller: Controller, kind: &str) {
        let labels = [
            ("controller", controller.alias.to_owned()),
            ("kind", kind.to_owned()),
        ];
        self.errors.get_or_create(&labels).inc();
    }

    /// Returns the number of objects whose operation in the cloud has been in progress for a long
    /// time.
    pub fn long_in_progress(&self, controller: Controller) -> Gauge {
        self.long_in_progress
            .get_or_create_owned(&[("controller", controller.alias.to_owned())])
    }

    /// Sets whether a controller is running.
    pub fn running(&self, controller: Controller, running: bool) {
        let labels = [
            ("name", controller.alias.to_owned()),
            ("manager", "cloud-controller-manager".to_owned()),
        ];
        self.running.get_or_create(&labels).set(running.into());
    }
}
