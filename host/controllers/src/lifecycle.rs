//! Deletes nodes whose machine is gone, and taints those whose machine is stopped.
//!
//! Upstream's cloud-node-lifecycle-controller, with the cloud asked in batches and more care before a node is deleted: only
//! nodes of the provider's own, only after two answers a period apart, only the very object that was asked about, and never
//! many at once ([`brake`]). What takes its time goes on beside the passes, and delays nothing but itself.

mod apply;
pub mod brake;
mod deletion;
pub mod memory;
pub mod plan;
mod round;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::{
    StreamExt,
    future::BoxFuture,
    stream::{self, FuturesUnordered},
};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use skydock_cloud::Presence;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::{
    brake::{BrakeOptions, History},
    memory::Memory,
    plan::{Change, Look},
    round::{Question, Round},
};
use crate::{
    batches::{Lanes, ask_all},
    dry_run::Said,
    informer::Entry,
    pause::Pause,
    shared::{Runner, Shared},
};

/// Batches the cloud is asked about at the same time.
const BATCHES: usize = 4;
/// Nodes that are written at the same time.
const WRITERS: usize = 16;
/// A shorter period is taken as this one.
const LEAST_PERIOD: Duration = Duration::from_millis(100);

type NodeEntry = Arc<Entry<Node>>;

/// How the lifecycle controller works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifecycleOptions {
    /// How often nodes that are not ready are looked for in the cloud (`--node-monitor-period`).
    pub period: Duration,
    /// How many nodes may be deleted in a while.
    pub brake: BrakeOptions,
    /// Whether nodes whose machine is stopped are also tainted as out of service (`--out-of-service-taint`), which gives
    /// their Pods up and detaches their volumes.
    pub out_of_service_taint: bool,
}

impl Default for LifecycleOptions {
    /// Upstream's period.
    fn default() -> Self {
        Self { period: Duration::from_secs(5), brake: BrakeOptions::default(), out_of_service_taint: false }
    }
}

/// The lifecycle controller.
pub(crate) struct LifecycleController {
    shared: Shared,
    client: Client,
    options: LifecycleOptions,
    /// In a dry run.
    said: Option<Arc<Said>>,
    memory: Mutex<Memory>,
    history: Mutex<History>,
    /// UIDs of nodes that are being written: a write that hangs is not repeated beside itself.
    writing: Mutex<HashSet<String>>,
    pause: Pause,
    lanes: Lanes,
}

/// Changes of a node's taints that were decided.
struct Tainting {
    entry: NodeEntry,
    changes: Vec<Change>,
    /// What the cloud had said; `None` if it was not asked.
    said: Option<Presence>,
}

/// Leave to write a node, as long as this is kept.
struct Claim<'a> {
    writing: &'a Mutex<HashSet<String>>,
    uid: String,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.uid);
    }
}

impl LifecycleController {
    pub(crate) fn new(shared: Shared, client: Client, options: LifecycleOptions, said: Option<Arc<Said>>) -> Self {
        let options = LifecycleOptions { period: options.period.max(LEAST_PERIOD), ..options };
        Self {
            shared,
            client,
            options,
            said,
            memory: Mutex::default(),
            history: Mutex::default(),
            writing: Mutex::default(),
            pause: Pause::default(),
            lanes: Lanes::new(BATCHES),
        }
    }

    /// Looks at all nodes, and asks about those that nobody is being asked about. Ends when all that follows is done.
    async fn pass(&self, stop: &CancellationToken) {
        let info = self.shared.provider.info();
        let mut not_ready = Vec::new();
        let mut settled = Vec::new();
        for entry in self.shared.nodes.list() {
            match plan::look(&entry.view, &info) {
                Look::Settled(changes) if changes.is_empty() => {}
                Look::Settled(changes) => settled.push(Tainting { entry, changes, said: None }),
                Look::Ask => not_ready.push(entry),
            }
        }
        let questions = self.questions(not_ready);
        let round = Round::new(self, stop);
        tokio::join!(self.taint(settled), ask_all(&round, questions, info.max_batch, &self.lanes));
        self.delete_condemned(stop).await;
    }

    fn questions(&self, not_ready: Vec<NodeEntry>) -> Vec<(Question, crate::batches::Fit)> {
        let now = Instant::now();
        let mut memory = self.memory();
        memory.retain(&not_ready.iter().map(|entry| entry.uid()).collect());
        if self.pause.left().is_some() {
            return Vec::new();
        }
        let question = |entry: NodeEntry| {
            let (number, fit) = memory.ask(entry.uid(), &entry.view, now)?;
            Some((Question { entry, number }, fit))
        };
        not_ready.into_iter().filter_map(question).collect()
    }

    fn still_in_question(&self, asked: &NodeEntry) -> Option<NodeEntry> {
        self.shared.nodes.get(&asked.key()).filter(|now| plan::same_question(&asked.view, &now.view))
    }

    /// What failed is done again with the next pass.
    async fn taint(&self, decided: Vec<Tainting>) {
        stream::iter(decided)
            .for_each_concurrent(WRITERS, |Tainting { entry, changes, said }| async move {
                // It may have stood in line for long: if anything has changed since, it is decided anew.
                let now = self.shared.nodes.get(&entry.key());
                let Some(entry) = now.filter(|now| now.view == entry.view) else { return };
                let still = |said| self.memory().get(entry.uid()).is_some_and(|known| known.says(said));
                if !said.is_none_or(still) {
                    return;
                }
                let Some(_claim) = self.claim(&entry) else { return };
                if let Err(error) = apply::taints(&self.client, &entry, &changes).await {
                    self.shared.api_error(entry.name(), &error);
                }
            })
            .await;
    }

    /// `None` if the node is being written.
    fn claim(&self, entry: &NodeEntry) -> Option<Claim<'_>> {
        let uid = entry.uid().to_owned();
        let free = self.writing.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.clone());
        free.then(|| Claim { writing: &self.writing, uid })
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Runner for LifecycleController {
    /// The next pass looks at everything anyway; what the plugin before has said does not count for it.
    fn recheck(&self) {
        self.memory().clear();
    }

    /// A pass has a period's time; what takes longer goes on beside those that follow.
    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let mut late = FuturesUnordered::new();
        while !shutdown.is_cancelled() {
            let mut pass: BoxFuture<'_, ()> = Box::pin(self.pass(&shutdown));
            if beside(&mut late, timeout(self.options.period, &mut pass)).await.is_err() {
                late.push(pass);
            }
            let rest = async {
                tokio::select! { () = shutdown.cancelled() => {}, () = sleep(self.options.period) => {} }
            };
            beside(&mut late, rest).await;
        }
        // Nothing new is begun in them any more.
        while late.next().await.is_some() {}
    }
}

/// Waits for this while the others go on.
async fn beside<T>(others: &mut FuturesUnordered<BoxFuture<'_, ()>>, this: impl Future<Output = T>) -> T {
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
