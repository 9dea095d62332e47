use prometheus_client::registry::Registry;

use super::*;
use crate::{
    Controller, Metrics,
    events::Recorder,
    testing::{FakeApi, FakeCloud, node, with},
};

struct Bench {
    api: FakeApi,
    cloud: Arc<FakeCloud>,
    controller: LifecycleController,
}

fn bench() -> Bench {
    let (api, cloud) = (FakeApi::default(), Arc::new(FakeCloud::default()));
    let metrics = Metrics::register(&mut Registry::default());
    let (recorder, writer) = Recorder::new(api.client(), metrics.clone());
    tokio::spawn(writer.run(CancellationToken::new()));
    let shared = Shared {
        controller: Controller::NodeLifecycle,
        provider: cloud.clone(),
        nodes: Arc::default(),
        recorder,
        metrics,
    };
    let controller = LifecycleController::new(shared, api.client(), Duration::from_secs(5));
    Bench { api, cloud, controller }
}

impl Bench {
    fn has(&self, name: &str, change: &Value) {
        let not_ready = with(&node(name), &json!({"spec": {"providerID": format!("fake://{name}")}}));
        self.controller.shared.nodes.apply(with(&not_ready, change));
    }

    fn says(&self, name: &str, answer: Result<Presence, CloudError>) {
        self.cloud.presences.lock().unwrap().insert(name.into(), answer);
    }

    async fn pass(&self) {
        self.controller.pass().await;
        sleep(Duration::from_secs(5)).await;
    }

    fn reasons(&self) -> Vec<String> {
        let requests = self.api.requests();
        let posted = requests.iter().filter(|request| request.method == "POST");
        posted.map(|request| request.body["reason"].as_str().unwrap().to_owned()).collect()
    }
}

fn ready() -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
}

fn shutdown_taint() -> Value {
    json!({"spec": {"taints": [{"key": "other", "effect": "NoExecute"}, {"key": TAINT_SHUTDOWN, "effect": "NoSchedule"}]}})
}

#[tokio::test(start_paused = true)]
async fn l08_a_node_whose_machine_is_gone_is_deleted_after_the_second_answer_and_by_its_uid() {
    let bench = bench();
    bench.has("a", &json!({}));
    bench.says("a", Ok(Presence::Absent));
    bench.pass().await;
    assert_eq!(bench.api.calls(), Vec::<String>::new());
    bench.pass().await;
    assert_eq!(bench.api.calls(), ["DELETE /api/v1/nodes/a"]);
    let requests = bench.api.requests();
    let delete = requests.iter().find(|request| request.method == "DELETE").unwrap();
    assert_eq!(delete.body["preconditions"], json!({"uid": "uid-a"}));
    assert_eq!(bench.reasons(), ["DeletingNode"]);
}

#[tokio::test(start_paused = true)]
async fn l07_l10_an_error_is_no_absence_and_breaks_the_row() {
    let bench = bench();
    bench.has("a", &json!({}));
    for answer in [
        Ok(Presence::Absent),
        Err(CloudError::NotFound("no such machine".into())),
        Ok(Presence::Absent),
        Ok(Presence::Running),
        Ok(Presence::Absent),
        Err(CloudError::Unavailable("timeout".into())),
    ] {
        bench.says("a", answer);
        bench.pass().await;
    }
    assert_eq!(bench.api.calls(), Vec::<String>::new());
    assert_eq!(bench.reasons(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn l08_a_failed_deletion_is_told_and_tried_again() {
    let bench = bench();
    bench.has("a", &json!({}));
    bench.says("a", Ok(Presence::Absent));
    bench.api.fail("DELETE", "/api/v1/nodes/a", 403, "Forbidden");
    for _ in 0..3 {
        bench.pass().await;
    }
    assert_eq!(bench.api.calls(), ["DELETE /api/v1/nodes/a"; 2]);
    assert_eq!(bench.reasons(), ["DeletingNode", "DeletingNodeFailed"]);
}

#[tokio::test(start_paused = true)]
async fn l05_l13_ready_and_foreign_nodes_are_never_asked_about() {
    let bench = bench();
    bench.has("a", &ready());
    bench.has("b", &json!({"spec": {"providerID": "aws:///i-1"}}));
    bench.has("c", &json!({"spec": {"providerID": null}}));
    bench.pass().await;
    assert_eq!(bench.cloud.calls(), Vec::<String>::new());
    assert_eq!(bench.api.calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn l09_a_stopped_machine_taints_its_node_beside_other_taints() {
    let bench = bench();
    bench.has("a", &json!({}));
    bench.has("b", &json!({"spec": {"taints": null}}));
    bench.says("a", Ok(Presence::Stopped));
    bench.says("b", Ok(Presence::Stopped));
    bench.pass().await;
    let taint = json!({"key": TAINT_SHUTDOWN, "effect": "NoSchedule"});
    let requests = bench.api.requests();
    assert_eq!(
        requests[0].body,
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "uid-a"},
            {"op": "add", "path": "/spec/taints/-", "value": taint},
        ])
    );
    assert_eq!(
        requests[1].body,
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "uid-b"},
            {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
            {"op": "add", "path": "/spec/taints", "value": [taint]},
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn l05_l09_the_taint_goes_when_the_node_is_ready_or_the_machine_runs_again() {
    let bench = bench();
    bench.has("a", &with::<Value>(&shutdown_taint(), &ready()));
    bench.has("b", &shutdown_taint());
    bench.pass().await;
    assert_eq!(bench.cloud.calls(), ["check b"]);
    assert_eq!(bench.api.calls(), ["PATCH /api/v1/nodes/a", "PATCH /api/v1/nodes/b"]);
    assert_eq!(
        bench.api.requests()[1].body,
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "uid-b"},
            {"op": "test", "path": "/spec/taints/1/key", "value": TAINT_SHUTDOWN},
            {"op": "remove", "path": "/spec/taints/1"},
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn l03_nodes_are_asked_about_in_batches_and_a_failed_batch_changes_nothing() {
    let bench = bench();
    for name in ["a", "b", "c", "d"] {
        bench.has(name, &json!({}));
    }
    *bench.cloud.whole.lock().unwrap() = Some(CloudError::Unavailable("down".into()));
    bench.pass().await;
    assert_eq!(bench.cloud.calls(), ["check a,b,c", "check d"]);
    assert_eq!(bench.api.calls(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn l05_a_node_that_became_ready_or_changed_while_the_cloud_was_asked_is_not_deleted() {
    let other_id = json!({"spec": {"providerID": "fake://other"}});
    for change in [ready(), other_id] {
        let bench = bench();
        bench.has("a", &json!({}));
        bench.says("a", Ok(Presence::Absent));
        bench.pass().await;
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        *bench.cloud.gate.lock().unwrap() = Some(Arc::clone(&gate));
        tokio::join!(bench.pass(), async {
            sleep(Duration::from_secs(60)).await;
            bench.has("a", &with::<Value>(&change, &json!({"metadata": {"resourceVersion": "2"}})));
            gate.add_permits(100);
        });
        assert_eq!(bench.api.calls(), Vec::<String>::new(), "{change}");
    }
}
