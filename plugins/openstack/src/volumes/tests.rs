use skydock_sdk::{
    attachments::{Attachment, NewAttachment},
    snapshots::NewSnapshot,
    storage::Owner,
    types::Retry,
};

use super::*;
use crate::testing::Script;

const BASE: &str = "http://block-storage/v3";

fn new(name: &str, gib: u64) -> NewVolume {
    NewVolume {
        name: name.to_owned(),
        size_bytes: gib * GIB,
        ..NewVolume::default()
    }
}

/// Returns a volume of cluster `c`, as Cinder has it.
fn existing(id: &str, name: &str, status: &str) -> Value {
    json!({
        "id": id, "name": name, "status": status, "size": 2, "availability_zone": "nova",
        "metadata": {CLUSTER: "c"}, "attachments": [], "snapshot_id": null, "source_volid": null,
        "description": DESCRIPTION, "created_at": "2026-11-28T22:00:00.000000",
    })
}

fn on_server(mut volume: Value, server: &str) -> Value {
    volume["attachments"] = json!([{"server_id": server, "device": "/dev/vdb"}]);
    volume
}

fn listed(volumes: &[Value]) -> Value {
    json!({"volumes": volumes})
}

/// Returns what an error is: its case.
fn case<T: std::fmt::Debug>(answer: Result<T, StorageError>) -> &'static str {
    match answer.unwrap_err() {
        StorageError::Cloud(CloudError::InProgress(Retry { .. })) => "in progress",
        StorageError::Cloud(CloudError::NotFound(_)) => "not found",
        StorageError::Cloud(CloudError::Denied(_)) => "denied",
        StorageError::Cloud(CloudError::Unavailable(_)) => "unavailable",
        StorageError::Cloud(CloudError::Invalid(_)) => "invalid",
        StorageError::Cloud(_) => "other",
        StorageError::Exists(_) => "exists",
        StorageError::Exhausted(_) => "exhausted",
        StorageError::OutOfRange(_) => "out of range",
        StorageError::InUse(_) => "in use",
    }
}

#[test]
fn a_volume_is_created_as_the_official_driver_does() {
    let script = Script::new("");
    script.on(&format!("GET {BASE}/volumes/detail"), 200, listed(&[]));
    let created = json!({"volume": existing("v", "pvc-1", "creating")});
    script.on(&format!("POST {BASE}/volumes "), 202, created);
    let wanted = NewVolume {
        parameters: vec![("type".into(), "fast".into()), ("other".into(), "x".into())],
        preferred: vec![vec![(ZONE.to_owned(), "az-2".to_owned())]],
        claim: Some(Owner {
            namespace: "shop".into(),
            name: "data".into(),
            annotations: Vec::new(),
        }),
        ..new("pvc-1", 2)
    };
    let answer = create(&script.cloud(), &[wanted]).unwrap().remove(0);
    assert_eq!(case(answer), "in progress");
    let expected = json!({"volume": {
        "name": "pvc-1", "size": 2, "description": DESCRIPTION, "volume_type": "fast",
        "availability_zone": "az-2",
        "metadata": {
            CLUSTER: "c", "csi.storage.k8s.io/pvc/name": "data",
            "csi.storage.k8s.io/pvc/namespace": "shop", "csi.storage.k8s.io/pv/name": "pvc-1",
        },
    }});
    assert_eq!(script.sent("POST"), [expected]);

    // Then it is found by its name.
    let there = listed(&[existing("v", "pvc-1", "available")]);
    script.on(&format!("GET {BASE}/volumes/detail?name=pvc-1"), 200, there);
    let answer = create(&script.cloud(), &[new("pvc-1", 2)])
        .unwrap()
        .remove(0);
    let expected = Volume {
        id: "v".into(),
        size_bytes: 2 * GIB,
        topology: vec![vec![(ZONE.to_owned(), "nova".to_owned())]],
        context: Vec::new(),
        nodes: Vec::new(),
    };
    assert_eq!(answer.unwrap(), expected);
}

#[test]
fn many_volumes_are_found_in_one_list() {
    let script = Script::new("");
    let names: Vec<_> = (0..50).map(|number| format!("pvc-{number}")).collect();
    let all: Vec<_> = names
        .iter()
        .map(|it| existing(it, it, "available"))
        .collect();
    script.on(
        &format!("GET {BASE}/volumes/detail?metadata="),
        200,
        listed(&all),
    );
    let wanted: Vec<_> = names.iter().map(|it| new(it, 1)).collect();
    let created = create(&script.cloud(), &wanted).unwrap();
    assert!(created.iter().all(Result::is_ok));
    let found = get(&script.cloud(), &names).unwrap();
    assert!(found.iter().all(Result::is_ok));
    assert_eq!(script.requested().len(), 2);
}

#[test]
fn an_existing_volume_decides_about_a_create() {
    let copy = |mut volume: Value| {
        volume["snapshot_id"] = json!("s");
        volume
    };
    for (volume, gib, expected) in [
        (existing("v", "a", "available"), 3, "exists"),
        (copy(existing("v", "a", "available")), 2, "exists"),
        (existing("v", "a", "creating"), 2, "in progress"),
        (existing("v", "a", "downloading"), 2, "in progress"),
        (existing("v", "a", "deleting"), 2, "in progress"),
        (existing("v", "a", "error_deleting"), 2, "unavailable"),
        // It is deleted first.
        (existing("v", "a", "error"), 2, "in progress"),
    ] {
        let script = Script::new("");
        let there = listed(std::slice::from_ref(&volume));
        script.on(&format!("GET {BASE}/volumes/detail"), 200, there);
        script.on(&format!("DELETE {BASE}/volumes/v "), 202, Value::Null);
        let answer = create(&script.cloud(), &[new("a", gib)]).unwrap().remove(0);
        assert_eq!(case(answer), expected, "{volume}");
        let deletes = script
            .requested()
            .iter()
            .filter(|it| it.starts_with("DELETE"))
            .count();
        assert_eq!(
            deletes == 1,
            expected == "in progress" && volume["status"] == "error"
        );
    }
}

#[test]
fn the_zone_of_a_volume_is_that_of_nodes() {
    for (zone, settings, expected) in [
        (json!("nova"), "", Some("nova")),
        (json!("Zone A (old)"), "", Some("Zone-A-old")),
        (json!("()"), "", None),
        (json!(""), "", None),
        (Value::Null, "", None),
        (json!("nova"), "[BlockStorage]\nignore-volume-az=true", None),
    ] {
        let script = Script::new(settings);
        let mut volume = existing("v", "a", "available");
        volume["availability_zone"] = zone.clone();
        script.on(
            &format!("GET {BASE}/volumes/detail"),
            200,
            listed(&[volume]),
        );
        let found = list(&script.cloud()).unwrap().volumes.remove(0);
        let expected: Vec<_> = expected
            .map(|zone| vec![(ZONE.to_owned(), zone.to_owned())])
            .into_iter()
            .collect();
        assert_eq!(found.topology, expected, "{zone} {settings}");
    }
}

fn created_at(mut volume: Value, minute: u8) -> Value {
    volume["created_at"] = json!(format!("2026-11-28T22:{minute:02}:00.000000"));
    volume
}

fn with_metadata(mut volume: Value, metadata: Value) -> Value {
    volume["metadata"] = metadata;
    volume
}

#[test]
fn a_failed_volume_is_exhausted_when_it_is_gone() {
    let messages = json!({"messages": [
        {"resource_uuid": "other", "user_message": "schedule allocate volume:Other."},
        {"resource_uuid": "v", "user_message": "schedule allocate volume:No backend."},
    ]});
    let gone = json!({"itemNotFound": {"message": "Volume v could not be found."}});
    for (status, deleted, expected) in [
        (
            202,
            Value::Null,
            &["in progress", "exhausted", "in progress"],
        ),
        (404, gone, &["exhausted", "in progress", "in progress"]),
    ] {
        let script = Script::new("");
        let list = format!("GET {BASE}/volumes/detail");
        script.on(&list, 200, listed(&[existing("v", "a", "error")]));
        script.on(
            &format!("GET {BASE}/messages?resource_uuid=v"),
            200,
            messages.clone(),
        );
        script.on(&format!("DELETE {BASE}/volumes/v "), status, deleted);
        let created = json!({"volume": existing("w", "a", "creating")});
        script.on(&format!("POST {BASE}/volumes "), 202, created);
        for expected in expected {
            let answer = create(&script.cloud(), &[new("a", 2)]).unwrap().remove(0);
            if let Err(StorageError::Exhausted(text)) = &answer {
                assert!(text.contains("volume v") && text.contains("No backend."));
            }
            assert_eq!(case(answer), *expected);
            script.on(&list, 200, listed(&[]));
        }
        assert!(!script.sent("POST").is_empty());
    }
}

#[test]
fn a_creation_without_answer_is_not_repeated() {
    let script = Script::new("");
    let list = format!("GET {BASE}/volumes/detail");
    let post = format!("POST {BASE}/volumes ");
    script.on(&list, 200, listed(&[]));
    let wanted = || create(&script.cloud(), &[new("a", 2)]).unwrap().remove(0);
    script.on(&post, 504, Value::Null);
    assert_eq!(case(wanted()), "unavailable");

    let quota = json!({"overLimit": {"message": "VolumeLimitExceeded: quota"}});
    script.on(&post, 413, quota);
    assert_eq!(case(wanted()), "in progress");
    assert_eq!(script.sent("POST").len(), 1);
    script.on(&list, 200, listed(&[existing("v", "a", "available")]));
    assert_eq!(wanted().unwrap().id, "v");

    // An answer ends the doubt.
    let other = || create(&script.cloud(), &[new("b", 2)]).unwrap().remove(0);
    assert_eq!(case(other()), "exhausted");
    assert_eq!(case(other()), "exhausted");
}

#[test]
fn of_several_volumes_with_a_name_the_oldest_stays() {
    let at = |id: &str, status: &str, minute: u8| created_at(existing(id, "a", status), minute);
    let foreign = |volume: Value| with_metadata(volume, json!({}));
    let described = |mut volume: Value| {
        volume["description"] = json!("of a user");
        volume
    };
    for (volumes, expected, deleted) in [
        (
            [at("new", "available", 2), at("old", "available", 1)],
            "in progress",
            Some("new"),
        ),
        (
            [at("old", "creating", 1), at("new", "error", 2)],
            "in progress",
            Some("new"),
        ),
        // What can be used stays until the first one can be.
        (
            [at("old", "creating", 1), at("new", "available", 2)],
            "in progress",
            None,
        ),
        (
            [at("old", "maintenance", 1), at("new", "available", 2)],
            "in progress",
            None,
        ),
        // Broken ones are deleted before they are used.
        (
            [at("old", "error", 1), at("new", "available", 2)],
            "in progress",
            Some("old"),
        ),
        (
            [at("old", "available", 1), at("new", "creating", 2)],
            "in progress",
            None,
        ),
        (
            [at("old", "available", 1), at("new", "deleting", 2)],
            "old",
            None,
        ),
        // What is attached has content.
        (
            [
                at("old", "available", 1),
                on_server(at("new", "in-use", 2), "n"),
            ],
            "in progress",
            Some("old"),
        ),
        (
            [
                on_server(at("old", "in-use", 1), "n"),
                on_server(at("new", "in-use", 2), "n"),
            ],
            "old",
            None,
        ),
        // Others may have created it.
        (
            [
                foreign(at("old", "available", 1)),
                at("new", "available", 2),
            ],
            "new",
            None,
        ),
        (
            [at("old", "available", 1), described(at("new", "error", 2))],
            "old",
            None,
        ),
    ] {
        let script = Script::new("");
        script.on(&format!("GET {BASE}/volumes/detail"), 200, listed(&volumes));
        script.on(&format!("DELETE {BASE}/volumes/"), 202, Value::Null);
        let answer = create(&script.cloud(), &[new("a", 2)]).unwrap().remove(0);
        match answer {
            Ok(volume) => assert_eq!(volume.id, expected),
            answer => assert_eq!(case(answer), expected, "{volumes:?}"),
        }
        let mut deletes = script.requested();
        deletes.retain(|it| it.starts_with("DELETE"));
        let wanted: Vec<_> = deleted
            .map(|id| format!("DELETE {BASE}/volumes/{id}"))
            .into_iter()
            .collect();
        assert_eq!(deletes, wanted, "{volumes:?}");
    }
}

#[test]
fn only_what_has_the_name_is_used_or_deleted() {
    let script = Script::new("");
    let others = [
        existing("1", "db-of-shop", "error"),
        existing("2", "A", "error"),
        existing("3", "a ", "available"),
    ];
    script.on(&format!("GET {BASE}/volumes/detail"), 200, listed(&others));
    let created = json!({"volume": existing("v", "a", "creating")});
    script.on(&format!("POST {BASE}/volumes "), 202, created);
    let answer = create(&script.cloud(), &[new("a", 2)]).unwrap().remove(0);
    assert_eq!(case(answer), "in progress");
    assert_eq!(script.sent("POST").len(), 1);
    let requested = script.requested();
    assert!(!requested.iter().any(|it| it.starts_with("DELETE")));

    // Without the metadata of the cluster, somebody else may have created it.
    for metadata in [json!({}), json!({CLUSTER: ""})] {
        let broken = with_metadata(existing("v", "a", "error"), metadata);
        script.on(
            &format!("GET {BASE}/volumes/detail"),
            200,
            listed(&[broken]),
        );
        let answer = create(&script.cloud(), &[new("a", 2)]).unwrap().remove(0);
        assert_eq!(case(answer), "unavailable");
        let requested = script.requested();
        assert!(!requested.iter().any(|it| it.starts_with("DELETE")));
    }
}

#[test]
fn a_volume_of_no_cluster_is_found_among_many() {
    let script = Script::new("");
    let names = ["a", "b", "c", "d", "e"];
    let own = listed(&[existing("1", "a", "available")]);
    script.on(
        &format!("GET {BASE}/volumes/detail?name="),
        200,
        listed(&[]),
    );
    script.on(&format!("GET {BASE}/volumes/detail?metadata="), 200, own);
    let other = with_metadata(existing("2", "e", "available"), json!({CLUSTER: ""}));
    script.on(
        &format!("GET {BASE}/volumes/detail?name=e"),
        200,
        listed(&[other]),
    );
    let created = json!({"volume": existing("v", "x", "creating")});
    script.on(&format!("POST {BASE}/volumes "), 202, created);
    let wanted = names.map(|name| new(name, 2));
    let mut answers = create(&script.cloud(), &wanted).unwrap();
    assert_eq!(answers.remove(4).unwrap().id, "2");
    assert_eq!(answers.remove(0).unwrap().id, "1");
    assert_eq!(script.sent("POST").len(), 3);
}

#[test]
fn what_cinder_rejects_has_the_case_that_kubernetes_needs() {
    let fault = |kind: &str, message: &str| json!({kind: {"message": message}});
    for (status, body, expected) in [
        (
            413,
            fault(
                "overLimit",
                "VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded for quota 'volumes'.",
            ),
            "exhausted",
        ),
        (
            413,
            fault(
                "overLimit",
                "SnapshotLimitExceeded: Maximum number of snapshots allowed (10) exceeded",
            ),
            "exhausted",
        ),
        (
            413,
            fault(
                "overLimit",
                "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested 9G, quota is 10G and 5G has been consumed.",
            ),
            "exhausted",
        ),
        (
            413,
            fault(
                "overLimit",
                "VolumeSizeExceedsLimit: Requested volume size 9000G is larger than maximum allowed limit 1000G.",
            ),
            "out of range",
        ),
        (
            413,
            fault("overLimitFault", "This request was rate-limited."),
            "other",
        ),
        (
            400,
            fault(
                "badRequest",
                "Invalid input received: Specified volume size of '9' is greater than the maximum allowable size of '5' for volume type 'fast'.",
            ),
            "out of range",
        ),
        (
            404,
            fault("itemNotFound", "Snapshot s could not be found."),
            "not found",
        ),
        // A proxy proves nothing.
        (404, json!("no backend"), "unavailable"),
        (
            400,
            fault(
                "badRequest",
                "Invalid snapshot: Originating snapshot status must be one of 'available' values",
            ),
            "in progress",
        ),
        (
            400,
            fault(
                "badRequest",
                "Invalid input received: Volume size '1'GB cannot be smaller than the snapshot size 2GB.",
            ),
            "out of range",
        ),
        (
            400,
            fault("badRequest", "Availability zone 'x' is invalid."),
            "exhausted",
        ),
        (
            400,
            fault(
                "badRequest",
                "Invalid input received: Volume must be in the same availability zone as the snapshot",
            ),
            "exhausted",
        ),
        (400, fault("badRequest", "Something else."), "denied"),
        (503, Value::Null, "unavailable"),
    ] {
        let script = Script::new("");
        script.on(&format!("GET {BASE}/volumes/detail"), 200, listed(&[]));
        script.on(&format!("POST {BASE}/volumes "), status, body.clone());
        let answer = create(&script.cloud(), &[new("a", 1)]).unwrap().remove(0);
        assert_eq!(case(answer), expected, "{body}");
    }
}

#[test]
fn a_volume_is_deleted_unless_it_is_used() {
    let url = format!("{BASE}/volumes/v ");
    let gone = json!({"itemNotFound": {"message": "Volume v could not be found."}});
    for (found, deleted, expected) in [
        ((404, gone.clone()), 500, "ok"),
        ((200, existing("v", "a", "deleting")), 500, "in progress"),
        ((200, existing("v", "a", "creating")), 500, "in progress"),
        ((200, existing("v", "a", "available")), 202, "in progress"),
        ((200, existing("v", "a", "error")), 202, "in progress"),
        (
            (200, on_server(existing("v", "a", "in-use"), "n")),
            500,
            "in use",
        ),
        ((200, existing("v", "a", "attaching")), 500, "in use"),
        ((503, Value::Null), 500, "unavailable"),
    ] {
        let script = Script::new("");
        let (status, volume) = found;
        let body = if status == 200 {
            json!({"volume": volume})
        } else {
            volume
        };
        script.on(&format!("GET {url}"), status, body.clone());
        script.on(&format!("DELETE {url}"), deleted, Value::Null);
        let answer = delete(&script.cloud(), &["v".to_owned()])
            .unwrap()
            .remove(0);
        let answer = if answer.is_ok() { "ok" } else { case(answer) };
        assert_eq!(answer, expected, "{body}");
    }

    // With snapshots, and between the two requests.
    for (status, body, expected) in [
        (
            400,
            json!({"badRequest": {"message": "Volume still has 1 dependent snapshots"}}),
            "in use",
        ),
        (404, gone, "ok"),
    ] {
        let script = Script::new("");
        let volume = json!({"volume": existing("v", "a", "available")});
        script.on(&format!("GET {url}"), 200, volume);
        script.on(&format!("DELETE {url}"), status, body);
        let answer = delete(&script.cloud(), &["v".to_owned()])
            .unwrap()
            .remove(0);
        let answer = if answer.is_ok() { "ok" } else { case(answer) };
        assert_eq!(answer, expected);
    }
}

#[test]
fn a_catalog_that_is_not_found_proves_nothing() {
    let script = Script::new("");
    script.on("GET http://k/v3/auth/catalog", 404, json!("no backend"));
    let error = create(&script.cloud(), &[new("a", 1)]).unwrap_err();
    assert!(matches!(error, CloudError::Unavailable(_)), "{error:?}");
}

#[test]
fn volumes_of_other_clusters_are_not_touched() {
    let script = Script::new("");
    let mut foreign = existing("v", "a", "available");
    foreign["metadata"] = json!({CLUSTER: "other"});
    script.on(
        &format!("GET {BASE}/volumes/v "),
        200,
        json!({"volume": foreign}),
    );
    let id = || "v".to_owned();
    let cloud = script.cloud();
    assert_eq!(case(delete(&cloud, &[id()]).unwrap().remove(0)), "denied");
    assert_eq!(case(get(&cloud, &[id()]).unwrap().remove(0)), "denied");
    let attachment = NewAttachment {
        volume: id(),
        node: "n".into(),
        ..NewAttachment::default()
    };
    assert_eq!(
        case(attach(&cloud, &[attachment]).unwrap().remove(0)),
        "denied"
    );
    assert!(script.requested().iter().all(|it| it.starts_with("GET ")));
    // What is no ID of Cinder does not exist, and is not asked for.
    let answer = get(&cloud, &["../v?x".to_owned()]).unwrap().remove(0);
    assert_eq!(case(answer), "not found");
    assert_eq!(script.requested(), [""; 0]);
}

#[test]
fn names_of_other_clusters_do_not_matter() {
    let foreign = |status: &str| {
        let mut volume = existing("f", "a", status);
        volume["metadata"] = json!({CLUSTER: "other"});
        volume
    };
    let there = [foreign("available"), foreign("error")];
    let script = Script::new("");
    script.on(&format!("GET {BASE}/volumes/detail"), 200, listed(&there));
    let created = json!({"volume": existing("v", "a", "creating")});
    script.on(&format!("POST {BASE}/volumes "), 202, created);
    let wanted = || create(&script.cloud(), &[new("a", 2)]).unwrap().remove(0);
    assert_eq!(case(wanted()), "in progress");
    assert_eq!(script.sent("POST").len(), 1);

    let [first, second] = there;
    let there = [first, existing("v", "a", "available"), second];
    script.on(&format!("GET {BASE}/volumes/detail"), 200, listed(&there));
    assert_eq!(wanted().unwrap().id, "v");
    let deletes = |it: &String| it.starts_with("DELETE");
    assert!(!script.requested().iter().any(deletes));
}

#[test]
fn the_content_of_other_clusters_is_not_copied() {
    for (metadata, expected) in [
        (json!({CLUSTER: "other"}), "denied"),
        (json!({CLUSTER: "c"}), "in progress"),
        (json!({}), "in progress"),
    ] {
        let script = Script::new("");
        let none = json!({"snapshots": [], "volumes": []});
        let mut source = existing("s", "source", "available");
        source["metadata"] = metadata.clone();
        for one in ["volume", "snapshot"] {
            let list = format!("GET {BASE}/{one}s/detail");
            script.on(&list, 200, none.clone());
            let read = format!("GET {BASE}/{one}s/s ");
            script.on(&read, 200, json!({one: source}));
        }

        let of_snapshot = NewVolume {
            snapshot: Some("s".into()),
            ..new("a", 2)
        };
        let of_volume = NewVolume {
            original: Some("s".into()),
            ..new("a", 2)
        };
        for copy in [of_snapshot, of_volume] {
            let mut created = existing("v", "a", "creating");
            created["snapshot_id"] = json!(copy.snapshot);
            created["source_volid"] = json!(copy.original);
            let answer = json!({"volume": created});
            script.on(&format!("POST {BASE}/volumes "), 202, answer);
            let answer = create(&script.cloud(), &[copy]).unwrap().remove(0);
            assert_eq!(case(answer), expected, "{metadata}");
        }

        let mut created = existing("1", "x", "creating");
        created["volume_id"] = json!("s");
        let answer = json!({"snapshot": created});
        script.on(&format!("POST {BASE}/snapshots "), 202, answer);
        let cut = NewSnapshot {
            name: "x".into(),
            volume: "s".into(),
            parameters: Vec::new(),
            owner: None,
        };
        let answer = create_snapshots(&script.cloud(), &[cut]).unwrap().remove(0);
        assert_eq!(case(answer), expected, "{metadata}");
        assert_eq!(script.sent("POST").is_empty(), expected == "denied");
    }

    let script = Script::new("");
    script.on(&format!("GET {BASE}/volumes/detail"), 200, listed(&[]));
    let gone = json!({"itemNotFound": {"message": "Snapshot s could not be found."}});
    script.on(&format!("GET {BASE}/snapshots/s "), 404, gone);
    let copy = NewVolume {
        snapshot: Some("s".into()),
        ..new("a", 2)
    };
    let answer = create(&script.cloud(), &[copy]).unwrap().remove(0);
    assert_eq!(case(answer), "not found");
}

#[test]
fn a_volume_is_attached_through_nova() {
    let script = Script::new("");
    let url = format!("GET {BASE}/volumes/v ");
    let wanted = || NewAttachment {
        volume: "v".into(),
        node: "n".into(),
        ..NewAttachment::default()
    };
    let nova = "POST http://compute/v2.1/servers/n/os-volume_attachments ";
    let volume = json!({"volume": existing("v", "a", "available")});
    script.on(&url, 200, volume);
    script.on(
        nova,
        200,
        json!({"volumeAttachment": {"device": "/dev/vdb"}}),
    );
    let answer = attach(&script.cloud(), &[wanted()]).unwrap().remove(0);
    assert_eq!(case(answer), "in progress");
    assert_eq!(
        script.sent(nova),
        [json!({"volumeAttachment": {"volumeId": "v"}})]
    );

    let fault = |message: &str| json!({"itemNotFound": {"message": message}});
    for (status, body, expected) in [
        (404, fault("Instance n could not be found."), "not found"),
        (
            403,
            json!({"forbidden": {"message": "Maximum number of volumes allowed (26)"}}),
            "exhausted",
        ),
        (
            400,
            json!({"badRequest": {"message": "Invalid volume: volume v already attached"}}),
            "in progress",
        ),
    ] {
        script.on(nova, status, body);
        let answer = attach(&script.cloud(), &[wanted()]).unwrap().remove(0);
        assert_eq!(case(answer), expected);
    }

    for (volume, expected) in [
        (existing("v", "a", "creating"), "in progress"),
        (existing("v", "a", "detaching"), "in progress"),
        (
            on_server(existing("v", "a", "attaching"), "n"),
            "in progress",
        ),
        (on_server(existing("v", "a", "in-use"), "other"), "in use"),
        (existing("v", "a", "error"), "unavailable"),
    ] {
        script.requested();
        script.on(&url, 200, json!({"volume": volume}));
        let answer = attach(&script.cloud(), &[wanted()]).unwrap().remove(0);
        assert_eq!(case(answer), expected, "{volume}");
        assert_eq!(script.requested().len(), 1);
    }

    let there = on_server(existing("v", "a", "in-use"), "n");
    script.on(&url, 200, json!({"volume": there}));
    let answer = attach(&script.cloud(), &[wanted()]).unwrap().remove(0);
    let device = ("DevicePath".to_owned(), "/dev/vdb".to_owned());
    assert_eq!(answer.unwrap(), [device]);
}

#[test]
fn a_shared_volume_is_attached_to_several_servers() {
    let nova = "POST http://compute/v2.1/servers/n/os-volume_attachments ";
    for (shared, version) in [(false, Vec::new()), (true, vec!["compute 2.60"])] {
        let script = Script::new("");
        let mut volume = on_server(existing("v", "a", "in-use"), "other");
        volume["multiattach"] = json!(shared);
        script.on(
            &format!("GET {BASE}/volumes/v "),
            200,
            json!({"volume": volume}),
        );
        script.on(nova, 200, json!({"volumeAttachment": {}}));
        let wanted = NewAttachment {
            volume: "v".into(),
            node: "n".into(),
            ..NewAttachment::default()
        };
        let answer = attach(&script.cloud(), &[wanted]).unwrap().remove(0);
        let expected = if shared { "in progress" } else { "in use" };
        assert_eq!(case(answer), expected);
        assert_eq!(script.versions(nova), version);
    }
    let modes = driver().access_modes;
    assert!(modes.contains(&AccessMode::MultiNodeMultiWriter));
}

#[test]
fn an_attachment_without_answer_may_still_be_there() {
    let script = Script::new("");
    let volume = json!({"volume": existing("v", "a", "available")});
    script.on(&format!("GET {BASE}/volumes/v "), 200, volume);
    let nova = "POST http://compute/v2.1/servers/n/os-volume_attachments ";
    let attached = || {
        let wanted = NewAttachment {
            volume: "v".into(),
            node: "n".into(),
            ..NewAttachment::default()
        };
        attach(&script.cloud(), &[wanted]).unwrap().remove(0)
    };
    let old = || Attachment {
        volume: "v".into(),
        node: Some("n".into()),
    };
    let detached = || detach(&script.cloud(), &[old()]).unwrap().remove(0);
    assert!(detached().is_ok());

    script.on(nova, 504, Value::Null);
    assert_eq!(case(attached()), "unavailable");
    assert_eq!(case(detached()), "in progress");

    let full = json!({"forbidden": {"message": "Maximum number of volumes allowed (26)"}});
    script.on(nova, 403, full);
    assert_eq!(case(attached()), "exhausted");
    assert!(detached().is_ok());

    // What was attached is gone with its server, and nothing is in doubt.
    let volume = |volume: Value| {
        let url = format!("GET {BASE}/volumes/v ");
        script.on(&url, 200, json!({"volume": volume}));
    };
    script.on(nova, 504, Value::Null);
    assert_eq!(case(attached()), "unavailable");
    volume(on_server(existing("v", "a", "in-use"), "n"));
    assert!(attached().is_ok());
    volume(existing("v", "a", "available"));
    assert!(detached().is_ok());

    // What is attached is detached.
    assert_eq!(case(attached()), "unavailable");
    volume(on_server(existing("v", "a", "in-use"), "n"));
    let delete = "DELETE http://compute/v2.1/servers/n/os-volume_attachments/v ";
    script.on(delete, 202, Value::Null);
    assert_eq!(case(detached()), "in progress");
    volume(existing("v", "a", "available"));
    assert!(detached().is_ok());
}

#[test]
fn a_node_id_that_is_not_valid_fails_only_its_attachment() {
    let script = Script::new("");
    let volume = json!({"volume": existing("v", "a", "available")});
    script.on(&format!("GET {BASE}/volumes/v "), 200, volume);
    let nova = "POST http://compute/v2.1/servers/n/os-volume_attachments ";
    script.on(nova, 200, json!({"volumeAttachment": {}}));
    let wanted = ["..", "n"].map(|node| NewAttachment {
        volume: "v".into(),
        node: node.into(),
        ..NewAttachment::default()
    });
    let answers = attach(&script.cloud(), &wanted).unwrap();
    let cases: Vec<_> = answers.into_iter().map(case).collect();
    assert_eq!(cases, ["not found", "in progress"]);
}

#[test]
fn a_volume_is_detached_only_from_the_server() {
    let url = format!("GET {BASE}/volumes/v ");
    let attachment = "http://compute/v2.1/servers/n/os-volume_attachments/v ";
    let gone = || json!({"itemNotFound": {"message": "not found"}});
    let there = || on_server(existing("v", "a", "in-use"), "n");
    let shared = |server: &str| {
        let mut volume = on_server(existing("v", "a", "in-use"), server);
        volume["multiattach"] = json!(true);
        volume
    };
    for (volume, node, answered, expected) in [
        (there(), Some("n"), 202, "in progress"),
        (there(), None, 202, "in progress"),
        // The server does not exist any more.
        (there(), Some("n"), 404, "ok"),
        (there(), Some("other"), 500, "ok"),
        (existing("v", "a", "available"), Some("n"), 500, "ok"),
        // Nova decides what Cinder does not list yet, or not any more.
        (
            on_server(existing("v", "a", "detaching"), "n"),
            Some("n"),
            200,
            "in progress",
        ),
        (
            existing("v", "a", "reserved"),
            Some("n"),
            200,
            "in progress",
        ),
        (
            existing("v", "a", "attaching"),
            Some("n"),
            200,
            "in progress",
        ),
        (existing("v", "a", "attaching"), Some("n"), 404, "ok"),
        (
            existing("v", "a", "attaching"),
            Some("n"),
            503,
            "unavailable",
        ),
        (existing("v", "a", "attaching"), Some("n/.."), 500, "ok"),
        (existing("v", "a", "attaching"), None, 500, "in progress"),
        (shared("n"), Some("n"), 202, "in progress"),
        (shared("other"), Some("n"), 200, "in progress"),
        (shared("other"), Some("n"), 404, "ok"),
    ] {
        let is_changing = ["attaching", "detaching", "reserved"].map(|it| volume["status"] == it);
        let is_elsewhere =
            volume["multiattach"] == true && volume["attachments"][0]["server_id"] != "n";
        let method = if is_changing.contains(&true) || is_elsewhere {
            "GET"
        } else {
            "DELETE"
        };
        let script = Script::new("");
        script.on(&url, 200, json!({"volume": volume}));
        script.on(&format!("{method} {attachment}"), answered, gone());
        let old = Attachment {
            volume: "v".into(),
            node: node.map(str::to_owned),
        };
        let answer = detach(&script.cloud(), &[old]).unwrap().remove(0);
        let answer = if answer.is_ok() { "ok" } else { case(answer) };
        assert_eq!(answer, expected, "{volume} {node:?}");
    }
}

#[test]
fn a_volume_grows_and_never_shrinks() {
    let url = format!("GET {BASE}/volumes/v ");
    let action = format!("POST {BASE}/volumes/v/action ");
    let wanted = |gib: u64, limit: Option<u64>| Expansion {
        volume: "v".into(),
        size_bytes: gib * GIB,
        limit_bytes: limit,
    };
    for (status, wanted, expected, asked) in [
        ("available", wanted(1, None), "ok", 0),
        ("in-use", wanted(2, None), "ok", 0),
        ("in-use", wanted(3, None), "in progress", 1),
        ("extending", wanted(3, None), "in progress", 0),
        ("error_extending", wanted(3, None), "unavailable", 0),
        ("available", wanted(3, Some(2 * GIB)), "out of range", 0),
    ] {
        let script = Script::new("");
        let volume = json!({"volume": existing("v", "a", status)});
        script.on(&url, 200, volume);
        script.on(&action, 202, Value::Null);
        let answer = expand(&script.cloud(), &[wanted]).unwrap().remove(0);
        match answer {
            Ok(bytes) => assert_eq!((bytes, expected), (2 * GIB, "ok")),
            answer => assert_eq!(case(answer), expected, "{status}"),
        }
        assert_eq!(script.sent(&action).len(), asked, "{status}");
    }
}

#[test]
fn the_state_of_a_source_decides_about_a_copy() {
    for (status, snapshot, forced, copy, restored) in [
        (
            "available",
            "in progress",
            "in progress",
            "in progress",
            "in progress",
        ),
        ("in-use", "in use", "in progress", "in progress", "in use"),
        (
            "attaching",
            "in progress",
            "in progress",
            "in progress",
            "in progress",
        ),
        (
            "extending",
            "in progress",
            "in progress",
            "in progress",
            "in progress",
        ),
        ("maintenance", "in use", "in use", "in use", "in use"),
        ("error", "invalid", "invalid", "invalid", "invalid"),
        (
            "error_extending",
            "invalid",
            "invalid",
            "invalid",
            "invalid",
        ),
    ] {
        let script = Script::new("");
        let source = existing("s", "source", status);
        for one in ["volume", "snapshot"] {
            let none = json!({"snapshots": [], "volumes": []});
            script.on(&format!("GET {BASE}/{one}s/detail"), 200, none);
            script.on(&format!("GET {BASE}/{one}s/s "), 200, json!({one: source}));
        }
        let mut created = existing("1", "x", "creating");
        created["volume_id"] = json!("s");
        script.on(
            &format!("POST {BASE}/snapshots "),
            202,
            json!({"snapshot": created}),
        );
        for (force, expected) in [("no", snapshot), ("true", forced), ("1", forced)] {
            let wanted = NewSnapshot {
                name: "x".into(),
                volume: "s".into(),
                parameters: vec![("force-create".into(), force.into())],
                owner: None,
            };
            let answer = create_snapshots(&script.cloud(), &[wanted]);
            assert_eq!(
                case(answer.unwrap().remove(0)),
                expected,
                "{status} {force}"
            );
        }

        for (field, expected) in [("source_volid", copy), ("snapshot_id", restored)] {
            let mut created = existing("v", "a", "creating");
            created[field] = json!("s");
            script.on(
                &format!("POST {BASE}/volumes "),
                202,
                json!({"volume": created}),
            );
            let source = |of: &str| Some("s".to_owned()).filter(|_| of == field);
            let wanted = NewVolume {
                snapshot: source("snapshot_id"),
                original: source("source_volid"),
                ..new("a", 2)
            };
            let answer = create(&script.cloud(), &[wanted]).unwrap().remove(0);
            assert_eq!(case(answer), expected, "{status} {field}");
        }
    }
}

#[test]
fn a_snapshot_is_cut_once_and_backups_are_rejected() {
    let script = Script::new("");
    let list = format!("GET {BASE}/snapshots/detail?name=s");
    let snapshot = |status: &str, volume: &str| {
        json!({
            "id": "1", "name": "s", "status": status, "size": 2, "volume_id": volume,
            "created_at": "2026-11-28T22:00:00.000000", "metadata": {CLUSTER: "c"},
        })
    };
    let wanted = |parameters: &[(&str, &str)]| NewSnapshot {
        name: "s".into(),
        volume: "v".into(),
        parameters: parameters
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        owner: None,
    };
    script.on(&list, 200, json!({"snapshots": []}));
    let volume = json!({"volume": existing("v", "a", "in-use")});
    script.on(&format!("GET {BASE}/volumes/v "), 200, volume);
    let created = json!({"snapshot": snapshot("creating", "v")});
    script.on(&format!("POST {BASE}/snapshots "), 202, created);
    let cloud = script.cloud();
    let one = |new: NewSnapshot| create_snapshots(&cloud, &[new]).unwrap().remove(0);
    assert_eq!(
        case(one(wanted(&[("force-create", "true")]))),
        "in progress"
    );
    assert_eq!(script.sent("POST")[0]["snapshot"]["force"], true);
    assert_eq!(case(one(wanted(&[("type", "backup")]))), "invalid");
    assert_eq!(script.sent("POST").len(), 1);

    script.on(
        &list,
        200,
        json!({"snapshots": [snapshot("available", "v")]}),
    );
    let found = one(wanted(&[])).unwrap();
    assert_eq!(
        (found.size_bytes, found.creation_timestamp),
        (2 * GIB, 1_795_903_200)
    );
    assert!(found.ready);
    script.on(
        &list,
        200,
        json!({"snapshots": [snapshot("available", "other")]}),
    );
    assert_eq!(case(one(wanted(&[]))), "exists");

    let broken = snapshot("error_deleting", "v");
    script.on(&list, 200, json!({"snapshots": [broken]}));
    assert_eq!(case(one(wanted(&[]))), "unavailable");
}

#[test]
fn a_failed_snapshot_is_exhausted_when_it_is_gone() {
    let script = Script::new("");
    let list = format!("GET {BASE}/snapshots/detail");
    let volume = json!({"volume": existing("v", "a", "available")});
    script.on(&format!("GET {BASE}/volumes/v "), 200, volume);
    let mut broken = existing("1", "s", "error");
    broken["volume_id"] = json!("v");
    script.on(&list, 200, json!({"snapshots": [broken]}));
    script.on(&format!("DELETE {BASE}/snapshots/1 "), 202, Value::Null);
    let mut created = existing("2", "s", "creating");
    created["volume_id"] = json!("v");
    let created = json!({"snapshot": created});
    script.on(&format!("POST {BASE}/snapshots "), 202, created);

    for expected in ["in progress", "exhausted", "in progress"] {
        let wanted = NewSnapshot {
            name: "s".into(),
            volume: "v".into(),
            ..NewSnapshot::default()
        };
        let answer = create_snapshots(&script.cloud(), &[wanted]);
        assert_eq!(case(answer.unwrap().remove(0)), expected);
        script.on(&list, 200, json!({"snapshots": []}));
    }
    assert_eq!(script.sent("POST").len(), 1);
}
