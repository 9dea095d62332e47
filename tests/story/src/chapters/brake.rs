//! Most instances disappear at once, and no Node is deleted until an operator confirms it.

use std::time::Duration;

use anyhow::ensure;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Node;
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use skydock_support::{Seen, eventually, kubernetes::UNINITIALIZED};

use super::{
    machines::gone,
    nodes::{has_taint, node},
};
use crate::{narrator::Narrator, stage::Stage};

/// Together with the existing nodes, these are more than half of the cluster, and would still be
/// with one instance fewer.
const NAMES: [&str; 5] = ["worker-1", "worker-2", "worker-3", "worker-4", "worker-5"];
const ALLOWED: &str = "worker-1";
const ALLOW_DELETION: &str = "skydock.dev/allow-deletion";

pub(crate) async fn tell(stage: &mut Stage, narrator: &mut Narrator) -> anyhow::Result<()> {
    narrator.chapter("Most instances disappear at once, and no Node is deleted");
    narrator
        .step("five more nodes join", async {
            for name in NAMES {
                let provider_id = stage
                    .node_spec(name)
                    .provider_id
                    .unwrap_or_else(|| format!("static://{name}"));
                stage.inventory.add(name, provider_id);
            }
            stage.inventory.write()?;
            start(stage, &NAMES).await?;
            all(stage, &NAMES, |node| {
                is_ready(node) && !has_taint(node, UNINITIALIZED)
            })
            .await?;
            let nodes = stage
                .nodes()
                .list_metadata(&ListParams::default())
                .await?
                .items
                .len();
            ensure!(
                NAMES.len() - 1 > (nodes - 1) / 2,
                "{nodes} nodes: five are not enough to lose"
            );
            Ok(format!("{nodes} nodes"))
        })
        .await?;
    let whole = stage.inventory.clone();
    narrator
        .step("they stop responding and disappear from the inventory: every Node is kept, with an event", async {
            for name in NAMES {
                stage.plane.stop_node(name).await?;
            }
            all(stage, &NAMES, |node| !is_ready(node)).await?;
            for name in NAMES {
                stage.inventory.remove(name);
            }
            stage.inventory.write()?;
            for name in NAMES {
                let event = stage.event(name, "NodeDeletionStopped").await?;
                let command = format!("kubectl annotate node {name} {ALLOW_DELETION}=true");
                ensure!(event.contains(&command), "{event}");
            }
            held(stage, 5.0).await?;
            // The nodes still exist after some periods of the lifecycle controller.
            tokio::time::sleep(Duration::from_secs(3)).await;
            all(stage, &NAMES, |node| node.metadata.deletion_timestamp.is_none()).await?;
            stage.event(ALLOWED, "NodeDeletionStopped").await
        })
        .await?;
    let [_, others @ ..] = NAMES;
    narrator
        .step(
            "one is allowed by an annotation: it is deleted, and the others are kept",
            async {
                let allow =
                    Patch::Merge(json!({"metadata": {"annotations": {ALLOW_DELETION: "true"}}}));
                stage
                    .nodes()
                    .patch(ALLOWED, &PatchParams::default(), &allow)
                    .await?;
                gone(stage, ALLOWED).await?;
                held(stage, 4.0).await?;
                tokio::time::sleep(Duration::from_secs(3)).await;
                all(stage, &others, |node| {
                    node.metadata.deletion_timestamp.is_none()
                })
                .await?;
                stage.event(ALLOWED, "DeletingNode").await
            },
        )
        .await?;
    narrator
        .step(
            "the others come back: no deletion is held any more",
            async {
                let before = uids(stage, &others).await?;
                stage.inventory = whole;
                stage.inventory.write()?;
                start(stage, &others).await?;
                all(stage, &others, is_ready).await?;
                held(stage, 0.0).await?;
                ensure!(
                    uids(stage, &others).await? == before,
                    "a Node was recreated"
                );
                Ok(format!("{} are ready", others.join(", ")))
            },
        )
        .await
}

async fn start(stage: &Stage, names: &[&str]) -> anyhow::Result<()> {
    let specs: Vec<_> = names.iter().map(|name| stage.node_spec(name)).collect();
    try_join_all(specs.iter().map(|spec| stage.plane.start_node(spec))).await?;
    Ok(())
}

/// Waits until each of these nodes has the expected state. The nodes must exist.
async fn all(stage: &Stage, names: &[&str], wanted: impl Fn(&Node) -> bool) -> anyhow::Result<()> {
    for name in names {
        node(stage, name, |node| wanted(node).then_some(())).await?;
    }
    Ok(())
}

/// Waits until the metric has this number of held deletions.
async fn held(stage: &mut Stage, wanted: f64) -> anyhow::Result<()> {
    let host = stage.leading_host().await?;
    eventually(Duration::from_secs(30), || async {
        let held = host.scrape().await?.sum("skydock_node_deletions_held", &[]);
        Ok(Seen::when(held == wanted, format!("{held} held")))
    })
    .await
}

async fn uids(stage: &Stage, names: &[&str]) -> anyhow::Result<Vec<Option<String>>> {
    let nodes = stage.nodes();
    let nodes = try_join_all(names.iter().map(|name| nodes.get(name))).await?;
    Ok(nodes.iter().map(ResourceExt::uid).collect())
}

fn is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .iter()
        .filter_map(|status| status.conditions.as_ref())
        .flatten();
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
