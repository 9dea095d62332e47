//! Manages routes to the Pods of each node, for clouds whose network carries Pod traffic.
//!
//! This is upstream's node-route-controller, driven by changes of nodes unless it is configured to
//! run periodically. It differs from upstream in these points:
//!
//! - Routes are created and deleted in batches.
//! - A change that failed is retried when its error says, alone if necessary.
//! - A new route waits for the deletion of routes that it replaces, and for no others.
//! - The condition of a node is written when the state of its own routes is known.
//! - Slow calls continue while routes and nodes are compared again.
//! - A periodic check finds routes that were changed by others.

mod changes;
mod comparison;
mod conditions;
mod in_flight;
pub(crate) mod metrics;
mod network;
mod plan;
mod report;
mod run;
mod state;
mod tries;

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use parking_lot::Mutex;
use skydock_cloud::{Capability, NewRoute, NodeAddress, ProviderInfo, Route};
use skydock_controller_base::{
    controller::{
        context::{ControllerContext, Runner},
        descriptor::{Descriptor, NeedsServices},
    },
    objects::kinds::{NodeEntry, NodeKind},
};
use skydock_kube::{
    informer::{self, Entry},
    queue::{Priority, Queue},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::{
    conditions::Conditions,
    metrics::RouteMetrics,
    run::Run,
    tries::{LIMITER, Tries},
};
use crate::{ClientName, ClusterCidrs, ClusterCidrsError};

/// Time for which changes of nodes are gathered: a new node gets its addresses and its Pod CIDRs
/// within moments.
const NODE_CHANGE_DEBOUNCE: Duration = Duration::from_millis(100);
/// Minimum time between the starts of two runs, unless the cloud has asked for a shorter delay:
/// each run lists all routes. Upstream waits 10 s.
const SPACING: Duration = Duration::from_secs(3);
/// Minimum period; a shorter one is replaced by this.
const LEAST_PERIOD: Duration = Duration::from_millis(100);

/// The route controller.
pub static CONTROLLER: Descriptor = Descriptor {
    name: "node-route-controller",
    alias: "route",
    client: ClientName::Route,
    event_source: "route_controller",
    needs: Some(Capability::Routes),
    needs_services: NeedsServices::No,
};

/// Options of the route controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteOptions {
    /// Whether routes are created if the provider can do so (`--configure-cloud-routes`).
    pub configure: bool,
    /// Value of `--cluster-cidr`. An error in it only matters if routes are created.
    pub cluster_cidrs: Result<ClusterCidrs, ClusterCidrsError>,
    /// When to compare routes with nodes.
    pub reconciliation: Reconciliation,
}

impl Default for RouteOptions {
    /// Has no cluster CIDRs, because there can be no default for them.
    fn default() -> Self {
        Self {
            configure: true,
            cluster_cidrs: Err(ClusterCidrsError::Missing),
            reconciliation: Reconciliation::OnChange {
                check_period: Duration::from_secs(300),
            },
        }
    }
}

impl RouteOptions {
    /// Checks that routes can be created, if this is configured and the provider supports it.
    ///
    /// # Errors
    ///
    /// Returns an error if the cluster CIDRs are missing or invalid.
    pub fn check(&self, provider: &ProviderInfo) -> Result<(), ClusterCidrsError> {
        if !self.configure || !provider.can(Capability::Routes) {
            return Ok(());
        }
        self.cluster_cidrs.as_ref().map(drop).map_err(Clone::clone)
    }
}

/// When routes are compared with nodes, and created or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconciliation {
    /// When nodes change, when a failed change is to be retried, and periodically.
    OnChange {
        /// Period if nothing changes (`--route-check-period`); zero disables the check.
        check_period: Duration,
    },
    /// Only periodically, as upstream does by default.
    Periodic {
        /// Period (`--route-reconciliation-period`), from start to start.
        period: Duration,
    },
}

/// Delays before the next run.
struct NextRun {
    /// If nothing changes; `None` if it waits for a change.
    due: Option<Duration>,
    /// At least, if something changes.
    pause: Duration,
}

impl Reconciliation {
    /// Returns when the next run starts after one that took so long. `again` is the delay before
    /// the next retry, and `asked` the shortest that the cloud has asked for.
    fn after(self, took: Duration, again: Option<Duration>, asked: Option<Duration>) -> NextRun {
        match self {
            Self::Periodic { period } => NextRun {
                due: Some(period.max(LEAST_PERIOD).saturating_sub(took)),
                pause: Duration::ZERO,
            },
            Self::OnChange { check_period } => {
                let check = Some(check_period).filter(|period| !period.is_zero());
                let pause = SPACING.saturating_sub(took);
                NextRun {
                    due: again.into_iter().chain(check).min(),
                    pause: asked.map_or(pause, |asked| asked.min(pause)),
                }
            }
        }
    }
}

/// The route controller. What it reports is in `report.rs`.
pub(crate) struct RouteController {
    context: ControllerContext,
    metrics: RouteMetrics,
    conditions: Conditions,
    cidrs: ClusterCidrs,
    options: RouteOptions,
    process: ObjectReference,
    queue: Arc<Queue<()>>,
    memory: Mutex<RouteMemory>,
}

/// What a run passes on to the next one, mainly when to retry. Everything else comes from the cloud
/// and the nodes.
#[derive(Default)]
struct RouteMemory {
    /// Number of times that the memory was cleared: results of calls that started before that are
    /// ignored.
    forgotten: u64,
    creates: Tries<NewRoute>,
    deletes: Tries<Route>,
    /// Consecutive runs that could not list the routes.
    failures: u32,
    /// Time of the next event about nearly too many routes.
    next_limit_report: Option<Instant>,
    /// Time of the next event about a node that has Pod CIDRs outside of the cluster's, by UID.
    next_outside_reports: HashMap<String, Instant>,
}

impl RouteController {
    /// Creates the controller.
    ///
    /// # Errors
    /// If the cluster CIDRs are missing or invalid.
    pub(crate) fn new(
        context: ControllerContext,
        metrics: RouteMetrics,
        client: Client,
        options: RouteOptions,
        process: ObjectReference,
    ) -> Result<Self, ClusterCidrsError> {
        let cidrs = options.cluster_cidrs.clone()?;
        let queue = Arc::new(Queue::new(LIMITER, context.metrics.queue("Routes")));

        if let Reconciliation::OnChange { .. } = options.reconciliation {
            let queue = Arc::clone(&queue);
            context.nodes.subscribe(move |change| {
                if matters(&change) {
                    queue.add_after((), NODE_CHANGE_DEBOUNCE, Priority::Change);
                }
            });
        }

        queue.add((), Priority::Recheck);
        let conditions = Conditions::new(context.clone(), client);
        Ok(Self {
            context,
            metrics,
            conditions,
            cidrs,
            options,
            process,
            queue,
            memory: Mutex::default(),
        })
    }
}

/// Returns true if the change of a node may affect routes. A node without Pod CIDRs has no routes,
/// so its heartbeats do not matter.
fn matters(change: &informer::Change<'_, NodeKind>) -> bool {
    match change {
        informer::Change::Added(node) | informer::Change::Deleted(node) => interest(node).is_some(),
        informer::Change::Updated(old, new) => interest(old) != interest(new),
    }
}

/// The parts of a node that determine its routes.
#[derive(PartialEq)]
struct Interest<'a> {
    uid: &'a str,
    pod_cidrs: &'a [String],
    addresses: &'a [NodeAddress],
    provider_id: Option<&'a str>,
}

fn interest(entry: &Entry<NodeKind>) -> Option<Interest<'_>> {
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
    /// Forgets failures: a change that the previous plugin rejected may work with this one.
    fn recheck(&self) {
        let mut memory = self.memory.lock();
        *memory = RouteMemory {
            forgotten: memory.forgotten + 1,
            ..RouteMemory::default()
        };
        drop(memory);
        self.queue.add((), Priority::Recheck);
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        // Calls that are running at the shutdown may still lead to conditions.
        let worked = CancellationToken::new();
        let work = async {
            self.queue
                .run_until(&shutdown, Run::new(&self, shutdown.clone()).work())
                .await;
            worked.cancel();
        };

        tokio::join!(work, self.conditions.run(&worked));
        self.conditions.finish().await;
    }
}

#[cfg(test)]
pub(crate) mod tests;
