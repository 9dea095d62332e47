//! What the inventory says of a node.

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

/// Where the kubelet says which addresses it was started with (`--node-ip`), before the node has any.
const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// What has become of the machine of this node.
///
/// A node of ours whose machine is not in the inventory is absent: the file is the authority, and was read whole.
///
/// # Errors
/// If the inventory does not know; the node is then left alone.
pub fn check(inventory: &Inventory, node: &Node) -> Result<Presence> {
    let owned = node.provider_id.as_deref().is_some_and(|id| inventory.owns(id));
    match find(machines(inventory)?, node)? {
        Some(Machine { state: State::Running, .. }) => Ok(Presence::Running),
        Some(Machine { state: State::Stopped, .. }) => Ok(Presence::Stopped),
        Some(Machine { state: State::Absent, .. }) => Ok(Presence::Absent),
        None if owned => Ok(Presence::Absent),
        None => Err(unknown(node)),
    }
}

/// What this node is to know about its machine.
///
/// # Errors
/// If there is no such machine, or none any more.
pub fn describe(inventory: &Inventory, node: &Node) -> Result<Instance> {
    let machine = find(machines(inventory)?, node)?.ok_or_else(|| unknown(node))?;
    if machine.state == State::Absent {
        return Err(CloudError::not_found(format!("machine `{}` is absent, says the inventory", machine.name)));
    }
    // A provider ID that a node has cannot be changed, so it stands.
    let provider_id =
        node.provider_id.clone().or_else(|| machine.provider_id.clone()).unwrap_or_else(|| machine.own_id());
    Ok(Instance {
        provider_id: Some(provider_id),
        instance_type: machine.instance_type.clone(),
        zone: machine.zone.clone(),
        region: machine.region.clone(),
        addresses: machine.addresses.iter().map(|(kind, text)| address(*kind, text)).collect(),
        labels: machine.labels.clone(),
        ..Instance::default()
    })
}

fn machines(inventory: &Inventory) -> Result<&Machines> {
    inventory.machines.as_ref().ok_or(CloudError::ImplementedElsewhere)
}

fn find<'a>(machines: &'a Machines, node: &Node) -> Result<Option<&'a Machine>> {
    let reported = node.addresses.iter().map(|address| address.address.as_str());
    let provided = node.annotations.lookup(PROVIDED_NODE_IP).unwrap_or_default().split(',');
    let addresses = reported.chain(provided).filter_map(|text| text.trim().parse::<IpAddr>().ok());
    machines
        .find(node.provider_id.as_deref(), &node.name, addresses)
        .map_err(|mismatch: Mismatch| CloudError::invalid(mismatch.to_string()))
}

fn unknown(node: &Node) -> CloudError {
    CloudError::not_found(format!("no machine of the inventory matches node {}", node.name))
}

fn address(kind: AddressType, text: &str) -> NodeAddress {
    let kind = match kind {
        AddressType::Hostname => AddressKind::Hostname,
        AddressType::InternalIP => AddressKind::InternalIp,
        AddressType::ExternalIP => AddressKind::ExternalIp,
        AddressType::InternalDNS => AddressKind::InternalDns,
        AddressType::ExternalDNS => AddressKind::ExternalDns,
    };
    NodeAddress { kind, address: text.to_owned() }
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
        Node { name: name.into(), provider_id: provider_id.map(Into::into), ..Node::default() }
    }

    #[test]
    fn a_machine_is_what_the_inventory_says() {
        for (name, id, presence) in [
            ("up", None, Presence::Running),
            ("down", None, Presence::Stopped),
            ("gone", None, Presence::Absent),
            ("up", Some("static://up"), Presence::Running),
            ("gone", Some("static://gone"), Presence::Absent),
            ("nobody", Some("static://nobody"), Presence::Absent),
            ("nobody", Some("metal://8"), Presence::Absent),
        ] {
            assert_eq!(check(&inventory(), &node(name, id)), Ok(presence), "{name} {id:?}");
        }
    }

    #[test]
    fn a_node_is_absent_only_if_it_is_ours() {
        for id in [None, Some("aws:///eu-1a/i-1")] {
            assert!(matches!(check(&inventory(), &node("nobody", id)), Err(CloudError::NotFound(_))), "{id:?}");
        }
    }

    #[test]
    fn a_node_with_another_provider_id_than_its_machine_is_left_alone() {
        let stranger = node("metal", Some("metal://6"));
        assert!(matches!(check(&inventory(), &stranger), Err(CloudError::Invalid(_))));
        assert!(matches!(describe(&inventory(), &stranger), Err(CloudError::Invalid(_))));
    }

    #[test]
    fn nodes_are_left_to_others_if_the_inventory_does_not_speak_of_machines() {
        let inventory = Inventory { machines: None, ..inventory() };
        let node = node("up", Some("static://up"));
        assert_eq!(check(&inventory, &node), Err(CloudError::ImplementedElsewhere));
        assert_eq!(describe(&inventory, &node), Err(CloudError::ImplementedElsewhere));
    }

    #[test]
    fn a_node_learns_all_that_the_inventory_knows() {
        let address = |kind, address: &str| NodeAddress { kind, address: address.into() };
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
    fn a_provider_id_is_the_nodes_own_then_the_inventorys_then_made_of_the_name() {
        for (name, id, expected) in [
            ("up", None, "static://up"),
            ("up", Some("kubemark://up"), "kubemark://up"),
            ("metal", None, "metal://7"),
            ("metal", Some("static://metal"), "static://metal"),
        ] {
            let described = describe(&inventory(), &node(name, id)).unwrap();
            assert_eq!(described.provider_id.as_deref(), Some(expected), "{name} {id:?}");
        }
    }

    #[test]
    fn what_is_not_there_is_not_described() {
        for name in ["nobody", "gone"] {
            assert!(matches!(describe(&inventory(), &node(name, None)), Err(CloudError::NotFound(_))), "{name}");
        }
    }

    #[test]
    fn a_node_is_known_by_an_address_it_reports_or_was_started_with() {
        let reported = Node {
            addresses: vec![NodeAddress { kind: AddressKind::InternalIp, address: "10.0.0.9".into() }],
            ..node("x", None)
        };
        let provided =
            Node { annotations: vec![(PROVIDED_NODE_IP.into(), "fd00::9,10.0.0.9".into())], ..node("x", None) };
        for node in [reported, provided] {
            assert_eq!(describe(&inventory(), &node).unwrap().provider_id.as_deref(), Some("static://by-address"));
        }
    }
}
