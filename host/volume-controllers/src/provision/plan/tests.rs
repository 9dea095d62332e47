use serde_json::{Value, json};
use skydock_controller_base::testing::{pairs, with};

use super::*;

const DRIVER: &str = "disks.example";

fn claim(change: &Value) -> PersistentVolumeClaim {
    let object = json!({
        "metadata": {
            "namespace": "ns", "name": "data", "uid": "u", "resourceVersion": "7",
            "annotations": {"volume.kubernetes.io/storage-provisioner": DRIVER},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "gold", "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "5Gi"}},
        },
    });
    serde_json::from_value(with(&object, change)).unwrap()
}

fn class(change: &Value) -> StorageClass {
    let object = json!({
        "metadata": {"name": "gold"}, "provisioner": DRIVER, "reclaimPolicy": "Delete",
        "mountOptions": ["noatime"], "parameters": {"type": "ssd"},
    });
    serde_json::from_value(with(&object, change)).unwrap()
}

fn prepared(claim: &PersistentVolumeClaim, class: &StorageClass) -> Result<Prepared, String> {
    prepare(Asked {
        driver: DRIVER,
        claim,
        class,
        source: None,
        topology: None,
        attributes: pairs(&[("iops", "100")]),
    })
}

#[test]
fn a_claim_of_the_driver_needs_a_volume_until_it_is_bound() {
    let annotated = |key: &str, value: &str| {
        let none = "volume.kubernetes.io/storage-provisioner";
        with(
            &json!({"metadata": {"annotations": {none: null}}}),
            &json!({"metadata": {"annotations": {key: value}}}),
        )
    };
    for (change, expected) in [
        (json!({}), true),
        (
            annotated("volume.beta.kubernetes.io/storage-provisioner", DRIVER),
            true,
        ),
        (
            annotated("volume.kubernetes.io/storage-provisioner", "other.example"),
            false,
        ),
        (annotated("other", DRIVER), false),
        (json!({"spec": {"volumeName": "pv"}}), false),
        (json!({"spec": {"volumeName": ""}}), true),
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            false,
        ),
    ] {
        assert_eq!(is_for(&claim(&change), DRIVER), expected, "{change}");
    }
}

#[test]
fn a_claim_waits_for_its_node_if_the_class_says_so() {
    let late = json!({"volumeBindingMode": "WaitForFirstConsumer"});
    let selected = |node: &str| json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
    for (of_class, of_claim, expected) in [
        (json!({}), json!({}), true),
        (json!({"volumeBindingMode": "Immediate"}), json!({}), true),
        (late.clone(), json!({}), false),
        (late.clone(), selected(""), false),
        (late, selected("n1"), true),
        (json!({"provisioner": "other.example"}), json!({}), false),
    ] {
        let found = is_due(&claim(&of_claim), &class(&of_class), DRIVER);
        assert_eq!(found, expected, "{of_class} {of_claim}");
    }

    let annotated = json!({"metadata": {"annotations": {CLASS: "silver"}}});
    assert_eq!(class_of(&claim(&annotated)), "silver");
    assert_eq!(class_of(&claim(&json!({}))), "gold");
}

#[test]
fn a_request_has_what_csi_provisioner_sends() {
    let parameters = json!({"parameters": {"csi.storage.k8s.io/fstype": "xfs"}});
    let request = prepared(&claim(&json!({})), &class(&parameters))
        .unwrap()
        .request;
    assert_eq!(request.name, "pvc-u");
    assert_eq!(request.capacity_range.unwrap().required_bytes, 5 << 30);
    assert_eq!(
        request.parameters,
        pairs(&[
            ("type", "ssd"),
            ("csi.storage.k8s.io/pvc/name", "data"),
            ("csi.storage.k8s.io/pvc/namespace", "ns"),
            ("csi.storage.k8s.io/pv/name", "pvc-u"),
        ])
    );
    assert_eq!(request.mutable_parameters, pairs(&[("iops", "100")]));
    assert!(request.secrets.is_empty());
    let [used] = request.volume_capabilities.as_slice() else {
        panic!("one access mode")
    };
    assert_eq!(used.access_mode.unwrap().mode, 1);
    let shown = format!("{used:?}");
    assert!(
        shown.contains("xfs") && shown.contains("noatime"),
        "{shown}"
    );
}

#[test]
fn the_persistent_volume_is_that_of_csi_provisioner() {
    let created = proto::Volume {
        capacity_bytes: 6 << 30,
        volume_id: "vol-1".into(),
        volume_context: pairs(&[("a", "b")]),
        content_source: None,
        accessible_topology: vec![proto::Topology {
            segments: pairs(&[("zone", "z1")]),
        }],
    };
    let stage = json!({"parameters": {
        "csi.storage.k8s.io/node-stage-secret-name": "${pvc.name}-key",
        "csi.storage.k8s.io/node-stage-secret-namespace": "${pvc.namespace}",
    }});
    let prepared = prepared(&claim(&json!({})), &class(&stage)).unwrap();
    assert!(prepared.request.secrets.is_empty(), "a kubelet reads it");
    let found = serde_json::to_value(prepared.finish(created)).unwrap();

    let requirement = json!({"key": "zone", "operator": "In", "values": ["z1"]});
    let expected = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {
            "name": "pvc-u",
            "annotations": {
                "pv.kubernetes.io/provisioned-by": DRIVER,
                "volume.kubernetes.io/provisioner-deletion-secret-name": "",
                "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
            },
            "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "6Gi"},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": "ns", "name": "data", "uid": "u", "resourceVersion": "7",
            },
            "csi": {
                "driver": DRIVER, "fsType": "ext4", "volumeHandle": "vol-1",
                "nodeStageSecretRef": {"name": "data-key", "namespace": "ns"},
                "volumeAttributes": {
                    "a": "b", "storage.kubernetes.io/csiProvisionerIdentity": "skydock-disks.example",
                },
            },
            "mountOptions": ["noatime"],
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "gold",
            "volumeMode": "Filesystem",
        },
    });
    assert_eq!(found, expected);
}

#[test]
fn a_block_device_has_no_type_of_file_system() {
    let block = claim(&json!({"spec": {"volumeMode": "Block"}}));
    let volume = prepared(&block, &class(&json!({}))).unwrap().volume;
    assert_eq!(volume.spec.unwrap().csi.unwrap().fs_type, None);
}

#[test]
fn what_cannot_be_created_says_why() {
    let parameter = |key: &str| json!({"parameters": {key: "x"}});
    for (of_claim, of_class, expected) in [
        (
            json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}),
            json!({}),
            "Selector",
        ),
        (
            json!({"spec": {"accessModes": ["Sometimes"]}}),
            json!({}),
            "access modes",
        ),
        (
            json!({"spec": {"resources": {"requests": {"storage": "9Ei"}}}}),
            json!({}),
            "9Ei is not a valid size",
        ),
        (
            json!({}),
            parameter("csi.storage.k8s.io/odd"),
            "csi.storage.k8s.io/odd",
        ),
        (
            json!({}),
            parameter("csi.storage.k8s.io/node-stage-secret-name"),
            "only one of node-stage-secret-name",
        ),
        (
            json!({}),
            json!({"parameters": {"fsType": "xfs", "csi.storage.k8s.io/fstype": "xfs"}}),
            "two parameters",
        ),
        (
            json!({}),
            json!({"parameters": {
                "csi.storage.k8s.io/node-stage-secret-name": "${pvc.annotations['a']}",
                "csi.storage.k8s.io/node-stage-secret-namespace": "ns",
            }}),
            "unknown token",
        ),
    ] {
        let why = prepared(&claim(&of_claim), &class(&of_class)).unwrap_err();
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn a_secret_is_in_a_namespace_that_the_user_does_not_decide() {
    for (name, namespace, expected) in [
        ("key", "vault", Some(("key", "vault"))),
        (
            "${pvc.name}-${pv.name}",
            "${pvc.namespace}",
            Some(("data-pvc-u", "ns")),
        ),
        (
            "${pvc.annotations['key']}",
            "${pv.name}",
            Some(("mine", "pvc-u")),
        ),
        // What a user writes is no token.
        ("${pvc.annotations['token']}", "vault", None),
        ("${pvc.annotations['path']}", "vault", None),
        ("${pvc.annotations['other']}", "vault", None),
        ("${pvc.name", "vault", None),
        ("key", "${pvc.name}", None),
        ("key", "${pvc.annotations['key']}", None),
    ] {
        let annotations = json!({"key": "mine", "token": "${pv.name}", "path": "../mine"});
        let claim = claim(&json!({"metadata": {"annotations": annotations}}));
        let class = class(&json!({"parameters": {
            "csi.storage.k8s.io/node-stage-secret-name": name,
            "csi.storage.k8s.io/node-stage-secret-namespace": namespace,
        }}));
        let prepared = prepared(&claim, &class).ok();
        let spec = prepared.and_then(|it| it.volume.spec);
        let found = spec.and_then(|it| it.csi?.node_stage_secret_ref);
        let found = found.map(|it| (it.name.unwrap(), it.namespace.unwrap()));
        let found = found.as_ref().map(|it| (it.0.as_str(), it.1.as_str()));
        assert_eq!(found, expected, "{name} {namespace}");
    }
}

#[test]
fn secrets_of_the_controller_part_are_sent_to_be_rejected() {
    for kind in [
        "",
        "provisioner-",
        "controller-publish-",
        "controller-expand-",
    ] {
        let parameters = json!({"parameters": {
            format!("csi.storage.k8s.io/{kind}secret-name"): "cloud",
            format!("csi.storage.k8s.io/{kind}secret-namespace"): "kube-system",
        }});
        let prepared = prepared(&claim(&json!({})), &class(&parameters)).unwrap();
        assert_eq!(prepared.request.secrets, pairs(&[("cloud", "")]), "{kind}");
    }
}

#[test]
fn only_what_matters_for_a_volume_is_news() {
    for (change, expected) in [
        (json!({"metadata": {"resourceVersion": "8"}}), false),
        (json!({"status": {"phase": "Pending"}}), false),
        (json!({"metadata": {"finalizers": ["x"]}}), false),
        (
            json!({"metadata": {"annotations": {SELECTED_NODE: "n1"}}}),
            true,
        ),
        (json!({"spec": {"volumeName": "pv"}}), true),
        (json!({"metadata": {"uid": "v"}}), true),
    ] {
        assert_eq!(
            is_news(&claim(&json!({})), &claim(&change)),
            expected,
            "{change}"
        );
    }
}
