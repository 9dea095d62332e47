//! Files that change while they are watched.

use std::{fs, os::unix::fs::symlink, sync::Arc, time::Duration};

use skydock_sandbox::{
    ClusterSlot, Plugin, PluginMetrics, Runtime, RuntimeOptions, Stage, SwapOutcome,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::{Bench, compiler, fixture, limits, runtime, source, until};

fn watched(plugin: &Arc<Plugin>) -> DropGuard {
    let stop = CancellationToken::new();
    tokio::spawn(Arc::clone(plugin).watch(stop.clone()));
    stop.drop_guard()
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_files_start_a_new_generation() {
    let bench = Bench::good().await;
    let _watching = watched(&bench.plugin);
    tokio::time::sleep(Duration::from_millis(500)).await;
    bench.replace("good_v2");
    until("generation 2", || bench.plugin.generation().number == 2).await;
    bench.configure("region: north");
    until("generation 3", || bench.plugin.generation().number == 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_before_the_watch_is_noticed() {
    let bench = Bench::good().await;
    bench.replace("good_v2");
    let _watching = watched(&bench.plugin);
    until("generation 2", || bench.plugin.generation().number == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_updated_config_map_mount_is_noticed() {
    // Like the kubelet: `plugin.wasm` → `..data/plugin.wasm`, and `..data` → a directory with a
    // date, replaced by renaming.
    let dir = tempfile::tempdir().unwrap();
    let publish = |version: &str, component: &str| {
        let data = dir.path().join(version);
        fs::create_dir(&data).unwrap();
        fs::copy(fixture(component), data.join("plugin.wasm")).unwrap();
        fs::write(data.join("cloud.conf"), "").unwrap();
        symlink(version, dir.path().join("..data_tmp")).unwrap();
        fs::rename(dir.path().join("..data_tmp"), dir.path().join("..data")).unwrap();
    };
    publish("..2026_01_01", "good");
    for file in ["plugin.wasm", "cloud.conf"] {
        symlink(format!("..data/{file}"), dir.path().join(file)).unwrap();
    }
    let runtime = runtime(limits(), PluginMetrics::default());
    let plugin = Plugin::load(&runtime, source(dir.path()), ClusterSlot::default())
        .await
        .unwrap();
    let _watching = watched(&plugin);
    tokio::time::sleep(Duration::from_millis(500)).await;
    publish("..2026_01_02", "good_v2");
    until("generation 2", || plugin.generation().number == 2).await;
    assert_ne!(plugin.generation().version, "1.0.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_file_is_reported_once_until_it_is_fixed() {
    let bench = Bench::good().await;
    let mut reports = bench.plugin.reports();
    let _watching = watched(&bench.plugin);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let good = fs::read(fixture("good_v2")).unwrap();
    // Only half of the file is written, and the writer stalls longer than the host waits.
    let path = bench.dir.path().join("plugin.wasm");
    fs::write(&path, &good[..good.len() / 2]).unwrap();
    let report = tokio::time::timeout(Duration::from_secs(10), reports.recv())
        .await
        .unwrap()
        .unwrap();
    assert!(
        matches!(
            report.outcome,
            SwapOutcome::Rejected {
                stage: Stage::Type,
                kept: 1,
                ..
            }
        ),
        "{report:?}"
    );
    // Checks and events that change nothing.
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(900)).await;
        fs::write(&path, &good[..good.len() / 2]).unwrap();
    }
    assert!(reports.is_empty(), "{:?}", reports.try_recv());
    fs::write(&path, &good).unwrap();
    until("generation 2", || bench.plugin.generation().number == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_written_in_pieces_is_read_when_complete() {
    use std::io::Write as _;
    let bench = Bench::good().await;
    let mut reports = bench.plugin.reports();
    let _watching = watched(&bench.plugin);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let good = fs::read(fixture("good_v2")).unwrap();
    let mut file = fs::File::create(bench.dir.path().join("plugin.wasm")).unwrap();
    for piece in good.chunks(good.len() / 10) {
        file.write_all(piece).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let report = tokio::time::timeout(Duration::from_secs(10), reports.recv())
        .await
        .unwrap()
        .unwrap();
    assert!(
        matches!(report.outcome, SwapOutcome::Swapped(_)),
        "{report:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn transient_failures_are_retried() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    fs::copy(fixture("good"), dir.path().join("plugin.wasm")).unwrap();
    fs::write(dir.path().join("cloud.conf"), "").unwrap();
    let options = RuntimeOptions::new(compiler());
    let runtime = Runtime::new(RuntimeOptions {
        cache_dir: Some(cache.clone()),
        limits: limits(),
        ..options
    })
    .unwrap();
    let plugin = Plugin::load(&runtime, source(dir.path()), ClusterSlot::default())
        .await
        .unwrap();
    let mut reports = plugin.reports();
    // There is no directory for the compiled plugin.
    fs::remove_dir_all(&cache).unwrap();
    fs::write(&cache, "").unwrap();
    fs::copy(fixture("good_v2"), dir.path().join("plugin.wasm")).unwrap();
    let _watching = watched(&plugin);
    let report = tokio::time::timeout(Duration::from_secs(10), reports.recv())
        .await
        .unwrap()
        .unwrap();
    assert!(
        matches!(
            report.outcome,
            SwapOutcome::Rejected {
                stage: Stage::Compile,
                kept: 1,
                ..
            }
        ),
        "{report:?}"
    );
    // The directory can be created again. The plugin's own files do not change.
    fs::remove_file(&cache).unwrap();
    until("generation 2", || plugin.generation().number == 2).await;
}
