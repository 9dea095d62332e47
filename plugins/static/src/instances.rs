//! Answers for nodes, from the machines in the inventory.

use std::net::IpAddr;

use skydock_sdk::{
    Lookup, Result,
    instances::{Instance, Presence},
    types::{AddressKind, CloudError, Node, NodeAddress},
};

use crate::{
    inventory::Inventory,
    machine::{AddressType, Machine, Machines, Mismatch, State},
};

/// Annotation with the addresses that the kubelet was started with (`--node-ip`). It is set before
/// the node has addresses.
const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// Returns the state of the machine that this node runs on.
///
/// A node of this provider whose machine is not in the inventory is absent: the file is
/// authoritative and was read completely.
///
/// # Errors
/// Returns an error if the inventory cannot tell. The node is not changed in this case.
pub fn check(inventory: &Inventory, node: &Node) -> Result<Presence> {
    let owned = node
        .provider_id
        .as_deref()
        .is_some_and(|id| inventory.owns(id));

    match find(machines(inventory)?, node)? {
        Some(Machine {
            state: State::Running,
            ..
        }) => Ok(Presence::Running),
        Some(Machine {
            state: State::Stopped,
            ..
        }) => Ok(Presence::Stopped),
        Some(Machine {
            state: State::Absent,
            ..
        }) => Ok(Presence::Absent),
        None if owned => Ok(Presence::Absent),
        None => Err(unknown(node)),
    }
}

/// Returns the metadata of the machine that this node runs on.
///
/// # Errors
/// Returns an error if the inventory has no such machine, or marks it as absent.
pub fn describe(inventory: &Inventory, node: &Node) -> Result<Instance> {
    let machine = find(machines(inventory)?, node)?.ok_or_else(|| unknown(node))?;
    if machine.state == State::Absent {
        return Err(CloudError::not_found(format!(
            "machine `{}` is marked as absent in the inventory",
            machine.name
        )));
    }

    // The provider ID of a node is immutable, so the node's own ID takes precedence.
    let provider_id = node
        .provider_id
        .clone()
        .or_else(|| machine.provider_id.clone())
        .unwrap_or_else(|| machine.own_id());

    Ok(Instance {
        provider_id: Some(provider_id),
        instance_type: machine.instance_type.clone(),
        zone: machine.zone.clone(),
        region: machine.region.clone(),
        addresses: machine
            .addresses
            .iter()
            .map(|(kind, text)| address(*kind, text))
            .collect(),
        labels: machine.labels.clone(),
        ..Instance::default()
    })
}

fn machines(inventory: &Inventory) -> Result<&Machines> {
    inventory
        .machines
        .as_ref()
        .ok_or(CloudError::ImplementedElsewhere)
}

fn find<'a>(machines: &'a Machines, node: &Node) -> Result<Option<&'a Machine>> {
    let reported = node
        .addresses
        .iter()
        .map(|address| address.address.as_str());
    let provided = node
        .annotations
        .lookup(PROVIDED_NODE_IP)
        .unwrap_or_default()
        .split(',');

    let addresses = reported
        .chain(provided)
        .filter_map(|text| text.trim().parse::<IpAddr>().ok());

    machines
        .find(node.provider_id.as_deref(), &node.name, addresses)
        .map_err(|mismatch: Mismatch| CloudError::invalid(mismatch.to_string()))
}

fn unknown(node: &Node) -> CloudError {
    CloudError::not_found(format!(
        "no machine in the inventory matches node {}",
        node.name
    ))
}

fn address(kind: AddressType, text: &str) -> NodeAddress {
    let kind = match kind {
        AddressType::Hostname => AddressKind::Hostname,
        AddressType::InternalIP => AddressKind::InternalIp,
        AddressType::ExternalIP => AddressKind::ExternalIp,
        AddressType::InternalDNS => AddressKind::InternalDns,
        AddressType::ExternalDNS => AddressKind::ExternalDns,
    };
    NodeAddress {
        kind,
        address: text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory() -> Inventory {
        Inventory::parse(
            "apiVersion: static.skydock.dev/v1alpha1
kind: Inventory
machines:
- {name: up}
- {name: down, state: stopped}
- {name: gone, state: absent}
- {name: metal, providerID: 'metal://7', instanceType: big, zone: z, region: r, labels: {rack: '1'},
   addresses: [{type: InternalIP, address: 10.0.0.7}, {type: ExternalDNS, address: m.example.com}]}
- {name: by-address, match: {address: 10.0.0.9}}
",
        )
        .unwrap()
    }

    fn node(name: &str, provider_id: Option<&str>) -> Node {
        Node {
            name: name.into(),
            provider_id: provider_id.map(Into::into),
            ..Node::default()
        }
    }

    #[test]
    fn presence_comes_from_the_inventory() {
        for (name, id, presence) in [
            ("up", None, Presence::Running),
            ("down", None, Presence::Stopped),
            ("gone", None, Presence::Absent),
            ("up", Some("static://up"), Presence::Running),
            ("gone", Some("static://gone"), Presence::Absent),
            ("nobody", Some("static://nobody"), Presence::Absent),
            ("nobody", Some("metal://8"), Presence::Absent),
        ] {
            assert_eq!(
                check(&inventory(), &node(name, id)),
                Ok(presence),
                "{name} {id:?}"
            );
        }
    }

    #[test]
    fn a_node_is_absent_only_with_our_provider_id() {
        for id in [None, Some("aws:///eu-1a/i-1")] {
            assert!(
                matches!(
                    check(&inventory(), &node("nobody", id)),
                    Err(CloudError::NotFound(_))
                ),
                "{id:?}"
            );
        }
    }

    #[test]
    fn a_node_with_a_conflicting_provider_id_is_invalid() {
        let stranger = node("metal", Some("metal://6"));
        assert!(matches!(
            check(&inventory(), &stranger),
            Err(CloudError::Invalid(_))
        ));
        assert!(matches!(
            describe(&inventory(), &stranger),
            Err(CloudError::Invalid(_))
        ));
    }

    #[test]
    fn without_machines_nodes_are_implemented_elsewhere() {
        let inventory = Inventory {
            machines: None,
            ..inventory()
        };
        let node = node("up", Some("static://up"));
        assert_eq!(
            check(&inventory, &node),
            Err(CloudError::ImplementedElsewhere)
        );
        assert_eq!(
            describe(&inventory, &node),
            Err(CloudError::ImplementedElsewhere)
        );
    }

    #[test]
    fn a_node_gets_all_fields_of_its_machine() {
        let address = |kind, address: &str| NodeAddress {
            kind,
            address: address.into(),
        };

        assert_eq!(
            describe(&inventory(), &node("metal", None)),
            Ok(Instance {
                provider_id: Some("metal://7".into()),
                instance_type: Some("big".into()),
                zone: Some("z".into()),
                region: Some("r".into()),
                addresses: vec![
                    address(AddressKind::InternalIp, "10.0.0.7"),
                    address(AddressKind::ExternalDns, "m.example.com")
                ],
                labels: vec![("rack".into(), "1".into())],
                annotations: Vec::new(),
            })
        );
    }

    #[test]
    fn provider_id_comes_from_node_then_inventory_then_name() {
        for (name, id, expected) in [
            ("up", None, "static://up"),
            ("up", Some("kubemark://up"), "kubemark://up"),
            ("metal", None, "metal://7"),
            ("metal", Some("static://metal"), "static://metal"),
        ] {
            let described = describe(&inventory(), &node(name, id)).unwrap();
            assert_eq!(
                described.provider_id.as_deref(),
                Some(expected),
                "{name} {id:?}"
            );
        }
    }

    #[test]
    fn describing_a_missing_machine_is_not_found() {
        for name in ["nobody", "gone"] {
            assert!(
                matches!(
                    describe(&inventory(), &node(name, None)),
                    Err(CloudError::NotFound(_))
                ),
                "{name}"
            );
        }
    }

    #[test]
    fn a_node_matches_by_reported_or_provided_node_ip() {
        let reported = Node {
            addresses: vec![NodeAddress {
                kind: AddressKind::InternalIp,
                address: "10.0.0.9".into(),
            }],
            ..node("x", None)
        };
        let provided = Node {
            annotations: vec![(PROVIDED_NODE_IP.into(), "fd00::9,10.0.0.9".into())],
            ..node("x", None)
        };

        for node in [reported, provided] {
            assert_eq!(
                describe(&inventory(), &node)
                    .unwrap()
                    .provider_id
                    .as_deref(),
                Some("static://by-address")
            );
        }
    }
}
