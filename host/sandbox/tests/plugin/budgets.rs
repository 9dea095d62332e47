//! CPU time that a plugin is charged for, and resources that it keeps in the host.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use skydock_cloud::{CloudError, CloudProvider as _, NodeSet, Presence};
use skydock_sandbox::{
    CallError, ClusterSlot, HandleLimit, Limits, LoadError, LoadProblem, Plugin, PluginMetrics,
    Stage,
};

use prometheus_client::{encoding::text::encode, registry::Registry};
use skydock_egress::{EgressMetrics, Gateway, GatewayDependencies, Settings};

use crate::support::{
    Bench, FakeCluster, fixture, limits, node, node_that, runtime, service_that, source, until,
};

/// Returns the raw plugin that misbehaves in this way during a call.
fn in_check(misdeed: &str) -> Vec<u8> {
    fs::read(fixture(&format!("raw/{misdeed}_in_check"))).unwrap()
}

/// Returns the raw plugin that misbehaves in this way while it is configured.
fn in_configure(misdeed: &str) -> Vec<u8> {
    fs::read(fixture(&format!("raw/{misdeed}_in_configure"))).unwrap()
}

/// Puts a raw plugin into service that misbehaves in this way during a call.
async fn raw(misdeed: &str, limits: Limits) -> Bench {
    Bench::of(&in_check(misdeed), limits).await
}

/// Returns the result of loading a raw plugin that misbehaves in this way in `configure`.
async fn configured(misdeed: &str, limits: Limits) -> Result<(), LoadError> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("plugin.wasm"), in_configure(misdeed)).unwrap();
    fs::write(dir.path().join("cloud.conf"), "").unwrap();
    let runtime = runtime(limits, PluginMetrics::default());
    Plugin::load(&runtime, source(dir.path()), ClusterSlot::default())
        .await
        .map(drop)
}

async fn sentence(bench: &Bench) -> String {
    match bench.plugin.check(&[node("n")]).await {
        Err(CloudError::Internal(sentence) | CloudError::Unavailable(sentence)) => sentence,
        other => panic!("{other:?}"),
    }
}

const CPU: &str = "skydock_plugin_guest_cpu_seconds_total";

#[tokio::test(flavor = "multi_thread")]
async fn waiting_uses_no_cpu_budget() {
    let bench = raw("naps", limits()).await;
    let started = Instant::now();
    assert_eq!(
        bench.plugin.check(&[node("n")]).await.unwrap(),
        [Ok(Presence::Running)]
    );
    assert!(
        started.elapsed() >= Duration::from_secs(3),
        "{:?}",
        started.elapsed()
    );
    assert!(
        bench.metric(CPU) < 0.5,
        "300 waits of 12 ms: {} s",
        bench.metric(CPU)
    );
    configured("naps", limits())
        .await
        .expect("nor does it in configure");
}

#[tokio::test(flavor = "multi_thread")]
async fn host_calls_do_not_reset_the_cpu_budget() {
    let bench = raw("paces", limits()).await;
    let words =
        "instances.check: it exceeded its limit of 500ms of CPU time (--plugin-limit guest-cpu)";
    assert!(sentence(&bench).await.ends_with(words));
    let used = bench.metric(CPU);
    assert!(
        (0.5..1.0).contains(&used),
        "the budget and a tick or so: {used}"
    );
    let rejected = configured("paces", limits()).await.unwrap_err();
    assert!(
        matches!(rejected.source, LoadProblem::Call(CallError::CpuBudget(_))),
        "{rejected}"
    );
}

// Holds: SEC-04
#[tokio::test(flavor = "multi_thread")]
async fn uninterruptible_work_ends_at_the_next_host_call() {
    let short = Limits {
        guest_cpu: Duration::from_millis(20),
        ..limits()
    };
    let bench = raw("unbroken", short.clone()).await;
    let words =
        "instances.check: it exceeded its limit of 20ms of CPU time (--plugin-limit guest-cpu)";
    let message = sentence(&bench).await;
    assert!(message.ends_with(words), "{message}");
    let used = bench.metric(CPU);
    assert!(used < 0.1, "the budget and a tick or so: {used}");
    let rejected = configured("unbroken", short).await.unwrap_err();
    assert!(
        matches!(rejected.source, LoadProblem::Call(CallError::CpuBudget(_))),
        "{rejected}"
    );
}

/// Returns the maximum resident memory of this process so far, in MiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_parts_of_a_request_end_the_call() {
    let before = peak();
    let table = [
        (
            "methods",
            "it made a request with a method of 8000000 bytes, but at most 32 are allowed",
        ),
        (
            "authorities",
            "it made a request with a authority of 8000000 bytes, but at most 512 are allowed",
        ),
        (
            "paths",
            "it made a request with a path of 8000000 bytes, but at most 8192 are allowed",
        ),
    ];
    for (misdeed, words) in table {
        let rejected = configured(misdeed, limits()).await.unwrap_err();
        assert_eq!(
            (rejected.stage, rejected.to_string().as_str()),
            (Stage::Configure, words)
        );
        let bench = raw(misdeed, limits()).await;
        assert!(sentence(&bench).await.ends_with(words));
        assert_eq!(
            bench.metric("skydock_plugin_traps_total{plugin=\"test\",kind=\"oversized\"}"),
            1.0
        );
    }
    assert!(peak() < before + 300, "from {before} to {} MiB", peak());
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_kept_between_calls_count_toward_the_limit() {
    let bench = raw(
        "requests",
        Limits {
            handles: 32,
            ..limits()
        },
    )
    .await;
    for _ in 0..3 {
        assert_eq!(
            bench.plugin.check(&[node("n")]).await.unwrap(),
            [Ok(Presence::Running)]
        );
    }
    assert_eq!(bench.metric("skydock_plugin_handles{"), 32.0);
    let words = "it exceeded its limit of 32 handles (--plugin-limit handles)";
    assert!(sentence(&bench).await.ends_with(words));
    assert_eq!(bench.instances("idle"), 0.0, "it and its handles are gone");
    assert_eq!(
        (
            bench.metric("skydock_plugin_handles{"),
            bench.metric("skydock_plugin_memory_bytes{")
        ),
        (0.0, 0.0)
    );
    assert_eq!(
        bench.metric("skydock_plugin_traps_total{plugin=\"test\",kind=\"handles\"}"),
        1.0
    );
    assert!(bench.plugin.check(&[node("n")]).await.is_ok());
    // Standard output needs a handle, too.
    let bench = raw(
        "outputs",
        Limits {
            handles: 32,
            ..limits()
        },
    )
    .await;
    assert!(sentence(&bench).await.ends_with(words));
    let rejected = configured("many_requests", limits()).await.unwrap_err();
    assert!(
        matches!(
            rejected.source,
            // Three eighths are reserved for other kinds of calls.
            LoadProblem::Call(CallError::Handles(HandleLimit::Count(640)))
        ),
        "{rejected}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn options_of_sent_requests_do_not_stay_open() {
    let bench = raw(
        "options",
        Limits {
            handles: 16,
            ..limits()
        },
    )
    .await;
    for _ in 0..3 {
        assert_eq!(
            bench.plugin.check(&[node("n")]).await.unwrap(),
            [Ok(Presence::Running)]
        );
    }
    assert_eq!(bench.instances("idle"), 1.0);
    configured(
        "options",
        Limits {
            handles: 16,
            ..limits()
        },
    )
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_share_the_total_memory_of_their_plugin() {
    // An instance has 4 MiB; there is room for two.
    let limits = Limits {
        memory: 8 << 20,
        memory_total: 10 << 20,
        instances: 8,
        ..limits()
    };
    let bench = raw("pages", limits).await;
    let calls = (0..3).map(|_| {
        let plugin = Arc::clone(&bench.plugin);
        tokio::spawn(async move { plugin.check(&[node("n")]).await })
    });
    let calls: Vec<_> = calls.collect();
    let ends: Vec<_> = join_all(calls)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let (good, bad): (Vec<_>, Vec<_>) = ends.into_iter().partition(Result::is_ok);
    assert_eq!((good.len(), bad.len()), (2, 1));
    let Err(CloudError::Unavailable(sentence)) = &bad[0] else {
        panic!("{bad:?}")
    };
    let words = "all instances of the plugin together exceeded the limit of 10Mi of memory (--plugin-limit memory-total)";
    assert!(sentence.ends_with(words), "{sentence}");
    assert_eq!(
        bench.metric("skydock_plugin_traps_total{plugin=\"test\",kind=\"memory_total\"}"),
        1.0
    );
    assert_eq!(
        bench.instances("idle"),
        1.0,
        "two would leave too little to those that work"
    );
    let memory = bench.metric("skydock_plugin_memory_bytes{");
    assert!(
        (f64::from(4 << 20)..f64::from(5 << 20)).contains(&memory),
        "that of one instance: {memory}"
    );
}

// Holds: SEC-11
#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_candidate_has_no_side_effects() {
    let bench = Bench::good().await;
    let reserve = async |name| {
        bench
            .plugin
            .check(&[node_that("reserve", name)])
            .await
            .unwrap()
            .remove(0)
    };
    assert_eq!(reserve("a").await, Ok(Presence::Running));
    let taken = || Err(CloudError::Conflict("held by a".into()));
    // Another provider, which is rejected after it was configured.
    bench.replace_bytes(&in_configure("cache"));
    let rejected = bench.plugin.reload().await.unwrap_err();
    assert_eq!(rejected.stage, Stage::Identity, "{rejected}");
    assert_eq!(reserve("b").await, taken());
}

// Holds: SEC-11
#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_sees_no_nodes() {
    let bench = Bench::good().await;
    let nodes = (0..1000)
        .map(|number| node(&format!("n{number}")))
        .collect();
    bench.cluster.set(Arc::new(FakeCluster {
        nodes,
        ..FakeCluster::default()
    }));
    // The plugin requests all nodes repeatedly, which exceeds its time if it gets any.
    bench.replace_bytes(&in_configure("nodes"));
    let rejected = bench.plugin.reload().await.unwrap_err();
    assert_eq!(rejected.stage, Stage::Identity, "{rejected}");
}

// Holds: SEC-11
#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_cannot_send_requests() {
    let mut registry = Registry::default();
    let dependencies = GatewayDependencies {
        metrics: EgressMetrics::register(&mut registry),
        ..GatewayDependencies::default()
    };
    let gateway = Arc::new(Gateway::new("test", &Settings::default(), dependencies).unwrap());
    let denied = |reason: &str| {
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let line = |line: &&str| {
            line.starts_with("skydock_egress_denials_total")
                && line.contains(&format!("reason=\"{reason}\""))
        };
        text.lines().find(line).map_or(0.0, |line| {
            line.rsplit(' ').next().unwrap().parse().unwrap()
        })
    };
    let bench = Bench::through(&in_configure("send"), limits(), gateway).await;
    assert_eq!((denied("loading"), denied("no_rule")), (1.0, 0.0));
    bench.replace_bytes(&in_check("send"));
    bench.plugin.reload().await.unwrap();
    bench.plugin.check(&[node("n")]).await.unwrap();
    assert_eq!((denied("loading"), denied("no_rule")), (1.0, 1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_node_lists_are_charged_to_the_cpu_budget() {
    let nodes = (0..1000)
        .map(|number| node(&format!("n{number}")))
        .collect();
    // CPU time is what ends the calls, also on a machine with little of it.
    let limits = Limits {
        read_deadline: Duration::from_secs(120),
        ..limits()
    };
    let bench = raw("nodes", limits).await;
    bench.cluster.set(Arc::new(FakeCluster {
        nodes,
        ..FakeCluster::default()
    }));
    let calls = join_all((0..6).map(|_| sentence(&bench))).await;
    assert!(
        calls.iter().all(|sentence| sentence.contains("CPU time")),
        "{calls:?}"
    );
}

// Holds: SEC-10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_load_balancers_do_not_take_instances_of_nodes() {
    let bench = Bench::new(
        Limits {
            instances: 12,
            ..limits()
        },
        "",
    )
    .await;
    let hang = (0..40).map(|number| {
        let plugin = Arc::clone(&bench.plugin);
        let service = service_that("sleep", &format!("web{number}"));
        tokio::spawn(async move {
            plugin
                .ensure_load_balancer(&service, &NodeSet::default())
                .await
        })
    });
    let hang: Vec<_> = hang.collect();
    until("load balancers have all they may have", || {
        bench.instances("busy") == 6.0
    })
    .await;
    for _ in 0..20 {
        assert_eq!(
            bench.plugin.check(&[node("a")]).await.unwrap(),
            [Ok(Presence::Running)]
        );
        assert!(bench.plugin.describe(&[node("a")]).await.is_ok());
        assert!(bench.plugin.locate(&[node("a")]).await.is_ok());
        assert!(bench.plugin.list_routes().await.is_ok());
    }
    assert_eq!(bench.instances("busy"), 6.0);
    assert!(
        hang.iter().all(|call| !call.is_finished()),
        "all that is answered was answered meanwhile"
    );
    for call in hang {
        call.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_of_a_call_starts_when_it_has_an_instance() {
    let limits = Limits {
        instances: 1,
        read_deadline: Duration::from_secs(3),
        ..limits()
    };
    let bench = Bench::new(limits, "").await;
    let sleeps = (0..2).map(|_| {
        let plugin = Arc::clone(&bench.plugin);
        tokio::spawn(async move { plugin.check(&[node_that("sleep", "n")]).await })
    });
    let sleeps: Vec<_> = sleeps.collect();
    // The calls run one after the other: the deadline of the second has not passed when it starts.
    for slept in join_all(sleeps).await {
        let CloudError::Unavailable(sentence) = slept.unwrap().unwrap_err() else {
            panic!()
        };
        assert!(
            sentence.ends_with("it did not answer within 3s (--plugin-limit read-deadline)"),
            "{sentence}"
        );
    }
}
