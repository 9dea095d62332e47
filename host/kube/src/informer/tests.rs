use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::*;
use crate::testing::{FakeApi, Nodes};

fn node(name: &str, version: &str) -> Node {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": version,
        },
    }))
    .unwrap()
}

fn record(informer: &Informer<Nodes>) -> Arc<Mutex<Vec<String>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    informer.subscribe(move |change| {
        let line = match change {
            Change::Added(new) => format!("+{}@{}", new.name(), new.resource_version()),
            Change::Updated(old, new) => {
                format!("{}@{}>{}", new.name(), old.resource_version(), new.resource_version())
            }
            Change::Deleted(old) => format!("-{}@{}", old.name(), old.resource_version()),
        };
        log.lock().unwrap().push(line);
    });
    seen
}

#[test]
fn handlers_see_changes_and_late_ones_the_existing_objects() {
    let informer = Informer::<Nodes>::default();
    let early = record(&informer);
    informer.apply(node("a", "1"));
    informer.apply(node("a", "2"));
    informer.apply(node("a", "2"));
    let late = record(&informer);
    informer.delete("a");
    assert_eq!(*early.lock().unwrap(), ["+a@1", "a@1>2", "-a@2"]);
    assert_eq!(*late.lock().unwrap(), ["+a@2", "-a@2"]);
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
    api.answer("GET", "/api/v1/nodes", 200, page(&[node("a", "1")], "more", "10"));
    api.answer("GET", "/api/v1/nodes", 200, page(&[node("b", "2")], "", "10"));
    // The watch reports that its version is too old; then all nodes are listed again.
    api.answer("GET", "/api/v1/nodes", 200, json!({
        "type": "ERROR",
        "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired", "message": ""},
    }));
    api.answer("GET", "/api/v1/nodes", 200, page(&[node("b", "11")], "", "12"));

    let informer = Arc::new(Informer::<Nodes>::default());
    let seen = record(&informer);
    let running = tokio::spawn({
        let informer = Arc::clone(&informer);
        let client = api.client();
        async move { informer.run(client).await }
    });
    informer.synced().await;
    sleep(Duration::from_secs(10)).await;
    running.abort();
    assert_eq!(*seen.lock().unwrap(), ["+a@1", "+b@2", "b@2>11", "-a@1"]);
    assert_eq!(informer.list().len(), 1);
    let requests = api.requests();
    assert!(requests[0].query.contains("limit=100"), "{}", requests[0].query);
    assert!(requests[2].query.contains("allowWatchBookmarks=true"), "{}", requests[2].query);
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
    let running = tokio::spawn({
        let informer = Arc::clone(&informer);
        let client = api.client();
        async move { informer.run(client).await }
    });
    sleep(Duration::from_secs(10)).await;
    running.abort();
    assert_eq!(*seen.lock().unwrap(), ["+a@10", "a@10>20"]);
}

#[tokio::test(start_paused = true)]
async fn repeated_410_answers_slow_down_the_lists() {
    let api = FakeApi::default();
    let list = || json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "10"}, "items": []});
    let refuse = |times: usize| {
        (0..times).for_each(|_| {
            api.answer("GET", "/api/v1/nodes", 200, list());
            api.fail("GET", "/api/v1/nodes", 410, "Expired");
        });
    };
    refuse(1000);
    let informer = Arc::new(Informer::<Nodes>::default());
    let running = tokio::spawn({
        let (informer, client) = (Arc::clone(&informer), api.client());
        async move { informer.run(client).await }
    });
    sleep(Duration::from_secs(600)).await;
    let lists = api.requests().len() / 2;
    assert!((20..=26).contains(&lists), "{lists} lists in ten minutes");
    running.abort();
}

#[test]
fn the_watch_backoff_grows_up_to_30_seconds() {
    let mut back_off = Capped::default();
    let first = back_off.next().unwrap();
    assert!(first < Duration::from_secs(2), "{first:?}");
    let longest = back_off.by_ref().take(50).max();
    assert_eq!(longest, Some(Duration::from_secs(30)));
    back_off.reset();
    assert!(back_off.next().unwrap() < Duration::from_secs(2));
}

#[test]
fn the_pause_before_a_new_list_doubles_until_a_watch_has_held() {
    let (seconds, mut pause) = (Duration::from_secs, Duration::ZERO);
    let mut pauses = Vec::new();
    for held in [0, 1, 5, 30, 60, 0, 61, 0, 3600] {
        pause = pause_after(pause, seconds(held));
        pauses.push(pause.as_secs());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 1, 2, 1]);
}
