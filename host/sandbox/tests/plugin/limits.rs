//! Plugins that exceed their limits, and calls whose end affects nothing else.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use skydock_cloud::{CloudError, CloudProvider as _, NodeSet, Presence};
use skydock_sandbox::Limits;

use crate::support::{Bench, limits, listen, node, node_that, service_that, until};

/// Calls the plugin with one node, and returns the text of the expected error.
async fn internal(bench: &Bench, behavior: &str) -> String {
    match bench.plugin.check(&[node_that(behavior, "n")]).await {
        Err(CloudError::Internal(sentence)) => sentence,
        other => panic!("{behavior}: {other:?}"),
    }
}

/// Asserts that the plugin works as if nothing had happened.
async fn works(bench: &Bench) {
    assert_eq!(
        bench.plugin.check(&[node("n")]).await.unwrap(),
        [Ok(Presence::Running)]
    );
    assert_eq!(bench.instances("busy"), 0.0);
}

fn traps(bench: &Bench, kind: &str) -> f64 {
    bench.metric(&format!(
        "skydock_plugin_traps_total{{plugin=\"test\",kind=\"{kind}\"}}"
    ))
}

// Holds: C-08, SEC-04, SEC-08
#[tokio::test(flavor = "multi_thread")]
async fn an_endless_loop_ends_at_its_cpu_budget() {
    let bench = Bench::good().await;
    let started = Instant::now();
    let sentence = internal(&bench, "loop").await;
    assert_eq!(
        sentence,
        "plugin test (generation 1), instances.check: it exceeded its limit of 500ms of CPU time (--plugin-limit guest-cpu)"
    );
    assert!(
        started.elapsed() >= Duration::from_millis(400),
        "it had its time: {:?}",
        started.elapsed()
    );
    works(&bench).await;
    assert_eq!(traps(&bench, "cpu"), 1.0);
    assert!(bench.metric("skydock_plugin_guest_cpu_seconds_total") >= 0.5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loops_in_one_capability_do_not_affect_others() {
    let bench = Bench::good().await;
    let loops = (0..4).map(|_| {
        let plugin = Arc::clone(&bench.plugin);
        tokio::spawn(async move {
            plugin
                .ensure_load_balancer(&service_that("loop", "web"), &NodeSet::default())
                .await
        })
    });
    let loops: Vec<_> = loops.collect();
    let mut during = 0;
    while !loops.iter().all(tokio::task::JoinHandle::is_finished) {
        bench.plugin.check(&[node("a")]).await.unwrap();
        bench.plugin.locate(&[node("a")]).await.unwrap();
        during += 2;
    }
    assert!(
        during >= 10,
        "only {during} calls came through while others looped"
    );
    for looped in join_all(loops).await {
        assert!(matches!(looped.unwrap(), Err(CloudError::Internal(_))));
    }
    works(&bench).await;
}

// Holds: SEC-04
#[tokio::test(flavor = "multi_thread")]
async fn a_memory_bomb_ends_at_the_memory_limit() {
    let bench = Bench::new(
        Limits {
            guest_cpu: Duration::from_secs(10),
            memory: 32 << 20,
            ..limits()
        },
        "",
    )
    .await;
    let sentence = internal(&bench, "allocate").await;
    assert!(
        sentence.ends_with("it exceeded its limit of 32Mi of memory (--plugin-limit memory)"),
        "{sentence}"
    );
    works(&bench).await;
    assert_eq!(traps(&bench, "memory"), 1.0);
    let peak = bench.metric("skydock_plugin_memory_peak_bytes");
    assert!(
        peak <= f64::from(32 << 20) && peak > f64::from(16 << 20),
        "{peak}"
    );
}

// Holds: SEC-08
#[tokio::test(flavor = "multi_thread")]
async fn a_trap_ends_only_its_call() {
    let bench = Bench::good().await;
    let sentence = internal(&bench, "trap").await;
    assert!(sentence.contains("it trapped: "), "{sentence}");
    works(&bench).await;
    assert_eq!(traps(&bench, "trap"), 1.0);
    let calls = |outcome| {
        let labels = "plugin=\"test\",interface=\"instances\",function=\"check\"";
        bench.metric(&format!(
            "skydock_plugin_calls_total{{{labels},outcome=\"{outcome}\"}}"
        ))
    };
    assert_eq!((calls("trap"), calls("ok")), (1.0, 1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn requesting_nodes_endlessly_ends_at_the_cpu_budget() {
    let bench = Bench::good().await;
    let nodes: NodeSet = (0..1000)
        .map(|number| node(&format!("n{number}")))
        .collect();
    let started = Instant::now();
    let error = bench
        .plugin
        .ensure_load_balancer(&service_that("nodes-forever", "web"), &nodes)
        .await
        .unwrap_err();
    let sentence = "plugin test (generation 1), load-balancers.ensure: it exceeded its limit of 500ms of CPU time (--plugin-limit guest-cpu)";
    assert_eq!(error, CloudError::Internal(sentence.into()));
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "making the lists counts: {:?}",
        started.elapsed()
    );
    let peak = bench.metric("skydock_plugin_memory_peak_bytes");
    assert!(peak < f64::from(8 << 20), "one list at a time: {peak}");
    works(&bench).await;
}

// Holds: SEC-04
#[tokio::test(flavor = "multi_thread")]
async fn requesting_targets_endlessly_ends_at_a_limit() {
    // More than the SDK keeps.
    let nodes: NodeSet = (0..100_000)
        .map(|number| node(&format!("n{number}")))
        .collect();
    for (limits, expected) in [
        (limits(), "its limit of 500ms of CPU time"),
        (
            Limits {
                memory: 4 << 20,
                ..limits()
            },
            "its limit of 4Mi of memory",
        ),
    ] {
        let bench = Bench::new(limits, "").await;
        let error = bench
            .plugin
            .ensure_load_balancer(&service_that("targets-forever", "web"), &nodes)
            .await
            .unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        works(&bench).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_keeps_borrowed_nodes_is_removed() {
    let bench = Bench::good().await;
    let nodes = NodeSet::from([node("a")]);
    let error = bench
        .plugin
        .ensure_load_balancer(&service_that("keep-nodes", "web"), &nodes)
        .await
        .unwrap_err();
    let CloudError::Internal(sentence) = error else {
        panic!("{error:?}")
    };
    assert!(
        sentence.ends_with("borrow handles still remain at the end of the call"),
        "{sentence}"
    );
    assert_eq!(
        (bench.instances("busy"), bench.instances("idle")),
        (0.0, 0.0)
    );
    let status = bench
        .plugin
        .ensure_load_balancer(&service_that("nodes", "web"), &nodes)
        .await
        .unwrap();
    assert_eq!(status.ingress[0].hostname.as_deref(), Some("a"));
}

// Holds: SEC-04
#[tokio::test(flavor = "multi_thread")]
async fn a_log_flood_is_limited_without_failing_the_call() {
    listen();
    let bench = Bench::new(
        Limits {
            guest_cpu: Duration::from_secs(20),
            ..limits()
        },
        "",
    )
    .await;
    assert_eq!(
        bench
            .plugin
            .check(&[node_that("log-flood", "n")])
            .await
            .unwrap(),
        [Ok(Presence::Running)]
    );
    let dropped = bench.metric("skydock_plugin_log_lines_dropped_total");
    assert!(dropped > 20_000.0, "{dropped} of 30,001 lines were dropped");
    works(&bench).await;
}

// Holds: C-08, SEC-04
#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_at_its_deadline() {
    let bench = Bench::new(
        Limits {
            read_deadline: Duration::from_millis(500),
            ..limits()
        },
        "",
    )
    .await;
    let started = Instant::now();
    let error = bench
        .plugin
        .check(&[node_that("sleep", "n")])
        .await
        .unwrap_err();
    let sentence = "plugin test (generation 1), instances.check: it did not answer within 500ms (--plugin-limit read-deadline)";
    assert_eq!(error, CloudError::Unavailable(sentence.into()));
    assert!(started.elapsed() < Duration::from_secs(10));
    works(&bench).await;
    assert_eq!(traps(&bench, "deadline"), 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_instance_of_a_dropped_call_is_not_reused() {
    let bench = Bench::new(
        Limits {
            instances: 1,
            ..limits()
        },
        "",
    )
    .await;
    for _ in 0..3 {
        let plugin = Arc::clone(&bench.plugin);
        let call = tokio::spawn(async move { plugin.check(&[node_that("sleep", "n")]).await });
        until("the call has an instance", || {
            bench.instances("busy") == 1.0
        })
        .await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        assert_eq!(
            (bench.instances("busy"), bench.instances("idle")),
            (0.0, 0.0)
        );
        works(&bench).await;
    }
    let cancelled = "skydock_plugin_calls_total{plugin=\"test\",interface=\"instances\",function=\"check\",outcome=\"canceled\"}";
    assert_eq!(bench.metric(cancelled), 3.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_instances_is_limited() {
    let bench = Bench::new(
        Limits {
            instances: 2,
            guest_cpu: Duration::from_secs(10),
            ..limits()
        },
        "",
    )
    .await;
    let calls = (0..6).map(|_| {
        let plugin = Arc::clone(&bench.plugin);
        tokio::spawn(async move { plugin.check(&[node_that("slow", "n")]).await })
    });
    let calls: Vec<_> = calls.collect();
    let mut most = 0.0_f64;
    while !calls.iter().all(tokio::task::JoinHandle::is_finished) {
        most = most.max(bench.instances("busy"));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for call in join_all(calls).await {
        assert_eq!(call.unwrap().unwrap(), [Ok(Presence::Running)]);
    }
    assert_eq!(most, 2.0);
    assert_eq!(bench.instances("idle"), 2.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_an_instance_in_vain_is_not_a_failure() {
    let short = Limits {
        instances: 1,
        queue_deadline: Duration::from_millis(500),
        ..limits()
    };
    let bench = Bench::new(short, "").await;
    let plugin = Arc::clone(&bench.plugin);
    let busy = tokio::spawn(async move {
        plugin
            .ensure_load_balancer(&service_that("sleep", "web"), &NodeSet::default())
            .await
    });
    until("the one instance is busy", || {
        bench.instances("busy") == 1.0
    })
    .await;
    let error = bench.plugin.check(&[node("n")]).await.unwrap_err();
    let sentence = "plugin test (generation 1), instances.check: all its instances were busy for 500ms (--plugin-limit instances, queue-deadline)";
    let CloudError::InProgress(retry) = error else {
        panic!("{error:?}")
    };
    assert_eq!(
        (retry.message.as_str(), retry.after),
        (sentence, Duration::from_secs(1))
    );
    let outcome = "skydock_plugin_calls_total{plugin=\"test\",interface=\"instances\",function=\"check\",outcome=\"too_busy\"}";
    assert_eq!(bench.metric(outcome), 1.0);
    busy.abort();
    let _ = busy.await;
    works(&bench).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_end_after_their_uses_or_when_idle() {
    let bench = Bench::new(
        Limits {
            uses: 1,
            ..limits()
        },
        "",
    )
    .await;
    works(&bench).await;
    assert_eq!(bench.instances("idle"), 0.0, "its only use was that call");
    works(&bench).await;

    let bench = Bench::new(
        Limits {
            idle: Duration::from_millis(100),
            ..limits()
        },
        "",
    )
    .await;
    works(&bench).await;
    until("the idle instance is gone", || {
        bench.instances("idle") == 0.0
    })
    .await;
    works(&bench).await;
}

// Holds: C-08
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_capability_is_suspended_for_a_while() {
    let bench = Bench::good().await;
    for _ in 0..5 {
        assert!(internal(&bench, "trap").await.contains("it trapped"));
    }
    let error = bench.plugin.check(&[node("n")]).await.unwrap_err();
    let CloudError::Unavailable(sentence) = error else {
        panic!("{error:?}")
    };
    assert!(sentence.contains("is suspended for"), "{sentence}");
    assert!(
        bench.plugin.locate(&[node("n")]).await.is_ok(),
        "other capabilities are not concerned"
    );
    tokio::time::sleep(Duration::from_millis(1100)).await;
    works(&bench).await;
}
