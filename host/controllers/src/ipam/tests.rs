use prometheus_client::registry::Registry;
use serde_json::Value;
use skydock_controller_base::testing::{FakeApi, Request, context, node, with};
use tokio::{task::JoinHandle, time::sleep};

use super::*;
use crate::Metrics;

struct Bench {
    api: FakeApi,
    controller: Arc<IpamController>,
    registry: Registry,
    shutdown: CancellationToken,
    running: JoinHandle<()>,
}

/// Starts a controller with these existing nodes.
fn start(ranges: &[(&str, u8)], nodes: &[Node], prepare: impl FnOnce(&FakeApi)) -> Bench {
    start_after(Duration::ZERO, ranges, nodes, prepare)
}

fn start_after(
    quiet: Duration,
    ranges: &[(&str, u8)],
    nodes: &[Node],
    prepare: impl FnOnce(&FakeApi),
) -> Bench {
    let api = FakeApi::default();
    prepare(&api);
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let context = context(&CONTROLLER, &api, Arc::default(), &metrics.shared);
    nodes
        .iter()
        .for_each(|node| drop(context.nodes.apply(node.clone())));
    let ranges = ranges
        .iter()
        .map(|(cluster, mask)| NodeRange::new(cluster.parse().unwrap(), *mask).unwrap());
    let options = IpamOptions {
        ranges: ranges.collect(),
        service_cidrs: vec!["10.96.0.0/12".parse().unwrap()],
    };
    let controller = Arc::new(IpamController::new(
        context,
        &metrics.ipam,
        api.client(),
        &options,
        quiet,
    ));
    let shutdown = CancellationToken::new();
    let running = tokio::spawn({
        let (controller, shutdown) = (Arc::clone(&controller), shutdown.clone());
        async move { controller.run(shutdown).await }
    });
    Bench {
        api,
        controller,
        registry,
        shutdown,
        running,
    }
}

fn carrying(name: &str, cidrs: &[&str]) -> Node {
    let spec = json!({"podCIDR": cidrs.first(), "podCIDRs": cidrs});
    with(
        &node(name),
        &json!({"spec": spec, "metadata": {"resourceVersion": "2"}}),
    )
}

impl Bench {
    fn shows(&self, node: Node) {
        self.controller.context.nodes.apply(node);
    }

    fn deletes(&self, name: &str) {
        self.controller.context.nodes.delete(name);
    }

    fn patches(&self) -> Vec<Request> {
        self.api
            .requests()
            .into_iter()
            .filter(|request| request.method == "PATCH" && is_node(request))
            .collect()
    }

    /// Returns `NODE CIDR,…` for each patch.
    fn assigned(&self) -> Vec<String> {
        let line = |request: Request| {
            let cidrs: Vec<String> =
                serde_json::from_value(request.body["spec"]["podCIDRs"].clone()).unwrap();
            format!(
                "{} {}",
                request.path.rsplit('/').next().unwrap(),
                cidrs.join(",")
            )
        };
        self.patches().into_iter().map(line).collect()
    }

    /// Returns `NODE type reason` for each new event.
    fn events(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let reported = self.api.events().into_iter();
        reported
            .map(|event| {
                assert_eq!(event["source"]["component"], "cidrAllocator");
                [
                    &event["involvedObject"]["name"],
                    &event["type"],
                    &event["reason"],
                ]
                .map(text)
                .join(" ")
            })
            .collect()
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

fn is_node(request: &Request) -> bool {
    request.path.starts_with("/api/v1/nodes/")
}

async fn moment() {
    sleep(Duration::from_secs(1)).await;
}

const NODES: [(&str, u8); 1] = [("10.244.0.0/16", 24)];
const TWO: [(&str, u8); 1] = [("10.244.0.0/23", 24)];

// Holds: I-08
#[tokio::test(start_paused = true)]
async fn one_patch_with_the_uid_sets_pod_cidr_and_pod_cidrs() {
    let ranges = [("10.244.0.0/16", 24), ("fd00:10:244::/56", 64)];
    let bench = start(&ranges, &[node("a")], |_| {});
    moment().await;
    let patches = bench.patches();
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0].path, "/api/v1/nodes/a");
    assert_eq!(patches[0].content_type, "application/merge-patch+json");

    let both = json!(["10.244.0.0/24", "fd00:10:244::/64"]);
    assert_eq!(
        patches[0].body,
        json!({"metadata": {"uid": "uid-a"}, "spec": {"podCIDR": "10.244.0.0/24", "podCIDRs": both}})
    );

    // The watch delivers the patched node, and heartbeats follow.
    bench.shows(carrying("a", &["10.244.0.0/24", "fd00:10:244::/64"]));
    moment().await;
    assert_eq!(bench.patches().len(), 1);
    assert_eq!(bench.events(), Vec::<String>::new());
}

// Holds: I-05
#[tokio::test(start_paused = true)]
async fn existing_cidrs_are_recorded_before_the_first_allocation() {
    let nodes = [
        node("a"),
        carrying("b", &["10.244.0.0/24"]),
        carrying("c", &["10.244.2.0/24"]),
    ];
    let bench = start(&NODES, &nodes, |_| {});
    moment().await;
    assert_eq!(bench.assigned(), ["a 10.244.1.0/24"]);
}

// Holds: I-05
#[tokio::test(start_paused = true)]
async fn a_range_inside_the_service_range_has_no_free_cidr() {
    let bench = start(&[("10.96.0.0/16", 24)], &[node("a")], |_| {});
    moment().await;
    assert_eq!(bench.assigned(), Vec::<String>::new());
    assert_eq!(bench.events(), ["a Warning CIDRNotAvailable"]);
}

// Holds: I-05
#[tokio::test(start_paused = true)]
async fn pod_cidr_problems_get_events_and_are_counted() {
    let nodes = [
        carrying("a", &["10.0.0.0/24"]),
        carrying("b", &["10.244.0.0/24"]),
        carrying("c", &["10.244.0.0/24"]),
    ];
    let bench = start(&NODES, &nodes, |_| {});
    bench.shows(node("d"));
    moment().await;

    let mut events = bench.events();
    events.sort();
    assert_eq!(
        events,
        ["a Warning PodCIDROutOfRange", "c Warning PodCIDRConflict"]
    );
    assert_eq!(bench.assigned(), ["d 10.244.1.0/24"]);

    for kind in ["pod-cidr-out-of-range", "pod-cidr-conflict"] {
        let line =
            format!("skydock_controller_errors_total{{controller=\"nodeipam\",kind=\"{kind}\"}} 1");
        assert!(bench.metrics().contains(&line), "{line}");
    }
}

// Holds: I-06
#[tokio::test(start_paused = true)]
async fn up_to_30_nodes_are_patched_at_once_with_distinct_cidrs() {
    let nodes: Vec<Node> = (0..40)
        .map(|number| node(&format!("n{number:02}")))
        .collect();
    let bench = start(&NODES, &nodes, |api| {
        (0..30).for_each(|number| api.hang("PATCH", &format!("/api/v1/nodes/n{number:02}")));
    });
    moment().await;
    assert_eq!(bench.assigned().len(), 30);

    let cidrs: std::collections::BTreeSet<String> = bench
        .assigned()
        .iter()
        .map(|line| line.split_once(' ').unwrap().1.to_owned())
        .collect();
    assert_eq!(cidrs.len(), 30);
    assert!(
        bench
            .metrics()
            .contains("workqueue_depth{name=\"cidrallocator_node\"} 10")
    );
}

// Holds: I-08, I-09
#[tokio::test(start_paused = true)]
async fn a_failed_write_is_retried_with_the_same_reserved_cidr() {
    let bench = start(&TWO, &[node("a")], |api| {
        api.fail("PATCH", "/api/v1/nodes/a", 504, "Timeout");
        api.fail("PATCH", "/api/v1/nodes/a", 500, "InternalError");
    });
    moment().await;
    bench.shows(node("b"));
    moment().await;
    assert_eq!(
        bench.assigned(),
        [
            "a 10.244.0.0/24",
            "a 10.244.0.0/24",
            "a 10.244.0.0/24",
            "b 10.244.1.0/24"
        ]
    );
    assert_eq!(bench.events()[0], "a Warning CIDRAssignmentFailed");
}

// Holds: I-08
#[tokio::test(start_paused = true)]
async fn a_cidr_from_another_allocator_is_kept_and_ours_is_freed() {
    let rejected = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422, "reason": "Invalid", "message": "no",
        "details": {"name": "a", "kind": "Node", "causes": [{"reason": "FieldValueForbidden", "field": "spec.podCIDRs"}]},
    });
    let bench = start(&TWO, &[node("a")], |api| {
        api.answer("PATCH", "/api/v1/nodes/a", 422, rejected);
    });
    sleep(Duration::from_millis(50)).await;
    bench.shows(carrying("a", &["10.244.1.0/24"]));
    moment().await;
    bench.shows(node("b"));
    moment().await;
    assert_eq!(bench.assigned(), ["a 10.244.0.0/24", "b 10.244.0.0/24"]);
    assert_eq!(bench.events(), ["a Warning OtherCIDRAllocator"]);
}

// Holds: I-06, I-08
#[tokio::test(start_paused = true)]
async fn a_recreated_node_is_treated_as_another_node() {
    let bench = start(&TWO, &[node("a")], |api| {
        api.fail("PATCH", "/api/v1/nodes/a", 409, "Conflict");
    });
    sleep(Duration::from_millis(50)).await;
    bench.shows(with(
        &node("a"),
        &json!({"metadata": {"uid": "another", "resourceVersion": "7"}}),
    ));
    moment().await;
    let uids: Vec<Value> = bench
        .patches()
        .iter()
        .map(|patch| patch.body["metadata"]["uid"].clone())
        .collect();
    assert_eq!(uids, ["uid-a", "another"]);
    assert_eq!(bench.assigned(), ["a 10.244.0.0/24", "a 10.244.1.0/24"]);
    // The CIDR of the first one is free.
    bench.shows(node("b"));
    moment().await;
    assert_eq!(bench.assigned().last().unwrap(), "b 10.244.0.0/24");
    assert_eq!(bench.events(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_range_names_the_flag_of_its_family() {
    let table = [
        (
            [("10.244.0.0/24", 24), ("fd00:10:244::/56", 64)],
            "10.244.0.0/24",
            "--node-cidr-mask-size-ipv4",
        ),
        (
            [("10.244.0.0/16", 24), ("fd00:10:244::/64", 64)],
            "fd00:10:244::/64",
            "--node-cidr-mask-size-ipv6",
        ),
    ];
    for (ranges, taken, flag) in table {
        let bench = start(&ranges, &[carrying("a", &[taken]), node("b")], |_| {});
        moment().await;
        let post = bench
            .api
            .requests()
            .into_iter()
            .find(|request| request.method == "POST")
            .unwrap();
        let message = post.body["message"].as_str().unwrap();
        assert!(
            message.contains(&format!("{taken} is exhausted"))
                && message.contains(&format!("increase {flag} ("))
        );
    }
}

// Holds: I-06, I-09
#[tokio::test(start_paused = true)]
async fn a_node_without_cidr_has_a_warning_and_gets_the_next_free() {
    let nodes = [
        carrying("a", &["10.244.0.0/24"]),
        carrying("b", &["10.244.1.0/24"]),
        node("c"),
        node("d"),
    ];
    let bench = start(&TWO, &nodes, |_| {});
    moment().await;

    let mut events = bench.events();
    events.sort();
    assert_eq!(
        events,
        ["c Warning CIDRNotAvailable", "d Warning CIDRNotAvailable"]
    );

    let post = bench
        .api
        .requests()
        .into_iter()
        .find(|request| request.method == "POST")
        .unwrap();
    let message = post.body["message"].as_str().unwrap();
    assert!(
        message.contains("10.244.0.0/23 is exhausted")
            && message.ends_with(
                "increase --node-cidr-mask-size-ipv4 (--node-cidr-mask-size if that is set)"
            )
    );

    // Both nodes are deleted at the same time: each wakes one waiting node.
    bench.deletes("a");
    bench.deletes("b");
    sleep(Duration::from_millis(1)).await;
    let mut assigned = bench.assigned();
    assigned.sort();
    assert_eq!(assigned, ["c 10.244.0.0/24", "d 10.244.1.0/24"]);
}

// Holds: I-09
#[tokio::test(start_paused = true)]
async fn an_exhausted_range_is_rechecked_rarely() {
    let bench = start(
        &[("10.244.0.0/24", 24)],
        &[carrying("a", &["10.244.0.0/24"]), node("b")],
        |_| {},
    );
    let exhausted = |bench: &Bench| {
        let text = bench.metrics();
        let line = text
            .lines()
            .find(|line| line.contains("pod-cidrs-exhausted"))
            .unwrap()
            .to_owned();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    sleep(Duration::from_secs(29)).await;
    assert_eq!(exhausted(&bench), 1);

    sleep(Duration::from_secs(600)).await;
    assert_eq!(exhausted(&bench), 5);
    assert_eq!(bench.assigned(), Vec::<String>::new());
}

// Holds: I-10
#[tokio::test(start_paused = true)]
async fn metrics_have_upstreams_names_and_both_spellings() {
    let bench = start(&NODES, &[node("a"), node("b"), node("c")], |_| {});
    moment().await;
    bench.deletes("a");
    let text = bench.metrics();
    for line in [
        "cidrset_cidrs_allocations_total{clusterCIDR=\"10.244.0.0/16\"} 3",
        "cidrset_cidrs_releases_total{clusterCIDR=\"10.244.0.0/16\"} 1",
        "cidrset_usage_cidrs{clusterCIDR=\"10.244.0.0/16\"} 0.0078125",
        "cidrset_max_cidrs{clusterCIDR=\"10.244.0.0/16\"} 256",
        "cirdset_max_cidrs{clusterCIDR=\"10.244.0.0/16\"} 256",
        "cidrset_allocation_tries_per_request_bucket{le=\"1.0\",clusterCIDR=\"10.244.0.0/16\"} 3",
        "cidrset_allocation_tries_per_request_bucket{le=\"625.0\",clusterCIDR=\"10.244.0.0/16\"} 3",
        "cidrset_allocation_tries_per_request_sum{clusterCIDR=\"10.244.0.0/16\"} 3.0",
    ] {
        let line = format!("node_ipam_controller_{line}");
        assert!(
            text.lines().any(|other| other == line),
            "{line} is missing in:\n{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn no_work_starts_after_shutdown() {
    let bench = start(&TWO, &[], |_| {});
    moment().await;
    bench.shutdown.cancel();
    bench.running.await.unwrap();
    bench.controller.context.nodes.apply(node("a"));
    moment().await;
    assert_eq!(bench.api.calls(), Vec::<String>::new());
}

// Holds: I-05, I-08
#[tokio::test(start_paused = true)]
async fn nothing_is_allocated_while_late_writes_may_arrive() {
    let quiet = Duration::from_secs(40);
    let bench = start_after(
        quiet,
        &[("10.244.0.0/16", 24)],
        &[node("a"), node("b")],
        |_| {},
    );
    sleep(Duration::from_secs(33)).await;
    assert!(bench.assigned().is_empty());

    // A write of the previous process arrives.
    bench.shows(carrying("b", &["10.244.0.0/24"]));
    sleep(Duration::from_secs(8)).await;
    assert_eq!(bench.assigned(), ["a 10.244.1.0/24"]);

    // A shutdown does not wait for this time to pass.
    let bench = start_after(quiet, &[("10.244.0.0/16", 24)], &[node("a")], |_| {});
    sleep(Duration::from_secs(1)).await;
    bench.shutdown.cancel();
    sleep(Duration::from_secs(1)).await;
    assert!(bench.running.is_finished() && bench.assigned().is_empty());
}
