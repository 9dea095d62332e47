use std::sync::Arc;

use serde_json::json;
use skydock_cloud::AddressKind;
use skydock_controller_base::{objects::constants::TAINT_UNINITIALIZED, testing::with};
use skydock_kube::informer::Entry;

use super::*;

/// Parses the ranges of upstream's tests.
fn cidrs(list: &[&str]) -> ClusterCidrs {
    ClusterCidrs::parse(list).unwrap()
}

fn addresses(list: &[&str]) -> Vec<NodeAddress> {
    list.iter()
        .map(|address| NodeAddress {
            kind: AddressKind::InternalIp,
            address: (*address).into(),
        })
        .collect()
}

fn node(name: &str, ips: &[&str], pod_cidrs: &[&str]) -> Node {
    Node {
        name: name.into(),
        uid: format!("uid-{name}"),
        provider_id: Some(format!("fake://{name}")),
        addresses: addresses(ips),
        pod_cidrs: pod_cidrs.iter().map(|cidr| (*cidr).to_owned()).collect(),
        ..Node::default()
    }
}

fn route(target: &str, cidr: &str) -> Route {
    Route {
        name: format!("{target}-{cidr}"),
        target_node: Some(target.to_owned()).filter(|target| !target.is_empty()),
        target_addresses: None,
        destination_cidr: cidr.into(),
        blackhole: false,
    }
}

fn made_with(route: Route, ips: &[&str]) -> Route {
    Route {
        target_addresses: Some(addresses(ips)),
        ..route
    }
}

fn blackhole(route: Route) -> Route {
    Route {
        blackhole: true,
        ..route
    }
}

/// Returns `TARGET CIDR` for each route that exists after the plan was carried out, with its
/// addresses if the cloud knows them.
fn after(routes: &[Route], nodes: &[Node], ranges: &ClusterCidrs, knows: bool) -> Vec<String> {
    let nodes: Vec<&Node> = nodes.iter().collect();
    let done = plan(routes.to_vec(), &nodes, ranges);
    let mut table: Vec<Route> = routes
        .iter()
        .filter(|route| !done.deletes.contains(route))
        .cloned()
        .collect();
    table.extend(done.creates.into_iter().map(|create| Route {
        target_addresses: knows.then_some(create.route.target_addresses),
        ..route(&create.route.target_node, &create.route.destination_cidr)
    }));
    // A second run has nothing to do.
    let again = plan(table.clone(), &nodes, ranges);
    assert!(
        again.deletes.is_empty() && again.creates.is_empty(),
        "{again:?}"
    );
    let text = |route: &Route| {
        let target = route.target_node.as_deref().unwrap_or("?");
        let ips = route
            .target_addresses
            .iter()
            .flatten()
            .map(|address| format!(" {}", address.address));
        format!(
            "{target} {}{}",
            route.destination_cidr,
            ips.collect::<String>()
        )
    };
    let mut all: Vec<String> = table.iter().map(text).collect();
    all.sort();
    all
}

const V4: &[&str] = &["10.120.0.0/16"];
const DUAL: &[&str] = &["10.120.0.0/16", "a00:100::/24"];

fn single() -> Vec<Node> {
    vec![
        node("node-1", &["10.0.1.1"], &["10.120.0.0/24"]),
        node("node-2", &["10.0.1.2"], &["10.120.1.0/24"]),
    ]
}

fn dual() -> Vec<Node> {
    vec![
        node("node-1", &["10.0.1.1"], &["10.120.0.0/24", "a00:100::/48"]),
        node(
            "node-2",
            &["10.0.1.2"],
            &["10.120.1.0/24", "a00:100:1::/48"],
        ),
    ]
}

/// Returns the routes that [`dual`] and [`single`] need.
fn dual_routes() -> Vec<Route> {
    vec![
        route("node-1", "10.120.0.0/24"),
        route("node-1", "a00:100::/48"),
        route("node-2", "10.120.1.0/24"),
        route("node-2", "a00:100:1::/48"),
    ]
}

const DUAL_AFTER: &[&str] = &[
    "node-1 10.120.0.0/24",
    "node-1 a00:100::/48",
    "node-2 10.120.1.0/24",
    "node-2 a00:100:1::/48",
];
const SINGLE_AFTER: &[&str] = &["node-1 10.120.0.0/24", "node-2 10.120.1.0/24"];

fn single_routes() -> Vec<Route> {
    vec![
        route("node-1", "10.120.0.0/24"),
        route("node-2", "10.120.1.0/24"),
    ]
}

// Holds
#[test]
fn routes_become_those_the_nodes_need() {
    let with = |mut routes: Vec<Route>, more: &[Route]| {
        routes.extend_from_slice(more);
        routes
    };
    let crossed = vec![
        route("node-1", "10.120.1.0/24"),
        route("node-1", "a00:100:1::/48"),
        route("node-2", "10.120.0.0/24"),
        route("node-2", "a00:100::/48"),
    ];
    let without = vec![
        node("node-1", &["10.0.1.1"], &["10.120.0.0/24"]),
        node("node-2", &["10.0.1.2"], &[]),
    ];
    for (case, routes, nodes, ranges, expected) in [
        ("3: none is there", vec![], dual(), DUAL, DUAL_AFTER),
        ("4: all are there", dual_routes(), dual(), DUAL, DUAL_AFTER),
        ("5: they are crossed", crossed, dual(), DUAL, DUAL_AFTER),
        (
            "6: some are there",
            dual_routes()[1..3].to_vec(),
            dual(),
            DUAL,
            DUAL_AFTER,
        ),
        (
            "7: some lead to nodes that are gone",
            with(
                dual_routes(),
                &[
                    route("node-x", "10.120.2.0/24"),
                    route("node-y", "a00:100:2::/48"),
                ],
            ),
            dual(),
            DUAL,
            DUAL_AFTER,
        ),
        (
            "8: all are there, single stack",
            single_routes(),
            single(),
            V4,
            SINGLE_AFTER,
        ),
        (
            "10: one is there",
            single_routes()[..1].to_vec(),
            single(),
            V4,
            SINGLE_AFTER,
        ),
        (
            "11: none is there, single stack",
            vec![],
            single(),
            V4,
            SINGLE_AFTER,
        ),
        (
            "12: two lead to nodes that are gone",
            with(
                single_routes(),
                &[
                    route("node-3", "10.120.2.0/24"),
                    route("node-4", "10.120.3.0/24"),
                ],
            ),
            single(),
            V4,
            SINGLE_AFTER,
        ),
        (
            "13: one is wrong",
            vec![
                route("node-1", "10.120.0.0/24"),
                route("node-2", "10.120.5.0/24"),
            ],
            single(),
            V4,
            SINGLE_AFTER,
        ),
        (
            "14: one node has no CIDR",
            vec![],
            without,
            V4,
            &SINGLE_AFTER[..1],
        ),
        (
            "15: a black hole in our range",
            with(single_routes(), &[blackhole(route("", "10.120.3.0/24"))]),
            single(),
            V4,
            SINGLE_AFTER,
        ),
        (
            "16: a black hole outside our range",
            with(single_routes(), &[blackhole(route("", "10.1.2.0/24"))]),
            single(),
            V4,
            &["? 10.1.2.0/24", SINGLE_AFTER[0], SINGLE_AFTER[1]],
        ),
    ] {
        assert_eq!(
            after(&routes, &nodes, &cidrs(ranges), false),
            expected,
            "{case}"
        );
    }
}

// Holds: R-07
#[test]
fn a_route_with_other_known_addresses_is_recreated() {
    let changed: Vec<Route> = single_routes()
        .into_iter()
        .map(|route| made_with(route, &["10.0.9.9"]))
        .collect();
    let unknown: Vec<Route> = dual_routes()
        .into_iter()
        .map(|route| made_with(route, &[]))
        .collect();
    let fresh = |expected: &[&str]| -> Vec<String> {
        let ip = |line: &str| {
            if line.starts_with("node-1") {
                "10.0.1.1"
            } else {
                "10.0.1.2"
            }
        };
        expected
            .iter()
            .map(|line| format!("{line} {}", ip(line)))
            .collect()
    };
    // Cases 1, 2 and 9 of upstream's table.
    assert_eq!(
        after(&unknown, &dual(), &cidrs(DUAL), true),
        fresh(DUAL_AFTER)
    );
    assert_eq!(
        after(&changed, &single(), &cidrs(V4), true),
        fresh(SINGLE_AFTER)
    );

    let many = [node("n", &["10.0.0.1", "10.0.0.2"], &["10.120.0.0/24"])];
    let nodes: Vec<&Node> = many.iter().collect();
    let order = made_with(route("n", "10.120.0.0/24"), &["10.0.0.2", "10.0.0.1"]);
    assert_eq!(
        plan(vec![order], &nodes, &cidrs(V4)),
        Plan::default(),
        "they are compared as sets"
    );
    assert_eq!(
        plan(vec![route("n", "10.120.0.0/24")], &nodes, &cidrs(V4)),
        Plan::default(),
        "not known, not compared"
    );
}

// Holds: R-07
#[test]
fn cidrs_are_compared_by_value() {
    let node = node("n", &[], &["A00:0100:0000::/48"]);
    assert_eq!(
        plan(vec![route("n", "a00:100::/48")], &[&node], &cidrs(DUAL)),
        Plan::default()
    );
}

// Holds: R-08
#[test]
fn a_black_hole_of_a_node_is_replaced_in_the_same_run() {
    let hole = blackhole(route("node-1", "10.120.0.0/24"));
    let node = &single()[0];
    let plan = plan(vec![hole.clone()], &[node], &cidrs(V4));
    assert_eq!(plan.deletes, [hole]);
    assert_eq!(
        (
            plan.creates[0].after.as_slice(),
            plan.creates[0].replaces_own_route
        ),
        (&[0][..], false)
    );
}

// Holds: R-09
#[test]
fn a_route_is_ours_if_either_end_is_in_a_cluster_range() {
    for (range, cidr, ours) in [
        ("10.244.0.0/16", "10.244.0.0/24", true),
        ("10.244.0.0/16", "10.244.10.0/24", true),
        ("10.244.0.0/16", "10.244.255.0/24", true),
        ("10.244.0.0/14", "10.244.0.0/24", true),
        ("10.244.0.0/14", "10.247.255.0/24", true),
        ("a00:100::/10", "a00:100::/24", true),
        ("10.244.0.0/16", "10.224.0.0/24", false),
        ("10.244.0.0/16", "10.0.10.0/24", false),
        ("10.244.0.0/16", "10.255.255.0/24", false),
        ("10.244.0.0/14", "10.248.0.0/24", false),
        ("10.244.0.0/14", "10.243.255.0/24", false),
        ("a00:100::/10", "b00:100::/24", false),
        // Larger than the range, and starting or ending with it.
        ("10.244.0.0/16", "10.244.0.0/15", true),
        ("10.245.0.0/16", "10.244.0.0/15", true),
        ("10.245.0.0/16", "10.244.0.0/14", false),
        ("10.244.0.0/16", "10.244.0.0", false),
        ("10.244.0.0/16", "pods", false),
    ] {
        assert_eq!(
            touches_cluster_cidrs(cidr, &cidrs(&[range])),
            ours,
            "{cidr} in {range}"
        );
    }
}

#[test]
fn an_invalid_cidr_is_created_but_never_deleted() {
    let ranges = cidrs(&["10.244.0.0/16"]);
    for cidr in ["pods", "10.244.0.0"] {
        assert!(!touches_cluster_cidrs(cidr, &ranges), "{cidr}");
        assert!(is_within_cluster_cidrs(cidr, &ranges), "{cidr}");
    }
}

// Holds: R-10
#[test]
fn a_route_outside_our_ranges_is_never_changed() {
    let gone = route("node-x", "10.1.0.0/24");
    let routes = vec![
        gone,
        blackhole(route("", "10.1.1.0/24")),
        route("", "10.1.2.0/24"),
        route("node-1", "10.1.3.0/24"),
    ];
    assert_eq!(
        plan(routes, &[&node("node-1", &[], &[])], &cidrs(V4)),
        Plan::default()
    );
}

// Holds: R-12
#[test]
fn a_new_route_waits_only_for_routes_it_replaces() {
    let nodes = [
        node("a", &["1.1.1.1"], &["10.120.0.0/24", "10.120.8.0/24"]),
        node("b", &[], &["10.120.4.0/23"]),
    ];
    let routes = vec![
        route("gone", "10.120.0.0/24"),
        route("gone", "10.120.4.0/24"),
        route("gone", "10.120.0.0/20"),
        route("gone", "10.120.64.0/24"),
        made_with(route("a", "10.120.8.0/24"), &["2.2.2.2"]),
    ];

    let plan = plan(routes, &[&nodes[0], &nodes[1]], &cidrs(V4));
    let waits: Vec<_> = plan
        .creates
        .iter()
        .map(|create| {
            (
                create.route.destination_cidr.as_str(),
                create.after.as_slice(),
                create.replaces_own_route,
            )
        })
        .collect();
    assert_eq!(
        waits,
        [
            ("10.120.0.0/24", &[0, 2][..], false),
            ("10.120.8.0/24", &[2, 4], true),
            ("10.120.4.0/23", &[1, 2], false)
        ]
    );
}

// Holds
#[test]
fn a_new_route_has_all_fields_and_families_share_the_uid() {
    let node = node(
        "n",
        &["10.0.0.1", "fd00::1"],
        &["10.120.0.0/24", "a00:100::/48"],
    );
    let plan = plan(vec![], &[&node], &cidrs(DUAL));
    let expected = |cidr: &str| NewRoute {
        name_hint: "uid-n".into(),
        target_node: "n".into(),
        target_provider_id: Some("fake://n".into()),
        target_addresses: addresses(&["10.0.0.1", "fd00::1"]),
        destination_cidr: cidr.into(),
    };

    let routes: Vec<_> = plan
        .creates
        .into_iter()
        .map(|create| create.route)
        .collect();
    assert_eq!(
        routes,
        [expected("10.120.0.0/24"), expected("a00:100::/48")]
    );
}

// Holds: R-14
#[test]
fn a_node_with_a_duplicate_cidr_gets_one_route() {
    // Case 17 of upstream's table; upstream requests the route twice, and the second request fails.
    let node = node("n", &[], &["10.120.0.0/24", "10.120.0.0/24"]);
    assert_eq!(after(&[], &[node], &cidrs(V4), false), ["n 10.120.0.0/24"]);
}

// Holds: R-19
#[test]
fn a_node_without_pod_cidrs_but_with_our_route_is_stranded() {
    let nodes = [
        node("a", &[], &[]),
        node("b", &[], &[]),
        node("c", &[], &[]),
        node("d", &[], &["10.120.9.0/24"]),
    ];
    let routes = vec![
        route("a", "10.120.0.0/24"),
        route("c", "10.1.0.0/24"),
        route("d", "10.120.8.0/24"),
    ];
    let plan = plan(routes, &nodes.iter().collect::<Vec<_>>(), &cidrs(V4));
    assert_eq!(plan.stranded, ["a".to_owned()].into());
}

// Holds: R-07
#[test]
fn a_route_we_could_not_delete_is_never_created() {
    let pod_cidrs = [
        "10.120.1.0/24",
        "10.96.0.0/16",
        "0.0.0.0/0",
        "10.120.0.0/15",
        "a00:100::/48",
    ];
    let nodes = [
        node("a", &[], &pod_cidrs),
        node("b", &[], &["192.168.0.0/24"]),
        node("c", &[], &["10.1.0.0/24"]),
    ];

    let routes = vec![route("c", "10.1.0.0/24")];
    let plan = plan(
        routes,
        &nodes.iter().collect::<Vec<_>>(),
        &cidrs(&["10.120.0.0/16"]),
    );
    let made: Vec<_> = plan
        .creates
        .iter()
        .map(|create| create.route.destination_cidr.as_str())
        .collect();
    assert_eq!((made, plan.deletes.len()), (vec!["10.120.1.0/24"], 0));

    let outside = |name: &str| {
        plan.outside
            .get(name)
            .map(Vec::as_slice)
            .unwrap_or_default()
    };
    assert_eq!(
        outside("a"),
        ["0.0.0.0/0", "10.120.0.0/15", "10.96.0.0/16", "a00:100::/48"]
    );
    assert_eq!(outside("b"), ["192.168.0.0/24"]);
    assert_eq!(
        outside("c"),
        <[String; 0]>::default(),
        "a route that is there already stays as it is"
    );
}

#[test]
fn routes_of_5000_reassigned_nodes_are_planned_quickly() {
    let cidr = |n: u32| format!("10.{}.{}.0/24", n >> 8, n & 255);
    let nodes: Vec<Node> = (0..5000)
        .map(|n| node(&format!("n{n}"), &[], &[&cidr(n)]))
        .collect();
    let routes: Vec<Route> = (0..5000)
        .map(|n| route(&format!("n{}", (n + 1) % 5000), &cidr(n)))
        .collect();
    let begin = std::time::Instant::now();

    let plan = plan(
        routes,
        &nodes.iter().collect::<Vec<_>>(),
        &cidrs(&["10.0.0.0/8"]),
    );
    assert_eq!((plan.deletes.len(), plan.creates.len()), (5000, 5000));
    assert!(plan.creates.iter().all(|create| create.after.len() == 1));
    assert!(
        begin.elapsed() < std::time::Duration::from_secs(10),
        "{:?}",
        begin.elapsed()
    );
}

/// A provider that knows only next hops reports routes that lead nowhere in the same way as routes
/// to nodes of others.
#[test]
fn the_host_maps_next_hop_addresses_to_nodes() {
    let hop = |ip: &str, cidr: &str| Route {
        target_node: None,
        ..made_with(route("", cidr), &[ip])
    };
    let nodes = single();
    let there = [
        hop("10.0.1.1", "10.120.0.0/24"),
        hop("10.0.1.2", "10.120.1.0/24"),
        hop("10.0.1.9", "10.120.2.0/24"),
    ];

    let nodes: Vec<&Node> = nodes.iter().collect();
    let done = plan(there.to_vec(), &nodes, &cidrs(V4));
    assert_eq!((done.deletes, done.creates), (there[2..].to_vec(), vec![]));

    // An instance that was registered again as another node has the address of the first node,
    // which still exists.
    let heir = node("node-3", &["10.0.1.2"], &["10.120.3.0/24"]);
    let nodes: Vec<&Node> = nodes.into_iter().chain([&heir]).collect();
    let more = hop("10.0.1.2", "10.120.3.0/24");
    let done = plan([&there[..2], &[more]].concat(), &nodes, &cidrs(V4));
    assert_eq!((done.deletes, done.creates), (vec![], vec![]));
}

#[test]
fn nodes_of_other_providers_and_their_routes_are_left_alone() {
    let entry = |name: &str, id: serde_json::Value, cidr: &str| -> NodeEntry {
        let taint = json!({"key": TAINT_UNINITIALIZED, "effect": "NoSchedule"});
        let taints = if name == "waiting" {
            vec![taint]
        } else {
            Vec::new()
        };
        let spec = json!({"providerID": id, "podCIDR": cidr, "podCIDRs": [cidr], "taints": taints});
        Arc::new(Entry::new(with(
            &skydock_controller_base::testing::node(name),
            &json!({"spec": spec}),
        )))
    };
    let nodes = || {
        vec![
            entry("ours", json!("fake://ours"), "10.0.1.0/24"),
            entry("theirs", json!("hcloud://bm-7"), "10.0.7.0/24"),
            entry("hand-made", json!(null), "10.0.2.0/24"),
            entry("waiting", json!(null), "10.0.3.0/24"),
            // It has registered with the Pod CIDR of a node of ours.
            entry("doubled", json!("hcloud://bm-8"), "10.0.1.0/24"),
        ]
    };
    let routes = || {
        vec![
            route("ours", "10.0.1.0/24"),
            route("", "10.0.7.0/24"),
            route("theirs", "10.0.7.0/24"),
            // The range was that of a node that does not exist any more.
            route("gone", "10.0.7.0/24"),
            route("waiting", "10.0.3.0/24"),
            route("", "10.0.9.0/24"),
        ]
    };
    let names = |nodes: &[NodeEntry]| {
        let names = nodes.iter().map(|node| node.name().to_owned());
        names.collect::<Vec<_>>()
    };

    let info = skydock_controller_base::testing::info();
    let (left, own_nodes) = leave_other_providers(routes(), nodes(), &info);
    assert_eq!(names(&own_nodes), ["ours", "hand-made"]);
    assert_eq!(
        left,
        [
            route("ours", "10.0.1.0/24"),
            route("gone", "10.0.7.0/24"),
            route("", "10.0.9.0/24"),
        ]
    );

    // Without provider IDs of its own, a provider serves all nodes.
    let info = ProviderInfo {
        provider_id_prefixes: Vec::new(),
        ..info
    };
    let (left, own_nodes) = leave_other_providers(routes(), nodes(), &info);
    assert_eq!((left.len(), own_nodes.len()), (6, 5));
}
