//! `skydock plugin inspect`: shows what the file of a plugin says, or loads it like the manager
//! and shows the result.

pub(crate) mod table;

use std::{io::Write, path::Path};

use anyhow::Context;
use skydock_cloud::{CloudProvider, text::escape};
use skydock_controllers::service::ServiceOptions;
use skydock_sandbox::{
    ClusterSlot, Compiler, Limits, LoadError, Outline, Permissions, Plugin, PluginSource, Runtime,
    RuntimeOptions,
};

use self::table::Row;
use crate::{
    cli::{COMPILER, InspectArgs, InspectFormat, plugin_limits},
    config::source_in_file,
    file::SkydockConfiguration,
    process::blocking::blocking,
};

/// Prints what is known about the plugin, or how it differs from another build.
///
/// # Errors
/// If it cannot be read, or is rejected.
pub async fn run(args: InspectArgs) -> anyhow::Result<()> {
    let (source, limits) = {
        let args = args.clone();
        blocking(async move { configured(&args) }).await?
    };

    let runtime = runtime(limits).await?;
    let loads = args.config.is_some() || args.cloud_config.is_some();
    let (mut rows, problem) = described(&runtime, &args.plugin, &source, loads).await?;

    let mut other_problem = None;
    let lines = match &args.against {
        None if args.output == InspectFormat::Json => {
            let mut object = table::object(&rows);
            if let Some(problem) = &problem {
                object.insert("problem".to_owned(), format!("{problem:#}").into());
            }
            vec![format!("{:#}", serde_json::Value::Object(object))]
        }
        None => escaped(&table::lines(&rows)),
        Some(other) => {
            let (mut others, rejected) = described(&runtime, other, &source, loads).await?;
            other_problem = rejected;
            for rows in [&mut rows, &mut others] {
                // The times differ between any two runs.
                rows.retain(|row| row.name != LOADED);
            }
            escaped(&table::compared(&rows, &others))
        }
    };

    let mut out = std::io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    problem.or(other_problem).map_or(Ok(()), Err)
}

fn escaped(lines: &[String]) -> Vec<String> {
    let lines = lines.iter();
    lines.map(|line| escape(line).into_owned()).collect()
}

/// Returns the plugin with the configuration that the flags name, and its limits. Blocks the
/// thread.
fn configured(args: &InspectArgs) -> anyhow::Result<(PluginSource, Limits)> {
    let Some(file) = &args.config else {
        let source = PluginSource {
            name: "inspected".to_owned(),
            cloud_config: args.cloud_config.clone(),
            cluster_name: "kubernetes".to_owned(),
            // It shows what the plugin wants.
            permissions: Permissions::unrestricted(),
            ..PluginSource::default()
        };

        let services = ServiceOptions::default().concurrent_syncs;
        let limits = plugin_limits::limits(services, &args.plugin_limits)?;
        return Ok((source, limits));
    };

    let configuration = SkydockConfiguration::read(file)?;
    let plugin = configuration.plugins.first();
    let plugin = plugin.with_context(|| format!("{} has no plugin", file.display()))?;
    Ok(source_in_file(
        &configuration,
        plugin,
        file,
        args.plugin_limits.clone(),
    )?)
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

/// Returns what a plugin says, or only what its file says, and why it is rejected. Unless it is
/// loaded with a configuration, its code runs only if its file says nothing.
///
/// # Errors
/// If it is not a component.
async fn described(
    runtime: &Runtime,
    file: &Path,
    source: &PluginSource,
    loads: bool,
) -> anyhow::Result<(Vec<Row>, Option<anyhow::Error>)> {
    let rejected = || format!("{} cannot be used", file.display());
    let outline = Outline::read(runtime, file.to_owned())
        .await
        .with_context(rejected)?;

    if !loads && outline.typed.metadata.is_some() {
        let problem = outline.typed.capabilities().err();
        let problem = problem.map(|error| anyhow::Error::new(error).context(rejected()));
        return Ok((of_file(&outline), problem));
    }

    let source = PluginSource {
        component: file.to_owned(),
        ..source.clone()
    };
    match Plugin::load(runtime, source, ClusterSlot::default()).await {
        Ok(plugin) => Ok((of_plugin(&plugin), None)),
        Err(error) => Ok((
            of_file(&outline),
            Some(anyhow::Error::new(error).context(rejected())),
        )),
    }
}

/// Returns all that a loaded plugin says.
fn of_plugin(plugin: &Plugin) -> Vec<Row> {
    let generation = plugin.generation();
    let info = plugin.info();

    let stages = generation
        .stages
        .iter()
        .map(|(stage, took)| format!("{stage} {:.1} ms", took.as_secs_f64() * 1e3));

    vec![
        Row::new(
            "provider",
            [format!("{} {}", generation.name, generation.version)],
        ),
        Row::new("contract", plugin.contract()),
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

/// Returns what the file of a component says. `*` stands for what its configuration decides.
fn of_file(outline: &Outline) -> Vec<Row> {
    let typed = &outline.typed;
    let mut rows = Vec::new();

    if let Some(metadata) = &typed.metadata {
        rows.extend([
            Row::new(
                "provider",
                [format!("{} {}", metadata.name, metadata.version)],
            ),
            Row::new("provider IDs", &metadata.provider_id_prefixes),
            Row::new("annotations", &metadata.annotation_prefixes),
            Row::new("wants to reach", &metadata.wanted_hosts),
        ]);
    }

    rows.extend([
        Row::new("contract", typed.contract()),
        Row::new("capabilities", typed.capabilities().unwrap_or_default()),
        Row::new("imports", &typed.imports),
        Row::new("size", [kib(outline.size)]),
        Row::new("sha256", [&outline.digest]),
    ]);

    rows
}

fn kib(bytes: usize) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}
