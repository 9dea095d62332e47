//! Decides what to do about a VolumeSnapshotContent, as csi-snapshotter does (`syncContent`).

use k8s_openapi::{api::core::v1::SecretReference, apimachinery::pkg::apis::meta::v1::Time};
use serde_json::{Value, json};
use skydock_cloud::Pairs;
use skydock_csi::proto::{
    CreateSnapshotRequest, DeleteSnapshotRequest, ListSnapshotsRequest, Snapshot,
};

use super::content::Content;
use crate::{custom::field, finalizer, request::secrets};

/// Finalizer, which the snapshot-controller adds.
const FINALIZER: &str = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";

/// Annotation: the cloud was asked for the snapshot, and its answer is not final. Until then, the object is
/// not deleted (`AnnVolumeSnapshotBeingCreated`).
const BEING_CREATED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";

/// Annotation: the snapshot-controller wants it to be deleted (`AnnVolumeSnapshotBeingDeleted`).
const BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";

/// Annotation: the Secret for requests.
const SECRET: &str = "snapshot.storage.kubernetes.io/deletion-secret-name";

/// Annotation of a member of a group of snapshots, of which plugins know nothing.
const GROUP: &str = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle";

/// Prefix of the parameters of a class that are not for the driver.
const RESERVED: &str = "csi.storage.k8s.io/";

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Nothing,
    /// Create the snapshot with this class, or ask again whether it is ready.
    Create(String),
    /// Look whether a snapshot that someone else has created is ready.
    Check(ListSnapshotsRequest),
    /// Remove the annotation of a snapshot that is ready.
    Unmark,
    Delete(DeleteSnapshotRequest),
    /// Remove the finalizer.
    Release,
    /// It cannot be created.
    Wait(String),
}

fn annotation<'a>(content: &'a Content, key: &str) -> Option<&'a String> {
    content.metadata.annotations.as_ref()?.get(key)
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    let text = field(object, pointer).as_str();
    text.filter(|it| !it.is_empty())
}

/// Returns what to do about a VolumeSnapshotContent.
pub(super) fn step(content: &Content, driver: &str) -> Step {
    let Content { spec, status, .. } = content;
    let is_of_group = annotation(content, GROUP).is_some()
        || field(status, "/volumeGroupSnapshotHandle").is_string();
    if text(spec, "/driver") != Some(driver) || is_of_group {
        return Step::Nothing;
    }

    let handle = text(status, "/snapshotHandle");
    if is_to_be_deleted(content) {
        return match handle {
            Some(handle) if text(spec, "/deletionPolicy") == Some("Delete") => {
                Step::Delete(DeleteSnapshotRequest {
                    snapshot_id: handle.to_owned(),
                    secrets: own_secrets(content),
                })
            }
            _ if finalizer::has(&content.metadata, FINALIZER) => Step::Release,
            _ => Step::Nothing,
        };
    }

    if field(status, "/readyToUse").as_bool() == Some(true) {
        return match annotation(content, BEING_CREATED) {
            Some(_) => Step::Unmark,
            None => Step::Nothing,
        };
    }
    if let Some(given) = text(spec, "/source/snapshotHandle") {
        return Step::Check(ListSnapshotsRequest {
            snapshot_id: handle.unwrap_or(given).to_owned(),
            secrets: own_secrets(content),
            ..ListSnapshotsRequest::default()
        });
    }
    match text(spec, "/volumeSnapshotClassName") {
        Some(class) => Step::Create(class.to_owned()),
        None => Step::Wait("spec.volumeSnapshotClassName is missing".to_owned()),
    }
}

/// Returns true if the snapshot has to be deleted, or the object alone (`shouldDelete`).
fn is_to_be_deleted(content: &Content) -> bool {
    if content.metadata.deletion_timestamp.is_none() {
        return false;
    }
    let is_given = text(&content.spec, "/source/snapshotHandle").is_some();
    if is_given && text(&content.spec, "/volumeSnapshotRef/uid").is_none() {
        return true;
    }
    annotation(content, BEING_CREATED).is_none() && annotation(content, BEING_DELETED).is_some()
}

/// Returns what stands for the Secret of a request, with which it is rejected.
fn own_secrets(content: &Content) -> Pairs {
    let name = annotation(content, SECRET).filter(|name| !name.is_empty());
    let reference = name.map(|name| SecretReference {
        name: Some(name.clone()),
        namespace: None,
    });
    secrets(reference.as_ref())
}

/// Returns the request for a snapshot (`createSnapshotWrapper`).
///
/// # Errors
/// Why there is none.
pub(super) fn request(content: &Content, class: &Value) -> Result<CreateSnapshotRequest, String> {
    let spec = &content.spec;
    let volume = text(spec, "/source/volumeHandle").ok_or("spec.source has no volume")?;
    let uid = text(spec, "/volumeSnapshotRef/uid").ok_or("it is not bound to a VolumeSnapshot")?;

    let mut parameters = Pairs::new();
    let mut secrets = own_secrets(content);
    for (key, value) in field(class, "/parameters")
        .as_object()
        .into_iter()
        .flatten()
    {
        let value = value.as_str().unwrap_or_default().to_owned();
        match key.strip_prefix(RESERVED) {
            None => {
                parameters.insert(key.clone(), value);
            }
            Some("snapshotter-secret-name" | "snapshotter-list-secret-name") => {
                secrets.insert(value, String::new());
            }
            Some("snapshotter-secret-namespace" | "snapshotter-list-secret-namespace") => {}
            Some(_) => return Err(format!("the class has the unknown parameter {key}")),
        }
    }

    let name = content.metadata.name.as_deref();
    for (key, value) in [
        ("volumesnapshot/name", text(spec, "/volumeSnapshotRef/name")),
        (
            "volumesnapshot/namespace",
            text(spec, "/volumeSnapshotRef/namespace"),
        ),
        ("volumesnapshotcontent/name", name),
    ] {
        let value = value.unwrap_or_default().to_owned();
        parameters.insert(format!("{RESERVED}{key}"), value);
    }
    Ok(CreateSnapshotRequest {
        source_volume_id: volume.to_owned(),
        name: format!("snapshot-{uid}"),
        secrets,
        parameters,
        // Like csi-snapshotter: the cloud puts a snapshot where its volume is.
        accessibility_requirements: None,
    })
}

/// Returns the merge patch that marks an object before the cloud is asked; `None` if it is marked.
pub(super) fn marked(content: &Content) -> Option<Value> {
    let mark = json!({BEING_CREATED: "yes"});
    let is_marked = annotation(content, BEING_CREATED).is_some();
    (!is_marked).then(|| json!({"metadata": {"uid": content.metadata.uid, "annotations": mark}}))
}

/// Returns the merge patch that removes the mark.
pub(super) fn unmarked(content: &Content) -> Value {
    let mark = json!({BEING_CREATED: null});
    json!({"metadata": {"uid": content.metadata.uid, "annotations": mark}})
}

/// Returns the merge patch of the status of a snapshot (`updateSnapshotContentStatus`). What it has of
/// handle, time and size is not changed.
pub(super) fn found(content: &Content, snapshot: &Snapshot, now: &Time) -> Value {
    let created = snapshot.creation_time.as_ref().map_or_else(
        || now.0.as_nanosecond(),
        |it| i128::from(it.seconds) * 1_000_000_000 + i128::from(it.nanos),
    );
    let mut status = json!({"readyToUse": snapshot.ready_to_use});
    if let Some(fields) = status.as_object_mut() {
        let mut add = |key: &str, value: Value| {
            if content.status.get(key).is_none_or(Value::is_null) {
                fields.insert(key.to_owned(), value);
            }
        };
        add("snapshotHandle", json!(snapshot.snapshot_id));
        add(
            "creationTime",
            json!(i64::try_from(created).unwrap_or_default()),
        );
        if snapshot.size_bytes > 0 {
            add("restoreSize", json!(snapshot.size_bytes));
        }
        if snapshot.ready_to_use {
            fields.insert("error".to_owned(), Value::Null);
        }
    }
    json!({"metadata": {"uid": content.metadata.uid}, "status": status})
}

/// Returns the merge patch of the status after a failure; `None` if it says the same
/// (`updateContentErrorStatusWithEvent`).
pub(super) fn failed(content: &Content, message: &str, now: &Time) -> Option<Value> {
    if text(&content.status, "/error/message") == Some(message) {
        return None;
    }
    let error = json!({"message": message, "time": now});
    let status = json!({"readyToUse": false, "error": error});
    Some(json!({"metadata": {"uid": content.metadata.uid}, "status": status}))
}

/// Returns the merge patch of the status of a snapshot that was deleted (`clearVolumeContentStatus`).
pub(super) fn cleared(content: &Content) -> Value {
    let status = json!({
        "snapshotHandle": null, "readyToUse": null, "creationTime": null, "restoreSize": null,
    });
    json!({"metadata": {"uid": content.metadata.uid}, "status": status})
}

/// Returns the JSON patch that removes the finalizer; `None` if there is none. The finalizers of others stay,
/// whatever has changed: with other ones, it fails.
pub(super) fn released(content: &Content) -> Option<Value> {
    let mut all = content.metadata.finalizers.iter().flatten();
    let at = all.position(|it| it == FINALIZER)?;
    let path = format!("/metadata/finalizers/{at}");
    Some(json!([
        {"op": "test", "path": "/metadata/uid", "value": content.metadata.uid},
        {"op": "test", "path": path, "value": FINALIZER},
        {"op": "remove", "path": path},
    ]))
}

/// Returns true if a change may need work. The status and the mark are written here: a snapshot that is not
/// ready is marked and unmarked for each request, after a delay. When the mark of an object that is being
/// deleted is removed, its snapshot can be deleted.
pub(super) fn is_news(old: &Content, new: &Content) -> bool {
    let needs = |it: &Content| {
        let mut annotations = it.metadata.annotations.clone().unwrap_or_default();
        annotations.remove(BEING_CREATED);
        let is_deleted = it.metadata.deletion_timestamp.is_some();
        (it.metadata.uid.clone(), annotations, is_deleted)
    };
    let may_be_deleted = !is_to_be_deleted(old) && is_to_be_deleted(new);
    old.spec != new.spec || needs(old) != needs(new) || may_be_deleted
}

#[cfg(test)]
mod tests;
