//! The life cycle of a cloud-controller-manager: plugin, API server, serving, Lease, controllers,
//! and shutdown.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use kube::Client;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use skydock_cloud::{CloudProvider, ProviderInfo};
use skydock_controllers::{
    ClientName, Clients, Context, Metrics as ControllerMetrics, recorder, route,
};
use skydock_kube::{
    api::{with_causes, with_deadline},
    clients,
    election::{self, ElectionConfig, ElectionMetrics, Elector, Leadership, LeaseAccess},
    service_accounts,
};
use skydock_sandbox::{
    ClusterSlot, Compiler, LoadError, Plugin, PluginMetrics, PluginSource, Recordings, Runtime,
    RuntimeOptions, Taping,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    cli::COMPILER,
    commands::accepted::AcceptedStore,
    config::{Config, PluginSettings},
    configuration::{self, FileMetrics, Followed},
    credentials,
    egress::Egress,
    process::{blocking::blocking, report::Reporter},
    serving,
};

/// Runs until `shutdown`, and then completes the work in progress.
///
/// # Errors
/// If it cannot start, or loses the Lease.
pub async fn run(config: Config, shutdown: CancellationToken) -> anyhow::Result<()> {
    let process = CancellationToken::new();
    // Tasks of the process end with this function, also if it fails.
    let _ends_with_this = process.clone().drop_guard();

    // Before the start is complete, there is no work that must be finished.
    let starting = Box::pin(start(config, process.clone()));
    let Some(started) = shutdown.run_until_cancelled(starting).await else {
        return Ok(());
    };
    let (team, election) = started?;

    let outdated = credentials::outdated(
        team.config.cluster.clone(),
        team.access.clone(),
        *team.root.valid_until(),
    );

    let stop = shutdown.child_token();
    let work = async {
        match election {
            None => Box::pin(team.work(None, false, stop.clone(), CancellationToken::new())).await,
            Some(election) => Box::pin(team.stand_for_election(election, stop.clone())).await,
        }
    };
    credentials::work_until(outdated, &stop, work).await
}

/// Serves health, loads the plugin and connects to the API server, in this order: a slow
/// compilation of the plugin must not cause a restart of the process.
async fn start(
    config: Config,
    process: CancellationToken,
) -> anyhow::Result<(Team, Option<Election>)> {
    // The server takes the registry, so all metrics are registered before it starts.
    let mut registry = Registry::default();
    let plugin_metrics = PluginMetrics::register(&mut registry);
    let election = config
        .election
        .clone()
        .map(|election| Election::new(election, &mut registry));
    let metrics = ControllerMetrics::register(&mut registry);
    let egress = Arc::new(gateways(&config, &mut registry)?);
    let file_metrics = FileMetrics::register(&mut registry);

    let loaded = CancellationToken::new();
    let reached = CancellationToken::new();
    let mut serves = None;

    if let Some(address) = config.serve {
        let served = serving::Served {
            registry,
            loaded: loaded.clone(),
            reached: reached.clone(),
            election: election.as_ref().map(Election::watched),
        };

        let address = serving::start(address, served, process.clone()).await?;
        // It may have been changed to one that is not always closed.
        egress.close_port(address.port());
        serves = Some(address);
    }

    let cluster = ClusterSlot::default();
    let plugin = load_plugin(
        &config,
        plugin_metrics,
        cluster.clone(),
        Arc::clone(&egress),
    )
    .await?;

    can_make_routes(&config, &plugin.info())?;
    loaded.cancel();

    let cluster_access = config.cluster.clone();
    let access = blocking(async move { clients::load(&cluster_access).await }).await?;
    tokio::spawn(process.clone().run_until_cancelled_owned(
        Arc::clone(&egress).follow_api_server(access.cluster_url.clone()),
    ));

    let account = access.clone();
    let root =
        blocking(async move { clients::named(&account, "cloud-controller-manager") }).await?;
    let root = with_deadline(&root);
    let version = clients::wait_for_api_server(&root, &access.cluster_url).await;

    tokio::spawn(plugin.clone().watch(process.clone()));

    if let Some(file) = config.configuration.clone() {
        let (sender, settings) = watch::channel(config.plugin.clone());
        let followed = Followed {
            flags: config.plugin_flags.clone(),
            egress: Arc::clone(&egress),
            settings: sender,
            metrics: file_metrics,
        };

        let following = configuration::follow(file, followed);
        tokio::spawn(process.clone().run_until_cancelled_owned(following));

        let surroundings = surroundings(&config, Arc::clone(&egress));
        let applying = apply(Arc::clone(&plugin), surroundings, settings);
        tokio::spawn(process.clone().run_until_cancelled_owned(applying));
    }

    // From here on, /readyz depends only on the Lease.
    reached.cancel();

    let accepted = config.keeps_accepted.then(|| {
        let lease = &config.options.process;
        let [namespace, name] = [&lease.namespace, &lease.name].map(Option::as_deref);
        AcceptedStore::new(
            &root,
            namespace.unwrap_or_default(),
            name.unwrap_or_default(),
        )
    });

    if let Some(accepted) = &accepted {
        accepted.check_if_known(&plugin).await?;
    }

    if config.last_good {
        let plugin = Arc::clone(&plugin);
        let keeping = async move { plugin.keep_last_good().await };
        tokio::spawn(process.clone().run_until_cancelled_owned(keeping));
    }

    if let Some(address) = serves {
        tracing::info!(%address, "serving /metrics, /healthz, /livez and /readyz");
    }
    let generation = plugin.generation();
    tracing::info!(
        api_server = %access.cluster_url, %version, plugin = config.plugin.name,
        provider = generation.name, provider_version = generation.version, "started"
    );

    let dry_run = config.options.dry_run;

    Ok((
        Team {
            config,
            access,
            root,
            plugin,
            // A dry run must not write to the Lease.
            accepted: accepted.filter(|_| !dry_run),
            cluster,
            egress,
            metrics,
            process,
        },
        election,
    ))
}

/// Checks the flags for routes before the Lease is acquired, so that a standby also reports a
/// mistake.
fn can_make_routes(config: &Config, provider: &ProviderInfo) -> anyhow::Result<()> {
    if !config.controllers.contains(&route::CONTROLLER) {
        return Ok(());
    }

    config.options.routes.check(provider).with_context(|| {
        let name = &provider.name;
        format!("cannot run the route controller, although provider {name} supports routes: set a valid --cluster-cidr, or set \
             --configure-cloud-routes=false")
    })
}

/// Returns the network access of the plugin. The networks of the cluster are closed.
fn gateways(config: &Config, registry: &mut Registry) -> anyhow::Result<Egress> {
    let networks = config
        .ingress
        .pods
        .iter()
        .chain(&config.ingress.services)
        .copied()
        .collect();

    let name = &config.plugin.name;
    Egress::new(name, config.permits.clone(), networks, registry)
        .with_context(|| format!("plugin {name}"))
}

async fn load_plugin(
    config: &Config,
    metrics: PluginMetrics,
    cluster: ClusterSlot,
    egress: Arc<Egress>,
) -> anyhow::Result<Arc<Plugin>> {
    let cache_dir = config.plugin_cache_dir.clone();
    let limits = config.plugin.limits.clone();
    let options = RuntimeOptions::new(Compiler::this_program(COMPILER)?);

    let taping = match config.record.clone() {
        Some((directory, limit)) => {
            tracing::info!(
                "recording all calls of the plugin in {}",
                directory.display()
            );
            Taping::Record(blocking(async move { Recordings::open(&directory, limit) }).await?)
        }
        None => Taping::Off,
    };

    let runtime = blocking(async {
        Runtime::new(RuntimeOptions {
            cache_dir,
            limits,
            metrics,
            taping,
            ..options
        })
    })
    .await;
    let runtime = runtime.context("cannot start the plugin runtime")?;

    let source = config.plugin.source(surroundings(config, egress));
    let name = &config.plugin.name;
    let file = config.plugin.file.display();

    if config.waits_for_plugin {
        let told = |error: &LoadError| {
            tracing::error!(
                "cannot load plugin {name} from {file}: {error}; retrying when the plugin or its configuration changes, or after 10 minutes"
            );
        };
        return Ok(source.load_when_ready(&runtime, cluster, told).await);
    }

    let plugin = Plugin::load_or_last_good(&runtime, source, cluster).await;
    plugin.with_context(|| format!("cannot load plugin {name} from {file}"))
}

/// Returns what does not change about the source of the plugin while the process runs.
fn surroundings(config: &Config, egress: Arc<Egress>) -> PluginSource {
    PluginSource {
        cluster_name: config.options.cluster_name.clone(),
        cluster_cidrs: config.cluster_cidrs.clone(),
        ingress: config.ingress.clone(),
        gateways: Some(egress),
        only_reads: config.only_reads,
        last_good: config.last_good,
        ..PluginSource::default()
    }
}

/// Applies each change of the settings to the plugin, which reports the outcome. Ends when there
/// are no more changes.
async fn apply(
    plugin: Arc<Plugin>,
    surroundings: PluginSource,
    mut settings: watch::Receiver<PluginSettings>,
) {
    while settings.changed().await.is_ok() {
        let now = settings.borrow_and_update().clone();
        let source = now.source(surroundings.clone());
        let _ = plugin.reconfigure(source, now.limits).await;
    }
}

/// The parts of a run that has started.
struct Team {
    config: Config,
    access: kube::Config,
    root: Client,
    plugin: Arc<Plugin>,
    /// Where to keep what was accepted of the plugin.
    accepted: Option<AcceptedStore>,
    cluster: ClusterSlot,
    egress: Arc<Egress>,
    metrics: ControllerMetrics,
    /// Canceled when the process ends.
    process: CancellationToken,
}

impl Team {
    /// Runs the controllers until `stop`, and completes what they have started. Cancels `worked`
    /// when only events are left to write.
    async fn work(
        self,
        identity: Option<String>,
        unreleased: bool,
        stop: CancellationToken,
        worked: CancellationToken,
    ) -> anyhow::Result<()> {
        let Some(clients) = stop.run_until_cancelled(self.clients()).await else {
            return Ok(());
        };
        let clients = clients?;

        if let (Some(accepted), Some(_)) = (&self.accepted, &identity) {
            // Whoever holds the Lease can read it.
            let checked = stop.run_until_cancelled(accepted.check(&self.plugin)).await;
            checked.unwrap_or(Ok(()))?;
        }

        if self.config.options.dry_run {
            tracing::info!("dry run: changes are logged, not applied");
        }

        let (recorder, events) = recorder(&self.metrics);
        let reporter = Reporter::new(recorder.clone(), self.config.election.as_ref());
        if let Some(identity) = identity {
            reporter.leads(&identity);
        }

        let plugin = self.plugin.clone();
        let followed = tokio::spawn(async move { reporter.follow(&plugin).await });
        let unkept = async {
            match &self.accepted {
                Some(accepted) => accepted.follow(&self.plugin).await,
                None => std::future::pending().await,
            }
        };

        let cluster = self.cluster.clone();
        let egress = Arc::clone(&self.egress);
        let context = Context {
            clients,
            provider: self.plugin.clone(),
            generations: self.plugin.subscribe(),
            options: self.config.options.clone(),
            enabled: self.config.controllers.clone(),
            metrics: self.metrics.clone(),
            recorder,
            on_cluster: Box::new(move |view| {
                egress.close_nodes(Arc::clone(&view));
                cluster.set(view);
            }),
            unreleased,
            shutdown: stop.clone(),
            worked,
        };

        let work = async {
            let ended = skydock_controllers::run(context, events).await;
            ended.context("controllers ended")
        };
        let ended = credentials::work_until(unkept, &stop, work).await;

        self.cluster.clear();
        followed.abort();
        self.process.cancel();
        ended
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

    /// Runs the controllers while this instance holds the Lease.
    async fn stand_for_election(
        self,
        election: Election,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        let release = CancellationToken::new();
        let mut state = election.state.subscribe();
        let access = self.access.clone();
        let identity = election::identity();
        let lease_duration = election.config.timings.lease_duration;

        let (thread, unreleased) = election.start(access, identity.clone(), release.clone())?;

        let led = tokio::select! {
            stands = state.wait_for(|state| *state != Leadership::Standby) => match &*stands? {
                Leadership::Lost(why) => return Err(anyhow!("leadership lost: {why}")),
                stands => matches!(stands, Leadership::Leading(_)),
            },
            () = shutdown.cancelled() => false,
        };

        let stop = shutdown.child_token();
        let ended = if led {
            tokio::select! {
                // Another leader may already be active, so this instance exits without completing
                // its work.
                why = election::lost(&mut state, lease_duration, &release) => return Err(anyhow!("leadership lost: {why}")),
                ended = self.work(Some(identity), unreleased.load(Ordering::SeqCst), stop, release.clone()) => ended,
            }
        } else {
            Ok(())
        };

        release.cancel();
        // Releasing takes a moment; otherwise the Lease expires. A standby usually does not hold
        // the Lease.
        let patience = Duration::from_secs(if led { 3 } else { 1 });
        let _ = tokio::time::timeout(patience, tokio::task::spawn_blocking(move || thread.join()))
            .await;

        ended
    }
}

/// An election that has not started yet.
struct Election {
    config: ElectionConfig,
    state: watch::Sender<Leadership>,
    lease: watch::Sender<LeaseAccess>,
    metrics: Arc<Metrics>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabel {
    name: String,
}

/// The election metrics (P-23).
struct Metrics {
    name: String,
    leading: Family<LeaseLabel, Gauge>,
    slow_path: Family<LeaseLabel, Counter<u64, AtomicU64>>,
}

impl ElectionMetrics for Metrics {
    fn leading(&self, leading: bool) {
        self.leading
            .get_or_create(&LeaseLabel {
                name: self.name.clone(),
            })
            .set(i64::from(leading));
    }

    fn slow_path(&self) {
        self.slow_path
            .get_or_create(&LeaseLabel {
                name: self.name.clone(),
            })
            .inc();
    }
}

impl Election {
    fn new(config: ElectionConfig, registry: &mut Registry) -> Self {
        let metrics = Metrics {
            name: config.name.clone(),
            leading: Family::default(),
            slow_path: Family::default(),
        };

        registry.register(
            "leader_election_master_status",
            "1 on the leader, 0 on a standby",
            metrics.leading.clone(),
        );
        registry.register(
            "leader_election_slowpath",
            "Renewals that had to read the Lease first",
            metrics.slow_path.clone(),
        );

        // The metric must not be missing on a standby (P-23).
        metrics.leading(false);
        Self {
            config,
            state: watch::Sender::new(Leadership::Standby),
            lease: watch::Sender::default(),
            metrics: Arc::new(metrics),
        }
    }

    fn watched(&self) -> serving::Election {
        serving::Election {
            leadership: self.state.subscribe(),
            lease: self.lease.subscribe(),
            lease_duration: self.config.timings.lease_duration,
        }
    }

    /// Starts the elector on a separate thread and with a separate client, so that nothing else can
    /// delay renewals.
    fn start(
        self,
        access: kube::Config,
        identity: String,
        release: CancellationToken,
    ) -> anyhow::Result<(thread::JoinHandle<()>, Arc<AtomicBool>)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;

        let connect = move || {
            let client = clients::named(&access, "leader-election");
            let client = client.map(|client| with_deadline(&client));
            client.map_err(|error| election::Failure::Client(with_causes(&error)))
        };

        let elector = Elector::new(Box::new(connect), self.config, identity, self.metrics);
        let unreleased = elector.unreleased();
        let elect = move || runtime.block_on(elector.run(&self.state, &self.lease, &release));

        Ok((
            thread::Builder::new()
                .name("leader-election".to_owned())
                .spawn(elect)?,
            unreleased,
        ))
    }
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
        // A family without series is not encoded.
        Election::new(config, &mut registry).metrics.slow_path();
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let names: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        assert_eq!(names.len(), 4, "{names:?}");

        for name in names {
            let is_listed = page.contains(&format!("`{name}`"));
            assert!(
                is_listed
                    || (name.starts_with("leader_election_")
                        && page.contains("`leader_election_…`")),
                "{name}"
            );
        }
    }
}
