//! Creation of volumes and snapshots by their names, which are not unique in Cinder: what becomes of
//! those that exist, and of those that fail.

use serde_json::Value;
use skydock_sdk::{
    Result,
    http::{Method, Response},
    storage::StorageError,
};

use super::{
    DESCRIPTION, PASSING, accepted, deletion, explain_deletion,
    find::{is_own, one},
    in_progress, next, pending,
};
use crate::{
    cloud::{Answered, Cloud, Kind, ServiceRequest, send_all, send_each},
    services::cinder::Resource,
};

/// What to do for a volume or a snapshot that is wanted.
#[derive(Debug)]
pub(super) enum Step<D> {
    /// It can be used.
    Done(D),
    /// Send this to create it.
    Create(Value),
    /// This must not stay.
    Delete(Excess),
}

/// What is deleted, because it is broken, or because another one has its name.
#[derive(Debug)]
pub(super) struct Excess {
    id: String,
    is_broken: bool,
}

/// Decides what to do for a name. `existing` are those that have it, the one to use first. `body`
/// creates another, and `settled` is what the first one is.
pub(super) fn step<T: Resource, D>(
    cloud: &Cloud<'_>,
    existing: &[T],
    body: impl FnOnce() -> Result<Value, StorageError>,
    settled: impl FnOnce(&T) -> Result<D, StorageError>,
) -> Result<Step<D>, StorageError> {
    let Some((found, others)) = existing.split_first() else {
        return body().map(Step::Create);
    };
    let delete = |it: &T, is_broken: bool| {
        let id = it.id().to_owned();
        Ok(Step::Delete(Excess { id, is_broken }))
    };
    if found.status() == "error" && is_deletable(cloud, found) {
        return delete(found, true);
    }

    let done = settled(found);
    if matches!(done, Err(StorageError::Exists(_))) {
        return done.map(Step::Done);
    }
    for other in others.iter().filter(|it| is_deletable(cloud, *it)) {
        match other.status() {
            "error" => return delete(other, false),
            // Not before the first one can take its place.
            "available" if done.is_ok() => return delete(other, false),
            "deleting" => {}
            status if PASSING.contains(&status) => {
                let (one, id) = (T::ONE, other.id());
                let what = format!(
                    "{one} {id} has the same name as {}, and is {status}",
                    found.id()
                );
                return Err(in_progress(&what));
            }
            _ => {}
        }
    }
    done.map(Step::Done)
}

/// Returns whether it was created by this driver for this cluster, and is not used.
fn is_deletable<T: Resource>(cloud: &Cloud<'_>, it: &T) -> bool {
    is_own(cloud, it) && it.description() == DESCRIPTION && !it.is_used()
}

/// Does the steps for what is wanted, which has these names. `settled` is what one is after its
/// creation.
///
/// # Errors
/// If the requests cannot be written.
pub(super) fn send<N, T: Resource, D>(
    cloud: &Cloud<'_>,
    wanted: &[N],
    names: &[&str],
    steps: Vec<Result<Step<D>, StorageError>>,
    settled: impl Fn(&N, &T) -> Result<D, StorageError>,
) -> Result<Vec<Result<D, StorageError>>> {
    let path = format!("/{}", T::COLLECTION);
    let request = |step: &Step<D>| match step {
        Step::Done(_) => None,
        Step::Create(body) => {
            let what = format!("cannot create a {}", T::ONE);
            let request = cloud.request(Method::Post, Kind::BlockStorage, &path, what);
            Some(request.and_then(|it| it.json(body)))
        }
        Step::Delete(excess) => Some(deletion::<T>(cloud, &excess.id)),
    };
    let requests = steps.iter().flatten().filter_map(request);
    let requests: Vec<ServiceRequest> = requests.collect::<Result<_>>()?;
    note::<T, D>(cloud, names, &steps);
    let mut answers = send_each(requests).into_iter();

    let mut answer = |new: &N, name: &str, step: Step<D>| match step {
        Step::Done(done) => Ok(done),
        Step::Create(_) => {
            let answer = next(&mut answers)?;
            pending::end(cloud, T::ONE, name, &answer);
            let created: T = one(&accepted(answer)?)?;
            settled(new, &created)
        }
        Step::Delete(excess) => {
            let answer = next(&mut answers)?;
            Err(explain_excess::<T>(cloud, name, &excess, answer))
        }
    };
    let all = wanted.iter().zip(names).zip(steps);
    let all = all.map(|((new, name), step)| answer(new, name, step?));
    Ok(all.collect())
}

/// Notes what is sent, and why something is deleted.
fn note<T: Resource, D>(
    cloud: &Cloud<'_>,
    names: &[&str],
    steps: &[Result<Step<D>, StorageError>],
) {
    let mut broken = Vec::new();
    for (name, step) in names.iter().zip(steps) {
        match step {
            Ok(Step::Create(_)) => pending::begin(cloud, T::ONE, name),
            Ok(Step::Delete(excess)) if excess.is_broken => {
                broken.push((*name, excess.id.as_str()));
            }
            _ => {}
        }
    }
    let ids: Vec<_> = broken.iter().map(|(_, id)| *id).collect();
    for ((name, id), reason) in broken.iter().zip(reasons(cloud, &ids)) {
        let reason = reason.unwrap_or_else(|| "Cinder does not say why".to_owned());
        let what = format!("the {} {id} was in state error: {reason}", T::ONE);
        pending::fail(cloud, T::ONE, name, &what);
    }
}

/// Returns why these are in state `error`, as far as Cinder says.
fn reasons(cloud: &Cloud<'_>, ids: &[&str]) -> Vec<Option<String>> {
    let request = |id: &&str| {
        let what = "cannot read messages of Cinder";
        let request = cloud.request(Method::Get, Kind::BlockStorage, "/messages", what)?;
        Ok(request.query(&[("resource_uuid", *id)]))
    };
    let requests: Result<Vec<ServiceRequest>> = ids.iter().map(request).collect();
    let answers = send_all(requests.unwrap_or_default()).into_iter();
    let answers = answers
        .map(Result::ok)
        .chain(std::iter::repeat_with(|| None));
    let each = ids.iter().zip(answers);
    each.map(|(id, answer)| reason(&answer?, id)).collect()
}

fn reason(answer: &Response, id: &str) -> Option<String> {
    let body: Value = answer.json().ok()?;
    let mut messages = body.get("messages")?.as_array()?.iter();
    let is_about = |it: &&Value| it.get("resource_uuid").and_then(Value::as_str) == Some(id);
    let text = messages.find(is_about)?.get("user_message")?.as_str()?;
    Some(text.to_owned())
}

/// Returns what an answer to a deletion means for what is wanted. When a broken one is gone, nothing
/// is left, and Kubernetes may choose another zone.
fn explain_excess<T: Resource>(
    cloud: &Cloud<'_>,
    name: &str,
    excess: &Excess,
    answer: Answered,
) -> StorageError {
    let (one, id) = (T::ONE, &excess.id);
    let gone = match explain_deletion(answer) {
        Ok(is_gone) => is_gone && excess.is_broken,
        Err(error) => return pending::not_final(error),
    };
    let failure = if gone {
        pending::failure(cloud, one, name)
    } else {
        None
    };
    failure.unwrap_or_else(|| {
        let why = if excess.is_broken {
            "broken"
        } else {
            "superfluous"
        };
        in_progress(&format!("the {why} {one} {id} is deleted"))
    })
}
