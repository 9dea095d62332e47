//! The volumes and snapshots of a scenario, with what calls have answered about them.

use std::collections::BTreeMap;

use skydock_cloud::{
    Answer, ArgumentKind, Arguments, Attachment, CapacityRequest, Expansion, Function,
    Modification, NewAttachment, NewSnapshot, NewVolume, Pairs, SnapshotId, VolumeId,
};

use super::file::{Given, SnapshotSpec, Step, VolumeSpec};

#[derive(Default)]
pub(super) struct Disks {
    volumes: BTreeMap<String, Volume>,
    snapshots: BTreeMap<String, Snapshot>,
}

struct Volume {
    spec: VolumeSpec,
    /// ID and context, once it was created.
    created: Option<(VolumeId, Pairs)>,
}

struct Snapshot {
    spec: SnapshotSpec,
    id: Option<SnapshotId>,
}

impl Disks {
    /// Creates or replaces what is wanted. IDs stay.
    pub(super) fn give(&mut self, given: &Given) {
        for spec in given.volumes.iter().cloned() {
            let before = self.volumes.remove(&spec.name);
            let created = before.and_then(|it| it.created);
            let name = spec.name.clone();
            self.volumes.insert(name, Volume { spec, created });
        }
        for spec in given.snapshots.iter().cloned() {
            let before = self.snapshots.remove(&spec.name);
            let id = before.and_then(|it| it.id);
            let name = spec.name.clone();
            self.snapshots.insert(name, Snapshot { spec, id });
        }
    }

    /// Adds what a function is called with in a step.
    ///
    /// # Errors
    /// A sentence, if something was not created, or a field is missing.
    pub(super) fn add_to(
        &self,
        arguments: &mut Arguments,
        function: Function,
        step: &Step,
    ) -> Result<(), String> {
        let volumes = chosen(&self.volumes, step.volumes.as_deref());
        let snapshots = chosen(&self.snapshots, step.snapshots.as_deref());
        let with = arguments;
        for kind in function.arguments() {
            match kind {
                ArgumentKind::NewVolumes => {
                    with.new_volumes = all(&volumes, |it| self.new_volume(it))?;
                }
                ArgumentKind::VolumeIds => with.volume_ids = all(&volumes, Volume::id)?,
                ArgumentKind::NewAttachments => {
                    with.new_attachments = all(&volumes, Volume::new_attachment)?;
                }
                ArgumentKind::Attachments => {
                    with.attachments = all(&volumes, Volume::attachment)?;
                }
                ArgumentKind::Expansions => with.expansions = all(&volumes, Volume::expansion)?,
                ArgumentKind::Modifications => {
                    with.modifications = all(&volumes, Volume::modification)?;
                }
                ArgumentKind::NewSnapshots => {
                    with.new_snapshots = all(&snapshots, |it| self.new_snapshot(it))?;
                }
                ArgumentKind::SnapshotIds => {
                    with.snapshot_ids = all(&snapshots, Snapshot::id)?;
                }
                ArgumentKind::CapacityRequests => {
                    with.capacity_requests = all(&volumes, |it| Ok(it.capacity_request()))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Remembers the IDs of what was created.
    pub(super) fn write(&mut self, arguments: &Arguments, answer: &Answer) {
        match answer {
            Answer::CreateVolumes(created) => {
                for (new, volume) in arguments.new_volumes.iter().zip(created) {
                    if let (Some(it), Ok(volume)) = (self.volumes.get_mut(&new.name), volume) {
                        it.created = Some((volume.id.clone(), volume.context.clone()));
                    }
                }
            }
            Answer::CreateSnapshots(created) => {
                for (new, snapshot) in arguments.new_snapshots.iter().zip(created) {
                    if let (Some(it), Ok(snapshot)) = (self.snapshots.get_mut(&new.name), snapshot)
                    {
                        it.id = Some(snapshot.id.clone());
                    }
                }
            }
            _ => {}
        }
    }

    fn new_volume(&self, volume: &Volume) -> Result<NewVolume, String> {
        let snapshot = match &volume.spec.snapshot {
            Some(name) => {
                let known = self.snapshots.get(name);
                Some(
                    known
                        .ok_or_else(|| format!("unknown snapshot `{name}`"))?
                        .id()?,
                )
            }
            None => None,
        };
        Ok(volume.spec.volume(snapshot))
    }

    fn new_snapshot(&self, snapshot: &Snapshot) -> Result<NewSnapshot, String> {
        let name = &snapshot.spec.volume;
        let volume = self.volumes.get(name);
        let volume = volume.ok_or_else(|| format!("unknown volume `{name}`"))?;
        Ok(snapshot.spec.snapshot(volume.id()?))
    }
}

impl Volume {
    fn created(&self) -> Result<&(VolumeId, Pairs), String> {
        let name = &self.spec.name;
        self.created.as_ref().ok_or_else(|| {
            format!("the volume `{name}` has no ID: call volumes.create-volumes first")
        })
    }

    fn id(&self) -> Result<VolumeId, String> {
        Ok(self.created()?.0.clone())
    }

    fn new_attachment(&self) -> Result<NewAttachment, String> {
        let (volume, context) = self.created()?.clone();
        let missing = || format!("`node` of the volume `{}` is missing", self.spec.name);
        Ok(NewAttachment {
            volume,
            node: self.spec.node.clone().ok_or_else(missing)?,
            capability: self.spec.capability(),
            context,
        })
    }

    fn attachment(&self) -> Result<Attachment, String> {
        Ok(Attachment {
            volume: self.id()?,
            node: self.spec.node.clone(),
        })
    }

    fn expansion(&self) -> Result<Expansion, String> {
        Ok(Expansion {
            volume: self.id()?,
            size: self.spec.size(),
        })
    }

    fn modification(&self) -> Result<Modification, String> {
        Ok(Modification {
            volume: self.id()?,
            attributes: self.spec.attributes.clone(),
        })
    }

    fn capacity_request(&self) -> CapacityRequest {
        CapacityRequest {
            capabilities: vec![self.spec.capability()],
            parameters: self.spec.parameters.clone(),
            topology: self.spec.topology.clone(),
        }
    }
}

impl Snapshot {
    fn id(&self) -> Result<SnapshotId, String> {
        let name = &self.spec.name;
        self.id.clone().ok_or_else(|| {
            format!("the snapshot `{name}` has no ID: call snapshots.create-snapshots first")
        })
    }
}

/// Returns those with these names; all by default.
fn chosen<'a, T>(all: &'a BTreeMap<String, T>, names: Option<&[String]>) -> Vec<&'a T> {
    match names {
        Some(names) => names.iter().filter_map(|name| all.get(name)).collect(),
        None => all.values().collect(),
    }
}

fn all<T, U>(them: &[&T], form: impl Fn(&T) -> Result<U, String>) -> Result<Vec<U>, String> {
    them.iter().map(|it| form(it)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Given {
        serde_saphyr::from_str(text).unwrap()
    }

    fn step(text: &str) -> Step {
        serde_saphyr::from_str(text).unwrap()
    }

    fn asked(disks: &Disks, function: Function, with: &str) -> Result<Arguments, String> {
        let mut arguments = Arguments::default();
        disks.add_to(&mut arguments, function, &step(with))?;
        Ok(arguments)
    }

    #[test]
    fn calls_use_the_ids_of_what_was_created() {
        let mut disks = Disks::default();
        disks.give(&given(
            "{volumes: [{name: a}, {name: b, node: n}], snapshots: [{name: s, volume: a}]}",
        ));
        let error = asked(&disks, Function::DeleteVolumes, "{}").unwrap_err();
        assert!(error.contains("volume `a` has no ID"), "{error}");

        let created = asked(&disks, Function::CreateVolumes, "{}").unwrap();
        let names: Vec<_> = created.new_volumes.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["a", "b"]);
        let volume = |id: &str| skydock_cloud::Volume {
            id: VolumeId(id.into()),
            bytes: 1,
            topology: Vec::new(),
            context: Pairs::from([("of".into(), id.into())]),
            nodes: Vec::new(),
        };
        let answer = Answer::CreateVolumes(vec![Ok(volume("1")), Ok(volume("2"))]);
        disks.write(&created, &answer);

        let with = asked(&disks, Function::DeleteVolumes, "volumes: [b, a]").unwrap();
        assert_eq!(
            with.volume_ids,
            [VolumeId("2".into()), VolumeId("1".into())]
        );
        let with = asked(&disks, Function::AttachVolumes, "volumes: [b]").unwrap();
        let attached = &with.new_attachments[0];
        assert_eq!(
            (attached.node.as_str(), attached.context["of"].as_str()),
            ("n", "2")
        );
        let error = asked(&disks, Function::AttachVolumes, "{}").unwrap_err();
        assert!(error.contains("`node` of the volume `a`"), "{error}");

        // A size that has grown is that of the same volume.
        disks.give(&given("{volumes: [{name: a, sizeGiB: 5}]}"));
        let with = asked(&disks, Function::ExpandVolumes, "volumes: [a]").unwrap();
        assert_eq!(with.expansions[0].size.bytes, 5 << 30);
        let with = asked(&disks, Function::CreateSnapshots, "{}").unwrap();
        assert_eq!(with.new_snapshots[0].volume, VolumeId("1".into()));
    }

    #[test]
    fn a_volume_begins_with_a_snapshot_that_exists() {
        let mut disks = Disks::default();
        disks.give(&given(
            "{volumes: [{name: a}, {name: b, snapshot: s}], snapshots: [{name: s, volume: a}]}",
        ));
        let create = |disks: &Disks| asked(disks, Function::CreateVolumes, "volumes: [b]");
        assert!(
            create(&disks)
                .unwrap_err()
                .contains("snapshot `s` has no ID")
        );
        disks.snapshots.get_mut("s").unwrap().id = Some(SnapshotId("s-1".into()));
        assert!(create(&disks).unwrap().new_volumes[0].source.is_some());
    }
}
