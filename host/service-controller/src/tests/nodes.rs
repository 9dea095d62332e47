//! Tests of changes of nodes.

use super::*;

// Holds: S-46, S-48, S-49
#[tokio::test(start_paused = true)]
async fn many_node_changes_are_one_pass_and_equal_sets_need_no_call() {
    let bench = bench();
    bench.serves().await;
    for name in ["n2", "n3", "n4"] {
        bench.controller.context.nodes.apply(plain_node(name));
        sleep(Duration::from_millis(30)).await;
    }
    wait().await;
    assert_eq!(bench.calls(), ["update web n1,n2,n3,n4"]);
    assert_eq!(bench.reasons().last().unwrap(), "UpdatedLoadBalancer");
    bench
        .controller
        .node_queue
        .add(NodeWork::Pass, Priority::Change);
    wait().await;
    assert_eq!(bench.calls(), Vec::<String>::new());
    bench
        .has_node(with(
            &plain_node("n2"),
            &json!({
                "metadata": {"resourceVersion": "2"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]},
            }),
        ))
        .await;
    assert_eq!(bench.calls(), Vec::<String>::new());
    for name in ["n1", "n2", "n3", "n4"] {
        bench.controller.context.nodes.delete(name);
    }
    wait().await;
    assert_eq!(bench.calls(), ["update web "]);
    assert_eq!(bench.reasons().last().unwrap(), "UnAvailableLoadBalancer");
}

// Holds: S-45
#[tokio::test(start_paused = true)]
async fn load_balancers_follow_what_the_provider_looks_at() {
    let bench = bench();
    bench.serves().await;
    let change = async |version: &str, change: Value| {
        let version = json!({"metadata": {"resourceVersion": version}});
        let node = with(&with(&plain_node("n1"), &version), &change);
        bench.has_node(node).await;
        bench.calls()
    };

    let moved = json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.77"}]}});
    assert_eq!(change("2", moved.clone()).await, ["update web n1"]);

    let labeled = with(&moved, &json!({"metadata": {"labels": {"pool": "edge"}}}));
    assert_eq!(change("3", labeled.clone()).await, [""; 0]);

    // It reads labels from the next call on.
    *bench.cloud.node_fields.lock().unwrap() = NodeFields::All;
    bench.has_node(plain_node("n2")).await;
    assert_eq!(bench.calls(), ["update web n1,n2"]);

    wait().await;
    assert_eq!(bench.calls(), [""; 0], "the labels were those of that call");
    assert_eq!(change("4", moved.clone()).await, ["update web n1,n2"]);

    let annotated = with(&moved, &json!({"metadata": {"annotations": {"x": "y"}}}));
    assert_eq!(change("5", annotated).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_changes_all_the_time_causes_few_updates() {
    let bench = bench();
    bench.serves().await;
    for number in 0..600 {
        let address = json!([{"type": "InternalIP", "address": format!("10.0.{}.{}", number / 250, number % 250)}]);
        let change = json!({
            "metadata": {"resourceVersion": (number + 2).to_string()}, "status": {"addresses": address},
        });
        let node = with(&plain_node("n1"), &change);
        bench.controller.context.nodes.apply(node);
        sleep(Duration::from_millis(100)).await;
    }
    let calls = bench.calls().len();
    assert!((25..=35).contains(&calls), "{calls} updates in a minute");
    sleep(Duration::from_secs(6)).await;
    assert_eq!(bench.calls(), ["update web n1"], "the last one is not lost");
}

// Holds: S-50, S-51
#[tokio::test(start_paused = true)]
async fn a_failed_update_gets_an_event_and_an_immediate_ensure() {
    let bench = bench();
    bench.serves().await;
    bench
        .cloud
        .update
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Unavailable("down".into())));

    bench.has_node(plain_node("n2")).await;
    assert_eq!(
        bench.calls(),
        ["update web n1,n2", "get web", "ensure web n1,n2"]
    );

    let failed = bench
        .events()
        .into_iter()
        .find(|(reason, _)| reason == "UpdateLoadBalancerFailed")
        .unwrap();
    assert_eq!(
        failed.1,
        "Error updating load balancer with new hosts [n1 n2] [node names limited, total number of nodes: 2], error: unavailable: down"
    );
}

// Holds: S-50
#[tokio::test(start_paused = true)]
async fn a_missing_load_balancer_gets_no_failed_update_event() {
    let none = [Ok(None), Err(CloudError::NotFound("none".into()))];
    let some = [
        Ok(Some(LoadBalancerStatus::default())),
        Err(CloudError::Internal("who knows".into())),
    ];
    for (answer, reported) in none
        .map(|it| (it, 0))
        .into_iter()
        .chain(some.map(|it| (it, 1)))
    {
        let bench = bench();
        bench.serves().await;
        bench
            .cloud
            .update
            .lock()
            .unwrap()
            .push_back(Err(CloudError::Unavailable("down".into())));
        bench.cloud.get.lock().unwrap().push_back(answer.clone());
        bench.has_node(plain_node("n2")).await;
        let failed = bench
            .reasons()
            .into_iter()
            .filter(|reason| reason == "UpdateLoadBalancerFailed")
            .count();
        assert_eq!(failed, reported, "{answer:?}");
    }
}

// Holds: S-53
#[tokio::test(start_paused = true)]
async fn ensuring_during_a_slow_pass_uses_the_current_nodes() {
    let bench = bench();
    bench.serves().await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    *bench.cloud.gate.lock().unwrap() = Some(Arc::clone(&gate));
    bench.has_node(plain_node("n2")).await;
    bench.has_node(plain_node("n3")).await;
    bench.has(service("other")).await;
    assert_eq!(bench.calls(), ["update web n1,n2", "ensure other n1,n2,n3"]);
    // The same Service waits for its own update, and is then ensured with the current nodes.
    bench.has(changed(&served("7"), "7")).await;
    assert_eq!(bench.calls(), Vec::<String>::new());
    gate.add_permits(100);
    wait().await;
    let calls = bench.calls();
    assert!(
        calls.iter().all(|call| call.ends_with("web n1,n2,n3")),
        "{calls:?}"
    );
    assert_eq!(calls.last().unwrap(), "ensure web n1,n2,n3");
}

// Holds: S-16, S-46
#[tokio::test(start_paused = true)]
async fn nodes_are_updated_if_the_last_change_was_rejected() {
    let bench = bench();
    bench.serves().await;
    bench
        .cloud
        .ensure
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Invalid("no such size".into())));

    bench.has(changed(&served("3"), "3")).await;
    assert_eq!(bench.calls(), ["ensure web n1"]);

    bench.has_node(plain_node("n2")).await;
    assert_eq!(bench.calls(), ["update web n1,n2"]);
    bench
        .controller
        .node_queue
        .add(NodeWork::Pass, Priority::Change);
    wait().await;
    assert_eq!(bench.calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_failed_node_update_of_a_rejected_service_is_retried() {
    let bench = bench();
    bench.serves().await;
    bench
        .cloud
        .ensure
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Invalid("no such size".into())));
    bench.has(changed(&served("3"), "3")).await;
    bench.calls();
    bench
        .cloud
        .update
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Unavailable("down".into())));

    bench.has_node(plain_node("n2")).await;
    assert_eq!(bench.calls(), ["update web n1,n2", "get web"]);

    sleep(Duration::from_secs(5)).await;
    assert_eq!(bench.calls(), ["update web n1,n2"]);
    sleep(Duration::from_secs(1700)).await;
    assert_eq!(bench.calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn node_changes_do_not_ensure_a_rejected_service() {
    let bench = bench();
    bench
        .cloud
        .ensure
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Invalid("no UDP".into())));
    bench
        .cloud
        .update
        .lock()
        .unwrap()
        .push_back(Err(CloudError::NotFound("none".into())));
    bench.has(service("web")).await;

    bench.has_node(plain_node("n1")).await;
    assert_eq!(bench.calls(), ["ensure web ", "update web n1"]);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_service_gets_nodes_with_its_last_valid_spec() {
    let bench = bench();
    bench.has_node(plain_node("n1")).await;
    let open = with(
        &served("2"),
        &json!({"spec": {"loadBalancerSourceRanges": ["10.0.0.0/8"]}}),
    );
    bench.has(open).await;
    bench.has(invalid("3")).await;
    bench
        .cloud
        .update
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Unavailable("down".into())));
    bench.has_node(plain_node("n2")).await;

    sleep(Duration::from_secs(5)).await;
    assert_eq!(
        bench.calls(),
        [
            "ensure web n1",
            "update web n1,n2",
            "get web",
            "update web n1,n2"
        ]
    );
    assert_eq!(
        *bench.cloud.source_ranges.lock().unwrap(),
        [["10.0.0.0/8"], ["10.0.0.0/8"]]
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_was_never_valid_gets_no_node_updates() {
    let bench = bench();
    bench.has(invalid("2")).await;
    bench.has_node(plain_node("n1")).await;
    assert_eq!(bench.calls(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn node_updates_are_computed_on_two_threads_at_a_time() {
    let names = ["web", "other"].map(|name| served_as(name, &json!({})));
    let bench = bench_where(ServiceOptions::default(), &[plain_node("n1")], &names);
    while bench.cloud.calls().len() < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    let meeting = bench.cloud.meets("update");
    bench.controller.context.nodes.apply(plain_node("n2"));
    assert!(meeting.took_place().await, "{:?}", bench.calls());
}

/// Returns a Service with this name that has a load balancer.
fn served_as(name: &str, change: &Value) -> Service {
    with(
        &with(
            &served("2"),
            &json!({"metadata": {"name": name, "uid": format!("uid-{name}")}}),
        ),
        change,
    )
}

/// Creates a controller with these Services, which have a load balancer with node n1, as after a
/// start.
async fn serving(options: ServiceOptions, services: &[Service]) -> Bench {
    let bench = bench_where(options, &[plain_node("n1")], services);
    sleep(Duration::from_secs(10)).await;
    bench.calls();
    bench
}

fn sorted(mut calls: Vec<String>) -> Vec<String> {
    calls.sort();
    calls
}

// Holds: S-46
#[tokio::test(start_paused = true)]
async fn a_pass_updates_each_load_balancer_once_and_nothing_else() {
    let (lb, other) = (
        json!({}),
        json!({"spec": {"type": "NodePort"}, "metadata": {"finalizers": null}}),
    );
    for (kinds, updates) in [
        (vec![], 0),
        (vec![&other, &other], 0),
        (vec![&lb], 1),
        (vec![&lb, &lb, &lb], 3),
        (vec![&lb, &other, &lb, &other], 2),
        (vec![&lb, &lb, &lb, &lb], 4),
    ] {
        let services: Vec<_> = kinds
            .iter()
            .enumerate()
            .map(|(n, kind)| served_as(&format!("s{n}"), kind))
            .collect();
        let bench = serving(
            ServiceOptions {
                concurrent_syncs: 2,
                ..ServiceOptions::default()
            },
            &services,
        )
        .await;
        bench.has_node(plain_node("n2")).await;
        let expected: Vec<_> = kinds
            .iter()
            .enumerate()
            .filter(|(_, kind)| **kind == &lb)
            .map(|(n, _)| format!("update s{n} n1,n2"))
            .collect();
        assert_eq!(sorted(bench.calls()).len(), updates);
        bench.has_node(with(&plain_node("n3"), &json!({}))).await;
        let expected: Vec<_> = expected.iter().map(|call| format!("{call},n3")).collect();
        assert_eq!(sorted(bench.calls()), expected, "each with all nodes");
    }
}

// Holds: S-45, S-47, S-48, S-55, S-58, S-59
#[tokio::test(start_paused = true)]
async fn only_relevant_node_changes_update_load_balancers() {
    let ready =
        |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    let taint = |key: &str| json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}});
    let excluded = json!({"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": "true"}}});
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    for (what, change, nodes) in [
        ("nothing", json!({}), None),
        ("not ready", ready("False"), None),
        ("ready", ready("True"), None),
        ("another taint", taint("x"), None),
        (
            "the taint of a candidate",
            taint("DeletionCandidateOfClusterAutoscaler"),
            None,
        ),
        ("cordoned", json!({"spec": {"unschedulable": true}}), None),
        (
            "another label",
            json!({"metadata": {"labels": {"pool": "x"}}}),
            None,
        ),
        (
            "the autoscaler's taint",
            taint("ToBeDeletedByClusterAutoscaler"),
            Some("n1"),
        ),
        ("excluded", excluded, Some("n1")),
        ("being deleted", leaving, Some("n1")),
        (
            "another machine",
            json!({"spec": {"providerID": "fake://other"}}),
            Some("n1,n2"),
        ),
    ] {
        let local = json!({"spec": {"externalTrafficPolicy": "Local"}});
        let services = [
            served_as("a", &local),
            served_as("b", &local),
            served_as("c", &json!({})),
        ];
        let bench = serving(ServiceOptions::default(), &services).await;
        bench.has_node(plain_node("n2")).await;
        assert_eq!(bench.calls().len(), 3, "added");
        let version = json!({"metadata": {"resourceVersion": "2"}});
        bench
            .has_node(with(&with(&plain_node("n2"), &version), &change))
            .await;
        let expected: Vec<_> = nodes
            .iter()
            .flat_map(|nodes| ["a", "b", "c"].map(|name| format!("update {name} {nodes}")))
            .collect();
        assert_eq!(sorted(bench.calls()), expected, "{what}");
    }
}

// Holds: S-48
#[tokio::test(start_paused = true)]
async fn a_growing_node_set_is_one_call_per_service_and_step() {
    let names = ["a", "b", "c", "d"];
    let bench = serving(
        ServiceOptions::default(),
        &names.map(|name| served_as(name, &json!({}))),
    )
    .await;
    for (added, all) in [(vec!["n2"], "n1,n2"), (vec!["n3", "n4"], "n1,n2,n3,n4")] {
        added
            .iter()
            .for_each(|name| drop(bench.controller.context.nodes.apply(plain_node(name))));
        wait().await;
        assert_eq!(
            sorted(bench.calls()),
            names.map(|name| format!("update {name} {all}"))
        );
    }
    assert_eq!(
        bench.metric("service_controller_loadbalancer_sync_total"),
        ["service_controller_loadbalancer_sync_total 8"]
    );

    let passes = bench.metric("service_controller_nodesync_latency_seconds_count");
    assert_eq!(
        passes,
        ["service_controller_nodesync_latency_seconds_count 3"],
        "the first found nothing to do"
    );
}

// Holds: S-40
#[tokio::test(start_paused = true)]
async fn node_changes_do_not_hurry_a_deletion_that_keeps_failing() {
    let recreated = with(
        &service("web"),
        &json!({"metadata": {"uid": "uid-new", "resourceVersion": "9"}}),
    );
    // The Service has disappeared, was recreated, or is being deleted.
    for change in [None, Some(recreated), Some(deleted("3"))] {
        let bench = bench();
        bench.serves().await;
        let denied = || Err(CloudError::Denied("no".into()));
        bench
            .cloud
            .delete
            .lock()
            .unwrap()
            .extend(std::iter::repeat_with(denied).take(1000));
        match change {
            None => bench.controller.services.delete("ns/web"),
            Some(change) => drop(bench.controller.services.apply(change)),
        }
        sleep(Duration::from_secs(400)).await;
        bench.calls();
        for n in 0..60 {
            bench
                .controller
                .context
                .nodes
                .apply(plain_node(&format!("x{n}")));
            sleep(Duration::from_secs(2)).await;
        }
        let calls = bench.calls();
        assert!(
            calls.len() <= 1,
            "{} calls in 120 s: {:?}",
            calls.len(),
            &calls[..2]
        );
    }
}

// Holds: S-46
#[tokio::test(start_paused = true)]
async fn a_service_wanted_again_during_its_deletion_gets_all_nodes() {
    let bench = bench();
    bench.serves().await;
    bench
        .cloud
        .delete
        .lock()
        .unwrap()
        .push_back(Err(CloudError::InProgress(retry_after(60))));
    bench
        .has(with(&served("3"), &json!({"spec": {"type": "ClusterIP"}})))
        .await;
    bench.has_node(plain_node("n2")).await;
    assert_eq!(bench.calls(), ["get web", "delete web uid-web"]);
    bench.has(served("4")).await;
    assert_eq!(bench.calls(), ["ensure web n1,n2"]);
}

// Holds: S-51
#[tokio::test(start_paused = true)]
async fn a_delay_that_an_update_asks_for_holds_for_all_nodes() {
    for error in [
        CloudError::Throttled(retry_after(600)),
        CloudError::InProgress(retry_after(600)),
    ] {
        for rejected in [false, true] {
            let bench = bench();
            bench.serves().await;
            if rejected {
                bench
                    .cloud
                    .ensure
                    .lock()
                    .unwrap()
                    .push_back(Err(CloudError::Invalid("no such size".into())));
                bench.has(changed(&served("3"), "3")).await;
                bench.calls();
            }
            bench
                .cloud
                .update
                .lock()
                .unwrap()
                .push_back(Err(error.clone()));
            let gate = Arc::new(tokio::sync::Semaphore::new(0));
            *bench.cloud.gate.lock().unwrap() = Some(Arc::clone(&gate));
            bench.has_node(plain_node("n2")).await;
            // Also a change during the call.
            bench.has_node(plain_node("n3")).await;
            gate.add_permits(100);
            wait().await;
            assert_eq!(bench.calls(), ["update web n1,n2"], "{error}");
            let reported = matches!(error, CloudError::Throttled(_));
            assert_eq!(
                bench
                    .reasons()
                    .contains(&"UpdateLoadBalancerFailed".to_owned()),
                reported,
                "{error}"
            );
            for n in 0..30 {
                bench
                    .controller
                    .context
                    .nodes
                    .apply(plain_node(&format!("x{n}")));
                sleep(Duration::from_secs(2)).await;
                bench.controller.context.nodes.delete(&format!("x{n}"));
                sleep(Duration::from_secs(2)).await;
            }
            sleep(Duration::from_secs(479)).await;
            assert_eq!(bench.calls(), Vec::<String>::new(), "{error}");
            sleep(Duration::from_secs(2)).await;
            let way = if rejected { "update" } else { "ensure" };
            assert_eq!(bench.calls(), [format!("{way} web n1,n2,n3")], "{error}");
        }
    }
}

// Holds: S-51
#[tokio::test(start_paused = true)]
async fn a_failed_ensure_does_not_shorten_the_delay_of_an_update() {
    let bench = bench();
    bench.serves().await;
    bench
        .cloud
        .update
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Throttled(retry_after(600))));
    bench.has_node(plain_node("n2")).await;
    bench
        .cloud
        .ensure
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Invalid("no such size".into())));

    bench.has(changed(&served("3"), "3")).await;
    assert_eq!(bench.calls(), ["update web n1,n2", "ensure web n1,n2"]);

    sleep(Duration::from_secs(598)).await;
    assert_eq!(bench.calls(), Vec::<String>::new());
    sleep(Duration::from_secs(4)).await;
    assert!(with_nodes(&bench.calls(), "n1,n2"));
}

// Holds: S-38, S-54
#[tokio::test(start_paused = true)]
async fn the_backoff_of_node_updates_ends_with_what_caused_it() {
    for ends in ["ensured", "deleted", "disappeared", "recreated"] {
        let bench = bench();
        bench.serves().await;
        for round in ["1", "2"] {
            let uid = if ends == "recreated" {
                format!("uid-{round}")
            } else {
                "uid-web".to_owned()
            };
            let version = |version: &str, change: &Value| {
                let version = format!("{round}{version}");
                let own = json!({"metadata": {"uid": uid, "annotations": {"version": version}, "resourceVersion": version}});
                with(&with(&served("1"), &own), change)
            };
            bench.has(version("0", &json!({}))).await;
            // Its nodes cannot be updated, and it is rejected: ensuring it would not help.
            bench
                .cloud
                .ensure
                .lock()
                .unwrap()
                .push_back(Err(CloudError::Invalid("no such size".into())));
            bench.has(version("1", &json!({}))).await;
            let down = || Err(CloudError::Unavailable("down".into()));
            bench
                .cloud
                .update
                .lock()
                .unwrap()
                .extend([down(), down(), down()]);
            bench.calls();
            bench.has_node(plain_node(&format!("{ends}{round}"))).await;
            assert_eq!(bench.calls().len(), 2, "{ends} {round}: update and get");
            sleep(Duration::from_secs(6)).await;
            assert_eq!(
                bench.calls().len(),
                2,
                "{ends} {round}: the first retry is after 5 s"
            );
            sleep(Duration::from_secs(10)).await;
            assert_eq!(
                bench.calls().len(),
                2,
                "{ends} {round}: and the second after 10 s"
            );
            match ends {
                "ensured" => bench.has(version("2", &json!({}))).await,
                "deleted" => {
                    let time = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
                    bench.has(version("2", &time)).await;
                }
                "disappeared" => bench.controller.services.delete("ns/web"),
                _ => {
                    // What was set aside does not matter either.
                    bench
                        .cloud
                        .delete
                        .lock()
                        .unwrap()
                        .push_back(Err(CloudError::Invalid("no".into())));
                }
            }
            sleep(Duration::from_secs(if ends == "recreated" {
                1
            } else {
                60
            }))
            .await;
        }
    }
}

// Holds: S-22
#[tokio::test(start_paused = true)]
async fn a_pass_does_not_resend_the_nodes_of_a_failed_call() {
    let bench = bench();
    bench.has_node(plain_node("n1")).await;
    bench
        .cloud
        .ensure
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Unavailable("down".into())));
    bench.has(service("web")).await;
    bench
        .controller
        .node_queue
        .add(NodeWork::Pass, Priority::Change);
    sleep(Duration::from_secs(4)).await;
    assert_eq!(bench.calls(), ["ensure web n1"]);
}

// Holds: S-03, S-46
#[tokio::test(start_paused = true)]
async fn within_a_pass_updates_are_parallel_and_bounded() {
    let services: Vec<_> = (0..10)
        .map(|n| served_as(&format!("s{n}"), &json!({})))
        .collect();
    let bench = serving(
        ServiceOptions {
            concurrent_syncs: 4,
            ..ServiceOptions::default()
        },
        &services,
    )
    .await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    *bench.cloud.gate.lock().unwrap() = Some(Arc::clone(&gate));

    bench.has_node(plain_node("n2")).await;
    assert_eq!(bench.calls().len(), 4);

    bench.has_node(plain_node("n3")).await;
    assert_eq!(bench.calls().len(), 0, "there is one pass at a time");
    *bench.cloud.gate.lock().unwrap() = None;
    gate.add_permits(100);
    wait().await;
    let calls = bench.calls();
    // Those that were updated late got both new nodes at once.
    assert_eq!(
        calls
            .iter()
            .filter(|call| call.ends_with("n1,n2,n3"))
            .count(),
        10
    );
    assert_eq!(calls.len(), 10);
}

// Holds: S-53
#[tokio::test(start_paused = true)]
async fn a_slow_pass_does_not_undo_a_concurrent_ensure() {
    let services = [served_as("a", &json!({})), served_as("b", &json!({}))];
    let bench = serving(
        ServiceOptions {
            concurrent_syncs: 1,
            ..ServiceOptions::default()
        },
        &services,
    )
    .await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    *bench.cloud.gate.lock().unwrap() = Some(Arc::clone(&gate));
    bench.has_node(plain_node("n2")).await;

    let stuck = bench.calls();
    let (slow, other) = if stuck == ["update a n1,n2"] {
        ("a", "b")
    } else {
        ("b", "a")
    };
    assert_eq!(stuck, [format!("update {slow} n1,n2")]);

    bench.has_node(plain_node("n3")).await;
    bench.has(changed(&served_as(other, &json!({})), "9")).await;
    assert_eq!(bench.calls(), [format!("ensure {other} n1,n2,n3")]);

    gate.add_permits(100);
    wait().await;
    assert_eq!(bench.calls(), [format!("update {slow} n1,n2,n3")]);
}

fn labeled(name: &str, version: &str, labels: &Value) -> Node {
    with(
        &plain_node(name),
        &json!({"metadata": {"resourceVersion": version, "labels": labels}}),
    )
}

fn choosing(version: &str, selector: &str) -> Service {
    let annotations = json!({"service.skydock.dev/node-selector": selector});
    with(
        &served(version),
        &json!({"metadata": {"annotations": annotations}}),
    )
}

#[tokio::test(start_paused = true)]
async fn a_service_chooses_its_nodes_by_a_selector() {
    let edge = json!({"pool": "edge"});
    let nodes = [
        labeled("n1", "1", &edge),
        labeled("n2", "1", &json!({"pool": "web"})),
    ];
    let services = [choosing("1", "pool=edge"), served_as("all", &json!({}))];
    let bench = bench_where(ServiceOptions::default(), &nodes, &services);
    wait().await;
    assert_eq!(sorted(bench.calls()), ["ensure all n1,n2", "ensure web n1"]);

    // A node gets the label, and another one loses it.
    bench.has_node(labeled("n2", "2", &edge)).await;
    assert_eq!(bench.calls(), ["update web n1,n2"]);

    bench
        .has_node(labeled("n1", "2", &json!({"pool": "db"})))
        .await;
    assert_eq!(bench.calls(), ["update web n2"]);

    // A label that no selector uses does not matter.
    bench
        .has_node(labeled("n1", "3", &json!({"pool": "db", "x": "y"})))
        .await;
    assert_eq!(bench.calls(), Vec::<String>::new());

    // The selector of the Service changes.
    bench.has(choosing("2", "!gpu")).await;
    assert_eq!(bench.calls(), ["ensure web n1,n2"]);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_selector_gets_an_event_and_keeps_the_settings() {
    let bench = bench();
    bench.serves().await;
    bench.has(choosing("3", "pool in edge")).await;
    assert_eq!(bench.calls(), Vec::<String>::new());

    let (reason, message) = bench.events().pop().unwrap();
    assert_eq!(reason, "SyncLoadBalancerFailed");
    assert!(
        message.contains("node-selector: \"pool in edge\" is not a valid label requirement"),
        "{message}"
    );

    // Its load balancer keeps its settings, but gets new nodes.
    bench.has_node(plain_node("n2")).await;
    assert_eq!(bench.calls(), ["update web n1,n2"]);

    bench
        .has(choosing("4", "kubernetes.io/hostname in (n2)"))
        .await;
    assert_eq!(bench.calls(), ["ensure web n2"]);
}

/// Starts a controller with these rules and one load balancer.
async fn ruled(nodes: NodeRules) -> Bench {
    let options = ServiceOptions {
        nodes,
        ..ServiceOptions::default()
    };
    serving(options, &[served("2")]).await
}

#[tokio::test(start_paused = true)]
async fn a_cordoned_node_is_removed_by_rule_and_added_again_later() {
    let bench = ruled(NodeRules {
        exclude_unschedulable: true,
        ..NodeRules::default()
    })
    .await;
    bench.has_node(plain_node("n2")).await;
    assert_eq!(bench.calls(), ["update web n1,n2"]);
    let version = |version: &str| json!({"metadata": {"resourceVersion": version}});
    let cordoned = with(&plain_node("n2"), &json!({"spec": {"unschedulable": true}}));
    bench.has_node(with(&cordoned, &version("2"))).await;
    assert_eq!(bench.calls(), ["update web n1"]);
    bench.has_node(with(&plain_node("n2"), &version("3"))).await;
    assert_eq!(bench.calls(), ["update web n1,n2"]);
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_node_is_excluded_by_rule() {
    let bench = ruled(NodeRules {
        exclude_control_plane: true,
        ..NodeRules::default()
    })
    .await;
    let master = json!({"node-role.kubernetes.io/control-plane": ""});
    bench.has_node(labeled("master", "1", &master)).await;
    assert_eq!(bench.calls(), Vec::<String>::new());
    bench.has_node(plain_node("n2")).await;
    assert_eq!(bench.calls(), ["update web n1,n2"]);
}

/// Makes each call of `ensure` fail with this error from now on.
fn fails_forever(bench: &Bench, error: &CloudError) {
    bench
        .cloud
        .ensure
        .lock()
        .unwrap()
        .extend(std::iter::repeat_n(Err(error.clone()), 10_000));
}

fn with_nodes(calls: &[String], nodes: &str) -> bool {
    calls
        .iter()
        .any(|call| call.ends_with(&format!("web {nodes}")))
}

/// Returns all errors but the one that says that another implementation owns the Service.
fn failures() -> impl Iterator<Item = CloudError> {
    skydock_controller_base::testing::every_error()
        .into_iter()
        .filter(|error| *error != CloudError::ImplementedElsewhere)
}

// Holds: S-16, S-46, S-47, S-48, S-49
#[tokio::test(start_paused = true)]
async fn nodes_are_updated_while_a_service_keeps_failing() {
    for error in failures() {
        let bench = bench();
        bench.serves().await;
        fails_forever(&bench, &error);
        bench.has(changed(&served("3"), "3")).await;
        for round in 0..2 {
            let (one, both) = (format!("n1,x{round}"), "n1".to_owned());
            bench.calls();
            bench
                .controller
                .context
                .nodes
                .apply(plain_node(&format!("x{round}")));
            sleep(Duration::from_secs(2)).await;
            assert!(
                bench.calls().contains(&format!("update web {one}")),
                "a node comes, {error}"
            );
            bench.controller.context.nodes.delete(&format!("x{round}"));
            sleep(Duration::from_secs(2)).await;
            assert!(
                bench.calls().contains(&format!("update web {both}")),
                "a node goes, {error}"
            );
            bench
                .controller
                .node_queue
                .add(NodeWork::Pass, Priority::Change);
            sleep(Duration::from_secs(1)).await;
            assert!(
                !bench.calls().iter().any(|call| call.starts_with("update")),
                "once each, {error}"
            );
            sleep(Duration::from_secs(600)).await;
        }
    }
}

// Holds: S-16, S-46
#[tokio::test(start_paused = true)]
async fn nodes_are_sent_although_ensure_has_never_succeeded() {
    for error in failures() {
        let bench = bench();
        bench.has_node(plain_node("n1")).await;
        fails_forever(&bench, &error);
        bench.has(service("web")).await;
        sleep(Duration::from_secs(600)).await;
        bench.calls();
        bench.controller.context.nodes.apply(plain_node("n2"));
        sleep(Duration::from_secs(2)).await;
        assert!(with_nodes(&bench.calls(), "n1,n2"), "{error}");
    }
}

// Holds: S-16, S-46
#[tokio::test(start_paused = true)]
async fn nodes_of_a_failed_ensure_are_sent_by_an_update() {
    for error in skydock_controller_base::testing::every_error() {
        let bench = bench();
        bench.serves().await;
        fails_forever(&bench, &error);
        // Both at once: the attempt to ensure is the first call with the new node.
        bench.controller.context.nodes.apply(plain_node("n2"));
        bench.controller.services.apply(changed(&served("3"), "3"));
        sleep(Duration::from_secs(2)).await;
        let calls = bench.calls();
        assert!(
            calls.contains(&"ensure web n1,n2".to_owned()),
            "{error}: {calls:?}"
        );
        assert_eq!(
            calls.contains(&"update web n1,n2".to_owned()),
            error != CloudError::ImplementedElsewhere,
            "{error}: {calls:?}"
        );
    }
}

// Holds: S-16, S-47, S-51
#[tokio::test(start_paused = true)]
async fn a_failed_node_update_is_retried_even_if_ensure_fails() {
    let bench = bench();
    bench.serves().await;
    fails_forever(&bench, &CloudError::Denied("no certificate".into()));
    bench.has(changed(&served("3"), "3")).await;
    (0..3).for_each(|_| {
        bench
            .cloud
            .update
            .lock()
            .unwrap()
            .push_back(Err(CloudError::Unavailable("down".into())));
    });
    bench.calls();
    bench.has_node(plain_node("n2")).await;
    sleep(Duration::from_secs(60)).await;
    let updates = bench
        .calls()
        .into_iter()
        .filter(|call| call.starts_with("update"))
        .collect::<Vec<_>>();
    assert_eq!(
        updates, ["update web n1,n2"; 4],
        "three that failed, and the one that did not"
    );
    assert_eq!(
        bench
            .reasons()
            .iter()
            .filter(|reason| *reason == "UpdatedLoadBalancer")
            .count(),
        1
    );
}

// Holds: S-16
#[tokio::test(start_paused = true)]
async fn nodes_reach_all_load_balancers_after_a_start_in_an_outage() {
    let services: Vec<_> = (0..50)
        .map(|n| served_as(&format!("s{n}"), &json!({})))
        .collect();
    let bench = bench_where(ServiceOptions::default(), &[plain_node("n1")], &services);
    fails_forever(&bench, &CloudError::Unavailable("down".into()));
    sleep(Duration::from_secs(120)).await;
    bench.calls();
    bench.controller.context.nodes.apply(plain_node("n2"));
    sleep(Duration::from_secs(2)).await;
    let calls = bench.calls();
    for n in 0..50 {
        assert!(
            calls.contains(&format!("update s{n} n1,n2")),
            "{n}: {calls:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_vanished_load_balancer_is_not_recreated_in_a_loop() {
    let bench = bench();
    bench.serves().await;
    fails_forever(&bench, &CloudError::NotFound("no such network".into()));
    bench.has(changed(&served("3"), "3")).await;
    bench.calls();
    bench
        .cloud
        .update
        .lock()
        .unwrap()
        .extend(std::iter::repeat_n(
            Err(CloudError::NotFound("none".into())),
            100,
        ));
    bench.has_node(plain_node("n2")).await;
    sleep(Duration::from_secs(4)).await;

    let calls = bench.calls();
    assert!(
        (2..=3).contains(&calls.len()),
        "one update, one try at once, and the back-off: {calls:?}"
    );
}

// Holds: S-46
#[tokio::test(start_paused = true)]
async fn a_slow_load_balancer_delays_no_other() {
    let services: Vec<_> = (0..5)
        .map(|n| served_as(&format!("s{n}"), &json!({})))
        .collect();
    let bench = serving(
        ServiceOptions {
            concurrent_syncs: 2,
            ..ServiceOptions::default()
        },
        &services,
    )
    .await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    *bench.cloud.gate.lock().unwrap() = Some(Arc::clone(&gate));
    *bench.cloud.gated.lock().unwrap() = Some("s3".to_owned());
    for (name, all) in [("n2", "n1,n2"), ("n3", "n1,n2,n3"), ("n4", "n1,n2,n3,n4")] {
        bench.has_node(plain_node(name)).await;
        let calls = bench.calls();
        for other in ["s0", "s1", "s2", "s4"] {
            assert!(
                calls.contains(&format!("update {other} {all}")),
                "{other} {all}: {calls:?}"
            );
        }
        // Changes of the slow Service itself wait for it, and do not delay others either.
        bench
            .has(changed(&served_as("s3", &json!({})), &format!("8{all}")))
            .await;
        assert_eq!(bench.calls(), Vec::<String>::new());
    }
    gate.add_permits(100);
    wait().await;

    let calls = bench.calls();
    assert!(
        calls.contains(&"ensure s3 n1,n2,n3,n4".to_owned()),
        "{calls:?}"
    );
}

// Holds: S-14
#[tokio::test(start_paused = true)]
async fn after_a_start_all_load_balancers_get_their_nodes_at_once() {
    let services: Vec<_> = (0..100)
        .map(|n| served_as(&format!("s{n}"), &json!({})))
        .collect();
    let bench = bench_where(ServiceOptions::default(), &[plain_node("n1")], &services);
    sleep(Duration::from_secs(2)).await;

    let calls = bench.calls();
    for n in 0..100 {
        let reported = calls
            .iter()
            .filter(|call| call.ends_with(&format!(" s{n} n1")))
            .count();
        assert!(reported >= 1, "s{n}: {calls:?}");
    }
    assert!(
        calls
            .iter()
            .filter(|call| call.starts_with("update"))
            .count()
            >= 90,
        "{calls:?}"
    );
    assert_eq!(bench.api.requests().len(), 0, "neither patches nor events");
}

// Holds: S-14
#[tokio::test(start_paused = true)]
async fn after_a_start_without_nodes_load_balancers_lose_theirs() {
    let services: Vec<_> = (0..10)
        .map(|n| served_as(&format!("s{n}"), &json!({})))
        .collect();
    let bench = bench_where(ServiceOptions::default(), &[], &services);
    sleep(Duration::from_secs(2)).await;
    let calls = bench.calls();
    assert!(
        (0..10).all(|n| calls.iter().any(|call| call.ends_with(&format!(" s{n} ")))),
        "{calls:?}"
    );
    // Checks do not report what has not changed.
    sleep(Duration::from_secs(7200)).await;
    assert_eq!(bench.api.requests().len(), 0, "{:?}", bench.events());
}
