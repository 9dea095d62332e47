//! Nodes as kubelets register them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The values with which a kubelet registers its Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// The name of the Node.
    pub name: String,
    /// `spec.providerID`. If unset, the cloud controller has to set it.
    pub provider_id: Option<String>,
    /// Labels in addition to those that every kubelet sets.
    pub labels: BTreeMap<String, String>,
    /// Whether its kubelet has its own user, `system:node:NAME`, and requests its serving
    /// certificate from the API server. Only for nodes with containers; the user needs the
    /// ClusterRole `system:node`.
    pub requests_certificate: bool,
    /// Ports of the node, and the addresses on this machine at which they are reached. Only for nodes
    /// with containers.
    pub ports: BTreeMap<u16, SocketAddr>,
}

impl NodeSpec {
    /// Creates a node without labels and with the provider ID `kubemark://NAME`, like those of
    /// Kubernetes' own hollow nodes.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            provider_id: Some(format!("kubemark://{name}")),
            name,
            labels: BTreeMap::new(),
            requests_certificate: false,
            ports: BTreeMap::new(),
        }
    }

    /// Sets the provider ID.
    #[must_use]
    pub fn with_provider_id(self, provider_id: impl Into<String>) -> Self {
        Self {
            provider_id: Some(provider_id.into()),
            ..self
        }
    }

    /// Removes the provider ID, so that the cloud controller has to set it.
    #[must_use]
    pub fn without_provider_id(self) -> Self {
        Self {
            provider_id: None,
            ..self
        }
    }

    /// Lets the kubelet request its serving certificate.
    #[must_use]
    pub fn requesting_certificate(self) -> Self {
        Self {
            requests_certificate: true,
            ..self
        }
    }

    /// Makes a port of the node reachable at a free address on this machine.
    #[must_use]
    pub fn with_port(mut self, port: u16, address: SocketAddr) -> Self {
        self.ports.insert(port, address);
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn with_label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }
}

impl From<&str> for NodeSpec {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}
