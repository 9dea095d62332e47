use serde_json::json;
use skydock_sdk::volumes::NewVolume;

use super::*;
use crate::{
    testing::{World, cases, new_volume},
    volumes,
};

fn new(name: &str, volume: &str) -> NewSnapshot {
    NewSnapshot {
        name: name.into(),
        volume: volume.into(),
        ..NewSnapshot::default()
    }
}

fn ids(snapshots: &[Result<Snapshot, StorageError>]) -> Vec<&str> {
    let found = snapshots.iter().flatten();
    found.map(|it| it.id.as_str()).collect()
}

#[test]
fn snapshots_are_created_listed_and_deleted() {
    let world = World::start();
    let cloud = world.cluster("c1");
    volumes::create(&cloud, &[new_volume("a"), new_volume("b")]).unwrap();
    let wanted = [new("s1", "vol-1"), new("s2", "vol-2"), new("s3", "vol-9")];
    create(&cloud, &wanted[..1]);
    for _ in 0..2 {
        let created = create(&cloud, &wanted);
        assert_eq!(cases(&created), ["ok", "ok", "not-found"]);
        assert_eq!(ids(&created), ["snap-1", "snap-2"]);
    }
    let other = create(&cloud, &[new("s1", "vol-2")]);
    assert_eq!(cases(&other), ["exists"]);

    let page = list(&cloud, None).unwrap();
    let first = &page.snapshots[0];
    assert_eq!(
        (first.volume.as_str(), first.size_bytes, first.ready),
        ("vol-1", 10 << 30, true)
    );
    let all = ["snap-1", "snap-9"].map(str::to_owned);
    assert_eq!(cases(&get(&cloud, &all)), ["ok", "not-found"]);
    for _ in 0..2 {
        assert_eq!(delete(&cloud, &all), [Ok(()), Ok(())]);
    }
    assert_eq!(world.all("snapshots").len(), 1);
}

#[test]
fn a_snapshot_is_found_when_its_volume_is_gone() {
    let world = World::start();
    let cloud = world.cluster("c1");
    volumes::create(&cloud, &[new_volume("a")]).unwrap();
    world.lose("snapshots.create", true);
    let wanted = [new("s", "vol-1")];
    assert_eq!(cases(&create(&cloud, &wanted)), ["unavailable"]);
    volumes::delete(&cloud, &["vol-1".to_owned()]);
    assert_eq!(ids(&create(&cloud, &wanted)), ["snap-1"]);

    let copy = NewVolume {
        snapshot: Some("snap-1".into()),
        ..new_volume("copy")
    };
    let copied = volumes::create(&cloud, &[copy]).unwrap();
    assert_eq!(cases(&copied), ["ok"]);
    assert_eq!(world.all("volumes")[0]["snapshot"], "snap-1");
}

#[test]
fn a_volume_waits_for_its_snapshot() {
    let world = World::start();
    let cloud = world.cluster("c1");
    volumes::create(&cloud, &[new_volume("a")]).unwrap();
    world.hook("PATCH", "/_sim/settings", &json!({"volume_delay_ms": 5000}));
    let cut = create(&cloud, &[new("s", "vol-1")]);
    assert!(!cut[0].as_ref().unwrap().ready, "it is cut, and not ready");

    let copy = || NewVolume {
        snapshot: Some("snap-1".into()),
        ..new_volume("copy")
    };
    let answers = volumes::create(&cloud, &[copy()]).unwrap();
    assert_eq!(cases(&answers), ["in-progress"]);
    assert_eq!(world.all("volumes").len(), 1);
    world.hook("PATCH", "/_sim/settings", &json!({"volume_delay_ms": 0}));
    world.hook("POST", "/_sim/advance", &json!({"ms": 5000}));
    let answers = volumes::create(&cloud, &[copy()]).unwrap();
    assert_eq!(cases(&answers), ["ok"]);
}

#[test]
fn snapshots_of_other_clusters_do_not_exist() {
    let world = World::start();
    let (ours, others) = (world.cluster("c1"), world.cluster("c2"));
    volumes::create(&others, &[new_volume("a")]).unwrap();
    create(&others, &[new("s", "vol-1")]);
    let all = ["snap-1".to_owned()];

    assert_eq!(cases(&create(&ours, &[new("s2", "vol-1")])), ["not-found"]);
    assert_eq!(cases(&get(&ours, &all)), ["not-found"]);
    assert_eq!(list(&ours, None).unwrap().snapshots, []);
    assert_eq!(delete(&ours, &all), [Ok(())]);
    let copy = NewVolume {
        snapshot: Some("snap-1".into()),
        ..new_volume("copy")
    };
    let answers = volumes::create(&ours, &[copy]).unwrap();
    assert_eq!(cases(&answers), ["not-found"]);
    assert_eq!(
        (world.all("snapshots").len(), world.all("volumes").len()),
        (1, 1)
    );
}
