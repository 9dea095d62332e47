use base64::{Engine as _, engine::general_purpose::STANDARD};
use prometheus_client::registry::Registry;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use serde_json::Value;
use skydock_cloud::{AddressKind, NodeAddress};
use skydock_controller_base::{
    objects::constants::TAINT_UNINITIALIZED,
    testing::{FakeApi, FakeCloud, context, every_error, node, with},
};
use tokio::time::sleep;

use super::*;
use crate::Metrics;

const APPROVAL: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests/csr-1/approval";

struct Bench {
    api: FakeApi,
    cloud: Arc<FakeCloud>,
    controller: Arc<CertificateController>,
    stop: CancellationToken,
}

/// Returns a running controller.
fn bench() -> Bench {
    let (api, cloud) = (FakeApi::default(), Arc::new(FakeCloud::default()));
    let metrics = Metrics::register(&mut Registry::default());
    let context = context(&CONTROLLER, &api, cloud.clone(), &metrics.shared);
    let controller = Arc::new(CertificateController::new(
        context,
        metrics.certificates,
        api.client(),
    ));
    let stop = CancellationToken::new();
    let (running, shutdown) = (Arc::clone(&controller), stop.clone());
    tokio::spawn(async move { running.run(shutdown).await });
    Bench {
        api,
        cloud,
        controller,
        stop,
    }
}

/// Returns a request as the kubelet of this node creates it.
fn request(name: &str, node: &str, address: [u8; 4]) -> Value {
    let user = format!("system:node:{node}");
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, "system:nodes");
    params
        .distinguished_name
        .push(DnType::CommonName, user.as_str());
    params.subject_alt_names = vec![
        SanType::DnsName(node.try_into().unwrap()),
        SanType::IpAddress(address.into()),
    ];
    let signed = params.serialize_request(&KeyPair::generate().unwrap());
    let der = STANDARD.encode(signed.unwrap().der());
    let pem =
        format!("-----BEGIN CERTIFICATE REQUEST-----\n{der}\n-----END CERTIFICATE REQUEST-----\n");

    json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "7"},
        "spec": {
            "signerName": "kubernetes.io/kubelet-serving", "request": STANDARD.encode(pem),
            "username": user, "groups": ["system:nodes", "system:authenticated"],
            "usages": ["digital signature", "server auth"],
        },
    })
}

impl Bench {
    fn asks(&self, request: &Value) {
        let request = serde_json::from_value(request.clone()).unwrap();
        self.controller.requests.apply(request);
    }

    fn has(&self, name: &str, change: &Value) {
        let initialized = json!({"spec": {"providerID": format!("fake://{name}"), "taints": []}});
        let node = with(&with(&node(name), &initialized), change);
        self.controller.context.nodes.apply(node);
    }

    fn says(&self, name: &str, answer: Result<Instance, CloudError>) {
        let mut instances = self.cloud.instances.lock().unwrap();
        instances.insert(name.to_owned(), answer);
    }

    fn approvals(&self) -> Vec<Value> {
        let requests = self.api.requests();
        let approvals = requests
            .into_iter()
            .filter(|it| it.method == "PATCH" && it.path.ends_with("/approval"));
        approvals.map(|it| it.body).collect()
    }

    /// Returns the UIDs of requests that were approved.
    fn approved(&self) -> Vec<String> {
        let approvals = self.approvals();
        let uids = approvals
            .iter()
            .map(|body| body["metadata"]["uid"].as_str());
        uids.map(|uid| uid.unwrap().to_owned()).collect()
    }

    /// Returns the messages of events with this reason.
    fn told(&self, reason: &str) -> Vec<String> {
        let events = self.api.events();
        let matching = events.iter().filter(|event| event["reason"] == reason);
        matching
            .map(|event| event["message"].as_str().unwrap().to_owned())
            .collect()
    }

    fn why_not(&self) -> Vec<String> {
        self.told("ServingCertificateNotApproved")
    }
}

fn instance(name: &str, address: &str) -> Instance {
    Instance {
        provider_id: Some(format!("fake://{name}")),
        addresses: vec![NodeAddress {
            kind: AddressKind::InternalIp,
            address: address.to_owned(),
        }],
        ..Instance::default()
    }
}

async fn wait(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

// Holds: SEC-64
#[tokio::test(start_paused = true)]
async fn a_request_that_the_cloud_confirms_is_approved_once() {
    let bench = bench();
    bench.has("n1", &json!({}));
    bench.says("n1", Ok(instance("n1", "10.0.0.1")));
    bench.asks(&request("csr-1", "n1", [10, 0, 0, 1]));
    wait(60).await;

    let [approval]: [Value; 1] = bench.approvals().try_into().unwrap();
    assert_eq!(
        approval["metadata"],
        json!({"uid": "uid-csr-1", "resourceVersion": "7"})
    );
    let condition = &approval["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("Approved"), &json!("True"))
    );
    assert_eq!(bench.cloud.calls(), ["describe n1"]);
    assert_eq!(bench.told("ServingCertificateApproved").len(), 1);
    assert_eq!(bench.controller.metrics.approved.get(), 1);

    let approved = json!({"metadata": {"resourceVersion": "8"}, "status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    bench.asks(&with(&request("csr-1", "n1", [10, 0, 0, 1]), &approved));
    bench.controller.recheck();
    wait(600).await;
    assert_eq!(bench.approvals().len(), 1);
    assert_eq!(bench.controller.metrics.pending.get(), 0);
}

// Holds: SEC-64
#[tokio::test(start_paused = true)]
async fn a_request_with_another_address_waits_until_it_is_confirmed() {
    let bench = bench();
    bench.has(
        "n1",
        &json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.9"}]}}),
    );
    bench.says("n1", Ok(instance("n1", "10.0.0.1")));
    bench.asks(&request("csr-1", "n1", [10, 0, 0, 9]));
    wait(600).await;
    assert_eq!(bench.approvals().len(), 0);
    let [why]: [String; 1] = bench.why_not().try_into().unwrap();
    assert!(
        why.contains("csr-1") && why.ends_with(": 10.0.0.9"),
        "{why}"
    );
    assert_eq!(bench.controller.metrics.pending.get(), 1);

    bench.says("n1", Ok(instance("n1", "10.0.0.9")));
    wait(301).await;
    assert_eq!(bench.approvals().len(), 1);
}

// Holds: SEC-64
#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_initialized_waits_without_a_warning() {
    let bench = bench();
    let change =
        json!({"spec": {"taints": [{"key": TAINT_UNINITIALIZED, "effect": "NoSchedule"}]}});
    bench.asks(&request("csr-1", "n1", [10, 0, 0, 1]));
    wait(60).await;
    bench.has("n1", &change);
    bench.says("n1", Ok(instance("n1", "10.0.0.1")));
    wait(60).await;
    assert_eq!(bench.cloud.calls(), Vec::<String>::new());
    assert_eq!(bench.why_not(), Vec::<String>::new());

    bench.has("n1", &json!({"metadata": {"resourceVersion": "2"}}));
    wait(1).await;
    assert_eq!(bench.approvals().len(), 1, "at once");
}

// Holds: SEC-64
#[tokio::test(start_paused = true)]
async fn a_borrowed_provider_id_does_not_help() {
    let bench = bench();
    bench.has("n2", &json!({}));
    bench.has("n1", &json!({"spec": {"providerID": "fake://n2"}}));
    bench.says("n1", Ok(instance("n1", "10.0.0.1")));
    bench.says("n2", Ok(instance("n2", "10.0.0.2")));
    bench.asks(&request("csr-1", "n1", [10, 0, 0, 2]));
    bench.asks(&request("csr-2", "n1", [10, 0, 0, 1]));
    wait(600).await;
    assert_eq!(bench.approvals().len(), 0);
    assert_eq!(bench.why_not().len(), 2);

    bench.controller.context.nodes.delete("n2");
    wait(600).await;
    assert_eq!(
        bench.approvals().len(),
        0,
        "the cloud says another provider ID"
    );
}

// Holds: SEC-64
#[tokio::test(start_paused = true)]
async fn an_answer_about_a_recreated_node_approves_nothing() {
    let bench = bench();
    *bench.cloud.look_up.lock().unwrap() = Duration::from_secs(10);
    bench.has("n1", &json!({}));
    bench.says("n1", Ok(instance("n1", "10.0.0.1")));
    bench.asks(&request("csr-1", "n1", [10, 0, 0, 1]));
    wait(5).await;
    bench.controller.context.nodes.delete("n1");
    wait(60).await;
    assert_eq!(bench.approvals().len(), 0);

    bench.has("n1", &json!({"metadata": {"uid": "another"}}));
    wait(60).await;
    assert_eq!(bench.approvals().len(), 1, "it is asked about again");
}

#[tokio::test(start_paused = true)]
async fn a_flaw_is_told_once_and_never_asked_about() {
    let bench = bench();
    bench.has("n1", &json!({}));
    let forged = json!({"spec": {"usages": ["digital signature", "server auth", "client auth"]}});
    bench.asks(&with(&request("csr-1", "n1", [10, 0, 0, 1]), &forged));
    bench.asks(&with(
        &request("csr-2", "n1", [10, 0, 0, 1]),
        &json!({"spec": {"username": "admin"}}),
    ));
    wait(60).await;
    bench.controller.recheck();
    wait(600).await;
    let [why]: [String; 1] = bench.why_not().try_into().unwrap();
    assert!(why.contains("csr-1 is not approved: its usages"), "{why}");
    assert_eq!(bench.cloud.calls(), Vec::<String>::new());
    assert_eq!(bench.approvals().len(), 0);
}

// Holds: SEC-64
#[tokio::test(start_paused = true)]
async fn an_error_of_the_cloud_approves_nothing() {
    for error in every_error() {
        let bench = bench();
        bench.has("n1", &json!({}));
        bench.says("n1", Err(error.clone()));
        bench.asks(&request("csr-1", "n1", [10, 0, 0, 1]));
        wait(600).await;
        assert_eq!(bench.approvals().len(), 0, "{error}");
        assert_eq!(
            bench.why_not().len(),
            usize::from(retry::warns(&error)),
            "{error}"
        );

        bench.says("n1", Ok(instance("n1", "10.0.0.1")));
        bench.controller.recheck();
        wait(1).await;
        assert_eq!(bench.approvals().len(), 1, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_cloud_is_retried() {
    let bench = bench();
    bench.has("n1", &json!({}));
    bench.says("n1", Err(CloudError::Unavailable("down".into())));
    bench.asks(&request("csr-1", "n1", [10, 0, 0, 1]));
    wait(1).await;
    bench.says("n1", Ok(instance("n1", "10.0.0.1")));
    wait(3).await;
    assert_eq!(bench.approvals().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_changed_meanwhile_is_checked_again() {
    let bench = bench();
    bench.api.fail("PATCH", APPROVAL, 409, "Conflict");
    bench.has("n1", &json!({}));
    bench.says("n1", Ok(instance("n1", "10.0.0.1")));
    bench.asks(&request("csr-1", "n1", [10, 0, 0, 1]));
    wait(60).await;
    assert_eq!(bench.approvals().len(), 2, "one was not accepted");
    assert_eq!(bench.cloud.calls(), ["describe n1", "describe n1"]);
    assert_eq!(bench.controller.metrics.approved.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn many_nodes_are_asked_about_together() {
    let bench = bench();
    *bench.cloud.max_batch.lock().unwrap() = 100;
    for number in 1..=20 {
        let name = format!("n{number}");
        bench.has(&name, &json!({}));
        bench.says(&name, Ok(instance(&name, &format!("10.0.0.{number}"))));
        bench.asks(&request(
            &format!("csr-{number}"),
            &name,
            [10, 0, 0, number],
        ));
    }
    wait(60).await;
    assert_eq!(bench.approvals().len(), 20);
    assert!(bench.cloud.calls().len() <= 2, "{:?}", bench.cloud.calls());
}

/// A kubelet can change its Node all the time, and calls of an account are limited.
// Holds: SEC-64
#[tokio::test(start_paused = true)]
async fn a_node_that_changes_all_the_time_is_asked_about_seldom() {
    let bench = bench();
    bench.has("n1", &json!({}));
    bench.says("n1", Ok(instance("n1", "10.0.0.1")));
    bench.asks(&request("csr-1", "n1", [10, 0, 0, 9]));
    for version in 2..302 {
        let version = version.to_string();
        let change =
            json!({"metadata": {"resourceVersion": version, "annotations": {"a": version}}});
        bench.has("n1", &change);
        sleep(Duration::from_millis(100)).await;
    }
    let calls = bench.cloud.calls().len();
    assert!((2..=16).contains(&calls), "{calls} in 30 s");
}

// Holds: SEC-64
#[tokio::test(start_paused = true)]
async fn only_the_newest_requests_of_a_node_are_approved() {
    let bench = bench();
    bench.has("n1", &json!({}));
    bench.says("n1", Ok(instance("n1", "10.0.0.1")));
    for number in 10..25 {
        let created =
            json!({"metadata": {"creationTimestamp": format!("2026-01-01T00:00:{number}Z")}});
        let request = request(&format!("csr-{number}"), "n1", [10, 0, 0, 1]);
        bench.asks(&with(&request, &created));
    }
    wait(60).await;

    let newest: Vec<String> = (15..25)
        .rev()
        .map(|number| format!("uid-csr-{number}"))
        .collect();
    assert_eq!(bench.approved(), newest);
    assert_eq!(bench.controller.metrics.pending.get(), 15);
}

// Holds: SEC-64
#[tokio::test(start_paused = true)]
async fn nothing_is_approved_after_the_shutdown() {
    let bench = bench();
    bench.has("n1", &json!({}));
    bench.says("n1", Ok(instance("n1", "10.0.0.1")));
    for number in 1..=5 {
        bench.asks(&request(&format!("csr-{number}"), "n1", [10, 0, 0, 1]));
    }
    let stop = bench.stop.clone();
    bench.api.on_patch(move |_, _| stop.cancel());
    wait(60).await;
    assert_eq!(bench.approved().len(), 1);
}

/// It may be of the previous machine with this name.
// Holds: SEC-64
#[tokio::test(start_paused = true)]
async fn a_request_that_is_older_than_its_node_is_not_approved() {
    let created = |second: u32| json!({"metadata": {"creationTimestamp": format!("2026-01-01T00:00:{second}Z")}});
    let bench = bench();
    bench.has("n1", &created(59));
    bench.says("n1", Ok(instance("n1", "10.0.0.1")));
    let old = request("csr-1", "n1", [10, 0, 0, 1]);
    bench.asks(&with(&old, &created(48)));
    wait(600).await;
    assert_eq!(bench.cloud.calls(), Vec::<String>::new());
    let [why]: [String; 1] = bench.why_not().try_into().unwrap();
    assert!(why.contains("it is older than the node"), "{why}");

    // The clocks of API servers may differ.
    let new = request("csr-2", "n1", [10, 0, 0, 1]);
    bench.asks(&with(&new, &created(49)));
    wait(600).await;
    assert_eq!(bench.approved(), ["uid-csr-2"]);
}

// Holds: SEC-64
#[tokio::test(start_paused = true)]
async fn the_cloud_is_asked_again_for_a_request_that_is_younger_than_the_question() {
    let bench = bench();
    *bench.cloud.look_up.lock().unwrap() = Duration::from_secs(10);
    bench.has("n1", &json!({}));
    bench.says("n1", Ok(instance("n1", "10.0.0.1")));
    bench.asks(&request("csr-1", "n1", [10, 0, 0, 1]));
    wait(6).await;
    bench.asks(&request("csr-2", "n1", [10, 0, 0, 1]));
    wait(5).await;
    assert_eq!(bench.approved(), ["uid-csr-1"]);

    wait(60).await;
    assert_eq!(bench.cloud.calls(), ["describe n1", "describe n1"]);
    assert!(bench.approved().contains(&"uid-csr-2".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn only_requests_for_serving_certificates_of_kubelets_are_listed() {
    let bench = bench();
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let empty = json!({
        "kind": "CertificateSigningRequestList", "apiVersion": "certificates.k8s.io/v1",
        "metadata": {"resourceVersion": "5"}, "items": [],
    });
    bench.api.answer("GET", path, 200, empty);
    wait(1).await;

    let requests = bench.api.requests();
    let queries: Vec<&str> = requests
        .iter()
        .filter(|it| it.path == path)
        .map(|it| it.query.as_str())
        .collect();
    assert_eq!(queries.len(), 2, "a list and a watch: {queries:?}");
    for query in queries {
        let selector = "fieldSelector=spec.signerName%3Dkubernetes.io%2Fkubelet-serving";
        assert!(query.contains(selector), "{query}");
    }
}

/// Their addresses and names are not those of nodes.
// Holds: SEC-64
#[test]
fn the_controller_waits_for_the_services() {
    assert!(CONTROLLER.needs_services == NeedsServices::IfAllowed);
}
