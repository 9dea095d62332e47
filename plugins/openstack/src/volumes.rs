//! Volumes and their snapshots, as the controller part of the driver `cinder.csi.openstack.org`: its
//! node part, volumes and classes stay as they are.
//!
//! Nothing waits: what Cinder has begun is found again by name or ID, and hundreds of volumes are
//! read in one list.

mod attachments;
mod creation;
mod find;
mod pending;
mod snapshots;

use std::time::Duration;

use serde_json::{Map, Value, json};
use skydock_sdk::{
    Result,
    http::{Method, Response},
    storage::{AccessMode, StorageError, Topology},
    types::{CloudError, Pair},
    volume_expansion::Expansion,
    volumes::{DriverInfo, NewVolume, Volume, VolumePage},
};

pub use self::attachments::{attach, detach};
use self::find::{by_id, by_name, is_ours};
pub use self::snapshots::{
    create as create_snapshots, delete as delete_snapshots, get as get_snapshots,
    list as list_snapshots,
};
use crate::{
    cloud::{Answered, Cloud, Kind, ServiceRequest, explain, send_each},
    instances::label,
    services::cinder::{self, CLUSTER, Resource},
};

/// Name of the official driver.
const DRIVER: &str = "cinder.csi.openstack.org";
/// Key of the label with the availability zone of a node.
const ZONE: &str = "topology.cinder.csi.openstack.org/zone";
/// Key of the context that has the node part grow the file system of a copy.
const RESIZE: &str = "cinder.csi.openstack.org/resizeRequired";
/// Description of what is created, as upstream.
const DESCRIPTION: &str = "Created by OpenStack Cinder CSI driver";

/// When to look again at what changes.
const CHANGING: Duration = Duration::from_secs(1);
const GIB: u64 = 1 << 30;

/// Returns the driver whose controller part this is.
#[must_use]
pub fn driver() -> DriverInfo {
    DriverInfo {
        name: DRIVER.to_owned(),
        topology_keys: vec![ZONE.to_owned()],
        // The type of a volume decides how many servers can have it.
        access_modes: vec![
            AccessMode::SingleNodeWriter,
            AccessMode::SingleNodeReaderOnly,
            AccessMode::MultiNodeReaderOnly,
            AccessMode::MultiNodeSingleWriter,
            AccessMode::MultiNodeMultiWriter,
        ],
        clones: true,
    }
}

/// Creates volumes, or finds those that exist.
///
/// # Errors
/// If Cinder cannot be asked which volumes exist.
pub fn create(
    cloud: &Cloud<'_>,
    volumes: &[NewVolume],
) -> Result<Vec<Result<Volume, StorageError>>> {
    let names: Vec<_> = volumes.iter().map(|it| it.name.as_str()).collect();
    let existing = by_name::<cinder::Volume>(cloud, &names)?;
    let sources = sources(cloud, volumes, &existing)?;
    let each = volumes.iter().zip(&existing).zip(sources);
    let steps = each.map(|((new, found), source)| {
        if found.is_empty() {
            pending::check(cloud, cinder::Volume::ONE, &new.name)?;
        }
        source?;
        let settled = |found: &cinder::Volume| settled(cloud, new, found);
        creation::step(cloud, found, || body(cloud, new), settled)
    });
    let steps = steps.collect();
    creation::send(
        cloud,
        volumes,
        &names,
        steps,
        |new, created: &cinder::Volume| settled(cloud, new, created),
    )
}

/// Checks what volumes are to be copies of, unless they exist.
fn sources(
    cloud: &Cloud<'_>,
    volumes: &[NewVolume],
    existing: &[Vec<cinder::Volume>],
) -> Result<Vec<Result<(), StorageError>>> {
    let missing = || {
        let each = volumes.iter().zip(existing);
        each.map(|(new, found)| Some(new).filter(|_| found.is_empty()))
    };
    let snapshots: Vec<_> = missing().map(|new| new?.snapshot.as_deref()).collect();
    let originals: Vec<_> = missing().map(|new| new?.original.as_deref()).collect();

    let snapshots = find::sources::<cinder::Snapshot>(cloud, &snapshots)?;
    let originals = find::sources::<cinder::Volume>(cloud, &originals)?;
    let both = snapshots
        .into_iter()
        .zip(originals)
        .map(|(snapshot, original)| {
            if let Some(snapshot) = snapshot? {
                check_state(&snapshot, &["available"])?;
            }
            if let Some(original) = original? {
                check_state(&original, &["available", "in-use"])?;
            }
            Ok::<_, StorageError>(())
        });
    Ok(both.collect())
}

/// States that end by themselves.
const PASSING: [&str; 14] = [
    "attaching",
    "backing-up",
    "creating",
    "deleting",
    "detaching",
    "downloading",
    "extending",
    "managing",
    "reserved",
    "restoring",
    "restoring-backup",
    "retyping",
    "reverting",
    "uploading",
];

/// Checks that what is to be copied is in one of the states in which Cinder copies it.
fn check_state<T: Resource>(source: &T, usable: &[&str]) -> Result<(), StorageError> {
    let status = source.status();
    if usable.contains(&status) {
        return Ok(());
    }
    let what = format!(
        "the {} {} is {status}; a copy needs one that is {}",
        T::ONE,
        source.id(),
        usable.join(" or ")
    );
    if PASSING.contains(&status) {
        return Err(in_progress(&what));
    }
    if status.starts_with("error") {
        return Err(CloudError::invalid(what).into());
    }
    Err(StorageError::in_use(what))
}

/// Returns volumes by their IDs.
///
/// # Errors
/// If Cinder cannot be asked.
pub fn get(cloud: &Cloud<'_>, ids: &[String]) -> Result<Vec<Result<Volume, StorageError>>> {
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let found = by_id::<cinder::Volume>(cloud, &ids)?;
    let answer = |(id, found): (&&str, Result<Option<cinder::Volume>>)| {
        let found = found?.ok_or_else(|| no_volume(id))?;
        is_ours(cloud, &found).map(|()| shown(cloud, &found, None))
    };
    Ok(ids.iter().zip(found).map(answer).collect())
}

/// Lists the volumes of this cluster in one page.
///
/// # Errors
/// If Cinder cannot be asked.
pub fn list(cloud: &Cloud<'_>) -> Result<VolumePage> {
    let all = find::all::<cinder::Volume>(cloud)?;
    Ok(VolumePage {
        volumes: all.iter().map(|it| shown(cloud, it, None)).collect(),
        next: None,
    })
}

/// Deletes volumes.
///
/// # Errors
/// If Cinder cannot be asked.
pub fn delete(cloud: &Cloud<'_>, ids: &[String]) -> Result<Vec<Result<(), StorageError>>> {
    delete_all::<cinder::Volume>(cloud, ids)
}

/// Deletes volumes or snapshots. Cinder rejects a second deletion of what is being deleted, so they
/// are read before.
fn delete_all<T: Resource>(
    cloud: &Cloud<'_>,
    ids: &[String],
) -> Result<Vec<Result<(), StorageError>>> {
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let decide = |found: Result<Option<T>>| -> Result<Option<String>, StorageError> {
        let Some(it) = found? else {
            return Ok(None);
        };
        is_ours(cloud, &it)?;
        let (one, id) = (T::ONE, it.id());
        if it.is_used() {
            return Err(StorageError::in_use(format!("the {one} {id} is attached")));
        }
        // Cinder would reject it.
        if PASSING.contains(&it.status()) {
            return Err(in_progress(&format!("the {one} {id} is {}", it.status())));
        }
        Ok(Some(id.to_owned()))
    };
    let found = by_id::<T>(cloud, &ids)?;
    let decided: Vec<_> = found.into_iter().map(decide).collect();

    let requests = decided.iter().flatten().flatten();
    let requests = requests.map(|id| deletion::<T>(cloud, id));
    let mut answers = send_each(requests.collect::<Result<_>>()?).into_iter();

    let answer = |decided: Result<Option<String>, StorageError>| match decided? {
        None => Ok(()),
        Some(id) => {
            if explain_deletion(next(&mut answers)?)? {
                return Ok(());
            }
            Err(in_progress(&format!(
                "the {} {id} is being deleted",
                T::ONE
            )))
        }
    };
    Ok(decided.into_iter().map(answer).collect())
}

/// Expands volumes.
///
/// # Errors
/// If Cinder cannot be asked.
pub fn expand(
    cloud: &Cloud<'_>,
    expansions: &[Expansion],
) -> Result<Vec<Result<u64, StorageError>>> {
    let ids: Vec<_> = expansions.iter().map(|it| it.volume.as_str()).collect();
    let decide = |(wanted, found): (&Expansion, Result<Option<cinder::Volume>>)| {
        let found = found?.ok_or_else(|| no_volume(&wanted.volume))?;
        is_ours(cloud, &found)?;
        let gib = gib(wanted.size_bytes, wanted.limit_bytes)?;
        match found.status.as_str() {
            "error_extending" | "error" => Err(broken(&found)),
            "available" | "in-use" if found.size >= gib => Ok((found, None)),
            "available" | "in-use" => Ok((found, Some(gib))),
            status => Err(in_progress(&format!("the volume {} is {status}", found.id))),
        }
    };
    let found = by_id::<cinder::Volume>(cloud, &ids)?;
    let decided: Vec<_> = expansions.iter().zip(found).map(decide).collect();

    let request = |(found, gib): &(cinder::Volume, Option<u64>)| {
        let gib = (*gib)?;
        let path = format!("/volumes/{}/action", found.id);
        let what = format!("cannot expand volume `{}`", found.id);
        let request = cloud.request(Method::Post, Kind::BlockStorage, &path, what);
        Some(request.and_then(|it| it.json(&json!({"os-extend": {"new_size": gib}}))))
    };
    let requests = decided.iter().flatten().filter_map(request);
    let mut answers = send_each(requests.collect::<Result<_>>()?).into_iter();

    let answer = |decided: Result<(cinder::Volume, Option<u64>), StorageError>| match decided? {
        (found, None) => Ok(found.size.saturating_mul(GIB)),
        (found, Some(_)) => {
            accepted(next(&mut answers)?)?;
            Err(in_progress(&format!(
                "the volume {} is being expanded",
                found.id
            )))
        }
    };
    Ok(decided.into_iter().map(answer).collect())
}

/// Returns the body that creates a volume.
fn body(cloud: &Cloud<'_>, new: &NewVolume) -> Result<Value, StorageError> {
    let mut metadata = Map::from_iter([(CLUSTER.to_owned(), json!(cloud.cluster))]);
    if let Some(claim) = &new.claim {
        metadata.extend([
            ("csi.storage.k8s.io/pvc/name".to_owned(), json!(claim.name)),
            (
                "csi.storage.k8s.io/pvc/namespace".to_owned(),
                json!(claim.namespace),
            ),
            ("csi.storage.k8s.io/pv/name".to_owned(), json!(new.name)),
        ]);
    }

    let mut volume = Map::from_iter([
        ("name".to_owned(), json!(new.name)),
        (
            "size".to_owned(),
            json!(gib(new.size_bytes, new.limit_bytes)?),
        ),
        ("description".to_owned(), json!(DESCRIPTION)),
        ("metadata".to_owned(), Value::Object(metadata)),
    ]);
    let optional = [
        ("volume_type", parameter(new, "type")),
        ("availability_zone", zone(new)),
        ("snapshot_id", new.snapshot.as_deref()),
        ("source_volid", new.original.as_deref()),
    ];
    for (field, value) in optional {
        if let Some(value) = value {
            volume.insert(field.to_owned(), json!(value));
        }
    }
    Ok(json!({"volume": volume}))
}

fn parameter<'a>(new: &'a NewVolume, name: &str) -> Option<&'a str> {
    let mut named = new.parameters.iter().filter(|(key, _)| key == name);
    let (_, value) = named.next()?;
    Some(value.as_str()).filter(|it| !it.is_empty())
}

/// Returns the availability zone: that of the class, or the best one.
fn zone(new: &NewVolume) -> Option<&str> {
    let mut parts = new.preferred.iter().chain(&new.requisite);
    parameter(new, "availability").or_else(|| parts.find_map(zone_of))
}

fn zone_of(topology: &Topology) -> Option<&str> {
    let segment = topology.iter().find(|(key, _)| key == ZONE);
    segment.map(|(_, zone)| zone.as_str())
}

/// Returns the size in Cinder's unit.
fn gib(bytes: u64, limit: Option<u64>) -> Result<u64, StorageError> {
    let gib = bytes.div_ceil(GIB).max(1);
    if limit.is_some_and(|limit| gib.saturating_mul(GIB) > limit) {
        return Err(StorageError::out_of_range(
            "sizes are multiples of 1 GiB, and none is within the limits",
        ));
    }
    Ok(gib)
}

/// Returns the volume with the name of a new one, if it is as wanted, and ready.
fn settled(
    cloud: &Cloud<'_>,
    new: &NewVolume,
    found: &cinder::Volume,
) -> Result<Volume, StorageError> {
    let bytes = found.size.saturating_mul(GIB);
    let limit = new.limit_bytes.unwrap_or(u64::MAX);
    // Not its zone: Cinder may choose another one than it was asked for.
    let is_wanted = is_ours(cloud, found).is_ok()
        && (new.size_bytes..=limit).contains(&bytes)
        && text(found.snapshot_id.as_ref()) == new.snapshot.as_deref()
        && text(found.source_volid.as_ref()) == new.original.as_deref();
    if !is_wanted {
        let what = format!("the volume {} has the name {}", found.id, new.name);
        return Err(StorageError::exists(what));
    }

    match found.status.as_str() {
        "available" | "in-use" | "reserved" | "attaching" | "detaching" => {
            Ok(shown(cloud, found, Some(new.preferred.as_slice())))
        }
        status if status.starts_with("error") => Err(broken(found)),
        status => Err(in_progress(&format!("the volume {} is {status}", found.id))),
    }
}

fn text(optional: Option<&String>) -> Option<&str> {
    optional.map(String::as_str).filter(|it| !it.is_empty())
}

/// Returns a volume. `preferred` is where it should be, if the zones of volumes mean nothing.
fn shown(cloud: &Cloud<'_>, found: &cinder::Volume, preferred: Option<&[Topology]>) -> Volume {
    let topology = if cloud.config.ignore_volume_az {
        preferred.unwrap_or_default().to_vec()
    } else {
        // As the node part does, so that it is a label.
        let zone = text(found.availability_zone.as_ref()).and_then(label::sanitized);
        let zone = zone.map(|zone| vec![(ZONE.to_owned(), zone)]);
        zone.into_iter().collect()
    };
    let origins = [found.snapshot_id.as_ref(), found.source_volid.as_ref()];
    let is_copy = origins.into_iter().any(|it| text(it).is_some());
    let context = is_copy.then(|| (RESIZE.to_owned(), "true".to_owned()));

    Volume {
        id: found.id.clone(),
        size_bytes: found.size.saturating_mul(GIB),
        topology,
        context: context.into_iter().collect::<Vec<Pair>>(),
        nodes: nodes(found).map(str::to_owned).collect(),
    }
}

/// Returns the IDs of the servers that have a volume.
fn nodes(volume: &cinder::Volume) -> impl Iterator<Item = &str> {
    let servers = volume.attachments.iter().map(|it| it.server_id.as_str());
    servers.filter(|it| !it.is_empty())
}

/// Returns the request that deletes one.
fn deletion<T: Resource>(cloud: &Cloud<'_>, id: &str) -> Result<ServiceRequest> {
    let path = format!("/{}/{id}", T::COLLECTION);
    let what = format!("cannot delete {} `{id}`", T::ONE);
    cloud.request(Method::Delete, Kind::BlockStorage, &path, what)
}

/// Returns whether it does not exist any more, after an answer to a deletion.
fn explain_deletion(answer: Answered) -> Result<bool, StorageError> {
    if answer.says(404, "itemNotFound") {
        return Ok(true);
    }
    // It has snapshots, or somebody has begun to use it.
    if answer.says(400, "snapshot") || answer.says(400, "status must be") {
        let error = certain(answer).err();
        let error = error.unwrap_or_else(|| CloudError::internal("it is in use"));
        return Err(StorageError::in_use(error.message()));
    }
    certain(answer)?;
    Ok(false)
}

/// Returns the answer to a request that creates or expands something, unless it is an error.
fn accepted(answer: Answered) -> Result<Response, StorageError> {
    // A 413 without these words is about the rate of requests.
    let is_quota = answer.says(413, "uota") || answer.says(413, "xceeded");
    // Another one may do.
    let is_zone = answer.says(400, "vailability zone");
    let is_missing = answer.says(404, "itemNotFound");
    // Its state has changed since it was read.
    let is_early = answer.says(400, "tatus must be");
    // Those of snapshots, of the project and of the volume type.
    let is_no_size = answer.says(400, "smaller than")
        || answer.says(413, "larger than")
        || answer.says(400, "Specified volume size");

    match certain(answer) {
        Ok(answer) => Ok(answer),
        Err(error) if is_no_size => Err(StorageError::out_of_range(error.message())),
        Err(error) if is_quota || is_zone => Err(StorageError::exhausted(error.message())),
        Err(error) if is_missing => Err(CloudError::not_found(error.message()).into()),
        Err(error) if is_early => Err(CloudError::in_progress(CHANGING, error.message()).into()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the answer, unless it is an error. A 404 from a proxy on the way proves nothing.
fn certain(answer: Answered) -> Result<Response> {
    explain(&answer.what, answer.result).map_err(|error| match error {
        CloudError::NotFound(text) => CloudError::unavailable(text),
        other => other,
    })
}

fn next(answers: &mut impl Iterator<Item = Answered>) -> Result<Answered> {
    let missing = || CloudError::internal("an answer is missing");
    answers.next().ok_or_else(missing)
}

fn in_progress(what: &str) -> StorageError {
    CloudError::in_progress(CHANGING, what).into()
}

fn broken<T: Resource>(it: &T) -> StorageError {
    let what = format!("the {} {} is in state {}", T::ONE, it.id(), it.status());
    CloudError::unavailable(what).into()
}

fn no_volume(id: &str) -> CloudError {
    CloudError::not_found(format!("no volume {id}"))
}

#[cfg(test)]
mod tests;
