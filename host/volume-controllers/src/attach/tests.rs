use serde_json::json;
use skydock_cloud::{CloudError, Retry, StorageError, Volume, VolumeId};
use skydock_controller_base::testing::{pairs, with};

use super::*;
use crate::testing::{Bench, DRIVER, wait};

const ATTACHMENT: &str = "/apis/storage.k8s.io/v1/volumeattachments/va";
const STATUS: &str = "/apis/storage.k8s.io/v1/volumeattachments/va/status";
const VOLUME: &str = "/api/v1/persistentvolumes/pv";
const FINALIZER: &str = "external-attacher/disks-example";

/// Starts a controller in a cluster with a node and a volume.
fn start(bench: &Bench) -> CancellationToken {
    let controller = Arc::new(AttachController::new(bench.parts(&CONTROLLER)));
    let stop = CancellationToken::new();
    tokio::spawn(controller.run(stop.clone()));

    let drivers = json!([{"name": DRIVER, "nodeID": "i-1"}]);
    let node = json!({"metadata": {"name": "n1"}, "spec": {"drivers": drivers}});
    let objects = &bench.objects;
    objects
        .csi_nodes
        .apply(serde_json::from_value(node).unwrap());
    has_volume(bench, &json!({}));
    stop
}

fn has_volume(bench: &Bench, change: &Value) {
    let volume = json!({
        "metadata": {"name": "pv", "uid": "v"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": DRIVER, "volumeHandle": "vol-1"},
        },
    });
    let volume = serde_json::from_value(with(&volume, change)).unwrap();
    bench.objects.volumes.apply(volume);
}

fn has_attachment(bench: &Bench, change: &Value) {
    let attachment = json!({
        "metadata": {"name": "va", "uid": "u"},
        "spec": {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "pv"}},
        "status": {"attached": false},
    });
    let attachment = serde_json::from_value(with(&attachment, change)).unwrap();
    bench.objects.attachments.apply(attachment);
}

/// Returns the writes, without watches.
fn writes(bench: &Bench) -> Vec<(String, Value)> {
    let requests = bench.api.requests();
    bench.api.forget();
    let writes = requests.into_iter().filter(|it| it.method != "GET");
    writes.map(|it| (it.path, it.body)).collect()
}

fn paths(bench: &Bench) -> Vec<String> {
    writes(bench).into_iter().map(|(path, _)| path).collect()
}

fn deleted() -> Value {
    json!({"metadata": {
        "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER], "resourceVersion": "5",
    }})
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_attached_after_its_finalizers_are_written() {
    let bench = Bench::default();
    start(&bench);
    has_attachment(&bench, &json!({}));
    wait(5).await;

    let status = json!({
        "attached": true, "attachmentMetadata": {"DevicePath": "/dev/vdb"}, "attachError": null,
    });
    let annotations = json!({"csi.alpha.kubernetes.io/node-id": "i-1"});
    let expected = [
        (
            VOLUME,
            json!({"metadata": {"uid": "v", "finalizers": [FINALIZER]}}),
        ),
        (
            ATTACHMENT,
            json!({"metadata": {"uid": "u", "finalizers": [FINALIZER], "annotations": annotations}}),
        ),
        (STATUS, json!({"metadata": {"uid": "u"}, "status": status})),
    ];
    let expected = expected.map(|(path, body)| (path.to_owned(), body));
    assert_eq!(writes(&bench), expected);
    assert_eq!(bench.disks.calls(), ["attach vol-1 i-1"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_attached_without_the_finalizers() {
    for (path, code, reason) in [
        (VOLUME, 500, "InternalError"),
        (VOLUME, 404, "NotFound"),
        (ATTACHMENT, 500, "InternalError"),
    ] {
        let bench = Bench::default();
        start(&bench);
        bench.api.fail("PATCH", path, code, reason);
        has_attachment(&bench, &json!({}));
        sleep(Duration::from_millis(500)).await;
        assert_eq!(bench.disks.calls(), [""; 0], "{path} {code}");
        wait(5).await;
        assert_eq!(bench.disks.calls(), ["attach vol-1 i-1"], "{path} {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_and_retried_with_delays() {
    let bench = Bench::default();
    start(&bench);
    let full = StorageError::Exhausted("no slot".into());
    for _ in 0..3 {
        bench.disks.fails("vol-1", full.clone());
    }
    has_attachment(&bench, &json!({}));
    sleep(Duration::from_millis(500)).await;

    let told = writes(&bench);
    let (path, body) = told.last().unwrap();
    assert_eq!(path, STATUS);
    let error = &body["status"]["attachError"];
    assert_eq!(error["errorCode"], 8);
    assert!(
        error["message"].as_str().unwrap().contains("no slot"),
        "{error}"
    );

    // What the status says then is no reason to hurry.
    has_attachment(&bench, &json!({"status": {"attachError": error}}));
    sleep(Duration::from_millis(200)).await;
    assert_eq!(bench.disks.calls().len(), 1);
    wait(20).await;
    assert_eq!(bench.disks.calls().len(), 3, "after 1, 2 and 4 s");
    assert_eq!(paths(&bench).last().unwrap(), STATUS);
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_detached_before_its_attachment_goes() {
    let bench = Bench::default();
    start(&bench);
    has_attachment(&bench, &deleted());
    wait(5).await;

    assert_eq!(bench.disks.calls(), ["detach vol-1 i-1"]);
    let removed = json!({"uid": "u", "$deleteFromPrimitiveList/finalizers": [FINALIZER]});
    let status = json!({"attached": false, "attachmentMetadata": null, "detachError": null});
    let expected = [
        (ATTACHMENT, json!({"metadata": removed})),
        (STATUS, json!({"metadata": {"uid": "u"}, "status": status})),
    ];
    let expected = expected.map(|(path, body)| (path.to_owned(), body));
    assert_eq!(writes(&bench), expected);
}

#[tokio::test(start_paused = true)]
async fn an_attachment_stays_until_the_volume_is_detached() {
    let bench = Bench::default();
    start(&bench);
    let busy = Retry {
        after: Duration::from_secs(100),
        message: "detaching".into(),
    };
    bench.disks.fails("vol-1", CloudError::InProgress(busy));
    bench
        .disks
        .fails("vol-1", CloudError::Unavailable("down".into()));
    bench.api.fail("PATCH", STATUS, 404, "NotFound");
    has_attachment(&bench, &deleted());
    sleep(Duration::from_millis(2_500)).await;

    let told = writes(&bench);
    let paths: Vec<_> = told.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, [STATUS, STATUS], "the second failure");
    assert!(
        told.iter()
            .all(|(_, body)| body["status"]["detachError"].is_object())
    );
    wait(10).await;
    let paths = self::paths(&bench);
    assert_eq!(paths, [ATTACHMENT, STATUS]);
}

#[tokio::test(start_paused = true)]
async fn a_volume_may_go_after_its_last_attachment() {
    let bench = Bench::default();
    start(&bench);
    has_attachment(&bench, &json!({"status": {"attached": true}}));
    has_volume(&bench, &deleted());
    wait(1).await;
    assert_eq!(paths(&bench), [""; 0]);

    bench.objects.attachments.delete("va");
    wait(1).await;
    let removed = json!({"uid": "v", "$deleteFromPrimitiveList/finalizers": [FINALIZER]});
    let expected = (VOLUME.to_owned(), json!({"metadata": removed}));
    assert_eq!(writes(&bench), [expected]);
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_someone_has_detached_is_attached_again() {
    let bench = Bench::default();
    start(&bench);
    let volume = |nodes: &[&str]| Volume {
        id: VolumeId("vol-1".into()),
        bytes: 1,
        topology: Vec::new(),
        context: pairs(&[]),
        nodes: nodes.iter().map(|&it| it.to_owned()).collect(),
    };
    *bench.disks.listed.lock() = vec![volume(&["i-1"])];
    has_attachment(&bench, &json!({"status": {"attached": true}}));
    wait(90).await;
    assert_eq!(bench.disks.calls(), [""; 0]);

    *bench.disks.listed.lock() = vec![volume(&[])];
    wait(60).await;
    assert_eq!(bench.disks.calls(), ["attach vol-1 i-1"]);
}

#[tokio::test(start_paused = true)]
async fn other_drivers_are_not_touched() {
    let bench = Bench::default();
    start(&bench);
    let other = json!({"spec": {"attacher": "other.example"}});
    for change in [other.clone(), with(&other, &deleted())] {
        has_attachment(&bench, &change);
        wait(120).await;
    }
    has_volume(
        &bench,
        &json!({"metadata": {
            "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["external-attacher/other-example"],
        }}),
    );
    wait(5).await;
    assert_eq!(paths(&bench), [""; 0]);
    assert_eq!(bench.disks.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_after_the_shutdown() {
    let bench = Bench::default();
    let stop = start(&bench);
    let busy = Retry {
        after: Duration::from_secs(5),
        message: "attaching".into(),
    };
    for _ in 0..100 {
        bench
            .disks
            .fails("vol-1", CloudError::InProgress(busy.clone()));
    }
    has_attachment(&bench, &json!({}));
    wait(10).await;
    writes(&bench);
    stop.cancel();
    wait(120).await;
    assert_eq!(paths(&bench), [""; 0]);
}
