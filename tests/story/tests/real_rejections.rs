//! Unusual objects and restrictive policies of other users, with a real API server: objects that
//! are hard to parse, and policies that deny the writes of the host.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{ffi::OsString, fs, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
        core::v1::{Event, Node, Service},
    },
    serde::de::DeserializeOwned,
};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};
use skydock_clusters::{Plane, RealPlane};
use skydock_support::{Host, Paths, Seen, eventually, kubernetes::UNINITIALIZED};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);
const INVENTORY: &str = "apiVersion: static.skydock.dev/v1alpha1
kind: Inventory
machines:
  - name: good
  - name: bad
addressPools:
  - name: public
    addresses: [192.0.2.128/25]
";

#[tokio::test(flavor = "multi_thread")]
async fn an_unusual_object_does_not_hide_others() {
    let plane = RealPlane::start_without_controllers()
        .await
        .expect("the plane starts");
    let deep = (0..200).fold(json!({}), |inner, _| json!({ "f:a": inner }));
    for (name, time, fields) in [
        (
            "late",
            "9999-12-31T23:59:59Z",
            json!({ "f:spec": { "f:ports": {} } }),
        ),
        (
            "deep",
            "2026-01-01T00:00:00Z",
            json!({ "f:metadata": { "f:annotations": deep } }),
        ),
    ] {
        let managed = json!([{
            "manager": "m", "operation": "Apply", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields,
        }]);
        let service = json!({
            "metadata": { "name": name, "managedFields": managed }, "spec": { "type": "ClusterIP", "ports": [{ "port": 80 }] },
        });
        post(
            &plane.client(),
            "/api/v1/namespaces/default/services",
            &service,
        )
        .await
        .expect("a service");
    }
    let nodes: Api<Node> = Api::all(plane.client());
    make(&nodes, "bad").await;
    let condition =
        json!({ "type": "Ready", "status": "True", "lastHeartbeatTime": "9999-12-31T23:59:59Z" });
    let status = json!({ "status": { "conditions": [condition] } }).to_string();
    let arguments = [
        "patch",
        "node",
        "bad",
        "--subresource=status",
        "--type=merge",
        "--patch",
        &status,
    ];
    plane.kubectl(&arguments).await.expect("a status");

    let (dir, host) = start(&plane).await;
    make(&nodes, "good").await;
    let services: Api<Service> = Api::default_namespaced(plane.client());
    services
        .create(&PostParams::default(), &of(&load_balancer("web")))
        .await
        .expect("a service");
    let served = eventually(LIMIT, || async {
        let waits = nodes
            .get("good")
            .await?
            .spec
            .and_then(|spec| spec.taints)
            .unwrap_or_default();
        let waits = waits.iter().any(|taint| taint.key == UNINITIALIZED);
        let ingress = services
            .get("web")
            .await?
            .status
            .and_then(|status| status.load_balancer?.ingress);
        Ok(if waits || ingress.is_none() {
            Seen::NotYet("neither".to_owned())
        } else {
            Seen::Yes(())
        })
    });
    served
        .await
        .unwrap_or_else(|error| panic!("{error:?}\n{}", host.last_words()));
    let log = fs::read_to_string(host.log()).expect("a log");
    assert!(
        !log.contains("cannot watch")
            && !log.contains("not up to date")
            && !log.contains("managedFields"),
        "{log}"
    );
    drop(dir);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admission_denial_is_reported_as_an_event() {
    let plane = RealPlane::start_without_controllers()
        .await
        .expect("the plane starts");
    let client = plane.client();
    forbid_writes(&client).await.expect("a policy");
    let (dir, host) = start(&plane).await;
    let nodes: Api<Node> = Api::all(client.clone());
    make(&nodes, "good").await;
    let services: Api<Service> = Api::default_namespaced(client.clone());
    services
        .create(&PostParams::default(), &of(&load_balancer("web")))
        .await
        .expect("a service");
    let events: Api<Event> = Api::default_namespaced(client);
    for (name, reason) in [
        ("good", "FailedToInitialize"),
        ("web", "SyncLoadBalancerFailed"),
    ] {
        let told = eventually(LIMIT, || async {
            let all = events.list(&ListParams::default()).await?.items;
            let of_it = all
                .iter()
                .filter(|event| event.involved_object.name.as_deref() == Some(name));
            let told = of_it.filter(|event| event.reason.as_deref() == Some(reason));
            let mut messages = told.filter_map(|event| event.message.clone());
            Ok(messages
                .next()
                .map_or_else(|| Seen::NotYet(format!("no event of {name}")), Seen::Yes))
        });
        let message = told
            .await
            .unwrap_or_else(|error| panic!("{error:?}\n{}", host.last_words()));
        assert!(
            message.contains("denied request: not on Sundays"),
            "{message}"
        );
    }
    drop(dir);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_overwrites_a_lease_with_unusual_times() {
    let plane = RealPlane::start_without_controllers()
        .await
        .expect("the plane starts");
    let (dir, host) = start(&plane).await;
    let nodes: Api<Node> = Api::all(plane.client());
    for (name, renewed) in [
        ("good", "9999-12-31T23:59:59.999999Z"),
        ("bad", "2026-01-01T00:00:00.000000Z"),
    ] {
        make(&nodes, name).await;
        let served = eventually(LIMIT, || async {
            let waits = nodes
                .get(name)
                .await?
                .spec
                .and_then(|spec| spec.taints)
                .unwrap_or_default();
            let waits = waits.iter().any(|taint| taint.key == UNINITIALIZED);
            Ok(if waits {
                Seen::NotYet("it waits".to_owned())
            } else {
                Seen::Yes(())
            })
        });
        served
            .await
            .unwrap_or_else(|error| panic!("{error:?}\n{}", host.last_words()));
        let lease = [
            "lease",
            "cloud-controller-manager",
            "--namespace=kube-system",
        ];
        let spec = json!({ "spec": { "renewTime": renewed } }).to_string();
        plane
            .kubectl(&[&["patch"], &lease[..], &["--type=merge", "--patch", &spec]].concat())
            .await
            .expect("a lease");
        let renewed_again = eventually(LIMIT, || async {
            let time = plane
                .kubectl(
                    &[
                        &["get"],
                        &lease[..],
                        &["--output=jsonpath={.spec.renewTime}"],
                    ]
                    .concat(),
                )
                .await?;
            Ok(if time == renewed {
                Seen::NotYet(time)
            } else {
                Seen::Yes(())
            })
        });
        renewed_again
            .await
            .unwrap_or_else(|error| panic!("{error:?}\n{}", host.last_words()));
    }
    let log = fs::read_to_string(host.log()).expect("a log");
    assert!(!log.contains("leadership lost"), "{log}");
    drop(dir);
}

async fn start(plane: &RealPlane) -> (TempDir, Host) {
    let paths = Paths::of_checkout().expect("all is built");
    let dir = tempfile::Builder::new()
        .prefix("skydock-rejections-")
        .tempdir()
        .expect("a folder");
    let inventory = dir.path().join("inventory.yaml");
    fs::write(&inventory, INVENTORY).expect("a file");
    let args: Vec<OsString> = vec![
        "--cloud-provider=static".into(),
        format!(
            "--plugin=static={}",
            paths.plugins.join("static.wasm").display()
        )
        .into(),
        format!("--cloud-config={}", inventory.display()).into(),
        format!("--kubeconfig={}", plane.kubeconfig_path().display()).into(),
        format!(
            "--plugin-cache-dir={}",
            dir.path().join("compiled").display()
        )
        .into(),
    ];
    let host = Host::start(&paths.skydock, dir.path(), "host", &args)
        .await
        .expect("the host starts");
    (dir, host)
}

async fn make(nodes: &Api<Node>, name: &str) {
    let taint = json!({ "key": UNINITIALIZED, "effect": "NoSchedule" });
    let node = json!({ "metadata": { "name": name }, "spec": { "taints": [taint] } });
    nodes
        .create(&PostParams::default(), &of(&node))
        .await
        .expect("a node");
}

fn load_balancer(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] } })
}

/// Creates a policy that denies changes of nodes and services, without a reason of its own in the
/// answer.
async fn forbid_writes(client: &Client) -> Result<()> {
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["*"], "operations": ["UPDATE"],
        "resources": ["nodes", "nodes/status", "services", "services/status"],
    });
    let policy = json!({
        "metadata": { "name": "closed" },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [rule] },
            "validations": [{ "expression": "false", "message": "not on Sundays" }],
        },
    });
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    policies
        .create(&PostParams::default(), &of(&policy))
        .await?;
    let binding = json!({
        "metadata": { "name": "closed" }, "spec": { "policyName": "closed", "validationActions": ["Deny"] },
    });
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    bindings
        .create(&PostParams::default(), &of(&binding))
        .await?;
    // It takes a moment until the API server enforces the policy.
    let nodes: Api<Node> = Api::all(client.clone());
    make(&nodes, "bad").await;
    eventually(LIMIT, || async {
        let mut node = nodes.get("bad").await?;
        let version = node.metadata.resource_version.clone().unwrap_or_default();
        node.metadata
            .labels
            .get_or_insert_default()
            .insert("version".to_owned(), version);
        Ok(
            match nodes.replace("bad", &PostParams::default(), &node).await {
                Ok(_) => Seen::NotYet("it is not in force".to_owned()),
                Err(_) => Seen::Yes(()),
            },
        )
    })
    .await
}

fn of<T: DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).expect("an object")
}

/// Sends an object unchanged, even if this program could not parse it.
async fn post(client: &Client, path: &str, object: &Value) -> Result<()> {
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes());
    client
        .request_text(request?)
        .await
        .map(drop)
        .context("create")
}
