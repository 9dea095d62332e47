//! Subnets of load balancers and members, and the addresses of nodes in them.

use skydock_sdk::types::IpFamily;

use super::*;

/// A network `dual` with the subnets `s4` and `s6`, and a network `plain` with `s4b`.
fn networks(script: &Script) {
    let subnet = |id: &str, network: &str, version: u8, cidr: &str| json!({"id": id, "network_id": network, "ip_version": version, "cidr": cidr});
    let dual = [
        subnet("s4", "dual", 4, "10.0.0.0/24"),
        subnet("s6", "dual", 6, "2001:db8::/64"),
    ];
    let plain = subnet("s4b", "plain", 4, "172.20.0.0/24");
    for one in dual.iter().chain([&plain]) {
        let path = format!(
            "GET http://network/v2.0/subnets/{}",
            one["id"].as_str().unwrap()
        );
        script.on(&path, 200, json!({"subnet": one}));
    }
    script
        .on(
            "GET http://network/v2.0/subnets?network_id=dual",
            200,
            json!({"subnets": dual}),
        )
        .on(
            "GET http://network/v2.0/subnets?network_id=plain",
            200,
            json!({"subnets": [plain]}),
        )
        .on(
            "GET http://network/v2.0/subnets/hidden",
            404,
            json!({"NeutronError": {}}),
        );
}

/// A node with an address of each family in each network.
struct Interfaces;

impl Nodes for Interfaces {
    fn targets(&self) -> Rc<[Target]> {
        let at = |address: &str| NodeAddress {
            kind: AddressKind::InternalIp,
            address: address.to_owned(),
        };
        Rc::new([Target {
            name: "n".to_owned(),
            provider_id: Some("openstack:///server".to_owned()),
            zone: None,
            addresses: ["10.0.0.21", "172.20.0.21", "2001:db8:f::21", "2001:db8::21"]
                .map(at)
                .to_vec(),
        }])
    }

    fn nodes(&self) -> Vec<Node> {
        Vec::new()
    }
}

fn of_family(family: IpFamily, annotations: &[(&str, &str)]) -> Service {
    let service = Service {
        ip_families: vec![family],
        ..service(false)
    };
    annotations
        .iter()
        .fold(service, |service, (key, value)| with(service, key, value))
}

/// Returns the subnet of the VIP, and address and subnet of the member.
fn created(config: &str, service: &Service) -> Result<[Value; 3]> {
    let script = Script::new(&format!("[LoadBalancer]\n{config}"));
    named(&script, &[]);
    networks(&script);
    script.on(
        &format!("POST {BALANCERS}"),
        201,
        json!({"loadbalancer": balancer("PENDING_CREATE")}),
    );
    match ensure(&script.cloud(), service, &Interfaces) {
        Err(CloudError::InProgress(_)) => {}
        other => return Err(other.unwrap_err()),
    }
    let body = script.sent("POST ").remove(0)["loadbalancer"].clone();
    let member = &body["listeners"][0]["default_pool"]["members"][0];
    Ok([
        &body["vip_subnet_id"],
        &member["address"],
        &member["subnet_id"],
    ]
    .map(Value::clone))
}

#[test]
fn subnets_and_addresses_have_the_ip_family_of_the_service() {
    use IpFamily::{Ipv4, Ipv6};
    let none = Value::Null;
    let (v4, v6) = (json!("10.0.0.21"), json!("2001:db8::21"));
    for (config, family, annotations, expected) in [
        ("network-id=dual", Ipv4, &[][..], [&none, &v4, &none]),
        ("network-id=dual", Ipv6, &[], [&json!("s6"), &v6, &none]),
        ("subnet-id=s4", Ipv4, &[], [&json!("s4"), &v4, &json!("s4")]),
        ("subnet-id=s4", Ipv6, &[], [&json!("s6"), &v6, &json!("s6")]),
        ("subnet-id=s6", Ipv4, &[], [&json!("s4"), &v4, &json!("s4")]),
        (
            "subnet-id=s4",
            Ipv6,
            &[(annotation::SUBNET_ID, "s6")],
            [&json!("s6"), &v6, &json!("s6")],
        ),
        (
            "subnet-id=s4\nmember-subnet-id=s4b",
            Ipv6,
            &[],
            [&json!("s6"), &v6, &json!("s6")],
        ),
        // Only Octavia can tell whether it can be used.
        (
            "subnet-id=hidden",
            Ipv4,
            &[],
            [&json!("hidden"), &v4, &json!("hidden")],
        ),
    ] {
        let made = created(config, &of_family(family, annotations));
        assert_eq!(
            made,
            Ok(expected.map(Value::clone)),
            "{config} {annotations:?}"
        );
    }
}

#[test]
fn a_missing_or_wrong_ip_family_is_an_error() {
    for key in [annotation::SUBNET_ID, annotation::MEMBER_SUBNET_ID] {
        let chosen = of_family(IpFamily::Ipv6, &[(key, "s4")]);
        let error = created("network-id=dual", &chosen).unwrap_err();
        assert!(
            matches!(&error, CloudError::Invalid(text) if text.contains("subnet s4")),
            "{error:?}"
        );
    }
    // Somebody may add a subnet to the network.
    for config in ["network-id=plain", "subnet-id=s4b"] {
        let error = created(config, &of_family(IpFamily::Ipv6, &[])).unwrap_err();
        assert!(
            matches!(&error, CloudError::Denied(text) if text.contains("no IPv6 subnet")),
            "{error:?}"
        );
    }
}

#[test]
fn a_member_has_the_address_of_its_node_in_the_member_subnet() {
    let member = |config: &str, annotations: &[(&str, &str)]| {
        created(config, &of_family(IpFamily::Ipv4, annotations)).unwrap()[1].clone()
    };
    let (first, second) = (json!("10.0.0.21"), json!("172.20.0.21"));
    assert_eq!(member("subnet-id=s4", &[]), first);
    assert_eq!(member("subnet-id=s4b", &[]), second);
    assert_eq!(member("network-id=plain", &[]), second);
    assert_eq!(member("subnet-id=s4\nmember-subnet-id=s4b", &[]), second);
    for key in [annotation::MEMBER_SUBNET_ID, annotation::SUBNET_ID] {
        assert_eq!(member("subnet-id=s4", &[(key, "s4b")]), second, "{key}");
    }
}

/// With `internal-network-name`, the node does not have it.
#[test]
fn the_address_in_the_member_subnet_may_be_at_a_port() {
    // A port that is not there yet is searched again.
    for (subnet, expected, searches) in [("s4b", "172.20.0.9", 1), ("other", "10.7.0.1", 2)] {
        let script = Script::new("[LoadBalancer]\nsubnet-id=s4\nmember-subnet-id=s4b");
        named(&script, &[]);
        networks(&script);
        let fixed = json!([{"subnet_id": "s4", "ip_address": "10.7.0.1"}, {"subnet_id": subnet, "ip_address": "172.20.0.9"}]);
        script
            .on(
                "GET http://network/v2.0/ports?device_id=server",
                200,
                json!({"ports": [{"id": "p", "device_id": "server", "fixed_ips": fixed}]}),
            )
            .on(
                &format!("POST {BALANCERS}"),
                201,
                json!({"loadbalancer": balancer("PENDING_CREATE")}),
            );
        for _ in 0..2 {
            assert!(is_in_progress(&ensure(
                &script.cloud(),
                &service(false),
                &OneNode
            )));
        }
        let sent = script.sent("POST ");
        for body in &sent {
            let member = &body["loadbalancer"]["listeners"][0]["default_pool"]["members"][0];
            assert_eq!(member["address"], json!(expected));
        }
        assert_eq!(sent.len(), 2, "the second call uses what is remembered");
        let requested = script.requested();
        let reads = requested.iter().filter(|line| line.contains("/ports?"));
        assert_eq!(reads.count(), searches);
    }
}

#[test]
fn members_are_updated_to_the_addresses_in_their_subnet() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s4\nmember-subnet-id=s4b");
    named(&script, &[balancer("ACTIVE")]);
    networks(&script);
    let lbaas = "http://load-balancer/v2.0/lbaas";
    let listener = json!({"id": "l", "protocol": "TCP", "protocol_port": 80, "tags": [NAME]});
    let pool = json!({"id": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "listeners": [{"id": "l"}]});
    let member = json!({"id": "m", "name": "n", "address": "10.0.0.21", "protocol_port": 30080});
    script
        .on(
            &format!("GET {lbaas}/listeners"),
            200,
            json!({"listeners": [listener]}),
        )
        .on(
            &format!("GET {lbaas}/pools?"),
            200,
            json!({"pools": [pool]}),
        )
        .on(
            &format!("GET {lbaas}/pools/p/members"),
            200,
            json!({"members": [member]}),
        )
        .on(&format!("PUT {lbaas}"), 200, json!({}));
    assert!(is_in_progress(&update_nodes(
        &script.cloud(),
        &service(true),
        &Interfaces
    )));
    let sent = script.sent(&format!("PUT {lbaas}/pools/p/members"));

    assert_eq!(
        sent[0]["members"],
        json!([{"name": "n", "address": "172.20.0.21", "protocol_port": 30080, "subnet_id": "s4b"}])
    );
}

/// Octavia and Neutron would choose any of them.
#[test]
fn of_several_subnets_the_one_of_the_nodes_is_chosen() {
    let script = Script::new("[LoadBalancer]\nnetwork-id=many");
    named(&script, &[]);
    let subnet = |id: &str, cidr: &str| json!({"id": id, "network_id": "many", "ip_version": 6, "cidr": cidr});
    let subnets = [
        subnet("s1", "2001:db8:1::/64"),
        subnet("s2", "2001:db8::/64"),
    ];
    script
        .on(
            "GET http://network/v2.0/subnets?network_id=many",
            200,
            json!({"subnets": subnets}),
        )
        .on(
            &format!("POST {BALANCERS}"),
            201,
            json!({"loadbalancer": balancer("PENDING_CREATE")}),
        );
    let service = of_family(IpFamily::Ipv6, &[]);

    assert!(is_in_progress(&ensure(
        &script.cloud(),
        &service,
        &Interfaces
    )));

    let body = script.sent("POST ").remove(0)["loadbalancer"].clone();
    assert_eq!(body["vip_subnet_id"], json!("s2"));
}

/// The server of the first node was deleted a moment ago.
#[test]
fn the_next_node_shows_the_subnet_if_the_first_does_not() {
    struct Two;
    impl Nodes for Two {
        fn targets(&self) -> Rc<[Target]> {
            let node = |id: &str, address: &str| Target {
                name: id.to_owned(),
                provider_id: Some(format!("openstack:///{id}")),
                zone: None,
                addresses: vec![NodeAddress {
                    kind: AddressKind::InternalIp,
                    address: address.to_owned(),
                }],
            };
            Rc::new([node("gone", "10.7.0.1"), node("there", "10.7.0.2")])
        }

        fn nodes(&self) -> Vec<Node> {
            Vec::new()
        }
    }
    let script = Script::new("");
    named(&script, &[]);
    let port = json!({"id": "p", "device_id": "there", "fixed_ips": [{"subnet_id": "s", "ip_address": "10.7.0.2"}]});
    script
        .on(
            "GET http://network/v2.0/ports?device_id=gone&device_id=there",
            200,
            json!({"ports": [port]}),
        )
        .on(
            &format!("POST {BALANCERS}"),
            201,
            json!({"loadbalancer": balancer("PENDING_CREATE")}),
        );
    assert!(is_in_progress(&ensure(
        &script.cloud(),
        &service(false),
        &Two
    )));
    let body = script.sent("POST ").remove(0)["loadbalancer"].clone();

    assert_eq!(body["vip_subnet_id"], json!("s"));
}
