//! Resources of Nova: servers and flavors.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Server {
    /// The ID.
    pub id: String,
    /// The name, which is not unique.
    #[serde(default)]
    pub name: String,
    /// `ACTIVE`, `SHUTOFF`, `ERROR` …
    #[serde(default)]
    pub status: String,
    /// The availability zone.
    #[serde(default, rename = "OS-EXT-AZ:availability_zone")]
    pub availability_zone: Option<String>,
    /// The IPv4 address at which the owner wants it to be reached.
    #[serde(default, rename = "accessIPv4")]
    pub access_ipv4: String,
    /// The IPv6 address at which the owner wants it to be reached.
    #[serde(default, rename = "accessIPv6")]
    pub access_ipv6: String,
    /// An opaque ID of the compute host, different for each project, which live migration changes.
    /// Empty without a host.
    #[serde(default, rename = "hostId")]
    pub host_id: String,
    /// Metadata of the owner.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// Addresses by name of the network.
    #[serde(default)]
    pub addresses: BTreeMap<String, Vec<ServerAddress>>,
    /// The flavor.
    #[serde(default)]
    pub flavor: FlavorOfServer,
}

/// An address of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ServerAddress {
    /// The address.
    #[serde(default)]
    pub addr: String,
    /// `immutable` or `floating_ip`.
    #[serde(default, rename = "OS-EXT-IPS:type")]
    pub kind: String,
}

/// The flavor in a server, since microversion 2.47, without an ID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct FlavorOfServer {
    /// The name of the flavor at the time when the server was created.
    #[serde(default)]
    pub original_name: String,
}

/// A flavor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Flavor {
    /// The ID.
    pub id: String,
    /// The name.
    #[serde(default)]
    pub name: String,
}
