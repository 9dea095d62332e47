//! Nodes follow their instances.

use std::time::Duration;

use anyhow::ensure;
use skydock_support::{Seen, eventually, kubernetes::SHUTDOWN};

use super::nodes::{has_taint, node};
use crate::{narrator::Narrator, stage::Stage};

/// A real control plane takes some time to notice that a kubelet does not report.
const LIMIT: Duration = Duration::from_secs(90);

pub(crate) async fn tell(stage: &mut Stage, narrator: &mut Narrator) -> anyhow::Result<()> {
    narrator.chapter("Nodes follow their instances");
    stage.plane.stop_node("node-2").await?;
    stage.plane.stop_node("node-3").await?;
    stage.inventory.stop("node-3");
    stage.inventory.remove("node-2");
    stage.inventory.write()?;
    narrator
        .step(
            "node-2's machine is removed from the inventory: its Node is deleted",
            async {
                gone(stage, "node-2").await?;
                stage.event("node-2", "DeletingNode").await
            },
        )
        .await?;
    narrator
        .step(
            "node-3's machine is stopped: its Node is tainted and kept",
            async {
                node(stage, "node-3", |node| {
                    has_taint(node, SHUTDOWN).then_some(())
                })
                .await?;
                // The node still exists after some periods of the lifecycle controller.
                tokio::time::sleep(Duration::from_secs(3)).await;
                ensure!(
                    stage.nodes().get_opt("node-3").await?.is_some(),
                    "node-3 was deleted"
                );
                Ok(format!("taint {SHUTDOWN}"))
            },
        )
        .await
}

/// Waits until a Node is deleted.
pub(crate) async fn gone(stage: &Stage, name: &str) -> anyhow::Result<()> {
    eventually(LIMIT, || async {
        Ok(match stage.nodes().get_opt(name).await? {
            None => Seen::Yes(()),
            Some(node) => Seen::NotYet(format!("{name} is there: {:?}", node.spec)),
        })
    })
    .await
}
