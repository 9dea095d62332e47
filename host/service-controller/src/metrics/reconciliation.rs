//! Metrics of what is done for load balancers, with the names of the official
//! cloud-controller-manager of OpenStack (`--metrics-compat`).

use std::time::Duration;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use skydock_cloud::CloudError;
use tokio::time::Instant;

/// The buckets of cloud-provider-openstack 1.36 (`metrics_reconcile.go`), in seconds.
const DURATIONS: [f64; 21] = [
    0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5, 20.0, 22.5, 25.0, 27.5, 30.0,
    50.0, 75.0, 100.0, 1000.0,
];

type Labels = [(&'static str, &'static str); 1];

/// What is done for a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Ensure,
    UpdateNodes,
    Delete,
}

impl Operation {
    /// Returns the official name.
    fn name(self) -> &'static str {
        match self {
            Self::Ensure => "loadbalancer_ensure",
            Self::UpdateNodes => "loadbalancer_update",
            Self::Delete => "loadbalancer_delete",
        }
    }
}

/// Metrics of operations. Clones share their values. By default, they are not registered.
#[derive(Clone)]
pub(crate) struct ReconciliationMetrics {
    durations: Family<Labels, Histogram, fn() -> Histogram>,
    all: Family<Labels, Counter>,
    errors: Family<Labels, Counter>,
}

impl Default for ReconciliationMetrics {
    fn default() -> Self {
        Self {
            durations: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
            all: Family::default(),
            errors: Family::default(),
        }
    }
}

impl ReconciliationMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "cloudprovider_openstack_reconcile_duration_seconds",
            "Seconds of operations on load balancers",
            self.durations.clone(),
        );
        registry.register(
            "cloudprovider_openstack_reconcile",
            "Operations on load balancers",
            self.all.clone(),
        );
        registry.register(
            "cloudprovider_openstack_reconcile_errors",
            "Operations on load balancers that failed",
            self.errors.clone(),
        );
    }

    /// Counts an operation that has ended.
    pub(crate) fn ended(&self, operation: Operation, took: Duration, has_failed: bool) {
        let labels = [("operation", operation.name())];
        let durations = self.durations.get_or_create(&labels);
        durations.observe(took.as_secs_f64());
        self.all.get_or_create(&labels).inc();
        if has_failed {
            self.errors.get_or_create(&labels).inc();
        }
    }
}

/// The operation on a load balancer that the cloud has not finished, and when it began. The official
/// cloud-controller-manager waits for the cloud in one operation; here it has several calls.
#[derive(Debug, Default)]
pub(crate) struct UnfinishedOperation(Option<(Operation, Instant)>);

impl UnfinishedOperation {
    /// Records the answer to a call of an operation. Returns how long the operation took if this is
    /// its end.
    pub(crate) fn answered(
        &mut self,
        operation: Operation,
        call: Instant,
        now: Instant,
        error: Option<&CloudError>,
    ) -> Option<Duration> {
        let began = match self.0.take() {
            Some((unfinished, began)) if unfinished == operation => began,
            _ => call,
        };
        if matches!(error, Some(CloudError::InProgress(_))) {
            self.0 = Some((operation, began));
            return None;
        }
        Some(now.saturating_duration_since(began))
    }
}

#[cfg(test)]
mod tests {
    use skydock_cloud::Retry;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_operation_takes_until_the_cloud_is_done() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let in_progress = CloudError::InProgress(Retry {
            after: Duration::from_secs(1),
            message: "wait".into(),
        });
        let failed = CloudError::Internal("why".into());

        let mut unfinished = UnfinishedOperation::default();
        // Each call takes a second.
        for (operation, call, error, expected) in [
            (Operation::Ensure, 0, None, Some(1)),
            (Operation::Ensure, 10, Some(&in_progress), None),
            (Operation::Ensure, 20, Some(&in_progress), None),
            (Operation::Ensure, 30, None, Some(21)),
            (Operation::Ensure, 40, Some(&in_progress), None),
            (Operation::Ensure, 50, Some(&failed), Some(11)),
            (Operation::UpdateNodes, 60, Some(&in_progress), None),
            (Operation::Delete, 70, Some(&in_progress), None),
            (Operation::Delete, 80, None, Some(11)),
            (Operation::UpdateNodes, 90, None, Some(1)),
        ] {
            let took = unfinished.answered(operation, at(call), at(call + 1), error);
            let expected = expected.map(Duration::from_secs);
            assert_eq!(took, expected, "{operation:?} at {call}");
        }
    }
}
