//! Leader election on a Lease, as client-go does it and compatible with it.
//!
//! The rules are in [`plan`]; this is the loop around them. It runs on a thread and a runtime of its own, so that no plugin
//! and no controller can keep it from renewing. Two things go beyond client-go: a standby watches the lease and acts at
//! once when it is released, and it wakes at the very moment a silent leader's lease runs out.

mod lost;
mod plan;
mod watch;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp};
use kube::{Api, Client, api::PostParams};
use skydock_controllers::{informer::Read, with_causes};
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

/// Makes a client. Each has connections of its own.
pub type Connect = Box<dyn Fn() -> Result<Client, Failure> + Send>;

/// How often a lease that is to be given up may turn out to be another version than was known.
const RELEASES: u32 = 3;

/// Why a try came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// There is no client.
    #[error("{0}")]
    Client(String),
    /// What the API server said, or that it cannot be reached.
    #[error("{}", with_causes(.0))]
    Api(#[from] kube::Error),
    /// The API server said nothing.
    #[error("no answer within {0:?}")]
    Silent(Duration),
}

/// Holds or awaits one lease.
pub struct Elector {
    connect: Connect,
    /// `None`: it is connected to anew before the next request, because the last one was not answered.
    leases: Option<Api<Read<Lease>>>,
    config: ElectionConfig,
    candidate: Candidate,
    metrics: Arc<dyn ElectionMetrics>,
    observed: Option<Observed>,
    lease: Option<Lease>,
    /// The last write may have come through without an answer.
    in_doubt: bool,
    /// When the last write that came through was sent.
    sent: Instant,
    /// The lease was taken from a holder that had not given it up.
    unreleased: Arc<AtomicBool>,
}

/// `HOSTNAME_UUID` (P-20): unique for each process, and a person can tell where it runs.
#[must_use]
pub fn identity() -> String {
    format!("{}_{}", gethostname::gethostname().to_string_lossy(), uuid::Uuid::new_v4())
}

impl Elector {
    /// An elector that has done nothing yet.
    #[must_use]
    pub fn new(connect: Connect, config: ElectionConfig, identity: String, metrics: Arc<dyn ElectionMetrics>) -> Self {
        let candidate = Candidate { identity, timings: config.timings };
        Self {
            connect,
            leases: None,
            config,
            candidate,
            metrics,
            observed: None,
            lease: None,
            in_doubt: false,
            sent: Instant::now(),
            unreleased: Arc::default(),
        }
    }

    /// True once it has tried to follow a holder that had not given the lease up: what that one has sent may arrive yet.
    #[must_use]
    pub fn unreleased(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.unreleased)
    }

    fn leases(&mut self) -> Result<Api<Read<Lease>>, Failure> {
        if let Some(leases) = &self.leases {
            return Ok(leases.clone());
        }
        let leases = Api::namespaced((self.connect)()?, &self.config.namespace);
        self.leases = Some(leases.clone());
        Ok(leases)
    }

    /// Waits for an answer. Who does not answer may be gone, and the connection with it: the next request goes over another one.
    async fn answer<T>(&mut self, request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
        let limit = self.candidate.timings.request_limit();
        match tokio::time::timeout(limit, request).await {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                self.leases = None;
                Err(Failure::Silent(limit))
            }
        }
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
        let mut changes = None;
        loop {
            let retry = self.candidate.timings.retry_period;
            let wait = match self.attempt().await {
                Ok(None) => return,
                Ok(Some(expires_in)) => expires_in.min(jittered(retry)),
                Err(error) => {
                    tracing::warn!(lease = %self.name(), %error, "cannot get the lease; trying again");
                    if matches!(error, Failure::Silent(_)) {
                        changes = None;
                    }
                    jittered(retry)
                }
            };
            if changes.is_none() {
                changes = self.leases().ok().map(|leases| watch::changes(leases, &self.config.name));
            }
            let changed = async {
                match &mut changes {
                    Some(changes) => changes.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = changed => {}
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
                let tried = tokio::time::timeout(left, self.renew()).await;
                // Without an answer the time is used up already.
                let pause = !matches!(tried, Ok(Err(Failure::Silent(_))));
                let why = match tried {
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
                if pause {
                    tokio::time::sleep(self.candidate.timings.retry_period.min(Duration::from_secs(1))).await;
                }
            }
        }
    }

    /// Renews with what is known of the lease; if that is stale, reads it first.
    async fn renew(&mut self) -> Result<Option<Duration>, Failure> {
        if let Some(lease) = self.lease.clone() {
            match self.write(lease).await {
                Ok(()) => return Ok(None),
                Err(Failure::Api(kube::Error::Api(status))) if status.is_conflict() || status.is_not_found() => {
                    self.metrics.slow_path();
                }
                Err(error) => return Err(error),
            }
        }
        self.attempt().await
    }

    /// One try: `None` if the lease is held now, else how long its holder may still be silent.
    async fn attempt(&mut self) -> Result<Option<Duration>, Failure> {
        let (leases, name) = (self.leases()?, self.config.name.clone());
        let lease = self.answer(leases.get_opt(&name)).await?.map(|Read(lease)| lease);
        let now = Instant::now();
        let spec = lease.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let observed = Observed::update(self.observed.take(), spec, now);
        let step = plan::step(&observed, &self.candidate, now);
        let unreleased = observed.is_of_another(&self.candidate);
        self.observed = Some(observed);
        match step {
            Step::Wait(left) => Ok(Some(left)),
            Step::Take => {
                // First: should the answer be lost, the next try finds a lease of its own.
                self.unreleased.fetch_or(unreleased, Ordering::SeqCst);
                self.write(lease.unwrap_or_default()).await?;
                Ok(None)
            }
        }
    }

    /// Writes this instance into the lease; a lease without a resource version is made.
    async fn write(&mut self, mut lease: Lease) -> Result<(), Failure> {
        let (leases, name) = (self.leases()?, self.config.name.clone());
        let spec = plan::held(lease.spec.take().unwrap_or_default(), &self.candidate, Timestamp::now());
        lease.spec = Some(spec);
        let sent = Instant::now();
        self.in_doubt = true;
        let written = if lease.metadata.resource_version.is_some() {
            self.answer(leases.replace(&name, &PostParams::default(), &Read(lease))).await?
        } else {
            lease.metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
            self.answer(leases.create(&PostParams::default(), &Read(lease))).await?
        };
        let Read(written) = written;
        self.observed = Some(Observed::new(written.spec.clone().unwrap_or_default(), Instant::now()));
        self.lease = Some(written);
        self.in_doubt = false;
        self.sent = sent;
        Ok(())
    }

    /// Empties the lease, so that another instance need not wait. If that fails, it runs out by itself.
    async fn give_up(&mut self) {
        match self.release().await {
            Ok(true) => tracing::info!(lease = %self.name(), "lease released"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(lease = %self.name(), %error, "cannot release the lease; it runs out by itself");
            }
        }
    }

    /// False if this instance does not hold it.
    async fn release(&mut self) -> Result<bool, Failure> {
        let mut known = self.lease.take();
        if known.is_none() && !self.in_doubt {
            return Ok(false);
        }
        for _ in 0..RELEASES {
            let lease = match known.take() {
                Some(lease) => Some(lease),
                None => self.held().await?,
            };
            let Some(mut lease) = lease else { return Ok(false) };
            lease.spec = lease.spec.map(|spec| plan::released(spec, Timestamp::now()));
            let (leases, name) = (self.leases()?, self.config.name.clone());
            match self.answer(leases.replace(&name, &PostParams::default(), &Read(lease))).await {
                // Another has it, or a write of our own has come through that was given up.
                Err(Failure::Api(kube::Error::Api(status))) if status.is_conflict() => {}
                answer => return answer.map(|_| true),
            }
        }
        Ok(false)
    }

    /// The lease as it is now, if it is this instance's.
    async fn held(&mut self) -> Result<Option<Lease>, Failure> {
        let (leases, name) = (self.leases()?, self.config.name.clone());
        let lease = self.answer(leases.get_opt(&name)).await?.map(|Read(lease)| lease);
        let is_own = |lease: &Lease| {
            let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
            holder == Some(self.candidate.identity.as_str())
        };
        Ok(lease.filter(is_own))
    }
}

/// The period, and up to 1.2 times of it more (P-20's jitter factor), so that standbys do not try in step.
fn jittered(period: Duration) -> Duration {
    period.mul_f64(1.0 + 1.2 * rand::random::<f64>())
}
