//! The life of a cloud controller manager: plugin, API server, serving, lease, controllers, and back again.

use std::{
    sync::{Arc, atomic::AtomicU64},
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
use skydock_controllers::{Clients, Context, Controller, Metrics as ControllerMetrics, dry_run, events::Recorder};
use skydock_plugin::{ClusterSlot, Plugin, PluginMetrics, PluginSource, Runtime, RuntimeOptions};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    clients,
    config::Config,
    election::{self, ElectionConfig, ElectionMetrics, Elector, Leadership},
    report::Reporter,
    service_accounts, serving,
};

/// Runs until `shutdown`, and then ends what is under way.
///
/// # Errors
/// Whatever keeps it from starting; loss of the lease.
pub async fn run(config: Config, shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut registry = Registry::default();
    let cluster = ClusterSlot::default();
    let plugin = load_plugin(&config, &mut registry, cluster.clone()).await?;

    can_make_routes(&config, &plugin.info())?;

    let access = clients::load(&config.cluster).await?;
    let root = clients::named(&access, "cloud-controller-manager")?;
    let version = tokio::select! {
        version = clients::wait_for_api_server(&root, &access.cluster_url) => version?,
        () = shutdown.cancelled() => return Ok(()),
    };

    let process = CancellationToken::new();
    let _ends_with_this = process.clone().drop_guard();
    let election = config.election.clone().map(|election| Election::new(election, &mut registry));
    let controller_metrics = ControllerMetrics::register(&mut registry);
    if let Some(address) = config.serve {
        let served = serving::Served {
            registry,
            leadership: election.as_ref().map(|election| election.state.subscribe()),
            lease_duration: config.election.as_ref().map_or(Duration::ZERO, |election| election.timings.lease_duration),
        };
        let bound = serving::start(address, served, process.clone()).await?;
        tracing::info!(address = %bound, "serving /metrics, /healthz, /livez and /readyz");
    }
    tokio::spawn(plugin.clone().watch(process.clone()));
    let generation = plugin.generation();
    tracing::info!(
        api_server = %access.cluster_url, %version, plugin = config.plugin.name,
        provider = generation.name, provider_version = generation.version, "started"
    );

    let team = Team { config, access, root, plugin, cluster, metrics: controller_metrics, process };
    match election {
        None => team.work(None, shutdown, CancellationToken::new()).await,
        Some(election) => team.stand_for_election(election, shutdown).await,
    }
}

/// Before the lease is taken, so that a mistake shows on a standby too.
fn can_make_routes(config: &Config, provider: &ProviderInfo) -> anyhow::Result<()> {
    if !config.controllers.contains(&Controller::Route) {
        return Ok(());
    }
    config.options.routes.check(provider).with_context(|| {
        let name = &provider.name;
        format!("the provider {name} makes routes to Pods, and needs --cluster-cidr or --configure-cloud-routes=false")
    })
}

async fn load_plugin(config: &Config, registry: &mut Registry, cluster: ClusterSlot) -> anyhow::Result<Arc<Plugin>> {
    let cache_dir = config.plugin_cache_dir.clone();
    let metrics = PluginMetrics::register(registry);
    let limits = config.plugin_limits.clone();
    let runtime = Runtime::new(RuntimeOptions { cache_dir, limits, metrics })
        .context("cannot start the plugin runtime")?;
    let source = PluginSource {
        name: config.plugin.name.clone(),
        component: config.plugin.file.clone(),
        cloud_config: config.cloud_config.clone(),
        cluster_name: config.options.cluster_name.clone(),
        cluster_cidrs: config.cluster_cidrs.clone(),
    };
    let plugin = Plugin::load(&runtime, source, cluster).await;
    plugin
        .with_context(|| format!("cannot load the plugin {} from {}", config.plugin.name, config.plugin.file.display()))
}

/// All that works together once a run has started.
struct Team {
    config: Config,
    access: kube::Config,
    root: Client,
    plugin: Arc<Plugin>,
    cluster: ClusterSlot,
    metrics: ControllerMetrics,
    /// Cancelled when the process ends.
    process: CancellationToken,
}

impl Team {
    /// Runs the controllers until `stop`, and ends what they have begun. Cancels `worked` when only events are left to write.
    async fn work(
        self,
        identity: Option<String>,
        stop: CancellationToken,
        worked: CancellationToken,
    ) -> anyhow::Result<()> {
        let clients = self.clients().await?;
        let root = if self.config.options.dry_run {
            tracing::info!("dry run: what would be done is said here, and nothing is done");
            dry_run::client(&self.root)
        } else {
            self.root.clone()
        };
        let (recorder, events) = Recorder::new(root, self.metrics.clone());
        let events = tokio::spawn(events.run(self.process.clone()));
        let reporter = Reporter::new(recorder, self.config.election.as_ref());
        if let Some(identity) = identity {
            reporter.leads(&identity);
        }
        let plugin = self.plugin.clone();
        let followed = tokio::spawn(async move { reporter.follow(&plugin).await });
        let cluster = self.cluster.clone();
        let context = Context {
            clients,
            provider: self.plugin.clone(),
            generations: self.plugin.subscribe(),
            options: self.config.options.clone(),
            enabled: self.config.controllers.clone(),
            metrics: self.metrics.clone(),
            on_cluster: Box::new(move |view| cluster.set(view)),
            shutdown: stop,
            worked,
        };
        let ended = skydock_controllers::run(context).await;
        self.cluster.clear();
        followed.abort();
        self.process.cancel();
        // The last events are on their way; they are worth a moment.
        let _ = tokio::time::timeout(Duration::from_secs(2), events).await;
        ended.context("controllers ended")
    }

    async fn clients(&self) -> anyhow::Result<Clients> {
        let named = async |name: &str| -> anyhow::Result<Client> {
            if self.config.service_account_credentials {
                Ok(service_accounts::client(&self.root, &self.access, name, self.process.clone()).await?)
            } else {
                Ok(clients::named(&self.access, name)?)
            }
        };
        Ok(Clients {
            informers: clients::named(&self.access, "shared-informers")?,
            node: named("node-controller").await?,
            service: named("service-controller").await?,
            route: named("route-controller").await?,
        })
    }

    /// Works while this instance holds the lease.
    async fn stand_for_election(self, election: Election, shutdown: CancellationToken) -> anyhow::Result<()> {
        let release = CancellationToken::new();
        let mut state = election.state.subscribe();
        let access = self.access.clone();
        let identity = election::identity();
        let thread = election.start(access, identity.clone(), release.clone())?;
        let led = tokio::select! {
            stands = state.wait_for(|state| *state != Leadership::Standby) => match &*stands? {
                Leadership::Lost(why) => return Err(anyhow!("leadership lost: {why}")),
                stands => matches!(stands, Leadership::Leading(_)),
            },
            () = shutdown.cancelled() => false,
        };
        let stop = shutdown.child_token();
        let lost = async {
            let ended = |state: &Leadership| matches!(state, Leadership::Lost(_) | Leadership::Released);
            let state = state.wait_for(ended).await.map(|state| state.clone());
            match state {
                Ok(Leadership::Lost(why)) => why,
                // Given up, since nothing but events is left to write.
                Ok(_) if release.is_cancelled() => std::future::pending().await,
                _ => "the elector has ended".to_owned(),
            }
        };
        let ended = if led {
            tokio::select! {
                // What another leader may be doing already must not be done here: no draining, out.
                why = lost => return Err(anyhow!("leadership lost: {why}")),
                ended = self.work(Some(identity), stop, release.clone()) => ended,
            }
        } else {
            Ok(())
        };
        release.cancel();
        // Given up in a moment, or it runs out by itself.
        let _ = tokio::time::timeout(Duration::from_secs(3), tokio::task::spawn_blocking(move || thread.join())).await;
        ended
    }
}

/// The election before it starts.
struct Election {
    config: ElectionConfig,
    state: watch::Sender<Leadership>,
    metrics: Arc<Metrics>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabel {
    name: String,
}

/// P-23.
struct Metrics {
    name: String,
    leading: Family<LeaseLabel, Gauge>,
    slow_path: Family<LeaseLabel, Counter<u64, AtomicU64>>,
}

impl ElectionMetrics for Metrics {
    fn leading(&self, leading: bool) {
        self.leading.get_or_create(&LeaseLabel { name: self.name.clone() }).set(i64::from(leading));
    }

    fn slow_path(&self) {
        self.slow_path.get_or_create(&LeaseLabel { name: self.name.clone() }).inc();
    }
}

impl Election {
    fn new(config: ElectionConfig, registry: &mut Registry) -> Self {
        let metrics = Metrics { name: config.name.clone(), leading: Family::default(), slow_path: Family::default() };
        registry.register("leader_election_master_status", "1 on the leader, 0 on a standby", metrics.leading.clone());
        registry.register(
            "leader_election_slowpath",
            "Renewals that had to read the lease first",
            metrics.slow_path.clone(),
        );
        metrics.leading(false);
        Self { config, state: watch::Sender::new(Leadership::Standby), metrics: Arc::new(metrics) }
    }

    /// Starts the elector on a thread of its own, with a client of its own, so that nothing else can keep it from renewing.
    fn start(
        self,
        access: kube::Config,
        identity: String,
        release: CancellationToken,
    ) -> anyhow::Result<thread::JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let elect = move || {
            runtime.block_on(async {
                match clients::named(&access, "leader-election") {
                    Ok(client) => {
                        Elector::new(client, self.config, identity, self.metrics).run(&self.state, &release).await;
                    }
                    Err(error) => drop(self.state.send_replace(Leadership::Lost(error.to_string()))),
                }
            });
        };
        Ok(thread::Builder::new().name("leader-election".to_owned()).spawn(elect)?)
    }
}
