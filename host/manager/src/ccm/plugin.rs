//! The plugin of the process: how it is loaded, and how its settings change.

use std::sync::Arc;

use anyhow::Context as _;
use prometheus_client::registry::Registry;
use skydock_sandbox::{
    ClusterSlot, Compiler, LoadError, Plugin, PluginMetrics, PluginSource, Recordings, Runtime,
    RuntimeOptions, Taping,
};
use tokio::sync::watch;

use crate::{
    cli::COMPILER,
    config::{Config, PluginSettings, RecordTo},
    egress::Egress,
    process::blocking::blocking,
};

/// Returns the network access of the plugin. The networks of the cluster are closed.
pub(super) fn egress(config: &Config, registry: &mut Registry) -> anyhow::Result<Egress> {
    let networks = config
        .ingress
        .pods
        .iter()
        .chain(&config.ingress.services)
        .copied()
        .collect();

    let name = &config.plugin.name;
    Egress::new(name, config.egress_policy.clone(), networks, registry)
        .with_context(|| format!("plugin {name}"))
}

/// Loads the plugin. Waits for it, if the configuration says so.
pub(super) async fn load(
    config: &Config,
    metrics: PluginMetrics,
    cluster: ClusterSlot,
    egress: Arc<Egress>,
) -> anyhow::Result<Arc<Plugin>> {
    let cache_dir = config.plugin_cache_dir.clone();
    let limits = config.plugin.limits.clone();
    let options = RuntimeOptions::new(Compiler::this_program(COMPILER)?);

    let taping = match config.record.clone() {
        Some(RecordTo { directory, limit }) => {
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

    let source = config.plugin.source(source_template(config, egress));
    let name = &config.plugin.name;
    let file = config.plugin.file.display();

    if config.waits_for_plugin {
        let log_error = |error: &LoadError| {
            tracing::error!(
                "cannot load plugin {name} from {file}: {error}; retrying when the plugin or its configuration changes, or after 10 minutes"
            );
        };
        return Ok(source.load_when_ready(&runtime, cluster, log_error).await);
    }

    let plugin = Plugin::load_or_last_good(&runtime, source, cluster).await;
    plugin.with_context(|| format!("cannot load plugin {name} from {file}"))
}

/// Returns what does not change about the source of the plugin while the process runs.
pub(super) fn source_template(config: &Config, egress: Arc<Egress>) -> PluginSource {
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
pub(super) async fn follow_settings(
    plugin: Arc<Plugin>,
    template: PluginSource,
    mut settings: watch::Receiver<PluginSettings>,
) {
    while settings.changed().await.is_ok() {
        let now = settings.borrow_and_update().clone();
        let source = now.source(template.clone());
        let _ = plugin.reconfigure(source, now.limits).await;
    }
}
