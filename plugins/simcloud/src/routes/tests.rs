use serde_json::{Value, json};

use super::*;
use crate::testing::World;

fn new(number: u8) -> NewRoute {
    NewRoute {
        name_hint: format!("uid-{number}"),
        target_node: format!("node-{number}"),
        target_provider_id: Some(format!("simcloud:///zone-a/srv-{number}")),
        target_addresses: vec![],
        destination_cidr: format!("10.244.{number}.0/24"),
    }
}

fn node(number: u8) -> Node {
    Node {
        name: format!("node-{number}"),
        provider_id: new(number).target_provider_id,
        ..Node::default()
    }
}

/// Lists the routes of a cluster with two nodes.
fn list(cloud: &Cloud<'_>, page: Option<&str>) -> Result<RoutePage> {
    super::list(cloud, &[node(1), node(2)], page)
}

#[test]
fn routes_are_created_listed_and_deleted() {
    let world = World::start();
    let cloud = world.cluster("c1");
    let ipv6 = NewRoute {
        destination_cidr: "2001:db8:0:1::/64".into(),
        ..new(1)
    };
    assert_eq!(
        create(&cloud, &[new(1), ipv6, new(2)]),
        [Ok(()), Ok(()), Ok(())]
    );

    world.hook("DELETE", "/_sim/servers/srv-2", &Value::Null);
    let page = list(&cloud, None).unwrap();
    let mut shown: Vec<_> = page
        .routes
        .iter()
        .map(|route| {
            (
                route.destination_cidr.as_str(),
                route.target_node.as_deref(),
                route.blackhole,
            )
        })
        .collect();
    shown.sort_unstable();
    let (first, second) = (Some("node-1"), Some("node-2"));
    let expected = [
        ("10.244.1.0/24", first, false),
        ("10.244.2.0/24", second, true),
        ("2001:db8:0:1::/64", first, false),
    ];
    assert_eq!((shown, page.next), (expected.to_vec(), None));

    for _ in 0..2 {
        assert_eq!(delete(&cloud, &page.routes), [Ok(()), Ok(()), Ok(())]);
    }
    assert!(world.all("routes").is_empty());
}

#[test]
fn a_list_has_all_pages() {
    let world = World::start();
    let cloud = world.cluster("c1");
    let many: Vec<_> = (0..120)
        .map(|number| NewRoute {
            target_provider_id: new(1).target_provider_id,
            ..new(number)
        })
        .collect();
    assert!(create(&cloud, &many).iter().all(Result::is_ok));
    let first = list(&cloud, None).unwrap();
    let second = list(&cloud, first.next.as_deref()).unwrap();

    assert_eq!(
        (first.routes.len(), second.routes.len(), second.next),
        (100, 20, None)
    );
}

#[test]
fn a_route_that_exists_is_a_success() {
    for after in [false, true] {
        let world = World::start();
        let cloud = world.cluster("c1");
        world.hook("PATCH", "/_sim/settings", &json!({"lag_ms": 60_000}));
        world.lose("routes.create", after);
        assert!(matches!(
            create(&cloud, &[new(1)])[0],
            Err(CloudError::Unavailable(_))
        ));
        for _ in 0..2 {
            assert_eq!(create(&cloud, &[new(1)]), [Ok(())]);
        }
        assert_eq!(world.all("routes").len(), 1);
        assert_eq!(list(&cloud, None).unwrap().routes, [], "the list lags");
    }
}

#[test]
fn a_route_in_the_way_is_a_conflict() {
    let world = World::start();
    let cloud = world.cluster("c1");
    assert_eq!(create(&cloud, &[new(1)]), [Ok(())]);
    let moved = NewRoute {
        target_provider_id: new(2).target_provider_id,
        ..new(1)
    };
    assert!(matches!(
        create(&cloud, &[moved])[0],
        Err(CloudError::Conflict(_))
    ));
}

#[test]
fn a_route_that_fails_does_not_affect_others() {
    let world = World::start();
    let cloud = world.cluster("c1");
    let uninitialized = NewRoute {
        target_provider_id: None,
        ..new(1)
    };
    let foreign = NewRoute {
        target_provider_id: Some("aws:///a/i-1".into()),
        ..new(1)
    };
    let answers = create(&cloud, &[uninitialized, new(2), foreign, new(9)]);

    assert!(matches!(answers[0], Err(CloudError::InProgress(_))));
    assert_eq!(answers[1], Ok(()));
    assert!(
        matches!(answers[2], Err(CloudError::Invalid(_)))
            && matches!(answers[3], Err(CloudError::Invalid(_)))
    );
}

#[test]
fn routes_of_another_cluster_are_not_listed() {
    let world = World::start();
    assert_eq!(create(&world.cluster("c1"), &[new(1)]), [Ok(())]);
    assert_eq!(list(&world.cluster("c2"), None).unwrap().routes, []);
    assert_eq!(list(&world.cluster("c1"), None).unwrap().routes.len(), 1);
}

#[test]
fn a_route_belongs_to_the_node_of_its_server() {
    let world = World::start();
    let cloud = world.cluster("c1");
    assert_eq!(create(&cloud, &[new(1)]), [Ok(())]);

    let node_of = |nodes: &[Node]| {
        super::list(&cloud, nodes, None)
            .unwrap()
            .routes
            .remove(0)
            .target_node
    };
    // Another server has the name now, or the server has another name.
    let replaced = Node {
        provider_id: new(2).target_provider_id,
        ..node(1)
    };
    let renamed = Node {
        name: "node-7".into(),
        ..node(1)
    };
    let new = Node {
        provider_id: None,
        ..node(1)
    };
    assert_eq!(node_of(&[replaced.clone(), node(3)]), None);
    assert_eq!(node_of(&[replaced, renamed]).as_deref(), Some("node-7"));
    assert_eq!(node_of(&[new]).as_deref(), Some("node-1"));
    assert_eq!(node_of(&[]), None);
}
