//! Routes to the Pods of each node, for clouds whose network carries them.
//!
//! Upstream's node-route-controller, driven by changes of nodes unless it is told to work by the clock. Beyond it: routes are
//! made and deleted in batches; what failed is tried again when its error says, alone if need be; a new route waits for the
//! old ones in its place and for no others; a node's condition is written when its own routes are settled; what takes long is
//! left to itself while routes and nodes are compared again; and a slow check finds what was changed behind our back.

mod conditions;
mod flight;
mod network;
mod plan;
mod round;
mod run;
mod tries;
mod work;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::Client;
use skydock_cloud::{Capability, NewRoute, NodeAddress, ProviderInfo, Route};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::{
    conditions::Conditions,
    run::Run,
    tries::{LIMITER, Tries},
};
use crate::{
    ClusterCidrs, ClusterCidrsError,
    informer::{self, Entry},
    queue::{Priority, Queue},
    shared::{Runner, Shared},
};

/// How long changes of nodes are gathered: a new node gets its addresses and its Pod CIDRs within moments.
const GATHER: Duration = Duration::from_millis(100);
/// Least time from the begin of one run to that of the next, unless the cloud has asked for less: each lists all routes.
/// Upstream lets 10 s pass.
const SPACING: Duration = Duration::from_secs(3);
/// A shorter period is taken as this one.
const LEAST_PERIOD: Duration = Duration::from_millis(100);
/// How routes are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteOptions {
    /// Make routes if the provider can (`--configure-cloud-routes`).
    pub configure: bool,
    /// `--cluster-cidr`. What is wrong with it matters only if routes are made.
    pub cluster_cidrs: Result<ClusterCidrs, ClusterCidrsError>,
    /// When to look.
    pub rhythm: Rhythm,
}

impl Default for RouteOptions {
    /// Without cluster CIDRs: there can be no default.
    fn default() -> Self {
        Self {
            configure: true,
            cluster_cidrs: Err(ClusterCidrsError::Missing),
            rhythm: Rhythm::Watch { check_period: Duration::from_secs(300) },
        }
    }
}

impl RouteOptions {
    /// Why routes cannot be made although the provider can and they are wanted.
    ///
    /// # Errors
    ///
    /// If the cluster CIDRs are missing or wrong.
    pub fn check(&self, provider: &ProviderInfo) -> Result<(), ClusterCidrsError> {
        if !self.configure || !provider.can(Capability::Routes) {
            return Ok(());
        }
        self.cluster_cidrs.as_ref().map(drop).map_err(Clone::clone)
    }
}

/// When to compare routes with nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rhythm {
    /// When nodes change, when what failed is to be tried again, and now and then.
    Watch {
        /// How often if nothing changes (`--route-check-period`); zero is never.
        check_period: Duration,
    },
    /// Only by the clock, upstream's way by default.
    Periodic {
        /// How often (`--route-reconciliation-period`), from begin to begin.
        period: Duration,
    },
}

impl Rhythm {
    /// After a run: when the next one is due if nothing changes, and when it may begin if something does.
    fn after(self, took: Duration, again: Option<Duration>) -> (Option<Duration>, Duration) {
        match self {
            Self::Periodic { period } => (Some(period.max(LEAST_PERIOD).saturating_sub(took)), Duration::ZERO),
            Self::Watch { check_period } => {
                let check = Some(check_period).filter(|period| !period.is_zero());
                let next = again.into_iter().chain(check).min();
                let pause = SPACING.saturating_sub(took);
                (next, again.map_or(pause, |again| again.min(pause)))
            }
        }
    }
}

type NodeEntry = Arc<Entry<Node>>;

/// The route controller.
pub(crate) struct RouteController {
    shared: Shared,
    conditions: Conditions,
    cidrs: ClusterCidrs,
    rhythm: Rhythm,
    process: ObjectReference,
    queue: Arc<Queue<()>>,
    memory: Mutex<Memory>,
}

/// What a run leaves for the next one: when not to try. All else comes from the cloud and the nodes.
#[derive(Default)]
struct Memory {
    /// How often all was forgotten: what was begun before counts no more.
    forgotten: u64,
    creates: Tries<NewRoute>,
    deletes: Tries<Route>,
    /// Runs in a row that could not list the routes.
    failures: u32,
    /// When to tell again that there are nearly too many.
    tell_of_limit: Option<Instant>,
    /// When to tell again of a node that has Pod CIDRs outside of the cluster's, by UID.
    tell_of_outside: HashMap<String, Instant>,
}

impl RouteController {
    pub(crate) fn new(
        shared: Shared,
        client: Client,
        cidrs: ClusterCidrs,
        rhythm: Rhythm,
        process: ObjectReference,
    ) -> Self {
        let queue = Arc::new(Queue::new(LIMITER, shared.metrics.queue("Routes")));
        if let Rhythm::Watch { .. } = rhythm {
            let queue = Arc::clone(&queue);
            shared.nodes.subscribe(move |change| {
                if matters(&change) {
                    queue.add_after((), GATHER, Priority::Change);
                }
            });
        }
        queue.add((), Priority::Recheck);
        let conditions = Conditions::new(shared.clone(), client);
        Self { shared, conditions, cidrs, rhythm, process, queue, memory: Mutex::default() }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True if routes may have to follow this change of a node. One without Pod CIDRs has no routes, and its heartbeats are of no
/// interest.
fn matters(change: &informer::Change<'_, Node>) -> bool {
    match change {
        informer::Change::Added(node) | informer::Change::Deleted(node) => interest(node).is_some(),
        informer::Change::Updated(old, new) => interest(old) != interest(new),
    }
}

/// All of a node that goes into its routes.
#[derive(PartialEq)]
struct Interest<'a> {
    uid: &'a str,
    pod_cidrs: &'a [String],
    addresses: &'a [NodeAddress],
    provider_id: Option<&'a str>,
}

fn interest(entry: &Entry<Node>) -> Option<Interest<'_>> {
    let node = &entry.view;
    (!node.pod_cidrs.is_empty()).then(|| Interest {
        uid: entry.uid(),
        pod_cidrs: &node.pod_cidrs,
        addresses: &node.addresses,
        provider_id: node.provider_id.as_deref(),
    })
}

#[async_trait]
impl Runner for RouteController {
    /// What the plugin before refused, this one may do.
    fn recheck(&self) {
        let mut memory = self.memory();
        *memory = Memory { forgotten: memory.forgotten + 1, ..Memory::default() };
        drop(memory);
        self.queue.add((), Priority::Recheck);
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let close = async {
            shutdown.cancelled().await;
            self.queue.close();
            std::future::pending::<()>().await;
        };
        let work = async {
            Run::new(&self, shutdown.clone()).work().await;
            self.conditions.close();
        };
        let work = async {
            tokio::join!(work, self.conditions.run());
            self.conditions.finish().await;
        };
        tokio::select! { () = work => {}, () = close => {}, () = self.queue.observe() => {} }
    }
}

#[cfg(test)]
pub(crate) mod tests;
