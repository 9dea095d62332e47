//! What is written to initialize a node: addresses, provider ID, labels, annotations.

use skydock_cloud::{Instance, Node, NodeAddress};

use super::{
    addresses::{self, ProvidedIpError},
    labels::{self, KeyPlan},
};

/// Everything that is written to initialize a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Initialization {
    /// New value of `status.addresses`; `None` leaves them unchanged.
    pub addresses: Option<Vec<NodeAddress>>,
    /// New value of `spec.providerID`; `None` leaves it unchanged.
    pub provider_id: Option<String>,
    /// Changes of labels.
    pub labels: KeyPlan,
    /// Changes of annotations.
    pub annotations: KeyPlan,
}

/// Why a node cannot be initialized with the cloud's answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// There is no provider ID, which Kubernetes needs to identify the instance.
    #[error("cloud provider does not set node provider ID for node {0}")]
    NoProviderId(String),
    /// A node has one provider ID for its lifetime, and this one belongs to another node.
    #[error(
        "its provider ID {id:?} is that of node {other}, which is ready: if the machine was renamed, delete that Node"
    )]
    TakenProviderId {
        /// The provider ID.
        id: String,
        /// The other node.
        other: String,
    },
    /// The kubelet's `--node-ip` does not match the cloud's addresses.
    #[error("provided node ip is not valid: {0}")]
    ProvidedIp(#[from] ProvidedIpError),
}

/// Returns what to write to initialize a node.
///
/// # Errors
///
/// Returns an error if the node would have no provider ID, or if the kubelet's `--node-ip` is not
/// one of the cloud's addresses.
pub fn initialize(node: &Node, instance: &Instance) -> Result<Initialization, Rejection> {
    if node.provider_id.is_none() && instance.provider_id.is_none() {
        return Err(Rejection::NoProviderId(node.name.clone()));
    }

    Ok(Initialization {
        addresses: addresses::wanted(node, &instance.addresses)?,
        // The API server rejects a change of a provider ID.
        provider_id: instance
            .provider_id
            .clone()
            .filter(|_| node.provider_id.is_none()),
        labels: labels::plan(node, instance),
        annotations: labels::annotations(node, instance),
    })
}
