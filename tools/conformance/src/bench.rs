//! `skydock plugin bench`: how long calls take, and what they need.

mod figures;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use skydock_cloud::{ArgumentKind, CallKind, CloudError, Function};
use skydock_sandbox::{LoadError, Stage};

pub use self::figures::{Figures, FunctionFigures};
use crate::{
    KitError,
    harness::{
        loaded_plugin::LoadedPlugin,
        meter::{Meter, Reading},
    },
    scenario::{Called, Given, Step, Subject, World, delay, make},
};

/// What to measure.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The plugin and its cloud.
    pub subject: Subject,
    /// Calls of each function.
    pub calls: usize,
    /// Names of the nodes to ask about.
    pub nodes: Vec<String>,
    /// Whether functions that change the cloud are called, too. What they create is deleted
    /// afterward.
    pub writes: bool,
    /// Called with the function and its error before each wait for the cloud.
    pub on_wait: fn(&str, &CloudError),
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Not because of the plugin.
    #[error(transparent)]
    Kit(#[from] KitError),
    /// The plugin is not loaded.
    #[error("the plugin cannot be used: {0}")]
    Load(#[from] LoadError),
}

/// How long the cloud may take until something that calls need exists.
const PATIENCE: Duration = Duration::from_secs(60);

/// Name of the Service.
const SERVICE: &str = "skydock-bench";

/// Measures the plugin. Must be called within a tokio runtime.
///
/// # Errors
/// [`BenchError`].
pub async fn bench(options: BenchOptions) -> Result<Figures, BenchError> {
    let cache = tempfile::tempdir().map_err(KitError::from)?;
    let bench = Bench {
        options: &options,
        cache: cache.path(),
    };
    // The futures are large. Nothing is in the directory: the first one compiles.
    let first = Box::pin(bench.load()).await?;
    let compiled = stages(&first)
        .iter()
        .find(|(stage, _)| *stage == Stage::Compile)
        .map(|(_, took)| *took);

    // This one finds the compiled code: its stages are those of a start.
    let second = Box::pin(bench.load()).await?;
    let generation = second.plugin.inner.generation();

    // Each function gets a plugin of its own: the peak of memory is that of the plugin's whole
    // life.
    let mut functions = Vec::new();
    for &function in Function::ALL {
        // It has nodes and Services to call functions with, but no volumes.
        let can = second.plugin.info().can(function.capability())
            && CallKind::from(function.capability()) != CallKind::Volumes;
        if can && (options.writes || function.only_reads()) {
            functions.push(bench.measure(function, Box::pin(bench.load()).await?).await);
        }
    }

    second.clean_up(&options).await;

    Ok(Figures {
        plugin: generation.name.clone(),
        version: generation.version.clone(),
        digest: generation.digest.clone(),
        bytes: second.plugin.inner.size(),
        compile: compiled.unwrap_or_default(),
        start: stages(&second).iter().map(|(_, took)| *took).sum(),
        functions,
    })
}

fn stages(loaded: &Loaded) -> Vec<(Stage, Duration)> {
    loaded.plugin.inner.generation().stages
}

struct Bench<'a> {
    options: &'a BenchOptions,
    cache: &'a std::path::Path,
}

/// A plugin in service, whose metrics are those of one function.
struct Loaded {
    plugin: LoadedPlugin,
    meter: Arc<Meter>,
    world: World,
}

/// Returns a call for all nodes and the Service.
fn step(function: Function) -> Step {
    Step {
        call: Some(Called(function)),
        service: function
            .takes(ArgumentKind::Service)
            .then(|| SERVICE.to_owned()),
        ..Step::default()
    }
}

/// Returns the nodes and the Service.
fn given(names: &[String]) -> Given {
    let node = |(index, name): (usize, &String)| {
        json!({
            "name": name, "podCIDRs": [format!("10.{}.{}.0/24", 244 + index / 256, index % 256)],
            "addresses": [{"type": "Hostname", "address": name}],
        })
    };
    let ports = json!([{"name": "http", "port": 80, "nodePort": 30080}, {"name": "https", "port": 443, "nodePort": 30443}]);
    let nodes: Value = names.iter().enumerate().map(node).collect();

    let services = json!([{"name": SERVICE, "ports": ports}]);
    serde_json::from_value(json!({"nodes": nodes, "services": services})).unwrap_or_default()
}

impl Bench<'_> {
    async fn load(&self) -> Result<Loaded, BenchError> {
        let subject = Subject {
            cache_dir: None,
            ..self.options.subject.clone()
        };
        let started = subject.start(self.cache, subject.limits.clone())?;
        let meter = Arc::new(started.meter);
        let plugin = Box::pin(LoadedPlugin::open(
            &started.runtime,
            Arc::clone(&meter),
            started.source,
        ))
        .await?;
        let world = World::default();

        world.give(&given(&self.options.nodes));
        plugin.set_cluster(Arc::clone(&world.cluster) as _);
        Ok(Loaded {
            plugin,
            meter,
            world,
        })
    }

    async fn measure(&self, function: Function, loaded: Loaded) -> FunctionFigures {
        // Deletions are measured when nothing is left: only the first of many calls could delete
        // something.
        let prepared: &[Function] = match function {
            Function::Check | Function::ListRoutes | Function::Get if !self.options.writes => {
                &[Function::Describe]
            }
            Function::Get | Function::Ensure | Function::UpdateNodes => {
                &[Function::Describe, Function::Ensure]
            }
            Function::EnsureDeleted => &[Function::Describe, Function::EnsureDeleted],
            Function::ListRoutes | Function::CreateRoutes => {
                &[Function::Describe, Function::CreateRoutes]
            }
            Function::DeleteRoutes => &[
                Function::Describe,
                Function::ListRoutes,
                Function::DeleteRoutes,
            ],
            _ => &[Function::Describe],
        };

        for function in prepared {
            loaded.settle(*function, self.options.on_wait).await;
        }

        let step = step(function);
        let before = loaded.meter.read();
        let mut times = Vec::new();
        let mut failed = None;
        let mut failures = 0;

        for _ in 0..self.options.calls {
            let begun = Instant::now();
            let made = make(&*loaded.plugin.inner, &loaded.world, function, &step, true).await;
            times.push(begun.elapsed());
            let problem = made.map_or_else(Some, |it| it.error().map(ToString::to_string));
            failures += usize::from(problem.is_some());
            failed = failed.or(problem);
        }

        let after = loaded.meter.read();
        FunctionFigures::of(
            function.to_string(),
            times,
            (failures, failed),
            &before,
            &after,
        )
    }
}

/// Returns true if the plugin asks a cloud, whose answers can change. Without a cloud, all requests
/// are denied.
fn asks_a_cloud(reading: &Reading) -> bool {
    reading.denied == 0 && (!reading.requests.is_empty() || reading.in_flight > 0)
}

impl Loaded {
    /// Makes a call until it succeeds, or nothing helps. What it needs may not exist, as without a
    /// cloud.
    async fn settle(&self, function: Function, on_wait: fn(&str, &CloudError)) {
        if !self.plugin.info().can(function.capability()) {
            return;
        }
        let begun = Instant::now();
        let step = step(function);
        let mut failures = 0;

        loop {
            let made = make(&*self.plugin.inner, &self.world, function, &step, true).await;
            let Ok(made) = made else { return };
            let Some(error) = made.error() else { return };
            let Some(wait) = delay(error, failures) else {
                return;
            };

            failures += 1;
            if !asks_a_cloud(&self.meter.read()) || begun.elapsed() + wait > PATIENCE {
                return;
            }

            on_wait(&function.to_string(), error);
            tokio::time::sleep(wait).await;
        }
    }

    async fn clean_up(&self, options: &BenchOptions) {
        if options.writes {
            // `DeleteRoutes` deletes the routes of the last list.
            for function in [
                Function::EnsureDeleted,
                Function::ListRoutes,
                Function::DeleteRoutes,
            ] {
                self.settle(function, options.on_wait).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_helps_only_if_a_cloud_is_asked() {
        let requests = || [("GET".to_owned(), 1)].into();
        for (reading, expected) in [
            (Reading::default(), false),
            (
                Reading {
                    requests: requests(),
                    ..Reading::default()
                },
                true,
            ),
            (
                Reading {
                    in_flight: 1,
                    ..Reading::default()
                },
                true,
            ),
            (
                Reading {
                    requests: requests(),
                    denied: 1,
                    ..Reading::default()
                },
                false,
            ),
        ] {
            assert_eq!(asks_a_cloud(&reading), expected, "{reading:?}");
        }
    }

    #[test]
    fn there_is_a_node_for_each_name() {
        let given = given(&["a".to_owned(), "b".to_owned()]);
        assert_eq!((given.nodes.len(), given.services.len()), (2, 1));
        let node = given.nodes.last().unwrap().node();
        assert_eq!(
            (node.name.as_str(), node.pod_cidrs),
            ("b", vec!["10.244.1.0/24".to_owned()])
        );
    }
}
