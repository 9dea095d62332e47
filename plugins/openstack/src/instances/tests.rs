use skydock_sdk::types::{AddressKind, NodeAddress};

use super::*;
use crate::{
    config::Networking,
    services::{
        compute::{FlavorOfServer, ServerAddress},
        network::{FixedIp, SubPort, Trunk},
    },
};

fn server() -> Server {
    let address = |addr: &str, kind: &str| ServerAddress {
        addr: addr.to_owned(),
        kind: kind.to_owned(),
    };
    Server {
        id: "s1".to_owned(),
        name: "node1".to_owned(),
        status: "ACTIVE".to_owned(),
        addresses: BTreeMap::from([
            (
                "private".to_owned(),
                vec![
                    address("10.0.0.32", "fixed"),
                    address("50.56.176.36", "floating"),
                ],
            ),
            (
                "public".to_owned(),
                vec![
                    address("198.51.100.7", "fixed"),
                    address("2001:db8::7", "fixed"),
                ],
            ),
        ]),
        ..Server::default()
    }
}

fn port(status: &str, ips: &[&str]) -> Port {
    let fixed_ips = ips
        .iter()
        .map(|ip| FixedIp {
            ip_address: (*ip).to_owned(),
            ..FixedIp::default()
        })
        .collect();
    Port {
        device_id: "s1".to_owned(),
        status: status.to_owned(),
        fixed_ips,
        ..Port::default()
    }
}

fn shown(server: &Server, ports: &[&Port], networking: &Networking) -> Vec<String> {
    shown_with(server, ports, &BTreeMap::new(), networking)
}

fn shown_with(
    server: &Server,
    ports: &[&Port],
    subports: &BTreeMap<String, Subport>,
    networking: &Networking,
) -> Vec<String> {
    let line = |NodeAddress { kind, address }: NodeAddress| {
        let kind = match kind {
            AddressKind::InternalIp => "in",
            AddressKind::ExternalIp => "ex",
            AddressKind::Hostname => "name",
            _ => "?",
        };
        format!("{kind} {address}")
    };
    addresses(server, ports, subports, networking)
        .into_iter()
        .map(line)
        .collect()
}

#[test]
fn addresses_are_in_the_same_order_as_upstream() {
    let mut server = server();
    server.access_ipv4 = "50.56.176.99".to_owned();
    server.access_ipv6 = "2001:db8:9::1".to_owned();
    server
        .metadata
        .insert("hostname".to_owned(), "node1.example".to_owned());
    let ports = [port("ACTIVE", &["10.0.0.32"]), port("DOWN", &["10.0.0.33"])];
    let networking = Networking {
        public_networks: vec!["public".to_owned()],
        ..Networking::default()
    };

    assert_eq!(
        shown(&server, &ports.each_ref(), &networking),
        [
            "in 10.0.0.32",
            "ex 50.56.176.99",
            "ex 2001:db8:9::1",
            "name node1.example",
            "ex 50.56.176.36",
            "ex 198.51.100.7",
            "ex 2001:db8::7"
        ]
    );
}

#[test]
fn ipv6_addresses_are_omitted_if_disabled() {
    let networking = Networking {
        ipv6_support_disabled: true,
        ..Networking::default()
    };
    let ports = [port("ACTIVE", &["2001:db8::7", "10.0.0.32"])];
    assert_eq!(
        shown(&server(), &ports.each_ref(), &networking),
        ["in 10.0.0.32", "ex 50.56.176.36", "in 198.51.100.7"]
    );
}

#[test]
fn addresses_in_public_networks_are_external() {
    let networking = Networking {
        public_networks: vec!["private".to_owned()],
        ..Networking::default()
    };
    let ports = [port("ACTIVE", &["10.0.0.32"])];
    let shown = shown(&server(), &ports.each_ref(), &networking);
    assert_eq!(
        shown,
        [
            "ex 10.0.0.32",
            "ex 50.56.176.36",
            "in 198.51.100.7",
            "in 2001:db8::7"
        ]
    );
}

#[test]
fn addresses_outside_internal_networks_are_omitted() {
    let networking = Networking {
        internal_networks: vec!["private".to_owned()],
        ..Networking::default()
    };
    let ports = [port("ACTIVE", &["198.51.100.7", "10.0.0.32"])];
    assert_eq!(
        shown(&server(), &ports.each_ref(), &networking),
        ["in 10.0.0.32", "ex 50.56.176.36"]
    );
}

#[test]
fn trunk_subport_addresses_are_included() {
    let sub_ports = vec![
        SubPort {
            port_id: "p2".to_owned(),
        },
        SubPort {
            port_id: "gone".to_owned(),
        },
    ];
    let trunk = Port {
        trunk_details: Some(Trunk { sub_ports }),
        ..port("ACTIVE", &["10.0.0.32"])
    };
    let subport = Subport {
        network: "vlan".to_owned(),
        addresses: vec!["10.7.0.9".to_owned()],
    };
    let subports = BTreeMap::from([("p2".to_owned(), subport)]);
    let server = Server {
        addresses: BTreeMap::new(),
        ..server()
    };

    assert_eq!(
        shown_with(&server, &[&trunk], &subports, &Networking::default()),
        ["in 10.0.0.32", "in 10.7.0.9"]
    );
}

#[test]
fn addresses_follow_the_configured_sort_order() {
    let order = |order: &str| Networking {
        address_sort_order: order.split(',').map(|net| net.parse().unwrap()).collect(),
        ..Networking::default()
    };
    let server = Server {
        addresses: BTreeMap::new(),
        ..server()
    };
    let ports = [port(
        "ACTIVE",
        &[
            "10.0.0.9",
            "192.168.0.2",
            "10.0.0.10",
            "172.16.0.1",
            "2001:db8::1",
        ],
    )];
    assert_eq!(
        shown(
            &server,
            &ports.each_ref(),
            &order("2001:db8::/32,10.0.0.0/8")
        ),
        [
            "in 2001:db8::1",
            "in 10.0.0.9",
            "in 10.0.0.10",
            "in 192.168.0.2",
            "in 172.16.0.1"
        ]
    );
}

#[test]
fn only_shutoff_is_stopped_and_only_404_is_absent() {
    let node = Node::default();
    let status = |status: &str| {
        Found::Server(Box::new(Server {
            status: status.to_owned(),
            ..Server::default()
        }))
    };
    assert_eq!(presence(&node, &status("SHUTOFF")), Ok(Presence::Stopped));

    for running in [
        "ACTIVE",
        "ERROR",
        "BUILD",
        "PAUSED",
        "SUSPENDED",
        "SHELVED_OFFLOADED",
        "SOFT_DELETED",
        "UNKNOWN",
    ] {
        assert_eq!(
            presence(&node, &status(running)),
            Ok(Presence::Running),
            "{running}"
        );
    }
    assert_eq!(presence(&node, &Found::Gone), Ok(Presence::Absent));
    assert!(matches!(
        presence(&node, &Found::Unknown),
        Err(CloudError::NotFound(_))
    ));
}

#[test]
fn the_instance_type_is_the_flavors_name_or_its_id() {
    let server = |name: &str| Server {
        flavor: FlavorOfServer {
            original_name: name.to_owned(),
        },
        ..Server::default()
    };
    let flavors = [Flavor {
        id: "f7".to_owned(),
        name: "big one".to_owned(),
    }];
    assert_eq!(
        instance_type(&server("m1.tiny"), &flavors).as_deref(),
        Some("m1.tiny")
    );
    assert_eq!(
        instance_type(&server("big one"), &flavors).as_deref(),
        Some("f7")
    );
    assert_eq!(
        instance_type(&server("old one"), &flavors).as_deref(),
        Some("old-one")
    );
    assert_eq!(instance_type(&server(""), &flavors), None);
}

/// Live migration changes it, and a server without a host has none.
#[test]
fn the_compute_host_is_a_label() {
    let script = crate::testing::Script::new("");
    for (host, labels) in [
        ("ab12", vec![("topology.openstack.org/host-id", "ab12")]),
        ("", vec![]),
        ("not a label", vec![]),
    ] {
        let server: Server = serde_json::from_value(serde_json::json!({
            "id": "s", "hostId": host, "accessIPv4": "10.0.0.1",
        }))
        .unwrap();
        let shown = instance(&script.cloud(), &server, &[], &BTreeMap::new(), &[]).unwrap();
        let shown: Vec<(&str, &str)> = shown
            .labels
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        assert_eq!(shown, labels, "{host}");
        assert!(shown.iter().all(|(key, _)| key.starts_with(LABELS)));
    }
}
