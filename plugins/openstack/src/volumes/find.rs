//! Finds many volumes or snapshots with few requests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use skydock_sdk::{
    Result,
    http::{self, Method, Response},
    storage::StorageError,
    types::CloudError,
};

use crate::{
    cloud::{Cloud, Kind, send_all_for},
    services::cinder::{CLUSTER, Resource},
};

/// Up to this number, they are looked up individually. More are searched in one list first.
const FEW: usize = 3;

/// Number of items in one page of a list, with about 1 KiB each.
const PAGE: (&str, &str) = ("limit", "500");

/// Returns the path of a list with all fields.
fn details<T: Resource>() -> String {
    format!("/{}/detail", T::COLLECTION)
}

/// Returns whether Cinder or Nova can have such an ID. Anything else does not exist.
pub(super) fn is_id(id: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !id.is_empty() && id.bytes().all(is_known)
}

/// Returns the path of one, if it can exist.
fn path<T: Resource>(id: &str) -> Result<Option<String>> {
    if !is_id(id) {
        return Ok(None);
    }
    Ok(Some(format!("/{}/{}", T::COLLECTION, http::segment(id)?)))
}

/// Returns the filter for what was created for this cluster.
fn own(cloud: &Cloud<'_>) -> String {
    json!({CLUSTER: cloud.cluster}).to_string()
}

/// Lists all that were created for this cluster.
pub(super) fn all<T: Resource>(cloud: &Cloud<'_>) -> Result<Vec<T>> {
    let own = own(cloud);
    let query = vec![("metadata", own.as_str()), PAGE];
    let mut all: Vec<T> = cloud.list(Kind::BlockStorage, &details::<T>(), query)?;
    all.retain(|it| is_own(cloud, it));
    Ok(all)
}

/// Returns one for each ID, or none if Cinder says that it does not exist.
pub(super) fn by_id<T: Resource>(
    cloud: &Cloud<'_>,
    ids: &[&str],
) -> Result<Vec<Result<Option<T>>>> {
    let mut known: BTreeMap<String, T> = BTreeMap::new();
    if ids.len() > FEW {
        let listed = all::<T>(cloud)?.into_iter();
        known.extend(listed.map(|it| (it.id().to_owned(), it)));
    }

    // What was not created by this driver is in no list, so the others are requested by ID.
    let mut missing = Vec::new();
    let mut requests = Vec::new();
    for id in ids {
        if known.contains_key(*id) || missing.contains(id) {
            continue;
        }
        if let Some(path) = path::<T>(id)? {
            let what = format!("cannot read {} `{id}`", T::ONE);
            missing.push(*id);
            requests.push(cloud.request(Method::Get, Kind::BlockStorage, &path, what)?);
        }
    }

    let answers = send_all_for(requests, "itemNotFound").into_iter();
    let read = |answer: Result<Option<Response>>| answer?.map(|it| one::<T>(&it)).transpose();
    let each: BTreeMap<&str, Result<Option<T>>> =
        missing.into_iter().zip(answers.map(read)).collect();

    let found = |id: &&str| match (known.get(*id), each.get(id)) {
        (Some(it), _) => Ok(Some(it.clone())),
        (None, Some(found)) => found.clone(),
        (None, None) => Ok(None),
    };
    Ok(ids.iter().map(found).collect())
}

/// Returns those with each of these names, the one to use first. Names are not unique: those of other
/// clusters do not matter, and those of no cluster only if this one has none.
pub(super) fn by_name<T: Resource>(cloud: &Cloud<'_>, names: &[&str]) -> Result<Vec<Vec<T>>> {
    let wanted: BTreeSet<&str> = names.iter().copied().collect();
    let mut named: BTreeMap<&str, Vec<T>> = BTreeMap::new();
    if names.len() > FEW {
        for it in all::<T>(cloud)? {
            if let Some(name) = wanted.get(it.name()).copied() {
                named.entry(name).or_default().push(it);
            }
        }
    }

    // What was created without the name of the cluster is in no list.
    let is_missing = |name: &&str| !named.contains_key(*name);
    let missing: Vec<&str> = wanted.into_iter().filter(is_missing).collect();
    let queries: Vec<_> = missing
        .iter()
        .map(|name| vec![("name", *name), PAGE])
        .collect();
    let lists: Vec<Vec<T>> = cloud.lists(Kind::BlockStorage, &details::<T>(), &queries)?;
    for (name, mut same) in missing.into_iter().zip(lists) {
        same.retain(|it| it.name() == name && is_ours(cloud, it).is_ok());
        if same.iter().any(|it| is_own(cloud, it)) {
            same.retain(|it| is_own(cloud, it));
        }
        named.insert(name, same);
    }

    for same in named.values_mut() {
        same.sort_by(|one, other| order(one).cmp(&order(other)));
    }
    let found = |name: &&str| named.get(*name).cloned().unwrap_or_default();
    Ok(names.iter().map(found).collect())
}

/// Returns by what those with the same name are sorted: what is used, before what can be, and the
/// oldest first, so that it is always the same one.
fn order<T: Resource>(it: &T) -> (u8, &str, &str) {
    let is_broken = it.status() == "deleting" || it.status().starts_with("error");
    let rank = match (it.is_used(), is_broken) {
        (true, _) => 0,
        (false, false) => 1,
        (false, true) => 2,
    };
    (rank, it.created_at(), it.id())
}

/// Returns whether it was created for this cluster.
pub(super) fn is_own<T: Resource>(cloud: &Cloud<'_>, it: &T) -> bool {
    it.cluster() == Some(cloud.cluster)
}

/// Returns what is to be copied, if anything: its content must not be that of another cluster.
pub(super) fn sources<T: Resource>(
    cloud: &Cloud<'_>,
    ids: &[Option<&str>],
) -> Result<Vec<Result<Option<T>, StorageError>>> {
    let wanted: Vec<_> = ids.iter().copied().flatten().collect();
    let mut found = by_id::<T>(cloud, &wanted)?.into_iter();

    let mut check = |id: &str| -> Result<Option<T>, StorageError> {
        let missing = || CloudError::not_found(format!("no {} {id}", T::ONE));
        let source = found.next().unwrap_or(Ok(None))?.ok_or_else(missing)?;
        is_ours(cloud, &source)?;
        Ok(Some(source))
    };
    let checked = ids.iter().map(|id| id.map_or(Ok(None), &mut check));
    Ok(checked.collect())
}

/// Reads an answer with one.
pub(super) fn one<T: Resource>(answer: &Response) -> Result<T> {
    let mut body: Value = answer.json()?;
    let one = body.get_mut(T::ONE).map(Value::take).unwrap_or_default();
    serde_json::from_value(one)
        .map_err(|error| CloudError::internal(format!("cannot read a {}: {error}", T::ONE)))
}

/// Rejects what belongs to another cluster. What belongs to none may be used: an operator has
/// created it, or an official driver that does not know its cluster.
pub(super) fn is_ours<T: Resource>(cloud: &Cloud<'_>, it: &T) -> Result<(), StorageError> {
    match it.cluster() {
        Some(other) if other != cloud.cluster => {
            let id = it.id();
            let what = format!(
                "{} `{id}` belongs to the cluster `{other}` by its metadata `{CLUSTER}`, and --cluster-name is `{}`",
                T::ONE,
                cloud.cluster
            );
            Err(CloudError::denied(what).into())
        }
        _ => Ok(()),
    }
}
