//! The fingerprint of the nodes of a load balancer, which is all that is remembered of them.

use skydock_cloud::{NodeFields, NodeSet};

use crate::record::digest::Digest;

/// Identifies the nodes of a load balancer, by the fields that a provider can read, as [`Digest`]s.
/// While nodes are added and removed, each of thousands of load balancers was last updated with a
/// different set of thousands of nodes: storing the sets would fill the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    targets: u128,
    nodes: u128,
}

impl Fingerprint {
    pub(crate) fn new(nodes: &NodeSet) -> Self {
        let seen = |node_fields: NodeFields| {
            let mut digest = Digest::default();
            nodes
                .iter()
                .for_each(|node| node_fields.hash(node, &mut digest));
            digest.result()
        };

        Self {
            targets: seen(NodeFields::Target),
            nodes: seen(NodeFields::All),
        }
    }

    /// Returns the nodes of which an earlier process has recorded this, for a provider that read
    /// these fields. To one that reads more or fewer, no nodes are equal to them.
    pub(crate) fn recorded(node_fields: NodeFields, digest: u128) -> Self {
        match node_fields {
            NodeFields::Target => Self {
                targets: digest,
                nodes: 0,
            },
            NodeFields::All => Self {
                targets: 0,
                nodes: digest,
            },
        }
    }

    /// Returns the digest of these fields of the nodes.
    pub(crate) fn seen(self, node_fields: NodeFields) -> u128 {
        match node_fields {
            NodeFields::Target => self.targets,
            NodeFields::All => self.nodes,
        }
    }

    /// Returns true if these fields of the nodes are equal.
    pub(crate) fn is_same(self, other: Self, node_fields: NodeFields) -> bool {
        self.seen(node_fields) == other.seen(node_fields)
    }

    #[cfg(test)]
    pub(crate) const fn of(nodes: u128) -> Self {
        Self::with(nodes, nodes)
    }

    #[cfg(test)]
    pub(crate) const fn with(targets: u128, nodes: u128) -> Self {
        Self { targets, nodes }
    }
}
