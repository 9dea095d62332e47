//! Leader election of the process.

use std::{
    sync::{Arc, atomic::AtomicBool},
    thread,
};

use prometheus_client::registry::Registry;
use skydock_kube::{
    api::{with_causes, with_deadline},
    clients,
    election::{
        self, ElectionConfig, ElectionMetrics, Elector, Leadership, LeaseAccess, LeaseAnnotation,
        lease_annotation,
    },
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// An election that has not started yet.
pub(super) struct Election {
    pub(super) config: ElectionConfig,
    pub(super) state: watch::Sender<Leadership>,
    lease: watch::Sender<LeaseAccess>,
    metrics: ElectionMetrics,
}

/// An election that has started.
pub(super) struct Started {
    pub(super) thread: thread::JoinHandle<()>,
    /// Set if the previous leader has not released the Lease.
    pub(super) unreleased: Arc<AtomicBool>,
    /// An annotation of the Lease.
    pub(super) annotation: LeaseAnnotation,
}

impl Election {
    pub(super) fn new(config: ElectionConfig, registry: &mut Registry) -> Self {
        let metrics = ElectionMetrics::register(registry, &config.name);
        Self {
            config,
            state: watch::Sender::new(Leadership::Standby),
            lease: watch::Sender::default(),
            metrics,
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
    /// delay renewals. `key` is that of the annotation for the next leader.
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

        let (annotation, writer) = lease_annotation(key);
        let connect = Box::new(connect);
        let elector = Elector::new(connect, self.config, identity, self.metrics, writer);
        let unreleased = elector.unreleased();
        let elect = move || runtime.block_on(elector.run(&self.state, &self.lease, &release));

        Ok(Started {
            thread: thread::Builder::new()
                .name("leader-election".to_owned())
                .spawn(elect)?,
            unreleased,
            annotation,
        })
    }
}
