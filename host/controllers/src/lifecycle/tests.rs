use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use skydock_cloud::{CloudError, Presence};
use skydock_controller_base::{
    objects::constants::{TAINT_SHUTDOWN, TAINT_UNINITIALIZED},
    testing::{FakeApi, FakeCloud, context, every_error, node, with},
};
use skydock_kube::api::with_deadline;

use super::*;
use crate::Metrics;

struct Bench {
    api: FakeApi,
    cloud: Arc<FakeCloud>,
    controller: Arc<LifecycleController>,
}

fn bench() -> Bench {
    bench_with(LifecycleOptions::default())
}

fn bench_with(options: LifecycleOptions) -> Bench {
    bench_logging(options, None)
}

/// Creates a bench; if `dry_run_log` is set, for a dry run.
fn bench_logging(options: LifecycleOptions, dry_run_log: Option<Arc<DryRunLog>>) -> Bench {
    let (api, cloud) = (FakeApi::default(), Arc::new(FakeCloud::default()));
    let metrics = Metrics::register(&mut Registry::default());
    let context = context(&CONTROLLER, &api, cloud.clone(), &metrics.shared);
    let controller = Arc::new(LifecycleController::new(
        context,
        metrics.lifecycle,
        with_deadline(&api.client()),
        options,
        dry_run_log,
    ));
    Bench {
        api,
        cloud,
        controller,
    }
}

impl Bench {
    fn has(&self, name: &str, change: &Value) {
        let not_ready = with(
            &node(name),
            &json!({"spec": {"providerID": format!("fake://{name}"), "taints": [{"key": "other", "effect": "NoExecute"}]}}),
        );
        self.controller
            .context
            .nodes
            .apply(with(&not_ready, change));
    }

    fn says(&self, name: &str, answer: Result<Presence, CloudError>) {
        self.cloud
            .presences
            .lock()
            .unwrap()
            .insert(name.into(), answer);
    }

    async fn pass(&self) {
        self.controller.pass(&CancellationToken::new()).await;
        sleep(Duration::from_secs(5)).await;
    }

    fn events(&self) -> Vec<Value> {
        self.api.events()
    }

    fn reasons(&self) -> Vec<String> {
        self.events()
            .iter()
            .map(|event| event["reason"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Adds the ready nodes n0, n1, …
    fn has_ready(&self, count: usize) {
        (0..count).for_each(|number| self.has(&format!("n{number}"), &ready()));
    }

    /// Makes these nodes not ready, and their instances absent.
    fn loses(&self, names: &[impl AsRef<str>]) {
        for name in names.iter().map(AsRef::as_ref) {
            self.has(name, &json!({"metadata": {"resourceVersion": "2"}}));
            self.says(name, Ok(Presence::Absent));
        }
    }

    /// Returns the names of twenty nodes. Writes to the first ones are never answered, so that the
    /// others have to wait.
    fn stand_in_line(&self, method: &str) -> Vec<String> {
        *self.cloud.max_batch.lock().unwrap() = 100;
        let names: Vec<_> = (0..20).map(|number| format!("a{number:02}")).collect();
        names
            .iter()
            .take(WRITERS)
            .for_each(|name| self.api.hang(method, &format!("/api/v1/nodes/{name}")));
        names
    }

    fn deleted(&self) -> Vec<String> {
        let calls = self.api.calls();
        calls
            .iter()
            .filter_map(|call| Some(call.strip_prefix("DELETE /api/v1/nodes/")?.to_owned()))
            .collect()
    }

    fn held(&self) -> i64 {
        self.controller.metrics.deletions_held.get()
    }
}

fn ready() -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
}

fn shutdown_taint() -> Value {
    json!({"spec": {"taints": [{"key": "other", "effect": "NoExecute"}, {"key": TAINT_SHUTDOWN, "effect": "NoSchedule"}]}})
}

// Holds: L-08, SEC-07
#[tokio::test(start_paused = true)]
async fn a_node_is_deleted_by_its_uid_after_the_second_answer() {
    let bench = bench();
    bench.has("other", &ready());
    bench.has("a", &json!({}));
    bench.says("a", Ok(Presence::Absent));
    bench.pass().await;
    assert_eq!(bench.api.calls(), Vec::<String>::new());
    bench.pass().await;
    assert_eq!(bench.api.calls(), ["DELETE /api/v1/nodes/a"]);
    let requests = bench.api.requests();
    let delete = requests
        .iter()
        .find(|request| request.method == "DELETE")
        .unwrap();
    assert_eq!(delete.body["preconditions"], json!({"uid": "uid-a"}));
    let event = bench.events().remove(0);
    assert_eq!(
        (&event["reason"], &event["type"]),
        (&json!("DeletingNode"), &json!("Normal"))
    );
    assert_eq!(
        event["message"],
        "Deleting node a because it does not exist in the cloud provider"
    );
    assert_eq!(
        event["involvedObject"],
        json!({"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "uid-a"})
    );
}

#[tokio::test(start_paused = true)]
async fn passes_look_only_at_nodes_that_need_it() {
    let bench = bench();
    let to_check = || Vec::from_iter(bench.controller.to_check.lock().clone());
    bench.has_ready(3);
    bench.has("n1", &json!({"metadata": {"resourceVersion": "2"}}));
    assert_eq!(to_check(), ["n1"]);

    let version = |version: &str| json!({"metadata": {"resourceVersion": version}});
    bench.has("n0", &with::<Value>(&shutdown_taint(), &version("2")));
    assert_eq!(to_check(), ["n0", "n1"]);

    bench.has("n0", &with::<Value>(&ready(), &version("3")));
    bench.controller.context.nodes.delete("n1");
    assert_eq!(to_check(), Vec::<String>::new());
}

// Holds: L-04, L-05, L-06, L-08
#[tokio::test(start_paused = true)]
async fn upstreams_table_of_node_deletions() {
    let gone = || Ok(Presence::Absent);
    let fails = || Err(CloudError::Unavailable("no answer".into()));
    for (status, answer, deleted) in [
        (Some("False"), gone(), true),
        (Some("False"), fails(), false),
        (Some("False"), Ok(Presence::Running), false),
        (Some("Unknown"), gone(), true),
        (Some("Unknown"), Ok(Presence::Running), false),
        (Some("True"), gone(), false),
        (None, gone(), true),
    ] {
        let bench = bench();
        bench.has("other", &ready());
        let conditions = status.map(|status| json!([{"type": "Ready", "status": status}]));
        bench.has("a", &json!({"status": {"conditions": conditions}}));
        bench.says("a", answer.clone());
        bench.pass().await;
        bench.pass().await;
        assert_eq!(
            !bench.deleted().is_empty(),
            deleted,
            "{status:?} {answer:?}"
        );
    }
}

// Holds: L-09
#[tokio::test(start_paused = true)]
async fn a_slow_taint_write_delays_no_other_node() {
    let bench = bench();
    for name in ["a", "b"] {
        bench.has(name, &json!({}));
        bench.says(name, Ok(Presence::Stopped));
    }
    bench.api.hang("PATCH", "/api/v1/nodes/a");
    let hangs = timeout(Duration::from_secs(1), bench.pass()).await;
    assert!(hangs.is_err());
    assert_eq!(
        bench.api.calls(),
        ["PATCH /api/v1/nodes/a", "PATCH /api/v1/nodes/b"]
    );
}

// Holds: L-08, L-09
#[tokio::test(start_paused = true)]
async fn upstreams_table_of_nodes_with_stopped_instances() {
    for (is_ready, answer, expected) in [
        (false, Presence::Stopped, "PATCH /api/v1/nodes/a"),
        (false, Presence::Absent, "DELETE /api/v1/nodes/a"),
        (true, Presence::Stopped, ""),
    ] {
        let bench = bench();
        bench.has("other", &ready());
        bench.has("a", &if is_ready { ready() } else { json!({}) });
        bench.says("a", Ok(answer));
        bench.pass().await;
        bench.pass().await;
        assert_eq!(
            bench.api.calls().first().map_or("", String::as_str),
            expected,
            "{answer:?}"
        );
    }
}

// Holds: L-07, L-10
#[tokio::test(start_paused = true)]
async fn an_error_is_not_an_absence_and_restarts_the_count() {
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

// Holds: L-08
#[tokio::test(start_paused = true)]
async fn a_failed_deletion_gets_an_event_and_is_retried() {
    let bench = bench();
    bench.has("other", &ready());
    bench.has("a", &json!({}));
    bench.says("a", Ok(Presence::Absent));
    bench
        .api
        .fail("DELETE", "/api/v1/nodes/a", 403, "Forbidden");
    for _ in 0..3 {
        bench.pass().await;
    }
    assert_eq!(bench.api.calls(), ["DELETE /api/v1/nodes/a"; 2]);
    assert_eq!(
        bench.reasons(),
        ["DeletingNode", "DeletingNodeFailed", "DeletingNode"]
    );
}

// Holds: L-05, L-13, SEC-06
#[tokio::test(start_paused = true)]
async fn ready_and_foreign_nodes_are_never_queried() {
    let bench = bench();
    bench.has("a", &ready());
    bench.has("b", &json!({"spec": {"providerID": "aws:///i-1"}}));
    bench.has("c", &json!({"spec": {"providerID": null}}));
    bench.pass().await;
    assert_eq!(bench.cloud.calls(), Vec::<String>::new());
    assert_eq!(bench.api.calls(), Vec::<String>::new());
}

// Holds: L-09
#[tokio::test(start_paused = true)]
async fn a_stopped_instance_adds_a_taint_to_its_node() {
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

// Holds: L-05, L-09
#[tokio::test(start_paused = true)]
async fn the_shutdown_taint_is_removed_when_ready_or_running_again() {
    let bench = bench();
    bench.has("a", &with::<Value>(&shutdown_taint(), &ready()));
    bench.has("b", &shutdown_taint());
    bench.pass().await;
    assert_eq!(bench.cloud.calls(), ["check b"]);

    let mut requests = bench.api.requests();
    requests.sort_by(|one, other| one.path.cmp(&other.path));
    assert_eq!(
        (requests.len(), requests[0].path.as_str()),
        (2, "/api/v1/nodes/a")
    );
    assert_eq!(
        requests[1].body,
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "uid-b"},
            {"op": "test", "path": "/spec/taints/1/key", "value": TAINT_SHUTDOWN},
            {"op": "test", "path": "/spec/taints/1/effect", "value": "NoSchedule"},
            {"op": "remove", "path": "/spec/taints/1"},
        ])
    );
}

// Holds: L-03
#[tokio::test(start_paused = true)]
async fn queries_are_batched_and_a_failed_batch_changes_nothing() {
    let bench = bench();
    for name in ["a", "b", "c", "d"] {
        bench.has(name, &json!({}));
    }
    *bench.cloud.whole.lock().unwrap() = Some(CloudError::Unavailable("down".into()));
    bench.pass().await;
    let calls = bench.cloud.calls();
    assert!(
        calls.contains(&"check a,b,c".to_owned()) && calls.contains(&"check d".to_owned()),
        "{calls:?}"
    );
    assert_eq!(bench.api.calls(), Vec::<String>::new());
}

// Holds: L-05
#[tokio::test(start_paused = true)]
async fn a_node_that_changed_during_the_query_is_not_deleted() {
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
            bench.has(
                "a",
                &with::<Value>(&change, &json!({"metadata": {"resourceVersion": "2"}})),
            );
            gate.add_permits(100);
        });
        assert_eq!(bench.api.calls(), Vec::<String>::new(), "{change}");
    }
}

// Holds: L-07, L-10
#[tokio::test(start_paused = true)]
async fn only_throttled_and_in_progress_keep_the_absence_count() {
    for error in every_error() {
        let bench = bench();
        bench.has("other", &ready());
        bench.has("a", &json!({}));
        bench.says("a", Ok(Presence::Absent));
        bench.pass().await;
        bench.says("a", Err(error.clone()));
        bench.pass().await;
        // Longer than every delay; an error that waits for a change of the node gets one.
        sleep(Duration::from_secs(100)).await;
        bench.has(
            "a",
            &json!({"metadata": {"resourceVersion": "2", "labels": {"x": "y"}}}),
        );
        bench.says("a", Ok(Presence::Absent));
        bench.pass().await;
        let asked_to_wait = matches!(error, CloudError::Throttled(_) | CloudError::InProgress(_));
        assert_eq!(bench.deleted().len(), usize::from(asked_to_wait), "{error}");
        bench.pass().await;
        assert!(bench.deleted().contains(&"a".to_owned()), "{error}");
        assert_eq!(
            bench.reasons()[0],
            "DeletingNode",
            "an error is told in the log alone: {error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn each_error_decides_when_the_cloud_is_queried_again() {
    // Passes are 5 s apart; calls of the passes at 0, 5, 10, 15 and 20 s.
    for (error, calls) in every_error().into_iter().zip([
        [1, 1, 0, 1, 0], // not found
        [1, 0, 0, 0, 0], // implemented elsewhere
        [2, 2, 2, 2, 2], // conflict: once more within the pass
        [1, 0, 1, 0, 1], // throttled for 7 s
        [1, 0, 1, 0, 1], // in progress
        [1, 1, 0, 1, 0], // ready_but_absent
        [1, 0, 0, 0, 0], // invalid
        [1, 1, 0, 1, 0], // unavailable
        [1, 1, 0, 1, 0], // internal
    ]) {
        for whole in [true, false] {
            let bench = bench();
            bench.has("a", &json!({}));
            if whole {
                *bench.cloud.whole.lock().unwrap() = Some(error.clone());
            } else {
                bench.says("a", Err(error.clone()));
            }
            let mut seen = [0; 5];
            for count in &mut seen {
                let before = bench.cloud.calls().len();
                bench.pass().await;
                *count = bench.cloud.calls().len() - before;
            }
            assert_eq!(seen, calls, "{error}, as a whole: {whole}");
            assert_eq!(bench.api.calls(), Vec::<String>::new());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttling_cloud_is_not_queried_about_other_nodes() {
    let bench = bench();
    bench.has("a", &json!({}));
    *bench.cloud.whole.lock().unwrap() = Some(every_error()[3].clone());
    bench.pass().await;
    *bench.cloud.whole.lock().unwrap() = None;
    bench.has("b", &json!({}));
    bench.pass().await;
    assert_eq!(bench.cloud.calls(), ["check a"]);
    bench.pass().await;
    assert_eq!(bench.cloud.calls(), ["check a", "check a,b"]);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_throttles_after_a_conflict_is_not_queried() {
    let bench = bench();
    bench.has("a", &json!({}));
    bench.says("a", Err(CloudError::Conflict("busy".into())));
    tokio::join!(bench.pass(), async {
        sleep(Duration::from_millis(50)).await;
        *bench.cloud.whole.lock().unwrap() = Some(every_error()[3].clone());
    });
    *bench.cloud.whole.lock().unwrap() = None;
    bench.says("a", Ok(Presence::Running));
    bench.has("b", &json!({}));
    bench.pass().await;
    assert_eq!(bench.cloud.calls(), ["check a", "check a"]);
    bench.pass().await;
    assert_eq!(bench.cloud.calls()[2..], ["check a,b"]);
}

#[tokio::test(start_paused = true)]
async fn one_failed_answer_does_not_affect_its_batch() {
    let bench = bench();
    for name in ["a", "b", "c"] {
        bench.has(name, &json!({}));
    }
    bench.says("a", Err(CloudError::Internal("broken".into())));
    bench.says("b", Ok(Presence::Stopped));
    bench.says("c", Ok(Presence::Absent));
    bench.pass().await;
    bench.pass().await;
    assert_eq!(bench.api.calls()[0], "PATCH /api/v1/nodes/b");
    assert_eq!(bench.deleted(), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn absences_of_the_previous_plugin_do_not_count() {
    let bench = bench();
    bench.has("other", &ready());
    bench.has("a", &json!({}));
    bench.says("a", Ok(Presence::Absent));
    bench.pass().await;
    bench.controller.recheck();
    bench.pass().await;
    assert_eq!(bench.deleted(), Vec::<String>::new());

    // An answer to a query from before the swap is ignored.
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    *bench.cloud.gate.lock().unwrap() = Some(Arc::clone(&gate));
    tokio::join!(bench.pass(), async {
        sleep(Duration::from_secs(1)).await;
        bench.controller.recheck();
        gate.add_permits(100);
    });
    bench.pass().await;
    assert_eq!(bench.deleted(), Vec::<String>::new());
    bench.pass().await;
    assert_eq!(bench.deleted(), ["a"]);
}

// Holds: L-12
#[tokio::test(start_paused = true)]
async fn an_uninitialized_node_is_deleted_only_after_ten_minutes() {
    let bench = bench();
    bench.has("other", &ready());
    bench.has(
        "a",
        &json!({"spec": {"taints": [{"key": TAINT_UNINITIALIZED, "effect": "NoSchedule"}]}}),
    );
    bench.says("a", Ok(Presence::Absent));
    for _ in 0..100 {
        bench.pass().await;
    }
    assert_eq!(bench.deleted(), Vec::<String>::new());
    for _ in 0..25 {
        bench.pass().await;
    }
    assert!(bench.deleted().contains(&"a".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn too_many_deletions_are_all_held_with_events() {
    let bench = bench();
    bench.has_ready(11);
    bench.loses(&["n0", "n1", "n2", "n3", "n4", "n5"]);
    for _ in 0..4 {
        bench.pass().await;
    }
    assert_eq!((bench.deleted(), bench.held()), (Vec::new(), 6));

    let events = bench.events();
    assert_eq!(bench.reasons(), ["NodeDeletionStopped"; 6]);
    assert_eq!(
        events[0]["message"],
        "Node n0 is not deleted although the cloud reports that its instance does not exist: deleting 6 of 11 nodes within 10m \
         exceeds the limit of 5 (--node-deletion-limit, --node-deletion-share). If the instance does exist, fix the cloud or its \
         credentials; to delete the node anyway, run: kubectl annotate node n0 skydock.dev/allow-deletion=true"
    );
    assert_eq!(events[0]["type"], "Warning");

    bench.has(
        "n5",
        &with::<Value>(&ready(), &json!({"metadata": {"resourceVersion": "3"}})),
    );
    bench.pass().await;
    let mut deleted = bench.deleted();
    deleted.sort();
    assert_eq!(
        (deleted.join(" "), bench.held()),
        ("n0 n1 n2 n3 n4".to_owned(), 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_instance_exists_again_is_not_held() {
    let bench = bench();
    bench.has_ready(11);
    let gone = ["n0", "n1", "n2", "n3", "n4", "n5"];
    bench.loses(&gone);
    bench.pass().await;
    bench.pass().await;
    assert_eq!(bench.held(), 6);

    // The instances run again, but their nodes are not ready yet.
    gone.iter()
        .for_each(|name| bench.says(name, Ok(Presence::Running)));
    bench.pass().await;
    bench.pass().await;
    assert_eq!((bench.deleted(), bench.held()), (Vec::new(), 0));

    bench.says("n0", Ok(Presence::Absent));
    bench.pass().await;
    assert_eq!(
        bench.deleted(),
        Vec::<String>::new(),
        "what was said before counts no more"
    );

    bench.pass().await;
    assert_eq!(bench.deleted(), ["n0"]);
}

#[tokio::test(start_paused = true)]
async fn recent_deletions_count_for_the_interval() {
    let bench = bench();
    bench.has_ready(8);
    let gone = ["n0", "n1", "n2", "n3"];
    bench.loses(&gone);
    bench.pass().await;
    bench.pass().await;
    assert_eq!(bench.deleted().len(), 4);

    gone.iter()
        .for_each(|name| bench.controller.context.nodes.delete(name));
    bench.loses(&["n4"]);
    for _ in 0..3 {
        bench.pass().await;
    }
    assert_eq!((bench.deleted().len(), bench.held()), (4, 1));

    sleep(Duration::from_secs(560)).await;
    bench.pass().await;
    assert_eq!(
        (bench.deleted().len(), bench.held()),
        (4, 1),
        "nine minutes and a half after that"
    );

    sleep(Duration::from_secs(30)).await;
    bench.pass().await;
    assert_eq!(
        (bench.deleted().last().unwrap().as_str(), bench.held()),
        ("n4", 0)
    );
}

fn allowed() -> Value {
    json!({"metadata": {"resourceVersion": "3", "annotations": {"skydock.dev/allow-deletion": "true"}}})
}

#[tokio::test(start_paused = true)]
async fn a_deletion_with_lost_answer_or_stale_cache_still_counts() {
    let bench = bench();
    bench.has_ready(4);
    bench.loses(&["n0"]);
    bench
        .api
        .fail("DELETE", "/api/v1/nodes/n0", 500, "InternalError");
    bench.pass().await;
    bench.pass().await;
    bench.controller.context.nodes.delete("n0");
    bench.loses(&["n1"]);
    bench.pass().await;
    bench.pass().await;
    assert_eq!(bench.deleted(), ["n0", "n1"]);
    bench.loses(&["n2"]);
    for _ in 0..3 {
        bench.pass().await;
    }
    assert!(
        !bench.deleted().contains(&"n2".to_owned()),
        "{:?}",
        bench.deleted()
    );
}

#[tokio::test(start_paused = true)]
async fn an_allowed_node_also_needs_the_second_absence() {
    let bench = bench();
    bench.has_ready(4);
    bench.loses(&["n0", "n1"]);
    bench.has("n0", &allowed());
    bench.pass().await;
    assert_eq!(
        bench.deleted(),
        Vec::<String>::new(),
        "allowed is not an answer of the cloud"
    );
    bench.pass().await;
    let mut deleted = bench.deleted();
    deleted.sort();
    assert_eq!((deleted, bench.held()), (vec!["n0".into(), "n1".into()], 0));
}

#[tokio::test(start_paused = true)]
async fn allowing_some_nodes_does_not_release_the_rest() {
    let bench = bench();
    bench.has_ready(10);
    bench.loses(&["n0", "n1", "n2", "n3", "n4", "n5"]);
    bench.pass().await;
    bench.pass().await;
    assert_eq!((bench.deleted(), bench.held()), (Vec::new(), 6));

    // Of ten nodes, five may be deleted, and of eight, four: if the two allowed deletions did not
    // count, the other four would be within the limit.
    for name in ["n0", "n1"] {
        bench.has(name, &allowed());
    }
    bench.pass().await;
    let mut deleted = bench.deleted();
    deleted.sort();
    assert_eq!((deleted, bench.held()), (vec!["n0".into(), "n1".into()], 4));

    ["n0", "n1"]
        .iter()
        .for_each(|name| bench.controller.context.nodes.delete(name));
    for _ in 0..3 {
        bench.pass().await;
    }
    assert_eq!((bench.deleted().len(), bench.held()), (2, 4));
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_0_deletes_only_allowed_nodes() {
    let brake = BrakeOptions {
        limit: 0,
        ..BrakeOptions::default()
    };
    let bench = bench_with(LifecycleOptions {
        brake,
        ..LifecycleOptions::default()
    });
    bench.has_ready(100);
    bench.loses(&["n0", "n1"]);
    bench.has("n1", &allowed());
    bench.pass().await;
    bench.pass().await;
    assert_eq!((bench.deleted(), bench.held()), (vec!["n1".to_owned()], 1));
}

#[tokio::test(start_paused = true)]
async fn a_partial_answer_does_not_bypass_the_deletion_limit() {
    let bench = bench();
    bench.has_ready(11);
    // Batches have three nodes.
    bench.loses(&["n0", "n1", "n2", "n3", "n4", "n5"]);
    bench.pass().await;
    bench.pass().await;
    assert_eq!(bench.held(), 6);
    for name in ["n3", "n4", "n5"] {
        bench.says(name, Err(CloudError::Unavailable("timeout".into())));
    }
    for _ in 0..3 {
        bench.pass().await;
    }
    assert_eq!((bench.deleted(), bench.held()), (Vec::new(), 6));
}

// Holds: L-15
#[tokio::test(start_paused = true)]
async fn out_of_service_is_set_after_two_stopped_answers_if_enabled() {
    for wanted in [false, true] {
        let bench = bench_with(LifecycleOptions {
            out_of_service_taint: wanted,
            ..LifecycleOptions::default()
        });
        bench.has("a", &json!({}));
        bench.says("a", Ok(Presence::Stopped));
        bench.pass().await;
        bench.has(
            "a",
            &with::<Value>(
                &shutdown_taint(),
                &json!({"metadata": {"resourceVersion": "2"}}),
            ),
        );
        bench.pass().await;
        let bodies: Vec<_> = bench
            .api
            .requests()
            .iter()
            .map(|request| request.body.to_string())
            .collect();
        assert_eq!(bodies.len(), if wanted { 2 } else { 1 });
        assert!(!bodies[0].contains("out-of-service"), "{bodies:?}");
        assert_eq!(
            bodies.last().unwrap().contains("nodeshutdown"),
            wanted,
            "{bodies:?}"
        );
    }
}

// Holds: L-02, L-03
#[tokio::test(start_paused = true)]
async fn a_pass_queries_only_unready_nodes_in_full_batches() {
    let bench = bench();
    bench.has_ready(50);
    for number in 0..9 {
        bench.has(&format!("x{number}"), &json!({}));
    }
    bench.pass().await;
    assert_eq!(
        bench.cloud.calls(),
        ["check x0,x1,x2", "check x3,x4,x5", "check x6,x7,x8"]
    );
    assert_eq!(bench.api.calls(), Vec::<String>::new());
}

// Holds: L-02
#[tokio::test(start_paused = true)]
async fn the_first_pass_is_immediate_and_the_next_a_period_after_it() {
    let bench = bench();
    bench.has("a", &json!({}));
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    *bench.cloud.gate.lock().unwrap() = Some(Arc::clone(&gate));
    let shutdown = CancellationToken::new();
    let calls = || bench.cloud.calls().len();
    tokio::join!(Arc::clone(&bench.controller).run(shutdown.clone()), async {
        sleep(Duration::from_secs(60)).await;
        assert_eq!(calls(), 1);
        gate.add_permits(100);
        sleep(Duration::from_millis(4900)).await;
        assert_eq!(calls(), 1);
        sleep(Duration::from_millis(200)).await;
        assert_eq!(calls(), 2);
        shutdown.cancel();
    });
}

/// The deadline of a plugin's reading calls.
const DEADLINE: Duration = Duration::from_secs(30);

// Holds: L-03, L-08
#[tokio::test(start_paused = true)]
async fn trapping_and_late_queries_delay_no_other_deletion() {
    let bench = bench();
    *bench.cloud.max_batch.lock().unwrap() = 100;
    bench.has_ready(1000);
    let dead: Vec<_> = (0..100).map(|number| format!("n{number}")).collect();
    bench.loses(&dead);
    bench.cloud.breaks(
        "n13",
        Duration::ZERO,
        CloudError::Internal("it trapped".into()),
    );
    bench.cloud.breaks(
        "n77",
        DEADLINE,
        CloudError::Unavailable("it gave no answer".into()),
    );
    let shutdown = CancellationToken::new();
    let period = bench.controller.options.period;
    tokio::join!(Arc::clone(&bench.controller).run(shutdown.clone()), async {
        sleep(2 * period).await;
        sleep(Duration::from_secs(1)).await;
        assert!(
            bench.deleted().len() >= 49,
            "what was answered at once does not wait: {}",
            bench.deleted().len()
        );
        sleep(period + DEADLINE - Duration::from_secs(1)).await;
        let deleted: HashSet<_> = bench.deleted().into_iter().collect();
        let left: Vec<_> = dead
            .iter()
            .filter(|name| !deleted.contains(*name))
            .collect();
        assert_eq!(left, ["n13", "n77"]);
        assert_eq!(deleted.len(), 98);
        shutdown.cancel();
    });
}

/// The cloud reports that the instances exist after all, or the plugin is replaced.
#[tokio::test(start_paused = true)]
async fn a_queued_deletion_is_dropped_when_its_reason_is_gone() {
    for replaced in [false, true] {
        let bench = bench();
        bench.has_ready(1000);
        let dead = bench.stand_in_line("DELETE");
        bench.loses(&dead);
        let shutdown = CancellationToken::new();
        tokio::join!(Arc::clone(&bench.controller).run(shutdown.clone()), async {
            sleep(2 * bench.controller.options.period).await;
            assert_eq!(bench.deleted(), dead[..WRITERS]);
            for name in &dead {
                let silent = || CloudError::Unavailable("it gave no answer".into());
                bench.says(
                    name,
                    if replaced {
                        Err(silent())
                    } else {
                        Ok(Presence::Running)
                    },
                );
            }
            if replaced {
                bench.controller.recheck();
            }
            // The API server never answers.
            sleep(Duration::from_secs(600)).await;
            assert_eq!(bench.deleted(), dead[..WRITERS], "replaced: {replaced}");
            shutdown.cancel();
        });
    }
}

/// The taint would evict its Pods.
#[tokio::test(start_paused = true)]
async fn a_queued_taint_is_dropped_when_its_reason_is_gone() {
    for what in ["ready", "running", "replaced"] {
        taint_in_line(what).await;
    }
}

async fn taint_in_line(what: &str) {
    let bench = bench_with(LifecycleOptions {
        out_of_service_taint: true,
        ..LifecycleOptions::default()
    });
    let names = bench.stand_in_line("PATCH");
    for name in &names {
        bench.has(name, &json!({}));
        bench.says(name, Ok(Presence::Stopped));
    }
    let shutdown = CancellationToken::new();
    tokio::join!(Arc::clone(&bench.controller).run(shutdown.clone()), async {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(bench.api.calls().len(), WRITERS);
        for name in &names {
            match what {
                "ready" => bench.has(name, &ready()),
                "running" => bench.says(name, Ok(Presence::Running)),
                _ => bench.says(
                    name,
                    Err(CloudError::Unavailable("it gave no answer".into())),
                ),
            }
        }
        if what == "replaced" {
            bench.controller.recheck();
        }
        sleep(Duration::from_secs(600)).await;
        assert_eq!(
            bench.api.calls().len(),
            WRITERS,
            "{what}: {:?}",
            bench.api.calls()
        );
        shutdown.cancel();
    });
}

#[tokio::test(start_paused = true)]
async fn only_attempted_deletions_are_counted() {
    let bench = bench();
    bench.has_ready(80);
    let dead = bench.stand_in_line("DELETE");
    bench.loses(&dead);
    let shutdown = CancellationToken::new();
    tokio::join!(Arc::clone(&bench.controller).run(shutdown.clone()), async {
        sleep(2 * bench.controller.options.period).await;
        assert_eq!(bench.deleted(), dead[..WRITERS]);
        // The next plugin reports all instances as absent.
        bench.controller.recheck();
        let all: Vec<_> = (0..80).map(|number| format!("n{number}")).collect();
        bench.loses(&all);
        sleep(Duration::from_secs(120)).await;
        let others: Vec<_> = bench
            .deleted()
            .into_iter()
            .filter(|name| !dead[..WRITERS].contains(name))
            .collect();
        assert_eq!(others, [""; 0]);
        shutdown.cancel();
    });
}

#[tokio::test(start_paused = true)]
async fn a_single_late_node_delays_no_pass() {
    let bench = bench();
    bench.has_ready(10);
    bench.loses(&["n0"]);
    bench.cloud.breaks(
        "n0",
        DEADLINE,
        CloudError::Unavailable("it gave no answer".into()),
    );
    let shutdown = CancellationToken::new();
    tokio::join!(Arc::clone(&bench.controller).run(shutdown.clone()), async {
        sleep(Duration::from_secs(6)).await;
        bench.loses(&["n1"]);
        sleep(Duration::from_secs(15)).await;
        assert!(
            bench.deleted().contains(&"n1".to_owned()),
            "{:?}",
            bench.deleted()
        );
        assert_eq!(
            bench
                .cloud
                .calls()
                .iter()
                .filter(|call| *call == "check n0")
                .count(),
            1,
            "it is not asked twice"
        );
        shutdown.cancel();
    });
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_while_open_queries_may_exceed_the_limit() {
    let bench = bench();
    bench.has_ready(20);
    let known = ["x00", "x01", "x02"];
    let others: Vec<_> = (3..11).map(|number| format!("x{number:02}")).collect();
    for name in known.into_iter().chain(others.iter().map(String::as_str)) {
        bench.has(name, &json!({}));
        bench.says(name, Ok(Presence::Absent));
    }
    // Of 31 nodes, ten may be deleted. Three nodes are a batch that is answered at once; the cloud
    // takes its time for the other eight.
    for name in &others {
        bench.cloud.breaks(
            name,
            DEADLINE,
            CloudError::Unavailable("it gave no answer".into()),
        );
    }
    let shutdown = CancellationToken::new();
    tokio::join!(Arc::clone(&bench.controller).run(shutdown.clone()), async {
        sleep(Duration::from_secs(20)).await;
        let answers = bench
            .cloud
            .calls()
            .iter()
            .filter(|call| *call == "check x00,x01,x02")
            .count();
        assert!(
            answers >= 2,
            "that they are gone was said twice: {:?}",
            bench.cloud.calls()
        );
        assert_eq!((bench.deleted(), bench.held()), (Vec::new(), 0));
        sleep(Duration::from_secs(120)).await;
        let deleted: HashSet<_> = bench.deleted().into_iter().collect();
        assert_eq!(
            deleted,
            known.map(str::to_owned).into(),
            "in the end it is known that they are few"
        );
        shutdown.cancel();
    });
}

#[tokio::test(start_paused = true)]
async fn shutdown_starts_no_deletion_and_waits_for_no_answer() {
    let bench = bench();
    bench.has_ready(10);
    bench.loses(&["n0"]);
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let shutdown = CancellationToken::new();
    let started = Instant::now();

    tokio::join!(Arc::clone(&bench.controller).run(shutdown.clone()), async {
        sleep(Duration::from_secs(1)).await;
        *bench.cloud.gate.lock().unwrap() = Some(Arc::clone(&gate));
        sleep(Duration::from_secs(6)).await;
        assert_eq!(
            bench.cloud.calls().len(),
            2,
            "the second answer is on its way"
        );
        shutdown.cancel();
    });
    assert_eq!(started.elapsed(), Duration::from_secs(7));
    assert_eq!(bench.deleted(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_hanging_deletion_is_not_started_twice() {
    let bench = bench();
    bench.has_ready(10);
    bench.loses(&["n0", "n1"]);
    bench.api.hang("DELETE", "/api/v1/nodes/n0");
    let shutdown = CancellationToken::new();
    let run = Arc::clone(&bench.controller).run(shutdown.clone());
    drop(timeout(Duration::from_secs(60), run).await);
    let deleted = bench.deleted();
    assert_eq!(
        deleted.iter().filter(|name| *name == "n0").count(),
        1,
        "{deleted:?}"
    );
    assert!(deleted.contains(&"n1".to_owned()), "{deleted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_held_node_gets_an_event_every_half_hour() {
    let bench = bench();
    bench.has_ready(3);
    bench.loses(&["n0", "n1"]);
    let reported = || {
        bench
            .reasons()
            .iter()
            .filter(|reason| *reason == "NodeDeletionStopped")
            .count()
    };

    for _ in 0..300 {
        bench.pass().await;
    }
    assert_eq!(reported(), 2, "within 25 minutes");

    for _ in 0..120 {
        bench.pass().await;
    }
    let again = bench.api.requests();
    let again = again
        .iter()
        .filter(|request| request.method == "PATCH" && request.path.contains("/events/"))
        .count();
    assert_eq!((reported(), again), (4, 2), "the same events, counted on");
}

#[tokio::test(start_paused = true)]
async fn a_single_node_is_kept_and_a_share_of_0_keeps_all() {
    for (nodes, share_percent, deleted) in [(1, 25, 0), (2, 25, 1), (40, 0, 0), (40, 1, 1)] {
        let brake = BrakeOptions {
            share_percent,
            ..BrakeOptions::default()
        };
        let bench = bench_with(LifecycleOptions {
            brake,
            ..LifecycleOptions::default()
        });
        bench.has_ready(nodes);
        bench.loses(&["n0"]);
        bench.pass().await;
        bench.pass().await;
        assert_eq!(
            bench.deleted().len(),
            deleted,
            "{nodes} nodes, {share_percent} %"
        );
        assert_eq!(bench.held(), i64::from(deleted == 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_reports_the_deletion_but_does_not_delete() {
    let bench = bench_logging(LifecycleOptions::default(), Some(Arc::default()));
    bench.has_ready(2);
    bench.loses(&["n0"]);
    for _ in 0..3 {
        bench.pass().await;
    }
    assert_eq!(bench.api.calls(), Vec::<String>::new());
    assert_eq!(bench.reasons()[0], "DeletingNode");
}

#[tokio::test(start_paused = true)]
async fn a_query_in_progress_for_ten_minutes_gets_an_event() {
    let bench = bench();
    bench.has_ready(2);
    bench.has("a", &json!({}));
    bench.says("a", Err(every_error()[4].clone()));
    let long = || {
        bench
            .controller
            .context
            .metrics
            .long_in_progress(&CONTROLLER)
            .get()
    };
    let reported = || {
        bench
            .reasons()
            .iter()
            .filter(|reason| *reason == "StillInProgress")
            .count()
    };

    for _ in 0..119 {
        bench.pass().await;
    }
    assert_eq!((reported(), long()), (0, 0), "within ten minutes");

    for _ in 0..5 {
        bench.pass().await;
    }
    assert_eq!((reported(), long()), (1, 1));

    let message = bench.events()[0]["message"].clone();
    let words = "The cloud has not reported for 10 minutes whether the instance exists, so the node is kept: ";
    assert!(message.as_str().unwrap().starts_with(words), "{message}");

    bench.says("a", Ok(Presence::Running));
    bench.pass().await;
    bench.pass().await;
    assert_eq!((reported(), long()), (1, 0));
}

// Holds: L-11, L-12
#[tokio::test(start_paused = true)]
async fn a_node_without_provider_id_is_kept_and_reported_once() {
    let bench = bench();
    let waiting = json!([{"key": TAINT_UNINITIALIZED, "effect": "NoSchedule"}]);
    bench.has("old", &json!({"spec": {"providerID": null}}));
    bench.has(
        "new",
        &json!({"spec": {"providerID": null, "taints": waiting}}),
    );

    for _ in 0..3 {
        bench.pass().await;
    }
    assert_eq!(bench.cloud.calls(), Vec::<String>::new());
    assert_eq!(bench.controller.metrics.unidentified.get(), 2);
    assert_eq!(bench.reasons(), ["MissingProviderID"]);
    assert_eq!(bench.events()[0]["involvedObject"]["name"], "old");

    bench.has("old", &json!({}));
    bench.controller.context.nodes.delete("new");
    bench.pass().await;
    assert_eq!(bench.controller.metrics.unidentified.get(), 0);
}

// Holds: L-08, L-12
#[tokio::test(start_paused = true)]
async fn nodes_are_kept_while_the_cloud_denies_others_that_are_ready() {
    for (ready_but_absent, deleted) in [(0, 1), (1, 1), (5, 0), (9, 0)] {
        let bench = bench();
        bench.has_ready(10);
        let ready = (1..=ready_but_absent).map(|number| format!("n{number}"));
        ready.for_each(|name| bench.says(&name, Ok(Presence::Absent)));
        bench.loses(&["n0"]);
        for _ in 0..2 {
            bench.pass().await;
        }
        assert_eq!(bench.deleted().len(), deleted, "{ready_but_absent}");
        let held = i64::from(deleted == 0);
        assert_eq!(bench.held(), held, "{ready_but_absent}");
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_of_other_providers_do_not_raise_the_limit() {
    for (own, deleted, held) in [(1, 1, 0), (2, 0, 2), (6, 0, 6)] {
        let bench = bench();
        for number in 0..30 {
            let theirs = json!({"spec": {"providerID": format!("other://{number}")}});
            bench.has(&format!("theirs{number}"), &theirs);
        }
        let names: Vec<_> = (0..own).map(|number| format!("n{number}")).collect();
        bench.has_ready(own);
        bench.loses(&names);
        for _ in 0..2 {
            bench.pass().await;
        }
        assert_eq!(
            (bench.deleted().len(), bench.held()),
            (deleted, held),
            "{own}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn no_node_is_deleted_while_the_cloud_does_not_answer_about_ready_ones() {
    let bench = bench();
    bench.has_ready(10);
    let failing = Err(CloudError::Unavailable("overloaded".into()));
    (1..10).for_each(|number| bench.says(&format!("n{number}"), failing.clone()));
    bench.loses(&["n0"]);
    for _ in 0..3 {
        bench.pass().await;
    }
    assert_eq!(bench.deleted(), Vec::<String>::new());

    bench.says("n5", Ok(Presence::Running));
    bench.pass().await;
    assert_eq!(bench.deleted(), ["n0"]);
}

#[tokio::test(start_paused = true)]
async fn a_provider_with_small_batches_is_asked_about_several_ready_nodes() {
    let bench = bench();
    *bench.cloud.max_batch.lock().unwrap() = 1;
    bench.has_ready(10);
    // One machine was renamed.
    bench.says("n1", Ok(Presence::Absent));
    bench.loses(&["n0"]);
    for _ in 0..2 {
        bench.pass().await;
    }
    assert_eq!(bench.deleted(), ["n0"]);
}

// Holds: L-08, L-12
#[tokio::test(start_paused = true)]
async fn nodes_that_become_not_ready_one_after_the_other_are_judged_together() {
    let bench = bench();
    bench.has_ready(6);
    let names = ["n0", "n1", "n2", "n3", "n4", "n5"];
    names
        .iter()
        .for_each(|name| bench.says(name, Ok(Presence::Absent)));
    for name in names {
        bench.loses(&[name]);
        bench.pass().await;
    }
    bench.pass().await;
    assert_eq!((bench.deleted(), bench.held()), (Vec::new(), 6));
}
