//! A dry run logs changes but makes none.

use std::time::Duration;

use anyhow::ensure;
use kube::ResourceExt;
use serde_json::json;
use skydock_support::kubernetes::UNINITIALIZED;

use super::{
    nodes::{has_taint, node},
    services::{address, create},
};
use crate::{narrator::Narrator, stage::Stage};

const NODE: &str = "node-4";
const SERVICE: &str = "rehearsed";
const LIMIT: Duration = Duration::from_secs(30);

pub(crate) async fn tell(stage: &mut Stage, narrator: &mut Narrator) -> anyhow::Result<()> {
    narrator.chapter("A dry run logs changes and makes none");
    stage.stop_hosts().await?;
    stage.replace(&stage.plugin_file(), &stage.built("static")?)?;
    let provider_id = stage
        .node_spec(NODE)
        .provider_id
        .unwrap_or_else(|| format!("static://{NODE}"));
    stage.inventory.add(NODE, provider_id);
    stage.inventory.write()?;
    stage.plane.start_node(&stage.node_spec(NODE)).await?;
    node(stage, NODE, |node| {
        has_taint(node, UNINITIALIZED).then_some(())
    })
    .await?;
    create(stage, SERVICE, json!({})).await?;

    narrator
        .step(
            "it logs how a node would be initialized, and which load balancer would be created",
            async {
                let mut host = stage.start_dry_run("dry-run").await?;
                let initialization = host
                    .said(&format!("dry run: would patch nodes/{NODE}: "))
                    .await?;
                host.said(&format!(
                    "dry run: would ensure the load balancer of Service default/{SERVICE} "
                ))
                .await?;
                host.terminate()?;
                let code = host.ended(LIMIT).await?;
                ensure!(code == Some(0), "it ended with {code:?}");
                Ok(initialization)
            },
        )
        .await?;
    narrator
        .step(
            "node, Service and Lease are unchanged, and there are no events",
            async {
                let node = stage.nodes().get(NODE).await?;
                ensure!(has_taint(&node, UNINITIALIZED), "{NODE} was initialized");
                let service = stage.services().get(SERVICE).await?;
                ensure!(
                    service.finalizers().is_empty(),
                    "{SERVICE} has finalizers {:?}",
                    service.finalizers()
                );
                for name in [NODE, SERVICE] {
                    let told = stage.events(name).await?;
                    let ours = ["Synced", "EnsuringLoadBalancer", "EnsuredLoadBalancer"];
                    ensure!(
                        !told
                            .iter()
                            .any(|event| ours.iter().any(|reason| event.starts_with(reason))),
                        "{told:?}"
                    );
                }
                let lease = stage.leases().get("cloud-controller-manager").await?;
                let holder = lease
                    .spec
                    .and_then(|spec| spec.holder_identity)
                    .unwrap_or_default();
                ensure!(holder.is_empty(), "the lease is held by {holder}");
                Ok("still tainted, no finalizer, no events, lease free")
            },
        )
        .await?;
    narrator
        .step("a normal run then makes these changes", async {
            stage.start_host("after-dry-run").await?;
            node(stage, NODE, |node| {
                (!has_taint(node, UNINITIALIZED)).then_some(())
            })
            .await?;
            let address = address(stage, SERVICE).await?;
            stage.delete_service(SERVICE).await?;
            Ok(format!("{NODE} is initialized, {SERVICE} has {address}"))
        })
        .await
}
