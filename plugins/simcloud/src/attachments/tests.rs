use super::*;
use crate::{
    testing::{World, cases, new_volume},
    volumes,
};

fn attachment(volume: &str, node: &str) -> NewAttachment {
    NewAttachment {
        volume: volume.into(),
        node: node.into(),
        ..NewAttachment::default()
    }
}

fn old(volume: &str, node: Option<&str>) -> Attachment {
    Attachment {
        volume: volume.into(),
        node: node.map(Into::into),
    }
}

fn device(path: &str) -> Result<Vec<Pair>, StorageError> {
    Ok(vec![("devicePath".to_owned(), path.to_owned())])
}

#[test]
fn a_volume_is_attached_and_detached() {
    let world = World::start();
    let cloud = world.cluster("c1");
    for name in ["a", "b"] {
        volumes::create(&cloud, &[new_volume(name)]).unwrap();
    }

    let wanted = [attachment("vol-1", "srv-1"), attachment("vol-2", "srv-1")];
    assert_eq!(attach(&cloud, &wanted[..1]), [device("/dev/vdb")]);
    for _ in 0..2 {
        assert_eq!(
            attach(&cloud, &wanted),
            [device("/dev/vdb"), device("/dev/vdc")]
        );
    }
    let answers = attach(
        &cloud,
        &[attachment("vol-1", "srv-2"), attachment("vol-9", "srv-1")],
    );
    assert_eq!(cases(&answers), ["in-use", "not-found"]);
    assert_eq!(
        cases(&volumes::delete(&cloud, &["vol-1".to_owned()])),
        ["in-use"]
    );

    assert_eq!(
        detach(
            &cloud,
            &[
                old("vol-1", Some("srv-2")),
                old("vol-2", None),
                old("vol-9", None)
            ]
        ),
        [Ok(()), Ok(()), Ok(())]
    );
    let servers: Vec<_> = world
        .all("volumes")
        .iter()
        .map(|it| it["server"].clone())
        .collect();
    assert_eq!(servers, [json!("srv-1"), json!(null)]);
}

#[test]
fn attaching_and_detaching_take_time() {
    let world = World::start();
    let cloud = world.cluster("c1");
    volumes::create(&cloud, &[new_volume("a")]).unwrap();
    world.hook("PATCH", "/_sim/settings", &json!({"volume_delay_ms": 5000}));
    let wanted = [attachment("vol-1", "srv-1")];
    let unwanted = [old("vol-1", Some("srv-1"))];
    let pass = || world.hook("POST", "/_sim/advance", &json!({"ms": 5000}));

    for _ in 0..2 {
        assert_eq!(cases(&attach(&cloud, &wanted)), ["in-progress"]);
    }
    assert_eq!(cases(&detach(&cloud, &unwanted)), ["in-progress"]);
    pass();
    assert_eq!(attach(&cloud, &wanted), [device("/dev/vdb")]);

    for _ in 0..2 {
        assert_eq!(cases(&detach(&cloud, &unwanted)), ["in-progress"]);
    }
    assert_eq!(cases(&attach(&cloud, &wanted)), ["in-progress"]);
    pass();
    assert_eq!(detach(&cloud, &unwanted), [Ok(())]);
}

#[test]
fn a_server_has_limits() {
    let world = World::start();
    let cloud = world.cluster("c1");
    let new: Vec<_> = (1..=17).map(|it| new_volume(&format!("v{it}"))).collect();
    volumes::create(&cloud, &new).unwrap();
    let all: Vec<_> = (1..=17)
        .map(|it| attachment(&format!("vol-{it}"), "srv-1"))
        .collect();
    let answers = cases(&attach(&cloud, &all));
    // They are attached at the same time, so that any of them may be the last.
    let exhausted = answers.iter().filter(|it| **it == "exhausted");
    assert_eq!(exhausted.count(), 1);

    // It is in another zone, or does not exist.
    volumes::create(&cloud, &[new_volume("last")]).unwrap();
    let wrong = [attachment("vol-18", "srv-2"), attachment("vol-18", "srv-9")];
    assert_eq!(cases(&attach(&cloud, &wrong)), ["invalid", "not-found"]);
}

#[test]
fn volumes_of_other_clusters_are_not_attached() {
    let world = World::start();
    let (ours, others) = (world.cluster("c1"), world.cluster("c2"));
    volumes::create(&others, &[new_volume("a")]).unwrap();
    attach(&others, &[attachment("vol-1", "srv-1")]);
    assert_eq!(
        cases(&attach(&ours, &[attachment("vol-1", "srv-1")])),
        ["not-found"]
    );
    assert_eq!(detach(&ours, &[old("vol-1", None)]), [Ok(())]);
    assert_eq!(world.all("volumes")[0]["server"], "srv-1");
}
