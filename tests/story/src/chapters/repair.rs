//! What the cloud or people change is brought back to what the cloud says; what is theirs is left alone.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Node;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{
    nodes::node,
    services::{address, create, ingress},
};
use crate::{
    inventory::ZONE,
    narrator::Narrator,
    observe::{Seen, until},
    stage::Stage,
};

const NODE: &str = "node-1";
/// Where its machine moves to.
const NEW_ZONE: &str = "rack-2";
const ZONES: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];
const RACK: &str = "example.com/rack";
const OWNER: &str = "example.com/owner";
/// Names of the labels that came from the cloud.
const REMEMBERED: &str = "node.skydock.dev/labels";

pub(crate) async fn tell(stage: &mut Stage, narrator: &mut Narrator) -> anyhow::Result<()> {
    narrator.chapter("Drift is repaired, and what is not the cloud's is left alone");
    narrator
        .step("a host starts that looks at nodes and load balancers every 2 s", async {
            stage.stop_hosts().await?;
            let periods = ["--node-status-update-frequency=2s", "--load-balancer-check-period=2s"];
            stage.start_host_with("host-repair", &periods).await?;
            Ok(periods.join(" "))
        })
        .await?;
    narrator
        .step("node-1's machine is moved to another rack: zone, addresses and label follow", async {
            stage.inventory.relocate(NODE, NEW_ZONE);
            stage.inventory.label(NODE, &[(RACK, "18")]);
            stage.inventory.write()?;
            has_moved(stage).await
        })
        .await?;
    narrator
        .step("people change zone and label, and add one: the next look puts right what is the cloud's", async {
            edit(stage, json!({ZONES[0]: ZONE, ZONES[1]: ZONE, RACK: null, OWNER: "people"})).await?;
            has_moved(stage).await?;
            node(stage, NODE, |node| has(node, OWNER, Some("people")).then_some(())).await?;
            Ok(format!("{OWNER}=people is still there"))
        })
        .await?;
    narrator
        .step("the cloud has that label too, and then none: its own goes, people's stays as it is", async {
            stage.inventory.label(NODE, &[(RACK, "19"), (OWNER, "cloud")]);
            stage.inventory.write()?;
            node(stage, NODE, |node| has(node, RACK, Some("19")).then_some(())).await?;
            stage.inventory.label(NODE, &[]);
            stage.inventory.write()?;
            let node = node(stage, NODE, |node| has(node, RACK, None).then(|| node.clone())).await?;
            ensure!(has(&node, OWNER, Some("people")), "{OWNER} is {:?}", node.labels().get(OWNER));
            ensure!(!node.annotations().contains_key(REMEMBERED), "{REMEMBERED} is still there");
            Ok(format!("no {RACK}, {OWNER}=people"))
        })
        .await?;
    narrator
        .step("somebody writes the address of one Service into another: the next look gives it its own", async {
            create(stage, "early", json!({})).await?;
            let early = address(stage, "early").await?;
            create(stage, "late", json!({})).await?;
            address(stage, "late").await?;
            let stolen = json!({"status": {"loadBalancer": {"ingress": [{"ip": early.to_string()}]}}});
            stage.services().patch_status("late", &PatchParams::default(), &Patch::Merge(stolen)).await?;
            let event = stage.event("late", "AddressConflict").await?;
            let late = until(std::time::Duration::from_secs(30), || async {
                let late = ingress(&stage.services().get("late").await?);
                Ok(match late {
                    Some(late) if late != early => Seen::Yes(late),
                    other => Seen::NotYet(format!("{other:?}")),
                })
            })
            .await?;
            ensure!(address(stage, "early").await? == early, "the address of early has changed");
            stage.delete_service("early").await?;
            stage.delete_service("late").await?;
            Ok(format!("{event}\nearly {early}, late {late}"))
        })
        .await
}

async fn edit(stage: &Stage, labels: serde_json::Value) -> anyhow::Result<()> {
    let edit = Patch::Merge(json!({"metadata": {"labels": labels}}));
    stage.nodes().patch(NODE, &PatchParams::default(), &edit).await?;
    Ok(())
}

/// Waits until the node is as its machine is after the move.
async fn has_moved(stage: &Stage) -> anyhow::Result<String> {
    let wanted = stage.inventory.addresses(NODE);
    node(stage, NODE, |node| {
        let addresses = node.status.as_ref().and_then(|status| status.addresses.as_ref());
        let there = |wanted: &String| addresses.is_some_and(|all| all.iter().any(|address| address.address == *wanted));
        let moved = ZONES.iter().all(|zone| has(node, zone, Some(NEW_ZONE)))
            && has(node, RACK, Some("18"))
            && wanted.iter().flatten().all(there);
        moved.then(|| {
            format!("{NEW_ZONE}, {RACK}=18, {}", wanted.iter().flatten().cloned().collect::<Vec<_>>().join(" "))
        })
    })
    .await
}

fn has(node: &Node, label: &str, value: Option<&str>) -> bool {
    node.labels().get(label).map(String::as_str) == value
}
