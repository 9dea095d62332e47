//! Replacement of a plugin while it is used.

use std::{
    fs,
    net::IpAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::future::join_all;
use sha2::{Digest as _, Sha256};
use skydock_cloud::{CloudProvider as _, NodeSet, Presence};
use skydock_egress::Gateway;
use skydock_sandbox::{GatewayProvider, Reload, Stage, SwapOutcome, WithheldRule};

use crate::support::{Bench, fixture, node, node_that, service_that};

async fn region(bench: &Bench) -> String {
    bench
        .plugin
        .locate(&[node("n")])
        .await
        .unwrap()
        .remove(0)
        .unwrap()
        .region
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_generations_change() {
    let bench = Bench::good().await;
    let (stop, calls) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let callers: Vec<_> = (0..6)
        .map(|caller| {
            let (plugin, stop, calls) = (
                Arc::clone(&bench.plugin),
                Arc::clone(&stop),
                Arc::clone(&calls),
            );
            tokio::spawn(async move {
                let nodes = [node(&format!("n{caller}")), node("m")];
                while !stop.load(SeqCst) {
                    assert_eq!(
                        plugin.check(&nodes).await.unwrap(),
                        [Ok(Presence::Running), Ok(Presence::Running)]
                    );
                    assert!(
                        plugin
                            .describe(&nodes)
                            .await
                            .unwrap()
                            .iter()
                            .all(Result::is_ok)
                    );
                    calls.fetch_add(2, SeqCst);
                }
            })
        })
        .collect();
    let mut generations = bench.plugin.subscribe();
    for number in 2..=9 {
        let before = calls.load(SeqCst);
        while calls.load(SeqCst) < before + 200 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        bench.replace(if number % 2 == 0 { "good_v2" } else { "good" });
        let Reload::Swapped(info) = bench.plugin.reload().await.unwrap() else {
            panic!("unchanged")
        };
        assert_eq!(
            (info.number, *generations.borrow_and_update()),
            (number, number)
        );
        assert_eq!(
            bench.plugin.info().version,
            info.version,
            "the new generation is in use"
        );
    }
    stop.store(true, SeqCst);
    for caller in join_all(callers).await {
        caller.expect("no call failed");
    }
    let made = calls.load(SeqCst);
    assert!(made >= 1600, "{made} calls");
    println!("{made} calls across 8 swaps");
    let ok = bench.metric("skydock_plugin_calls_total");
    assert_eq!(ok as usize, made);
    assert_eq!(
        bench.metric("skydock_plugin_generation{plugin=\"test\"}"),
        9.0
    );
    assert_eq!(
        bench.metric("skydock_plugin_generation_info"),
        1.0,
        "one generation is in service"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_counted_once_across_swaps_and_rejections() {
    let bench = Bench::good().await;
    let used = async || {
        bench.plugin.check(&[node("n")]).await.unwrap();
        let one = |name| bench.metric(name);
        (
            one("skydock_plugin_memory_bytes{"),
            one("skydock_plugin_handles{"),
            bench.instances("idle"),
        )
    };
    let first = used().await;
    assert!(first.0 > 0.0, "{first:?}");
    for (good, bad) in [
        ("good_v2", "traps_in_configure"),
        ("good", "rejects_config"),
    ] {
        bench.replace(good);
        assert!(matches!(
            bench.plugin.reload().await,
            Ok(Reload::Swapped(_))
        ));
        bench.replace(bad);
        bench.plugin.reload().await.unwrap_err();
        assert_eq!(used().await, first, "{good}, then {bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_call_finishes_on_its_generation() {
    let bench = Bench::good().await;
    let plugin = Arc::clone(&bench.plugin);
    let slow = tokio::spawn(async move { plugin.check(&[node_that("slow", "n")]).await });
    crate::support::until("the call has begun", || bench.instances("busy") == 1.0).await;
    bench.replace("good_v2");
    bench.plugin.reload().await.unwrap();
    assert_eq!(slow.await.unwrap().unwrap(), [Ok(Presence::Running)]);
    crate::support::until("the old instance is gone", || {
        bench.instances("idle") == 1.0
    })
    .await;
}

// Holds: SEC-08
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_reload_keeps_the_generation_in_service() {
    let bench = Bench::good().await;
    let table = [
        ("garbage", Stage::Type),
        ("wrong_type", Stage::Type),
        ("no_plugin", Stage::Type),
        ("wants_sockets", Stage::Imports),
        ("traps_in_configure", Stage::Configure),
        ("loops_in_configure", Stage::Configure),
        ("rejects_config", Stage::Configure),
        ("bad_info", Stage::Info),
        ("other_name", Stage::Identity),
    ];
    let (before, mut reports) = (bench.plugin.generation(), bench.plugin.reports());
    for (name, stage) in table {
        match name {
            "garbage" => bench.replace_bytes(b"garbage"),
            name => bench.replace(name),
        }
        let error = bench.plugin.reload().await.expect_err(name);
        assert_eq!(error.stage, stage, "{name}: {error}");
        assert_eq!(bench.plugin.generation(), before, "{name}");
        assert_eq!(region(&bench).await, "r1", "{name}");
        let report = reports.try_recv().unwrap().outcome;
        assert_eq!(
            report,
            SwapOutcome::Rejected {
                stage,
                reason: error.to_string(),
                kept: 1
            }
        );
        let failed = format!(
            "skydock_plugin_reloads_total{{plugin=\"test\",result=\"failure\",stage=\"{stage}\"}}"
        );
        assert!(bench.metric(&failed) >= 1.0, "{name}");
    }
    fs::remove_file(bench.dir.path().join("plugin.wasm")).unwrap();
    assert_eq!(bench.plugin.reload().await.unwrap_err().stage, Stage::Read);
    assert_eq!(region(&bench).await, "r1");
    bench.replace("good");
    assert_eq!(bench.plugin.reload().await.unwrap(), Reload::Unchanged);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_configuration_creates_a_new_generation() {
    let bench = Bench::good().await;
    let before = bench.plugin.generation();
    bench.configure("region: north");
    let Reload::Swapped(now) = bench.plugin.reload().await.unwrap() else {
        panic!("unchanged")
    };
    assert_eq!((now.number, &now.digest), (2, &before.digest));
    assert_ne!(now.config_digest, before.config_digest);
    assert_eq!(region(&bench).await, "north");

    bench.configure("region: north\nregon: south");
    let error = bench.plugin.reload().await.unwrap_err();
    let place = format!(
        "{}:2: unknown key `regon`",
        bench.dir.path().join("cloud.conf").display()
    );
    assert!(error.to_string().ends_with(&place), "{error}");
    assert_eq!(
        (
            region(&bench).await.as_str(),
            bench.plugin.generation().number
        ),
        ("north", 2)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cache_outlives_a_generation_but_not_its_instances() {
    let bench = Bench::good().await;
    let service = service_that("good", "web");
    bench
        .plugin
        .ensure_load_balancer(&service, &NodeSet::default())
        .await
        .unwrap();
    bench.replace("good_v2");
    bench.plugin.reload().await.unwrap();
    assert_eq!(
        bench.instances("idle"),
        1.0,
        "only the new generation has an instance"
    );
    assert!(
        bench
            .plugin
            .get_load_balancer(&service)
            .await
            .unwrap()
            .is_some()
    );
}

/// Provides a gateway whose only rule has a credential for these components.
#[derive(Debug)]
struct For(Arc<Gateway>, Mutex<Vec<String>>);

impl GatewayProvider for For {
    fn gateway(&self, _: &str) -> Arc<Gateway> {
        Arc::clone(&self.0)
    }

    fn withheld(&self, digest: &str) -> Vec<WithheldRule> {
        let is_for_it = self.1.lock().unwrap().iter().any(|it| it == digest);
        let rule = WithheldRule {
            rule: "api".into(),
            credential: "token".into(),
        };
        if is_for_it { vec![] } else { vec![rule] }
    }

    fn is_api_server(&self, _: IpAddr) -> bool {
        false
    }

    fn translated(&self, address: IpAddr) -> IpAddr {
        address
    }
}

// Holds: SEC-19
#[tokio::test]
async fn a_replacement_without_the_credentials_is_rejected() {
    let digest = |name: &str| hex::encode(Sha256::digest(fs::read(fixture(name)).unwrap()));
    let (first, second) = (digest("good"), digest("good_v2"));
    let settings = skydock_egress::Settings::default();
    let gateway = Gateway::new(
        "test",
        &settings,
        skydock_egress::GatewayDependencies::default(),
    );
    let gateways = Arc::new(For(
        Arc::new(gateway.unwrap()),
        Mutex::new(vec![first.clone()]),
    ));
    let bench = Bench::with_gateways("good", gateways.clone()).await;
    bench.replace("good_v2");
    let error = bench.plugin.reload().await.unwrap_err();
    assert_eq!(error.stage, Stage::Egress);
    assert_eq!(
        error.to_string(),
        format!(
            "it could not use the egress rules `api`, which the plugin in service uses, because the credentials `token` are not \
             for it: add sha256:{second} to `for.digest` of these credentials"
        )
    );
    assert_eq!(bench.plugin.generation().number, 1);
    // What the plugin in service cannot use either is nothing that is lost.
    gateways.1.lock().unwrap().clear();
    assert!(bench.plugin.reload().await.is_ok());
    *gateways.1.lock().unwrap() = vec![first, second];
    bench.replace("good");
    assert!(matches!(
        bench.plugin.reload().await,
        Ok(Reload::Swapped(_))
    ));
}
