//! Waits until the cache contains what was written.
//!
//! The API server applies a patch to the node in its own watch cache, and repeats the work if that
//! was outdated. Once the watch has delivered the result of one patch, the next one is cheap; if it
//! is sent immediately, both together cost the API server about twice as much. Besides, the taints
//! of the delivered version are known.
//!
//! `write_addresses` in `initialize.rs` waits. The handler in `NodeController::new` calls
//! [`Echo::show`] for each version of a node that differs in more than a heartbeat, which ends the
//! wait.

use std::{collections::HashMap, time::Duration};

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
    shown: oneshot::Sender<()>,
}

impl Echo {
    /// Registers these addresses to be waited for. To be called before they are written.
    pub(super) fn expect(&self, node: &NodeEntry, addresses: &[NodeAddress]) -> Expectation<'_> {
        let (shown, receiver) = oneshot::channel();
        let expected = Expected {
            uid: node.uid().to_owned(),
            addresses: addresses.to_vec(),
            shown,
        };

        self.0.lock().insert(node.name().to_owned(), expected);
        Expectation {
            echo: self,
            name: node.name().to_owned(),
            receiver,
        }
    }

    /// Ends the wait if this version of the node has the expected addresses.
    pub(super) fn show(&self, node: &NodeEntry) {
        let mut expected = self.0.lock();
        let fits = |it: &Expected| it.uid == node.uid() && it.addresses == node.view.addresses;
        if expected.get(node.name()).is_some_and(fits)
            && let Some(it) = expected.remove(node.name())
        {
            // The receiver is closed if it took too long.
            let _ = it.shown.send(());
        }
    }

    /// Ends the wait for a node that was deleted.
    pub(super) fn forget(&self, name: &str) {
        self.0.lock().remove(name);
    }
}

/// A wait for the addresses of one node. It ends when this is dropped, also if the write has failed.
pub(super) struct Expectation<'a> {
    echo: &'a Echo,
    name: String,
    receiver: oneshot::Receiver<()>,
}

impl Expectation<'_> {
    /// Returns true once a version with the addresses has arrived; false if none arrives in time, or
    /// the node was deleted.
    pub(super) async fn shown(mut self) -> bool {
        matches!(timeout(PATIENCE, &mut self.receiver).await, Ok(Ok(())))
    }
}

impl Drop for Expectation<'_> {
    fn drop(&mut self) {
        self.receiver.close();

        let mut expected = self.echo.0.lock();
        // Otherwise it was shown, or another wait for the same node has begun.
        if expected
            .get(&self.name)
            .is_some_and(|it| it.shown.is_closed())
        {
            expected.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
        assert!(expectation.shown().await);
        assert!(echo.0.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_ends_if_the_watch_lags_or_the_node_is_gone() {
        let echo = Echo::default();
        let late = echo.expect(&entry("1", "10.0.0.1"), &wanted());
        assert!(!late.shown().await);
        let gone = echo.expect(&entry("1", "10.0.0.1"), &wanted());
        echo.forget("a");
        assert!(!gone.shown().await);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_stays_of_a_wait_that_ended() {
        let echo = Echo::default();
        let late = echo.expect(&entry("1", "10.0.0.1"), &wanted());
        assert!(!late.shown().await);
        assert!(echo.0.lock().is_empty(), "too late");

        drop(echo.expect(&entry("1", "10.0.0.1"), &wanted()));
        assert!(echo.0.lock().is_empty(), "not written");

        let before = echo.expect(&entry("1", "10.0.0.1"), &wanted());
        let next = echo.expect(&entry("1", "10.0.0.1"), &wanted());
        drop(before);
        echo.show(&entry("1", "10.0.0.2"));
        assert!(next.shown().await, "another wait ends none");
    }
}
