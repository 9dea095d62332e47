//! Calls about volumes and snapshots.

use std::{fs, time::Duration};

use skydock_cloud::{
    AccessMode, Attachment, Capability, Capacity, CapacityRequest, CloudError, CloudProvider as _,
    CsiDriver, Expansion, Modification, NewAttachment, NewSnapshot, NewVolume, Pairs, SizeRange,
    Snapshot, SnapshotId, StorageError, Volume, VolumeCapability, VolumeId,
};
use skydock_sandbox::{LoadProblem, Stage};

use crate::support::Bench;

const GI: u64 = 1 << 30;

fn map(key: &str, text: &str) -> Pairs {
    [(key.to_owned(), text.to_owned())].into()
}

fn capability() -> VolumeCapability {
    VolumeCapability {
        mode: AccessMode::SingleNodeWriter,
        file_system: Some("ext4".into()),
    }
}

/// Returns a volume of this name with so many GiB.
fn new(name: &str, gib: u64) -> NewVolume {
    NewVolume {
        name: name.into(),
        size: SizeRange {
            bytes: gib * GI,
            limit: None,
        },
        capabilities: vec![capability()],
        ..NewVolume::default()
    }
}

fn id(name: &str) -> VolumeId {
    VolumeId(format!("disk-{name}"))
}

/// Returns the volume that is created for [`new`].
fn created(name: &str, gib: u64) -> Volume {
    Volume {
        id: id(name),
        bytes: gib * GI,
        topology: vec![map("topology.disks.example/zone", "z1")],
        context: map("serial", name),
        nodes: Vec::new(),
    }
}

fn not_found(name: &str) -> StorageError {
    StorageError::Cloud(CloudError::NotFound(format!("no disk disk-{name}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_describes_its_driver() {
    let bench = Bench::volumes("none").await.unwrap();
    let info = bench.plugin.info();
    let exported = [
        Capability::Volumes,
        Capability::Attachments,
        Capability::VolumeExpansion,
        Capability::VolumeAttributes,
        Capability::Snapshots,
        Capability::StorageCapacity,
    ];
    assert_eq!(info.capabilities, exported.into());
    let expected = CsiDriver {
        name: "disks.csi.example.com".into(),
        topology_keys: vec!["topology.disks.example/zone".into()],
        access_modes: vec![AccessMode::SingleNodeWriter],
        clones: false,
    };
    assert_eq!(info.driver, Some(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_with_an_invalid_driver_is_rejected() {
    let error = Bench::volumes("no-driver").await.err().unwrap();
    assert_eq!(error.stage, Stage::Info);
    assert!(
        error.to_string().contains("driver `Disks!` is not valid"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_is_not_replaced_by_another() {
    let bench = Bench::volumes("none").await.unwrap();
    let config = bench.dir.path().join("cloud.conf");
    fs::write(&config, "other-driver").unwrap();
    let error = bench.plugin.reload().await.unwrap_err();
    assert_eq!(error.stage, Stage::Identity);
    assert!(
        matches!(error.source, LoadProblem::OtherDriver { .. }),
        "{error}"
    );

    fs::write(&config, "slow").unwrap();
    bench.plugin.reload().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_live_from_creation_to_deletion() {
    let bench = Bench::volumes("none").await.unwrap();
    let plugin = &bench.plugin;
    let wanted = [new("a", 1), new("b", 2)];
    let both = || Ok(vec![Ok(created("a", 1)), Ok(created("b", 2))]);
    assert_eq!(plugin.create_volumes(&wanted).await, both());
    assert_eq!(plugin.create_volumes(&wanted).await, both());
    assert_eq!(
        plugin.list_volumes().await,
        Ok(vec![created("a", 1), created("b", 2)]),
        "of two pages"
    );
    assert_eq!(
        plugin.get_volumes(&[id("b"), id("c")]).await,
        Ok(vec![Ok(created("b", 2)), Err(not_found("c"))])
    );
    let other_size = "exists and is different: with another size";
    let answers = plugin.create_volumes(&[new("a", 3)]).await.unwrap();
    assert_eq!(answers[0].as_ref().unwrap_err().to_string(), other_size);

    let size = SizeRange {
        bytes: 5 * GI,
        limit: None,
    };
    let expand = |volume| Expansion { volume, size };
    assert_eq!(
        plugin
            .expand_volumes(&[expand(id("a")), expand(id("c"))])
            .await,
        Ok(vec![Ok(5 * GI), Err(not_found("c"))])
    );
    let modify = |attribute: &str| Modification {
        volume: id("a"),
        attributes: map(attribute, "3000"),
    };
    let answers = plugin
        .modify_volumes(&[modify("iops"), modify("color")])
        .await;
    let unknown = CloudError::Invalid("unknown attribute color".into());
    assert_eq!(answers, Ok(vec![Ok(()), Err(StorageError::Cloud(unknown))]));

    let ids = [id("a"), id("b"), id("c")];
    let deleted = Ok(vec![Ok(()), Ok(()), Ok(())]);
    assert_eq!(plugin.delete_volumes(&ids).await, deleted);
    assert_eq!(plugin.list_volumes().await, Ok(Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_attached_to_one_node() {
    let bench = Bench::volumes("none").await.unwrap();
    let plugin = &bench.plugin;
    plugin.create_volumes(&[new("a", 1)]).await.unwrap();
    let attach = |node: &str| NewAttachment {
        volume: id("a"),
        node: node.into(),
        capability: capability(),
        context: map("serial", "a"),
    };
    let detach = |node: Option<&str>| Attachment {
        volume: id("a"),
        node: node.map(Into::into),
    };
    let in_use = || StorageError::InUse("attached to i-1".into());
    assert_eq!(
        plugin.attach_volumes(&[attach("i-1"), attach("i-2")]).await,
        Ok(vec![Ok(map("DevicePath", "/dev/vdb")), Err(in_use())])
    );
    let nodes = async || plugin.list_volumes().await.unwrap()[0].nodes.clone();
    assert_eq!(nodes().await, ["i-1"]);
    assert_eq!(
        plugin.delete_volumes(&[id("a")]).await,
        Ok(vec![Err(in_use())])
    );

    plugin.detach_volumes(&[detach(Some("i-2"))]).await.unwrap();
    assert_eq!(nodes().await, ["i-1"], "it was another node");
    plugin.detach_volumes(&[detach(None)]).await.unwrap();
    assert_eq!(nodes().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_live_from_creation_to_deletion() {
    let bench = Bench::volumes("none").await.unwrap();
    let plugin = &bench.plugin;
    plugin.create_volumes(&[new("a", 1)]).await.unwrap();
    let cut = |volume| NewSnapshot {
        name: "s".into(),
        volume,
        parameters: Pairs::new(),
        owner: None,
    };
    let expected = || Snapshot {
        id: SnapshotId("disk-s".into()),
        volume: id("a"),
        bytes: GI,
        created: Duration::from_secs(1_700_000_000),
        ready: true,
    };
    assert_eq!(
        plugin.create_snapshots(&[cut(id("a")), cut(id("c"))]).await,
        Ok(vec![Ok(expected()), Err(not_found("c"))])
    );
    assert_eq!(plugin.list_snapshots().await, Ok(vec![expected()]));
    let ids = [SnapshotId("disk-s".into())];
    assert_eq!(plugin.get_snapshots(&ids).await, Ok(vec![Ok(expected())]));
    assert_eq!(plugin.delete_snapshots(&ids).await, Ok(vec![Ok(())]));
    assert_eq!(
        plugin.get_snapshots(&ids).await,
        Ok(vec![Err(not_found("s"))])
    );

    let room = Capacity {
        available: (1 << 40) - GI,
        maximum: Some(1 << 40),
        minimum: None,
    };
    let asked = [CapacityRequest::default()];
    assert_eq!(plugin.get_capacities(&asked).await, Ok(vec![Ok(room)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_time_is_asked_about_again() {
    let bench = Bench::volumes("slow").await.unwrap();
    for calls in 1..=3 {
        let answers = bench.plugin.create_volumes(&[new("a", 1)]).await.unwrap();
        match &answers[0] {
            Ok(volume) => assert_eq!((volume, calls), (&created("a", 1), 3)),
            Err(StorageError::Cloud(CloudError::InProgress(_))) => assert!(calls < 3),
            Err(other) => panic!("{other}"),
        }
    }
}

// Holds: SEC-05
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_would_mix_up_volumes_are_rejected() {
    for (fault, expected) in [
        ("same-id", "duplicate volume `disk`"),
        (
            "too-small",
            "size `1` is not valid; expected one that was requested",
        ),
        (
            "other-key",
            "key of a topology `kubernetes.io/hostname` is not valid",
        ),
        (
            "reserved-key",
            "key of a context `csi.storage.k8s.io/ephemeral` is not valid",
        ),
    ] {
        let bench = Bench::volumes(fault).await.unwrap();
        let wanted = [new("a", 1), new("b", 1)];
        for answer in bench.plugin.create_volumes(&wanted).await.unwrap() {
            let error = answer.unwrap_err();
            assert!(
                matches!(error, StorageError::Cloud(CloudError::Internal(_))),
                "{fault}"
            );
            assert!(error.to_string().contains(expected), "{fault}: {error}");
        }
    }

    let bench = Bench::volumes("other-id").await.unwrap();
    bench.plugin.create_volumes(&[new("a", 1)]).await.unwrap();
    let answers = bench.plugin.get_volumes(&[id("a")]).await.unwrap();
    let error = answers[0].as_ref().unwrap_err().to_string();
    let expected = "volume ID `another` is not valid; expected the one that was asked for";
    assert!(error.contains(expected), "{error}");

    let bench = Bench::volumes("short").await.unwrap();
    let wanted = [new("a", 1), new("b", 1)];
    let error = bench.plugin.create_volumes(&wanted).await.unwrap_err();
    let expected = "the call has 2 elements, but the answer has 1";
    assert!(error.to_string().contains(expected), "{error}");
}
