//! Decides where the first content of a volume comes from, as csi-provisioner does
//! (`getVolumeContentSource`).

use k8s_openapi::{
    api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec},
    apimachinery::pkg::api::resource::Quantity,
};
use serde_json::Value;
use skydock_csi::proto::{
    VolumeContentSource,
    volume_content_source::{SnapshotSource, Type, VolumeSource},
};

use super::plan::{is_bound, size};
use crate::{capability, custom::field, quantity};

/// Finalizer of a claim that is being cloned (`pvcCloneFinalizer`).
pub(super) const CLONED: &str = "provisioner.storage.kubernetes.io/cloning-protection";

/// Finalizer of a VolumeSnapshot that is being restored (`snapshotSourceProtectionFinalizer`).
pub(super) const RESTORED: &str =
    "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";

/// Annotation of a VolumeSnapshotContent: its volume may be used in another mode.
const MAY_CHANGE_MODE: &str = "snapshot.storage.kubernetes.io/allow-volume-mode-change";

/// What the content of a volume comes from, in the namespace of its claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// A VolumeSnapshot.
    Snapshot(String),
    /// Another claim.
    Claim(String),
    /// What another program fills volumes from: it creates the volume, too.
    Other,
}

/// Returns the source of a claim; `None` for an empty volume (`dataSource`).
///
/// # Errors
/// Why there can be none.
pub(super) fn of(spec: &PersistentVolumeClaimSpec) -> Result<Option<Source>, String> {
    let (group, kind, name) = if let Some(it) = &spec.data_source {
        (&it.api_group, &it.kind, &it.name)
    } else if let Some(it) = &spec.data_source_ref {
        if it.namespace.as_deref().is_some_and(|it| !it.is_empty()) {
            return Err("sources in other namespaces are not supported".to_owned());
        }
        (&it.api_group, &it.kind, &it.name)
    } else {
        return Ok(None);
    };

    let group = group.as_deref().unwrap_or_default();
    Ok(Some(match (kind.as_str(), group) {
        ("VolumeSnapshot", "snapshot.storage.k8s.io") => Source::Snapshot(name.clone()),
        ("VolumeSnapshot", _) => {
            return Err(format!(
                "{group:?} is not the group of VolumeSnapshots; expected snapshot.storage.k8s.io"
            ));
        }
        ("PersistentVolumeClaim", _) => Source::Claim(name.clone()),
        _ => Source::Other,
    }))
}

/// Returns the volume of a claim that is cloned (`getPVCSource`).
pub(super) fn cloned(
    driver: &str,
    claim: &PersistentVolumeClaimSpec,
    source: Option<&PersistentVolumeClaim>,
    volume: Option<&PersistentVolume>,
) -> Result<VolumeContentSource, String> {
    let source = source.ok_or("the claim in dataSource does not exist")?;
    let phase = source.status.as_ref().and_then(|it| it.phase.as_deref());
    if phase != Some("Bound") || !is_bound(source) {
        return Err("the claim in dataSource is not bound".to_owned());
    }
    if source.metadata.deletion_timestamp.is_some() {
        return Err("the claim in dataSource is being deleted".to_owned());
    }
    let theirs = source
        .spec
        .as_ref()
        .ok_or("the claim in dataSource has no spec")?;
    let (asked, has) = (size(claim)?, size(theirs)?);
    if asked < has {
        return Err(format!(
            "the claim requests {asked} bytes, less than its source with {has}"
        ));
    }

    let invalid = "the claim in dataSource is not bound to a volume of this driver";
    let spec = volume.and_then(|it| it.spec.as_ref()).ok_or(invalid)?;
    let phase = volume.and_then(|it| it.status.as_ref()?.phase.as_deref());
    let is_of_it = spec
        .claim_ref
        .as_ref()
        .is_some_and(|it| it.uid == source.metadata.uid);
    let csi = spec.csi.as_ref().filter(|it| it.driver == driver);
    let csi = csi
        .filter(|_| is_of_it && phase == Some("Bound"))
        .ok_or(invalid)?;

    let is_block = |mode: &Option<String>| capability::is_block(mode.as_deref());
    if is_block(&claim.volume_mode) != is_block(&spec.volume_mode) {
        return Err("the claim and its source have different volume modes".to_owned());
    }
    let volume_id = csi.volume_handle.clone();
    Ok(VolumeContentSource {
        r#type: Some(Type::Volume(VolumeSource { volume_id })),
    })
}

/// Returns the name of the VolumeSnapshotContent of a VolumeSnapshot that may be restored
/// (`getSnapshotSource`).
pub(super) fn content_of(snapshot: &Value) -> Result<&str, String> {
    let metadata = field(snapshot, "/metadata");
    // A restore that has begun may still be in progress in the cloud.
    if field(metadata, "/deletionTimestamp").is_string() && !has_finalizer(snapshot, RESTORED) {
        return Err("the VolumeSnapshot is being deleted".to_owned());
    }
    let content = field(snapshot, "/status/boundVolumeSnapshotContentName").as_str();
    content.ok_or_else(|| "the VolumeSnapshot is not bound".to_owned())
}

/// Returns true if an object has a finalizer.
pub(super) fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    let all = field(object, "/metadata/finalizers").as_array();
    all.is_some_and(|all| all.iter().any(|it| it == finalizer))
}

/// Returns the snapshot that is restored.
pub(super) fn restored(
    driver: &str,
    claim: &PersistentVolumeClaimSpec,
    snapshot: &Value,
    content: &Value,
) -> Result<VolumeContentSource, String> {
    let (spec, status) = (field(content, "/spec"), field(snapshot, "/status"));
    if field(spec, "/volumeSnapshotRef/uid") != field(snapshot, "/metadata/uid") {
        return Err("the VolumeSnapshotContent is that of another VolumeSnapshot".to_owned());
    }
    if field(spec, "/driver").as_str() != Some(driver) {
        let theirs = field(spec, "/driver");
        return Err(format!("the snapshot is one of {theirs}, not of {driver}"));
    }
    if field(status, "/readyToUse").as_bool() != Some(true) {
        return Err("the VolumeSnapshot is not ready".to_owned());
    }
    let Some(handle) = field(content, "/status/snapshotHandle").as_str() else {
        return Err("the VolumeSnapshotContent has no handle".to_owned());
    };

    let asked = size(claim)?;
    let needed = field(status, "/restoreSize").as_str();
    let needed = needed.map(|it| Quantity(it.to_owned()));
    if let Some(needed) = needed.and_then(|it| quantity::bytes(&it))
        && asked < needed
    {
        return Err(format!(
            "the claim requests {asked} bytes, less than the snapshot with {needed}"
        ));
    }

    let mode = claim.volume_mode.as_deref();
    let before = field(spec, "/sourceVolumeMode").as_str();
    let annotations = field(content, "/metadata/annotations");
    let may_change = annotations.get(MAY_CHANGE_MODE).and_then(Value::as_str) == Some("true");
    if mode
        .zip(before)
        .is_some_and(|(mode, before)| mode != before)
        && !may_change
    {
        return Err(format!(
            "the snapshot is one of another volume mode; see {MAY_CHANGE_MODE}"
        ));
    }
    Ok(VolumeContentSource {
        r#type: Some(Type::Snapshot(SnapshotSource {
            snapshot_id: handle.to_owned(),
        })),
    })
}

/// Returns true if a claim is still being created from the source with this name.
pub(super) fn is_needed_by(claim: &PersistentVolumeClaim, source: &Source) -> bool {
    let of_claim = claim.spec.as_ref().map(of);
    !is_bound(claim) && matches!(of_claim, Some(Ok(Some(it))) if it == *source)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skydock_controller_base::testing::with;

    use super::*;

    const DRIVER: &str = "disks.example";

    fn claim(change: &Value) -> PersistentVolumeClaimSpec {
        let spec =
            json!({"resources": {"requests": {"storage": "2Gi"}}, "volumeMode": "Filesystem"});
        serde_json::from_value(with(&spec, change)).unwrap()
    }

    #[test]
    fn a_source_is_a_snapshot_or_a_claim_of_the_namespace() {
        let snapshot =
            json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"});
        let other = json!({"kind": "PersistentVolumeClaim", "name": "c"});
        let far = json!({"kind": "PersistentVolumeClaim", "name": "c", "namespace": "b"});
        let populator = json!({"apiGroup": "example.com", "kind": "Backup", "name": "b"});
        for (change, expected) in [
            (json!({}), Ok(None)),
            (
                json!({"dataSource": snapshot}),
                Ok(Some(Source::Snapshot("s".into()))),
            ),
            (
                json!({"dataSourceRef": snapshot}),
                Ok(Some(Source::Snapshot("s".into()))),
            ),
            (
                json!({"dataSource": other}),
                Ok(Some(Source::Claim("c".into()))),
            ),
            (json!({"dataSourceRef": populator}), Ok(Some(Source::Other))),
            (json!({"dataSourceRef": far}), Err(())),
            (
                json!({"dataSource": {"kind": "VolumeSnapshot", "name": "s"}}),
                Err(()),
            ),
        ] {
            assert_eq!(of(&claim(&change)).map_err(drop), expected, "{change}");
        }
    }

    #[test]
    fn a_claim_is_cloned_if_it_is_bound_to_a_volume_of_the_driver() {
        let source = json!({
            "metadata": {"name": "c", "uid": "u"},
            "spec": {"volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Bound"},
        });
        let volume = json!({
            "spec": {"claimRef": {"uid": "u"}, "csi": {"driver": DRIVER, "volumeHandle": "vol-1"}},
            "status": {"phase": "Bound"},
        });
        let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let larger = json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}});
        let block = json!({"spec": {"volumeMode": "Block"}});
        let none = json!({});
        for (of_source, of_volume, works) in [
            (&none, &none, true),
            (&gone, &none, false),
            (&larger, &none, false),
            (&json!({"status": {"phase": "Pending"}}), &none, false),
            (&none, &block, false),
            (&none, &json!({"status": {"phase": "Released"}}), false),
            (&none, &json!({"spec": {"claimRef": {"uid": "v"}}}), false),
            (
                &none,
                &json!({"spec": {"csi": {"driver": "other.example"}}}),
                false,
            ),
        ] {
            let source = serde_json::from_value(with(&source, of_source)).unwrap();
            let volume = serde_json::from_value(with(&volume, of_volume)).unwrap();
            let found = cloned(DRIVER, &claim(&none), Some(&source), Some(&volume));
            let expected = Type::Volume(VolumeSource {
                volume_id: "vol-1".into(),
            });
            let found = found.ok().and_then(|it| it.r#type);
            assert_eq!(found, works.then_some(expected), "{of_source} {of_volume}");
        }
        assert!(cloned(DRIVER, &claim(&none), None, None).is_err());
    }

    #[test]
    fn a_snapshot_is_restored_if_it_is_ready_and_fits() {
        let snapshot = json!({
            "metadata": {"uid": "u"},
            "status": {
                "boundVolumeSnapshotContentName": "content", "readyToUse": true, "restoreSize": "1Gi",
            },
        });
        let content = json!({
            "spec": {
                "driver": DRIVER, "sourceVolumeMode": "Filesystem", "volumeSnapshotRef": {"uid": "u"},
            },
            "status": {"snapshotHandle": "snap-1"},
        });
        let none = json!({});
        let block = json!({"spec": {"sourceVolumeMode": "Block"}});
        let allowed = json!({"metadata": {"annotations": {MAY_CHANGE_MODE: "true"}}});
        for (of_snapshot, of_content, works) in [
            (&none, &none, true),
            (&json!({"status": {"readyToUse": false}}), &none, false),
            (&json!({"status": {"restoreSize": "3Gi"}}), &none, false),
            (&none, &json!({"spec": {"driver": "other.example"}}), false),
            (
                &none,
                &json!({"spec": {"volumeSnapshotRef": {"uid": "v"}}}),
                false,
            ),
            (&none, &json!({"status": {"snapshotHandle": null}}), false),
            (&none, &block, false),
            (&none, &with(&block, &allowed), true),
        ] {
            let (snapshot, content) = (with(&snapshot, of_snapshot), with(&content, of_content));
            assert_eq!(content_of(&snapshot), Ok("content"));
            let found = restored(DRIVER, &claim(&none), &snapshot, &content);
            assert_eq!(
                found.is_ok(),
                works,
                "{of_snapshot} {of_content}: {found:?}"
            );
        }

        let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let gone = with(&snapshot, &gone);
        assert!(content_of(&gone).is_err());
        let begun = with(&gone, &json!({"metadata": {"finalizers": [RESTORED]}}));
        assert_eq!(content_of(&begun), Ok("content"));
        assert!(content_of(&none).is_err());
    }

    #[test]
    fn a_source_is_needed_until_the_claim_is_bound() {
        let source = json!({"kind": "PersistentVolumeClaim", "name": "c"});
        for (volume, name, expected) in [
            (Value::Null, "c", true),
            (json!("pv"), "c", false),
            (Value::Null, "d", false),
        ] {
            let object = json!({"spec": {"dataSource": source, "volumeName": volume}});
            let claim = serde_json::from_value(object).unwrap();
            let found = is_needed_by(&claim, &Source::Claim(name.to_owned()));
            assert_eq!(found, expected, "{volume} {name}");
        }
    }
}
