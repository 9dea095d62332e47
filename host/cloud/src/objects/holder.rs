//! The holder of an IP address or a name: a Node or a Service of the cluster.

use std::fmt;

/// An object of the cluster to which an IP address or a name belongs, so that nothing else may have
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A Service has it as a cluster IP.
    ClusterIp {
        /// Namespace of the Service.
        namespace: String,
        /// Name of the Service.
        name: String,
    },
    /// A Service has it in `spec.externalIPs`, where its user has put it.
    ExternalIp {
        /// Namespace of the Service.
        namespace: String,
        /// Name of the Service.
        name: String,
    },
    /// A Service that this provider does not serve has it as the address of its load balancer.
    LoadBalancer {
        /// Namespace of the Service.
        namespace: String,
        /// Name of the Service.
        name: String,
    },
    /// A node with this name has it among its addresses.
    Node(String),
    /// It is the name of the Node object.
    NodeName(String),
    /// It is in a Pod CIDR of a node.
    Pods {
        /// The node.
        node: String,
        /// The Pod CIDR.
        cidr: String,
    },
}

/// Formats the holder as what it has, for example `a cluster IP of Service default/web`.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClusterIp { namespace, name } => {
                write!(f, "a cluster IP of Service {namespace}/{name}")
            }
            Self::ExternalIp { namespace, name } => {
                write!(f, "an external IP of Service {namespace}/{name}")
            }
            Self::LoadBalancer { namespace, name } => {
                write!(f, "the load balancer address of Service {namespace}/{name}")
            }
            Self::Node(name) => write!(f, "an address of node {name}"),
            Self::NodeName(name) => write!(f, "the name of node {name}"),
            Self::Pods { node, cidr } => write!(f, "in the Pod CIDR {cidr} of node {node}"),
        }
    }
}
