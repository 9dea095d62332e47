use skydock_sdk::routes::NewRoute;

use crate::world::World;

fn wanted(world: &World, index: usize, cidr: &str) -> NewRoute {
    NewRoute {
        name_hint: format!("uid-{index}"),
        target_node: format!("node-{index}"),
        target_provider_id: Some(format!("aws:///us-east-1a/{}", world.machines[index])),
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
        "table, machines, source/dest check, routes: {calls:?}"
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
