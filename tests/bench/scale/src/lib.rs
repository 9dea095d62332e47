//! The interface between the benchmark of scale and its API server.
//!
//! The API server is a separate process, so that its resource usage is not counted as Skydock's. It
//! also simulates kubelets: an order is one request, instead of ten thousand requests from ten
//! thousand kubelets.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The path for orders.
pub const ORDERS: &str = "/bench/orders";
/// The path for [`Stats`].
pub const STATS: &str = "/bench/stats";
/// The prefix length of routes and Pod CIDRs, which is sufficient for 131,072 nodes.
pub const POD_CIDR_LENGTH: u32 = 25;

/// An order to change the cluster. Nodes are identified by number: `node-7` is 7.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Registers nodes, like kubelets that wait for their cloud.
    Register(Range<u32>),
    /// Adds the taint for uninitialized nodes to existing nodes again.
    Taint(Range<u32>),
    /// Reports an unchanged status, like kubelets.
    Report(Range<u32>),
    /// Sets the `Ready` condition to `Unknown`, as for kubelets that do not report.
    Silence {
        /// The nodes.
        nodes: Range<u32>,
        /// True if the cloud does not have the instances.
        gone: bool,
    },
    /// Sets the `Ready` condition to `True` again.
    Recover(Range<u32>),
    /// Excludes a node from load balancers, or includes it again.
    Exclude {
        /// The node.
        node: u32,
        /// True to exclude the node.
        excluded: bool,
    },
    /// Assigns Pod CIDRs to nodes.
    GiveCidrs(Range<u32>),
    /// Creates services of type LoadBalancer.
    Expose(Range<u32>),
    /// Makes the next write with a version to each of these nodes fail, because of a simulated
    /// concurrent change.
    Race(Range<u32>),
}

/// Statistics of the cluster and of requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// The number of nodes.
    pub nodes: usize,
    /// The number of uninitialized nodes.
    pub uninitialized: usize,
    /// The number of nodes with routes.
    pub routed: usize,
    /// The number of services.
    pub services: usize,
    /// The number of services whose load balancer has no address.
    pub without_address: usize,
    /// The number of requests by verb and resource.
    pub requests: BTreeMap<String, u64>,
    /// The number of requests that were answered with 409.
    pub conflicts: u64,
    /// The number of events by reason.
    pub events: BTreeMap<String, u64>,
    /// The number of open watches of nodes and services.
    pub watches: usize,
    /// The number of changes of nodes that the slowest watch has not received.
    pub behind: u64,
    /// The time of the last write to a node or service that was not an order, in seconds since
    /// 1970.
    pub last_write: f64,
}
