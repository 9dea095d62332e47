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
