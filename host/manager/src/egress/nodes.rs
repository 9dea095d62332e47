//! The addresses of the cluster's nodes.

use std::{
    collections::HashSet,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use skydock_cloud::Cluster;

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
    addresses: Arc<HashSet<IpAddr>>,
}

impl NodeAddresses {
    pub(super) fn follow(&self, cluster: Arc<dyn Cluster>) {
        let mut followed = self.cluster.write().unwrap_or_else(PoisonError::into_inner);
        *followed = Some(cluster);
        // Revisions of other caches do not say when these have changed.
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .revision = None;
    }

    /// Returns the current addresses. They are read only if something has changed.
    pub(super) fn now(&self) -> Arc<HashSet<IpAddr>> {
        let cluster = self.cluster.read().unwrap_or_else(PoisonError::into_inner);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(cluster) = &*cluster else {
            return Arc::clone(&known.addresses);
        };
        let revision = cluster.revision();
        if revision.is_some() && revision != known.revision {
            let nodes = cluster.nodes();
            let addresses = nodes.iter().flat_map(|node| &node.addresses);
            let addresses = addresses.filter_map(|it| it.address.parse::<IpAddr>().ok());
            let addresses = Arc::new(addresses.map(|it| it.to_canonical()).collect());
            *known = Known {
                revision,
                addresses,
            };
        }
        Arc::clone(&known.addresses)
    }
}

impl std::fmt::Debug for NodeAddresses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeAddresses").finish_non_exhaustive()
    }
}
