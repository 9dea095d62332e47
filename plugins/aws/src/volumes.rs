//! Volumes of EBS and their snapshots, as the controller part of the driver `ebs.csi.aws.com`: its node
//! part, volumes and classes stay as they are.
//!
//! Nothing waits: what EC2 has begun is found again by name or ID, and hundreds of volumes are read
//! in one request.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use skydock_sdk::{
    Result,
    storage::{AccessMode, StorageError, Topology},
    types::{CloudError, Pair},
    volumes::{DriverInfo, NewVolume, Volume, VolumePage},
};

use crate::{
    client::{
        api::{
            call::Call,
            ec2::volumes::{self as ebs, Resource},
            failure::Failure,
            read,
        },
        endpoint::Api,
    },
    cloud::Cloud,
    instances::reference,
    tags::{Cluster, Owner},
};

mod attachments;
mod change;
mod device;
mod find;
mod parameters;
mod pending;
mod snapshots;
mod tags;

use find::{by_id, by_name, check_owner, check_sources, no};
use parameters::{DEFAULT_TYPE, Parameters, capped};
use pending::Attempt;

/// Name of the official driver.
const DRIVER: &str = "ebs.csi.aws.com";
/// Key of the label with the zone of a node.
const ZONE: &str = "topology.kubernetes.io/zone";
/// The same, before the official driver used Kubernetes' label.
const DRIVER_ZONE: &str = "topology.ebs.csi.aws.com/zone";
/// Key of the label with the ID of the zone of a node.
const ZONE_ID: &str = "topology.k8s.aws/zone-id";
/// Key of the label with the Outpost of a node.
const OUTPOST: &str = "topology.ebs.csi.aws.com/outpost-id";
/// What else the node part says about nodes.
const OTHERS: [&str; 4] = [
    "kubernetes.io/os",
    "topology.ebs.csi.aws.com/region",
    "topology.ebs.csi.aws.com/partition",
    "topology.ebs.csi.aws.com/account-id",
];

/// When to look again at what changes.
const CHANGING: Duration = Duration::from_secs(1);
const GIB: u64 = 1 << 30;
/// The size of a volume that may have any, as the official driver has it.
const DEFAULT_GIB: u64 = 100;

/// Maximum number of changes that one call sends, about what AWS' token buckets hold.
const CHANGES: usize = 100;
/// Number of changes that are sent before the answers are looked at.
const PART: usize = 20;

/// Returns the driver whose controller part this is.
pub(crate) fn driver() -> DriverInfo {
    let keys = [ZONE, DRIVER_ZONE, ZONE_ID, OUTPOST].into_iter();
    DriverInfo {
        name: DRIVER.to_owned(),
        topology_keys: keys.chain(OTHERS).map(str::to_owned).collect(),
        access_modes: vec![
            AccessMode::SingleNodeWriter,
            AccessMode::MultiNodeMultiWriter,
        ],
        clones: false,
    }
}

/// What to do for a volume that is wanted.
#[derive(Debug)]
enum Step {
    /// It can be used.
    Done(Volume),
    /// Send this to create it.
    Create(Call),
    /// It is broken: it is deleted, so that another one can be created.
    Delete(Call),
}

impl Cloud<'_> {
    /// Creates volumes, or finds those that exist.
    ///
    /// # Errors
    /// Fails if EC2 cannot be asked which volumes exist.
    pub fn create_volumes(
        &self,
        volumes: &[NewVolume],
    ) -> Result<Vec<Result<Volume, StorageError>>> {
        let cluster = self.identity()?.cluster;
        let names: Vec<_> = volumes.iter().map(|it| it.name.as_str()).collect();
        let existing = by_name::<ebs::Volume>(self, &cluster, &names)?;
        let sources = volumes.iter().zip(&existing);
        let sources: Vec<_> = sources
            .map(|(new, found)| new.snapshot.as_deref().filter(|_| found.is_empty()))
            .collect();
        let sources = check_sources::<ebs::Snapshot>(self, &cluster, &sources)?;

        let is_anywhere = |new: &NewVolume| matches!(place(new), Ok(Place::Any));
        let zones = if volumes.iter().any(is_anywhere) {
            zones(self)
        } else {
            Vec::new()
        };
        let uncertain: Vec<bool> = names
            .iter()
            .map(|name| pending::is_uncertain(self, ebs::Volume::ONE, name))
            .collect();
        let wanted = volumes.iter().zip(&existing).zip(sources);
        let steps = wanted.map(|((new, found), source)| {
            if found.is_empty() {
                pending::check(self, ebs::Volume::ONE, &new.name)?;
            }
            source?;
            step(self, &cluster, &zones, new, found)
        });
        let steps: Vec<Result<Step, StorageError>> = steps.collect();
        let steps = at_most(steps, |step| matches!(step, Step::Done(_)));

        let call = |step: &Step| match step {
            Step::Done(_) => None,
            Step::Create(call) | Step::Delete(call) => Some(call.clone()),
        };
        let calls: Vec<Call> = steps.iter().flatten().filter_map(call).collect();
        for ((new, step), uncertain) in volumes.iter().zip(&steps).zip(&uncertain) {
            if matches!(step, Ok(Step::Create(_))) && !uncertain {
                pending::begin(self, ebs::Volume::ONE, &new.name);
            }
        }
        let mut answers = send(self, &calls).into_iter();

        let mut answer =
            |(new, step, uncertain): (&NewVolume, Result<Step, StorageError>, bool)| match step? {
                Step::Done(volume) => Ok(volume),
                Step::Create(call) => created(self, new, &call, uncertain, next(&mut answers)?),
                Step::Delete(_) => {
                    deleted::<ebs::Volume>(next(&mut answers)?).map_err(pending::not_final)?;
                    Attempt::of(self, &new.name).next_now(self, &new.name);
                    let reason = format!("the volume {} was in state error", new.name);
                    pending::fail(self, ebs::Volume::ONE, &new.name, &reason);
                    Err(in_progress(format!("{reason}: it is deleted")))
                }
            };
        let all = volumes.iter().zip(steps).zip(uncertain).zip(&existing);
        let all = all.map(|(((new, step), uncertain), found)| {
            let result = answer((new, step, uncertain));
            if uncertain && found.is_empty() {
                return result.map_err(pending::not_final);
            }
            result
        });
        Ok(all.collect())
    }

    /// Returns volumes by their IDs.
    ///
    /// # Errors
    /// Fails if EC2 cannot be asked.
    pub fn volumes(&self, ids: &[String]) -> Result<Vec<Result<Volume, StorageError>>> {
        let cluster = self.identity()?.cluster;
        let ids = texts(ids);
        let found = by_id::<ebs::Volume>(self, &ids)?;
        let answer = |id: &str, found: Result<Option<ebs::Volume>>| -> Result<_, StorageError> {
            let found = found?.ok_or_else(|| no::<ebs::Volume>(id))?;
            check_owner(&cluster, &found)?;
            if is_gone(&found) {
                return Err(no::<ebs::Volume>(id).into());
            }
            Ok(shown(&found))
        };
        let both = ids.iter().zip(found);
        Ok(both.map(|(id, found)| answer(id, found)).collect())
    }

    /// Lists a page of the volumes of this cluster.
    ///
    /// # Errors
    /// Fails if EC2 cannot be asked.
    pub fn list_volumes(&self, page: Option<&str>) -> Result<VolumePage> {
        let (found, next) = listed::<ebs::Volume>(self, page)?;
        let found = found.iter().filter(|it| !is_gone(it));
        Ok(VolumePage {
            volumes: found.map(shown).collect(),
            next,
        })
    }

    /// Deletes volumes.
    ///
    /// # Errors
    /// Fails if EC2 cannot be asked.
    pub fn delete_volumes(&self, ids: &[String]) -> Result<Vec<Result<(), StorageError>>> {
        delete_all(self, ids, |volume: &ebs::Volume| {
            match volume.status.as_str() {
                "deleted" => return Ok(None),
                "deleting" => return Err(in_progress(is(volume))),
                _ => {}
            }
            let mut attached = nodes(volume);
            if let Some(node) = attached.next() {
                let id = &volume.volume_id;
                let what = format!("the volume {id} is attached to {node}");
                return Err(StorageError::in_use(what));
            }
            let call = Call::new(Api::Ec2, "DeleteVolume").with("VolumeId", &volume.volume_id);
            Ok(Some(call))
        })
    }
}

/// Lists a page of those of this cluster that this driver has created.
fn listed<T: Resource>(cloud: &Cloud<'_>, page: Option<&str>) -> Result<(Vec<T>, Option<String>)> {
    let cluster = cloud.identity()?.cluster;
    let (name, value) = tags::filter(&cluster);
    let call = T::list()
        .filter(&name, [value])
        .filter("tag-key", [T::NAME])
        .with_some("NextToken", page);
    Ok(ebs::describe_page::<T>(cloud.wire, &call)?)
}

/// Deletes volumes or snapshots. `decide` returns what to send, or nothing if it does not exist.
fn delete_all<T: Resource>(
    cloud: &Cloud<'_>,
    ids: &[String],
    decide: impl Fn(&T) -> Result<Option<Call>, StorageError>,
) -> Result<Vec<Result<(), StorageError>>> {
    let cluster = cloud.identity()?.cluster;
    let decide = |found: Result<Option<T>>| -> Result<Option<Call>, StorageError> {
        let Some(it) = found? else {
            return Ok(None);
        };
        check_owner(&cluster, &it)?;
        if cluster.owner(&it.tags()) == Owner::Ours && !cluster.owns(&it.tags()) {
            let what = format!("{} {} is shared with this cluster", T::ONE, it.id());
            return Err(CloudError::denied(what).into());
        }
        let call = decide(&it)?;
        // Its name can be used again.
        if let Some(name) = it.tags().get(T::NAME) {
            pending::forget(cloud, T::ONE, name);
        }
        Ok(call)
    };
    let found = by_id::<T>(cloud, &texts(ids))?;
    let steps: Vec<Result<Option<Call>, StorageError>> = found.into_iter().map(decide).collect();
    let steps = at_most(steps, Option::is_none);

    let calls: Vec<Call> = steps.iter().flatten().flatten().cloned().collect();
    let mut answers = send(cloud, &calls).into_iter();
    let answer = |(id, step): (&String, Result<Option<Call>, StorageError>)| {
        if step?.is_none() || deleted::<T>(next(&mut answers)?)? {
            return Ok(());
        }
        Err(in_progress(format!("{} {id} is being deleted", T::ONE)))
    };
    Ok(ids.iter().zip(steps).map(answer).collect())
}

/// Returns whether it does not exist, after an answer to a deletion.
fn deleted<T: Resource>(answer: Result<String, Failure>) -> Result<bool, StorageError> {
    match answer {
        Ok(_) => Ok(false),
        Err(failure) if failure.code() == T::UNKNOWN => Ok(true),
        Err(failure) if ["VolumeInUse", "InvalidSnapshot.InUse"].contains(&failure.code()) => {
            Err(StorageError::in_use(failure.to_string()))
        }
        Err(failure) => Err(CloudError::from(failure).into()),
    }
}

/// Decides what to do for a volume. `existing` are those with its name.
fn step(
    cloud: &Cloud<'_>,
    cluster: &Cluster,
    zones: &[String],
    new: &NewVolume,
    existing: &[ebs::Volume],
) -> Result<Step, StorageError> {
    let parameters = Parameters::read(&new.parameters, &new.attributes, &new.capabilities);
    let found = match existing {
        [] => {
            let parameters = parameters?;
            let attempt = Attempt::of(cloud, &new.name);
            let Some(base) = attempt.base(&new.name, cloud.now) else {
                let what = format!("whether the volume {} exists is not certain", new.name);
                return Err(in_progress(what));
            };
            return creation(cluster, zones, new, &parameters, &base).map(Step::Create);
        }
        [found] => found,
        _ => {
            let what = format!("EC2 has {} volumes `{}`", existing.len(), new.name);
            return Err(CloudError::denied(what).into());
        }
    };
    let is_deletable = cluster.owns(&found.tags()) && nodes(found).next().is_none();
    if found.status == "error" && is_deletable {
        let call = Call::new(Api::Ec2, "DeleteVolume").with("VolumeId", &found.volume_id);
        return Ok(Step::Delete(call));
    }
    // A volume that exists must not be forgotten because of its parameters.
    let context = parameters.map_or_else(|_| tags::context(&found.tags()), |it| it.context);
    settled(new, &context, found).map(Step::Done)
}

/// Returns the request that creates a volume. It must be the same each time: then EC2 does it once.
fn creation(
    cluster: &Cluster,
    zones: &[String],
    new: &NewVolume,
    parameters: &Parameters,
    token: &str,
) -> Result<Call, StorageError> {
    let gib = gib(new.size_bytes, new.limit_bytes)?;
    let attributes = &parameters.attributes;
    let volume_type = attributes.volume_type.as_deref().unwrap_or(DEFAULT_TYPE);
    let shared = shared(new)?;
    if shared && volume_type != "io2" {
        let what = "only volumes of type io2 can be attached to several instances";
        return Err(CloudError::invalid(what).into());
    }

    let iops = attributes
        .iops
        .or(attributes.iops_per_gib.map(|it| it.saturating_mul(gib)));
    let iops = iops.map(|iops| capped(volume_type, gib, iops, parameters.increase));
    let (zone, zone_id) = match place(new)? {
        Place::Zone(zone) => (Some(zone), None),
        Place::ZoneId(id) => (None, Some(id)),
        Place::Any => (Some(any_zone(zones, &new.name)?), None),
    };

    let mut tags = tags::of_volume(cluster, &new.name, new.claim.as_ref());
    let names = tags::Names::of_volume(&new.name, new.claim.as_ref());
    tags.extend(tags::evaluate(&attributes.tags, &names)?);
    tags::add_context(&mut tags, &parameters.context);
    if let Some(iops) = attributes.iops_per_gib {
        tags.insert(tags::IOPS_PER_GIB.to_owned(), iops.to_string());
    }
    if let Some(increase) = attributes.increase_on_modify {
        tags.insert(tags::INCREASE.to_owned(), increase.to_string());
    }

    Ok(Call::new(Api::Ec2, "CreateVolume")
        .with("ClientToken", hex::encode(Sha256::digest(token)))
        .with("Size", gib)
        .with("VolumeType", volume_type)
        .with(
            "Encrypted",
            parameters.encrypted || parameters.key.is_some(),
        )
        .with("MultiAttachEnabled", shared)
        .with_some("AvailabilityZone", zone)
        .with_some("AvailabilityZoneId", zone_id)
        .with_some("KmsKeyId", parameters.key.as_deref())
        .with_some("Iops", iops)
        .with_some("Throughput", attributes.throughput)
        .with_some("SnapshotId", new.snapshot.as_deref())
        .with_some("VolumeInitializationRate", parameters.initialization_rate)
        .with("TagSpecification.1.ResourceType", "volume")
        .tags("TagSpecification.1.Tag", &tags))
}

/// Returns whether several instances must be able to have a volume.
fn shared(new: &NewVolume) -> Result<bool> {
    let mut shared = false;
    for capability in &new.capabilities {
        if capability.mode == AccessMode::MultiNodeMultiWriter {
            if capability.file_system.is_some() {
                return Err(CloudError::invalid(
                    "only block devices can be attached to several nodes",
                ));
            }
            shared = true;
        }
    }
    Ok(shared)
}

/// Where a volume is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place<'a> {
    Zone(&'a str),
    ZoneId(&'a str),
    Any,
}

/// Returns the best place for a volume.
fn place(new: &NewVolume) -> Result<Place<'_>> {
    let parts = || new.preferred.iter().chain(&new.requisite);
    if parts().any(|it| segment(it, OUTPOST).is_some()) {
        return Err(CloudError::invalid("volumes on Outposts are not supported"));
    }

    let zone = parts().find_map(|it| segment(it, ZONE).or_else(|| segment(it, DRIVER_ZONE)));
    if let Some(zone) = zone {
        return Ok(Place::Zone(zone));
    }
    let id = parts().find_map(|it| segment(it, ZONE_ID));
    Ok(id.map_or(Place::Any, Place::ZoneId))
}

fn segment<'a>(topology: &'a Topology, key: &str) -> Option<&'a str> {
    let segment = topology.iter().find(|(name, _)| name == key);
    segment.map(|(_, value)| value.as_str())
}

/// Returns the zones of the nodes, in order.
fn zones(cloud: &Cloud<'_>) -> Vec<String> {
    let zone = |id: String| {
        let (zone, _) = reference::zone_and_id(&id)?;
        Some(zone.to_owned()).filter(|zone| !zone.is_empty())
    };
    let nodes = (cloud.nodes)().into_iter();
    let mut zones: Vec<String> = nodes
        .filter_map(|node| node.provider_id.and_then(zone))
        .collect();
    zones.sort();
    zones.dedup();
    zones
}

/// Returns the zone for a volume that may be in any, so that volumes are in all of them.
fn any_zone<'z>(zones: &'z [String], name: &str) -> Result<&'z str> {
    let sum: usize = name.bytes().map(usize::from).sum();
    let index = sum.checked_rem(zones.len()).unwrap_or_default();
    let none = || CloudError::unavailable("no node has a zone yet, so that none can be chosen");
    zones.get(index).map(String::as_str).ok_or_else(none)
}

/// Returns the size in EC2's unit.
fn gib(bytes: u64, limit: Option<u64>) -> Result<u64, StorageError> {
    let most = limit.map_or(u64::MAX, |limit| limit / GIB);
    let gib = match bytes {
        0 => DEFAULT_GIB.min(most).max(1),
        bytes => bytes.div_ceil(GIB),
    };
    if gib > most {
        return Err(StorageError::out_of_range(
            "sizes are multiples of 1 GiB, and none is within the limits",
        ));
    }
    Ok(gib)
}

/// Reads the answer to a creation. `uncertain` says that an earlier one may have succeeded.
fn created(
    cloud: &Cloud<'_>,
    new: &NewVolume,
    call: &Call,
    uncertain: bool,
    answer: Result<String, Failure>,
) -> Result<Volume, StorageError> {
    let failure = match answer {
        Ok(body) => {
            let created: ebs::Volume = read(call, &body).map_err(CloudError::from)?;
            let context = tags::context(&created.tags());
            return settled(new, &context, &created);
        }
        Err(failure) => failure,
    };
    if failure.code() == "IdempotentParameterMismatch" {
        Attempt::of(cloud, &new.name).next(cloud, &new.name);
        return Err(in_progress(failure.to_string()));
    }
    if !failure.is_certain() {
        pending::begin(cloud, ebs::Volume::ONE, &new.name);
    } else if !uncertain {
        pending::forget(cloud, ebs::Volume::ONE, &new.name);
    }
    Err(explain(failure))
}

/// Returns what an error of a creation or a change means.
fn explain(failure: Failure) -> StorageError {
    let is_full = failure.code() == "InsufficientVolumeCapacity";
    // Those that run at the same time end.
    let ends = failure.code() == "ConcurrentSnapshotLimitExceeded";
    if is_full || (failure.is_quota() && !ends) {
        return StorageError::exhausted(failure.to_string());
    }
    if ends {
        return in_progress(failure.to_string());
    }
    CloudError::from(failure).into()
}

/// Returns the volume with the name of a new one, if it is as wanted, and ready.
fn settled(new: &NewVolume, context: &[Pair], found: &ebs::Volume) -> Result<Volume, StorageError> {
    let bytes = found.size.saturating_mul(GIB);
    let limit = new.limit_bytes.unwrap_or(u64::MAX);
    // Not its zone: the scheduler can choose another node, and the volume must not be forgotten.
    let is_wanted = (new.size_bytes..=limit).contains(&bytes)
        && found.snapshot_id == new.snapshot.as_deref().unwrap_or_default();
    if !is_wanted {
        let what = format!("the volume {} has the name {}", found.volume_id, new.name);
        return Err(StorageError::exists(what));
    }

    match found.status.as_str() {
        "available" | "in-use" => Ok(Volume {
            context: context.to_vec(),
            ..shown(found)
        }),
        "error" => Err(broken(found)),
        _ => Err(in_progress(is(found))),
    }
}

/// Returns a volume.
fn shown(found: &ebs::Volume) -> Volume {
    Volume {
        id: found.volume_id.clone(),
        size_bytes: found.size.saturating_mul(GIB),
        topology: vec![vec![(ZONE.to_owned(), found.availability_zone.clone())]],
        context: tags::context(&found.tags()),
        nodes: nodes(found).map(str::to_owned).collect(),
    }
}

/// Returns the IDs of the instances that have a volume.
fn nodes(volume: &ebs::Volume) -> impl Iterator<Item = &str> {
    let attachments = volume.attachment_set.items.iter();
    let attached = attachments.filter(|it| it.status != "detached");
    attached
        .map(|it| it.instance_id.as_str())
        .filter(|id| !id.is_empty())
}

fn is_gone(volume: &ebs::Volume) -> bool {
    ["deleting", "deleted"].contains(&volume.status.as_str())
}

/// Returns a sentence about the state of a volume.
fn is(volume: &ebs::Volume) -> String {
    format!("the volume {} is {}", volume.volume_id, volume.status)
}

fn broken(volume: &ebs::Volume) -> StorageError {
    CloudError::unavailable(is(volume)).into()
}

fn in_progress(what: impl Into<String>) -> StorageError {
    CloudError::in_progress(CHANGING, what).into()
}

fn texts(ids: &[String]) -> Vec<&str> {
    ids.iter().map(String::as_str).collect()
}

/// Puts off the steps that are too many for one call. `is_free` says which send nothing.
fn at_most<T>(
    mut steps: Vec<Result<T, StorageError>>,
    is_free: impl Fn(&T) -> bool,
) -> Vec<Result<T, StorageError>> {
    let mut sent = 0;
    for step in &mut steps {
        if step.as_ref().is_ok_and(|it| !is_free(it)) {
            sent += 1;
            if sent > CHANGES {
                *step = Err(in_progress("others are changed before"));
            }
        }
    }
    steps
}

/// Sends changes. As soon as AWS asks for fewer requests, the others are not sent.
fn send(cloud: &Cloud<'_>, calls: &[Call]) -> Vec<Result<String, Failure>> {
    let mut answers: Vec<Result<String, Failure>> = Vec::new();
    for part in calls.chunks(PART) {
        let mut failures = answers.iter().filter_map(|answer| answer.as_ref().err());
        let throttled = failures.find(|failure| failure.is_throttled()).cloned();
        match throttled {
            Some(failure) => answers.extend(part.iter().map(|_| Err(failure.clone()))),
            None => answers.extend(cloud.wire.send(part)),
        }
    }
    answers
}

fn next(
    answers: &mut impl Iterator<Item = Result<String, Failure>>,
) -> Result<Result<String, Failure>> {
    let missing = || CloudError::internal("an answer is missing");
    answers.next().ok_or_else(missing)
}

#[cfg(test)]
mod tests;
