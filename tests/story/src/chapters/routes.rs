//! Nodes get Pod CIDRs and routes.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context;
use k8s_openapi::api::core::v1::Node;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams},
};
use skydock_clusters::NodeSpec;
use skydock_support::{Seen, eventually};

use crate::{narrator::Narrator, stage::Stage};

const NAMES: [&str; 2] = ["routed-1", "routed-2"];
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn tell(stage: &mut Stage, narrator: &mut Narrator) -> anyhow::Result<()> {
    narrator.chapter("Nodes get Pod CIDRs and routes");
    narrator
        .step("a host starts that allocates Pod CIDRs, with a plugin that creates routes; two nodes join", async {
            stage.stop_hosts().await?;
            stage.start_hostile_host("host-routes", &["--allocate-node-cidrs"]).await?;
            for name in NAMES {
                stage.plane.start_node(&NodeSpec::new(name).without_provider_id()).await?;
            }
            Ok("--allocate-node-cidrs --cluster-cidr=10.244.0.0/16")
        })
        .await?;
    let mut owners = BTreeMap::new();
    narrator
        .step("every node gets a unique Pod CIDR", async {
            owners = every_node_has_its_own(stage).await?;
            let pairs: Vec<_> = owners
                .iter()
                .map(|(cidr, node)| format!("{node} {cidr}"))
                .collect();
            Ok(pairs.join(", "))
        })
        .await?;
    narrator
        .step(
            "each node of this plugin has a route, and reports that its network is available; those of the other one are not changed",
            async {
                let host = stage.leading_host().await?;
                for (cidr, node) in owners.iter().filter(|(_, node)| is_new(node)) {
                    host.said(&format!("created a route node=\"{node}\" cidr=\"{cidr}\""))
                        .await?;
                }
                new_nodes_have_a_network(stage).await?;
                Ok("condition NetworkUnavailable is False, reason RouteCreated")
            },
        )
        .await?;
    narrator
        .step(
            "routes and Pod CIDRs of deleted Nodes are released",
            async {
                for name in NAMES {
                    stage.plane.stop_node(name).await?;
                    stage.nodes().delete(name, &DeleteParams::default()).await?;
                }
                let at = stage.leader().await?;
                let host = stage.hosts.get(at).context("the leader")?;
                let mut deleted = Vec::new();
                for (cidr, node) in owners.iter().filter(|(_, node)| is_new(node)) {
                    deleted.push(
                        host.said(&format!("deleted a route route=\"{node}-{cidr}\""))
                            .await?,
                    );
                }
                eventually(LIMIT, || async {
                    let released = host
                        .scrape()
                        .await?
                        .sum("node_ipam_controller_cidrset_cidrs_releases_total", &[]);
                    Ok(Seen::when(released == 2.0, format!("{released} released")))
                })
                .await?;
                Ok(deleted.join("\n"))
            },
        )
        .await
}

/// Waits until each node has one Pod CIDR of the cluster, and returns the nodes by Pod CIDR.
async fn every_node_has_its_own(stage: &Stage) -> anyhow::Result<BTreeMap<String, String>> {
    eventually(LIMIT, || async {
        let nodes = stage.nodes().list(&ListParams::default()).await?.items;
        let mut owners = BTreeMap::new();
        for node in &nodes {
            match node
                .spec
                .as_ref()
                .and_then(|spec| spec.pod_cidrs.as_deref())
                .unwrap_or_default()
            {
                [cidr] if cidr.starts_with("10.244.") && cidr.ends_with(".0/24") => {
                    owners.insert(cidr.clone(), node.name_any());
                }
                other => return Ok(Seen::NotYet(format!("{} has {other:?}", node.name_any()))),
            }
        }
        anyhow::ensure!(
            owners.len() == nodes.len(),
            "two of {} nodes have the same one: {owners:?}",
            nodes.len()
        );
        Ok(Seen::Yes(owners))
    })
    .await
}

fn is_new(node: &str) -> bool {
    NAMES.contains(&node)
}

/// Waits until the conditions of the new nodes say that they have a network, and no other does.
async fn new_nodes_have_a_network(stage: &Stage) -> anyhow::Result<()> {
    eventually(LIMIT, || async {
        let nodes = stage.nodes().list(&ListParams::default()).await?;
        let is_wrong = |node: &&Node| has_network(node) != is_new(&node.name_any());
        Ok(match nodes.iter().find(is_wrong) {
            None => Seen::Yes(()),
            Some(node) => Seen::NotYet(format!("{}: {:?}", node.name_any(), node.status)),
        })
    })
    .await
}

fn has_network(node: &Node) -> bool {
    let conditions = node
        .status
        .iter()
        .filter_map(|status| status.conditions.as_ref())
        .flatten();
    conditions.into_iter().any(|condition| {
        condition.type_ == "NetworkUnavailable"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("RouteCreated")
    })
}
