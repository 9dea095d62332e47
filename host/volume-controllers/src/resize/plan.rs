//! Decides when the volume of a claim has to be expanded, and what is written about it, as csi-resizer does
//! (`expandAndRecover`, `resize_status.go`).

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimCondition,
        PersistentVolumeClaimStatus,
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time},
};
use serde_json::{Value, json};
use skydock_csi::proto::{CapacityRange, ControllerExpandVolumeRequest};

use crate::{capability, quantity, request::secrets};

/// The resource of claims and volumes.
const STORAGE: &str = "storage";

/// Annotation of a PersistentVolume: the size of its claim before the expansion, until the node part has
/// expanded the file system (`AnnPreResizeCapacity`).
const SIZE_BEFORE: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

/// Annotation of a claim: a kubelet has nothing to do (`NodeExpansionNotRequired`).
const NOT_ON_NODE: &str = "volume.kubernetes.io/node-expansion-not-required";

/// Conditions about expansions (`knownResizeConditions`).
const CONDITIONS: [&str; 4] = [
    "Resizing",
    "FileSystemResizePending",
    "ControllerResizeError",
    "NodeResizeError",
];

/// An expansion.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expansion {
    /// The size that is asked for.
    pub(super) size: Quantity,
    /// The status does not have this size yet.
    pub(super) is_new: bool,
}

/// Returns a size of a list of resources in bytes.
fn size(resources: Option<&BTreeMap<String, Quantity>>) -> Option<i64> {
    resources?.get(STORAGE).and_then(quantity::bytes)
}

fn status(claim: &PersistentVolumeClaim) -> PersistentVolumeClaimStatus {
    claim.status.clone().unwrap_or_default()
}

/// Returns true if a PersistentVolume is one of the driver, and bound to this claim (`pvCanBeExpanded`).
pub(super) fn is_of(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    driver: &str,
) -> bool {
    let spec = volume.spec.as_ref();
    let is_ours = spec
        .and_then(|it| it.csi.as_ref())
        .is_some_and(|it| it.driver == driver);
    let bound = spec.and_then(|it| it.claim_ref.as_ref());
    is_ours && bound.is_some_and(|it| it.uid == claim.metadata.uid)
}

/// Returns the expansion that a claim needs (`pvcNeedResize`, `expandAndRecover`). `has_failed` says that the
/// last one has ended with an error, so that another size may be asked for.
pub(super) fn expansion(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    has_failed: bool,
) -> Option<Expansion> {
    let status = status(claim);
    let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    let wanted = requests.get(STORAGE)?;
    let (asked, has) = (quantity::bytes(wanted)?, size(status.capacity.as_ref())?);
    if status.phase.as_deref() != Some("Bound") || asked <= has {
        return None;
    }

    let allocated = status
        .allocated_resources
        .as_ref()
        .and_then(|all| all.get(STORAGE));
    let earlier = allocated.unwrap_or(wanted);
    let state = status.allocated_resource_statuses.as_ref();
    let state = state
        .and_then(|all| all.get(STORAGE))
        .map_or("", String::as_str);
    let real = size(volume.spec.as_ref()?.capacity.as_ref())?;

    let target = match (real < asked, state) {
        (true, "NodeResizeInProgress" | "NodeResizePending") => {
            // The node part goes first.
            Some(earlier).filter(|it| quantity::bytes(it).is_some_and(|bytes| real < bytes))?
        }
        (true, "NodeResizeInfeasible") => earlier,
        (true, "ControllerResizeInProgress") if !has_failed => earlier,
        (true, _) => wanted,
        (false, "NodeResizeInProgress" | "NodeResizePending") => return None,
        (
            false,
            "NodeResizeInfeasible" | "ControllerResizeInProgress" | "ControllerResizeInfeasible",
        ) => earlier,
        (false, _) if allocated.is_some() => earlier,
        (false, _) if has_condition(&status, "FileSystemResizePending") => return None,
        (false, _) => wanted,
    };
    let is_new = allocated.and_then(quantity::bytes) != quantity::bytes(target);
    Some(Expansion {
        size: target.clone(),
        is_new,
    })
}

fn has_condition(status: &PersistentVolumeClaimStatus, condition: &str) -> bool {
    let mut all = status.conditions.iter().flatten();
    all.any(|it| it.type_ == condition && it.status == "True")
}

/// Returns the request for an expansion (`Resize`).
///
/// # Errors
/// Why there is none.
pub(super) fn request(
    volume: &PersistentVolume,
    expansion: &Expansion,
) -> Result<ControllerExpandVolumeRequest, String> {
    let spec = volume
        .spec
        .as_ref()
        .ok_or("the PersistentVolume has no spec")?;
    let csi = spec
        .csi
        .as_ref()
        .ok_or("the volume is not one of a CSI driver")?;
    let mode = capability::mode(spec.access_modes.as_deref().unwrap_or_default())?;
    let used = capability::capability(
        mode,
        spec.volume_mode.as_deref(),
        csi.fs_type.as_deref().unwrap_or_default(),
        spec.mount_options.as_deref(),
    );
    Ok(ControllerExpandVolumeRequest {
        volume_id: csi.volume_handle.clone(),
        capacity_range: Some(CapacityRange {
            required_bytes: quantity::bytes(&expansion.size).unwrap_or_default(),
            limit_bytes: 0,
        }),
        secrets: secrets(csi.controller_expand_secret_ref.as_ref()),
        volume_capability: Some(used),
    })
}

/// Returns conditions with a new one. Others about expansions stay if `keeps` (`MergeResizeConditionsOfPVC`).
fn conditions(
    old: &[PersistentVolumeClaimCondition],
    new: Option<(&str, &str, &Time)>,
    keeps: bool,
) -> Vec<PersistentVolumeClaimCondition> {
    let is_kept = |it: &&PersistentVolumeClaimCondition| {
        let is_replaced = new.is_some_and(|(type_, ..)| it.type_ == type_);
        let is_about_size = CONDITIONS.contains(&it.type_.as_str());
        !is_replaced && (keeps || !is_about_size)
    };
    let mut all: Vec<_> = old.iter().filter(is_kept).cloned().collect();
    all.extend(
        new.map(|(type_, message, time)| PersistentVolumeClaimCondition {
            type_: type_.to_owned(),
            status: "True".to_owned(),
            last_transition_time: Some(time.clone()),
            message: Some(message.to_owned()).filter(|it| !it.is_empty()),
            ..PersistentVolumeClaimCondition::default()
        }),
    );
    all
}

/// The conditions of a claim, and its version, from one write to the next.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) version: Option<String>,
    conditions: Vec<PersistentVolumeClaimCondition>,
}

impl Written {
    pub(super) fn of(claim: &PersistentVolumeClaim) -> Self {
        Self {
            version: claim.metadata.resource_version.clone(),
            conditions: status(claim).conditions.unwrap_or_default(),
        }
    }

    /// Returns the merge patch of the status before a request (`markControllerResizeInProgress`).
    pub(super) fn begun(&mut self, expansion: &Expansion, time: &Time) -> Value {
        let keeps = !expansion.is_new;
        self.conditions = conditions(&self.conditions, Some(("Resizing", "", time)), keeps);
        let mut status = json!({
            "conditions": self.conditions,
            "allocatedResources": {STORAGE: expansion.size},
        });
        if let (true, Some(fields)) = (expansion.is_new, status.as_object_mut()) {
            let state = json!({STORAGE: "ControllerResizeInProgress"});
            fields.insert("allocatedResourceStatuses".to_owned(), state);
        }
        self.patch(&json!({NOT_ON_NODE: null}), &status)
    }

    /// Returns the merge patch of the status of a volume whose file system has to be expanded
    /// (`markForPendingNodeExpansion`).
    pub(super) fn pending(&mut self, time: &Time) -> Value {
        let message =
            "Waiting for user to (re-)start a pod to finish file system resize of volume on node.";
        let pending = Some(("FileSystemResizePending", message, time));
        self.conditions = conditions(&self.conditions, pending, true);
        let status = json!({
            "conditions": self.conditions,
            "allocatedResourceStatuses": {STORAGE: "NodeResizePending"},
        });
        self.patch(&json!({NOT_ON_NODE: null}), &status)
    }

    /// Returns the merge patch of the status of an expanded volume (`markOverallExpansionAsFinished`).
    pub(super) fn finished(&mut self, size: &Quantity) -> Value {
        self.conditions = conditions(&self.conditions, None, false);
        let status = json!({
            "conditions": self.conditions,
            "capacity": {STORAGE: size},
            "allocatedResourceStatuses": {STORAGE: null},
        });
        self.patch(&json!({NOT_ON_NODE: "true"}), &status)
    }

    /// Returns the merge patch of the status after a final error (`markControllerExpansionInfeasible`,
    /// `markControllerExpansionFailedCondition`).
    pub(super) fn failed(&mut self, message: &str, is_infeasible: bool, time: &Time) -> Value {
        let message = format!("failed to expand pvc with {message}");
        let error = Some(("ControllerResizeError", message.as_str(), time));
        self.conditions = conditions(&self.conditions, error, true);
        let mut status = json!({"conditions": self.conditions});
        if let (true, Some(fields)) = (is_infeasible, status.as_object_mut()) {
            let state = json!({STORAGE: "ControllerResizeInfeasible"});
            fields.insert("allocatedResourceStatuses".to_owned(), state);
        }
        self.patch(&Value::Null, &status)
    }

    fn patch(&self, annotations: &Value, status: &Value) -> Value {
        let mut metadata = json!({"resourceVersion": self.version});
        if let (false, Some(fields)) = (annotations.is_null(), metadata.as_object_mut()) {
            fields.insert("annotations".to_owned(), annotations.clone());
        }
        json!({"metadata": metadata, "status": status})
    }
}

/// Returns the merge patch of a PersistentVolume after the expansion (`updatePVCapacity`); `None` if it has
/// the size.
pub(super) fn resized(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    bytes: i64,
    on_node: bool,
) -> Option<Value> {
    let spec = volume.spec.as_ref();
    if size(spec.and_then(|it| it.capacity.as_ref())) == Some(bytes) {
        return None;
    }
    let mut metadata = json!({"uid": volume.metadata.uid});
    let before = status(claim)
        .capacity
        .and_then(|mut all| all.remove(STORAGE));
    if let (true, None, Some(before), Some(fields)) = (
        on_node,
        size_before(volume),
        before,
        metadata.as_object_mut(),
    ) {
        fields.insert("annotations".to_owned(), json!({SIZE_BEFORE: before}));
    }
    let size = quantity::of_bytes(bytes);
    Some(json!({"metadata": metadata, "spec": {"capacity": {STORAGE: size}}}))
}

fn size_before(volume: &PersistentVolume) -> Option<&String> {
    volume.metadata.annotations.as_ref()?.get(SIZE_BEFORE)
}

/// Returns the merge patch that removes the annotation of a PersistentVolume whose file system has its size
/// (`deletePreResizeCapAnnotation`).
pub(super) fn cleaned(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<Value> {
    size_before(volume)?;
    let has = size(status(claim).capacity.as_ref())?;
    let real = size(volume.spec.as_ref()?.capacity.as_ref())?;
    let uid = &volume.metadata.uid;
    (has >= real).then(|| json!({"metadata": {"uid": uid, "annotations": {SIZE_BEFORE: null}}}))
}

/// Returns true if a change of a claim may need work (`updatePVC`). What is written here is no reason.
pub(super) fn is_news(old: &PersistentVolumeClaim, new: &PersistentVolumeClaim) -> bool {
    let needs = |it: &PersistentVolumeClaim| {
        let spec = it.spec.as_ref();
        let asked = spec.and_then(|it| it.resources.as_ref()?.requests.as_ref());
        let status = status(it);
        let states = status.allocated_resource_statuses.unwrap_or_default();
        // Of the node part, or of nobody.
        let state = states
            .get(STORAGE)
            .filter(|it| !it.starts_with("Controller"))
            .cloned();
        (
            size(asked),
            size(status.capacity.as_ref()),
            state,
            status.phase,
        )
    };
    old.metadata.uid != new.metadata.uid || needs(old) != needs(new)
}

#[cfg(test)]
mod tests;
