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
use skydock_kube::election::Leadership;
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
    /// Canceled when the plugin is loaded and the API server is reachable.
    pub started: CancellationToken,
    /// The state of the election; `None` without leader election.
    pub leadership: Option<Receiver<Leadership>>,
    /// The lease duration.
    pub lease_duration: Duration,
}

impl Served {
    /// Returns the checks of `/healthz`: their names and results. They do not include the plugin:
    /// restarting the process does not fix a plugin.
    fn checks(&self) -> Vec<(&'static str, bool)> {
        let elected =
            self.leadership
                .as_ref()
                .is_none_or(|leadership| match &*leadership.borrow() {
                    Leadership::Leading(renewed) => {
                        renewed.elapsed() < self.lease_duration + STUCK_AFTER
                    }
                    Leadership::Standby | Leadership::Released => true,
                    Leadership::Lost(_) => false,
                });
        vec![("ping", true), ("leaderElection", elected)]
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
    told(&served.checks())
}

/// A standby is ready too: its plugin is loaded, and it can become the leader at any time.
async fn readiness(State(served): State<Arc<Served>>) -> (StatusCode, String) {
    told(
        &[
            served.checks(),
            vec![("started", served.started.is_cancelled())],
        ]
        .concat(),
    )
}

fn told(checks: &[(&'static str, bool)]) -> (StatusCode, String) {
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

    fn served(leadership: Option<Receiver<Leadership>>) -> Served {
        Served {
            registry: Registry::default(),
            started: CancellationToken::new(),
            leadership,
            lease_duration: Duration::from_secs(15),
        }
    }

    fn healthy(state: Leadership) -> bool {
        let (_sender, receiver) = watch::channel(state);
        served(Some(receiver))
            .checks()
            .iter()
            .all(|(_, holds)| *holds)
    }

    #[tokio::test]
    async fn readiness_depends_only_on_the_first_plugin() {
        let served = Arc::new(served(None));
        assert_eq!(
            readiness(State(Arc::clone(&served))).await.0,
            StatusCode::INTERNAL_SERVER_ERROR
        );
        assert_eq!(health(State(Arc::clone(&served))).await.0, StatusCode::OK);
        served.started.cancel();
        assert_eq!(
            readiness(State(served)).await,
            (StatusCode::OK, "ok".to_owned())
        );
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
