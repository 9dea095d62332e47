//! Finds many volumes or snapshots with few requests.
//!
//! A request by ID fails completely if one ID is unknown. In this case filters are used, which omit
//! unknown IDs. One is considered gone only if EC2 reports its ID as unknown in a request for this ID
//! alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use skydock_sdk::{Result, types::CloudError};

use crate::{
    client::api::{
        ec2::volumes::{self, Resource},
        failure::Failure,
    },
    cloud::Cloud,
    tags::{Cluster, Owner},
};

/// Maximum number of IDs in one request, the limit of the official driver.
const IDS: usize = 500;

/// Maximum number of values of an EC2 filter.
const FILTER: usize = 200;

/// Maximum number of unknown ones that one call requests individually. The host must retry for the
/// others.
const SINGLES: usize = 50;

/// Returns one for each ID, or none if EC2 says that it does not exist.
///
/// # Errors
/// Fails if a request to EC2 fails.
pub(super) fn by_id<T: Resource>(
    cloud: &Cloud<'_>,
    ids: &[&str],
) -> Result<Vec<Result<Option<T>>>> {
    // What is no ID of EC2 does not exist.
    let possible = ids.iter().copied().filter(|id| is_id::<T>(id));
    let possible: Vec<&str> = possible.collect::<BTreeSet<_>>().into_iter().collect();

    let mut known: BTreeMap<String, T> = BTreeMap::new();
    for part in possible.chunks(IDS) {
        let call = T::with_ids(part.iter().copied());
        let found = match volumes::describe::<T>(cloud.wire, &call) {
            Ok(found) => found,
            Err(failure) if is_about_an_id::<T>(&failure) => filtered(cloud, part)?,
            Err(failure) => return Err(failure.into()),
        };
        known.extend(found.into_iter().map(|it| (it.id().to_owned(), it)));
    }

    let missing = possible.iter().filter(|id| !known.contains_key(**id));
    let missing: Vec<&str> = missing.copied().collect();
    let each = singly(cloud, &missing);
    let found = |id: &&str| match (known.get(*id), each.get(*id)) {
        (Some(it), _) => Ok(Some(it.clone())),
        (None, Some(answer)) => answer.clone(),
        (None, None) => Ok(None),
    };
    Ok(ids.iter().map(found).collect())
}

fn is_id<T: Resource>(id: &str) -> bool {
    id.strip_prefix(T::PREFIX).is_some_and(|rest| {
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

fn filtered<T: Resource>(cloud: &Cloud<'_>, ids: &[&str]) -> Result<Vec<T>> {
    // The only one is missing.
    if ids.len() == 1 {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for part in ids.chunks(FILTER) {
        let call = T::list().filter(T::FILTER, part);
        all.extend(volumes::describe::<T>(cloud.wire, &call)?);
    }
    Ok(all)
}

fn singly<T: Resource>(cloud: &Cloud<'_>, ids: &[&str]) -> BTreeMap<String, Result<Option<T>>> {
    let asked: Vec<&str> = ids.iter().copied().take(SINGLES).collect();
    let calls: Vec<_> = asked.iter().map(|id| T::with_ids([*id])).collect();
    let answers = if calls.is_empty() {
        Vec::new()
    } else {
        cloud.wire.send(&calls)
    };

    let mut all = BTreeMap::new();
    for ((id, call), answer) in asked.iter().zip(&calls).zip(answers) {
        let answer = answer.and_then(|body| volumes::read::<T>(call, &body));
        all.insert((*id).to_owned(), single(id, answer));
    }
    for id in ids.iter().skip(SINGLES) {
        let what = format!("too many unknown {}s in one call", T::ONE);
        let later = CloudError::in_progress(Duration::from_secs(1), what);
        all.insert((*id).to_owned(), Err(later));
    }
    all
}

fn single<T: Resource>(id: &str, answer: Result<Vec<T>, Failure>) -> Result<Option<T>> {
    match answer {
        Ok(found) => match found.into_iter().find(|it| it.id() == id) {
            Some(it) => Ok(Some(it)),
            None => Err(CloudError::unavailable(format!(
                "EC2 returned nothing about {} {id}",
                T::ONE
            ))),
        },
        Err(failure) if is_about_an_id::<T>(&failure) => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

/// Returns true if EC2 does not know an ID, or cannot have it, for example because of its length.
fn is_about_an_id<T: Resource>(failure: &Failure) -> bool {
    let code = failure.code();
    code == T::UNKNOWN || code.ends_with(".Malformed") || code == "InvalidParameterValue"
}

/// Returns those with each of these names. Those of other clusters do not matter, and those without
/// the tag of any cluster only if this one has none.
///
/// # Errors
/// Fails if a request to EC2 fails.
pub(super) fn by_name<T: Resource>(
    cloud: &Cloud<'_>,
    cluster: &Cluster,
    names: &[&str],
) -> Result<Vec<Vec<T>>> {
    let mut named: BTreeMap<String, Vec<T>> = BTreeMap::new();
    let distinct: Vec<&str> = names
        .iter()
        .copied()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    for part in distinct.chunks(FILTER) {
        let call = T::list().filter(&format!("tag:{}", T::NAME), part);
        for it in volumes::describe::<T>(cloud.wire, &call)? {
            if let Some(name) = it.tags().remove(T::NAME) {
                named.entry(name).or_default().push(it);
            }
        }
    }

    let of_name = |name: &&str| {
        let all = named.get(*name).map(Vec::as_slice).unwrap_or_default();
        let owned_by = |owner: Owner| -> Vec<T> {
            let these = all.iter().filter(|it| cluster.owner(&it.tags()) == owner);
            these.cloned().collect()
        };
        let ours = owned_by(Owner::Ours);
        if ours.is_empty() {
            owned_by(Owner::Nobody)
        } else {
            ours
        }
    };
    Ok(names.iter().map(of_name).collect())
}

/// Rejects what belongs to another cluster. What belongs to none may be used: an operator has created
/// it, or an official driver that does not know its cluster.
///
/// # Errors
/// [`CloudError::Denied`].
pub(super) fn check_owner<T: Resource>(cluster: &Cluster, it: &T) -> Result<()> {
    if cluster.owner(&it.tags()) != Owner::Others {
        return Ok(());
    }
    Err(CloudError::denied(format!(
        "{} {} has the tag of another cluster: add the tag {}, or remove those of other clusters",
        T::ONE,
        it.id(),
        cluster.key()
    )))
}

/// Checks what is to be copied, if anything: its content must not be that of another cluster.
///
/// # Errors
/// Fails if a request to EC2 fails.
pub(super) fn check_sources<T: Resource>(
    cloud: &Cloud<'_>,
    cluster: &Cluster,
    ids: &[Option<&str>],
) -> Result<Vec<Result<()>>> {
    let wanted: Vec<_> = ids.iter().copied().flatten().collect();
    let mut found = by_id::<T>(cloud, &wanted)?.into_iter();

    let mut check = |id: &str| {
        let source = found.next().unwrap_or(Ok(None))?;
        let source = source.ok_or_else(|| no::<T>(id))?;
        check_owner(cluster, &source)
    };
    let checked = ids.iter().map(|id| id.map_or(Ok(()), &mut check));
    Ok(checked.collect())
}

/// Returns the error for an ID that EC2 does not know.
pub(super) fn no<T: Resource>(id: &str) -> CloudError {
    CloudError::not_found(format!("no {} {id}", T::ONE))
}
