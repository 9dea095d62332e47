//! What Neutron tells: ports, subnets, floating IPs, security groups, routers.

use serde::Deserialize;

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Port {
    /// ID.
    pub id: String,
    /// The server or router it belongs to.
    #[serde(default)]
    pub device_id: String,
    /// Its network.
    #[serde(default)]
    pub network_id: String,
    /// `ACTIVE`, `DOWN` …
    #[serde(default)]
    pub status: String,
    /// Its addresses.
    #[serde(default)]
    pub fixed_ips: Vec<FixedIp>,
    /// Of a trunk's parent: its subports.
    #[serde(default)]
    pub trunk_details: Option<Trunk>,
    /// False if no security group can be on it. A cloud without the extension protects all.
    #[serde(default = "yes")]
    pub port_security_enabled: bool,
    /// IDs of its security groups.
    #[serde(default)]
    pub security_groups: Vec<String>,
    /// Further addresses that it may send from.
    #[serde(default)]
    pub allowed_address_pairs: Vec<AddressPair>,
    /// Counts changes.
    #[serde(default)]
    pub revision_number: Option<u64>,
    /// Tags.
    #[serde(default)]
    pub tags: Vec<String>,
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
    /// Its subnet.
    #[serde(default)]
    pub subnet_id: String,
}

/// What a trunk's parent port says of the trunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Trunk {
    /// Its subports.
    #[serde(default)]
    pub sub_ports: Vec<SubPort>,
}

/// A subport of a trunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct SubPort {
    /// ID of the port.
    pub port_id: String,
}

/// An address a port may send from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct AddressPair {
    /// Address or CIDR.
    pub ip_address: String,
    /// The port's own unless set.
    #[serde(default)]
    pub mac_address: Option<String>,
}

/// A network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Network {
    /// ID.
    pub id: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// True if floating IPs come from it.
    #[serde(default, rename = "router:external")]
    pub external: bool,
    /// IDs of its subnets.
    #[serde(default)]
    pub subnets: Vec<String>,
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Subnet {
    /// ID.
    pub id: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Its network.
    #[serde(default)]
    pub network_id: String,
    /// 4 or 6.
    #[serde(default)]
    pub ip_version: u8,
    /// Its addresses.
    #[serde(default)]
    pub cidr: String,
}

/// A floating IP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct FloatingIp {
    /// ID.
    pub id: String,
    /// The address.
    pub floating_ip_address: String,
    /// Who made it for what.
    #[serde(default)]
    pub description: String,
    /// The port it leads to.
    #[serde(default)]
    pub port_id: Option<String>,
}

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct SecurityGroup {
    /// ID.
    pub id: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Its rules.
    #[serde(default, rename = "security_group_rules")]
    pub rules: Vec<SecurityGroupRule>,
}

/// A rule of a security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct SecurityGroupRule {
    /// ID.
    pub id: String,
    /// `ingress` or `egress`.
    #[serde(default)]
    pub direction: String,
    /// `tcp`, `udp`, `sctp`; none for all.
    #[serde(default)]
    pub protocol: Option<String>,
    /// `IPv4` or `IPv6`.
    #[serde(default)]
    pub ethertype: String,
    /// Where traffic comes from.
    #[serde(default)]
    pub remote_ip_prefix: Option<String>,
    /// First port.
    #[serde(default)]
    pub port_range_min: Option<u16>,
    /// Last port.
    #[serde(default)]
    pub port_range_max: Option<u16>,
}

/// A router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Router {
    /// Its extra routes.
    #[serde(default)]
    pub routes: Vec<ExtraRoute>,
    /// Counts changes.
    #[serde(default)]
    pub revision_number: Option<u64>,
}

/// A route of a router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ExtraRoute {
    /// Where to, a CIDR.
    pub destination: String,
    /// Through which address.
    pub nexthop: String,
}
