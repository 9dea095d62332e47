//! Attachments of volumes. The CSI node ID is the ID of the server.
use serde_json::json;
use skydock_sdk::{
    Result,
    attachments::{Attachment, NewAttachment},
    storage::StorageError,
    types::{CloudError, Pair},
};

use crate::{
    api::{Volume, VolumeStatus},
    cloud::Cloud,
    volumes::{changed, in_progress},
};

/// Key of the path of the device, for the node part of the driver.
const DEVICE: &str = "devicePath";

/// Attaches volumes to servers.
pub(crate) fn attach(
    cloud: &Cloud<'_>,
    attachments: &[NewAttachment],
) -> Vec<Result<Vec<Pair>, StorageError>> {
    let change = |wanted: &NewAttachment, current: &Volume| match (
        current.status,
        current.server.as_deref(),
    ) {
        (VolumeStatus::Creating | VolumeStatus::Detaching, _) => Err(in_progress(current)),
        (VolumeStatus::Error, _) => Err(CloudError::unavailable("the volume is broken").into()),
        (_, Some(server)) if server != wanted.node => {
            Err(StorageError::in_use(format!("attached to {server}")))
        }
        (_, Some(_)) => Ok(None),
        (_, None) => Ok(Some(json!({"server": wanted.node}))),
    };
    let read = |it: &Volume| match &it.device {
        Some(device) => Ok(vec![(DEVICE.to_owned(), device.clone())]),
        None => Err(in_progress(it)),
    };

    let questions = attachments.iter().map(|it| (it.volume.as_str(), it));
    changed(cloud, questions, change, read)
}

/// Detaches volumes from servers. A volume that does not exist is not attached.
pub(crate) fn detach(
    cloud: &Cloud<'_>,
    attachments: &[Attachment],
) -> Vec<Result<(), StorageError>> {
    let is_meant = |old: &Attachment, server: &str| {
        let node = old.node.as_deref();
        node.is_none_or(|node| node == server)
    };
    let change = |old: &Attachment, current: &Volume| match current.server.as_deref() {
        Some(server) if is_meant(old, server) => match current.status {
            VolumeStatus::Attaching | VolumeStatus::Detaching => Err(in_progress(current)),
            _ => Ok(Some(json!({"server": null}))),
        },
        // Not attached, or to a server that it stays with.
        _ => Ok(None),
    };

    let gone = |detached| match detached {
        Err(StorageError::Cloud(CloudError::NotFound(_))) => Ok(()),
        other => other,
    };
    let read = |it: &Volume| match it.status {
        VolumeStatus::Detaching => Err(in_progress(it)),
        _ => Ok(()),
    };
    let questions = attachments.iter().map(|it| (it.volume.as_str(), it));
    let detached = changed(cloud, questions, change, read);
    detached.into_iter().map(gone).collect()
}

#[cfg(test)]
mod tests;
