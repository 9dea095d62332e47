//! PersistentVolumes in the cache: what is read and kept of each.

use k8s_openapi::{
    api::core::v1::{PersistentVolume, PersistentVolumeSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use skydock_cloud::VolumeId;
use skydock_controller_base::objects::constants::{
    LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE, LABEL_ZONE_BETA,
};
use skydock_kube::informer::{Entry, Identity, Kind};

/// Annotation of a PersistentVolume that a provisioner has created, with its labels and its node
/// affinity.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Labels that can be added, and the labels with the same meaning.
const LABELS: [(&str, &str); 2] = [
    (LABEL_ZONE, LABEL_ZONE_BETA),
    (LABEL_REGION, LABEL_REGION_BETA),
];

/// PersistentVolumes.
#[derive(Debug)]
pub(super) struct VolumeKind;

/// Identity and version of a PersistentVolume.
#[derive(Debug)]
pub(super) struct Version {
    name: String,
    uid: String,
    resource_version: String,
}

/// A PersistentVolume of a CSI driver that no provisioner has created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HandMade {
    /// Name of the driver.
    pub(super) driver: String,
    /// The cloud's ID.
    pub(super) id: VolumeId,
    /// Labels that it does not have.
    pub(super) lacks: Vec<&'static str>,
    /// True if it has a node affinity, which cannot be changed.
    pub(super) has_affinity: bool,
}

impl Kind for VolumeKind {
    type Object = PersistentVolume;
    type Read = PersistentVolume;
    /// `None` for one of another type, for one that a provisioner has created, and for one that is
    /// being deleted.
    type View = Option<HandMade>;
    type Kept = Version;

    fn split(object: PersistentVolume) -> (Version, Option<HandMade>) {
        let PersistentVolume { metadata, spec, .. } = object;
        let hand_made = hand_made(&metadata, spec.unwrap_or_default());

        let version = Version {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        };
        (version, hand_made)
    }

    fn identity(entry: &Entry<Self>) -> Identity<'_> {
        Identity {
            namespace: "",
            name: &entry.object.name,
            uid: &entry.object.uid,
            resource_version: &entry.object.resource_version,
        }
    }
}

fn hand_made(metadata: &ObjectMeta, spec: PersistentVolumeSpec) -> Option<HandMade> {
    let annotations = metadata.annotations.as_ref();
    let is_provisioned = annotations.is_some_and(|all| all.contains_key(PROVISIONED_BY));
    if is_provisioned || metadata.deletion_timestamp.is_some() {
        return None;
    }

    let csi = spec.csi?;
    let labels = metadata.labels.as_ref();
    let has = |label: &str| labels.is_some_and(|all| all.contains_key(label));
    let lacks = LABELS
        .into_iter()
        .filter(|(label, beta)| !has(label) && !has(beta))
        .map(|(label, _)| label)
        .collect();

    Some(HandMade {
        driver: csi.driver,
        id: VolumeId(csi.volume_handle),
        lacks,
        has_affinity: spec.node_affinity.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use skydock_controller_base::testing::with;

    use super::*;

    fn object() -> Value {
        json!({
            "metadata": {"name": "pv-1", "uid": "u", "resourceVersion": "7"},
            "spec": {"csi": {"driver": "disks.example", "volumeHandle": "vol-1"}},
        })
    }

    fn view(change: &Value) -> Option<HandMade> {
        let object = serde_json::from_value(with(&object(), change)).unwrap();
        Entry::<VolumeKind>::new(object).view
    }

    #[test]
    fn a_volume_lacks_the_labels_that_it_has_in_no_version() {
        let both = vec![LABEL_ZONE, LABEL_REGION];
        let table = [
            (json!({}), both.clone()),
            (json!({"other": "x"}), both),
            (json!({LABEL_ZONE: "z"}), vec![LABEL_REGION]),
            (json!({LABEL_ZONE: ""}), vec![LABEL_REGION]),
            (json!({LABEL_ZONE_BETA: "z"}), vec![LABEL_REGION]),
            (json!({LABEL_REGION_BETA: "r"}), vec![LABEL_ZONE]),
            (json!({LABEL_ZONE: "z", LABEL_REGION: "r"}), vec![]),
        ];
        for (labels, lacks) in table {
            let found = view(&json!({"metadata": {"labels": labels}})).unwrap();
            let expected = HandMade {
                driver: "disks.example".into(),
                id: VolumeId("vol-1".into()),
                lacks,
                has_affinity: false,
            };
            assert_eq!(found, expected, "{labels}");
        }
        let affinity = json!({"required": {"nodeSelectorTerms": []}});
        let found = view(&json!({"spec": {"nodeAffinity": affinity}})).unwrap();
        assert!(found.has_affinity);
    }

    #[test]
    fn only_a_volume_of_a_csi_driver_without_provisioner_counts() {
        for change in [
            json!({"spec": null}),
            json!({"spec": {"csi": null, "hostPath": {"path": "/tmp"}}}),
            json!({"metadata": {"annotations": {PROVISIONED_BY: "disks.example"}}}),
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ] {
            assert_eq!(view(&change), None, "{change}");
        }
        let annotated = json!({"metadata": {"annotations": {"other": "x"}}});
        assert!(view(&annotated).is_some());
    }
}
