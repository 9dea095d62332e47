use serde_json::{Value, json};
use skydock_openstack::{cloud::Kind, routes};
use skydock_sdk::{
    http::Method,
    routes::{NewRoute, Route},
    types::Node,
};

use crate::{
    load_balancers::{changes, nodes},
    world::World,
};

fn new(node: &Node, cidr: &str) -> NewRoute {
    NewRoute {
        name_hint: "uid".to_owned(),
        target_node: node.name.clone(),
        target_provider_id: node.provider_id.clone(),
        target_addresses: node.addresses.clone(),
        destination_cidr: cidr.to_owned(),
    }
}

#[test]
fn routes_are_created_and_deleted_with_address_pairs() {
    let world = World::new(3);
    let config = world.config(&format!("[Route]\nrouter-id={}", world.project.router_id));
    let all = nodes(&world, 3).0;
    *world.host.nodes.borrow_mut() = all.clone();
    let cloud = world.cloud(&config);
    let cidrs = [
        "10.244.0.0/16".parse().unwrap(),
        "2001:db8:244::/48".parse().unwrap(),
    ];
    let wanted: Vec<NewRoute> = all
        .iter()
        .enumerate()
        .flat_map(|(number, node)| {
            [
                new(node, &format!("10.244.{number}.0/24")),
                new(node, &format!("2001:db8:244:{number}::/64")),
            ]
        })
        .collect();
    world.calls();
    let answers = routes::create(&cloud, &wanted);
    println!("{answers:?}");
    assert!(answers.iter().all(Result::is_ok));
    let calls = world.calls();
    println!("ROUTES 6 on 3 nodes, {} calls: {calls:#?}", calls.len());
    assert_eq!(changes(&calls).len(), 4);
    assert!(routes::create(&cloud, &wanted).iter().all(Result::is_ok));
    let again = world.calls();
    assert_eq!(changes(&again).len(), 1, "{again:#?}");
    let listed = routes::list(&cloud, &cidrs).unwrap();
    // The host maps the next hop to a node.
    let hops = |node: &Node| {
        let of_node = |route: &&Route| {
            let hops = route.target_addresses.as_deref().unwrap_or_default();
            hops.len() == 1 && hops.iter().all(|hop| node.addresses.contains(hop))
        };
        listed.iter().filter(of_node).cloned().collect::<Vec<_>>()
    };
    assert_eq!(
        (
            listed.len(),
            all.iter().map(|node| hops(node).len()).collect::<Vec<_>>()
        ),
        (6, vec![2, 2, 2])
    );
    let pairs = |node: &Node| {
        let id = node
            .provider_id
            .as_deref()
            .unwrap()
            .rsplit('/')
            .next()
            .unwrap()
            .to_owned();
        let ports: Vec<Value> = cloud
            .list(Kind::Network, "/ports", vec![("device_id", &id)])
            .unwrap();
        ports[0]["allowed_address_pairs"].as_array().unwrap().len()
    };
    assert_eq!(all.iter().map(pairs).collect::<Vec<_>>(), [2, 2, 2]);
    // A node is deleted.
    assert!(
        routes::delete(&cloud, &hops(&all[2]))
            .iter()
            .all(Result::is_ok)
    );
    assert_eq!(all.iter().map(pairs).collect::<Vec<_>>(), [2, 2, 0]);
    world.calls();
    assert!(
        routes::delete(&cloud, &listed).iter().all(Result::is_ok),
        "what is gone is gone"
    );
    let calls = world.calls();
    println!("DELETE 6, {} calls: {calls:#?}", calls.len());
    assert_eq!(routes::list(&cloud, &cidrs).unwrap(), []);
    assert_eq!(all.iter().map(pairs).collect::<Vec<_>>(), [0, 0, 0]);
}

#[test]
#[ignore = "one of those that take minutes together"]
fn with_old_neutron_the_whole_route_list_is_replaced() {
    let world = World::new(2);
    let config = world.config(&format!("[Route]\nrouter-id={}", world.project.router_id));
    let all = nodes(&world, 2).0;
    *world.host.nodes.borrow_mut() = all.clone();
    let cloud = world.cloud(&config);
    let key = format!("extensions {}", cloud.url(Kind::Network, "").unwrap());
    skydock_openstack::host_functions::HostFunctions::cache(
        &world.host,
        &key,
        b"extraroute",
        std::time::Duration::from_secs(60),
    );
    let cidrs = ["10.245.0.0/16".parse().unwrap()];
    let wanted = [new(&all[0], "10.245.0.0/24"), new(&all[1], "10.245.1.0/24")];
    world.calls();
    assert!(routes::create(&cloud, &wanted).iter().all(Result::is_ok));
    let calls = world.calls();
    assert_eq!(changes(&calls).len(), 1, "{calls:#?}");
    let listed = routes::list(&cloud, &cidrs).unwrap();
    assert_eq!(listed.len(), 2);
    assert!(routes::delete(&cloud, &listed).iter().all(Result::is_ok));
    assert_eq!(routes::list(&cloud, &cidrs).unwrap(), []);
    // A change based on an outdated revision is rejected.
    let path = format!("/routers/{}", config.router_id);
    let request = cloud
        .request(Method::Put, Kind::Network, &path, "stale")
        .unwrap()
        .if_revision(Some(1));
    let stale = request
        .json(&json!({"router": {"routes": [{"destination": "10.246.0.0/24", "nexthop": "10.9.200.77"}]}}))
        .unwrap()
        .send()
        .unwrap_err();
    assert!(
        matches!(stale, skydock_sdk::types::CloudError::Conflict(_)),
        "{stale:?}"
    );
}
