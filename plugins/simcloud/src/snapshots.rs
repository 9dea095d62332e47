//! Snapshots of volumes.
use skydock_sdk::{
    Result,
    http::{Request, Response},
    snapshots::{NewSnapshot, Snapshot, SnapshotPage},
    storage::StorageError,
    types::CloudError,
};

use crate::{
    api::{self, Page, SnapshotSpec, Volume},
    cloud::{Cloud, ask, certain, deleted, problem, send_all},
    volumes::{accepted, no_volume, texts},
};

const KIND: &str = "snapshots";

/// Creates snapshots, which are cut at once. Their names are unique: one that exists is found by a
/// create, or by its name if its volume does not exist any more.
pub(crate) fn create(
    cloud: &Cloud<'_>,
    snapshots: &[NewSnapshot],
) -> Vec<Result<Snapshot, StorageError>> {
    let ids: Vec<&str> = snapshots.iter().map(|it| it.volume.as_str()).collect();
    let volumes = cloud.by_id::<Volume>("volumes", &ids);

    let request = |(new, volume): (&NewSnapshot, &Result<Option<Volume>>)| match volume
        .as_ref()
        .map_err(Clone::clone)?
    {
        Some(_) => Request::post(cloud.config.list(KIND)).json(&wanted(cloud, new)),
        None => Ok(cloud.config.named(KIND, &new.name)),
    };
    let answers = send_all(snapshots.iter().zip(&volumes).map(request).collect());

    let read = |((new, volume), answer): ((&NewSnapshot, Result<Option<Volume>>), Result<_>)| {
        match volume? {
            Some(_) => created(cloud, new, answer?),
            None => named(cloud, new, answer?),
        }
    };
    let questions = snapshots.iter().zip(volumes);
    questions.zip(answers).map(read).collect()
}

fn wanted(cloud: &Cloud<'_>, new: &NewSnapshot) -> SnapshotSpec {
    let owner = new.owner.as_ref();
    let owner = owner.map(|owner| format!("{}/{}", owner.namespace, owner.name));
    SnapshotSpec {
        name: new.name.clone(),
        volume: new.volume.clone(),
        labels: cloud.labels([("snapshot", owner.as_deref().unwrap_or_default())]),
    }
}

/// Returns snapshots by their IDs.
pub(crate) fn get(cloud: &Cloud<'_>, ids: &[String]) -> Vec<Result<Snapshot, StorageError>> {
    let read = |(found, id): (Result<Option<api::Snapshot>>, &String)| {
        let none = || CloudError::not_found(format!("no snapshot {id}"));
        Ok(snapshot(found?.ok_or_else(none)?))
    };
    let found = cloud.by_id(KIND, &texts(ids));
    found.into_iter().zip(ids).map(read).collect()
}

/// Lists a page of the snapshots of this cluster.
pub(crate) fn list(cloud: &Cloud<'_>, page: Option<&str>) -> Result<SnapshotPage> {
    let page: Page<api::Snapshot> = cloud.page(KIND, page)?;
    Ok(SnapshotPage {
        snapshots: page.items.into_iter().map(snapshot).collect(),
        next: page.next,
    })
}

/// Deletes snapshots. Those of other clusters do not exist for this one.
pub(crate) fn delete(cloud: &Cloud<'_>, ids: &[String]) -> Vec<Result<(), StorageError>> {
    let read = |answer: Result<Option<Response>>| Ok(answer?.map_or(Ok(()), deleted)?);
    let answers = cloud.delete_by_id::<api::Snapshot>(KIND, &texts(ids));
    answers.into_iter().map(read).collect()
}

/// Reads the answer to a create.
fn created(
    cloud: &Cloud<'_>,
    new: &NewSnapshot,
    answer: Response,
) -> Result<Snapshot, StorageError> {
    let Some(id) = problem(&answer, 409, "exists").and_then(|problem| problem.id) else {
        return Ok(snapshot(accepted(answer)?.json()?));
    };
    existing(
        cloud,
        new,
        ask(Request::get(cloud.config.object(KIND, &id)?))?,
    )
}

/// Reads the answer to the question for a snapshot whose volume does not exist.
fn named(cloud: &Cloud<'_>, new: &NewSnapshot, answer: Response) -> Result<Snapshot, StorageError> {
    let page: Page<api::Snapshot> = certain(answer)?.json()?;
    let found = page.items.into_iter().next();
    existing(cloud, new, found.ok_or_else(|| no_volume(&new.volume))?)
}

/// Returns the snapshot with the name of a new one, if it is as wanted.
fn existing(
    cloud: &Cloud<'_>,
    new: &NewSnapshot,
    existing: api::Snapshot,
) -> Result<Snapshot, StorageError> {
    if existing.volume == new.volume && cloud.owns(&existing.labels) {
        Ok(snapshot(existing))
    } else {
        let what = format!("the snapshot {} has the name {}", existing.id, new.name);
        Err(StorageError::exists(what))
    }
}

fn snapshot(snapshot: api::Snapshot) -> Snapshot {
    Snapshot {
        id: snapshot.id,
        volume: snapshot.volume,
        size_bytes: u64::from(snapshot.size_gib) << 30,
        creation_timestamp: snapshot.created,
        ready: snapshot.ready,
    }
}

#[cfg(test)]
mod tests;
