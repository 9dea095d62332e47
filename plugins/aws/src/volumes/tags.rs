//! Tags of volumes and snapshots: those of the official driver, and those that classes ask for.

use std::collections::BTreeMap;

use skydock_sdk::{
    Result,
    storage::Owner,
    types::{CloudError, Pair},
};

use crate::tags::{CLUSTER_PREFIX, Cluster, LEGACY_CLUSTER, Tags};

/// Prefix of the keys that sidecars of CSI add to parameters.
pub(super) const CSI: &str = "csi.storage.k8s.io/";
/// The tag with the name of a volume.
const VOLUME_NAME: &str = "CSIVolumeName";
/// The tag with the name of a snapshot.
const SNAPSHOT_NAME: &str = "CSIVolumeSnapshotName";
/// Prefix of the other tags of the driver.
const DRIVER: &str = "ebs.csi.aws.com/";
/// The tag with the IOPS per GiB that a volume keeps when it grows.
pub(super) const IOPS_PER_GIB: &str = "ebs.csi.aws.com/IOPSPerGb";
/// The tag that allows more IOPS when a volume grows.
pub(super) const INCREASE: &str = "ebs.csi.aws.com/AllowAutoIOPSIncreaseOnModify";
/// The tag with the context of a volume, which only this provider sets.
const CONTEXT: &str = "ebs.csi.aws.com/context";

/// Names in templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names<'a>(BTreeMap<&'static str, &'a str>);

impl<'a> Names<'a> {
    /// Returns the names of a volume and its claim.
    pub(super) fn of_volume(name: &'a str, claim: Option<&'a Owner>) -> Self {
        let mut names = BTreeMap::from([("PVName", name)]);
        if let Some(claim) = claim {
            names.insert("PVCName", &claim.name);
            names.insert("PVCNamespace", &claim.namespace);
        }
        Self(names)
    }

    /// Returns the names that csi-resizer has added to attributes.
    pub(super) fn of_attributes(attributes: &'a [Pair]) -> Self {
        let name = |(key, value): &'a Pair| {
            let name = match key.strip_prefix(CSI)? {
                "pvc/name" => "PVCName",
                "pvc/namespace" => "PVCNamespace",
                "pv/name" => "PVName",
                _ => return None,
            };
            Some((name, value.as_str()))
        };
        Self(attributes.iter().filter_map(name).collect())
    }

    /// Returns the names of a VolumeSnapshot.
    pub(super) fn of_snapshot(owner: Option<&'a Owner>) -> Self {
        let mut names = BTreeMap::new();
        if let Some(owner) = owner {
            names.insert("VolumeSnapshotName", owner.name.as_str());
            names.insert("VolumeSnapshotNamespace", owner.namespace.as_str());
        }
        Self(names)
    }
}

/// All names that a template can have. Those that are not known are empty.
const NAMES: [&str; 6] = [
    "PVCName",
    "PVCNamespace",
    "PVName",
    "VolumeSnapshotName",
    "VolumeSnapshotNamespace",
    "VolumeSnapshotContentName",
];

/// Returns the tags of specifications, each `KEY=VALUE`. A value can contain `{{ .NAME }}`.
///
/// # Errors
/// [`CloudError::Invalid`].
pub(super) fn evaluate(specifications: &[String], names: &Names<'_>) -> Result<Tags> {
    let tag = |text: &String| {
        let malformed =
            || CloudError::invalid(format!("{text} is not a valid tag; expected KEY=VALUE"));
        let (key, template) = text.split_once('=').ok_or_else(malformed)?;
        check_key(key)?;
        let value = fill(template, names)?;
        if value.chars().count() > 256 {
            let what = format!("the value of tag {key} has more than 256 characters");
            return Err(CloudError::invalid(what));
        }
        Ok((key.to_owned(), value))
    };
    specifications.iter().map(tag).collect()
}

/// Replaces the names in a template.
fn fill(template: &str, names: &Names<'_>) -> Result<String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let known = after.split_once("}}").and_then(|(name, rest)| {
            let name = name.trim().strip_prefix('.')?;
            NAMES.contains(&name).then_some((name, rest))
        });
        let Some((name, after)) = known else {
            return Err(CloudError::invalid(format!(
                "{template} is not a supported template; expected for example {{{{ .PVCName }}}}, without functions"
            )));
        };
        filled.push_str(before);
        filled.push_str(names.0.get(name).copied().unwrap_or_default());
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Rejects keys that classes must not set or remove.
///
/// # Errors
/// [`CloudError::Invalid`].
pub(super) fn check_key(key: &str) -> Result<()> {
    let is_reserved = [VOLUME_NAME, SNAPSHOT_NAME, LEGACY_CLUSTER].contains(&key)
        || ["aws:", "kubernetes.io", DRIVER]
            .iter()
            .any(|prefix| key.starts_with(prefix));
    if is_reserved {
        return Err(CloudError::invalid(format!("the tag {key} is reserved")));
    }
    if key.is_empty() || key.chars().count() > 128 {
        let what = format!("the key of tag {key} is not valid; expected 1 to 128 characters");
        return Err(CloudError::invalid(what));
    }
    Ok(())
}

/// Returns the tags of a volume that is created.
pub(super) fn of_volume(cluster: &Cluster, name: &str, claim: Option<&Owner>) -> Tags {
    let mut tags = of_driver(cluster, VOLUME_NAME, name);
    if let Some(claim) = claim {
        let about = [
            ("pvc/name", claim.name.as_str()),
            ("pvc/namespace", claim.namespace.as_str()),
            ("pv/name", name),
        ];
        for (key, value) in about {
            tags.insert(format!("kubernetes.io/created-for/{key}"), value.to_owned());
        }
    }
    tags
}

/// Returns the tags of a snapshot that is created.
pub(super) fn of_snapshot(cluster: &Cluster, name: &str) -> Tags {
    of_driver(cluster, SNAPSHOT_NAME, name)
}

fn of_driver(cluster: &Cluster, key: &str, name: &str) -> Tags {
    let id = &cluster.id;
    Tags::from([
        (key.to_owned(), name.to_owned()),
        (format!("{DRIVER}cluster"), "true".to_owned()),
        (format!("{DRIVER}cluster-name"), id.clone()),
        (format!("{CLUSTER_PREFIX}{id}"), "owned".to_owned()),
        (LEGACY_CLUSTER.to_owned(), id.clone()),
        ("Name".to_owned(), format!("{id}-dynamic-{name}")),
    ])
}

/// Returns the filter for what this cluster owns.
pub(super) fn filter(cluster: &Cluster) -> (String, &'static str) {
    (format!("tag:{}", cluster.key()), "owned")
}

/// Adds the context of a volume to its tags, unless it is empty.
pub(super) fn add_context(tags: &mut Tags, context: &[Pair]) {
    let pair = |(key, value): &Pair| format!("{key}={value}");
    let pairs: Vec<String> = context.iter().map(pair).collect();
    if !pairs.is_empty() {
        tags.insert(CONTEXT.to_owned(), pairs.join(" "));
    }
}

/// Returns the context of a volume with these tags.
pub(super) fn context(tags: &Tags) -> Vec<Pair> {
    let text = tags.get(CONTEXT).map_or("", String::as_str);
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        Some((key.to_owned(), value.to_owned()))
    };
    text.split(' ').filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> Owner {
        Owner {
            namespace: "shop".into(),
            name: "data".into(),
            annotations: Vec::new(),
        }
    }

    #[test]
    fn a_tag_can_contain_names() {
        let claim = claim();
        let names = Names::of_volume("pv", Some(&claim));
        for (text, expected) in [
            ("a=b", Ok("b")),
            ("a=", Ok("")),
            ("a=b=c", Ok("b=c")),
            (
                "a={{ .PVCNamespace }}/{{.PVCName}}, {{ .PVName }}!",
                Ok("shop/data, pv!"),
            ),
            ("a={{ .VolumeSnapshotName }}", Ok("")),
            ("a={{ .PVCName | toUpper }}", Err("template")),
            ("a={{ .Other }}", Err("template")),
            ("a={{ .PVCName", Err("template")),
            ("a", Err("KEY=VALUE")),
            ("=b", Err("1 to 128")),
            ("kubernetes.io/cluster/x=owned", Err("reserved")),
            ("KubernetesCluster=x", Err("reserved")),
            ("ebs.csi.aws.com/cluster=x", Err("reserved")),
        ] {
            let tags = evaluate(&[text.to_owned()], &names);
            match (tags, expected) {
                (Ok(tags), Ok(value)) => assert_eq!(tags["a"], value, "{text}"),
                (Err(CloudError::Invalid(error)), Err(word)) => {
                    assert!(error.contains(word), "{text}: {error}");
                }
                (tags, _) => panic!("{text}: {tags:?}"),
            }
        }
    }

    #[test]
    fn attributes_and_snapshots_have_names_too() {
        let attributes = [
            ("csi.storage.k8s.io/pvc/name".to_owned(), "data".to_owned()),
            ("iops".to_owned(), "1".to_owned()),
        ];
        let names = Names::of_attributes(&attributes);
        let tags = evaluate(&["a={{.PVCName}}{{.PVName}}".to_owned()], &names);
        assert_eq!(tags.unwrap()["a"], "data");

        let owner = claim();
        let names = Names::of_snapshot(Some(&owner));
        let text = "a={{.VolumeSnapshotNamespace}}/{{.VolumeSnapshotName}}".to_owned();
        assert_eq!(evaluate(&[text], &names).unwrap()["a"], "shop/data");
    }

    #[test]
    fn the_tags_are_those_of_the_official_driver() {
        let cluster = Cluster {
            id: "c".into(),
            legacy: false,
        };
        let expected = [
            ("CSIVolumeName", "pv"),
            ("KubernetesCluster", "c"),
            ("Name", "c-dynamic-pv"),
            ("ebs.csi.aws.com/cluster", "true"),
            ("ebs.csi.aws.com/cluster-name", "c"),
            ("kubernetes.io/cluster/c", "owned"),
            ("kubernetes.io/created-for/pv/name", "pv"),
            ("kubernetes.io/created-for/pvc/name", "data"),
            ("kubernetes.io/created-for/pvc/namespace", "shop"),
        ];
        let tags = of_volume(&cluster, "pv", Some(&claim()));
        let tags: Vec<(&str, &str)> = tags
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        assert_eq!(tags, expected);
        assert_eq!(of_snapshot(&cluster, "s")["CSIVolumeSnapshotName"], "s");
        assert_eq!(of_volume(&cluster, "pv", None).len(), 6);
    }

    #[test]
    fn a_context_survives_in_a_tag() {
        let context_of = |pairs: &[(&str, &str)]| {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            let pairs: Vec<Pair> = pairs.iter().map(owned).collect();
            let mut tags = Tags::new();
            add_context(&mut tags, &pairs);
            (context(&tags) == pairs, tags.len())
        };
        assert_eq!(context_of(&[]), (true, 0));
        let two = [("blocksize", "4096"), ("ext4bigalloc", "true")];
        assert_eq!(context_of(&two), (true, 1));
    }
}
