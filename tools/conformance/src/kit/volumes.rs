//! The lives of volumes and of their snapshots, as the sidecars of a CSI driver call it.

use std::time::Duration;

use skydock_cloud::{
    Answer, Arguments, Capability, CloudError, Function, NewSnapshot, SnapshotId, VolumeId,
};

use super::life::Life;
use crate::{
    Verdict,
    harness::{loaded_plugin::LoadedPlugin, objects, observation::Observation},
};

/// Maximum number of calls until something is not in progress any more.
const PATIENCE: usize = 20;

/// Maximum pause between them.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct VolumeObservations {
    volumes: Life,
    snapshots: Life,
}

/// Creates volumes twice, once all together and once each alone; lists them twice, lets their
/// snapshots live, deletes them twice, and lists.
pub(super) async fn run(plugin: &LoadedPlugin) -> VolumeObservations {
    let info = plugin.info();
    if !info.can(Capability::Volumes) {
        return VolumeObservations::default();
    }

    let mut with = Arguments {
        new_volumes: objects::new_volumes(&info),
        ..Arguments::default()
    };
    let wanted = with.new_volumes.clone();
    let (first, answer) = settled(plugin, Function::CreateVolumes, "new volumes", &with).await;
    with.volume_ids = objects::created_volumes(answer.as_ref());

    let mut again = Vec::new();
    for volume in &wanted {
        with.new_volumes = vec![volume.clone()];
        again.push(
            plugin
                .call(Function::CreateVolumes, "an existing volume", &with)
                .await,
        );
    }
    let mut seen = vec![first];
    seen.extend(Observation::together(&again));

    let (listed, volumes) = list_volumes(plugin).await;
    seen.extend([listed, list_volumes(plugin).await.0]);
    let missing = without(&with.volume_ids, &volumes);

    let snapshots = if info.can(Capability::Snapshots) {
        snapshots(plugin, &with.volume_ids).await
    } else {
        Life::default()
    };

    for what in ["volumes", "deleted volumes"] {
        let (deleted, _) = settled(plugin, Function::DeleteVolumes, what, &with).await;
        seen.push(deleted);
    }
    let (rest, volumes) = list_volumes(plugin).await;
    seen.push(rest);

    let text = |all: Vec<VolumeId>| all.into_iter().map(|id| id.0).collect();
    VolumeObservations {
        volumes: Life {
            seen,
            missing: text(missing),
            left: text(within(&with.volume_ids, &volumes)),
        },
        snapshots,
    }
}

/// Lets a snapshot of each volume live.
async fn snapshots(plugin: &LoadedPlugin, volumes: &[VolumeId]) -> Life {
    let mut with = Arguments {
        new_snapshots: objects::new_snapshots(volumes),
        ..Arguments::default()
    };
    let wanted: Vec<NewSnapshot> = with.new_snapshots.clone();
    let (first, answer) = settled(plugin, Function::CreateSnapshots, "new snapshots", &with).await;
    with.snapshot_ids = objects::created_snapshots(answer.as_ref());

    let mut again = Vec::new();
    for snapshot in &wanted {
        with.new_snapshots = vec![snapshot.clone()];
        again.push(
            plugin
                .call(Function::CreateSnapshots, "an existing snapshot", &with)
                .await,
        );
    }
    let mut seen = vec![first];
    seen.extend(Observation::together(&again));

    let (listed, found) = list_snapshots(plugin).await;
    seen.extend([listed, list_snapshots(plugin).await.0]);
    let missing = without(&with.snapshot_ids, &found);

    for what in ["snapshots", "deleted snapshots"] {
        let (deleted, _) = settled(plugin, Function::DeleteSnapshots, what, &with).await;
        seen.push(deleted);
    }
    let (rest, found) = list_snapshots(plugin).await;
    seen.push(rest);

    let text = |all: Vec<SnapshotId>| all.into_iter().map(|id| id.0).collect();
    Life {
        seen,
        missing: text(missing),
        left: text(within(&with.snapshot_ids, &found)),
    }
}

async fn list_volumes(plugin: &LoadedPlugin) -> (Observation, Vec<VolumeId>) {
    let nothing = Arguments::default();
    let (seen, answer) = plugin
        .answer(Function::ListVolumes, "nothing", &nothing)
        .await;
    let ids = match answer {
        Some(Answer::ListVolumes(volumes)) => volumes.into_iter().map(|it| it.id).collect(),
        _ => Vec::new(),
    };
    (seen, ids)
}

async fn list_snapshots(plugin: &LoadedPlugin) -> (Observation, Vec<SnapshotId>) {
    let nothing = Arguments::default();
    let (seen, answer) = plugin
        .answer(Function::ListSnapshots, "nothing", &nothing)
        .await;
    let ids = match answer {
        Some(Answer::ListSnapshots(snapshots)) => snapshots.into_iter().map(|it| it.id).collect(),
        _ => Vec::new(),
    };
    (seen, ids)
}

/// Repeats a call while something is in progress, as Skydock does.
async fn settled(
    plugin: &LoadedPlugin,
    function: Function,
    with: &'static str,
    arguments: &Arguments,
) -> (Observation, Option<Answer>) {
    let mut last = plugin.answer(function, with, arguments).await;
    for _ in 1..PATIENCE {
        let waits = last.0.errors().into_iter().find_map(|error| match error {
            CloudError::InProgress(retry) => Some(retry.after.min(PAUSE)),
            _ => None,
        });
        let Some(wait) = waits else { break };
        tokio::time::sleep(wait).await;
        last = plugin.answer(function, with, arguments).await;
    }
    last
}

fn without<T: Clone + PartialEq>(all: &[T], listed: &[T]) -> Vec<T> {
    let missing = all.iter().filter(|it| !listed.contains(it));
    missing.cloned().collect()
}

fn within<T: Clone + PartialEq>(all: &[T], listed: &[T]) -> Vec<T> {
    let left = all.iter().filter(|it| listed.contains(it));
    left.cloned().collect()
}

impl VolumeObservations {
    pub(super) fn all(&self) -> impl Iterator<Item = &Observation> {
        self.volumes.all().chain(self.snapshots.all())
    }

    pub(super) fn again(&self, exported: bool) -> Verdict {
        let volumes = self.volumes.again("volumes", exported);
        let snapshots = self.snapshots.again("snapshots", false);
        match (volumes, snapshots) {
            (failed @ Verdict::Failed { .. }, _) | (_, failed @ Verdict::Failed { .. }) => failed,
            (volumes, _) => volumes,
        }
    }
}
