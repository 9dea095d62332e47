//! Finds the load balancers that need an update when nodes change.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use prometheus_client::metrics::histogram::Histogram;
use skydock_kube::queue::Priority;
use tokio::time::Instant;

use super::{
    ServiceController,
    plan::{state::Follow, step::Goal},
};
use crate::shared::apart;

/// Work on the nodes behind load balancers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Nodes {
    /// Determine which load balancers need an update.
    Pass,
    /// Update the nodes of this load balancer.
    Of(String),
}

/// Passes whose load balancers are still being updated.
#[derive(Default)]
pub(super) struct Passes(Mutex<HashMap<String, Arc<Pass>>>);

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
    fn begin(&self, key: &str, pass: &Arc<Pass>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key.to_owned(), Arc::clone(pass));
    }

    fn end(&self, key: &str) {
        drop(
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(key),
        );
    }
}

impl ServiceController {
    /// Performs one piece of work. However many nodes have changed, a load balancer is updated
    /// once, with the nodes at the time of its turn. A slow load balancer does not delay others.
    pub(super) async fn work_nodes(self: &Arc<Self>, nodes: Nodes) {
        match nodes {
            Nodes::Pass => self.pass().await,
            Nodes::Of(key) => {
                let (this, one) = (Arc::clone(self), key.clone());
                apart(async move { this.update_nodes(&one).await }).await;
                self.passes.end(&key);
            }
        }
    }

    async fn pass(&self) {
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
                behind.push(Nodes::Of(key));
            }
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
