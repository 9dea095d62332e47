use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use skydock_cloud::{AddressKind, Capability, CloudError, Instance, NodeAddress, Retry};
use skydock_controller_base::{
    controller::context::Runner,
    testing::{FakeApi, FakeCloud, context, echoes, every_error, node, pairs, with},
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{sync::foreign, *};
use crate::Metrics;

mod crowd;

struct Bench {
    api: FakeApi,
    cloud: Arc<FakeCloud>,
    controller: Arc<NodeController>,
    shutdown: CancellationToken,
    registry: Registry,
}

fn bench() -> Bench {
    bench_with(NodeOptions::default())
}

fn bench_with(options: NodeOptions) -> Bench {
    let (api, cloud) = (FakeApi::default(), Arc::new(FakeCloud::default()));
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let context = context(&CONTROLLER, &api, cloud.clone(), &metrics.shared);
    echoes(&api, &context.nodes);
    let controller = Arc::new(NodeController::new(
        context,
        metrics.node,
        api.client(),
        NodeOptions {
            workers: 2,
            ..options
        },
    ));
    Bench {
        api,
        cloud,
        controller,
        shutdown: CancellationToken::new(),
        registry,
    }
}

impl Bench {
    fn start(&self) {
        let (controller, shutdown) = (Arc::clone(&self.controller), self.shutdown.clone());
        tokio::spawn(async move { controller.run(shutdown).await });
    }

    /// The first one has the address 10.0.0.1.
    fn knows(&self, name: &str) {
        let number = self.cloud.instances.lock().unwrap().len();
        self.says(
            name,
            Ok(Instance {
                provider_id: Some(format!("fake://{name}")),
                addresses: vec![NodeAddress {
                    kind: AddressKind::InternalIp,
                    address: format!("10.0.{}.{}", number / 250, number % 250 + 1),
                }],
                zone: Some("z1".into()),
                ..Instance::default()
            }),
        );
    }

    fn says(&self, name: &str, answer: Result<Instance, CloudError>) {
        self.cloud
            .instances
            .lock()
            .unwrap()
            .insert(name.into(), answer);
    }

    fn events(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        self.api
            .events()
            .iter()
            .map(|event| (text(&event["reason"]), text(&event["message"])))
            .collect()
    }
}

fn initialized(name: &str) -> k8s_openapi::api::core::v1::Node {
    with(
        &node(name),
        &json!({"spec": {"taints": null, "providerID": format!("fake://{name}")}}),
    )
}

async fn wait() {
    sleep(Duration::from_millis(200)).await;
}

// Holds: N-18, N-19, N-20, N-39
#[tokio::test(start_paused = true)]
async fn addresses_are_patched_before_id_labels_and_taint() {
    let bench = bench();
    bench.knows("a");
    bench.start();
    bench.controller.context.nodes.apply(node("a"));
    wait().await;

    assert_eq!(
        bench.api.calls(),
        ["PATCH /api/v1/nodes/a/status", "PATCH /api/v1/nodes/a"]
    );

    let requests = bench.api.requests();
    assert_eq!(
        requests[0].content_type,
        "application/strategic-merge-patch+json"
    );

    let addresses = json!([{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "a"}, {"$patch": "replace"}]);
    assert_eq!(
        requests[0].body,
        json!({"metadata": {"uid": "uid-a"}, "status": {"addresses": addresses}})
    );
    assert_eq!(
        requests[1].content_type,
        "application/strategic-merge-patch+json"
    );
    assert_eq!(
        requests[1].body,
        json!({
            "metadata": {
                "uid": "uid-a", "resourceVersion": "99",
                "labels": {"failure-domain.beta.kubernetes.io/zone": "z1", "topology.kubernetes.io/zone": "z1"},
            },
            "spec": {"providerID": "fake://a", "taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
        })
    );
    assert_eq!(
        bench.events(),
        [("Synced".into(), "Node synced successfully".into())]
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_nodes_are_described_in_batches() {
    let bench = bench();
    for name in ["a", "b", "c", "d"] {
        bench.knows(name);
        bench.controller.context.nodes.apply(node(name));
    }
    bench.start();
    wait().await;
    let calls = bench.cloud.calls();
    assert!(
        calls.contains(&"describe a,b,c".to_owned()) && calls.contains(&"describe d".to_owned()),
        "{calls:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_are_computed_on_two_threads_at_a_time() {
    let bench = bench();
    let meeting = bench.cloud.meets("describe");
    for name in ["a", "b", "c", "d"] {
        bench.knows(name);
        bench.controller.context.nodes.apply(node(name));
    }
    bench.start();
    assert!(meeting.took_place().await, "{:?}", bench.cloud.calls());
}

#[tokio::test(start_paused = true)]
async fn one_failed_node_does_not_hold_back_its_batch() {
    let bench = bench();
    bench.knows("a");
    bench.says("b", Err(CloudError::Denied("no key".into())));
    bench.controller.context.nodes.apply(node("a"));
    bench.controller.context.nodes.apply(node("b"));
    bench.start();
    sleep(Duration::from_millis(2)).await;
    assert_eq!(
        bench.api.calls(),
        ["PATCH /api/v1/nodes/a/status", "PATCH /api/v1/nodes/a"]
    );

    let failed = (
        "FailedToInitialize".into(),
        "Node cannot be initialized: denied: no key".into(),
    );
    assert!(bench.events().contains(&failed), "{:?}", bench.events());
}

#[tokio::test(start_paused = true)]
async fn addresses_of_a_batch_are_written_before_any_taint_removal() {
    let bench = bench();
    let names: Vec<_> = (0..3 * WRITERS)
        .map(|number| format!("n{number}"))
        .collect();
    for name in &names {
        bench.knows(name);
        bench.controller.context.nodes.apply(node(name));
    }
    bench.api.hang("PATCH", "/api/v1/nodes/n0/status");
    let batch = names
        .iter()
        .filter_map(|name| bench.controller.context.nodes.get(name))
        .collect();
    let controller = Arc::clone(&bench.controller);
    tokio::spawn(async move { controller.ask(batch, &CancellationToken::new()).await });
    wait().await;

    let calls = bench.api.calls();
    let (first, second) = calls.split_at(names.len());
    assert!(
        first.iter().all(|call| call.ends_with("/status")),
        "{calls:?}"
    );
    assert!(
        second.iter().all(|call| !call.ends_with("/status")),
        "{calls:?}"
    );
    assert_eq!(
        second.len(),
        names.len() - 1,
        "all but the slow one are done"
    );
}

// Holds: N-03, N-08
#[tokio::test(start_paused = true)]
async fn an_error_keeps_the_taint_and_is_retried_with_backoff() {
    let bench = bench();
    bench.controller.context.nodes.apply(node("a"));
    bench.start();
    wait().await;
    // Calls at 0, 5, 15, 35, 75 and 155 ms.
    assert_eq!(bench.cloud.calls().len(), 6);
    assert_eq!(bench.api.calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_new_instance_long_in_progress_gets_an_event() {
    let bench = bench();
    let retry = Retry {
        after: Duration::from_secs(60),
        message: "it boots".into(),
    };
    bench.says("a", Err(CloudError::InProgress(retry)));
    bench.start();
    bench.controller.context.nodes.apply(node("a"));
    let long = || {
        bench
            .controller
            .context
            .metrics
            .long_in_progress(&CONTROLLER)
            .get()
    };
    sleep(Duration::from_secs(590)).await;
    assert_eq!((bench.events(), long()), (Vec::new(), 0));
    sleep(Duration::from_secs(60)).await;
    let (reason, message) = bench.events().pop().unwrap();
    assert_eq!((reason.as_str(), long()), ("StillInProgress", 1));
    assert!(
        message.starts_with("An operation on the instance has not finished after 10 minutes"),
        "{message}"
    );
    sleep(Duration::from_secs(40 * 60)).await;
    assert_eq!(bench.events().len(), 2, "each half hour");
    bench.knows("a");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(
        (bench.events().pop().unwrap().0.as_str(), long()),
        ("Synced", 0)
    );
    // A node that is deleted is not counted either.
    let retry = Retry {
        after: Duration::from_secs(60),
        message: "it boots".into(),
    };
    bench.says("b", Err(CloudError::InProgress(retry)));
    bench.controller.context.nodes.apply(node("b"));
    sleep(Duration::from_secs(700)).await;
    assert_eq!(long(), 1);
    bench.controller.context.nodes.delete("b");
    assert_eq!(long(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_instance_in_progress_is_queried_again_without_an_event() {
    let bench = bench();
    let retry = Retry {
        after: Duration::from_secs(7),
        message: "booting".into(),
    };
    bench.says("a", Err(CloudError::InProgress(retry)));
    bench.controller.context.nodes.apply(node("a"));
    bench.start();

    sleep(Duration::from_millis(6900)).await;
    assert_eq!(bench.cloud.calls().len(), 1);

    bench.knows("a");
    wait().await;
    assert_eq!(bench.cloud.calls().len(), 2);
    assert_eq!(
        bench.events(),
        [("Synced".into(), "Node synced successfully".into())]
    );
}

// Holds: N-02
#[tokio::test(start_paused = true)]
async fn an_invalid_node_waits_for_a_change_other_than_heartbeats() {
    let bench = bench();
    bench.says("a", Err(CloudError::Invalid("bad name".into())));
    bench.controller.context.nodes.apply(node("a"));
    bench.start();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.cloud.calls().len(), 1);

    bench.controller.context.nodes.apply(with(&node("a"), &json!({
        "metadata": {"resourceVersion": "2"},
        "status": {"conditions": [{"type": "Ready", "status": "False", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]},
    })));
    wait().await;
    assert_eq!(bench.cloud.calls().len(), 1);

    bench.controller.context.nodes.apply(with(
        &node("a"),
        &json!({"metadata": {"resourceVersion": "3", "labels": {"x": "y"}}}),
    ));
    wait().await;
    assert_eq!(bench.cloud.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_wait_are_counted() {
    let bench = bench();
    let count = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &bench.registry).unwrap();
        let value = |name: &str| -> u64 {
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value.unwrap().parse().unwrap()
        };
        (
            value("skydock_nodes{state=\"uninitialized\"}"),
            value("skydock_nodes{state=\"initialized\"}"),
            value("skydock_node_uninitialized_oldest_seconds"),
        )
    };
    assert_eq!(count(), (0, 0, 0));

    bench.knows("a");
    let created = Timestamp::now() - jiff::SignedDuration::from_secs(1000);
    let created = json!({"metadata": {"creationTimestamp": created.to_string()}});
    let nodes = &bench.controller.context.nodes;
    nodes.apply(with(&node("a"), &created));
    let (waiting, done, oldest) = count();
    assert_eq!((waiting, done), (1, 0));
    assert!((1000..1100).contains(&oldest), "{oldest}");

    nodes.apply(initialized("a"));
    assert_eq!(count(), (0, 1, 0));
}

// Holds: N-21
#[tokio::test(start_paused = true)]
async fn initialization_delays_are_measured_once_per_node() {
    let bench = bench();
    bench.knows("a");
    bench.knows("b");
    let created = Timestamp::now() - jiff::SignedDuration::from_secs(100);
    let created = json!({"metadata": {"creationTimestamp": created.to_string()}});
    bench
        .controller
        .context
        .nodes
        .apply(with(&node("a"), &created));
    bench
        .controller
        .context
        .nodes
        .apply(with(&initialized("b"), &created));
    bench.start();
    wait().await;
    let version = |version: &str| json!({"metadata": {"resourceVersion": version, "labels": {"version": version}}});
    for later in ["100", "101"] {
        bench
            .controller
            .context
            .nodes
            .apply(with(&with(&initialized("a"), &created), &version(later)));
        bench.controller.recheck();
        wait().await;
    }
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &bench.registry).unwrap();
    for name in [
        "cloud_provider_taint_removal_delay",
        "initial_node_sync_delay",
    ] {
        let value = |part: &str| -> f64 {
            let name = format!("node_controller_{name}_seconds_{part} ");
            text.lines()
                .find_map(|line| line.strip_prefix(&name))
                .unwrap()
                .parse()
                .unwrap()
        };
        assert!((value("count") - 1.0).abs() < 0.5, "{name}:\n{text}");
        assert!((100.0..200.0).contains(&value("sum")), "{name}:\n{text}");
    }
}

// Holds: N-27
#[tokio::test(start_paused = true)]
async fn derived_labels_are_patched_and_a_failure_is_retried() {
    let bench = bench_with(NodeOptions {
        reconciled: SyncedFields {
            addresses: false,
            labels: false,
        },
        ..NodeOptions::default()
    });
    let labels = json!({"metadata": {"labels": {"failure-domain.beta.kubernetes.io/zone": "z1"}}});
    bench
        .api
        .fail("PATCH", "/api/v1/nodes/a", 500, "InternalError");
    bench
        .controller
        .context
        .nodes
        .apply(with(&initialized("a"), &labels));
    bench.start();
    sleep(Duration::from_millis(3)).await;
    assert_eq!(bench.api.calls(), ["PATCH /api/v1/nodes/a"]);
    wait().await;
    assert_eq!(bench.api.calls(), ["PATCH /api/v1/nodes/a"; 2]);
    let expected =
        json!({"metadata": {"uid": "uid-a", "labels": {"topology.kubernetes.io/zone": "z1"}}});
    let requests = bench.api.requests();
    assert_eq!(
        requests
            .iter()
            .filter(|request| request.body == expected)
            .count(),
        2
    );
    assert_eq!(bench.cloud.calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_initialized_node_gets_no_event_about_initialization() {
    let bench = bench_with(NodeOptions {
        reconciled: SyncedFields {
            addresses: false,
            labels: false,
        },
        ..NodeOptions::default()
    });
    let labels = json!({"metadata": {"labels": {"failure-domain.beta.kubernetes.io/zone": "z1"}}});
    bench.api.fail("PATCH", "/api/v1/nodes/a", 403, "Forbidden");
    bench
        .controller
        .context
        .nodes
        .apply(with(&initialized("a"), &labels));
    bench.start();
    wait().await;

    assert_eq!(bench.api.calls().first().unwrap(), "PATCH /api/v1/nodes/a");
    assert_eq!(bench.events(), []);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &bench.registry).unwrap();
    let line = "skydock_controller_errors_total{controller=\"cloud-node\",kind=\"kubernetes\"} 1";
    assert!(text.lines().any(|other| other == line), "{text}");
}

// Holds: N-18
#[tokio::test(start_paused = true)]
async fn a_conflict_is_retried_soon_without_an_event() {
    let bench = bench();
    bench.knows("a");
    bench.api.fail("PATCH", "/api/v1/nodes/a", 409, "Conflict");
    bench.controller.context.nodes.apply(node("a"));
    bench.start();
    wait().await;
    assert_eq!(
        bench.api.calls(),
        [
            "PATCH /api/v1/nodes/a/status",
            "PATCH /api/v1/nodes/a",
            "PATCH /api/v1/nodes/a"
        ],
        "the addresses are there already"
    );
    assert_eq!(
        bench.events(),
        [("Synced".into(), "Node synced successfully".into())]
    );
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_gets_an_event_on_the_node() {
    let bench = bench();
    bench.knows("a");
    bench
        .api
        .fail("PATCH", "/api/v1/nodes/a/status", 403, "Forbidden");
    bench.controller.context.nodes.apply(node("a"));
    bench.start();
    sleep(Duration::from_millis(2)).await;

    let (reason, message) = bench.events().remove(0);
    assert_eq!(reason, "FailedToInitialize");
    assert!(
        message.contains("the verb \"patch\" on resource \"nodes/status\""),
        "{message}"
    );

    wait().await;
    assert_eq!(bench.api.calls().last().unwrap(), "PATCH /api/v1/nodes/a");
}

// Holds: N-25, SEC-06
#[tokio::test(start_paused = true)]
async fn a_foreign_node_is_not_changed_and_gets_one_warning() {
    let bench = bench();
    let foreign = with(&node("a"), &json!({"spec": {"providerID": "aws:///i-1"}}));
    bench.controller.context.nodes.apply(foreign.clone());
    bench.start();
    wait().await;
    bench.controller.context.nodes.apply(with(
        &foreign,
        &json!({"metadata": {"resourceVersion": "2", "labels": {"x": "y"}}}),
    ));
    wait().await;
    assert_eq!(bench.cloud.calls(), Vec::<String>::new());
    let events = bench.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].0, "ForeignProviderID");
}

#[tokio::test(start_paused = true)]
async fn the_warning_on_a_foreign_node_is_repeated() {
    let bench = bench();
    bench.controller.context.nodes.apply(with(
        &node("a"),
        &json!({"spec": {"providerID": "aws:///i-1"}}),
    ));
    bench.start();
    let reported = || {
        bench
            .api
            .requests()
            .iter()
            .filter(|request| request.path.contains("/events"))
            .count()
    };
    for (minutes, expected) in [(1, 1), (28, 1), (2, 2), (28, 2), (3, 3)] {
        sleep(Duration::from_secs(minutes * 60)).await;
        assert_eq!(reported(), expected, "{minutes} minutes later");
    }
    bench.controller.context.nodes.delete("a");
    sleep(Duration::from_secs(3600)).await;
    assert_eq!((reported(), bench.cloud.calls()), (3, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_does_not_initialize_a_node_twice() {
    let bench = bench();
    bench.knows("a");
    bench.controller.context.nodes.apply(node("a"));
    bench.start();
    wait().await;
    bench.controller.recheck();
    wait().await;
    assert_eq!(bench.cloud.calls().len(), 1);
    assert_eq!(bench.api.calls().len(), 2);

    bench.controller.context.nodes.apply(with(
        &initialized("a"),
        &json!({"metadata": {"resourceVersion": "100"}}),
    ));
    assert!(
        bench.controller.memory.initialized().is_empty(),
        "the cache has caught up"
    );
}

// Holds: N-12
#[tokio::test(start_paused = true)]
async fn an_unknown_node_ip_gets_an_event_and_no_patch() {
    let bench = bench();
    bench.knows("a");
    let annotation =
        json!({"metadata": {"annotations": {"alpha.kubernetes.io/provided-node-ip": "10.0.0.9"}}});
    bench
        .controller
        .context
        .nodes
        .apply(with(&node("a"), &annotation));
    bench.start();

    sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.api.calls(), Vec::<String>::new());

    let (reason, message) = bench.events().remove(0);
    assert_eq!(reason, "FailedToInitialize");
    assert!(
        message.contains("provided node ip is not valid") && message.contains("10.0.0.9"),
        "{message}"
    );

    let calls = bench.cloud.calls().len();
    assert!((8..=10).contains(&calls), "again with back-off: {calls}");
}

// Holds: N-18, N-22
#[tokio::test(start_paused = true)]
async fn the_second_patch_keeps_the_taints_of_the_newest_version() {
    let bench = bench();
    *bench.cloud.look_up.lock().unwrap() = Duration::from_secs(10);
    bench.says(
        "a",
        Ok(Instance {
            provider_id: Some("fake://a".into()),
            ..Instance::default()
        }),
    );
    bench.controller.context.nodes.apply(node("a"));
    bench.start();
    sleep(Duration::from_secs(5)).await;
    let taint = |key: &str| json!({"key": key, "effect": "NoExecute"});
    let uninitialized = "node.cloudprovider.kubernetes.io/uninitialized";
    let taints = [
        taint("z"),
        taint(uninitialized),
        taint("a"),
        taint("m"),
        taint(uninitialized),
        taint("b"),
    ];
    let change = json!({"metadata": {"resourceVersion": "7"}, "spec": {"taints": taints}});
    bench
        .controller
        .context
        .nodes
        .apply(with(&node("a"), &change));
    sleep(Duration::from_secs(6)).await;

    let requests = bench.api.requests();
    assert_eq!(bench.api.calls(), ["PATCH /api/v1/nodes/a"]);
    assert_eq!(requests[0].body["metadata"]["resourceVersion"], "7");
    assert_eq!(
        requests[0].body["spec"]["taints"],
        json!([taint("z"), taint("a"), taint("m"), taint("b")])
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_initialized_by_others_meanwhile_is_not_patched() {
    for change in [
        json!({"spec": {"taints": null}}),
        json!({"metadata": {"uid": "uid-2"}}),
    ] {
        let bench = bench_with(NodeOptions {
            reconciled: SyncedFields {
                addresses: false,
                labels: false,
            },
            ..NodeOptions::default()
        });
        *bench.cloud.look_up.lock().unwrap() = Duration::from_secs(10);
        bench.says(
            "a",
            Ok(Instance {
                provider_id: Some("fake://a".into()),
                ..Instance::default()
            }),
        );
        bench.controller.context.nodes.apply(node("a"));
        bench.start();
        sleep(Duration::from_secs(5)).await;
        let newer = json!({"metadata": {"resourceVersion": "7"}});
        bench
            .controller
            .context
            .nodes
            .apply(with(&with(&node("a"), &change), &newer));
        sleep(Duration::from_secs(7)).await;
        assert_eq!(bench.api.calls(), Vec::<String>::new(), "{change}");
        assert_eq!(bench.events(), []);
    }
}

// Holds: N-29, N-37
#[tokio::test(start_paused = true)]
async fn the_status_patch_replaces_addresses_and_nothing_else() {
    let bench = bench_with(NodeOptions {
        reconciled: SyncedFields {
            addresses: true,
            labels: false,
        },
        ..NodeOptions::default()
    });
    bench.knows("a");
    let before = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "InternalIP", "address": "10.0.0.2"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    bench
        .controller
        .context
        .nodes
        .apply(with(&initialized("a"), &before));
    bench.start();
    wait().await;

    let requests = bench.api.requests();
    assert_eq!(requests[0].path, "/api/v1/nodes/a/status");
    assert_eq!(
        requests[0].content_type,
        "application/strategic-merge-patch+json"
    );

    let addresses = json!([{"type": "InternalIP", "address": "10.0.0.1"}, {"$patch": "replace"}]);
    assert_eq!(
        requests[0].body,
        json!({"metadata": {"uid": "uid-a"}, "status": {"addresses": addresses}})
    );
}

// Holds: N-29, N-37
#[tokio::test(start_paused = true)]
async fn addresses_are_updated_from_the_cloud_each_period() {
    let bench = bench_with(NodeOptions {
        reconciled: SyncedFields {
            addresses: true,
            labels: false,
        },
        ..NodeOptions::default()
    });
    bench.knows("a");
    bench.knows("b");
    bench.knows("c");
    let current = json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]}});
    bench.controller.context.nodes.apply(initialized("a"));
    bench
        .controller
        .context
        .nodes
        .apply(with(&initialized("b"), &current));
    bench.controller.context.nodes.apply(with(
        &initialized("c"),
        &json!({"spec": {"providerID": "aws:///i"}}),
    ));
    let start = Instant::now();
    bench.start();

    wait().await;
    assert_eq!(bench.cloud.calls(), ["describe a,b"]);
    assert_eq!(bench.api.calls(), ["PATCH /api/v1/nodes/a/status"]);

    sleep(Duration::from_secs(301)).await;
    assert_eq!(bench.cloud.calls().len(), 2, "after {:?}", start.elapsed());
}

// Holds: N-23
#[tokio::test(start_paused = true)]
async fn labels_follow_the_cloud_and_their_names_are_recorded() {
    let bench = bench();
    let instance = Instance {
        zone: Some("z2".into()),
        labels: pairs(&[("kept", "2"), ("new", "1"), ("by-hand", "cloud")]),
        ..Instance::default()
    };
    bench.says("a", Ok(instance));
    let labels = json!({"metadata": {
        "labels": {
            "topology.kubernetes.io/zone": "z1", "failure-domain.beta.kubernetes.io/zone": "z1",
            "kept": "1", "gone": "1", "by-hand": "mine",
        },
        "annotations": {"node.skydock.dev/labels": "gone,kept"},
    }});
    bench
        .controller
        .context
        .nodes
        .apply(with(&initialized("a"), &labels));
    bench.start();

    wait().await;
    assert_eq!(bench.api.calls(), ["PATCH /api/v1/nodes/a"]);

    let request = &bench.api.requests()[0];
    assert_eq!(
        request.content_type,
        "application/strategic-merge-patch+json"
    );
    assert_eq!(
        request.body,
        json!({"metadata": {
            "uid": "uid-a",
            "labels": {
                "topology.kubernetes.io/zone": "z2", "failure-domain.beta.kubernetes.io/zone": "z2",
                "kept": "2", "new": "1", "gone": null,
            },
            "annotations": {"node.skydock.dev/labels": "kept,new"},
        }})
    );
}

// Holds: N-17, N-23
#[tokio::test(start_paused = true)]
async fn the_second_patch_of_a_new_node_includes_extra_labels() {
    let bench = bench();
    let labels = pairs(&[("rack", "r7")]);
    bench.says(
        "a",
        Ok(Instance {
            provider_id: Some("fake://a".into()),
            labels,
            ..Instance::default()
        }),
    );
    bench.controller.context.nodes.apply(node("a"));
    bench.start();

    wait().await;
    assert_eq!(bench.api.calls(), ["PATCH /api/v1/nodes/a"]);

    let metadata = json!({
        "uid": "uid-a", "resourceVersion": "1",
        "labels": {"rack": "r7"}, "annotations": {"node.skydock.dev/labels": "rack"},
    });
    assert_eq!(bench.api.requests()[0].body["metadata"], metadata);
}

// Holds: N-18, N-20
#[tokio::test(start_paused = true)]
async fn the_second_patch_uses_the_version_seen_after_the_first() {
    let bench = bench();
    bench.knows("a");
    let nodes = &bench.controller.context.nodes;
    echoes(&bench.api, &Arc::default());
    nodes.apply(node("a"));
    bench.start();
    wait().await;
    assert_eq!(bench.api.calls(), ["PATCH /api/v1/nodes/a/status"]);

    let addresses = json!([{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "a"}]);
    let taints = json!([
        {"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"},
        {"key": "since", "effect": "NoExecute"},
    ]);
    let shown = json!({
        "metadata": {"resourceVersion": "5"}, "status": {"addresses": addresses}, "spec": {"taints": taints},
    });
    nodes.apply(with(&node("a"), &shown));
    wait().await;
    let requests = bench.api.requests();
    let second = requests
        .iter()
        .find(|request| request.path == "/api/v1/nodes/a")
        .unwrap();
    assert_eq!(second.body["metadata"]["resourceVersion"], "5");
    assert_eq!(
        second.body["spec"]["taints"],
        json!([{"key": "since", "effect": "NoExecute"}])
    );
    assert_eq!(bench.cloud.calls(), ["describe a"]);
}

// Holds: N-18
#[tokio::test(start_paused = true)]
async fn the_taint_stays_until_the_watch_shows_the_addresses() {
    let bench = bench();
    bench.knows("a");
    echoes(&bench.api, &Arc::default());
    bench.controller.context.nodes.apply(node("a"));
    bench.start();
    sleep(Duration::from_secs(60)).await;
    let calls = bench.api.calls();
    assert!(
        calls.len() > 2
            && calls
                .iter()
                .all(|call| call == "PATCH /api/v1/nodes/a/status"),
        "{calls:?}"
    );
    assert_eq!(bench.events(), []);
}

#[tokio::test(start_paused = true)]
async fn disabled_updates_are_skipped_and_need_no_call() {
    let bench = bench_with(NodeOptions {
        reconciled: SyncedFields {
            addresses: false,
            labels: true,
        },
        ..NodeOptions::default()
    });
    bench.knows("a");
    bench.controller.context.nodes.apply(initialized("a"));
    bench.start();

    wait().await;
    assert_eq!(bench.api.calls(), ["PATCH /api/v1/nodes/a"]);

    let idle = bench_with(NodeOptions {
        reconciled: SyncedFields {
            addresses: false,
            labels: false,
        },
        ..NodeOptions::default()
    });
    idle.knows("a");
    idle.controller.context.nodes.apply(initialized("a"));
    idle.start();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(idle.cloud.calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_restart_queries_full_batches_and_writes_nothing() {
    let bench = bench();
    for number in 0..100 {
        let name = format!("n{number:02}");
        bench.says(
            &name,
            Ok(Instance {
                zone: Some("z1".into()),
                ..Instance::default()
            }),
        );
        let labels = json!({"metadata": {"labels": {
            "topology.kubernetes.io/zone": "z1", "failure-domain.beta.kubernetes.io/zone": "z1",
        }}});
        bench
            .controller
            .context
            .nodes
            .apply(with(&initialized(&name), &labels));
    }
    bench.start();

    wait().await;
    // Batches have three nodes.
    assert_eq!(bench.cloud.calls().len(), 34);

    sleep(Duration::from_secs(300)).await;
    assert_eq!(bench.cloud.calls().len(), 68);
    assert_eq!(bench.api.requests().len(), 0);
}

// Holds: N-03, N-08
#[tokio::test(start_paused = true)]
async fn each_error_of_a_new_node_decides_on_retry_and_event() {
    // Calls within 90 ms, 6 s and 8 s; whether an event is written. The back-off starts at 5 ms and
    // doubles each time.
    for (error, (expected, reported)) in every_error().into_iter().zip([
        ([5, 11, 11], true), // not found
        ([1, 1, 1], false),  // implemented elsewhere
        ([1, 6, 7], false),  // conflict: 100 ms, doubles each time
        ([1, 1, 2], true),   // throttled for 7 s
        ([1, 1, 2], false),  // in progress for 7 s
        ([5, 11, 11], true), // denied
        ([1, 1, 1], true),   // invalid
        ([5, 11, 11], true), // unavailable
        ([5, 11, 11], true), // internal
    ]) {
        for whole in [false, true] {
            let bench = bench();
            if whole {
                *bench.cloud.whole.lock().unwrap() = Some(error.clone());
            } else {
                bench.says("a", Err(error.clone()));
            }
            bench.controller.context.nodes.apply(node("a"));
            bench.start();
            let mut calls = Vec::new();
            for pause in [90, 5910, 2000] {
                sleep(Duration::from_millis(pause)).await;
                calls.push(bench.cloud.calls().len());
            }
            assert_eq!(calls, expected, "{error}, as a whole: {whole}");
            assert_eq!(bench.api.calls(), Vec::<String>::new(), "{error}");
            let event = (
                "FailedToInitialize".to_owned(),
                format!("Node cannot be initialized: {error}"),
            );
            assert_eq!(
                bench.events().contains(&event),
                reported,
                "{error}: {:?}",
                bench.events()
            );
        }
    }
}

// Holds: N-08
#[tokio::test(start_paused = true)]
async fn a_failure_that_repeats_is_counted_and_rarely_told() {
    for (error, kind) in [
        (CloudError::NotFound("no such machine".into()), "not_found"),
        (CloudError::Unavailable("no answer".into()), "unavailable"),
    ] {
        let bench = bench();
        bench.says("a", Err(error));
        bench.controller.context.nodes.apply(node("a"));
        bench.start();
        let told = || reported(&bench, "FailedToInitialize").len();

        sleep(Duration::from_secs(8)).await;
        let attempts = bench.cloud.calls().len();
        assert_eq!(attempts, 11, "{kind}");
        assert_eq!(told(), 1, "{kind}");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &bench.registry).unwrap();
        let line = format!(
            "skydock_controller_errors_total{{controller=\"cloud-node\",kind=\"{kind}\"}} {attempts}"
        );
        assert!(text.lines().any(|other| other == line), "{text}");

        sleep(Duration::from_secs(120)).await;
        assert_eq!(told(), 2, "{kind}: it is told again");

        bench.says("a", Err(CloudError::Denied("no key".into())));
        sleep(Duration::from_secs(100)).await;
        assert_eq!(told(), 3, "another failure");
        bench.controller.recheck();
        wait().await;
        assert_eq!(told(), 4, "another plugin");
    }
}

#[tokio::test(start_paused = true)]
async fn other_initialization_failures_get_an_event_too() {
    let reported = |bench: &Bench| bench.events().remove(0);
    let bench = bench();
    bench.knows("a");
    bench
        .api
        .fail("PATCH", "/api/v1/nodes/a/status", 403, "Forbidden");
    bench.start();
    bench.controller.context.nodes.apply(node("a"));
    wait().await;

    let (reason, message) = reported(&bench);
    assert_eq!(reason, "FailedToInitialize");
    assert!(
        message.starts_with("Node cannot be updated: forbidden: cannot patch nodes/status"),
        "{message}"
    );

    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &bench.registry).unwrap();
    let line = "skydock_controller_errors_total{controller=\"cloud-node\",kind=\"kubernetes\"} 1";
    assert!(text.lines().any(|other| other == line), "{text}");

    // Neither the node nor the cloud has a provider ID.
    let bench = self::bench();
    bench.says("a", Ok(Instance::default()));
    bench.start();
    bench.controller.context.nodes.apply(node("a"));
    wait().await;
    let (reason, message) = reported(&bench);
    assert_eq!(reason, "FailedToInitialize");
    assert!(
        message.starts_with("Node cannot be initialized: ") && message.contains("provider ID"),
        "{message}"
    );
    assert_eq!(bench.api.calls(), Vec::<String>::new());
}

// Holds: N-29
#[tokio::test(start_paused = true)]
async fn each_error_of_an_initialized_node_decides_on_the_retry() {
    // Calls within 90 ms and 30 s; whether the node is queried again in the next period.
    for (error, (expected, next_period)) in every_error().into_iter().zip([
        ([1, 1], true),  // not found
        ([1, 1], false), // implemented elsewhere: not until the node changes
        ([1, 9], true),  // conflict
        ([1, 5], true),  // throttled for 7 s
        ([1, 5], true),  // in progress for 7 s
        ([1, 1], true),  // denied
        ([1, 1], false), // invalid: not until the node changes
        ([1, 1], true),  // unavailable
        ([1, 1], true),  // internal
    ]) {
        for whole in [false, true] {
            let bench = bench();
            if whole {
                *bench.cloud.whole.lock().unwrap() = Some(error.clone());
            } else {
                bench.says("a", Err(error.clone()));
            }
            bench.controller.context.nodes.apply(initialized("a"));
            bench.start();
            sleep(Duration::from_millis(90)).await;
            let soon = bench.cloud.calls().len();
            sleep(Duration::from_secs(30)).await;
            let later = bench.cloud.calls().len();
            assert_eq!([soon, later], expected, "{error}, as a whole: {whole}");
            sleep(Duration::from_secs(300)).await;
            assert_eq!(
                bench.cloud.calls().len() > later,
                next_period,
                "{error}, as a whole: {whole}"
            );
            assert_eq!(bench.events(), [], "{error}");
            assert_eq!(bench.api.calls(), Vec::<String>::new(), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttling_cloud_is_not_queried_until_the_delay_is_over() {
    let bench = bench();
    *bench.cloud.whole.lock().unwrap() = Some(every_error()[3].clone());
    bench.controller.context.nodes.apply(node("a"));
    bench.start();
    wait().await;
    *bench.cloud.whole.lock().unwrap() = None;
    for name in ["a", "b"] {
        bench.knows(name);
    }
    bench.controller.context.nodes.apply(node("b"));

    sleep(Duration::from_secs(6)).await;
    assert_eq!(bench.cloud.calls(), ["describe a"]);

    sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.api.calls().len(), 4, "{:?}", bench.cloud.calls());
    let reasons: Vec<_> = bench
        .events()
        .into_iter()
        .map(|(reason, _)| reason)
        .collect();
    assert_eq!(
        reasons,
        ["FailedToInitialize", "Synced", "Synced"],
        "the one that only waited is not told a failure"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_plugin_is_queried_about_all_nodes() {
    let bench = bench();
    bench.says("a", Err(CloudError::Invalid("not here".into())));
    bench.controller.context.nodes.apply(initialized("a"));
    bench.start();
    wait().await;
    bench.controller.recheck();
    wait().await;
    assert_eq!(bench.cloud.calls().len(), 2);
}

/// For example by a patch whose answer was lost.
#[tokio::test(start_paused = true)]
async fn existing_addresses_are_not_waited_for() {
    let bench = bench();
    *bench.cloud.look_up.lock().unwrap() = Duration::from_secs(2);
    bench.knows("a");
    bench.controller.context.nodes.apply(node("a"));
    bench.start();
    sleep(Duration::from_secs(1)).await;
    let addresses = json!([{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "a"}]);
    let change = json!({"metadata": {"resourceVersion": "2"}, "status": {"addresses": addresses}});
    bench
        .controller
        .context
        .nodes
        .apply(with(&node("a"), &change));

    sleep(Duration::from_millis(1500)).await;
    assert_eq!(
        bench.api.calls().last().unwrap(),
        "PATCH /api/v1/nodes/a",
        "{:?}",
        bench.api.calls()
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_of_the_previous_plugin_is_ignored() {
    for late in [
        Err(CloudError::Invalid("not here".into())),
        Err(CloudError::Unavailable("away".into())),
    ] {
        let bench = bench();
        *bench.cloud.look_up.lock().unwrap() = Duration::from_secs(20);
        bench.says("a", late);
        bench.controller.context.nodes.apply(initialized("a"));
        bench.start();
        sleep(Duration::from_secs(1)).await;
        bench.controller.recheck();
        sleep(Duration::from_secs(30)).await;
        assert_eq!(bench.cloud.calls(), ["describe a"; 2]);
    }
}

// Holds: N-06, N-24
#[tokio::test(start_paused = true)]
async fn a_deleted_node_is_skipped_and_a_recreated_one_initialized() {
    let bench = bench();
    bench.knows("a");
    bench.start();
    bench
        .controller
        .queue
        .add("nobody".into(), Priority::Change);
    bench.controller.context.nodes.apply(node("a"));
    wait().await;
    bench.controller.context.nodes.delete("a");
    bench.controller.context.nodes.apply(with(
        &node("a"),
        &json!({"metadata": {"uid": "uid-2", "resourceVersion": "7"}}),
    ));

    wait().await;
    assert_eq!(bench.cloud.calls(), ["describe a"; 2]);
    assert_eq!(bench.api.calls().len(), 4);
    assert_eq!(
        bench.api.requests().last().unwrap().body.pointer("/type"),
        Some(&json!("Normal"))
    );

    let patched: Vec<_> = bench
        .api
        .requests()
        .into_iter()
        .filter(|request| request.path == "/api/v1/nodes/a")
        .collect();
    assert_eq!(patched[1].body["metadata"]["uid"], "uid-2");
}

#[tokio::test(start_paused = true)]
async fn zones_override_the_zone_of_describe() {
    let bench = bench();
    *bench.cloud.capabilities.lock().unwrap() =
        Some([Capability::Instances, Capability::Zones].into());
    bench.knows("a");
    bench.controller.context.nodes.apply(node("a"));
    bench.start();
    wait().await;
    let body = bench.api.requests()[1].body.to_string();
    assert!(
        body.contains("\"z9\"") && !body.contains("\"z1\""),
        "{body}"
    );
}

/// Returns the nodes with this event, and its messages.
fn reported(bench: &Bench, reason: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let events = bench.api.events();
    let of = events.iter().filter(|event| event["reason"] == reason);
    of.map(|event| {
        (
            text(&event["involvedObject"]["name"]),
            text(&event["message"]),
        )
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn two_nodes_with_one_provider_id_are_both_told_once() {
    let bench = bench();
    bench.start();
    let nodes = &bench.controller.context.nodes;
    let version = |name: &str, version: &str, id: &str| {
        let change = json!({"metadata": {"resourceVersion": version}, "spec": {"providerID": id}});
        nodes.apply(with(&initialized(name), &change));
    };
    version("a", "1", "fake://1");
    version("b", "1", "fake://1");
    version("b", "2", "fake://1");
    version("foreign", "1", "other://1");
    version("foreign-too", "1", "other://1");
    wait().await;
    let mut reported = reported(&bench, "DuplicateProviderID");
    reported.sort();

    let message = |other: &str| {
        format!(
            "Provider ID \"fake://1\" is also that of node {other}: if the machine was renamed, delete the Node that no \
             longer exists"
        )
    };
    let expected = [
        ("a".to_owned(), message("b")),
        ("b".to_owned(), message("a")),
    ];
    assert_eq!(reported, expected);
}

#[tokio::test(start_paused = true)]
async fn nodes_with_one_internal_address_are_initialized_and_told() {
    let bench = bench();
    for name in ["a", "b"] {
        bench.knows(name);
        let mut instances = bench.cloud.instances.lock().unwrap();
        let instance = instances.get_mut(name).unwrap().as_mut().unwrap();
        instance.addresses[0].address = "10.9.9.9".into();
    }
    bench.start();
    for name in ["a", "b"] {
        bench.controller.context.nodes.apply(node(name));
    }

    wait().await;
    assert_eq!(bench.controller.memory.initialized().len(), 2);

    let mut reported: Vec<_> = reported(&bench, "DuplicateNodeAddress")
        .into_iter()
        .map(|(node, _)| node)
        .collect();
    reported.sort();
    assert_eq!(reported, ["a", "b"]);
}

/// A provider ID cannot be changed: a mistake would stay.
#[tokio::test(start_paused = true)]
async fn a_provider_id_of_a_ready_node_is_not_given_to_another() {
    let bench = bench();
    bench.knows("old");
    let same = bench.cloud.instances.lock().unwrap()["old"].clone();
    bench.says("new", same);
    bench.start();
    let old = |ready: &str, version: &str| {
        let condition = json!([{"type": "Ready", "status": ready}]);
        let change =
            json!({"metadata": {"resourceVersion": version}, "status": {"conditions": condition}});
        bench
            .controller
            .context
            .nodes
            .apply(with(&initialized("old"), &change));
    };
    old("True", "1");
    bench.controller.context.nodes.apply(node("new"));
    sleep(Duration::from_secs(10)).await;
    let rejected = &reported(&bench, "FailedToInitialize")[0];

    let message = "Node cannot be initialized: its provider ID \"fake://old\" is that of node old, which is ready";
    assert!(
        rejected.0 == "new" && rejected.1.starts_with(message),
        "{rejected:?}"
    );
    assert!(
        !bench
            .api
            .calls()
            .iter()
            .any(|call| call.contains("nodes/new"))
    );

    // The kubelet of a machine that was renamed reports under the new name only.
    old("Unknown", "2");
    sleep(Duration::from_secs(30)).await;
    assert!(
        bench
            .api
            .calls()
            .contains(&"PATCH /api/v1/nodes/new".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_instance_of_a_ready_node_is_reported_every_half_hour() {
    let bench = bench();
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let nodes = &bench.controller.context.nodes;
    nodes.apply(with(&initialized("a"), &ready));
    nodes.apply(initialized("b"));
    bench.start();
    sleep(Duration::from_secs(29 * 60)).await;

    let reported = || -> Vec<String> {
        let events = bench.events().into_iter();
        let unknown = events.filter(|(reason, _)| reason == "InstanceNotFound");
        unknown.map(|(_, message)| message).collect()
    };
    assert_eq!(
        reported(),
        [
            "The cloud does not know instance fake://a of this ready node (not found: no such machine), so its addresses and labels \
             are not updated. If the machine was replaced, run: kubectl delete node a"
        ]
    );

    sleep(Duration::from_secs(10 * 60)).await;
    assert_eq!(reported().len(), 2);
}

#[test]
fn a_provider_without_provider_ids_is_said_to_lack_the_permission() {
    let some = foreign("aws:///i-1", &["fake://".to_owned(), "x://".to_owned()]);
    assert!(some.contains("(expected prefix fake://, x://)"), "{some}");
    let none = foreign("fake://a", &[]);
    assert!(
        none.contains("\"fake://a\"") && none.contains("providerIDs below permissions"),
        "{none}"
    );
    assert!(!none.contains("expected prefix"), "{none}");
}

/// Returns this version of a node.
fn version(
    node: &k8s_openapi::api::core::v1::Node,
    number: u32,
) -> k8s_openapi::api::core::v1::Node {
    let version = json!({"metadata": {"resourceVersion": number.to_string()}});
    with(node, &version)
}

// Holds: N-07
#[tokio::test(start_paused = true)]
async fn a_taint_that_is_set_again_and_again_is_removed_at_a_limited_rate() {
    let bench = bench();
    bench.knows("a");
    bench.start();
    let calls = || bench.cloud.calls().len();
    for turn in 0..50 {
        bench
            .controller
            .context
            .nodes
            .apply(version(&node("a"), 1000 + 2 * turn));
        wait().await;
        if turn < 3 {
            let expected = usize::try_from(turn).unwrap() + 1;
            assert_eq!(calls(), expected, "the first ones at once");
        }
        let clean = version(&initialized("a"), 1001 + 2 * turn);
        bench.controller.context.nodes.apply(clean);
        wait().await;
    }
    // 20 seconds.
    assert!((4..=6).contains(&calls()), "{}", calls());

    bench
        .controller
        .context
        .nodes
        .apply(version(&node("a"), 2000));
    let before = calls();
    sleep(Duration::from_secs(11)).await;
    assert_eq!(calls(), before + 1, "it is not forgotten");
}

// Holds: N-26
#[tokio::test(start_paused = true)]
async fn a_label_that_is_removed_again_and_again_is_restored_at_a_limited_rate() {
    let bench = bench();
    bench.start();
    wait().await;
    let beta = "failure-domain.beta.kubernetes.io/zone";
    let lost = json!({"metadata": {"labels": {beta: "z1"}}});
    let whole = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "z1"}}});
    let lost = with(&initialized("a"), &lost);
    let whole = with(&lost, &whole);
    let writes = || {
        let calls = bench.api.calls();
        calls
            .iter()
            .filter(|call| *call == "PATCH /api/v1/nodes/a")
            .count()
    };
    for turn in 0..50 {
        bench
            .controller
            .context
            .nodes
            .apply(version(&lost, 1000 + 2 * turn));
        wait().await;
        if turn == 0 {
            assert_eq!(writes(), 1, "at once");
        }
        bench
            .controller
            .context
            .nodes
            .apply(version(&whole, 1001 + 2 * turn));
        wait().await;
    }
    assert!((4..=6).contains(&writes()), "{}", writes());

    bench.controller.context.nodes.apply(version(&lost, 2000));
    let before = writes();
    sleep(Duration::from_secs(11)).await;
    assert_eq!(writes(), before + 1, "it is not forgotten");
}
