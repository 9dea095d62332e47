use skydock_openstack::instances::{check, describe};
use skydock_sdk::{
    instances::Presence,
    types::{AddressKind, CloudError, Node},
};

use crate::world::World;

fn node(name: &str, id: Option<&str>) -> Node {
    Node {
        name: name.to_owned(),
        provider_id: id.map(|id| format!("openstack:///{id}")),
        ..Node::default()
    }
}

#[test]
fn nodes_are_described_in_two_requests() {
    let world = World::of_all_kinds();
    let config = world.config("");
    let nodes: Vec<Node> = (0..4)
        .map(|number| node(&format!("node{number}"), None))
        .chain([node("none", None)])
        .collect();
    let told = describe(&world.cloud(&config), &nodes).unwrap();
    println!("{told:#?}");
    println!("{:#?}", world.calls());
    let first = told[0].as_ref().unwrap();
    assert!(
        first
            .provider_id
            .as_deref()
            .unwrap()
            .starts_with("openstack:///")
    );
    assert_eq!(first.instance_type.as_deref(), Some("m1.tiny"));
    assert_eq!(
        (first.zone.as_deref(), first.region.as_deref()),
        (Some("nova"), Some("RegionOne"))
    );
    let kinds: Vec<AddressKind> = first.addresses.iter().map(|address| address.kind).collect();
    assert!(kinds.contains(&AddressKind::InternalIp) && kinds.contains(&AddressKind::Hostname));
    assert!(matches!(told[4], Err(CloudError::NotFound(_))));
    _ = describe(&world.cloud(&config), &nodes).unwrap();
    assert_eq!(world.calls().len(), 2, "the catalog is kept");
}

#[test]
fn instances_are_running_stopped_or_absent() {
    let world = World::of_all_kinds();
    let config = world.config("");
    let cloud = world.cloud(&config);
    let names: Vec<Node> = (0..4)
        .map(|number| node(&format!("node{number}"), None))
        .collect();
    let ids: Vec<String> = describe(&cloud, &names)
        .unwrap()
        .into_iter()
        .map(|i| i.unwrap().provider_id.unwrap())
        .collect();
    let mut nodes: Vec<Node> = names;
    for (node, id) in nodes.iter_mut().zip(ids) {
        node.provider_id = Some(id);
    }
    nodes.push(node("gone", Some("00000000-0000-4000-8000-000000000000")));
    nodes.push(Node {
        provider_id: Some("openstack://elsewhere/1".into()),
        ..Node::default()
    });
    world.calls();
    let told = check(&cloud, &nodes).unwrap();
    let calls = world.calls();
    use Presence::{Absent, Running, Stopped};
    let expected = [
        Ok(Running),
        Ok(Running),
        Ok(Running),
        Ok(Stopped),
        Ok(Absent),
        Err(CloudError::ImplementedElsewhere),
    ];
    assert_eq!(told, expected);
    assert_eq!(calls.len(), 2, "{calls:#?}");
    // With names that match no server, the lookup is by ID.
    for node in &mut nodes {
        node.name = "renamed".into();
    }
    assert_eq!(check(&cloud, &nodes).unwrap(), expected);
    println!("{:#?}", world.calls());
    assert_eq!(check(&cloud, &nodes[3..4]).unwrap(), [Ok(Stopped)]);
    assert_eq!(world.calls().len(), 1);
}
