//! Volumes of EBS, and their snapshots.

use serde::{Deserialize, de::DeserializeOwned};

use super::{Tag, tags};
use crate::{
    client::{
        api::{answer::Items, ask, call::Call, failure::Failure, pages, wire::Wire},
        endpoint::Api,
    },
    tags::Tags,
};

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Volume {
    pub(crate) volume_id: String,
    /// The size in GiB.
    pub(crate) size: u64,
    /// `creating`, `available`, `in-use`, `deleting`, `deleted` or `error`.
    pub(crate) status: String,
    pub(crate) availability_zone: String,
    /// The snapshot that it was created from.
    pub(crate) snapshot_id: String,
    pub(crate) volume_type: String,
    pub(crate) iops: Option<u64>,
    /// The throughput in MiB/s.
    pub(crate) throughput: Option<u64>,
    /// True if several instances can have it.
    pub(crate) multi_attach_enabled: bool,
    pub(crate) attachment_set: Items<Attachment>,
    tag_set: Items<Tag>,
}

/// The attachment of a volume to an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Attachment {
    pub(crate) instance_id: String,
    /// The name of the device, for example `/dev/xvdaa`.
    pub(crate) device: String,
    /// `attaching`, `attached`, `detaching`, `detached` or `busy`.
    pub(crate) status: String,
    /// When it was begun, for example `2026-11-28T22:00:00.000Z`.
    pub(crate) attach_time: String,
}

/// A snapshot of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Snapshot {
    pub(crate) snapshot_id: String,
    pub(crate) volume_id: String,
    /// The size of the volume in GiB.
    pub(crate) volume_size: u64,
    /// `pending`, `completed`, `error` and others.
    pub(crate) status: String,
    /// When it was cut, for example `2026-11-28T22:00:00.000Z`.
    pub(crate) start_time: String,
    tag_set: Items<Tag>,
}

/// The last change of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Modification {
    pub(crate) volume_id: String,
    /// `modifying`, `optimizing`, `completed` or `failed`.
    pub(crate) modification_state: String,
    pub(crate) start_time: String,
}

/// What volumes and snapshots have in common.
pub(crate) trait Resource: Clone + DeserializeOwned {
    /// What it is, for people.
    const ONE: &'static str;
    /// The parameter with the IDs.
    const IDS: &'static str;
    /// The filter for IDs.
    const FILTER: &'static str;
    /// The beginning of an ID.
    const PREFIX: &'static str;
    /// The code of an error about an unknown ID.
    const UNKNOWN: &'static str;
    /// The tag with the name that Kubernetes gives it.
    const NAME: &'static str;

    /// Creates a request for all that match filters.
    fn list() -> Call;

    /// Creates a request for those with these IDs.
    fn with_ids<'a>(ids: impl IntoIterator<Item = &'a str>) -> Call;

    /// Returns the ID.
    fn id(&self) -> &str;

    /// Returns the tags.
    fn tags(&self) -> Tags;
}

impl Resource for Volume {
    const ONE: &'static str = "volume";
    const IDS: &'static str = "VolumeId";
    const FILTER: &'static str = "volume-id";
    const PREFIX: &'static str = "vol-";
    const UNKNOWN: &'static str = "InvalidVolume.NotFound";
    const NAME: &'static str = "CSIVolumeName";

    fn list() -> Call {
        Call::new(Api::Ec2, "DescribeVolumes").with("MaxResults", 1000)
    }

    fn with_ids<'a>(ids: impl IntoIterator<Item = &'a str>) -> Call {
        Call::new(Api::Ec2, "DescribeVolumes").list(Self::IDS, ids)
    }

    fn id(&self) -> &str {
        &self.volume_id
    }

    fn tags(&self) -> Tags {
        tags(&self.tag_set)
    }
}

impl Resource for Snapshot {
    const ONE: &'static str = "snapshot";
    const IDS: &'static str = "SnapshotId";
    const FILTER: &'static str = "snapshot-id";
    const PREFIX: &'static str = "snap-";
    const UNKNOWN: &'static str = "InvalidSnapshot.NotFound";
    const NAME: &'static str = "CSIVolumeSnapshotName";

    /// Without the owner, EC2 searches the public snapshots, too.
    fn list() -> Call {
        Call::new(Api::Ec2, "DescribeSnapshots")
            .list("Owner", ["self"])
            .with("MaxResults", 1000)
    }

    fn with_ids<'a>(ids: impl IntoIterator<Item = &'a str>) -> Call {
        Call::new(Api::Ec2, "DescribeSnapshots").list(Self::IDS, ids)
    }

    fn id(&self) -> &str {
        &self.snapshot_id
    }

    fn tags(&self) -> Tags {
        tags(&self.tag_set)
    }
}

#[derive(Debug, Deserialize)]
struct Page<T> {
    #[serde(
        default = "Items::default",
        rename = "volumeSet",
        alias = "snapshotSet"
    )]
    set: Items<T>,
    #[serde(default, rename = "nextToken")]
    next: Option<String>,
}

/// Sends a request for volumes or snapshots and reads all pages.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn describe<T: Resource>(wire: &dyn Wire, call: &Call) -> Result<Vec<T>, Failure> {
    let pages = pages(wire, call, |page: &Page<T>| page.next.clone())?;
    Ok(pages.into_iter().flat_map(|page| page.set.items).collect())
}

/// Sends a request for one page of volumes or snapshots. Also returns the token of the next one.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn describe_page<T: Resource>(
    wire: &dyn Wire,
    call: &Call,
) -> Result<(Vec<T>, Option<String>), Failure> {
    let page: Page<T> = ask(wire, call)?;
    let next = page.next.filter(|token| !token.is_empty());
    Ok((page.set.items, next))
}

/// Parses the answer to a request with one ID.
///
/// # Errors
/// Fails if the answer does not have the expected structure.
pub(crate) fn read<T: Resource>(call: &Call, body: &str) -> Result<Vec<T>, Failure> {
    let page: Page<T> = crate::client::api::read(call, body)?;
    Ok(page.set.items)
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ModificationsPage {
    volume_modification_set: Items<Modification>,
    next_token: Option<String>,
}

/// Returns the last changes of at most 200 volumes. EC2 omits those that never changed.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn modifications<'a>(
    wire: &dyn Wire,
    ids: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<Modification>, Failure> {
    // With IDs instead of a filter, one that never changed is an error.
    let call = Call::new(Api::Ec2, "DescribeVolumesModifications").filter("volume-id", ids);
    let pages = pages(wire, &call, |page: &ModificationsPage| {
        page.next_token.clone()
    })?;
    Ok(pages
        .into_iter()
        .flat_map(|page| page.volume_modification_set.items)
        .collect())
}

pub(crate) fn delete_tags<'a>(resource: &str, keys: impl IntoIterator<Item = &'a str>) -> Call {
    let call = Call::new(Api::Ec2, "DeleteTags").list("ResourceId", [resource]);
    keys.into_iter()
        .enumerate()
        .fold(call, |call, (index, key)| {
            call.with(format!("Tag.{}.Key", index + 1), key)
        })
}

/// Parses a time in UTC, for example `2026-11-28T22:00:00.000Z`, as seconds since 1970.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let (date, time) = text.split_once('T')?;
    let time = time.split(['.', 'Z', '+']).next()?;
    let numbers = |text: &str, separator: char| -> Option<[u64; 3]> {
        let numbers: Option<Vec<u64>> = text.split(separator).map(|it| it.parse().ok()).collect();
        numbers?.try_into().ok()
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let is_date = (1970..10_000).contains(&year) && (1..=12).contains(&month);
    let is_time = hour < 24 && minute < 60 && second <= 60;
    if !is_date || !(1..=31).contains(&day) || !is_time {
        return None;
    }

    // Days since 1970, with years that begin in March: leap days are at their ends.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_since_1970() {
        for (text, expected) in [
            ("1970-01-01T00:00:00.000Z", Some(0)),
            ("2000-02-29T12:00:00Z", Some(951_825_600)),
            ("2026-11-28T22:00:00.000Z", Some(1_795_903_200)),
            ("2026-11-28", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-11-28T18446744073709551615:00:00Z", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    #[test]
    fn volumes_and_snapshots_are_read() {
        let call = Volume::list();
        let body = "<DescribeVolumesResponse><volumeSet><item><volumeId>vol-1</volumeId><size>4</size>\
                    <snapshotId/><iops>3000</iops><multiAttachEnabled>false</multiAttachEnabled>\
                    <attachmentSet><item><volumeId>vol-1</volumeId><instanceId>i-1</instanceId>\
                    <device>/dev/xvdaa</device><status>attached</status></item></attachmentSet>\
                    <tagSet><item><key>a</key><value>b</value></item></tagSet></item></volumeSet>\
                    <nextToken>n</nextToken></DescribeVolumesResponse>";
        let volumes = read::<Volume>(&call, body).unwrap();
        let volume = &volumes[0];
        assert_eq!(
            (volume.id(), volume.size, volume.iops),
            ("vol-1", 4, Some(3000))
        );
        assert_eq!((volume.snapshot_id.as_str(), volume.throughput), ("", None));
        assert_eq!(volume.attachment_set.items[0].device, "/dev/xvdaa");
        assert_eq!(volume.tags()["a"], "b");

        let body = "<DescribeSnapshotsResponse><snapshotSet><item><snapshotId>snap-1</snapshotId>\
                    <volumeSize>4</volumeSize></item></snapshotSet></DescribeSnapshotsResponse>";
        let snapshots = read::<Snapshot>(&Snapshot::list(), body).unwrap();
        assert_eq!((snapshots[0].id(), snapshots[0].volume_size), ("snap-1", 4));
        let none = read::<Snapshot>(&Snapshot::list(), "<DescribeSnapshotsResponse/>");
        assert_eq!(none, Ok(Vec::new()));
    }
}
