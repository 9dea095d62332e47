//! Metrics of leader elections, with client-go's names and labels.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

type ByName<M> = Family<[(&'static str, String); 1], M>;

/// The metrics of the election with one Lease.
#[derive(Clone, Default)]
pub struct ElectionMetrics {
    /// Name of the Lease.
    name: String,
    leading: ByName<Gauge>,
    slow_path: ByName<Counter>,
}

impl ElectionMetrics {
    /// Creates the metrics of the Lease with this name, and registers them.
    pub fn register(registry: &mut Registry, name: &str) -> Self {
        let metrics = Self {
            name: name.to_owned(),
            ..Self::default()
        };

        registry.register(
            "leader_election_master_status",
            "1 on the leader, 0 on a standby",
            metrics.leading.clone(),
        );
        registry.register(
            "leader_election_slowpath",
            "Renewals that had to read the Lease first",
            metrics.slow_path.clone(),
        );

        // The metrics must not be missing on a standby (P-23).
        metrics.leading(false);
        drop(metrics.slow_path.get_or_create_owned(&metrics.labels()));

        metrics
    }

    /// Notes that leadership was won or lost.
    pub(super) fn leading(&self, leading: bool) {
        let gauge = self.leading.get_or_create_owned(&self.labels());
        gauge.set(i64::from(leading));
    }

    /// Counts a renewal that had to read the Lease first.
    pub(super) fn slow_path(&self) {
        self.slow_path.get_or_create_owned(&self.labels()).inc();
    }

    fn labels(&self) -> [(&'static str, String); 1] {
        [("name", self.name.clone())]
    }
}
