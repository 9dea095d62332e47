//! Volumes, their attachments and their snapshots.

use std::time::Duration;

use crate::Pairs;

/// The cloud's ID of a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub String);

/// The cloud's ID of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(pub String);

/// The CSI driver whose controller part a provider is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiDriver {
    /// Name of the driver, for example `metal.csi.example.com`.
    pub name: String,
    /// Keys of the topology of volumes; empty if all nodes can reach all volumes.
    pub topology_keys: Vec<String>,
    /// How volumes can be used.
    pub access_modes: Vec<AccessMode>,
    /// True if a volume can be created as a copy of another one.
    pub clones: bool,
}

/// On how many nodes a volume is used, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessMode {
    /// On one node, for reading and writing.
    SingleNodeWriter,
    /// On one node, for reading.
    SingleNodeReaderOnly,
    /// On many nodes, for reading.
    MultiNodeReaderOnly,
    /// On many nodes, for reading, and on one of them also for writing.
    MultiNodeSingleWriter,
    /// On many nodes, for reading and writing.
    MultiNodeMultiWriter,
}

/// How Pods use a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeCapability {
    /// On how many nodes, and what for.
    pub mode: AccessMode,
    /// Type of the file system, empty for the default; `None` for a block device.
    pub file_system: Option<String>,
}

/// Where the first content of a volume comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VolumeSource {
    /// A snapshot.
    Snapshot(SnapshotId),
    /// Another volume.
    Volume(VolumeId),
}

/// The object of a user for which something is created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.annotations`, as far as they are known.
    pub annotations: Pairs,
}

/// A volume in the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// The cloud's ID.
    pub id: VolumeId,
    /// Its size.
    pub bytes: u64,
    /// The parts of the cloud from which it can be reached; empty for all.
    pub topology: Vec<Pairs>,
    /// What the node part of the driver needs to know about it.
    pub context: Pairs,
    /// CSI node IDs of the nodes that it is attached to.
    pub nodes: Vec<String>,
}

/// A volume that the cluster needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NewVolume {
    /// Unique name.
    pub name: String,
    /// How large it must be.
    pub size: SizeRange,
    /// How it will be used: in each of these ways.
    pub capabilities: Vec<VolumeCapability>,
    /// `parameters` of the StorageClass.
    pub parameters: Pairs,
    /// `parameters` of the VolumeAttributesClass.
    pub attributes: Pairs,
    /// Where its content comes from; `None` for an empty volume.
    pub source: Option<VolumeSource>,
    /// Parts of the cloud, from one of which it must be reachable; empty for any.
    pub requisite: Vec<Pairs>,
    /// Some of them, the best first.
    pub preferred: Vec<Pairs>,
    /// Its PersistentVolumeClaim, if that is known.
    pub claim: Option<Owner>,
}

/// The sizes that a volume may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SizeRange {
    /// Minimum number of bytes.
    pub bytes: u64,
    /// Maximum number of bytes; `None` if there is none.
    pub limit: Option<u64>,
}

impl SizeRange {
    /// Returns true for a size in the range.
    #[must_use]
    pub fn contains(self, bytes: u64) -> bool {
        bytes >= self.bytes && self.limit.is_none_or(|limit| bytes <= limit)
    }
}

/// An attachment that the cluster needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAttachment {
    /// The volume.
    pub volume: VolumeId,
    /// CSI node ID.
    pub node: String,
    /// How the volume will be used there.
    pub capability: VolumeCapability,
    /// [`Volume::context`] of when the volume was created.
    pub context: Pairs,
}

/// An attachment that the cluster does not need any more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attachment {
    /// The volume.
    pub volume: VolumeId,
    /// CSI node ID; `None` for all nodes that the volume is attached to.
    pub node: Option<String>,
}

/// A size that a volume needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expansion {
    /// The volume.
    pub volume: VolumeId,
    /// How large it must be.
    pub size: SizeRange,
}

/// The properties that a volume needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Modification {
    /// The volume.
    pub volume: VolumeId,
    /// `parameters` of the VolumeAttributesClass.
    pub attributes: Pairs,
}

/// A snapshot in the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The cloud's ID.
    pub id: SnapshotId,
    /// The volume that it is one of.
    pub volume: VolumeId,
    /// Minimum size of a volume that is created from it.
    pub bytes: u64,
    /// When it was cut, since 1970-01-01T00:00:00Z.
    pub created: Duration,
    /// True if volumes can be created from it.
    pub ready: bool,
}

/// A snapshot that the cluster needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewSnapshot {
    /// Unique name.
    pub name: String,
    /// The volume.
    pub volume: VolumeId,
    /// `parameters` of the VolumeSnapshotClass.
    pub parameters: Pairs,
    /// Its VolumeSnapshot, if that is known.
    pub owner: Option<Owner>,
}

/// What to measure.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapacityRequest {
    /// How the volumes would be used; empty if it does not matter.
    pub capabilities: Vec<VolumeCapability>,
    /// `parameters` of the StorageClass.
    pub parameters: Pairs,
    /// The part of the cloud; `None` for all parts together.
    pub topology: Option<Pairs>,
}

/// Room for volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes for all further volumes together.
    pub available: u64,
    /// Maximum bytes of one volume.
    pub maximum: Option<u64>,
    /// Minimum bytes of one volume.
    pub minimum: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_between_minimum_and_limit() {
        let table = [
            (10, None, 9, false),
            (10, None, 10, true),
            (10, None, u64::MAX, true),
            (10, Some(20), 20, true),
            (10, Some(20), 21, false),
            (10, Some(10), 10, true),
            (0, None, 0, true),
        ];
        for (bytes, limit, size, expected) in table {
            let range = SizeRange { bytes, limit };
            assert_eq!(range.contains(size), expected, "{size} in {range:?}");
        }
    }
}
