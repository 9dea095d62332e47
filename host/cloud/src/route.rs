//! Routes to Pods.

use crate::NodeAddress;

/// A route the cloud has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The cloud's name for it.
    pub name: String,
    /// Node it leads to, if that is one of the cluster.
    pub target_node: Option<String>,
    /// Addresses it was made with; `None` if the cloud does not know.
    pub target_addresses: Option<Vec<NodeAddress>>,
    /// Where it leads, a CIDR.
    pub destination_cidr: String,
    /// It leads nowhere.
    pub blackhole: bool,
}

/// A route the cluster needs.
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
