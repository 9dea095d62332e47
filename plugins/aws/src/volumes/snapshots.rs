//! Snapshots of volumes.

use skydock_sdk::{
    Result,
    snapshots::{NewSnapshot, Snapshot, SnapshotPage},
    storage::StorageError,
    types::CloudError,
};

use super::{
    GIB, at_most, by_id, by_name, check_owner, check_sources, delete_all, deleted, explain,
    in_progress, listed, next, no, pending, send, tags, texts,
};
use crate::{
    client::{
        api::{
            call::Call,
            ec2::volumes::{self as ebs, Resource, seconds},
            failure::Failure,
            read,
        },
        endpoint::Api,
    },
    cloud::Cloud,
    tags::Cluster,
};

/// What to do for a snapshot that is wanted.
#[derive(Debug)]
enum Step {
    Done(Snapshot),
    Create(Call),
    /// It is broken: it is deleted, so that another one can be created.
    Delete(Call),
}

impl Cloud<'_> {
    /// Creates snapshots, or finds those that exist.
    ///
    /// # Errors
    /// Fails if EC2 cannot be asked which snapshots exist.
    pub fn create_snapshots(
        &self,
        snapshots: &[NewSnapshot],
    ) -> Result<Vec<Result<Snapshot, StorageError>>> {
        let cluster = self.identity()?.cluster;
        let names: Vec<_> = snapshots.iter().map(|it| it.name.as_str()).collect();
        let existing = by_name::<ebs::Snapshot>(self, &cluster, &names)?;
        let volumes = snapshots.iter().zip(&existing);
        let volumes: Vec<_> = volumes
            .map(|(new, found)| found.is_empty().then_some(new.volume.as_str()))
            .collect();
        let volumes = check_sources::<ebs::Volume>(self, &cluster, &volumes)?;

        let wanted = snapshots.iter().zip(&existing).zip(volumes);
        let steps = wanted.map(|((new, found), volume)| {
            if found.is_empty() && pending::is_uncertain(self, ebs::Snapshot::ONE, &new.name) {
                // EC2 would create a second one.
                let what = format!("whether the snapshot {} exists is not certain", new.name);
                return Err(in_progress(what));
            }
            if found.is_empty() {
                pending::check(self, ebs::Snapshot::ONE, &new.name)?;
            }
            volume?;
            step(&cluster, new, found)
        });
        let steps: Vec<Result<Step, StorageError>> = steps.collect();
        let steps = at_most(steps, |step| matches!(step, Step::Done(_)));

        let call = |step: &Step| match step {
            Step::Done(_) => None,
            Step::Create(call) | Step::Delete(call) => Some(call.clone()),
        };
        let calls: Vec<Call> = steps.iter().flatten().filter_map(call).collect();
        for (new, step) in snapshots.iter().zip(&steps) {
            if matches!(step, Ok(Step::Create(_))) {
                pending::begin(self, ebs::Snapshot::ONE, &new.name);
            }
        }
        let mut answers = send(self, &calls).into_iter();

        let answer = |(new, step): (&NewSnapshot, Result<Step, StorageError>)| match step? {
            Step::Done(snapshot) => Ok(snapshot),
            Step::Create(call) => created(self, new, &call, next(&mut answers)?),
            Step::Delete(_) => {
                deleted::<ebs::Snapshot>(next(&mut answers)?).map_err(pending::not_final)?;
                let reason = format!("the snapshot {} was in state error", new.name);
                pending::fail(self, ebs::Snapshot::ONE, &new.name, &reason);
                Err(in_progress(format!("{reason}: it is deleted")))
            }
        };
        Ok(snapshots.iter().zip(steps).map(answer).collect())
    }

    /// Returns snapshots by their IDs.
    ///
    /// # Errors
    /// Fails if EC2 cannot be asked.
    pub fn snapshots(&self, ids: &[String]) -> Result<Vec<Result<Snapshot, StorageError>>> {
        let cluster = self.identity()?.cluster;
        let ids = texts(ids);
        let found = by_id::<ebs::Snapshot>(self, &ids)?;
        let answer = |id: &str, found: Result<Option<ebs::Snapshot>>| -> Result<_, StorageError> {
            let found = found?.ok_or_else(|| no::<ebs::Snapshot>(id))?;
            check_owner(&cluster, &found)?;
            Ok(shown(&found)?)
        };
        let both = ids.iter().zip(found);
        Ok(both.map(|(id, found)| answer(id, found)).collect())
    }

    /// Lists a page of the snapshots of this cluster.
    ///
    /// # Errors
    /// Fails if EC2 cannot be asked.
    pub fn list_snapshots(&self, page: Option<&str>) -> Result<SnapshotPage> {
        let (found, next) = listed::<ebs::Snapshot>(self, page)?;
        Ok(SnapshotPage {
            snapshots: found.iter().filter_map(|it| shown(it).ok()).collect(),
            next,
        })
    }

    /// Deletes snapshots.
    ///
    /// # Errors
    /// Fails if EC2 cannot be asked.
    pub fn delete_snapshots(&self, ids: &[String]) -> Result<Vec<Result<(), StorageError>>> {
        delete_all(self, ids, |snapshot: &ebs::Snapshot| {
            Ok(Some(deletion(snapshot)))
        })
    }
}

/// Decides what to do for a snapshot. `existing` are those with its name.
fn step(
    cluster: &Cluster,
    new: &NewSnapshot,
    existing: &[ebs::Snapshot],
) -> Result<Step, StorageError> {
    let found = match existing {
        [] => return Ok(Step::Create(creation(cluster, new)?)),
        [found] => found,
        _ => {
            let what = format!("EC2 has {} snapshots `{}`", existing.len(), new.name);
            return Err(CloudError::denied(what).into());
        }
    };
    if found.status == "error" && cluster.owns(&found.tags()) {
        return Ok(Step::Delete(deletion(found)));
    }
    settled(new, found).map(Step::Done)
}

/// Returns the request that creates a snapshot.
fn creation(cluster: &Cluster, new: &NewSnapshot) -> Result<Call> {
    let mut specifications = Vec::new();
    for (key, value) in &new.parameters {
        if !key.to_ascii_lowercase().starts_with("tagspecification") {
            // They cost money, or keep a snapshot from being deleted: they must not be lost.
            return Err(CloudError::invalid(format!(
                "parameter {key} of a VolumeSnapshotClass is not supported; expected tagSpecification_N"
            )));
        }
        specifications.push(value.clone());
    }

    let mut all = tags::of_snapshot(cluster, &new.name);
    let names = tags::Names::of_snapshot(new.owner.as_ref());
    all.extend(tags::evaluate(&specifications, &names)?);
    let description = format!("Created by AWS EBS CSI driver for volume {}", new.volume);
    Ok(Call::new(Api::Ec2, "CreateSnapshot")
        .with("VolumeId", &new.volume)
        .with("Description", description)
        .with("TagSpecification.1.ResourceType", "snapshot")
        .tags("TagSpecification.1.Tag", &all))
}

fn deletion(snapshot: &ebs::Snapshot) -> Call {
    Call::new(Api::Ec2, "DeleteSnapshot").with("SnapshotId", &snapshot.snapshot_id)
}

/// Reads the answer to a creation.
fn created(
    cloud: &Cloud<'_>,
    new: &NewSnapshot,
    call: &Call,
    answer: Result<String, Failure>,
) -> Result<Snapshot, StorageError> {
    match answer {
        Ok(body) => {
            let created: ebs::Snapshot = read(call, &body).map_err(CloudError::from)?;
            settled(new, &created)
        }
        Err(failure) => {
            if failure.is_certain() {
                pending::forget(cloud, ebs::Snapshot::ONE, &new.name);
            }
            Err(explain(failure))
        }
    }
}

/// Returns the snapshot with the name of a new one, if it is one of its volume. EC2 cuts it before it
/// answers, and copies it later.
fn settled(new: &NewSnapshot, found: &ebs::Snapshot) -> Result<Snapshot, StorageError> {
    if found.volume_id != new.volume {
        let what = format!(
            "the snapshot {} has the name {}",
            found.snapshot_id, new.name
        );
        return Err(StorageError::exists(what));
    }
    if found.status == "error" {
        let what = format!("the snapshot {} is in state error", found.snapshot_id);
        return Err(CloudError::unavailable(what).into());
    }
    Ok(shown(found)?)
}

fn shown(found: &ebs::Snapshot) -> Result<Snapshot> {
    let unreadable = || {
        let (id, time) = (&found.snapshot_id, &found.start_time);
        CloudError::internal(format!("the snapshot {id} was created at `{time}`"))
    };
    Ok(Snapshot {
        id: found.snapshot_id.clone(),
        volume: found.volume_id.clone(),
        size_bytes: found.volume_size.saturating_mul(GIB),
        creation_timestamp: seconds(&found.start_time).ok_or_else(unreadable)?,
        ready: found.status == "completed",
    })
}
