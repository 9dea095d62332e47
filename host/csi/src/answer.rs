//! Converts answers of the plugin to those of CSI.

use std::collections::BTreeSet;

use skydock_cloud::{Capability, Capacity, Pairs, ProviderInfo, Snapshot, Volume};

use crate::proto::{
    self,
    controller_service_capability::{self as controller, rpc::Type as Rpc},
    list_snapshots_response, list_volumes_response,
    plugin_capability::{self as plugin, service::Type as Service},
};

/// Converts a number of bytes. The plugin runtime rejects larger ones.
pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn topology(segments: &Pairs) -> proto::Topology {
    proto::Topology {
        segments: segments.clone(),
    }
}

/// Returns a volume. `source` is what was asked for: the plugin has checked that it is the same.
pub(crate) fn volume(volume: &Volume, source: Option<proto::VolumeContentSource>) -> proto::Volume {
    proto::Volume {
        capacity_bytes: signed(volume.bytes),
        volume_id: volume.id.0.clone(),
        volume_context: volume.context.clone(),
        content_source: source,
        accessible_topology: volume.topology.iter().map(topology).collect(),
    }
}

/// Returns an element of a list of volumes.
pub(crate) fn volume_entry(it: &Volume) -> list_volumes_response::Entry {
    list_volumes_response::Entry {
        volume: Some(volume(it, None)),
        status: Some(list_volumes_response::VolumeStatus {
            published_node_ids: it.nodes.clone(),
        }),
    }
}

/// Returns a volume with the nodes that it is attached to.
pub(crate) fn volume_with_nodes(it: &Volume) -> proto::ControllerGetVolumeResponse {
    proto::ControllerGetVolumeResponse {
        volume: Some(volume(it, None)),
        status: Some(proto::controller_get_volume_response::VolumeStatus {
            published_node_ids: it.nodes.clone(),
        }),
    }
}

/// Returns a snapshot.
pub(crate) fn snapshot(snapshot: &Snapshot) -> proto::Snapshot {
    proto::Snapshot {
        size_bytes: signed(snapshot.bytes),
        snapshot_id: snapshot.id.0.clone(),
        source_volume_id: snapshot.volume.0.clone(),
        creation_time: Some(prost_types::Timestamp {
            seconds: signed(snapshot.created.as_secs()),
            nanos: 0,
        }),
        ready_to_use: snapshot.ready,
        group_snapshot_id: String::new(),
        accessible_topology: Vec::new(),
    }
}

/// Returns an element of a list of snapshots.
pub(crate) fn snapshot_entry(it: &Snapshot) -> list_snapshots_response::Entry {
    list_snapshots_response::Entry {
        snapshot: Some(snapshot(it)),
    }
}

/// Returns the room for volumes.
pub(crate) fn capacity(capacity: Capacity) -> proto::GetCapacityResponse {
    proto::GetCapacityResponse {
        available_capacity: signed(capacity.available),
        maximum_volume_size: capacity.maximum.map(signed),
        minimum_volume_size: capacity.minimum.map(signed),
    }
}

/// Returns what the controller service can do: what the plugin exports.
pub(crate) fn controller_capabilities(
    info: &ProviderInfo,
) -> Vec<proto::ControllerServiceCapability> {
    let rpc = |rpc: Rpc| proto::ControllerServiceCapability {
        r#type: Some(controller::Type::Rpc(controller::Rpc {
            r#type: rpc.into(),
        })),
    };
    rpcs(info).into_iter().map(rpc).collect()
}

fn rpcs(info: &ProviderInfo) -> BTreeSet<Rpc> {
    let Some(driver) = &info.driver else {
        return BTreeSet::new();
    };

    let table: [(Capability, &[Rpc]); 6] = [
        (
            Capability::Volumes,
            &[Rpc::CreateDeleteVolume, Rpc::ListVolumes, Rpc::GetVolume],
        ),
        (
            Capability::Attachments,
            &[Rpc::PublishUnpublishVolume, Rpc::ListVolumesPublishedNodes],
        ),
        (Capability::VolumeExpansion, &[Rpc::ExpandVolume]),
        (Capability::VolumeAttributes, &[Rpc::ModifyVolume]),
        (
            Capability::Snapshots,
            &[
                Rpc::CreateDeleteSnapshot,
                Rpc::ListSnapshots,
                Rpc::GetSnapshot,
            ],
        ),
        (Capability::StorageCapacity, &[Rpc::GetCapacity]),
    ];

    let exported = table.into_iter().filter(|(it, _)| info.can(*it));
    let rpcs = exported.flat_map(|(_, rpcs)| rpcs).copied();
    rpcs.chain(driver.clones.then_some(Rpc::CloneVolume))
        .collect()
}

/// Returns what the driver is.
pub(crate) fn plugin_capabilities(info: &ProviderInfo) -> Vec<proto::PluginCapability> {
    let Some(driver) = &info.driver else {
        return Vec::new();
    };

    let topology = !driver.topology_keys.is_empty();
    let services = [
        Some(Service::ControllerService),
        topology.then_some(Service::VolumeAccessibilityConstraints),
    ];
    let service = |service: Service| proto::PluginCapability {
        r#type: Some(plugin::Type::Service(plugin::Service {
            r#type: service.into(),
        })),
    };
    services.into_iter().flatten().map(service).collect()
}

#[cfg(test)]
mod tests;
