//! A Kubernetes Node as a provider sees it.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use crate::Pairs;

/// Kind of a node address (core/v1 NodeAddressType).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // named as in Kubernetes
pub enum AddressKind {
    Hostname,
    InternalIp,
    ExternalIp,
    InternalDns,
    ExternalDns,
}

impl AddressKind {
    /// Returns the name that Kubernetes uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hostname => "Hostname",
            Self::InternalIp => "InternalIP",
            Self::ExternalIp => "ExternalIP",
            Self::InternalDns => "InternalDNS",
            Self::ExternalDns => "ExternalDNS",
        }
    }

    /// Parses the name that Kubernetes uses; returns `None` for an unknown kind.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [
            Self::Hostname,
            Self::InternalIp,
            Self::ExternalIp,
            Self::InternalDns,
            Self::ExternalDns,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == text)
    }
}

/// One address of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAddress {
    /// Kind of the address.
    pub kind: AddressKind,
    /// IP address or DNS name.
    pub address: String,
}

/// Effect of a taint on Pods that do not tolerate it (core/v1 TaintEffect).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // named as in Kubernetes
pub enum TaintEffect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

/// One taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taint {
    /// Qualified name.
    pub key: String,
    /// Empty if the taint has none.
    pub value: String,
    /// Effect of the taint.
    pub effect: TaintEffect,
}

/// A Kubernetes Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `spec.providerID`; `None` if empty.
    pub provider_id: Option<String>,
    /// `metadata.labels`.
    pub labels: Pairs,
    /// `metadata.annotations`.
    pub annotations: Pairs,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `status.addresses`.
    pub addresses: Vec<NodeAddress>,
    /// `spec.podCIDRs`.
    pub pod_cidrs: Vec<String>,
    /// True if the condition Ready is True.
    pub ready: bool,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `status.nodeInfo.systemUUID`.
    pub system_uuid: String,
    /// `status.nodeInfo.machineID`.
    pub machine_id: String,
    /// `status.nodeInfo.architecture`.
    pub architecture: String,
    /// `status.nodeInfo.operatingSystem`.
    pub operating_system: String,
    /// `status.nodeInfo.osImage`.
    pub os_image: String,
    /// `metadata.creationTimestamp`, in seconds since the Unix epoch.
    pub creation_timestamp: u64,
}

/// Label with the zone of a node.
pub const LABEL_ZONE: &str = "topology.kubernetes.io/zone";

impl Node {
    /// Returns the zone, if the node has one.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        let zone = self.labels.get(LABEL_ZONE).map(String::as_str);
        zone.filter(|zone| !zone.is_empty())
    }
}

/// The fields of the nodes behind a load balancer that a provider reads. When one of them changes,
/// the provider may choose other members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeFields {
    /// Those of a `target` of the contract: name, provider ID, zone and addresses.
    #[default]
    Target,
    /// Also labels, taints, and whether a node is ready or unschedulable.
    All,
}

impl NodeFields {
    /// Returns true if these fields of the nodes are equal. Annotations are not among them: other
    /// components write them all the time.
    #[must_use]
    pub fn is_same(self, one: &Node, other: &Node) -> bool {
        let targets = one.name == other.name
            && one.provider_id == other.provider_id
            && one.zone() == other.zone()
            && one.addresses == other.addresses;
        let rest = || {
            one.labels == other.labels
                && one.taints == other.taints
                && one.ready == other.ready
                && one.unschedulable == other.unschedulable
        };

        targets && (self == Self::Target || rest())
    }

    /// Hashes these fields of a node.
    pub fn hash(self, node: &Node, hasher: &mut impl Hasher) {
        (&node.name, &node.provider_id, node.zone(), &node.addresses).hash(hasher);
        if self == Self::All {
            (&node.labels, &node.taints, node.ready, node.unschedulable).hash(hasher);
        }
    }
}

/// The nodes behind a load balancer, without duplicates, ordered by name. Shared, because there may
/// be thousands of nodes behind each of a thousand load balancers.
pub type NodeSet = Arc<[Arc<Node>]>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_kinds_are_spelled_as_in_kubernetes() {
        for text in [
            "Hostname",
            "InternalIP",
            "ExternalIP",
            "InternalDNS",
            "ExternalDNS",
        ] {
            assert_eq!(
                AddressKind::parse(text).map(AddressKind::as_str),
                Some(text)
            );
        }
        for text in ["", "hostname", "InternalIp", "PublicIP"] {
            assert_eq!(AddressKind::parse(text), None, "{text}");
        }
    }
}
