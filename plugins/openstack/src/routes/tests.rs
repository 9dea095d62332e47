use serde_json::json;

use super::*;
use crate::testing::Script;

fn route(destination: &str, nexthop: &str) -> ExtraRoute {
    ExtraRoute {
        destination: destination.to_owned(),
        nexthop: nexthop.to_owned(),
    }
}

fn internal(address: &str) -> NodeAddress {
    NodeAddress {
        kind: AddressKind::InternalIp,
        address: address.to_owned(),
    }
}

#[test]
fn the_name_of_a_route_encodes_its_next_hop() {
    let shown = to_host(&route("2001:db8:1::5/64", "2001:DB8:0::1"));
    assert_eq!((shown.target_node, shown.blackhole), (None, false));
    assert_eq!(
        shown.target_addresses,
        Some(vec![internal("2001:DB8:0::1")])
    );
    assert_eq!(shown.destination_cidr, "2001:db8:1::/64");
    assert_eq!(
        named(&shown.name),
        Some(route("2001:db8:1::5/64", "2001:DB8:0::1"))
    );
    assert_eq!(named("other"), None);
}

const CIDR: &str = "10.244.0.0/24";

/// Sets up a router in these networks, and a port at the next hop in this network with these
/// allowed addresses.
fn neutron(interfaces: &[&str], network: &str, pairs: &[&str]) -> Script {
    let script = Script::new("[Route]\nrouter-id=r");
    let interfaces: Vec<_> = interfaces
        .iter()
        .map(|network| json!({"id": "i", "device_id": "r", "network_id": network, "fixed_ips": [{"subnet_id": "near"}]}))
        .collect();
    let pairs: Vec<_> = pairs
        .iter()
        .map(|pair| json!({"ip_address": pair}))
        .collect();
    let port = json!({"id": "p", "network_id": network, "fixed_ips": [{"subnet_id": "s", "ip_address": "10.0.0.5"}],
        "allowed_address_pairs": pairs});
    let extensions =
        ["allowed-address-pairs", "extraroute-atomic"].map(|alias| json!({"alias": alias}));
    script
        .on(
            "GET http://network/v2.0/extensions",
            200,
            json!({"extensions": extensions}),
        )
        .on(
            "GET http://network/v2.0/ports?fixed_ips",
            200,
            json!({"ports": [port]}),
        )
        .on(
            "GET http://network/v2.0/ports?device_id=r",
            200,
            json!({"ports": interfaces}),
        )
        .on(
            "GET http://network/v2.0/routers/r ",
            200,
            json!({"router": {"routes": []}}),
        )
        .on("PUT http://network/v2.0/ports/p", 200, json!({}))
        .on("PUT http://network/v2.0/routers/r/", 200, json!({}));
    script
}

/// Returns the requests that change something, in order.
fn changes(script: &Script) -> Vec<String> {
    let requested = script.requested().into_iter();
    requested
        .filter_map(|line| {
            line.strip_prefix("PUT http://network/v2.0")
                .map(str::to_owned)
        })
        .collect()
}

fn new_route() -> NewRoute {
    NewRoute {
        name_hint: String::new(),
        target_node: "n".to_owned(),
        target_provider_id: None,
        target_addresses: vec![internal("10.0.0.5")],
        destination_cidr: CIDR.to_owned(),
    }
}

#[test]
fn address_pairs_are_changed_before_the_route() {
    let script = neutron(&["net"], "net", &[]);
    assert_eq!(create(&script.cloud(), &[new_route()]), [Ok(())]);
    assert_eq!(changes(&script), ["/ports/p", "/routers/r/add_extraroutes"]);

    let script = neutron(&["net"], "net", &[CIDR]);
    let there = to_host(&route(CIDR, "10.0.0.5"));
    assert_eq!(
        delete(&script.cloud(), std::slice::from_ref(&there)),
        [Ok(())]
    );
    assert_eq!(
        changes(&script),
        ["/ports/p", "/routers/r/remove_extraroutes"]
    );

    // A failed removal is retried as long as the route exists.
    script.on("PUT http://network/v2.0/ports/p", 503, json!({}));
    assert!(matches!(
        delete(&script.cloud(), &[there])[..],
        [Err(CloudError::Unavailable(_))]
    ));
    assert_eq!(changes(&script), ["/ports/p"]);
}

#[test]
fn the_next_hop_is_in_a_network_of_the_router() {
    let script = neutron(&["net"], "net", &[CIDR]);
    // The router is in one of two subnets of the network.
    let subnet = |id: &str, cidr: &str| json!({"id": id, "network_id": "net", "cidr": cidr});
    script.on(
        "GET http://network/v2.0/subnets?id=near",
        200,
        json!({"subnets": [subnet("near", "10.0.0.0/24"), subnet("far", "172.20.0.0/24")]}),
    );
    let two = NewRoute {
        target_addresses: vec![internal("172.20.0.5"), internal("10.0.0.5")],
        ..new_route()
    };

    assert_eq!(create(&script.cloud(), &[two]), [Ok(())]);

    let added = script.sent("PUT http://network/v2.0/routers/r/add_extraroutes");
    assert_eq!(
        added[0]["router"]["routes"],
        json!([{"destination": CIDR, "nexthop": "10.0.0.5"}])
    );
}

/// The first address of a node changed, and both are at the same port.
#[test]
fn an_address_pair_of_another_route_is_kept() {
    let port = |fixed: &[&str]| {
        let fixed: Vec<_> = fixed
            .iter()
            .map(|address| json!({"subnet_id": "s", "ip_address": address}))
            .collect();
        json!({"ports": [{"id": "p", "network_id": "net", "fixed_ips": fixed, "allowed_address_pairs": [{"ip_address": CIDR}]}]})
    };
    let old = to_host(&route(CIDR, "10.0.0.5"));
    let routes = [route(CIDR, "10.0.0.5"), route(CIDR, "10.0.0.6")];
    let script = neutron(&["net"], "net", &[]);
    script.on(
        "GET http://network/v2.0/routers/r ",
        200,
        json!({"router": {"routes": body(&routes)}}),
    );
    script.on(
        "GET http://network/v2.0/ports?fixed_ips",
        200,
        port(&["10.0.0.5", "10.0.0.6"]),
    );

    assert_eq!(
        delete(&script.cloud(), std::slice::from_ref(&old)),
        [Ok(())]
    );
    assert_eq!(changes(&script), ["/routers/r/remove_extraroutes"]);

    // The other route leads to another port.
    script.on(
        "GET http://network/v2.0/ports?fixed_ips",
        200,
        port(&["10.0.0.5"]),
    );
    assert_eq!(delete(&script.cloud(), &[old]), [Ok(())]);
    assert_eq!(
        changes(&script),
        ["/ports/p", "/routers/r/remove_extraroutes"]
    );
}

/// A Neutron that ignores a filter returns the ports of other routers, too.
#[test]
fn networks_of_other_routers_are_not_used() {
    let script = neutron(&[], "net", &[]);
    let foreign = json!({"id": "i", "device_id": "other", "network_id": "net"});
    script.on(
        "GET http://network/v2.0/ports?device_id=r",
        200,
        json!({"ports": [foreign]}),
    );
    assert!(matches!(
        create(&script.cloud(), &[new_route()])[..],
        [Err(CloudError::NotFound(_))]
    ));
    assert_eq!(changes(&script), [""; 0]);
}

/// Another cluster of the project may have the same addresses.
#[test]
fn a_port_outside_the_routers_networks_is_not_changed() {
    for script in [neutron(&[], "other", &[]), neutron(&["net"], "other", &[])] {
        assert!(matches!(
            create(&script.cloud(), &[new_route()])[..],
            [Err(CloudError::NotFound(_))]
        ));
        assert_eq!(changes(&script), [""; 0]);
    }
}

#[test]
fn routes_outside_the_cluster_cidrs_are_omitted() {
    let cidrs: Vec<IpNet> = vec!["10.244.0.0/16".parse().unwrap()];
    assert!(is_clusters(&route("10.244.3.0/24", "10.0.0.1"), &cidrs));
    assert!(!is_clusters(&route("192.168.0.0/24", "10.0.0.1"), &cidrs));
    assert!(is_clusters(&route("192.168.0.0/24", "10.0.0.1"), &[]));
}

#[test]
fn the_next_hop_is_an_internal_address_of_the_family() {
    let addresses = vec![
        NodeAddress {
            kind: AddressKind::ExternalIp,
            address: "203.0.113.1".to_owned(),
        },
        internal("2001:db8::1"),
        internal("10.0.0.1"),
    ];
    let new = |cidr: &str| NewRoute {
        name_hint: String::new(),
        target_node: "n1".to_owned(),
        target_provider_id: None,
        target_addresses: addresses.clone(),
        destination_cidr: cidr.to_owned(),
    };
    assert_eq!(
        nexthop(&new("10.244.0.0/24"), &[]).unwrap().nexthop,
        "10.0.0.1"
    );
    assert_eq!(
        nexthop(&new("2001:db8:1::/64"), &[]).unwrap().nexthop,
        "2001:db8::1"
    );

    let none = NewRoute {
        target_addresses: addresses[..1].to_vec(),
        ..new("10.244.0.0/24")
    };
    assert!(matches!(nexthop(&none, &[]), Err(CloudError::NotFound(_))));
}

#[test]
fn list_changes_keep_routes_of_others() {
    let there = [route("a", "1"), route("b", "2")];
    assert_eq!(
        changed(&there, &[route("b", "2"), route("c", "3")], true),
        [route("a", "1"), route("b", "2"), route("c", "3")]
    );
    assert_eq!(
        changed(&there, &[route("b", "2"), route("c", "3")], false),
        [route("a", "1")]
    );
    assert_eq!(changed(&there, &[route("b", "9")], false), there);

    let there = [route("2001:db8:0::/64", "2001:DB8::1")];
    let same = [route("2001:db8::/64", "2001:db8:0::1")];
    assert_eq!(changed(&there, &same, true), there, "in another notation");
    assert_eq!(changed(&there, &same, false), []);
}

#[test]
fn one_bad_route_does_not_affect_the_others() {
    let read = |number: &u8| {
        if *number == 0 {
            Err(CloudError::invalid("bad"))
        } else {
            Ok(route(&number.to_string(), "1"))
        }
    };
    let act = |routes: &[ExtraRoute]| {
        if routes.iter().any(|route| route.destination == "2") {
            return Err(CloudError::invalid("two"));
        }
        Ok(vec![Ok(()); routes.len()])
    };
    let answers = each(&[1, 0, 2, 3], read, act);
    assert_eq!(
        answers,
        [
            Ok(()),
            Err(CloudError::invalid("bad")),
            Err(CloudError::invalid("two")),
            Ok(())
        ]
    );

    let down = each(&[1, 3], read, |_| Err(CloudError::unavailable("down")));
    assert_eq!(down, vec![Err(CloudError::unavailable("down")); 2]);
}
