//! What the benchmark of scale and its API server tell each other.
//!
//! The API server is a process of its own, so that what it takes is not taken for Skydock's. It does what kubelets do, too: an
//! order is a request, where ten thousand kubelets would send ten thousand.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Where orders are posted.
pub const ORDERS: &str = "/bench/orders";
/// Where [`Stats`] are got.
pub const STATS: &str = "/bench/stats";
/// Routes and Pod CIDRs are this long: so many fit for 131,072 nodes.
pub const POD_CIDR_LENGTH: u32 = 25;

/// Something happens in the cluster. Nodes are known by their numbers: `node-7` is 7.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Nodes register, as kubelets do that wait for their cloud.
    Register(Range<u32>),
    /// Nodes that are there wait for their cloud again.
    Taint(Range<u32>),
    /// Kubelets report that nothing has changed.
    Report(Range<u32>),
    /// Kubelets are silent: nobody knows whether their nodes are ready. `gone`: the cloud does not have the machines any more.
    Silence {
        /// Whose.
        nodes: Range<u32>,
        /// What the cloud says of the machines.
        gone: bool,
    },
    /// Kubelets report again.
    Recover(Range<u32>),
    /// A node is not to be behind load balancers, or is again.
    Exclude {
        /// Which.
        node: u32,
        /// Which of the two.
        excluded: bool,
    },
    /// Nodes have a Pod CIDR.
    GiveCidrs(Range<u32>),
    /// Services of type LoadBalancer are made.
    Expose(Range<u32>),
    /// The next write to each of these nodes that names a version is too late: somebody else has just written.
    Race(Range<u32>),
}

/// What the cluster is like, and what was asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Nodes.
    pub nodes: usize,
    /// Those of them that wait for their cloud.
    pub uninitialised: usize,
    /// Those whose routes are there.
    pub routed: usize,
    /// Services.
    pub services: usize,
    /// Those of them whose load balancer has no address.
    pub without_address: usize,
    /// Requests, by verb and resource.
    pub requests: BTreeMap<String, u64>,
    /// Requests that were answered with 409.
    pub conflicts: u64,
    /// Events by reason.
    pub events: BTreeMap<String, u64>,
    /// Watches of nodes and services that are open.
    pub watches: usize,
    /// Changes of nodes that the slowest watch has not been given yet.
    pub behind: u64,
    /// When a node or service was written last by somebody who does not do it by order; seconds since 1970.
    pub last_write: f64,
}
