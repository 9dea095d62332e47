use super::*;
use crate::proto::{
    CapacityRange, CreateVolumeRequest, Topology, TopologyRequirement, VolumeContentSource,
    volume_capability::{AccessMode as ProtoMode, BlockVolume, MountVolume},
    volume_content_source::{SnapshotSource, VolumeSource as ClonedVolume},
};

const ZONE: &str = "topology.disks.example/zone";

fn map(pairs: &[(&str, &str)]) -> Pairs {
    let pair = |(key, text): &(&str, &str)| ((*key).to_owned(), (*text).to_owned());
    pairs.iter().map(pair).collect()
}

/// Returns a provider with these capabilities, whose volumes are used on one node.
fn info(capabilities: &[Capability]) -> ProviderInfo {
    ProviderInfo {
        name: "disks".into(),
        version: "1".into(),
        capabilities: capabilities.iter().copied().collect(),
        provider_id_prefixes: Vec::new(),
        annotation_prefixes: Vec::new(),
        max_batch: 100,
        driver: Some(CsiDriver {
            name: "disks.csi.example.com".into(),
            topology_keys: vec![ZONE.into()],
            access_modes: vec![AccessMode::SingleNodeWriter],
            clones: false,
        }),
    }
}

fn all() -> ProviderInfo {
    info(&Capability::ALL)
}

fn used(mode: Mode, access_type: Option<AccessType>) -> proto::VolumeCapability {
    proto::VolumeCapability {
        access_mode: Some(ProtoMode { mode: mode.into() }),
        access_type,
    }
}

fn mounted(mode: Mode) -> proto::VolumeCapability {
    let mount = MountVolume {
        fs_type: "ext4".into(),
        mount_flags: vec!["noatime".into()],
        volume_mount_group: String::new(),
    };
    used(mode, Some(AccessType::Mount(mount)))
}

fn zone(name: &str) -> Topology {
    Topology {
        segments: map(&[(ZONE, name)]),
    }
}

/// Returns a request with all that csi-provisioner sends.
fn create() -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: "pvc-1".into(),
        capacity_range: Some(CapacityRange {
            required_bytes: 10,
            limit_bytes: 20,
        }),
        volume_capabilities: vec![mounted(Mode::SingleNodeWriter)],
        parameters: map(&[
            ("type", "fast"),
            ("csi.storage.k8s.io/pvc/name", "data"),
            ("csi.storage.k8s.io/pvc/namespace", "shop"),
            ("csi.storage.k8s.io/pv/name", "pvc-1"),
        ]),
        secrets: Pairs::new(),
        volume_content_source: None,
        accessibility_requirements: Some(TopologyRequirement {
            requisite: vec![zone("a"), zone("b")],
            preferred: vec![zone("b")],
        }),
        mutable_parameters: map(&[("iops", "3000")]),
    }
}

fn code<T>(result: Result<T, Failure>) -> Option<Code> {
    result.err().map(|failure| failure.code)
}

#[test]
fn a_create_is_converted_completely() {
    let expected = NewVolume {
        name: "pvc-1".into(),
        size: SizeRange {
            bytes: 10,
            limit: Some(20),
        },
        capabilities: vec![VolumeCapability {
            mode: AccessMode::SingleNodeWriter,
            file_system: Some("ext4".into()),
        }],
        parameters: map(&[("type", "fast")]),
        attributes: map(&[("iops", "3000")]),
        source: None,
        requisite: vec![map(&[(ZONE, "a")]), map(&[(ZONE, "b")])],
        preferred: vec![map(&[(ZONE, "b")])],
        claim: Some(Owner {
            namespace: "shop".into(),
            name: "data".into(),
            annotations: Pairs::new(),
        }),
    };
    assert_eq!(new_volume(create(), &all()), Ok(expected));
}

#[test]
fn a_create_that_cannot_succeed_is_rejected() {
    let with = |change: &dyn Fn(&mut CreateVolumeRequest)| {
        let mut request = create();
        change(&mut request);
        code(new_volume(request, &all()))
    };
    let range = |required_bytes, limit_bytes| {
        Some(CapacityRange {
            required_bytes,
            limit_bytes,
        })
    };
    assert_eq!(with(&|_| {}), None);
    assert_eq!(with(&|it| it.capacity_range = None), None);
    assert_eq!(with(&|it| it.capacity_range = range(10, 10)), None);
    assert_eq!(with(&|it| it.accessibility_requirements = None), None);
    assert_eq!(with(&|it| it.name = "x".repeat(128)), None);

    type Change<'a> = &'a dyn Fn(&mut CreateVolumeRequest);
    let wrong: [(&str, Change<'_>); 12] = [
        ("no name", &|it| it.name.clear()),
        ("a long name", &|it| it.name = "x".repeat(129)),
        ("a name of two lines", &|it| it.name = "a\nb".into()),
        ("secrets", &|it| it.secrets = map(&[("cloud", "eu")])),
        ("no capability", &|it| it.volume_capabilities.clear()),
        ("a negative size", &|it| it.capacity_range = range(-1, 0)),
        ("a negative limit", &|it| it.capacity_range = range(1, -1)),
        ("a limit below the size", &|it| {
            it.capacity_range = range(10, 9);
        }),
        ("an unknown topology", &|it| {
            let other = Topology {
                segments: map(&[("topology.kubernetes.io/zone", "a")]),
            };
            it.accessibility_requirements = Some(TopologyRequirement {
                requisite: vec![other],
                preferred: Vec::new(),
            });
        }),
        ("no type of access", &|it| {
            it.volume_capabilities = vec![used(Mode::SingleNodeWriter, None)];
        }),
        ("no mode", &|it| {
            it.volume_capabilities = vec![mounted(Mode::Unknown)];
        }),
        ("one of two modes", &|it| {
            it.volume_capabilities
                .push(mounted(Mode::MultiNodeMultiWriter));
        }),
    ];
    for (name, change) in wrong {
        assert_eq!(with(change), Some(Code::InvalidArgument), "{name}");
    }

    let mut without_classes = all();
    without_classes
        .capabilities
        .remove(&Capability::VolumeAttributes);
    let rejected = new_volume(create(), &without_classes);
    assert_eq!(code(rejected), Some(Code::InvalidArgument));
    let mut without_volumes = all();
    without_volumes.driver = None;
    let rejected = new_volume(create(), &without_volumes);
    assert_eq!(code(rejected), Some(Code::Unavailable));
}

// Holds: SEC-65
#[test]
fn secrets_are_rejected_with_an_explanation() {
    let (info, secrets) = (all(), map(&[("token", "s3cret")]));
    macro_rules! with_secrets {
        ($request:ident) => {
            proto::$request {
                secrets: secrets.clone(),
                ..proto::$request::default()
            }
        };
    }
    let create = CreateVolumeRequest {
        secrets: secrets.clone(),
        ..create()
    };
    let rejected = [
        new_volume(create, &info).err(),
        deleted_volume(with_secrets!(DeleteVolumeRequest)).err(),
        new_attachment(with_secrets!(ControllerPublishVolumeRequest), &info).err(),
        attachment(with_secrets!(ControllerUnpublishVolumeRequest)).err(),
        expansion(with_secrets!(ControllerExpandVolumeRequest)).err(),
        modification(with_secrets!(ControllerModifyVolumeRequest)).err(),
        validated(&with_secrets!(ValidateVolumeCapabilitiesRequest), &info).err(),
        new_snapshot(with_secrets!(CreateSnapshotRequest)).err(),
        deleted_snapshot(with_secrets!(DeleteSnapshotRequest)).err(),
        snapshot(with_secrets!(GetSnapshotRequest)).err(),
        snapshots(&with_secrets!(ListSnapshotsRequest)).err(),
    ];
    // The two about the health of volumes are not implemented.
    let fields = include_str!("../proto.rs").matches("pub secrets:").count();
    assert_eq!(rejected.len() + 2, fields);

    for failure in rejected {
        let failure = failure.unwrap();
        assert_eq!(failure.code, Code::InvalidArgument);
        let message = failure.message;
        assert!(message.starts_with("Skydock passes no Secrets to plugins"));
        assert!(!message.contains("s3cret") && !message.contains("token"));
    }
}

#[test]
fn a_mode_of_a_node_is_that_of_its_pods() {
    let driver = all().driver.unwrap();
    let block = || Some(AccessType::Block(BlockVolume {}));
    for mode in [
        Mode::SingleNodeWriter,
        Mode::SingleNodeSingleWriter,
        Mode::SingleNodeMultiWriter,
    ] {
        let expected = VolumeCapability {
            mode: AccessMode::SingleNodeWriter,
            file_system: None,
        };
        assert_eq!(capability(used(mode, block()), &driver), Ok(expected));
    }
    for (mode, expected) in [
        (Mode::Unknown, None),
        (
            Mode::SingleNodeReaderOnly,
            Some(AccessMode::SingleNodeReaderOnly),
        ),
        (
            Mode::MultiNodeReaderOnly,
            Some(AccessMode::MultiNodeReaderOnly),
        ),
        (
            Mode::MultiNodeSingleWriter,
            Some(AccessMode::MultiNodeSingleWriter),
        ),
        (
            Mode::MultiNodeMultiWriter,
            Some(AccessMode::MultiNodeMultiWriter),
        ),
    ] {
        assert_eq!(access_mode(mode), expected);
    }
}

#[test]
fn content_comes_from_where_the_driver_can_take_it() {
    let snapshot = |id: &str| {
        Some(Source::Snapshot(SnapshotSource {
            snapshot_id: id.into(),
        }))
    };
    let volume = |id: &str| {
        Some(Source::Volume(ClonedVolume {
            volume_id: id.into(),
        }))
    };
    let plain = info(&[Capability::Volumes]);
    let mut able = all();
    if let Some(driver) = &mut able.driver {
        driver.clones = true;
    }
    for (found, info, expected) in [
        (
            snapshot("s"),
            &able,
            Some(VolumeSource::Snapshot(SnapshotId("s".into()))),
        ),
        (
            volume("v"),
            &able,
            Some(VolumeSource::Volume(VolumeId("v".into()))),
        ),
        (snapshot("s"), &plain, None),
        (volume("v"), &plain, None),
        (snapshot(""), &able, None),
        (volume(""), &able, None),
        (None, &able, None),
    ] {
        let found = VolumeContentSource { r#type: found };
        assert_eq!(source(found.clone(), info).ok(), expected, "{found:?}");
    }
}

#[test]
fn an_attachment_names_volume_and_node() {
    let publish = |volume: &str, node: &str| proto::ControllerPublishVolumeRequest {
        volume_id: volume.into(),
        node_id: node.into(),
        volume_capability: Some(mounted(Mode::SingleNodeWriter)),
        readonly: false,
        secrets: Pairs::new(),
        volume_context: map(&[("serial", "s")]),
    };
    let expected = NewAttachment {
        volume: VolumeId("v".into()),
        node: "i-1".into(),
        capability: VolumeCapability {
            mode: AccessMode::SingleNodeWriter,
            file_system: Some("ext4".into()),
        },
        context: map(&[("serial", "s")]),
    };
    assert_eq!(new_attachment(publish("v", "i-1"), &all()), Ok(expected));

    let mut without_capability = publish("v", "i-1");
    without_capability.volume_capability = None;
    let mut readonly = publish("v", "i-1");
    readonly.readonly = true;
    for wrong in [
        publish("", "i-1"),
        publish("v", ""),
        without_capability,
        readonly,
    ] {
        let rejected = new_attachment(wrong, &all());
        assert_eq!(code(rejected), Some(Code::InvalidArgument));
    }

    for (node, expected) in [("i-1", Some("i-1")), ("", None)] {
        let found = attachment(proto::ControllerUnpublishVolumeRequest {
            volume_id: "v".into(),
            node_id: node.into(),
            secrets: Pairs::new(),
        });
        assert_eq!(found.unwrap().node.as_deref(), expected, "all nodes");
    }
}

#[test]
fn a_block_device_needs_no_larger_file_system() {
    let request = |used: Option<proto::VolumeCapability>| proto::ControllerExpandVolumeRequest {
        volume_id: "v".into(),
        capacity_range: Some(CapacityRange {
            required_bytes: 10,
            limit_bytes: 0,
        }),
        secrets: Pairs::new(),
        volume_capability: used,
    };
    let block = used(
        Mode::SingleNodeWriter,
        Some(AccessType::Block(BlockVolume {})),
    );
    for (used, is_block) in [
        (None, false),
        (Some(mounted(Mode::SingleNodeWriter)), false),
        (Some(block), true),
    ] {
        let (found, block) = expansion(request(used)).unwrap();
        assert_eq!((found.size.bytes, found.size.limit), (10, None));
        assert_eq!(block, is_block);
    }

    let mut without_size = request(None);
    without_size.capacity_range = None;
    let rejected = expansion(without_size);
    assert_eq!(code(rejected), Some(Code::InvalidArgument));
}

#[test]
fn a_snapshot_has_a_name_and_a_volume() {
    let request = |name: &str, volume: &str| proto::CreateSnapshotRequest {
        source_volume_id: volume.into(),
        name: name.into(),
        secrets: Pairs::new(),
        parameters: map(&[
            ("force", "true"),
            ("csi.storage.k8s.io/volumesnapshot/name", "before"),
            ("csi.storage.k8s.io/volumesnapshot/namespace", "shop"),
            ("csi.storage.k8s.io/volumesnapshotcontent/name", "c"),
        ]),
        accessibility_requirements: None,
    };
    let expected = NewSnapshot {
        name: "s".into(),
        volume: VolumeId("v".into()),
        parameters: map(&[("force", "true")]),
        owner: Some(Owner {
            namespace: "shop".into(),
            name: "before".into(),
            annotations: Pairs::new(),
        }),
    };
    assert_eq!(new_snapshot(request("s", "v")), Ok(expected));
    for (name, volume) in [("", "v"), ("s", "")] {
        let rejected = new_snapshot(request(name, volume));
        assert_eq!(code(rejected), Some(Code::InvalidArgument));
    }
}

#[test]
fn a_list_of_snapshots_is_about_one_or_many() {
    let (one, volume) = (SnapshotId("s".into()), VolumeId("v".into()));
    for (id, volume, expected) in [
        ("", "", (None, None)),
        ("", "v", (None, Some(&volume))),
        ("s", "", (Some(&one), None)),
        ("s", "v", (Some(&one), Some(&volume))),
    ] {
        let request = proto::ListSnapshotsRequest {
            snapshot_id: id.into(),
            source_volume_id: volume.into(),
            ..proto::ListSnapshotsRequest::default()
        };
        let found = snapshots(&request).unwrap();
        assert_eq!((found.id.as_ref(), found.of.as_ref()), expected);
    }
}

#[test]
fn a_capacity_is_measured_for_a_class_and_a_place() {
    let request = |place: Option<&str>| proto::GetCapacityRequest {
        volume_capabilities: Vec::new(),
        parameters: map(&[("type", "fast"), ("csi.storage.k8s.io/fstype", "xfs")]),
        accessible_topology: place.map(zone),
    };
    for place in [None, Some("a")] {
        let expected = CapacityRequest {
            capabilities: Vec::new(),
            parameters: map(&[("type", "fast")]),
            topology: place.map(|zone| map(&[(ZONE, zone)])),
        };
        assert_eq!(capacity(request(place), &all()), Ok(expected));
    }
}

#[test]
fn what_is_too_long_is_rejected_in_a_short_message() {
    let (info, long) = (all(), "x".repeat(100_000));
    let driver = info.driver.as_ref().unwrap();
    let id = |bytes: usize| proto::DeleteVolumeRequest {
        volume_id: "x".repeat(bytes),
        secrets: Pairs::new(),
    };
    assert!(deleted_volume(id(MAX_ID)).is_ok());
    let map = |bytes: usize| map(&[("k", "x".repeat(bytes - 1).as_str())]);
    let class = |bytes: usize| CreateVolumeRequest {
        parameters: map(bytes),
        ..create()
    };
    assert!(new_volume(class(MAX_PAIRS), &info).is_ok());
    let zones = |number: usize| topologies(vec![zone("a"); number], driver);
    assert!(zones(MAX_TOPOLOGIES).is_ok());
    let uses = |number: usize| checked(vec![mounted(Mode::SingleNodeWriter); number], driver);
    assert!(uses(MAX_CAPABILITIES).is_ok());

    let snapshots_of = proto::ListSnapshotsRequest {
        source_volume_id: long.clone(),
        ..proto::ListSnapshotsRequest::default()
    };
    let attributes = proto::ControllerModifyVolumeRequest {
        volume_id: "v".into(),
        mutable_parameters: map(MAX_PAIRS + 1),
        ..proto::ControllerModifyVolumeRequest::default()
    };
    let detach = proto::ControllerUnpublishVolumeRequest {
        volume_id: "v".into(),
        node_id: "x".repeat(MAX_NODE + 1),
        secrets: Pairs::new(),
    };
    let publish = proto::ControllerPublishVolumeRequest {
        volume_id: "v".into(),
        node_id: "i-1".into(),
        volume_capability: Some(mounted(Mode::SingleNodeWriter)),
        volume_context: map(MAX_PAIRS + 1),
        ..proto::ControllerPublishVolumeRequest::default()
    };
    let other_key = Topology {
        segments: Pairs::from([(long.clone(), String::new())]),
    };
    let rejected = [
        deleted_volume(id(MAX_ID + 1)).err(),
        new_volume(class(MAX_PAIRS + 1), &info).err(),
        zones(MAX_TOPOLOGIES + 1).err(),
        topologies(vec![zone(&"x".repeat(MAX_LABEL + 1))], driver).err(),
        topologies(vec![other_key], driver).err(),
        uses(MAX_CAPABILITIES + 1).err(),
        snapshots(&snapshots_of).err(),
        modification(attributes).err(),
        attachment(detach).err(),
        new_attachment(publish, &info).err(),
        name(long).err(),
    ];
    for failure in rejected {
        let failure = failure.unwrap();
        assert_eq!(failure.code, Code::InvalidArgument);
        assert!(failure.message.len() < 200, "{failure}");
    }
}
