//! Initialises nodes and keeps their addresses and topology labels.
//!
//! Upstream's cloud-node-controller, with nodes described in batches, addresses and labels written before the taint goes, and
//! nodes of foreign providers left alone.

pub mod addresses;
mod apply;
pub mod plan;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt, future::join_all, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use skydock_cloud::{Capability, CloudError, Instance};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub(crate) use self::apply::remove_taints;
use self::plan::Need;
use crate::{
    api::ApiError,
    constants::reason,
    informer::{Change, Entry},
    queue::{Limiter, Priority, Queue},
    retry::{self, Again},
    shared::{Runner, Shared, complete},
};

/// Nodes of one batch that are written at the same time.
const WRITERS: usize = 16;

type NodeEntry = Arc<Entry<Node>>;

/// The node controller.
pub(crate) struct NodeController {
    shared: Shared,
    client: Client,
    queue: Arc<Queue<String>>,
    workers: usize,
    address_period: Duration,
    /// Version of a node that was initialised: the cache may show it for a moment longer.
    settled: Arc<Mutex<HashMap<String, String>>>,
    /// UID of a node that was warned about as foreign: once is enough.
    foreign: Arc<Mutex<HashMap<String, String>>>,
}

impl NodeController {
    pub(crate) fn new(shared: Shared, client: Client, workers: usize, address_period: Duration) -> Self {
        let queue = Arc::new(Queue::new(Limiter::NODES, shared.metrics.queue("Nodes")));
        let settled = Arc::<Mutex<HashMap<String, String>>>::default();
        let foreign = Arc::<Mutex<HashMap<String, String>>>::default();
        shared.nodes.subscribe({
            let (queue, settled, foreign) = (Arc::clone(&queue), Arc::clone(&settled), Arc::clone(&foreign));
            move |change| match change {
                Change::Added(new) => queue.add(new.key(), added(new)),
                // Heartbeats change nothing that matters here, and must not cut a back-off short.
                Change::Updated(old, new) if old.view != new.view => queue.add(new.key(), Priority::Change),
                Change::Updated(..) => {}
                Change::Deleted(old) => {
                    forget(&settled, old.name());
                    forget(&foreign, old.name());
                }
            }
        });
        Self { shared, client, queue, workers, address_period, settled, foreign }
    }

    async fn work(&self) {
        while let Some(batch) = self.queue.take_batch(self.shared.provider.info().max_batch).await {
            let keys: Vec<String> = batch.into_iter().map(|(key, _)| key).collect();
            self.sync(&keys).await;
            keys.iter().for_each(|key| self.queue.done(key));
        }
    }

    /// Gives each of these nodes what it needs.
    async fn sync(&self, keys: &[String]) {
        let info = self.shared.provider.info();
        let mut waiting = Vec::new();
        let mut labels = Vec::new();
        for key in keys {
            let Some(entry) = self.shared.nodes.get(key).filter(|entry| !self.is_settled(entry)) else {
                self.queue.forget(key);
                continue;
            };
            match plan::need(&entry.view, &info) {
                Need::Nothing => self.queue.forget(key),
                Need::Foreign(id) => self.leave(&entry, &id, &info.provider_id_prefixes),
                Need::Initialisation => waiting.push(entry),
                Need::Labels(pairs) => labels.push((entry, pairs)),
            }
        }
        stream::iter(labels)
            .for_each_concurrent(WRITERS, |(entry, pairs)| async move {
                let result = apply::labels(&self.client, &entry, &pairs).await;
                self.finish(&entry, result);
            })
            .await;
        self.initialise(waiting).await;
    }

    fn leave(&self, entry: &NodeEntry, id: &str, prefixes: &[String]) {
        self.queue.forget(&entry.key());
        let mut foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        if foreign.insert(entry.name().to_owned(), entry.uid().to_owned()).as_deref() != Some(entry.uid()) {
            let message = format!(
                "Provider ID {id:?} is not one of this provider's ({}): the node is left alone and stays uninitialized",
                prefixes.join(", ")
            );
            self.shared.warning(entry, reason::FOREIGN_PROVIDER_ID, message);
        }
    }

    async fn initialise(&self, waiting: Vec<NodeEntry>) {
        if waiting.is_empty() {
            return;
        }
        let answers = self.describe(&waiting).await;
        stream::iter(waiting.into_iter().zip(answers))
            .for_each_concurrent(WRITERS, |(entry, answer)| async move {
                match answer {
                    Ok(instance) => self.initialise_one(&entry, &instance).await,
                    Err(error) => self.refuse(&entry, &error),
                }
            })
            .await;
    }

    /// Asks the cloud about nodes; where they are comes from `zones` if the provider has that.
    async fn describe(&self, entries: &[NodeEntry]) -> Vec<Result<Instance, CloudError>> {
        let provider = &self.shared.provider;
        let nodes: Vec<_> = entries.iter().map(|entry| Arc::clone(&entry.view)).collect();
        let all = |error: CloudError| nodes.iter().map(|_| Err(error.clone())).collect();
        let mut answers: Vec<_> = match provider.describe(&nodes).await {
            Ok(answers) => complete(answers, nodes.len()).collect(),
            Err(error) => return all(error),
        };
        if !provider.info().can(Capability::Zones) {
            return answers;
        }
        match provider.locate(&nodes).await {
            Ok(zones) => {
                for (answer, zone) in answers.iter_mut().zip(complete(zones, nodes.len())) {
                    let located = match (std::mem::replace(answer, Err(CloudError::ImplementedElsewhere)), zone) {
                        (Ok(instance), Ok(zone)) => Ok(Instance {
                            zone: zone.zone.or(instance.zone),
                            region: zone.region.or(instance.region),
                            ..instance
                        }),
                        (Ok(instance), Err(CloudError::ImplementedElsewhere)) => Ok(instance),
                        (Ok(_), Err(error)) | (Err(error), _) => Err(error),
                    };
                    *answer = located;
                }
                answers
            }
            Err(CloudError::ImplementedElsewhere) => answers,
            Err(error) => all(error),
        }
    }

    async fn initialise_one(&self, entry: &NodeEntry, instance: &Instance) {
        let plan = match plan::initialise(&entry.view, instance) {
            Ok(plan) => plan,
            Err(refusal) => {
                tracing::warn!(node = entry.name(), "{refusal}");
                self.shared.warning(
                    entry,
                    reason::FAILED_TO_INITIALIZE,
                    format!("Node cannot be initialized: {refusal}"),
                );
                self.queue.retry(entry.key());
                return;
            }
        };
        for refused in &plan.refused {
            tracing::warn!(node = entry.name(), "{refused}");
        }
        let result = apply::initialise(&self.client, entry, &plan).await;
        if result.is_ok() {
            self.settled
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(entry.key(), entry.resource_version().to_owned());
            let age = age(entry).as_secs_f64();
            self.shared.metrics.taint_removal_delay.observe(age);
            self.shared.metrics.initial_node_sync_delay.observe(age);
            self.shared.normal(entry, reason::SYNCED, "Node synced successfully");
            tracing::info!(node = entry.name(), "initialized");
        }
        self.finish(entry, result);
    }

    fn refuse(&self, entry: &NodeEntry, error: &CloudError) {
        self.shared.cloud_error(entry.name(), error);
        if retry::warns(error) {
            self.shared.warning(entry, reason::FAILED_TO_INITIALIZE, format!("Node cannot be initialized: {error}"));
        }
        Again::after(error).schedule(&self.queue, &entry.key());
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

    /// Brings the addresses of all initialised nodes up to date, now and every period after.
    async fn keep_addresses(&self, shutdown: &CancellationToken) {
        loop {
            self.update_addresses(shutdown).await;
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep(self.address_period) => {}
            }
        }
    }

    async fn update_addresses(&self, shutdown: &CancellationToken) {
        let info = self.shared.provider.info();
        let owned = |entry: &NodeEntry| {
            !plan::uninitialised(&entry.view) && entry.view.provider_id.as_ref().is_some_and(|id| info.owns(id))
        };
        let nodes: Vec<NodeEntry> = self.shared.nodes.list().into_iter().filter(owned).collect();
        let batches = nodes.chunks(info.max_batch.max(1));
        stream::iter(batches)
            .take_until(shutdown.cancelled())
            .for_each_concurrent(self.workers, |batch| async move {
                for (entry, answer) in batch.iter().zip(self.describe(batch).await) {
                    match answer {
                        Ok(instance) => self.update_addresses_of(entry, &instance).await,
                        Err(error) => self.shared.cloud_error(entry.name(), &error),
                    }
                }
            })
            .await;
    }

    async fn update_addresses_of(&self, entry: &NodeEntry, instance: &Instance) {
        match addresses::wanted(&entry.view, &instance.addresses) {
            Ok(None) => {}
            Ok(Some(wanted)) => {
                if let Err(error) = apply::addresses(&self.client, entry, &wanted).await {
                    self.shared.api_error(entry.name(), &error);
                }
            }
            Err(error) => tracing::warn!(node = entry.name(), "addresses are left as they are: {error}"),
        }
    }
}

#[async_trait]
impl Runner for NodeController {
    fn recheck(&self) {
        self.shared.nodes.list().iter().for_each(|entry| self.queue.add(entry.key(), added(entry)));
    }

    async fn run(&self, shutdown: CancellationToken) {
        let work = async {
            tokio::join!(join_all((0..self.workers).map(|_| self.work())), self.keep_addresses(&shutdown));
        };
        let close = async {
            shutdown.cancelled().await;
            self.queue.close();
            std::future::pending::<()>().await;
        };
        tokio::select! { () = work => {}, () = close => {}, () = self.queue.observe() => {} }
    }
}

fn added(entry: &Entry<Node>) -> Priority {
    if plan::uninitialised(&entry.view) { Priority::Change } else { Priority::Recheck }
}

fn forget(memory: &Mutex<HashMap<String, String>>, name: &str) {
    memory.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
}

/// Kubernetes keeps creation times to the second.
fn age(entry: &Entry<Node>) -> Duration {
    let now = u64::try_from(Timestamp::now().as_second()).unwrap_or(0);
    Duration::from_secs(now.saturating_sub(entry.view.creation_timestamp))
}

#[cfg(test)]
mod tests;
