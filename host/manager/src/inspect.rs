//! `skydock plugin inspect`: loads a plugin like the manager, and shows the result.

use std::io::Write;

use anyhow::Context;
use skydock_cloud::{CloudProvider, text::escape};
use skydock_controllers::service::ServiceOptions;
use skydock_plugin::{ClusterSlot, Compiler, Plugin, PluginSource, Runtime, RuntimeOptions};

use crate::{
    blocking::blocking,
    cli::{COMPILER, InspectArgs, plugin_limits},
};

/// Loads the plugin and prints its information.
///
/// # Errors
/// If it cannot be loaded.
pub async fn run(args: InspectArgs) -> anyhow::Result<()> {
    let limits = plugin_limits::limits(ServiceOptions::default().concurrent_syncs, &args.plugin_limits)?;
    let options = RuntimeOptions { limits, ..RuntimeOptions::new(Compiler::this_program(COMPILER)?) };
    let runtime = blocking(async { Runtime::new(options) }).await;
    let runtime = runtime.context("cannot start the plugin runtime")?;
    let source = PluginSource {
        name: "inspected".to_owned(),
        component: args.plugin.clone(),
        cloud_config: args.cloud_config,
        cluster_name: "kubernetes".to_owned(),
        cluster_cidrs: Vec::new(),
        ..PluginSource::default()
    };
    let plugin = Plugin::load(&runtime, source, ClusterSlot::default()).await;
    let plugin = plugin.with_context(|| format!("{} cannot be used", args.plugin.display()))?;
    let generation = plugin.generation();
    let info = plugin.info();
    let stages = generation.stages.iter().map(|(stage, took)| format!("{stage} {:.1} ms", took.as_secs_f64() * 1e3));
    let lines = [
        ("provider", format!("{} {}", generation.name, generation.version)),
        ("capabilities", listed(generation.capabilities.iter())),
        ("provider IDs", listed(&info.provider_id_prefixes)),
        ("wants to reach", listed(&generation.wanted_hosts)),
        ("nodes per call", info.max_batch.to_string()),
        ("imports", listed(plugin.imports())),
        ("size", format!("{} KiB", plugin.size().div_ceil(1024))),
        ("sha256", generation.digest.clone()),
        ("loaded", listed(stages)),
    ];
    let mut out = std::io::stdout().lock();
    for (name, value) in lines {
        writeln!(out, "{name:<15} {}", escape(&value))?;
    }
    Ok(())
}

fn listed(items: impl IntoIterator<Item = impl ToString>) -> String {
    let items: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}
