//! Loading a file as a generation: what is rejected, at which stage, and with which message.

mod compile;
mod last_good;
mod swap;
mod watch;

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use skydock_sandbox::{
    CacheDirError, CallError, ClusterSlot, Limits, LoadError, LoadProblem, Permissions, Plugin,
    PluginMetrics, PluginSource, Runtime, RuntimeError, RuntimeOptions, Stage,
};

use crate::support::{compiler, fixture, limits, runtime};

async fn load(component: &Path) -> Result<(), LoadError> {
    load_with(component, limits()).await
}

async fn load_with(component: &Path, limits: Limits) -> Result<(), LoadError> {
    let source = PluginSource {
        name: "test".into(),
        component: component.to_owned(),
        cloud_config: None,
        cluster_name: "c1".into(),
        cluster_cidrs: Vec::new(),
        permissions: Permissions::unrestricted(),
        ..PluginSource::default()
    };
    let runtime = runtime(limits, PluginMetrics::default());
    Plugin::load(&runtime, source, ClusterSlot::default())
        .await
        .map(|_| ())
}

async fn rejection(component: &Path) -> LoadError {
    load(component)
        .await
        .expect_err(&component.display().to_string())
}

// Holds: SEC-02
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_plugin_is_rejected_with_the_failing_stage() {
    let table = [
        (
            "no_plugin",
            Stage::Type,
            "does not export `skydock:provider/plugin@0.1.1`",
        ),
        (
            "wrong_type",
            Stage::Type,
            "its export `instances` does not match the contract",
        ),
        ("wants_sockets", Stage::Imports, "`wasi:sockets/"),
        (
            "traps_in_configure",
            Stage::Configure,
            "instruction executed; its last output: panic: no region in | goroutine 1 [running]: | main.main()",
        ),
        ("loops_in_configure", Stage::Configure, "CPU time"),
        (
            "rejects_config",
            Stage::Configure,
            "it rejected its configuration: invalid: inventory.yaml:3: machine n1",
        ),
        (
            "bad_info",
            Stage::Info,
            "its info violates the contract: name `` is not",
        ),
    ];
    for (name, stage, words) in table {
        let error = rejection(&fixture(name)).await;
        assert_eq!(error.stage, stage, "{name}: {error}");
        assert!(error.to_string().contains(words), "{name}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn load_errors_are_typed() {
    let looped = rejection(&fixture("loops_in_configure")).await;
    assert!(
        matches!(looped.source, LoadProblem::Call(CallError::CpuBudget(_))),
        "{looped:?}"
    );
    let sockets = rejection(&fixture("wants_sockets")).await;
    let LoadProblem::Forbidden(imports) = sockets.source else {
        panic!("{sockets:?}")
    };
    assert!(
        imports
            .iter()
            .all(|import| import.starts_with("wasi:sockets/")),
        "{imports:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_files_that_are_not_a_component() {
    let dir = tempfile::tempdir().unwrap();
    let good = fs::read(fixture("good")).unwrap();
    let module = wat::parse_str("(module (memory 1))").unwrap();
    let table: [(&str, &[u8], &str); 4] = [
        (
            "garbage",
            b"#!/bin/sh\necho hello\n",
            "it is not a WebAssembly component",
        ),
        ("empty", b"", "it is not a WebAssembly component"),
        (
            "module",
            &module,
            "it is a WebAssembly core module, but a plugin must be a component",
        ),
        (
            "half",
            &good[..good.len() / 2],
            "it is not a valid WebAssembly component",
        ),
    ];
    for (name, bytes, words) in table {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        let error = rejection(&path).await;
        assert_eq!(error.stage, Stage::Type, "{name}: {error}");
        assert!(error.to_string().starts_with(words), "{name}: {error}");
    }
    let missing = rejection(&dir.path().join("missing")).await;
    assert_eq!(missing.stage, Stage::Read);
    assert!(
        missing.to_string().contains("missing: No such file"),
        "{missing}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_webassembly_code_does_not_compile() {
    // The exported function leaves one value too many.
    let broken = wat::parse_str(
        r#"(component
            (core module $m (func (export "f") i32.const 1))
            (core instance $i (instantiate $m))
            (instance $e)
            (export "skydock:provider/plugin@0.1.0" (instance $e)))"#,
    )
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("broken.wasm");
    fs::write(&path, broken).unwrap();
    assert_eq!(rejection(&path).await.stage, Stage::Compile);
}

/// Returns the problem of a component that consists of these lines and an export with that name.
async fn rejection_of(lines: &str, export: &str) -> LoadError {
    let text =
        format!("(component {lines} (instance $empty) (export \"{export}\" (instance $empty)))");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plugin.wasm");
    fs::write(&path, wat::parse_str(text).unwrap()).unwrap();
    rejection(&path).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_of_the_wrong_type_is_rejected() {
    let import = r#"(import "skydock:provider/cache@0.1.0" (instance (export "get" (func (param "n" u8)))))"#;
    let error = rejection_of(import, "skydock:provider/plugin@0.1.0").await;
    assert_eq!(error.stage, Stage::Imports, "{error}");
    assert!(matches!(error.source, LoadProblem::Link(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_for_a_newer_contract_is_told_so() {
    let import = r#"(import "skydock:provider/cache@0.1.9" (instance (export "count" (func (result u32)))))"#;
    let error = rejection_of(import, "skydock:provider/plugin@0.1.9").await;
    assert_eq!(error.stage, Stage::Imports, "{error}");
    assert!(
        error.to_string().contains(
            "it imports `skydock:provider/cache@0.1.9`, but this Skydock supports skydock:provider@0.1.1"
        ),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interface_without_its_functions_is_an_error() {
    let error = rejection_of("", "skydock:provider/plugin@0.1.0").await;
    assert_eq!(error.stage, Stage::Type, "{error}");
    assert!(
        matches!(
            error.source,
            LoadProblem::WrongType {
                interface: "plugin",
                ..
            }
        ),
        "{error:?}"
    );
    let newer = rejection_of("", "skydock:provider/plugin@0.2.0").await;
    assert!(
        matches!(newer.source, LoadProblem::Version { .. }),
        "{newer:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn initial_memory_counts_toward_the_limit() {
    // A Rust guest starts with 17 pages of 64 KiB. The pool rejects it before compilation,
    // otherwise the limiter does.
    let error = load_with(
        &fixture("good"),
        Limits {
            memory: 1 << 20,
            ..limits()
        },
    )
    .await
    .unwrap_err();
    assert!(
        matches!(error.stage, Stage::Compile | Stage::Instantiate),
        "{}: {error}",
        error.stage
    );
    load_with(
        &fixture("good"),
        Limits {
            memory: 4 << 20,
            ..limits()
        },
    )
    .await
    .expect("four times that is enough");
}

#[test]
fn a_cache_writable_by_others_fails_the_start() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let options = RuntimeOptions {
        cache_dir: Some(dir.path().to_owned()),
        ..RuntimeOptions::new(compiler())
    };
    let error = Runtime::new(options).err().unwrap();
    assert!(
        matches!(
            error,
            RuntimeError::CacheDir(CacheDirError::Open { mode: 0o777, .. })
        ),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("is writable by other users (mode 0777)"),
        "{error}"
    );
}
