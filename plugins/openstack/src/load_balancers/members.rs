//! The nodes behind a load balancer and their addresses.

use std::{collections::BTreeSet, net::IpAddr};

use skydock_sdk::{
    Lookup,
    load_balancers::Target,
    types::{AddressKind, IpFamily, Node, NodeAddress},
};

use super::want::{PortWant, Want};

/// A node that can be a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backend {
    /// The name of the node.
    pub name: String,
    /// The address.
    pub address: String,
    /// The provider ID.
    pub provider_id: String,
}

/// A member of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberWant {
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

/// Returns the nodes with an address of the family.
#[must_use]
pub fn backends(targets: &[Target], family: Option<IpFamily>) -> Vec<Backend> {
    let backend = |target: &Target| {
        Some(Backend {
            name: target.name.clone(),
            address: address(&target.addresses, family)?.to_owned(),
            provider_id: target.provider_id.clone().unwrap_or_default(),
        })
    };
    targets.iter().filter_map(backend).collect()
}

/// Returns the first internal address of the family, or otherwise the first external one.
fn address(addresses: &[NodeAddress], family: Option<IpFamily>) -> Option<&str> {
    let fits = |address: &&NodeAddress| {
        let is_v6 = match address.address.parse() {
            Ok(IpAddr::V4(_)) => false,
            Ok(IpAddr::V6(_)) => true,
            Err(_) => return false,
        };
        family.is_none_or(|family| is_v6 == (family == IpFamily::Ipv6))
    };
    let of = |kind: AddressKind| {
        addresses
            .iter()
            .filter(move |address| address.kind == kind)
            .find(fits)
    };
    of(AddressKind::InternalIp)
        .or_else(|| of(AddressKind::ExternalIp))
        .map(|address| address.address.as_str())
}

/// Returns the members of the pool of a port, ordered by name.
#[must_use]
pub fn members(port: &PortWant, backends: &[Backend]) -> Vec<MemberWant> {
    if port.node_port == 0 {
        return Vec::new();
    }
    let member = |backend: &Backend| MemberWant {
        name: backend.name.clone(),
        address: backend.address.clone(),
        port: port.node_port,
        monitor_port: port.monitor_port,
    };
    let mut members: Vec<MemberWant> = backends.iter().map(member).collect();
    members.sort();
    // Octavia accepts each address only once.
    let mut seen = BTreeSet::new();
    members.retain(|member| seen.insert(member.address.clone()));
    members
}

impl Want {
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
        assert_eq!(address(&all, Some(IpFamily::Ipv4)), Some("10.0.0.1"));
        assert_eq!(address(&all, Some(IpFamily::Ipv6)), Some("2001:db8::1"));
        assert_eq!(address(&all, None), Some("2001:db8::1"));
        assert_eq!(address(&all[..2], Some(IpFamily::Ipv4)), Some("9.9.9.9"));
        assert_eq!(address(&all[..2], Some(IpFamily::Ipv6)), None);
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
        let backends = [Backend {
            name: "a".into(),
            address: "10.0.0.1".into(),
            ..Backend::default()
        }];
        assert_eq!(members(&PortWant::default(), &backends), []);
        let port = PortWant {
            node_port: 30080,
            ..PortWant::default()
        };
        assert_eq!(members(&port, &backends).len(), 1);
    }

    /// A node was replaced by one with the same address.
    #[test]
    fn an_address_of_two_nodes_is_one_member() {
        let backend = |name: &str, address: &str| Backend {
            name: name.to_owned(),
            address: address.to_owned(),
            ..Backend::default()
        };
        let backends = [
            backend("a", "10.0.0.1"),
            backend("b", "10.0.0.2"),
            backend("c", "10.0.0.1"),
        ];
        let port = PortWant {
            node_port: 30080,
            ..PortWant::default()
        };
        let names: Vec<String> = members(&port, &backends)
            .into_iter()
            .map(|member| member.name)
            .collect();
        assert_eq!(names, ["a", "b"]);
    }
}
