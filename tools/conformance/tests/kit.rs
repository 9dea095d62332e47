//! The kit finds nothing in our plugins, and finds planted faults.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{fs, path::PathBuf, time::Duration};

use futures::{StreamExt as _, stream};
use skydock_conformance::{Check, Format, Options, Report, Verdict, run};
use skydock_sandbox::{Compiler, Limits, Permissions, PluginSource};

#[test]
#[ignore = "the compiler of all other tests: not a test"]
fn compile() {
    std::process::exit(skydock_sandbox::compile_as_child().into());
}

/// Runs the kit on a component of `target/plugins` with this configuration.
async fn check(name: &str, config: Option<&str>, calls: usize) -> Report {
    let component =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../target/plugins/{name}.wasm"));
    assert!(
        component.is_file(),
        "no {}: run `cargo xtask guests`",
        component.display()
    );
    let dir = tempfile::tempdir().unwrap();
    let cloud_config = config.map(|text| {
        let path = dir.path().join("cloud.conf");
        fs::write(&path, text).unwrap();
        path
    });
    let source = PluginSource {
        name: "test".into(),
        component,
        cloud_config,
        cluster_name: "conformance".into(),
        cluster_cidrs: vec!["10.244.0.0/16".into()],
        permissions: Permissions::unrestricted(),
        ..PluginSource::default()
    };
    let limits = Limits {
        guest_cpu: Duration::from_millis(500),
        read_deadline: Duration::from_secs(3),
        write_deadline: Duration::from_secs(3),
        ..Limits::default()
    };
    let compiler =
        Compiler::this_program(["--exact", "compile", "--ignored", "--nocapture"]).unwrap();
    // What was compiled once is used in all runs, also those of the next day.
    let cache_dir = Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kit"));
    run(Options {
        source,
        limits,
        compiler,
        calls,
        cache_dir,
    })
    .await
    .unwrap()
}

fn failures(report: &Report) -> Vec<&str> {
    let failed = report
        .findings
        .iter()
        .filter(|it| matches!(it.verdict, Verdict::Failed { .. }));
    failed.map(|it| &*it.check).collect()
}

const INVENTORY: &str = "apiVersion: static.skydock.dev/v1alpha1\nkind: Inventory\n\
                         addressPools:\n- name: main\n  addresses: [192.0.2.0/28]\n";

#[tokio::test(flavor = "multi_thread")]
async fn our_plugins_pass() {
    let simcloud = "{\"url\": \"http://127.0.0.1:8080\", \"region\": \"eu-1\"}";
    for (name, config) in [
        ("static", INVENTORY),
        ("simcloud", simcloud),
        ("hostile/good", "region: r1\n"),
        ("hostile/faulty", "none"),
        ("hostile/volumes", "none"),
        ("hostile/volumes", "slow"),
    ] {
        let report = check(name, Some(config), 500).await;
        let checks: Vec<_> = report.findings.iter().map(|it| &*it.check).collect();
        let all: Vec<_> = Check::ALL.iter().map(|it| it.name()).collect();
        assert_eq!(checks, all, "{name}");
        assert!(
            failures(&report).is_empty(),
            "{name}\n{}",
            report.write(Format::Human).unwrap()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_faults_are_found() {
    let faults = [
        ("hostile/no_plugin", None, "component"),
        ("hostile/wrong_type", None, "component"),
        ("hostile/wants_sockets", None, "component"),
        ("hostile/traps_in_configure", None, "configure"),
        ("hostile/loops_in_configure", None, "configure"),
        ("hostile/rejects_config", None, "configure"),
        ("hostile/bad_info", None, "info"),
        ("hostile/good", Some("instances: trap\n"), "no-trap"),
        ("hostile/good", Some("instances: loop\n"), "deadlines"),
        ("hostile/good", Some("zones: sleep\n"), "deadlines"),
        (
            "hostile/good",
            Some("load-balancers: keep-nodes\n"),
            "answers",
        ),
        ("hostile/good", Some("instances: allocate\n"), "no-trap"),
        ("hostile/good", Some("instances: lie-length\n"), "answers"),
        ("hostile/good", Some("zones: lie-longer\n"), "answers"),
        ("hostile/good", Some("instances: lie-prefix\n"), "answers"),
        ("hostile/good", Some("instances: lie-label\n"), "answers"),
        (
            "hostile/good",
            Some("load-balancers: lie-count\n"),
            "answers",
        ),
        ("hostile/faulty", Some("reversed"), "order"),
        ("hostile/faulty", Some("counts"), "repeatable"),
        ("hostile/faulty", Some("remembers"), "no-memory"),
        ("hostile/faulty", Some("rejects-empty"), "empty"),
        ("hostile/faulty", Some("slices-names"), "unusual"),
        ("hostile/faulty", Some("guesses-absent"), "rejecting-cloud"),
        ("hostile/faulty", Some("blames-the-node"), "error-case"),
        ("hostile/faulty", Some("no-text"), "error-text"),
        ("hostile/faulty", Some("leaks"), "flat"),
        ("hostile/faulty", Some("asks-early"), "no-early-request"),
        ("hostile/faulty", Some("other-info"), "info-stable"),
        ("hostile/faulty", Some("alone"), "two-instances"),
        ("hostile/faulty", Some("name-first"), "lookup"),
        ("hostile/faulty", Some("new-address"), "ensure-again"),
        ("hostile/faulty", Some("updates-nothing"), "update-missing"),
        ("hostile/faulty", Some("deletes-once"), "delete-twice"),
        ("hostile/faulty", Some("creates-once"), "routes-again"),
        ("hostile/faulty", Some("waits"), "no-wait"),
        ("hostile/faulty", Some("poisoned"), "order"),
        ("hostile/faulty", Some("guesses-unasked"), "rejecting-cloud"),
        ("hostile/faulty", Some("get-deletes"), "ensure-again"),
        ("hostile/faulty", Some("get-creates"), "update-missing"),
        ("hostile/faulty", Some("never-updates"), "ensure-again"),
        ("hostile/faulty", Some("leaks-in-ensure"), "flat"),
        ("hostile/faulty", Some("doubles"), "flat"),
        ("hostile/faulty", Some("slices-services"), "unusual"),
        ("hostile/faulty", Some("forgets-a-route"), "routes-again"),
        ("hostile/faulty", Some("keeps-routes"), "routes-again"),
        ("hostile/faulty", Some("swaps-results"), "routes-again"),
        ("hostile/faulty", Some("needs-a-target"), "unusual"),
        ("hostile/volumes", Some("no-driver"), "info"),
        ("hostile/volumes", Some("creates-again"), "volumes-again"),
        ("hostile/volumes", Some("deletes-once"), "volumes-again"),
        ("hostile/volumes", Some("forgets-a-volume"), "volumes-again"),
        ("hostile/volumes", Some("keeps-volumes"), "volumes-again"),
        ("hostile/volumes", Some("snaps-once"), "volumes-again"),
        ("hostile/volumes", Some("swaps-results"), "answers"),
        ("hostile/volumes", Some("same-id"), "answers"),
        ("hostile/volumes", Some("other-key"), "answers"),
        ("hostile/volumes", Some("short"), "answers"),
    ];
    let missed = stream::iter(faults).map(|(name, config, expected)| async move {
        // Growth needs many calls.
        let calls = if expected == "flat" { 100 } else { 2 };
        let report = check(name, config, calls).await;
        let failed = failures(&report);
        (!failed.contains(&expected))
            .then(|| format!("{name} {config:?}: {failed:?}, not {expected}"))
    });
    // Most of them wait.
    let missed: Vec<_> = missed
        .buffer_unordered(4)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(missed.is_empty(), "{missed:#?}");
}
