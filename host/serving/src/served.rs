//! What is served: `/healthz`, `/livez` and `/readyz` with their checks, and `/metrics`.

mod exposition;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use skydock_kube::election::{Leadership, LeaseAccess};
use tokio::sync::watch::Receiver;

use self::exposition::encoded;
use crate::status;

/// A leader whose last renewal is older than the lease duration plus this time counts as blocked
/// (P-22).
const STUCK_AFTER: Duration = Duration::from_secs(20);
/// How many names of checks that do not exist an answer repeats.
const REPEATED: usize = 10;
/// How many characters of each. Everybody may ask, and answers that nobody reads stay in memory.
const REPEATED_LENGTH: usize = 32;

/// The content that is served.
pub struct Served {
    /// All metrics.
    pub registry: Registry,
    /// How far the start has come.
    pub readiness: Receiver<Readiness>,
    /// The election; `None` without leader election.
    pub election: Option<Election>,
    /// The names of the controllers.
    pub controllers: Vec<&'static str>,
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

/// A check of health, and whether it succeeds.
type Check = (&'static str, bool);

impl Served {
    /// Returns the checks of `/healthz`: their names and results. They include neither the plugin
    /// nor the API server: restarting the process does not fix them. Those of controllers never
    /// fail, as in upstream: their failures are in metrics and events.
    fn checks(&self) -> Vec<Check> {
        let elected = self.election.as_ref().is_none_or(Election::is_healthy);
        let mut checks = vec![("ping", true), ("leaderElection", elected)];
        checks.extend(self.controllers.iter().map(|name| (*name, true)));
        checks
    }

    /// Returns the checks of `/readyz`: whether this process could lead if the leader ended now. A
    /// rolling update that replaced the leader by one that cannot would leave no leader.
    fn readiness(&self) -> Vec<Check> {
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

    /// Returns the router for it.
    pub fn router(self) -> Router {
        Router::new()
            .route("/metrics", get(metrics))
            .route("/metrics/slis", get(slis))
            .route("/healthz", get(healthz))
            .route("/healthz/{check}", get(healthz_check))
            .route("/livez", get(livez))
            .route("/livez/{check}", get(healthz_check))
            .route("/readyz", get(readyz))
            .route("/readyz/{check}", get(readyz_check))
            .fallback(async || status::not_found())
            .with_state(Arc::new(Content {
                served: self,
                indicators: Indicators::default(),
            }))
    }
}

/// What is served, and how the checks of health have gone.
struct Content {
    served: Served,
    indicators: Indicators,
}

/// Service level indicators, as in upstream's `component-base/metrics/prometheus/slis`.
#[derive(Default)]
struct Indicators {
    healthcheck: Family<CheckLabels, Gauge>,
    healthchecks: Family<ResultLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CheckLabels {
    name: &'static str,
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    name: &'static str,
    r#type: &'static str,
    status: &'static str,
}

impl Indicators {
    /// Counts the result of a check.
    fn observe(&self, name: &'static str, endpoint: &'static str, succeeds: bool) {
        let check = CheckLabels {
            name,
            r#type: endpoint,
        };
        let result = ResultLabels {
            name,
            r#type: endpoint,
            status: if succeeds { "success" } else { "error" },
        };
        self.healthcheck
            .get_or_create(&check)
            .set(i64::from(succeeds));
        self.healthchecks.get_or_create(&result).inc();
    }

    fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        registry.register(
            "kubernetes_healthcheck",
            "1 if the last check of health succeeded",
            self.healthcheck.clone(),
        );
        registry.register(
            "kubernetes_healthchecks",
            "Results of checks of health",
            self.healthchecks.clone(),
        );
        registry
    }
}

async fn metrics(State(content): State<Arc<Content>>, headers: HeaderMap) -> Response {
    values(&content.served.registry, &headers)
}

async fn slis(State(content): State<Arc<Content>>, headers: HeaderMap) -> Response {
    values(&content.indicators.registry(), &headers)
}

fn values(registry: &Registry, headers: &HeaderMap) -> Response {
    match encoded(registry, headers) {
        Ok((kind, text)) => (StatusCode::OK, [(header::CONTENT_TYPE, kind)], text).into_response(),
        Err(error) => status::plain(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

async fn healthz(State(content): State<Arc<Content>>, RawQuery(query): RawQuery) -> Response {
    content.summary("healthz", &content.served.checks(), query.as_deref())
}

async fn livez(State(content): State<Arc<Content>>, RawQuery(query): RawQuery) -> Response {
    content.summary("livez", &content.served.checks(), query.as_deref())
}

async fn readyz(State(content): State<Arc<Content>>, RawQuery(query): RawQuery) -> Response {
    content.summary("readyz", &content.served.readiness(), query.as_deref())
}

async fn healthz_check(State(content): State<Arc<Content>>, Path(check): Path<String>) -> Response {
    one(&content.served.checks(), &check)
}

async fn readyz_check(State(content): State<Arc<Content>>, Path(check): Path<String>) -> Response {
    one(&content.served.readiness(), &check)
}

/// Returns the answer about one check.
fn one(checks: &[Check], name: &str) -> Response {
    match checks.iter().find(|(known, _)| *known == name) {
        Some((_, true)) => status::plain(StatusCode::OK, "ok".to_owned()),
        Some((name, false)) => {
            let text = format!("internal server error: {name} failed\n");
            status::plain(StatusCode::INTERNAL_SERVER_ERROR, text)
        }
        None => status::not_found(),
    }
}

impl Content {
    /// Returns the answer about all checks, in the words of upstream (`server/healthz`), with the
    /// parameters `verbose` and `exclude=NAME`.
    fn summary(&self, endpoint: &'static str, checks: &[Check], query: Option<&str>) -> Response {
        let parameters = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let mut excluded = Vec::new();
        let mut verbose = false;
        for (name, value) in parameters {
            match &*name {
                "exclude" => excluded.push(value.into_owned()),
                "verbose" => verbose = true,
                _ => {}
            }
        }

        let mut text = String::new();
        let mut failed = false;
        for (name, succeeds) in checks {
            let is_excluded = excluded.iter().any(|excluded| excluded == name);
            excluded.retain(|excluded| excluded != name);
            text += &match (is_excluded, succeeds) {
                (true, _) => format!("[+]{name} excluded: ok\n"),
                (false, true) => format!("[+]{name} ok\n"),
                (false, false) => format!("[-]{name} failed: reason withheld\n"),
            };
            if !is_excluded {
                self.indicators.observe(name, endpoint, *succeeds);
            }
            failed |= !is_excluded && !succeeds;
        }
        if !excluded.is_empty() {
            excluded.sort();
            excluded.dedup();
            let names = excluded.iter().take(REPEATED).map(|name| {
                let begin: String = name.chars().take(REPEATED_LENGTH).collect();
                format!("{begin:?}")
            });
            let names = names.collect::<Vec<_>>().join(",");
            text +=
                &format!("warn: some health checks cannot be excluded: no matches for {names}\n");
        }

        if failed {
            text += &format!("{endpoint} check failed\n");
            status::plain(StatusCode::INTERNAL_SERVER_ERROR, text)
        } else if verbose {
            text += &format!("{endpoint} check passed\n");
            status::plain(StatusCode::OK, text)
        } else {
            status::plain(StatusCode::OK, "ok".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use axum::body::Body;
    use http_body_util::BodyExt as _;
    use tokio::sync::watch;
    use tower::ServiceExt as _;

    use super::*;

    fn content(readiness: Readiness, election: Option<(Leadership, LeaseAccess)>) -> Arc<Content> {
        let served = Served {
            registry: Registry::default(),
            readiness: watch::channel(readiness).1,
            election: election.map(|(leadership, lease)| Election {
                leadership: watch::channel(leadership).1,
                lease: watch::channel(lease).1,
                lease_duration: Duration::from_secs(15),
            }),
            controllers: vec!["service-lb-controller"],
        };
        Arc::new(Content {
            served,
            indicators: Indicators::default(),
        })
    }

    fn healthy(state: Leadership) -> bool {
        let content = content(Readiness::Starting, Some((state, LeaseAccess::Granted)));
        content.served.checks().iter().all(|(_, holds)| *holds)
    }

    async fn text(response: Response) -> (u16, String) {
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn is_healthy(content: &Arc<Content>) -> bool {
        let answer = healthz(State(Arc::clone(content)), RawQuery(None)).await;
        answer.status() == StatusCode::OK
    }

    /// Returns the checks that fail.
    async fn failing(content: &Arc<Content>) -> Vec<String> {
        let answer = readyz(State(Arc::clone(content)), RawQuery(None)).await;
        let (status, text) = text(answer).await;
        let failing: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("[-]")?.split(' ').next())
            .map(str::to_owned)
            .collect();
        assert_eq!(status == 200, failing.is_empty(), "{text}");
        failing
    }

    #[tokio::test]
    async fn readiness_names_what_is_missing() {
        for (readiness, missing) in [
            (Readiness::Starting, &["plugin", "apiServer"][..]),
            (Readiness::PluginLoaded, &["apiServer"]),
            (Readiness::ApiServerReached, &[]),
        ] {
            let content = content(readiness, None);
            assert_eq!(failing(&content).await, missing, "{readiness:?}");
            assert!(is_healthy(&content).await);
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
            let content = content(Readiness::ApiServerReached, election);
            assert_eq!(failing(&content).await, missing, "{lease:?}");
            assert!(is_healthy(&content).await, "{lease:?}");
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

    #[tokio::test]
    async fn health_is_told_in_the_words_of_upstream() {
        let good = [("ping", true), ("leaderElection", true)];
        let bad = [("ping", true), ("leaderElection", false)];
        let failed =
            "[+]ping ok\n[-]leaderElection failed: reason withheld\nhealthz check failed\n";
        for (checks, query, expected) in [
            (good, None, (200, "ok")),
            (good, Some("exclude=ping"), (200, "ok")),
            (
                good,
                Some("verbose"),
                (
                    200,
                    "[+]ping ok\n[+]leaderElection ok\nhealthz check passed\n",
                ),
            ),
            (bad, None, (500, failed)),
            (bad, Some("verbose=true"), (500, failed)),
            (bad, Some("exclude=leaderElection"), (200, "ok")),
            (
                bad,
                Some("verbose&exclude=leaderElection&exclude=b&exclude=a"),
                (
                    200,
                    "[+]ping ok\n[+]leaderElection excluded: ok\nwarn: some health checks cannot be excluded: no matches for \
                     \"a\",\"b\"\nhealthz check passed\n",
                ),
            ),
        ] {
            let content = content(Readiness::Starting, None);
            let (status, text) = text(content.summary("healthz", &checks, query)).await;
            assert_eq!((status, text.as_str()), expected, "{query:?}");
        }

        for (name, expected) in [("ping", 200), ("leaderElection", 500), ("x", 404)] {
            assert_eq!(text(one(&bad, name)).await.0, expected, "{name}");
        }
    }

    #[tokio::test]
    async fn each_controller_has_a_check() {
        let content = content(Readiness::Starting, None);
        let query = RawQuery(Some("verbose".to_owned()));
        let (_, all) = text(healthz(State(Arc::clone(&content)), query).await).await;
        assert!(all.contains("[+]service-lb-controller ok\n"), "{all}");

        let router = Arc::into_inner(content).unwrap().served.router();
        for endpoint in ["healthz", "livez", "readyz"] {
            for (name, expected) in [
                ("service-lb-controller", 200),
                ("node-route-controller", 404),
            ] {
                let request = http::Request::get(format!("/{endpoint}/{name}"));
                let request = request.body(Body::empty()).unwrap();
                let answer = router.clone().oneshot(request).await.unwrap();
                assert_eq!(answer.status(), expected, "/{endpoint}/{name}");
            }
        }
    }

    #[tokio::test]
    async fn an_answer_does_not_repeat_a_long_question() {
        let content = content(Readiness::Starting, None);
        let long = format!("verbose&exclude={}", "%7F".repeat(10_000));
        let many: String = (0..1000).map(|it| format!("exclude={it}&")).collect();
        for query in [long, many + "verbose"] {
            let answer = content.summary("healthz", &[("ping", true)], Some(&query));
            let (status, text) = text(answer).await;
            assert_eq!(status, 200);
            assert!(text.len() < 1000, "{text}");
        }
    }

    #[tokio::test]
    async fn other_pages_are_not_found_in_the_words_of_upstream() {
        let content = content(Readiness::Starting, None);
        let served = Arc::into_inner(content).unwrap().served;
        let request = http::Request::get("/other").body(Body::empty());
        let answer = served.router().oneshot(request.unwrap()).await.unwrap();
        let expected = (404, "404 page not found\n".to_owned());
        assert_eq!(text(answer).await, expected);
    }

    #[tokio::test]
    async fn results_of_checks_are_counted() {
        let content = content(Readiness::PluginLoaded, None);
        for _ in 0..2 {
            failing(&content).await;
        }
        is_healthy(&content).await;
        let (_, text) = text(slis(State(content), HeaderMap::new()).await).await;
        for line in [
            "kubernetes_healthcheck{name=\"apiServer\",type=\"readyz\"} 0",
            "kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1",
            "kubernetes_healthchecks_total{name=\"apiServer\",type=\"readyz\",status=\"error\"} 2",
            "kubernetes_healthchecks_total{name=\"plugin\",type=\"readyz\",status=\"success\"} 2",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
    }
}
