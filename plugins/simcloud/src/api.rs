//! The objects of the cloud, with the fields that are used here.
use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};

/// Our pairs on an object.
pub(crate) type Labels = BTreeMap<String, String>;

#[derive(Debug, Deserialize)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<String>,
}

/// The body of an error.
#[derive(Debug, Deserialize)]
pub(crate) struct Problem {
    pub(crate) code: String,
    /// Of the object that has the name already.
    pub(crate) id: Option<String>,
    /// What is wrong.
    pub(crate) field: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Server {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) r#type: String,
    pub(crate) zone: String,
    pub(crate) region: String,
    pub(crate) addresses: Vec<Address>,
}

/// State of a server. A state that the cloud invents later is an error, and never taken for another
/// one.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Running,
    Stopped,
}

/// An address of a server.
#[derive(Debug, Deserialize)]
pub(crate) struct Address {
    pub(crate) kind: Reach,
    pub(crate) address: IpAddr,
}

/// Where an address can be reached from.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reach {
    Internal,
    External,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LoadBalancer {
    pub(crate) id: String,
    pub(crate) status: Status,
    pub(crate) addresses: Vec<IpAddr>,
    #[serde(flatten)]
    pub(crate) spec: LoadBalancerSpec,
}

/// What we decide about a load balancer: the body of a create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoadBalancerSpec {
    pub(crate) name: String,
    pub(crate) ip_families: Vec<String>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) targets: Vec<String>,
    pub(crate) allowed_cidrs: Vec<String>,
    pub(crate) health_check_port: Option<u16>,
    pub(crate) labels: Labels,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Pending,
    Active,
    Error,
}

/// A port of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listener {
    pub(crate) protocol: String,
    pub(crate) port: u16,
    pub(crate) target_port: u16,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Route {
    pub(crate) id: String,
    pub(crate) blackhole: bool,
    #[serde(flatten)]
    pub(crate) spec: RouteSpec,
}

/// What we decide about a route: the body of a create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RouteSpec {
    pub(crate) name: String,
    pub(crate) cidr: String,
    pub(crate) target: String,
    pub(crate) labels: Labels,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Zone {
    pub(crate) name: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Volume {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) status: VolumeStatus,
    pub(crate) size_gib: u32,
    pub(crate) zone: String,
    pub(crate) iops: u32,
    pub(crate) snapshot: Option<String>,
    pub(crate) original: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) device: Option<String>,
    pub(crate) labels: Labels,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum VolumeStatus {
    Creating,
    Available,
    Attaching,
    InUse,
    Detaching,
    Error,
}

/// What we decide about a volume: the body of a create.
#[derive(Debug, Serialize)]
pub(crate) struct VolumeSpec {
    pub(crate) name: String,
    pub(crate) size_gib: u32,
    pub(crate) zone: String,
    /// The cloud's default, if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) iops: Option<u32>,
    pub(crate) snapshot: Option<String>,
    pub(crate) original: Option<String>,
    pub(crate) labels: Labels,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) id: String,
    pub(crate) volume: String,
    pub(crate) size_gib: u32,
    pub(crate) created: u64,
    pub(crate) ready: bool,
    pub(crate) labels: Labels,
}

/// What we decide about a snapshot: the body of a create.
#[derive(Debug, Serialize)]
pub(crate) struct SnapshotSpec {
    pub(crate) name: String,
    pub(crate) volume: String,
    pub(crate) labels: Labels,
}

/// What has our labels.
pub(crate) trait Labeled {
    fn labels(&self) -> &Labels;
}

impl Labeled for Volume {
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

impl Labeled for Snapshot {
    fn labels(&self) -> &Labels {
        &self.labels
    }
}
