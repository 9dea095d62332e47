//! The addresses of the cluster's nodes, and of the Pods on them.

use std::{collections::HashSet, net::IpAddr, sync::Arc};

use ipnet::IpNet;
use parking_lot::{Mutex, RwLock};
use skydock_cloud::{Cluster, Node};
use skydock_controllers::is_of_one_node;

/// The addresses of nodes, as far as caches are filled. Those that were known last are kept when
/// the caches are gone.
#[derive(Default)]
pub(super) struct NodeAddresses {
    cluster: RwLock<Option<Arc<dyn Cluster>>>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The revision of the caches when the addresses were read.
    revision: Option<u64>,
    now: Addresses,
}

/// Addresses of nodes and Pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) nodes: Arc<HashSet<IpAddr>>,
    /// The CIDRs of Pods, as few as possible.
    pub(super) pods: Vec<IpNet>,
}

impl Addresses {
    fn of(nodes: &[Arc<Node>]) -> Self {
        let addresses = nodes.iter().flat_map(|node| &node.addresses);
        let addresses = addresses.filter_map(|it| it.address.parse::<IpAddr>().ok());
        let pods = nodes.iter().flat_map(|node| &node.pod_cidrs);
        let pods = pods.filter_map(|cidr| cidr.parse::<IpNet>().ok());
        // A kubelet can write any CIDR, also one that contains addresses of the cloud.
        let pods: Vec<IpNet> = pods.filter(is_of_one_node).collect();

        Self {
            nodes: Arc::new(addresses.map(|it| it.to_canonical()).collect()),
            pods: IpNet::aggregate(&pods),
        }
    }
}

impl NodeAddresses {
    pub(super) fn follow(&self, cluster: Arc<dyn Cluster>) {
        // Held to the end: `now` must not compare the revision with that of other caches.
        let mut followed = self.cluster.write();
        *followed = Some(cluster);

        // Revisions of other caches do not say when these have changed.
        self.known.lock().revision = None;
    }

    /// Returns the current addresses. They are read only if something has changed.
    pub(super) fn now(&self) -> Addresses {
        let cluster = self.cluster.read();
        let mut known = self.known.lock();
        let Some(cluster) = &*cluster else {
            return known.now.clone();
        };

        let revision = cluster.revision();
        // Without a revision, the caches are not filled, and the last addresses stay.
        if revision.is_some() && revision != known.revision {
            *known = Known {
                revision,
                now: Addresses::of(&cluster.nodes()),
            };
        }
        known.now.clone()
    }
}

impl std::fmt::Debug for NodeAddresses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeAddresses").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use skydock_cloud::{AddressKind, NodeAddress};

    use super::*;

    // Holds: SEC-37
    #[test]
    fn addresses_of_nodes_and_pods_are_collected() {
        let node = |addresses: &[&str], pods: &[&str]| {
            let address = |it: &&str| NodeAddress {
                kind: AddressKind::InternalIp,
                address: (*it).to_owned(),
            };
            Arc::new(Node {
                addresses: addresses.iter().map(address).collect(),
                pod_cidrs: pods.iter().map(|it| (*it).to_owned()).collect(),
                ..Node::default()
            })
        };
        let found = Addresses::of(&[
            node(
                &["10.0.0.1", "n1.example", "fd00::1"],
                &["10.244.0.0/24", "fd01::/64"],
            ),
            node(&["::ffff:10.0.0.2"], &["10.244.1.0/24", "none"]),
            // A kubelet may write this.
            node(&[], &["0.0.0.0/0", "::/0"]),
        ]);
        let nodes = ["10.0.0.1", "10.0.0.2", "fd00::1"].map(|it| it.parse().unwrap());
        assert_eq!(*found.nodes, nodes.into());
        let pods = ["10.244.0.0/23", "fd01::/64"].map(|it| it.parse().unwrap());
        assert_eq!(found.pods, pods);
    }
}
