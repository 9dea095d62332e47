use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::{
    informer::tests::{node, record},
    testing::{FakeApi, Nodes},
};

fn start(informer: &Arc<Informer<Nodes>>, client: Client) -> JoinHandle<()> {
    let informer = Arc::clone(informer);
    tokio::spawn(async move { informer.run(client).await })
}

#[tokio::test(start_paused = true)]
async fn lists_are_paged_and_find_deletions_the_watch_missed() {
    let api = FakeApi::default();
    let page = |nodes: &[Node], next: &str, version: &str| {
        json!({
            "kind": "NodeList", "apiVersion": "v1",
            "metadata": {"resourceVersion": version, "continue": next}, "items": nodes,
        })
    };
    api.answer(
        "GET",
        "/api/v1/nodes",
        200,
        page(&[node("a", "1")], "more", "10"),
    );
    api.answer(
        "GET",
        "/api/v1/nodes",
        200,
        page(&[node("b", "2")], "", "10"),
    );
    // The watch reports that its version is too old; then all nodes are listed again.
    api.answer("GET", "/api/v1/nodes", 200, json!({
        "type": "ERROR",
        "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired", "message": ""},
    }));
    api.answer(
        "GET",
        "/api/v1/nodes",
        200,
        page(&[node("b", "11")], "", "12"),
    );

    let informer = Arc::new(Informer::<Nodes>::default());
    let seen = record(&informer);
    let running = start(&informer, api.client());
    informer.synced().await;
    sleep(Duration::from_secs(10)).await;
    running.abort();
    assert_eq!(*seen.lock(), ["+a@1", "+b@2", "b@2>11", "-a@1"]);
    assert_eq!(informer.list().len(), 1);
    let requests = api.requests();
    assert!(
        requests[0].query.contains("limit=100"),
        "{}",
        requests[0].query
    );
    assert!(
        requests[2].query.contains("allowWatchBookmarks=true"),
        "{}",
        requests[2].query
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_with_410_is_followed_by_a_new_list() {
    let api = FakeApi::default();
    let list = |version: &str| {
        json!({
            "kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": [node("a", version)],
        })
    };
    api.answer("GET", "/api/v1/nodes", 200, list("10"));
    // Not an event of the watch: the request that starts the watch fails.
    api.fail("GET", "/api/v1/nodes", 410, "Expired");
    api.answer("GET", "/api/v1/nodes", 200, list("20"));

    let informer = Arc::new(Informer::<Nodes>::default());
    let seen = record(&informer);
    let running = start(&informer, api.client());
    sleep(Duration::from_secs(10)).await;
    running.abort();
    assert_eq!(*seen.lock(), ["+a@10", "a@10>20"]);
}

#[tokio::test(start_paused = true)]
async fn repeated_410_answers_slow_down_the_lists() {
    let api = FakeApi::default();
    let list = || json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "10"}, "items": []});
    let reject = |times: usize| {
        (0..times).for_each(|_| {
            api.answer("GET", "/api/v1/nodes", 200, list());
            api.fail("GET", "/api/v1/nodes", 410, "Expired");
        });
    };
    reject(1000);
    let informer = Arc::new(Informer::<Nodes>::default());
    let running = start(&informer, api.client());
    sleep(Duration::from_secs(600)).await;
    let lists = api.requests().len() / 2;
    assert!((20..=26).contains(&lists), "{lists} lists in ten minutes");
    running.abort();
}

#[test]
fn the_watch_backoff_grows_up_to_30_seconds() {
    let mut back_off = CappedBackoff::default();
    let first = back_off.next().unwrap();
    assert!(first < Duration::from_secs(2), "{first:?}");
    let longest = back_off.by_ref().take(50).max();
    assert_eq!(longest, Some(Duration::from_secs(30)));
    back_off.reset();
    assert!(back_off.next().unwrap() < Duration::from_secs(2));
}

#[test]
fn the_pause_before_a_new_list_doubles_until_a_watch_has_held() {
    let seconds = Duration::from_secs;
    let mut pause = Duration::ZERO;
    let mut pauses = Vec::new();
    for held in [0, 1, 5, 30, 60, 0, 61, 0, 3600] {
        pause = pause_after(pause, seconds(held));
        pauses.push(pause.as_secs());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 1, 2, 1]);
}

fn list(version: &str) -> Value {
    json!({
        "kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": [node("a", version)],
    })
}

/// Returns the versions from which watches were started.
fn watched(api: &FakeApi) -> Vec<String> {
    let queries = api
        .requests()
        .into_iter()
        .map(|request| request.query)
        .filter(|query| query.contains("watch=true"));
    queries
        .map(|query| query.rsplit_once("resourceVersion=").unwrap().1.to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_after_the_last_event_or_bookmark() {
    let api = FakeApi::default();
    let bookmark =
        json!({"kind": "Node", "apiVersion": "v1", "metadata": {"resourceVersion": "15"}});
    let failed = json!({"kind": "Status", "status": "Failure", "code": 500, "reason": "InternalError", "message": "no"});
    for body in [
        list("10"),
        json!({"type": "MODIFIED", "object": node("a", "11")}),
        json!({"type": "ERROR", "object": failed}),
        json!({"type": "BOOKMARK", "object": bookmark}),
        json!({"type": "DELETED", "object": node("a", "16")}),
    ] {
        api.answer("GET", "/api/v1/nodes", 200, body);
    }
    let informer = Arc::new(Informer::<Nodes>::default());
    let seen = record(&informer);
    let running = start(&informer, api.client());
    sleep(Duration::from_secs(10)).await;
    running.abort();
    assert_eq!(watched(&api), ["10", "11", "11", "15", "16"]);
    assert_eq!(*seen.lock(), ["+a@10", "a@10>11", "-a@11"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_without_a_version_leads_to_a_new_list() {
    for kind in ["MODIFIED", "BOOKMARK"] {
        let api = FakeApi::default();
        for body in [
            list("10"),
            json!({"type": kind, "object": node("a", "")}),
            list("20"),
        ] {
            api.answer("GET", "/api/v1/nodes", 200, body);
        }
        let informer = Arc::new(Informer::<Nodes>::default());
        let seen = record(&informer);
        let running = start(&informer, api.client());
        sleep(Duration::from_secs(10)).await;
        running.abort();
        assert_eq!(*seen.lock(), ["+a@10", "a@10>20"], "{kind}");
        assert_eq!(watched(&api), ["10", "20"], "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_in_place_of_an_event_can_lead_to_a_new_list() {
    let api = FakeApi::default();
    let expired = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": ""});
    for body in [list("10"), expired, list("20")] {
        api.answer("GET", "/api/v1/nodes", 200, body);
    }
    let informer = Arc::new(Informer::<Nodes>::default());
    let seen = record(&informer);
    let running = start(&informer, api.client());
    sleep(Duration::from_secs(10)).await;
    running.abort();
    assert_eq!(*seen.lock(), ["+a@10", "a@10>20"]);
    assert_eq!(watched(&api), ["10", "20"]);
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_with_growing_pauses() {
    for lists in [0, 1] {
        let api = FakeApi::default();
        (0..lists).for_each(|_| api.answer("GET", "/api/v1/nodes", 200, list("10")));
        (0..1000).for_each(|_| api.fail("GET", "/api/v1/nodes", 500, "InternalError"));
        let informer = Arc::new(Informer::<Nodes>::default());
        let running = start(&informer, api.client());
        sleep(Duration::from_secs(600)).await;
        running.abort();
        let requests = api.requests().len();
        assert!(
            (20..=30).contains(&requests),
            "{requests} requests in ten minutes, after {lists} lists"
        );
        assert_eq!(
            (informer.is_synced(), watched(&api).len()),
            (lists == 1, (requests - 1) * lists)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_without_a_version_is_not_complete() {
    let api = FakeApi::default();
    api.answer(
        "GET",
        "/api/v1/nodes",
        200,
        json!({"metadata": {}, "items": [node("a", "1")]}),
    );
    api.answer("GET", "/api/v1/nodes", 200, list("10"));
    let informer = Arc::new(Informer::<Nodes>::default());
    let seen = record(&informer);
    let running = start(&informer, api.client());
    sleep(Duration::from_millis(100)).await;
    assert!(!informer.is_synced());

    informer.synced().await;
    running.abort();
    assert_eq!(*seen.lock(), ["+a@1", "a@1>10"]);
}

// Holds: SEC-63
#[tokio::test]
async fn a_list_without_an_end_is_an_error() {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        let metadata = json!({"resourceVersion": "10", "continue": "more"});
        let page =
            json!({"kind": "NodeList", "apiVersion": "v1", "metadata": metadata, "items": []});
        Ok::<_, Infallible>(http::Response::new(http_body_util::Full::from(
            page.to_string(),
        )))
    });
    let informer = Informer::<Nodes>::default();
    let client = Client::new(service, "default");
    let listing = timeout(Duration::from_secs(60), informer.list_all(&client));
    let rejected = listing.await.expect("it ends").unwrap_err().to_string();
    assert!(rejected.contains("more than 5000 pages"), "{rejected}");
    assert!(!informer.is_synced());
}

/// Returns the number of requests in this time if the events of each watch are these, and it ends
/// after a delay.
async fn requests(seconds: u64, events: &'static [&'static str], lasts: Duration) -> usize {
    let requests = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&requests);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        *counted.lock().unwrap() += 1;
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let data = move |version: &&str| {
            json!({"type": "MODIFIED", "object": node("a", version)}).to_string() + "\n"
        };
        let texts = if is_watch {
            events.iter().map(data).collect()
        } else {
            vec![list("10").to_string()]
        };
        let texts =
            stream::iter(texts).map(|text| Ok::<_, Infallible>(Frame::data(Bytes::from(text))));
        let end = stream::once(sleep(if is_watch { lasts } else { Duration::ZERO }))
            .filter_map(async |()| None);
        async move {
            Ok::<_, Infallible>(http::Response::new(StreamBody::new(
                texts.chain(end.boxed()),
            )))
        }
    });
    let informer = Arc::new(Informer::<Nodes>::default());
    let running = start(&informer, Client::new(service, "default"));
    sleep(Duration::from_secs(seconds)).await;
    running.abort();
    *requests.lock().unwrap()
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_slowed_down() {
    let at_once = requests(600, &[], Duration::from_millis(10)).await;
    assert!(
        (20..=30).contains(&at_once),
        "{at_once} requests in ten minutes"
    );
    // The API server ends watches, and then they are resumed without a pause.
    assert_eq!(requests(601, &[], Duration::from_secs(10)).await, 62);

    let busy = requests(10, &["11"], Duration::from_millis(100)).await;
    assert!(
        (95..=102).contains(&busy),
        "{busy} requests in ten seconds, each with an event"
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_resumed() {
    let requests = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&requests);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        *counted.lock().unwrap() += 1;
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let first = stream::iter(
            (!is_watch)
                .then(|| Ok::<_, Infallible>(Frame::data(Bytes::from(list("10").to_string())))),
        );
        let rest = if is_watch {
            stream::pending().boxed()
        } else {
            stream::empty().boxed()
        };
        async move { Ok::<_, Infallible>(http::Response::new(StreamBody::new(first.chain(rest)))) }
    });
    let informer = Arc::new(Informer::<Nodes>::default());
    let running = start(&informer, Client::new(service, "default"));
    for (seconds, expected) in [(290, 2), (6, 3), (280, 3), (15, 4)] {
        sleep(Duration::from_secs(seconds)).await;
        assert_eq!(*requests.lock().unwrap(), expected);
    }
    running.abort();
}
