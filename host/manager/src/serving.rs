//! Metrics and health over plain HTTP, on loopback by default.

mod bounded;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use prometheus_client::{encoding::text::encode, registry::Registry};
use skydock_kube::election::{Leadership, LeaseAccess};
use tokio::{net::TcpListener, sync::watch::Receiver};
use tokio_util::sync::CancellationToken;

use self::bounded::Bounded;

/// Maximum number of connections. There are only a few probes and scrapers.
const CONNECTIONS: usize = 64;

/// Maximum duration of a connection. A scrape takes milliseconds, and clients reconnect.
const LONGEST_CONNECTION: Duration = Duration::from_secs(10);

/// A leader whose last renewal is older than the lease duration plus this time counts as blocked
/// (P-22).
const STUCK_AFTER: Duration = Duration::from_secs(20);

/// The content that is served.
pub struct Served {
    /// All metrics.
    pub registry: Registry,
    /// How far the start has come.
    pub readiness: Receiver<Readiness>,
    /// The election; `None` without leader election.
    pub election: Option<Election>,
}

/// How far the start of the process has come. Each state includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readiness {
    /// The plugin is not loaded yet.
    Starting,
    /// The plugin is loaded, but the API server has not answered yet.
    PluginLoaded,
    /// The API server has answered.
    ApiServerReached,
}

/// The state of the election.
pub struct Election {
    /// Whether this process leads.
    pub leadership: Receiver<Leadership>,
    /// Whether it may use the Lease.
    pub lease: Receiver<LeaseAccess>,
    /// The lease duration.
    pub lease_duration: Duration,
}

impl Election {
    fn is_healthy(&self) -> bool {
        match &*self.leadership.borrow() {
            Leadership::Leading(renewed) => renewed.elapsed() < self.lease_duration + STUCK_AFTER,
            Leadership::Standby | Leadership::Released => true,
            Leadership::Lost(_) => false,
        }
    }
}

impl Served {
    /// Returns the checks of `/healthz`: their names and results. They include neither the plugin
    /// nor the API server: restarting the process does not fix them.
    fn checks(&self) -> Vec<(&'static str, bool)> {
        let elected = self.election.as_ref().is_none_or(Election::is_healthy);
        vec![("ping", true), ("leaderElection", elected)]
    }

    /// Returns the checks of `/readyz`: whether this process could lead if the leader ended now. A
    /// rolling update that replaced the leader by one that cannot would leave no leader.
    fn readiness(&self) -> Vec<(&'static str, bool)> {
        let may_lead = self
            .election
            .as_ref()
            .is_none_or(|election| *election.lease.borrow() == LeaseAccess::Granted);

        let readiness = *self.readiness.borrow();
        let mut checks = self.checks();
        checks.extend([
            ("plugin", readiness >= Readiness::PluginLoaded),
            ("apiServer", readiness >= Readiness::ApiServerReached),
            ("lease", may_lead),
        ]);

        checks
    }
}

/// Why serving cannot start.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot serve metrics and health on {address}; set another address with --metrics-bind-address"
)]
pub struct ServeError {
    address: SocketAddr,
    source: std::io::Error,
}

/// Starts serving until `stop`. Returns the address, which contains the actual port if port 0 was
/// requested.
///
/// # Errors
/// If the address cannot be used.
pub async fn start(
    address: SocketAddr,
    served: Served,
    stop: CancellationToken,
) -> Result<SocketAddr, ServeError> {
    let failed = |source| ServeError { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;

    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/livez", get(health))
        .route("/readyz", get(readiness))
        .with_state(Arc::new(served));

    tokio::spawn(async move {
        let serving = axum::serve(
            Bounded::new(listener, CONNECTIONS, LONGEST_CONNECTION),
            router,
        )
        .with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = serving.await {
            tracing::error!(%error, "serving metrics and health failed; restart Skydock");
        }
    });
    Ok(bound)
}

async fn metrics(State(served): State<Arc<Served>>) -> impl IntoResponse {
    let mut text = String::new();
    match encode(&mut text, &served.registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            (StatusCode::OK, [(header::CONTENT_TYPE, kind)], text)
        }
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            [(header::CONTENT_TYPE, "text/plain")],
            error.to_string(),
        ),
    }
}

async fn health(State(served): State<Arc<Served>>) -> (StatusCode, String) {
    respond(&served.checks())
}

async fn readiness(State(served): State<Arc<Served>>) -> (StatusCode, String) {
    respond(&served.readiness())
}

fn respond(checks: &[(&'static str, bool)]) -> (StatusCode, String) {
    if checks.iter().all(|(_, holds)| *holds) {
        return (StatusCode::OK, "ok".to_owned());
    }

    let list: String = checks
        .iter()
        .map(|(name, holds)| format!("[{}]{name}\n", if *holds { '+' } else { '-' }))
        .collect();
    (StatusCode::INTERNAL_SERVER_ERROR, list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use tokio::sync::watch;

    fn served(readiness: Readiness, election: Option<(Leadership, LeaseAccess)>) -> Arc<Served> {
        Arc::new(Served {
            registry: Registry::default(),
            readiness: watch::channel(readiness).1,
            election: election.map(|(leadership, lease)| Election {
                leadership: watch::channel(leadership).1,
                lease: watch::channel(lease).1,
                lease_duration: Duration::from_secs(15),
            }),
        })
    }

    fn healthy(state: Leadership) -> bool {
        let served = served(Readiness::Starting, Some((state, LeaseAccess::Granted)));
        served.checks().iter().all(|(_, holds)| *holds)
    }

    /// Returns the checks that fail.
    async fn failing(served: &Arc<Served>) -> Vec<String> {
        let (status, text) = readiness(State(Arc::clone(served))).await;
        let failing: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("[-]"))
            .map(str::to_owned)
            .collect();
        assert_eq!(status == StatusCode::OK, failing.is_empty(), "{text}");
        failing
    }

    #[tokio::test]
    async fn readiness_names_what_is_missing() {
        for (readiness, missing) in [
            (Readiness::Starting, &["plugin", "apiServer"][..]),
            (Readiness::PluginLoaded, &["apiServer"]),
            (Readiness::ApiServerReached, &[]),
        ] {
            let served = served(readiness, None);
            assert_eq!(failing(&served).await, missing, "{readiness:?}");
            assert_eq!(health(State(served)).await.0, StatusCode::OK);
        }
    }

    #[tokio::test]
    async fn who_cannot_use_the_lease_is_not_ready() {
        for (lease, missing) in [
            (LeaseAccess::Unknown, &["lease"][..]),
            (LeaseAccess::Denied, &["lease"]),
            (LeaseAccess::Granted, &[]),
        ] {
            let election = Some((Leadership::Standby, lease));
            let served = served(Readiness::ApiServerReached, election);
            assert_eq!(failing(&served).await, missing, "{lease:?}");
            assert_eq!(health(State(served)).await.0, StatusCode::OK, "{lease:?}");
        }
    }

    // Holds: P-22
    #[test]
    fn health_fails_20_s_after_the_lease_of_the_leader_expired() {
        let ago = |seconds| {
            Instant::now()
                .checked_sub(Duration::from_secs(seconds))
                .unwrap()
        };
        assert!(healthy(Leadership::Leading(ago(34))));
        assert!(!healthy(Leadership::Leading(ago(36))));
        assert!(healthy(Leadership::Standby));
        assert!(!healthy(Leadership::Lost("gone".to_owned())));
    }
}
