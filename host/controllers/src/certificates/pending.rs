//! The requests that wait for a decision, by node.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use skydock_kube::informer::{Change, Entry, Informer};

use super::request::RequestKind;

/// Maximum number of requests of a node that are looked at. A kubelet has one or two, and needs
/// only the newest.
const MOST: usize = 10;

/// A node, and the time and key of one of its requests. The newest of a node is first.
type Place = (String, Reverse<u64>, String);

/// The requests of all nodes.
#[derive(Default)]
pub(super) struct Pending(Mutex<BTreeSet<Place>>);

/// Returns the place of a request that waits.
fn place(entry: &Entry<RequestKind>) -> Option<Place> {
    let request = entry.view.as_ref()?;
    Some((request.node.clone(), Reverse(request.created), entry.key()))
}

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
                Change::Added(new) => (None, place(new)),
                Change::Updated(old, new) => (place(old), place(new)),
                Change::Deleted(old) => (place(old), None),
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

            if let Some((node, ..)) = new {
                added(node);
            }
        });

        pending
    }

    /// Returns the keys of the newest requests of a node.
    pub(super) fn of(&self, node: &str) -> Vec<String> {
        self.0
            .lock()
            .range((node.to_owned(), Reverse(u64::MAX), String::new())..)
            .take_while(|(other, ..)| other == node)
            .take(MOST)
            .map(|(.., request)| request.clone())
            .collect()
    }

    /// Returns the nodes with requests.
    pub(super) fn nodes(&self) -> BTreeSet<String> {
        self.0
            .lock()
            .iter()
            .map(|(node, ..)| node.clone())
            .collect()
    }
}
