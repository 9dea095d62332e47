//! Resources of Octavia: load balancers and their parts.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct LoadBalancer {
    /// The ID.
    pub id: String,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// The status of the last operation.
    #[serde(default)]
    pub provisioning_status: String,
    /// The address.
    #[serde(default)]
    pub vip_address: Option<String>,
    /// The Neutron port of the address.
    #[serde(default)]
    pub vip_port_id: Option<String>,
    /// The subnet of the address.
    #[serde(default)]
    pub vip_subnet_id: Option<String>,
    /// The network of the address.
    #[serde(default)]
    pub vip_network_id: Option<String>,
    /// The flavor.
    #[serde(default)]
    pub flavor_id: Option<String>,
    /// The availability zone.
    #[serde(default)]
    pub availability_zone: Option<String>,
    /// Tags, with the Services that use it.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// The phase of a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It accepts changes.
    Active,
    /// It is being changed and accepts no other change.
    Pending,
    /// It is being deleted, or deleted.
    Deleting,
    /// A change failed. It accepts only deletion and failover.
    Failed,
}

impl LoadBalancer {
    /// Returns the phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.provisioning_status.as_str() {
            "ACTIVE" => Phase::Active,
            "ERROR" => Phase::Failed,
            "DELETED" | "PENDING_DELETE" => Phase::Deleting,
            _ => Phase::Pending,
        }
    }
}

/// A listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Listener {
    /// The ID.
    pub id: String,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// `TCP`, `UDP`, `HTTP` …
    #[serde(default)]
    pub protocol: String,
    /// The port.
    #[serde(default)]
    pub protocol_port: u16,
    /// Maximum number of connections, or -1 for no limit.
    #[serde(default)]
    pub connection_limit: Option<i64>,
    /// The headers that it adds to requests.
    #[serde(default)]
    pub insert_headers: Option<BTreeMap<String, String>>,
    /// The TLS container.
    #[serde(default)]
    pub default_tls_container_ref: Option<String>,
    /// Timeout for inactive clients in milliseconds.
    #[serde(default)]
    pub timeout_client_data: Option<i64>,
    /// Timeout for connections to members in milliseconds.
    #[serde(default)]
    pub timeout_member_connect: Option<i64>,
    /// Timeout for inactive members in milliseconds.
    #[serde(default)]
    pub timeout_member_data: Option<i64>,
    /// How long to wait for content to inspect, in milliseconds.
    #[serde(default)]
    pub timeout_tcp_inspect: Option<i64>,
    /// The allowed client ranges.
    #[serde(default)]
    pub allowed_cidrs: Option<Vec<String>>,
    /// Tags, with the Service that it belongs to.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// A pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Pool {
    /// The ID.
    pub id: String,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// `TCP`, `PROXY` …
    #[serde(default)]
    pub protocol: String,
    /// The algorithm.
    #[serde(default)]
    pub lb_algorithm: String,
    /// The session persistence, if a client is always sent to the same member.
    #[serde(default)]
    pub session_persistence: Option<Persistence>,
    /// The listeners that use it as default pool.
    #[serde(default)]
    pub listeners: Vec<Reference>,
    /// The ID of the monitor.
    #[serde(default)]
    pub healthmonitor_id: Option<String>,
}

/// Session persistence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Persistence {
    /// `SOURCE_IP` …
    #[serde(default, rename = "type")]
    pub kind: String,
}

/// A reference to a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Reference {
    /// The ID.
    pub id: String,
}

/// A member of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Member {
    /// The ID.
    pub id: String,
    /// The name, which is that of the node.
    #[serde(default)]
    pub name: String,
    /// The address.
    #[serde(default)]
    pub address: String,
    /// The port.
    #[serde(default)]
    pub protocol_port: u16,
    /// The port for health checks, if it is different.
    #[serde(default)]
    pub monitor_port: Option<u16>,
    /// The subnet, which cannot be changed.
    #[serde(default)]
    pub subnet_id: Option<String>,
}

/// A health monitor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Monitor {
    /// The ID.
    pub id: String,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// `TCP`, `HTTP`, `UDP-CONNECT` …
    #[serde(default, rename = "type")]
    pub kind: String,
    /// Seconds between two probes.
    #[serde(default)]
    pub delay: i64,
    /// Timeout of a probe in seconds.
    #[serde(default)]
    pub timeout: i64,
    /// Number of successful probes until a member is healthy.
    #[serde(default)]
    pub max_retries: i64,
    /// Number of failed probes until a member is unhealthy.
    #[serde(default)]
    pub max_retries_down: i64,
    /// The path that HTTP probes request.
    #[serde(default)]
    pub url_path: Option<String>,
}
