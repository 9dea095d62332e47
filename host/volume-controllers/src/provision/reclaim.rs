//! Decides what to do about a PersistentVolume: its finalizer, and the deletion of its volume
//! (`syncVolume` of sig-storage-lib-external-provisioner).

use k8s_openapi::api::{core::v1::PersistentVolume, storage::v1::VolumeAttachment};
use skydock_csi::proto::DeleteVolumeRequest;

use super::plan::{FINALIZER, PROVISIONED_BY};
use crate::finalizer;

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reclaim {
    Nothing,
    AddFinalizer,
    RemoveFinalizer,
    Delete(DeleteVolumeRequest),
    /// The volume cannot be deleted yet.
    Wait(String),
}

/// Returns what to do about a PersistentVolume.
pub(super) fn reclaim<'a>(
    volume: &PersistentVolume,
    driver: &str,
    attachments: impl IntoIterator<Item = &'a VolumeAttachment>,
) -> Reclaim {
    let metadata = &volume.metadata;
    let spec = volume.spec.as_ref();
    let Some(csi) = spec.and_then(|it| it.csi.as_ref()) else {
        return Reclaim::Nothing;
    };
    let annotations = metadata.annotations.as_ref();
    let provisioner = annotations.and_then(|all| all.get(PROVISIONED_BY));
    if csi.driver != driver || provisioner.is_some_and(|it| it != driver) {
        return Reclaim::Nothing;
    }

    let policy = spec.and_then(|it| it.persistent_volume_reclaim_policy.as_deref());
    let phase = volume.status.as_ref().and_then(|it| it.phase.as_deref());
    let is_held = finalizer::has(metadata, FINALIZER);
    let is_deleted = metadata.deletion_timestamp.is_some();
    match (policy, phase) {
        (Some("Retain" | "Recycle"), _) if is_held => Reclaim::RemoveFinalizer,
        (Some("Delete"), Some("Bound")) if !is_held && !is_deleted => Reclaim::AddFinalizer,
        // Without the finalizer, the volume is deleted already.
        (Some("Delete"), Some("Released")) if is_held || !is_deleted => {
            match still_attached(volume, attachments) {
                Some(message) => Reclaim::Wait(message),
                None => Reclaim::Delete(DeleteVolumeRequest {
                    volume_id: csi.volume_handle.clone(),
                    ..DeleteVolumeRequest::default()
                }),
            }
        }
        _ => Reclaim::Nothing,
    }
}

/// Returns why a volume cannot be deleted while it is attached (`canDeleteVolume`).
fn still_attached<'a>(
    volume: &PersistentVolume,
    attachments: impl IntoIterator<Item = &'a VolumeAttachment>,
) -> Option<String> {
    let name = volume.metadata.name.as_ref();
    let is_of_it = |it: &&VolumeAttachment| it.spec.source.persistent_volume_name.as_ref() == name;
    let found = attachments.into_iter().find(is_of_it)?;
    let node = &found.spec.node_name;
    Some(format!("the volume is still attached to node {node}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use skydock_controller_base::testing::with;

    use super::*;

    const DRIVER: &str = "disks.example";

    fn volume(change: &Value) -> PersistentVolume {
        let object = json!({
            "metadata": {"name": "pv", "annotations": {PROVISIONED_BY: DRIVER}, "finalizers": [FINALIZER]},
            "spec": {
                "persistentVolumeReclaimPolicy": "Delete",
                "csi": {"driver": DRIVER, "volumeHandle": "vol-1"},
            },
            "status": {"phase": "Released"},
        });
        serde_json::from_value(with(&object, change)).unwrap()
    }

    fn attachment(volume: &str) -> VolumeAttachment {
        let source = json!({"persistentVolumeName": volume});
        let spec = json!({"attacher": DRIVER, "nodeName": "n1", "source": source});
        serde_json::from_value(json!({"metadata": {"name": "va"}, "spec": spec})).unwrap()
    }

    #[test]
    fn only_a_released_volume_of_the_driver_is_deleted() {
        let delete = Reclaim::Delete(DeleteVolumeRequest {
            volume_id: "vol-1".into(),
            ..DeleteVolumeRequest::default()
        });
        let phase = |phase: &str| json!({"status": {"phase": phase}});
        let policy = |policy: &str| json!({"spec": {"persistentVolumeReclaimPolicy": policy}});
        let unheld = json!({"metadata": {"finalizers": null}});
        let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let annotated = |by: Value| json!({"metadata": {"annotations": {PROVISIONED_BY: by}}});
        for (change, expected) in [
            (json!({}), delete.clone()),
            (gone.clone(), delete.clone()),
            (unheld.clone(), delete.clone()),
            (with(&unheld, &gone), Reclaim::Nothing),
            // It was created by hand.
            (annotated(Value::Null), delete),
            (annotated(json!("other.example")), Reclaim::Nothing),
            (
                json!({"spec": {"csi": {"driver": "other.example"}}}),
                Reclaim::Nothing,
            ),
            (json!({"spec": {"csi": null}}), Reclaim::Nothing),
            (phase("Bound"), Reclaim::Nothing),
            (phase("Available"), Reclaim::Nothing),
            (phase("Failed"), Reclaim::Nothing),
            (with(&unheld, &phase("Bound")), Reclaim::AddFinalizer),
            (
                with(&with(&unheld, &phase("Bound")), &gone),
                Reclaim::Nothing,
            ),
            (policy("Retain"), Reclaim::RemoveFinalizer),
            (
                with(&policy("Retain"), &phase("Bound")),
                Reclaim::RemoveFinalizer,
            ),
            (with(&unheld, &policy("Retain")), Reclaim::Nothing),
        ] {
            let found = reclaim(&volume(&change), DRIVER, &[attachment("other")]);
            assert_eq!(found, expected, "{change}");
        }
    }

    #[test]
    fn a_volume_that_is_attached_is_not_deleted() {
        let attachments = [attachment("other"), attachment("pv")];
        let found = reclaim(&volume(&json!({})), DRIVER, &attachments);
        let message = "the volume is still attached to node n1";
        assert_eq!(found, Reclaim::Wait(message.to_owned()));
    }
}
