//! Requests of a plugin through its gateway to a cloud on this machine.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::IntoResponse,
};
use skydock_cloud::{CloudError, CloudProvider as _, Instance, Node};
use skydock_credentials::{CredentialMetrics, Credentials, Dependencies, SystemClock};
use skydock_egress::{EgressRule, Gateway, GatewayDependencies, HostIssuer, Settings, TlsConfig};
use skydock_sandbox::Limits;

use crate::support::{Bench, fixture, limits};

/// A request, and how it was authenticated.
type Seen = (String, Option<String>);

/// A cloud that records its requests.
#[derive(Clone, Default)]
struct Cloud {
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Cloud {
    async fn start() -> (Self, SocketAddr) {
        let cloud = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(cloud.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (cloud, address)
    }

    fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

async fn answer(
    State(cloud): State<Cloud>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> impl IntoResponse {
    let secret = headers
        .get("authorization")
        .map(|value| value.to_str().unwrap().to_owned());
    cloud
        .seen
        .lock()
        .unwrap()
        .push((format!("{method} {}", uri.path()), secret));
    match uri.path() {
        "/slow" => {
            tokio::time::sleep(Duration::from_millis(100)).await;
            (StatusCode::OK, HeaderMap::new(), body)
        }
        "/never" => std::future::pending().await,
        "/busy" => {
            let later =
                HeaderMap::from_iter([("retry-after".parse().unwrap(), "7".parse().unwrap())]);
            (StatusCode::TOO_MANY_REQUESTS, later, Bytes::new())
        }
        "/large" => (
            StatusCode::OK,
            HeaderMap::new(),
            Bytes::from(vec![b'x'; (16 << 20) + 1]),
        ),
        "/cut" => {
            let longer =
                HeaderMap::from_iter([("content-length".parse().unwrap(), "100".parse().unwrap())]);
            (StatusCode::OK, longer, Bytes::from_static(b"x"))
        }
        _ => (StatusCode::OK, HeaderMap::new(), body),
    }
}

pub(crate) fn rule(address: SocketAddr, more: &str) -> EgressRule {
    let text = format!(
        "name: cloud\nto: http://{address}\naddresses: [127.0.0.1/32]\nlimits: {{rate: 10000, burst: 1000, concurrency: 64}}\n{more}"
    );
    serde_saphyr::from_str(&text).unwrap()
}

async fn bench(settings: &Settings, limits: Limits) -> Bench {
    let gateway = Gateway::new("test", settings, GatewayDependencies::default()).unwrap();
    Bench::through(
        &fs::read(fixture("http")).unwrap(),
        limits,
        Arc::new(gateway),
    )
    .await
}

async fn open(address: SocketAddr, more: &str) -> Bench {
    bench(
        &Settings {
            rules: vec![rule(address, more)],
            ..Settings::default()
        },
        limits(),
    )
    .await
}

/// Returns a node that makes the plugin send this request.
fn asks(request: &str, body: usize) -> Arc<Node> {
    let annotations = [("request", request.to_owned()), ("body", body.to_string())];
    let annotations = annotations
        .map(|(key, value)| (format!("hostile.example/{key}"), value))
        .into();
    Arc::new(Node {
        name: "n".into(),
        annotations,
        ..Node::default()
    })
}

async fn describe(bench: &Bench, nodes: &[Arc<Node>]) -> Vec<Result<Instance, CloudError>> {
    bench.plugin.describe(nodes).await.unwrap()
}

async fn one(bench: &Bench, request: &str) -> Result<Instance, CloudError> {
    describe(bench, &[asks(request, 0)]).await.remove(0)
}

// Holds: SEC-03
#[tokio::test(flavor = "multi_thread")]
async fn plugin_requests_need_an_egress_rule() {
    let (cloud, address) = Cloud::start().await;
    let (silent, forbidden) = Cloud::start().await;
    let bench = open(address, "paths: [/v1]\nmethods: [GET, POST]").await;
    one(&bench, &format!("GET http://{address}/v1/things"))
        .await
        .unwrap();
    assert_eq!(cloud.seen(), [("GET /v1/things".to_owned(), None)]);
    for request in [
        format!("GET http://{address}/v2"),
        format!("GET http://{address}/v1/../v2"),
        format!("DELETE http://{address}/v1"),
        format!("GET http://{forbidden}/v1"),
        format!("GET http://user@{address}/v1"),
        "GET http://169.254.169.254/v1".to_owned(),
    ] {
        let rejected = one(&bench, &request).await;
        assert!(
            matches!(
                rejected,
                Err(CloudError::Denied(_) | CloudError::Invalid(_) | CloudError::Internal(_))
            ),
            "{request}: {rejected:?}"
        );
    }
    assert_eq!(
        (cloud.seen(), silent.seen()),
        (vec![], vec![]),
        "nobody was asked"
    );
}

/// A subscriber that keeps the fields of lines about plugins.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl tracing::field::Visit for Lines {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        if let Some(line) = self.0.lock().unwrap().last_mut() {
            *line += &format!(" {field}={value:?}");
        }
    }
}

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "plugin" && *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        self.0.lock().unwrap().push(String::new());
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

// On one thread, so that only lines of this test are kept.
#[tokio::test]
async fn the_log_says_which_request_was_denied_or_failed() {
    let (_, address) = Cloud::start().await;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let rules =
        [("cloud", address, "paths: [/v1]"), ("other", closed, "")].map(|(name, address, more)| {
            let rule = rule(address, more);
            EgressRule {
                name: name.into(),
                ..rule
            }
        });
    let bench = bench(
        &Settings {
            rules: rules.to_vec(),
            ..Settings::default()
        },
        limits(),
    )
    .await;
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let forged = format!("http://{address}/v2/\"level=error\"");
    for (request, words, fields) in [
        (
            format!("GET {forged}?token=secret"),
            "message=request denied: rule `cloud` allows",
            format!("rule=\"cloud\" method=\"GET\" host=\"http://{address}\""),
        ),
        (
            format!("PUT http://{closed}/x?marker=secret"),
            "message=request failed: cannot connect",
            format!("rule=\"other\" method=\"PUT\" host=\"http://{closed}\""),
        ),
        (
            "DELETE http://198.51.100.1/x".to_owned(),
            "message=request denied: no rule allows",
            "context=\"egress\" method=\"DELETE\" host=\"http://198.51.100.1:80\"".to_owned(),
        ),
    ] {
        one(&bench, &request).await.unwrap_err();
        let found = std::mem::take(&mut *lines.0.lock().unwrap());
        let [line] = &*found else {
            panic!("{request}: {found:?}")
        };
        assert!(
            line.contains(words) && line.contains(&fields),
            "{request}: {line}"
        );
        assert!(!line.contains("secret") && !line.contains('\n'), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_can_send_many_requests_concurrently() {
    let (cloud, address) = Cloud::start().await;
    let bench = open(address, "").await;
    let nodes: Vec<_> = (0..40)
        .map(|_| asks(&format!("POST http://{address}/slow"), 100_000))
        .collect();
    let begin = Instant::now();
    let answers = describe(&bench, &nodes).await;
    let bytes = |it: &Result<Instance, CloudError>| {
        it.as_ref().unwrap().labels["hostile.example/bytes"].clone()
    };
    assert!(answers.iter().all(|answer| bytes(answer) == "100000"));
    assert!(
        begin.elapsed() < Duration::from_secs(3),
        "one after the other takes 4 s: {:?}",
        begin.elapsed()
    );
    assert_eq!(cloud.seen().len(), 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_becomes_a_throttled_error() {
    let (_, address) = Cloud::start().await;
    let bench = open(address, "").await;
    let Err(CloudError::Throttled(retry)) =
        one(&bench, &format!("GET http://{address}/busy")).await
    else {
        panic!()
    };
    assert_eq!(retry.after, Duration::from_secs(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_told_why_an_answer_is_not_complete() {
    let (_, address) = Cloud::start().await;
    let bench = open(address, "").await;
    let large = one(&bench, &format!("GET http://{address}/large")).await;
    let expected = format!(
        "GET http://{address}/large: the size of the answer's body exceeds the limit (HTTP-response-body-size)"
    );
    assert_eq!(
        large,
        Err(CloudError::Internal(expected)),
        "requesting it again does not make it smaller"
    );
    let cut = one(&bench, &format!("GET http://{address}/cut")).await;
    let expected =
        format!("GET http://{address}/cut: the answer is incomplete (HTTP-response-incomplete)");
    assert_eq!(cut, Err(CloudError::Unavailable(expected)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_cloud_does_not_suspend_the_plugin() {
    let (_, address) = Cloud::start().await;
    let rules = vec![rule(address, "")];
    let short = Limits {
        read_deadline: Duration::from_secs(2),
        ..limits()
    };
    let bench = bench(
        &Settings {
            rules,
            ..Settings::default()
        },
        short,
    )
    .await;
    for _ in 0..6 {
        let answer = one(&bench, &format!("GET http://{address}/never")).await;
        assert!(
            matches!(answer, Err(CloudError::Unavailable(_))),
            "{answer:?}"
        );
    }
    let well = one(&bench, &format!("GET http://{address}/v1")).await;
    assert!(
        !matches!(&well, Err(error) if error.to_string().contains("suspended")),
        "{well:?}"
    );
}

/// Returns a rule for this cloud with the token in this file as its credential.
pub(crate) fn with_token(address: SocketAddr, file: &Path) -> Settings {
    let text = format!(
        "- type: header\n  name: api\n  for: {{plugin: test, digest: any}}\n  prefix: 'Bearer '\n  valueFile: {}",
        file.display()
    );
    let dependencies = Dependencies {
        issuers: Box::new(|_| Arc::new(HostIssuer::new(TlsConfig::default(), None))),
        clock: Arc::new(SystemClock),
        metrics: CredentialMetrics::default(),
    };
    let credentials = Credentials::new(
        &serde_saphyr::from_str::<Vec<_>>(&text).unwrap(),
        &dependencies,
    )
    .unwrap();
    let credentials = [(
        "api".to_owned(),
        credentials.bind("api", "test", "sha256:any").unwrap(),
    )]
    .into();
    Settings {
        rules: vec![rule(address, "credential: api")],
        credentials,
        ..Settings::default()
    }
}

// Holds: SEC-18
#[tokio::test(flavor = "multi_thread")]
async fn the_host_adds_a_credential_and_follows_its_file() {
    let (cloud, address) = Cloud::start().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    fs::write(&file, "the-secret-1").unwrap();
    let settings = with_token(address, &file);
    let bench = bench(&settings, limits()).await;
    let request = format!("GET http://{address}/v1");
    one(&bench, &request).await.unwrap();
    assert_eq!(cloud.seen()[0].1.as_deref(), Some("Bearer the-secret-1"));
    fs::write(&file, "the-secret-2").unwrap();
    for _ in 0..100 {
        one(&bench, &request).await.unwrap();
        if cloud.seen()[0].1.as_deref() == Some("Bearer the-secret-2") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the file was not read again");
}
