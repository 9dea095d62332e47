use std::{sync::atomic::Ordering, time::Duration};

use serde_json::json;
use skydock_cloud::{CloudError, Retry, StorageError};
use skydock_controller_base::testing::with;
use tokio::time::sleep;

use super::*;
use crate::testing::{Bench, DRIVER, wait};

const CONTENT: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents/content";
const STATUS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents/content/status";
const CLASS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses/gold";

/// Starts a controller in a cluster with a class.
fn start(bench: &Bench) -> Arc<SnapshotController> {
    *bench.disks.snapshots.lock() = true;
    for _ in 0..10 {
        bench
            .api
            .answer("GET", CLASS, 200, json!({"driver": DRIVER}));
    }
    let controller = Arc::new(SnapshotController::new(bench.parts(&CONTROLLER)));
    controller.contents.complete();
    tokio::spawn(Arc::clone(&controller).run(CancellationToken::new()));
    controller
}

fn has(controller: &SnapshotController, change: &Value) {
    let object = json!({
        "metadata": {
            "name": "content", "uid": "u",
            "finalizers": ["snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"],
        },
        "spec": {
            "driver": DRIVER, "deletionPolicy": "Delete", "volumeSnapshotClassName": "gold",
            "source": {"volumeHandle": "vol-1"},
            "volumeSnapshotRef": {"namespace": "ns", "name": "snap", "uid": "s"},
        },
    });
    let object = serde_json::from_value(with(&object, change)).unwrap();
    controller.contents.apply(object);
}

/// Returns the writes, without events.
fn writes(bench: &Bench) -> Vec<(String, Value)> {
    let requests = bench.api.requests();
    bench.api.forget();
    let writes = requests.into_iter();
    let writes = writes.filter(|it| it.method != "GET" && !it.path.contains("/events"));
    writes.map(|it| (it.path, it.body)).collect()
}

fn paths(all: &[(String, Value)]) -> Vec<&str> {
    all.iter().map(|(path, _)| path.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_marked_before_it_is_created() {
    let bench = Bench::default();
    let controller = start(&bench);
    has(&controller, &json!({}));
    wait(5).await;
    assert_eq!(bench.disks.calls(), ["snapshot snapshot-s of vol-1"]);
    let all = writes(&bench);
    assert_eq!(paths(&all), [CONTENT, STATUS, CONTENT]);
    let status = json!({
        "readyToUse": true, "snapshotHandle": "snap-of-snapshot-s", "creationTime": 7_000_000_000_i64,
        "restoreSize": 1 << 30, "error": null,
    });
    assert_eq!(all[1].1["status"], status);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_asked_for_until_it_is_ready() {
    let bench = Bench::default();
    bench.disks.slow.store(true, Ordering::SeqCst);
    let controller = start(&bench);
    has(&controller, &json!({}));
    // What is written comes back, and is no reason to ask at once.
    let contents = Arc::clone(&controller);
    bench.api.on_patch(move |path, body| {
        if path == CONTENT {
            has(
                &contents,
                &json!({"metadata": {"annotations": body["metadata"]["annotations"]}}),
            );
        }
    });
    sleep(Duration::from_millis(500)).await;
    assert_eq!(bench.disks.calls().len(), 1);
    wait(5).await;
    assert_eq!(bench.disks.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_mark_stays_until_the_answer_is_final() {
    let busy = Retry {
        after: Duration::from_secs(100),
        message: "cutting".into(),
    };
    for (error, expected) in [
        (CloudError::InProgress(busy).into(), vec![CONTENT, STATUS]),
        (
            StorageError::Exhausted("full".into()),
            vec![CONTENT, CONTENT, STATUS],
        ),
    ] {
        let bench = Bench::default();
        let controller = start(&bench);
        let shown = format!("{error:?}");
        bench.disks.fails("snapshot-s", error);
        has(&controller, &json!({}));
        sleep(Duration::from_millis(500)).await;
        let all = writes(&bench);
        assert_eq!(paths(&all), expected, "{shown}");
        let (_, status) = all.last().unwrap();
        assert!(status["status"]["error"]["message"].is_string(), "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_is_given_is_looked_for() {
    let bench = Bench::default();
    let controller = start(&bench);
    let given = json!({"spec": {"source": {"volumeHandle": null, "snapshotHandle": "snap-0"}}});
    has(&controller, &given);
    wait(5).await;
    assert_eq!(bench.disks.calls(), ["look for snap-0"]);
    let all = writes(&bench);
    assert_eq!(paths(&all), [STATUS]);
    assert_eq!(all[0].1["status"]["snapshotHandle"], "snap-0");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_deleted_before_its_object() {
    let bench = Bench::default();
    let controller = start(&bench);
    bench
        .disks
        .fails("snap-1", StorageError::InUse("a volume needs it".into()));
    let gone = json!({
        "metadata": {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"snapshot.storage.kubernetes.io/volumesnapshot-being-deleted": "yes"},
        },
        "status": {"snapshotHandle": "snap-1", "readyToUse": true},
    });
    has(&controller, &gone);
    sleep(Duration::from_millis(500)).await;
    assert_eq!(bench.disks.calls(), ["drop snap-1"]);
    let events = bench.api.events();
    assert_eq!(events[0]["reason"], "SnapshotDeleteError");
    assert!(writes(&bench).is_empty());

    wait(5).await;
    assert_eq!(bench.disks.calls(), ["drop snap-1"]);
    let all = writes(&bench);
    assert_eq!(paths(&all), [STATUS, CONTENT]);
    assert_eq!(all[0].1["status"]["snapshotHandle"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn other_drivers_are_not_touched() {
    let bench = Bench::default();
    let controller = start(&bench);
    has(&controller, &json!({"spec": {"driver": "other.example"}}));
    wait(60).await;
    assert_eq!(bench.disks.calls(), [""; 0]);
    assert!(writes(&bench).is_empty());
}
