use std::time::Duration;

use serde_json::{Value, json};
use skydock_cloud::{CloudError, Retry, StorageError};
use skydock_controller_base::testing::{node, with};
use tokio::time::sleep;

use super::*;
use crate::testing::{Bench, DRIVER, wait};

const VOLUMES: &str = "/api/v1/persistentvolumes";
const VOLUME: &str = "/api/v1/persistentvolumes/pvc-u";
const CLAIM: &str = "/api/v1/namespaces/ns/persistentvolumeclaims/data";
const SNAPSHOT: &str = "/apis/snapshot.storage.k8s.io/v1/namespaces/ns/volumesnapshots/snap";
const ZONE: &str = "topology.disks.example/zone";

/// Starts a controller in a cluster with a class.
fn start(bench: &Bench) -> CancellationToken {
    let parts = bench.parts(&CONTROLLER);
    let known = with(&node("n1"), &json!({"metadata": {"labels": {ZONE: "a"}}}));
    parts.context.nodes.apply(known);
    let controller = Arc::new(ProvisionController::new(parts));
    let stop = CancellationToken::new();
    tokio::spawn(controller.run(stop.clone()));

    let drivers = json!([{"name": DRIVER, "nodeID": "i-1", "topologyKeys": [ZONE]}]);
    let node = json!({"metadata": {"name": "n1"}, "spec": {"drivers": drivers}});
    let class =
        json!({"metadata": {"name": "gold"}, "provisioner": DRIVER, "reclaimPolicy": "Delete"});
    let objects = &bench.objects;
    objects
        .csi_nodes
        .apply(serde_json::from_value(node).unwrap());
    objects
        .classes
        .apply(serde_json::from_value(class).unwrap());
    stop
}

fn has_claim(bench: &Bench, change: &Value) {
    let claim = json!({
        "metadata": {
            "namespace": "ns", "name": "data", "uid": "u",
            "annotations": {"volume.kubernetes.io/storage-provisioner": DRIVER},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "gold",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    let claim = serde_json::from_value(with(&claim, change)).unwrap();
    bench.objects.claims.apply(claim);
}

/// Adds the PersistentVolume of the claim.
fn has_volume(bench: &Bench, phase: &str) {
    let volume = json!({
        "metadata": {
            "name": "pvc-u", "uid": "v", "finalizers": [plan::FINALIZER],
            "annotations": {plan::PROVISIONED_BY: DRIVER},
        },
        "spec": {
            "persistentVolumeReclaimPolicy": "Delete", "claimRef": {"uid": "u"},
            "csi": {"driver": DRIVER, "volumeHandle": "vol-1"},
        },
        "status": {"phase": phase},
    });
    let volume = serde_json::from_value(volume).unwrap();
    bench.objects.volumes.apply(volume);
}

/// Adds a snapshot. Returns it, and what makes a claim one that is restored from it.
fn has_snapshot(bench: &Bench) -> (Value, Value) {
    *bench.disks.snapshots.lock() = true;
    let contents = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents/content";
    let snapshot = json!({
        "metadata": {"name": "snap", "uid": "s", "resourceVersion": "3", "finalizers": ["other"]},
        "status": {"boundVolumeSnapshotContentName": "content", "readyToUse": true},
    });
    let content = json!({
        "spec": {"driver": DRIVER, "volumeSnapshotRef": {"uid": "s"}},
        "status": {"snapshotHandle": "snap-1"},
    });
    bench.api.answer("GET", SNAPSHOT, 200, snapshot.clone());
    bench.api.answer("GET", contents, 200, content);
    let source =
        json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"});
    (snapshot, json!({"spec": {"dataSource": source}}))
}

fn in_progress() -> CloudError {
    CloudError::InProgress(Retry {
        after: Duration::from_secs(100),
        message: "creating".into(),
    })
}

/// Returns the PersistentVolumes that were created.
fn created(bench: &Bench) -> Vec<Value> {
    let requests = bench.api.requests();
    let posts = requests.into_iter();
    let posts = posts.filter(|it| it.method == "POST" && it.path == VOLUMES);
    posts.map(|it| it.body).collect()
}

/// Returns the writes, without events.
fn writes(bench: &Bench) -> Vec<String> {
    let calls = bench.api.calls();
    bench.api.forget();
    calls
        .into_iter()
        .filter(|it| !it.starts_with("GET"))
        .collect()
}

/// Returns the reasons of the events.
fn reasons(bench: &Bench) -> Vec<String> {
    let events = bench.api.events();
    let reason = |it: &Value| it["reason"].as_str().unwrap().to_owned();
    events.iter().map(reason).collect()
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_a_volume() {
    let bench = Bench::default();
    start(&bench);
    has_claim(&bench, &json!({}));
    wait(5).await;

    assert_eq!(bench.disks.calls(), ["create pvc-u"]);
    let created = created(&bench);
    let [volume] = created.as_slice() else {
        panic!("one volume: {created:?}")
    };
    assert_eq!(volume["spec"]["csi"]["volumeHandle"], "vol-of-pvc-u");
    assert_eq!(volume["spec"]["claimRef"]["uid"], "u");
    assert_eq!(volume["spec"]["nodeAffinity"], Value::Null);
    let reasons = reasons(&bench);
    assert!(reasons.contains(&"Provisioning".into()), "{reasons:?}");
    assert!(
        reasons.contains(&"ProvisioningSucceeded".into()),
        "{reasons:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_volume_with_a_persistent_volume_is_not_asked_for_again() {
    let bench = Bench::default();
    start(&bench);
    bench.disks.fails("pvc-u", in_progress());
    has_claim(&bench, &json!({}));
    sleep(Duration::from_millis(500)).await;
    assert_eq!(bench.disks.calls(), ["create pvc-u"]);

    // Written by an attempt whose answer was lost.
    has_volume(&bench, "Bound");
    wait(20).await;
    assert_eq!(bench.disks.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_asked_for_again_is_the_same() {
    let bench = Bench::default();
    start(&bench);
    bench.disks.fails("pvc-u", in_progress());
    bench.api.fail("POST", VOLUMES, 500, "InternalError");
    bench.api.fail("POST", VOLUMES, 409, "AlreadyExists");
    has_claim(&bench, &json!({}));
    wait(20).await;
    // In progress, not saved, and saved by an earlier attempt.
    assert_eq!(bench.disks.calls(), ["create pvc-u"; 3]);
    assert_eq!(reasons(&bench).last().unwrap(), "ProvisioningSucceeded");
}

#[tokio::test(start_paused = true)]
async fn the_volume_of_a_claim_that_is_deleted_meanwhile_is_not_lost() {
    for (error, calls, saved) in [
        (in_progress().into(), 2, 1),
        (CloudError::Unavailable("down".into()).into(), 2, 1),
        (StorageError::Exhausted("full".into()), 1, 0),
    ] {
        let bench = Bench::default();
        start(&bench);
        let shown = format!("{error:?}");
        bench.disks.fails("pvc-u", error);
        has_claim(&bench, &json!({}));
        sleep(Duration::from_millis(500)).await;
        bench.objects.claims.delete("ns/data");
        wait(20).await;
        assert_eq!(bench.disks.calls().len(), calls, "{shown}");
        assert_eq!(created(&bench).len(), saved, "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_for_the_first_consumer_gets_a_volume_near_its_node() {
    let bench = Bench::default();
    bench.disks.topology.lock().push(ZONE.to_owned());
    start(&bench);
    let late = json!({
        "metadata": {"name": "late"}, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer",
    });
    bench
        .objects
        .classes
        .apply(serde_json::from_value(late).unwrap());
    let claim = json!({"spec": {"storageClassName": "late"}});
    has_claim(&bench, &claim);
    wait(5).await;
    assert_eq!(bench.disks.calls(), [""; 0]);

    let selected = |node: &str| json!({"metadata": {"annotations": {plan::SELECTED_NODE: node}}});
    has_claim(&bench, &with(&claim, &selected("n1")));
    wait(5).await;
    assert_eq!(bench.disks.calls(), ["create pvc-u in a"]);
    let created = created(&bench);
    let terms = &created[0]["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    assert_eq!(terms[0]["matchExpressions"][0]["values"], json!(["a"]));
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_selects_another_node_if_this_one_has_no_room_or_is_gone() {
    for node in ["n1", "gone"] {
        let bench = Bench::default();
        bench.disks.topology.lock().push(ZONE.to_owned());
        start(&bench);
        bench
            .disks
            .fails("pvc-u", StorageError::Exhausted("full".into()));
        has_claim(
            &bench,
            &json!({"metadata": {"annotations": {plan::SELECTED_NODE: node}}}),
        );
        wait(5).await;
        let requests = bench.api.requests();
        let patch = requests
            .iter()
            .find(|it| it.method == "PATCH" && it.path == CLAIM);
        let annotations = &patch.unwrap().body["metadata"]["annotations"];
        assert_eq!(*annotations, json!({plan::SELECTED_NODE: null}), "{node}");
        assert!(created(&bench).is_empty());
        assert!(bench.disks.calls().len() <= 1, "{node}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_node_is_asked_for_in_the_newest_version_of_a_claim() {
    let bench = Bench::default();
    bench.disks.topology.lock().push(ZONE.to_owned());
    start(&bench);
    bench.disks.fails("pvc-u", in_progress());
    bench
        .disks
        .fails("pvc-u", StorageError::Exhausted("full".into()));
    let version = |version: &str, labels: Value| {
        json!({"metadata": {
            "resourceVersion": version, "labels": labels,
            "annotations": {plan::SELECTED_NODE: "n1"},
        }})
    };
    has_claim(&bench, &version("1", json!({})));
    sleep(Duration::from_millis(500)).await;
    // No reason to ask again.
    has_claim(&bench, &version("2", json!({"team": "a"})));
    wait(5).await;
    assert_eq!(bench.disks.calls().len(), 2);
    let requests = bench.api.requests();
    let mut patches = requests.iter().filter(|it| it.path == CLAIM);
    let patch = patches.find(|it| it.method == "PATCH").unwrap();
    assert_eq!(patch.body["metadata"]["resourceVersion"], "2");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_claim_is_asked_for_seldom_until_it_changes() {
    let bench = Bench::default();
    start(&bench);
    for _ in 0..10 {
        bench
            .disks
            .fails("pvc-u", CloudError::Invalid("odd".into()));
    }
    has_claim(&bench, &json!({}));
    wait(200).await;
    // A call with a list of one is not split.
    assert_eq!(bench.disks.calls().len(), 1);
    has_claim(&bench, &json!({"metadata": {"annotations": {"a": "b"}}}));
    wait(5).await;
    assert_eq!(bench.disks.calls().len(), 1);
    assert!(reasons(&bench).contains(&"ProvisioningFailed".into()));
}

#[tokio::test(start_paused = true)]
async fn a_class_that_is_created_later_is_enough() {
    let bench = Bench::default();
    start(&bench);
    has_claim(&bench, &json!({"spec": {"storageClassName": "silver"}}));
    wait(5).await;
    assert_eq!(bench.disks.calls(), [""; 0]);
    let class = json!({"metadata": {"name": "silver"}, "provisioner": DRIVER});
    bench
        .objects
        .classes
        .apply(serde_json::from_value(class).unwrap());
    wait(5).await;
    assert_eq!(bench.disks.calls(), ["create pvc-u"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_volume_goes_before_it_is_bound_gets_another_one() {
    let bench = Bench::default();
    start(&bench);
    has_volume(&bench, "Available");
    has_claim(&bench, &json!({}));
    wait(5).await;
    assert_eq!(bench.disks.calls(), [""; 0]);
    bench.objects.volumes.delete("pvc-u");
    wait(5).await;
    assert_eq!(bench.disks.calls(), ["create pvc-u"]);
}

#[tokio::test(start_paused = true)]
async fn a_released_volume_is_deleted_before_its_object() {
    let bench = Bench::default();
    start(&bench);
    bench
        .disks
        .fails("vol-1", StorageError::InUse("attached".into()));
    has_volume(&bench, "Bound");
    wait(5).await;
    assert_eq!(bench.disks.calls(), [""; 0]);

    has_volume(&bench, "Released");
    sleep(Duration::from_millis(500)).await;
    assert_eq!(bench.disks.calls(), ["delete vol-1"]);
    assert_eq!(reasons(&bench), ["VolumeFailedDelete"]);
    assert_eq!(writes(&bench), [""; 0]);
    wait(5).await;
    assert_eq!(bench.disks.calls(), ["delete vol-1"]);
    let expected = [format!("DELETE {VOLUME}"), format!("PATCH {VOLUME}")];
    assert_eq!(writes(&bench), expected);

    // What was written comes back.
    has_volume(&bench, "Released");
    wait(5).await;
    assert_eq!(bench.disks.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_restored_and_protected_meanwhile() {
    let bench = Bench::default();
    start(&bench);
    let (snapshot, claim) = has_snapshot(&bench);
    has_claim(&bench, &claim);
    wait(5).await;
    assert_eq!(bench.disks.calls(), ["create pvc-u from snap-1"]);
    let requests = bench.api.requests();
    let patch = requests
        .iter()
        .find(|it| it.path == SNAPSHOT && it.method == "PATCH");
    let metadata = &patch.unwrap().body["metadata"];
    assert_eq!(metadata["finalizers"], json!(["other", source::RESTORED]));
    assert_eq!(metadata["resourceVersion"], "3");

    let held = json!({"metadata": {"finalizers": ["other", source::RESTORED]}});
    bench
        .api
        .answer("GET", SNAPSHOT, 200, with(&snapshot, &held));
    bench.api.forget();
    let bound = json!({"spec": {"volumeName": "pvc-u"}, "status": {"phase": "Bound"}});
    has_claim(&bench, &with(&claim, &bound));
    wait(5).await;
    let requests = bench.api.requests();
    let patch = requests
        .iter()
        .find(|it| it.path == SNAPSHOT && it.method == "PATCH");
    assert_eq!(
        patch.unwrap().body["metadata"]["finalizers"],
        json!(["other"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_is_held_for_nobody_is_released() {
    for (finalizers, claims, expected) in [
        (json!(["other", source::RESTORED]), 0, 1),
        (json!(["other", source::RESTORED]), 1, 0),
        (json!(["other"]), 0, 0),
    ] {
        let bench = Bench::default();
        start(&bench);
        let (snapshot, claim) = has_snapshot(&bench);
        bench.api.clear("GET", SNAPSHOT);
        let mut held = with(&snapshot, &json!({"metadata": {"namespace": "ns"}}));
        held["metadata"]["finalizers"] = finalizers.clone();
        let all = "/apis/snapshot.storage.k8s.io/v1/volumesnapshots";
        bench.api.answer("GET", all, 200, json!({"items": [held]}));
        bench.api.answer("GET", SNAPSHOT, 200, held.clone());
        for _ in 0..claims {
            // It waits for its class.
            let waits = json!({"spec": {"storageClassName": "silver"}});
            has_claim(&bench, &with(&claim, &waits));
        }
        wait(120).await;
        let requests = bench.api.requests();
        let patches = requests.iter().filter(|it| it.method == "PATCH");
        let bodies: Vec<_> = patches
            .filter(|it| it.path == SNAPSHOT)
            .map(|it| it.body["metadata"]["finalizers"].clone())
            .collect();
        assert_eq!(bodies, vec![json!(["other"]); expected], "{finalizers}");
    }
}

/// Nobody would follow its volume, and delete it.
#[tokio::test(start_paused = true)]
async fn nothing_is_created_for_a_claim_that_goes_before_the_cloud_is_asked() {
    let bench = Bench::default();
    start(&bench);
    let (_, claim) = has_snapshot(&bench);
    let objects = Arc::clone(&bench.objects);
    bench.api.on_patch(move |path, _| {
        if path == SNAPSHOT {
            objects.claims.delete("ns/data");
        }
    });
    has_claim(&bench, &claim);
    wait(20).await;
    assert_eq!(bench.disks.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn other_drivers_are_not_touched() {
    let bench = Bench::default();
    start(&bench);
    let other = json!({"metadata": {"annotations": {
        "volume.kubernetes.io/storage-provisioner": "other.example",
    }}});
    has_claim(&bench, &other);
    wait(60).await;
    assert_eq!(bench.disks.calls(), [""; 0]);
    assert_eq!(writes(&bench), [""; 0]);
}
