//! Waits until the cache shows what was written.
//!
//! The API server applies a patch to the node as its own watch cache has it, and all over again if that was behind. Once the
//! watch has shown one patch, the next is cheap; sent straight after it, the two cost the API server about twice as much. And
//! the version that was shown is one whose taints are known.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::Node;
use skydock_cloud::NodeAddress;
use tokio::{sync::oneshot, time::timeout};

use crate::informer::Entry;

/// A watch is a few milliseconds behind, and under load some hundred.
const PATIENCE: Duration = Duration::from_secs(5);

type NodeEntry = Arc<Entry<Node>>;

/// What is waited for, by name of the node.
#[derive(Default)]
pub(super) struct Echo(Mutex<HashMap<String, Expected>>);

struct Expected {
    uid: String,
    addresses: Vec<NodeAddress>,
    shown: oneshot::Sender<NodeEntry>,
}

impl Echo {
    /// Expects these addresses. To be called before they are written.
    pub(super) fn expect(&self, node: &NodeEntry, addresses: &[NodeAddress]) -> Expectation {
        let (shown, receiver) = oneshot::channel();
        let expected = Expected { uid: node.uid().to_owned(), addresses: addresses.to_vec(), shown };
        self.expected().insert(node.name().to_owned(), expected);
        Expectation(receiver)
    }

    /// Looks whether this version of a node is one that is waited for.
    pub(super) fn show(&self, node: &NodeEntry) {
        let mut expected = self.expected();
        let fits = |it: &Expected| it.uid == node.uid() && it.addresses == node.view.addresses;
        if expected.get(node.name()).is_some_and(fits)
            && let Some(it) = expected.remove(node.name())
        {
            // Nobody is there any more if it took too long.
            drop(it.shown.send(Arc::clone(node)));
        }
    }

    /// The node is gone.
    pub(super) fn forget(&self, name: &str) {
        self.expected().remove(name);
    }

    fn expected(&self) -> MutexGuard<'_, HashMap<String, Expected>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Addresses that are waited for.
pub(super) struct Expectation(oneshot::Receiver<NodeEntry>);

impl Expectation {
    /// The first version with the addresses; `None` if it does not come in time, or the node is gone.
    pub(super) async fn shown(self) -> Option<NodeEntry> {
        timeout(PATIENCE, self.0).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skydock_cloud::AddressKind;

    use super::*;
    use crate::testing::{node, with};

    fn entry(uid: &str, address: &str) -> NodeEntry {
        let status = json!({"addresses": [{"type": "InternalIP", "address": address}]});
        Arc::new(Entry::new(with(&node("a"), &json!({"metadata": {"uid": uid}, "status": status}))))
    }

    fn wanted() -> [NodeAddress; 1] {
        [NodeAddress { kind: AddressKind::InternalIp, address: "10.0.0.2".into() }]
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_version_of_the_same_node_with_the_addresses_ends_the_wait() {
        let echo = Echo::default();
        let expectation = echo.expect(&entry("1", "10.0.0.1"), &wanted());
        echo.show(&entry("1", "10.0.0.1"));
        echo.show(&entry("2", "10.0.0.2"));
        echo.show(&entry("1", "10.0.0.2"));
        assert_eq!(expectation.shown().await.unwrap().uid(), "1");
        assert!(echo.expected().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_ends_also_if_the_watch_is_far_behind_or_the_node_is_gone() {
        let echo = Echo::default();
        assert!(echo.expect(&entry("1", "10.0.0.1"), &wanted()).shown().await.is_none());
        let gone = echo.expect(&entry("1", "10.0.0.1"), &wanted());
        echo.forget("a");
        assert!(gone.shown().await.is_none());
    }
}
