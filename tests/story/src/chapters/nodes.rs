//! Nodes register and are initialized.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, ensure};
use futures::TryStreamExt;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Node, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use skydock_support::{Seen, eventually, kubernetes::UNINITIALIZED};
use tokio::{sync::mpsc, task::JoinHandle};

use crate::{
    inventory::{INSTANCE_TYPE, REGION, ZONE},
    narrator::Narrator,
    stage::Stage,
};

pub(crate) const NAMES: [&str; 3] = ["node-1", "node-2", "node-3"];
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn tell(stage: &mut Stage, narrator: &mut Narrator) -> anyhow::Result<()> {
    narrator.chapter("Nodes register and are initialized by the plugin");
    for name in NAMES {
        let provider_id = stage
            .node_spec(name)
            .provider_id
            .unwrap_or_else(|| format!("static://{name}"));
        stage.inventory.add(name, provider_id);
    }
    stage.inventory.write()?;
    let history = History::start(stage);

    narrator
        .step("three nodes register with the uninitialized taint", async {
            for name in NAMES {
                stage.plane.start_node(&stage.node_spec(name)).await?;
            }
            for name in NAMES {
                node(stage, name, |node| {
                    has_taint(node, UNINITIALIZED).then_some(())
                })
                .await?;
            }
            Ok(format!("taint {UNINITIALIZED} on {}", NAMES.join(", ")))
        })
        .await?;
    if stage.plane.runs_pods() {
        narrator
            .step(
                "Pods of a Deployment stay Pending until then",
                pods_pending(stage),
            )
            .await?;
    }
    narrator
        .step(
            "two hosts start with the plugin `static`: one is the leader, one is on standby",
            async {
                stage.start_host("host-1").await?;
                let leader = stage.leader().await?;
                stage.start_host("host-2").await?;
                Ok(format!(
                    "{} leads",
                    stage.hosts.get(leader).context("a host leads")?.name()
                ))
            },
        )
        .await?;
    for name in NAMES {
        narrator
            .step(
                &format!("{name} gets provider ID, addresses and labels"),
                initialized(stage, name),
            )
            .await?;
    }
    narrator
        .step(
            "no taint was removed before all of that was written",
            async {
                let versions: Vec<_> = history
                    .end()
                    .into_iter()
                    .filter(|node| NAMES.contains(&node.name_any().as_str()))
                    .collect();
                let mut untainted = 0;
                for node in &versions {
                    if !has_taint(node, UNINITIALIZED) {
                        told(stage, node).context("a version of a node without the taint")?;
                        untainted += 1;
                    }
                }
                ensure!(
                    untainted >= NAMES.len(),
                    "only {untainted} versions without the taint were watched"
                );
                Ok(format!(
                    "{} versions watched, {untainted} without the taint, all complete",
                    versions.len()
                ))
            },
        )
        .await?;
    narrator
        .step("each node has upstream's event", async {
            for name in NAMES {
                stage
                    .event(name, "Synced: Node synced successfully")
                    .await?;
            }
            Ok("Normal Synced: Node synced successfully")
        })
        .await?;
    if stage.plane.runs_pods() {
        narrator.step("and the Pods run", pods_run(stage)).await?;
    }
    Ok(())
}

pub(crate) fn has_taint(node: &Node, key: &str) -> bool {
    node.spec
        .iter()
        .filter_map(|spec| spec.taints.as_ref())
        .flatten()
        .any(|taint| taint.key == key)
}

/// Waits until a node has the expected state.
pub(crate) async fn node<T>(
    stage: &Stage,
    name: &str,
    wanted: impl Fn(&Node) -> Option<T>,
) -> anyhow::Result<T> {
    let nodes = stage.nodes();
    eventually(LIMIT, || async {
        Ok(match nodes.get_opt(name).await? {
            None => Seen::NotYet(format!("no node {name}")),
            Some(node) => match wanted(&node) {
                Some(value) => Seen::Yes(value),
                None => Seen::NotYet(format!(
                    "spec {:?}, labels {:?}",
                    node.spec, node.metadata.labels
                )),
            },
        })
    })
    .await
    .with_context(|| format!("node {name}"))
}

async fn initialized(stage: &Stage, name: &str) -> anyhow::Result<String> {
    node(stage, name, |node| {
        (!has_taint(node, UNINITIALIZED)).then(|| told(stage, node))
    })
    .await?
}

/// Describes an initialized node. Fails if something is missing.
fn told(stage: &Stage, node: &Node) -> anyhow::Result<String> {
    let name = node.name_any();
    let provider_id = node
        .spec
        .as_ref()
        .and_then(|spec| spec.provider_id.clone())
        .unwrap_or_default();
    ensure!(
        provider_id.ends_with(&name),
        "{name} has the provider ID {provider_id:?}"
    );
    for (key, value) in [
        ("node.kubernetes.io/instance-type", INSTANCE_TYPE),
        ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
        ("topology.kubernetes.io/zone", ZONE),
        ("failure-domain.beta.kubernetes.io/zone", ZONE),
        ("topology.kubernetes.io/region", REGION),
        ("failure-domain.beta.kubernetes.io/region", REGION),
        ("example.com/rack", "17"),
    ] {
        ensure!(
            node.labels().get(key).is_some_and(|label| label == value),
            "{name} lacks the label {key}={value}"
        );
    }
    let addresses = node
        .status
        .as_ref()
        .and_then(|status| status.addresses.clone())
        .unwrap_or_default();
    let addresses: Vec<_> = addresses
        .into_iter()
        .map(|address| format!("{}={}", address.type_, address.address))
        .collect();
    let [internal, external] = stage
        .inventory
        .addresses(&name)
        .context("a machine of the inventory")?;
    for address in [
        format!("InternalIP={internal}"),
        format!("ExternalIP={external}"),
    ] {
        ensure!(
            addresses.contains(&address),
            "{name} has the addresses {addresses:?}, not {address}"
        );
    }
    ensure!(
        addresses
            .iter()
            .any(|address| address.starts_with("Hostname=")),
        "{name} lost its Hostname: {addresses:?}"
    );
    Ok(format!(
        "{provider_id}, {}, {INSTANCE_TYPE} in {ZONE}/{REGION}",
        addresses.join(" ")
    ))
}

/// All versions of the story's nodes in a watch.
struct History {
    task: JoinHandle<()>,
    versions: mpsc::UnboundedReceiver<Node>,
}

impl History {
    fn start(stage: &Stage) -> Self {
        let (sender, versions) = mpsc::unbounded_channel();
        let nodes = watcher(stage.nodes(), watcher::Config::default())
            .default_backoff()
            .applied_objects();
        let task = tokio::spawn(async move {
            let watched = nodes.try_for_each(|node| {
                // The receiver is dropped at the end of the story.
                let _ = sender.send(node);
                std::future::ready(Ok(()))
            });
            let _ = watched.await;
        });
        Self { task, versions }
    }

    fn end(mut self) -> Vec<Node> {
        self.task.abort();
        let mut versions = Vec::new();
        while let Ok(node) = self.versions.try_recv() {
            versions.push(node);
        }
        versions
    }
}

async fn pods_pending(stage: &Stage) -> anyhow::Result<String> {
    let deployment: Deployment = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": NAMES.len(),
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "registry.k8s.io/pause:3.10"}]},
            },
        },
    }))?;
    Api::namespaced(stage.client.clone(), "default")
        .create(&PostParams::default(), &deployment)
        .await?;
    pods_in_phase(stage, "Pending").await?;
    // The scheduler has had enough time and has rejected the Pods.
    eventually(LIMIT, || async {
        let unschedulable = web_pods(stage).await?.iter().all(|pod| {
            let conditions = pod
                .status
                .iter()
                .filter_map(|status| status.conditions.as_ref())
                .flatten();
            conditions
                .into_iter()
                .any(|condition| condition.reason.as_deref() == Some("Unschedulable"))
        });
        Ok(Seen::when(
            unschedulable,
            "the scheduler has not looked yet".to_owned(),
        ))
    })
    .await?;
    pods_in_phase(stage, "Pending").await
}

async fn pods_run(stage: &Stage) -> anyhow::Result<String> {
    pods_in_phase(stage, "Running").await
}

async fn web_pods(stage: &Stage) -> anyhow::Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), "default");
    Ok(pods
        .list(&ListParams::default().labels("app=web"))
        .await?
        .items)
}

async fn pods_in_phase(stage: &Stage, phase: &str) -> anyhow::Result<String> {
    eventually(LIMIT, || async {
        let mut phases = BTreeMap::<String, usize>::new();
        for pod in web_pods(stage).await? {
            let phase = pod
                .status
                .and_then(|status| status.phase)
                .unwrap_or_default();
            *phases.entry(phase).or_default() += 1;
        }
        Ok(
            if phases == BTreeMap::from([(phase.to_owned(), NAMES.len())]) {
                Seen::Yes(format!("{} Pods {phase}", NAMES.len()))
            } else {
                Seen::NotYet(format!("{phases:?}"))
            },
        )
    })
    .await
}
