//! Decides what to do about a VolumeAttachment and a PersistentVolume, as csi-attacher does.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        core::v1::{CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec},
        storage::v1::{CSINode, VolumeAttachment},
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde_json::{Value, json};
use skydock_cloud::Pairs;
use skydock_csi::proto::{ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest};

use crate::{capability, finalizer, request::secrets};

/// Annotation of a VolumeAttachment: the CSI node ID, for when the node has no driver any more
/// (`vaNodeIDAnnotation`).
const NODE_ID: &str = "csi.alpha.kubernetes.io/node-id";

/// A VolumeAttachment, and what it is about.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    /// Name of the driver.
    pub(super) driver: &'a str,
    pub(super) attachment: &'a VolumeAttachment,
    pub(super) volume: Option<&'a PersistentVolume>,
    pub(super) node: Option<&'a CSINode>,
    /// The cloud says something else than the status.
    pub(super) is_forced: bool,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Nothing,
    Attach(ControllerPublishVolumeRequest),
    Detach(ControllerUnpublishVolumeRequest),
}

/// Returns the finalizer of PersistentVolumes and VolumeAttachments (`GetFinalizerName`).
pub(super) fn finalizer(driver: &str) -> String {
    let plain = |it: char| if it.is_ascii_alphanumeric() { it } else { '-' };
    let name: String = driver.chars().map(plain).collect();
    let end = if name.ends_with('-') { "X" } else { "" };
    format!("external-attacher/{name}{end}")
}

/// Returns what to do about a VolumeAttachment (`syncAttach`, `syncDetach`).
///
/// # Errors
/// Why it cannot be attached or detached.
pub(super) fn step(seen: Seen<'_>) -> Result<Step, String> {
    let VolumeAttachment {
        metadata,
        spec,
        status,
    } = seen.attachment;
    if spec.attacher != seen.driver {
        return Ok(Step::Nothing);
    }

    let is_attached = status.as_ref().is_some_and(|it| it.attached);
    match &metadata.deletion_timestamp {
        None if is_attached && !seen.is_forced => Ok(Step::Nothing),
        None => attach(seen).map(Step::Attach),
        // Nobody has attached it, or it is detached.
        Some(_) if !finalizer::has(metadata, &finalizer(seen.driver)) => Ok(Step::Nothing),
        Some(_) => detach(seen).map(Step::Detach),
    }
}

/// Everything is checked before the finalizers are added, with which neither object can be deleted
/// (`csiAttach`).
fn attach(seen: Seen<'_>) -> Result<ControllerPublishVolumeRequest, String> {
    if let Some(volume) = seen.volume
        && volume.metadata.deletion_timestamp.is_some()
    {
        return Err("the PersistentVolume is being deleted".to_owned());
    }

    let (spec, source) = source(seen)?;
    let mode = capability::mode(spec.access_modes.as_deref().unwrap_or_default())?;
    let used = capability::capability(
        mode,
        spec.volume_mode.as_deref(),
        source.fs_type.as_deref().unwrap_or_default(),
        spec.mount_options.as_deref(),
    );
    Ok(ControllerPublishVolumeRequest {
        volume_id: source.volume_handle.clone(),
        node_id: current_node_id(seen)?,
        volume_capability: Some(used),
        // For drivers with PUBLISH_READONLY, which those of plugins do not have.
        readonly: false,
        secrets: secrets(source.controller_publish_secret_ref.as_ref()),
        volume_context: source.volume_attributes.clone().unwrap_or_default(),
    })
}

fn detach(seen: Seen<'_>) -> Result<ControllerUnpublishVolumeRequest, String> {
    let (_, source) = source(seen)?;
    // A node that is gone, or whose driver is not running, must not keep the volume.
    let node_id = current_node_id(seen).or_else(|error| known_node_id(seen).ok_or(error))?;
    Ok(ControllerUnpublishVolumeRequest {
        volume_id: source.volume_handle.clone(),
        node_id,
        secrets: secrets(source.controller_publish_secret_ref.as_ref()),
    })
}

/// Returns the volume of an attachment. One of another driver is not touched, whatever the attachment says.
fn source<'a>(
    seen: Seen<'a>,
) -> Result<(&'a PersistentVolumeSpec, &'a CSIPersistentVolumeSource), String> {
    let source = &seen.attachment.spec.source;
    let spec = match (&source.persistent_volume_name, &source.inline_volume_spec) {
        (Some(_), Some(_)) => return Err("spec.source has two volumes".to_owned()),
        (None, None) => return Err("spec.source has no volume".to_owned()),
        (None, Some(spec)) => spec,
        (Some(name), None) => {
            let missing = || format!("PersistentVolume {name} does not exist");
            let volume = seen.volume.ok_or_else(missing)?;
            volume.spec.as_ref().ok_or_else(missing)?
        }
    };

    let Some(csi) = &spec.csi else {
        return Err("the volume is not one of a CSI driver".to_owned());
    };
    if csi.driver != seen.driver {
        let (driver, ours) = (&csi.driver, seen.driver);
        return Err(format!("the volume is one of {driver}, not of {ours}"));
    }
    Ok((spec, csi))
}

/// Returns the node ID that the driver has on the node (`getNodeID`).
fn current_node_id(seen: Seen<'_>) -> Result<String, String> {
    let name = &seen.attachment.spec.node_name;
    let node = seen.node;
    let node = node.ok_or_else(|| format!("CSINode {name} does not exist"))?;

    let mut drivers = node.spec.drivers.iter();
    // In a request, no ID means all nodes.
    let driver = drivers.find(|it| it.name == seen.driver && !it.node_id.is_empty());
    let missing = || format!("CSINode {name} does not contain driver {}", seen.driver);
    driver.map(|it| it.node_id.clone()).ok_or_else(missing)
}

fn known_node_id(seen: Seen<'_>) -> Option<String> {
    let annotations = seen.attachment.metadata.annotations.as_ref()?;
    annotations
        .get(NODE_ID)
        .filter(|id| !id.is_empty())
        .cloned()
}

/// Returns the patch that must be written to a VolumeAttachment before its volume is attached to this node,
/// so that it is detached, whatever happens; `None` if it has all (`prepareVAFinalizer`, `prepareVANodeID`).
pub(super) fn preparation(
    attachment: &VolumeAttachment,
    finalizer: &str,
    node_id: &str,
) -> Option<Value> {
    let metadata = &attachment.metadata;
    let annotations = metadata.annotations.as_ref();
    let known = annotations.and_then(|all| all.get(NODE_ID));
    if finalizer::has(metadata, finalizer) && known.is_some_and(|it| it == node_id) {
        return None;
    }

    let mut patch = finalizer::added(metadata, finalizer);
    if let Some(Value::Object(fields)) = patch.get_mut("metadata") {
        fields.insert("annotations".to_owned(), json!({NODE_ID: node_id}));
    }
    Some(patch)
}

/// Returns the merge patch of the status of an attached volume (`markAsAttached`).
pub(super) fn attached(attachment: &VolumeAttachment, context: &Pairs) -> Value {
    let old = attachment.status.as_ref();
    let old = old.and_then(|it| it.attachment_metadata.as_ref());
    let gone = old.into_iter().flatten().map(|(key, _)| (key, Value::Null));
    let mut values: BTreeMap<&String, Value> = gone.collect();
    values.extend(context.iter().map(|(key, value)| (key, json!(value))));

    json!({
        "metadata": {"uid": attachment.metadata.uid},
        "status": {"attached": true, "attachmentMetadata": values, "attachError": null},
    })
}

/// Returns the merge patch of the status of a detached volume (`markAsDetached`).
pub(super) fn detached(attachment: &VolumeAttachment) -> Value {
    json!({
        "metadata": {"uid": attachment.metadata.uid},
        "status": {"attached": false, "attachmentMetadata": null, "detachError": null},
    })
}

/// Returns the merge patch of the status after a failure. `field` is `attachError` or `detachError`. The
/// code says whether the node has room for more volumes (`saveAttachError`).
pub(super) fn failed(
    attachment: &VolumeAttachment,
    field: &str,
    message: &str,
    code: Option<i32>,
    time: &Time,
) -> Value {
    json!({
        "metadata": {"uid": attachment.metadata.uid},
        "status": {field: {"message": message, "errorCode": code, "time": time}},
    })
}

/// Returns true if a change of a VolumeAttachment may need work. Errors, finalizer and node ID are written by
/// this controller: to work again because of them would repeat a request, and ignore the delay after a
/// failure (`shouldEnqueueVAChange`).
pub(super) fn is_news(old: &VolumeAttachment, new: &VolumeAttachment) -> bool {
    let needs = |it: &VolumeAttachment| {
        let is_attached = it.status.as_ref().is_some_and(|status| status.attached);
        (it.metadata.deletion_timestamp.is_some(), is_attached)
    };
    old.metadata.uid != new.metadata.uid || old.spec != new.spec || needs(old) != needs(new)
}

/// Returns true if a PersistentVolume has a finalizer that nothing needs: it is being deleted, and there is
/// no VolumeAttachment for it (`SyncNewOrUpdatedPersistentVolume`).
pub(super) fn is_released<'a>(
    volume: &PersistentVolume,
    finalizer: &str,
    attachments: impl IntoIterator<Item = &'a VolumeAttachment>,
) -> bool {
    let name = volume.metadata.name.as_ref();
    let is_of_it = |it: &VolumeAttachment| it.spec.source.persistent_volume_name.as_ref() == name;

    volume.metadata.deletion_timestamp.is_some()
        && finalizer::has(&volume.metadata, finalizer)
        && !attachments.into_iter().any(is_of_it)
}

/// Returns true if the cloud says something else about a volume than the VolumeAttachment: it has to be
/// attached or detached again (`ReconcileVA`). `nodes` has the node IDs for each volume.
pub(super) fn differs(seen: Seen<'_>, nodes: &BTreeMap<String, Vec<String>>) -> bool {
    if seen.attachment.spec.attacher != seen.driver {
        return false;
    }
    let node_id = current_node_id(seen).ok().or_else(|| known_node_id(seen));
    let (Some(node_id), Ok((_, source))) = (node_id, source(seen)) else {
        return false;
    };

    let listed = nodes.get(&source.volume_handle);
    let is_listed = listed.is_some_and(|all| all.contains(&node_id));
    let status = seen.attachment.status.as_ref();
    status.is_some_and(|it| it.attached) != is_listed
}

#[cfg(test)]
mod tests;
