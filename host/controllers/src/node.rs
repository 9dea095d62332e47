//! Initializes nodes, and keeps their addresses and topology labels up to date.
//!
//! This is upstream's cloud-node-controller, with these differences: nodes are described in
//! batches, addresses and labels are written before the taint is removed, labels are kept up to
//! date as well as addresses, and nodes of other providers are not changed. New nodes do not share
//! batches with nodes that are re-checked, and have a worker of their own.

mod apply;
mod due;
mod duplicates;
mod echo;
mod initialize;
mod keep;
mod memory;
pub(crate) mod metrics;
pub mod plan;
mod round;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt, future::BoxFuture, stream};
use kube::Client;
use skydock_cloud::{Capability, reason};
use skydock_controller_base::{
    controller::{
        context::{ControllerContext, Runner, spawn_joined},
        descriptor::{Descriptor, NeedsServices},
    },
    objects::kinds::NodeKind,
};
use skydock_kube::{
    events::REMINDER_PERIOD,
    informer::{Change, Entry},
    queue::{Limiter, Priority, Queue},
};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use self::{
    due::Due,
    duplicates::Duplicates,
    echo::Echo,
    memory::{NodeMemory, Warning},
    metrics::NodeMetrics,
    plan::{
        need::{Need, need},
        repair::SyncedFields,
    },
    round::Round,
};
use crate::{
    ClientName,
    batches::{Lanes, ask_all},
    pause::Pause,
};

/// Maximum number of nodes in one batch. Larger batches would hardly save calls, and a batch is in
/// memory several times.
const BATCH: usize = 250;
/// Maximum number of nodes of one batch that are written concurrently.
const WRITERS: usize = 32;
/// Minimum period; a shorter one is replaced by this.
const LEAST_PERIOD: Duration = Duration::from_millis(100);

type NodeEntry = Arc<Entry<NodeKind>>;

/// The node controller.
pub static CONTROLLER: Descriptor = Descriptor {
    name: "cloud-node-controller",
    alias: "cloud-node",
    client: ClientName::Node,
    event_source: "cloud-node-controller",
    needs: Some(Capability::Instances),
    // Addresses of nodes are compared with theirs.
    needs_services: NeedsServices::IfAllowed,
};

/// Options of the node controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeOptions {
    /// Number of batches that are processed concurrently (`--concurrent-node-syncs`); at least 1.
    /// If there are more, one of them is reserved for new nodes.
    pub workers: usize,
    /// Period of updating initialized nodes (`--node-status-update-frequency`).
    pub period: Duration,
    /// What is kept up to date in initialized nodes (`--reconcile-node-addresses`,
    /// `--reconcile-node-labels`).
    pub kept: SyncedFields,
}

impl Default for NodeOptions {
    /// Upstream's period. Upstream processes one node at a time, but clouds can handle more.
    fn default() -> Self {
        Self {
            workers: 4,
            period: Duration::from_secs(300),
            kept: SyncedFields {
                addresses: true,
                labels: true,
            },
        }
    }
}

/// The node controller. `initialize.rs` initializes a node, and `keep.rs` keeps it up to date.
pub(crate) struct NodeController {
    context: ControllerContext,
    metrics: NodeMetrics,
    client: Client,
    queue: Arc<Queue<String>>,
    options: NodeOptions,
    due: Due,
    pause: Pause,
    echo: Arc<Echo>,
    duplicates: Arc<Duplicates>,
    memory: Arc<NodeMemory>,
    lanes: Lanes,
    /// Nodes that took long when queried alone. They are processed outside of the workers, so that
    /// these stay free for other nodes.
    slow: mpsc::UnboundedSender<NodeEntry>,
    slow_ones: tokio::sync::Mutex<mpsc::UnboundedReceiver<NodeEntry>>,
}

impl NodeController {
    pub(crate) fn new(
        context: ControllerContext,
        metrics: NodeMetrics,
        client: Client,
        options: NodeOptions,
    ) -> Self {
        let queue = Arc::new(Queue::new(Limiter::NODES, context.metrics.queue("Nodes")));
        let memory = Arc::<NodeMemory>::default();
        let echo = Arc::<Echo>::default();

        context.nodes.subscribe({
            let queue = Arc::clone(&queue);
            let memory = Arc::clone(&memory);
            let echo = Arc::clone(&echo);

            move |change| match change {
                Change::Added(new) => queue.add(new.key(), added(new)),
                Change::Updated(old, new) => {
                    // Also after a heartbeat: the cache has another version than the one that was
                    // initialized.
                    memory.changed(new.name());
                    // Heartbeats do not change anything that matters here, and must not shorten a
                    // back-off.
                    if old.view != new.view {
                        echo.show(new);
                        queue.add(new.key(), Priority::Change);
                    }
                }
                Change::Deleted(old) => {
                    memory.forget(old.name());
                    echo.forget(old.name());
                }
            }
        });

        let options = NodeOptions {
            workers: options.workers.max(1),
            period: options.period.max(LEAST_PERIOD),
            ..options
        };

        let duplicates = Duplicates::follow(&context);
        let (slow, slow_ones) = mpsc::unbounded_channel();

        Self {
            context,
            metrics,
            client,
            queue,
            options,
            due: Due::default(),
            pause: Pause::default(),
            echo,
            duplicates,
            memory,
            lanes: Lanes::new(options.workers),
            slow,
            slow_ones: tokio::sync::Mutex::new(slow_ones),
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

    /// Determines what each of these nodes needs, does it, and marks each as processed in the
    /// queue.
    async fn sync(&self, keys: Vec<String>, stop: &CancellationToken) {
        let info = self.context.provider.info();
        let mut asked = Vec::new();
        let mut labels = Vec::new();

        for key in keys {
            // The cache may still have the version from before the initialization.
            let entry = self
                .context
                .nodes
                .get(&key)
                .filter(|entry| !self.memory.is_initialized(entry));
            let need = entry
                .as_ref()
                .map_or(Need::Nothing, |entry| need(&entry.view, &info));

            let delay = self.memory.restore_delay(&key, Instant::now());
            if !delay.is_zero() && matches!(need, Need::Initialization | Need::Labels(_)) {
                self.queue.done(&key);
                self.queue.add_after(key, delay, Priority::Change);
                continue;
            }

            match (need, entry) {
                (Need::Initialization, Some(entry)) => asked.push(entry),
                (Need::Labels(pairs), Some(entry)) => labels.push((entry, pairs)),
                (Need::Nothing, Some(entry))
                    if self.due.contains(&key) && plan::kept(&entry.view, &info) =>
                {
                    asked.push(entry);
                }
                (Need::Foreign(id), Some(entry)) => {
                    self.skip_foreign(&entry, &id, &info.provider_id_prefixes);
                }
                _ => self.mark_processed(&key),
            }
        }

        let (slow, asked): (Vec<_>, Vec<_>) = asked
            .into_iter()
            .partition(|entry| self.memory.batch_limit(entry.name()).slow);

        for entry in slow {
            if let Err(unsent) = self.slow.send(entry) {
                self.mark_processed(&unsent.0.key());
            }
        }

        let labels: BoxFuture<'_, ()> = Box::pin(stream::iter(labels).for_each_concurrent(
            WRITERS,
            |(entry, pairs)| async move {
                let result = apply::labels(&self.client, &entry, &pairs).await;
                if result.is_ok() {
                    self.memory.note_restored(entry.name(), Instant::now());
                }
                self.finish(&entry, result);
                self.queue.done(&entry.key());
            },
        ));

        tokio::join!(labels, self.ask(asked, stop));
    }

    /// Marks a node for which there is nothing to do as processed.
    fn mark_processed(&self, key: &String) {
        self.memory.clear_progress(key);
        self.queue.forget(key);
        self.queue.done(key);
    }

    /// Queries the cloud about nodes, and initializes or updates them.
    fn ask<'a>(
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
}

#[async_trait]
impl Runner for NodeController {
    fn recheck(&self) {
        self.memory.forget_plugin();
        self.context
            .nodes
            .list()
            .iter()
            .for_each(|entry| self.queue.add(entry.key(), added(entry)));

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

/// Returns why a node with this provider ID is not initialized. A provider of nodes without
/// prefixes is one whose permission was removed while it runs.
fn foreign(id: &str, prefixes: &[String]) -> String {
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

fn added(entry: &Entry<NodeKind>) -> Priority {
    if plan::uninitialized(&entry.view) {
        Priority::Change
    } else {
        Priority::Recheck
    }
}

#[cfg(test)]
mod tests;
