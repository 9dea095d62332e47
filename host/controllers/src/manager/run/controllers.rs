//! Runs the controllers of one context.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
};

use skydock_cloud::ProviderInfo;
use skydock_controller_base::{
    controller::{
        annotations::AnnotationWriter,
        context::{ControllerContext, Runner},
        descriptor::{Controller, NeedsServices},
    },
    objects::{
        address_holders::AddressHolders,
        kinds::{NodeKind, ServiceKind},
        read_objects::ReadObjects,
    },
};
use skydock_kube::{dry_run::DryRunLog, informer::Informer};
use skydock_service_controller as service;
use skydock_volume_controllers::VolumeObjects;
use tokio::{
    task::{Id, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{Context, RunError};
use crate::{
    CONSTRUCTORS,
    manager::{
        cluster_view::{self, ClusterView},
        constructor::{Constructor, Listing, Obstacle, Setup},
        uid,
    },
};

/// The controllers of one context, and what they share.
pub(super) struct RunningControllers {
    context: Context,
    /// Set in a dry run.
    dry_run_log: Option<Arc<DryRunLog>>,
    pub(super) nodes: Arc<Informer<NodeKind>>,
    pub(super) services: Arc<Informer<ServiceKind>>,
    annotation_writer: Arc<AnnotationWriter>,
    read_objects: Arc<ReadObjects>,
    address_holders: Arc<AddressHolders>,
    volume_objects: Arc<VolumeObjects>,
    pub(super) started: BTreeMap<Controller, Arc<dyn Runner>>,
    /// Reasons that were logged for controllers that were not started.
    pub(super) skipped: BTreeMap<Controller, Obstacle>,
    pub(super) tasks: JoinSet<()>,
    pub(super) names: HashMap<Id, String>,
    stop: CancellationToken,
}

impl RunningControllers {
    pub(super) fn new(context: Context, dry_run_log: Option<Arc<DryRunLog>>) -> Self {
        let (nodes, services): (Arc<Informer<NodeKind>>, Arc<Informer<ServiceKind>>) =
            Default::default();

        let clients = (
            context.clients.node.clone(),
            context.clients.service.clone(),
        );
        let annotation_writer = AnnotationWriter::new(
            clients,
            (Arc::clone(&nodes), Arc::clone(&services)),
            Arc::clone(&context.provider),
            &context.metrics.shared,
        );
        let read_objects = ReadObjects::new(context.clients.service.clone());
        let address_holders = AddressHolders::follow(&nodes, &services);

        if context.enabled.contains(&&service::CONTROLLER) {
            service::unserved::follow(
                &services,
                context.options.services.classes.clone(),
                Arc::clone(&context.provider),
                context.recorder.clone(),
            );
        }

        Self {
            context,
            dry_run_log,
            address_holders,
            nodes,
            services,
            annotation_writer: Arc::new(annotation_writer),
            read_objects: Arc::new(read_objects),
            volume_objects: Arc::default(),
            started: BTreeMap::new(),
            skipped: BTreeMap::new(),
            tasks: JoinSet::new(),
            names: HashMap::new(),
            stop: CancellationToken::new(),
        }
    }

    pub(super) async fn run(mut self) -> Result<(), RunError> {
        let mut watching = self.watch();
        let uid = Arc::<OnceLock<String>>::default();
        self.serve_provider(&mut watching, Arc::clone(&uid));

        let result = tokio::select! {
            () = self.context.shutdown.clone().cancelled_owned() => Ok(()),
            Some(_) = watching.join_next() => Err(RunError::Ended("the watch of the API server".to_owned())),
            result = self.control(uid) => result,
        };

        self.stop().await;
        // Ends the task that writes annotations; `finish` writes the rest.
        drop(watching);
        self.annotation_writer.finish().await;

        result
    }

    /// Watches only the required objects, so that a process with fewer controllers needs fewer
    /// permissions.
    fn watch(&self) -> JoinSet<()> {
        let mut watching = JoinSet::new();
        let client = &self.context.clients.informers;
        watching.spawn({
            let nodes = Arc::clone(&self.nodes);
            let client = client.clone();
            async move { nodes.run(client).await }
        });

        if self.watches_services() {
            let services = Arc::clone(&self.services);
            let client = client.clone();
            watching.spawn(async move { services.run(client).await });
        }

        watching
    }

    /// Starts tasks that do what the provider requests in addition to its answers.
    fn serve_provider(&self, watching: &mut JoinSet<()>, uid: Arc<OnceLock<String>>) {
        let annotation_writer = Arc::clone(&self.annotation_writer);
        watching.spawn(async move { annotation_writer.run().await });

        let read_objects = Arc::clone(&self.read_objects);
        let services = Arc::clone(&self.services);
        watching.spawn(async move { read_objects.follow(|key| services.get(key).is_some()).await });

        let client = self.context.clients.informers.clone();
        watching.spawn(async move {
            uid::find(&client, &uid).await;
            // A task that returns would end the process.
            std::future::pending::<()>().await;
        });
    }

    fn watches_services(&self) -> bool {
        self.context
            .enabled
            .iter()
            .any(|controller| controller.needs_services == NeedsServices::Yes)
    }

    fn listing(&self) -> Listing {
        if self.services.is_synced() {
            Listing::Complete
        } else if self.services.is_forbidden() || !self.watches_services() {
            Listing::Denied
        } else {
            Listing::Partial
        }
    }

    pub(super) async fn control(&mut self, uid: Arc<OnceLock<String>>) -> Result<(), RunError> {
        self.nodes.synced().await;
        tracing::info!(nodes = self.nodes.list().len(), "node cache synced");

        let on_cluster = std::mem::replace(&mut self.context.on_cluster, Box::new(|_| {}));
        let nodes = Arc::clone(&self.nodes);
        let services = Arc::clone(&self.services);
        let recorder = self.context.recorder.of_provider();
        let classes = self.context.options.services.classes.clone();

        on_cluster(Arc::new(ClusterView {
            revision: cluster_view::count_changes(&nodes, &services),
            nodes,
            services,
            recorder,
            classes,
            with_services: self.watches_services(),
            uid,
            annotation_writer: Arc::clone(&self.annotation_writer),
            read_objects: Arc::clone(&self.read_objects),
            address_holders: Arc::clone(&self.address_holders),
        }));

        let mut swaps = true;
        loop {
            // Read only once: if the list becomes complete after this, the loop is woken.
            let services = Arc::clone(&self.services);
            let listing = self.listing();
            self.start(listing);

            tokio::select! {
                () = services.synced(), if listing != Listing::Complete && self.watches_services() => {
                    tracing::info!(services = self.services.list().len(), "service cache synced");
                }
                () = services.forbidden(), if listing == Listing::Partial => {}
                changed = self.context.generations.changed(), if swaps => match changed {
                    Ok(()) => {
                        tracing::info!("plugin replaced; checking all objects again");
                        self.started.values().for_each(|runner| runner.recheck());
                    }
                    // A receiver without a sender would be ready all the time.
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

    /// Starts all controllers that are enabled, possible and not started yet.
    fn start(&mut self, services: Listing) {
        let info = self.context.provider.info();
        for constructor in CONSTRUCTORS {
            let controller = constructor.controller;
            if !self.context.enabled.contains(controller) || self.started.contains_key(controller) {
                continue;
            }

            let runner = match self.build(constructor, &info, services) {
                Ok(runner) => runner,
                Err(obstacle) => {
                    self.skip(controller, obstacle);
                    continue;
                }
            };

            let task = {
                let runner = Arc::clone(&runner);
                let stop = self.stop.clone();
                self.tasks.spawn(async move { runner.run(stop).await })
            };

            self.names.insert(task.id(), controller.name.to_owned());
            self.context.metrics.shared.running(controller, true);
            self.started.insert(controller, runner);
            tracing::info!("started {controller}");
        }
    }

    fn build(
        &self,
        constructor: &Constructor,
        info: &ProviderInfo,
        services: Listing,
    ) -> Result<Arc<dyn Runner>, Obstacle> {
        let Context {
            clients,
            options,
            provider,
            volumes,
            metrics,
            recorder,
            records,
            unreleased,
            ..
        } = &self.context;

        constructor.check(options, info, services)?;
        let controller = constructor.controller;
        (constructor.build)(Setup {
            context: ControllerContext {
                controller,
                provider: Arc::clone(provider),
                nodes: Arc::clone(&self.nodes),
                recorder: recorder.clone(),
                metrics: metrics.shared.clone(),
            },
            metrics,
            client: clients.named(controller.client).clone(),
            options,
            services: &self.services,
            volumes,
            volume_objects: &self.volume_objects,
            annotation_writer: &self.annotation_writer,
            read_objects: &self.read_objects,
            address_holders: &self.address_holders,
            records: records.clone(),
            dry_run_log: self.dry_run_log.as_ref(),
            unreleased: *unreleased,
        })
    }

    /// Logs once why a controller is not running.
    fn skip(&mut self, controller: Controller, obstacle: Obstacle) {
        if self.skipped.get(controller) == Some(&obstacle) {
            return;
        }

        if obstacle.is_mistake() {
            tracing::error!("skipping {controller}: {obstacle}");
        } else {
            tracing::info!("skipping {controller}: {obstacle}");
        }

        self.skipped.insert(controller, obstacle);
    }

    async fn stop(&mut self) {
        self.stop.cancel();
        let grace = self.context.options.shutdown_grace;
        let ended = async { while self.tasks.join_next().await.is_some() {} };

        if timeout(grace, ended).await.is_err() {
            tracing::warn!("some calls did not finish within {grace:?} and were canceled");
            self.tasks.shutdown().await;
        }

        for &controller in self.started.keys() {
            self.context.metrics.shared.running(controller, false);
            tracing::info!("stopped {controller}");
        }
    }
}
