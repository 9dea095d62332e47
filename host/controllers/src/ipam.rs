//! Allocates Pod CIDRs for nodes from the cluster CIDRs.
//!
//! This is upstream's node-ipam-controller with the range allocator, the only one that does not
//! depend on a particular cloud. It differs from upstream in these points:
//!
//! - A Pod CIDR stays reserved for its node if the answer to the write was lost.
//! - No Pod CIDR is allocated while writes of a previous process that was killed may still arrive.
//!   (A process that shuts down in an orderly way releases its Lease even if a write is still in
//!   progress. If such a write arrives later, it is reported like one of upstream's controller.)
//! - Nodes for which no Pod CIDR was left get one as soon as another node is deleted.
//! - Pod CIDRs that were not allocated here do not end the process: they are reported and not
//!   changed.

mod cidr_set;
mod ledger;
pub(crate) mod metrics;
mod range;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use parking_lot::Mutex;
use serde_json::json;
use skydock_cloud::reason;
use skydock_controller_base::{
    calls::retry::RetryWhen,
    controller::{
        context::{ControllerContext, Runner},
        descriptor::{Descriptor, NeedsServices},
    },
    objects::kinds::NodeKind,
};
use skydock_kube::{
    api::{Patch, Target, patch},
    informer::{Change, Entry},
    queue::{Limiter, Priority, Queue},
};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

pub use self::range::{NodeRange, NodeRangeError};
use self::{
    cidr_set::CidrSet,
    ledger::{Decision, Ledger, Problem},
    metrics::IpamMetrics,
};
use crate::ClientName;

/// Maximum number of nodes that are written concurrently, as in upstream.
const WORKERS: usize = 30;

/// First delay for a node for which no Pod CIDR is left; it doubles each time. It only determines
/// when the event is repeated: a waiting node is processed at once when a Pod CIDR is released.
const EXHAUSTED: Duration = Duration::from_secs(30);

/// How late a write of the previous leader may arrive: an API server gives up on a write after 34
/// s, and its result appears in the cache some moments later.
pub(crate) const LATE_WRITES: Duration = Duration::from_secs(40);

/// The node IPAM controller.
pub static CONTROLLER: Descriptor = Descriptor {
    name: "node-ipam-controller",
    alias: "nodeipam",
    client: ClientName::Node,
    event_source: "cidrAllocator",
    needs: None,
    needs_services: NeedsServices::No,
};

/// Options of the node IPAM controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpamOptions {
    /// Cluster CIDRs: at most one of each IP family, the primary one first. If empty, nodes get no
    /// Pod CIDRs (`--allocate-node-cidrs=false`).
    pub ranges: Vec<NodeRange>,
    /// Addresses of Services, which are not allocated to nodes (`--service-cluster-ip-range`).
    pub service_cidrs: Vec<IpNet>,
}

/// The node IPAM controller.
pub(crate) struct IpamController {
    context: ControllerContext,
    client: Client,
    queue: Arc<Queue<String>>,
    ledger: Arc<Mutex<Ledger>>,
    /// Until this time, Pod CIDRs that another process has allocated may still arrive.
    not_before: Instant,
}

impl IpamController {
    /// Records the Pod CIDRs of all cached nodes before any is allocated. During `quiet`, nothing
    /// is allocated, so that Pod CIDRs that another process has allocated can arrive in the cache.
    pub(crate) fn new(
        context: ControllerContext,
        metrics: &IpamMetrics,
        client: Client,
        options: &IpamOptions,
        quiet: Duration,
    ) -> Self {
        let queue = Arc::new(Queue::new(
            Limiter::NODES,
            context.metrics.queue("cidrallocator_node"),
        ));

        let set = |range: &NodeRange| {
            CidrSet::new(*range, metrics.cidr_set(&range.cluster().to_string()))
        };
        let sets = options.ranges.iter().map(set).collect();
        let ledger = Arc::new(Mutex::new(Ledger::new(sets, &options.service_cidrs)));

        context.nodes.subscribe({
            let queue = Arc::clone(&queue);
            let ledger = Arc::clone(&ledger);

            move |change| {
                let mut ledger = ledger.lock();
                match change {
                    Change::Added(new) => observe(&mut ledger, &queue, new),
                    // The node was recreated, and the cache has missed its deletion.
                    Change::Updated(old, new) if old.uid() != new.uid() => {
                        ledger.forget(&old.view);
                        observe(&mut ledger, &queue, new);
                    }
                    // Other changes do not matter here, and must not shorten a back-off.
                    Change::Updated(old, new) if old.view.pod_cidrs != new.view.pod_cidrs => {
                        observe(&mut ledger, &queue, new);
                    }
                    Change::Updated(..) => {}
                    Change::Deleted(old) => ledger.forget(&old.view),
                }

                wake(&mut ledger, &queue);
            }
        });

        Self {
            context,
            client,
            queue,
            ledger,
            not_before: Instant::now() + quiet,
        }
    }

    async fn sync(&self, key: &str) {
        let Some((entry, decision)) = self.decide(key) else {
            return self.queue.forget(&key.to_owned());
        };

        match decision {
            Decision::Nothing => self.queue.forget(&entry.key()),
            Decision::Assign(cidrs) => self.assign(&entry, &cidrs).await,
            Decision::Exhausted(range) => {
                self.context
                    .metrics
                    .error(self.context.controller, "pod-cidrs-exhausted");
                let flag = mask_flag(range);
                let message = format!(
                    "The node cannot get a Pod CIDR: {range} is exhausted. The node gets one when another node is deleted. For \
                     more nodes, extend --cluster-cidr or increase {flag} (--node-cidr-mask-size if that is set)"
                );

                tracing::warn!(node = entry.name(), "{message}");
                self.context
                    .warning(&entry, reason::CIDR_NOT_AVAILABLE, message);
                self.queue.retry(entry.key(), EXHAUSTED, Priority::Change);
            }
            Decision::Warn(problems) => {
                self.queue.forget(&entry.key());
                for problem in problems {
                    let (kind, reason) = match problem {
                        Problem::Unreadable(_) | Problem::OutOfRange(_) => {
                            ("pod-cidr-out-of-range", reason::POD_CIDR_OUT_OF_RANGE)
                        }
                        Problem::Shared { .. } => ("pod-cidr-conflict", reason::POD_CIDR_CONFLICT),
                        Problem::WrittenByOther(_) => {
                            ("other-cidr-allocator", reason::OTHER_CIDR_ALLOCATOR)
                        }
                    };

                    self.context.metrics.error(self.context.controller, kind);
                    tracing::warn!(node = entry.name(), "{problem}");
                    self.context.warning(&entry, reason, problem.to_string());
                }
            }
        }
    }

    /// Returns `None` if the node does not exist. The ledger is locked while the node is looked up,
    /// so that the node cannot be removed from it in between: what is reserved for a node is
    /// released when the node is removed.
    fn decide(&self, key: &str) -> Option<(Arc<Entry<NodeKind>>, Decision)> {
        let mut ledger = self.ledger.lock();
        let entry = self.context.nodes.get(key)?;
        let deleting = entry.object.deletion_timestamp.is_some();
        let decision = ledger.decide(&entry.view, deleting);
        Some((entry, decision))
    }

    /// Writes Pod CIDRs to a node. The API server does not allow changing existing ones, so those
    /// that another component wrote in the meantime stay.
    async fn assign(&self, entry: &Entry<NodeKind>, cidrs: &[IpNet]) {
        // The API server expects the first of `podCIDRs` in `podCIDR`, too.
        let body = json!({
            "metadata": { "uid": entry.uid() },
            "spec": { "podCIDR": cidrs.first(), "podCIDRs": cidrs },
        });

        let target = Target {
            namespace: None,
            name: entry.name(),
            subresource: None,
        };

        let Err(error) = patch::<Node>(&self.client, &target, &Patch::Merge(body)).await else {
            tracing::info!(
                node = entry.name(),
                "allocated Pod CIDR {}",
                ledger::list(cidrs)
            );
            return self.queue.forget(&entry.key());
        };

        self.context.api_error(entry.name(), &error);
        let again = RetryWhen::after_write(&error);
        if again == RetryWhen::BackOff {
            let message = format!("Cannot write Pod CIDR {}: {error}", ledger::list(cidrs));
            self.context
                .warning(entry, reason::CIDR_ASSIGNMENT_FAILED, message);
        }

        again.schedule(&self.queue, &entry.key());
    }
}

/// Returns the flag that sets the size of Pod CIDRs in this range, unless `--node-cidr-mask-size`
/// does.
fn mask_flag(range: IpNet) -> &'static str {
    match range {
        IpNet::V4(_) => "--node-cidr-mask-size-ipv4",
        IpNet::V6(_) => "--node-cidr-mask-size-ipv6",
    }
}

fn observe(ledger: &mut Ledger, queue: &Queue<String>, entry: &Entry<NodeKind>) {
    if ledger.observe(&entry.view) {
        queue.add(entry.key(), Priority::Change);
    }
}

/// Queues one waiting node if a Pod CIDR may be free; the next one follows when it is done.
fn wake(ledger: &mut Ledger, queue: &Queue<String>) {
    if let Some(name) = ledger.next_waiting() {
        queue.add(name, Priority::Change);
    }
}

#[async_trait]
impl Runner for IpamController {
    /// Does nothing: Pod CIDRs do not depend on the plugin.
    fn recheck(&self) {}

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let this = &self;
        let sync = |key: String, _| async move {
            this.sync(&key).await;
            wake(&mut this.ledger.lock(), &this.queue);
        };

        if shutdown
            .run_until_cancelled(sleep_until(self.not_before))
            .await
            .is_some()
        {
            self.queue.run_workers(WORKERS, &shutdown, sync).await;
        }
    }
}

#[cfg(test)]
mod tests;
