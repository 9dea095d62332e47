//! What Nova tells: servers and flavors.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Server {
    /// ID.
    pub id: String,
    /// Name; not unique.
    #[serde(default)]
    pub name: String,
    /// `ACTIVE`, `SHUTOFF`, `ERROR` …
    #[serde(default)]
    pub status: String,
    /// Where it runs.
    #[serde(default, rename = "OS-EXT-AZ:availability_zone")]
    pub availability_zone: Option<String>,
    /// Address its owner wants it to be reached at.
    #[serde(default, rename = "accessIPv4")]
    pub access_ipv4: String,
    /// The same for IPv6.
    #[serde(default, rename = "accessIPv6")]
    pub access_ipv6: String,
    /// What its owner noted.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// Addresses, by name of the network.
    #[serde(default)]
    pub addresses: BTreeMap<String, Vec<ServerAddress>>,
    /// Its size.
    #[serde(default)]
    pub flavor: FlavorOfServer,
}

/// An address of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ServerAddress {
    /// The address.
    #[serde(default)]
    pub addr: String,
    /// `fixed` or `floating`.
    #[serde(default, rename = "OS-EXT-IPS:type")]
    pub kind: String,
}

/// What a server says of its flavor, from microversion 2.47 on: there is no ID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct FlavorOfServer {
    /// The flavor's name when the server was made.
    #[serde(default)]
    pub original_name: String,
}

/// A flavor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Flavor {
    /// ID.
    pub id: String,
    /// Name.
    #[serde(default)]
    pub name: String,
}
