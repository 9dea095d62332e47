//! Attachments of volumes. The CSI node ID is the ID of the server.

use serde_json::json;
use skydock_sdk::{
    Result,
    attachments::{Attachment, NewAttachment},
    http::{self, Method},
    storage::StorageError,
    types::{CloudError, Pair},
};

use super::{
    broken, certain,
    find::{by_id, is_id, is_ours},
    in_progress, next, no_volume, nodes, pending,
};
use crate::{
    cloud::{Answered, Cloud, Kind, ServiceRequest, send_each},
    services::cinder::Volume,
};

/// Key of the path of the device, for the node part.
const DEVICE: &str = "DevicePath";
/// What an attachment is for [`pending`].
const ATTACHMENT: &str = "attachment";
/// The first microversion of Nova that attaches what several servers can have.
const SHARED: &str = "compute 2.60";

/// What to request for an attachment that is not wanted. If Nova does not know it, it is gone.
#[derive(Debug)]
struct Removal {
    /// Deletes it, or only reads it.
    method: Method,
    node: String,
    volume: String,
}

/// Returns what an attachment is called until Nova has answered.
fn name(volume: &str, node: &str) -> String {
    format!("{volume} {node}")
}

/// Attaches volumes to servers.
///
/// # Errors
/// If Cinder cannot be asked.
pub fn attach(
    cloud: &Cloud<'_>,
    attachments: &[NewAttachment],
) -> Result<Vec<Result<Vec<Pair>, StorageError>>> {
    let ids: Vec<_> = attachments.iter().map(|it| it.volume.as_str()).collect();
    let found = by_id::<Volume>(cloud, &ids)?;
    let mut requests = Vec::new();
    let decide = |(wanted, found): (&NewAttachment, Result<Option<Volume>>)| {
        let found = found?.ok_or_else(|| no_volume(&wanted.volume))?;
        is_ours(cloud, &found)?;
        let context = attached(&found, &wanted.node)?;
        let name = name(&wanted.volume, &wanted.node);
        if context.is_some() {
            pending::forget(cloud, ATTACHMENT, &name);
        } else {
            requests.push(request(cloud, wanted, found.multiattach)?);
            pending::begin(cloud, ATTACHMENT, &name);
        }
        Ok::<_, StorageError>(context)
    };
    let decided: Vec<_> = attachments.iter().zip(found).map(decide).collect();
    let mut answers = send_each(requests).into_iter();

    let mut answer = |wanted: &NewAttachment, context: Option<Vec<Pair>>| match context {
        Some(context) => Ok(context),
        None => {
            let answer = next(&mut answers)?;
            let name = name(&wanted.volume, &wanted.node);
            pending::end(cloud, ATTACHMENT, &name, &answer);
            Err(explain_attachment(answer))
        }
    };
    let each = attachments.iter().zip(decided);
    let each = each.map(|(wanted, context)| answer(wanted, context?));
    Ok(each.collect())
}

/// Detaches volumes from servers. A volume that does not exist is not attached.
///
/// # Errors
/// If Cinder cannot be asked.
pub fn detach(
    cloud: &Cloud<'_>,
    attachments: &[Attachment],
) -> Result<Vec<Result<(), StorageError>>> {
    let ids: Vec<_> = attachments.iter().map(|it| it.volume.as_str()).collect();
    let found = by_id::<Volume>(cloud, &ids)?;
    let decide = |(old, found): (&Attachment, Result<Option<Volume>>)| {
        let Some(found) = found? else {
            return Ok(Vec::new());
        };
        is_ours(cloud, &found)?;
        let removals = removals(&found, old.node.as_deref())?;
        for it in removals.iter().filter(|it| it.method == Method::Delete) {
            pending::forget(cloud, ATTACHMENT, &name(&it.volume, &it.node));
        }
        let is_uncertain = |node: &str| {
            let name = name(&old.volume, node);
            pending::is_uncertain(cloud, ATTACHMENT, &name)
        };
        let is_left = removals.iter().any(|it| it.method == Method::Delete);
        if !is_left && old.node.as_deref().is_some_and(is_uncertain) {
            let what = format!("whether Nova attaches {} is not certain", old.volume);
            return Err(in_progress(&what));
        }
        Ok(removals)
    };
    let decided: Vec<Result<Vec<Removal>, StorageError>> =
        attachments.iter().zip(found).map(decide).collect();

    let request = |it: &Removal| {
        let path = format!(
            "/servers/{}/os-volume_attachments/{}",
            http::segment(&it.node)?,
            it.volume
        );
        let what = format!(
            "cannot detach volume `{}` from server `{}`",
            it.volume, it.node
        );
        cloud.request(it.method, Kind::Compute, &path, what)
    };
    let requests = decided.iter().flatten().flatten().map(request);
    let mut answers = send_each(requests.collect::<Result<_>>()?).into_iter();

    let answer = |decided: Result<Vec<Removal>, StorageError>| {
        let mut all_gone = Ok(());
        for removal in decided? {
            let gone = next(&mut answers).map_err(StorageError::from);
            let gone = gone.and_then(|answer| explain_removal(answer, &removal));
            all_gone = all_gone.and(gone);
        }
        all_gone
    };
    Ok(decided.into_iter().map(answer).collect())
}

/// Returns the context if the server has the volume, and nothing if it is to be attached.
fn attached(volume: &Volume, node: &str) -> Result<Option<Vec<Pair>>, StorageError> {
    let attachment = volume.attachments.iter().find(|it| it.server_id == node);
    let changes = |status: &str| in_progress(&format!("the volume {} is {status}", volume.id));
    match (volume.status.as_str(), attachment) {
        ("in-use", Some(attachment)) => {
            let device = attachment.device.clone().filter(|it| !it.is_empty());
            let device = device.ok_or_else(|| changes("without a device"))?;
            Ok(Some(vec![(DEVICE.to_owned(), device)]))
        }
        ("in-use", None) if !volume.multiattach => {
            let others: Vec<_> = nodes(volume).collect();
            let what = format!(
                "the volume {} is attached to {}",
                volume.id,
                others.join(", ")
            );
            Err(StorageError::in_use(what))
        }
        ("available" | "in-use", None) => Ok(None),
        (status, _) if status.starts_with("error") => Err(broken(volume)),
        (status, _) => Err(changes(status)),
    }
}

/// Returns what to request so that a server does not have a volume; all servers without a node.
fn removals(volume: &Volume, node: Option<&str>) -> Result<Vec<Removal>, StorageError> {
    let removal = |method: Method, node: &str| Removal {
        method,
        node: node.to_owned(),
        volume: volume.id.clone(),
    };
    let is_changing = ["attaching", "detaching", "reserved"].contains(&volume.status.as_str());
    let is_listed = |node: &str| nodes(volume).any(|it| it == node);
    // Cinder lists an attachment when it is complete, and Nova from the beginning. What several servers
    // can have is in use meanwhile. A volume can stay in another state after its server was deleted.
    match node {
        Some(node) if is_changing || (volume.multiattach && !is_listed(node)) => {
            let asked = is_id(node).then(|| removal(Method::Get, node));
            return Ok(asked.into_iter().collect());
        }
        None if is_changing => {
            let what = format!("the volume {} is {}", volume.id, volume.status);
            return Err(in_progress(&what));
        }
        _ => {}
    }
    let meant = nodes(volume).filter(|it| node.is_none_or(|node| node == *it));
    Ok(meant.map(|it| removal(Method::Delete, it)).collect())
}

/// Returns the request that attaches a volume. `shared` says that several servers can have it.
fn request(cloud: &Cloud<'_>, wanted: &NewAttachment, shared: bool) -> Result<ServiceRequest> {
    let (volume, node) = (&wanted.volume, &wanted.node);
    if !is_id(node) {
        return Err(CloudError::not_found(format!("no server {node}")));
    }
    let path = format!("/servers/{}/os-volume_attachments", http::segment(node)?);
    let what = format!("cannot attach volume `{volume}` to server `{node}`");
    let request = cloud.request(Method::Post, Kind::Compute, &path, what)?;
    let request = if shared {
        request.microversion(SHARED)
    } else {
        request
    };
    request.json(&json!({"volumeAttachment": {"volumeId": volume}}))
}

/// Returns what an answer to an attachment means. The device is known when Cinder says so.
fn explain_attachment(answer: Answered) -> StorageError {
    let is_missing = answer.says(404, "itemNotFound");
    // Nova: the server has as many as its hypervisor can have.
    let is_limit = answer.says(403, "aximum") || answer.says(403, "oo many");
    // Nova attaches it, and Cinder does not list that yet.
    let is_begun = answer.says(400, "already attached") || answer.says(409, "already attached");
    let what = answer.what.clone();
    match certain(answer) {
        Err(error) if is_begun => in_progress(error.message()),
        Ok(_) => in_progress(&format!("{what} yet: it is under way")),
        Err(error) if is_missing => CloudError::not_found(error.message()).into(),
        Err(error) if is_limit => StorageError::exhausted(error.message()),
        Err(error) => error.into(),
    }
}

/// Returns whether the server does not have the volume any more.
fn explain_removal(answer: Answered, removal: &Removal) -> Result<(), StorageError> {
    // The server, or its attachment, does not exist.
    if answer.says(404, "itemNotFound") {
        return Ok(());
    }
    certain(answer)?;
    let (volume, node) = (&removal.volume, &removal.node);
    let what = match removal.method {
        Method::Delete => format!("the volume {volume} is detached from {node}"),
        _ => format!("the volume {volume} is still attached to {node}, or detached from it"),
    };
    Err(in_progress(&what))
}
