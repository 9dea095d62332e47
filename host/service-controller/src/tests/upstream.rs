//! The assertions of upstream's own tests of the whole controller.

use super::*;

// Holds: S-06, S-13, S-20, S-30
#[tokio::test(start_paused = true)]
async fn upstreams_cases_of_one_sync() {
    let (finalizer, deleting) = (
        json!({"metadata": {"finalizers": [FINALIZER]}}),
        json!({"metadata": {"finalizers": [FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    );
    let protocol = |protocol: &str| json!({"spec": {"ports": [{"port": 80, "nodePort": 30080, "protocol": protocol}]}});
    let no_longer = with::<Value>(&finalizer, &json!({"spec": {"type": "ClusterIP"}}));
    let ensured: &[&str] = &["ensure web n1"];
    for (what, change, calls, patches) in [
        (
            "ClusterIP",
            json!({"spec": {"type": "ClusterIP"}}),
            &[][..],
            0,
        ),
        ("UDP", protocol("UDP"), ensured, 2),
        ("TCP", protocol("TCP"), ensured, 2),
        ("SCTP", protocol("SCTP"), ensured, 2),
        (
            "of a class",
            json!({"spec": {"loadBalancerClass": "x.io/y"}}),
            &[],
            0,
        ),
        (
            "no longer wanted",
            no_longer,
            &["get web", "delete web uid-web"],
            1,
        ),
        ("deleted", deleting, &["get web", "delete web uid-web"], 1),
        ("with finalizer", finalizer, ensured, 1),
    ] {
        let bench = bench();
        bench.has_node(plain_node("n1")).await;
        bench.has(with(&service("web"), &change)).await;
        assert_eq!(bench.calls(), calls, "{what}");
        assert_eq!(bench.api.calls().len(), patches, "{what}");
    }
}

// Holds: S-27, S-28, S-35
#[tokio::test(start_paused = true)]
async fn the_status_is_written_only_if_it_differs() {
    let none = LoadBalancerStatus::default();
    let some = LoadBalancerStatus {
        ingress: vec![Ingress {
            ip: Some("192.0.2.1".into()),
            ..Ingress::default()
        }],
    };
    let without = with(&served("2"), &json!({"status": null}));
    for (what, service, answer, written) in [
        ("the same", served("2"), some.clone(), None),
        (
            "a new one",
            without.clone(),
            some,
            Some(json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}})),
        ),
        ("still none", without, none.clone(), None),
        (
            "none any more",
            served("2"),
            none,
            Some(json!({"loadBalancer": {"ingress": null}})),
        ),
    ] {
        let bench = bench();
        bench.cloud.ensure.lock().unwrap().push_back(Ok(answer));
        bench.has(service).await;
        let requests = bench.api.requests();
        let patches: Vec<_> = requests
            .iter()
            .filter(|request| request.method == "PATCH")
            .collect();
        assert_eq!(
            patches.first().map(|patch| &patch.body["status"]),
            written.as_ref(),
            "{what}"
        );
        assert!(
            patches.len() <= 1 && patches.iter().all(|patch| patch.body.get("spec").is_none()),
            "{what}"
        );
    }
}

/// The cloud returns the original status before the cache contains the one that was written.
#[tokio::test(start_paused = true)]
async fn a_status_is_compared_with_the_last_written_one() {
    let bench = bench();
    bench.serves().await;
    bench.api.forget();
    let other = LoadBalancerStatus {
        ingress: vec![Ingress {
            ip: Some("192.0.2.9".into()),
            ..Ingress::default()
        }],
    };
    bench.cloud.ensure.lock().unwrap().push_back(Ok(other));
    bench.has(changed(&served("3"), "3")).await;
    bench.has(changed(&served("4"), "4")).await;
    let patches: Vec<_> = bench
        .api
        .requests()
        .into_iter()
        .filter(|request| request.path == STATUS_PATH)
        .collect();
    let written = |ip: &str| json!({"loadBalancer": {"ingress": [{"ip": ip}]}});
    let written = [written("192.0.2.9"), written("192.0.2.1")];
    assert_eq!(
        patches
            .iter()
            .map(|patch| patch.body["status"].clone())
            .collect::<Vec<_>>(),
        written
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_missing_from_the_cache_is_cleared_too() {
    let bench = bench();
    bench.has_node(plain_node("n1")).await;
    bench.has(service("web")).await;
    bench.api.forget();
    let of = json!({"metadata": {"resourceVersion": "3", "finalizers": [FINALIZER]}, "spec": {"type": "ClusterIP"}});
    bench.has(with(&service("web"), &of)).await;
    let emptied = json!({"loadBalancer": {"ingress": null}});
    assert!(
        bench
            .api
            .requests()
            .iter()
            .any(|request| request.body["status"] == emptied),
        "{:?}",
        bench.api.calls()
    );
}

// Holds: S-02
#[tokio::test(start_paused = true)]
async fn there_are_two_queues_with_upstreams_names() {
    let bench = bench();
    bench.serves().await;
    for name in ["service", "node"] {
        let adds = bench.metric(&format!("workqueue_adds_total{{name=\"{name}\"}}"));
        assert!(adds.len() == 1 && !adds[0].ends_with(" 0"), "{adds:?}");
    }
}

// Holds: S-02
#[tokio::test(start_paused = true)]
async fn both_queues_back_off_from_5_to_300_seconds() {
    for way in ["ensure", "update"] {
        let bench = bench();
        bench.serves().await;
        if way == "update" {
            // Otherwise a failed update is left to the other queue.
            bench
                .cloud
                .ensure
                .lock()
                .unwrap()
                .push_back(Err(CloudError::Invalid("no such size".into())));
            bench.has(changed(&served("3"), "3")).await;
            bench.calls();
        }
        bench.cloud.times.lock().unwrap().clear();
        let denied = || CloudError::Denied("no".into());
        bench
            .cloud
            .ensure
            .lock()
            .unwrap()
            .extend(std::iter::repeat_with(|| Err(denied())).take(9));
        bench
            .cloud
            .update
            .lock()
            .unwrap()
            .extend(std::iter::repeat_with(|| Err(denied())).take(9));
        match way {
            "ensure" => bench.has(changed(&served("4"), "4")).await,
            _ => bench.has_node(plain_node("n2")).await,
        }
        sleep(Duration::from_secs(1000)).await;
        let calls = bench
            .calls()
            .into_iter()
            .zip(bench.cloud.times.lock().unwrap().clone());
        let times: Vec<_> = calls
            .filter(|(call, _)| call.starts_with(way))
            .map(|(_, at)| at)
            .collect();
        let waits: Vec<_> = times
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).as_secs())
            .collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300], "{way}");
    }
}

// Holds: S-42
#[tokio::test(start_paused = true)]
async fn there_is_one_call_for_a_service_at_a_time() {
    let bench = bench();
    bench.serves().await;
    bench.cloud.ensure_takes(Duration::from_secs(10));
    bench.has(changed(&served("3"), "3")).await;
    bench.has_node(plain_node("n2")).await;
    bench.controller.recheck();
    sleep(Duration::from_secs(9)).await;
    assert_eq!(bench.calls(), ["ensure web n1"]);

    sleep(Duration::from_secs(20)).await;
    let mut calls = bench.calls();
    assert_eq!(calls.pop().as_deref(), Some("ensure web n1,n2"));
    assert!(
        calls.is_empty() || calls == ["update web n1,n2"],
        "{calls:?}"
    );

    // Nor is it deleted or ensured while its nodes are updated.
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    *bench.cloud.gate.lock().unwrap() = Some(Arc::clone(&gate));
    bench.has_node(plain_node("n3")).await;
    bench.has(changed(&served("5"), "5")).await;
    bench.has(deleted("6")).await;
    bench.controller.services.delete("ns/web");
    wait().await;
    assert_eq!(bench.calls(), ["update web n1,n2,n3"]);

    gate.add_permits(100);
    wait().await;
    assert_eq!(bench.calls(), ["delete web uid-web"]);
}

// Holds: S-03
#[tokio::test(start_paused = true)]
async fn concurrent_syncs_are_limited_as_configured() {
    let bench = bench();
    bench.cloud.ensure_takes(Duration::from_secs(1));
    for n in 0..10 {
        let name = json!({"metadata": {"name": format!("s{n}"), "uid": format!("uid-{n}")}});
        bench
            .controller
            .services
            .apply(with(&service("web"), &name));
    }
    wait().await;
    assert_eq!(bench.calls().len(), 4);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.calls().len(), 4);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.calls().len(), 2);
}

// Holds: S-07, S-08
#[tokio::test(start_paused = true)]
async fn new_services_are_synced_and_later_only_relevant_changes() {
    let bench = bench();
    bench.has_node(plain_node("n1")).await;
    bench.has(service("web")).await;
    assert_eq!(bench.calls(), ["ensure web n1"]);

    bench
        .has(with(
            &served("2"),
            &json!({"metadata": {"labels": {"a": "b"}}}),
        ))
        .await;
    assert_eq!(bench.calls(), Vec::<String>::new());

    bench.has(changed(&served("3"), "3")).await;
    assert_eq!(bench.calls(), ["ensure web n1"]);
    bench.has(deleted("4")).await;
    assert_eq!(bench.calls(), ["get web", "delete web uid-web"]);

    // This one is being deleted when it is first seen.
    let leaving = json!({"metadata": {"name": "old", "uid": "uid-old"}});
    bench.has(with(&deleted("1"), &leaving)).await;
    assert_eq!(bench.calls(), ["get old", "delete old uid-old"]);
}

fn of_class(version: &str, class: &str) -> Service {
    with(
        &served(version),
        &json!({"spec": {"loadBalancerClass": class}}),
    )
}

// Holds: S-37
#[tokio::test(start_paused = true)]
async fn a_service_given_a_foreign_class_loses_its_load_balancer() {
    let bench = bench();
    bench.serves().await;
    bench.has(of_class("3", "x.io/y")).await;
    assert_eq!(bench.calls(), ["get web", "delete web uid-web"]);
    assert_eq!(bench.controller.known.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn only_services_of_served_classes_are_handled() {
    let finalizer_only = json!({"status": null});
    for (unnamed, class, served) in [
        (true, None, true),
        (true, Some("a.io/b"), true),
        (true, Some("x.io/y"), false),
        (false, None, false),
        (false, Some("a.io/b"), true),
    ] {
        let classes = Classes {
            named: ["a.io/b".to_owned()].into(),
            unnamed,
        };
        let bench = bench_with(ServiceOptions {
            classes,
            ..ServiceOptions::default()
        });
        bench.has_node(plain_node("n1")).await;
        let service = class.map_or_else(|| super::served("2"), |class| of_class("2", class));
        bench.has(with(&service, &finalizer_only)).await;
        assert_eq!(
            bench.calls().len(),
            usize::from(served),
            "{class:?}, unnamed {unnamed}"
        );
        // Other implementations clean up after themselves.
        let leaving = json!({"metadata": {"resourceVersion": "3", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        bench.has(with(&service, &leaving)).await;
        assert_eq!(
            bench.calls().is_empty(),
            !served,
            "{class:?}, unnamed {unnamed}"
        );
    }
}

/// Starts a controller that serves these classes, with this existing Service.
async fn restarted_for(named: &[&str], unnamed: bool, service: &Service) -> Bench {
    let classes = Classes {
        named: named.iter().map(|class| (*class).into()).collect(),
        unnamed,
    };
    let options = ServiceOptions {
        classes,
        ..ServiceOptions::default()
    };
    let bench = bench_where(options, &[plain_node("n1")], std::slice::from_ref(service));
    wait().await;
    bench
}

// Holds: S-06, S-20, S-36
#[tokio::test(start_paused = true)]
async fn a_named_class_is_cleaned_up_after_a_type_change_and_restart() {
    let named = with(
        &service("web"),
        &json!({"spec": {"loadBalancerClass": "a.io/x"}}),
    );
    let bench = restarted_for(&["a.io/x"], false, &named).await;
    assert_eq!(bench.calls(), ["ensure web n1"]);
    let annotation = json!({"service.skydock.dev/load-balancer-class": "a.io/x@uid-web"});
    let first = bench
        .api
        .requests()
        .into_iter()
        .find(|request| request.method == "PATCH")
        .unwrap();
    let expected = json!({"metadata": {"uid": "uid-web", "finalizers": [FINALIZER], "annotations": annotation}});
    assert_eq!(
        first.body, expected,
        "with the finalizer, so that there is never the one without the other"
    );

    // The API server drops the class when the type changes.
    let dropped = with(
        &served("3"),
        &json!({"metadata": {"annotations": annotation}, "spec": {"type": "ClusterIP"}}),
    );
    for (named, unnamed, calls) in [
        (
            &["a.io/x"][..],
            false,
            &["get web", "delete web uid-web"][..],
        ),
        (&["a.io/y"], false, &[]),
        (&["a.io/y"], true, &[]),
        (&[], true, &[]),
    ] {
        for deleted in [
            json!({}),
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ] {
            let bench = restarted_for(named, unnamed, &with(&dropped, &deleted)).await;
            assert_eq!(bench.calls(), calls, "{named:?} {unnamed}");
            let patches = bench
                .api
                .requests()
                .into_iter()
                .filter(|request| request.method == "PATCH");
            let patches: Vec<_> = patches.map(|request| request.body).collect();
            assert_eq!(
                patches.is_empty(),
                calls.is_empty(),
                "the finalizer of others stays: {patches:?}"
            );
            if let Some(patch) = patches.first() {
                let gone = json!({"service.skydock.dev/load-balancer-class": null});
                assert_eq!(patch["metadata"]["annotations"], gone);
                assert_eq!(
                    patch["metadata"]["$deleteFromPrimitiveList/finalizers"],
                    json!([FINALIZER])
                );
            }
        }
    }
}

// Holds: S-37
#[tokio::test(start_paused = true)]
async fn a_class_that_moves_to_another_host_keeps_its_finalizer() {
    let annotation = json!({"service.skydock.dev/load-balancer-class": "a.io/x@uid-web"});
    let moved = with(
        &of_class("3", "a.io/y"),
        &json!({"metadata": {"annotations": annotation}}),
    );
    let new = restarted_for(&["a.io/y"], false, &moved).await;
    assert_eq!(new.calls(), ["ensure web n1"]);
    assert_eq!(
        new.api.calls(),
        Vec::<String>::new(),
        "the annotation of the host before stays until that has cleaned up"
    );

    let old = restarted_for(&["a.io/x"], false, &moved).await;
    assert_eq!(old.calls(), ["get web", "delete web uid-web"]);
    // The new host restores what the old one has removed.
    let taken = with(
        &of_class("4", "a.io/y"),
        &json!({"metadata": {"finalizers": null}}),
    );
    new.has(taken).await;
    assert_eq!(new.calls(), ["ensure web n1"]);

    let patch = new
        .api
        .requests()
        .into_iter()
        .find(|request| request.method == "PATCH")
        .unwrap()
        .body;
    assert_eq!(patch["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(
        patch["metadata"]["annotations"],
        json!({"service.skydock.dev/load-balancer-class": "a.io/y@uid-web"})
    );
}
