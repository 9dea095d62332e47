//! Deletes nodes whose instance does not exist, and taints those whose instance is stopped.
//!
//! This is upstream's cloud-node-lifecycle-controller, but it queries the cloud in batches and
//! takes more care before it deletes a node: only nodes of this provider are deleted, only after
//! two answers that are at least one period apart, only the object that the cloud was asked about,
//! and never many at once ([`brake`]). Slow operations continue in parallel to the following passes
//! and do not delay them.

mod apply;
pub mod brake;
mod choice;
mod deletion;
pub mod memory;
pub(crate) mod metrics;
pub mod plan;
mod round;

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use async_trait::async_trait;
use futures::{
    StreamExt,
    future::BoxFuture,
    stream::{self, FuturesUnordered},
};
use kube::Client;
use parking_lot::Mutex;
use skydock_cloud::{Capability, Presence, reason};
use skydock_controller_base::{
    controller::{
        context::{ControllerContext, Runner},
        descriptor::{Descriptor, NeedsServices},
    },
    objects::kinds::NodeEntry,
};
use skydock_kube::{dry_run::DryRunLog, informer};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::{
    brake::{BrakeOptions, History},
    memory::LifecycleMemory,
    metrics::LifecycleMetrics,
    plan::{Change, Precheck},
    round::{Question, Round},
};
use crate::{
    ClientName,
    batches::{BatchLimit, Lanes, ask_all},
    node::plan::uninitialized,
    pause::Pause,
};

/// Maximum number of batches that are queried concurrently.
const BATCHES: usize = 4;
/// Maximum number of nodes that are written concurrently.
const WRITERS: usize = 16;
/// Minimum period; a shorter one is replaced by this.
const LEAST_PERIOD: Duration = Duration::from_millis(100);

/// The node lifecycle controller.
pub static CONTROLLER: Descriptor = Descriptor {
    name: "cloud-node-lifecycle-controller",
    alias: "cloud-node-lifecycle",
    client: ClientName::Node,
    event_source: "cloud-node-lifecycle-controller",
    needs: Some(Capability::Instances),
    needs_services: NeedsServices::No,
};

/// Options of the node lifecycle controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifecycleOptions {
    /// Period of checking the instances of nodes that are not ready (`--node-monitor-period`).
    pub period: Duration,
    /// How many nodes may be deleted within an interval.
    pub brake: BrakeOptions,
    /// Whether nodes whose instance is stopped are also tainted as out of service
    /// (`--out-of-service-taint`), which deletes their Pods and detaches their volumes.
    pub out_of_service_taint: bool,
}

impl Default for LifecycleOptions {
    /// Upstream's period.
    fn default() -> Self {
        Self {
            period: Duration::from_secs(5),
            brake: BrakeOptions::default(),
            out_of_service_taint: false,
        }
    }
}

/// The node lifecycle controller. Deletions are in `deletion.rs`.
pub(crate) struct LifecycleController {
    context: ControllerContext,
    metrics: LifecycleMetrics,
    client: Client,
    options: LifecycleOptions,
    /// Set in a dry run.
    dry_run_log: Option<Arc<DryRunLog>>,
    /// Keys of the nodes that passes check. Most nodes are never among them.
    to_check: Arc<Mutex<BTreeSet<String>>>,
    memory: Mutex<LifecycleMemory>,
    history: Mutex<History>,
    /// Number of ready nodes whose instances the cloud does not know, when it was asked last.
    ready_but_absent: AtomicUsize,
    /// UIDs of nodes that are being written: a write that hangs is not repeated in parallel.
    writing: Mutex<HashSet<String>>,
    /// UIDs of nodes without provider ID, each of which has an event that says so.
    reported: Mutex<HashSet<String>>,
    pause: Pause,
    lanes: Lanes,
}

/// Decided changes of a node's taints.
struct Tainting {
    entry: NodeEntry,
    changes: Vec<Change>,
    /// The answer of the cloud; `None` if it was not queried.
    presence: Option<Presence>,
}

/// The exclusive right to write a node; released when dropped.
struct Claim<'a> {
    writing: &'a Mutex<HashSet<String>>,
    uid: String,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.writing.lock().remove(&self.uid);
    }
}

impl LifecycleController {
    pub(crate) fn new(
        context: ControllerContext,
        metrics: LifecycleMetrics,
        client: Client,
        options: LifecycleOptions,
        dry_run_log: Option<Arc<DryRunLog>>,
    ) -> Self {
        let options = LifecycleOptions {
            period: options.period.max(LEAST_PERIOD),
            ..options
        };

        let to_check = Arc::<Mutex<BTreeSet<String>>>::default();
        context.nodes.subscribe({
            let to_check = Arc::clone(&to_check);
            move |change| {
                let mut to_check = to_check.lock();
                match change {
                    informer::Change::Updated(old, new) if old.view == new.view => {}
                    informer::Change::Added(new) | informer::Change::Updated(_, new)
                        if plan::needs_check(&new.view) =>
                    {
                        to_check.insert(new.key());
                    }
                    informer::Change::Added(node)
                    | informer::Change::Updated(_, node)
                    | informer::Change::Deleted(node) => {
                        to_check.remove(&node.key());
                    }
                }
            }
        });

        Self {
            context,
            metrics,
            client,
            options,
            dry_run_log,
            to_check,
            memory: Mutex::default(),
            history: Mutex::default(),
            ready_but_absent: AtomicUsize::default(),
            writing: Mutex::default(),
            reported: Mutex::default(),
            pause: Pause::default(),
            lanes: Lanes::new(BATCHES),
        }
    }

    /// Checks all nodes that need it, and queries the cloud about those that are not being
    /// queried already. Returns when all consequences are done.
    async fn pass(&self, stop: &CancellationToken) {
        let info = self.context.provider.info();
        let mut not_ready = Vec::new();
        let mut decided = Vec::new();
        let mut unidentified = Vec::new();

        let entries: Vec<_> = {
            let keys = self.to_check.lock();
            let found = keys.iter().filter_map(|key| self.context.nodes.get(key));
            found.collect()
        };
        for entry in entries {
            if plan::unidentified(&entry.view) {
                unidentified.push(Arc::clone(&entry));
            }
            match plan::precheck(&entry.view, &info) {
                Precheck::Decided(changes) if changes.is_empty() => {}
                Precheck::Decided(changes) => decided.push(Tainting {
                    entry,
                    changes,
                    presence: None,
                }),
                Precheck::Ask => not_ready.push(entry),
            }
        }

        self.report_unidentified(&unidentified);
        let questions = self.questions(not_ready);
        let round = Round::new(self, stop);

        // At the same time, so that a slow cloud does not delay the taints of ready nodes.
        tokio::join!(
            self.taint(decided),
            ask_all(&round, questions, info.max_batch, &self.lanes)
        );

        // Deletions that have waited for answers about other nodes can be decided here.
        self.delete_marked(stop).await;
    }

    /// Reports once on each of these nodes that it has no provider ID. A node that waits for its
    /// initialization has events about that.
    fn report_unidentified(&self, nodes: &[NodeEntry]) {
        let count = i64::try_from(nodes.len()).unwrap_or(i64::MAX);
        self.metrics.unidentified.set(count);

        let mut reported = self.reported.lock();
        let uids: HashSet<&str> = nodes.iter().map(|entry| entry.uid()).collect();
        reported.retain(|uid| uids.contains(uid.as_str()));

        for entry in nodes {
            if !uninitialized(&entry.view) && reported.insert(entry.uid().to_owned()) {
                self.context.warning(
                    entry,
                    reason::MISSING_PROVIDER_ID,
                    "The node is not ready and has no provider ID, so that it is not deleted if its instance does not exist: \
                     delete the node if its instance is gone",
                );
            }
        }
    }

    fn questions(&self, not_ready: Vec<NodeEntry>) -> Vec<(Question, BatchLimit)> {
        let now = Instant::now();
        let mut memory = self.memory.lock();
        // A node that was ready in the meantime starts without its earlier answers.
        memory.retain(&not_ready.iter().map(|entry| entry.uid()).collect());

        if self.pause.left().is_some() {
            return Vec::new();
        }

        let question = |entry: NodeEntry| {
            let (number, batch_limit) = memory.ask(entry.uid(), &entry.view, now)?;
            Some((Question { entry, number }, batch_limit))
        };
        not_ready.into_iter().filter_map(question).collect()
    }

    fn still_in_question(&self, asked: &NodeEntry) -> Option<NodeEntry> {
        self.context
            .nodes
            .get(&asked.key())
            .filter(|now| plan::same_question(&asked.view, &now.view))
    }

    /// Changes taints. What fails is retried in the next pass.
    async fn taint(&self, decided: Vec<Tainting>) {
        stream::iter(decided)
            .for_each_concurrent(WRITERS, |tainting| self.taint_one(tainting))
            .await;
    }

    async fn taint_one(&self, tainting: Tainting) {
        let Tainting {
            entry,
            changes,
            presence,
        } = tainting;

        // This may have waited for a long time: if anything has changed since, the next pass
        // decides again.
        let now = self.context.nodes.get(&entry.key());
        let Some(entry) = now.filter(|now| now.view == entry.view) else {
            return;
        };

        let still = |presence| {
            self.memory
                .lock()
                .get(entry.uid())
                .is_some_and(|known| known.says(presence))
        };
        if !presence.is_none_or(still) {
            return;
        }

        let Some(_claim) = self.claim(&entry) else {
            return;
        };

        if let Err(error) = apply::taints(&self.client, &entry, &changes).await {
            self.context.api_error(entry.name(), &error);
        }
    }

    /// Returns `None` if the node is being written.
    fn claim(&self, entry: &NodeEntry) -> Option<Claim<'_>> {
        let uid = entry.uid().to_owned();
        let free = self.writing.lock().insert(uid.clone());

        free.then(|| Claim {
            writing: &self.writing,
            uid,
        })
    }
}

#[async_trait]
impl Runner for LifecycleController {
    /// Forgets the answers of the previous plugin; the next pass checks all nodes anyway.
    fn recheck(&self) {
        self.memory.lock().clear();
    }

    /// Starts a pass every period. A pass that takes longer than a period continues in parallel to
    /// the following ones.
    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let mut late = FuturesUnordered::new();
        while !shutdown.is_cancelled() {
            let mut pass: BoxFuture<'_, ()> = Box::pin(self.pass(&shutdown));
            if wait_beside(&mut late, timeout(self.options.period, &mut pass))
                .await
                .is_err()
            {
                late.push(pass);
            }

            let rest = async {
                tokio::select! { () = shutdown.cancelled() => {}, () = sleep(self.options.period) => {} }
            };
            wait_beside(&mut late, rest).await;
        }

        // These start nothing new after the shutdown.
        while late.next().await.is_some() {}
    }
}

/// Waits for `this` while the others continue.
async fn wait_beside<T>(
    others: &mut FuturesUnordered<BoxFuture<'_, ()>>,
    this: impl Future<Output = T>,
) -> T {
    tokio::pin!(this);
    loop {
        tokio::select! {
            output = &mut this => return output,
            Some(()) = others.next() => {}
        }
    }
}

#[cfg(test)]
mod tests;
