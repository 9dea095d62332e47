//! The behavior of the real control plane, and of nodes that wait for a cloud controller.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use skydock_clusters::{Error, NodeSpec, Plane, RealPlane};
use skydock_kube::clients::{self, ClusterAccess, MANAGER};
use skydock_support::{Seen, eventually, kubernetes::UNINITIALIZED};

const PATIENCE: Duration = Duration::from_secs(60);

/// Repeats a check until it succeeds, and returns how long that took.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> Result<bool>) -> Result<Duration> {
    let began = Instant::now();
    eventually(PATIENCE, async || Ok(Seen::when(holds().await?, what))).await?;
    tracing::info!("{what}: after {:.1} s", began.elapsed().as_secs_f64());
    Ok(began.elapsed())
}

fn taints(node: &Node) -> Vec<&str> {
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default();
    taints.iter().map(|taint| taint.key.as_str()).collect()
}

fn ready(node: &Node) -> Option<&str> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")
        .map(|condition| condition.status.as_str())
}

async fn is_ready(nodes: &Api<Node>, name: &str) -> Result<bool> {
    Ok(ready(&nodes.get(name).await?) == Some("True"))
}

async fn plane() -> Result<RealPlane> {
    let _ = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_test_writer()
        .try_init();
    Ok(RealPlane::start().await?)
}

#[tokio::test]
async fn pods_wait_until_the_uninitialized_taint_is_gone() -> Result<()> {
    let plane = plane().await?;
    let nodes: Api<Node> = Api::all(plane.client());
    plane
        .start_node(&NodeSpec::new("node-1").with_label("pool", "blue"))
        .await?;

    let node = nodes.get("node-1").await?;
    ensure!(
        taints(&node).contains(&UNINITIALIZED),
        "registered without the taint: {:?}",
        node.spec
    );
    let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
    ensure!(
        provider_id == plane.provider_id_of("node-1"),
        "unexpected provider ID {provider_id:?}"
    );
    ensure!(
        provider_id.as_deref() == Some("kubemark://node-1"),
        "unexpected provider ID {provider_id:?}"
    );
    ensure!(
        node.labels().get("pool").map(String::as_str) == Some("blue"),
        "no label: {:?}",
        node.labels()
    );

    until("the node is Ready", async || {
        is_ready(&nodes, "node-1").await
    })
    .await?;
    until("the not-ready taint is gone", async || {
        Ok(taints(&nodes.get("node-1").await?) == [UNINITIALIZED])
    })
    .await?;

    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "registry.k8s.io/pause"}]},
            },
        },
    }))?;
    Api::<Deployment>::default_namespaced(plane.client())
        .create(&PostParams::default(), &deployment)
        .await?;
    let pods: Api<Pod> = Api::default_namespaced(plane.client());
    let the_pod = async || -> Result<Option<Pod>> {
        Ok(pods
            .list(&ListParams::default().labels("app=web"))
            .await?
            .items
            .into_iter()
            .next())
    };
    until("the scheduler finds no node for the Pod", async || {
        let conditions = the_pod()
            .await?
            .and_then(|pod| pod.status?.conditions)
            .unwrap_or_default();
        Ok(conditions.iter().any(|condition| {
            condition.reason.as_deref() == Some("Unschedulable")
                && condition
                    .message
                    .as_deref()
                    .is_some_and(|message| message.contains("untolerated taint"))
        }))
    })
    .await?;

    plane
        .kubectl(&["taint", "node", "node-1", &format!("{UNINITIALIZED}-")])
        .await?;
    until("the Pod runs", async || {
        let phase = the_pod().await?.and_then(|pod| pod.status?.phase);
        Ok(phase.as_deref() == Some("Running"))
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_node_is_not_ready_while_its_kubelet_is_killed() -> Result<()> {
    let plane = plane().await?;
    let nodes: Api<Node> = Api::all(plane.client());
    let spec = NodeSpec::new("node-1").without_provider_id();
    plane.start_node(&spec).await?;
    until("the node is Ready", async || {
        is_ready(&nodes, "node-1").await
    })
    .await?;
    let registered = nodes.get("node-1").await?;
    let provider_id = registered
        .spec
        .as_ref()
        .and_then(|spec| spec.provider_id.as_ref());
    ensure!(
        provider_id.is_none(),
        "a provider ID where none was asked for: {provider_id:?}"
    );

    plane.stop_node("node-1").await?;
    let took = until("the node is not Ready", async || {
        Ok(!is_ready(&nodes, "node-1").await?)
    })
    .await?;
    ensure!(
        took < Duration::from_secs(20),
        "a dead kubelet was noticed only after {took:?}"
    );
    ensure!(
        ready(&nodes.get("node-1").await?) == Some("Unknown"),
        "not Ready, but not Unknown either"
    );
    until("the node is tainted unreachable", async || {
        Ok(taints(&nodes.get("node-1").await?).contains(&"node.kubernetes.io/unreachable"))
    })
    .await?;

    plane.start_node(&spec).await?;
    until("the node is Ready again", async || {
        is_ready(&nodes, "node-1").await
    })
    .await?;
    ensure!(
        nodes.get("node-1").await?.uid() == registered.uid(),
        "the node was registered again"
    );
    Ok(())
}

#[tokio::test]
async fn planes_are_independent_of_each_other() -> Result<()> {
    let (one, other) = tokio::join!(plane(), plane());
    let (one, other) = (one?, other?);
    one.start_node(&"only-here".into()).await?;
    ensure!(one.kubectl(&["get", "nodes", "-o", "name"]).await?.trim() == "node/only-here");
    ensure!(
        other
            .kubectl(&["get", "nodes", "-o", "name"])
            .await?
            .trim()
            .is_empty()
    );
    Ok(())
}

#[tokio::test]
async fn mistakes_are_reported_as_errors() -> Result<()> {
    let plane = plane().await?;
    let unknown = plane.stop_node("nobody").await;
    ensure!(matches!(unknown, Err(Error::NoSuchNode(_))), "{unknown:?}");

    plane.start_node(&"node-1".into()).await?;
    let twice = plane.start_node(&"node-1".into()).await;
    ensure!(matches!(twice, Err(Error::NodeRuns(_))), "{twice:?}");

    let rejected = plane.kubectl(&["get", "node", "nobody"]).await;
    let message = rejected
        .err()
        .context("kubectl found a node that is not there")?
        .to_string();
    ensure!(message.contains("nodes \"nobody\" not found"), "{message}");

    let minor = std::env::var("SKYDOCK_KUBERNETES").unwrap_or_else(|_| "1.36".to_owned());
    let expected = format!("\"gitVersion\": \"v{minor}.");
    let version = plane.kubectl(&["version", "-o", "json"]).await?;
    ensure!(
        version.matches(&expected).count() == 2,
        "client or server is not {minor}: {version}"
    );
    Ok(())
}

/// Whether an annotation grants an object depends on who wrote it last, also by a patch of the
/// status.
#[tokio::test]
async fn the_api_server_notes_who_wrote_an_annotation() -> Result<()> {
    let plane = plane().await?;
    let services: Api<Service> = Api::namespaced(plane.client(), "default");
    let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    services
        .create(&PostParams::default(), &serde_json::from_value(service)?)
        .await?;
    let access = ClusterAccess {
        kubeconfig: Some(plane.kubeconfig_path().to_owned()),
        master: None,
    };
    let skydock = clients::named(&clients::load(&access).await?, "service-controller")?;
    let skydock: Api<Service> = Api::namespaced(skydock, "default");
    let set =
        |value: &str| Patch::Merge(json!({"metadata": {"annotations": {"a.example/tls": value}}}));
    let writers = async || -> Result<Vec<String>> {
        let list = ListParams::default().fields("metadata.name=web");
        let found = services.list_metadata(&list).await?.items.remove(0);
        let entries = found
            .metadata
            .managed_fields
            .unwrap_or_default()
            .into_iter();
        let writes = entries.filter(|entry| {
            let fields = entry.fields_v1.as_ref().map(|fields| fields.0.to_string());
            fields.is_some_and(|fields| fields.contains("f:a.example/tls"))
        });
        Ok(writes.filter_map(|entry| entry.manager).collect())
    };
    let params = PatchParams::default();
    skydock.patch_status("web", &params, &set("1")).await?;
    ensure!(writers().await? == [MANAGER], "{:?}", writers().await?);
    let people = PatchParams {
        field_manager: Some("people".to_owned()),
        ..PatchParams::default()
    };
    services.patch("web", &people, &set("2")).await?;
    ensure!(writers().await? == ["people"], "{:?}", writers().await?);
    skydock.patch_status("web", &params, &set("3")).await?;
    ensure!(writers().await? == [MANAGER], "{:?}", writers().await?);
    Ok(())
}
