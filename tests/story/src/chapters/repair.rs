//! Changes by the cloud or by users are reverted to the cloud's values, and values of users are
//! kept.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Node;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use skydock_support::{Seen, eventually};

use super::{
    nodes::node,
    services::{address, create, ingress},
};
use crate::{inventory::ZONE, narrator::Narrator, stage::Stage};

const NODE: &str = "node-1";
/// The zone to which the node's instance moves.
const NEW_ZONE: &str = "rack-2";
const ZONES: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
];
const RACK: &str = "example.com/rack";
const OWNER: &str = "example.com/owner";
/// The annotation with the names of the labels that were set from the cloud.
const REMEMBERED: &str = "node.skydock.dev/labels";

pub(crate) async fn tell(stage: &mut Stage, narrator: &mut Narrator) -> anyhow::Result<()> {
    narrator.chapter("Drift is repaired, and what users set is not changed");
    narrator
        .step(
            "a host starts that checks nodes and load balancers every 2 s",
            async {
                stage.stop_hosts().await?;
                let periods = [
                    "--node-status-update-frequency=2s",
                    "--load-balancer-check-period=2s",
                ];
                stage.start_host_with("host-repair", &periods).await?;
                Ok(periods.join(" "))
            },
        )
        .await?;
    narrator
        .step(
            "node-1's machine moves to another rack: zone, addresses and label are updated",
            async {
                stage.inventory.relocate(NODE, NEW_ZONE);
                stage.inventory.label(NODE, &[(RACK, "18")]);
                stage.inventory.write()?;
                has_moved(stage).await
            },
        )
        .await?;
    narrator
        .step("a user changes zone and label, and adds a label: the next check restores the cloud's values", async {
            edit(stage, json!({ZONES[0]: ZONE, ZONES[1]: ZONE, RACK: null, OWNER: "people"})).await?;
            has_moved(stage).await?;
            node(stage, NODE, |node| has(node, OWNER, Some("people")).then_some(())).await?;
            Ok(format!("{OWNER}=people is still there"))
        })
        .await?;
    narrator
        .step(
            "the cloud adds the same label and removes it: the user's label is kept",
            async {
                stage
                    .inventory
                    .label(NODE, &[(RACK, "19"), (OWNER, "cloud")]);
                stage.inventory.write()?;
                node(stage, NODE, |node| {
                    has(node, RACK, Some("19")).then_some(())
                })
                .await?;
                stage.inventory.label(NODE, &[]);
                stage.inventory.write()?;
                let node = node(stage, NODE, |node| {
                    has(node, RACK, None).then(|| node.clone())
                })
                .await?;
                ensure!(
                    has(&node, OWNER, Some("people")),
                    "{OWNER} is {:?}",
                    node.labels().get(OWNER)
                );
                ensure!(
                    !node.annotations().contains_key(REMEMBERED),
                    "{REMEMBERED} is still there"
                );
                Ok(format!("no {RACK}, {OWNER}=people"))
            },
        )
        .await?;
    narrator
        .step(
            "a user writes the address of one Service into another: the next check restores it",
            async {
                create(stage, "early", json!({})).await?;
                let early = address(stage, "early").await?;
                create(stage, "late", json!({})).await?;
                address(stage, "late").await?;
                let stolen =
                    json!({"status": {"loadBalancer": {"ingress": [{"ip": early.to_string()}]}}});
                stage
                    .services()
                    .patch_status("late", &PatchParams::default(), &Patch::Merge(stolen))
                    .await?;
                let event = stage.event("late", "AddressConflict").await?;
                let late = eventually(std::time::Duration::from_secs(30), || async {
                    let late = ingress(&stage.services().get("late").await?);
                    Ok(match late {
                        Some(late) if late != early => Seen::Yes(late),
                        other => Seen::NotYet(format!("{other:?}")),
                    })
                })
                .await?;
                ensure!(
                    address(stage, "early").await? == early,
                    "the address of early has changed"
                );
                stage.delete_service("early").await?;
                stage.delete_service("late").await?;
                Ok(format!("{event}\nearly {early}, late {late}"))
            },
        )
        .await
}

async fn edit(stage: &Stage, labels: serde_json::Value) -> anyhow::Result<()> {
    let edit = Patch::Merge(json!({"metadata": {"labels": labels}}));
    stage
        .nodes()
        .patch(NODE, &PatchParams::default(), &edit)
        .await?;
    Ok(())
}

/// Waits until the node has the values of its moved instance.
async fn has_moved(stage: &Stage) -> anyhow::Result<String> {
    let wanted = stage.inventory.addresses(NODE);
    node(stage, NODE, |node| {
        let addresses = node
            .status
            .as_ref()
            .and_then(|status| status.addresses.as_ref());
        let there = |wanted: &String| {
            addresses.is_some_and(|all| all.iter().any(|address| address.address == *wanted))
        };
        let moved = ZONES.iter().all(|zone| has(node, zone, Some(NEW_ZONE)))
            && has(node, RACK, Some("18"))
            && wanted.iter().flatten().all(there);
        moved.then(|| {
            format!(
                "{NEW_ZONE}, {RACK}=18, {}",
                wanted
                    .iter()
                    .flatten()
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(" ")
            )
        })
    })
    .await
}

fn has(node: &Node, label: &str, value: Option<&str>) -> bool {
    node.labels().get(label).map(String::as_str) == value
}
