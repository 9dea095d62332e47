//! A cloud with volumes, which are in the host's cache. Its cloud-config names what it does wrong;
//! with `none`, it does everything right.
use std::time::Duration;

use skydock_sdk::attachments::{Attachment, NewAttachment};
use skydock_sdk::plugin::{PluginInfo, Settings};
use skydock_sdk::snapshots::{NewSnapshot, Snapshot, SnapshotPage};
use skydock_sdk::storage::{AccessMode, StorageError};
use skydock_sdk::storage_capacity::{Capacity, CapacityRequest};
use skydock_sdk::types::{CloudError, Pair};
use skydock_sdk::volume_attributes::Modification;
use skydock_sdk::volume_expansion::Expansion;
use skydock_sdk::volumes::{DriverInfo, NewVolume, Volume, VolumePage};
use skydock_sdk::{
    Attachments, Configured, Plugin, Result, Snapshots, StorageCapacity, VolumeAttributes,
    VolumeExpansion, Volumes, cache,
};

struct Disks;

static FAULT: Configured<String> = Configured::new();

const FAULTS: &[&str] = &[
    "none",
    // Takes three calls to create or delete something.
    "slow",
    "creates-again",
    "deletes-once",
    "forgets-a-volume",
    "keeps-volumes",
    "swaps-results",
    "snaps-once",
    // Rejected by Skydock.
    "other-driver",
    "no-driver",
    "same-id",
    "other-id",
    "too-small",
    "other-key",
    "reserved-key",
    "short",
];

/// How long what is in the cache lives.
const LIFETIME: Duration = Duration::from_hours(1);

/// The key of the topology.
const ZONE: &str = "topology.disks.example/zone";

/// Number of calls after which something slow is done.
const SLOW: u64 = 3;

/// Room for all volumes together.
const ROOM: u64 = 1 << 40;

fn has(fault: &str) -> bool {
    FAULT.get().is_ok_and(|it| *it == fault)
}

/// A volume or a snapshot, as a line in the cache.
#[derive(Clone, Default)]
struct Disk {
    name: String,
    bytes: u64,
    /// Number of calls since it is to be created or deleted.
    calls: u64,
    /// The node that a volume is attached to, or the volume that a snapshot is of.
    of: String,
}

impl Disk {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split('|');
        Some(Self {
            name: words.next()?.to_owned(),
            bytes: words.next()?.parse().ok()?,
            calls: words.next()?.parse().ok()?,
            of: words.next()?.to_owned(),
        })
    }

    fn line(&self) -> String {
        format!("{}|{}|{}|{}", self.name, self.bytes, self.calls, self.of)
    }

    fn id(&self) -> String {
        if has("same-id") {
            "disk".to_owned()
        } else {
            format!("disk-{}", self.name)
        }
    }

    /// Returns an error until there were enough calls.
    fn wait(&mut self) -> Result<()> {
        self.calls += 1;
        if has("slow") && self.calls < SLOW {
            let wait = Duration::from_millis(100);
            return Err(CloudError::in_progress(wait, "the disk is not ready"));
        }
        Ok(())
    }

    fn volume(&self) -> Volume {
        let key = if has("other-key") {
            "kubernetes.io/hostname"
        } else {
            ZONE
        };
        let context = if has("reserved-key") {
            "csi.storage.k8s.io/ephemeral"
        } else {
            "serial"
        };
        let nodes = Some(self.of.clone()).filter(|node| !node.is_empty());
        Volume {
            id: self.id(),
            size_bytes: if has("too-small") { 1 } else { self.bytes },
            topology: vec![vec![(key.to_owned(), "z1".to_owned())]],
            context: vec![(context.to_owned(), self.name.clone())],
            nodes: nodes.into_iter().collect(),
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            id: self.id(),
            volume: self.of.clone(),
            size_bytes: self.bytes,
            creation_timestamp: 1_700_000_000,
            ready: true,
        }
    }
}

/// The disks of a kind, which are kept when this is dropped.
struct Table {
    kind: &'static str,
    disks: Vec<Disk>,
}

impl Table {
    fn of(kind: &'static str) -> Self {
        let text = cache::get(kind).and_then(|text| String::from_utf8(text).ok());
        let text = text.unwrap_or_default();
        let disks = text.lines().filter_map(Disk::parse).collect();
        Self { kind, disks }
    }

    fn find(&mut self, id: &str) -> Result<&mut Disk> {
        let disk = self.disks.iter_mut().find(|disk| disk.id() == id);
        disk.ok_or_else(|| CloudError::not_found(format!("no disk {id}")))
    }

    /// Returns the disk with this name, which is created if there is none.
    fn named(&mut self, name: &str, new: impl FnOnce() -> Disk) -> Option<&mut Disk> {
        if !self.disks.iter().any(|disk| disk.name == name) {
            self.disks.push(new());
        }
        self.disks.iter_mut().find(|disk| disk.name == name)
    }

    fn delete(&mut self, id: &str) -> Result<(), StorageError> {
        let is_volume = self.kind == "volumes";
        let disk = match self.find(id) {
            Ok(disk) => disk,
            Err(error) if has("deletes-once") => return Err(error.into()),
            Err(_) => return Ok(()),
        };
        if is_volume && !disk.of.is_empty() {
            return Err(StorageError::in_use(format!("attached to {}", disk.of)));
        }
        disk.wait()?;
        if !has("keeps-volumes") {
            self.disks.retain(|disk| disk.id() != id);
        }
        Ok(())
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let lines: Vec<_> = self.disks.iter().map(Disk::line).collect();
        _ = cache::set(self.kind, lines.join("\n").as_bytes(), LIFETIME);
    }
}

impl Plugin for Disks {
    fn configure(settings: Settings) -> Result<()> {
        let fault = settings.cloud_config.unwrap_or_default().trim().to_owned();
        if !FAULTS.contains(&fault.as_str()) {
            return Err(CloudError::invalid("line 1: the fault is unknown"));
        }
        FAULT.set(fault);
        Ok(())
    }

    fn info() -> PluginInfo {
        PluginInfo {
            name: "disks".into(),
            version: "1.0.0".into(),
            ..PluginInfo::default()
        }
    }
}

impl Volumes for Disks {
    fn driver() -> DriverInfo {
        let name = if has("no-driver") {
            "Disks!"
        } else if has("other-driver") {
            "other.csi.example.com"
        } else {
            "disks.csi.example.com"
        };
        DriverInfo {
            name: name.to_owned(),
            topology_keys: vec![ZONE.to_owned()],
            access_modes: vec![AccessMode::SingleNodeWriter],
            clones: false,
        }
    }

    fn create_volumes(volumes: Vec<NewVolume>) -> Result<Vec<Result<Volume, StorageError>>> {
        let mut table = Table::of("volumes");
        let mut create = |new: &NewVolume| -> Result<Volume, StorageError> {
            let others: u64 = table.disks.iter().map(|disk| disk.bytes).sum();
            let exists = table.disks.iter().any(|disk| disk.name == new.name);
            if !exists && others.saturating_add(new.size_bytes) > ROOM {
                return Err(StorageError::exhausted("no room"));
            }
            if exists && has("creates-again") {
                return Err(StorageError::exists("there is one"));
            }
            let disk = table.named(&new.name, || Disk {
                name: new.name.clone(),
                bytes: new.size_bytes.max(1),
                ..Disk::default()
            });
            let disk = disk.ok_or_else(|| CloudError::internal("not created"))?;
            let limit = new.limit_bytes.unwrap_or(u64::MAX);
            if disk.bytes < new.size_bytes || disk.bytes > limit {
                return Err(StorageError::exists("with another size"));
            }
            disk.wait()?;
            Ok(disk.volume())
        };
        let mut answers: Vec<_> = volumes.iter().map(&mut create).collect();
        if has("swaps-results") {
            answers.reverse();
        }
        if has("short") {
            answers.pop();
        }
        Ok(answers)
    }

    fn get_volumes(ids: Vec<String>) -> Result<Vec<Result<Volume, StorageError>>> {
        let mut table = Table::of("volumes");
        let mut get = |id: &String| -> Result<Volume, StorageError> {
            let mut volume = table.find(id)?.volume();
            if has("other-id") {
                volume.id = "another".to_owned();
            }
            Ok(volume)
        };
        Ok(ids.iter().map(&mut get).collect())
    }

    fn list_volumes(page: Option<String>) -> Result<VolumePage> {
        // A volume on each page.
        let number = page.and_then(|page| page.parse().ok()).unwrap_or(0);
        let table = Table::of("volumes");
        let count = table.disks.len() - usize::from(has("forgets-a-volume")).min(table.disks.len());
        let found = table.disks.get(number).filter(|_| number < count);
        Ok(VolumePage {
            volumes: found.map(Disk::volume).into_iter().collect(),
            next: (number + 1 < count).then(|| (number + 1).to_string()),
        })
    }

    fn delete_volumes(ids: Vec<String>) -> Result<Vec<Result<(), StorageError>>> {
        let mut table = Table::of("volumes");
        Ok(ids.iter().map(|id| table.delete(id)).collect())
    }
}

impl Attachments for Disks {
    fn attach_volumes(
        attachments: Vec<NewAttachment>,
    ) -> Result<Vec<Result<Vec<Pair>, StorageError>>> {
        let mut table = Table::of("volumes");
        let mut attach = |new: &NewAttachment| -> Result<Vec<Pair>, StorageError> {
            let disk = table.find(&new.volume)?;
            if !disk.of.is_empty() && disk.of != new.node {
                return Err(StorageError::in_use(format!("attached to {}", disk.of)));
            }
            disk.of.clone_from(&new.node);
            Ok(vec![("DevicePath".to_owned(), "/dev/vdb".to_owned())])
        };
        Ok(attachments.iter().map(&mut attach).collect())
    }

    fn detach_volumes(attachments: Vec<Attachment>) -> Result<Vec<Result<(), StorageError>>> {
        let mut table = Table::of("volumes");
        let mut detach = |old: &Attachment| -> Result<(), StorageError> {
            if let Ok(disk) = table.find(&old.volume)
                && old.node.as_ref().is_none_or(|node| *node == disk.of)
            {
                disk.of.clear();
            }
            Ok(())
        };
        Ok(attachments.iter().map(&mut detach).collect())
    }
}

impl VolumeExpansion for Disks {
    fn expand_volumes(expansions: Vec<Expansion>) -> Result<Vec<Result<u64, StorageError>>> {
        let mut table = Table::of("volumes");
        let mut expand = |it: &Expansion| -> Result<u64, StorageError> {
            let disk = table.find(&it.volume)?;
            if it.size_bytes > ROOM {
                return Err(StorageError::out_of_range("at most 1 TiB"));
            }
            disk.bytes = disk.bytes.max(it.size_bytes);
            Ok(disk.bytes)
        };
        Ok(expansions.iter().map(&mut expand).collect())
    }
}

impl VolumeAttributes for Disks {
    fn modify_volumes(modifications: Vec<Modification>) -> Result<Vec<Result<(), StorageError>>> {
        let mut table = Table::of("volumes");
        let mut modify = |it: &Modification| -> Result<(), StorageError> {
            table.find(&it.volume)?;
            match it.attributes.iter().find(|(key, _)| key != "iops") {
                Some((key, _)) => {
                    Err(CloudError::invalid(format!("unknown attribute {key}")).into())
                }
                None => Ok(()),
            }
        };
        Ok(modifications.iter().map(&mut modify).collect())
    }
}

impl Snapshots for Disks {
    fn create_snapshots(
        snapshots: Vec<NewSnapshot>,
    ) -> Result<Vec<Result<Snapshot, StorageError>>> {
        let (mut table, mut volumes) = (Table::of("snapshots"), Table::of("volumes"));
        let mut create = |new: &NewSnapshot| -> Result<Snapshot, StorageError> {
            let bytes = volumes.find(&new.volume)?.bytes;
            let exists = table.disks.iter().any(|disk| disk.name == new.name);
            if exists && has("snaps-once") {
                return Err(StorageError::exists("there is one"));
            }
            let disk = table.named(&new.name, || Disk {
                name: new.name.clone(),
                bytes,
                calls: 0,
                of: new.volume.clone(),
            });
            let disk = disk.ok_or_else(|| CloudError::internal("not created"))?;
            if disk.of != new.volume {
                return Err(StorageError::exists("of another volume"));
            }
            disk.wait()?;
            Ok(disk.snapshot())
        };
        Ok(snapshots.iter().map(&mut create).collect())
    }

    fn get_snapshots(ids: Vec<String>) -> Result<Vec<Result<Snapshot, StorageError>>> {
        let mut table = Table::of("snapshots");
        let mut get =
            |id: &String| -> Result<Snapshot, StorageError> { Ok(table.find(id)?.snapshot()) };
        Ok(ids.iter().map(&mut get).collect())
    }

    fn list_snapshots(_: Option<String>) -> Result<SnapshotPage> {
        let table = Table::of("snapshots");
        Ok(SnapshotPage {
            snapshots: table.disks.iter().map(Disk::snapshot).collect(),
            next: None,
        })
    }

    fn delete_snapshots(ids: Vec<String>) -> Result<Vec<Result<(), StorageError>>> {
        let mut table = Table::of("snapshots");
        Ok(ids.iter().map(|id| table.delete(id)).collect())
    }
}

impl StorageCapacity for Disks {
    fn get_capacities(
        requests: Vec<CapacityRequest>,
    ) -> Result<Vec<Result<Capacity, StorageError>>> {
        let used: u64 = Table::of("volumes").disks.iter().map(|it| it.bytes).sum();
        let capacity = Capacity {
            available_bytes: ROOM.saturating_sub(used),
            maximum_bytes: Some(ROOM),
            minimum_bytes: None,
        };
        Ok(requests.iter().map(|_| Ok(capacity)).collect())
    }
}

skydock_sdk::export!(Disks:
    volumes, attachments, volume_expansion, volume_attributes, snapshots, storage_capacity,
);
