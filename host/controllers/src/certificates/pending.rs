//! The requests that wait for a decision, by node.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use skydock_kube::informer::{Change, Informer};

use super::{
    plan::node_name,
    request::{Request, RequestKind},
};

/// Names of nodes and of their requests.
#[derive(Default)]
pub(super) struct Pending(Mutex<BTreeSet<(String, String)>>);

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
                Change::Added(new) => (None, Some(new)),
                Change::Updated(old, new) => (Some(old), Some(new)),
                Change::Deleted(old) => (Some(old), None),
            };
            let node = |request: &Request| node_name(request).to_owned();
            let old = old.and_then(|it| Some((node(it.view.as_ref()?), it.key())));
            let new = new.and_then(|it| Some((node(it.view.as_ref()?), it.key())));
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

            if let Some((node, _)) = new {
                added(node);
            }
        });

        pending
    }

    /// Returns the keys of the requests of a node.
    pub(super) fn of(&self, node: &str) -> Vec<String> {
        self.0
            .lock()
            .range((node.to_owned(), String::new())..)
            .take_while(|(other, _)| other == node)
            .map(|(_, request)| request.clone())
            .collect()
    }

    /// Returns the nodes with requests.
    pub(super) fn nodes(&self) -> BTreeSet<String> {
        self.0.lock().iter().map(|(node, _)| node.clone()).collect()
    }
}
