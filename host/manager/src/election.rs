//! Leader election on a Lease, as client-go does it and compatible with it.
//!
//! The rules are in [`plan`]; this is the loop around them. It runs on a thread and a runtime of its own, so that no plugin
//! and no controller can keep it from renewing. Two things go beyond client-go: a standby watches the lease and acts at
//! once when it is released, and it wakes at the very moment a silent leader's lease runs out.

mod lost;
mod plan;
mod watch;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp};
use kube::{Api, Client, api::PostParams};
use tokio::sync::watch::Sender;
use tokio_util::sync::CancellationToken;

pub use lost::lost;
use plan::{Candidate, Observed, Step};
pub use plan::{Timings, TimingsError};

/// Which lease to hold, and how.
#[derive(Clone, Debug)]
pub struct ElectionConfig {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// Durations.
    pub timings: Timings,
}

/// Where this instance stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Another instance leads, or nobody yet.
    Standby,
    /// This instance leads; the renewal that came through last was sent at this moment.
    Leading(Instant),
    /// This instance led and could not renew: it must stop acting at once.
    Lost(String),
    /// This instance has given the lease up.
    Released,
}

/// Metrics of the election.
pub trait ElectionMetrics: Send + Sync {
    /// Called when leadership is won or lost.
    fn leading(&self, leading: bool);
    /// Called when a renewal had to read the lease first.
    fn slow_path(&self);
}

/// Holds or awaits one lease.
pub struct Elector {
    leases: Api<Lease>,
    config: ElectionConfig,
    candidate: Candidate,
    metrics: Arc<dyn ElectionMetrics>,
    observed: Option<Observed>,
    lease: Option<Lease>,
    /// When the last write that came through was sent.
    sent: Instant,
}

/// `HOSTNAME_UUID` (P-20): unique for each process, and a person can tell where it runs.
#[must_use]
pub fn identity() -> String {
    format!("{}_{}", gethostname::gethostname().to_string_lossy(), uuid::Uuid::new_v4())
}

impl Elector {
    /// An elector that has done nothing yet.
    #[must_use]
    pub fn new(client: Client, config: ElectionConfig, identity: String, metrics: Arc<dyn ElectionMetrics>) -> Self {
        let leases = Api::namespaced(client, &config.namespace);
        let candidate = Candidate { identity, timings: config.timings };
        Self { leases, config, candidate, metrics, observed: None, lease: None, sent: Instant::now() }
    }

    /// Waits for the lease, holds it, and gives it up when `release` is cancelled. Ends with [`Leadership::Released`] or
    /// [`Leadership::Lost`].
    pub async fn run(mut self, state: &Sender<Leadership>, release: &CancellationToken) {
        let ended = tokio::select! {
            biased;
            () = release.cancelled() => Leadership::Released,
            () = self.acquire() => {
                self.metrics.leading(true);
                tracing::info!(lease = %self.name(), identity = self.candidate.identity, "leading");
                self.hold(state, release).await
            }
        };
        if ended == Leadership::Released {
            self.give_up().await;
        }
        self.metrics.leading(false);
        state.send_replace(ended);
    }

    fn name(&self) -> String {
        format!("{}/{}", self.config.namespace, self.config.name)
    }

    /// Returns once the lease is held.
    async fn acquire(&mut self) {
        tracing::info!(lease = %self.name(), identity = self.candidate.identity, "waiting for the lease");
        let mut changes = watch::changes(self.leases.clone(), &self.config.name);
        loop {
            let retry = self.candidate.timings.retry_period;
            let limit = self.candidate.timings.renew_deadline;
            let wait = match tokio::time::timeout(limit, self.attempt()).await {
                Ok(Ok(None)) => return,
                Ok(Ok(Some(expires_in))) => expires_in.min(jittered(retry)),
                Ok(Err(error)) => {
                    tracing::warn!(lease = %self.name(), %error, "cannot get the lease; trying again");
                    jittered(retry)
                }
                Err(_) => retry,
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = changes.next() => {}
            }
        }
    }

    /// Renews until that fails for the whole renew deadline, or until release is asked for.
    async fn hold(&mut self, state: &Sender<Leadership>, release: &CancellationToken) -> Leadership {
        let mut renewed = Instant::now();
        loop {
            state.send_replace(Leadership::Leading(self.sent));
            tokio::select! {
                () = tokio::time::sleep(self.candidate.timings.retry_period) => {}
                () = release.cancelled() => return Leadership::Released,
            }
            let deadline = plan::deadline(self.sent, renewed, &self.candidate.timings);
            loop {
                let left = deadline.saturating_duration_since(Instant::now());
                let why = match tokio::time::timeout(left, self.renew()).await {
                    Ok(Ok(None)) => {
                        renewed = Instant::now();
                        break;
                    }
                    Ok(Ok(Some(_))) => {
                        return Leadership::Lost(format!("another instance holds the lease {} now", self.name()));
                    }
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "no answer".to_owned(),
                };
                if Instant::now() >= deadline {
                    return Leadership::Lost(format!(
                        "the lease {} could not be renewed for {:?}: {why}",
                        self.name(),
                        self.candidate.timings.renew_deadline
                    ));
                }
                tracing::warn!(lease = %self.name(), error = why, "cannot renew the lease; trying again");
                tokio::time::sleep(self.candidate.timings.retry_period.min(Duration::from_secs(1))).await;
            }
        }
    }

    /// Renews with what is known of the lease; if that is stale, reads it first.
    async fn renew(&mut self) -> Result<Option<Duration>, kube::Error> {
        if let Some(lease) = self.lease.clone() {
            match self.write(lease).await {
                Ok(()) => return Ok(None),
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {
                    self.metrics.slow_path();
                }
                Err(error) => return Err(error),
            }
        }
        self.attempt().await
    }

    /// One try: `None` if the lease is held now, else how long its holder may still be silent.
    async fn attempt(&mut self) -> Result<Option<Duration>, kube::Error> {
        let lease = self.leases.get_opt(&self.config.name).await?;
        let now = Instant::now();
        let spec = lease.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let observed = Observed::update(self.observed.take(), spec, now);
        let step = plan::step(&observed, &self.candidate, now);
        self.observed = Some(observed);
        match step {
            Step::Wait(left) => Ok(Some(left)),
            Step::Take => {
                self.write(lease.unwrap_or_default()).await?;
                Ok(None)
            }
        }
    }

    /// Writes this instance into the lease; a lease without a resource version is made.
    async fn write(&mut self, mut lease: Lease) -> Result<(), kube::Error> {
        let spec = plan::held(lease.spec.take().unwrap_or_default(), &self.candidate, Timestamp::now());
        lease.spec = Some(spec);
        let sent = Instant::now();
        let written = if lease.metadata.resource_version.is_some() {
            self.leases.replace(&self.config.name, &PostParams::default(), &lease).await?
        } else {
            lease.metadata = ObjectMeta { name: Some(self.config.name.clone()), ..ObjectMeta::default() };
            self.leases.create(&PostParams::default(), &lease).await?
        };
        self.observed = Some(Observed::new(written.spec.clone().unwrap_or_default(), Instant::now()));
        self.lease = Some(written);
        self.sent = sent;
        Ok(())
    }

    /// Empties the lease, so that another instance need not wait. If that fails, it runs out by itself.
    async fn give_up(&mut self) {
        let Some(mut lease) = self.lease.take() else { return };
        lease.spec = lease.spec.map(|spec| plan::released(spec, Timestamp::now()));
        let write = self.leases.replace(&self.config.name, &PostParams::default(), &lease).await;
        match write {
            Ok(_) => tracing::info!(lease = %self.name(), "lease released"),
            Err(error) => {
                tracing::warn!(lease = %self.name(), %error, "cannot release the lease; it runs out by itself");
            }
        }
    }
}

/// The period, and up to 1.2 times of it more (P-20's jitter factor), so that standbys do not try in step.
fn jittered(period: Duration) -> Duration {
    period.mul_f64(1.0 + 1.2 * rand::random::<f64>())
}
