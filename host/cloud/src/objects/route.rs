//! Routes to Pods.

use crate::NodeAddress;

/// A route that exists in the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The cloud's name or ID of the route.
    pub name: String,
    /// Name of the node that the route leads to; `None` if the cloud does not know, or if it is not
    /// a node of the cluster.
    pub target_node: Option<String>,
    /// Addresses that the route was created with; `None` if the cloud does not know. If there is no
    /// node, the addresses that the route leads to.
    pub target_addresses: Option<Vec<NodeAddress>>,
    /// Destination of the route, a CIDR.
    pub destination_cidr: String,
    /// True if the route leads nowhere.
    pub blackhole: bool,
}

/// A route that the cluster needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRoute {
    /// `metadata.uid` of the node.
    pub name_hint: String,
    /// Name of the node.
    pub target_node: String,
    /// `spec.providerID` of the node.
    pub target_provider_id: Option<String>,
    /// `status.addresses` of the node.
    pub target_addresses: Vec<NodeAddress>,
    /// One of the node's Pod CIDRs.
    pub destination_cidr: String,
}
