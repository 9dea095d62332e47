//! Leader election on a Lease, compatible with client-go; its caller says when to release it.
//!
//! The rules are in `plan`; this is the loop around them. It runs on a separate thread with its own
//! runtime, so that plugins and controllers cannot delay renewals. Three things go beyond client-go:
//! a standby watches the Lease and acquires it immediately when it is released, it retries exactly
//! at the time at which the Lease of a silent leader expires, and a holder can leave a
//! [`LeaseAnnotation`] to the next one.

mod access;
mod annotation;
mod lost;
mod metrics;
mod plan;
mod watch;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{api::with_causes, informer::Read};
use k8s_openapi::{
    api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp,
};
use kube::{Api, Client, api::PostParams};
use tokio::sync::watch::Sender;
use tokio_util::sync::CancellationToken;

pub use access::LeaseAccess;
pub use annotation::{Held, LeaseAnnotation, LeaseAnnotationWriter, lease_annotation};
pub use lost::lost;
pub use metrics::ElectionMetrics;
use plan::{Candidate, Observed, Step};
pub use plan::{Timings, TimingsError};

/// The Lease and its timings.
#[derive(Clone, Debug)]
pub struct ElectionConfig {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// The durations.
    pub timings: Timings,
}

/// The state of this replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Another replica leads, or none does yet.
    Standby,
    /// This replica leads; its last successful renewal was sent at this time.
    Leading(Instant),
    /// This replica was the leader and could not renew the Lease: it must stop immediately.
    Lost(String),
    /// This replica has released the Lease.
    Released,
}

/// A function that creates a client with its own connections.
pub type Connect = Box<dyn Fn() -> Result<Client, Failure> + Send>;

/// Maximum number of attempts to release the Lease, since it may have another version than
/// expected.
const RELEASES: u32 = 3;

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The client cannot be created.
    #[error("{0}")]
    Client(String),
    /// The API server returned an error, or cannot be reached.
    #[error("{}", with_causes(.0))]
    Api(#[from] kube::Error),
    /// The API server did not answer.
    #[error("no answer within {0:?}")]
    Silent(Duration),
}

/// The elector, which acquires and holds a Lease.
pub struct Elector {
    connect: Connect,
    /// `None` if a connection is opened for the next request, because the last one was not
    /// answered.
    leases: Option<Api<Read<Lease>>>,
    config: ElectionConfig,
    candidate: Candidate,
    metrics: ElectionMetrics,
    observed: Option<Observed>,
    lease: Option<Lease>,
    /// Annotations of the Lease when it was last read or written. If someone deletes it, it is
    /// created again with these.
    annotations: Option<BTreeMap<String, String>>,
    /// The last write may have succeeded although it was not answered.
    unconfirmed: bool,
    /// When the last successful write was sent.
    sent: Instant,
    /// The Lease was acquired from a holder that had not released it.
    unreleased: Arc<AtomicBool>,
    /// What the holder tells the next one.
    annotation_writer: LeaseAnnotationWriter,
}

/// Returns an identity of the form `HOSTNAME_UUID` (P-20), which is unique for each process and
/// shows where it runs.
#[must_use]
pub fn identity() -> String {
    format!(
        "{}_{}",
        gethostname::gethostname().to_string_lossy(),
        uuid::Uuid::new_v4()
    )
}

impl Elector {
    /// Creates an elector, which writes this annotation with the Lease.
    #[must_use]
    pub fn new(
        connect: Connect,
        config: ElectionConfig,
        identity: String,
        metrics: ElectionMetrics,
        annotation_writer: LeaseAnnotationWriter,
    ) -> Self {
        let candidate = Candidate {
            identity,
            timings: config.timings,
        };
        Self {
            connect,
            leases: None,
            config,
            candidate,
            metrics,
            observed: None,
            lease: None,
            annotations: None,
            unconfirmed: false,
            sent: Instant::now(),
            unreleased: Arc::default(),
            annotation_writer,
        }
    }

    /// Returns a flag that is set before an attempt to take over from a holder that had not
    /// released the Lease: requests of that holder may still arrive.
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

    /// Waits for an answer. Without an answer, the connection may be dead, so the next request uses
    /// another one.
    async fn answer<T>(
        &mut self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Failure> {
        let limit = self.candidate.timings.request_limit();
        match tokio::time::timeout(limit, request).await {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                self.leases = None;
                Err(Failure::Silent(limit))
            }
        }
    }

    /// Waits for the Lease, holds it, and releases it when `release` is canceled. Ends with
    /// [`Leadership::Released`] or [`Leadership::Lost`].
    pub async fn run(
        mut self,
        state: &Sender<Leadership>,
        access: &Sender<LeaseAccess>,
        release: &CancellationToken,
    ) {
        let ended = tokio::select! {
            // Polled in this order, so that nothing is acquired after a release.
            biased;
            () = release.cancelled() => Leadership::Released,
            () = self.acquire(access) => {
                self.metrics.leading(true);
                tracing::info!(lease = %self.name(), identity = self.candidate.identity, "became leader");
                self.hold(state, access, release).await
            }
        };

        if ended == Leadership::Released {
            self.release_and_log().await;
        }
        self.metrics.leading(false);
        state.send_replace(ended);
    }

    fn name(&self) -> String {
        format!("{}/{}", self.config.namespace, self.config.name)
    }

    /// Returns when the Lease is held.
    async fn acquire(&mut self, access: &Sender<LeaseAccess>) {
        tracing::info!(lease = %self.name(), identity = self.candidate.identity, "waiting for the Lease");
        let mut changes = None;
        loop {
            let retry = self.candidate.timings.retry_period;
            let tried = self.attempt().await;
            access.send_modify(|access| access.observe(&tried));
            let wait = match tried {
                Ok(None) => return,
                Ok(Some(expires_in)) => expires_in.min(jittered(retry)),
                Err(error) => {
                    tracing::warn!(lease = %self.name(), %error, "cannot acquire the Lease; retrying");
                    // The watch has the same connection, which may be dead.
                    if matches!(error, Failure::Silent(_)) {
                        changes = None;
                    }
                    jittered(retry)
                }
            };

            if changes.is_none() {
                changes = self
                    .leases()
                    .ok()
                    .map(|leases| watch::changes(leases, &self.config.name));
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

    /// Renews the Lease until this fails for the whole renew deadline, or until `release` is
    /// canceled.
    async fn hold(
        &mut self,
        state: &Sender<Leadership>,
        access: &Sender<LeaseAccess>,
        release: &CancellationToken,
    ) -> Leadership {
        let mut renewed = Instant::now();
        loop {
            state.send_replace(Leadership::Leading(self.sent));
            tokio::select! {
                () = tokio::time::sleep(self.candidate.timings.retry_period) => {}
                // Somebody waits for the next renewal.
                () = self.annotation_writer.changed() => {}
                () = release.cancelled() => return Leadership::Released,
            }

            let deadline = plan::deadline(self.sent, renewed, &self.candidate.timings);
            match self.renew_until(deadline, access).await {
                Ok(()) => renewed = Instant::now(),
                Err(why) => return Leadership::Lost(why),
            }
        }
    }

    /// Renews the Lease, and retries this until the deadline.
    ///
    /// # Errors
    /// Why the Lease is lost.
    async fn renew_until(
        &mut self,
        deadline: Instant,
        access: &Sender<LeaseAccess>,
    ) -> Result<(), String> {
        let pause = self
            .candidate
            .timings
            .retry_period
            .min(Duration::from_secs(1));

        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let tried = tokio::time::timeout(left, self.renew()).await;
            if let Ok(tried) = &tried {
                access.send_modify(|access| access.observe(tried));
            }

            // After a timeout, enough time has passed for the next attempt.
            let is_silent = matches!(tried, Ok(Err(Failure::Silent(_))));
            let why = match tried {
                Ok(Ok(None)) => return Ok(()),
                Ok(Ok(Some(_))) => {
                    let name = self.name();
                    return Err(format!("another replica has acquired the Lease {name}"));
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };

            if Instant::now() >= deadline {
                return Err(format!(
                    "the Lease {} could not be renewed within {:?}: {why}",
                    self.name(),
                    self.candidate.timings.renew_deadline
                ));
            }

            tracing::warn!(lease = %self.name(), error = why, "cannot renew the Lease; retrying");
            if !is_silent {
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Renews with the last known version of the Lease; if it is outdated, reads the Lease first.
    async fn renew(&mut self) -> Result<Option<Duration>, Failure> {
        // A copy: if the write fails, the next renewal starts from the same version.
        if let Some(lease) = self.lease.clone() {
            match self.write(lease).await {
                Ok(()) => return Ok(None),
                Err(Failure::Api(kube::Error::Api(status)))
                    if status.is_conflict() || status.is_not_found() =>
                {
                    self.metrics.slow_path();
                }
                Err(error) => return Err(error),
            }
        }
        self.attempt().await
    }

    /// Makes one attempt: returns `None` if the Lease is held, or else the time until the Lease of
    /// the current holder expires.
    async fn attempt(&mut self) -> Result<Option<Duration>, Failure> {
        let leases = self.leases()?;
        let name = self.config.name.clone();

        let lease = self
            .answer(leases.get_opt(&name))
            .await?
            .map(|Read(lease)| lease);
        if let Some(lease) = &lease {
            self.annotations.clone_from(&lease.metadata.annotations);
        }

        let now = Instant::now();
        let spec = lease
            .as_ref()
            .and_then(|lease| lease.spec.clone())
            .unwrap_or_default();

        let observed = Observed::update(self.observed.take(), spec, now);
        let step = plan::step(&observed, &self.candidate, now);
        let unreleased = observed.is_of_another(&self.candidate);
        let unattended = observed.unattended(&self.candidate, Timestamp::now());
        self.observed = Some(observed);

        match step {
            Step::Wait(left) => Ok(Some(left)),
            Step::Take => {
                // Set before the write: if its answer is lost, the next attempt finds its own
                // Lease.
                self.unreleased.fetch_or(unreleased, Ordering::SeqCst);
                if let Some(unattended) = unattended {
                    self.annotation_writer.acquires(unattended);
                }
                self.write(lease.unwrap_or_default()).await?;
                Ok(None)
            }
        }
    }

    /// Writes this replica into the Lease. A Lease without a resource version is created.
    async fn write(&mut self, mut lease: Lease) -> Result<(), Failure> {
        let leases = self.leases()?;
        let name = self.config.name.clone();

        let spec = plan::held(
            lease.spec.take().unwrap_or_default(),
            &self.candidate,
            Timestamp::now(),
        );
        lease.spec = Some(spec);

        // Before the write: others may count from any time between this and its answer.
        let sent = Instant::now();
        self.unconfirmed = true;

        let exists = lease.metadata.resource_version.is_some();
        if !exists {
            lease.metadata = ObjectMeta {
                name: Some(name.clone()),
                // A Lease that someone has deleted gets its annotations back.
                annotations: self.annotations.clone(),
                ..ObjectMeta::default()
            };
        }
        let number = self
            .annotation_writer
            .apply(&mut lease.metadata.annotations);

        let lease = Read(lease);
        let params = PostParams::default();
        let Read(written) = if exists {
            let replacing = leases.replace(&name, &params, &lease);
            self.answer(replacing).await?
        } else {
            self.answer(leases.create(&params, &lease)).await?
        };

        self.observed = Some(Observed::new(
            written.spec.clone().unwrap_or_default(),
            Instant::now(),
        ));
        self.annotations.clone_from(&written.metadata.annotations);
        self.annotation_writer.confirm(&written, number);
        self.lease = Some(written);
        self.unconfirmed = false;
        self.sent = sent;

        Ok(())
    }

    /// Releases the Lease, so that another replica does not have to wait. If this fails, the Lease
    /// expires.
    async fn release_and_log(&mut self) {
        match self.release().await {
            Ok(true) => tracing::info!(lease = %self.name(), "released the Lease"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(lease = %self.name(), %error, "cannot release the Lease; another replica takes over when it expires");
            }
        }
    }

    /// Releases the Lease. Returns false if this replica does not hold it.
    async fn release(&mut self) -> Result<bool, Failure> {
        let mut known = self.lease.take();
        // Nothing was written that may have arrived.
        if known.is_none() && !self.unconfirmed {
            return Ok(false);
        }

        for _ in 0..RELEASES {
            let lease = match known.take() {
                Some(lease) => Some(lease),
                None => self.held().await?,
            };

            let Some(mut lease) = lease else {
                return Ok(false);
            };
            lease.spec = lease
                .spec
                .map(|spec| plan::released(spec, Timestamp::now()));
            let leases = self.leases()?;
            let name = self.config.name.clone();

            match self
                .answer(leases.replace(&name, &PostParams::default(), &Read(lease)))
                .await
            {
                // Another replica holds the Lease, or an earlier write of this replica succeeded
                // after its timeout.
                Err(Failure::Api(kube::Error::Api(status))) if status.is_conflict() => {}
                answer => return answer.map(|_| true),
            }
        }

        Ok(false)
    }

    /// Returns the current Lease, if this replica holds it.
    async fn held(&mut self) -> Result<Option<Lease>, Failure> {
        let leases = self.leases()?;
        let name = self.config.name.clone();

        let lease = self
            .answer(leases.get_opt(&name))
            .await?
            .map(|Read(lease)| lease);

        let is_own = |lease: &Lease| {
            let holder = lease
                .spec
                .as_ref()
                .and_then(|spec| spec.holder_identity.as_deref());
            holder == Some(self.candidate.identity.as_str())
        };

        Ok(lease.filter(is_own))
    }
}

/// Returns the period plus a random part of up to 1.2 times the period (P-20's jitter factor), so
/// that standbys do not try at the same time.
fn jittered(period: Duration) -> Duration {
    period.mul_f64(1.0 + 1.2 * rand::random::<f64>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::FakeApi;

    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

    // Holds: SEC-28
    #[tokio::test]
    async fn a_deleted_lease_is_created_again_with_its_annotations() {
        for (holder, leads) in [("", true), ("another", false)] {
            let api = FakeApi::default();
            let client = api.client();
            let second = Duration::from_secs(1);
            let config = ElectionConfig {
                namespace: "kube-system".into(),
                name: "ccm".into(),
                timings: Timings::new(15 * second, 10 * second, 2 * second).unwrap(),
            };
            let connect = Box::new(move || Ok(client.clone()));
            let (_annotation, writer) = lease_annotation("annotation");
            let metrics = ElectionMetrics::default();
            let mut elector = Elector::new(connect, config, "me".into(), metrics, writer);

            let path = format!("{LEASES}/ccm");
            let lease = json!({
                "metadata": {"name": "ccm", "resourceVersion": "1", "annotations": {"a": "b"}},
                "spec": {"holderIdentity": holder},
            });
            api.answer("GET", &path, 200, lease.clone());
            api.answer("PUT", &path, 200, lease);
            assert_eq!(elector.attempt().await.unwrap().is_none(), leads);
            api.clear("GET", &path);
            api.clear("PUT", &path);
            for method in ["GET", "PUT"] {
                api.fail(method, &path, 404, "NotFound");
            }

            assert!(elector.renew().await.unwrap().is_none());
            let created = api.requests().pop().unwrap();
            assert_eq!((&*created.method, &*created.path), ("POST", LEASES));
            let metadata = json!({"name": "ccm", "annotations": {"a": "b"}});
            assert_eq!(created.body["metadata"], metadata);
        }
    }
}
