//! Starts the controllers, keeps them fed, and stops them in order.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, OnceLock},
    time::Duration,
};

use k8s_openapi::api::core::v1::{Node, ObjectReference, Service};
use kube::Client;
use skydock_cloud::{Capability, CloudProvider, Cluster, ProviderInfo};
use tokio::{
    sync::watch,
    task::{Id, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    ClusterCidrsError, Controller, Metrics,
    api::{with_deadline, with_nodes_in_protobuf},
    cluster_view::{self, ClusterView},
    dry_run::{self, Said},
    events::Recorder,
    informer::Informer,
    ipam::{IpamController, IpamOptions},
    lifecycle::{LifecycleController, LifecycleOptions},
    maintenance::MaintenanceController,
    node::{NodeController, NodeOptions},
    notes::Notes,
    reads::Reads,
    route::{RouteController, RouteOptions},
    service::{ServiceController, ServiceOptions},
    shared::{Runner, Shared},
    uid,
};

/// How late a write of the process that led before may arrive: an API server gives up on one after 34 s, and what it did shows in
/// the cache some moments later.
const LATE_WRITES: Duration = Duration::from_secs(40);

/// API clients, one for each name under which controllers speak ([`Controller::client_name`]); they may be one.
#[derive(Clone)]
pub struct Clients {
    /// For watching nodes and services, and for events.
    pub informers: Client,
    /// For the node, lifecycle and address range controllers.
    pub node: Client,
    /// For the service controller.
    pub service: Client,
    /// For the route controller.
    pub route: Client,
}

impl Clients {
    fn with_deadlines(self) -> Self {
        let Self { informers, node, service, route } = &self;
        Self {
            informers: with_nodes_in_protobuf(&with_deadline(informers)),
            node: with_deadline(node),
            service: with_deadline(service),
            route: with_deadline(route),
        }
    }
}

/// How the controllers work.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Tells this cluster from others in the same account (`--cluster-name`); what configures the provider passes it on.
    pub cluster_name: String,
    /// How nodes are initialised and kept as the cloud has them.
    pub node: NodeOptions,
    /// How nodes whose machine is gone are found and deleted.
    pub lifecycle: LifecycleOptions,
    /// How the service controller works.
    pub services: ServiceOptions,
    /// How Pod CIDRs are given to nodes.
    pub ipam: IpamOptions,
    /// How routes are kept.
    pub routes: RouteOptions,
    /// How long calls that run at the end may go on.
    pub shutdown_grace: Duration,
    /// Say what would be done, and do nothing (`--dry-run`).
    pub dry_run: bool,
    /// What events are on that are about no object of the cluster: the lease.
    pub process: ObjectReference,
}

impl Default for Options {
    /// Upstream works on one service at a time; clouds bear more.
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

/// What controllers need.
pub struct Context {
    /// API clients.
    pub clients: Clients,
    /// The cloud.
    pub provider: Arc<dyn CloudProvider>,
    /// Changes with each new generation of the provider's plugin: then all objects are looked at again.
    pub generations: watch::Receiver<u64>,
    /// How to work.
    pub options: Options,
    /// Controllers that are turned on; see [`crate::parse_controllers`].
    pub enabled: BTreeSet<Controller>,
    /// Where to count.
    pub metrics: Metrics,
    /// Called with the provider's view of the cluster, once all nodes are known and before any controller starts. It shows no
    /// services before all of them are known.
    pub on_cluster: Box<dyn FnOnce(Arc<dyn Cluster>) + Send>,
    /// The process that led before has not given its lease up: what it has sent to the API server may arrive yet.
    pub unreleased: bool,
    /// Ends it all.
    pub shutdown: CancellationToken,
    /// Cancelled when no controller works any more: from then on another process may lead, while the last events are written.
    pub worked: CancellationToken,
}

/// Why the controllers ended before they were told to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A task panicked or returned; this is a bug.
    #[error("{0} ended unexpectedly; this is a bug, please report it with the log lines before")]
    Ended(String),
}

/// Runs the enabled controllers whose capability the provider has, until the shutdown token is cancelled. One whose capability
/// comes with a later generation is started then. At the end no new work is begun, calls that run get
/// [`Options::shutdown_grace`] to end, and events that wait are written.
///
/// # Errors
///
/// If a controller ends by itself.
pub async fn run(mut context: Context) -> Result<(), RunError> {
    context.clients = context.clients.with_deadlines();
    let said = context.options.dry_run.then(Arc::<Said>::default);
    if let Some(said) = &said {
        (context.provider, context.clients) = dry_run::harmless(context.provider, &context.clients, said);
    }
    let (recorder, writer) = Recorder::new(context.clients.informers.clone(), context.metrics.clone());
    let worked = context.worked.clone();
    let writing = tokio::spawn(writer.run(worked.clone()));
    let result = Box::pin(Host::new(context, recorder, said).run()).await;
    worked.cancel();
    if writing.await.is_err() {
        return Err(RunError::Ended("the writer of events".to_owned()));
    }
    result
}

/// Why a controller that is enabled does not run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Obstacle {
    #[error("it is turned off by {0}=false")]
    TurnedOff(&'static str),
    #[error("the API server has not listed {0} yet; it starts when they are known")]
    NotListed(&'static str),
    #[error("provider {provider} does not export {capability}")]
    Unsupported { provider: String, capability: Capability },
    /// At the start this is found before; the capability has come with a later generation.
    #[error("{0}")]
    ClusterCidrs(ClusterCidrsError),
}

struct Host {
    context: Context,
    recorder: Recorder,
    /// In a dry run.
    said: Option<Arc<Said>>,
    nodes: Arc<Informer<Node>>,
    services: Arc<Informer<Service>>,
    notes: Arc<Notes>,
    reads: Arc<Reads>,
    started: BTreeMap<Controller, Arc<dyn Runner>>,
    /// Why they were not started, as the log has it.
    skipped: BTreeMap<Controller, Obstacle>,
    tasks: JoinSet<()>,
    names: HashMap<Id, String>,
    stop: CancellationToken,
}

impl Host {
    fn new(context: Context, recorder: Recorder, said: Option<Arc<Said>>) -> Self {
        let (nodes, services): (Arc<Informer<Node>>, Arc<Informer<Service>>) = Default::default();
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

    /// Only what is needed is watched, so that a host with fewer controllers needs fewer rights.
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

    /// What the provider has asked for beyond its answers.
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
        tracing::info!(nodes = self.nodes.list().len(), "the cache of nodes is complete");
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
            // Asked once: a list that is complete after this wakes the loop.
            let (services, listed) = (Arc::clone(&self.services), self.services.is_synced());
            self.start(listed);
            tokio::select! {
                () = services.synced(), if !listed && self.watches_services() => {
                    tracing::info!(services = self.services.list().len(), "the cache of services is complete");
                }
                changed = self.context.generations.changed(), if swaps => match changed {
                    Ok(()) => {
                        tracing::info!("the plugin was replaced: looking at all objects again");
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

    /// Starts what is enabled, possible and not started yet; `listed` says whether all services are known.
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

    /// Why a controller cannot be started with this provider.
    fn obstacle(&self, controller: Controller, info: &ProviderInfo, listed: bool) -> Option<Obstacle> {
        let routes = &self.context.options.routes;
        if controller == Controller::Route && !routes.configure {
            return Some(Obstacle::TurnedOff("--configure-cloud-routes"));
        }
        if controller == Controller::NodeIpam && self.context.options.ipam.ranges.is_empty() {
            return Some(Obstacle::TurnedOff("--allocate-node-cidrs"));
        }
        // Who cannot list services has nodes served all the same.
        if controller == Controller::Service && info.can(Capability::LoadBalancers) && !listed {
            return Some(Obstacle::NotListed("services"));
        }
        if let Some(capability) = controller.needs().filter(|capability| !info.can(*capability)) {
            return Some(Obstacle::Unsupported { provider: info.name.clone(), capability });
        }
        routes.check(info).err().filter(|_| controller == Controller::Route).map(Obstacle::ClusterCidrs)
    }

    /// Says why a controller does not run, once.
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
            tracing::warn!("some calls did not end within {grace:?} and were dropped");
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
