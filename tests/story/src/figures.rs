//! Figures about time and memory, measured at the end of the story in the same run.

use std::{
    fmt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt};
use hdrhistogram::Histogram;
use kube::api::{DeleteParams, ListParams, WatchEvent, WatchParams};
use serde::Serialize;
use skydock_cloud::{CloudProvider, Node};
use skydock_sandbox::{
    ClusterSlot, Compiler, Limits, Permissions, Plugin, PluginSource, Runtime, RuntimeOptions,
    Stage as LoadStage,
};
use skydock_support::{kubernetes::UNINITIALIZED, rebuilt};

use crate::{chapters::nodes::has_taint, narrator::Narrator, stage::Stage};

/// The number of calls per figure, which is enough for a stable 95th percentile.
const CALLS: usize = 2_000;
/// The number of loads and swaps per figure.
const LOADS: usize = 20;
/// The number of nodes that register at once.
const NODES: usize = 50;

/// Median and 95th percentile in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// The median.
    pub p50_us: u64,
    /// The 95th percentile.
    pub p95_us: u64,
}

/// All figures.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// `instances.check` of one node on a reused plugin instance.
    pub warm_call: Spread,
    /// The same on a new plugin instance, which is created, configured and dropped each time.
    pub fresh_call: Spread,
    /// Compilation of the plugin.
    pub compile: Spread,
    /// Loading the compiled plugin from the cache.
    pub cached_load: Spread,
    /// The time from changing the file until the new generation is in service.
    pub swap: Spread,
    /// The time from the registration of a node until its taint is removed, both as seen by a
    /// watch, with many nodes at once.
    pub initialized: Spread,
    /// The number of these nodes.
    pub nodes: usize,
    /// The resident memory of the leading host in bytes.
    pub resident_bytes: u64,
    /// The size of the plugin in bytes.
    pub plugin_bytes: usize,
}

fn spread(samples: impl IntoIterator<Item = Duration>) -> anyhow::Result<Spread> {
    let mut histogram = Histogram::<u64>::new(3)?;
    for sample in samples {
        histogram.record(u64::try_from(sample.as_nanos())?)?;
    }
    let at = |quantile| histogram.value_at_quantile(quantile).div_ceil(1_000);
    Ok(Spread {
        p50_us: at(0.5),
        p95_us: at(0.95),
    })
}

impl Figures {
    /// Measures the figures on the stage after the story.
    ///
    /// # Errors
    /// Fails if a measurement fails.
    pub async fn measure(stage: &mut Stage, narrator: &mut Narrator) -> anyhow::Result<Self> {
        narrator.chapter("Figures");
        let component = stage.built("static")?;
        let dir = tempfile::tempdir()?;
        std::fs::write(dir.path().join("plugin.wasm"), &component)?;
        std::fs::copy(stage.inventory.path(), dir.path().join("inventory.yaml"))?;
        let compiler = Compiler::new(&stage.paths.skydock, ["plugin", "compile"]);
        let load = |limits| load(dir.path(), None, compiler.clone(), limits);
        let warm = calls(&*load(Limits::default()).await?).await?;
        let fresh = calls(
            &*load(Limits {
                uses: 1,
                ..Limits::default()
            })
            .await?,
        )
        .await?;
        let (mut compile, mut cached, mut swap) = (Vec::new(), Vec::new(), Vec::new());
        let plugin = load(Limits::default()).await?;
        for round in 0..LOADS {
            // A build that was never compiled before, and then the same build with another runtime
            // that finds it in the cache.
            std::fs::write(
                dir.path().join("plugin.wasm"),
                rebuilt(&component, &round.to_string()),
            )?;
            let start = Instant::now();
            plugin.reload().await?;
            swap.push(start.elapsed());
            for stages in [&mut compile, &mut cached] {
                let cache = dir.path().join("compiled");
                let loaded = self::load(
                    dir.path(),
                    Some(&cache),
                    compiler.clone(),
                    Limits::default(),
                )
                .await?
                .generation();
                stages.push(stage_of(&loaded.stages)?);
            }
        }
        let (initialized, resident_bytes) = initialized(stage).await?;
        Ok(Self {
            warm_call: spread(warm)?,
            fresh_call: spread(fresh)?,
            compile: spread(compile)?,
            cached_load: spread(cached)?,
            swap: spread(swap)?,
            initialized: spread(initialized)?,
            nodes: NODES,
            resident_bytes,
            plugin_bytes: component.len(),
        })
    }
}

fn stage_of(stages: &[(LoadStage, Duration)]) -> anyhow::Result<Duration> {
    let compile = stages
        .iter()
        .find(|(stage, _)| *stage == LoadStage::Compile);
    Ok(compile.context("a component is compiled")?.1)
}

async fn load(
    dir: &Path,
    cache: Option<&Path>,
    compiler: Compiler,
    limits: Limits,
) -> anyhow::Result<Arc<Plugin>> {
    let cache_dir = cache.map(Path::to_owned);
    let runtime = Runtime::new(RuntimeOptions {
        cache_dir,
        limits,
        ..RuntimeOptions::new(compiler)
    })?;
    let source = PluginSource {
        name: "static".to_owned(),
        component: dir.join("plugin.wasm"),
        cloud_config: Some(dir.join("inventory.yaml")),
        cluster_name: "figures".to_owned(),
        cluster_cidrs: Vec::new(),
        permissions: Permissions::unrestricted(),
        ..PluginSource::default()
    };
    Ok(Plugin::load(&runtime, source, ClusterSlot::default()).await?)
}

async fn calls(plugin: &Plugin) -> anyhow::Result<Vec<Duration>> {
    let node = Arc::new(Node {
        name: "node-1".to_owned(),
        provider_id: Some("static://node-1".to_owned()),
        ..Node::default()
    });
    let nodes = [node];
    let mut took = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let start = Instant::now();
        plugin.check(&nodes).await?;
        took.push(start.elapsed());
    }
    Ok(took)
}

/// Registers nodes while a host runs, and watches until their taints are removed.
async fn initialized(stage: &mut Stage) -> anyhow::Result<(Vec<Duration>, u64)> {
    let names: Vec<_> = (0..NODES)
        .map(|number| format!("figure-{number}"))
        .collect();
    for name in &names {
        stage.inventory.add(name, format!("static://{name}"));
    }
    stage.inventory.write()?;
    stage.start_host("host-figures").await?;
    stage.leader().await?;
    let api = stage.nodes();
    let from = api
        .list_metadata(&ListParams::default())
        .await?
        .metadata
        .resource_version
        .unwrap_or_default();
    let mut watch = api.watch(&WatchParams::default(), &from).await?.boxed();
    let register = async {
        let created = futures::stream::iter(&names)
            .map(|name| crate::chapters::hostile::create_node(stage, name));
        created.buffer_unordered(8).try_collect::<Vec<()>>().await
    };
    let seen = async {
        let mut registered = std::collections::HashMap::new();
        let mut took = Vec::new();
        while took.len() < NODES {
            let event = tokio::time::timeout(Duration::from_secs(60), watch.try_next())
                .await
                .context("a node waits")??;
            let (WatchEvent::Added(node) | WatchEvent::Modified(node)) =
                event.context("the watch has ended")?
            else {
                continue;
            };
            let Some(name) = node
                .metadata
                .name
                .clone()
                .filter(|name| name.starts_with("figure-"))
            else {
                continue;
            };
            if has_taint(&node, UNINITIALIZED) {
                registered.entry(name).or_insert_with(Instant::now);
            } else if let Some(start) = registered.remove(&name) {
                took.push(start.elapsed());
            }
        }
        Ok(took)
    };
    let (_, took) = tokio::try_join!(register, seen)?;
    let resident = stage.leading_host().await?.resident()?;
    for name in &names {
        api.delete(name, &DeleteParams::default()).await?;
    }
    stage.stop_hosts().await?;
    Ok((took, resident))
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |us: u64| -> String {
            if us < 1_000 {
                format!("{us} µs")
            } else {
                format!("{}.{} ms", us / 1_000, us % 1_000 / 100)
            }
        };
        write!(f, "{:>12} {:>12}", time(self.p50_us), time(self.p95_us))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "     {:<58} {:>12} {:>12}", "", "p50", "p95")?;
        for (what, spread) in [
            ("call, warm instance", self.warm_call),
            (
                "call, fresh instance (made, configured, dropped)",
                self.fresh_call,
            ),
            ("compile the plugin", self.compile),
            ("load it from the cache", self.cached_load),
            ("swap: changed file to new generation in service", self.swap),
        ] {
            writeln!(f, "     {what:<58} {spread}")?;
        }
        let what = format!("node registered to initialized ({} at once)", self.nodes);
        writeln!(f, "     {what:<58} {}", self.initialized)?;
        #[allow(clippy::cast_precision_loss)] // a size in MiB for display
        let mib = |bytes: f64| format!("{:.1} MiB", bytes / f64::from(1 << 20));
        writeln!(
            f,
            "     {:<58} {:>12}",
            "resident memory of the leading host",
            mib(self.resident_bytes as f64)
        )?;
        write!(
            f,
            "     {:<58} {:>9} KiB",
            "size of the plugin",
            self.plugin_bytes.div_ceil(1024)
        )?;
        if cfg!(debug_assertions) {
            write!(
                f,
                "\n     Built for tests, without optimization; tests/bench/README.md has figures of a release build."
            )?;
        }
        Ok(())
    }
}
