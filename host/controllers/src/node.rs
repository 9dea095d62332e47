//! Initialises nodes and keeps their addresses and topology labels.
//!
//! Upstream's cloud-node-controller, with nodes described in batches, addresses and labels written before the taint goes,
//! labels kept as well as addresses, and nodes of foreign providers left alone. New nodes share no batch with those that are
//! looked up again, and have a worker for themselves.

pub mod addresses;
mod apply;
mod describe;
mod due;
mod echo;
pub mod labels;
pub mod plan;
mod round;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::{
    StreamExt,
    future::{BoxFuture, join_all},
    stream,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use skydock_cloud::{CloudError, Instance};
use tokio::{
    sync::{Semaphore, mpsc},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use self::{
    due::Due,
    echo::Echo,
    plan::{Kept, Need, Refusal},
    round::Round,
};
use crate::{
    api::ApiError,
    batches::{Fit, Lanes, ask_all},
    constants::reason,
    informer::{Change, Entry},
    patience::{Patience, minutes},
    pause::Pause,
    queue::{Limiter, Priority, Queue},
    retry::{self, Again},
    shared::{Runner, Shared, apart},
};

/// Most nodes of one batch. A larger one saves no call worth saving, and is in memory several times.
const BATCH: usize = 250;
/// Nodes of one batch that are written at the same time.
const WRITERS: usize = 32;
/// A shorter period is taken as this one.
const LEAST_PERIOD: Duration = Duration::from_millis(100);

type NodeEntry = Arc<Entry<Node>>;

/// How the node controller works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeOptions {
    /// Batches of nodes that are worked on at the same time (`--concurrent-node-syncs`); at least 1. If there are more, one of
    /// them is kept for new nodes.
    pub workers: usize,
    /// How often initialised nodes are brought up to date (`--node-status-update-frequency`).
    pub period: Duration,
    /// What of initialised nodes is brought up to date (`--reconcile-node-addresses`, `--reconcile-node-labels`).
    pub kept: Kept,
}

impl Default for NodeOptions {
    /// Upstream's period. Upstream works on one node at a time; clouds bear more.
    fn default() -> Self {
        Self { workers: 4, period: Duration::from_secs(300), kept: Kept { addresses: true, labels: true } }
    }
}

/// Why a node is not initialised yet.
#[derive(Debug, thiserror::Error)]
enum Unfinished {
    /// With what the cloud has said, it cannot be.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It could not be written.
    #[error(transparent)]
    Failed(#[from] ApiError),
    /// The cache does not show the addresses that were written.
    #[error("the watch is behind")]
    Behind,
    /// Meanwhile it became another node, or somebody else has initialised it.
    #[error("there is nothing left to do")]
    Needless,
}

/// The node controller.
pub(crate) struct NodeController {
    shared: Shared,
    client: Client,
    queue: Arc<Queue<String>>,
    options: NodeOptions,
    due: Due,
    pause: Pause,
    echo: Arc<Echo>,
    /// Version of a node that was initialised, while the cache shows it.
    settled: Arc<Mutex<HashMap<String, String>>>,
    /// UID of a node that was warned about as foreign: once is enough.
    foreign: Arc<Mutex<HashMap<String, String>>>,
    /// For how long the cloud has been at work on a node that waits for it.
    patience: Arc<Mutex<HashMap<String, Patience>>>,
    /// In how large a batch a node may go, if not with as many as there are.
    fits: Arc<Mutex<HashMap<String, Fit>>>,
    lanes: Lanes,
    /// Nodes that took long alone. They are not worked on by the workers, who would be missing elsewhere.
    slow: mpsc::UnboundedSender<NodeEntry>,
    slow_ones: tokio::sync::Mutex<mpsc::UnboundedReceiver<NodeEntry>>,
}

impl NodeController {
    pub(crate) fn new(shared: Shared, client: Client, options: NodeOptions) -> Self {
        let queue = Arc::new(Queue::new(Limiter::NODES, shared.metrics.queue("Nodes")));
        let settled = Arc::<Mutex<HashMap<String, String>>>::default();
        let foreign = Arc::<Mutex<HashMap<String, String>>>::default();
        let fits = Arc::<Mutex<HashMap<String, Fit>>>::default();
        let patience = Arc::<Mutex<HashMap<String, Patience>>>::default();
        let echo = Arc::<Echo>::default();
        shared.nodes.subscribe({
            let (queue, settled, foreign) = (Arc::clone(&queue), Arc::clone(&settled), Arc::clone(&foreign));
            let (echo, fits, patience) = (Arc::clone(&echo), Arc::clone(&fits), Arc::clone(&patience));
            move |change| match change {
                Change::Added(new) => queue.add(new.key(), added(new)),
                Change::Updated(old, new) => {
                    forget(&settled, new.name());
                    // Heartbeats change nothing that matters here, and must not cut a back-off short.
                    if old.view != new.view {
                        echo.show(new);
                        queue.add(new.key(), Priority::Change);
                    }
                }
                Change::Deleted(old) => {
                    forget(&settled, old.name());
                    forget(&foreign, old.name());
                    forget(&fits, old.name());
                    forget(&patience, old.name());
                    echo.forget(old.name());
                }
            }
        });
        let options =
            NodeOptions { workers: options.workers.max(1), period: options.period.max(LEAST_PERIOD), ..options };
        let (slow, slow_ones) = mpsc::unbounded_channel();
        Self {
            shared,
            client,
            queue,
            options,
            due: Due::default(),
            pause: Pause::default(),
            echo,
            settled,
            foreign,
            patience,
            fits,
            lanes: Lanes::new(options.workers),
            slow,
            slow_ones: tokio::sync::Mutex::new(slow_ones),
        }
    }

    /// The first of several workers is for changes alone: re-checks may take all the time of the others.
    async fn work(&self, number: usize, stop: &CancellationToken) {
        loop {
            let max = self.shared.provider.info().max_batch.min(BATCH);
            let for_changes = number == 0 && self.options.workers > 1;
            let batch = if for_changes { self.queue.take_changes(max).await } else { self.queue.take_batch(max).await };
            let Some(batch) = batch else { return };
            self.sync(batch.into_iter().map(|(key, _)| key).collect(), stop).await;
        }
    }

    /// Asks about nodes that took long alone, one after the other.
    async fn work_on_slow_ones(&self, stop: &CancellationToken) {
        let mut slow_ones = self.slow_ones.lock().await;
        while let Some(entry) = slow_ones.recv().await {
            let again = self.shared.nodes.get(&entry.key()).filter(|now| now.uid() == entry.uid());
            match again {
                Some(entry) => self.ask(vec![entry], stop).await,
                None => self.queue.done(&entry.key()),
            }
        }
    }

    /// Gives each of these nodes what it needs, and each back to the queue when that is done.
    async fn sync(&self, keys: Vec<String>, stop: &CancellationToken) {
        let info = self.shared.provider.info();
        let mut asked = Vec::new();
        let mut labels = Vec::new();
        for key in keys {
            let entry = self.shared.nodes.get(&key).filter(|entry| !self.is_settled(entry));
            let need = entry.as_ref().map_or(Need::Nothing, |entry| plan::need(&entry.view, &info));
            match (need, entry) {
                (Need::Initialisation, Some(entry)) => asked.push(entry),
                (Need::Labels(pairs), Some(entry)) => labels.push((entry, pairs)),
                (Need::Nothing, Some(entry)) if self.due.contains(&key) && plan::kept(&entry.view, &info) => {
                    asked.push(entry);
                }
                (Need::Foreign(id), Some(entry)) => self.leave(&entry, &id, &info.provider_id_prefixes),
                _ => self.over(&key),
            }
        }
        let (slow, asked): (Vec<_>, Vec<_>) = asked.into_iter().partition(|entry| self.fit(entry).slow);
        for entry in slow {
            if let Err(unsent) = self.slow.send(entry) {
                self.over(&unsent.0.key());
            }
        }
        let labels: BoxFuture<'_, ()> =
            Box::pin(stream::iter(labels).for_each_concurrent(WRITERS, |(entry, pairs)| async move {
                let result = apply::labels(&self.client, &entry, &pairs).await;
                self.finish(&entry, result);
                self.queue.done(&entry.key());
            }));
        tokio::join!(labels, self.ask(asked, stop));
    }

    /// There is nothing to do for a node.
    fn over(&self, key: &String) {
        forget(&self.patience, key);
        self.queue.forget(key);
        self.queue.done(key);
    }

    /// Asks the cloud about nodes, and initialises them or brings them up to date.
    fn ask<'a>(&'a self, entries: Vec<NodeEntry>, stop: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let questions: Vec<_> = entries.into_iter().map(|entry| (Arc::clone(&entry), self.fit(&entry))).collect();
            let round = Round::new(self, stop);
            ask_all(&round, questions, self.shared.provider.info().max_batch, &self.lanes).await;
        })
    }

    fn fit(&self, entry: &NodeEntry) -> Fit {
        self.fits().get(entry.name()).copied().unwrap_or_default()
    }

    fn fits(&self) -> MutexGuard<'_, HashMap<String, Fit>> {
        self.fits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, entry: &NodeEntry, id: &str, prefixes: &[String]) {
        self.over(&entry.key());
        let mut foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        if foreign.insert(entry.name().to_owned(), entry.uid().to_owned()).as_deref() != Some(entry.uid()) {
            let message = format!(
                "Provider ID {id:?} is not one of this provider's ({}): the node is left alone and stays uninitialized",
                prefixes.join(", ")
            );
            self.shared.warning(entry, reason::FOREIGN_PROVIDER_ID, message);
        }
    }

    /// Writes the addresses first, so that nothing is scheduled to a node that cannot be reached; then the rest.
    ///
    /// Turns are first come, first served: what is left of a node waits until all of its batch have their addresses. The API
    /// server takes some 10 % less time if the two patches of a node are that far apart.
    async fn initialise(&self, entry: NodeEntry, instance: &Instance, turns: &Semaphore) {
        if let Err(unfinished) = self.write_addresses(&entry, instance, turns).await {
            return self.unfinished(&entry, unfinished);
        }
        let latest = match self.write_rest(&entry, instance, turns).await {
            Ok(latest) => latest,
            Err(unfinished) => return self.unfinished(&entry, unfinished),
        };
        forget(&self.patience, latest.name());
        let version = latest.resource_version().to_owned();
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).insert(latest.key(), version);
        let age = age(&latest).as_secs_f64();
        self.shared.metrics.taint_removal_delay.observe(age);
        self.shared.metrics.initial_node_sync_delay.observe(age);
        self.shared.normal(&latest, reason::SYNCED, "Node synced successfully");
        tracing::info!(node = latest.name(), "initialized");
        self.finish(&latest, Ok(()));
    }

    /// Ends when the cache shows them.
    async fn write_addresses(
        &self,
        entry: &NodeEntry,
        instance: &Instance,
        turns: &Semaphore,
    ) -> Result<(), Unfinished> {
        let turn = turns.acquire().await;
        let Some(wanted) = plan::initialise(&entry.view, instance)?.addresses else { return Ok(()) };
        let expectation = self.echo.expect(entry, &wanted);
        let written = apply::addresses(&self.client, entry, &wanted).await?;
        drop(turn);
        // Else it was a dry run, or somebody has written the same.
        if written != entry.resource_version() {
            expectation.shown().await.ok_or(Unfinished::Behind)?;
        }
        Ok(())
    }

    /// Gives the version that was changed: the newest there is, for others have written the node while it waited for its turn.
    async fn write_rest(
        &self,
        asked: &NodeEntry,
        instance: &Instance,
        turns: &Semaphore,
    ) -> Result<NodeEntry, Unfinished> {
        let _turn = turns.acquire().await;
        let info = self.shared.provider.info();
        let latest =
            self.shared.nodes.get(&asked.key()).filter(|latest| {
                latest.uid() == asked.uid() && plan::need(&latest.view, &info) == Need::Initialisation
            });
        let latest = latest.ok_or(Unfinished::Needless)?;
        let plan = plan::initialise(&latest.view, instance)?;
        for refused in &plan.labels.refused {
            tracing::warn!(node = latest.name(), "{refused}");
        }
        apply::initialise(&self.client, &latest, &plan).await?;
        Ok(latest)
    }

    fn unfinished(&self, entry: &NodeEntry, why: Unfinished) {
        match why {
            Unfinished::Failed(error) => self.finish(entry, Err(error)),
            Unfinished::Behind => Again::Soon.schedule(&self.queue, &entry.key()),
            Unfinished::Needless => self.queue.forget(&entry.key()),
            Unfinished::Refused(refusal) => {
                tracing::warn!(node = entry.name(), "{refusal}");
                let message = format!("Node cannot be initialized: {refusal}");
                self.shared.warning(entry, reason::FAILED_TO_INITIALIZE, message);
                self.queue.retry(entry.key());
            }
        }
    }

    fn refuse(&self, entry: &NodeEntry, error: &CloudError) {
        self.shared.cloud_error(entry.name(), error);
        self.tell_if_long(entry, error);
        if retry::warns(error) {
            self.shared.warning(entry, reason::FAILED_TO_INITIALIZE, format!("Node cannot be initialized: {error}"));
        }
        match Again::after(error) {
            // Together with the others of its call.
            Again::BackOff => {}
            again => again.schedule(&self.queue, &entry.key()),
        }
    }

    /// Work that the cloud has begun and does not end is nothing that fails, so that nothing else tells of it.
    fn tell_if_long(&self, entry: &NodeEntry, error: &CloudError) {
        let long = self.shared.metrics.long_in_progress(self.shared.controller);
        let mut waiting = self.patience.lock().unwrap_or_else(PoisonError::into_inner);
        let patience = waiting.entry(entry.name().to_owned()).or_default();
        if let Some(lasted) = patience.note(error, &long, Instant::now()).map(minutes) {
            let message = format!("The cloud has been at work on the machine for {lasted}, and goes on: {error}");
            self.shared.warning(entry, reason::STILL_IN_PROGRESS, message);
        }
    }

    fn finish(&self, entry: &NodeEntry, result: Result<(), ApiError>) {
        let Err(error) = result else { return self.queue.forget(&entry.key()) };
        self.shared.api_error(entry.name(), &error);
        match error {
            ApiError::Gone(_) => self.queue.forget(&entry.key()),
            ApiError::Changed(_) => Again::Soon.schedule(&self.queue, &entry.key()),
            ApiError::Forbidden(..) | ApiError::Failed(..) => {
                self.shared.warning(entry, reason::FAILED_TO_INITIALIZE, format!("Node cannot be updated: {error}"));
                self.queue.retry(entry.key());
            }
        }
    }

    /// True if the cache still shows what was there before this node was initialised.
    fn is_settled(&self, entry: &NodeEntry) -> bool {
        let settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        settled.get(entry.name()).is_some_and(|version| !version.is_empty() && version == entry.resource_version())
    }

    /// Has all initialised nodes looked up, now and every period after. Never ends.
    async fn keep(&self) {
        if !self.options.kept.addresses && !self.options.kept.labels {
            return std::future::pending().await;
        }
        loop {
            self.mark_due();
            sleep(self.options.period).await;
        }
    }

    /// All at once, so that they are asked about in full batches.
    fn mark_due(&self) {
        let info = self.shared.provider.info();
        let nodes = self.shared.nodes.list();
        let kept = nodes.iter().filter(|entry| plan::kept(&entry.view, &info)).map(|entry| Arc::clone(&entry.view));
        self.queue.add_all(self.due.mark(kept), Priority::Recheck);
    }

    async fn repair(&self, entry: &NodeEntry, instance: &Instance, turns: &Semaphore) {
        let _turn = turns.acquire().await;
        let plan = plan::repair(&entry.view, instance, self.options.kept);
        for refused in &plan.labels.refused {
            tracing::debug!(node = entry.name(), "{refused}");
        }
        if let Some(refused) = &plan.refused {
            tracing::warn!(node = entry.name(), "addresses are left as they are: {refused}");
        }
        let result = apply::repair(&self.client, entry, &plan).await;
        if let Err(error) = &result {
            self.shared.api_error(entry.name(), error);
        }
        if matches!(result, Err(ApiError::Changed(_))) {
            Again::Soon.schedule(&self.queue, &entry.key());
        } else {
            self.next_period(entry);
        }
    }

    /// The cloud could not say how an initialised node is: nothing is wrong with the node, and the next period comes anyway.
    fn put_off(&self, entry: &NodeEntry, error: &CloudError) {
        self.shared.cloud_error(entry.name(), error);
        match Again::after(error) {
            Again::OnChange => {
                self.queue.forget(&entry.key());
                self.due.refuse(&entry.view);
            }
            Again::BackOff => self.next_period(entry),
            again @ (Again::After(_) | Again::Soon) => again.schedule(&self.queue, &entry.key()),
        }
    }

    fn next_period(&self, entry: &NodeEntry) {
        self.queue.forget(&entry.key());
        self.due.done(entry.name());
    }
}

#[async_trait]
impl Runner for NodeController {
    fn recheck(&self) {
        self.due.forget_refusals();
        self.fits().clear();
        self.shared.nodes.list().iter().for_each(|entry| self.queue.add(entry.key(), added(entry)));
        self.mark_due();
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let work = join_all((0..self.options.workers.max(1)).map(|number| {
            let (this, stop) = (Arc::clone(&self), shutdown.clone());
            apart(async move { this.work(number, &stop).await })
        }));
        let slow = self.work_on_slow_ones(&shutdown);
        let close = async {
            shutdown.cancelled().await;
            self.queue.close();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            // What is due comes first, so that the first batches are full.
            biased;
            () = self.keep() => {}
            _ = work => {}
            () = slow => {}
            () = close => {}
            () = self.queue.observe() => {}
        }
    }
}

fn added(entry: &Entry<Node>) -> Priority {
    if plan::uninitialised(&entry.view) { Priority::Change } else { Priority::Recheck }
}

fn forget<T>(memory: &Mutex<HashMap<String, T>>, name: &str) {
    memory.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
}

/// Kubernetes keeps creation times to the second.
fn age(entry: &Entry<Node>) -> Duration {
    let now = u64::try_from(Timestamp::now().as_second()).unwrap_or(0);
    Duration::from_secs(now.saturating_sub(entry.view.creation_timestamp))
}

#[cfg(test)]
mod tests;
