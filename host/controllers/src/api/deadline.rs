//! Requests that end.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures::stream;
use http::Response;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use tokio::time::{Instant, sleep_until, timeout};
use tower::{BoxError, service_fn};

/// How long an answer is waited for. An API server gives up on a request after 60 s, and begins to answer a watch at once.
const ANSWER: Duration = Duration::from_secs(65);
/// How long the next piece of an answer is waited for. An API server has the whole of it when it begins to send.
const IDLE: Duration = Duration::from_secs(30);

/// Least time from the begin of one watch to that of the next of its kind. One that ends without an error is begun again at once by
/// kube; where all end as soon as they have begun, as behind a proxy that answers for the API server, that would be thousands a second.
const BETWEEN_WATCHES: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
#[error("the answer stopped in the middle: nothing more came for {IDLE:?}")]
struct Stopped;

/// The same client, whose requests fail if no answer begins in time, or if it stops before its end. By itself it waits for ever,
/// and with it would every worker and every list that has met a connection on which nobody is left at the other end. (A watch
/// may be silent for long. kube ends one that is silent for too long.)
#[must_use]
pub fn with_deadline(client: &Client) -> Client {
    let (namespace, valid_until) = (client.default_namespace().to_owned(), *client.valid_until());
    let (client, watches) = (client.clone(), Arc::<Watches>::default());
    let send = service_fn(move |request: http::Request<Body>| {
        let (client, watches) = (client.clone(), Arc::clone(&watches));
        let watch = request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "watch=true"));
        async move {
            if watch {
                sleep_until(watches.turn(request.uri().path())).await;
            }
            let answer: Response<Body> = timeout(ANSWER, client.send(request)).await??;
            let whole = |body: Body| body.map_err(BoxError::from).boxed_unsync();
            Ok::<_, BoxError>(answer.map(if watch { whole } else { in_time }))
        }
    });
    Client::new(send, namespace).with_valid_until(valid_until)
}

/// When watches have begun, by path.
#[derive(Default)]
struct Watches(Mutex<HashMap<String, Instant>>);

impl Watches {
    /// When the next one may begin, which it then does.
    fn turn(&self, path: &str) -> Instant {
        let now = Instant::now();
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = begun.get(path).map_or(now, |last| (*last + BETWEEN_WATCHES).max(now));
        begun.insert(path.to_owned(), at);
        at
    }
}

/// A body that fails when it stops.
fn in_time(body: Body) -> UnsyncBoxBody<Bytes, BoxError> {
    let frames = stream::unfold(Some(body), |body| async move {
        let mut body = body?;
        match timeout(IDLE, body.frame()).await {
            Ok(frame) => match frame? {
                Ok(frame) => Some((Ok(frame), Some(body))),
                Err(error) => Some((Err(error.into()), None)),
            },
            Err(_) => Some((Err(Stopped.into()), None)),
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
        api::{ApiError, Patch, Target, patch, with_nodes_in_protobuf},
        testing::FakeApi,
    };

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_never_answered_fails_and_the_next_one_is_sent() {
        let api = FakeApi::default();
        api.hang("PATCH", "/api/v1/nodes/n1");
        let client = with_deadline(&api.client());
        let target = Target { namespace: None, name: "n1", subresource: None };
        let body = Patch::Merge(json!({}));
        let start = Instant::now();
        let error = patch::<Node>(&client, &target, &body).await.unwrap_err();
        assert!(matches!(error, ApiError::Failed(..)), "{error}");
        assert!(start.elapsed() >= ANSWER && start.elapsed() < ANSWER * 2, "{:?}", start.elapsed());
        patch::<Node>(&client, &target, &body).await.unwrap();
    }

    /// An API server whose answers begin with these pieces, 20 s apart, and then stop.
    fn stops_after(content_type: &'static str, pieces: &'static [&'static [u8]]) -> Client {
        let serve = service_fn(move |_: http::Request<Body>| async move {
            let begin = stream::iter(pieces).then(|piece| async move {
                sleep(Duration::from_secs(20)).await;
                Ok::<_, BoxError>(http_body::Frame::data(Bytes::from_static(piece)))
            });
            let body = StreamBody::new(begin.chain(stream::pending()));
            Ok::<_, BoxError>(
                Response::builder().header("content-type", content_type).body(BodyExt::boxed_unsync(body)).unwrap(),
            )
        });
        Client::new(serve, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_stops_in_the_middle_fails() {
        const PIECES: &[&[u8]] = &[br#"{"kind":"NodeList","#, br#""apiVersion":"v1","#, br#""items":["#];
        for (content_type, wrap) in [
            ("application/json", (|client| client) as fn(Client) -> Client),
            ("application/json", |client| with_nodes_in_protobuf(&client)),
            ("application/vnd.kubernetes.protobuf", |client| with_nodes_in_protobuf(&client)),
        ] {
            let client = wrap(with_deadline(&stops_after(content_type, PIECES)));
            let start = Instant::now();
            let listed = timeout(ANSWER * 10, Api::<Node>::all(client.clone()).list(&ListParams::default())).await;
            assert!(listed.expect("it ends").is_err(), "{content_type}");
            // Each piece that comes is time for the next.
            assert!(
                start.elapsed() >= Duration::from_secs(90) && start.elapsed() < ANSWER * 2,
                "{:?}",
                start.elapsed()
            );
            let target = Target { namespace: None, name: "n1", subresource: None };
            let patched = timeout(ANSWER * 10, patch::<Node>(&client, &target, &Patch::Merge(json!({})))).await;
            assert!(matches!(patched.expect("it ends"), Err(ApiError::Failed(..))));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_may_be_silent_for_longer_than_an_answer() {
        const EVENT: &[&[u8]] =
            &[br#"{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"}}}
"#];
        let client = with_deadline(&stops_after("application/json", EVENT));
        let nodes = Api::<Node>::all(client);
        let mut events = nodes.watch(&WatchParams::default(), "1").await.unwrap().boxed();
        assert!(events.next().await.unwrap().is_ok());
        assert!(timeout(ANSWER * 2, events.next()).await.is_err(), "it goes on");
    }

    #[tokio::test(start_paused = true)]
    async fn watches_that_end_at_once_are_not_begun_at_once() {
        let empty = service_fn(|_: http::Request<Body>| async { Ok::<_, BoxError>(Response::new(Body::empty())) });
        let client = with_deadline(&Client::new(empty, "default"));
        let start = Instant::now();
        let asks =
            async |path: &str| drop(client.send(http::Request::get(path).body(Body::empty()).unwrap()).await.unwrap());
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
        assert_eq!(later.elapsed(), Duration::ZERO, "one that was held for long is followed at once");
    }
}
