//! Resources of Neutron: ports, subnets, floating IPs, security groups, routers.

use std::net::IpAddr;

use serde::Deserialize;

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Port {
    /// The ID.
    pub id: String,
    /// The server or router it belongs to.
    #[serde(default)]
    pub device_id: String,
    /// The network.
    #[serde(default)]
    pub network_id: String,
    /// `ACTIVE`, `DOWN` …
    #[serde(default)]
    pub status: String,
    /// The addresses.
    #[serde(default)]
    pub fixed_ips: Vec<FixedIp>,
    /// The subports, if the port is the parent of a trunk.
    #[serde(default)]
    pub trunk_details: Option<Trunk>,
    /// False if the port cannot have security groups. In a cloud without this extension, all ports
    /// can.
    #[serde(default = "yes")]
    pub port_security_enabled: bool,
    /// The IDs of the security groups.
    #[serde(default)]
    pub security_groups: Vec<String>,
    /// Additional addresses that it may send from.
    #[serde(default)]
    pub allowed_address_pairs: Vec<AddressPair>,
    /// The revision, which is incremented by each change.
    #[serde(default)]
    pub revision_number: Option<u64>,
    /// Tags.
    #[serde(default)]
    pub tags: Vec<String>,
}

impl Port {
    /// Returns true if the port has this address, in whatever notation.
    #[must_use]
    pub fn is_at(&self, address: &str) -> bool {
        self.fixed_ips
            .iter()
            .any(|fixed| is_same(&fixed.ip_address, address))
    }

    /// Returns true if the port has this address in this subnet.
    #[must_use]
    pub fn is_in(&self, subnet: &str, address: &str) -> bool {
        self.fixed_ips
            .iter()
            .any(|fixed| fixed.subnet_id == subnet && is_same(&fixed.ip_address, address))
    }
}

/// Returns true if both are the same address.
#[must_use]
pub fn is_same(one: &str, other: &str) -> bool {
    one == other
        || one
            .parse::<IpAddr>()
            .is_ok_and(|ip| other.parse() == Ok(ip))
}

fn yes() -> bool {
    true
}

/// An address of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct FixedIp {
    /// The address.
    #[serde(default)]
    pub ip_address: String,
    /// The subnet.
    #[serde(default)]
    pub subnet_id: String,
}

/// The trunk of a parent port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Trunk {
    /// The subports.
    #[serde(default)]
    pub sub_ports: Vec<SubPort>,
}

/// A subport of a trunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct SubPort {
    /// The ID of the port.
    pub port_id: String,
}

/// An address a port may send from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct AddressPair {
    /// The address or CIDR.
    pub ip_address: String,
    /// The MAC address. If unset, that of the port.
    #[serde(default)]
    pub mac_address: Option<String>,
}

/// A network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Network {
    /// The ID.
    pub id: String,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// True if floating IPs come from it.
    #[serde(default, rename = "router:external")]
    pub external: bool,
    /// The IDs of the subnets.
    #[serde(default)]
    pub subnets: Vec<String>,
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Subnet {
    /// The ID.
    pub id: String,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// The network.
    #[serde(default)]
    pub network_id: String,
    /// 4 or 6.
    #[serde(default)]
    pub ip_version: u8,
    /// The address range.
    #[serde(default)]
    pub cidr: String,
}

/// A floating IP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct FloatingIp {
    /// The ID.
    pub id: String,
    /// The address.
    pub floating_ip_address: String,
    /// Who created it and for which purpose.
    #[serde(default)]
    pub description: String,
    /// The external network.
    #[serde(default)]
    pub floating_network_id: String,
    /// The port that it is attached to.
    #[serde(default)]
    pub port_id: Option<String>,
    /// The address of the port that it leads to.
    #[serde(default)]
    pub fixed_ip_address: Option<String>,
    /// The revision, which is incremented by each change.
    #[serde(default)]
    pub revision_number: Option<u64>,
}

impl FloatingIp {
    /// Returns true if the floating IP is in this network, or if any network will do because the ID
    /// is empty.
    #[must_use]
    pub fn is_in(&self, network: &str) -> bool {
        network.is_empty() || self.floating_network_id == network
    }
}

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct SecurityGroup {
    /// The ID.
    pub id: String,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// The rules.
    #[serde(default, rename = "security_group_rules")]
    pub rules: Vec<SecurityGroupRule>,
}

/// A rule of a security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct SecurityGroupRule {
    /// The ID.
    pub id: String,
    /// `ingress` or `egress`.
    #[serde(default)]
    pub direction: String,
    /// `tcp`, `udp`, `sctp`, or `None` for all protocols.
    #[serde(default)]
    pub protocol: Option<String>,
    /// `IPv4` or `IPv6`.
    #[serde(default)]
    pub ethertype: String,
    /// The source range.
    #[serde(default)]
    pub remote_ip_prefix: Option<String>,
    /// The first port.
    #[serde(default)]
    pub port_range_min: Option<u16>,
    /// The last port.
    #[serde(default)]
    pub port_range_max: Option<u16>,
}

/// A router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Router {
    /// The extra routes.
    #[serde(default)]
    pub routes: Vec<ExtraRoute>,
    /// The revision, which is incremented by each change.
    #[serde(default)]
    pub revision_number: Option<u64>,
}

/// A route of a router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ExtraRoute {
    /// The destination CIDR.
    pub destination: String,
    /// The address of the next hop.
    pub nexthop: String,
}
