//! Deletes nodes whose machine is gone, and taints those whose machine is stopped.
//!
//! Upstream's cloud-node-lifecycle-controller, with the cloud asked in batches and more care before a node is deleted: only
//! nodes of the provider's own, only after two answers a period apart, only the very object that was asked about, and never
//! many at once ([`brake`]).

mod apply;
pub mod brake;
pub mod memory;
pub mod plan;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use skydock_cloud::{CloudError, Presence};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::{
    brake::{BrakeOptions, History},
    memory::Memory,
    plan::{Act, Change, Look},
};
use crate::{
    api::ApiError,
    constants::{ANNOTATION_ALLOW_DELETION, reason},
    informer::Entry,
    pause::Pause,
    retry::SOON,
    shared::{Runner, Shared, complete},
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
    memory: Mutex<Memory>,
    history: Mutex<History>,
    pause: Pause,
}

impl LifecycleController {
    pub(crate) fn new(shared: Shared, client: Client, options: LifecycleOptions) -> Self {
        let options = LifecycleOptions { period: options.period.max(LEAST_PERIOD), ..options };
        Self { shared, client, options, memory: Mutex::default(), history: Mutex::default(), pause: Pause::default() }
    }

    async fn pass(&self) {
        let info = self.shared.provider.info();
        let nodes = self.shared.nodes.list();
        let mut not_ready = Vec::new();
        let mut settled = Vec::new();
        for entry in &nodes {
            match plan::look(&entry.view, &info) {
                Look::Settled(changes) if changes.is_empty() => {}
                Look::Settled(changes) => settled.push((Arc::clone(entry), changes)),
                Look::Ask => not_ready.push(Arc::clone(entry)),
            }
        }
        let (asked, epoch) = {
            let now = Instant::now();
            let mut memory = self.memory();
            memory.retain(&not_ready.iter().map(|entry| entry.uid()).collect::<HashSet<_>>());
            let may_ask =
                |entry: &&NodeEntry| memory.get(entry.uid()).is_none_or(|known| known.may_ask(&entry.view, now));
            (not_ready.iter().filter(may_ask).cloned().collect::<Vec<_>>(), memory.epoch)
        };
        self.taint(settled).await;
        let doomed = Mutex::new(Vec::new());
        stream::iter(asked.chunks(info.max_batch.max(1)))
            .for_each_concurrent(BATCHES, |batch| async {
                let more = self.ask_about(batch, epoch).await;
                doomed.lock().unwrap_or_else(PoisonError::into_inner).extend(more);
            })
            .await;
        let doomed = doomed.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.delete_all(doomed, &not_ready, &nodes).await;
    }

    /// Asks about a batch, and gives the nodes of it that are to be deleted.
    async fn ask_about(&self, batch: &[NodeEntry], epoch: u64) -> Vec<NodeEntry> {
        let (mut doomed, mut changed) = (Vec::new(), Vec::new());
        if self.pause.left().is_some() {
            return doomed;
        }
        for (entry, answer) in batch.iter().zip(self.check(batch).await) {
            match self.settle(entry, answer, epoch) {
                Some((entry, Act::Delete)) => doomed.push(entry),
                Some((entry, Act::Confirm)) => {
                    tracing::info!(node = entry.name(), "the machine is gone, says the cloud: asking again");
                }
                Some((entry, Act::Taint(changes))) if !changes.is_empty() => changed.push((entry, changes)),
                Some((_, Act::Taint(_))) | None => {}
            }
        }
        self.taint(changed).await;
        doomed
    }

    /// One answer per node. Where a race was lost inside the cloud, it is asked once more within moments.
    async fn check(&self, batch: &[NodeEntry]) -> Vec<Result<Presence, CloudError>> {
        let answers = self.check_once(batch).await;
        let lost = |answer: &Result<Presence, CloudError>| matches!(answer, Err(CloudError::Conflict(_)));
        let again: Vec<NodeEntry> =
            batch.iter().zip(&answers).filter(|(_, answer)| lost(answer)).map(|(entry, _)| Arc::clone(entry)).collect();
        if again.is_empty() {
            return answers;
        }
        sleep(SOON).await;
        let mut second = self.check_once(&again).await.into_iter();
        answers.into_iter().map(|answer| if lost(&answer) { second.next().unwrap_or(answer) } else { answer }).collect()
    }

    async fn check_once(&self, batch: &[NodeEntry]) -> Vec<Result<Presence, CloudError>> {
        let nodes: Vec<_> = batch.iter().map(|entry| Arc::clone(&entry.view)).collect();
        match self.shared.provider.check(&nodes).await {
            Ok(answers) => complete(answers, nodes.len()).collect(),
            Err(error) => {
                self.pause.after(&error);
                nodes.iter().map(|_| Err(error.clone())).collect()
            }
        }
    }

    /// What follows from an answer, for the node as it is now.
    fn settle(&self, asked: &NodeEntry, answer: Result<Presence, CloudError>, epoch: u64) -> Option<(NodeEntry, Act)> {
        let mut memory = self.memory();
        // An answer of the plugin before.
        if memory.epoch != epoch {
            return None;
        }
        // The cloud may have taken its time: the answer is about a machine that had no ready node then.
        let Some(entry) = self.still_in_question(asked) else {
            memory.forget(asked.uid());
            return None;
        };
        let now = Instant::now();
        let known = memory.entry(entry.uid());
        match answer {
            Ok(presence) => {
                let row = known.answer(presence, now);
                let LifecycleOptions { period, out_of_service_taint, .. } = self.options;
                let act = plan::decide(&entry.view, row, now, period, out_of_service_taint);
                let leaving = entry.object.deletion_timestamp.is_some();
                if act == Act::Delete {
                    known.condemned = !leaving;
                }
                Some((entry, act)).filter(|(_, act)| *act != Act::Delete || !leaving)
            }
            Err(error) => {
                known.error(&error, &asked.view, self.options.period, now);
                self.shared.cloud_error(entry.name(), &error);
                None
            }
        }
    }

    fn still_in_question(&self, asked: &NodeEntry) -> Option<NodeEntry> {
        self.shared.nodes.get(&asked.key()).filter(|now| plan::same_question(&asked.view, &now.view))
    }

    /// Deletes these nodes, unless they are too many: then only those that an operator has allowed, and those that it was tried
    /// with before. All count alike, so that to allow a few does not let the rest go with them.
    async fn delete_all(&self, doomed: Vec<NodeEntry>, not_ready: &[NodeEntry], nodes: &[NodeEntry]) {
        let deleted = self.history().within(self.options.brake.interval, Instant::now());
        let counted = |entry: &NodeEntry| deleted.contains(entry.uid());
        let condemned: Vec<_> = {
            let memory = self.memory();
            not_ready.iter().filter(|entry| memory.get(entry.uid()).is_some_and(|known| known.condemned)).collect()
        };
        let candidates = condemned.iter().filter(|entry| !counted(entry)).count();
        let others = nodes.iter().filter(|entry| !counted(entry)).count();
        let verdict = self.options.brake.judge(candidates, others, deleted.len());
        let waits = |entry: &NodeEntry| verdict.is_err() && !plan::deletion_is_allowed(&entry.view) && !counted(entry);
        let held = condemned.iter().filter(|entry| waits(entry)).count();
        let held = i64::try_from(held).unwrap_or(i64::MAX);
        let before = self.shared.metrics.node_deletions_held.set(held);
        match &verdict {
            Ok(()) if before > 0 => tracing::info!("nodes whose machine is gone are deleted again"),
            Err(stopped) if before != held => tracing::warn!("nodes whose machine is gone are not deleted: {stopped}"),
            _ => {}
        }
        let (waiting, going): (Vec<_>, Vec<_>) = doomed.into_iter().partition(waits);
        if let Err(stopped) = &verdict {
            waiting.iter().for_each(|entry| self.tell_stopped(entry, stopped));
        }
        {
            let (mut history, now) = (self.history(), Instant::now());
            going.iter().for_each(|entry| history.add(entry.uid(), now));
        }
        stream::iter(&going).for_each_concurrent(WRITERS, |entry| self.delete(entry)).await;
    }

    fn tell_stopped(&self, entry: &NodeEntry, stopped: &brake::Stopped) {
        let told = std::mem::replace(&mut self.memory().entry(entry.uid()).told, true);
        if !told {
            let name = entry.name();
            let message = format!(
                "Node {name} is not deleted, although its machine does not exist: {stopped}. If that is right, allow it \
                 with: kubectl annotate node {name} {ANNOTATION_ALLOW_DELETION}=true"
            );
            self.shared.warning(entry, reason::NODE_DELETION_STOPPED, message);
        }
    }

    async fn delete(&self, doomed: &NodeEntry) {
        let Some(entry) = self.still_in_question(doomed) else { return };
        let name = entry.name();
        tracing::info!(node = name, "deleting: the machine is gone");
        let message = format!("Deleting node {name} because it does not exist in the cloud provider");
        self.shared.normal(&entry, reason::DELETING_NODE, message);
        if let Err(error) = apply::delete(&self.client, &entry).await {
            self.shared.api_error(name, &error);
            if !matches!(error, ApiError::Changed(_)) {
                let message = format!("Failed deleting node {name}: {error}");
                self.shared.warning(&entry, reason::DELETING_NODE_FAILED, message);
            }
        }
    }

    /// What failed is done again with the next pass.
    async fn taint(&self, changes: Vec<(NodeEntry, Vec<Change>)>) {
        stream::iter(changes)
            .for_each_concurrent(WRITERS, |(entry, changes)| async move {
                if let Err(error) = apply::taints(&self.client, &entry, &changes).await {
                    self.shared.api_error(entry.name(), &error);
                }
            })
            .await;
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

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        while !shutdown.is_cancelled() {
            self.pass().await;
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep(self.options.period) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
