use std::time::Duration;

use skydock_cloud::{AccessMode, CsiDriver, SnapshotId, VolumeId};

use super::*;

fn info(capabilities: &[Capability], topology: bool, clones: bool) -> ProviderInfo {
    let zone = || "topology.disks.example/zone".to_owned();
    ProviderInfo {
        name: "disks".into(),
        version: "1".into(),
        capabilities: capabilities.iter().copied().collect(),
        provider_id_prefixes: Vec::new(),
        annotation_prefixes: Vec::new(),
        max_batch: 100,
        driver: Some(CsiDriver {
            name: "disks.csi.example.com".into(),
            topology_keys: topology.then(zone).into_iter().collect(),
            access_modes: vec![AccessMode::SingleNodeWriter],
            clones,
        }),
    }
}

#[test]
fn what_a_plugin_exports_is_what_its_driver_can_do() {
    use Capability::{
        Attachments, Instances, Snapshots, StorageCapacity, VolumeAttributes, VolumeExpansion,
        Volumes,
    };
    let volumes = [Rpc::CreateDeleteVolume, Rpc::ListVolumes, Rpc::GetVolume];
    for (exported, clones, more) in [
        (&[Instances, Volumes][..], false, &[][..]),
        (&[Volumes], true, &[Rpc::CloneVolume]),
        (
            &[Volumes, Attachments],
            false,
            &[Rpc::PublishUnpublishVolume, Rpc::ListVolumesPublishedNodes],
        ),
        (&[Volumes, VolumeExpansion], false, &[Rpc::ExpandVolume]),
        (&[Volumes, VolumeAttributes], false, &[Rpc::ModifyVolume]),
        (
            &[Volumes, Snapshots],
            false,
            &[
                Rpc::CreateDeleteSnapshot,
                Rpc::ListSnapshots,
                Rpc::GetSnapshot,
            ],
        ),
        (&[Volumes, StorageCapacity], false, &[Rpc::GetCapacity]),
    ] {
        let expected: BTreeSet<_> = volumes.iter().chain(more).copied().collect();
        assert_eq!(
            rpcs(&info(exported, true, clones)),
            expected,
            "{exported:?}"
        );
        let listed = controller_capabilities(&info(exported, true, clones));
        assert_eq!(listed.len(), expected.len());
    }

    let mut without_volumes = info(&[Instances], false, false);
    without_volumes.driver = None;
    assert!(controller_capabilities(&without_volumes).is_empty());
    assert!(plugin_capabilities(&without_volumes).is_empty());
}

#[test]
fn only_a_driver_with_topology_has_constraints() {
    for (topology, expected) in [(false, 1), (true, 2)] {
        let found = plugin_capabilities(&info(&[Capability::Volumes], topology, false));
        assert_eq!(found.len(), expected);
    }
}

#[test]
fn a_volume_is_converted_completely() {
    let map = |key: &str, text: &str| Pairs::from([(key.to_owned(), text.to_owned())]);
    let found = Volume {
        id: VolumeId("v".into()),
        bytes: 1 << 30,
        topology: vec![map("zone", "a")],
        context: map("serial", "s"),
        nodes: vec!["i-1".into()],
    };
    let source = Some(proto::VolumeContentSource::default());
    let expected = proto::Volume {
        capacity_bytes: 1 << 30,
        volume_id: "v".into(),
        volume_context: map("serial", "s"),
        content_source: source.clone(),
        accessible_topology: vec![proto::Topology {
            segments: map("zone", "a"),
        }],
    };
    assert_eq!(volume(&found, source), expected);

    let entry = volume_entry(&found);
    assert_eq!(entry.status.unwrap().published_node_ids, ["i-1"]);
    let read = volume_with_nodes(&found);
    assert_eq!(read.status.unwrap().published_node_ids, ["i-1"]);
}

#[test]
fn a_snapshot_is_converted_completely() {
    let found = Snapshot {
        id: SnapshotId("s".into()),
        volume: VolumeId("v".into()),
        bytes: 1 << 30,
        created: Duration::from_secs(1_700_000_000),
        ready: true,
    };
    let expected = proto::Snapshot {
        size_bytes: 1 << 30,
        snapshot_id: "s".into(),
        source_volume_id: "v".into(),
        creation_time: Some(prost_types::Timestamp {
            seconds: 1_700_000_000,
            nanos: 0,
        }),
        ready_to_use: true,
        ..proto::Snapshot::default()
    };
    assert_eq!(snapshot(&found), expected);
}

#[test]
fn a_capacity_is_converted_completely() {
    let found = capacity(Capacity {
        available: u64::MAX,
        maximum: Some(5),
        minimum: None,
    });
    let expected = proto::GetCapacityResponse {
        available_capacity: i64::MAX,
        maximum_volume_size: Some(5),
        minimum_volume_size: None,
    };
    assert_eq!(found, expected);
}
