//! Metrics of requests to the API server, with client-go's names, labels and buckets.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
};

use futures::{FutureExt as _, future::BoxFuture};
use http::{Request, Response, Uri};
use kube::client::Body;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use tokio::time::Instant;
use tower::{Layer, Service};

/// Buckets in seconds, those of Kubernetes (`component-base/metrics/prometheus/restclient`).
const DURATIONS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];
/// The code of a request without an answer.
const NO_ANSWER: &str = "<error>";

type Labels<const N: usize> = [(&'static str, String); N];

struct Metrics {
    requests: Family<Labels<3>, Counter>,
    retries: Family<Labels<3>, Counter>,
    durations: Family<Labels<2>, Histogram, fn() -> Histogram>,
}

/// Like those of client-go, they belong to the process: clients are made in many places.
static METRICS: LazyLock<Metrics> = LazyLock::new(|| Metrics {
    requests: Family::default(),
    retries: Family::default(),
    durations: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
});

/// Registers the metrics of the requests of all clients of the process.
pub fn register(registry: &mut Registry) {
    registry.register(
        "rest_client_requests",
        "Requests to the API server, each retry counted too, by status code, method and host",
        METRICS.requests.clone(),
    );
    registry.register(
        "rest_client_request_retries",
        "Retries of requests to the API server by status code, verb and host",
        METRICS.retries.clone(),
    );
    registry.register(
        "rest_client_request_duration_seconds",
        "Seconds until the answer of the API server to a request begins, without watches",
        METRICS.durations.clone(),
    );
}

/// How often a request was sent. Its copies share it.
#[derive(Clone, Default)]
struct Sent(Arc<AtomicU32>);

/// Prepares a request for [`Measured`], which then knows whether it is a retry.
pub(super) fn count_retries(mut request: Request<Body>) -> Request<Body> {
    request.extensions_mut().insert(Sent::default());
    request
}

/// Adds [`Measured`] to a stack of services.
#[derive(Clone)]
pub(super) struct Measure {
    host: Arc<str>,
}

impl Measure {
    /// Requests are to the server with this URL.
    pub(super) fn requests_to(url: &Uri) -> Self {
        let host = url.host().unwrap_or_default();
        let host = match url.port() {
            Some(port) => format!("{host}:{port}").into(),
            None => host.into(),
        };
        Self { host }
    }
}

impl<S> Layer<S> for Measure {
    type Service = Measured<S>;

    fn layer(&self, service: S) -> Measured<S> {
        Measured {
            service,
            host: Arc::clone(&self.host),
        }
    }
}

/// Measures each request.
#[derive(Clone)]
pub(super) struct Measured<S> {
    service: S,
    host: Arc<str>,
}

impl<S, B> Service<Request<Body>> for Measured<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    B: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<B>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let measurement = Measurement::start(&request, Arc::clone(&self.host));
        let answer = self.service.call(request);
        async move {
            let answer = answer.await;
            measurement.end(answer.as_ref().ok().map(|it| it.status().as_u16()));
            answer
        }
        .boxed()
    }
}

/// The measurement of one request. It is counted when this is dropped, also if the request is
/// canceled, as by a deadline.
struct Measurement {
    host: Arc<str>,
    method: String,
    is_watch: bool,
    is_retry: bool,
    started: Instant,
    code: Option<u16>,
}

impl Measurement {
    fn start(request: &Request<Body>, host: Arc<str>) -> Self {
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.split('&').any(|part| part == "watch=true"));
        let is_retry = request
            .extensions()
            .get::<Sent>()
            .is_some_and(|sent| sent.0.fetch_add(1, Ordering::Relaxed) > 0);

        Self {
            host,
            method: request.method().to_string(),
            is_watch,
            is_retry,
            started: Instant::now(),
            code: None,
        }
    }

    /// Ends with the status code of the answer, if there is one.
    fn end(mut self, code: Option<u16>) {
        self.code = code;
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        let code = self
            .code
            .map_or_else(|| NO_ANSWER.to_owned(), |code| code.to_string());
        let host = || ("host", self.host.to_string());
        let verb = ("verb", self.method.clone());

        let labels = [
            ("code", code.clone()),
            ("method", self.method.clone()),
            host(),
        ];
        METRICS.requests.get_or_create(&labels).inc();

        if self.is_retry {
            let labels = [("code", code), verb.clone(), host()];
            METRICS.retries.get_or_create(&labels).inc();
        }
        // As in client-go: a watch takes as long as the API server likes.
        if !self.is_watch {
            let took = self.started.elapsed().as_secs_f64();
            let labels = [verb, host()];
            METRICS.durations.get_or_create(&labels).observe(took);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::StatusCode;
    use kube::client::retry::RetryPolicy;
    use prometheus_client::encoding::text::encode;
    use tokio::time::{sleep, timeout};
    use tower::{BoxError, ServiceBuilder, ServiceExt as _, retry::RetryLayer, service_fn};

    use super::*;

    /// Returns the lines of the metrics of this host that are counts of requests.
    fn lines(host: &str) -> Vec<String> {
        let mut registry = Registry::default();
        register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let host = format!("host=\"{host}\"");
        let mut lines: Vec<String> = text
            .lines()
            .filter(|line| line.contains(&host))
            .filter(|line| !line.contains("_bucket") && !line.contains("_sum"))
            .map(|line| line.replace(&format!(",{host}"), ""))
            .collect();
        lines.sort();
        lines
    }

    fn measure(url: &str) -> Measure {
        Measure::requests_to(&url.parse().unwrap())
    }

    fn get(path: &str) -> Request<Body> {
        Request::get(path).body(Body::empty()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_counted_with_their_retries() {
        let sent = Arc::new(AtomicU32::new(0));
        let busy_once = service_fn(move |_: Request<Body>| {
            let busy = sent.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                sleep(Duration::from_secs(3)).await;
                let mut answer = Response::new(());
                if busy {
                    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                }
                Ok::<_, BoxError>(answer)
            }
        });
        let client = ServiceBuilder::new()
            .map_request(count_retries)
            .layer(RetryLayer::new(RetryPolicy::server_retry()))
            .layer(measure("https://retried:443"))
            .service(busy_once);

        for path in ["/a", "/b?watch=true"] {
            let answer = client.clone().oneshot(get(path)).await.unwrap();
            assert_eq!(answer.status(), 200, "{path}");
        }
        assert_eq!(
            lines("retried:443"),
            [
                "rest_client_request_duration_seconds_count{verb=\"GET\"} 2",
                "rest_client_request_retries_total{code=\"200\",verb=\"GET\"} 1",
                "rest_client_requests_total{code=\"200\",method=\"GET\"} 2",
                "rest_client_requests_total{code=\"503\",method=\"GET\"} 1",
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_given_up_counts_as_an_error() {
        let silent =
            service_fn(|_: Request<Body>| std::future::pending::<Result<Response<()>, BoxError>>());
        let client = measure("https://silent").layer(silent);
        let answer = timeout(Duration::from_secs(20), client.oneshot(get("/a"))).await;
        assert!(answer.is_err());
        let lines = lines("silent");
        assert!(
            lines.contains(&"rest_client_requests_total{code=\"<error>\",method=\"GET\"} 1".into()),
            "{lines:?}"
        );
    }

    #[test]
    fn the_host_is_that_of_the_url() {
        for (url, host) in [
            ("https://127.0.0.1:6443/path", "127.0.0.1:6443"),
            ("https://[::1]:6443", "[::1]:6443"),
            ("https://kubernetes.default.svc", "kubernetes.default.svc"),
        ] {
            assert_eq!(&*measure(url).host, host);
        }
    }
}
