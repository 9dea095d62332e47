//! Volumes. Each has the name that Kubernetes gives it, so that a create whose answer was lost is
//! found by it.
use std::time::Duration;

use serde_json::{Value, json};
use skydock_sdk::{
    Result,
    http::{Request, Response},
    storage::{AccessMode, StorageError, Topology},
    types::{CloudError, Pair},
    volume_attributes::Modification,
    volume_expansion::Expansion,
    volumes::{DriverInfo, NewVolume, Volume, VolumePage},
};

use crate::{
    api::{self, Page, VolumeSpec, VolumeStatus, Zone},
    cloud::{Cloud, ask, certain, deleted, next_answer, problem, send_all},
};

const KIND: &str = "volumes";
/// Name of the CSI driver. Its node part would find a device by the path in the publish context.
const DRIVER: &str = "csi.simcloud.example";
/// Key of the label with the zone of a node.
const ZONE: &str = "topology.csi.simcloud.example/zone";
/// The only parameter of a StorageClass or a VolumeAttributesClass.
const IOPS: &str = "iops";
/// From this number of volumes on, a list costs less than a request for each.
const MANY: usize = 10;
/// When to look again at a volume that changes.
const CHANGING: Duration = Duration::from_secs(1);
const GIB: u64 = 1 << 30;

/// Returns the driver whose controller part this is.
pub(crate) fn driver() -> DriverInfo {
    DriverInfo {
        name: DRIVER.into(),
        topology_keys: vec![ZONE.into()],
        access_modes: vec![AccessMode::SingleNodeWriter],
        clones: true,
    }
}

/// Creates volumes, or finds those that exist. A list of all answers most questions about many volumes
/// that are being created; it may lag behind, so that only a create, whose name is unique, shows that
/// a volume does not exist.
pub(crate) fn create(
    cloud: &Cloud<'_>,
    volumes: &[NewVolume],
) -> Result<Vec<Result<Volume, StorageError>>> {
    let existing = existing(cloud, volumes)?;
    let found = |new: &NewVolume| existing.iter().find(|it| it.name == new.name);

    let missing: Vec<_> = volumes.iter().filter(|it| found(it).is_none()).collect();
    let mut created = create_missing(cloud, &missing).into_iter();

    let answer = |new: &NewVolume| match found(new) {
        Some(existing) => settled(cloud, new, existing),
        None => created
            .next()
            .unwrap_or_else(|| Err(CloudError::internal("not created").into())),
    };
    Ok(volumes.iter().map(answer).collect())
}

/// Returns volumes that may be some of the new ones. A list of all has many pages in a large cluster, and
/// a create finds a volume that exists, too, unless what it began as was deleted in the meantime.
fn existing(cloud: &Cloud<'_>, volumes: &[NewVolume]) -> Result<Vec<api::Volume>> {
    let mut existing = if volumes.len() >= MANY {
        all(cloud)?
    } else {
        Vec::new()
    };

    let has_content = |new: &&NewVolume| new.snapshot.is_some() || new.original.is_some();
    let is_unseen = |new: &&NewVolume| existing.iter().all(|it| it.name != new.name);
    let unsure = volumes.iter().filter(has_content).filter(is_unseen);
    let named = unsure.map(|new| Ok(cloud.config.named(KIND, &new.name)));
    for answer in send_all(named.collect()) {
        let page: Page<api::Volume> = certain(answer?)?.json()?;
        existing.extend(page.items);
    }
    Ok(existing)
}

fn create_missing(cloud: &Cloud<'_>, volumes: &[&NewVolume]) -> Vec<Result<Volume, StorageError>> {
    let anywhere = volumes.iter().any(|new| zone(new).is_none());
    let first_zone = anywhere.then(|| first_zone(cloud));
    let wanted: Vec<_> = volumes
        .iter()
        .map(|new| wanted(cloud, new, first_zone.as_ref()))
        .collect();

    let request = |spec: &VolumeSpec| Request::post(cloud.config.list(KIND)).json(spec);
    let requests = wanted.iter().flatten().map(request).collect();
    let mut answers = send_all(requests).into_iter();

    let read = |(new, spec): (&&NewVolume, Result<VolumeSpec, StorageError>)| {
        spec?;
        created(cloud, new, next_answer(&mut answers)?)
    };
    volumes.iter().zip(wanted).map(read).collect()
}

/// Returns volumes by their IDs.
pub(crate) fn get(cloud: &Cloud<'_>, ids: &[String]) -> Vec<Result<Volume, StorageError>> {
    let read = |(found, id): (Result<Option<api::Volume>>, &String)| {
        Ok(volume(&found?.ok_or_else(|| no_volume(id))?))
    };
    let found = cloud.by_id(KIND, &texts(ids));
    found.into_iter().zip(ids).map(read).collect()
}

/// Lists a page of the volumes of this cluster.
pub(crate) fn list(cloud: &Cloud<'_>, page: Option<&str>) -> Result<VolumePage> {
    let page: Page<api::Volume> = cloud.page(KIND, page)?;
    Ok(VolumePage {
        volumes: page.items.iter().map(volume).collect(),
        next: page.next,
    })
}

/// Deletes volumes. Those of other clusters do not exist for this one.
pub(crate) fn delete(cloud: &Cloud<'_>, ids: &[String]) -> Vec<Result<(), StorageError>> {
    let read = |answer: Result<Option<Response>>| match answer? {
        None => Ok(()),
        Some(answer) if problem(&answer, 409, "in_use").is_some() => {
            Err(StorageError::in_use("the volume is attached to a server"))
        }
        Some(answer) => Ok(deleted(answer)?),
    };
    let answers = cloud.delete_by_id::<api::Volume>(KIND, &texts(ids));
    answers.into_iter().map(read).collect()
}

/// Expands volumes.
pub(crate) fn expand(
    cloud: &Cloud<'_>,
    expansions: &[Expansion],
) -> Vec<Result<u64, StorageError>> {
    let change = |wanted: &Expansion, current: &api::Volume| {
        let gib = gib(wanted.size_bytes, wanted.limit_bytes)?;
        Ok((gib > current.size_gib).then(|| json!({"size_gib": gib})))
    };
    let questions = expansions.iter().map(|it| (it.volume.as_str(), it));
    changed(cloud, questions, change, |it| Ok(bytes(it)))
}

/// Changes the properties of volumes.
pub(crate) fn modify(
    cloud: &Cloud<'_>,
    modifications: &[Modification],
) -> Vec<Result<(), StorageError>> {
    let change = |wanted: &Modification, current: &api::Volume| {
        let iops = iops(&wanted.attributes)?.filter(|iops| *iops != current.iops);
        Ok(iops.map(|iops| json!({"iops": iops})))
    };
    let questions = modifications.iter().map(|it| (it.volume.as_str(), it));
    changed(cloud, questions, change, |_| Ok(()))
}

/// Changes the volumes with these IDs that are not as wanted: `change` returns what to send. `read`
/// says when a volume is.
pub(crate) fn changed<'a, Q: 'a, T>(
    cloud: &Cloud<'_>,
    questions: impl Iterator<Item = (&'a str, &'a Q)>,
    change: impl Fn(&Q, &api::Volume) -> Result<Option<Value>, StorageError>,
    read: impl Fn(&api::Volume) -> Result<T, StorageError>,
) -> Vec<Result<T, StorageError>> {
    let (ids, wanted): (Vec<&str>, Vec<&Q>) = questions.unzip();
    let found = cloud.by_id::<api::Volume>(KIND, &ids);

    let decide = |((found, wanted), id): ((Result<Option<api::Volume>>, &Q), &str)| {
        let found = found?.ok_or_else(|| no_volume(id))?;
        let change = change(wanted, &found)?;
        Ok((found, change))
    };
    let decided: Vec<Result<_, StorageError>> =
        found.into_iter().zip(wanted).zip(ids).map(decide).collect();

    let request = |(found, change): &(api::Volume, Option<Value>)| {
        let change = change.as_ref()?;
        let url = cloud.config.object(KIND, &found.id);
        Some(url.and_then(|url| Request::patch(url).json(change)))
    };
    let requests = decided.iter().flatten().filter_map(request).collect();
    let mut answers = send_all(requests).into_iter();

    let answer = |it: Result<(api::Volume, Option<Value>), StorageError>| match it? {
        (found, None) => read(&found),
        (_, Some(_)) => read(&accepted(next_answer(&mut answers)?)?.json()?),
    };
    decided.into_iter().map(answer).collect()
}

/// Returns a volume that changes, with the error that says so.
pub(crate) fn in_progress(volume: &api::Volume) -> StorageError {
    let what = format!("the volume {} is {:?}", volume.id, volume.status);
    CloudError::in_progress(CHANGING, what).into()
}

pub(crate) fn no_volume(id: &str) -> CloudError {
    CloudError::not_found(format!("no volume {id}"))
}

pub(crate) fn texts(ids: &[String]) -> Vec<&str> {
    ids.iter().map(String::as_str).collect()
}

/// Returns all volumes of this cluster.
fn all(cloud: &Cloud<'_>) -> Result<Vec<api::Volume>> {
    let mut page: Page<api::Volume> = cloud.page(KIND, None)?;
    let mut all = page.items;
    while let Some(next) = page.next {
        page = cloud.page(KIND, Some(&next))?;
        all.append(&mut page.items);
    }
    Ok(all)
}

/// Returns the first zone of the cloud, for volumes that may be in any.
fn first_zone(cloud: &Cloud<'_>) -> Result<String> {
    let page: Page<Zone> = ask(Request::get(cloud.config.list("zones")))?;
    let first = page.items.into_iter().next();
    first
        .map(|zone| zone.name)
        .ok_or_else(|| CloudError::unavailable("the cloud has no zones"))
}

/// Returns the best zone for a volume, if it matters.
fn zone(new: &NewVolume) -> Option<&str> {
    let mut parts = new.preferred.iter().chain(&new.requisite);
    parts.find_map(zone_of)
}

fn zone_of(topology: &Topology) -> Option<&str> {
    let segment = topology.iter().find(|(key, _)| key == ZONE);
    segment.map(|(_, zone)| zone.as_str())
}

/// Returns the volume to create.
fn wanted(
    cloud: &Cloud<'_>,
    new: &NewVolume,
    first_zone: Option<&Result<String>>,
) -> Result<VolumeSpec, StorageError> {
    let zone = match (original_zone(cloud, new)?, zone(new), first_zone) {
        (Some(zone), ..) => zone,
        (None, Some(zone), _) => zone.to_owned(),
        (None, None, Some(zone)) => zone.clone()?,
        (None, None, None) => return Err(CloudError::internal("no zone was chosen").into()),
    };

    // The content of another cluster's snapshot is none of this one's business.
    if let Some(id) = &new.snapshot {
        let found = cloud.by_id::<api::Snapshot>("snapshots", &[id]);
        if matches!(found.into_iter().next().transpose()?, None | Some(None)) {
            return Err(CloudError::not_found(format!("no snapshot {id}")).into());
        }
    }

    let claim = new.claim.as_ref();
    let claim = claim.map(|claim| format!("{}/{}", claim.namespace, claim.name));
    Ok(VolumeSpec {
        name: new.name.clone(),
        size_gib: gib(new.size_bytes, new.limit_bytes)?,
        zone,
        iops: iops(&new.attributes)?.or(iops(&new.parameters)?),
        snapshot: new.snapshot.clone(),
        original: new.original.clone(),
        labels: cloud.labels([("claim", claim.as_deref().unwrap_or_default())]),
    })
}

/// Returns the zone of the volume that a new one begins as a copy of, which is that of the copy, too.
fn original_zone(cloud: &Cloud<'_>, new: &NewVolume) -> Result<Option<String>, StorageError> {
    let Some(id) = &new.original else {
        return Ok(None);
    };
    let found = cloud.by_id::<api::Volume>(KIND, &[id]).into_iter().next();
    let original = found.transpose()?.flatten().ok_or_else(|| no_volume(id))?;
    if !fits(new, &original) {
        let what = format!("a copy is in {}, as the volume {id} is", original.zone);
        return Err(StorageError::exhausted(what));
    }
    Ok(Some(original.zone))
}

/// Returns whether a volume can be reached as a new one has to.
fn fits(new: &NewVolume, volume: &api::Volume) -> bool {
    let is_in_zone = |topology: &Topology| zone_of(topology) == Some(&volume.zone);
    new.requisite.is_empty() || new.requisite.iter().any(is_in_zone)
}

/// Returns the size in the cloud's unit.
fn gib(bytes: u64, limit: Option<u64>) -> Result<u32, StorageError> {
    let gib = bytes.div_ceil(GIB).max(1);
    if limit.is_some_and(|limit| gib.saturating_mul(GIB) > limit) {
        return Err(StorageError::out_of_range(
            "sizes are multiples of 1 GiB, and none is within the limits",
        ));
    }
    u32::try_from(gib).map_err(|_| StorageError::out_of_range("a volume is not that large"))
}

/// Returns the only parameter that there is.
fn iops(parameters: &[Pair]) -> Result<Option<u32>, StorageError> {
    if let Some((key, _)) = parameters.iter().find(|(key, _)| key != IOPS) {
        let what = format!("unknown parameter {key}; expected {IOPS}");
        return Err(CloudError::invalid(what).into());
    }
    let parse = |(_, value): &Pair| {
        let wrong = |_| CloudError::invalid(format!("{IOPS}: {value} is not a number"));
        value.parse().map_err(wrong)
    };
    Ok(parameters.first().map(parse).transpose()?)
}

/// Reads the answer to a create.
fn created(cloud: &Cloud<'_>, new: &NewVolume, answer: Response) -> Result<Volume, StorageError> {
    let Some(id) = problem(&answer, 409, "exists").and_then(|problem| problem.id) else {
        return settled(cloud, new, &accepted(answer)?.json()?);
    };
    // The list did not show it yet, or it is another cluster's.
    let existing: api::Volume = ask(Request::get(cloud.config.object(KIND, &id)?))?;
    settled(cloud, new, &existing)
}

/// Returns the answer to a create or a change, unless it is an error.
pub(crate) fn accepted(answer: Response) -> Result<Response, StorageError> {
    if problem(&answer, 403, "quota").is_some() {
        return Err(StorageError::exhausted("the quota of the cloud is used up"));
    }
    if problem(&answer, 409, "in_use").is_some() {
        return Err(StorageError::in_use("it is attached to another server"));
    }
    if problem(&answer, 409, "pending").is_some() {
        return Err(CloudError::in_progress(CHANGING, "it is not ready").into());
    }
    let size = |field: &String| field == "size_gib";
    match problem(&answer, 400, "invalid") {
        Some(problem) if problem.field.as_ref().is_some_and(size) => {
            Err(StorageError::out_of_range("the cloud has no such size"))
        }
        _ => Ok(certain(answer)?),
    }
}

/// Returns the volume with the name of a new one, if it is as wanted, and ready. One that is broken, or
/// that the nodes of today cannot reach, is deleted.
fn settled(
    cloud: &Cloud<'_>,
    new: &NewVolume,
    existing: &api::Volume,
) -> Result<Volume, StorageError> {
    let id = &existing.id;
    let limit = new.limit_bytes.unwrap_or(u64::MAX);
    let is_reachable = fits(new, existing);

    let is_wanted = cloud.owns(&existing.labels)
        && (new.size_bytes..=limit).contains(&bytes(existing))
        && existing.snapshot == new.snapshot
        && existing.original == new.original
        && (is_reachable || existing.server.is_none());
    if !is_wanted {
        let what = format!("the volume {id} has the name {}", new.name);
        return Err(StorageError::exists(what));
    }

    match existing.status {
        // Nothing is left, so that Kubernetes may choose another zone, or wait before it asks again.
        VolumeStatus::Error => {
            remove(cloud, id)?;
            Err(StorageError::exhausted(format!(
                "the volume {id} was broken, and is deleted"
            )))
        }
        _ if !is_reachable => {
            remove(cloud, id)?;
            let what = format!("the volume {id} is deleted: it was in {}", existing.zone);
            Err(CloudError::in_progress(CHANGING, what).into())
        }
        VolumeStatus::Creating => Err(in_progress(existing)),
        _ => Ok(volume(existing)),
    }
}

/// Deletes a volume that nobody has used.
fn remove(cloud: &Cloud<'_>, id: &str) -> Result<()> {
    let request = Request::delete(cloud.config.object(KIND, id)?);
    deleted(skydock_sdk::http::send(request)?)
}

fn bytes(volume: &api::Volume) -> u64 {
    u64::from(volume.size_gib) * GIB
}

fn volume(volume: &api::Volume) -> Volume {
    Volume {
        id: volume.id.clone(),
        size_bytes: bytes(volume),
        topology: vec![vec![(ZONE.to_owned(), volume.zone.clone())]],
        context: Vec::new(),
        nodes: volume.server.iter().cloned().collect(),
    }
}

#[cfg(test)]
mod tests;
