//! What is certain about the load balancer of a Service, until a call may change that.
//!
//! `attempt/io.rs` takes it before a call and sets it after one that was successful; `record.rs`
//! keeps it for the next process.

use skydock_cloud::{LoadBalancerStatus, NodeFields};

use super::{KnownService, fingerprint::Fingerprint, state::SentNodes};
use crate::{ServiceEntry, record::Line};

/// How a load balancer was ensured.
#[derive(Clone)]
pub(crate) struct Ensured {
    pub(crate) version: ServiceEntry,
    /// Identifies the provider, its build and its configuration (`ServiceController::revision`).
    pub(crate) revision: u128,
    /// When it was, in seconds since the Unix epoch.
    pub(crate) checked: u64,
    /// The provider's answer, which may not be written yet.
    pub(crate) status: LoadBalancerStatus,
}

/// What is certain about a load balancer: it was ensured, all later calls have succeeded, and none
/// is in flight.
#[derive(Clone)]
pub(crate) struct Synced {
    pub(crate) ensured: Ensured,
    pub(super) nodes: Fingerprint,
    pub(super) node_fields: NodeFields,
}

impl Synced {
    /// Returns what is recorded about it.
    pub(crate) fn line(&self) -> Line {
        Line {
            node_fields: self.node_fields,
            nodes: self.nodes.seen(self.node_fields),
            checked: self.ensured.checked,
        }
    }
}

impl KnownService {
    /// Records that calls have succeeded: the last one to ensure the load balancer, and those after
    /// it. The nodes are those that were sent.
    pub(crate) fn set_synced(&self, ensured: Ensured) {
        let mut memory = self.memory.lock();
        let node_fields = memory.state.node_fields;
        if let SentNodes::Nodes(nodes) = memory.state.sent {
            memory.synced = Some(Synced {
                ensured,
                nodes,
                node_fields,
            });
        }
    }

    /// Returns what is certain about the load balancer.
    pub(crate) fn synced(&self) -> Option<Synced> {
        self.memory.lock().synced.clone()
    }

    /// The same, before a call after which it may not be true.
    pub(crate) fn take_synced(&self) -> Option<Synced> {
        self.memory.lock().synced.take()
    }
}
