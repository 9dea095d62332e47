//! What changes of nodes lead to.

use super::*;

#[tokio::test(start_paused = true)]
async fn s46_s48_s49_many_changed_nodes_are_one_pass_and_equal_sets_no_call() {
    let bench = bench();
    bench.serves().await;
    for name in ["n2", "n3", "n4"] {
        bench.controller.shared.nodes.apply(plain_node(name));
        sleep(Duration::from_millis(30)).await;
    }
    wait().await;
    assert_eq!(bench.calls(), ["update web n1,n2,n3,n4"]);
    assert_eq!(bench.reasons().last().unwrap(), "UpdatedLoadBalancer");
    bench.controller.node_queue.add(Nodes::Pass, Priority::Change);
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
        bench.controller.shared.nodes.delete(name);
    }
    wait().await;
    assert_eq!(bench.calls(), ["update web "]);
    assert_eq!(bench.reasons().last().unwrap(), "UnAvailableLoadBalancer");
}

#[tokio::test(start_paused = true)]
async fn s50_s51_a_failed_update_is_told_and_ensured_at_once() {
    let bench = bench();
    bench.serves().await;
    bench.cloud.update.lock().unwrap().push_back(Err(CloudError::Unavailable("down".into())));
    bench.has_node(plain_node("n2")).await;
    assert_eq!(bench.calls(), ["update web n1,n2", "get web", "ensure web n1,n2"]);
    let failed = bench.events().into_iter().find(|(reason, _)| reason == "UpdateLoadBalancerFailed").unwrap();
    assert_eq!(
        failed.1,
        "Error updating load balancer with new hosts [n1 n2] [node names limited, total number of nodes: 2], error: unavailable: down"
    );
}

// Holds: S-50
#[tokio::test(start_paused = true)]
async fn who_has_no_load_balancer_is_told_of_no_failed_update() {
    let none = [Ok(None), Err(CloudError::NotFound("none".into()))];
    let some = [Ok(Some(LoadBalancerStatus::default())), Err(CloudError::Internal("who knows".into()))];
    for (answer, told) in none.map(|it| (it, 0)).into_iter().chain(some.map(|it| (it, 1))) {
        let bench = bench();
        bench.serves().await;
        bench.cloud.update.lock().unwrap().push_back(Err(CloudError::Unavailable("down".into())));
        bench.cloud.get.lock().unwrap().push_back(answer.clone());
        bench.has_node(plain_node("n2")).await;
        let failed = bench.reasons().into_iter().filter(|reason| reason == "UpdateLoadBalancerFailed").count();
        assert_eq!(failed, told, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s53_a_service_that_is_ensured_during_a_slow_pass_is_not_given_old_nodes() {
    let bench = bench();
    bench.serves().await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    *bench.cloud.gate.lock().unwrap() = Some(Arc::clone(&gate));
    bench.has_node(plain_node("n2")).await;
    bench.has_node(plain_node("n3")).await;
    bench.has(service("other")).await;
    assert_eq!(bench.calls(), ["update web n1,n2", "ensure other n1,n2,n3"]);
    // The same service waits for its own update, and is then ensured with the nodes of that time.
    bench.has(changed(&served("7"), "7")).await;
    assert_eq!(bench.calls(), Vec::<String>::new());
    gate.add_permits(100);
    wait().await;
    let calls = bench.calls();
    assert!(calls.iter().all(|call| call.ends_with("web n1,n2,n3")), "{calls:?}");
    assert_eq!(calls.last().unwrap(), "ensure web n1,n2,n3");
}

#[tokio::test(start_paused = true)]
async fn s16_s46_nodes_reach_the_load_balancer_of_a_service_whose_last_change_the_cloud_refused() {
    let bench = bench();
    bench.serves().await;
    bench.cloud.ensure.lock().unwrap().push_back(Err(CloudError::Invalid("no such size".into())));
    bench.has(changed(&served("3"), "3")).await;
    assert_eq!(bench.calls(), ["ensure web n1"]);
    bench.has_node(plain_node("n2")).await;
    assert_eq!(bench.calls(), ["update web n1,n2"]);
    bench.controller.node_queue.add(Nodes::Pass, Priority::Change);
    wait().await;
    assert_eq!(bench.calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn nodes_that_did_not_reach_the_load_balancer_of_a_refused_service_are_sent_again() {
    let bench = bench();
    bench.serves().await;
    bench.cloud.ensure.lock().unwrap().push_back(Err(CloudError::Invalid("no such size".into())));
    bench.has(changed(&served("3"), "3")).await;
    bench.calls();
    bench.cloud.update.lock().unwrap().push_back(Err(CloudError::Unavailable("down".into())));
    bench.has_node(plain_node("n2")).await;
    assert_eq!(bench.calls(), ["update web n1,n2", "get web"]);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(bench.calls(), ["update web n1,n2"]);
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_the_cloud_refuses_and_has_nothing_for_is_not_ensured_by_each_change_of_nodes() {
    let bench = bench();
    bench.cloud.ensure.lock().unwrap().push_back(Err(CloudError::Invalid("no UDP".into())));
    bench.cloud.update.lock().unwrap().push_back(Err(CloudError::NotFound("none".into())));
    bench.has(service("web")).await;
    bench.has_node(plain_node("n1")).await;
    assert_eq!(bench.calls(), ["ensure web ", "update web n1"]);
}

#[tokio::test(start_paused = true)]
async fn while_a_service_cannot_be_understood_its_nodes_are_updated_as_it_was_before() {
    let bench = bench();
    bench.has_node(plain_node("n1")).await;
    let open = with(&served("2"), &json!({"spec": {"loadBalancerSourceRanges": ["10.0.0.0/8"]}}));
    bench.has(open).await;
    bench.has(invalid("3")).await;
    bench.cloud.update.lock().unwrap().push_back(Err(CloudError::Unavailable("down".into())));
    bench.has_node(plain_node("n2")).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(bench.calls(), ["ensure web n1", "update web n1,n2", "get web", "update web n1,n2"]);
    assert_eq!(*bench.cloud.source_ranges.lock().unwrap(), [["10.0.0.0/8"], ["10.0.0.0/8"]]);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_was_never_understood_has_no_nodes_updated() {
    let bench = bench();
    bench.has(invalid("2")).await;
    bench.has_node(plain_node("n1")).await;
    assert_eq!(bench.calls(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn updates_of_nodes_are_computed_on_two_threads_at_a_time() {
    let names = ["web", "other"].map(|name| served_as(name, &json!({})));
    let bench = bench_where(ServiceOptions::default(), &[plain_node("n1")], &names);
    while bench.cloud.calls().len() < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    let meeting = bench.cloud.meets("update");
    bench.controller.shared.nodes.apply(plain_node("n2"));
    assert!(meeting.took_place().await, "{:?}", bench.calls());
}

/// A service of this name that is served.
fn served_as(name: &str, change: &Value) -> Service {
    with(&with(&served("2"), &json!({"metadata": {"name": name, "uid": format!("uid-{name}")}})), change)
}

/// Services that are served with node n1, as after a start.
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

#[tokio::test(start_paused = true)]
async fn s46_a_pass_updates_each_load_balancer_once_and_nothing_else() {
    let (lb, other) = (json!({}), json!({"spec": {"type": "NodePort"}, "metadata": {"finalizers": null}}));
    for (kinds, updates) in [
        (vec![], 0),
        (vec![&other, &other], 0),
        (vec![&lb], 1),
        (vec![&lb, &lb, &lb], 3),
        (vec![&lb, &other, &lb, &other], 2),
        (vec![&lb, &lb, &lb, &lb], 4),
    ] {
        let services: Vec<_> = kinds.iter().enumerate().map(|(n, kind)| served_as(&format!("s{n}"), kind)).collect();
        let bench = serving(ServiceOptions { concurrent_syncs: 2, ..ServiceOptions::default() }, &services).await;
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

#[tokio::test(start_paused = true)]
async fn s45_s47_s48_s55_s58_s59_changes_of_a_node_and_the_calls_they_cost() {
    let ready = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    let taint = |key: &str| json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}});
    let excluded = json!({"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": "true"}}});
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    for (what, change, nodes) in [
        ("nothing", json!({}), None),
        ("not ready", ready("False"), None),
        ("ready", ready("True"), None),
        ("another taint", taint("x"), None),
        ("the taint of a candidate", taint("DeletionCandidateOfClusterAutoscaler"), None),
        ("cordoned", json!({"spec": {"unschedulable": true}}), None),
        ("another label", json!({"metadata": {"labels": {"pool": "x"}}}), None),
        ("the autoscaler's taint", taint("ToBeDeletedByClusterAutoscaler"), Some("n1")),
        ("excluded", excluded, Some("n1")),
        ("being deleted", leaving, Some("n1")),
        ("another machine", json!({"spec": {"providerID": "fake://other"}}), Some("n1,n2")),
    ] {
        let local = json!({"spec": {"externalTrafficPolicy": "Local"}});
        let services = [served_as("a", &local), served_as("b", &local), served_as("c", &json!({}))];
        let bench = serving(ServiceOptions::default(), &services).await;
        bench.has_node(plain_node("n2")).await;
        assert_eq!(bench.calls().len(), 3, "added");
        let version = json!({"metadata": {"resourceVersion": "2"}});
        bench.has_node(with(&with(&plain_node("n2"), &version), &change)).await;
        let expected: Vec<_> =
            nodes.iter().flat_map(|nodes| ["a", "b", "c"].map(|name| format!("update {name} {nodes}"))).collect();
        assert_eq!(sorted(bench.calls()), expected, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn s48_a_set_that_grows_is_one_call_for_each_service_and_step() {
    let names = ["a", "b", "c", "d"];
    let bench = serving(ServiceOptions::default(), &names.map(|name| served_as(name, &json!({})))).await;
    for (added, all) in [(vec!["n2"], "n1,n2"), (vec!["n3", "n4"], "n1,n2,n3,n4")] {
        added.iter().for_each(|name| drop(bench.controller.shared.nodes.apply(plain_node(name))));
        wait().await;
        assert_eq!(sorted(bench.calls()), names.map(|name| format!("update {name} {all}")));
    }
    assert_eq!(
        bench.metric("service_controller_loadbalancer_sync_total"),
        ["service_controller_loadbalancer_sync_total 8"]
    );
    let passes = bench.metric("service_controller_nodesync_latency_seconds_count");
    assert_eq!(passes, ["service_controller_nodesync_latency_seconds_count 3"], "the first found nothing to do");
}

#[tokio::test(start_paused = true)]
async fn s22_nodes_of_a_call_that_failed_are_not_sent_again_by_a_pass() {
    let bench = bench();
    bench.has_node(plain_node("n1")).await;
    bench.cloud.ensure.lock().unwrap().push_back(Err(CloudError::Unavailable("down".into())));
    bench.has(service("web")).await;
    bench.controller.node_queue.add(Nodes::Pass, Priority::Change);
    sleep(Duration::from_secs(4)).await;
    assert_eq!(bench.calls(), ["ensure web n1"]);
}

#[tokio::test(start_paused = true)]
async fn s03_s46_within_a_pass_updates_are_parallel_and_bounded() {
    let services: Vec<_> = (0..10).map(|n| served_as(&format!("s{n}"), &json!({}))).collect();
    let bench = serving(ServiceOptions { concurrent_syncs: 4, ..ServiceOptions::default() }, &services).await;
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
    // Those whose turn came late have got both new nodes at once.
    assert_eq!(calls.iter().filter(|call| call.ends_with("n1,n2,n3")).count(), 10);
    assert_eq!(calls.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn s53_a_slow_pass_does_not_undo_what_was_ensured_meanwhile() {
    let services = [served_as("a", &json!({})), served_as("b", &json!({}))];
    let bench = serving(ServiceOptions { concurrent_syncs: 1, ..ServiceOptions::default() }, &services).await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    *bench.cloud.gate.lock().unwrap() = Some(Arc::clone(&gate));
    bench.has_node(plain_node("n2")).await;
    let stuck = bench.calls();
    let (slow, other) = if stuck == ["update a n1,n2"] { ("a", "b") } else { ("b", "a") };
    assert_eq!(stuck, [format!("update {slow} n1,n2")]);
    bench.has_node(plain_node("n3")).await;
    bench.has(changed(&served_as(other, &json!({})), "9")).await;
    assert_eq!(bench.calls(), [format!("ensure {other} n1,n2,n3")]);
    gate.add_permits(100);
    wait().await;
    assert_eq!(bench.calls(), [format!("update {slow} n1,n2,n3")]);
}

fn labelled(name: &str, version: &str, labels: &Value) -> Node {
    with(&plain_node(name), &json!({"metadata": {"resourceVersion": version, "labels": labels}}))
}

fn choosing(version: &str, selector: &str) -> Service {
    let annotations = json!({"service.skydock.dev/node-selector": selector});
    with(&served(version), &json!({"metadata": {"annotations": annotations}}))
}

// Holds: OPS-36
#[tokio::test(start_paused = true)]
async fn a_service_chooses_its_nodes_by_a_selector() {
    let edge = json!({"pool": "edge"});
    let nodes = [labelled("n1", "1", &edge), labelled("n2", "1", &json!({"pool": "web"}))];
    let services = [choosing("1", "pool=edge"), served_as("all", &json!({}))];
    let bench = bench_where(ServiceOptions::default(), &nodes, &services);
    wait().await;
    assert_eq!(sorted(bench.calls()), ["ensure all n1,n2", "ensure web n1"]);
    // A node gets the label, and another one loses it.
    bench.has_node(labelled("n2", "2", &edge)).await;
    assert_eq!(bench.calls(), ["update web n1,n2"]);
    bench.has_node(labelled("n1", "2", &json!({"pool": "db"}))).await;
    assert_eq!(bench.calls(), ["update web n2"]);
    // A label that nobody asks for does not matter.
    bench.has_node(labelled("n1", "3", &json!({"pool": "db", "x": "y"}))).await;
    assert_eq!(bench.calls(), Vec::<String>::new());
    // The service chooses otherwise.
    bench.has(choosing("2", "!gpu")).await;
    assert_eq!(bench.calls(), ["ensure web n1,n2"]);
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_is_none_is_told_and_changes_nothing() {
    let bench = bench();
    bench.serves().await;
    bench.has(choosing("3", "pool in edge")).await;
    assert_eq!(bench.calls(), Vec::<String>::new());
    let (reason, message) = bench.events().pop().unwrap();
    assert_eq!(reason, "SyncLoadBalancerFailed");
    assert!(message.contains("node-selector: \"pool in edge\" is no label requirement"), "{message}");
    // Its load balancer goes on as it was, new nodes included.
    bench.has_node(plain_node("n2")).await;
    assert_eq!(bench.calls(), ["update web n1,n2"]);
    bench.has(choosing("4", "kubernetes.io/hostname in (n2)")).await;
    assert_eq!(bench.calls(), ["ensure web n2"]);
}

#[tokio::test(start_paused = true)]
async fn a_cordoned_node_leaves_only_where_that_is_asked_for_and_comes_back() {
    let nodes = NodeRules { exclude_unschedulable: true, exclude_control_plane: true };
    let bench = serving(ServiceOptions { nodes, ..ServiceOptions::default() }, &[served("2")]).await;
    bench.has_node(plain_node("n2")).await;
    assert_eq!(bench.calls(), ["update web n1,n2"]);
    let version = |version: &str| json!({"metadata": {"resourceVersion": version}});
    let cordoned = with(&plain_node("n2"), &json!({"spec": {"unschedulable": true}}));
    bench.has_node(with(&cordoned, &version("2"))).await;
    assert_eq!(bench.calls(), ["update web n1"]);
    bench.has_node(with(&plain_node("n2"), &version("3"))).await;
    assert_eq!(bench.calls(), ["update web n1,n2"]);
    let master = json!({"node-role.kubernetes.io/control-plane": ""});
    bench.has_node(labelled("master", "1", &master)).await;
    assert_eq!(bench.calls(), Vec::<String>::new());
}

/// Errors with which the cloud answers each `ensure` from now on.
fn fails_for_ever(bench: &Bench, error: &CloudError) {
    bench.cloud.ensure.lock().unwrap().extend(std::iter::repeat_n(Err(error.clone()), 10_000));
}

fn with_nodes(calls: &[String], nodes: &str) -> bool {
    calls.iter().any(|call| call.ends_with(&format!("web {nodes}")))
}

// Holds: S-16, S-46, S-47, S-48, S-49
#[tokio::test(start_paused = true)]
async fn nodes_reach_a_load_balancer_whose_service_fails_for_ever() {
    for error in crate::testing::every_error() {
        let bench = bench();
        bench.serves().await;
        fails_for_ever(&bench, &error);
        bench.has(changed(&served("3"), "3")).await;
        for round in 0..2 {
            let (one, both) = (format!("n1,x{round}"), "n1".to_owned());
            bench.calls();
            bench.controller.shared.nodes.apply(plain_node(&format!("x{round}")));
            sleep(Duration::from_secs(2)).await;
            assert!(bench.calls().contains(&format!("update web {one}")), "a node comes, {error}");
            bench.controller.shared.nodes.delete(&format!("x{round}"));
            sleep(Duration::from_secs(2)).await;
            assert!(bench.calls().contains(&format!("update web {both}")), "a node goes, {error}");
            bench.controller.node_queue.add(Nodes::Pass, Priority::Change);
            sleep(Duration::from_secs(1)).await;
            assert!(!bench.calls().iter().any(|call| call.starts_with("update")), "once each, {error}");
            sleep(Duration::from_secs(600)).await;
        }
    }
}

// Holds: S-16, S-46
#[tokio::test(start_paused = true)]
async fn nodes_reach_a_load_balancer_that_could_never_be_made() {
    for error in crate::testing::every_error() {
        let bench = bench();
        bench.has_node(plain_node("n1")).await;
        fails_for_ever(&bench, &error);
        bench.has(service("web")).await;
        sleep(Duration::from_secs(600)).await;
        bench.calls();
        bench.controller.shared.nodes.apply(plain_node("n2"));
        sleep(Duration::from_secs(2)).await;
        assert!(with_nodes(&bench.calls(), "n1,n2"), "{error}");
    }
}

// Holds: S-16, S-46
#[tokio::test(start_paused = true)]
async fn nodes_that_came_with_a_failed_try_reach_the_load_balancer() {
    for error in crate::testing::every_error() {
        let bench = bench();
        bench.serves().await;
        fails_for_ever(&bench, &error);
        // Both at once: the try to ensure is the first to know of the node.
        bench.controller.shared.nodes.apply(plain_node("n2"));
        bench.controller.services.apply(changed(&served("3"), "3"));
        sleep(Duration::from_secs(2)).await;
        let calls = bench.calls();
        assert!(calls.contains(&"ensure web n1,n2".to_owned()), "{error}: {calls:?}");
        assert_eq!(
            calls.contains(&"update web n1,n2".to_owned()),
            error != CloudError::ImplementedElsewhere,
            "{error}: {calls:?}"
        );
    }
}

// Holds: S-16, S-47, S-51
#[tokio::test(start_paused = true)]
async fn nodes_that_did_not_arrive_are_sent_again_though_ensure_fails() {
    let bench = bench();
    bench.serves().await;
    fails_for_ever(&bench, &CloudError::Denied("no certificate".into()));
    bench.has(changed(&served("3"), "3")).await;
    (0..3).for_each(|_| bench.cloud.update.lock().unwrap().push_back(Err(CloudError::Unavailable("down".into()))));
    bench.calls();
    bench.has_node(plain_node("n2")).await;
    sleep(Duration::from_secs(60)).await;
    let updates = bench.calls().into_iter().filter(|call| call.starts_with("update")).collect::<Vec<_>>();
    assert_eq!(updates, ["update web n1,n2"; 4], "three that failed, and the one that did not");
    assert_eq!(bench.reasons().iter().filter(|reason| *reason == "UpdatedLoadBalancer").count(), 1);
}

// Holds: S-16
#[tokio::test(start_paused = true)]
async fn after_a_start_in_a_brown_out_nodes_reach_each_load_balancer() {
    let services: Vec<_> = (0..50).map(|n| served_as(&format!("s{n}"), &json!({}))).collect();
    let bench = bench_where(ServiceOptions::default(), &[plain_node("n1")], &services);
    fails_for_ever(&bench, &CloudError::Unavailable("down".into()));
    sleep(Duration::from_secs(120)).await;
    bench.calls();
    bench.controller.shared.nodes.apply(plain_node("n2"));
    sleep(Duration::from_secs(2)).await;
    let calls = bench.calls();
    for n in 0..50 {
        assert!(calls.contains(&format!("update s{n} n1,n2")), "{n}: {calls:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_vanished_is_not_made_in_a_loop() {
    let bench = bench();
    bench.serves().await;
    fails_for_ever(&bench, &CloudError::NotFound("no such network".into()));
    bench.has(changed(&served("3"), "3")).await;
    bench.calls();
    bench.cloud.update.lock().unwrap().extend(std::iter::repeat_n(Err(CloudError::NotFound("none".into())), 100));
    bench.has_node(plain_node("n2")).await;
    sleep(Duration::from_secs(4)).await;
    let calls = bench.calls();
    assert!((2..=3).contains(&calls.len()), "one update, one try at once, and the back-off: {calls:?}");
}

// Holds: S-46
#[tokio::test(start_paused = true)]
async fn a_slow_load_balancer_holds_up_no_other() {
    let services: Vec<_> = (0..5).map(|n| served_as(&format!("s{n}"), &json!({}))).collect();
    let bench = serving(ServiceOptions { concurrent_syncs: 2, ..ServiceOptions::default() }, &services).await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    *bench.cloud.gate.lock().unwrap() = Some(Arc::clone(&gate));
    *bench.cloud.gated.lock().unwrap() = Some("s3".to_owned());
    for (name, all) in [("n2", "n1,n2"), ("n3", "n1,n2,n3"), ("n4", "n1,n2,n3,n4")] {
        bench.has_node(plain_node(name)).await;
        let calls = bench.calls();
        for other in ["s0", "s1", "s2", "s4"] {
            assert!(calls.contains(&format!("update {other} {all}")), "{other} {all}: {calls:?}");
        }
        // What changes about the slow one itself waits for it, and holds up nobody either.
        bench.has(changed(&served_as("s3", &json!({})), &format!("8{all}"))).await;
        assert_eq!(bench.calls(), Vec::<String>::new());
    }
    gate.add_permits(100);
    wait().await;
    let calls = bench.calls();
    assert!(calls.contains(&"ensure s3 n1,n2,n3,n4".to_owned()), "{calls:?}");
}

// Holds: S-14
#[tokio::test(start_paused = true)]
async fn after_a_start_each_load_balancer_is_told_its_nodes_at_once() {
    let services: Vec<_> = (0..100).map(|n| served_as(&format!("s{n}"), &json!({}))).collect();
    let bench = bench_where(ServiceOptions::default(), &[plain_node("n1")], &services);
    sleep(Duration::from_secs(2)).await;
    let calls = bench.calls();
    for n in 0..100 {
        let told = calls.iter().filter(|call| call.ends_with(&format!(" s{n} n1"))).count();
        assert!(told >= 1, "s{n}: {calls:?}");
    }
    assert!(calls.iter().filter(|call| call.starts_with("update")).count() >= 90, "{calls:?}");
    assert_eq!(bench.api.requests().len(), 0, "neither patches nor events");
}

// Holds: S-14
#[tokio::test(start_paused = true)]
async fn after_a_start_without_nodes_load_balancers_lose_theirs() {
    let services: Vec<_> = (0..10).map(|n| served_as(&format!("s{n}"), &json!({}))).collect();
    let bench = bench_where(ServiceOptions::default(), &[], &services);
    sleep(Duration::from_secs(2)).await;
    let calls = bench.calls();
    assert!((0..10).all(|n| calls.iter().any(|call| call.ends_with(&format!(" s{n} ")))), "{calls:?}");
    // Checks say nothing of what has not changed.
    sleep(Duration::from_secs(7200)).await;
    assert_eq!(bench.api.requests().len(), 0, "{:?}", bench.events());
}
