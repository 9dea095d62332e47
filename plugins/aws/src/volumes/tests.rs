use std::cell::RefCell;

use skydock_sdk::{
    attachments::{Attachment, NewAttachment},
    snapshots::NewSnapshot,
    storage::{Owner as Claim, VolumeCapability},
    types::Node,
    volume_attributes::Modification,
    volume_expansion::Expansion,
};

use super::*;
use crate::{
    client::api::wire::Wire,
    testing::{Answer, Memory, Scripted, nothing, rejection, setup},
};

const OURS: &str = "<item><key>kubernetes.io/cluster/c</key><value>owned</value></item>";
const THEIRS: &str = "<item><key>kubernetes.io/cluster/d</key><value>owned</value></item>";

/// Returns a volume of 2 GiB, as EC2 has it.
fn item(id: &str, name: &str, status: &str, tags: &str) -> String {
    format!("<item>{}</item>", fields(id, name, status, tags))
}

fn fields(id: &str, name: &str, status: &str, tags: &str) -> String {
    format!(
        "<volumeId>{id}</volumeId><size>2</size><status>{status}</status><snapshotId/>\
         <availabilityZone>eu-west-1a</availabilityZone><volumeType>gp3</volumeType>\
         <tagSet><item><key>CSIVolumeName</key><value>{name}</value></item>{tags}</tagSet>"
    )
}

fn on_instance(id: &str, instance: &str) -> String {
    let volume = item(id, "pv", "in-use", OURS);
    let attachment = format!(
        "<attachmentSet><item><instanceId>{instance}</instanceId><status>attached</status>\
         <device>/dev/xvdaa</device></item></attachmentSet></item>"
    );
    volume.replace(
        "</item></tagSet></item>",
        &format!("</item></tagSet>{attachment}"),
    )
}

fn snapshot(id: &str, volume: &str, status: &str, tags: &str) -> String {
    format!(
        "<item><snapshotId>{id}</snapshotId><volumeId>{volume}</volumeId><volumeSize>2</volumeSize>\
         <status>{status}</status><startTime>2026-11-28T22:00:00.000Z</startTime>\
         <tagSet><item><key>CSIVolumeSnapshotName</key><value>s</value></item>{tags}</tagSet></item>"
    )
}

/// Returns a list of volumes or snapshots.
fn list(set: &str, items: &str) -> Answer {
    Ok(format!("<R><{set}>{items}</{set}></R>"))
}

/// Returns the answer to a creation, with the size that was asked for.
fn created(call: &Call) -> Answer {
    let mut sizes = call.params.iter().filter(|(key, _)| key == "Size");
    let (_, size) = sizes.next().unwrap();
    let volume = fields("vol-1", "pv", "creating", OURS);
    let volume = volume.replace("<size>2<", &format!("<size>{size}<"));
    Ok(format!("<R>{volume}</R>"))
}

/// Answers that read nothing but these volumes.
fn with_volumes(call: &Call, items: &str) -> Answer {
    match call.action {
        "DescribeVolumes" => list("volumeSet", items),
        "DescribeSnapshots" => list("snapshotSet", ""),
        "DescribeVolumesModifications" => list("volumeModificationSet", ""),
        _ => nothing(call),
    }
}

fn new(name: &str, gib: u64) -> NewVolume {
    NewVolume {
        name: name.to_owned(),
        size_bytes: gib * GIB,
        capabilities: vec![VolumeCapability {
            file_system: Some("ext4".into()),
            ..VolumeCapability::default()
        }],
        preferred: vec![vec![(ZONE.to_owned(), "eu-west-1a".to_owned())]],
        ..NewVolume::default()
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<Pair> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

/// Calls the cloud at a time, with nodes in two zones.
fn at<T>(
    wire: &dyn Wire,
    memory: &Memory,
    now: u64,
    call: impl FnOnce(&Cloud<'_>) -> Result<Vec<T>>,
) -> T {
    let node = |zone: &str| Node {
        provider_id: Some(format!("aws:///{zone}/i-1")),
        ..Node::default()
    };
    let nodes = || vec![node("eu-west-1b"), node("eu-west-1a"), node("eu-west-1a")];
    let setup = setup();
    call(&Cloud::new(&setup, wire, memory, &nodes, now))
        .unwrap()
        .remove(0)
}

fn once<T>(wire: &dyn Wire, call: impl FnOnce(&Cloud<'_>) -> Result<Vec<T>>) -> T {
    at(wire, &Memory::default(), 1000, call)
}

/// Returns what an answer is: `ok`, or the case of its error.
fn case<T>(answer: Result<T, StorageError>) -> &'static str {
    match answer {
        Ok(_) => "ok",
        Err(StorageError::Cloud(error)) => match error {
            CloudError::InProgress(_) => "in progress",
            CloudError::NotFound(_) => "not found",
            CloudError::Denied(_) => "denied",
            CloudError::Unavailable(_) => "unavailable",
            CloudError::Invalid(_) => "invalid",
            CloudError::Throttled(_) => "throttled",
            CloudError::Internal(_) => "internal",
            _ => "other",
        },
        Err(StorageError::Exists(_)) => "exists",
        Err(StorageError::Exhausted(_)) => "exhausted",
        Err(StorageError::OutOfRange(_)) => "out of range",
        Err(StorageError::InUse(_)) => "in use",
    }
}

/// Returns the actions that change something.
fn changes<F: Fn(&Call) -> Answer>(wire: &Scripted<F>) -> Vec<&'static str> {
    let sent = wire.sent.borrow();
    let actions = sent.iter().map(|call| call.action);
    actions
        .filter(|action| !action.starts_with("Describe"))
        .collect()
}

#[test]
fn a_volume_is_created_as_the_official_driver_does() {
    let there = RefCell::new(String::new());
    let wire = Scripted::new(|call: &Call| match call.action {
        "CreateVolume" => created(call),
        _ => with_volumes(call, &there.borrow()),
    });
    let memory = Memory::default();
    let wanted = NewVolume {
        parameters: pairs(&[
            ("iopsPerGB", "50"),
            ("blockSize", "4096"),
            ("kmsKeyId", "k"),
        ]),
        attributes: pairs(&[("throughput", "200")]),
        claim: Some(Claim {
            namespace: "shop".into(),
            name: "data".into(),
            annotations: Vec::new(),
        }),
        ..new("pv", 100)
    };
    let create = |wanted: &NewVolume| {
        let wanted = std::slice::from_ref(wanted);
        at(&wire, &memory, 1000, |cloud| cloud.create_volumes(wanted))
    };
    assert_eq!(case(create(&wanted)), "in progress");
    let call = wire.sent.borrow().last().cloned().unwrap();
    let token = hex::encode(Sha256::digest("pv"));
    let expected = [
        ("ClientToken", token.as_str()),
        ("Size", "100"),
        ("VolumeType", "gp3"),
        ("Encrypted", "true"),
        ("MultiAttachEnabled", "false"),
        ("AvailabilityZone", "eu-west-1a"),
        ("KmsKeyId", "k"),
        ("Iops", "5000"),
        ("Throughput", "200"),
        ("TagSpecification.1.ResourceType", "volume"),
    ];
    assert_eq!(call.params[..expected.len()], pairs(&expected));
    let tagged = |key: &str| call.params.iter().any(|(_, value)| value == key);
    for key in ["CSIVolumeName", "ebs.csi.aws.com/IOPSPerGb", "c-dynamic-pv"] {
        assert!(tagged(key), "{key}");
    }

    // The same request is sent again until EC2 shows the volume.
    wire.sent.borrow_mut().clear();
    let wanted = new("pv", 2);
    assert_eq!(case(create(&wanted)), "in progress");
    assert_eq!(case(create(&wanted)), "in progress");
    let sent = wire.sent.borrow().clone();
    let sent: Vec<&Call> = sent
        .iter()
        .filter(|it| it.action == "CreateVolume")
        .collect();
    assert_eq!(sent[0], sent[1]);

    *there.borrow_mut() = item("vol-1", "pv", "available", OURS);
    let expected = Volume {
        id: "vol-1".into(),
        size_bytes: 2 * GIB,
        topology: vec![pairs(&[(ZONE, "eu-west-1a")])],
        context: Vec::new(),
        nodes: Vec::new(),
    };
    assert_eq!(create(&wanted), Ok(expected));
}

#[test]
fn only_what_is_certain_is_final() {
    for (code, first, then) in [
        ("VolumeLimitExceeded", "exhausted", "exhausted"),
        ("MaxIOPSLimitExceeded", "exhausted", "exhausted"),
        ("InsufficientVolumeCapacity", "exhausted", "exhausted"),
        ("InvalidSnapshot.NotFound", "not found", "not found"),
        ("InvalidParameterValue", "internal", "internal"),
        ("RequestLimitExceeded", "throttled", "throttled"),
        ("UnauthorizedOperation", "denied", "denied"),
        ("IdempotentParameterMismatch", "in progress", "in progress"),
    ] {
        let wire = Scripted::new(|call: &Call| match call.action {
            "CreateVolume" => rejection(call, code),
            _ => with_volumes(call, ""),
        });
        let memory = Memory::default();
        let create = || {
            at(&wire, &memory, 1000, |cloud| {
                cloud.create_volumes(&[new("pv", 2)])
            })
        };
        assert_eq!((case(create()), case(create())), (first, then), "{code}");
    }

    // The first answer is lost: then the volume may exist.
    let lost = RefCell::new(true);
    let wire = Scripted::new(|call: &Call| match call.action {
        "CreateVolume" if lost.replace(false) => Err(Failure::Unanswered {
            action: "CreateVolume",
            error: CloudError::unavailable("reset"),
        }),
        "CreateVolume" => rejection(call, "VolumeLimitExceeded"),
        _ => with_volumes(call, ""),
    });
    let memory = Memory::default();
    let create = || {
        at(&wire, &memory, 1000, |cloud| {
            cloud.create_volumes(&[new("pv", 2)])
        })
    };
    for _ in 0..3 {
        assert_eq!(case(create()), "unavailable");
    }
    memory.wait(Duration::from_secs(121));
    assert_eq!(case(create()), "exhausted");
}

#[test]
fn a_used_token_is_replaced_when_no_volume_is_shown() {
    let wire = Scripted::new(|call: &Call| match call.action {
        "CreateVolume" => rejection(call, "IdempotentParameterMismatch"),
        _ => with_volumes(call, ""),
    });
    let memory = Memory::default();
    for (now, tokens) in [(1000, 1), (1119, 1), (1120, 2)] {
        let create = |cloud: &Cloud<'_>| cloud.create_volumes(&[new("pv", 2)]);
        assert_eq!(case(at(&wire, &memory, now, create)), "in progress");
        let sent = wire.all("CreateVolume", "ClientToken");
        assert_eq!(sent.len(), tokens, "{now}");
    }
    let expected = ["pv", "pv-2"].map(|base| hex::encode(Sha256::digest(base)));
    assert_eq!(wire.all("CreateVolume", "ClientToken"), expected);
}

#[test]
fn an_existing_volume_is_used_if_it_is_as_wanted() {
    let with_snapshot = |new: NewVolume| NewVolume {
        snapshot: Some("snap-1".into()),
        ..new
    };
    let unknown = |new: NewVolume| NewVolume {
        parameters: pairs(&[("unknown", "x")]),
        ..new
    };
    let limited = |new: NewVolume| NewVolume {
        limit_bytes: Some(2 * GIB),
        ..new
    };
    for (status, tags, wanted, expected, sent) in [
        ("available", OURS, new("pv", 2), "ok", 0),
        ("in-use", OURS, new("pv", 1), "ok", 0),
        ("available", "", new("pv", 2), "ok", 0),
        ("creating", OURS, new("pv", 2), "in progress", 0),
        ("deleting", OURS, new("pv", 2), "in progress", 0),
        ("available", OURS, new("pv", 3), "exists", 0),
        ("available", OURS, limited(new("pv", 1)), "ok", 0),
        ("available", OURS, with_snapshot(new("pv", 2)), "exists", 0),
        ("available", OURS, unknown(new("pv", 2)), "ok", 0),
        // It is deleted, so that another one can be created.
        ("error", OURS, new("pv", 2), "in progress", 1),
        // Somebody else may have created it.
        ("error", "", new("pv", 2), "unavailable", 0),
        // Another cluster may use the same name.
        ("available", THEIRS, new("pv", 2), "in progress", 1),
    ] {
        let there = item("vol-1", "pv", status, tags);
        let wire = Scripted::new(|call: &Call| match call.action {
            "CreateVolume" => created(call),
            _ => with_volumes(call, &there),
        });
        let answer = once(&wire, |cloud| cloud.create_volumes(&[wanted]));
        assert_eq!(case(answer), expected, "{status} {tags}");
        assert_eq!(changes(&wire).len(), sent, "{status} {tags}");
    }
}

#[test]
fn a_broken_volume_that_cannot_be_deleted_is_not_forgotten() {
    for (code, expected) in [
        ("VolumeInUse", "unavailable"),
        ("InvalidVolume.NotFound", "in progress"),
    ] {
        let there = item("vol-1", "pv", "error", OURS);
        let wire = Scripted::new(|call: &Call| match call.action {
            "DeleteVolume" => rejection(call, code),
            _ => with_volumes(call, &there),
        });
        let answer = once(&wire, |cloud| cloud.create_volumes(&[new("pv", 2)]));
        assert_eq!(case(answer), expected, "{code}");
    }
}

#[test]
fn a_failed_volume_is_exhausted_when_it_is_gone() {
    let there = RefCell::new(String::new());
    let cut = RefCell::new(String::new());
    let wire = Scripted::new(|call: &Call| match call.action {
        "CreateVolume" => created(call),
        "DescribeSnapshots" => list("snapshotSet", &cut.borrow()),
        _ => with_volumes(call, &there.borrow()),
    });
    let memory = Memory::default();
    let create = || {
        at(&wire, &memory, 1000, |cloud| {
            cloud.create_volumes(&[new("pv", 2)])
        })
    };
    assert_eq!(case(create()), "in progress");
    there.replace(item("vol-1", "pv", "error", OURS));
    assert_eq!(case(create()), "in progress");
    there.replace(item("vol-1", "pv", "deleting", OURS));
    assert_eq!(case(create()), "in progress");
    there.replace(String::new());
    assert_eq!(case(create()), "exhausted");
    assert_eq!(case(create()), "in progress");
    let expected = ["CreateVolume", "DeleteVolume", "CreateVolume"];
    assert_eq!(changes(&wire), expected);

    there.replace(item("vol-1", "pv", "in-use", OURS));
    let snapshot_of = || {
        let wanted = NewSnapshot {
            name: "s".into(),
            volume: "vol-1".into(),
            ..NewSnapshot::default()
        };
        at(&wire, &memory, 1000, |cloud| {
            cloud.create_snapshots(&[wanted])
        })
    };
    cut.replace(snapshot("snap-1", "vol-1", "error", OURS));
    assert_eq!(case(snapshot_of()), "in progress");
    cut.replace(String::new());
    assert_eq!(case(snapshot_of()), "exhausted");
}

#[test]
fn an_attachment_that_is_not_shown_may_still_be_there() {
    let instance = "<item><instancesSet><item><instanceId>i-1</instanceId>\
                    <instanceState><name>running</name></instanceState></item></instancesSet></item>";
    let volume = RefCell::new(item("vol-1", "pv", "available", OURS));
    let answer = RefCell::new("");
    let wire = Scripted::new(|call: &Call| match (call.action, *answer.borrow()) {
        ("AttachVolume", "") => Err(Failure::Unanswered {
            action: "AttachVolume",
            error: CloudError::unavailable("reset"),
        }),
        ("AttachVolume", code) => rejection(call, code),
        ("DescribeInstances", _) => list("reservationSet", instance),
        _ => with_volumes(call, &volume.borrow()),
    });
    let memory = Memory::default();
    let attach = || {
        let wanted = NewAttachment {
            volume: "vol-1".into(),
            node: "i-1".into(),
            ..NewAttachment::default()
        };
        at(&wire, &memory, 1000, |cloud| {
            cloud.attach_volumes(&[wanted])
        })
    };
    let detach = || {
        let old = Attachment {
            volume: "vol-1".into(),
            node: Some("i-1".into()),
        };
        at(&wire, &memory, 1000, |cloud| cloud.detach_volumes(&[old]))
    };
    assert_eq!(case(detach()), "ok");
    assert_eq!(case(attach()), "unavailable");
    assert_eq!(case(detach()), "in progress");
    answer.replace("AttachmentLimitExceeded");
    assert_eq!(case(attach()), "exhausted");
    assert_eq!(case(detach()), "ok");

    // What was attached is gone with its instance.
    answer.replace("");
    assert_eq!(case(attach()), "unavailable");
    volume.replace(on_instance("vol-1", "i-1"));
    assert_eq!(case(attach()), "ok");
    volume.replace(item("vol-1", "pv", "available", OURS));
    assert_eq!(case(detach()), "ok");

    // What is shown is detached, and nothing is in doubt.
    answer.replace("");
    assert_eq!(case(attach()), "unavailable");
    volume.replace(on_instance("vol-1", "i-1"));
    assert_eq!(case(detach()), "in progress");
    volume.replace(item("vol-1", "pv", "available", OURS));
    assert_eq!(case(detach()), "ok");
}

#[test]
fn a_zone_is_the_best_one_or_that_of_some_node() {
    let wanted = |preferred: &[&[(&str, &str)]], requisite: &[&[(&str, &str)]]| NewVolume {
        preferred: preferred.iter().map(|it| pairs(it)).collect(),
        requisite: requisite.iter().map(|it| pairs(it)).collect(),
        ..new("a", 1)
    };
    let all: &[(&str, &str)] = &[(DRIVER_ZONE, "old"), (ZONE, "new"), (ZONE_ID, "id")];
    let old: &[(&str, &str)] = &[(DRIVER_ZONE, "old")];
    let id: &[(&str, &str)] = &[(ZONE_ID, "id")];
    let outpost: &[(&str, &str)] = &[(ZONE, "new"), (OUTPOST, "op-1")];
    for (preferred, requisite, expected) in [
        (vec![all], vec![], Ok(Place::Zone("new"))),
        (vec![old], vec![all], Ok(Place::Zone("old"))),
        (vec![], vec![all], Ok(Place::Zone("new"))),
        (vec![id], vec![], Ok(Place::ZoneId("id"))),
        (vec![], vec![], Ok(Place::Any)),
        (vec![outpost], vec![], Err(())),
    ] {
        let wanted = wanted(&preferred, &requisite);
        assert_eq!(place(&wanted).map_err(drop), expected);
    }

    let zones = ["a", "b"].map(str::to_owned);
    assert_eq!(any_zone(&zones, "b"), Ok("a"));
    assert_eq!(any_zone(&zones, "c"), Ok("b"));
    assert!(any_zone(&[], "c").is_err());
}

#[test]
fn a_size_is_a_multiple_of_one_gib() {
    for (bytes, limit, expected) in [
        (0, None, Ok(100)),
        (0, Some(5 * GIB), Ok(5)),
        (1, None, Ok(1)),
        (GIB, Some(GIB), Ok(1)),
        (GIB + 1, None, Ok(2)),
        (GIB + 1, Some(2 * GIB - 1), Err("out of range")),
        (0, Some(1), Err("out of range")),
    ] {
        let size = gib(bytes, limit).map_err(|error| case::<()>(Err(error)));
        assert_eq!(size, expected, "{bytes} {limit:?}");
    }
}

#[test]
fn a_shared_volume_is_a_block_device_of_type_io2() {
    let capability = |file_system: Option<&str>| VolumeCapability {
        mode: AccessMode::MultiNodeMultiWriter,
        file_system: file_system.map(str::to_owned),
    };
    for (parameters, file_system, expected) in [
        (&[("type", "io2")][..], None, "in progress"),
        (&[("type", "io2")], Some("ext4"), "invalid"),
        (&[], None, "invalid"),
    ] {
        let wanted = NewVolume {
            parameters: pairs(parameters),
            capabilities: vec![capability(file_system)],
            ..new("pv", 2)
        };
        let wire = Scripted::new(|call: &Call| match call.action {
            "CreateVolume" => created(call),
            _ => with_volumes(call, ""),
        });
        let answer = once(&wire, |cloud| cloud.create_volumes(&[wanted]));
        assert_eq!(case(answer), expected, "{parameters:?} {file_system:?}");
        let shared = wire.all("CreateVolume", "MultiAttachEnabled");
        assert_eq!(shared.len(), usize::from(expected == "in progress"));
    }
}

#[test]
fn a_volume_is_deleted_unless_it_is_used() {
    let shared = OURS.replace("owned", "shared");
    for (there, code, expected, sent) in [
        (item("vol-1", "pv", "available", OURS), "", "in progress", 1),
        (item("vol-1", "pv", "available", ""), "", "in progress", 1),
        (item("vol-1", "pv", "error", OURS), "", "in progress", 1),
        (item("vol-1", "pv", "deleting", OURS), "", "in progress", 0),
        (item("vol-1", "pv", "deleted", OURS), "", "ok", 0),
        (on_instance("vol-1", "i-1"), "", "in use", 0),
        (item("vol-1", "pv", "available", THEIRS), "", "denied", 0),
        (item("vol-1", "pv", "available", &shared), "", "denied", 0),
        // Between the two requests.
        (
            item("vol-1", "pv", "available", OURS),
            "VolumeInUse",
            "in use",
            1,
        ),
        (
            item("vol-1", "pv", "available", OURS),
            "InvalidVolume.NotFound",
            "ok",
            1,
        ),
    ] {
        let wire = Scripted::new(|call: &Call| match call.action {
            "DeleteVolume" if !code.is_empty() => rejection(call, code),
            _ => with_volumes(call, &there),
        });
        let answer = once(&wire, |cloud| cloud.delete_volumes(&["vol-1".to_owned()]));
        assert_eq!(case(answer), expected, "{there} {code}");
        assert_eq!(changes(&wire).len(), sent, "{there} {code}");
    }
}

#[test]
fn what_belongs_to_another_cluster_is_not_touched() {
    let foreign = item("vol-1", "pv", "available", THEIRS);
    let copy = snapshot("snap-1", "vol-1", "completed", THEIRS);
    let wire = Scripted::new(|call: &Call| match call.action {
        "DescribeSnapshots" => list("snapshotSet", &copy),
        _ => with_volumes(call, &foreign),
    });
    let (volume, id) = (|| "vol-1".to_owned(), || "snap-1".to_owned());
    let denied = [
        case(once(&wire, |cloud| cloud.volumes(&[volume()]))),
        case(once(&wire, |cloud| cloud.delete_volumes(&[volume()]))),
        case(once(&wire, |cloud| {
            cloud.attach_volumes(&[NewAttachment {
                volume: volume(),
                node: "i-1".into(),
                ..NewAttachment::default()
            }])
        })),
        case(once(&wire, |cloud| {
            cloud.detach_volumes(&[Attachment {
                volume: volume(),
                node: None,
            }])
        })),
        case(once(&wire, |cloud| {
            cloud.expand_volumes(&[Expansion {
                volume: volume(),
                size_bytes: 9 * GIB,
                limit_bytes: None,
            }])
        })),
        case(once(&wire, |cloud| {
            cloud.modify_volumes(&[Modification {
                volume: volume(),
                attributes: pairs(&[("iops", "4000")]),
            }])
        })),
        case(once(&wire, |cloud| {
            cloud.create_volumes(&[NewVolume {
                snapshot: Some(id()),
                ..new("other", 2)
            }])
        })),
        case(once(&wire, |cloud| {
            cloud.create_snapshots(&[NewSnapshot {
                name: "other".into(),
                volume: volume(),
                ..NewSnapshot::default()
            }])
        })),
        case(once(&wire, |cloud| cloud.snapshots(&[id()]))),
        case(once(&wire, |cloud| cloud.delete_snapshots(&[id()]))),
    ];
    assert_eq!(denied, ["denied"; 10]);
    assert_eq!(changes(&wire), [""; 0]);
}

#[test]
fn lists_ask_for_what_this_cluster_has_created() {
    let wire = Scripted::new(|call: &Call| {
        let items = [("vol-1", "available"), ("vol-2", "deleting")];
        let items = items
            .map(|(id, status)| item(id, "pv", status, OURS))
            .concat();
        Ok(format!(
            "<R><volumeSet>{items}</volumeSet><nextToken>{}</nextToken></R>",
            call.action
        ))
    });
    let page = once(&wire, |cloud| Ok(vec![cloud.list_volumes(Some("t"))?]));
    let ids: Vec<&str> = page.volumes.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(
        (ids, page.next.as_deref()),
        (vec!["vol-1"], Some("DescribeVolumes"))
    );
    let call = wire.sent.borrow().last().cloned().unwrap();
    let expected = [
        ("MaxResults", "1000"),
        ("Filter.1.Name", "tag:kubernetes.io/cluster/c"),
        ("Filter.1.Value.1", "owned"),
        ("Filter.2.Name", "tag-key"),
        ("Filter.2.Value.1", "CSIVolumeName"),
        ("NextToken", "t"),
    ];
    assert_eq!(call.params, pairs(&expected));
}

#[test]
fn many_volumes_are_read_with_few_requests() {
    let ids: Vec<String> = (0..600).map(|number| format!("vol-{number}")).collect();
    let asked = |call: &Call| -> Vec<String> {
        let values = call
            .params
            .iter()
            .filter(|(_, value)| value.starts_with("vol-"));
        values.map(|(_, value)| value.clone()).collect()
    };
    for (missing, requests) in [(None, 2), (Some("vol-1"), 5)] {
        let wire = Scripted::new(|call: &Call| {
            let is_filter = call.params.iter().any(|(key, _)| key.starts_with("Filter"));
            let unknown = |id: &String| missing == Some(id.as_str());
            let asked = asked(call);
            if !is_filter && asked.iter().any(unknown) {
                return rejection(call, "InvalidVolume.NotFound");
            }
            let there = asked.iter().filter(|id| !unknown(id));
            let items: String = there.map(|id| item(id, "pv", "available", OURS)).collect();
            list("volumeSet", &items)
        });
        let found = once(&wire, |cloud| Ok(vec![cloud.volumes(&ids)?]));
        let gone = found
            .into_iter()
            .filter(|it| case(it.clone()) == "not found");
        assert_eq!(gone.count(), usize::from(missing.is_some()));
        // By ID, 500 and 100; by filter, 200, 200 and 100; and the missing one alone.
        let requests = requests + usize::from(missing.is_some());
        assert_eq!(wire.sent.borrow().len(), requests);
    }

    let wire = Scripted::new(|call: &Call| nothing(call));
    let answer = once(&wire, |cloud| cloud.volumes(&["../x".to_owned()]));
    assert_eq!(case(answer), "not found");
    assert_eq!(wire.sent.borrow().len(), 0);
}

#[test]
fn changes_stop_when_aws_asks_for_fewer() {
    for (throttled, sent, first, last) in [
        (false, 100, "in progress", "in progress"),
        (true, 20, "throttled", "in progress"),
    ] {
        let wire = Scripted::new(|call: &Call| match call.action {
            "CreateVolume" if throttled => rejection(call, "RequestLimitExceeded"),
            "CreateVolume" => created(call),
            _ => with_volumes(call, ""),
        });
        let wanted: Vec<NewVolume> = (0..150).map(|it| new(&format!("pv-{it}"), 2)).collect();
        let answers = once(&wire, |cloud| Ok(vec![cloud.create_volumes(&wanted)?]));
        assert_eq!(changes(&wire).len(), sent);
        let cases: Vec<&str> = answers.into_iter().map(case).collect();
        assert_eq!((cases[0], cases[99], cases[149]), (first, first, last));
    }
}

#[test]
fn volumes_are_attached_with_different_devices() {
    let instance = "<R><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId>\
                    <instanceState><name>running</name></instanceState><blockDeviceMapping><item>\
                    <deviceName>/dev/xvdaa</deviceName><ebs><volumeId>vol-9</volumeId></ebs></item>\
                    </blockDeviceMapping></item></instancesSet></item></reservationSet></R>";
    let ids = ["vol-1", "vol-2", "vol-9"];
    let there = ids.map(|id| item(id, "pv", "available", OURS)).concat();
    let code = RefCell::new("");
    let wire = Scripted::new(|call: &Call| match call.action {
        "DescribeInstances" => Ok(instance.to_owned()),
        "AttachVolume" if !code.borrow().is_empty() => rejection(call, *code.borrow()),
        _ => with_volumes(call, &there),
    });
    let memory = Memory::default();
    let wanted = ids.map(|id| NewAttachment {
        volume: id.into(),
        node: "i-1".into(),
        ..NewAttachment::default()
    });
    let attach = || {
        at(&wire, &memory, 1000, |cloud| {
            let answers = cloud.attach_volumes(&wanted)?;
            Ok(vec![answers.into_iter().map(case).collect::<Vec<_>>()])
        })
    };
    assert_eq!(attach(), ["in progress"; 3]);
    assert_eq!(
        wire.all("AttachVolume", "Device"),
        ["/dev/xvdab", "/dev/xvdac"],
        "the third is there, although the volume does not say so"
    );

    for (rejected, expected) in [
        ("AttachmentLimitExceeded", "exhausted"),
        ("VolumeInUse", "in progress"),
        ("InvalidVolume.NotFound", "not found"),
        ("InvalidParameterValue", "internal"),
    ] {
        *code.borrow_mut() = rejected;
        assert_eq!(attach(), [expected, expected, "in progress"]);
    }
    // Something unknown has these two.
    wire.sent.borrow_mut().clear();
    *code.borrow_mut() = "";
    assert_eq!(attach(), ["in progress"; 3]);
    assert_eq!(
        wire.all("AttachVolume", "Device"),
        ["/dev/xvdad", "/dev/xvdae"]
    );
}

#[test]
fn a_volume_is_not_attached_to_what_is_no_instance() {
    for (node, state, expected) in [
        ("i-1", "terminated", "not found"),
        ("i-1", "running", "in progress"),
        ("i-2", "running", "not found"),
        ("node-1", "running", "not found"),
    ] {
        let instance = format!(
            "<R><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId>\
             <instanceState><name>{state}</name></instanceState></item></instancesSet></item>\
             </reservationSet></R>"
        );
        let there = item("vol-1", "pv", "available", OURS);
        let wire = Scripted::new(|call: &Call| match call.action {
            "DescribeInstances" if call.params[0].1 == "i-1" => Ok(instance.clone()),
            "DescribeInstances" => rejection(call, "InvalidInstanceID.NotFound"),
            _ => with_volumes(call, &there),
        });
        let wanted = NewAttachment {
            volume: "vol-1".into(),
            node: node.into(),
            ..NewAttachment::default()
        };
        let answer = once(&wire, |cloud| cloud.attach_volumes(&[wanted]));
        assert_eq!(case(answer), expected, "{node} {state}");
    }
}

#[test]
fn a_volume_is_detached_when_it_says_so() {
    for (there, node, code, expected, sent) in [
        (
            on_instance("vol-1", "i-1"),
            Some("i-1"),
            "",
            "in progress",
            1,
        ),
        (on_instance("vol-1", "i-1"), None, "", "in progress", 1),
        (on_instance("vol-1", "i-2"), Some("i-1"), "", "ok", 0),
        (item("vol-1", "pv", "available", OURS), None, "", "ok", 0),
        (String::new(), None, "", "ok", 0),
        (
            on_instance("vol-1", "i-1"),
            None,
            "InvalidAttachment.NotFound",
            "in progress",
            1,
        ),
        (
            on_instance("vol-1", "i-1"),
            None,
            "UnauthorizedOperation",
            "denied",
            1,
        ),
    ] {
        let wire = Scripted::new(|call: &Call| match call.action {
            "DescribeVolumes" if there.is_empty() => rejection(call, "InvalidVolume.NotFound"),
            "DetachVolume" if !code.is_empty() => rejection(call, code),
            _ => with_volumes(call, &there),
        });
        let old = Attachment {
            volume: "vol-1".into(),
            node: node.map(str::to_owned),
        };
        let answer = once(&wire, |cloud| cloud.detach_volumes(&[old]));
        assert_eq!(case(answer), expected, "{there} {node:?} {code}");
        assert_eq!(changes(&wire).len(), sent, "{there} {node:?} {code}");
    }
}

#[test]
fn a_rejected_value_changes_nothing() {
    for (code, expanded, modified) in [
        ("InvalidParameterValue", "out of range", "invalid"),
        (
            "VolumeModificationSizeLimitExceeded",
            "exhausted",
            "exhausted",
        ),
        ("IncorrectModificationState", "internal", "internal"),
        ("RequestLimitExceeded", "throttled", "throttled"),
    ] {
        let there = item("vol-1", "pv", "available", OURS);
        let wire = Scripted::new(|call: &Call| match call.action {
            "ModifyVolume" => rejection(call, code),
            _ => with_volumes(call, &there),
        });
        let expansion = Expansion {
            volume: "vol-1".into(),
            size_bytes: 9 * GIB,
            limit_bytes: None,
        };
        let answer = once(&wire, |cloud| cloud.expand_volumes(&[expansion]));
        assert_eq!(case(answer), expanded, "{code}");
        let modification = Modification {
            volume: "vol-1".into(),
            attributes: pairs(&[("iops", "4000"), ("tagSpecification_1", "a=b")]),
        };
        let answer = once(&wire, |cloud| cloud.modify_volumes(&[modification]));
        assert_eq!(case(answer), modified, "{code}");
        assert_eq!(changes(&wire), ["ModifyVolume"; 2]);
    }
}

#[test]
fn a_volume_that_is_large_enough_keeps_its_size() {
    for (bytes, limit, expected) in [
        (GIB, None, Ok(2 * GIB)),
        (2 * GIB, Some(2 * GIB), Ok(2 * GIB)),
        (GIB, Some(GIB), Err("out of range")),
    ] {
        let there = item("vol-1", "pv", "in-use", OURS);
        let wire = Scripted::new(|call: &Call| with_volumes(call, &there));
        let expansion = Expansion {
            volume: "vol-1".into(),
            size_bytes: bytes,
            limit_bytes: limit,
        };
        let answer = once(&wire, |cloud| cloud.expand_volumes(&[expansion]));
        let answer = answer.map_err(|error| case::<()>(Err(error)));
        assert_eq!(answer, expected, "{bytes} {limit:?}");
        assert_eq!(changes(&wire), [""; 0]);
    }
}

#[test]
fn a_snapshot_is_created_once() {
    let wanted = || NewSnapshot {
        name: "s".into(),
        volume: "vol-1".into(),
        ..NewSnapshot::default()
    };
    let volume = item("vol-1", "pv", "in-use", OURS);
    let lost = RefCell::new(true);
    let wire = Scripted::new(|call: &Call| match call.action {
        "CreateSnapshot" if lost.replace(false) => Err(Failure::Unanswered {
            action: "CreateSnapshot",
            error: CloudError::unavailable("reset"),
        }),
        "CreateSnapshot" => {
            let item = snapshot("snap-1", "vol-1", "pending", OURS);
            Ok(item
                .replace("<item><snap", "<R><snap")
                .replace("</tagSet></item>", "</tagSet></R>"))
        }
        _ => with_volumes(call, &volume),
    });
    let memory = Memory::default();
    let create = || {
        at(&wire, &memory, 1000, |cloud| {
            cloud.create_snapshots(&[wanted()])
        })
    };
    // It may have been created although the answer was lost.
    assert_eq!(case(create()), "unavailable");
    assert_eq!(case(create()), "in progress");
    assert_eq!(changes(&wire), ["CreateSnapshot"]);
    memory.wait(Duration::from_secs(121));
    let created = create().unwrap();
    assert_eq!((created.id.as_str(), created.ready), ("snap-1", false));
    assert_eq!(created.creation_timestamp, 1_795_903_200);
    assert_eq!(created.size_bytes, 2 * GIB);
}

#[test]
fn an_existing_snapshot_is_used_if_it_is_one_of_the_volume() {
    for (there, expected) in [
        (snapshot("snap-1", "vol-1", "completed", OURS), "ok"),
        (snapshot("snap-1", "vol-1", "pending", OURS), "ok"),
        (snapshot("snap-1", "vol-2", "completed", OURS), "exists"),
        (snapshot("snap-1", "vol-1", "error", OURS), "in progress"),
        (snapshot("snap-1", "vol-1", "error", ""), "unavailable"),
    ] {
        let volume = item("vol-1", "pv", "in-use", OURS);
        let wire = Scripted::new(|call: &Call| match call.action {
            "DescribeSnapshots" => list("snapshotSet", &there),
            _ => with_volumes(call, &volume),
        });
        let wanted = NewSnapshot {
            name: "s".into(),
            volume: "vol-1".into(),
            ..NewSnapshot::default()
        };
        let answer = once(&wire, |cloud| cloud.create_snapshots(&[wanted]));
        assert_eq!(case(answer), expected, "{there}");
    }
}

#[test]
fn what_a_snapshot_cannot_have_is_rejected() {
    for (parameters, code, expected) in [
        (&[("tagSpecification_1", "a=b")][..], "", "internal"),
        (
            &[("fastSnapshotRestoreAvailabilityZones", "a")],
            "",
            "invalid",
        ),
        (&[("lockMode", "governance")], "", "invalid"),
        (&[], "SnapshotLimitExceeded", "exhausted"),
        (&[], "ConcurrentSnapshotLimitExceeded", "in progress"),
        (&[], "SnapshotCreationPerVolumeRateExceeded", "internal"),
    ] {
        let volume = item("vol-1", "pv", "in-use", OURS);
        let wire = Scripted::new(|call: &Call| match call.action {
            "CreateSnapshot" if !code.is_empty() => rejection(call, code),
            "CreateSnapshot" => Ok("<R><volumeId>vol-1</volumeId></R>".to_owned()),
            _ => with_volumes(call, &volume),
        });
        let wanted = NewSnapshot {
            name: "s".into(),
            volume: "vol-1".into(),
            parameters: pairs(parameters),
            owner: None,
        };
        let answer = once(&wire, |cloud| cloud.create_snapshots(&[wanted]));
        assert_eq!(case(answer), expected, "{parameters:?} {code}");
    }
}
