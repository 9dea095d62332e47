//! What Octavia tells: load balancers and their parts.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct LoadBalancer {
    /// ID.
    pub id: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// What it is at.
    #[serde(default)]
    pub provisioning_status: String,
    /// Its address.
    #[serde(default)]
    pub vip_address: Option<String>,
    /// Neutron port of its address.
    #[serde(default)]
    pub vip_port_id: Option<String>,
    /// Subnet of its address.
    #[serde(default)]
    pub vip_subnet_id: Option<String>,
    /// Tags: the Services it serves.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// What a load balancer is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It takes changes.
    Active,
    /// A change is under way, and no other is taken.
    Pending,
    /// It is being deleted, or is.
    Going,
    /// A change failed, and nothing but deletion or failover is taken.
    Failed,
}

impl LoadBalancer {
    /// What it is at.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.provisioning_status.as_str() {
            "ACTIVE" => Phase::Active,
            "ERROR" => Phase::Failed,
            "DELETED" | "PENDING_DELETE" => Phase::Going,
            _ => Phase::Pending,
        }
    }
}

/// A listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Listener {
    /// ID.
    pub id: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// `TCP`, `UDP`, `HTTP` …
    #[serde(default)]
    pub protocol: String,
    /// Its port.
    #[serde(default)]
    pub protocol_port: u16,
    /// Most connections; -1 is without limit.
    #[serde(default)]
    pub connection_limit: Option<i64>,
    /// Headers it adds to requests.
    #[serde(default)]
    pub insert_headers: Option<BTreeMap<String, String>>,
    /// TLS container.
    #[serde(default)]
    pub default_tls_container_ref: Option<String>,
    /// Milliseconds a client may be silent.
    #[serde(default)]
    pub timeout_client_data: Option<i64>,
    /// Milliseconds to connect to a member.
    #[serde(default)]
    pub timeout_member_connect: Option<i64>,
    /// Milliseconds a member may be silent.
    #[serde(default)]
    pub timeout_member_data: Option<i64>,
    /// Milliseconds to wait for what is to be inspected.
    #[serde(default)]
    pub timeout_tcp_inspect: Option<i64>,
    /// Who may come.
    #[serde(default)]
    pub allowed_cidrs: Option<Vec<String>>,
    /// Tags: the Service it is of.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// A pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Pool {
    /// ID.
    pub id: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// `TCP`, `PROXY` …
    #[serde(default)]
    pub protocol: String,
    /// Algorithm.
    #[serde(default)]
    pub lb_algorithm: String,
    /// Whether a client stays with its member.
    #[serde(default)]
    pub session_persistence: Option<Persistence>,
    /// The listeners whose default it is.
    #[serde(default)]
    pub listeners: Vec<Reference>,
    /// Its monitor.
    #[serde(default)]
    pub healthmonitor_id: Option<String>,
}

/// How a client stays with its member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Persistence {
    /// `SOURCE_IP` …
    #[serde(default, rename = "type")]
    pub kind: String,
}

/// Something by its ID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Reference {
    /// ID.
    pub id: String,
}

/// A member of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Member {
    /// ID.
    pub id: String,
    /// Name: the node's.
    #[serde(default)]
    pub name: String,
    /// Its address.
    #[serde(default)]
    pub address: String,
    /// Its port.
    #[serde(default)]
    pub protocol_port: u16,
    /// Port that is probed, if it is another.
    #[serde(default)]
    pub monitor_port: Option<u16>,
}

/// A health monitor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Monitor {
    /// ID.
    pub id: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// `TCP`, `HTTP`, `UDP-CONNECT` …
    #[serde(default, rename = "type")]
    pub kind: String,
    /// Seconds between two probes.
    #[serde(default)]
    pub delay: i64,
    /// Seconds a probe may take.
    #[serde(default)]
    pub timeout: i64,
    /// Probes until a member is well.
    #[serde(default)]
    pub max_retries: i64,
    /// Probes until a member is not.
    #[serde(default)]
    pub max_retries_down: i64,
    /// What HTTP probes ask for.
    #[serde(default)]
    pub url_path: Option<String>,
}
