//! Attachments of volumes. The CSI node ID is the ID of the instance.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{
    Result,
    attachments::{Attachment, NewAttachment},
    storage::StorageError,
    types::{CloudError, Pair},
};

use super::{
    at_most, broken, by_id, check_owner, device, in_progress, is, is_gone, next, no, nodes,
    pending, send,
};
use crate::{
    client::{
        api::{
            call::Call,
            ec2::{
                Instance,
                volumes::{self as ebs, seconds},
            },
            failure::Failure,
        },
        endpoint::Api,
    },
    cloud::Cloud,
    instances::{
        lookup::{self, Found},
        reference,
    },
};

/// Key of the name of the device, for the node part.
const DEVICE: &str = "devicePath";

/// What an attachment is for [`pending`].
const ATTACHMENT: &str = "attachment";

/// Seconds after which an attachment that does not end is undone, as by the official driver.
const STUCK: u64 = 90;

/// What to do for an attachment that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// The instance has this device.
    Done(String),
    /// The volume is free.
    Attach,
    /// The attachment does not end: it is undone, so that the next call begins again.
    Undo,
}

/// A step with its request.
#[derive(Debug)]
enum Sent {
    Done(String),
    /// The device that was chosen, and the request.
    Attach(String, Call),
    Undo(Call),
}

/// Returns what an attachment is called until EC2 shows it.
fn name(volume: &str, node: &str) -> String {
    format!("{volume}/{node}")
}

impl Cloud<'_> {
    /// Attaches volumes to instances.
    ///
    /// # Errors
    /// Fails if EC2 cannot be asked.
    pub fn attach_volumes(
        &self,
        attachments: &[NewAttachment],
    ) -> Result<Vec<Result<Vec<Pair>, StorageError>>> {
        let cluster = self.identity()?.cluster;
        let ids: Vec<_> = attachments.iter().map(|it| it.volume.as_str()).collect();
        let found = by_id::<ebs::Volume>(self, &ids)?;
        let decide = |(wanted, found): (&NewAttachment, Result<Option<ebs::Volume>>)| {
            let found = found?.ok_or_else(|| no::<ebs::Volume>(&wanted.volume))?;
            check_owner(&cluster, &found)?;
            attached(&found, &wanted.node, self.now)
        };
        let decided: Vec<Result<Step, StorageError>> =
            attachments.iter().zip(found).map(decide).collect();

        let instances = self.instances_of(attachments, &decided)?;
        let mut taken = BTreeMap::new();
        let mut with_request = |wanted: &NewAttachment, step: Step| -> Result<Sent, StorageError> {
            Ok(match step {
                Step::Done(device) => Sent::Done(device),
                Step::Undo => Sent::Undo(detachment(&wanted.volume, &wanted.node)),
                Step::Attach => {
                    let instance = instance(&instances, &wanted.node)?;
                    let device = self.device(instance, &mut taken, &wanted.volume)?;
                    let call = attachment(&wanted.volume, &wanted.node, &device);
                    Sent::Attach(device, call)
                }
            })
        };
        let steps = attachments.iter().zip(decided);
        let steps: Vec<Result<Sent, StorageError>> = steps
            .map(|(wanted, step)| step.and_then(|step| with_request(wanted, step)))
            .collect();
        let steps = at_most(steps, |step| matches!(step, Sent::Done(_)));

        let call = |step: &Sent| match step {
            Sent::Done(_) => None,
            Sent::Attach(_, call) | Sent::Undo(call) => Some(call.clone()),
        };
        let calls: Vec<Call> = steps.iter().flatten().filter_map(call).collect();
        for (wanted, step) in attachments.iter().zip(&steps) {
            if matches!(step, Ok(Sent::Attach(..))) {
                let name = name(&wanted.volume, &wanted.node);
                pending::begin(self, ATTACHMENT, &name);
            }
        }
        let mut answers = send(self, &calls).into_iter();

        let answer = |(wanted, step): (&NewAttachment, Result<Sent, StorageError>)| {
            let volume = &wanted.volume;
            match step? {
                Sent::Done(device) => {
                    pending::forget(self, ATTACHMENT, &name(volume, &wanted.node));
                    Ok(vec![(DEVICE.to_owned(), device)])
                }
                Sent::Attach(device, _) => {
                    let answer = next(&mut answers)?;
                    Err(self.explain_attachment(answer, wanted, &device))
                }
                Sent::Undo(_) => {
                    next(&mut answers)?.map_err(CloudError::from)?;
                    let what =
                        format!("the attachment of volume {volume} did not end: it is undone");
                    Err(in_progress(what))
                }
            }
        };
        Ok(attachments.iter().zip(steps).map(answer).collect())
    }

    /// Detaches volumes from instances. A volume that does not exist is not attached.
    ///
    /// # Errors
    /// Fails if EC2 cannot be asked.
    pub fn detach_volumes(
        &self,
        attachments: &[Attachment],
    ) -> Result<Vec<Result<(), StorageError>>> {
        let cluster = self.identity()?.cluster;
        let ids: Vec<_> = attachments.iter().map(|it| it.volume.as_str()).collect();
        let found = by_id::<ebs::Volume>(self, &ids)?;
        let decide = |(old, found): (&Attachment, Result<Option<ebs::Volume>>)| {
            let Some(found) = found? else {
                return Ok(Vec::new());
            };
            check_owner(&cluster, &found)?;
            for node in nodes(&found) {
                pending::forget(self, ATTACHMENT, &name(&old.volume, node));
            }
            let calls = detached(&found, old.node.as_deref())?;
            let is_uncertain =
                |node: &str| pending::is_uncertain(self, ATTACHMENT, &name(&old.volume, node));
            if calls.is_empty() && old.node.as_deref().is_some_and(is_uncertain) {
                let what = format!("whether EC2 attaches {} is not certain", old.volume);
                return Err(in_progress(what));
            }
            Ok(calls)
        };
        let decided: Vec<Result<Vec<Call>, StorageError>> =
            attachments.iter().zip(found).map(decide).collect();
        let decided = at_most(decided, Vec::is_empty);

        let calls: Vec<Call> = decided.iter().flatten().flatten().cloned().collect();
        let mut answers = send(self, &calls).into_iter();
        let answer = |(old, calls): (&Attachment, Result<Vec<Call>, StorageError>)| {
            let mut all_gone = Ok(());
            for _ in calls? {
                let gone = next(&mut answers).map_err(StorageError::from);
                let gone = gone.and_then(|answer| explain_detachment(answer, &old.volume));
                all_gone = all_gone.and(gone);
            }
            all_gone
        };
        Ok(attachments.iter().zip(decided).map(answer).collect())
    }

    /// Reads the instances that are to have volumes.
    fn instances_of(
        &self,
        attachments: &[NewAttachment],
        decided: &[Result<Step, StorageError>],
    ) -> Result<BTreeMap<String, Result<Found>>> {
        let both = attachments.iter().zip(decided);
        let ids = both.filter(|(_, step)| matches!(step, Ok(Step::Attach)));
        // What is no ID of EC2 does not exist.
        let ids = ids.filter_map(|(wanted, _)| reference::instance_id(&wanted.node));
        lookup::by_id(self.wire, &ids.collect())
    }

    /// Chooses a device.
    fn device(
        &self,
        instance: &Instance,
        taken: &mut BTreeMap<String, BTreeSet<String>>,
        volume: &str,
    ) -> Result<String, StorageError> {
        let id = &instance.instance_id;
        let mut mapped = instance.block_device_mapping.items.iter();
        let has_it = mapped.any(|it| it.ebs.as_ref().is_some_and(|ebs| ebs.volume_id == volume));
        if has_it {
            return Err(in_progress(format!(
                "the instance {id} has the volume {volume}, and the volume does not show it yet"
            )));
        }

        let taken = taken.entry(id.clone()).or_default();
        let device = device::reserve(self, instance, taken, volume).ok_or_else(|| {
            StorageError::exhausted(format!("the instance {id} has no free name of a device"))
        })?;
        taken.insert(device.clone());
        Ok(device)
    }

    /// Returns what an answer to an attachment means. It has succeeded when the volume says so.
    fn explain_attachment(
        &self,
        answer: Result<String, Failure>,
        wanted: &NewAttachment,
        device: &str,
    ) -> StorageError {
        let (volume, node) = (&wanted.volume, &wanted.node);
        let failure = match answer {
            Ok(_) => {
                return in_progress(format!("the volume {volume} is being attached to {node}"));
            }
            Err(failure) => failure,
        };
        if failure.is_certain() {
            pending::forget(self, ATTACHMENT, &name(volume, node));
        }
        match failure.code() {
            "AttachmentLimitExceeded" => return StorageError::exhausted(failure.to_string()),
            // Somebody else was faster: the next call sees who.
            "VolumeInUse" => return in_progress(failure.to_string()),
            // Something that EC2 does not show can have the device.
            "InvalidParameterValue" => device::avoid(self, node, device),
            _ => {}
        }
        CloudError::from(failure).into()
    }
}

/// Returns an instance that can have volumes.
fn instance<'i>(
    instances: &'i BTreeMap<String, Result<Found>>,
    node: &str,
) -> Result<&'i Instance> {
    let none = || CloudError::not_found(format!("no instance {node}"));
    match instances.get(node).ok_or_else(none)? {
        Ok(Found::Instance(it)) => match it.instance_state.name.as_str() {
            "terminated" | "shutting-down" => Err(none()),
            _ => Ok(it),
        },
        // An ID that EC2 cannot have.
        Ok(Found::Gone) | Err(CloudError::Invalid(_)) => Err(none()),
        Err(error) => Err(error.clone()),
    }
}

/// Decides what to do so that an instance has a volume.
fn attached(volume: &ebs::Volume, node: &str, now: u64) -> Result<Step, StorageError> {
    let id = &volume.volume_id;
    match volume.status.as_str() {
        "error" => return Err(broken(volume)),
        "available" | "in-use" => {}
        _ if is_gone(volume) => return Err(no::<ebs::Volume>(id).into()),
        _ => return Err(in_progress(is(volume))),
    }

    let mut here = volume.attachment_set.items.iter();
    let here = here.find(|it| it.instance_id == node && it.status != "detached");
    if let Some(here) = here {
        let is_stuck = seconds(&here.attach_time).is_some_and(|time| now > time + STUCK);
        return match here.status.as_str() {
            "attached" if !here.device.is_empty() => Ok(Step::Done(here.device.clone())),
            "attaching" if is_stuck => Ok(Step::Undo),
            status => {
                let what = format!("the volume {id} is {status} at {node}");
                Err(in_progress(what))
            }
        };
    }
    if volume.multi_attach_enabled {
        return Ok(Step::Attach);
    }

    let mut elsewhere = volume.attachment_set.items.iter();
    let elsewhere = elsewhere.find(|it| it.status != "detached");
    match elsewhere {
        None => Ok(Step::Attach),
        Some(other) if other.status == "detaching" => {
            let what = format!(
                "the volume {id} is being detached from {}",
                other.instance_id
            );
            Err(in_progress(what))
        }
        Some(other) => {
            let what = format!("the volume {id} is attached to {}", other.instance_id);
            Err(StorageError::in_use(what))
        }
    }
}

/// Returns the requests that detach a volume; from all instances without a node.
fn detached(volume: &ebs::Volume, node: Option<&str>) -> Result<Vec<Call>, StorageError> {
    let is_meant = |id: &&str| node.is_none_or(|node| node == *id);
    let meant: Vec<&str> = nodes(volume).filter(is_meant).collect();
    let attachments = volume.attachment_set.items.iter();
    let mut leaving = attachments.filter(|it| it.status == "detaching");
    if let Some(leaving) = leaving.find(|it| meant.contains(&it.instance_id.as_str())) {
        let (id, node) = (&volume.volume_id, &leaving.instance_id);
        let what = format!("the volume {id} is being detached from {node}");
        return Err(in_progress(what));
    }
    let calls = meant
        .into_iter()
        .map(|node| detachment(&volume.volume_id, node));
    Ok(calls.collect())
}

/// Returns what an answer to a detachment means. It has succeeded when the volume says so.
fn explain_detachment(answer: Result<String, Failure>, volume: &str) -> Result<(), StorageError> {
    match answer {
        Ok(_) => {}
        // The volume, or its attachment, does not exist any more: the next call sees it.
        Err(failure) if failure.is_not_found() => {}
        Err(failure) => return Err(CloudError::from(failure).into()),
    }
    Err(in_progress(format!(
        "the volume {volume} is being detached"
    )))
}

fn attachment(volume: &str, node: &str, device: &str) -> Call {
    Call::new(Api::Ec2, "AttachVolume")
        .with("VolumeId", volume)
        .with("InstanceId", node)
        .with("Device", device)
}

fn detachment(volume: &str, node: &str) -> Call {
    Call::new(Api::Ec2, "DetachVolume")
        .with("VolumeId", volume)
        .with("InstanceId", node)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a volume with attachments: instance, status, time.
    fn volume(status: &str, shared: bool, attachments: &[(&str, &str, &str)]) -> ebs::Volume {
        let item = |(node, status, time): &(&str, &str, &str)| {
            format!(
                "<item><instanceId>{node}</instanceId><status>{status}</status>\
                 <device>/dev/xvdaa</device><attachTime>{time}</attachTime></item>"
            )
        };
        let items: String = attachments.iter().map(item).collect();
        let text = format!(
            "<item><volumeId>vol-1</volumeId><status>{status}</status>\
             <multiAttachEnabled>{shared}</multiAttachEnabled>\
             <attachmentSet>{items}</attachmentSet></item>"
        );
        quick_xml::de::from_str(&text).unwrap()
    }

    const OLD: &str = "1970-01-01T00:00:00.000Z";
    const NEW: &str = "1970-01-01T00:01:30.000Z";

    #[test]
    fn the_state_of_a_volume_says_how_it_is_attached() {
        for (status, shared, attachments, expected) in [
            ("available", false, &[][..], "Attach"),
            ("in-use", false, &[("i-1", "attached", OLD)], "Done"),
            ("in-use", false, &[("i-1", "attaching", NEW)], "InProgress"),
            ("in-use", false, &[("i-1", "attaching", OLD)], "Undo"),
            ("in-use", false, &[("i-1", "detaching", OLD)], "InProgress"),
            ("in-use", false, &[("i-1", "busy", OLD)], "InProgress"),
            ("in-use", false, &[("i-2", "attached", OLD)], "InUse"),
            ("in-use", false, &[("i-2", "attaching", OLD)], "InUse"),
            ("in-use", false, &[("i-2", "detaching", OLD)], "InProgress"),
            ("in-use", false, &[("i-2", "detached", OLD)], "Attach"),
            ("in-use", true, &[("i-2", "attached", OLD)], "Attach"),
            (
                "in-use",
                true,
                &[("i-2", "attached", OLD), ("i-1", "attached", OLD)],
                "Done",
            ),
            ("creating", false, &[], "InProgress"),
            ("deleting", false, &[], "NotFound"),
            ("error", false, &[], "Unavailable"),
        ] {
            let step = attached(&volume(status, shared, attachments), "i-1", 100);
            let step = format!("{step:?}");
            assert!(step.contains(expected), "{status} {attachments:?}: {step}");
        }
    }

    #[test]
    fn a_volume_is_only_detached_from_the_node_that_is_meant() {
        for (attachments, node, expected) in [
            (&[][..], None, Ok(vec![])),
            (&[("i-1", "attached", OLD)], Some("i-1"), Ok(vec!["i-1"])),
            (&[("i-1", "attaching", OLD)], Some("i-1"), Ok(vec!["i-1"])),
            (&[("i-1", "busy", OLD)], Some("i-1"), Ok(vec!["i-1"])),
            (&[("i-2", "attached", OLD)], Some("i-1"), Ok(vec![])),
            (&[("i-1", "detached", OLD)], None, Ok(vec![])),
            (&[("i-1", "detaching", OLD)], Some("i-1"), Err(())),
            (&[("i-1", "detaching", OLD)], Some("i-2"), Ok(vec![])),
            (
                &[("i-1", "attached", OLD), ("i-2", "attached", OLD)],
                None,
                Ok(vec!["i-1", "i-2"]),
            ),
        ] {
            let calls = detached(&volume("in-use", true, attachments), node);
            let expected: Result<Vec<Call>, ()> =
                expected.map(|ids| ids.into_iter().map(|id| detachment("vol-1", id)).collect());
            assert_eq!(calls.map_err(drop), expected, "{attachments:?} {node:?}");
        }
    }
}
