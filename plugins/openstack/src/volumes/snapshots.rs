//! Snapshots of volumes.

use serde_json::{Map, Value, json};
use skydock_sdk::{
    Result,
    snapshots::{NewSnapshot, Snapshot, SnapshotPage},
    storage::StorageError,
    types::CloudError,
};

use super::{
    DESCRIPTION, GIB, broken, check_state, creation, delete_all,
    find::{self, by_id, by_name, is_ours},
    in_progress, pending,
};
use crate::{
    cloud::Cloud,
    services::cinder::{self, CLUSTER, Resource as _},
};

/// Parameter of a class: also snapshots of attached volumes.
const FORCE: &str = "force-create";

/// Creates snapshots, or finds those that exist.
///
/// # Errors
/// If Cinder cannot be asked which snapshots exist.
pub fn create(
    cloud: &Cloud<'_>,
    snapshots: &[NewSnapshot],
) -> Result<Vec<Result<Snapshot, StorageError>>> {
    let names: Vec<_> = snapshots.iter().map(|it| it.name.as_str()).collect();
    let existing = by_name::<cinder::Snapshot>(cloud, &names)?;
    let volumes = snapshots.iter().zip(&existing);
    let volumes: Vec<_> = volumes
        .map(|(new, found)| found.is_empty().then_some(new.volume.as_str()))
        .collect();
    let volumes = find::sources::<cinder::Volume>(cloud, &volumes)?;
    let each = snapshots.iter().zip(&existing).zip(volumes);
    let steps = each.map(|((new, found), volume)| {
        if found.is_empty() {
            pending::check(cloud, cinder::Snapshot::ONE, &new.name)?;
        }
        let volume = volume?;
        let settled = |found: &cinder::Snapshot| settled(cloud, new, found);
        creation::step(cloud, found, || body(cloud, new, volume.as_ref()), settled)
    });
    let steps = steps.collect();
    creation::send(
        cloud,
        snapshots,
        &names,
        steps,
        |new, created: &cinder::Snapshot| settled(cloud, new, created),
    )
}

/// Returns snapshots by their IDs.
///
/// # Errors
/// If Cinder cannot be asked.
pub fn get(cloud: &Cloud<'_>, ids: &[String]) -> Result<Vec<Result<Snapshot, StorageError>>> {
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let found = by_id::<cinder::Snapshot>(cloud, &ids)?;
    let answer = |(id, found): (&&str, Result<Option<cinder::Snapshot>>)| {
        let none = || CloudError::not_found(format!("no snapshot {id}"));
        let found = found?.ok_or_else(none)?;
        is_ours(cloud, &found)?;
        shown(&found)
    };
    Ok(ids.iter().zip(found).map(answer).collect())
}

/// Lists the snapshots of this cluster in one page.
///
/// # Errors
/// If Cinder cannot be asked.
pub fn list(cloud: &Cloud<'_>) -> Result<SnapshotPage> {
    let all = find::all::<cinder::Snapshot>(cloud)?;
    Ok(SnapshotPage {
        snapshots: all.iter().filter_map(|it| shown(it).ok()).collect(),
        next: None,
    })
}

/// Deletes snapshots.
///
/// # Errors
/// If Cinder cannot be asked.
pub fn delete(cloud: &Cloud<'_>, ids: &[String]) -> Result<Vec<Result<(), StorageError>>> {
    delete_all::<cinder::Snapshot>(cloud, ids)
}

/// Checks that a snapshot of a volume can be created. Cinder needs force for one that is attached.
fn check_volume(volume: &cinder::Volume, forced: bool) -> Result<(), StorageError> {
    if volume.status == "in-use" && !forced {
        let what = format!(
            "the volume {} is attached: set the parameter {FORCE} of the VolumeSnapshotClass to \"true\"",
            volume.id
        );
        return Err(StorageError::in_use(what));
    }
    check_state(volume, &["available", "in-use"])
}

fn parameter<'a>(new: &'a NewSnapshot, name: &str) -> Option<&'a str> {
    let mut named = new.parameters.iter().filter(|(key, _)| key == name);
    named.next().map(|(_, value)| value.as_str())
}

/// Returns whether the class has snapshots of attached volumes, with the words of upstream.
fn is_forced(new: &NewSnapshot) -> bool {
    let value = parameter(new, FORCE).unwrap_or_default();
    ["1", "t", "T", "true", "TRUE", "True"].contains(&value)
}

/// Returns the body that creates a snapshot of a volume.
fn body(
    cloud: &Cloud<'_>,
    new: &NewSnapshot,
    volume: Option<&cinder::Volume>,
) -> Result<Value, StorageError> {
    if !matches!(parameter(new, "type"), None | Some("" | "snapshot")) {
        let what =
            "the parameter type of a VolumeSnapshotClass must be snapshot: there are no backups";
        return Err(CloudError::invalid(what).into());
    }
    if let Some(volume) = volume {
        check_volume(volume, is_forced(new))?;
    }

    let mut metadata = Map::from_iter([(CLUSTER.to_owned(), json!(cloud.cluster))]);
    if let Some(owner) = &new.owner {
        metadata.extend([
            (
                "csi.storage.k8s.io/volumesnapshot/name".to_owned(),
                json!(owner.name),
            ),
            (
                "csi.storage.k8s.io/volumesnapshot/namespace".to_owned(),
                json!(owner.namespace),
            ),
        ]);
    }
    Ok(json!({"snapshot": {
        "name": new.name, "volume_id": new.volume, "description": DESCRIPTION,
        "force": is_forced(new), "metadata": metadata,
    }}))
}

/// Returns the snapshot with the name of a new one, if it is one of its volume, and cut.
fn settled(
    cloud: &Cloud<'_>,
    new: &NewSnapshot,
    found: &cinder::Snapshot,
) -> Result<Snapshot, StorageError> {
    if is_ours(cloud, found).is_err() || found.volume_id != new.volume {
        let what = format!("the snapshot {} has the name {}", found.id, new.name);
        return Err(StorageError::exists(what));
    }
    match found.status.as_str() {
        "available" => shown(found),
        status if status.starts_with("error") => Err(broken(found)),
        status => Err(in_progress(&format!(
            "the snapshot {} is {status}",
            found.id
        ))),
    }
}

fn shown(found: &cinder::Snapshot) -> Result<Snapshot, StorageError> {
    let unreadable = || {
        let what = format!(
            "the snapshot {} was created at `{}`",
            found.id, found.created_at
        );
        CloudError::internal(what)
    };
    Ok(Snapshot {
        id: found.id.clone(),
        volume: found.volume_id.clone(),
        size_bytes: found.size.saturating_mul(GIB),
        creation_timestamp: seconds(&found.created_at).ok_or_else(unreadable)?,
        ready: found.status == "available",
    })
}

/// Parses a time in UTC, for example `2026-11-28T22:00:00.000000`, as seconds since 1970.
fn seconds(text: &str) -> Option<u64> {
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
            ("1970-01-01T00:00:00.000000", Some(0)),
            ("2000-02-29T12:00:00", Some(951_825_600)),
            ("2026-11-28T22:00:00.000000", Some(1_795_903_200)),
            ("2026-11-28T22:00:00Z", Some(1_795_903_200)),
            ("2026-11-28", None),
            ("2026-13-01T00:00:00", None),
            ("2026-11-28T18446744073709551615:00:00", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
