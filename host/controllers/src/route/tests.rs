use std::sync::atomic::Ordering;

use jiff::Timestamp;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use skydock_cloud::{CloudError, Retry};
use skydock_controller_base::testing::{FakeApi, FakeCloud, Request, context, node, with};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::*;
use crate::Metrics;

const NEVER: Duration = Duration::ZERO;

struct Bench {
    api: FakeApi,
    cloud: Arc<FakeCloud>,
    controller: Arc<RouteController>,
    registry: Registry,
    stop: CancellationToken,
}

fn bench(reconciliation: Reconciliation) -> Bench {
    let (api, cloud) = (FakeApi::default(), Arc::new(FakeCloud::default()));
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let context = context(&CONTROLLER, &api, cloud.clone(), &metrics.shared);
    let options = RouteOptions {
        cluster_cidrs: ClusterCidrs::parse(&["10.244.0.0/16", "fd00::/56"]),
        reconciliation,
        ..RouteOptions::default()
    };
    let process = crate::Options::default().process;
    let controller =
        RouteController::new(context, metrics.route, api.client(), options, process).unwrap();
    let controller = Arc::new(controller);
    Bench {
        api,
        cloud,
        controller,
        registry,
        stop: CancellationToken::new(),
    }
}

fn watching() -> Bench {
    bench(Reconciliation::OnChange {
        check_period: NEVER,
    })
}

fn ip(address: &str) -> Value {
    json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}})
}

fn network(status: &str, reason: &str) -> Value {
    json!({"status": {"conditions": [{"type": "NetworkUnavailable", "status": status, "reason": reason}]}})
}

pub(super) fn route(target: &str, cidr: &str) -> Route {
    Route {
        name: format!("{target}-{cidr}"),
        target_node: Some(target.into()),
        target_addresses: None,
        destination_cidr: cidr.into(),
        blackhole: false,
    }
}

pub(super) fn unavailable() -> CloudError {
    CloudError::Unavailable("away".into())
}

fn retry(seconds: u64) -> Retry {
    Retry {
        after: Duration::from_secs(seconds),
        message: "busy".into(),
    }
}

impl Bench {
    fn has(&self, name: &str, pod_cidrs: &[&str], change: &Value) {
        let spec = json!({"spec": {"podCIDRs": pod_cidrs, "providerID": format!("fake://{name}")}});
        self.controller
            .context
            .nodes
            .apply(with(&with(&node(name), &spec), change));
    }

    /// Changes the node with this name.
    fn changes(&self, name: &str, change: &Value) {
        let entry = self.controller.context.nodes.get(name).unwrap();
        let version: u32 = entry.resource_version().parse().unwrap();
        let changed = with(&NodeKind::whole(&entry), change);
        let version = json!({"metadata": {"resourceVersion": (version + 1).to_string()}});
        self.controller
            .context
            .nodes
            .apply(with(&changed, &version));
    }

    /// Runs one round until everything has ended. Returns the delay before the next retry, if there
    /// is one.
    async fn pass(&self) -> Option<Duration> {
        let mut run = Run::new(&self.controller, self.stop.clone());
        run.list();
        while let Some(event) = run.next().await {
            run.handle(event);
        }
        self.controller.conditions.finish().await;
        Some(run.next_try().at?.saturating_duration_since(Instant::now()))
    }

    fn run(&self) -> JoinHandle<()> {
        let (controller, stop) = (Arc::clone(&self.controller), self.stop.clone());
        tokio::spawn(async move { controller.run(stop).await })
    }

    /// Returns the calls since the last time.
    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.cloud.calls.lock().unwrap())
    }

    fn runs(&self) -> usize {
        self.calls().iter().filter(|call| *call == "list").count()
    }

    fn patches(&self) -> Vec<Request> {
        self.api
            .requests()
            .into_iter()
            .filter(|request| request.method == "PATCH")
            .collect()
    }

    /// Returns `NODE STATUS REASON` for each condition that was written.
    fn conditions(&self) -> Vec<String> {
        let text = |request: &Request| {
            let condition = &request.body["status"]["conditions"][0];
            let name = request
                .path
                .trim_start_matches("/api/v1/nodes/")
                .trim_end_matches("/status");
            format!(
                "{name} {} {}",
                condition["status"].as_str().unwrap(),
                condition["reason"].as_str().unwrap()
            )
        };
        self.patches()
            .iter()
            .filter(|request| request.path.ends_with("/status"))
            .map(text)
            .collect()
    }

    async fn events(&self) -> Vec<Value> {
        sleep(Duration::from_millis(1)).await;
        self.api.events()
    }

    fn metric(&self, name: &str) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_default();
        line.rsplit(' ').next().unwrap().to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn the_event_for_an_out_of_range_pod_cidr_is_repeated() {
    let bench = watching();
    bench.has("a", &["10.244.1.0/24"], &json!({}));
    bench.has("b", &["10.96.0.0/16"], &json!({}));
    bench.pass().await;
    assert_eq!(
        bench
            .calls()
            .iter()
            .filter(|call| call.contains("10.96"))
            .count(),
        0
    );
    assert_eq!(
        bench.conditions(),
        ["a False RouteCreated"],
        "of the other nothing is said"
    );

    let events = bench.events().await;
    let [event] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(
        (
            event["reason"].as_str(),
            event["involvedObject"]["name"].as_str()
        ),
        (Some("PodCIDROutOfRange"), Some("b"))
    );

    let message = event["message"].as_str().unwrap();
    assert!(
        message.starts_with("No route is created to Pod CIDR 10.96.0.0/16 of the node"),
        "{message}"
    );

    bench.pass().await;
    let patched = |bench: &Bench| {
        bench
            .patches()
            .iter()
            .filter(|request| request.path.contains("/events/"))
            .count()
    };
    sleep(Duration::from_millis(1)).await;
    assert_eq!(patched(&bench), 0, "not with each round");

    sleep(Duration::from_secs(31 * 60)).await;
    bench.pass().await;
    sleep(Duration::from_millis(1)).await;
    assert_eq!(patched(&bench), 1);
}

// Holds
#[tokio::test(start_paused = true)]
async fn a_node_with_all_routes_created_has_a_network() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24", "fd00::/64"], &ip("10.0.0.1"));
    bench.cloud.routes.has(route("b", "10.244.1.0/24"));
    assert_eq!(bench.pass().await, None);
    assert_eq!(bench.cloud.routes.all(), ["a 10.244.0.0/24", "a fd00::/64"]);
    assert_eq!(bench.conditions(), ["a False RouteCreated"]);
    assert!(bench.events().await.is_empty());
}

// Holds: R-07
#[tokio::test(start_paused = true)]
async fn a_route_with_other_known_addresses_is_replaced() {
    let bench = watching();
    bench
        .cloud
        .routes
        .knows_addresses
        .store(true, Ordering::Relaxed);
    bench.has("a", &["10.244.0.0/24"], &ip("10.0.0.1"));
    bench.pass().await;
    bench.changes("a", &ip("10.0.0.2"));
    bench.calls();

    bench.pass().await;
    assert_eq!(
        bench.calls(),
        ["list", "unroute a-10.244.0.0/24", "create 10.244.0.0/24"]
    );

    bench.pass().await;
    assert_eq!(bench.calls(), ["list"]);
}

// Holds: R-21
#[tokio::test(start_paused = true)]
async fn the_condition_patch_merges_and_is_bound_to_the_uid() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24"], &ip("10.0.0.1"));
    bench.pass().await;
    let patch = bench.patches().remove(0);
    assert_eq!(
        (patch.path.as_str(), patch.content_type.as_str()),
        (
            "/api/v1/nodes/a/status",
            "application/strategic-merge-patch+json"
        )
    );
    assert_eq!(patch.body["metadata"], json!({"uid": "uid-a"}));

    let conditions = patch.body["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 1);
    assert_eq!(conditions[0]["type"], "NetworkUnavailable");
    assert_eq!(conditions[0]["message"], "RouteController created a route");

    let heartbeat = conditions[0]["lastHeartbeatTime"].as_str().unwrap();
    let ago = Timestamp::now()
        .duration_since(heartbeat.parse().unwrap())
        .as_secs();
    assert!(
        (0..600).contains(&ago) && conditions[0]["lastTransitionTime"] == heartbeat,
        "{heartbeat}"
    );
}

// Holds: R-20
#[tokio::test(start_paused = true)]
async fn a_network_plugins_condition_is_overwritten_once() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24"], &network("False", "CalicoIsUp"));
    bench.pass().await;
    assert_eq!(bench.conditions(), ["a False RouteCreated"]);
    bench.changes("a", &network("False", "RouteCreated"));
    bench.pass().await;
    assert_eq!(bench.conditions().len(), 1);
}

// Holds: R-06
#[tokio::test(start_paused = true)]
async fn a_failed_list_changes_nothing_and_is_retried_with_backoff() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24"], &json!({}));
    bench.cloud.routes.fails("list", unavailable());
    bench.cloud.routes.fails("list", unavailable());
    bench
        .cloud
        .routes
        .fails("list", CloudError::Throttled(retry(7)));
    bench
        .cloud
        .routes
        .fails("list", CloudError::ImplementedElsewhere);
    assert_eq!(bench.pass().await, Some(Duration::from_secs(1)));
    assert_eq!(bench.pass().await, Some(Duration::from_secs(2)));
    assert_eq!(bench.pass().await, Some(Duration::from_secs(7)));
    assert_eq!(bench.pass().await, None);
    assert_eq!(bench.calls(), ["list"; 4]);
    assert_eq!(bench.api.calls(), Vec::<String>::new());
    assert_eq!(bench.metric("route_controller_route_sync_total"), "4");

    bench.pass().await;
    assert_eq!(bench.conditions(), ["a False RouteCreated"]);
}

// Holds: R-06
#[tokio::test(start_paused = true)]
async fn the_route_of_a_node_added_during_the_list_stays() {
    let bench = watching();
    bench.cloud.routes.has(route("b", "10.244.1.0/24"));
    *bench.cloud.routes.list_takes.lock().unwrap() = Duration::from_secs(2);
    let running = bench.run();
    sleep(Duration::from_secs(1)).await;
    bench.has("b", &["10.244.1.0/24"], &network("False", "RouteCreated"));
    sleep(Duration::from_secs(20)).await;
    let changes: Vec<_> = bench
        .calls()
        .into_iter()
        .filter(|call| call != "list")
        .collect();
    assert_eq!(changes, [""; 0]);
    assert_eq!(bench.conditions(), [""; 0]);
    running.abort();
}

// Holds: R-15
#[tokio::test(start_paused = true)]
async fn each_failed_attempt_gets_an_event_on_the_node() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24"], &json!({}));
    bench.cloud.routes.fails(
        "10.244.0.0/24",
        CloudError::Denied("no right to make routes".into()),
    );
    bench.pass().await;
    let events = bench.events().await;
    assert_eq!(events.len(), 1);
    assert_eq!(
        (&events[0]["type"], &events[0]["reason"]),
        (&"Warning".into(), &"FailedToCreateRoute".into())
    );
    assert_eq!(events[0]["source"]["component"], "route_controller");
    assert_eq!(events[0]["involvedObject"]["apiVersion"], "v1");
    assert_eq!(events[0]["involvedObject"]["uid"], "uid-a");
    let message = events[0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("Could not create route uid-a 10.244.0.0/24 for node a after "),
        "{message}"
    );
    assert!(
        message.ends_with(": denied: no right to make routes"),
        "{message}"
    );
    assert_eq!(bench.conditions(), ["a True NoRouteCreated"]);
}

// Holds: R-15
#[tokio::test(start_paused = true)]
async fn in_progress_and_implemented_elsewhere_get_no_event() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24"], &json!({}));
    bench.has("b", &["10.244.1.0/24"], &json!({}));
    bench
        .cloud
        .routes
        .fails("10.244.0.0/24", CloudError::InProgress(retry(4)));
    bench
        .cloud
        .routes
        .fails("10.244.1.0/24", CloudError::ImplementedElsewhere);
    assert_eq!(bench.pass().await, Some(Duration::from_secs(4)));
    assert!(bench.events().await.is_empty());
    assert_eq!(
        bench.conditions(),
        ["a True NoRouteCreated"],
        "what others own is theirs to tell"
    );
    assert!(bench.metric("skydock_controller_errors_total").is_empty());
}

// Holds: R-05
#[tokio::test(start_paused = true)]
async fn only_failed_changes_are_retried_without_another_trigger() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24"], &json!({}));
    bench.has("b", &["10.244.1.0/24"], &json!({}));
    bench.cloud.routes.has(route("x", "10.244.9.0/24"));
    bench.cloud.routes.fails("10.244.0.0/24", unavailable());
    bench.cloud.routes.fails("10.244.9.0/24", unavailable());
    let running = bench.run();
    sleep(Duration::from_millis(2900)).await;
    assert_eq!(
        bench.cloud.routes.all(),
        ["b 10.244.1.0/24", "x 10.244.9.0/24"]
    );

    bench.calls();
    sleep(Duration::from_millis(200)).await;
    let mut calls = bench.calls();
    calls.sort();
    assert_eq!(
        calls,
        ["create 10.244.0.0/24", "list", "unroute x-10.244.9.0/24"]
    );
    assert_eq!(
        bench.cloud.routes.all(),
        ["a 10.244.0.0/24", "b 10.244.1.0/24"]
    );

    sleep(Duration::from_secs(3600)).await;
    assert!(bench.calls().is_empty());
    bench.stop.cancel();
    running.await.unwrap();
}

// Holds: R-05
#[tokio::test(start_paused = true)]
async fn an_invalid_route_is_not_retried_until_its_node_changes() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24"], &ip("10.0.0.1"));
    bench.cloud.routes.fails(
        "10.244.0.0/24",
        CloudError::Invalid("not in the network".into()),
    );
    assert_eq!(bench.pass().await, None);

    bench.calls();
    bench.pass().await;
    assert_eq!(bench.calls(), ["list"]);

    bench.changes("a", &ip("10.0.0.2"));
    bench.pass().await;
    assert_eq!(bench.calls(), ["list", "create 10.244.0.0/24"]);
    assert_eq!(
        bench.conditions(),
        [
            "a True NoRouteCreated",
            "a True NoRouteCreated",
            "a False RouteCreated"
        ]
    );
}

// Holds: R-17
#[tokio::test(start_paused = true)]
async fn a_conflict_is_tried_five_times_at_once_and_later_again() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24"], &json!({}));
    bench.has("b", &["10.244.1.0/24"], &json!({}));
    let conflict = || CloudError::Conflict("the network is locked".into());
    (0..4).for_each(|_| bench.cloud.routes.fails("10.244.0.0/24", conflict()));
    assert_eq!(bench.pass().await, None);
    let mut expected = vec!["list", "create 10.244.0.0/24,10.244.1.0/24"];
    expected.extend(["create 10.244.0.0/24"; 4]);
    assert_eq!(bench.calls(), expected);

    bench.has("c", &["10.244.2.0/24"], &json!({}));
    (0..5).for_each(|_| bench.cloud.routes.fails("10.244.2.0/24", conflict()));
    let again = bench.pass().await.unwrap();
    assert!(again <= Duration::from_millis(100), "{again:?}");
    assert!(bench.events().await.is_empty());
}

// Holds: R-11
#[tokio::test(start_paused = true)]
async fn at_most_200_routes_are_in_flight_in_batches_of_the_provider() {
    let bench = watching();
    for n in 0..150 {
        bench.has(&format!("n{n}"), &[&format!("10.244.{n}.0/24")], &json!({}));
        bench
            .cloud
            .routes
            .has(route("gone", &format!("10.244.0.{n}/32")));
        bench
            .cloud
            .routes
            .has(route("gone", &format!("fd00::{n}/128")));
    }
    let gate = bench.cloud.routes.gated();
    let running = bench.run();

    sleep(Duration::from_secs(1)).await;
    assert!((198..=200).contains(&bench.cloud.routes.most_in_flight()));

    gate.add_permits(1000);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.cloud.routes.all().len(), 150);
    assert!((198..=200).contains(&bench.cloud.routes.most_in_flight()));
    assert!(
        bench
            .calls()
            .iter()
            .all(|call| call.split(',').count() <= 3)
    );

    running.abort();
}

// Holds: R-11
#[tokio::test(start_paused = true)]
async fn a_route_that_breaks_its_batches_ends_up_alone() {
    let bench = watching();
    for n in 0..3 {
        bench.has(&format!("n{n}"), &[&format!("10.244.{n}.0/24")], &json!({}));
    }
    bench.cloud.routes.is_poisoned_by("10.244.1.0/24");
    bench.pass().await;
    assert!(bench.cloud.routes.all().is_empty());

    sleep(Duration::from_secs(1)).await;
    bench.pass().await;
    assert_eq!(
        bench.cloud.routes.all(),
        ["n0 10.244.0.0/24", "n2 10.244.2.0/24"]
    );

    let last = bench.conditions().split_off(3);
    assert_eq!(
        last,
        [
            "n0 False RouteCreated",
            "n1 True NoRouteCreated",
            "n2 False RouteCreated"
        ]
    );
}

// Holds: R-12
#[tokio::test(start_paused = true)]
async fn a_route_waits_if_the_one_it_replaces_cannot_be_deleted() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24"], &json!({}));
    bench.has("b", &["10.244.1.0/24"], &json!({}));
    bench.cloud.routes.has(route("gone", "10.244.0.0/24"));
    bench.cloud.routes.fails("10.244.0.0/24", unavailable());
    bench.pass().await;
    let mut calls = bench.calls();
    calls.sort();
    assert_eq!(
        calls,
        ["create 10.244.1.0/24", "list", "unroute gone-10.244.0.0/24"]
    );
    assert_eq!(
        bench.conditions(),
        ["a True NoRouteCreated", "b False RouteCreated"]
    );

    sleep(Duration::from_secs(1)).await;
    bench.pass().await;
    assert_eq!(
        bench.cloud.routes.all(),
        ["a 10.244.0.0/24", "b 10.244.1.0/24"]
    );
}

// Holds: R-12
#[tokio::test(start_paused = true)]
async fn a_slow_deletion_delays_no_other_route() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24"], &json!({}));
    bench.cloud.routes.has(route("gone", "10.244.1.0/24"));
    let _gate = bench.cloud.routes.gated();
    let running = bench.run();
    sleep(Duration::from_secs(1)).await;
    let mut calls = bench.calls();
    calls.sort();
    assert_eq!(
        calls,
        ["create 10.244.0.0/24", "list", "unroute gone-10.244.1.0/24"]
    );
    running.abort();
}

// Holds: R-10
#[tokio::test(start_paused = true)]
async fn failed_route_deletions_set_no_condition_and_no_event() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24"], &network("False", "RouteCreated"));
    bench.cloud.routes.has(route("a", "10.244.0.0/24"));
    bench.cloud.routes.has(route("a", "10.244.7.0/24"));
    bench.cloud.routes.has(route("gone", "10.244.8.0/24"));
    bench
        .cloud
        .routes
        .fails("10.244.7.0/24", CloudError::Denied("no right".into()));
    bench
        .cloud
        .routes
        .fails("10.244.8.0/24", CloudError::NotFound("it is gone".into()));

    bench.pass().await;
    assert_eq!(bench.conditions(), Vec::<String>::new());
    assert!(bench.events().await.is_empty());
    assert!(
        bench
            .metric("skydock_controller_errors_total{controller=\"route\",kind=\"denied\"}")
            .starts_with('1')
    );
    assert!(
        bench
            .metric("skydock_controller_errors_total{controller=\"route\",kind=\"not_found\"}")
            .is_empty()
    );
}

// Holds: R-19
#[tokio::test(start_paused = true)]
async fn a_node_without_pod_cidrs_is_ignored_unless_it_has_a_route() {
    let bench = watching();
    bench.has("a", &[], &json!({}));
    bench.has("b", &[], &json!({}));
    bench.cloud.routes.has(route("b", "10.244.1.0/24"));
    bench.pass().await;
    assert!(bench.cloud.routes.all().is_empty());
    assert_eq!(bench.conditions(), ["b True NoRouteCreated"]);
}

// Holds: R-23
#[tokio::test(start_paused = true)]
async fn a_working_node_keeps_its_network_through_one_failure() {
    let bench = watching();
    bench.has("old", &["10.244.0.0/24"], &network("False", "RouteCreated"));
    bench.has("new", &["10.244.1.0/24"], &json!({}));
    for cidr in ["10.244.0.0/24", "10.244.0.0/24", "10.244.1.0/24"] {
        bench.cloud.routes.fails(cidr, unavailable());
    }
    let again = bench.pass().await.unwrap();
    assert_eq!(bench.conditions(), ["new True NoRouteCreated"]);
    sleep(again).await;
    bench.pass().await;
    let mut last = bench.conditions().split_off(1);
    last.sort();
    assert_eq!(last, ["new False RouteCreated", "old True NoRouteCreated"]);
}

// Holds: R-23
#[tokio::test(start_paused = true)]
async fn failing_to_replace_an_old_route_changes_no_condition() {
    let bench = watching();
    bench
        .cloud
        .routes
        .knows_addresses
        .store(true, Ordering::Relaxed);
    let merged = with(
        &json_node(&ip("10.0.0.1")),
        &network("False", "RouteCreated"),
    );
    bench.controller.context.nodes.apply(merged);
    bench.cloud.routes.has(Route {
        target_addresses: Some(Vec::new()),
        ..route("a", "10.244.0.0/24")
    });
    bench
        .cloud
        .routes
        .fails("10.244.0.0/24", CloudError::Denied("no right".into()));

    bench.pass().await;
    assert_eq!(bench.conditions(), Vec::<String>::new());
}

fn json_node(change: &Value) -> k8s_openapi::api::core::v1::Node {
    with(
        &with(
            &node("a"),
            &json!({"spec": {"podCIDRs": ["10.244.0.0/24"]}}),
        ),
        change,
    )
}

// Holds
#[tokio::test(start_paused = true)]
async fn changes_made_outside_are_fixed_by_the_check() {
    let bench = bench(Reconciliation::OnChange {
        check_period: Duration::from_secs(300),
    });
    bench.has("a", &["10.244.0.0/24"], &json!({}));
    let running = bench.run();
    sleep(Duration::from_secs(5)).await;
    bench
        .cloud
        .routes
        .delete(&[route("a", "10.244.0.0/24")])
        .await
        .unwrap();

    sleep(Duration::from_secs(290)).await;
    assert!(bench.cloud.routes.all().is_empty());

    sleep(Duration::from_secs(10)).await;
    assert_eq!(bench.cloud.routes.all(), ["a 10.244.0.0/24"]);
    bench.calls();
    sleep(Duration::from_secs(3000)).await;
    assert_eq!(bench.runs(), 10);

    running.abort();
}

// Holds: R-03
#[tokio::test(start_paused = true)]
async fn periodic_runs_start_at_once_and_ignore_changes() {
    let bench = bench(Reconciliation::Periodic {
        period: Duration::from_secs(10),
    });
    let gate = bench.cloud.routes.gated();
    let running = bench.run();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.runs(), 1);

    bench.has("a", &["10.244.0.0/24"], &json!({}));
    sleep(Duration::from_millis(9_998)).await;
    assert_eq!(bench.runs(), 0);

    sleep(Duration::from_millis(2)).await;
    assert_eq!(bench.calls(), ["list", "create 10.244.0.0/24"]);
    // The duration of a run is part of the period.
    sleep(Duration::from_secs(4)).await;
    gate.add_permits(1);
    sleep(Duration::from_millis(5_998)).await;
    assert_eq!(bench.runs(), 0);

    sleep(Duration::from_millis(4)).await;
    assert_eq!(bench.runs(), 1);
    running.abort();
}

// Holds: R-04
#[tokio::test(start_paused = true)]
async fn relevant_node_changes_trigger_a_run() {
    let bench = watching();
    let running = bench.run();
    let runs = async || {
        sleep(Duration::from_secs(5)).await;
        bench.runs()
    };
    assert_eq!(runs().await, 1, "at the start");
    bench.has("a", &[], &ip("10.0.0.1"));
    assert_eq!(runs().await, 0, "no Pod CIDRs, no routes");
    bench.changes("a", &json!({"spec": {"podCIDRs": ["10.244.0.0/24"]}}));
    assert_eq!(runs().await, 1, "Pod CIDRs");
    bench.changes("a", &ip("10.0.0.2"));
    assert_eq!(runs().await, 1, "addresses");
    bench.changes("a", &json!({"spec": {"providerID": "fake://other"}}));
    assert_eq!(runs().await, 1, "provider ID");
    bench.changes("a", &json!({"metadata": {"uid": "uid-new"}}));
    assert_eq!(runs().await, 1, "recreated unnoticed");
    bench.changes(
        "a",
        &json!({"metadata": {"labels": {"x": "y"}}, "status": {"images": [{"names": ["x"]}]}}),
    );
    bench.changes("a", &network("True", "SomeOther"));
    assert_eq!(runs().await, 0, "labels, images, conditions");
    bench.controller.context.nodes.delete("a");
    assert_eq!(runs().await, 1, "deletion");
    bench.has("b", &["10.244.1.0/24"], &json!({}));
    assert_eq!(runs().await, 1, "a new node");
    assert_eq!(bench.metric("workqueue_adds_total{name=\"Routes\"}"), "7");
    running.abort();
}

// Holds: R-04
#[tokio::test(start_paused = true)]
async fn many_changes_share_few_runs_and_the_first_is_immediate() {
    let bench = watching();
    let running = bench.run();
    sleep(Duration::from_secs(5)).await;
    bench.calls();
    for n in 0..100 {
        bench.has(&format!("n{n}"), &[&format!("10.244.{n}.0/24")], &json!({}));
        sleep(Duration::from_millis(100)).await;
        if n == 2 {
            assert_eq!(bench.runs(), 1);
        }
    }
    sleep(Duration::from_secs(4)).await;

    let runs = bench.runs();
    assert!((3..=4).contains(&runs), "{runs}");
    assert_eq!(bench.cloud.routes.all().len(), 100);

    running.abort();
}

// Holds: R-04
#[tokio::test(start_paused = true)]
async fn a_change_during_a_run_triggers_another_run() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24"], &json!({}));
    let gate = bench.cloud.routes.gated();
    let running = bench.run();
    sleep(Duration::from_secs(1)).await;
    bench.has("b", &["10.244.1.0/24"], &json!({}));
    sleep(Duration::from_secs(1)).await;
    gate.add_permits(2);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(
        bench.cloud.routes.all(),
        ["a 10.244.0.0/24", "b 10.244.1.0/24"]
    );
    running.abort();
}

// Holds: R-21
#[tokio::test(start_paused = true)]
async fn a_failed_condition_write_is_retried() {
    let bench = watching();
    for name in ["a", "b", "c"] {
        bench.has(name, &[], &json!({}));
    }
    let running = bench.run();
    sleep(Duration::from_secs(5)).await;
    bench
        .api
        .fail("PATCH", "/api/v1/nodes/a/status", 500, "InternalError");
    bench.has(
        "a",
        &["10.244.0.0/24"],
        &json!({"metadata": {"resourceVersion": "2"}}),
    );
    sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.conditions(), ["a False RouteCreated"; 1]);
    sleep(Duration::from_millis(200)).await;
    assert_eq!(bench.conditions(), ["a False RouteCreated"; 2]);
    bench.changes("a", &network("False", "RouteCreated"));
    bench
        .api
        .fail("PATCH", "/api/v1/nodes/b/status", 409, "Conflict");
    bench.has(
        "b",
        &["10.244.1.0/24"],
        &json!({"metadata": {"resourceVersion": "2"}}),
    );
    sleep(Duration::from_secs(4)).await;
    assert_eq!(bench.conditions()[2..], ["b False RouteCreated"; 2]);
    bench.changes("b", &network("False", "RouteCreated"));
    // The node was deleted.
    bench
        .api
        .fail("PATCH", "/api/v1/nodes/c/status", 404, "NotFound");
    bench.has(
        "c",
        &["10.244.2.0/24"],
        &json!({"metadata": {"resourceVersion": "2"}}),
    );
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.conditions()[4..], ["c False RouteCreated"]);
    assert_eq!(
        bench
            .calls()
            .iter()
            .filter(|call| call.starts_with("create"))
            .count(),
        3
    );
    running.abort();
}

// Holds
#[tokio::test(start_paused = true)]
async fn a_slow_deletion_delays_no_condition_and_no_next_node() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24"], &json!({}));
    bench.cloud.routes.has(route("gone", "10.244.9.0/24"));
    let gate = bench.cloud.routes.slow("10.244.9.0/24");
    let running = bench.run();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.conditions(), ["a False RouteCreated"]);

    bench.changes("a", &network("False", "RouteCreated"));
    for n in 1..=5 {
        bench.has(&format!("n{n}"), &[&format!("10.244.{n}.0/24")], &json!({}));
        sleep(Duration::from_secs(4)).await;
        assert_eq!(
            bench.conditions().last().unwrap(),
            &format!("n{n} False RouteCreated")
        );
        bench.changes(&format!("n{n}"), &network("False", "RouteCreated"));
    }
    let deletions = || {
        bench
            .cloud
            .calls()
            .iter()
            .filter(|call| call.starts_with("unroute"))
            .count()
    };
    assert_eq!(deletions(), 1, "what is under way is not asked for again");

    gate.add_permits(1);
    sleep(Duration::from_secs(60)).await;
    assert_eq!((deletions(), bench.cloud.routes.all().len()), (1, 6));

    running.abort();
}

// Holds: R-12
#[tokio::test(start_paused = true)]
async fn a_slow_creation_delays_only_its_own_node() {
    let bench = watching();
    let gate = bench.cloud.routes.slow("10.244.0.0/24");
    bench.has("slow", &["10.244.0.0/24", "fd00::/64"], &json!({}));
    let running = bench.run();
    sleep(Duration::from_secs(4)).await;
    for n in 1..=3 {
        bench.has(&format!("n{n}"), &[&format!("10.244.{n}.0/24")], &json!({}));
        sleep(Duration::from_secs(4)).await;
        assert_eq!(
            bench.conditions(),
            [format!("n{n} False RouteCreated")],
            "and nothing about the slow one yet"
        );
        bench.changes(&format!("n{n}"), &network("False", "RouteCreated"));
        bench.api.forget();
    }
    gate.add_permits(1);

    sleep(Duration::from_millis(10)).await;
    assert_eq!(
        bench.conditions(),
        ["slow False RouteCreated"],
        "at once, when it is done"
    );

    let asked = bench
        .cloud
        .calls()
        .iter()
        .filter(|call| call.contains("10.244.0.0/24"))
        .count();
    assert_eq!(asked, 1);

    running.abort();
}

// Holds: R-12
#[tokio::test(start_paused = true)]
async fn a_route_waits_for_that_of_another_node_being_created() {
    let bench = watching();
    let gate = bench.cloud.routes.slow("10.244.0.0/24");
    bench.has("old", &["10.244.0.0/24"], &json!({}));
    let running = bench.run();
    sleep(Duration::from_secs(4)).await;
    bench.controller.context.nodes.delete("old");
    bench.has("new", &["10.244.0.0/24"], &json!({}));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(
        bench
            .cloud
            .calls()
            .iter()
            .filter(|call| call.starts_with("create"))
            .count(),
        1
    );

    gate.add_permits(10);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(bench.cloud.routes.all(), ["new 10.244.0.0/24"]);
    assert_eq!(bench.conditions(), ["new False RouteCreated"]);

    running.abort();
}

#[tokio::test(start_paused = true)]
async fn changes_completed_during_a_list_are_not_repeated() {
    let bench = watching();
    bench.cloud.routes.has(route("gone", "10.244.9.0/24"));
    bench.has("a", &["10.244.0.0/24"], &json!({}));
    let gate = bench.cloud.routes.gated();
    let running = bench.run();
    sleep(Duration::from_secs(4)).await;
    // The next list is created before both changes end, and arrives after that.
    *bench.cloud.routes.list_takes.lock().unwrap() = Duration::from_secs(2);
    bench.has("b", &[], &json!({}));
    bench.has("c", &["10.244.3.0/24"], &json!({}));
    sleep(Duration::from_secs(1)).await;
    gate.add_permits(100);
    sleep(Duration::from_secs(10)).await;
    let mut changes = bench.calls();
    changes.retain(|call| call != "list");

    changes.sort();
    assert_eq!(
        changes,
        [
            "create 10.244.0.0/24",
            "create 10.244.3.0/24",
            "unroute gone-10.244.9.0/24"
        ]
    );

    let mut conditions = bench.conditions();
    conditions.dedup();
    assert_eq!(conditions, ["a False RouteCreated", "c False RouteCreated"]);

    running.abort();
}

// Holds: R-08
#[tokio::test(start_paused = true)]
async fn a_black_hole_that_names_its_node_is_replaced_at_once() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24"], &json!({}));
    bench.cloud.routes.has(Route {
        blackhole: true,
        ..route("a", "10.244.0.0/24")
    });
    bench.pass().await;
    assert_eq!(
        bench.calls(),
        ["list", "unroute a-10.244.0.0/24", "create 10.244.0.0/24"]
    );
    assert!(!bench.cloud.routes.list().unwrap()[0].blackhole);
    assert_eq!(bench.conditions(), ["a False RouteCreated"]);
}

// Holds: R-22
#[tokio::test(start_paused = true)]
async fn an_interrupted_run_is_completed_by_the_next_process() {
    let nodes = |bench: &Bench| {
        (0..9)
            .for_each(|n| bench.has(&format!("n{n}"), &[&format!("10.244.{n}.0/24")], &json!({})));
    };
    let first = watching();
    nodes(&first);
    (0..6).for_each(|n| {
        first
            .cloud
            .routes
            .has(route("gone", &format!("10.244.{n}.0/24")));
    });
    let gate = first.cloud.routes.gated();
    let running = first.run();
    sleep(Duration::from_secs(1)).await;
    gate.add_permits(3);
    sleep(Duration::from_secs(1)).await;
    // The process is killed when some changes are done, some in progress, and some not started.
    running.abort();
    drop(running.await);

    let routes = first.cloud.routes.list().unwrap();
    assert!(
        first.cloud.routes.all()
            != (0..9)
                .map(|n| format!("n{n} 10.244.{n}.0/24"))
                .collect::<Vec<_>>()
    );

    let second = watching();
    nodes(&second);
    routes
        .into_iter()
        .for_each(|route| second.cloud.routes.has(route));
    assert_eq!(second.pass().await, None);
    assert_eq!(
        second.cloud.routes.all(),
        (0..9)
            .map(|n| format!("n{n} 10.244.{n}.0/24"))
            .collect::<Vec<_>>()
    );

    second.calls();
    // A failed round does not keep anything that the next one would need.
    second.cloud.routes.fails("list", unavailable());
    second.pass().await;
    second.pass().await;
    assert_eq!(second.calls(), ["list", "list"]);
}

#[tokio::test(start_paused = true)]
async fn a_route_long_in_progress_gets_an_event_on_its_node() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24"], &json!({}));
    (0..1000).for_each(|_| {
        bench
            .cloud
            .routes
            .fails("10.244.0.0/24", CloudError::InProgress(retry(5)));
    });
    let running = bench.run();

    sleep(Duration::from_secs(9 * 60)).await;
    assert!(bench.events().await.is_empty());

    sleep(Duration::from_secs(70)).await;
    let events = bench.events().await;
    assert_eq!(
        (events.len(), &events[0]["reason"]),
        (1, &json!("StillInProgress"))
    );
    assert_eq!(
        bench.metric("skydock_long_in_progress{controller=\"route\"}"),
        "1"
    );

    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_new_plugin_gets_what_the_previous_one_rejected() {
    let bench = watching();
    bench.has("a", &["10.244.0.0/24"], &json!({}));
    bench
        .cloud
        .routes
        .fails("10.244.0.0/24", CloudError::Invalid("not yet".into()));
    let running = bench.run();
    sleep(Duration::from_secs(60)).await;
    assert!(bench.cloud.routes.all().is_empty());
    bench.controller.recheck();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.cloud.routes.all(), ["a 10.244.0.0/24"]);
    running.abort();
}

/// In the meantime, the node gets another address, or the plugin is replaced.
#[tokio::test(start_paused = true)]
async fn an_outdated_rejection_is_ignored() {
    for replaced in [false, true] {
        let bench = watching();
        let gate = bench.cloud.routes.slow("10.244.0.0/24");
        bench.cloud.routes.fails(
            "10.244.0.0/24",
            CloudError::Invalid("no such address".into()),
        );
        bench.has("a", &["10.244.0.0/24"], &ip("10.0.0.1"));
        let running = bench.run();
        sleep(Duration::from_secs(4)).await;
        if replaced {
            bench.controller.recheck();
        } else {
            bench.changes("a", &ip("10.0.0.2"));
        }
        sleep(Duration::from_secs(4)).await;
        gate.add_permits(10);
        sleep(Duration::from_secs(10)).await;
        assert_eq!(
            bench.cloud.routes.all(),
            ["a 10.244.0.0/24"],
            "replaced: {replaced}"
        );
        running.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_the_previous_plugin_is_not_used() {
    let bench = watching();
    *bench.cloud.routes.list_takes.lock().unwrap() = Duration::from_secs(20);
    bench.cloud.routes.has(route("gone", "10.244.7.0/24"));
    let running = bench.run();
    sleep(Duration::from_secs(5)).await;
    bench.controller.recheck();
    sleep(Duration::from_secs(20)).await;
    assert!(!bench.calls().iter().any(|call| call.starts_with("delete")));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(bench.cloud.routes.all(), [""; 0]);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_deletion_rejected_by_the_previous_plugin_is_retried() {
    let bench = watching();
    let gate = bench.cloud.routes.slow("10.244.7.0/24");
    bench.cloud.routes.has(route("gone", "10.244.7.0/24"));
    bench
        .cloud
        .routes
        .fails("10.244.7.0/24", CloudError::Invalid("not yet".into()));
    let running = bench.run();
    sleep(Duration::from_secs(4)).await;
    bench.controller.recheck();
    sleep(Duration::from_secs(4)).await;
    gate.add_permits(10);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(bench.cloud.routes.all(), [""; 0]);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_running_calls_and_starts_no_others() {
    let bench = watching();
    for n in 0..210 {
        bench.has(&format!("n{n}"), &[&format!("10.244.{n}.0/24")], &json!({}));
    }
    let gate = bench.cloud.routes.gated();
    let running = bench.run();
    sleep(Duration::from_secs(1)).await;
    bench.stop.cancel();

    sleep(Duration::from_secs(1)).await;
    assert!(!running.is_finished());

    gate.add_permits(1000);
    running.await.unwrap();
    assert_eq!(bench.cloud.routes.all().len(), 198);

    let conditions = bench.conditions();
    assert_eq!(conditions.len(), 198);
    assert!(
        conditions
            .iter()
            .all(|condition| condition.ends_with("False RouteCreated"))
    );
}

// Holds: R-06
#[tokio::test(start_paused = true)]
async fn a_failing_list_is_called_when_its_error_says() {
    for (error, runs) in [
        (CloudError::Throttled(retry(60)), 2..=3),
        (CloudError::Invalid("no such table".into()), 1..=1),
        (CloudError::ImplementedElsewhere, 1..=1),
    ] {
        let bench = watching();
        bench.has("a", &["10.244.0.0/24"], &json!({}));
        bench.cloud.routes.fails("10.244.0.0/24", unavailable());
        let running = bench.run();
        sleep(Duration::from_millis(500)).await;
        assert_eq!(
            bench.runs(),
            1,
            "its creation has failed, and is due after a second"
        );
        for _ in 0..1000 {
            bench.cloud.routes.fails("list", error.clone());
        }
        sleep(Duration::from_secs(130)).await;
        let lists = bench.runs();
        assert!(runs.contains(&lists), "{lists} lists in 130 s: {error}");
        running.abort();
    }
}

// Holds
#[test]
fn the_next_run_starts_when_it_is_due() {
    let seconds = Duration::from_secs;
    let watch = |period| Reconciliation::OnChange {
        check_period: seconds(period),
    };
    for (reconciliation, took, again, asked, expected) in [
        (watch(300), 1, None, None, (Some(300), 2)),
        (watch(0), 1, None, None, (None, 2)),
        (watch(300), 5, None, None, (Some(300), 0)),
        (watch(300), 0, Some(1), None, (Some(1), 3)),
        (watch(300), 0, Some(1), Some(1), (Some(1), 1)),
        (watch(300), 0, Some(1), Some(2), (Some(1), 2)),
        (watch(300), 0, Some(1), Some(60), (Some(1), 3)),
        (watch(300), 0, Some(60), Some(60), (Some(60), 3)),
        (watch(0), 0, Some(3600), None, (Some(3600), 3)),
        (watch(300), 0, Some(3600), None, (Some(300), 3)),
        (
            Reconciliation::Periodic {
                period: seconds(10),
            },
            4,
            Some(1),
            Some(1),
            (Some(6), 0),
        ),
        (
            Reconciliation::Periodic {
                period: seconds(10),
            },
            40,
            None,
            None,
            (Some(0), 0),
        ),
    ] {
        let next = reconciliation.after(seconds(took), again.map(seconds), asked.map(seconds));
        let seen = (next.due.map(|due| due.as_secs()), next.pause.as_secs());
        assert_eq!(
            seen, expected,
            "{reconciliation:?} {took} {again:?} {asked:?}"
        );
    }
}

// Holds: R-04
#[tokio::test(start_paused = true)]
async fn runs_stay_apart_while_creations_keep_failing() {
    let bench = watching();
    let running = bench.run();
    sleep(Duration::from_secs(5)).await;
    // The back-off of each route is due at another time.
    for n in 0..200 {
        let cidr = format!("10.244.{n}.0/24");
        (0..50).for_each(|_| bench.cloud.routes.fails(&cidr, unavailable()));
        bench.has(&format!("n{n}"), &[&cidr], &json!({}));
        sleep(Duration::from_millis(170)).await;
    }
    bench.calls();
    sleep(Duration::from_secs(60)).await;
    let runs = bench.runs();
    assert!((18..=21).contains(&runs), "{runs} lists in 60 s");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_warning_precedes_the_route_limit() {
    let bench = bench(Reconciliation::OnChange {
        check_period: Duration::from_secs(300),
    });
    *bench.cloud.routes.limit.lock().unwrap() = Some(10);
    for n in 0..7 {
        bench.has(&format!("n{n}"), &[&format!("10.244.{n}.0/24")], &json!({}));
    }
    let running = bench.run();

    sleep(Duration::from_secs(400)).await;
    assert!(bench.events().await.is_empty());

    bench.has("n7", &["10.244.7.0/24"], &json!({}));
    sleep(Duration::from_secs(400)).await;
    let events = bench.events().await;
    assert_eq!(
        (events.len(), &events[0]["reason"]),
        (1, &json!("RoutesNearLimit")),
        "{events:?}"
    );
    assert_eq!(events[0]["involvedObject"]["kind"], "Lease");

    let message = events[0]["message"].as_str().unwrap();
    assert!(
        message.contains("8 routes") && message.contains("--plugin-limit routes=20"),
        "{message}"
    );
    assert_eq!(
        (
            bench.metric("skydock_routes "),
            bench.metric("skydock_routes_limit")
        ),
        ("8".into(), "10".into())
    );

    bench.cloud.routes.fails(
        "list",
        CloudError::Internal("11 routes, but at most 10 are allowed".into()),
    );
    sleep(Duration::from_secs(300)).await;
    let last = bench.events().await.pop().unwrap();
    assert_eq!(last["reason"], "FailedToListRoutes");
    assert!(
        last["message"]
            .as_str()
            .unwrap()
            .contains("at most 10 are allowed"),
        "{last}"
    );

    running.abort();
}
