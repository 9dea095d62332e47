//! Starts the controllers, fills their caches, and stops them in order.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, OnceLock},
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use skydock_cloud::{Capability, CloudProvider, Cluster, ProviderInfo};
use skydock_kube::{dry_run::Said, events::Recorder, informer::Informer};
use tokio::{
    sync::watch,
    task::{Id, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::kinds::{NodeKind, ServiceKind};
use crate::{
    ClusterCidrsError, Controller, Metrics,
    clients::Clients,
    cluster_view::{self, ClusterView},
    dry_run,
    ipam::{IpamController, IpamOptions},
    lifecycle::{LifecycleController, LifecycleOptions},
    maintenance::MaintenanceController,
    node::{NodeController, NodeOptions},
    notes::Notes,
    reads::Reads,
    recorder::recorder,
    route::{RouteController, RouteOptions},
    service::{ServiceController, ServiceOptions},
    shared::{Runner, Shared},
    uid,
};

/// How late a write of the previous leader may arrive: an API server gives up on a write after 34 s, and its result appears in
/// the cache some moments later.
const LATE_WRITES: Duration = Duration::from_secs(40);

/// Options of the controllers.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Distinguishes this cluster from others in the same account (`--cluster-name`). The provider's configuration contains it
    /// too.
    pub cluster_name: String,
    /// Options of the node controller.
    pub node: NodeOptions,
    /// Options of the node lifecycle controller.
    pub lifecycle: LifecycleOptions,
    /// Options of the service controller.
    pub services: ServiceOptions,
    /// Options of the node IPAM controller.
    pub ipam: IpamOptions,
    /// Options of the route controller.
    pub routes: RouteOptions,
    /// Maximum time for running calls to end at shutdown.
    pub shutdown_grace: Duration,
    /// Only report what would be done (`--dry-run`).
    pub dry_run: bool,
    /// Object of events that are not about an object of the cluster: the Lease.
    pub process: ObjectReference,
}

impl Default for Options {
    /// Upstream processes one Service at a time, but clouds can handle more.
    fn default() -> Self {
        Self {
            cluster_name: "kubernetes".to_owned(),
            node: NodeOptions::default(),
            lifecycle: LifecycleOptions::default(),
            services: ServiceOptions::default(),
            ipam: IpamOptions::default(),
            routes: RouteOptions::default(),
            shutdown_grace: Duration::from_secs(10),
            dry_run: false,
            process: ObjectReference {
                api_version: Some("coordination.k8s.io/v1".to_owned()),
                kind: Some("Lease".to_owned()),
                namespace: Some("kube-system".to_owned()),
                name: Some("cloud-controller-manager".to_owned()),
                ..ObjectReference::default()
            },
        }
    }
}

/// Dependencies of the controllers.
pub struct Context {
    /// API clients.
    pub clients: Clients,
    /// The cloud provider.
    pub provider: Arc<dyn CloudProvider>,
    /// Changes with each new generation of the provider's plugin; then all objects are checked again.
    pub generations: watch::Receiver<u64>,
    /// Options of the controllers.
    pub options: Options,
    /// Enabled controllers; see [`crate::parse_controllers`].
    pub enabled: BTreeSet<Controller>,
    /// Metrics of the controllers.
    pub metrics: Metrics,
    /// Called with the provider's view of the cluster when all nodes are known, before any controller starts. The view contains
    /// no Services until all of them are known.
    pub on_cluster: Box<dyn FnOnce(Arc<dyn Cluster>) + Send>,
    /// True if the previous leader has not released its Lease: its last requests to the API server may still arrive.
    pub unreleased: bool,
    /// Cancelled to shut everything down.
    pub shutdown: CancellationToken,
    /// Cancelled by [`run()`] when all controllers have stopped: from then on, another process may lead, while the last events
    /// are written.
    pub worked: CancellationToken,
}

/// Why the controllers ended before they were shut down.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A task panicked or returned; this is a bug.
    #[error("{0} ended unexpectedly; this is a bug, please report it with the preceding log lines")]
    Ended(String),
}

/// Runs the enabled controllers for which the provider has the capability, until the shutdown token is cancelled. If a later
/// generation adds a capability, its controller is started then. At shutdown, no new work is started, running calls get
/// [`Options::shutdown_grace`] to end, and queued events are written.
///
/// # Errors
///
/// Returns an error if a controller ends by itself.
pub async fn run(mut context: Context) -> Result<(), RunError> {
    context.clients = context.clients.with_deadlines();
    let said = context.options.dry_run.then(Arc::<Said>::default);
    if let Some(said) = &said {
        (context.provider, context.clients) = dry_run::harmless(context.provider, &context.clients, said);
    }
    let (recorder, writer) = recorder(context.clients.informers.clone(), &context.metrics);
    let worked = context.worked.clone();
    let writing = tokio::spawn(writer.run(worked.clone()));
    let result = Box::pin(Host::new(context, recorder, said).run()).await;
    worked.cancel();
    if writing.await.is_err() {
        return Err(RunError::Ended("the writer of events".to_owned()));
    }
    result
}

/// Why an enabled controller is not running.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Obstacle {
    #[error("it is disabled by {0}=false")]
    TurnedOff(&'static str),
    #[error("{0} are not listed yet; it starts when they are")]
    NotListed(&'static str),
    #[error("provider {provider} does not export {capability}")]
    Unsupported { provider: String, capability: Capability },
    /// At startup, this is checked earlier; here, the capability was added by a later generation.
    #[error("{0}")]
    ClusterCidrs(ClusterCidrsError),
}

struct Host {
    context: Context,
    recorder: Recorder,
    /// Set in a dry run.
    said: Option<Arc<Said>>,
    nodes: Arc<Informer<NodeKind>>,
    services: Arc<Informer<ServiceKind>>,
    notes: Arc<Notes>,
    reads: Arc<Reads>,
    started: BTreeMap<Controller, Arc<dyn Runner>>,
    /// Reasons that were logged for controllers that were not started.
    skipped: BTreeMap<Controller, Obstacle>,
    tasks: JoinSet<()>,
    names: HashMap<Id, String>,
    stop: CancellationToken,
}

impl Host {
    fn new(context: Context, recorder: Recorder, said: Option<Arc<Said>>) -> Self {
        let (nodes, services): (Arc<Informer<NodeKind>>, Arc<Informer<ServiceKind>>) = Default::default();
        let clients = (context.clients.node.clone(), context.clients.service.clone());
        let notes = Notes::new(clients, Arc::clone(&nodes), &services, &context.metrics);
        let reads = Reads::new(context.clients.service.clone());
        Self {
            context,
            recorder,
            said,
            nodes,
            services,
            notes: Arc::new(notes),
            reads: Arc::new(reads),
            started: BTreeMap::new(),
            skipped: BTreeMap::new(),
            tasks: JoinSet::new(),
            names: HashMap::new(),
            stop: CancellationToken::new(),
        }
    }

    async fn run(mut self) -> Result<(), RunError> {
        let mut watching = self.watch();
        let uid = Arc::<OnceLock<String>>::default();
        self.serve_provider(&mut watching, Arc::clone(&uid));
        let result = tokio::select! {
            () = self.context.shutdown.clone().cancelled_owned() => Ok(()),
            Some(_) = watching.join_next() => Err(RunError::Ended("the watch of the API server".to_owned())),
            result = self.control(uid) => result,
        };
        self.stop().await;
        drop(watching);
        self.notes.finish().await;
        result
    }

    /// Watches only the required objects, so that a host with fewer controllers needs fewer permissions.
    fn watch(&self) -> JoinSet<()> {
        let mut watching = JoinSet::new();
        let client = &self.context.clients.informers;
        watching.spawn({
            let (nodes, client) = (Arc::clone(&self.nodes), client.clone());
            async move { nodes.run(client).await }
        });
        if self.watches_services() {
            let (services, client) = (Arc::clone(&self.services), client.clone());
            watching.spawn(async move { services.run(client).await });
        }
        watching
    }

    /// Starts tasks that do what the provider requests in addition to its answers.
    fn serve_provider(&self, watching: &mut JoinSet<()>, uid: Arc<OnceLock<String>>) {
        let notes = Arc::clone(&self.notes);
        watching.spawn(async move { notes.run().await });
        let (reads, services) = (Arc::clone(&self.reads), Arc::clone(&self.services));
        watching.spawn(async move { reads.follow(|key| services.get(key).is_some()).await });
        let client = self.context.clients.informers.clone();
        watching.spawn(async move {
            uid::find(&client, &uid).await;
            std::future::pending::<()>().await;
        });
    }

    fn watches_services(&self) -> bool {
        self.context.enabled.contains(&Controller::Service)
    }

    async fn control(&mut self, uid: Arc<OnceLock<String>>) -> Result<(), RunError> {
        self.nodes.synced().await;
        tracing::info!(nodes = self.nodes.list().len(), "node cache synced");
        let on_cluster = std::mem::replace(&mut self.context.on_cluster, Box::new(|_| {}));
        let (nodes, services) = (Arc::clone(&self.nodes), Arc::clone(&self.services));
        let (recorder, classes) = (self.recorder.clone(), self.context.options.services.classes.clone());
        on_cluster(Arc::new(ClusterView {
            revision: cluster_view::count_changes(&nodes, &services),
            nodes,
            services,
            recorder,
            classes,
            with_services: self.watches_services(),
            uid,
            notes: Arc::clone(&self.notes),
            reads: Arc::clone(&self.reads),
        }));
        let mut swaps = true;
        loop {
            // Read only once: if the list becomes complete after this, the loop is woken.
            let (services, listed) = (Arc::clone(&self.services), self.services.is_synced());
            self.start(listed);
            tokio::select! {
                () = services.synced(), if !listed && self.watches_services() => {
                    tracing::info!(services = self.services.list().len(), "service cache synced");
                }
                changed = self.context.generations.changed(), if swaps => match changed {
                    Ok(()) => {
                        tracing::info!("plugin replaced; checking all objects again");
                        self.started.values().for_each(|runner| runner.recheck());
                    }
                    Err(_) => swaps = false,
                },
                Some(ended) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => {
                    let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                    let name = self.names.remove(&id).unwrap_or_default();
                    return Err(RunError::Ended(name));
                }
                else => std::future::pending().await,
            }
        }
    }

    /// Starts all controllers that are enabled, possible and not started yet. `listed` says whether all Services are known.
    fn start(&mut self, listed: bool) {
        let info = self.context.provider.info();
        for controller in self.context.enabled.clone() {
            if self.started.contains_key(&controller) {
                continue;
            }
            if let Some(obstacle) = self.obstacle(controller, &info, listed) {
                self.skip(controller, obstacle);
                continue;
            }
            let Some(runner) = self.build(controller) else { continue };
            let task = {
                let (runner, stop) = (Arc::clone(&runner), self.stop.clone());
                self.tasks.spawn(async move { runner.run(stop).await })
            };
            self.names.insert(task.id(), controller.name().to_owned());
            self.context.metrics.running(controller, true);
            self.started.insert(controller, runner);
            tracing::info!("started {controller}");
        }
    }

    /// Returns why a controller cannot be started with this provider.
    fn obstacle(&self, controller: Controller, info: &ProviderInfo, listed: bool) -> Option<Obstacle> {
        let routes = &self.context.options.routes;
        if controller == Controller::Route && !routes.configure {
            return Some(Obstacle::TurnedOff("--configure-cloud-routes"));
        }
        if controller == Controller::NodeIpam && self.context.options.ipam.ranges.is_empty() {
            return Some(Obstacle::TurnedOff("--allocate-node-cidrs"));
        }
        // Nodes are served even if Services cannot be listed.
        if controller == Controller::Service && info.can(Capability::LoadBalancers) && !listed {
            return Some(Obstacle::NotListed("services"));
        }
        if let Some(capability) = controller.needs().filter(|capability| !info.can(*capability)) {
            return Some(Obstacle::Unsupported { provider: info.name.clone(), capability });
        }
        routes.check(info).err().filter(|_| controller == Controller::Route).map(Obstacle::ClusterCidrs)
    }

    /// Logs once why a controller is not running.
    fn skip(&mut self, controller: Controller, obstacle: Obstacle) {
        if self.skipped.get(&controller) == Some(&obstacle) {
            return;
        }
        match obstacle {
            Obstacle::ClusterCidrs(_) => tracing::error!("skipping {controller}: {obstacle}"),
            _ => tracing::info!("skipping {controller}: {obstacle}"),
        }
        self.skipped.insert(controller, obstacle);
    }

    fn build(&self, controller: Controller) -> Option<Arc<dyn Runner>> {
        let Context { clients, options, .. } = &self.context;
        let shared = Shared {
            controller,
            provider: Arc::clone(&self.context.provider),
            nodes: Arc::clone(&self.nodes),
            recorder: self.recorder.clone(),
            metrics: self.context.metrics.clone(),
        };
        let runner: Arc<dyn Runner> = match controller {
            Controller::Node => Arc::new(NodeController::new(shared, clients.node.clone(), options.node)),
            Controller::NodeLifecycle => {
                Arc::new(LifecycleController::new(shared, clients.node.clone(), options.lifecycle, self.said.clone()))
            }
            Controller::Service => Arc::new(ServiceController::new(
                shared,
                clients.service.clone(),
                Arc::clone(&self.services),
                options.services.clone(),
                (self.notes.written(), &self.reads),
            )),
            Controller::NodeIpam => {
                let quiet = if self.context.unreleased { LATE_WRITES } else { Duration::ZERO };
                Arc::new(IpamController::new(shared, clients.node.clone(), &options.ipam, quiet))
            }
            Controller::Maintenance => Arc::new(MaintenanceController::new(shared)),
            Controller::Route => {
                let cidrs = options.routes.cluster_cidrs.clone().ok()?;
                let (rhythm, process) = (options.routes.rhythm, options.process.clone());
                Arc::new(RouteController::new(shared, clients.route.clone(), cidrs, rhythm, process))
            }
        };
        Some(runner)
    }

    async fn stop(&mut self) {
        self.stop.cancel();
        let grace = self.context.options.shutdown_grace;
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(grace, ended).await.is_err() {
            tracing::warn!("some calls did not finish within {grace:?} and were canceled");
            self.tasks.shutdown().await;
        }
        for controller in self.started.keys() {
            self.context.metrics.running(*controller, false);
            tracing::info!("stopped {controller}");
        }
    }
}

#[cfg(test)]
mod tests;
