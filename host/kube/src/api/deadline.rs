//! Timeouts for requests to the API server.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream;
use http::Response;
use http_body_util::{BodyExt, Limited, StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout};
use tower::{BoxError, service_fn};

/// Maximum time until an answer begins. An API server gives up on a request after 60 s, and begins
/// to answer a watch at once.
const ANSWER: Duration = Duration::from_secs(65);
/// Maximum time between two pieces of an answer. An API server has the complete answer when it
/// begins to send it.
const IDLE: Duration = Duration::from_secs(30);

/// Minimum time between the starts of two watches of the same path. kube restarts a watch that ends
/// without an error at once. If every watch ends as soon as it starts, for example behind a proxy
/// that answers for the API server, that would be thousands of requests a second.
const BETWEEN_WATCHES: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
#[error("the answer is incomplete: no data received for {IDLE:?}")]
struct IdleTimeout;

/// Returns a client whose requests fail if no answer begins in time, or if the answer stops before
/// its end. Without these timeouts, kube waits forever, and so does every worker and list that uses
/// a connection whose other end has disappeared. A watch may be silent for a long time; the
/// informer ends one that is silent for too long.
#[must_use]
pub fn with_deadline(client: &Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let valid_until = *client.valid_until();
    let client = client.clone();
    let watches = Arc::<Watches>::default();

    let send = service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        let watches = Arc::clone(&watches);

        let watch = request
            .uri()
            .query()
            .is_some_and(|query| query.split('&').any(|part| part == "watch=true"));

        async move {
            if watch {
                sleep_until(watches.next_start(request.uri().path())).await;
            }

            let answer: Response<Body> = timeout(ANSWER, client.send(request)).await??;
            let whole = |body: Body| body.map_err(BoxError::from).boxed_unsync();
            Ok::<_, BoxError>(answer.map(if watch { whole } else { with_idle_timeout }))
        }
    });

    Client::new(send, namespace).with_valid_until(valid_until)
}

/// Returns a client whose requests fail if an answer is longer than this, in bytes.
#[must_use]
pub fn with_limit(client: &Client, bytes: usize) -> Client {
    let namespace = client.default_namespace().to_owned();
    let valid_until = *client.valid_until();
    let client = client.clone();
    let send = service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        async move {
            let answer: Response<Body> = client.send(request).await?;
            Ok::<_, kube::Error>(answer.map(|body| Limited::new(body, bytes)))
        }
    });
    Client::new(send, namespace).with_valid_until(valid_until)
}

/// Times at which the last watch of each path starts.
#[derive(Default)]
struct Watches(Mutex<HashMap<String, Instant>>);

impl Watches {
    /// Returns the time at which the next watch may start, and records it as its start.
    fn next_start(&self, path: &str) -> Instant {
        let now = Instant::now();
        let mut begun = self.0.lock();
        let at = begun
            .get(path)
            .map_or(now, |last| (*last + BETWEEN_WATCHES).max(now));
        begun.insert(path.to_owned(), at);
        at
    }
}

/// Returns a body that fails when it stops before its end.
fn with_idle_timeout(body: Body) -> UnsyncBoxBody<Bytes, BoxError> {
    let frames = stream::unfold(Some(body), |body| async move {
        let mut body = body?;
        match timeout(IDLE, body.frame()).await {
            Ok(frame) => match frame? {
                Ok(frame) => Some((Ok(frame), Some(body))),
                // Nothing follows an error.
                Err(error) => Some((Err(error.into()), None)),
            },
            Err(_) => Some((Err(IdleTimeout.into()), None)),
        }
    });

    StreamBody::new(frames).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use k8s_openapi::api::core::v1::Node;
    use kube::{
        Api,
        api::{ListParams, WatchParams},
    };
    use serde_json::json;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::{
        api::{ApiError, Patch, Target, patch},
        testing::{FakeApi, stops_after},
    };

    #[tokio::test]
    async fn an_answer_that_is_too_long_is_an_error() {
        let api = FakeApi::default();
        let node = json!({"metadata": {"name": "n1", "labels": {"a": "b".repeat(1000)}}});
        for (limit, is_read) in [(100, false), (10_000, true)] {
            api.answer("GET", "/api/v1/nodes/n1", 200, node.clone());
            let nodes: Api<Node> = Api::all(with_limit(&api.client(), limit));
            assert_eq!(nodes.get("n1").await.is_ok(), is_read, "{limit}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_unanswered_request_fails_and_the_next_one_is_sent() {
        let api = FakeApi::default();
        api.hang("PATCH", "/api/v1/nodes/n1");
        let client = with_deadline(&api.client());
        let target = Target {
            namespace: None,
            name: "n1",
            subresource: None,
        };
        let body = Patch::Merge(json!({}));
        let start = Instant::now();
        let error = patch::<Node>(&client, &target, &body).await.unwrap_err();
        assert!(matches!(error, ApiError::Failed(..)), "{error}");
        assert!(
            start.elapsed() >= ANSWER && start.elapsed() < ANSWER * 2,
            "{:?}",
            start.elapsed()
        );
        patch::<Node>(&client, &target, &body).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_stalls_midway_fails() {
        const PIECES: &[&[u8]] = &[
            br#"{"kind":"NodeList","#,
            br#""apiVersion":"v1","#,
            br#""items":["#,
        ];
        let client = with_deadline(&stops_after("application/json", PIECES));
        let start = Instant::now();
        let listed = timeout(
            ANSWER * 10,
            Api::<Node>::all(client.clone()).list(&ListParams::default()),
        )
        .await;
        assert!(listed.expect("it ends").is_err());
        // The timeout starts again with each piece.
        assert!(
            start.elapsed() >= Duration::from_secs(90) && start.elapsed() < ANSWER * 2,
            "{:?}",
            start.elapsed()
        );
        let target = Target {
            namespace: None,
            name: "n1",
            subresource: None,
        };
        let patched = timeout(
            ANSWER * 10,
            patch::<Node>(&client, &target, &Patch::Merge(json!({}))),
        )
        .await;
        assert!(matches!(
            patched.expect("it ends"),
            Err(ApiError::Failed(..))
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_may_be_silent_for_longer_than_an_answer() {
        const EVENT: &[&[u8]] =
            &[br#"{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"}}}
"#];
        let client = with_deadline(&stops_after("application/json", EVENT));
        let nodes = Api::<Node>::all(client);
        let mut events = nodes
            .watch(&WatchParams::default(), "1")
            .await
            .unwrap()
            .boxed();
        assert!(events.next().await.unwrap().is_ok());
        assert!(
            timeout(ANSWER * 2, events.next()).await.is_err(),
            "it goes on"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn watches_that_end_at_once_are_restarted_after_a_pause() {
        let empty = service_fn(|_: http::Request<Body>| async {
            Ok::<_, BoxError>(Response::new(Body::empty()))
        });
        let client = with_deadline(&Client::new(empty, "default"));
        let start = Instant::now();
        let asks = async |path: &str| {
            drop(
                client
                    .send(http::Request::get(path).body(Body::empty()).unwrap())
                    .await
                    .unwrap(),
            );
        };
        for _ in 0..10 {
            asks("/api/v1/nodes?limit=100").await;
        }
        asks("/api/v1/nodes?watch=true").await;
        asks("/api/v1/services?watch=true").await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..5 {
            asks("/api/v1/nodes?watch=true&resourceVersion=7").await;
        }
        assert_eq!(start.elapsed(), 5 * BETWEEN_WATCHES);

        sleep(Duration::from_secs(290)).await;
        let later = Instant::now();
        asks("/api/v1/nodes?watch=true").await;
        assert_eq!(
            later.elapsed(),
            Duration::ZERO,
            "one that was held for long is followed at once"
        );
    }
}
