//! Gives each node Pod CIDRs of its own out of the cluster CIDRs.
//!
//! Upstream's node-ipam-controller with the range allocator, which is the only one that needs no particular cloud. Beyond it: a
//! Pod CIDR whose write was not answered stays reserved for its node, none is given while writes of a process that was killed may
//! still arrive (one that was told to end and had to leave a write behind has given up its lease: what arrives of it later is
//! told about, as upstream's), nodes that found nothing left get theirs as soon as a
//! node goes away, and Pod CIDRs that nobody here has given end nothing: they are told about and left alone.

mod cidr_set;
mod ledger;
mod range;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::join_all;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use serde_json::json;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

pub use self::range::{NodeRange, NodeRangeError};
use self::{
    cidr_set::CidrSet,
    ledger::{Decision, Ledger, Problem},
};
use crate::{
    api::{ApiError, Patch, Target, patch},
    constants::reason,
    informer::{Change, Entry},
    queue::{Limiter, Priority, Queue},
    retry::Again,
    shared::{Runner, Shared},
};

/// Nodes that are written at the same time; upstream's.
const WORKERS: usize = 30;

/// First wait of a node that found nothing left, doubled each time. It is there to repeat the event: a Pod CIDR that becomes
/// free wakes a node that waits for it at once.
const EXHAUSTED: Duration = Duration::from_secs(30);

/// How Pod CIDRs are given to nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpamOptions {
    /// What they are taken from: at most one of each IP family, the primary one first. Empty: nodes get none
    /// (`--allocate-node-cidrs=false`).
    pub ranges: Vec<NodeRange>,
    /// Addresses of Services, which no node gets (`--service-cluster-ip-range`).
    pub service_cidrs: Vec<IpNet>,
}

/// The node IPAM controller.
pub(crate) struct IpamController {
    shared: Shared,
    client: Client,
    queue: Arc<Queue<String>>,
    ledger: Arc<Mutex<Ledger>>,
    /// Until then Pod CIDRs that somebody else has given may still arrive.
    not_before: Instant,
}

impl IpamController {
    /// What the nodes of the cache carry is taken note of here, before anything is given; and for as long as `quiet`, what others
    /// have given and the cache does not show yet.
    pub(crate) fn new(shared: Shared, client: Client, options: &IpamOptions, quiet: Duration) -> Self {
        let metrics = &shared.metrics;
        let queue = Arc::new(Queue::new(Limiter::NODES, metrics.queue("cidrallocator_node")));
        let set = |range: &NodeRange| CidrSet::new(*range, metrics.cidr_set(&range.cluster().to_string()));
        let sets = options.ranges.iter().map(set).collect();
        let ledger = Arc::new(Mutex::new(Ledger::new(sets, &options.service_cidrs)));
        shared.nodes.subscribe({
            let (queue, ledger) = (Arc::clone(&queue), Arc::clone(&ledger));
            move |change| {
                let mut ledger = lock(&ledger);
                match change {
                    Change::Added(new) => observe(&mut ledger, &queue, new),
                    Change::Updated(old, new) if old.uid() != new.uid() => {
                        ledger.forget(&old.view);
                        observe(&mut ledger, &queue, new);
                    }
                    // Anything else than Pod CIDRs changes nothing here, and must not cut a back-off short.
                    Change::Updated(old, new) if old.view.pod_cidrs != new.view.pod_cidrs => {
                        observe(&mut ledger, &queue, new);
                    }
                    Change::Updated(..) => {}
                    Change::Deleted(old) => ledger.forget(&old.view),
                }
                wake(&mut ledger, &queue);
            }
        });
        Self { shared, client, queue, ledger, not_before: Instant::now() + quiet }
    }

    async fn work(&self) {
        while let Some((key, _)) = self.queue.take().await {
            self.sync(&key).await;
            wake(&mut lock(&self.ledger), &self.queue);
            self.queue.done(&key);
        }
    }

    async fn sync(&self, key: &str) {
        let Some((entry, decision)) = self.decide(key) else { return self.queue.forget(&key.to_owned()) };
        match decision {
            Decision::Nothing => self.queue.forget(&entry.key()),
            Decision::Assign(cidrs) => self.assign(&entry, &cidrs).await,
            Decision::Exhausted(range) => {
                self.shared.metrics.error(self.shared.controller, "pod-cidrs-exhausted");
                let message = format!(
                    "The node gets no Pod CIDR: all of {range} are in use. It gets one when another node is deleted; for \
                     more nodes, --cluster-cidr must be larger or the prefix of --node-cidr-mask-size longer"
                );
                tracing::warn!(node = entry.name(), "{message}");
                self.shared.warning(&entry, reason::CIDR_NOT_AVAILABLE, message);
                self.queue.retry_as(entry.key(), EXHAUSTED, Priority::Change);
            }
            Decision::Warn(problems) => {
                self.queue.forget(&entry.key());
                for problem in problems {
                    let (kind, reason) = match problem {
                        Problem::Unreadable(_) | Problem::OutOfRange(_) => {
                            ("pod-cidr-out-of-range", reason::POD_CIDR_OUT_OF_RANGE)
                        }
                        Problem::Shared { .. } => ("pod-cidr-conflict", reason::POD_CIDR_CONFLICT),
                        Problem::WrittenByOther(_) => ("other-cidr-allocator", reason::OTHER_CIDR_ALLOCATOR),
                    };
                    self.shared.metrics.error(self.shared.controller, kind);
                    tracing::warn!(node = entry.name(), "{problem}");
                    self.shared.warning(&entry, reason, problem.to_string());
                }
            }
        }
    }

    /// `None` if there is no such node. The node is looked up while nobody else changes the ledger: what is reserved for it is
    /// taken back when it goes, and it has not gone yet.
    fn decide(&self, key: &str) -> Option<(Arc<Entry<Node>>, Decision)> {
        let mut ledger = lock(&self.ledger);
        let entry = self.shared.nodes.get(key)?;
        let deleting = entry.object.deletion_timestamp.is_some();
        let decision = ledger.decide(&entry.view, deleting);
        Some((entry, decision))
    }

    /// The API server lets nobody change Pod CIDRs that are there: what others wrote meanwhile stays.
    async fn assign(&self, entry: &Entry<Node>, cidrs: &[IpNet]) {
        let body = json!({
            "metadata": { "uid": entry.uid() },
            "spec": { "podCIDR": cidrs.first(), "podCIDRs": cidrs },
        });
        let target = Target { namespace: None, name: entry.name(), subresource: None };
        let Err(error) = patch::<Node>(&self.client, &target, &Patch::Merge(body)).await else {
            tracing::info!(node = entry.name(), "Pod CIDR {}", ledger::list(cidrs));
            return self.queue.forget(&entry.key());
        };
        self.shared.api_error(entry.name(), &error);
        match error {
            ApiError::Gone(_) => self.queue.forget(&entry.key()),
            ApiError::Changed(_) => Again::Soon.schedule(&self.queue, &entry.key()),
            ApiError::Forbidden(..) | ApiError::Refused(..) | ApiError::Failed(..) => {
                let message = format!("Pod CIDR {} is not written yet: {error}", ledger::list(cidrs));
                self.shared.warning(entry, reason::CIDR_ASSIGNMENT_FAILED, message);
                self.queue.retry(entry.key());
            }
        }
    }
}

fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

fn observe(ledger: &mut Ledger, queue: &Queue<String>, entry: &Entry<Node>) {
    if ledger.observe(&entry.view) {
        queue.add(entry.key(), Priority::Change);
    }
}

/// Has one node that waits looked at again, if there may be something for it; the next one follows when it is done.
fn wake(ledger: &mut Ledger, queue: &Queue<String>) {
    if let Some(name) = ledger.next_waiting() {
        queue.add(name, Priority::Change);
    }
}

#[async_trait]
impl Runner for IpamController {
    /// No plugin has a say in this.
    fn recheck(&self) {}

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let close = async {
            shutdown.cancelled().await;
            self.queue.close();
            std::future::pending::<()>().await;
        };
        let work = async {
            tokio::select! { () = sleep_until(self.not_before) => {}, () = shutdown.cancelled() => return }
            join_all((0..WORKERS).map(|_| self.work())).await;
        };
        tokio::select! { () = work => {}, () = close => {}, () = self.queue.observe() => {} }
    }
}

#[cfg(test)]
mod tests;
