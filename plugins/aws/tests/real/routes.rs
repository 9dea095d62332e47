use skydock_sdk::{
    routes::NewRoute,
    types::{AddressKind, NodeAddress},
};

use crate::world::{World, text, texts};

fn wanted(world: &World, index: usize, cidr: &str) -> NewRoute {
    NewRoute {
        name_hint: format!("uid-{index}"),
        target_node: format!("node-{index}"),
        target_provider_id: Some(format!("aws:///us-east-1a/{}", world.instances[index])),
        target_addresses: Vec::new(),
        destination_cidr: cidr.into(),
    }
}

#[test]
fn routes_are_created_replaced_and_deleted() {
    let world = World::new(3, "");
    let all: Vec<_> = (0..3)
        .map(|index| wanted(&world, index, &format!("10.244.{index}.0/24")))
        .collect();
    assert_eq!(
        world.call(|cloud| cloud.create_routes(&all)),
        [Ok(()), Ok(()), Ok(())]
    );
    let calls = world.line.take();
    println!("3 routes: {calls:?}");
    assert_eq!(
        calls.len(),
        2 + 3 + 3,
        "table, instances, source/dest check, routes: {calls:?}"
    );

    let listed = world.call(|cloud| cloud.list_routes()).unwrap();
    assert_eq!(listed.next, None);
    let mut nodes: Vec<_> = listed
        .routes
        .iter()
        .filter_map(|route| route.target_node.clone())
        .collect();
    nodes.sort();
    assert_eq!(nodes, ["node-0", "node-1", "node-2"]);
    assert_eq!(world.line.take(), ["DescribeRouteTables"]);

    // The same routes again need no changes. A route to another instance is replaced with one call.
    assert_eq!(
        world.call(|cloud| cloud.create_routes(&all)),
        [Ok(()), Ok(()), Ok(())]
    );
    assert_eq!(
        world.line.take(),
        ["DescribeRouteTables", "DescribeInstances"]
    );
    assert_eq!(
        world.call(|cloud| cloud.create_routes(&[wanted(&world, 1, "10.244.0.0/24")])),
        [Ok(())]
    );
    assert_eq!(
        world.line.take(),
        ["DescribeRouteTables", "DescribeInstances", "ReplaceRoute"]
    );

    let listed = world.call(|cloud| cloud.list_routes()).unwrap();
    world.line.take();
    assert_eq!(
        world.call(|cloud| cloud.delete_routes(&listed.routes)),
        [Ok(()), Ok(()), Ok(())]
    );
    assert_eq!(world.line.take().len(), 3);
    assert!(
        world
            .call(|cloud| cloud.list_routes())
            .unwrap()
            .routes
            .is_empty()
    );
    assert_eq!(
        world.call(|cloud| cloud.delete_routes(&listed.routes)),
        [Ok(()), Ok(()), Ok(())]
    );
}

#[test]
fn routes_lead_to_an_interface_of_an_instance_with_several() {
    let world = World::new(3, "");
    let mut interfaces = Vec::new();
    for id in &world.instances[..2] {
        let params = [("SubnetId", world.subnets[0].as_str())];
        let interface = text(
            &world.ec2("CreateNetworkInterface", &params),
            "networkInterfaceId",
        );
        let attached = [
            ("NetworkInterfaceId", interface.as_str()),
            ("InstanceId", id),
            ("DeviceIndex", "1"),
        ];
        world.ec2("AttachNetworkInterface", &attached);
        interfaces.push(interface);
    }
    let described = world.ec2(
        "DescribeNetworkInterfaces",
        &[("NetworkInterfaceId.1", &interfaces[1])],
    );
    let mut all: Vec<_> = (0..3)
        .map(|index| wanted(&world, index, &format!("10.244.{index}.0/24")))
        .collect();
    all[1].target_addresses = vec![NodeAddress {
        kind: AddressKind::InternalIp,
        address: text(&described, "privateIpAddress"),
    }];
    world.line.take();
    let create = || world.call(|cloud| cloud.create_routes(&all));
    assert_eq!(create(), [Ok(()), Ok(()), Ok(())]);
    let sent = world.line.sent.take();
    let named = |action: &str| -> Vec<String> {
        let calls = sent.iter().filter(|call| call.action == action);
        let ids = calls.flat_map(|call| &call.params);
        ids.filter(|(key, _)| key == "NetworkInterfaceId")
            .map(|(_, id)| id.clone())
            .collect()
    };
    let next_hops = named("CreateRoute");
    assert_eq!(next_hops.len(), 2, "{sent:?}");
    assert_ne!(next_hops[0], interfaces[0], "the primary interface");
    assert_eq!(
        next_hops[1], interfaces[1],
        "the one with the node's address"
    );
    let mut opened = named("ModifyNetworkInterfaceAttribute");
    opened.sort();
    let mut expected = next_hops.clone();
    expected.sort();
    assert_eq!(opened, expected);
    let listed = world.call(|cloud| cloud.list_routes()).unwrap().routes;
    let nodes = listed.iter().filter(|route| route.target_node.is_some());
    assert_eq!(nodes.count(), 3, "{listed:?}");
    world.line.take();

    // Nothing is left to do, and routes to another instance are replaced.
    assert_eq!(create(), [Ok(()), Ok(()), Ok(())]);
    assert_eq!(
        world.line.take(),
        ["DescribeRouteTables", "DescribeInstances"]
    );
    let moved = wanted(&world, 0, "10.244.2.0/24");
    assert_eq!(world.call(|cloud| cloud.create_routes(&[moved])), [Ok(())]);
    let tables = world.ec2(
        "DescribeRouteTables",
        &[
            ("Filter.1.Name", "vpc-id"),
            ("Filter.1.Value.1", &world.vpc),
        ],
    );
    let to_first = texts(&tables, "instanceId");
    let first = to_first.iter().filter(|id| **id == world.instances[0]);
    assert_eq!(first.count(), 2, "{tables}");
}
