use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use skydock_cloud::{AddressKind, NodeAddress, Retry};
use tokio::time::Instant;

use super::*;
use crate::{
    Controller, Metrics,
    events::Recorder,
    testing::{FakeApi, FakeCloud, node, with},
};

struct Bench {
    api: FakeApi,
    cloud: Arc<FakeCloud>,
    controller: Arc<NodeController>,
    shutdown: CancellationToken,
}

fn bench() -> Bench {
    let (api, cloud) = (FakeApi::default(), Arc::new(FakeCloud::default()));
    let metrics = Metrics::register(&mut Registry::default());
    let (recorder, writer) = Recorder::new(api.client(), metrics.clone());
    tokio::spawn(writer.run(CancellationToken::new()));
    let shared =
        Shared { controller: Controller::Node, provider: cloud.clone(), nodes: Arc::default(), recorder, metrics };
    let controller = Arc::new(NodeController::new(shared, api.client(), 2, Duration::from_secs(300)));
    Bench { api, cloud, controller, shutdown: CancellationToken::new() }
}

impl Bench {
    fn start(&self) {
        let (controller, shutdown) = (Arc::clone(&self.controller), self.shutdown.clone());
        tokio::spawn(async move { controller.run(shutdown).await });
    }

    fn knows(&self, name: &str) {
        self.says(
            name,
            Ok(Instance {
                provider_id: Some(format!("fake://{name}")),
                addresses: vec![NodeAddress { kind: AddressKind::InternalIp, address: "10.0.0.1".into() }],
                zone: Some("z1".into()),
                ..Instance::default()
            }),
        );
    }

    fn says(&self, name: &str, answer: Result<Instance, CloudError>) {
        self.cloud.instances.lock().unwrap().insert(name.into(), answer);
    }

    fn events(&self) -> Vec<(String, String)> {
        let requests = self.api.requests();
        let posted = requests.iter().filter(|request| request.path.contains("/events") && request.method == "POST");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        posted.map(|request| (text(&request.body["reason"]), text(&request.body["message"]))).collect()
    }
}

async fn wait() {
    sleep(Duration::from_millis(200)).await;
}

#[tokio::test(start_paused = true)]
async fn n18_n19_n20_addresses_are_written_first_then_id_labels_and_taint_in_one_patch() {
    let bench = bench();
    bench.knows("a");
    bench.start();
    bench.controller.shared.nodes.apply(node("a"));
    wait().await;

    assert_eq!(bench.api.calls(), ["PATCH /api/v1/nodes/a/status", "PATCH /api/v1/nodes/a"]);
    let requests = bench.api.requests();
    assert_eq!(requests[0].content_type, "application/merge-patch+json");
    assert_eq!(
        requests[0].body,
        json!({
            "metadata": {"uid": "uid-a"},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "a"}]},
        })
    );
    assert_eq!(requests[1].content_type, "application/json-patch+json");
    assert_eq!(
        requests[1].body,
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "uid-a"},
            {"op": "add", "path": "/spec/providerID", "value": "fake://a"},
            {"op": "add", "path": "/metadata/labels/failure-domain.beta.kubernetes.io~1zone", "value": "z1"},
            {"op": "add", "path": "/metadata/labels/topology.kubernetes.io~1zone", "value": "z1"},
            {"op": "test", "path": "/spec/taints/1/key", "value": "node.cloudprovider.kubernetes.io/uninitialized"},
            {"op": "remove", "path": "/spec/taints/1"},
        ])
    );
    assert_eq!(bench.events(), [("Synced".into(), "Node synced successfully".into())]);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_wait_together_are_described_together() {
    let bench = bench();
    for name in ["a", "b", "c", "d"] {
        bench.knows(name);
        bench.controller.shared.nodes.apply(node(name));
    }
    bench.start();
    wait().await;
    let calls = bench.cloud.calls();
    assert!(calls.contains(&"describe a,b,c".to_owned()) && calls.contains(&"describe d".to_owned()), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn one_node_that_fails_does_not_keep_the_others_of_its_batch() {
    let bench = bench();
    bench.knows("a");
    bench.says("b", Err(CloudError::Denied("no key".into())));
    bench.controller.shared.nodes.apply(node("a"));
    bench.controller.shared.nodes.apply(node("b"));
    bench.start();
    sleep(Duration::from_millis(2)).await;
    assert_eq!(bench.api.calls(), ["PATCH /api/v1/nodes/a/status", "PATCH /api/v1/nodes/a"]);
    let failed = ("FailedToInitialize".into(), "Node cannot be initialized: denied: no key".into());
    assert!(bench.events().contains(&failed), "{:?}", bench.events());
}

#[tokio::test(start_paused = true)]
async fn n03_n08_an_error_keeps_the_taint_and_is_tried_again_with_back_off() {
    let bench = bench();
    bench.controller.shared.nodes.apply(node("a"));
    bench.start();
    wait().await;
    // 0, 5, 15, 35, 75, 155 ms
    assert_eq!(bench.cloud.calls().len(), 6);
    assert_eq!(bench.api.calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn work_in_progress_is_asked_again_after_the_delay_without_an_event() {
    let bench = bench();
    let retry = Retry { after: Duration::from_secs(7), message: "booting".into() };
    bench.says("a", Err(CloudError::InProgress(retry)));
    bench.controller.shared.nodes.apply(node("a"));
    bench.start();
    sleep(Duration::from_millis(6900)).await;
    assert_eq!(bench.cloud.calls().len(), 1);
    bench.knows("a");
    wait().await;
    assert_eq!(bench.cloud.calls().len(), 2);
    assert_eq!(bench.events(), [("Synced".into(), "Node synced successfully".into())]);
}

#[tokio::test(start_paused = true)]
async fn what_is_invalid_waits_for_a_change_of_the_node_and_a_heartbeat_is_none() {
    let bench = bench();
    bench.says("a", Err(CloudError::Invalid("bad name".into())));
    bench.controller.shared.nodes.apply(node("a"));
    bench.start();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.cloud.calls().len(), 1);
    bench.controller.shared.nodes.apply(with(&node("a"), &json!({
        "metadata": {"resourceVersion": "2"},
        "status": {"conditions": [{"type": "Ready", "status": "False", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]},
    })));
    wait().await;
    assert_eq!(bench.cloud.calls().len(), 1);
    bench
        .controller
        .shared
        .nodes
        .apply(with(&node("a"), &json!({"metadata": {"resourceVersion": "3", "labels": {"x": "y"}}})));
    wait().await;
    assert_eq!(bench.cloud.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn n18_a_lost_race_is_repeated_soon_and_says_nothing() {
    let bench = bench();
    bench.knows("a");
    bench.api.fail("PATCH", "/api/v1/nodes/a", 422, "Invalid");
    bench.controller.shared.nodes.apply(node("a"));
    bench.start();
    wait().await;
    assert_eq!(bench.api.calls().len(), 4);
    assert_eq!(bench.events(), [("Synced".into(), "Node synced successfully".into())]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_told_on_the_node() {
    let bench = bench();
    bench.knows("a");
    bench.api.fail("PATCH", "/api/v1/nodes/a/status", 403, "Forbidden");
    bench.controller.shared.nodes.apply(node("a"));
    bench.start();
    sleep(Duration::from_millis(2)).await;
    let (reason, message) = bench.events().remove(0);
    assert_eq!(reason, "FailedToInitialize");
    assert!(message.contains("the right \"patch\" on \"nodes/status\""), "{message}");
    wait().await;
    assert_eq!(bench.api.calls().last().unwrap(), "PATCH /api/v1/nodes/a");
}

#[tokio::test(start_paused = true)]
async fn n25_a_foreign_node_is_left_alone_with_one_warning() {
    let bench = bench();
    let foreign = with(&node("a"), &json!({"spec": {"providerID": "aws:///i-1"}}));
    bench.controller.shared.nodes.apply(foreign.clone());
    bench.start();
    wait().await;
    bench
        .controller
        .shared
        .nodes
        .apply(with(&foreign, &json!({"metadata": {"resourceVersion": "2", "labels": {"x": "y"}}})));
    wait().await;
    assert_eq!(bench.cloud.calls(), Vec::<String>::new());
    let events = bench.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].0, "ForeignProviderID");
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_does_not_initialise_a_node_twice() {
    let bench = bench();
    bench.knows("a");
    bench.controller.shared.nodes.apply(node("a"));
    bench.start();
    wait().await;
    bench.controller.recheck();
    wait().await;
    assert_eq!(bench.cloud.calls().len(), 1);
    assert_eq!(bench.api.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn n29_n37_addresses_follow_the_cloud_each_period_and_only_if_they_differ() {
    let bench = bench();
    bench.knows("a");
    bench.knows("b");
    bench.knows("c");
    let initialised =
        |name: &str| with(&node(name), &json!({"spec": {"taints": null, "providerID": format!("fake://{name}")}}));
    let current = json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}});
    bench.controller.shared.nodes.apply(initialised("a"));
    bench.controller.shared.nodes.apply(with(&initialised("b"), &current));
    bench.controller.shared.nodes.apply(with(&initialised("c"), &json!({"spec": {"providerID": "aws:///i"}})));
    let start = Instant::now();
    bench.start();
    wait().await;
    assert_eq!(bench.cloud.calls(), ["describe a,b"]);
    assert_eq!(bench.api.calls(), ["PATCH /api/v1/nodes/a/status"]);
    sleep(Duration::from_secs(301)).await;
    assert_eq!(bench.cloud.calls().len(), 2, "after {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_zones_says_comes_before_what_describe_says() {
    let bench = bench();
    *bench.cloud.capabilities.lock().unwrap() = Some([Capability::Instances, Capability::Zones].into());
    bench.knows("a");
    bench.controller.shared.nodes.apply(node("a"));
    bench.start();
    wait().await;
    let body = bench.api.requests()[1].body.to_string();
    assert!(body.contains("\"z9\"") && !body.contains("\"z1\""), "{body}");
}
