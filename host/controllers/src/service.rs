//! Load balancers for services.
//!
//! Upstream's service-lb-controller. Beyond it: every kind of error of the cloud is honoured everywhere, node changes that
//! come together are one pass, a service is never worked on from two sides at once, and a load balancer is deleted also if
//! its service vanished under our hands.

mod cleanup;
mod ensure;
pub mod nodes;
pub mod plan;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use skydock_cloud::CloudError;
use tokio_util::sync::CancellationToken;

use self::{nodes::NodeId, plan::Need};
use crate::{
    api::{ApiError, Target},
    constants::reason,
    convert::ConvertError,
    informer::{Change, Entry, Informer},
    queue::{Limiter, Priority, Queue},
    retry::{self, Again},
    shared::{Runner, Shared},
};

/// How long changes of nodes are gathered before load balancers are told: a scale-up changes many at once.
const GATHER: Duration = Duration::from_millis(100);

type ServiceEntry = Arc<Entry<Service>>;

/// The service controller.
pub(crate) struct ServiceController {
    shared: Shared,
    client: Client,
    services: Arc<Informer<Service>>,
    queue: Arc<Queue<String>>,
    node_queue: Arc<Queue<()>>,
    workers: usize,
    known: Mutex<HashMap<String, Arc<Known>>>,
}

/// A service that this process has worked on.
struct Known {
    /// Held while the cloud works on it.
    busy: tokio::sync::Mutex<()>,
    progress: Mutex<Progress>,
}

#[derive(Clone)]
struct Progress {
    /// As it was when it was last worked on.
    entry: ServiceEntry,
    /// Nodes the cloud was last told; `None` before the first time.
    nodes: Option<Vec<NodeId>>,
    /// The cloud was asked to make or to delete, and has not said that it is done.
    unfinished: bool,
    /// The service cannot be told to the cloud, or is not taken, as it is: it is not ensured again before it changes.
    refused: bool,
    /// Reason of the event that told the beginning of the present work.
    announced: Option<&'static str>,
}

impl Known {
    fn new(entry: ServiceEntry) -> Self {
        let progress = Progress { entry, nodes: None, unfinished: false, refused: false, announced: None };
        Self { busy: tokio::sync::Mutex::default(), progress: Mutex::new(progress) }
    }

    fn progress(&self) -> Progress {
        self.lock().clone()
    }

    fn update(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.lock());
    }

    /// True if the beginning of this work has not been told yet.
    fn announce(&self, reason: &'static str) -> bool {
        self.lock().announced.replace(reason) != Some(reason)
    }

    fn finish(&self) {
        self.update(|progress| {
            progress.unfinished = false;
            progress.announced = None;
        });
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why the work on a service did not succeed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}: {1}")]
    Cloud(&'static str, #[source] CloudError),
    #[error("{0}: {1}")]
    Api(&'static str, #[source] ApiError),
    #[error("{0}")]
    Invalid(ConvertError),
    /// The load balancer of a service that is gone could not be deleted.
    #[error("{0}")]
    Gone(CloudError),
}

impl ServiceController {
    pub(crate) fn new(shared: Shared, client: Client, services: Arc<Informer<Service>>, workers: usize) -> Self {
        let queue = Arc::new(Queue::new(Limiter::SERVICES, shared.metrics.queue("service")));
        let node_queue = Arc::new(Queue::new(Limiter::SERVICES, shared.metrics.queue("node")));
        services.subscribe({
            let queue = Arc::clone(&queue);
            move |change| match change {
                Change::Added(new) => {
                    if let Some(priority) = added(&new.object) {
                        queue.add(new.key(), priority);
                    }
                }
                Change::Updated(old, new) => {
                    let (old, new_object) = (&old.object, &new.object);
                    if plan::needs_update(old, new_object)
                        || plan::needs_cleanup(new_object)
                        || plan::needs_mending(old, new_object)
                    {
                        queue.add(new.key(), Priority::Change);
                    }
                }
                Change::Deleted(old) => queue.add(old.key(), Priority::Change),
            }
        });
        shared.nodes.subscribe({
            let queue = Arc::clone(&node_queue);
            move |change| {
                let matters = match change {
                    Change::Added(node) | Change::Deleted(node) => nodes::eligible(node),
                    Change::Updated(old, new) => nodes::matters(old, new),
                };
                if matters {
                    queue.add_after((), GATHER, Priority::Change);
                }
            }
        });
        Self { shared, client, services, queue, node_queue, workers, known: Mutex::default() }
    }

    async fn work(&self) {
        while let Some((key, priority)) = self.queue.take().await {
            self.sync(&key, priority).await;
            self.queue.done(&key);
        }
    }

    async fn sync(&self, key: &str, priority: Priority) {
        let Some(entry) = self.services.get(key) else {
            let gone = match self.known(key) {
                Some(known) => self.forget_gone(key, &known).await,
                None => Ok(()),
            };
            return self.settle(key, gone);
        };
        if let Some(known) = self.known(key).filter(|known| known.progress().entry.uid() != entry.uid()) {
            // It was deleted and made anew, and nobody saw it: the old load balancer goes first.
            if let Err(failure) = self.forget_gone(key, &known).await {
                return self.settle(key, Err(failure));
            }
        }
        let known = self.known(key);
        let result = match plan::need(&entry.object, known.is_some()) {
            Need::Nothing => Ok(()),
            Need::Ensure => {
                let known = self.remember(key, &entry);
                let _busy = known.busy.lock().await;
                self.ensure(&known, &entry, priority).await
            }
            Need::Cleanup => {
                let known = self.remember(key, &entry);
                let _busy = known.busy.lock().await;
                let result = self.cleanup(&known, &entry).await;
                if result.is_ok() {
                    self.all().remove(key);
                }
                result
            }
        };
        self.settle(key, result.map_err(|failure| (entry, failure)));
    }

    async fn forget_gone(&self, key: &str, known: &Arc<Known>) -> Result<(), (ServiceEntry, Failure)> {
        let _busy = known.busy.lock().await;
        match self.delete_gone(known).await {
            Ok(()) => {
                self.all().remove(key);
                Ok(())
            }
            Err(failure) => Err((known.progress().entry, failure)),
        }
    }

    /// Tells what went wrong, and sees to it that it is tried again.
    fn settle(&self, key: &str, result: Result<(), (ServiceEntry, Failure)>) {
        let Err((entry, failure)) = result else { return self.queue.forget(&key.to_owned()) };
        let (warns, again) = match &failure {
            Failure::Cloud(_, error) | Failure::Gone(error) => {
                self.shared.cloud_error(key, error);
                (retry::warns(error), Again::after(error))
            }
            Failure::Api(_, error) => {
                self.shared.api_error(key, error);
                (true, if matches!(error, ApiError::Changed(_)) { Again::Soon } else { Again::BackOff })
            }
            Failure::Invalid(_) => {
                self.shared.metrics.error(self.shared.controller, "invalid");
                tracing::warn!(service = key, "{failure}");
                (true, Again::OnChange)
            }
        };
        if warns {
            let (reason, doing) = match failure {
                Failure::Gone(_) => (reason::DELETE_LB_FAILED, "deleting"),
                _ => (reason::SYNC_LB_FAILED, "syncing"),
            };
            self.shared.warning(&entry, reason, format!("Error {doing} load balancer: {failure}"));
        }
        again.schedule(&self.queue, &key.to_owned());
    }

    fn known(&self, key: &str) -> Option<Arc<Known>> {
        self.all().get(key).cloned()
    }

    fn all_known(&self) -> Vec<(String, Arc<Known>)> {
        self.all().iter().map(|(key, known)| (key.clone(), Arc::clone(known))).collect()
    }

    /// Before the work, so that changes of nodes reach also a service whose first try failed.
    ///
    /// A version that cannot be told to a provider in full does not replace one that could: with that one's source ranges
    /// left out, an update of nodes would open the load balancer to anyone.
    fn remember(&self, key: &str, entry: &ServiceEntry) -> Arc<Known> {
        let mut all = self.all();
        let known = all.entry(key.to_owned()).or_insert_with(|| Arc::new(Known::new(Arc::clone(entry))));
        known.update(|progress| {
            if entry.view.problem.is_none() || progress.entry.view.problem.is_some() {
                progress.entry = Arc::clone(entry);
            }
        });
        Arc::clone(known)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Known>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Runner for ServiceController {
    fn recheck(&self) {
        for entry in self.services.list() {
            if added(&entry.object).is_some() {
                self.queue.add(entry.key(), Priority::Recheck);
            }
        }
        for (key, _) in self.all_known() {
            self.queue.add(key, Priority::Recheck);
        }
    }

    async fn run(&self, shutdown: CancellationToken) {
        let work = async {
            tokio::join!(join_all((0..self.workers).map(|_| self.work())), self.work_nodes());
        };
        let close = async {
            shutdown.cancelled().await;
            self.queue.close();
            self.node_queue.close();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = work => {},
            () = close => {},
            () = self.queue.observe() => {},
            () = self.node_queue.observe() => {},
        }
    }
}

/// Whether a service that is new here is looked at, and how soon: one that has its load balancer can wait.
fn added(service: &Service) -> Option<Priority> {
    match plan::need(service, false) {
        Need::Nothing => None,
        Need::Ensure if plan::has_finalizer(service) && plan::served(service) => Some(Priority::Recheck),
        Need::Ensure | Need::Cleanup => Some(Priority::Change),
    }
}

fn target(entry: &ServiceEntry) -> Target<'_> {
    Target { namespace: entry.object.metadata.namespace.as_deref(), name: entry.name(), subresource: Some("status") }
}

#[cfg(test)]
mod tests;
