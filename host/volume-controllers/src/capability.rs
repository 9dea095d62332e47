//! How a volume is used, from the fields of Kubernetes to those of CSI.

use skydock_csi::proto::{
    VolumeCapability,
    volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume, access_mode::Mode},
};

/// `volumeMode` of block devices.
const BLOCK: &str = "Block";

/// Returns the access mode of CSI (`toCSIAccessMode` of csi-lib-utils).
///
/// # Errors
/// Why there is none.
pub(crate) fn mode(modes: &[String]) -> Result<Mode, String> {
    let has = |mode: &str| modes.iter().any(|it| it == mode);

    if has("ReadWriteOncePod") {
        if modes.iter().any(|it| it != "ReadWriteOncePod") {
            return Err("ReadWriteOncePod excludes other access modes".to_owned());
        }
        return Ok(Mode::SingleNodeWriter);
    }
    match (
        has("ReadWriteMany"),
        has("ReadOnlyMany"),
        has("ReadWriteOnce"),
    ) {
        (true, _, _) => Ok(Mode::MultiNodeMultiWriter),
        (_, true, true) => Err("CSI has no mode for ReadOnlyMany and ReadWriteOnce".to_owned()),
        (_, true, _) => Ok(Mode::MultiNodeReaderOnly),
        (_, _, true) => Ok(Mode::SingleNodeWriter),
        _ => Err(format!("access modes {modes:?} are not known")),
    }
}

/// Returns true for a volume that is used as a block device.
pub(crate) fn is_block(volume_mode: Option<&str>) -> bool {
    volume_mode == Some(BLOCK)
}

/// Returns the capability of CSI for an access mode.
pub(crate) fn capability(
    mode: Mode,
    volume_mode: Option<&str>,
    file_system: &str,
    mount_options: Option<&[String]>,
) -> VolumeCapability {
    let access_type = if is_block(volume_mode) {
        AccessType::Block(BlockVolume {})
    } else {
        AccessType::Mount(MountVolume {
            fs_type: file_system.to_owned(),
            mount_flags: mount_options.unwrap_or_default().to_vec(),
            ..MountVolume::default()
        })
    };
    VolumeCapability {
        access_type: Some(access_type),
        access_mode: Some(AccessMode { mode: mode.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_modes_become_the_one_of_csi() {
        let table: [(&[&str], Option<Mode>); 10] = [
            (&["ReadWriteOnce"], Some(Mode::SingleNodeWriter)),
            (&["ReadWriteOncePod"], Some(Mode::SingleNodeWriter)),
            (&["ReadOnlyMany"], Some(Mode::MultiNodeReaderOnly)),
            (&["ReadWriteMany"], Some(Mode::MultiNodeMultiWriter)),
            (
                &["ReadWriteOnce", "ReadWriteMany"],
                Some(Mode::MultiNodeMultiWriter),
            ),
            (
                &["ReadOnlyMany", "ReadWriteMany"],
                Some(Mode::MultiNodeMultiWriter),
            ),
            (&["ReadWriteOnce", "ReadOnlyMany"], None),
            (&["ReadWriteOncePod", "ReadWriteOnce"], None),
            (&["Sometimes"], None),
            (&[], None),
        ];
        for (modes, expected) in table {
            let all: Vec<_> = modes.iter().map(|&it| it.to_owned()).collect();
            assert_eq!(mode(&all).ok(), expected, "{modes:?}");
        }
    }

    #[test]
    fn a_block_device_has_no_file_system() {
        let options = ["noatime".to_owned()];
        let capability =
            |mode| capability(Mode::SingleNodeWriter, mode, "ext4", Some(&options)).access_type;
        let block = Some(AccessType::Block(BlockVolume {}));
        assert_eq!(capability(Some("Block")), block);
        for mode in [None, Some("Filesystem")] {
            let Some(AccessType::Mount(mount)) = capability(mode) else {
                panic!("{mode:?} is mounted")
            };
            assert_eq!(
                (mount.fs_type.as_str(), &*mount.mount_flags),
                ("ext4", &options[..])
            );
        }
    }
}
