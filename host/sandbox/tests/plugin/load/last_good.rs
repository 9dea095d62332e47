//! The last good build serves after a restart while the plugin's file is bad.

use std::{fs, path::Path, sync::Arc};

use prometheus_client::{encoding::text::encode, registry::Registry};
use skydock_sandbox::{
    ClusterSlot, LoadError, Plugin, PluginMetrics, PluginSource, Reload, Runtime, RuntimeOptions,
    Stage,
};

use crate::support::{compiler, fixture, limits, source};

/// Starts like a process that keeps its compiled plugins here.
async fn start(dir: &Path, last_good: bool) -> Result<Arc<Plugin>, LoadError> {
    start_with(dir, last_good, PluginMetrics::default()).await
}

async fn start_with(
    dir: &Path,
    last_good: bool,
    metrics: PluginMetrics,
) -> Result<Arc<Plugin>, LoadError> {
    let options = RuntimeOptions::new(compiler());
    let runtime = Runtime::new(RuntimeOptions {
        cache_dir: Some(dir.join("cache")),
        limits: limits(),
        metrics,
        ..options
    });
    let source = PluginSource {
        last_good,
        ..source(dir)
    };
    Plugin::load_or_last_good(&runtime.unwrap(), source, ClusterSlot::default()).await
}

fn files(component: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("plugin.wasm"), component).unwrap();
    fs::write(dir.path().join("cloud.conf"), "").unwrap();
    dir
}

/// Keeps the build in service as the last good one.
async fn keep(plugin: &Plugin) {
    let kept = tokio::time::timeout(std::time::Duration::from_secs(2), plugin.keep_last_good());
    assert!(kept.await.is_err(), "it waits for the next build");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_file_does_not_stop_a_restart_if_the_operator_wants_it() {
    let dir = files(&fs::read(fixture("good")).unwrap());
    let plugin = start(dir.path(), true).await.unwrap();
    let digest = plugin.generation().digest;
    keep(&plugin).await;
    drop(plugin);

    fs::write(dir.path().join("plugin.wasm"), "not a component").unwrap();
    let error = start(dir.path(), false).await.err().unwrap();
    assert_eq!(error.stage, Stage::Type);
    let plugin = start(dir.path(), true).await.unwrap();
    assert_eq!(plugin.generation().digest, digest);
    // It is not kept as what the file contains.
    keep(&plugin).await;

    fs::remove_file(dir.path().join("plugin.wasm")).unwrap();
    let plugin = start(dir.path(), true).await.unwrap();
    assert_eq!(plugin.generation().digest, digest);

    fs::copy(fixture("good_v2"), dir.path().join("plugin.wasm")).unwrap();
    let Ok(Reload::Swapped(now)) = plugin.reload().await else {
        panic!("a good file is put into service")
    };
    assert_ne!(now.digest, digest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metric_tells_that_the_last_good_build_serves() {
    let mut registry = Registry::default();
    let metrics = PluginMetrics::register(&mut registry);
    let in_use = || {
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let start = "skydock_plugin_last_good_in_use{plugin=\"test\"} ";
        let value = text.lines().find_map(|line| line.strip_prefix(start));
        value.unwrap().to_owned()
    };

    let dir = files(&fs::read(fixture("good")).unwrap());
    let plugin = start_with(dir.path(), true, metrics.clone()).await.unwrap();
    assert_eq!(in_use(), "0");
    keep(&plugin).await;
    drop(plugin);

    fs::write(dir.path().join("plugin.wasm"), "not a component").unwrap();
    let plugin = start_with(dir.path(), true, metrics).await.unwrap();
    assert_eq!(in_use(), "1");

    fs::copy(fixture("good_v2"), dir.path().join("plugin.wasm")).unwrap();
    plugin.reload().await.unwrap();
    assert_eq!(in_use(), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_last_good_build_the_error_is_that_of_the_file() {
    let dir = files(b"not a component");
    let error = start(dir.path(), true).await.err().unwrap();
    assert_eq!(error.stage, Stage::Type);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_that_was_not_accepted_gives_way_to_the_last_good_one() {
    let dir = files(&fs::read(fixture("good")).unwrap());
    let plugin = start(dir.path(), true).await.unwrap();
    let accepted = plugin.generation().accepted;
    keep(&plugin).await;
    drop(plugin);

    // Another provider, so that neither can replace the other.
    fs::copy(fixture("probe"), dir.path().join("plugin.wasm")).unwrap();
    let plugin = start(dir.path(), true).await.unwrap();
    assert_ne!(plugin.generation().digest, accepted.digest);
    assert!(plugin.fall_back().await);
    assert_eq!(plugin.generation().digest, accepted.digest);
    let without = start(dir.path(), false).await.unwrap();
    assert!(!without.fall_back().await);
}
