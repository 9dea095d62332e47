//! Load balancers for services.
//!
//! Upstream's service-lb-controller. Beyond it:
//!
//! - every kind of error of the cloud is honoured everywhere;
//! - node changes that come together are one pass, and a service is never worked on from two sides at once;
//! - a load balancer is deleted also if its service vanished under our hands;
//! - what the cloud has lost or changed by itself is mended by a slow check ([`ServiceOptions::check_period`]). Checks, and
//!   those after a start, are paced, go after changes, and say and write nothing if there is nothing to do;
//! - a service chooses its nodes by the annotation [`ANNOTATION_NODE_SELECTOR`](crate::constants::ANNOTATION_NODE_SELECTOR).
//!
//! What the cloud refuses is told by events, not by a condition: the one condition that Kubernetes defines for services,
//! `LoadBalancerPortsError`, is about ports alone, and those carry their errors in `status.loadBalancer.ingress`.

mod cleanup;
mod ensure;
mod known;
mod nodes;
mod options;
pub mod plan;
pub mod selection;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use skydock_cloud::CloudError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::options::{ClassError, Classes, NodeRules, ServiceOptions, parse_class};
use self::{
    known::{Known, KnownServices, Waiting},
    nodes::{Nodes, Passes},
    plan::Need,
    selection::Selection,
};
use crate::{
    api::{ApiError, Target},
    constants::reason,
    convert::ConvertError,
    informer::{Change, Entry, Informer},
    notes::Written,
    patience::minutes,
    queue::{Limiter, Priority, Queue},
    reads::Reads,
    retry::{self, Again},
    shared::{Runner, Shared, apart},
};

/// How long changes of nodes are gathered before load balancers are told: a scale-up changes many at once.
const GATHER: Duration = Duration::from_millis(100);

type ServiceEntry = Arc<Entry<Service>>;

/// The service controller.
pub(crate) struct ServiceController {
    shared: Shared,
    client: Client,
    services: Arc<Informer<Service>>,
    options: ServiceOptions,
    queue: Arc<Queue<String>>,
    node_queue: Arc<Queue<Nodes>>,
    passes: Passes,
    known: Arc<KnownServices>,
    selection: Arc<Selection>,
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
    pub(crate) fn new(
        shared: Shared,
        client: Client,
        services: Arc<Informer<Service>>,
        mut options: ServiceOptions,
        (written, reads): (Arc<Written>, &Reads),
    ) -> Self {
        options.concurrent_syncs = options.concurrent_syncs.max(1);
        let queue = Arc::new(Queue::new(Limiter::SERVICES, shared.metrics.queue("service")));
        let node_queue = Arc::new(Queue::new(Limiter::SERVICES, shared.metrics.queue("node")));
        let selection = Arc::new(Selection::new(Arc::clone(&shared.nodes), options.nodes));
        let controller = Self {
            shared,
            client,
            services,
            options,
            queue,
            node_queue,
            passes: Passes::default(),
            known: Arc::default(),
            selection,
        };
        controller.follow_services(written);
        let queue = Arc::clone(&controller.queue);
        reads.subscribe(move |reader| queue.add(reader, Priority::Change));
        controller.follow_nodes();
        // What an earlier process has told the cloud, nobody here knows: nodes may have changed while nobody led.
        controller.node_queue.add_after(Nodes::Pass, GATHER, Priority::Change);
        controller
    }

    fn follow_services(&self, written: Arc<Written>) {
        // All are new at once; their number has to be known before the first has its turn.
        self.queue.pace(self.options.pace(self.services.list().len()));
        let (queue, known) = (Arc::clone(&self.queue), Arc::clone(&self.known));
        let classes = self.options.classes.clone();
        self.services.subscribe(move |change| match change {
            Change::Added(new) => {
                let Some(priority) = added(&new.object, &classes) else { return };
                if priority == Priority::Recheck {
                    // Changes of nodes reach it also if its own turn has not come yet.
                    known.remember(&new.key(), new);
                }
                queue.add(new.key(), priority);
            }
            Change::Updated(old, new) => {
                let (old, new_object) = (&old.object, &new.object);
                let echo = |key: &str, value: Option<&str>| written.is(new.uid(), key, value);
                if plan::needs_update(old, new_object, &classes, echo)
                    || plan::needs_cleanup(new_object, &classes)
                    || plan::needs_mending(old, new_object, &classes)
                {
                    queue.add(new.key(), Priority::Change);
                }
            }
            Change::Deleted(old) => queue.add(old.key(), Priority::Change),
        });
    }

    fn follow_nodes(&self) {
        let (queue, known, selection) =
            (Arc::clone(&self.node_queue), Arc::clone(&self.known), Arc::clone(&self.selection));
        let rules = self.options.nodes;
        self.shared.nodes.subscribe(move |change| {
            let matters = match change {
                Change::Updated(old, new) if selection::same(old, new) => return,
                Change::Added(node) | Change::Deleted(node) => selection::eligible(node, rules),
                Change::Updated(old, new) => {
                    selection::matters(old, new, rules)
                        || (old.view.labels != new.view.labels
                            && selection::eligible(new, rules)
                            && known.selectors.tell_apart(&old.view.labels, &new.view.labels))
                }
            };
            selection.changed(matters);
            if matters {
                queue.add_after(Nodes::Pass, GATHER, Priority::Change);
            }
        });
    }

    fn need(&self, entry: &ServiceEntry, known: bool) -> Need {
        plan::need(&entry.object, &self.options.classes, known)
    }

    async fn work(self: &Arc<Self>) {
        while let Some((key, priority)) = self.queue.take().await {
            let (this, one) = (Arc::clone(self), key.clone());
            apart(async move { this.sync(&one, priority).await }).await;
            self.queue.done(&key);
        }
    }

    /// Does something about a service while nobody else does. If somebody is at it, `later` is done after that, and `None` is
    /// the answer: who waited for a slow load balancer would not work on others.
    async fn alone<T>(&self, key: &str, known: &Known, later: Waiting, work: impl Future<Output = T>) -> Option<T> {
        let busy = match known.busy.try_lock() {
            Ok(busy) => busy,
            Err(_) => {
                known.wait(later);
                // It may have ended just before.
                known.busy.try_lock().ok()?
            }
        };
        let current = self.known.get(key).is_some_and(|other| std::ptr::eq(&*other, known));
        let done = if current { Some(work.await) } else { None };
        drop(busy);
        match known.waiting() {
            // It takes the nodes along.
            Waiting { sync: Some(priority), .. } => self.queue.try_after(key.to_owned(), Duration::ZERO, priority),
            Waiting { nodes: true, .. } => self.node_queue.add(Nodes::Of(key.to_owned()), Priority::Change),
            Waiting { .. } => {}
        }
        done
    }

    async fn sync(&self, key: &str, priority: Priority) {
        let Some(entry) = self.services.get(key) else {
            let Some(known) = self.known.get(key) else { return self.settle(key, priority, Ok(())) };
            let Some(gone) = self.forget_gone(key, &known, priority).await else { return };
            return self.settle(key, priority, gone);
        };
        if let Some(old) = self.known.get(key).filter(|known| known.progress().entry.uid() != entry.uid()) {
            // It was deleted and made anew, and nobody saw it: the old load balancer goes first.
            let Some(gone) = self.forget_gone(key, &old, priority).await else { return };
            if let Err((gone, failure)) = gone {
                let Failure::Gone(CloudError::Invalid(_)) = failure else {
                    return self.settle(key, priority, Err((gone, failure)));
                };
                // The old object will never change, and the new one must not wait for that.
                let aside = self.known.set_aside(key, gone.uid());
                self.settle(&aside, priority, Err((gone, failure)));
            }
        }
        self.sync_present(key, &entry, priority).await;
    }

    async fn sync_present(&self, key: &str, entry: &ServiceEntry, priority: Priority) {
        let later = Waiting { sync: Some(priority), nodes: false };
        let result = match self.need(entry, self.known.get(key).is_some()) {
            Need::Nothing => Some(Ok(())),
            Need::Ensure => {
                let known = self.known.remember(key, entry);
                self.alone(key, &known, later, self.ensure(&known, entry, priority)).await
            }
            Need::Cleanup => {
                let known = self.known.remember(key, entry);
                let cleanup = async {
                    self.cleanup(&known, entry).await?;
                    self.known.remove(key);
                    Ok(())
                };
                self.alone(key, &known, later, cleanup).await
            }
        };
        let Some(result) = result else { return };
        self.settle(key, priority, result.map_err(|failure| (Arc::clone(entry), failure)));
    }

    /// `None` if it is being worked on: it comes again.
    async fn forget_gone(
        &self,
        key: &str,
        known: &Known,
        priority: Priority,
    ) -> Option<Result<(), (ServiceEntry, Failure)>> {
        let forget = async {
            self.delete_gone(known).await.map_err(|failure| (known.progress().entry, failure))?;
            self.known.remove(key);
            Ok(())
        };
        self.alone(key, known, Waiting { sync: Some(priority), nodes: false }, forget).await
    }

    /// Tells what went wrong, and sees to it that it is tried again.
    fn settle(&self, key: &str, priority: Priority, result: Result<(), (ServiceEntry, Failure)>) {
        let Err((entry, failure)) = result else { return self.queue.forget(&key.to_owned()) };
        let (warns, again) = match &failure {
            Failure::Cloud(_, error) | Failure::Gone(error) => {
                self.shared.cloud_error(key, error);
                self.tell_if_long(key, &entry, error);
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
        let gone = matches!(failure, Failure::Gone(_));
        if warns {
            let (reason, doing) =
                if gone { (reason::DELETE_LB_FAILED, "deleting") } else { (reason::SYNC_LB_FAILED, "syncing") };
            self.shared.warning(&entry, reason, format!("Error {doing} load balancer: {failure}"));
            if let Some(known) = self.known.get(key) {
                known.update(|progress| progress.troubled = true);
            }
        }
        again.schedule_as(&self.queue, &key.to_owned(), priority);
        // One that is gone cannot change any more, but the cloud can, and the plugin. And who could not be read is told so again,
        // since events do not last.
        if (gone && again == Again::OnChange) || matches!(failure, Failure::Invalid(_)) {
            self.check_later(key);
        }
    }

    /// Work that the cloud has begun and does not end is nothing that fails, so that nothing else tells of it.
    fn tell_if_long(&self, key: &str, entry: &ServiceEntry, error: &CloudError) {
        let Some(known) = self.known.get(key) else { return };
        let long = self.shared.metrics.long_in_progress(self.shared.controller);
        if let Some(lasted) = known.update(|progress| progress.patience.note(error, &long, Instant::now())) {
            let lasted = minutes(lasted);
            let message = format!("The cloud has been at work on the load balancer for {lasted}, and goes on: {error}");
            self.shared.warning(entry, reason::STILL_IN_PROGRESS, message);
        }
    }

    /// Has a load balancer checked when the period is over.
    fn check_later(&self, key: &str) {
        if let Some(period) = self.options.check_period {
            self.queue.pace(self.options.pace(self.known.len()));
            self.queue.add_after(key.to_owned(), period, Priority::Recheck);
        }
    }
}

#[async_trait]
impl Runner for ServiceController {
    /// What is not as it should be goes first: the new plugin may be what it waits for.
    fn recheck(&self) {
        let known = self.known.all();
        self.queue.pace(self.options.pace(known.len()));
        for (key, known) in &known {
            let progress = known.progress();
            let settled = !progress.unfinished && !progress.refused;
            self.queue.add(key.clone(), if settled { Priority::Recheck } else { Priority::Change });
        }
        for entry in self.services.list() {
            let key = entry.key();
            if let Some(priority) =
                added(&entry.object, &self.options.classes).filter(|_| self.known.get(&key).is_none())
            {
                self.queue.add(key, priority);
            }
        }
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let work = async {
            let workers = || 0..self.options.concurrent_syncs;
            tokio::join!(join_all(workers().map(|_| self.work())), join_all(workers().map(|_| self.work_nodes())));
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
fn added(service: &Service, classes: &Classes) -> Option<Priority> {
    match plan::need(service, classes, false) {
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
