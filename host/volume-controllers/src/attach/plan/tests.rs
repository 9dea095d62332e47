use skydock_controller_base::testing::{pairs, with};

use super::*;

const DRIVER: &str = "disks.example";
const FINALIZER: &str = "external-attacher/disks-example";

fn attachment(change: &Value) -> VolumeAttachment {
    let object = json!({
        "metadata": {"name": "va", "uid": "u", "resourceVersion": "1"},
        "spec": {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "pv"}},
        "status": {"attached": false},
    });
    serde_json::from_value(with(&object, change)).unwrap()
}

fn volume(change: &Value) -> PersistentVolume {
    let object = json!({
        "metadata": {"name": "pv", "uid": "v"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": DRIVER, "volumeHandle": "vol-1", "volumeAttributes": {"a": "b"}},
        },
    });
    serde_json::from_value(with(&object, change)).unwrap()
}

fn node(driver: &str) -> CSINode {
    let drivers = json!([{"name": driver, "nodeID": "i-1"}]);
    let object = json!({"metadata": {"name": "n1"}, "spec": {"drivers": drivers}});
    serde_json::from_value(object).unwrap()
}

fn deleted() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
}

/// Returns what is decided, in short.
fn decided(seen: Seen<'_>) -> String {
    match step(seen) {
        Ok(Step::Nothing) => "nothing".to_owned(),
        Ok(Step::Attach(it)) => format!("attach {} to {}", it.volume_id, it.node_id),
        Ok(Step::Detach(it)) => format!("detach {} from {}", it.volume_id, it.node_id),
        Err(message) => message,
    }
}

#[test]
fn a_finalizer_has_only_letters_digits_and_dashes() {
    for (driver, expected) in [
        (DRIVER, FINALIZER),
        ("ebs.csi.aws.com", "external-attacher/ebs-csi-aws-com"),
        ("a_b.", "external-attacher/a-b-X"),
    ] {
        assert_eq!(finalizer(driver), expected);
    }
}

#[test]
fn a_new_attachment_is_attached_once_all_is_known() {
    let attached = json!({"status": {"attached": true}});
    let other = json!({"spec": {"csi": {"driver": "other.example"}}});
    let in_tree = json!({"spec": {"csi": null, "cinder": {"volumeID": "x"}}});
    let modes = json!({"spec": {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}});
    let plain = json!({});
    let here = node(DRIVER);
    for (change, forced, pv, known, expected) in [
        (
            &plain,
            false,
            Some(&plain),
            Some(&here),
            "attach vol-1 to i-1",
        ),
        (&attached, false, Some(&plain), Some(&here), "nothing"),
        (
            &attached,
            true,
            Some(&plain),
            Some(&here),
            "attach vol-1 to i-1",
        ),
        (
            &json!({"spec": {"attacher": "other.example"}}),
            true,
            Some(&plain),
            Some(&here),
            "nothing",
        ),
        (
            &plain,
            false,
            None,
            Some(&here),
            "PersistentVolume pv does not exist",
        ),
        (
            &plain,
            false,
            Some(&deleted()),
            Some(&here),
            "the PersistentVolume is being deleted",
        ),
        (
            &plain,
            false,
            Some(&other),
            Some(&here),
            "the volume is one of other.example, not of disks.example",
        ),
        (
            &plain,
            false,
            Some(&in_tree),
            Some(&here),
            "the volume is not one of a CSI driver",
        ),
        (
            &plain,
            false,
            Some(&modes),
            Some(&here),
            "CSI has no mode for ReadOnlyMany and ReadWriteOnce",
        ),
        (
            &plain,
            false,
            Some(&plain),
            None,
            "CSINode n1 does not exist",
        ),
        (
            &plain,
            false,
            Some(&plain),
            Some(&node("other.example")),
            "CSINode n1 does not contain driver disks.example",
        ),
        (
            &json!({"spec": {"source": {"persistentVolumeName": null}}}),
            false,
            None,
            Some(&here),
            "spec.source has no volume",
        ),
        // The node ID of an earlier attachment is not that of a new one.
        (
            &json!({"metadata": {"annotations": {NODE_ID: "i-0"}}}),
            false,
            Some(&plain),
            None,
            "CSINode n1 does not exist",
        ),
    ] {
        let attachment = attachment(change);
        let pv = pv.map(volume);
        let seen = Seen {
            driver: DRIVER,
            attachment: &attachment,
            volume: pv.as_ref(),
            node: known,
            is_forced: forced,
        };
        assert_eq!(decided(seen), expected, "{change}");
    }
}

#[test]
fn a_request_has_what_csi_attacher_sends() {
    let change = json!({"spec": {
        "mountOptions": ["noatime"],
        "csi": {
            "fsType": "xfs", "readOnly": true,
            "controllerPublishSecretRef": {"name": "cloud", "namespace": "kube-system"},
        },
    }});
    let (attachment, volume, node) = (attachment(&json!({})), volume(&change), node(DRIVER));
    let seen = Seen {
        driver: DRIVER,
        attachment: &attachment,
        volume: Some(&volume),
        node: Some(&node),
        is_forced: false,
    };
    let Ok(Step::Attach(request)) = step(seen) else {
        panic!("it is attached")
    };
    let used = request.volume_capability.unwrap();
    assert_eq!(used.access_mode.unwrap().mode, 1);
    assert!(format!("{used:?}").contains("xfs") && format!("{used:?}").contains("noatime"));
    assert!(!request.readonly);
    assert_eq!(request.volume_context, pairs(&[("a", "b")]));
    // It is rejected because of it, as that of a sidecar.
    assert_eq!(request.secrets, pairs(&[("cloud", "")]));
}

#[test]
fn what_was_attached_is_detached_from_the_node_that_is_known() {
    let held = json!({"metadata": {"finalizers": [FINALIZER]}});
    let annotated = json!({"metadata": {"annotations": {NODE_ID: "i-0"}}});
    for (changes, known, expected) in [
        (vec![], Some(DRIVER), "nothing"),
        (vec![&held], Some(DRIVER), "detach vol-1 from i-1"),
        (
            vec![&held, &annotated],
            Some(DRIVER),
            "detach vol-1 from i-1",
        ),
        (
            vec![&held, &annotated],
            Some("other.example"),
            "detach vol-1 from i-0",
        ),
        (vec![&held, &annotated], None, "detach vol-1 from i-0"),
        (vec![&held], None, "CSINode n1 does not exist"),
    ] {
        let mut object = attachment(&deleted());
        for change in &changes {
            object = with(&object, change);
        }
        // Also if it is being deleted.
        let (volume, node) = (volume(&deleted()), known.map(node));
        let seen = Seen {
            driver: DRIVER,
            attachment: &object,
            volume: Some(&volume),
            node: node.as_ref(),
            is_forced: false,
        };
        assert_eq!(decided(seen), expected, "{changes:?} {known:?}");
    }
}

#[test]
fn the_finalizer_and_the_node_id_are_written_first() {
    let expected = json!({"metadata": {
        "uid": "u", "finalizers": [FINALIZER], "annotations": {NODE_ID: "i-1"},
    }});
    let held = json!({"metadata": {"finalizers": ["other", FINALIZER]}});
    let annotated = |id: &str| json!({"metadata": {"annotations": {NODE_ID: id}}});
    for (change, needed) in [
        (json!({}), true),
        (held.clone(), true),
        (annotated("i-1"), true),
        (with(&held, &annotated("i-0")), true),
        (with(&held, &annotated("i-1")), false),
    ] {
        let patch = preparation(&attachment(&change), FINALIZER, "i-1");
        assert_eq!(patch, needed.then(|| expected.clone()), "{change}");
    }
}

#[test]
fn a_status_has_only_what_the_last_answer_says() {
    let earlier = json!({"status": {"attachmentMetadata": {"DevicePath": "/dev/vda", "old": "x"}}});
    let earlier = attachment(&earlier);
    let patch = attached(&earlier, &pairs(&[("DevicePath", "/dev/vdb")]));
    let metadata = json!({"DevicePath": "/dev/vdb", "old": null});
    assert_eq!(
        patch["status"],
        json!({"attached": true, "attachmentMetadata": metadata, "attachError": null})
    );

    let status: VolumeAttachment = with(&earlier, &detached(&earlier));
    let status = status.status.unwrap();
    assert!(!status.attached && status.attachment_metadata.is_none());

    let time = Time("2026-01-01T00:00:00Z".parse().unwrap());
    let patch = failed(&earlier, "attachError", "no room", Some(8), &time);
    let error = json!({"message": "no room", "errorCode": 8, "time": "2026-01-01T00:00:00Z"});
    assert_eq!(patch["status"], json!({"attachError": error}));
}

#[test]
fn what_this_controller_writes_is_no_news() {
    let error =
        json!({"status": {"attachError": {"message": "m", "time": "2026-01-01T00:00:00Z"}}});
    let version = json!({"metadata": {"resourceVersion": "2"}});
    for (old, new, expected) in [
        (json!({}), with(&error, &version), false),
        (error.clone(), version.clone(), false),
        (
            json!({}),
            json!({"metadata": {"finalizers": [FINALIZER]}}),
            false,
        ),
        (json!({}), json!({"metadata": {"uid": "w"}}), true),
        (json!({}), json!({"status": {"attached": true}}), true),
        (error.clone(), with(&error, &deleted()), true),
    ] {
        let found = is_news(&attachment(&old), &attachment(&new));
        assert_eq!(found, expected, "{old} {new}");
    }
}

#[test]
fn a_volume_is_released_when_nothing_needs_it() {
    let held = json!({"metadata": {"finalizers": ["kubernetes.io/pv-protection", FINALIZER]}});
    let of_other = json!({"spec": {"source": {"persistentVolumeName": "other"}}});
    let gone = with(&held, &deleted());
    for (change, attachments, expected) in [
        (&gone, vec![], true),
        (&gone, vec![attachment(&of_other)], true),
        (
            &gone,
            vec![attachment(&of_other), attachment(&json!({}))],
            false,
        ),
        (&held, vec![], false),
        (&deleted(), vec![], false),
    ] {
        let found = is_released(&volume(change), FINALIZER, &attachments);
        assert_eq!(found, expected, "{change}");
    }
}

#[test]
fn what_the_cloud_lists_is_compared_with_the_status() {
    let attached = json!({"status": {"attached": true}});
    let (volume, node) = (volume(&json!({})), node(DRIVER));
    for (change, listed, expected) in [
        (&attached, Some("i-1"), false),
        (&attached, Some("i-2"), true),
        (&attached, None, true),
        (&json!({}), Some("i-1"), true),
        (&json!({}), None, false),
        (
            &json!({"spec": {"attacher": "other.example"}}),
            Some("i-1"),
            false,
        ),
    ] {
        let nodes = listed.map(|id| ("vol-1".to_owned(), vec![id.to_owned()]));
        let attachment = attachment(change);
        let seen = Seen {
            driver: DRIVER,
            attachment: &attachment,
            volume: Some(&volume),
            node: Some(&node),
            is_forced: false,
        };
        let nodes = nodes.into_iter().collect();
        assert_eq!(differs(seen, &nodes), expected, "{change} {listed:?}");
    }
}

#[test]
fn nothing_is_asked_for_a_node_without_an_id() {
    let mut node = node(DRIVER);
    node.spec.drivers[0].node_id = String::new();
    let volume = volume(&json!({}));
    let unknown = json!({"metadata": {"finalizers": [FINALIZER], "annotations": {NODE_ID: ""}}});
    for change in [unknown.clone(), with(&unknown, &deleted())] {
        let seen = Seen {
            driver: DRIVER,
            attachment: &attachment(&change),
            volume: Some(&volume),
            node: Some(&node),
            is_forced: false,
        };
        let expected = "CSINode n1 does not contain driver disks.example";
        assert_eq!(decided(seen), expected, "{change}");
    }
}
