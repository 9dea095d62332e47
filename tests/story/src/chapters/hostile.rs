//! A plugin that misbehaves affects only the call in which it does so.

use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use skydock_support::{Scrape, Seen, eventually, kubernetes::UNINITIALIZED};

use super::{
    nodes::{has_taint, node},
    services::{address, create},
};
use crate::{narrator::Narrator, stage::Stage};

const ANNOTATION: &str = "hostile.example/do";

pub(crate) async fn tell(stage: &mut Stage, narrator: &mut Narrator) -> anyhow::Result<()> {
    narrator.chapter("A plugin that misbehaves only fails its own call");
    narrator
        .step(
            "a host starts with a plugin that is controlled by annotations",
            async {
                stage.stop_hosts().await?;
                stage.start_hostile_host("host-hostile", &[]).await?;
                stage.leader().await?;
                Ok("")
            },
        )
        .await?;
    for (what, kind, told) in [
        ("loops forever", "loop", "cpu"),
        ("allocates forever", "allocate", "memory"),
        ("traps", "trap", "trap"),
        ("returns nonsense", "lie-address", "bad_answer"),
    ] {
        let step = format!("a plugin that {what}: an event, a metric, and all else goes on");
        narrator.step(&step, misbehaves(stage, kind, told)).await?;
    }
    Ok(())
}

async fn misbehaves(stage: &mut Stage, kind: &str, outcome: &str) -> anyhow::Result<String> {
    let bad = format!("bad-{kind}");
    let count = |scrape: Scrape| {
        scrape.sum(
            "skydock_plugin_calls_total",
            &[("function", "ensure"), ("outcome", outcome)],
        )
    };
    let before = count(stage.leading_host().await?.scrape().await?);
    create(stage, &bad, json!({ANNOTATION: kind})).await?;
    let event = stage.event(&bad, "SyncLoadBalancerFailed").await?;
    let at = stage.leader().await?;
    let host = stage.hosts.get(at).context("the leader")?;
    eventually(Duration::from_secs(10), || async {
        let now = count(host.scrape().await?);
        Ok(Seen::when(
            now > before,
            format!("outcome {outcome} counted {now} times"),
        ))
    })
    .await?;

    let good = format!("good-{kind}");
    create(stage, &good, json!({})).await?;
    address(stage, &good)
        .await
        .context("the same capability, another object")?;
    let other = format!("node-beside-{kind}");
    create_node(stage, &other).await?;
    node(stage, &other, |node| {
        (!has_taint(node, UNINITIALIZED)).then_some(())
    })
    .await
    .context("another capability")?;
    stage
        .nodes()
        .delete(&other, &DeleteParams::default())
        .await?;

    let host = stage.leading_host().await?;
    ensure!(host.is_alive(), "the host has ended; {}", host.last_words());
    stage.delete_service(&good).await?;
    // Removes the annotation manually, because the finalizer cannot be removed while the plugin
    // misbehaves for this object.
    let free = json!({"metadata": {"annotations": {ANNOTATION: null}}});
    let params = kube::api::PatchParams::default();
    stage
        .services()
        .patch(&bad, &params, &kube::api::Patch::Merge(free))
        .await?;
    address(stage, &bad)
        .await
        .context("once it behaves, the object is served")?;
    stage.delete_service(&bad).await?;
    Ok(event)
}

/// Creates a Node as a kubelet registers it, without a kubelet.
pub(crate) async fn create_node(stage: &Stage, name: &str) -> anyhow::Result<()> {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"taints": [{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]},
    }))?;
    stage.nodes().create(&PostParams::default(), &node).await?;
    Ok(())
}
