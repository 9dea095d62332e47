//! Routes to the Pods of each node, for clouds whose network carries them.
//!
//! Upstream's node-route-controller, driven by changes of nodes unless it is told to work by the clock. Beyond it: routes are
//! made and deleted in batches; what failed is tried again when its error says, alone if need be; a new route waits for the
//! old ones in its place and for no others; and a slow check finds what was changed behind our back.

mod network;
mod plan;
mod tries;
mod work;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use serde_json::json;
use skydock_cloud::{Capability, NewRoute, NodeAddress, ProviderInfo, Route};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::{
    network::{Network, Standing},
    plan::{Create, Plan},
    tries::{LIMITER, Tries},
    work::{Change, Done, Work},
};
use crate::{
    ClusterCidrs, ClusterCidrsError,
    api::{ApiError, Patch, Target, patch},
    constants::reason,
    informer::{self, Entry},
    queue::{Priority, Queue},
    retry::{self, Again},
    shared::{Runner, Shared},
};

/// How long changes of nodes are gathered: a new node gets its addresses and its Pod CIDRs within moments.
const GATHER: Duration = Duration::from_millis(100);
/// Least time from the begin of one run to that of the next, unless the cloud has asked for less: each lists all routes.
/// Upstream lets 10 s pass.
const SPACING: Duration = Duration::from_secs(3);
/// A shorter period is taken as this one.
const LEAST_PERIOD: Duration = Duration::from_millis(100);
/// Conditions that are written at the same time.
const WRITERS: usize = 16;

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
    client: Client,
    cidrs: ClusterCidrs,
    rhythm: Rhythm,
    queue: Arc<Queue<()>>,
    memory: Mutex<Memory>,
}

/// What a run leaves for the next one: when not to try. All else comes from the cloud and the nodes.
#[derive(Default)]
struct Memory {
    creates: Tries<NewRoute>,
    deletes: Tries<Route>,
    /// Runs in a row that could not list the routes, or write a condition.
    failures: u32,
}

impl RouteController {
    pub(crate) fn new(shared: Shared, client: Client, cidrs: ClusterCidrs, rhythm: Rhythm) -> Self {
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
        Self { shared, client, cidrs, rhythm, queue, memory: Mutex::default() }
    }

    async fn work(&self, stop: &CancellationToken) {
        while let Some(((), _)) = self.queue.take().await {
            let started = Instant::now();
            let again = self.pass(stop).await;
            self.queue.done(&());
            let (next, pause) = self.rhythm.after(started.elapsed(), again);
            if let Some(next) = next {
                self.queue.add_after((), next, Priority::Recheck);
            }
            tokio::select! { () = sleep(pause) => {}, () = stop.cancelled() => {} }
        }
    }

    /// One run. Says how long to wait for what is to be tried again.
    async fn pass(&self, stop: &CancellationToken) -> Option<Duration> {
        self.shared.metrics.route_sync.inc();
        // In this order: a route that is listed belongs to a node that is known by now, or to none.
        let routes = match self.shared.provider.list_routes().await {
            Ok(routes) => routes,
            Err(error) => {
                self.shared.cloud_error("routes", &error);
                return self.failed(Again::after(&error));
            }
        };
        let entries = self.shared.nodes.list();
        let nodes: Vec<_> = entries.iter().map(|entry| &*entry.view).collect();
        let plan = plan::plan(routes, &nodes, &self.cidrs);
        let outcome = self.execute(&plan, stop).await;
        self.tell(&entries, &outcome);
        let verdicts = self.settle(&entries, &plan, outcome);
        let worst = self.write(verdicts).await;
        let again = match worst {
            Some(again) => self.failed(again),
            None => {
                self.memory().failures = 0;
                None
            }
        };
        let memory = self.memory();
        let next = memory.creates.next().into_iter().chain(memory.deletes.next()).min();
        let now = Instant::now();
        next.map(|next| next.saturating_duration_since(now)).into_iter().chain(again).min()
    }

    fn failed(&self, again: Again) -> Option<Duration> {
        let mut memory = self.memory();
        let wait = again.wait(&LIMITER, memory.failures);
        memory.failures = memory.failures.saturating_add(1);
        wait
    }

    /// Makes and deletes what is due. A route in the place of others is made only when those are gone.
    async fn execute(&self, plan: &Plan, stop: &CancellationToken) -> Outcome {
        let now = Instant::now();
        let (deletes, first, later) = {
            let mut memory = self.memory();
            memory.deletes.keep(plan.deletes.iter());
            memory.creates.keep(plan.creates.iter().map(|create| &create.route));
            let deletes = plan.deletes.iter().filter(|route| memory.deletes.due(route, now));
            let deletes: Vec<_> = deletes.map(|route| (route.clone(), memory.deletes.batch(route))).collect();
            let due = plan.creates.iter().filter(|create| memory.creates.due(&create.route, now));
            let due = due.map(|create| (create, memory.creates.batch(&create.route)));
            let (first, later): (Vec<_>, Vec<_>) = due.partition(|(create, _)| create.after.is_empty());
            (deletes, first, later)
        };
        let work = Work::new(&*self.shared.provider, stop);
        let change = |(create, size): (&Create, usize)| (create.route.clone(), size);
        let replace = async {
            let deleted = work.all(deletes.into_iter()).await;
            let gone: HashSet<String> =
                deleted.iter().filter(|done| done.result.is_ok()).map(|done| done.change.key()).collect();
            let free = later.into_iter().filter(|(create, _)| is_free(create, plan, &gone));
            (deleted, work.all(free.map(change)).await)
        };
        let ((deleted, replaced), created) = tokio::join!(replace, work.all(first.into_iter().map(change)));
        Outcome { deleted, created: created.into_iter().chain(replaced).collect() }
    }

    /// Counts, logs and publishes what went wrong.
    fn tell(&self, entries: &[NodeEntry], outcome: &Outcome) {
        for Done { change, result, .. } in &outcome.deleted {
            if let Err(error) = result {
                self.shared.cloud_error(&change.key(), error);
            } else {
                tracing::info!(route = change.name, cidr = change.destination_cidr, "deleted a route");
            }
        }
        let by_name: HashMap<&str, &NodeEntry> = entries.iter().map(|entry| (entry.name(), entry)).collect();
        for Done { change, result, took, .. } in &outcome.created {
            let (node, cidr) = (change.target_node.as_str(), &change.destination_cidr);
            let Err(error) = result else {
                tracing::info!(node, cidr, "created a route");
                continue;
            };
            self.shared.cloud_error(&change.key(), error);
            if let Some(entry) = by_name.get(node).filter(|_| retry::warns(error)) {
                let hint = &change.name_hint;
                let message = format!("Could not create route {hint} {cidr} for node {node} after {took:?}: {error}");
                self.shared.warning(entry, reason::FAILED_TO_CREATE_ROUTE, message);
            }
        }
    }

    /// Remembers what failed, and says which node has a network now.
    fn settle(&self, entries: &[NodeEntry], plan: &Plan, outcome: Outcome) -> Vec<(NodeEntry, Network)> {
        let now = Instant::now();
        let mut memory = self.memory();
        let deleted = remember(&mut memory.deletes, outcome.deleted, now);
        let created = remember(&mut memory.creates, outcome.created, now);
        let mut standings: HashMap<&str, Vec<Standing>> = HashMap::new();
        for create in &plan.creates {
            let standing = if created.contains(&create.route.key()) {
                Standing::There
            } else if let Some(standing) = memory.creates.standing(&create.route) {
                standing
            } else if create.stale || is_free(create, plan, &deleted) {
                Standing::Unknown
            } else {
                Standing::Missing
            };
            standings.entry(&create.route.target_node).or_default().push(standing);
        }
        for name in &plan.stranded {
            standings.insert(name, vec![Standing::Missing]);
        }
        let verdicts = entries.iter().filter_map(|entry| {
            let standings = match standings.get(entry.name()) {
                Some(standings) => standings.as_slice(),
                None if entry.view.pod_cidrs.is_empty() => return None,
                None => &[],
            };
            Some((Arc::clone(entry), Network::of(standings, &entry.object.conditions)?))
        });
        verdicts.collect()
    }

    /// Writes the conditions that are not as they should be. Says when to try again what could not be written.
    async fn write(&self, verdicts: Vec<(NodeEntry, Network)>) -> Option<Again> {
        let now = Timestamp::now();
        let conditions = verdicts.into_iter().filter_map(|(entry, network)| {
            let condition = network.condition(&entry.object.conditions, now)?;
            Some((entry, condition))
        });
        let results: Vec<_> = stream::iter(conditions)
            .map(|(entry, condition)| async move {
                // Strategic: it is merged with the conditions of others by its type.
                let body = json!({ "metadata": { "uid": entry.uid() }, "status": { "conditions": [condition] } });
                let target = Target { namespace: None, name: entry.name(), subresource: Some("status") };
                let error = patch::<Node>(&self.client, &target, &Patch::Strategic(body)).await.err()?;
                self.shared.api_error(entry.name(), &error);
                match error {
                    ApiError::Gone(_) => None,
                    ApiError::Changed(_) => Some(Again::Soon),
                    ApiError::Forbidden(..) | ApiError::Failed(..) => Some(Again::BackOff),
                }
            })
            .buffer_unordered(WRITERS)
            .filter_map(std::future::ready)
            .collect()
            .await;
        // The longer wait: what was refused would only be refused again.
        let refused = results.contains(&Again::BackOff).then_some(Again::BackOff);
        refused.or(results.first().copied())
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was tried in one run.
struct Outcome {
    deleted: Vec<Done<Route>>,
    created: Vec<Done<NewRoute>>,
}

/// True if nothing is in the place of this route any more.
fn is_free(create: &Create, plan: &Plan, gone: &HashSet<String>) -> bool {
    create.after.iter().filter_map(|index| plan.deletes.get(*index)).all(|route| gone.contains(&route.key()))
}

/// Takes note of each change, and gives the keys of those that were done.
fn remember<T: Change>(tries: &mut Tries<T>, all: Vec<Done<T>>, now: Instant) -> HashSet<String> {
    let mut succeeded = HashSet::new();
    for Done { change, result, spoiled, .. } in all {
        match result {
            Ok(()) => {
                tries.succeeded(&change);
                succeeded.insert(change.key());
            }
            Err(error) => tries.failed(change, &error, spoiled, now),
        }
    }
    succeeded
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
        *self.memory() = Memory::default();
        self.queue.add((), Priority::Recheck);
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let close = async {
            shutdown.cancelled().await;
            self.queue.close();
            std::future::pending::<()>().await;
        };
        tokio::select! { () = self.work(&shutdown) => {}, () = close => {}, () = self.queue.observe() => {} }
    }
}

#[cfg(test)]
pub(crate) mod tests;
