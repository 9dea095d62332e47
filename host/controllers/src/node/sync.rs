//! Takes nodes from the queue in batches, and asks the cloud about those that need it.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, future::BoxFuture, stream};
use skydock_cloud::reason;
use skydock_controller_base::controller::context::{Runner, spawn_joined};
use skydock_kube::{events::REMINDER_PERIOD, queue::Priority};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    NodeController, NodeEntry, WRITERS, apply, first_priority,
    memory::Warning,
    plan::need::{Need, need},
    round::Round,
};
use crate::batches::ask_all;

/// Maximum number of nodes in one batch. Larger batches would hardly save calls, and a batch is in
/// memory several times.
const BATCH: usize = 250;

#[async_trait]
impl Runner for NodeController {
    fn recheck(&self) {
        self.memory.forget_plugin();
        self.context
            .nodes
            .list()
            .iter()
            .for_each(|entry| self.queue.add(entry.key(), first_priority(entry)));

        // The cloud may have an answer about nodes for which it had none through the previous
        // plugin.
        self.mark_due(true);
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        // Read for each batch, because another plugin may take fewer nodes.
        let max = || self.context.provider.info().max_batch.min(BATCH);

        let sync = |keys| {
            let this = Arc::clone(&self);
            let stop = shutdown.clone();
            spawn_joined(async move { this.sync(keys, &stop).await })
        };

        tokio::select! {
            // Due nodes are queued first, so that the first batches are full.
            biased;
            () = self.keep() => {}
            () = self.queue.run_batch_workers(self.options.workers, &shutdown, max, sync) => {}
            () = self.work_on_slow_ones(&shutdown) => {}
        }
    }
}

impl NodeController {
    /// Determines what each of these nodes needs, does it, and marks each as processed in the
    /// queue.
    async fn sync(&self, keys: Vec<String>, stop: &CancellationToken) {
        let info = self.context.provider.info();
        let mut to_ask = Vec::new();
        let mut to_label = Vec::new();

        for key in keys {
            // The cache may still have the version from before the initialization.
            let entry = self
                .context
                .nodes
                .get(&key)
                .filter(|entry| !self.memory.is_initialized(entry));
            let is_due = self.due.contains(&key);
            let need = entry
                .as_ref()
                .map_or(Need::Nothing, |entry| need(&entry.view, &info, is_due));

            let delay = self.memory.restore_delay(&key, Instant::now());
            if !delay.is_zero() && matches!(need, Need::Initialization | Need::Labels(_)) {
                self.queue.done(&key);
                self.queue.add_after(key, delay, Priority::Change);
                continue;
            }

            match (need, entry) {
                (Need::Initialization | Need::Comparison, Some(entry)) => to_ask.push(entry),
                (Need::Labels(pairs), Some(entry)) => to_label.push((entry, pairs)),
                (Need::Foreign(id), Some(entry)) => {
                    self.skip_foreign(&entry, &id, &info.provider_id_prefixes);
                }
                _ => self.mark_processed(&key),
            }
        }

        let (slow, to_ask): (Vec<_>, Vec<_>) = to_ask
            .into_iter()
            .partition(|entry| self.memory.batch_limit(entry.name()).slow);

        for entry in slow {
            if let Err(unsent) = self.slow.send(entry) {
                self.mark_processed(&unsent.0.key());
            }
        }

        let writes: BoxFuture<'_, ()> = Box::pin(stream::iter(to_label).for_each_concurrent(
            WRITERS,
            |(entry, pairs)| async move {
                let result = apply::labels(&self.client, &entry, &pairs).await;
                if result.is_ok() {
                    self.memory.restored(entry.name(), Instant::now());
                }
                self.finish(&entry, result);
                self.queue.done(&entry.key());
            },
        ));

        tokio::join!(writes, self.ask(to_ask, stop));
    }

    /// Marks a node for which there is nothing to do as processed.
    fn mark_processed(&self, key: &String) {
        self.memory.clear_progress(key);
        self.queue.forget(key);
        self.queue.done(key);
    }

    /// Queries the cloud about nodes, and initializes or updates them.
    pub(super) fn ask<'a>(
        &'a self,
        entries: Vec<NodeEntry>,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let questions: Vec<_> = entries
                .into_iter()
                .map(|entry| (Arc::clone(&entry), self.memory.batch_limit(entry.name())))
                .collect();

            let round = Round::new(self, stop);
            ask_all(
                &round,
                questions,
                self.context.provider.info().max_batch,
                &self.lanes,
            )
            .await;
        })
    }

    fn skip_foreign(&self, entry: &NodeEntry, id: &str, prefixes: &[String]) {
        self.mark_processed(&entry.key());
        let waits = self.memory.warn(entry, Warning::Foreign, Instant::now());
        // Events expire, so the warning is repeated.
        self.queue.add_after(
            entry.key(),
            waits.unwrap_or(REMINDER_PERIOD),
            Priority::Recheck,
        );

        if waits.is_none() {
            let message = foreign(id, prefixes);
            self.context
                .warning(entry, reason::FOREIGN_PROVIDER_ID, message);
        }
    }

    /// Queries the cloud about nodes that took long when queried alone, one after the other.
    async fn work_on_slow_ones(&self, stop: &CancellationToken) {
        let mut slow_ones = self.slow_ones.lock().await;
        while let Some(entry) = slow_ones.recv().await {
            // The node may have been deleted or replaced while it waited.
            let again = self
                .context
                .nodes
                .get(&entry.key())
                .filter(|now| now.uid() == entry.uid());

            match again {
                Some(entry) => self.ask(vec![entry], stop).await,
                None => self.queue.done(&entry.key()),
            }
        }
    }
}

/// Returns why a node with this provider ID is not initialized. A provider of nodes without
/// prefixes is one whose permission was removed while it runs.
pub(super) fn foreign(id: &str, prefixes: &[String]) -> String {
    if prefixes.is_empty() {
        return format!(
            "The configuration allows the plugin no provider IDs, so Skydock does not initialize the node with provider ID {id:?}: \
             add its prefix to providerIDs below permissions, or run the cloud-controller-manager of its provider"
        );
    }

    format!(
        "Provider ID {id:?} belongs to another provider (expected prefix {}), so Skydock does not initialize the node: check \
         --cloud-provider, or run the cloud-controller-manager of that provider",
        prefixes.join(", ")
    )
}
