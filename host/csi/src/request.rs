//! Checks requests of CSI, and converts them to questions for the plugin.
//!
//! What is wrong with a request is always [final](crate::failure::Code::is_final): it is found before
//! anything is created, and a retry would be the same.

use skydock_cloud::{
    AccessMode, Attachment, Capability, CapacityRequest, CsiDriver, Expansion, Modification,
    NewAttachment, NewSnapshot, NewVolume, Owner, Pairs, ProviderInfo, SizeRange, SnapshotId,
    VolumeCapability, VolumeId, VolumeSource, text::is_plain,
};

use crate::{
    failure::{Code, Failure},
    proto::{
        self, volume_capability::AccessType, volume_capability::access_mode::Mode,
        volume_content_source::Type as Source,
    },
};

/// Maximum bytes of a name or the type of a file system, as CSI has it for all texts.
const MAX_NAME: usize = 128;

/// Maximum bytes of the ID of a volume or a snapshot, as it may be in the plugin's answers.
const MAX_ID: usize = 1024;

/// Maximum bytes of a CSI node ID, as CSI has it.
const MAX_NODE: usize = 256;

/// Maximum bytes of a map with its keys. CSI has 4 KiB for each; sidecars add the names of objects.
const MAX_PAIRS: usize = 8 << 10;

/// Maximum number of capabilities of a volume. Kubernetes has one for each of four access modes.
const MAX_CAPABILITIES: usize = 64;

/// Maximum number of topologies. csi-provisioner sends each part of the cloud that has a node.
const MAX_TOPOLOGIES: usize = 1000;

/// Maximum bytes of the key of a label, and of its value.
const MAX_KEY: usize = 317;
const MAX_LABEL: usize = 63;

/// Prefix of the parameters that sidecars add.
const OURS: &str = "csi.storage.k8s.io/";

/// Returns the driver, if the plugin serves volumes.
///
/// # Errors
/// [`Code::Unavailable`], because another configuration may bring it back.
pub(crate) fn driver(info: &ProviderInfo) -> Result<&CsiDriver, Failure> {
    let none = || Failure::unavailable("the plugin in service has no volumes");
    info.driver.as_ref().ok_or_else(none)
}

/// Checks that the plugin has a capability.
pub(crate) fn has(info: &ProviderInfo, capability: Capability) -> Result<(), Failure> {
    if info.can(capability) {
        return Ok(());
    }
    let message = format!("the plugin in service does not export `{capability}`");
    Err(Failure::new(Code::Unimplemented, message))
}

/// Rejects Secrets. Plugins never see any: the host adds credentials to their requests.
fn without_secrets(secrets: &Pairs) -> Result<(), Failure> {
    if secrets.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid(
        "Skydock passes no Secrets to plugins: remove the `csi.storage.k8s.io/…-secret-…` parameters \
         of the class, and bind credentials to an egress rule",
    ))
}

/// Returns an ID or a name, which must not be empty.
fn required(field: &str, value: String, max: usize) -> Result<String, Failure> {
    if value.is_empty() {
        return Err(Failure::invalid(format!("{field} is missing")));
    }
    short(field, value, max)
}

/// Returns a text, unless it is too long: messages repeat it.
fn short(field: &str, value: String, max: usize) -> Result<String, Failure> {
    at_most(field, value.len(), max, "bytes")?;
    Ok(value)
}

/// Returns a map, unless it is too long. A request shares a call of the plugin with others.
fn pairs(field: &str, pairs: Pairs) -> Result<Pairs, Failure> {
    let bytes = pairs.iter().map(|(key, text)| key.len() + text.len());
    at_most(field, bytes.sum(), MAX_PAIRS, "bytes")?;
    Ok(pairs)
}

fn at_most(field: &str, count: usize, max: usize, unit: &str) -> Result<(), Failure> {
    if count > max {
        let message = format!("{field} has {count} {unit}; expected at most {max}");
        return Err(Failure::invalid(message));
    }
    Ok(())
}

fn volume_id(id: String) -> Result<VolumeId, Failure> {
    required("volume_id", id, MAX_ID).map(VolumeId)
}

fn snapshot_id(id: String) -> Result<SnapshotId, Failure> {
    required("snapshot_id", id, MAX_ID).map(SnapshotId)
}

fn name(name: String) -> Result<String, Failure> {
    let name = required("name", name, MAX_NAME)?;
    if !is_plain(&name) {
        return Err(Failure::invalid("name is not plain text"));
    }
    Ok(name)
}

/// Returns the volume that a claim needs.
pub(crate) fn new_volume(
    request: proto::CreateVolumeRequest,
    info: &ProviderInfo,
) -> Result<NewVolume, Failure> {
    let driver = driver(info)?;
    without_secrets(&request.secrets)?;

    let mut parameters = pairs("parameters", request.parameters)?;
    let claim = take_owner(&mut parameters, "pvc");
    let attributes = pairs("mutable_parameters", request.mutable_parameters)?;
    if !attributes.is_empty() && !info.can(Capability::VolumeAttributes) {
        let message = "this driver has no VolumeAttributesClasses";
        return Err(Failure::invalid(message));
    }

    let topology = request.accessibility_requirements.unwrap_or_default();
    Ok(NewVolume {
        name: name(request.name)?,
        size: size(request.capacity_range.unwrap_or_default())?,
        capabilities: capabilities(request.volume_capabilities, driver)?,
        parameters,
        attributes,
        source: request
            .volume_content_source
            .map(|it| source(it, info))
            .transpose()?,
        requisite: topologies(topology.requisite, driver)?,
        preferred: topologies(topology.preferred, driver)?,
        claim,
    })
}

/// Takes the object of the user out of the parameters, and what else sidecars have added.
fn take_owner(parameters: &mut Pairs, kind: &str) -> Option<Owner> {
    let mut take = |field| parameters.remove(&format!("{OURS}{kind}/{field}"));
    let owner = take("namespace").zip(take("name"));
    parameters.retain(|key, _| !key.starts_with(OURS));

    owner.map(|(namespace, name)| Owner {
        namespace,
        name,
        annotations: Pairs::new(),
    })
}

fn size(range: proto::CapacityRange) -> Result<SizeRange, Failure> {
    let number = |field: &str, bytes: i64| {
        let negative = |_| Failure::invalid(format!("{field} is negative"));
        u64::try_from(bytes).map_err(negative)
    };
    let bytes = number("required_bytes", range.required_bytes)?;
    let limit = number("limit_bytes", range.limit_bytes)?;

    // 0 is CSI's absent.
    let limit = Some(limit).filter(|limit| *limit > 0);
    if limit.is_some_and(|limit| limit < bytes) {
        return Err(Failure::invalid("limit_bytes is less than required_bytes"));
    }
    Ok(SizeRange { bytes, limit })
}

fn capabilities(
    all: Vec<proto::VolumeCapability>,
    driver: &CsiDriver,
) -> Result<Vec<VolumeCapability>, Failure> {
    if all.is_empty() {
        return Err(Failure::invalid("volume_capabilities is missing"));
    }
    checked(all, driver)
}

fn checked(
    all: Vec<proto::VolumeCapability>,
    driver: &CsiDriver,
) -> Result<Vec<VolumeCapability>, Failure> {
    at_most(
        "volume_capabilities",
        all.len(),
        MAX_CAPABILITIES,
        "elements",
    )?;
    all.into_iter().map(|it| capability(it, driver)).collect()
}

fn capability(
    capability: proto::VolumeCapability,
    driver: &CsiDriver,
) -> Result<VolumeCapability, Failure> {
    let file_system = match capability.access_type {
        Some(AccessType::Block(_)) => None,
        Some(AccessType::Mount(mount)) => Some(short("fs_type", mount.fs_type, MAX_NAME)?),
        None => return Err(Failure::invalid("access_type is missing")),
    };

    let mode = capability.access_mode.unwrap_or_default().mode();
    let mode = access_mode(mode).ok_or_else(|| Failure::invalid("access_mode is missing"))?;
    if !driver.access_modes.contains(&mode) {
        let message = format!("volumes of {} cannot be used as {mode:?}", driver.name);
        return Err(Failure::invalid(message));
    }

    Ok(VolumeCapability { mode, file_system })
}

fn access_mode(mode: Mode) -> Option<AccessMode> {
    Some(match mode {
        Mode::Unknown => return None,
        // How many Pods of a node write is the kubelet's business.
        Mode::SingleNodeWriter | Mode::SingleNodeSingleWriter | Mode::SingleNodeMultiWriter => {
            AccessMode::SingleNodeWriter
        }
        Mode::SingleNodeReaderOnly => AccessMode::SingleNodeReaderOnly,
        Mode::MultiNodeReaderOnly => AccessMode::MultiNodeReaderOnly,
        Mode::MultiNodeSingleWriter => AccessMode::MultiNodeSingleWriter,
        Mode::MultiNodeMultiWriter => AccessMode::MultiNodeMultiWriter,
    })
}

fn source(
    source: proto::VolumeContentSource,
    info: &ProviderInfo,
) -> Result<VolumeSource, Failure> {
    match source.r#type {
        Some(Source::Snapshot(it)) if info.can(Capability::Snapshots) => {
            Ok(VolumeSource::Snapshot(snapshot_id(it.snapshot_id)?))
        }
        Some(Source::Volume(it)) if driver(info)?.clones => {
            Ok(VolumeSource::Volume(volume_id(it.volume_id)?))
        }
        Some(_) => Err(Failure::invalid("this driver has no such content source")),
        None => Err(Failure::invalid(
            "the type of the content source is missing",
        )),
    }
}

fn topologies(all: Vec<proto::Topology>, driver: &CsiDriver) -> Result<Vec<Pairs>, Failure> {
    at_most("topologies", all.len(), MAX_TOPOLOGIES, "elements")?;
    let convert = |topology: proto::Topology| {
        for (key, value) in &topology.segments {
            at_most("a key of a topology", key.len(), MAX_KEY, "bytes")?;
            if !driver.topology_keys.contains(key) {
                let message = format!("{} has no topology {key}", driver.name);
                return Err(Failure::invalid(message));
            }
            at_most("a value of a topology", value.len(), MAX_LABEL, "bytes")?;
        }
        Ok(topology.segments)
    };
    all.into_iter().map(convert).collect()
}

/// Returns the volume to delete.
pub(crate) fn deleted_volume(request: proto::DeleteVolumeRequest) -> Result<VolumeId, Failure> {
    without_secrets(&request.secrets)?;
    volume_id(request.volume_id)
}

/// Returns the attachment that a Pod needs.
pub(crate) fn new_attachment(
    request: proto::ControllerPublishVolumeRequest,
    info: &ProviderInfo,
) -> Result<NewAttachment, Failure> {
    let driver = driver(info)?;
    without_secrets(&request.secrets)?;

    let volume = volume_id(request.volume_id)?;
    let node = required("node_id", request.node_id, MAX_NODE)?;
    let missing = || Failure::invalid("volume_capability is missing");
    let used = request.volume_capability.ok_or_else(missing)?;
    if request.readonly {
        let message = "this driver does not attach volumes for reading only";
        return Err(Failure::invalid(message));
    }

    Ok(NewAttachment {
        volume,
        node,
        capability: capability(used, driver)?,
        context: pairs("volume_context", request.volume_context)?,
    })
}

/// Returns the attachment that is not needed any more.
pub(crate) fn attachment(
    request: proto::ControllerUnpublishVolumeRequest,
) -> Result<Attachment, Failure> {
    without_secrets(&request.secrets)?;
    let node = short("node_id", request.node_id, MAX_NODE)?;
    Ok(Attachment {
        volume: volume_id(request.volume_id)?,
        node: Some(node).filter(|node| !node.is_empty()),
    })
}

/// Returns the size that a claim needs, and whether the volume is used as a block device.
pub(crate) fn expansion(
    request: proto::ControllerExpandVolumeRequest,
) -> Result<(Expansion, bool), Failure> {
    without_secrets(&request.secrets)?;
    let volume = volume_id(request.volume_id)?;
    let missing = || Failure::invalid("capacity_range is missing");
    let size = size(request.capacity_range.ok_or_else(missing)?)?;

    let used = request.volume_capability.and_then(|it| it.access_type);
    let is_block = matches!(used, Some(AccessType::Block(_)));
    Ok((Expansion { volume, size }, is_block))
}

/// Returns the properties that a claim needs.
pub(crate) fn modification(
    request: proto::ControllerModifyVolumeRequest,
) -> Result<Modification, Failure> {
    without_secrets(&request.secrets)?;
    Ok(Modification {
        volume: volume_id(request.volume_id)?,
        attributes: pairs("mutable_parameters", request.mutable_parameters)?,
    })
}

/// Returns the volume that is to be validated, or why it cannot be used like this.
pub(crate) fn validated(
    request: &proto::ValidateVolumeCapabilitiesRequest,
    info: &ProviderInfo,
) -> Result<(VolumeId, Result<(), Failure>), Failure> {
    let driver = driver(info)?;
    without_secrets(&request.secrets)?;
    let volume = volume_id(request.volume_id.clone())?;
    if request.volume_capabilities.is_empty() {
        return Err(Failure::invalid("volume_capabilities is missing"));
    }
    let fits = capabilities(request.volume_capabilities.clone(), driver);
    Ok((volume, fits.map(drop)))
}

/// Returns the volume to read.
pub(crate) fn volume(request: proto::ControllerGetVolumeRequest) -> Result<VolumeId, Failure> {
    volume_id(request.volume_id)
}

/// Returns what to measure.
pub(crate) fn capacity(
    request: proto::GetCapacityRequest,
    info: &ProviderInfo,
) -> Result<CapacityRequest, Failure> {
    let driver = driver(info)?;
    let mut parameters = pairs("parameters", request.parameters)?;
    parameters.retain(|key, _| !key.starts_with(OURS));

    let topology = topologies(request.accessible_topology.into_iter().collect(), driver)?;
    Ok(CapacityRequest {
        capabilities: checked(request.volume_capabilities, driver)?,
        parameters,
        topology: topology.into_iter().next(),
    })
}

fn source_volume(id: String) -> Result<VolumeId, Failure> {
    required("source_volume_id", id, MAX_ID).map(VolumeId)
}

/// Returns the snapshot that a VolumeSnapshot needs.
pub(crate) fn new_snapshot(request: proto::CreateSnapshotRequest) -> Result<NewSnapshot, Failure> {
    without_secrets(&request.secrets)?;
    let mut parameters = pairs("parameters", request.parameters)?;
    let owner = take_owner(&mut parameters, "volumesnapshot");
    Ok(NewSnapshot {
        name: name(request.name)?,
        volume: source_volume(request.source_volume_id)?,
        parameters,
        owner,
    })
}

/// Returns the snapshot to delete.
pub(crate) fn deleted_snapshot(
    request: proto::DeleteSnapshotRequest,
) -> Result<SnapshotId, Failure> {
    without_secrets(&request.secrets)?;
    snapshot_id(request.snapshot_id)
}

/// Returns the snapshot to read.
pub(crate) fn snapshot(request: proto::GetSnapshotRequest) -> Result<SnapshotId, Failure> {
    without_secrets(&request.secrets)?;
    snapshot_id(request.snapshot_id)
}

/// What a list of snapshots is about: all of them, if it says nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshots {
    /// One snapshot, for which it is read and not listed.
    pub(crate) id: Option<SnapshotId>,
    /// Those of one volume.
    pub(crate) of: Option<VolumeId>,
}

/// Returns what a list of snapshots is about.
pub(crate) fn snapshots(request: &proto::ListSnapshotsRequest) -> Result<Snapshots, Failure> {
    without_secrets(&request.secrets)?;
    let some = |id: &str| Some(id.to_owned()).filter(|id| !id.is_empty());
    Ok(Snapshots {
        id: some(&request.snapshot_id).map(snapshot_id).transpose()?,
        of: some(&request.source_volume_id)
            .map(source_volume)
            .transpose()?,
    })
}

#[cfg(test)]
mod tests;
