//! `skydock plugin inspect`: loads a plugin like the manager, and shows the result. If it is
//! rejected, its type is still shown.

pub(crate) mod table;

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Context;
use skydock_cloud::{CloudProvider, text::escape};
use skydock_controllers::service::ServiceOptions;
use skydock_plugin::{
    ClusterSlot, Compiler, Limits, LoadError, Outline, Permissions, Plugin, PluginSource, Runtime,
    RuntimeOptions,
};

use self::table::Row;
use crate::{
    blocking::blocking,
    cli::{COMPILER, InspectArgs, plugin_limits},
};

/// Loads the plugin and prints its information, or how it differs from another build.
///
/// # Errors
/// If it cannot be loaded.
pub async fn run(args: InspectArgs) -> anyhow::Result<()> {
    let services = ServiceOptions::default().concurrent_syncs;
    let limits = plugin_limits::limits(services, &args.plugin_limits)?;
    let runtime = runtime(limits).await?;
    let (mut rows, problem) = described(&runtime, &args.plugin, args.cloud_config.clone()).await?;
    let mut other_problem = None;
    let lines = match &args.against {
        None => table::lines(&rows),
        Some(other) => {
            let (mut others, rejected) = described(&runtime, other, args.cloud_config).await?;
            other_problem = rejected;
            for rows in [&mut rows, &mut others] {
                // The times differ between any two runs.
                rows.retain(|row| row.name != LOADED);
            }
            table::compared(&rows, &others)
        }
    };
    let mut out = std::io::stdout().lock();
    for line in lines {
        writeln!(out, "{}", escape(&line))?;
    }
    problem.or(other_problem).map_or(Ok(()), Err)
}

/// Loads a plugin without network access, and returns what it says as lines.
///
/// # Errors
/// The outer error if plugins cannot be run at all, the inner one if this plugin is rejected.
pub(crate) async fn load(
    source: PluginSource,
    limits: Limits,
) -> anyhow::Result<Result<Vec<String>, LoadError>> {
    let runtime = runtime(limits).await?;
    let loaded = Plugin::load(&runtime, source, ClusterSlot::default()).await;
    Ok(loaded.map(|plugin| table::lines(&of_plugin(&plugin))))
}

async fn runtime(limits: Limits) -> anyhow::Result<Runtime> {
    let options = RuntimeOptions {
        limits,
        ..RuntimeOptions::new(Compiler::this_program(COMPILER)?)
    };
    let runtime = blocking(async { Runtime::new(options) }).await;
    runtime.context("cannot start the plugin runtime")
}

/// Name of the row with times.
const LOADED: &str = "loaded";

/// Returns what a plugin says, or only what its type says, and why it is rejected.
///
/// # Errors
/// If it is not a component.
async fn described(
    runtime: &Runtime,
    file: &Path,
    cloud_config: Option<PathBuf>,
) -> anyhow::Result<(Vec<Row>, Option<anyhow::Error>)> {
    let source = PluginSource {
        name: "inspected".to_owned(),
        component: file.to_owned(),
        cloud_config,
        cluster_name: "kubernetes".to_owned(),
        cluster_cidrs: Vec::new(),
        // It shows what the plugin wants.
        permissions: Permissions::unrestricted(),
        ..PluginSource::default()
    };
    let rejected = || format!("{} cannot be used", file.display());
    match Plugin::load(runtime, source, ClusterSlot::default()).await {
        Ok(plugin) => Ok((of_plugin(&plugin), None)),
        Err(error) => match Outline::read(runtime, file.to_owned()).await {
            Ok(outline) => Ok((
                of_type(&outline),
                Some(anyhow::Error::new(error).context(rejected())),
            )),
            Err(_) => Err(error).with_context(rejected),
        },
    }
}

/// Returns all that a loaded plugin says.
fn of_plugin(plugin: &Plugin) -> Vec<Row> {
    let (generation, info) = (plugin.generation(), plugin.info());
    let stages = generation
        .stages
        .iter()
        .map(|(stage, took)| format!("{stage} {:.1} ms", took.as_secs_f64() * 1e3));
    vec![
        Row::new(
            "provider",
            [format!("{} {}", generation.name, generation.version)],
        ),
        Row::new("capabilities", generation.capabilities.iter()),
        Row::new("provider IDs", &info.provider_id_prefixes),
        Row::new("annotations", &info.annotation_prefixes),
        Row::new("wants to reach", &generation.accepted.hosts),
        Row::new("nodes per call", [info.max_batch]),
        Row::new("imports", plugin.imports()),
        Row::new("size", [kib(plugin.size())]),
        Row::new("sha256", [&generation.digest]),
        Row::new(LOADED, stages),
    ]
}

/// Returns what the type of a component says.
fn of_type(outline: &Outline) -> Vec<Row> {
    vec![
        Row::new(
            "capabilities",
            outline.typed.capabilities().unwrap_or_default(),
        ),
        Row::new("imports", &outline.typed.imports),
        Row::new("size", [kib(outline.size)]),
        Row::new("sha256", [&outline.digest]),
    ]
}

fn kib(bytes: usize) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}
