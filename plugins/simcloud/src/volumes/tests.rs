use serde_json::json;

use super::*;
use crate::testing::{World, case, cases, new_volume, zone};

/// The volume that [`new_volume`] is.
fn created(id: &str) -> Volume {
    Volume {
        id: id.into(),
        size_bytes: 10 * GIB,
        topology: vec![zone("zone-a")],
        ..Volume::default()
    }
}

#[test]
fn volumes_are_created_listed_and_deleted() {
    let world = World::start();
    let cloud = world.cluster("c1");
    let new = [new_volume("pvc-1"), new_volume("pvc-2")];
    let both = || vec![Ok(created("vol-1")), Ok(created("vol-2"))];
    create(&cloud, &new[..1]).unwrap();
    for _ in 0..2 {
        assert_eq!(create(&cloud, &new), Ok(both()));
    }

    let page = list(&cloud, None).unwrap();
    assert_eq!(page.volumes, [created("vol-1"), created("vol-2")]);
    let ids = ["vol-2", "vol-3"].map(str::to_owned);
    let found = get(&cloud, &ids);
    assert_eq!(found[0], Ok(created("vol-2")));
    assert_eq!(cases(&found), ["ok", "not-found"]);

    for _ in 0..2 {
        let ids = ["vol-1", "vol-2", "vol-3"].map(str::to_owned);
        assert_eq!(delete(&cloud, &ids), [Ok(()), Ok(()), Ok(())]);
    }
    assert!(world.all("volumes").is_empty());
}

#[test]
fn one_request_is_for_many_volumes_that_exist() {
    let world = World::start();
    let cloud = world.cluster("c1");
    let names = (0..MANY).map(|number| format!("pvc-{number}"));
    let new: Vec<_> = names.map(|name| new_volume(&name)).collect();
    create(&cloud, &new[1..]).unwrap();
    world.calls();
    create(&cloud, &new).unwrap();
    assert_eq!(world.calls(), ["volumes.list", "volumes.create"]);
    create(&cloud, &new).unwrap();
    assert_eq!(world.calls(), ["volumes.list"], "one request for all");
}

#[test]
fn few_volumes_are_created_without_a_list() {
    let world = World::start();
    let cloud = world.cluster("c1");
    let new = [new_volume("pvc-1")];
    create(&cloud, &new).unwrap();
    assert_eq!(world.calls(), ["volumes.create"]);
    create(&cloud, &new).unwrap();
    assert_eq!(world.calls(), ["volumes.create", "volumes.get"]);
}

#[test]
fn a_volume_exists_although_its_snapshot_was_deleted() {
    let world = World::start();
    let cloud = world.cluster("c1");
    create(&cloud, &[new_volume("pvc-1")]).unwrap();
    let snapshot = json!({"name": "cut", "volume": "vol-1"});
    world.hook("POST", "/v1/snapshots", &snapshot);
    let restored = [NewVolume {
        snapshot: Some("snap-1".into()),
        ..new_volume("pvc-2")
    }];
    // The list lags behind.
    world.hook("PATCH", "/_sim/settings", &json!({"lag_ms": 60_000}));
    assert_eq!(create(&cloud, &restored), Ok(vec![Ok(created("vol-2"))]));
    world.hook("DELETE", "/v1/snapshots/snap-1", &json!(null));
    assert_eq!(create(&cloud, &restored), Ok(vec![Ok(created("vol-2"))]));
}

#[test]
fn a_create_whose_answer_was_lost_is_found() {
    let world = World::start();
    let cloud = world.cluster("c1");
    let new = [new_volume("pvc-1")];
    world.lose("volumes.create", true);
    assert_eq!(cases(&create(&cloud, &new).unwrap()), ["unavailable"]);

    // The list lags behind.
    world.hook("PATCH", "/_sim/settings", &json!({"lag_ms": 60_000}));
    world.calls();
    assert_eq!(create(&cloud, &new), Ok(vec![Ok(created("vol-1"))]));
    assert_eq!(world.calls(), ["volumes.create", "volumes.get"]);
    assert_eq!(world.all("volumes").len(), 1);
}

#[test]
fn a_volume_is_in_progress_until_it_is_there() {
    let world = World::start();
    let cloud = world.cluster("c1");
    world.hook("PATCH", "/_sim/settings", &json!({"volume_delay_ms": 5000}));
    let new = [new_volume("pvc-1")];
    for _ in 0..2 {
        assert_eq!(cases(&create(&cloud, &new).unwrap()), ["in-progress"]);
    }
    world.hook("POST", "/_sim/advance", &json!({"ms": 5000}));
    assert_eq!(create(&cloud, &new), Ok(vec![Ok(created("vol-1"))]));
}

#[test]
fn a_broken_volume_is_replaced() {
    let world = World::start();
    let cloud = world.cluster("c1");
    let new = [new_volume("pvc-1")];
    create(&cloud, &new).unwrap();
    world.hook("PATCH", "/_sim/volumes/vol-1", &json!({"status": "error"}));
    assert_eq!(cases(&create(&cloud, &new).unwrap()), ["in-progress"]);
    assert_eq!(create(&cloud, &new), Ok(vec![Ok(created("vol-2"))]));
    assert_eq!(
        world.all("volumes").len(),
        1,
        "nothing is left of the first"
    );
}

#[test]
fn what_the_cloud_cannot_do_has_its_own_error() {
    let world = World::start();
    let cloud = world.cluster("c1");
    create(&cloud, &[new_volume("taken")]).unwrap();
    let attributes = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
    let table = [
        (
            NewVolume {
                name: "taken".into(),
                size_bytes: 11 * GIB,
                ..new_volume("")
            },
            "exists",
        ),
        (
            NewVolume {
                name: "taken".into(),
                requisite: vec![zone("zone-b")],
                ..new_volume("")
            },
            "exists",
        ),
        (
            NewVolume {
                size_bytes: GIB + 1,
                limit_bytes: Some(2 * GIB - 1),
                ..new_volume("pvc-1")
            },
            "out-of-range",
        ),
        (
            NewVolume {
                size_bytes: 20_000 * GIB,
                ..new_volume("pvc-2")
            },
            "out-of-range",
        ),
        (
            NewVolume {
                size_bytes: u64::MAX,
                ..new_volume("pvc-3")
            },
            "out-of-range",
        ),
        (
            NewVolume {
                parameters: attributes("color", "red"),
                ..new_volume("pvc-4")
            },
            "invalid",
        ),
        (
            NewVolume {
                attributes: attributes("iops", "many"),
                ..new_volume("pvc-5")
            },
            "invalid",
        ),
        (
            NewVolume {
                snapshot: Some("snap-9".into()),
                ..new_volume("pvc-6")
            },
            "not-found",
        ),
        (new_volume("pvc 7"), "invalid"),
    ];
    for (new, expected) in table {
        let name = new.name.clone();
        let answers = create(&cloud, &[new]).unwrap();
        assert_eq!(cases(&answers), [expected], "{name}");
    }
    assert_eq!(world.all("volumes").len(), 1);

    world.hook(
        "POST",
        "/_sim/failures",
        &json!({"operation": "volumes.create", "status": 429, "retry_after": 7}),
    );
    let answers = create(&cloud, &[new_volume("pvc-8")]).unwrap();
    assert_eq!(cases(&answers), ["throttled"], "not exhausted");
}

#[test]
fn a_volume_has_the_size_zone_and_iops_that_it_needs() {
    let world = World::start();
    let cloud = world.cluster("c1");
    let iops = |number: &str| vec![("iops".to_owned(), number.to_owned())];
    let new = [
        NewVolume {
            size_bytes: GIB + 1,
            parameters: iops("500"),
            preferred: vec![zone("zone-b"), zone("zone-a")],
            ..new_volume("a")
        },
        NewVolume {
            size_bytes: 0,
            parameters: iops("500"),
            attributes: iops("700"),
            requisite: Vec::new(),
            preferred: Vec::new(),
            ..new_volume("b")
        },
    ];
    for new in new {
        assert_eq!(cases(&create(&cloud, &[new]).unwrap()), ["ok"]);
    }
    let found: Vec<_> = world
        .all("volumes")
        .iter()
        .map(|it| [&it["size_gib"], &it["zone"], &it["iops"]].map(Clone::clone))
        .collect();
    assert_eq!(
        found,
        [
            [json!(2), json!("zone-b"), json!(500)],
            [json!(1), json!("zone-a"), json!(700)]
        ]
    );
}

#[test]
fn a_volume_grows_and_changes_its_properties() {
    let world = World::start();
    let cloud = world.cluster("c1");
    create(&cloud, &[new_volume("pvc-1")]).unwrap();
    let size = |volume: &str, gib: u64| Expansion {
        volume: volume.into(),
        size_bytes: gib * GIB,
        limit_bytes: None,
    };
    assert_eq!(
        expand(&cloud, &[size("vol-1", 20), size("vol-9", 20)])[0],
        Ok(20 * GIB)
    );
    world.calls();
    assert_eq!(expand(&cloud, &[size("vol-1", 15)]), [Ok(20 * GIB)]);
    assert_eq!(world.calls(), ["volumes.get"], "it is large enough");
    let answers = expand(&cloud, &[size("vol-9", 1), size("vol-1", 20_000)]);
    assert_eq!(cases(&answers), ["not-found", "out-of-range"]);

    let set = |key: &str, value: &str| Modification {
        volume: "vol-1".into(),
        attributes: vec![(key.into(), value.into())],
    };
    assert_eq!(modify(&cloud, &[set("iops", "500")]), [Ok(())]);
    assert_eq!(world.all("volumes")[0]["iops"], 500);
    let answers = modify(&cloud, &[set("color", "red"), set("iops", "1")]);
    assert_eq!(cases(&answers), ["invalid", "invalid"]);
}

#[test]
fn a_copy_is_where_its_original_is() {
    let world = World::start();
    let cloud = world.cluster("c1");
    create(&cloud, &[new_volume("pvc-1")]).unwrap();
    let copy = |name: &str, original: &str, preferred: &str| NewVolume {
        original: Some(original.into()),
        preferred: vec![zone(preferred)],
        ..new_volume(name)
    };
    let elsewhere = NewVolume {
        requisite: vec![zone("zone-b")],
        ..copy("pvc-3", "vol-1", "zone-b")
    };
    let new = [
        copy("pvc-2", "vol-1", "zone-b"),
        elsewhere,
        copy("pvc-4", "vol-9", "zone-a"),
    ];
    let answers = create(&cloud, &new).unwrap();
    assert_eq!(answers[0], Ok(created("vol-2")));
    assert_eq!(cases(&answers), ["ok", "exhausted", "not-found"]);
    let copied = &world.all("volumes")[1];
    assert_eq!([&copied["original"], &copied["zone"]], ["vol-1", "zone-a"]);

    // It is not the copy that is wanted.
    let other = [copy("pvc-1", "vol-2", "zone-a")];
    assert_eq!(cases(&create(&cloud, &other).unwrap()), ["exists"]);
    let ids = ["vol-1".to_owned()];
    assert_eq!(delete(&cloud, &ids), [Ok(())]);
    assert_eq!(create(&cloud, &new[..1]), Ok(vec![Ok(created("vol-2"))]));
}

#[test]
fn volumes_of_other_clusters_do_not_exist() {
    let world = World::start();
    let (ours, others) = (world.cluster("c1"), world.cluster("c2"));
    create(&others, &[new_volume("pvc-1")]).unwrap();
    let ids = ["vol-1".to_owned()];
    assert_eq!(
        cases(&create(&ours, &[new_volume("pvc-1")]).unwrap()),
        ["exists"]
    );
    assert_eq!(list(&ours, None).unwrap().volumes, []);
    assert_eq!(cases(&get(&ours, &ids)), ["not-found"]);
    assert_eq!(delete(&ours, &ids), [Ok(())]);
    assert_eq!(world.all("volumes").len(), 1);
}

#[test]
fn only_the_cloud_can_say_that_nothing_was_created() {
    let world = World::start();
    let cloud = world.cluster("c1");
    world.hook("PATCH", "/_sim/settings", &json!({"volume_delay_ms": 5000}));
    let new: Vec<_> = (0..MANY)
        .map(|number| NewVolume {
            requisite: Vec::new(),
            preferred: Vec::new(),
            ..new_volume(&format!("pvc-{number}"))
        })
        .collect();
    create(&cloud, &new).unwrap();

    // A proxy on the way answers.
    let fails = |operation: &str| {
        let failure = json!({"operation": operation, "status": 404});
        world.hook("POST", "/_sim/failures", &failure);
    };
    fails("volumes.list");
    let failed = create(&cloud, &new).unwrap_err();
    assert!(matches!(failed, CloudError::Unavailable(_)), "{failed:?}");
    for operation in ["zones.list", "volumes.get"] {
        fails(operation);
        assert_eq!(cases(&create(&cloud, &new[..1]).unwrap()), ["unavailable"]);
    }
    assert_eq!(world.all("volumes").len(), MANY);
}

#[test]
fn only_the_cloud_can_say_that_a_volume_is_gone() {
    let mut world = World::start();
    // The cloud answers 404 with another code.
    world.config.url += "/proxy";
    let cloud = world.cluster("c1");
    let ids = ["vol-1".to_owned()];
    assert_eq!(case(&get(&cloud, &ids)[0]), "unavailable");
    assert_eq!(case(&delete(&cloud, &ids)[0]), "unavailable");
}
