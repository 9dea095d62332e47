//! Volumes of EBS.

use skydock_sdk::{
    attachments::{Attachment, NewAttachment},
    snapshots::{NewSnapshot, Snapshot},
    storage::{Owner, StorageError, VolumeCapability},
    types::CloudError,
    volume_attributes::Modification,
    volume_expansion::Expansion,
    volumes::{NewVolume, Volume},
};

use crate::world::{World, text, texts, unique};

const GIB: u64 = 1 << 30;
const ZONE: &str = "topology.kubernetes.io/zone";

type Answer<T> = Result<T, StorageError>;

fn new(name: &str, gib: u64) -> NewVolume {
    NewVolume {
        name: name.to_owned(),
        size_bytes: gib * GIB,
        capabilities: vec![VolumeCapability {
            file_system: Some("ext4".into()),
            ..VolumeCapability::default()
        }],
        preferred: vec![vec![(ZONE.to_owned(), "us-east-1b".to_owned())]],
        claim: Some(Owner {
            namespace: "shop".into(),
            name: "data".into(),
            annotations: Vec::new(),
        }),
        ..NewVolume::default()
    }
}

fn create(world: &World, wanted: NewVolume) -> Answer<Volume> {
    let wanted = [wanted];
    let mut answers = world.call(|cloud| cloud.create_volumes(&wanted)).unwrap();
    answers.remove(0)
}

fn attach(world: &World, volume: &str, node: &str) -> Answer<Vec<(String, String)>> {
    let wanted = [NewAttachment {
        volume: volume.into(),
        node: node.into(),
        ..NewAttachment::default()
    }];
    let mut answers = world.call(|cloud| cloud.attach_volumes(&wanted)).unwrap();
    answers.remove(0)
}

fn detach(world: &World, volume: &str, node: Option<&str>) -> Answer<()> {
    let old = [Attachment {
        volume: volume.into(),
        node: node.map(str::to_owned),
    }];
    let mut answers = world.call(|cloud| cloud.detach_volumes(&old)).unwrap();
    answers.remove(0)
}

fn delete(world: &World, volume: &str) -> Answer<()> {
    let ids = [volume.to_owned()];
    let mut answers = world.call(|cloud| cloud.delete_volumes(&ids)).unwrap();
    answers.remove(0)
}

fn modify(world: &World, volume: &str, attributes: &[(&str, &str)]) -> Answer<()> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let wanted = [Modification {
        volume: volume.into(),
        attributes: attributes.iter().map(owned).collect(),
    }];
    let mut answers = world.call(|cloud| cloud.modify_volumes(&wanted)).unwrap();
    answers.remove(0)
}

fn expand(world: &World, volume: &str, gib: u64) -> Answer<u64> {
    let wanted = [Expansion {
        volume: volume.into(),
        size_bytes: gib * GIB,
        limit_bytes: None,
    }];
    let mut answers = world.call(|cloud| cloud.expand_volumes(&wanted)).unwrap();
    answers.remove(0)
}

fn cut(world: &World, name: &str, volume: &str) -> Answer<Snapshot> {
    let wanted = [NewSnapshot {
        name: name.to_owned(),
        volume: volume.to_owned(),
        ..NewSnapshot::default()
    }];
    let mut answers = world.call(|cloud| cloud.create_snapshots(&wanted)).unwrap();
    answers.remove(0)
}

fn is_in_progress<T>(answer: &Answer<T>) -> bool {
    matches!(answer, Err(StorageError::Cloud(CloudError::InProgress(_))))
}

/// Calls until the cloud is done, as the host does.
fn done<T: std::fmt::Debug>(mut call: impl FnMut() -> Answer<T>) -> T {
    for _ in 0..5 {
        let answer = call();
        if !is_in_progress(&answer) {
            return answer.unwrap();
        }
    }
    panic!("it does not end");
}

/// Returns a volume as the cloud has it.
fn described(world: &World, id: &str) -> String {
    let body = world.ec2("DescribeVolumes", &[("VolumeId.1", id)]);
    world.line.take();
    body
}

#[test]
fn a_volume_is_created_once_attached_detached_and_deleted() {
    let world = World::new(2, "");
    let name = format!("pvc-{}", unique());
    let volume = done(|| create(&world, new(&name, 5)));
    assert_eq!(
        world.line.take(),
        ["DescribeVolumes", "CreateVolume"],
        "moto creates it at once"
    );
    assert_eq!(volume.size_bytes, 5 * GIB);
    let zone = vec![vec![(ZONE.to_owned(), "us-east-1b".to_owned())]];
    assert_eq!((&volume.topology, volume.nodes.len()), (&zone, 0));

    // The same again is the same volume, and another one with its name is not created.
    assert_eq!(create(&world, new(&name, 5)), Ok(volume.clone()));
    let other = create(&world, new(&name, 6));
    assert!(matches!(other, Err(StorageError::Exists(_))), "{other:?}");
    assert_eq!(world.line.take(), ["DescribeVolumes", "DescribeVolumes"]);

    let id = volume.id.as_str();
    let body = described(&world, id);
    let keys = texts(&body, "key");
    for key in [
        "CSIVolumeName",
        "ebs.csi.aws.com/cluster",
        "kubernetes.io/created-for/pvc/name",
        &format!("kubernetes.io/cluster/{}", world.cluster),
    ] {
        assert!(keys.iter().any(|it| it == key), "{key}: {body}");
    }
    assert_eq!(text(&body, "volumeType"), "gp3");

    // The second instance is in the zone of the volume.
    let (here, elsewhere) = (&world.instances[1], &world.instances[0]);
    assert!(is_in_progress(&attach(&world, id, here)));
    assert_eq!(
        world.line.take(),
        ["DescribeVolumes", "DescribeInstances", "AttachVolume"]
    );
    let context = done(|| attach(&world, id, here));
    let expected = [("devicePath".to_owned(), "/dev/xvdaa".to_owned())];
    assert_eq!(context, expected);
    assert_eq!(world.line.take(), ["DescribeVolumes"]);
    let found = world.call(|cloud| cloud.volumes(&[id.to_owned()])).unwrap();
    assert_eq!(found[0].as_ref().unwrap().nodes, [here.as_str()]);

    let other = attach(&world, id, elsewhere);
    assert!(matches!(other, Err(StorageError::InUse(_))), "{other:?}");
    let used = delete(&world, id);
    assert!(matches!(used, Err(StorageError::InUse(_))), "{used:?}");
    world.line.take();
    assert_eq!(detach(&world, id, Some(elsewhere)), Ok(()));
    assert_eq!(world.line.take(), ["DescribeVolumes"]);

    done(|| detach(&world, id, Some(here)));
    assert_eq!(
        world.line.take(),
        ["DescribeVolumes", "DetachVolume", "DescribeVolumes"]
    );
    done(|| delete(&world, id));
    done(|| delete(&world, id));
    assert_eq!(detach(&world, id, None), Ok(()));
    let gone = attach(&world, id, here);
    let not_found = StorageError::Cloud(CloudError::not_found(format!("no volume {id}")));
    assert_eq!(gone, Err(not_found));
}

#[test]
fn a_volume_grows_and_changes() {
    let world = World::new(1, "");
    let wanted = NewVolume {
        parameters: vec![
            ("iopsPerGB".into(), "500".into()),
            ("allowAutoIOPSIncreaseOnModify".into(), "true".into()),
            (
                "tagSpecification_1".into(),
                "team=of-{{ .PVCNamespace }}".into(),
            ),
        ],
        ..new(&format!("pvc-{}", unique()), 10)
    };
    let id = done(|| create(&world, wanted.clone())).id;
    let body = described(&world, &id);
    assert_eq!(text(&body, "iops"), "5000");
    assert!(
        texts(&body, "value").contains(&"of-shop".to_owned()),
        "{body}"
    );

    assert_eq!(done(|| expand(&world, &id, 20)), 20 * GIB);
    assert_eq!(
        world.line.take(),
        [
            "DescribeVolumes",
            "DescribeVolumesModifications",
            "ModifyVolume",
            "DescribeVolumes",
            "DescribeVolumesModifications"
        ]
    );
    assert_eq!(done(|| expand(&world, &id, 15)), 20 * GIB);
    let body = described(&world, &id);
    assert_eq!(
        (text(&body, "size"), text(&body, "iops")),
        ("20".into(), "10000".into())
    );

    let attributes = [
        ("throughput", "250"),
        ("iops", "6000"),
        ("tagSpecification_1", "class=fast"),
        ("tagDeletion_1", "team"),
    ];
    done(|| modify(&world, &id, &attributes));
    let body = described(&world, &id);
    assert_eq!(
        (text(&body, "throughput"), text(&body, "iops")),
        ("250".into(), "6000".into())
    );
    let keys = texts(&body, "key");
    assert!(keys.contains(&"class".to_owned()) && !keys.contains(&"team".to_owned()));
    // Again, nothing changes.
    done(|| modify(&world, &id, &attributes));
    assert_eq!(
        world.line.take(),
        ["DescribeVolumes", "DescribeVolumesModifications"]
    );

    let invalid = modify(&world, &id, &[("encrypted", "true")]);
    let is_invalid = matches!(invalid, Err(StorageError::Cloud(CloudError::Invalid(_))));
    assert!(is_invalid, "{invalid:?}");
    done(|| delete(&world, &id));
}

#[test]
fn a_snapshot_is_cut_restored_and_deleted() {
    let world = World::new(1, "");
    let volume = done(|| create(&world, new(&format!("pvc-{}", unique()), 3))).id;
    let name = format!("snapshot-{}", unique());
    let snapshot = done(|| cut(&world, &name, &volume));
    assert_eq!(
        (
            snapshot.volume.as_str(),
            snapshot.size_bytes,
            snapshot.ready
        ),
        (volume.as_str(), 3 * GIB, true)
    );
    assert!(snapshot.creation_timestamp > 1_700_000_000);
    world.line.take();
    assert_eq!(cut(&world, &name, &volume), Ok(snapshot.clone()));
    assert_eq!(world.line.take(), ["DescribeSnapshots"]);
    let other = cut(&world, &name, "vol-0123456789abcdef0");
    assert!(matches!(other, Err(StorageError::Exists(_))), "{other:?}");

    let restored = NewVolume {
        snapshot: Some(snapshot.id.clone()),
        ..new(&format!("pvc-{}", unique()), 4)
    };
    let copy = done(|| create(&world, restored.clone()));
    assert_eq!(
        text(&described(&world, &copy.id), "snapshotId"),
        snapshot.id
    );
    assert_eq!(create(&world, restored.clone()), Ok(copy.clone()));
    let plain = NewVolume {
        snapshot: None,
        ..restored.clone()
    };
    let plain = create(&world, plain);
    assert!(matches!(plain, Err(StorageError::Exists(_))), "{plain:?}");

    let listed = world.call(|cloud| cloud.list_snapshots(None)).unwrap();
    assert_eq!(
        (listed.snapshots, listed.next),
        (vec![snapshot.clone()], None)
    );
    let ids = [snapshot.id.clone()];
    let delete_it = || -> Answer<()> {
        let mut answers = world.call(|cloud| cloud.delete_snapshots(&ids)).unwrap();
        answers.remove(0)
    };
    done(delete_it);
    done(delete_it);
    let missing = NewVolume {
        name: format!("pvc-{}", unique()),
        ..restored
    };
    let missing = create(&world, missing);
    let text = format!("no snapshot {}", snapshot.id);
    assert_eq!(missing, Err(CloudError::not_found(text).into()));

    done(|| delete(&world, &copy.id));
    done(|| delete(&world, &volume));
}

#[test]
fn volumes_of_other_clusters_are_not_touched() {
    let (world, other) = (World::new(1, ""), World::new(0, ""));
    let name = format!("pvc-{}", unique());
    let theirs = done(|| create(&other, new(&name, 1))).id;
    let copy = done(|| cut(&other, &name, &theirs)).id;

    let listed = world.call(|cloud| cloud.list_volumes(None)).unwrap();
    assert_eq!((listed.volumes, listed.next), (Vec::new(), None));
    let listed = world.call(|cloud| cloud.list_snapshots(None)).unwrap();
    assert_eq!((listed.snapshots, listed.next), (Vec::new(), None));

    let is_denied = |error: StorageError| {
        assert!(
            matches!(error, StorageError::Cloud(CloudError::Denied(_))),
            "{error:?}"
        );
    };
    is_denied(delete(&world, &theirs).unwrap_err());
    is_denied(expand(&world, &theirs, 9).unwrap_err());
    is_denied(modify(&world, &theirs, &[("iops", "4000")]).unwrap_err());
    is_denied(attach(&world, &theirs, &world.instances[0]).unwrap_err());
    is_denied(detach(&world, &theirs, None).unwrap_err());
    is_denied(cut(&world, &format!("{name}-2"), &theirs).unwrap_err());
    let restored = NewVolume {
        snapshot: Some(copy.clone()),
        ..new(&format!("{name}-2"), 1)
    };
    is_denied(create(&world, restored).unwrap_err());
    let ids = [copy];
    let kept = world.call(|cloud| cloud.delete_snapshots(&ids)).unwrap();
    is_denied(kept.into_iter().next().unwrap().unwrap_err());
    let sent = world.line.take();
    assert!(sent.iter().all(|it| it.starts_with("Describe")), "{sent:?}");

    // The same name is another volume in each cluster.
    let ours = done(|| create(&world, new(&name, 1))).id;
    assert_ne!(ours, theirs);
    done(|| delete(&world, &ours));
    let listed = other.call(|cloud| cloud.list_volumes(None)).unwrap();
    let ids: Vec<&str> = listed.volumes.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids, [theirs.as_str()]);
}

#[test]
fn many_volumes_are_watched_with_one_request() {
    let world = World::new(1, "");
    let name = unique();
    let wanted: Vec<NewVolume> = (0..30)
        .map(|number| new(&format!("pvc-{name}-{number}"), 1))
        .collect();
    let created = world.call(|cloud| cloud.create_volumes(&wanted)).unwrap();
    let ids: Vec<String> = created.into_iter().map(|it| it.unwrap().id).collect();
    world.line.take();

    let attachments: Vec<NewAttachment> = ids
        .iter()
        .map(|id| NewAttachment {
            volume: id.clone(),
            node: world.instances[0].clone(),
            ..NewAttachment::default()
        })
        .collect();
    let begun = world
        .call(|cloud| cloud.attach_volumes(&attachments))
        .unwrap();
    assert!(begun.iter().all(is_in_progress), "{begun:?}");
    assert_eq!(world.line.take().len(), 2 + 30);
    let attached = world
        .call(|cloud| cloud.attach_volumes(&attachments))
        .unwrap();
    assert_eq!(world.line.take(), ["DescribeVolumes"]);
    let mut devices: Vec<_> = attached.into_iter().flat_map(|it| it.unwrap()).collect();
    devices.sort();
    devices.dedup();
    assert_eq!(devices.len(), 30, "{devices:?}");
}
