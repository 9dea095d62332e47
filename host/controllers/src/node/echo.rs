//! Waits until the cache contains what was written.
//!
//! The API server applies a patch to the node in its own watch cache, and repeats the work if that
//! was outdated. Once the watch has delivered the result of one patch, the next one is cheap; if it
//! is sent immediately, both together cost the API server about twice as much. Besides, the taints
//! of the delivered version are known.
//!
//! `write_addresses` in `initialize.rs` waits. The handler in `NodeController::new` calls
//! [`Echo::show`] for each version of a node, which ends the wait.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use skydock_cloud::NodeAddress;
use skydock_controller_base::objects::kinds::NodeEntry;
use tokio::{sync::oneshot, time::timeout};

/// Maximum time to wait. A watch is a few milliseconds behind, and under load some hundred.
const PATIENCE: Duration = Duration::from_secs(5);

/// Addresses that are waited for, by name of the node.
#[derive(Default)]
pub(super) struct Echo(Mutex<HashMap<String, Expected>>);

struct Expected {
    uid: String,
    addresses: Vec<NodeAddress>,
    shown: oneshot::Sender<NodeEntry>,
}

impl Echo {
    /// Registers these addresses to be waited for. To be called before they are written.
    pub(super) fn expect(&self, node: &NodeEntry, addresses: &[NodeAddress]) -> Expectation {
        let (shown, receiver) = oneshot::channel();
        let expected = Expected {
            uid: node.uid().to_owned(),
            addresses: addresses.to_vec(),
            shown,
        };

        self.0.lock().insert(node.name().to_owned(), expected);
        Expectation(receiver)
    }

    /// Ends the wait if this version of the node has the expected addresses.
    pub(super) fn show(&self, node: &NodeEntry) {
        let mut expected = self.0.lock();
        let fits = |it: &Expected| it.uid == node.uid() && it.addresses == node.view.addresses;
        if expected.get(node.name()).is_some_and(fits)
            && let Some(it) = expected.remove(node.name())
        {
            // The receiver has been dropped if it took too long.
            drop(it.shown.send(Arc::clone(node)));
        }
    }

    /// Ends the wait for a node that was deleted.
    pub(super) fn forget(&self, name: &str) {
        self.0.lock().remove(name);
    }
}

/// A wait for the addresses of one node.
pub(super) struct Expectation(oneshot::Receiver<NodeEntry>);

impl Expectation {
    /// Returns the first version with the addresses; `None` if it does not arrive in time, or the
    /// node was deleted.
    pub(super) async fn shown(self) -> Option<NodeEntry> {
        timeout(PATIENCE, self.0).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skydock_cloud::AddressKind;
    use skydock_controller_base::testing::{node, with};
    use skydock_kube::informer::Entry;

    use super::*;

    fn entry(uid: &str, address: &str) -> NodeEntry {
        let status = json!({"addresses": [{"type": "InternalIP", "address": address}]});
        Arc::new(Entry::new(with(
            &node("a"),
            &json!({"metadata": {"uid": uid}, "status": status}),
        )))
    }

    fn wanted() -> [NodeAddress; 1] {
        [NodeAddress {
            kind: AddressKind::InternalIp,
            address: "10.0.0.2".into(),
        }]
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_ends_when_the_same_node_shows_the_addresses() {
        let echo = Echo::default();
        let expectation = echo.expect(&entry("1", "10.0.0.1"), &wanted());
        echo.show(&entry("1", "10.0.0.1"));
        echo.show(&entry("2", "10.0.0.2"));
        echo.show(&entry("1", "10.0.0.2"));
        assert_eq!(expectation.shown().await.unwrap().uid(), "1");
        assert!(echo.0.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_ends_if_the_watch_lags_or_the_node_is_gone() {
        let echo = Echo::default();
        assert!(
            echo.expect(&entry("1", "10.0.0.1"), &wanted())
                .shown()
                .await
                .is_none()
        );
        let gone = echo.expect(&entry("1", "10.0.0.1"), &wanted());
        echo.forget("a");
        assert!(gone.shown().await.is_none());
    }
}
