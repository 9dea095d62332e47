//! Leader election of the process: starts the elector, and has its metrics.
//!
//! A number such as P-23 is that of a statement in `docs/parity.md`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    thread,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use skydock_kube::{
    api::{with_causes, with_deadline},
    clients,
    election::{
        self, ElectionConfig, ElectionMetrics, Elector, Leadership, LeaseAccess, Note, note,
    },
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// An election that has not started yet.
pub(super) struct Election {
    pub(super) config: ElectionConfig,
    pub(super) state: watch::Sender<Leadership>,
    lease: watch::Sender<LeaseAccess>,
    pub(super) metrics: Arc<Metrics>,
}

/// An election that has started.
pub(super) struct Started {
    pub(super) thread: thread::JoinHandle<()>,
    /// Set if the previous leader has not released the Lease.
    pub(super) unreleased: Arc<AtomicBool>,
    /// An annotation of the Lease.
    pub(super) note: Note,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabel {
    name: String,
}

/// The election metrics (P-23).
pub(super) struct Metrics {
    name: String,
    leading: Family<LeaseLabel, Gauge>,
    slow_path: Family<LeaseLabel, Counter<u64, AtomicU64>>,
}

impl ElectionMetrics for Metrics {
    fn leading(&self, leading: bool) {
        self.leading
            .get_or_create(&LeaseLabel {
                name: self.name.clone(),
            })
            .set(i64::from(leading));
    }

    fn slow_path(&self) {
        self.slow_path
            .get_or_create(&LeaseLabel {
                name: self.name.clone(),
            })
            .inc();
    }
}

impl Election {
    pub(super) fn new(config: ElectionConfig, registry: &mut Registry) -> Self {
        let metrics = Metrics {
            name: config.name.clone(),
            leading: Family::default(),
            slow_path: Family::default(),
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

        // The metric must not be missing on a standby (P-23).
        metrics.leading(false);
        let name = config.name.clone();
        drop(metrics.slow_path.get_or_create(&LeaseLabel { name }));

        Self {
            config,
            state: watch::Sender::new(Leadership::Standby),
            lease: watch::Sender::default(),
            metrics: Arc::new(metrics),
        }
    }

    pub(super) fn watched(&self) -> skydock_serving::Election {
        skydock_serving::Election {
            leadership: self.state.subscribe(),
            lease: self.lease.subscribe(),
            lease_duration: self.config.timings.lease_duration,
        }
    }

    /// Starts the elector on a separate thread and with a separate client, so that nothing else can
    /// delay renewals. `key` is the annotation of the note.
    pub(super) fn start(
        self,
        access: kube::Config,
        identity: String,
        key: &'static str,
        release: CancellationToken,
    ) -> anyhow::Result<Started> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;

        let connect = move || {
            let client = clients::named(&access, "leader-election");
            let client = client.map(|client| with_deadline(&client));
            client.map_err(|error| election::Failure::Client(with_causes(&error)))
        };

        let (note, writer) = note(key);
        let connect = Box::new(connect);
        let elector = Elector::new(connect, self.config, identity, self.metrics, writer);
        let unreleased = elector.unreleased();
        let elect = move || runtime.block_on(elector.run(&self.state, &self.lease, &release));

        Ok(Started {
            thread: thread::Builder::new()
                .name("leader-election".to_owned())
                .spawn(elect)?,
            unreleased,
            note,
        })
    }
}
