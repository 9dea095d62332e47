//! The life cycle of a cloud-controller-manager: plugin, API server, serving, Lease and its
//! release, controllers, and shutdown.
//!
//! A number such as P-23 is that of a statement in `docs/parity.md`.

mod election;
mod overview;
mod plugin;
mod volumes;
mod zpages;

use std::{
    future::pending,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use futures::future::select;
use kube::Client;
use prometheus_client::registry::Registry;
use skydock_cloud::{CloudProvider, ProviderInfo};
use skydock_controllers::{
    ClientName, Clients, Context, Metrics as ControllerMetrics, dry_run_provider, recorder,
    route::{self, Reconciliation},
    service::{self, RecordStore},
};
use skydock_csi::CsiMetrics;
use skydock_egress::Official;
use skydock_kube::{
    api::with_deadline,
    clients,
    election::{self as leader_election, ElectionConfig, Leadership, LeaseAnnotation},
    events::Recorder,
    service_accounts,
};
use skydock_sandbox::{ClusterSlot, Plugin, PluginMetrics, PluginSource};
use skydock_serving::{Readiness, Served, secure, start_plain};
use tokio::{
    sync::watch,
    task::{JoinHandle, spawn_blocking},
};
use tokio_util::sync::CancellationToken;

use self::{
    election::{Election, Started},
    overview::Sources,
    volumes::Volumes,
};
use crate::{
    cli::WATCH_BASED_ROUTES,
    commands::accepted::AcceptedStore,
    config::{self, Config, FileMetrics, Followed},
    credentials,
    egress::Egress,
    process::{
        blocking::blocking,
        metrics::{self as process_metrics, Feature},
        report::Reporter,
    },
};

/// Runs until `shutdown`, and then completes the work in progress.
///
/// # Errors
/// If it cannot start, or loses the Lease.
pub async fn run(config: Config, shutdown: CancellationToken) -> anyhow::Result<()> {
    let process = CancellationToken::new();
    // Tasks of the process end with this function, also if it fails.
    let _ends_with_this = process.clone().drop_guard();

    // Before the start is complete, there is no work that must be finished. The future is large,
    // like the others that are boxed here.
    let starting = Box::pin(start(config, process.clone()));
    let Some(started) = shutdown.run_until_cancelled(starting).await else {
        return Ok(());
    };
    let (manager, election) = started?;

    let outdated = credentials::outdated(
        manager.config.cluster.clone(),
        manager.access.clone(),
        *manager.root.valid_until(),
    );
    let failed = manager.volumes.failed();
    let must_restart = async { select(pin!(outdated), pin!(failed)).await.factor_first().0 };

    let stop = shutdown.child_token();
    let work = async {
        match election {
            None => Box::pin(manager.work(None, stop.clone())).await,
            Some(election) => Box::pin(manager.stand_for_election(election, stop.clone())).await,
        }
    };
    credentials::work_until(must_restart, &stop, work).await
}

/// Loads the plugin of a configuration for a command that asks the cloud. The API server at this
/// address is closed to it.
///
/// # Errors
/// If its network access is not valid, or it cannot be loaded.
pub(crate) async fn load_plugin(
    config: &Config,
    api_server: Option<http::Uri>,
) -> anyhow::Result<Arc<Plugin>> {
    let mut registry = Registry::default();
    let metrics = PluginMetrics::register(&mut registry);
    let egress = Arc::new(plugin::egress(config, &mut registry)?);
    if let Some(url) = api_server {
        tokio::spawn(Arc::clone(&egress).follow_api_server(url));
    }
    let template = plugin::source_template(config, egress).await;
    Box::pin(plugin::load(
        config,
        metrics,
        ClusterSlot::default(),
        template,
    ))
    .await
}

/// Serves health, loads the plugin and connects to the API server, in this order: a slow
/// compilation of the plugin must not cause a restart of the process.
async fn start(
    config: Config,
    process: CancellationToken,
) -> anyhow::Result<(StartedManager, Option<Election>)> {
    // The server takes the registry, so all metrics are registered before it starts.
    let mut registry = Registry::default();
    process_metrics::register(&mut registry);
    process_metrics::register_features(&features(&config), &mut registry);
    clients::metrics::register(&mut registry);
    let plugin_metrics = PluginMetrics::register(&mut registry);
    let election = config
        .election
        .clone()
        .map(|election| Election::new(election, &mut registry));
    let metrics = ControllerMetrics::register(&mut registry);
    let egress = Arc::new(plugin::egress(&config, &mut registry)?);
    measure_as(config.metrics_compat, &egress, &metrics, &mut registry);
    let file_metrics = FileMetrics::register(&mut registry);
    let csi_metrics = CsiMetrics::register(&mut registry);

    let readiness = watch::Sender::new(Readiness::Starting);
    let served = Served {
        registry,
        readiness: readiness.subscribe(),
        election: election.as_ref().map(Election::watched),
        controllers: config.controllers.iter().map(|it| it.name).collect(),
    };
    let leadership = election.as_ref().map(|election| election.state.subscribe());
    let sources = Sources::new(leadership, Arc::clone(&egress));
    let served_at = serve(&config, served, &sources, &egress, &process).await?;

    let cluster = ClusterSlot::default();
    let template = plugin::source_template(&config, Arc::clone(&egress)).await;
    let load = plugin::load(&config, plugin_metrics, cluster.clone(), template.clone());
    let plugin = Box::pin(load).await?;
    check_routes(&config, &plugin.info())?;
    sources.follow(&plugin, &process);
    let volumes = start_volumes(&config, &plugin, csi_metrics, &process)?;
    readiness.send_replace(Readiness::PluginLoaded);

    let api_server = connect(&config, &egress, &process).await?;
    tokio::spawn(plugin.clone().watch(process.clone()));
    follow_file(&config, &plugin, &egress, template, file_metrics, &process);
    // From here on, /readyz depends only on the Lease.
    readiness.send_replace(Readiness::ApiServerReached);

    let accepted = check_accepted(&config, &api_server, &plugin).await?;
    if config.last_good {
        keep_last_good(&plugin, &process);
    }
    log_start(&config, &plugin, &api_server, &served_at);

    let manager = StartedManager {
        // A dry run must not write to the Lease.
        accepted: accepted.filter(|_| !config.options.dry_run),
        config,
        access: api_server.access,
        root: api_server.root,
        plugin,
        cluster,
        egress,
        sources,
        metrics,
        volumes,
        process,
    };
    Ok((manager, election))
}

/// Measures under the names of an official cloud-controller-manager, too.
fn measure_as(
    official: Option<Official>,
    egress: &Egress,
    metrics: &ControllerMetrics,
    registry: &mut Registry,
) {
    if let Some(official) = official {
        egress.measure_as(official, registry);
    }
    if official == Some(Official::OpenStack) {
        metrics.also_as_openstack(registry);
    }
}

/// Checks the plugin against what was accepted of it before. Returns where that is kept, if it is.
async fn check_accepted(
    config: &Config,
    api_server: &ApiServer,
    plugin: &Plugin,
) -> anyhow::Result<Option<AcceptedStore>> {
    let Some(lease) = &config.accepted_in else {
        return Ok(None);
    };
    let accepted = AcceptedStore::new(&api_server.root, &lease.namespace, &lease.name);
    accepted.check_if_known(plugin).await?;
    Ok(Some(accepted))
}

fn keep_last_good(plugin: &Arc<Plugin>, process: &CancellationToken) {
    let plugin = Arc::clone(plugin);
    let keeping = async move { plugin.keep_last_good().await };
    tokio::spawn(process.clone().run_until_cancelled_owned(keeping));
}

/// Returns upstream's feature gates that Skydock supports.
fn features(config: &Config) -> [Feature; 1] {
    let is_enabled = matches!(
        config.options.routes.reconciliation,
        Reconciliation::OnChange { .. }
    );
    [Feature {
        name: WATCH_BASED_ROUTES,
        stage: "ALPHA",
        is_enabled,
    }]
}

/// Serves metrics and health at the addresses that there are for them, and returns these.
async fn serve(
    config: &Config,
    served: Served,
    sources: &Arc<Sources>,
    egress: &Egress,
    process: &CancellationToken,
) -> anyhow::Result<Vec<String>> {
    let router = served.router();
    let mut served_at = Vec::new();

    if let Some(address) = config.serve {
        let address = start_plain(address, router.clone(), process.clone()).await?;
        // It may have been changed to one that is not always closed.
        egress.close_port(address.port());
        served_at.push(format!("http://{address}"));
    }
    if let Some(options) = config.secure_serving.clone() {
        let router = router.merge(zpages::zpages(config, Arc::clone(sources)).router());
        let address = secure::start(options, router, process.clone()).await?;
        egress.close_port(address.port());
        served_at.push(format!("https://{address}"));
    }
    Ok(served_at)
}

/// The API server that the process has reached.
struct ApiServer {
    access: kube::Config,
    /// A client with the account of the process.
    root: Client,
    version: String,
}

/// Waits for the API server. Its addresses are closed to the plugin.
async fn connect(
    config: &Config,
    egress: &Arc<Egress>,
    process: &CancellationToken,
) -> anyhow::Result<ApiServer> {
    let cluster = config.cluster.clone();
    let access = blocking(async move { clients::load(&cluster).await }).await?;

    let following = Arc::clone(egress).follow_api_server(access.cluster_url.clone());
    tokio::spawn(process.clone().run_until_cancelled_owned(following));

    let account = access.clone();
    let root =
        blocking(async move { clients::named(&account, "cloud-controller-manager") }).await?;
    let root = with_deadline(&root);
    let version = clients::wait_for_api_server(&root, &access.cluster_url).await;

    Ok(ApiServer {
        access,
        root,
        version,
    })
}

/// Applies changes of the configuration file, if there is one, until the process ends.
fn follow_file(
    config: &Config,
    plugin: &Arc<Plugin>,
    egress: &Arc<Egress>,
    template: PluginSource,
    metrics: FileMetrics,
    process: &CancellationToken,
) {
    let Some(file) = config.file.clone() else {
        return;
    };

    let (sender, settings) = watch::channel(config.plugin.clone());
    let followed = Followed {
        flags: config.plugin_flags.clone(),
        egress: Arc::clone(egress),
        settings: sender,
        metrics,
    };
    let following = config::follow(file, followed);
    tokio::spawn(process.clone().run_until_cancelled_owned(following));

    let applying = plugin::follow_settings(Arc::clone(plugin), template, settings);
    tokio::spawn(process.clone().run_until_cancelled_owned(applying));
}

fn log_start(config: &Config, plugin: &Plugin, api_server: &ApiServer, served_at: &[String]) {
    for address in served_at {
        tracing::info!(address, "serving health and metrics");
    }

    let ApiServer {
        access, version, ..
    } = api_server;
    let generation = plugin.generation();
    tracing::info!(
        api_server = %access.cluster_url, %version, plugin = config.plugin.name,
        provider = generation.name, provider_version = generation.version, "started"
    );
}

/// Checks the flags for routes before the Lease is acquired, so that a standby also reports a
/// mistake.
fn check_routes(config: &Config, provider: &ProviderInfo) -> anyhow::Result<()> {
    if !config.controllers.contains(&route::CONTROLLER) {
        return Ok(());
    }

    config.options.routes.check(provider).with_context(|| {
        let name = &provider.name;
        format!("cannot run the route controller, although provider {name} supports routes: set a valid --cluster-cidr, or set \
             --configure-cloud-routes=false")
    })
}

/// Creates the controller part of the CSI driver, and the socket for its sidecars, if there is one.
fn start_volumes(
    config: &Config,
    plugin: &Arc<Plugin>,
    metrics: CsiMetrics,
    process: &CancellationToken,
) -> anyhow::Result<Volumes> {
    let mut provider: Arc<dyn CloudProvider> = plugin.clone();
    if config.options.dry_run {
        provider = dry_run_provider(provider);
    }

    let mut volumes = Volumes::new(provider);
    if let Some(path) = &config.csi_socket {
        volumes::check(&plugin.info())?;
        let served = volumes.serve(path, metrics, process);
        served.context("--csi-endpoint")?;
    }
    Ok(volumes)
}

/// The parts of a run that has started.
struct StartedManager {
    config: Config,
    access: kube::Config,
    root: Client,
    plugin: Arc<Plugin>,
    /// Where to keep what was accepted of the plugin.
    accepted: Option<AcceptedStore>,
    cluster: ClusterSlot,
    egress: Arc<Egress>,
    /// Those who know what the process does.
    sources: Arc<Sources>,
    metrics: ControllerMetrics,
    volumes: Volumes,
    /// Canceled when the process ends.
    process: CancellationToken,
}

/// What the leader knows about its Lease.
struct Leader {
    identity: String,
    /// Whether the previous leader has not released the Lease.
    predecessor_unreleased: bool,
    /// Where it leaves what it knows to the next one.
    records: RecordStore,
    end: LeaseEnd,
}

/// How a leader gives up its Lease.
#[derive(Clone, Default)]
struct LeaseEnd {
    /// Cancelled to release it.
    release: CancellationToken,
    /// Set to let it expire after the process has ended.
    expires: Arc<AtomicBool>,
}

impl StartedManager {
    /// Runs the controllers and serves volumes until `stop`, and completes what they have started.
    /// Releases the Lease of the leader, if there is one, when only events are left to write.
    async fn work(self, leader: Option<Leader>, stop: CancellationToken) -> anyhow::Result<()> {
        let Some(clients) = stop.run_until_cancelled(self.clients()).await else {
            return Ok(());
        };
        let clients = clients?;

        if let Some(accepted) = &self.accepted {
            // Whoever holds the Lease can read it.
            let check = accepted.check(&self.plugin, leader.is_some());
            let Some(checked) = stop.run_until_cancelled(check).await else {
                return Ok(());
            };
            checked?;
        }

        if self.config.options.dry_run {
            tracing::info!("dry run: changes are logged, not applied");
        }

        let (recorder, events) = recorder(&self.metrics.shared);
        let reporting = self.report_generations(recorder.clone(), leader.as_ref());
        let worked = CancellationToken::new();
        let lease = leader.as_ref().map(|leader| leader.end.clone());
        let releasing = self.serve_volumes(stop.clone(), worked.clone(), lease);
        let context = self.build_context(clients, recorder, leader, stop.clone(), worked);

        let work = async {
            let ended = skydock_controllers::run(context, events).await;
            ended.context("controllers ended")
        };
        let work = async {
            let (ended, ()) = tokio::join!(work, releasing);
            ended
        };
        let keeping_failed = async {
            match &self.accepted {
                Some(accepted) => accepted.follow(&self.plugin).await,
                None => pending().await,
            }
        };
        let working = credentials::work_until(keeping_failed, &stop, work);
        let ended = Box::pin(working).await;

        self.cluster.clear();
        self.sources.controllers_end();
        reporting.abort();
        // Not only when `run` returns, which may wait seconds for the release of the Lease: a process
        // that has no more work to do loads no other plugin, and does not report that it is ready.
        self.process.cancel();
        ended
    }

    /// Serves volumes until `stop`, or until the controllers have `worked`, and releases the Lease when
    /// both have ended: after that, another replica may change what the plugin works on. It is not
    /// released while the plugin may be creating a volume, of which another replica would create a
    /// second one.
    async fn serve_volumes(
        &self,
        stop: CancellationToken,
        worked: CancellationToken,
        lease: Option<LeaseEnd>,
    ) {
        let end = async {
            tokio::select! {
                () = stop.cancelled() => {}
                // A controller has failed.
                () = worked.cancelled() => {}
            }
        };
        let grace = self.config.options.shutdown_grace;
        let answered = self.volumes.lead(end, grace).await;

        worked.cancelled().await;
        let Some(lease) = lease else {
            return;
        };
        if answered {
            lease.release.cancel();
        } else {
            tracing::warn!(
                "the plugin has not answered all calls about volumes: the Lease is not released, and another replica \
                 takes over when it expires"
            );
            lease.expires.store(true, Ordering::SeqCst);
        }
    }

    /// Publishes events about leadership, and about changes of the plugin until the task is aborted.
    fn report_generations(&self, recorder: Recorder, leader: Option<&Leader>) -> JoinHandle<()> {
        let reporter = Reporter::new(recorder, self.config.election.as_ref());
        if let Some(leader) = leader {
            reporter.leads(&leader.identity);
        }

        let plugin = Arc::clone(&self.plugin);
        tokio::spawn(async move { reporter.follow(&plugin).await })
    }

    fn build_context(
        &self,
        clients: Clients,
        recorder: Recorder,
        leader: Option<Leader>,
        shutdown: CancellationToken,
        worked: CancellationToken,
    ) -> Context {
        let cluster = self.cluster.clone();
        let egress = Arc::clone(&self.egress);
        let (sources, events) = (Arc::clone(&self.sources), recorder.clone());
        let metrics = self.metrics.clone();
        let (unreleased, records) = match leader {
            Some(leader) => (leader.predecessor_unreleased, Some(leader.records)),
            None => (false, None),
        };

        Context {
            clients,
            provider: self.plugin.clone(),
            volumes: self.volumes.controller(),
            generations: self.plugin.subscribe(),
            options: self.config.options.clone(),
            enabled: self.config.controllers.clone(),
            metrics: self.metrics.clone(),
            recorder,
            on_cluster: Box::new(move |view| {
                egress.close_nodes(Arc::clone(&view));
                sources.controllers_begin(Arc::clone(&view), events, metrics);
                cluster.set(view);
            }),
            records,
            unreleased,
            shutdown,
            worked,
        }
    }

    /// Returns where a leader leaves what it knows to the next one.
    fn records(&self, lease: &ElectionConfig, annotation: LeaseAnnotation) -> RecordStore {
        let Config {
            plugin,
            egress_policy,
            ingress,
            options,
            ..
        } = &self.config;
        // All that decides on load balancers, except for what the plugin receives. Other credentials
        // may be those of another account.
        let settings = format!(
            "{:?}",
            (
                &plugin.permissions,
                &egress_policy.rules,
                &egress_policy.credentials,
                ingress,
                &options.services
            )
        );
        let ElectionConfig {
            namespace, name, ..
        } = lease;
        RecordStore::new(&self.root, namespace, name, &settings, annotation)
    }

    async fn clients(&self) -> anyhow::Result<Clients> {
        let root = self.root.clone();
        let access = self.access.clone();
        let process = self.process.clone();
        let accounts = self.config.service_account_credentials;

        blocking(async move {
            let named = async |name: &str| -> anyhow::Result<Client> {
                if accounts {
                    Ok(service_accounts::client(&root, &access, name, process.clone()).await?)
                } else {
                    Ok(clients::named(&access, name)?)
                }
            };

            anyhow::Ok(Clients {
                // As upstream, the caches belong to no controller, and use the account of the
                // process.
                informers: clients::named(&access, "shared-informers")?,
                node: named(ClientName::Node.as_str()).await?,
                service: named(ClientName::Service.as_str()).await?,
                route: named(ClientName::Route.as_str()).await?,
            })
        })
        .await
    }

    /// Runs the controllers while this replica holds the Lease.
    async fn stand_for_election(
        self,
        election: Election,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        let end = LeaseEnd::default();
        let mut state = election.state.subscribe();
        let access = self.access.clone();
        let identity = leader_election::identity();
        let config = election.config.clone();
        let lease_duration = config.timings.lease_duration;

        let key = service::ANNOTATION;
        let Started {
            thread,
            unreleased,
            annotation,
        } = election.start(access, identity.clone(), key, end.release.clone())?;

        let led = tokio::select! {
            stands = state.wait_for(|state| *state != Leadership::Standby) => match &*stands.context("the leader election ended")? {
                Leadership::Lost(why) => return Err(anyhow!("leadership lost: {why}")),
                stands => matches!(stands, Leadership::Leading(_)),
            },
            () = shutdown.cancelled() => false,
        };

        let stop = shutdown.child_token();
        let ended = if led {
            let leader = Leader {
                identity,
                predecessor_unreleased: unreleased.load(Ordering::SeqCst),
                records: self.records(&config, annotation),
                end: end.clone(),
            };
            tokio::select! {
                // Another leader may already be active, so this replica exits without completing
                // its work.
                why = leader_election::lost(&mut state, lease_duration, &end.release) => return Err(anyhow!("leadership lost: {why}")),
                ended = self.work(Some(leader), stop) => ended,
            }
        } else {
            Ok(())
        };

        if end.expires.load(Ordering::SeqCst) {
            return ended;
        }
        end.release.cancel();
        // Releasing takes a moment; otherwise the Lease expires. A standby usually does not hold
        // the Lease.
        let patience = Duration::from_secs(if led { 3 } else { 1 });
        join_elector(thread, patience).await;

        ended
    }
}

/// Waits until the thread of the leader election has released the Lease, but no longer than this.
async fn join_elector(thread: thread::JoinHandle<()>, patience: Duration) {
    let joined = spawn_blocking(move || thread.join());
    let problem = match tokio::time::timeout(patience, joined).await {
        Ok(Ok(Ok(()))) => return,
        Ok(_) => "has panicked",
        Err(_) => "has not ended in time",
    };
    tracing::warn!(
        "the leader election {problem}; if this replica holds the Lease, another takes over when it expires"
    );
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use skydock_kube::election::Timings;

    use super::*;

    // Holds: P-23
    #[test]
    fn operating_md_lists_the_metrics_of_the_process() {
        let page = include_str!("../../../docs/operating.md");
        let mut registry = Registry::default();
        process_metrics::register(&mut registry);
        let feature = Feature {
            name: "a",
            stage: "ALPHA",
            is_enabled: true,
        };
        process_metrics::register_features(&[feature], &mut registry);
        clients::metrics::register(&mut registry);
        FileMetrics::register(&mut registry);
        let second = Duration::from_secs(1);
        let timings = Timings {
            lease_duration: 3 * second,
            renew_deadline: 2 * second,
            retry_period: second,
        };
        let config = ElectionConfig {
            namespace: "a".into(),
            name: "b".into(),
            timings,
        };
        Election::new(config, &mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let names: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();

        for name in names {
            // That of a counter is without `_total`, which the page has.
            let is_listed = ["", "_total"]
                .iter()
                .any(|ending| page.contains(&format!("`{name}{ending}`")));
            let families = ["leader_election_", "rest_client_", "process_"];
            let is_in_family = families
                .iter()
                .any(|family| name.starts_with(family) && page.contains(&format!("`{family}…`")));
            assert!(is_listed || is_in_family, "{name}");
        }
    }
}
