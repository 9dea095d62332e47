//! A dry run against a real API server with all kinds of work to do: nothing is written, and
//! nothing changes.
//!
//! Only etcd and the API server run, so that all changes are those of the host. The API server's
//! audit log shows the requests of the host.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests, which clippy does not know for such"
)]

use std::{collections::BTreeMap, ffi::OsString, fmt::Debug, fs, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use skydock_clusters::{Plane, RealPlane};
use skydock_support::{
    Host, Paths, Seen, eventually,
    kubernetes::{FINALIZER, SHUTDOWN, UNINITIALIZED},
};

const LIMIT: Duration = Duration::from_secs(60);
/// The time after everything was logged: the absence of a node is logged again each second, and
/// pending work is retried.
const MORE: Duration = Duration::from_secs(15);
const PRESENCE: &str = "hostile.example/presence";
/// The account of the dry run. It has all permissions, so that no write fails because of a missing
/// one.
const ACCOUNT: &str = "rehearsal";

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_writes_nothing() {
    let plane = RealPlane::start_without_controllers()
        .await
        .expect("the plane starts");
    let client = plane.client();
    make_work(&client).await.expect("nodes and services");
    let before = versions(&client).await.expect("versions");

    let paths = Paths::of_checkout().expect("all is built");
    let dir = tempfile::Builder::new()
        .prefix("skydock-dry-run-")
        .tempdir()
        .expect("a folder");
    let kubeconfig = dir.path().join("kubeconfig");
    fs::write(&kubeconfig, account(&plane).await.expect("an account")).expect("a file");
    let args: Vec<OsString> = vec![
        "--dry-run".into(),
        "--cloud-provider=hostile".into(),
        format!(
            "--plugin=hostile={}",
            paths.plugins.join("hostile/good.wasm").display()
        )
        .into(),
        format!("--kubeconfig={}", kubeconfig.display()).into(),
        format!(
            "--plugin-cache-dir={}",
            dir.path().join("compiled").display()
        )
        .into(),
        "--cluster-cidr=10.244.0.0/16".into(),
        "--allocate-node-cidrs".into(),
        "--controllers=*,node-ipam-controller".into(),
        "--node-monitor-period=1s".into(),
        "--out-of-service-taint".into(),
    ];
    let mut host = Host::start(&paths.skydock, dir.path(), "dry-run", &args)
        .await
        .expect("the host starts");
    let log = dir.path().join("dry-run.log");
    let said = eventually(LIMIT, || async {
        let log = fs::read_to_string(&log)?;
        let missing: Vec<_> = WORK
            .into_iter()
            .filter(|work| !log.contains(&format!("dry run: would {work}")))
            .collect();
        Ok(Seen::when(
            missing.is_empty(),
            format!("it did not say {missing:?}"),
        ))
    });
    said.await
        .unwrap_or_else(|error| panic!("{error:?}\n{}", host.last_words()));
    tokio::time::sleep(MORE).await;
    host.terminate().expect("it is told to end");
    assert_eq!(
        host.ended(LIMIT).await.expect("it ends"),
        Some(0),
        "{}",
        host.last_words()
    );

    let log = fs::read_to_string(&log).expect("the log");
    let mut said: Vec<_> = log
        .lines()
        .filter_map(|line| Some(line.split_once("dry run: would ")?.1))
        .collect();
    let all = said.len();
    said.sort_unstable();
    said.dedup();
    assert_eq!(said.len(), all, "something was said twice:\n{log}");
    assert_eq!(
        versions(&client).await.expect("versions"),
        before,
        "something has moved"
    );
    let tried = writes(&plane).expect("the audit log");
    assert!(
        tried
            .iter()
            .any(|write| write.contains("patch nodes/status")),
        "{tried:?}"
    );
    assert!(
        tried.iter().any(|write| write.contains("patch services")),
        "{tried:?}"
    );
    assert!(
        tried.iter().all(|write| write.starts_with("dry")),
        "{tried:?}"
    );
}

/// Requests of the client of a dry run are harmless, whichever code sends them.
#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_a_dry_run_deletes_nothing() {
    let plane = RealPlane::start_without_controllers()
        .await
        .expect("the plane starts");
    let nodes: Api<Node> = Api::all(plane.client());
    let created = nodes
        .create(&PostParams::default(), &node("n1", &json!({})))
        .await
        .expect("a node");
    let dry: Api<Node> = Api::all(skydock_kube::dry_run::client(
        &plane.client(),
        &Arc::default(),
    ));
    let preconditions = Preconditions {
        uid: created.uid(),
        resource_version: None,
    };
    for params in [
        DeleteParams::default(),
        DeleteParams::default().preconditions(preconditions),
    ] {
        dry.delete("n1", &params)
            .await
            .expect("the API server tries it");
    }
    let labels = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    let tried = dry
        .patch("n1", &PatchParams::default(), &labels)
        .await
        .expect("the API server tries it");
    assert_eq!(
        tried.labels().get("a").map(String::as_str),
        Some("b"),
        "the answer is as if it were meant"
    );
    let other = Preconditions {
        uid: Some("other".into()),
        resource_version: None,
    };
    let rejected = dry
        .delete("n1", &DeleteParams::default().preconditions(other))
        .await;
    assert!(
        matches!(&rejected, Err(kube::Error::Api(status)) if status.is_conflict()),
        "{rejected:?}"
    );
    assert_eq!(
        nodes
            .get("n1")
            .await
            .expect("it is there")
            .resource_version(),
        created.resource_version()
    );
}

/// The logged work.
const WORK: [&str; 10] = [
    "delete nodes/vanished",
    "patch nodes/stopped: ",
    "patch nodes/back: ",
    "patch nodes/appeared/status: ",
    "patch nodes/appeared: ",
    "patch nodes/moved/status: ",
    "ensure the load balancer of Service default/made ",
    "delete the load balancer of Service default/deleted",
    "create a route to 10.244.7.0/24 via node routed",
    "publish event Normal DeletingNode on Node vanished: ",
];

async fn make_work(client: &Client) -> Result<()> {
    // The API server creates one Service by itself, some time after it is ready.
    let its_own: Api<Service> = Api::default_namespaced(client.clone());
    eventually(LIMIT, || async {
        let made = its_own.get_opt("kubernetes").await?.is_some();
        Ok(Seen::when(made, "no Service kubernetes".to_owned()))
    })
    .await?;
    let nodes: Api<Node> = Api::all(client.clone());
    let owned = |name: &str, more: Value| {
        let mut fields = json!({ "spec": { "providerID": format!("hostile://{name}") } });
        merge(&mut fields, more);
        node(name, &fields)
    };
    let presence = |value: &str| json!({ "metadata": { "annotations": { PRESENCE: value } } });
    let taint =
        |key: &str| json!({ "spec": { "taints": [{ "key": key, "effect": "NoSchedule" }] } });
    for (node, ready) in [
        (owned("vanished", presence("absent")), false),
        (owned("stopped", presence("stopped")), false),
        (owned("back", taint(SHUTDOWN)), true),
        (node("appeared", &taint(UNINITIALIZED)), false),
        (owned("moved", json!({})), true),
        (
            owned(
                "routed",
                json!({ "spec": { "podCIDR": "10.244.7.0/24", "podCIDRs": ["10.244.7.0/24"] } }),
            ),
            true,
        ),
    ] {
        let name = node.name_any();
        nodes
            .create(&PostParams::default(), &node)
            .await
            .with_context(|| format!("create {name}"))?;
        let condition =
            json!({ "type": "Ready", "status": if ready { "True" } else { "Unknown" } });
        let address = json!({ "type": "InternalIP", "address": "192.0.2.7" });
        let status = json!({ "status": { "conditions": [condition], "addresses": [address] } });
        nodes
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
    }
    let services: Api<Service> = Api::default_namespaced(client.clone());
    for (name, finalizers) in [
        ("made", json!([])),
        ("deleted", json!([FINALIZER])),
        ("plain", json!([])),
    ] {
        let kind = if name == "plain" {
            "ClusterIP"
        } else {
            "LoadBalancer"
        };
        let service: Service = serde_json::from_value(json!({
            "metadata": { "name": name, "finalizers": finalizers },
            "spec": { "type": kind, "ports": [{ "port": 80 }] },
        }))?;
        services
            .create(&PostParams::default(), &service)
            .await
            .with_context(|| format!("create {name}"))?;
    }
    let ingress = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.9" }] } } });
    services
        .patch_status("deleted", &PatchParams::default(), &Patch::Merge(ingress))
        .await?;
    services.delete("deleted", &DeleteParams::default()).await?;
    Ok(())
}

fn node(name: &str, fields: &Value) -> Node {
    let mut node = json!({ "metadata": { "name": name } });
    merge(&mut node, fields.clone());
    serde_json::from_value(node).expect("a node")
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// Returns a kubeconfig of an account with all permissions, whose requests are in the audit log.
async fn account(plane: &RealPlane) -> Result<String> {
    plane.kubectl(&["create", "namespace", ACCOUNT]).await?;
    plane
        .kubectl(&["create", "serviceaccount", ACCOUNT, "--namespace", ACCOUNT])
        .await?;
    let subject = format!("--serviceaccount={ACCOUNT}:{ACCOUNT}");
    plane
        .kubectl(&[
            "create",
            "clusterrolebinding",
            ACCOUNT,
            "--clusterrole=cluster-admin",
            &subject,
        ])
        .await?;
    let token = plane
        .kubectl(&["create", "token", ACCOUNT, "--namespace", ACCOUNT])
        .await?;
    let minified = plane
        .kubectl(&["config", "view", "--minify", "--raw", "--output=json"])
        .await?;
    let mut config: Value = serde_json::from_str(&minified)?;
    let user = config.pointer_mut("/users/0/user").context("no user")?;
    *user = json!({ "token": token.trim() });
    Ok(config.to_string())
}

/// Returns the versions of all nodes, services and events, and of the leases of cloud controllers.
async fn versions(client: &Client) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    add::<Node>(client, "node", &mut all).await?;
    add::<Service>(client, "service", &mut all).await?;
    add::<k8s_openapi::api::core::v1::Event>(client, "event", &mut all).await?;
    let leases = Api::<k8s_openapi::api::coordination::v1::Lease>::all(client.clone());
    for lease in leases
        .list(&ListParams::default())
        .await?
        .into_iter()
        .filter(|lease| lease.name_any().contains("cloud"))
    {
        all.insert(
            format!("lease {}", lease.name_any()),
            lease.resource_version().unwrap_or_default(),
        );
    }
    Ok(all)
}

async fn add<K>(client: &Client, kind: &str, to: &mut BTreeMap<String, String>) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    for object in Api::<K>::all(client.clone())
        .list(&ListParams::default())
        .await?
    {
        let name = format!(
            "{kind} {}/{}",
            object.namespace().unwrap_or_default(),
            object.name_any()
        );
        to.insert(name, object.resource_version().unwrap_or_default());
    }
    Ok(())
}

/// Returns the writes of the account: `dry` or `WET`, the verb and the resource, and the path.
fn writes(plane: &RealPlane) -> Result<Vec<String>> {
    let log = fs::read_to_string(plane.audit_log())?;
    let mut writes = Vec::new();
    for line in log.lines() {
        let event: Value = serde_json::from_str(line)?;
        let text = |pointer| {
            event
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let verb = text("/verb");
        ensure!(
            text("/user/username").ends_with(ACCOUNT),
            "somebody else is in the log: {line}"
        );
        if ["get", "list", "watch"].contains(&verb) {
            continue;
        }
        let uri = text("/requestURI");
        // As in the API server, the query of a deletion with a body is ignored.
        let dry = match event.pointer("/requestObject") {
            Some(options) if verb.starts_with("delete") => options["dryRun"] == json!(["All"]),
            _ => uri.contains("dryRun=All"),
        };
        let resource = [text("/objectRef/resource"), text("/objectRef/subresource")].join("/");
        writes.push(format!(
            "{} {verb} {} {uri}",
            if dry { "dry" } else { "WET" },
            resource.trim_end_matches('/')
        ));
    }
    Ok(writes)
}
