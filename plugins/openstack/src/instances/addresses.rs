//! The addresses of a node in upstream's order: addresses of active ports, the access addresses,
//! the name in the metadata, then Nova's list of addresses by network, including floating IPs.

use std::{
    cmp::Ordering,
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
};

use ipnet::IpNet;
use skydock_sdk::types::{AddressKind, NodeAddress};

use crate::{
    config::Networking,
    services::{
        compute::{Server, ServerAddress},
        network::Port,
    },
};

/// A subport of a trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subport {
    /// The name of the network.
    pub network: String,
    /// The addresses.
    pub addresses: Vec<String>,
}

/// Returns the addresses of a server with these ports.
#[must_use]
pub fn addresses(
    server: &Server,
    ports: &[&Port],
    subports: &BTreeMap<String, Subport>,
    networking: &Networking,
) -> Vec<NodeAddress> {
    let mut list = List {
        addresses: Vec::new(),
        no_ipv6: networking.ipv6_support_disabled,
    };

    for fixed in ports
        .iter()
        .filter(|port| port.status == "ACTIVE")
        .flat_map(|port| &port.fixed_ips)
    {
        list.add_ip(AddressKind::InternalIp, &fixed.ip_address);
    }

    list.add_ip(AddressKind::ExternalIp, &server.access_ipv4);
    list.add_ip(AddressKind::ExternalIp, &server.access_ipv6);
    if let Some(name) = server
        .metadata
        .get("hostname")
        .filter(|name| !name.is_empty())
    {
        list.add(AddressKind::Hostname, name);
    }

    for (network, addresses) in by_network(server, ports, subports) {
        for address in addresses {
            if address.kind == "floating" {
                list.add_ip(AddressKind::ExternalIp, &address.addr);
            } else if networking.public_networks.contains(&network) {
                // The address was added as internal above, with its port.
                list.remove(&address.addr);
                list.add_ip(AddressKind::ExternalIp, &address.addr);
            } else if networking.internal_networks.is_empty()
                || networking.internal_networks.contains(&network)
            {
                list.add_ip(AddressKind::InternalIp, &address.addr);
            } else {
                // The address was added as internal above, with its port.
                list.remove(&address.addr);
            }
        }
    }

    sort(&mut list.addresses, &networking.address_sort_order);
    list.addresses
}

/// Returns Nova's list of addresses, with those of subports of trunks, which Nova does not know.
fn by_network(
    server: &Server,
    ports: &[&Port],
    subports: &BTreeMap<String, Subport>,
) -> BTreeMap<String, Vec<ServerAddress>> {
    let mut networks = server.addresses.clone();
    let ids = ports
        .iter()
        .filter_map(|port| port.trunk_details.as_ref())
        .flat_map(|trunk| &trunk.sub_ports);

    for subport in ids.filter_map(|port| subports.get(&port.port_id)) {
        let fixed = |addr: &String| ServerAddress {
            addr: addr.clone(),
            kind: "fixed".to_owned(),
        };

        networks
            .entry(subport.network.clone())
            .or_default()
            .extend(subport.addresses.iter().map(fixed));
    }

    networks
}

struct List {
    addresses: Vec<NodeAddress>,
    no_ipv6: bool,
}

impl List {
    fn add(&mut self, kind: AddressKind, address: &str) {
        let new = NodeAddress {
            kind,
            address: address.to_owned(),
        };

        if !self.addresses.contains(&new) {
            self.addresses.push(new);
        }
    }

    fn add_ip(&mut self, kind: AddressKind, address: &str) {
        let is_wanted = address
            .parse()
            .is_ok_and(|ip: IpAddr| ip.is_ipv4() || !self.no_ipv6);
        if is_wanted {
            self.add(kind, address);
        }
    }

    fn remove(&mut self, address: &str) {
        self.addresses.retain(|other| other.address != address);
    }
}

/// Sorts addresses. Those in the first CIDR come first, in numerical order. Those in none come
/// last, in their original order.
fn sort(addresses: &mut [NodeAddress], order: &[IpNet]) {
    let rank = |address: &NodeAddress| {
        let ip = address.address.parse::<IpAddr>().ok();
        ip.and_then(|ip| order.iter().position(|net| net.contains(&ip)))
            .unwrap_or(order.len())
    };

    addresses.sort_by(|left, right| {
        let here = rank(left);
        let there = rank(right);
        here.cmp(&there).then_with(|| {
            if here == order.len() {
                Ordering::Equal
            } else {
                number(left).cmp(&number(right))
            }
        })
    });
}

/// Returns an address in the form in which Go compares it: IPv4 mapped to IPv6.
fn number(address: &NodeAddress) -> Option<Ipv6Addr> {
    Some(match address.address.parse().ok()? {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    })
}
