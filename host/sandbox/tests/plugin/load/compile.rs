//! Compilation in a separate process: what is expensive to compile ends at its limits, and nothing
//! is compiled twice.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use prometheus_client::{encoding::text::encode, registry::Registry};
use skydock_cloud::{CloudProvider as _, Presence};
use skydock_sandbox::{
    ClusterSlot, CompileError, Limits, LoadProblem, Plugin, PluginMetrics, Reload, Runtime,
    RuntimeOptions, Stage, SwapOutcome,
};
use tokio_util::sync::CancellationToken;

use crate::support::{Bench, compiler, fixture, limits, node, source, until};

/// Returns a component with one function of about this many bytes of code, with many branches and
/// many variables that live across them: the worst case for a compiler.
fn dear_to_compile(bytes: usize) -> Vec<u8> {
    const VARIABLES: usize = 200;
    let mut body = String::new();
    for step in 0..bytes / 14 {
        let (from, to) = (step % VARIABLES, step * 7 % VARIABLES);
        write!(body, "(if (local.get {from}) (then (local.set {to} (i32.mul (local.get {from}) (local.get {to})))))")
            .unwrap();
    }
    let variables = "i32 ".repeat(VARIABLES);
    let text = format!(
        r#"(component
            (core module $m (func (export "f") (param i32) (local {variables}) {body}))
            (core instance (instantiate $m))
            (instance $e)
            (export "skydock:provider/plugin@0.1.0" (instance $e)))"#
    );
    wat::parse_str(text).unwrap()
}

/// Returns the child processes that compile plugins in this directory.
fn compilers(cache: &Path) -> Vec<PathBuf> {
    let children =
        |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let ids: Vec<_> = fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|task| children(task.unwrap()))
        .collect();
    let processes = ids
        .iter()
        .flat_map(|ids| ids.split_whitespace())
        .map(|id| Path::new("/proc").join(id));
    processes
        .filter(|it| fs::read_link(it.join("cwd")).is_ok_and(|cwd| cwd.starts_with(cache)))
        .collect()
}

async fn load(
    dir: &Path,
    cache: &Path,
    limits: Limits,
) -> (Arc<Plugin>, impl Fn(&str) -> f64 + use<>) {
    let mut registry = Registry::default();
    let metrics = PluginMetrics::register(&mut registry);
    let options = RuntimeOptions::new(compiler());
    let runtime = Runtime::new(RuntimeOptions {
        cache_dir: Some(cache.to_owned()),
        limits,
        metrics,
        ..options
    })
    .unwrap();
    let plugin = Plugin::load(&runtime, source(dir), ClusterSlot::default())
        .await
        .unwrap();
    let compilations = move |result: &str| {
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let start =
            format!("skydock_plugin_compilations_total{{plugin=\"test\",result=\"{result}\"}}");
        let samples = text.lines().filter_map(|line| line.strip_prefix(&start));
        samples
            .map(|value| value.trim().parse::<f64>().unwrap())
            .sum()
    };
    (plugin, compilations)
}

fn good(dir: &Path) {
    fs::copy(fixture("good"), dir.join("plugin.wasm")).unwrap();
    fs::write(dir.join("cloud.conf"), "").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_configuration_does_not_recompile_the_component() {
    let dir = tempfile::tempdir().unwrap();
    good(dir.path());
    let (plugin, compilations) = load(dir.path(), &dir.path().join("cache"), limits()).await;
    let file = fs::read_dir(dir.path().join("cache/skydock-compiled-2")).unwrap();
    let artifacts = file
        .map(|it| it.unwrap().path())
        .filter(|it| it.extension().is_some_and(|it| it == "cwasm"));
    // The artifact is not on disk either, and the code is neither compiled nor loaded again.
    artifacts.for_each(|artifact| fs::remove_file(artifact).unwrap());
    for round in 0..10 {
        fs::write(dir.path().join("cloud.conf"), format!("region: r{round}")).unwrap();
        let began = std::time::Instant::now();
        let Reload::Swapped(info) = plugin.reload().await.unwrap() else {
            panic!("unchanged")
        };
        println!("swapped in {:?}", began.elapsed());
        assert_eq!(info.number, round + 2);
        // A configuration is rejected, and the next one still finds the code.
        fs::write(dir.path().join("cloud.conf"), "regon: r1").unwrap();
        assert_eq!(plugin.reload().await.unwrap_err().stage, Stage::Configure);
    }
    assert_eq!(
        (compilations("success"), compilations("failure")),
        (1.0, 0.0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_process_reuses_compiled_code() {
    let dir = tempfile::tempdir().unwrap();
    good(dir.path());
    let cache = dir.path().join("cache");
    let (_, compilations) = load(dir.path(), &cache, limits()).await;
    assert_eq!(compilations("success"), 1.0);
    let (_, compilations) = load(dir.path(), &cache, limits()).await;
    assert_eq!(compilations("success"), 0.0);
    assert_eq!(
        fs::metadata(&cache).unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn other_files_in_the_cache_directory_are_not_changed() {
    let (dir, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    good(dir.path());
    load(dir.path(), home.path(), limits())
        .await
        .0
        .reload()
        .await
        .unwrap();
    let foreign = [
        "notes.txt",
        ".ssh/id",
        "docs/thesis/one.tex",
        "skydock-compiled-2/x.cwasm",
        "skydock-compiled-2/a/b/c",
    ];
    let files = foreign.map(|file| home.path().join(file));
    for file in &files {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("dear {}", file.display())).unwrap();
    }
    // One component is found in the directory, and one is compiled, after which surplus files are
    // deleted.
    for component in ["good", "good_v2"] {
        fs::copy(fixture(component), dir.path().join("plugin.wasm")).unwrap();
        load(dir.path(), home.path(), limits())
            .await
            .0
            .reload()
            .await
            .unwrap();
        for file in &files {
            assert_eq!(
                fs::read_to_string(file).unwrap(),
                format!("dear {}", file.display())
            );
        }
    }
    let mut names: Vec<_> = fs::read_dir(home.path())
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, [".ssh", "docs", "notes.txt", "skydock-compiled-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_machine_code_is_compiled_again() {
    let dir = tempfile::tempdir().unwrap();
    good(dir.path());
    let cache = dir.path().join("cache");
    let (_, compilations) = load(dir.path(), &cache, limits()).await;
    assert_eq!(compilations("success"), 1.0);
    let files = fs::read_dir(cache.join("skydock-compiled-2"))
        .unwrap()
        .map(|it| it.unwrap().path());
    let artifact = files
        .into_iter()
        .find(|it| it.extension().is_some_and(|it| it == "cwasm"))
        .unwrap();
    let mut bytes = fs::read(&artifact).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(&artifact, &bytes).unwrap();
    let (_, compilations) = load(dir.path(), &cache, limits()).await;
    assert_eq!(compilations("success"), 1.0);
    assert_ne!(fs::read(&artifact).unwrap(), bytes);
}

// Holds: SEC-08, SEC-13
#[tokio::test(flavor = "multi_thread")]
async fn compilation_is_limited_in_memory_cpu_and_time() {
    type Expected = fn(&CompileError) -> bool;
    let dear = dear_to_compile(4 << 20);
    let generous = Limits {
        compile_memory: 8 << 30,
        ..limits()
    };
    let table: [(Limits, Expected, &str); 3] = [
        (
            Limits {
                compile_memory: 512 << 20,
                ..generous.clone()
            },
            |error| matches!(error, CompileError::Memory(_)),
            "compilation exceeded the limit of 512Mi of memory (--plugin-limit compile-memory)",
        ),
        (
            Limits {
                compile_cpu: Duration::from_secs(1),
                ..generous.clone()
            },
            |error| matches!(error, CompileError::Cpu(_)),
            "compilation exceeded the limit of 1s of CPU time (--plugin-limit compile-cpu)",
        ),
        (
            Limits {
                compile_deadline: Duration::from_secs(1),
                ..generous
            },
            |error| matches!(error, CompileError::Deadline(_)),
            "compilation exceeded the limit of 1s of wall-clock time (--plugin-limit compile-deadline)",
        ),
    ];
    for (limits, is_expected, sentence) in table {
        let bench = Bench::new(limits, "").await;
        bench.replace_bytes(&dear);
        let mut reload = std::pin::pin!(bench.plugin.reload());
        // The plugin in service is used meanwhile.
        let error = loop {
            tokio::select! {
                ended = &mut reload => break ended.unwrap_err(),
                () = tokio::time::sleep(Duration::from_millis(50)) => {
                    assert_eq!(bench.plugin.check(&[node("n")]).await.unwrap(), [Ok(Presence::Running)]);
                }
            }
        };
        assert_eq!(
            (error.stage, error.to_string().as_str()),
            (Stage::Compile, sentence)
        );
        assert!(
            matches!(&error.source, LoadProblem::Compile(error) if is_expected(error)),
            "{error:?}"
        );
        assert_eq!(
            bench.metric("skydock_plugin_compilations_total{plugin=\"test\",result=\"failure\"}"),
            1.0
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_function_table_is_within_the_limits() {
    const FUNCTIONS: usize = 65_536;
    let text = format!(
        r#"(component
            (core module $m (table {FUNCTIONS} funcref) {} (elem (i32.const 0) func {}))
            (core instance (instantiate $m))
            (instance $e)
            (export "skydock:provider/plugin@0.1.0" (instance $e)))"#,
        "(func)".repeat(FUNCTIONS),
        (0..FUNCTIONS)
            .map(|index| format!("{index} "))
            .collect::<String>()
    );
    let bench = Bench::good().await;
    bench.replace_bytes(&wat::parse_str(text).unwrap());
    let rejected = bench.plugin.reload().await.unwrap_err();
    // It is compiled and loaded; only then it turns out that it does nothing.
    assert!(
        matches!(rejected.source, LoadProblem::WrongType { .. }),
        "{rejected}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_file_cancels_compilation_of_the_older() {
    let dir = tempfile::tempdir().unwrap();
    good(dir.path());
    let cache = dir.path().join("cache");
    let (plugin, compilations) = load(dir.path(), &cache, limits()).await;
    let mut reports = plugin.reports();
    let stop = CancellationToken::new();
    let watching = tokio::spawn(Arc::clone(&plugin).watch(stop.clone()));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let replace = |bytes: &[u8]| {
        fs::write(dir.path().join("new"), bytes).unwrap();
        fs::rename(dir.path().join("new"), dir.path().join("plugin.wasm")).unwrap();
    };
    let dear = dear_to_compile(7 << 20);
    replace(&dear);
    until("the older is compiled", || !compilers(&cache).is_empty()).await;
    replace(&fs::read(fixture("good_v2")).unwrap());
    until("the newer serves", || plugin.generation().number == 2).await;
    assert!(
        matches!(reports.try_recv().unwrap().outcome, SwapOutcome::Swapped(_)),
        "the older was not even rejected"
    );
    assert_eq!(
        (compilations("success"), compilations("failure")),
        (2.0, 0.0)
    );

    // An abandoned attempt does not count as rejected: the same bytes are compiled again. And if
    // watching stops, the compiler ends.
    replace(&dear);
    until("it is compiled again", || !compilers(&cache).is_empty()).await;
    stop.cancel();
    watching.await.unwrap();
    until("the compiler is gone", || compilers(&cache).is_empty()).await;
    let files = fs::read_dir(cache.join("skydock-compiled-2"))
        .unwrap()
        .map(|it| it.unwrap().path());
    assert_eq!(
        files
            .filter(|it| it.extension().is_some_and(|it| it == "tmp"))
            .count(),
        0,
        "nothing is left behind"
    );
}
