use skydock_controller_base::testing::{pairs, with};

use super::*;

const DRIVER: &str = "disks.example";

fn content(change: &Value) -> Content {
    let object = json!({
        "metadata": {"name": "content", "uid": "u", "finalizers": ["other", FINALIZER]},
        "spec": {
            "driver": DRIVER, "deletionPolicy": "Delete", "volumeSnapshotClassName": "gold",
            "source": {"volumeHandle": "vol-1"},
            "volumeSnapshotRef": {"namespace": "ns", "name": "snap", "uid": "s"},
        },
    });
    serde_json::from_value(with(&object, change)).unwrap()
}

fn annotated(key: &str) -> Value {
    json!({"metadata": {"annotations": {key: "yes"}}})
}

fn deleted() -> Value {
    let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    with(&gone, &annotated(BEING_DELETED))
}

/// Returns what is decided, in short.
fn decided(change: &Value) -> String {
    match step(&content(change), DRIVER) {
        Step::Nothing => "nothing".to_owned(),
        Step::Create(class) => format!("create with {class}"),
        Step::Check(it) => format!("check {}", it.snapshot_id),
        Step::Unmark => "unmark".to_owned(),
        Step::Delete(it) => format!("delete {}", it.snapshot_id),
        Step::Release => "release".to_owned(),
        Step::Wait(_) => "wait".to_owned(),
    }
}

#[test]
fn a_snapshot_is_created_until_it_is_ready() {
    let ready = json!({"status": {"readyToUse": true, "snapshotHandle": "snap-1"}});
    let pending = json!({"status": {"readyToUse": false, "snapshotHandle": "snap-1"}});
    let given = json!({"spec": {"source": {"volumeHandle": null, "snapshotHandle": "snap-0"}}});
    for (change, expected) in [
        (json!({}), "create with gold"),
        (pending.clone(), "create with gold"),
        (ready.clone(), "nothing"),
        (with(&ready, &annotated(BEING_CREATED)), "unmark"),
        (json!({"spec": {"volumeSnapshotClassName": null}}), "wait"),
        (given.clone(), "check snap-0"),
        (with(&given, &pending), "check snap-1"),
        (json!({"spec": {"driver": "other.example"}}), "nothing"),
        (annotated(GROUP), "nothing"),
        (
            json!({"status": {"volumeGroupSnapshotHandle": "g"}}),
            "nothing",
        ),
    ] {
        assert_eq!(decided(&change), expected, "{change}");
    }
}

#[test]
fn a_snapshot_is_deleted_once_nothing_creates_it() {
    let has = json!({"status": {"snapshotHandle": "snap-1"}});
    let retained = json!({"spec": {"deletionPolicy": "Retain"}});
    let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let given = json!({"spec": {
        "source": {"volumeHandle": null, "snapshotHandle": "snap-0"}, "volumeSnapshotRef": {"uid": null},
    }});
    for (changes, expected) in [
        (vec![&deleted(), &has], "delete snap-1"),
        (vec![&deleted(), &has, &retained], "release"),
        (vec![&deleted()], "release"),
        (
            vec![&deleted(), &json!({"metadata": {"finalizers": ["other"]}})],
            "nothing",
        ),
        // The cloud may be creating it.
        (
            vec![&deleted(), &annotated(BEING_CREATED)],
            "create with gold",
        ),
        // The snapshot-controller has not decided yet.
        (vec![&gone], "create with gold"),
        (vec![&given, &gone, &has], "delete snap-1"),
        (vec![&given, &gone], "release"),
        (
            vec![
                &deleted(),
                &has,
                &json!({"spec": {"driver": "other.example"}}),
            ],
            "nothing",
        ),
    ] {
        let changes = changes.into_iter().cloned();
        let change = changes.reduce(|all, it| with(&all, &it)).unwrap();
        assert_eq!(decided(&change), expected, "{change}");
    }
}

#[test]
fn a_request_has_what_csi_snapshotter_sends() {
    let class = json!({"parameters": {"force": "true"}});
    let sent = request(&content(&json!({})), &class).unwrap();
    assert_eq!(
        (sent.name.as_str(), sent.source_volume_id.as_str()),
        ("snapshot-s", "vol-1")
    );
    assert!(sent.secrets.is_empty());
    assert_eq!(
        sent.parameters,
        pairs(&[
            ("force", "true"),
            ("csi.storage.k8s.io/volumesnapshot/name", "snap"),
            ("csi.storage.k8s.io/volumesnapshot/namespace", "ns"),
            ("csi.storage.k8s.io/volumesnapshotcontent/name", "content"),
        ])
    );

    // It is rejected because of it, as that of a sidecar.
    let secret = json!({"parameters": {"csi.storage.k8s.io/snapshotter-secret-name": "cloud"}});
    let sent = request(&content(&json!({})), &secret).unwrap();
    assert_eq!(sent.secrets, pairs(&[("cloud", "")]));
    let annotated = json!({"metadata": {"annotations": {SECRET: "cloud"}}});
    let sent = request(&content(&annotated), &class).unwrap();
    assert_eq!(sent.secrets, pairs(&[("cloud", "")]));

    let odd = json!({"parameters": {"csi.storage.k8s.io/odd": "x"}});
    assert!(request(&content(&json!({})), &odd).is_err());
    let unbound = json!({"spec": {"volumeSnapshotRef": {"uid": null}}});
    assert!(request(&content(&unbound), &class).is_err());
}

#[test]
fn a_status_has_what_was_found_first() {
    let now = Time("2026-01-01T00:00:00Z".parse().unwrap());
    let mut snapshot = Snapshot {
        snapshot_id: "snap-1".into(),
        size_bytes: 5,
        ready_to_use: false,
        ..Snapshot::default()
    };
    let found_now = found(&content(&json!({})), &snapshot, &now);
    let expected = json!({
        "readyToUse": false, "snapshotHandle": "snap-1", "creationTime": 1_767_225_600_000_000_000_i64,
        "restoreSize": 5,
    });
    assert_eq!(found_now["status"], expected);

    snapshot.ready_to_use = true;
    let known = content(&json!({"status": expected}));
    let later = found(&known, &snapshot, &now);
    assert_eq!(later["status"], json!({"readyToUse": true, "error": null}));

    let told = failed(&known, "why", &now).unwrap();
    assert_eq!(told["status"]["error"]["message"], "why");
    let known = content(&json!({"status": told["status"]}));
    assert_eq!(failed(&known, "why", &now), None);
}

#[test]
fn only_this_finalizer_is_removed() {
    let released = released(&content(&json!({}))).unwrap();
    assert_eq!(released[1]["path"], "/metadata/finalizers/1");
    assert_eq!(released[1]["value"], FINALIZER);
    assert_eq!(
        released[2],
        json!({"op": "remove", "path": "/metadata/finalizers/1"})
    );
    let others = content(&json!({"metadata": {"finalizers": ["other"]}}));
    assert_eq!(super::released(&others), None);
}

#[test]
fn what_this_controller_writes_is_no_news() {
    let marked = annotated(BEING_CREATED);
    for (old, new, expected) in [
        (json!({}), json!({"status": {"readyToUse": true}}), false),
        (json!({}), marked.clone(), false),
        // Otherwise, a snapshot that is not ready would be asked for without a delay.
        (marked.clone(), json!({}), false),
        (with(&deleted(), &marked), deleted(), true),
        (deleted(), with(&deleted(), &marked), false),
        (json!({}), deleted(), true),
        (
            json!({}),
            json!({"spec": {"deletionPolicy": "Retain"}}),
            true,
        ),
        (
            json!({}),
            json!({"metadata": {"resourceVersion": "2"}}),
            false,
        ),
    ] {
        assert_eq!(
            is_news(&content(&old), &content(&new)),
            expected,
            "{old} {new}"
        );
    }
}
