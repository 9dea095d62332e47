//! The nodes behind a load balancer and their addresses.

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;
use skydock_sdk::{
    Lookup,
    load_balancers::Target,
    types::{AddressKind, IpFamily, Node, NodeAddress},
};

use crate::load_balancers::desired_load_balancer::{DesiredLoadBalancer, DesiredPort};

pub(crate) mod subnet;

/// A node that can be a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberNode {
    /// The name of the node.
    pub name: String,
    /// The address.
    pub address: String,
    /// The provider ID.
    pub provider_id: String,
}

/// A member of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DesiredMember {
    /// The name of the node.
    pub name: String,
    /// The address.
    pub address: String,
    /// The port.
    pub port: u16,
    /// The port for health checks, if it is different.
    pub monitor_port: Option<u16>,
}

/// Returns the nodes with these labels. A label without a value matches any value.
#[must_use]
pub fn selected(nodes: Vec<Node>, selector: &[(String, String)]) -> Vec<Target> {
    let fits = |node: &Node| {
        selector.iter().all(|(key, value)| {
            node.labels
                .lookup(key)
                .is_some_and(|label| value.is_empty() || label == value)
        })
    };

    nodes
        .into_iter()
        .filter(fits)
        .map(|node| Target {
            name: node.name,
            provider_id: node.provider_id,
            zone: None,
            addresses: node.addresses,
        })
        .collect()
}

/// Returns the nodes with an address of the family, preferably in one of these networks.
#[must_use]
pub fn member_nodes(
    targets: &[Target],
    family: Option<IpFamily>,
    nets: &[IpNet],
) -> Vec<MemberNode> {
    let node = |target: &Target| {
        Some(MemberNode {
            name: target.name.clone(),
            address: address(&target.addresses, family, nets)?.to_owned(),
            provider_id: target.provider_id.clone().unwrap_or_default(),
        })
    };

    targets.iter().filter_map(node).collect()
}

/// Returns true if the network decides which address of a node is used.
#[must_use]
pub fn is_ambiguous(targets: &[Target], family: Option<IpFamily>) -> bool {
    targets
        .iter()
        .any(|target| candidates(&target.addresses, family).count() > 1)
}

/// Returns the first address in one of the networks. If there is none, members are behind a router:
/// the first address.
fn address<'a>(
    addresses: &'a [NodeAddress],
    family: Option<IpFamily>,
    nets: &[IpNet],
) -> Option<&'a str> {
    let is_near = |(_, ip): &(&str, IpAddr)| nets.iter().any(|net| net.contains(ip));
    candidates(addresses, family)
        .find(is_near)
        .or_else(|| candidates(addresses, family).next())
        .map(|(address, _)| address)
}

/// Returns the internal addresses of the family, then the external ones.
fn candidates(
    addresses: &[NodeAddress],
    family: Option<IpFamily>,
) -> impl Iterator<Item = (&str, IpAddr)> {
    let fits = move |address: &'_ NodeAddress| {
        let ip: IpAddr = address.address.parse().ok()?;
        family
            .is_none_or(|family| ip.is_ipv6() == (family == IpFamily::Ipv6))
            .then_some(ip)
    };

    [AddressKind::InternalIp, AddressKind::ExternalIp]
        .into_iter()
        .flat_map(|kind| addresses.iter().filter(move |address| address.kind == kind))
        .filter_map(move |address| Some((address.address.as_str(), fits(address)?)))
}

/// Returns the members of the pool of a port, ordered by name.
#[must_use]
pub fn members(port: &DesiredPort, member_nodes: &[MemberNode]) -> Vec<DesiredMember> {
    if port.node_port == 0 {
        return Vec::new();
    }

    let member = |node: &MemberNode| DesiredMember {
        name: node.name.clone(),
        address: node.address.clone(),
        port: port.node_port,
        monitor_port: port.monitor_port,
    };

    let mut members: Vec<DesiredMember> = member_nodes.iter().map(member).collect();
    members.sort();

    // Octavia accepts each address only once.
    let mut seen = BTreeSet::new();
    members.retain(|member| seen.insert(member.address.clone()));
    members
}

impl DesiredLoadBalancer {
    /// Returns true if nodes are selected by label.
    #[must_use]
    pub fn selects(&self) -> bool {
        !self.node_selector.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(kind: AddressKind, address: &str) -> NodeAddress {
        NodeAddress {
            kind,
            address: address.to_owned(),
        }
    }

    #[test]
    fn internal_addresses_of_the_family_are_preferred() {
        use AddressKind::{ExternalIp, Hostname, InternalIp};
        let all = [
            at(Hostname, "n"),
            at(ExternalIp, "9.9.9.9"),
            at(InternalIp, "2001:db8::1"),
            at(InternalIp, "10.0.0.1"),
        ];
        assert_eq!(address(&all, Some(IpFamily::Ipv4), &[]), Some("10.0.0.1"));
        assert_eq!(
            address(&all, Some(IpFamily::Ipv6), &[]),
            Some("2001:db8::1")
        );
        assert_eq!(address(&all, None, &[]), Some("2001:db8::1"));
        assert_eq!(
            address(&all[..2], Some(IpFamily::Ipv4), &[]),
            Some("9.9.9.9")
        );
        assert_eq!(address(&all[..2], Some(IpFamily::Ipv6), &[]), None);
    }

    #[test]
    fn the_address_in_the_network_of_the_members_is_preferred() {
        use AddressKind::{ExternalIp, InternalIp};
        let all = [
            at(InternalIp, "10.0.0.21"),
            at(InternalIp, "172.20.0.21"),
            at(InternalIp, "2001:db8:1::1"),
            at(InternalIp, "2001:db8:2::1"),
            at(ExternalIp, "192.0.2.7"),
        ];
        let (v4, v6) = (Some(IpFamily::Ipv4), Some(IpFamily::Ipv6));
        for (family, nets, chosen) in [
            (v4, &["172.20.0.0/24"][..], "172.20.0.21"),
            (v4, &["10.0.0.0/24", "172.20.0.0/24"], "10.0.0.21"),
            (v4, &["192.0.2.0/24"], "192.0.2.7"),
            (v4, &["10.99.0.0/24"], "10.0.0.21"),
            (v4, &["2001:db8:2::/64"], "10.0.0.21"),
            (v6, &["2001:db8:2::/64"], "2001:db8:2::1"),
            (v6, &[], "2001:db8:1::1"),
        ] {
            let nets: Vec<IpNet> = nets.iter().map(|net| net.parse().unwrap()).collect();
            assert_eq!(address(&all, family, &nets), Some(chosen), "{nets:?}");
        }
    }

    #[test]
    fn nodes_are_selected_by_labels() {
        let node = |name: &str, labels: &[(&str, &str)]| Node {
            name: name.to_owned(),
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..Node::default()
        };
        let nodes = vec![
            node("a", &[("env", "prod"), ("r", "x")]),
            node("b", &[("env", "dev")]),
            node("c", &[("r", "y")]),
        ];
        let names = |selector: &[(&str, &str)]| {
            let selector: Vec<_> = selector
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect();
            selected(nodes.clone(), &selector)
                .into_iter()
                .map(|target| target.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&[("env", "prod")]), ["a"]);
        assert_eq!(names(&[("env", "")]), ["a", "b"]);
        assert_eq!(names(&[("env", ""), ("r", "x")]), ["a"]);
        assert_eq!(names(&[]), ["a", "b", "c"]);
    }

    #[test]
    fn without_a_node_port_there_are_no_members() {
        let member_nodes = [MemberNode {
            name: "a".into(),
            address: "10.0.0.1".into(),
            ..MemberNode::default()
        }];
        assert_eq!(members(&DesiredPort::default(), &member_nodes), []);
        let port = DesiredPort {
            node_port: 30080,
            ..DesiredPort::default()
        };
        assert_eq!(members(&port, &member_nodes).len(), 1);
    }

    /// A node was replaced by one with the same address.
    #[test]
    fn an_address_of_two_nodes_is_one_member() {
        let node = |name: &str, address: &str| MemberNode {
            name: name.to_owned(),
            address: address.to_owned(),
            ..MemberNode::default()
        };
        let member_nodes = [
            node("a", "10.0.0.1"),
            node("b", "10.0.0.2"),
            node("c", "10.0.0.1"),
        ];
        let port = DesiredPort {
            node_port: 30080,
            ..DesiredPort::default()
        };
        let names: Vec<String> = members(&port, &member_nodes)
            .into_iter()
            .map(|member| member.name)
            .collect();
        assert_eq!(names, ["a", "b"]);
    }
}
