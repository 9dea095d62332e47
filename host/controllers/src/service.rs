//! Manages load balancers of Services.
//!
//! This is upstream's service-lb-controller, with these differences:
//!
//! - Every case of error of the cloud is handled in all calls.
//! - Several changes of nodes are handled in one pass, and a Service is never processed twice at the same time.
//! - A load balancer is deleted even if its Service has disappeared without a cleanup.
//! - What the cloud has lost or changed by itself is fixed by a slow check ([`ServiceOptions::check_period`]). Checks,
//!   including those after a start, are paced, have a lower priority than changes, and write nothing if there is nothing to do.
//! - A Service can select its nodes with the annotation
//!   [`ANNOTATION_NODE_SELECTOR`](crate::constants::ANNOTATION_NODE_SELECTOR).
//!
//! Rejections by the cloud are reported by events, not by a condition: the only condition that Kubernetes defines for Services,
//! `LoadBalancerPortsError`, is about ports, whose errors are in `status.loadBalancer.ingress`.

mod cleanup;
mod descriptor;
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
use skydock_kube::{
    api::{ApiError, Target},
    informer::{Change, Entry, Informer},
    queue::{Limiter, Priority, Queue},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::descriptor::CONTROLLER;
pub use self::options::{ClassError, Classes, NodeRules, ServiceOptions, parse_class};
use self::{
    known::{Known, KnownServices, Waiting},
    nodes::{Nodes, Passes},
    plan::Need,
    selection::Selection,
};
use crate::kinds::ServiceKind;
use crate::{
    constants::reason,
    convert::ConvertError,
    notes::Written,
    patience::minutes,
    reads::Reads,
    retry::{self, Again},
    shared::{Runner, Shared, apart},
};

/// Time for which changes of nodes are gathered before load balancers are updated: a scale-up changes many nodes at once.
const GATHER: Duration = Duration::from_millis(100);

type ServiceEntry = Arc<Entry<ServiceKind>>;

/// The service controller.
pub(crate) struct ServiceController {
    shared: Shared,
    client: Client,
    services: Arc<Informer<ServiceKind>>,
    options: ServiceOptions,
    queue: Arc<Queue<String>>,
    node_queue: Arc<Queue<Nodes>>,
    passes: Passes,
    known: Arc<KnownServices>,
    selection: Arc<Selection>,
}

/// Why processing a Service failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}: {1}")]
    Cloud(&'static str, #[source] CloudError),
    #[error("{0}: {1}")]
    Api(&'static str, #[source] ApiError),
    #[error("{0}")]
    Invalid(ConvertError),
    /// The load balancer of a Service that does not exist could not be deleted.
    #[error("{0}")]
    Gone(CloudError),
}

impl ServiceController {
    pub(crate) fn new(
        shared: Shared,
        client: Client,
        services: Arc<Informer<ServiceKind>>,
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
        // It is not known which nodes an earlier process has sent to the cloud: nodes may have changed while there was no
        // leader.
        controller.node_queue.add_after(Nodes::Pass, GATHER, Priority::Change);
        controller
    }

    fn follow_services(&self, written: Arc<Written>) {
        // All Services are added at once; the pace depends on their number and has to be set before the first is taken.
        self.queue.pace(self.options.pace(self.services.list().len()));
        let (queue, known) = (Arc::clone(&self.queue), Arc::clone(&self.known));
        let classes = self.options.classes.clone();
        self.services.subscribe(move |change| match change {
            Change::Added(new) => {
                let Some(priority) = added(&new.object, &classes) else { return };
                if priority == Priority::Recheck {
                    // So that changes of nodes reach it even before its own check.
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

    /// Runs `work` on a Service, unless other work on it is in progress. In that case, `later` is scheduled for when that has
    /// ended, and `None` is returned: a worker must not wait for a slow load balancer.
    async fn alone<T>(&self, key: &str, known: &Known, later: Waiting, work: impl Future<Output = T>) -> Option<T> {
        let busy = match known.busy.try_lock() {
            Ok(busy) => busy,
            Err(_) => {
                known.wait(later);
                // The other work may have ended just before.
                known.busy.try_lock().ok()?
            }
        };
        let current = self.known.get(key).is_some_and(|other| std::ptr::eq(&*other, known));
        let done = if current { Some(work.await) } else { None };
        drop(busy);
        match known.waiting() {
            // It includes the nodes.
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
            // The Service was deleted and recreated unnoticed: its old load balancer is deleted first.
            let Some(gone) = self.forget_gone(key, &old, priority).await else { return };
            if let Err((gone, failure)) = gone {
                let Failure::Gone(CloudError::Invalid(_)) = failure else {
                    return self.settle(key, priority, Err((gone, failure)));
                };
                // The old object will never change, and the new one must not wait for it.
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

    /// Deletes the load balancer of a Service that does not exist. Returns `None` if the Service is being processed; then it is
    /// scheduled again.
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

    /// Reports a failure, and schedules the retry.
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
        // A Service that does not exist cannot change, but the cloud and the plugin can; this also applies to rejected
        // Services. The event about an invalid Service is repeated, because events expire.
        let elsewhere = matches!(failure, Failure::Cloud(_, CloudError::ImplementedElsewhere));
        if again == Again::OnChange && !elsewhere {
            self.check_later(key);
        }
    }

    /// Reports an operation that has been in progress for a long time: it is not an error, so nothing else reports it.
    fn tell_if_long(&self, key: &str, entry: &ServiceEntry, error: &CloudError) {
        let Some(known) = self.known.get(key) else { return };
        let long = self.shared.metrics.long_in_progress(self.shared.controller);
        if let Some(lasted) = known.update(|progress| progress.patience.note(error, &long, Instant::now())) {
            let lasted = minutes(lasted);
            let message = format!("An operation on the load balancer has been in progress for {lasted}: {error}");
            self.shared.warning(entry, reason::STILL_IN_PROGRESS, message);
        }
    }

    /// Schedules the next check of a load balancer.
    fn check_later(&self, key: &str) {
        if let Some(period) = self.options.check_period {
            self.queue.pace(self.options.pace(self.known.len()));
            self.queue.add_after(key.to_owned(), period, Priority::Recheck);
        }
    }
}

#[async_trait]
impl Runner for ServiceController {
    /// Checks all Services. Those that are not in the desired state go first: the new plugin may fix them.
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

/// Returns whether and with which priority a Service that appeared in the cache is processed: one that has its load balancer
/// can wait.
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
