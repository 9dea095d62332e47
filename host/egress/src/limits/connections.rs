//! The limit on connections, including idle ones.

use arc_swap::ArcSwap;
use skydock_cloud::CallKind;
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    limits::shares::{Kinds, Shares},
    request_error::RequestError,
};

/// Maximum number of connections of a plugin.
const MOST: usize = 256;
/// How many of these are reserved for each kind of calls.
const PART: usize = 32;

/// Connections, divided among the kinds of calls.
#[derive(Debug)]
pub(crate) struct Connections {
    shares: ArcSwap<Shares>,
    most: usize,
}

impl Connections {
    /// Returns the limit for a plugin, whose connections are divided among all kinds of calls.
    pub(crate) fn of_plugin() -> Self {
        Self {
            shares: ArcSwap::from_pointee(Shares::new(MOST, PART, Kinds::ALL)),
            most: MOST,
        }
    }

    /// Returns a limit for requests of Skydock itself, without parts.
    pub(crate) fn of_skydock(most: usize) -> Self {
        Self {
            shares: ArcSwap::from_pointee(Shares::new(most, 0, Kinds::ALL)),
            most,
        }
    }

    /// Divides the connections of a plugin among these kinds only. Connections that are open do not
    /// count any more.
    pub(crate) fn divide(&self, kinds: Kinds) {
        self.shares.store(Shares::new(MOST, PART, kinds).into());
    }

    /// Waits until another connection may be opened, in the order of arrival within the kind.
    ///
    /// # Errors
    /// None; the semaphores are never closed.
    pub(crate) async fn acquire(
        &self,
        kind: CallKind,
    ) -> Result<OwnedSemaphorePermit, RequestError> {
        self.shares.load_full().acquire(kind).await
    }

    /// Returns the maximum number of connections.
    pub(crate) fn most(&self) -> usize {
        self.most
    }
}
