//! Volumes and snapshots that a scenario wants.

use serde::Deserialize;
use skydock_cloud::{
    AccessMode, NewSnapshot, NewVolume, Pairs, SizeRange, SnapshotId, VolumeCapability, VolumeId,
    VolumeSource,
};

const GIB: u64 = 1 << 30;

/// A volume. What is not needed to create it is used by other calls.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct VolumeSpec {
    /// The name with which it is created.
    pub(crate) name: String,
    #[serde(default = "one", rename = "sizeGiB")]
    size_gib: u32,
    #[serde(rename = "limitGiB")]
    limit_gib: Option<u32>,
    /// Of the StorageClass.
    #[serde(default)]
    pub(crate) parameters: Pairs,
    /// Of the VolumeAttributesClass.
    #[serde(default)]
    pub(crate) attributes: Pairs,
    /// The only part of the cloud where it may be; any by default.
    pub(crate) topology: Option<Pairs>,
    /// Name of the snapshot that it begins with.
    pub(crate) snapshot: Option<String>,
    /// Used as a block device.
    #[serde(default)]
    block: bool,
    /// CSI node ID of the node that it is attached to, or detached from.
    pub(crate) node: Option<String>,
}

/// A snapshot of a volume.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotSpec {
    /// The name with which it is created.
    pub(crate) name: String,
    /// Name of the volume.
    pub(crate) volume: String,
    /// Of the VolumeSnapshotClass.
    #[serde(default)]
    parameters: Pairs,
}

fn one() -> u32 {
    1
}

impl VolumeSpec {
    /// Returns what it is created with.
    pub(crate) fn volume(&self, snapshot: Option<SnapshotId>) -> NewVolume {
        NewVolume {
            name: self.name.clone(),
            size: self.size(),
            capabilities: vec![self.capability()],
            parameters: self.parameters.clone(),
            attributes: self.attributes.clone(),
            source: snapshot.map(VolumeSource::Snapshot),
            requisite: self.topology.iter().cloned().collect(),
            preferred: self.topology.iter().cloned().collect(),
            claim: None,
        }
    }

    pub(crate) fn size(&self) -> SizeRange {
        SizeRange {
            bytes: u64::from(self.size_gib) * GIB,
            limit: self.limit_gib.map(|gib| u64::from(gib) * GIB),
        }
    }

    pub(crate) fn capability(&self) -> VolumeCapability {
        VolumeCapability {
            mode: AccessMode::SingleNodeWriter,
            file_system: (!self.block).then(|| "ext4".to_owned()),
        }
    }
}

impl SnapshotSpec {
    /// Returns what it is created with.
    pub(crate) fn snapshot(&self, volume: VolumeId) -> NewSnapshot {
        NewSnapshot {
            name: self.name.clone(),
            volume,
            parameters: self.parameters.clone(),
            owner: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_has_the_fields_that_are_given() {
        let text = "{name: a, sizeGiB: 2, limitGiB: 3, topology: {zone: z}, block: true}";
        let spec: VolumeSpec = serde_saphyr::from_str(text).unwrap();
        let volume = spec.volume(Some(SnapshotId("s".into())));
        assert_eq!(
            (volume.size.bytes, volume.size.limit),
            (2 * GIB, Some(3 * GIB))
        );
        assert_eq!(
            volume.requisite,
            [Pairs::from([("zone".into(), "z".into())])]
        );
        assert_eq!(volume.capabilities[0].file_system, None);
        assert!(matches!(volume.source, Some(VolumeSource::Snapshot(_))));

        let spec: VolumeSpec = serde_saphyr::from_str("name: a").unwrap();
        let volume = spec.volume(None);
        assert_eq!((volume.size.bytes, volume.size.limit), (GIB, None));
        assert!(volume.source.is_none() && volume.requisite.is_empty());
    }
}
