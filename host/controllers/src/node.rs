//! Initializes nodes, and keeps their addresses and topology labels up to date.
//!
//! This is upstream's cloud-node-controller, with these differences: nodes are described in
//! batches, addresses are written before the taint is removed and labels in the same patch, labels are
//! kept up to date as well as addresses, and nodes of other providers are not changed. New nodes do not share
//! batches with nodes that are re-checked, and have a worker of their own.

mod apply;
mod duplicates;
mod echo;
mod initialize;
mod keep;
mod memory;
pub(crate) mod metrics;
pub mod plan;
mod report;
mod round;
mod sync;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::Client;
use skydock_cloud::Capability;
use skydock_controller_base::{
    controller::{
        context::{ControllerContext, counted::Counted},
        descriptor::{Descriptor, NeedsServices},
    },
    objects::kinds::{NodeEntry, NodeKind},
};
use skydock_kube::{
    informer::{Change, Entry},
    queue::{Limiter, Priority, Queue},
};
use tokio::sync::mpsc;

use self::{
    duplicates::Duplicates,
    echo::Echo,
    keep::due::Due,
    memory::NodeMemory,
    metrics::NodeMetrics,
    plan::{repair::SyncedFields, states},
};
use crate::{ClientName, batches::Lanes, pause::Pause};

/// Maximum number of nodes of one batch that are written concurrently.
const WRITERS: usize = 32;
/// Minimum period; a shorter one is replaced by this.
const LEAST_PERIOD: Duration = Duration::from_millis(100);

/// What is known of the controller before it runs.
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
    pub reconciled: SyncedFields,
}

impl Default for NodeOptions {
    /// Upstream's period. Upstream processes one node at a time, but clouds can handle more.
    fn default() -> Self {
        Self {
            workers: 4,
            period: Duration::from_secs(300),
            reconciled: SyncedFields {
                addresses: true,
                labels: true,
            },
        }
    }
}

/// The node controller. `initialize.rs` initializes a node, `keep.rs` keeps it up to date, and
/// `report.rs` reports what fails.
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
                Change::Added(new) => queue.add(new.key(), first_priority(new)),
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

        count_nodes(&context, &metrics);

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
}

/// Lets metrics count the nodes of the cache.
fn count_nodes(context: &ControllerContext, metrics: &NodeMetrics) {
    let nodes = Arc::clone(&context.nodes);
    let provider = Arc::clone(&context.provider);
    let count = move || {
        let entries = nodes.list();
        states::count(entries.iter().map(|entry| &*entry.view), &provider.info())
    };

    let count_all = count.clone();
    metrics.states.set(move || {
        let counted = count_all();
        Counted::States(vec![
            ("uninitialized", counted.uninitialized),
            ("initialized", counted.initialized),
            ("foreign", counted.foreign),
        ])
    });
    metrics.oldest_wait.set(move || {
        let now = u64::try_from(Timestamp::now().as_second()).unwrap_or(0);
        let since = count().waits_since;
        Counted::One(since.map_or(0, |since| now.saturating_sub(since)))
    });
}

/// Returns with which priority a node that appears in the cache is processed.
fn first_priority(entry: &Entry<NodeKind>) -> Priority {
    if plan::uninitialized(&entry.view) {
        Priority::Change
    } else {
        Priority::Recheck
    }
}

#[cfg(test)]
mod tests;
