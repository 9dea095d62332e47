use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Service};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use skydock_cloud::{CloudError, Ingress, LoadBalancerStatus, NodeFields, Retry};
use skydock_controller_base::{
    controller::context::{Runner, metrics::SharedMetrics},
    objects::{address_holders::AddressHolders, constants::FINALIZER, read_objects::ReadObjects},
    testing::{FakeApi, FakeCloud, context, node, service, with},
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;

mod errors;
mod nodes;
mod pace;
mod restart;
mod upstream;

const STATUS: &str = "PATCH /api/v1/namespaces/ns/services/web/status";
const STATUS_PATH: &str = "/api/v1/namespaces/ns/services/web/status";

struct Bench {
    api: FakeApi,
    cloud: Arc<FakeCloud>,
    controller: Arc<ServiceController>,
    registry: Registry,
    shutdown: CancellationToken,
}

fn bench() -> Bench {
    bench_with(ServiceOptions {
        concurrent_syncs: 4,
        ..ServiceOptions::default()
    })
}

fn bench_with(options: ServiceOptions) -> Bench {
    bench_where(options, &[], &[])
}

/// Creates a controller that finds these nodes and Services when it starts.
fn bench_where(options: ServiceOptions, nodes: &[Node], services: &[Service]) -> Bench {
    let api = FakeApi::default();
    bench_on(api, options, (nodes, services), None)
}

/// Creates a controller on this API server, with these records.
fn bench_on(
    api: FakeApi,
    options: ServiceOptions,
    (nodes, services): (&[Node], &[Service]),
    records: Option<RecordStore>,
) -> Bench {
    let cloud = Arc::new(FakeCloud::default());
    let mut registry = Registry::default();
    let shared_metrics = SharedMetrics::register(&mut registry);
    let metrics = ServiceMetrics::register(&mut registry);
    metrics.also_as_openstack(&mut registry);
    let context = context(&CONTROLLER, &api, cloud.clone(), &shared_metrics);
    nodes
        .iter()
        .for_each(|node| drop(context.nodes.apply(node.clone())));
    let present = Arc::new(Informer::default());
    let address_holders = AddressHolders::follow(&context.nodes, &present);
    services
        .iter()
        .for_each(|service| drop(present.apply(service.clone())));
    let controller = Arc::new(ServiceController::new(
        context,
        metrics,
        api.client(),
        present,
        options,
        ServiceDependencies {
            written_annotations: Arc::default(),
            read_objects: &Arc::new(ReadObjects::new(api.client())),
            address_holders: &address_holders,
            records,
        },
    ));
    let (running, shutdown) = (Arc::clone(&controller), CancellationToken::new());
    tokio::spawn(running.run(shutdown.clone()));
    Bench {
        api,
        cloud,
        controller,
        registry,
        shutdown,
    }
}

impl Bench {
    async fn has(&self, service: Service) {
        self.controller.services.apply(service);
        wait().await;
    }

    async fn has_node(&self, node: Node) {
        self.controller.context.nodes.apply(node);
        wait().await;
    }

    /// Adds a Service with a load balancer, as after `ensure`.
    async fn serves(&self) {
        self.has_node(plain_node("n1")).await;
        self.has(service("web")).await;
        self.has(served("2")).await;
        self.cloud.calls.lock().unwrap().clear();
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.cloud.calls.lock().unwrap())
    }

    /// Returns the lines of the metrics that start with this name.
    fn metric(&self, name: &str) -> Vec<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text.lines()
            .filter(|line| line.starts_with(name))
            .map(str::to_owned)
            .collect()
    }

    fn reasons(&self) -> Vec<String> {
        self.events()
            .into_iter()
            .map(|(reason, _)| reason)
            .collect()
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

async fn wait() {
    sleep(Duration::from_millis(250)).await;
}

fn plain_node(name: &str) -> Node {
    with(
        &node(name),
        &json!({"spec": {"taints": null, "providerID": format!("fake://{name}")}}),
    )
}

fn served(version: &str) -> Service {
    with(
        &service("web"),
        &json!({
            "metadata": {"resourceVersion": version, "finalizers": [FINALIZER]},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}},
        }),
    )
}

fn deleted(version: &str) -> Service {
    with(
        &served(version),
        &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    )
}

fn changed(service: &Service, version: &str) -> Service {
    with(
        service,
        &json!({"metadata": {"resourceVersion": version, "annotations": {"version": version}}}),
    )
}

fn retry_after(seconds: u64) -> Retry {
    Retry {
        after: Duration::from_secs(seconds),
        message: "wait".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn services_are_counted_by_state() {
    let bench = bench();
    let states = || {
        let lines = bench.metric("skydock_services{");
        let values = lines.iter().filter_map(|line| line.rsplit(' ').next());
        values.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(states(), "0 0 0 0", "ready, pending, failing, deleting");
    bench.serves().await;
    assert_eq!(states(), "1 0 0 0");
}

#[tokio::test(start_paused = true)]
async fn openstacks_metrics_count_operations_that_have_ended() {
    let bench = bench();
    bench.has_node(plain_node("n1")).await;
    let at_it = || Err(CloudError::InProgress(retry_after(30)));
    (0..2).for_each(|_| bench.cloud.ensure.lock().unwrap().push_back(at_it()));
    bench.has(service("web")).await;
    let counted = || bench.metric("cloudprovider_openstack_reconcile_total{");
    assert!(counted().is_empty(), "{:?}", counted());

    sleep(Duration::from_secs(90)).await;
    let ensured = "cloudprovider_openstack_reconcile_total{operation=\"loadbalancer_ensure\"} 1";
    assert_eq!(counted(), [ensured]);
    let sum = bench.metric("cloudprovider_openstack_reconcile_duration_seconds_sum{");
    let seconds = sum[0].rsplit(' ').next().unwrap().parse::<f64>().unwrap();
    assert!((60.0..90.0).contains(&seconds), "{seconds}");

    let failed = Err(CloudError::Internal("why".to_owned()));
    bench.cloud.delete.lock().unwrap().push_back(failed);
    bench.has(served("2")).await;
    bench.has(deleted("3")).await;
    assert_eq!(
        bench.metric("cloudprovider_openstack_reconcile_errors_total{"),
        ["cloudprovider_openstack_reconcile_errors_total{operation=\"loadbalancer_delete\"} 1"]
    );
}

// Holds: S-19, S-20, S-23, S-27, S-28
#[tokio::test(start_paused = true)]
async fn a_service_gets_finalizer_then_load_balancer_then_status() {
    let bench = bench();
    bench.has_node(plain_node("n1")).await;
    bench.has(service("web")).await;
    assert_eq!(bench.calls(), ["ensure web n1"]);
    assert_eq!(bench.api.calls(), [STATUS, STATUS]);
    let requests: Vec<_> = bench
        .api
        .requests()
        .into_iter()
        .filter(|request| request.method == "PATCH")
        .collect();
    assert_eq!(
        requests[0].content_type,
        "application/strategic-merge-patch+json"
    );
    assert_eq!(
        requests[0].body,
        json!({"metadata": {"uid": "uid-web", "finalizers": [FINALIZER]}})
    );
    assert_eq!(requests[1].content_type, "application/merge-patch+json");
    assert_eq!(
        requests[1].body,
        json!({
            "metadata": {"uid": "uid-web"}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
        })
    );
    assert_eq!(
        bench.reasons(),
        ["EnsuringLoadBalancer", "EnsuredLoadBalancer"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn services_are_computed_on_two_threads_at_a_time() {
    let bench = bench();
    let meeting = bench.cloud.meets("ensure");
    for name in ["web", "other"] {
        bench.controller.services.apply(with(
            &service(name),
            &json!({"metadata": {"uid": format!("uid-{name}")}}),
        ));
    }
    assert!(meeting.took_place().await, "{:?}", bench.calls());
}

// Holds: S-20
#[tokio::test(start_paused = true)]
async fn without_the_finalizer_the_cloud_is_not_called() {
    let bench = bench();
    bench.api.fail("PATCH", STATUS_PATH, 403, "Forbidden");
    bench.has(service("web")).await;
    assert_eq!(bench.calls(), Vec::<String>::new());
    let (reason, message) = bench.events().pop().unwrap();
    assert_eq!(reason, "SyncLoadBalancerFailed");
    assert!(message.starts_with("Error syncing load balancer: failed to add load balancer cleanup finalizer: forbidden: cannot patch services/status"), "{message}");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(bench.calls(), ["ensure web "]);
}

// Holds: S-14
#[tokio::test(start_paused = true)]
async fn after_a_restart_a_check_writes_no_patch_and_no_event() {
    let bench = bench();
    bench.has_node(plain_node("n1")).await;
    bench.has(served("5")).await;
    assert_eq!(bench.calls(), ["ensure web n1"]);
    assert_eq!(bench.api.calls(), Vec::<String>::new());
    assert_eq!(bench.reasons(), Vec::<String>::new());
}

// Holds: S-06
#[tokio::test(start_paused = true)]
async fn a_service_with_a_foreign_class_is_not_changed() {
    let bench = bench();
    bench
        .has(with(
            &service("web"),
            &json!({"spec": {"loadBalancerClass": "x.io/y"}}),
        ))
        .await;
    bench
        .has(with(
            &service("web"),
            &json!({"metadata": {"resourceVersion": "2"}, "spec": {"loadBalancerClass": "x.io/y", "ports": []}}),
        ))
        .await;
    assert_eq!(
        (bench.calls(), bench.api.calls(), bench.reasons()),
        Default::default()
    );
}

// Holds: S-21
#[tokio::test(start_paused = true)]
async fn without_nodes_there_is_a_warning_and_the_cloud_is_called() {
    let bench = bench();
    bench.has(service("web")).await;
    assert_eq!(bench.calls(), ["ensure web "]);
    assert!(
        bench
            .reasons()
            .contains(&"UnAvailableLoadBalancer".to_owned())
    );
}

// Holds: S-24
#[tokio::test(start_paused = true)]
async fn a_service_implemented_elsewhere_is_not_retried() {
    let bench = bench();
    bench
        .cloud
        .ensure
        .lock()
        .unwrap()
        .push_back(Err(CloudError::ImplementedElsewhere));
    bench.has(service("web")).await;
    // The cache sees the finalizer come and go.
    for (version, finalizers) in [("2", json!([FINALIZER])), ("3", json!(null))] {
        let change = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
        bench.has(with(&service("web"), &change)).await;
    }
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.calls().len(), 1);
    assert_eq!(bench.api.calls(), [STATUS, STATUS]);
    let removal =
        json!({"metadata": {"uid": "uid-web", "$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
    let patches = bench.api.requests();
    let mut patches = patches.iter().filter(|request| request.method == "PATCH");
    assert_eq!(patches.next_back().unwrap().body, removal);
    assert!(bench.controller.known.all().is_empty());
    assert!(!bench.reasons().contains(&"EnsuredLoadBalancer".to_owned()));
    assert!(
        !bench
            .reasons()
            .contains(&"SyncLoadBalancerFailed".to_owned())
    );
}

// Holds: S-17, S-26, S-40
#[tokio::test(start_paused = true)]
async fn a_failure_is_reported_and_retried_after_5_then_10_seconds() {
    let bench = bench();
    for _ in 0..2 {
        bench
            .cloud
            .ensure
            .lock()
            .unwrap()
            .push_back(Err(CloudError::Denied("no key".into())));
    }
    bench.has(service("web")).await;
    assert_eq!(bench.calls().len(), 1);
    assert_eq!(bench.api.events().pop().unwrap()["type"], "Warning");
    let last = bench.events().pop().unwrap();
    assert_eq!(
        last,
        (
            "SyncLoadBalancerFailed".to_owned(),
            "Error syncing load balancer: failed to ensure load balancer: denied: no key"
                .to_owned(),
        )
    );
    sleep(Duration::from_millis(4500)).await;
    assert_eq!(bench.calls().len(), 0);
    sleep(Duration::from_millis(500)).await;
    assert_eq!(bench.calls().len(), 1);
    sleep(Duration::from_secs(9)).await;
    assert_eq!(bench.calls().len(), 0);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.calls().len(), 1);
    let reasons = bench.reasons();
    assert_eq!(
        reasons
            .iter()
            .filter(|reason| *reason == "EnsuringLoadBalancer")
            .count(),
        1
    );
    assert_eq!(reasons.last().unwrap(), "EnsuredLoadBalancer");
}

// Holds: S-39
#[tokio::test(start_paused = true)]
async fn a_requested_delay_is_exact_and_progress_is_not_a_failure() {
    for (error, warned) in [
        (CloudError::InProgress(retry_after(42)), false),
        (CloudError::Throttled(retry_after(42)), true),
    ] {
        let bench = bench();
        bench
            .cloud
            .ensure
            .lock()
            .unwrap()
            .push_back(Err(error.clone()));
        bench.has(service("web")).await;
        sleep(Duration::from_millis(41_500)).await;
        assert_eq!(bench.calls().len(), 1, "{error}");
        sleep(Duration::from_millis(500)).await;
        assert_eq!(bench.calls().len(), 1, "{error}");
        assert_eq!(
            bench
                .reasons()
                .contains(&"SyncLoadBalancerFailed".to_owned()),
            warned,
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_service_is_retried_on_a_change_or_by_the_check() {
    let bench = bench();
    let invalid = || Err(CloudError::Invalid("no UDP".into()));
    bench
        .cloud
        .ensure
        .lock()
        .unwrap()
        .extend([invalid(), invalid()]);
    bench.has(service("web")).await;

    sleep(Duration::from_secs(1780)).await;
    assert_eq!(bench.calls().len(), 1);

    // The cloud may accept what it rejected before, whatever the plugin calls it; and events
    // expire.
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.calls().len(), 1);
    assert_eq!(
        bench
            .reasons()
            .iter()
            .filter(|reason| *reason == "SyncLoadBalancerFailed")
            .count(),
        2
    );

    bench.has(changed(&service("web"), "2")).await;
    assert_eq!(bench.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_source_range_gets_an_event_without_a_cloud_call() {
    let bench = bench();
    bench
        .has(with(
            &service("web"),
            &json!({"spec": {"loadBalancerSourceRanges": ["10.0.0.1"]}}),
        ))
        .await;
    assert_eq!(bench.calls(), Vec::<String>::new());
    assert!(
        bench.events()[0]
            .1
            .contains("\"10.0.0.1\" is not a valid CIDR")
    );
}

// Holds: S-28
#[tokio::test(start_paused = true)]
async fn a_failed_status_write_is_retried_unless_the_service_is_gone() {
    let bench = bench();
    bench
        .api
        .answer("PATCH", STATUS_PATH, 200, json!({"metadata": {}}));
    bench.api.fail("PATCH", STATUS_PATH, 409, "Conflict");
    bench.has(service("web")).await;
    let (_, message) = bench
        .events()
        .into_iter()
        .find(|(reason, _)| reason == "SyncLoadBalancerFailed")
        .unwrap();
    assert!(
        message.contains("failed to update load balancer status: "),
        "{message}"
    );
    assert_eq!(bench.calls().len(), 2);
    assert_eq!(
        bench
            .reasons()
            .iter()
            .filter(|reason| *reason == "EnsuringLoadBalancer")
            .count(),
        1
    );

    let bench = self::bench();
    bench
        .api
        .answer("PATCH", STATUS_PATH, 200, json!({"metadata": {}}));
    bench.api.fail("PATCH", STATUS_PATH, 404, "NotFound");
    bench.has(service("web")).await;
    assert_eq!(
        bench.reasons(),
        [
            "EnsuringLoadBalancer",
            "UnAvailableLoadBalancer",
            "EnsuredLoadBalancer"
        ]
    );
}

// Holds: S-09, S-18, S-30, S-31, S-33, S-34, S-35
#[tokio::test(start_paused = true)]
async fn a_deleted_service_loses_load_balancer_then_finalizer() {
    let bench = bench();
    bench.serves().await;
    let before = bench.api.calls().len();
    bench.has(deleted("3")).await;
    assert_eq!(bench.calls(), ["get web", "delete web uid-web"]);
    let requests = bench.api.requests();
    let patches: Vec<_> = requests
        .iter()
        .filter(|request| request.method == "PATCH")
        .skip(before)
        .collect();
    assert_eq!(
        patches[0].body,
        json!({"metadata": {"uid": "uid-web", "$deleteFromPrimitiveList/finalizers": [FINALIZER]}})
    );
    assert_eq!(
        patches[1].body,
        json!({"metadata": {"uid": "uid-web"}, "status": {"loadBalancer": {"ingress": null}}})
    );
    assert_eq!(
        bench.reasons()[2..],
        ["DeletingLoadBalancer", "DeletedLoadBalancer"]
    );
    bench.controller.services.delete("ns/web");
    wait().await;
    assert_eq!(bench.calls(), Vec::<String>::new());
    assert!(bench.controller.known.all().is_empty());
}

// Holds: S-32, S-34
#[tokio::test(start_paused = true)]
async fn a_missing_load_balancer_gets_no_deleting_event() {
    let calls = ["get web", "delete web uid-web"];
    let deleted_event = &["DeletedLoadBalancer"][..];
    for (answer, calls, writes, reasons) in [
        (Ok(None), &calls[..], &[STATUS, STATUS][..], deleted_event),
        (
            Err(CloudError::NotFound("none".into())),
            &calls[..],
            &[STATUS, STATUS],
            deleted_event,
        ),
        // It is the other implementation that deletes it, and removes the status.
        (
            Err(CloudError::ImplementedElsewhere),
            &calls[..1],
            &[STATUS],
            &["ImplementedElsewhere"],
        ),
    ] {
        let bench = bench();
        bench.serves().await;
        let before = bench.api.calls().len();
        bench.cloud.get.lock().unwrap().push_back(answer);
        bench.has(deleted("3")).await;
        assert_eq!(bench.calls(), calls);
        assert_eq!(bench.api.calls()[before..], *writes);
        assert_eq!(bench.reasons()[2..], *reasons);
    }
}

// Holds: S-30, S-31
#[tokio::test(start_paused = true)]
async fn the_finalizer_stays_until_the_cloud_answers_and_deletes() {
    let bench = bench();
    bench
        .cloud
        .get
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Unavailable("down".into())));
    bench
        .cloud
        .delete
        .lock()
        .unwrap()
        .push_back(Err(CloudError::InProgress(retry_after(7))));
    bench.has(deleted("3")).await;
    assert_eq!(bench.calls(), ["get web"]);
    assert!(
        bench.events()[0]
            .1
            .contains("failed to check if load balancer exists before cleanup: unavailable: down")
    );
    sleep(Duration::from_secs(5)).await;
    assert_eq!(bench.calls(), ["get web", "delete web uid-web"]);
    sleep(Duration::from_millis(6500)).await;
    assert_eq!((bench.calls(), bench.api.calls()), Default::default());
    sleep(Duration::from_millis(500)).await;
    // The deletion was started, so it is finished whether or not the cloud reports a load balancer.
    assert_eq!(bench.calls(), ["delete web uid-web"]);
    assert_eq!(bench.api.calls().len(), 2);
    assert_eq!(
        bench.reasons(),
        [
            "SyncLoadBalancerFailed",
            "DeletingLoadBalancer",
            "DeletedLoadBalancer"
        ]
    );
}

// Holds: S-36
#[tokio::test(start_paused = true)]
async fn changing_the_type_deletes_and_recreates_the_load_balancer() {
    let bench = bench();
    bench.serves().await;
    let cluster_ip = with(&served("3"), &json!({"spec": {"type": "ClusterIP"}}));
    bench.api.forget();
    bench.has(cluster_ip).await;
    assert_eq!(bench.calls(), ["get web", "delete web uid-web"]);
    let patches: Vec<_> = bench
        .api
        .requests()
        .into_iter()
        .filter(|request| request.method == "PATCH")
        .collect();
    assert_eq!(
        patches[0].body["metadata"]["$deleteFromPrimitiveList/finalizers"],
        json!([FINALIZER])
    );
    assert_eq!(
        patches[1].body["status"],
        json!({"loadBalancer": {"ingress": null}})
    );
    bench
        .has(with(
            &service("web"),
            &json!({"metadata": {"resourceVersion": "4"}, "spec": {"type": "ClusterIP"}}),
        ))
        .await;
    assert_eq!(bench.calls(), Vec::<String>::new());
    bench
        .has(with(
            &service("web"),
            &json!({"metadata": {"resourceVersion": "5"}}),
        ))
        .await;
    assert_eq!(bench.calls(), ["ensure web n1"]);
}

// Holds: S-35
#[tokio::test(start_paused = true)]
async fn failing_to_clear_the_status_of_a_gone_service_is_ignored() {
    for (code, reason) in [(404, "NotFound"), (409, "Conflict")] {
        let bench = bench();
        bench.serves().await;
        bench
            .api
            .answer("PATCH", STATUS_PATH, 200, json!({"metadata": {}}));
        bench.api.fail("PATCH", STATUS_PATH, code, reason);
        bench.has(deleted("3")).await;
        sleep(Duration::from_secs(60)).await;
        assert_eq!(bench.calls(), ["get web", "delete web uid-web"], "{reason}");
        assert_eq!(
            bench.reasons().last().unwrap(),
            "DeletedLoadBalancer",
            "{reason}"
        );
        assert_eq!(bench.controller.known.len(), 0, "{reason}");
    }
}

// Holds: S-15
#[tokio::test(start_paused = true)]
async fn a_recreated_service_loses_its_old_load_balancer_first() {
    let bench = bench();
    bench.serves().await;
    bench
        .cloud
        .delete
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Internal("boom".into())));
    bench
        .has(with(
            &service("web"),
            &json!({"metadata": {"uid": "uid-new", "resourceVersion": "9"}}),
        ))
        .await;
    assert_eq!(bench.calls(), ["delete web uid-web"]);

    let failed = (
        "DeleteLoadBalancerFailed".to_owned(),
        "Error deleting load balancer: internal error: boom".to_owned(),
    );
    assert!(bench.events().contains(&failed), "{:?}", bench.events());

    sleep(Duration::from_secs(5)).await;
    assert_eq!(bench.calls(), ["delete web uid-web", "ensure web n1"]);
    assert!(
        !bench
            .reasons()
            .contains(&"SyncLoadBalancerFailed".to_owned())
    );
}

// Holds: S-09, S-43, S-44, S-54
#[tokio::test(start_paused = true)]
async fn only_a_known_vanished_service_loses_its_load_balancer() {
    let bench = bench();
    bench.serves().await;
    bench
        .cloud
        .delete
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Throttled(retry_after(3))));
    bench.controller.services.delete("ns/web");
    wait().await;
    assert_eq!(bench.calls(), ["delete web uid-web"]);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(bench.calls(), ["delete web uid-web"]);
    assert!(bench.controller.known.all().is_empty());
    bench
        .controller
        .queue
        .add("ns/never".into(), Priority::Change);
    wait().await;
    assert_eq!(bench.calls(), Vec::<String>::new());
}

// Holds: S-05
#[tokio::test(start_paused = true)]
async fn a_new_plugin_rechecks_all_services() {
    let bench = bench();
    bench.serves().await;
    bench.controller.recheck();
    wait().await;
    assert_eq!(bench.calls(), ["ensure web n1"]);
    let drifted = LoadBalancerStatus {
        ingress: vec![Ingress {
            hostname: Some("x".into()),
            ..Ingress::default()
        }],
    };
    bench.cloud.ensure.lock().unwrap().push_back(Ok(drifted));
    bench.controller.recheck();
    wait().await;
    assert_eq!(bench.reasons().last().unwrap(), "EnsuredLoadBalancer");
}

#[tokio::test(start_paused = true)]
async fn a_new_plugin_retries_a_failed_cleanup_at_once() {
    let bench = bench();
    bench.serves().await;
    bench
        .cloud
        .get
        .lock()
        .unwrap()
        .push_back(Err(CloudError::Throttled(retry_after(3600))));
    bench.has(deleted("3")).await;
    assert_eq!(bench.calls(), ["get web"]);
    bench.controller.recheck();
    wait().await;
    assert_eq!(bench.calls(), ["get web", "delete web uid-web"]);
}

// Holds: S-33
#[tokio::test(start_paused = true)]
async fn a_failed_finalizer_removal_is_retried() {
    let bench = bench();
    bench.api.fail("PATCH", STATUS_PATH, 500, "InternalError");
    bench.has(deleted("3")).await;
    let (_, message) = bench
        .events()
        .into_iter()
        .find(|(reason, _)| reason == "SyncLoadBalancerFailed")
        .unwrap();
    assert!(
        message.contains(
            "failed to remove load balancer cleanup finalizer: cannot patch services/status"
        ),
        "{message}"
    );
    assert!(!bench.reasons().contains(&"DeletedLoadBalancer".to_owned()));
    sleep(Duration::from_secs(5)).await;
    assert_eq!(bench.reasons().last().unwrap(), "DeletedLoadBalancer");
}

fn invalid(version: &str) -> Service {
    with(
        &served(version),
        &json!({"spec": {"loadBalancerSourceRanges": ["10.0.0.1"]}}),
    )
}

// Holds: S-12
#[tokio::test(start_paused = true)]
async fn a_service_restored_during_cleanup_is_written_again() {
    let bench = bench();
    bench.serves().await;
    // The cleanup of an earlier version ends after the cache has shown that a load balancer is
    // wanted again, and the cache shows what the cleanup has written only after the Service was
    // ensured.
    bench.has(changed(&served("4"), "4")).await;
    bench.calls();
    let before = bench.api.calls().len();
    let without = with(
        &changed(&served("5"), "4"),
        &json!({"metadata": {"resourceVersion": "5", "finalizers": null}}),
    );
    bench.has(without.clone()).await;
    assert_eq!(bench.calls(), ["ensure web n1"]);
    assert_eq!(bench.api.calls()[before..], [STATUS], "the finalizer");
    bench.has(changed(&served("6"), "4")).await;
    assert_eq!(
        bench.calls(),
        Vec::<String>::new(),
        "its own writing is not a reason to write"
    );
    let before = bench.api.calls().len();
    let cleared = json!({"metadata": {"resourceVersion": "7"}, "status": {"loadBalancer": null}});
    bench.has(with(&changed(&served("6"), "4"), &cleared)).await;
    assert_eq!(bench.calls(), ["ensure web n1"]);
    assert_eq!(bench.api.calls()[before..], [STATUS], "the status");
}

#[tokio::test(start_paused = true)]
async fn a_partly_created_load_balancer_is_deleted_even_if_not_shown() {
    for version in [json!({}), json!({"status": null})] {
        let bench = bench();
        bench.cloud.get.lock().unwrap().push_back(Ok(None));
        bench.has(with(&deleted("3"), &version)).await;
        assert_eq!(bench.calls(), ["get web", "delete web uid-web"]);
        assert_eq!(bench.reasons(), ["DeletedLoadBalancer"]);
    }
}

// Holds: S-12
#[tokio::test(start_paused = true)]
async fn a_status_that_someone_else_has_written_is_replaced() {
    let bench = bench();
    bench.serves().await;
    let before = bench.api.calls().len();
    let other = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.66"}]}}});
    bench
        .has(with(
            &with(&served("3"), &other),
            &json!({"metadata": {"resourceVersion": "3"}}),
        ))
        .await;
    assert_eq!(bench.calls(), Vec::<String>::new(), "not each time");
    sleep(Duration::from_secs(11)).await;
    assert_eq!(bench.calls(), ["ensure web n1"]);
    assert_eq!(bench.api.calls().len(), before + 1);

    // What this process has written is no such change.
    bench.has(served("4")).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.calls(), Vec::<String>::new());
}

fn of_class(service: &Service, version: &str) -> Service {
    let change =
        json!({"metadata": {"resourceVersion": version}, "spec": {"loadBalancerClass": "x.io/y"}});
    with(service, &change)
}

// Holds: S-36
#[tokio::test(start_paused = true)]
async fn a_service_that_moves_during_a_slow_call_is_left_to_the_other_implementation() {
    let bench = bench();
    bench.has_node(plain_node("n1")).await;
    bench.cloud.ensure_takes(Duration::from_secs(10));
    bench.has(service("web")).await;
    // The other implementation finds the finalizer there, and writes its status.
    let theirs = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.66"}]}}});
    bench.has(with(&of_class(&served("2"), "3"), &theirs)).await;
    let before = bench.api.calls().len();
    sleep(Duration::from_secs(20)).await;
    assert_eq!(
        bench.calls(),
        ["ensure web n1", "get web", "delete web uid-web"]
    );
    assert_eq!(bench.api.calls()[before..], [STATUS], "only an annotation");
    let patches = bench.api.requests();
    let patch = patches.iter().rfind(|request| request.method == "PATCH");
    assert_eq!(
        patch.unwrap().body,
        json!({"metadata": {"uid": "uid-web", "annotations": {skydock_controller_base::objects::constants::ANNOTATION_CLASS: "left:@uid-web"}}})
    );
    assert!(!bench.reasons().contains(&"EnsuredLoadBalancer".to_owned()));
    assert!(bench.controller.known.all().is_empty());
}

// Holds: S-12
#[tokio::test(start_paused = true)]
async fn what_someone_else_removes_again_and_again_is_restored_at_a_limited_rate() {
    let bench = bench();
    bench.serves().await;
    let lost = [
        json!({"metadata": {"finalizers": null}}),
        json!({"status": {"loadBalancer": null}}),
    ];
    for n in 0..400 {
        let version = json!({"metadata": {"resourceVersion": (10 + n).to_string()}});
        let whole = with(&served("2"), &version);
        let change = lost.get(n % 4).map(|lost| with(&whole, lost));
        bench.has(change.unwrap_or(whole)).await;
    }
    // 100 seconds.
    let calls = bench.calls().len();
    assert!((10..=14).contains(&calls), "{calls}");
    sleep(Duration::from_secs(60)).await;
    bench.calls();
    bench.has(with(&served("999"), &lost[1])).await;
    assert_eq!(bench.calls(), ["ensure web n1"], "after a rest, at once");
}

// Holds: S-24
#[tokio::test(start_paused = true)]
async fn a_hand_over_is_told_once() {
    let bench = bench();
    bench.serves().await;
    for version in ["3", "4"] {
        let answer = Err(CloudError::ImplementedElsewhere);
        bench.cloud.ensure.lock().unwrap().push_back(answer);
        bench.has(changed(&served(version), version)).await;
    }
    let mut reported = bench.events();
    reported.retain(|(reason, _)| reason == "ImplementedElsewhere");
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].1.contains("stays in the cloud"), "{reported:?}");
}

// Holds: S-33
#[tokio::test(start_paused = true)]
async fn a_service_with_an_edited_annotation_is_cleaned_up() {
    let bench = bench();
    bench.serves().await;
    let edited = json!({"metadata": {"annotations": {skydock_controller_base::objects::constants::ANNOTATION_CLASS: "zzz@uid-web"}}});
    bench.has(with(&served("3"), &edited)).await;
    let before = bench.api.calls().len();
    bench.has(with(&deleted("4"), &edited)).await;
    assert_eq!(bench.calls(), ["get web", "delete web uid-web"]);
    assert_eq!(bench.api.calls()[before..], [STATUS, STATUS]);
}

// Holds: SEC-16
#[tokio::test(start_paused = true)]
async fn a_service_with_the_address_of_one_that_is_left_elsewhere_is_asked_again() {
    let bench = bench();
    bench.serves().await;
    let theirs = json!({"metadata": {"name": "theirs", "uid": "uid-theirs"}});
    let answer = Err(CloudError::ImplementedElsewhere);
    bench.cloud.ensure.lock().unwrap().push_back(answer);
    bench.has(with(&served("3"), &theirs)).await;
    assert_eq!(bench.calls(), ["ensure theirs n1"]);

    sleep(ADDRESS_CONFLICT_DELAY).await;
    assert_eq!(bench.calls(), ["ensure web n1"]);
    sleep(10 * ADDRESS_CONFLICT_DELAY).await;
    assert_eq!(bench.calls(), [""; 0], "only once");
}
