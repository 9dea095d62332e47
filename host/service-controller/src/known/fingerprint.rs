//! The fingerprint of the nodes of a load balancer, which is all that is remembered of them.

use skydock_cloud::{Looked, NodeSet};

use crate::record::digest::Digest;

/// Identifies the nodes of a load balancer, by what a provider can look at, as [`Digest`]s. While
/// nodes are added and removed, each of thousands of load balancers was last updated with a
/// different set of thousands of nodes: storing the sets would fill the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    targets: u128,
    nodes: u128,
}

impl Fingerprint {
    pub(crate) fn new(nodes: &NodeSet) -> Self {
        let seen = |looked: Looked| {
            let mut digest = Digest::default();
            nodes.iter().for_each(|node| looked.hash(node, &mut digest));
            digest.result()
        };

        Self {
            targets: seen(Looked::Targets),
            nodes: seen(Looked::Nodes),
        }
    }

    /// Returns the nodes of which an earlier process has recorded this, for a provider that looked at
    /// this much. To one that looks at more or less, no nodes are equal to them.
    pub(crate) fn recorded(looked: Looked, digest: u128) -> Self {
        match looked {
            Looked::Targets => Self {
                targets: digest,
                nodes: 0,
            },
            Looked::Nodes => Self {
                targets: 0,
                nodes: digest,
            },
        }
    }

    /// Returns what a provider that looks at this much sees of the nodes.
    pub(crate) fn seen(self, looked: Looked) -> u128 {
        match looked {
            Looked::Targets => self.targets,
            Looked::Nodes => self.nodes,
        }
    }

    /// Returns true if a provider that looks at this much finds the nodes equal.
    pub(crate) fn is_same(self, other: Self, looked: Looked) -> bool {
        self.seen(looked) == other.seen(looked)
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
