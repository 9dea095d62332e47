//! The requests that wait for a decision, by node.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use skydock_kube::informer::{Change, Entry, Informer};

use super::request::RequestKind;

/// Maximum number of requests of a node that are looked at. A kubelet has one or two, and needs
/// only the newest.
const MOST: usize = 10;

/// A request that waits. The newest one of a node is first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PendingRequest {
    node: String,
    created: Reverse<u64>,
    key: String,
}

impl PendingRequest {
    /// Returns the request, if it waits.
    fn of(entry: &Entry<RequestKind>) -> Option<Self> {
        let request = entry.view.as_ref()?;
        Some(Self {
            node: request.node.clone(),
            created: Reverse(request.created),
            key: entry.key(),
        })
    }

    /// Returns what is before all requests of a node.
    fn first_of(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            created: Reverse(u64::MAX),
            key: String::new(),
        }
    }
}

/// The requests of all nodes.
#[derive(Default)]
pub(super) struct Pending(Mutex<BTreeSet<PendingRequest>>);

impl Pending {
    /// Follows the cache, counts the requests in `gauge`, and calls `added` with the node of each
    /// request that begins to wait.
    pub(super) fn follow(
        requests: &Informer<RequestKind>,
        gauge: Gauge,
        added: impl Fn(String) + Send + 'static,
    ) -> Arc<Self> {
        let pending = Arc::<Self>::default();
        let index = Arc::clone(&pending);

        requests.subscribe(move |change| {
            let (old, new) = match change {
                Change::Added(new) => (None, PendingRequest::of(new)),
                Change::Updated(old, new) => (PendingRequest::of(old), PendingRequest::of(new)),
                Change::Deleted(old) => (PendingRequest::of(old), None),
            };
            if old == new {
                return;
            }

            let mut all = index.0.lock();
            if let Some(old) = old {
                all.remove(&old);
            }
            if let Some(new) = &new {
                all.insert(new.clone());
            }
            gauge.set(i64::try_from(all.len()).unwrap_or(i64::MAX));
            drop(all);

            if let Some(new) = new {
                added(new.node);
            }
        });

        pending
    }

    /// Returns the keys of the newest requests of a node.
    pub(super) fn of(&self, node: &str) -> Vec<String> {
        self.0
            .lock()
            .range(PendingRequest::first_of(node)..)
            .take_while(|request| request.node == node)
            .take(MOST)
            .map(|request| request.key.clone())
            .collect()
    }

    /// Returns the nodes with requests.
    pub(super) fn nodes(&self) -> BTreeSet<String> {
        self.0
            .lock()
            .iter()
            .map(|request| request.node.clone())
            .collect()
    }
}
