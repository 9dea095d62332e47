//! Finds many volumes or snapshots with few requests.

use std::collections::BTreeMap;

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
    cloud.list(
        Kind::BlockStorage,
        &details::<T>(),
        vec![("metadata", own.as_str()), PAGE],
    )
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

/// Returns those with each of these names. Names are not unique: those of other clusters do not
/// matter.
pub(super) fn by_name<T: Resource>(cloud: &Cloud<'_>, names: &[&str]) -> Result<Vec<Vec<T>>> {
    if names.len() <= FEW {
        let queries: Vec<_> = names
            .iter()
            .map(|name| vec![("name", *name), PAGE])
            .collect();
        let mut named: Vec<Vec<T>> = cloud.lists(Kind::BlockStorage, &details::<T>(), &queries)?;
        for same in &mut named {
            same.retain(|it| is_ours(cloud, it).is_ok());
        }
        return Ok(named);
    }
    let listed = all::<T>(cloud)?;
    let named = |name: &&str| {
        let same = listed.iter().filter(|it| it.name() == *name);
        same.cloned().collect()
    };
    Ok(names.iter().map(named).collect())
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
