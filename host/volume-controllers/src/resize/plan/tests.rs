use skydock_controller_base::testing::{pairs, with};

use super::*;

const DRIVER: &str = "disks.example";

fn claim(change: &Value) -> PersistentVolumeClaim {
    let object = json!({
        "metadata": {"namespace": "ns", "name": "data", "uid": "u", "resourceVersion": "7"},
        "spec": {"volumeName": "pv", "resources": {"requests": {"storage": "2Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    });
    serde_json::from_value(with(&object, change)).unwrap()
}

fn volume(size: &str) -> PersistentVolume {
    let object = json!({
        "metadata": {"name": "pv", "uid": "v"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "claimRef": {"uid": "u"},
            "csi": {"driver": DRIVER, "volumeHandle": "vol-1", "fsType": "xfs"},
        },
    });
    serde_json::from_value(object).unwrap()
}

fn time() -> Time {
    Time("2026-01-01T00:00:00Z".parse().unwrap())
}

fn condition(type_: &str) -> Value {
    json!({"type": type_, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

#[test]
fn a_claim_is_expanded_to_the_size_that_was_begun() {
    let state = |state: &str, allocated: &str| {
        json!({"status": {
            "allocatedResourceStatuses": {"storage": state},
            "allocatedResources": {"storage": allocated},
        }})
    };
    let unclear = json!({"status": {"conditions": [condition("FileSystemResizePending")]}});
    for (change, real, failed, expected) in [
        (json!({}), "1Gi", false, Some(("2Gi", true))),
        (json!({"status": {"phase": "Pending"}}), "1Gi", false, None),
        (
            json!({"status": {"capacity": {"storage": "2Gi"}}}),
            "1Gi",
            false,
            None,
        ),
        (
            json!({"status": {"capacity": {"storage": "3Gi"}}}),
            "1Gi",
            false,
            None,
        ),
        // The volume is smaller.
        (
            state("ControllerResizeInProgress", "3Gi"),
            "1Gi",
            false,
            Some(("3Gi", false)),
        ),
        (
            state("ControllerResizeInProgress", "3Gi"),
            "1Gi",
            true,
            Some(("2Gi", true)),
        ),
        (
            state("ControllerResizeInfeasible", "3Gi"),
            "1Gi",
            false,
            Some(("2Gi", true)),
        ),
        (
            state("ControllerResizeInfeasible", "2Gi"),
            "1Gi",
            false,
            Some(("2Gi", false)),
        ),
        (state("NodeResizePending", "1Gi"), "1Gi", false, None),
        (
            state("NodeResizeInProgress", "1536Mi"),
            "1Gi",
            false,
            Some(("1536Mi", false)),
        ),
        (
            state("NodeResizeInfeasible", "3Gi"),
            "1Gi",
            false,
            Some(("3Gi", false)),
        ),
        // The volume has been expanded.
        (state("NodeResizePending", "2Gi"), "2Gi", false, None),
        (state("NodeResizeInProgress", "2Gi"), "2Gi", false, None),
        (
            state("NodeResizeInfeasible", "2Gi"),
            "2Gi",
            false,
            Some(("2Gi", false)),
        ),
        (
            state("ControllerResizeInProgress", "2Gi"),
            "2Gi",
            false,
            Some(("2Gi", false)),
        ),
        (json!({}), "2Gi", false, Some(("2Gi", true))),
        (unclear, "2Gi", false, None),
    ] {
        let found = expansion(&claim(&change), &volume(real), failed);
        let found = found.as_ref().map(|it| (it.size.0.as_str(), it.is_new));
        assert_eq!(found, expected, "{change} {real} {failed}");
    }
}

#[test]
fn only_the_volume_of_the_claim_and_of_the_driver_is_expanded() {
    let volume = volume("1Gi");
    for (change, driver, expected) in [
        (json!({}), DRIVER, true),
        (json!({}), "other.example", false),
        (json!({"metadata": {"uid": "w"}}), DRIVER, false),
    ] {
        assert_eq!(
            is_of(&claim(&change), &volume, driver),
            expected,
            "{change}"
        );
    }
}

#[test]
fn a_request_has_what_csi_resizer_sends() {
    let expansion = Expansion {
        size: Quantity("2Gi".into()),
        is_new: true,
    };
    let mut volume = volume("1Gi");
    let sent = request(&volume, &expansion).unwrap();
    assert_eq!(sent.volume_id, "vol-1");
    assert_eq!(sent.capacity_range.unwrap().required_bytes, 2 << 30);
    assert!(format!("{:?}", sent.volume_capability).contains("xfs"));
    assert!(sent.secrets.is_empty());

    let secret = json!({"spec": {"csi": {"controllerExpandSecretRef": {"name": "cloud"}}}});
    volume = with(&volume, &secret);
    let sent = request(&volume, &expansion).unwrap();
    assert_eq!(sent.secrets, pairs(&[("cloud", "")]));
}

#[test]
fn the_status_tells_each_step() {
    let before =
        json!({"status": {"conditions": [condition("Other"), condition("NodeResizeError")]}});
    let mut written = Written::of(&claim(&before));
    let mut expansion = Expansion {
        size: Quantity("2Gi".into()),
        is_new: true,
    };
    let begun = written.begun(&expansion, &time());
    let expected = json!({
        "metadata": {"resourceVersion": "7", "annotations": {NOT_ON_NODE: null}},
        "status": {
            "conditions": [condition("Other"), condition("Resizing")],
            "allocatedResources": {"storage": "2Gi"},
            "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
        },
    });
    assert_eq!(begun, expected);

    written.version = Some("8".into());
    let mut failed = written.clone();
    let error = failed.failed("no room", true, &time());
    let message = "failed to expand pvc with no room";
    let told = with(
        &condition("ControllerResizeError"),
        &json!({"message": message}),
    );
    let all = json!([condition("Other"), condition("Resizing"), told]);
    let state = json!({"storage": "ControllerResizeInfeasible"});
    let expected = json!({
        "metadata": {"resourceVersion": "8"},
        "status": {"conditions": all, "allocatedResourceStatuses": state},
    });
    assert_eq!(error, expected);

    // A repetition keeps what was told.
    expansion.is_new = false;
    let again = failed.begun(&expansion, &time());
    assert_eq!(again["status"]["conditions"].as_array().unwrap().len(), 3);
    assert_eq!(again["status"]["allocatedResourceStatuses"], Value::Null);

    let pending = written.clone().pending(&time());
    let status = &pending["status"];
    assert_eq!(
        status["allocatedResourceStatuses"],
        json!({"storage": "NodeResizePending"})
    );
    assert_eq!(status["conditions"][2]["type"], "FileSystemResizePending");
    let finished = written.finished(&Quantity("2Gi".into()));
    let expected = json!({
        "metadata": {"resourceVersion": "8", "annotations": {NOT_ON_NODE: "true"}},
        "status": {
            "conditions": [condition("Other")],
            "capacity": {"storage": "2Gi"},
            "allocatedResourceStatuses": {"storage": null},
        },
    });
    assert_eq!(finished, expected);
}

#[test]
fn the_persistent_volume_remembers_the_size_until_the_node_is_done() {
    let (claim_before, volume_before) = (claim(&json!({})), volume("1Gi"));
    let annotation = json!({SIZE_BEFORE: "1Gi"});
    let spec = json!({"capacity": {"storage": "2Gi"}});
    for (on_node, metadata) in [
        (true, json!({"uid": "v", "annotations": annotation})),
        (false, json!({"uid": "v"})),
    ] {
        let patch = resized(&claim_before, &volume_before, 2 << 30, on_node);
        assert_eq!(patch, Some(json!({"metadata": metadata, "spec": spec})));
    }
    assert_eq!(resized(&claim_before, &volume_before, 1 << 30, true), None);

    let volume = with(
        &volume("2Gi"),
        &json!({"metadata": {"annotations": annotation}}),
    );
    let expected = json!({"metadata": {"uid": "v", "annotations": {SIZE_BEFORE: null}}});
    let done = json!({"status": {"capacity": {"storage": "2Gi"}}});
    assert_eq!(cleaned(&claim_before, &volume), None);
    assert_eq!(cleaned(&claim(&done), &volume), Some(expected));
    assert_eq!(cleaned(&claim(&done), &volume_before), None);
}

#[test]
fn what_this_controller_writes_is_no_news() {
    let state = |state: &str| json!({"status": {"allocatedResourceStatuses": {"storage": state}}});
    for (change, expected) in [
        (state("ControllerResizeInProgress"), false),
        (state("ControllerResizeInfeasible"), false),
        (state("NodeResizeInfeasible"), true),
        (
            json!({"status": {"conditions": [condition("Resizing")]}}),
            false,
        ),
        (json!({"status": {"capacity": {"storage": "2Gi"}}}), true),
        (
            json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}}),
            true,
        ),
        (json!({"status": {"phase": "Lost"}}), true),
        (json!({"metadata": {"labels": {"a": "b"}}}), false),
    ] {
        assert_eq!(
            is_news(&claim(&json!({})), &claim(&change)),
            expected,
            "{change}"
        );
    }
}
