//! Parameters of a StorageClass, and of a VolumeAttributesClass. Their names do not depend on upper
//! and lower case.

use skydock_sdk::{
    Result,
    storage::VolumeCapability,
    types::{CloudError, Pair},
};

use super::tags::{self, Names};

/// The volume type of a class without one.
pub(super) const DEFAULT_TYPE: &str = "gp3";

/// Parameters for the node part of the driver, which formats the volume, and the file systems that
/// do not have them.
const FORMAT: [(&str, &[&str]); 7] = [
    ("blocksize", &["ntfs"]),
    ("inodesize", &["ntfs"]),
    ("bytesperinode", &["xfs", "ntfs"]),
    ("numberofinodes", &["xfs", "ntfs"]),
    ("ext4bigalloc", &["ext3", "xfs", "ntfs"]),
    ("ext4clustersize", &["ext3", "xfs", "ntfs"]),
    ("ext4encryptionsupport", &["ext3", "xfs", "ntfs"]),
];

/// Those of them that are `true` or have no effect.
const FORMAT_FLAGS: [&str; 2] = ["ext4bigalloc", "ext4encryptionsupport"];

/// What a StorageClass says about its volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    /// What a VolumeAttributesClass can say, too.
    pub(super) attributes: Attributes,
    /// `allowAutoIOPSPerGBIncrease`: more IOPS than are asked for, if that is the minimum.
    pub(super) increase: bool,
    /// The rate at which the content of a snapshot is loaded, in MiB/s.
    pub(super) initialization_rate: Option<u64>,
    pub(super) encrypted: bool,
    pub(super) key: Option<String>,
    /// What the node part needs to know.
    pub(super) context: Vec<Pair>,
}

/// What a VolumeAttributesClass says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) volume_type: Option<String>,
    pub(super) iops: Option<u64>,
    pub(super) iops_per_gib: Option<u64>,
    /// `allowAutoIOPSIncreaseOnModify`: IOPS grow with the volume.
    pub(super) increase_on_modify: Option<bool>,
    /// The throughput in MiB/s.
    pub(super) throughput: Option<u64>,
    /// Tags to set, as `KEY=TEMPLATE`.
    pub(super) tags: Vec<String>,
    /// Keys of tags to remove.
    pub(super) removed: Vec<String>,
}

impl Parameters {
    /// Reads the parameters of a StorageClass. `attributes` are those of a VolumeAttributesClass, which
    /// take precedence.
    ///
    /// # Errors
    /// [`CloudError::Invalid`].
    pub(super) fn read(
        parameters: &[Pair],
        attributes: &[Pair],
        capabilities: &[VolumeCapability],
    ) -> Result<Self> {
        let mut read = Self::default();
        for (key, value) in parameters {
            read.add(key, value)?;
        }

        let is_big = |(key, _): &Pair| key == "ext4bigalloc";
        let is_cluster = |(key, _): &Pair| key == "ext4clustersize";
        if read.context.iter().any(is_cluster) && !read.context.iter().any(is_big) {
            return Err(CloudError::invalid("ext4ClusterSize needs ext4BigAlloc"));
        }
        read.context.sort();
        read.context.dedup_by(|one, other| one.0 == other.0);
        check_format(&read.context, capabilities)?;

        read.attributes.replace(Attributes::read(attributes)?);
        read.attributes.check()?;
        Ok(read)
    }

    fn add(&mut self, key: &str, value: &str) -> Result<()> {
        let name = key.to_ascii_lowercase();
        if let Some((name, _)) = FORMAT.iter().find(|(format, _)| *format == name) {
            return self.add_format(key, name, value);
        }
        match name.as_str() {
            // For external-provisioner; the second has no effect any more.
            "fstype" | "blockexpress" => {}
            "allowautoiopspergbincrease" => self.increase = value == "true",
            "volumeinitializationrate" => self.initialization_rate = number(key, value)?,
            "encrypted" => self.encrypted = value == "true",
            "kmskeyid" => self.key = text(value),
            // They would be lost without a word.
            _ if is_of_modification(&name) => return Err(unknown(key)),
            _ => self.attributes.add(key, value)?,
        }
        Ok(())
    }

    fn add_format(&mut self, key: &str, name: &str, value: &str) -> Result<()> {
        if FORMAT_FLAGS.contains(&name) {
            if value == "true" {
                self.context.push((name.to_owned(), value.to_owned()));
            }
            return Ok(());
        }
        if !value.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(CloudError::invalid(format!(
                "parameter {key}: {value} is not valid; expected letters and digits"
            )));
        }
        if !value.is_empty() {
            self.context.push((name.to_owned(), value.to_owned()));
        }
        Ok(())
    }
}

impl Attributes {
    /// Reads the parameters of a VolumeAttributesClass.
    ///
    /// # Errors
    /// [`CloudError::Invalid`].
    pub(super) fn read(parameters: &[Pair]) -> Result<Self> {
        let mut read = Self::default();
        for (key, value) in parameters {
            // Names that csi-resizer adds.
            if !key.starts_with(tags::CSI) {
                read.add(key, value)?;
            }
        }
        read.check()?;
        Ok(read)
    }

    fn add(&mut self, key: &str, value: &str) -> Result<()> {
        let name = key.to_ascii_lowercase();
        match name.as_str() {
            "type" => self.volume_type = text(value),
            // The old name of `type`.
            "volumetype" => {
                if self.volume_type.is_none() {
                    self.volume_type = text(value);
                }
            }
            "iops" => self.iops = number(key, value)?,
            "iopspergb" => self.iops_per_gib = number(key, value)?,
            "allowautoiopsincreaseonmodify" => self.increase_on_modify = Some(value == "true"),
            "throughput" => self.throughput = number(key, value)?,
            _ if name.starts_with("tagspecification") => self.tags.push(value.to_owned()),
            _ if name.starts_with("tagdeletion") => {
                tags::check_key(value)?;
                self.removed.push(value.to_owned());
            }
            _ => return Err(unknown(key)),
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.iops.is_some() && self.iops_per_gib.is_some() {
            return Err(CloudError::invalid(
                "iops and iopsPerGB are mutually exclusive",
            ));
        }
        // Without names: only whether they are well-formed.
        tags::evaluate(&self.tags, &Names::default()).map(drop)
    }

    /// Takes what others say.
    fn replace(&mut self, other: Self) {
        if other.iops.is_some() || other.iops_per_gib.is_some() {
            (self.iops, self.iops_per_gib) = (other.iops, other.iops_per_gib);
        }
        self.volume_type = other.volume_type.or(self.volume_type.take());
        self.throughput = other.throughput.or(self.throughput);
        self.increase_on_modify = other.increase_on_modify.or(self.increase_on_modify);
        self.tags.extend(other.tags);
    }
}

/// Returns true for parameters that only a VolumeAttributesClass has.
fn is_of_modification(name: &str) -> bool {
    name == "volumetype" || name.starts_with("tagdeletion")
}

/// Rejects options of a file system that a volume does not have.
fn check_format(context: &[Pair], capabilities: &[VolumeCapability]) -> Result<()> {
    for (name, _) in context {
        let without = FORMAT.iter().find(|(format, _)| format == name);
        let without = without.map_or(&[][..], |(_, without)| *without);
        for capability in capabilities {
            match capability.file_system.as_deref() {
                None => {
                    let what = format!("parameter {name} is not for block devices");
                    return Err(CloudError::invalid(what));
                }
                Some(system) if without.contains(&system) => {
                    let what = format!("parameter {name} is not for the file system {system}");
                    return Err(CloudError::invalid(what));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

fn text(value: &str) -> Option<String> {
    Some(value.to_owned()).filter(|value| !value.is_empty())
}

/// Parses a number. 0 means that it is not set.
fn number(key: &str, value: &str) -> Result<Option<u64>> {
    let number: i32 = value
        .parse()
        .map_err(|_| CloudError::invalid(format!("parameter {key}: {value} is not a number")))?;
    Ok(u64::try_from(number).ok().filter(|number| *number > 0))
}

fn unknown(key: &str) -> CloudError {
    CloudError::invalid(format!("parameter {key} is not supported"))
}

/// The limits of IOPS of a volume type, as EC2 documents them.
struct Limits {
    least: u64,
    most: u64,
    most_per_gib: u64,
}

fn limits(volume_type: &str) -> Option<Limits> {
    let (least, most, most_per_gib) = match volume_type {
        "io1" => (100, 64_000, 50),
        "io2" => (100, 256_000, 1000),
        "gp3" => (3000, 80_000, 500),
        _ => return None,
    };
    Some(Limits {
        least,
        most,
        most_per_gib,
    })
}

/// Returns the IOPS of a volume that asks for this number: at most what its type and size can have,
/// and, with `increase`, at least the minimum.
pub(super) fn capped(volume_type: &str, gib: u64, iops: u64, increase: bool) -> u64 {
    let Some(limits) = limits(&volume_type.to_ascii_lowercase()) else {
        return iops;
    };
    let raised = if increase {
        iops.max(limits.least)
    } else {
        iops
    };
    let iops = raised.min(limits.most);
    let by_size = limits.most_per_gib.saturating_mul(gib);
    if by_size >= limits.least {
        iops.min(by_size)
    } else {
        iops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<Pair> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    fn ext4() -> Vec<VolumeCapability> {
        vec![VolumeCapability {
            file_system: Some("ext4".into()),
            ..VolumeCapability::default()
        }]
    }

    #[test]
    fn every_parameter_of_a_class_is_read() {
        let class = pairs(&[
            ("type", "io2"),
            ("iopsPerGB", "50"),
            ("allowAutoIOPSPerGBIncrease", "true"),
            ("allowAutoIOPSIncreaseOnModify", "true"),
            ("throughput", "200"),
            ("volumeInitializationRate", "100"),
            ("Encrypted", "true"),
            ("kmsKeyId", "arn:key"),
            ("blockExpress", "true"),
            ("fstype", "ext4"),
            ("blockSize", "4096"),
            ("blocksize", "4096"),
            ("ext4BigAlloc", "true"),
            ("ext4ClusterSize", "16384"),
            ("ext4EncryptionSupport", "false"),
            ("tagSpecification_1", "team=a"),
        ]);
        let expected = Parameters {
            attributes: Attributes {
                volume_type: Some("io2".into()),
                iops_per_gib: Some(50),
                increase_on_modify: Some(true),
                throughput: Some(200),
                tags: vec!["team=a".into()],
                ..Attributes::default()
            },
            increase: true,
            initialization_rate: Some(100),
            encrypted: true,
            key: Some("arn:key".into()),
            context: pairs(&[
                ("blocksize", "4096"),
                ("ext4bigalloc", "true"),
                ("ext4clustersize", "16384"),
            ]),
        };
        assert_eq!(Parameters::read(&class, &[], &ext4()), Ok(expected));
        assert_eq!(
            Parameters::read(&[], &[], &ext4()),
            Ok(Parameters::default())
        );
    }

    #[test]
    fn attributes_take_precedence_over_parameters() {
        let class = pairs(&[("type", "io1"), ("iopsPerGB", "50"), ("throughput", "200")]);
        let attributes = pairs(&[
            ("volumeType", "gp2"),
            ("type", "gp3"),
            ("iops", "4000"),
            ("tagSpecification_1", "a=b"),
            ("tagDeletion_1", "c"),
        ]);
        let read = Parameters::read(&class, &attributes, &ext4()).unwrap();
        let expected = Attributes {
            volume_type: Some("gp3".into()),
            iops: Some(4000),
            throughput: Some(200),
            tags: vec!["a=b".into()],
            ..Attributes::default()
        };
        assert_eq!(read.attributes, expected);
    }

    #[test]
    fn invalid_parameters_are_rejected_by_name() {
        for (class, attributes, word) in [
            (&[("iops", "many")][..], &[][..], "iops"),
            (&[("iops", "1"), ("iopsPerGB", "1")], &[], "iopsPerGB"),
            (&[("size", "1")], &[], "size"),
            (
                &[("blockAttachUntilInitialized", "true")],
                &[],
                "blockAttach",
            ),
            (&[("volumeType", "gp3")], &[], "volumeType"),
            (&[("tagDeletion_1", "a")], &[], "tagDeletion_1"),
            (&[("blockSize", "4 k")], &[], "blockSize"),
            (&[("ext4ClusterSize", "1")], &[], "ext4BigAlloc"),
            (&[("tagSpecification_1", "a")], &[], "KEY=VALUE"),
            (&[("tagSpecification_1", "aws:a=b")], &[], "aws:"),
            (&[], &[("encrypted", "true")], "encrypted"),
            (&[], &[("throughput", "x")], "throughput"),
            (&[], &[("tagDeletion_1", "CSIVolumeName")], "CSIVolumeName"),
        ] {
            let read = Parameters::read(&pairs(class), &pairs(attributes), &ext4());
            let Err(CloudError::Invalid(text)) = read else {
                panic!("{class:?} {attributes:?}: {read:?}")
            };
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn options_of_a_file_system_are_not_for_others() {
        for (name, value, system, accepted) in [
            ("blockSize", "4096", Some("xfs"), true),
            ("blockSize", "4096", Some(""), true),
            ("blockSize", "4096", Some("ntfs"), false),
            ("numberOfInodes", "9", Some("xfs"), false),
            ("numberOfInodes", "9", Some("ext3"), true),
            ("ext4BigAlloc", "true", Some("ext3"), false),
            ("ext4BigAlloc", "false", Some("ext3"), true),
            ("inodeSize", "256", None, false),
        ] {
            let capability = VolumeCapability {
                file_system: system.map(str::to_owned),
                ..VolumeCapability::default()
            };
            let read = Parameters::read(&pairs(&[(name, value)]), &[], &[capability]);
            assert_eq!(read.is_ok(), accepted, "{name} {system:?}");
        }
    }

    #[test]
    fn iops_are_within_the_limits_of_the_type() {
        for (volume_type, gib, iops, increase, expected) in [
            ("gp3", 100, 4000, false, 4000),
            ("gp3", 1000, 100_000, false, 80_000),
            ("gp3", 10, 6000, false, 5000),
            ("gp3", 100, 100, false, 100),
            ("gp3", 100, 100, true, 3000),
            // 500 per GiB are less than the minimum.
            ("gp3", 1, 3000, false, 3000),
            ("io1", 10, 1000, false, 500),
            ("io1", 1, 50, true, 100),
            ("IO2", 10, 20_000, false, 10_000),
            ("io2", 1000, 300_000, false, 256_000),
            ("gp2", 10, 100_000, true, 100_000),
        ] {
            let text = format!("{volume_type} {gib} {iops} {increase}");
            assert_eq!(capped(volume_type, gib, iops, increase), expected, "{text}");
        }
    }
}
