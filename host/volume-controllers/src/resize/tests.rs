use std::time::Duration;

use serde_json::json;
use skydock_cloud::{CloudError, StorageError};
use skydock_controller_base::testing::with;
use tokio::time::sleep;

use super::*;
use crate::testing::{Bench, DRIVER, wait};

const STATUS: &str = "/api/v1/namespaces/ns/persistentvolumeclaims/data/status";
const VOLUME: &str = "/api/v1/persistentvolumes/pv";

/// Starts a controller in a cluster with a volume of 1 GiB.
fn start(bench: &Bench, change: &Value) {
    let controller = Arc::new(ResizeController::new(bench.parts(&CONTROLLER)));
    tokio::spawn(controller.run(CancellationToken::new()));
    let volume = json!({
        "metadata": {"name": "pv", "uid": "v"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "claimRef": {"uid": "u"},
            "csi": {"driver": DRIVER, "volumeHandle": "vol-1"},
        },
    });
    let volume = serde_json::from_value(with(&volume, change)).unwrap();
    bench.objects.volumes.apply(volume);
}

fn has_claim(bench: &Bench, size: &str) {
    let claim = json!({
        "metadata": {"namespace": "ns", "name": "data", "uid": "u"},
        "spec": {"volumeName": "pv", "resources": {"requests": {"storage": size}}},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    });
    let claim = serde_json::from_value(claim).unwrap();
    bench.objects.claims.apply(claim);
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
async fn a_file_system_is_left_to_the_node() {
    let bench = Bench::default();
    start(&bench, &json!({}));
    has_claim(&bench, "1Gi");
    wait(5).await;
    assert!(writes(&bench).is_empty());

    has_claim(&bench, "2Gi");
    wait(5).await;
    assert_eq!(bench.disks.calls(), ["expand vol-1 to 2147483648"]);
    let all = writes(&bench);
    assert_eq!(paths(&all), [STATUS, VOLUME, STATUS]);
    assert_eq!(all[1].1["spec"]["capacity"]["storage"], "2Gi");
    let states = &all[2].1["status"]["allocatedResourceStatuses"];
    assert_eq!(*states, json!({"storage": "NodeResizePending"}));
}

#[tokio::test(start_paused = true)]
async fn a_block_device_is_finished() {
    let bench = Bench::default();
    start(&bench, &json!({"spec": {"volumeMode": "Block"}}));
    has_claim(&bench, "2Gi");
    wait(5).await;
    let all = writes(&bench);
    assert_eq!(all[2].1["status"]["capacity"], json!({"storage": "2Gi"}));
}

#[tokio::test(start_paused = true)]
async fn an_expansion_that_is_not_possible_is_told_and_seldom_repeated() {
    let bench = Bench::default();
    start(&bench, &json!({}));
    bench
        .disks
        .fails("vol-1", StorageError::OutOfRange("too large".into()));
    has_claim(&bench, "2Gi");
    wait(200).await;
    assert_eq!(bench.disks.calls().len(), 1);
    let all = writes(&bench);
    assert_eq!(paths(&all), [STATUS, STATUS]);
    let states = &all[1].1["status"]["allocatedResourceStatuses"];
    assert_eq!(*states, json!({"storage": "ControllerResizeInfeasible"}));

    // A user may ask for less.
    has_claim(&bench, "1536Mi");
    wait(5).await;
    assert_eq!(bench.disks.calls(), ["expand vol-1 to 1610612736"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_before_it_is_written() {
    let bench = Bench::default();
    start(&bench, &json!({}));
    bench.api.fail("PATCH", STATUS, 409, "Conflict");
    bench
        .disks
        .fails("vol-1", CloudError::Unavailable("down".into()));
    has_claim(&bench, "2Gi");
    sleep(Duration::from_millis(50)).await;
    assert_eq!(bench.disks.calls(), [""; 0]);
    wait(10).await;
    assert_eq!(bench.disks.calls().len(), 2, "it was down once");
}

#[tokio::test(start_paused = true)]
async fn other_drivers_are_not_touched() {
    let bench = Bench::default();
    start(
        &bench,
        &json!({"spec": {"csi": {"driver": "other.example"}}}),
    );
    has_claim(&bench, "2Gi");
    wait(60).await;
    assert_eq!(bench.disks.calls(), [""; 0]);
    assert!(writes(&bench).is_empty());
}
