//! A controller that starts where another one has stopped.

use std::{collections::BTreeSet, sync::Mutex};

use k8s_openapi::api::coordination::v1::Lease;
use skydock_cloud::{ObjectAnnotations, ObjectName};
use skydock_controller_base::objects::constants::ANNOTATION_CLASS;
use skydock_kube::election::{LeaseAnnotationWriter, lease_annotation};
use tokio::task::JoinHandle;

use super::*;

const ALL: &str = "/api/v1/namespaces/kube-system/configmaps";
const ONE: &str = "/api/v1/namespaces/kube-system/configmaps/ccm-load-balancer-nodes";
const MINUTE: Duration = Duration::from_secs(60);

/// What is left of a process that is killed: the Lease, and the ConfigMap.
#[derive(Default)]
struct Left {
    lease: Arc<Mutex<Lease>>,
    config_map: Value,
}

/// A process. Its cloud has the load balancers of all Services.
struct Process {
    bench: Bench,
    renewing: JoinHandle<()>,
}

impl Left {
    /// Starts a process that finds these objects and is the next holder of the Lease.
    async fn start(&self, nodes: &[Node], services: &[Service]) -> Process {
        self.start_with(
            nodes,
            services,
            NodeFields::Target,
            ServiceOptions::default(),
        )
        .await
    }

    async fn start_with(
        &self,
        nodes: &[Node],
        services: &[Service],
        node_fields: NodeFields,
        options: ServiceOptions,
    ) -> Process {
        let api = FakeApi::default();
        match &self.config_map {
            Value::Null => api.fail("GET", ONE, 404, "NotFound"),
            config_map => api.answer("GET", ONE, 200, config_map.clone()),
        }
        for _ in 0..10 {
            let answer = json!({"metadata": {"resourceVersion": "9"}});
            api.answer("PUT", ONE, 200, answer);
        }
        let (annotation, mut writer) = lease_annotation(ANNOTATION);
        {
            let mut lease = self.lease.lock().unwrap();
            let holders = &mut lease.spec.get_or_insert_default().lease_transitions;
            *holders = Some(holders.unwrap_or(0) + 1);
            writer.confirm(&lease, 0);
        }

        let records = RecordStore::new(&api.client(), "kube-system", "ccm", "", annotation);
        let lease = Arc::clone(&self.lease);
        let renewing = tokio::spawn(async move {
            loop {
                writer.changed().await;
                renew(&lease, &writer);
            }
        });
        let bench = bench_on(api, options, (nodes, services), Some(records));
        *bench.cloud.node_fields.lock().unwrap() = node_fields;
        wait().await;
        Process { bench, renewing }
    }
}

fn renew(lease: &Mutex<Lease>, writer: &LeaseAnnotationWriter) {
    let mut lease = lease.lock().unwrap();
    let number = writer.apply(&mut lease.metadata.annotations);
    writer.confirm(&lease, number);
}

impl Process {
    /// Ends the process for all others: its requests and its renewals do not count any more.
    fn kill(self, left: &mut Left) {
        self.renewing.abort();
        let requests = self.bench.api.requests().into_iter();
        let written = requests.filter(|it| ["POST", "PUT"].contains(&&*it.method));
        let mut written = written.filter(|it| it.path.starts_with(ALL));
        if let Some(written) = written.next_back() {
            left.config_map = written.body;
        }
    }

    /// Returns how many load balancers were sent nodes.
    fn sent(&self) -> usize {
        let calls = self.bench.calls();
        let sent = calls.iter().filter_map(|call| {
            let (function, rest) = call.split_once(' ')?;
            ["ensure", "update"]
                .contains(&function)
                .then_some(&rest[..1])
        });
        sent.collect::<BTreeSet<_>>().len()
    }

    fn writes(&self) -> usize {
        let calls = self.bench.api.calls();
        calls.iter().filter(|call| !call.starts_with("GET")).count()
    }
}

fn nodes() -> [Node; 2] {
    [plain_node("n1"), plain_node("n2")]
}

/// Returns a Service with its load balancer.
fn one(name: &str) -> Service {
    with(
        &service(name),
        &json!({
            "metadata": {"finalizers": [FINALIZER]},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
        }),
    )
}

fn services() -> Vec<Service> {
    ["a", "b", "c"].map(one).to_vec()
}

/// Returns what a process leaves that has ensured all of [`services`].
async fn left_by(node_fields: NodeFields) -> Left {
    let mut left = Left::default();
    let options = ServiceOptions::default();
    let process = left
        .start_with(&nodes(), &services(), node_fields, options)
        .await;
    sleep(MINUTE).await;
    process.kill(&mut left);
    assert_ne!(left.config_map, Value::Null);
    left
}

// Holds: S-14
#[tokio::test(start_paused = true)]
async fn a_restart_sends_no_nodes_that_were_sent() {
    let mut left = left_by(NodeFields::Target).await;
    for _ in 0..3 {
        let process = left.start(&nodes(), &services()).await;
        sleep(20 * MINUTE).await;
        assert_eq!(process.bench.calls(), [""; 0]);
        assert_eq!(process.writes(), 0);
        process.kill(&mut left);
    }

    let process = left.start(&nodes(), &services()).await;
    sleep(40 * MINUTE).await;
    let calls = process.bench.calls();
    assert_eq!(calls.len(), 3, "each is checked: {calls:?}");
    assert!(calls.iter().all(|call| call.starts_with("ensure")));
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_a_thousand_services_costs_almost_nothing() {
    let services: Vec<_> = (0..1000).map(|number| one(&format!("s{number}"))).collect();
    let mut left = Left::default();
    let process = left.start(&nodes(), &services).await;
    // All of them are checked, one a second.
    sleep(20 * MINUTE).await;
    assert_eq!(process.bench.calls().len(), 1000 + 1000 - 5);
    process.kill(&mut left);

    let process = left.start(&nodes(), &services).await;
    sleep(5 * MINUTE).await;
    assert_eq!(process.bench.calls(), [""; 0]);
    assert_eq!(process.writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_changed_without_a_leader_are_sent() {
    let left = left_by(NodeFields::Target).await;
    let process = left.start(&nodes()[..1], &services()).await;
    assert_eq!(process.sent(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_reads_is_known_after_a_restart() {
    let unready = nodes();
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let ready = unready.clone().map(|node| with(&node, &ready));
    for (node_fields, updates) in [(NodeFields::Target, 0), (NodeFields::All, 3)] {
        let left = left_by(node_fields).await;
        let process = left.start(&ready, &services()).await;
        assert_eq!(process.sent(), updates, "{node_fields:?}");

        // The provider reads less in this process, until the next check.
        let left = left_by(node_fields).await;
        let process = left.start(&unready, &services()).await;
        assert_eq!(process.sent(), 0);
        for node in ready.clone() {
            let version = json!({"metadata": {"resourceVersion": "9"}});
            process.bench.has_node(with(&node, &version)).await;
        }
        sleep(MINUTE).await;
        assert_eq!(process.sent() > 0, updates > 0, "{node_fields:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_changed_without_a_leader_is_checked_at_once() {
    let left = left_by(NodeFields::Target).await;
    let mut services = services();
    services[1] = with(
        &services[1],
        &json!({"spec": {"ports": [{"port": 81, "nodePort": 30081}]}}),
    );
    let process = left.start(&nodes(), &services).await;
    sleep(Duration::from_secs(5)).await;
    let calls = process.bench.calls();
    assert_eq!(calls, ["ensure b n1,n2"]);
}

#[tokio::test(start_paused = true)]
async fn what_needs_no_update_is_checked_after_a_restart() {
    for change in [
        json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.66"}]}}}),
        json!({"metadata": {"labels": {"team": "b"}}}),
        json!({"spec": {"internalTrafficPolicy": "Local"}}),
    ] {
        let left = left_by(NodeFields::Target).await;
        let mut services = services();
        services[1] = with(&services[1], &change);
        let process = left.start(&nodes(), &services).await;
        sleep(Duration::from_secs(5)).await;
        assert_eq!(process.bench.calls(), ["ensure b n1,n2"], "{change}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_annotation_that_was_lost_without_a_leader_is_restored() {
    const CLASS: &str = "example.com/internal";
    let options = || ServiceOptions {
        classes: Classes {
            named: BTreeSet::from([CLASS.to_owned()]),
            unnamed: true,
        },
        ..ServiceOptions::default()
    };
    let node_fields = NodeFields::Target;
    let without = with(&one("a"), &json!({"spec": {"loadBalancerClass": CLASS}}));
    let annotations = json!({ANNOTATION_CLASS: format!("{CLASS}@uid-a")});
    let complete = with(&without, &json!({"metadata": {"annotations": annotations}}));

    let mut left = Left::default();
    for calls in [&["ensure a n1,n2"][..], &[]] {
        let services = [complete.clone()];
        let process = left
            .start_with(&nodes(), &services, node_fields, options())
            .await;
        sleep(MINUTE).await;
        assert_eq!(process.bench.calls(), calls);
        process.kill(&mut left);
    }

    let process = left
        .start_with(&nodes(), &[without], node_fields, options())
        .await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(process.bench.calls(), ["ensure a n1,n2"]);
}

#[tokio::test(start_paused = true)]
async fn an_address_conflict_without_a_leader_is_checked() {
    let left = left_by(NodeFields::Target).await;
    let mut services = services();
    let other = json!({"spec": {"type": "ClusterIP", "clusterIPs": ["192.0.2.1"]}});
    services.push(with(&service("other"), &other));
    let process = left.start(&nodes(), &services).await;
    sleep(MINUTE).await;
    assert_eq!(process.sent(), 3, "all have this address");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_could_not_be_written_is_written_after_a_restart() {
    let mut left = left_by(NodeFields::Target).await;
    let process = left.start(&nodes(), &services()).await;
    let status = LoadBalancerStatus {
        ingress: vec![Ingress {
            ip: Some("192.0.2.2".into()),
            ..Ingress::default()
        }],
    };
    process
        .bench
        .cloud
        .ensure
        .lock()
        .unwrap()
        .push_back(Ok(status));
    let changed = json!({"metadata": {"resourceVersion": "2"}, "spec": {"ports": [{"port": 81, "nodePort": 30081}]}});
    let changed = with(&services()[0], &changed);
    process.bench.has(changed.clone()).await;
    sleep(MINUTE).await;
    process.kill(&mut left);

    let process = left.start(&nodes(), &[changed]).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(process.bench.calls(), ["ensure a n1,n2"]);
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_waits_keeps_a_service_out_of_the_record() {
    let mut left = Left::default();
    let process = left.start(&nodes(), &services()).await;
    let controller = &process.bench.controller;
    let waiting = controller.services.get("ns/b").unwrap();
    controller.written_annotations.waits(ObjectAnnotations {
        object: ObjectName::service(&waiting.view.service),
        annotations: [("a".to_owned(), Some("1".to_owned()))].into(),
    });
    sleep(MINUTE).await;
    process.kill(&mut left);

    let process = left.start(&nodes(), &services()).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(process.bench.calls(), ["ensure b n1,n2"]);
}

#[tokio::test(start_paused = true)]
async fn a_changed_load_balancer_is_checked_by_the_next_process() {
    for (other, name) in [
        (
            json!({"spec": {"ports": [{"port": 81, "nodePort": 30081}]}}),
            "ensure",
        ),
        (json!({"spec": {"type": "ClusterIP"}}), "delete"),
    ] {
        let mut left = left_by(NodeFields::Target).await;
        let process = left.start(&nodes(), &services()).await;
        let version = json!({"metadata": {"resourceVersion": "2"}});
        let changed = with(&with(&services()[0], &version), &other);
        process.bench.has(changed).await;
        let calls = process.bench.calls();
        assert!(calls.iter().any(|call| call.starts_with(name)), "{calls:?}");
        process.kill(&mut left);

        // Somebody takes the change back before there is another leader.
        let process = left.start(&nodes(), &services()).await;
        assert_eq!(process.sent(), 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_outlasts_the_shutdown_costs_no_other_service() {
    let mut left = Left::default();
    let process = left.start(&nodes(), &services()).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(process.sent(), 3);

    // It is too early for another record than that of the shutdown.
    let changed = json!({"metadata": {"resourceVersion": "2"}, "spec": {"ports": [{"port": 81, "nodePort": 30081}]}});
    process.bench.cloud.ensure_takes(MINUTE);
    process.bench.has(with(&services()[0], &changed)).await;
    process.bench.shutdown.cancel();
    sleep(Duration::from_secs(5)).await;
    process.kill(&mut left);

    let process = left.start(&nodes(), &services()).await;
    assert_eq!(process.sent(), 1);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_could_not_be_sent_are_sent_after_a_restart() {
    for error in [
        CloudError::Unavailable("no".into()),
        CloudError::Invalid("no".into()),
        CloudError::ImplementedElsewhere,
    ] {
        let mut left = left_by(NodeFields::Target).await;
        let process = left.start(&nodes(), &services()).await;
        let failures = (0..100).map(|_| Err(error.clone()));
        process.bench.cloud.update.lock().unwrap().extend(failures);
        let ensures = (0..100).map(|_| Err(error.clone()));
        process.bench.cloud.ensure.lock().unwrap().extend(ensures);
        process.bench.has_node(plain_node("n3")).await;
        sleep(MINUTE).await;
        process.kill(&mut left);

        let all = [plain_node("n1"), plain_node("n2"), plain_node("n3")];
        for nodes in [&all[..], &all[..2]] {
            let process = left.start(nodes, &services()).await;
            assert_eq!(process.sent(), 3, "{error}");
            process.renewing.abort();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_checks_each_process_begins_anew() {
    let mut left = left_by(NodeFields::Target).await;
    let options = || ServiceOptions {
        check_period: None,
        ..ServiceOptions::default()
    };
    let node_fields = NodeFields::Target;
    let process = left
        .start_with(&nodes(), &services(), node_fields, options())
        .await;
    assert_eq!(process.sent(), 3);
    process.kill(&mut left);
    let process = left.start(&nodes(), &services()).await;
    assert_eq!(process.sent(), 3, "somebody has led in between");
}

#[tokio::test(start_paused = true)]
async fn a_record_is_written_once_for_all_changes() {
    let left = Left::default();
    let process = left.start(&nodes(), &services()).await;
    sleep(MINUTE).await;
    let records = |process: &Process| {
        let calls = process.bench.api.calls();
        calls
            .iter()
            .filter(|call| call.contains("configmaps"))
            .count()
    };
    assert_eq!(records(&process), 2, "read and created");
    for name in ["n3", "n4", "n5"] {
        process.bench.has_node(plain_node(name)).await;
    }
    sleep(20 * MINUTE).await;
    assert_eq!(records(&process), 3, "replaced");
}
