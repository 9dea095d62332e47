//! Finds the load balancers that need an update when nodes change.

pub(crate) mod eligibility;
pub(crate) mod follow;
pub(crate) mod selection;

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use prometheus_client::metrics::histogram::Histogram;
use skydock_controller_base::controller::context::spawn_joined;
use skydock_kube::queue::{Bucket, Priority, Rate};
use tokio::time::Instant;

use super::{NODE_CHANGE_DEBOUNCE, ServiceController, known::state::Follow, plan::goal::Goal};

/// Work on the nodes behind load balancers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NodeWork {
    /// Determine which load balancers need an update.
    Pass,
    /// Update the nodes of the load balancer of the Service with this key.
    Update(String),
}

/// Rate of passes: a node that changes all the time must not cause calls of the cloud all the time.
const PACE: Rate = Rate {
    per_second: 0.2,
    burst: 20.0,
};

/// Passes whose load balancers are still being updated, and when the next one may be.
pub(crate) struct Passes {
    running: Mutex<HashMap<String, Arc<Pass>>>,
    pace: Mutex<Bucket>,
}

impl Default for Passes {
    fn default() -> Self {
        Self {
            running: Mutex::default(),
            pace: Mutex::new(Bucket::full(PACE, Instant::now())),
        }
    }
}

/// One pass over all load balancers. It measures the time from its start until the last of them is
/// updated.
struct Pass {
    start: Instant,
    latency: Histogram,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.latency.observe(self.start.elapsed().as_secs_f64());
    }
}

impl Passes {
    /// Returns for how long to gather changes of nodes before the next pass.
    pub(crate) fn delay(&self) -> Duration {
        let next = self.pace.lock().refilled_at();
        NODE_CHANGE_DEBOUNCE.max(next.saturating_duration_since(Instant::now()))
    }

    fn count(&self) {
        self.pace.lock().reserve(Instant::now());
    }

    fn begin(&self, key: &str, pass: &Arc<Pass>) {
        self.running.lock().insert(key.to_owned(), Arc::clone(pass));
    }

    fn end(&self, key: &str) {
        drop(self.running.lock().remove(key));
    }
}

impl ServiceController {
    /// Performs one piece of work. However many nodes have changed, a load balancer is updated
    /// once, with the nodes at the time of its turn. A slow load balancer does not delay others.
    pub(crate) async fn work_nodes(self: &Arc<Self>, work: NodeWork) {
        match work {
            NodeWork::Pass => self.pass().await,
            NodeWork::Update(key) => {
                let this = Arc::clone(self);
                let one = key.clone();
                spawn_joined(async move { this.update_nodes(&one).await }).await;
                // Also after a failure: its retries do not prolong the pass.
                self.passes.end(&key);
            }
        }
    }

    async fn pass(&self) {
        self.passes.count();
        let pass = Arc::new(Pass {
            start: Instant::now(),
            latency: self.metrics.nodesync_latency.clone(),
        });

        let mut behind = Vec::new();
        for (key, known) in self.known.all() {
            let fingerprint = self.selection.fingerprint(&known.entry()).await;
            // Read after waiting for the fingerprint: in the meantime, other nodes may have been
            // sent to the cloud.
            if known.read(|state| state.follow(fingerprint, Instant::now())) != Follow::Nothing {
                self.passes.begin(&key, &pass);
                behind.push(NodeWork::Update(key));
            }
        }

        if let Some(keeper) = &self.keeper {
            keeper.invalidate_many(behind.len()).await;
        }
        self.node_queue.add_all(behind, Priority::Change);
    }

    async fn update_nodes(&self, key: &str) {
        let Some(known) = self.known.get(key) else {
            return;
        };
        self.attempt(key, &known, Goal::UpdateNodes, None, Priority::Change)
            .await;
    }
}
