//! Pod CIDRs of nodes, and the routes to them.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;

use skydock_cloud::Route;
use skydock_controllers::constants::TAINT_UNINITIALIZED;

use super::World;
use crate::cloud::CLUSTER_CIDRS;

impl World {
    /// Checks that no two nodes ever share a Pod CIDR, because their Pods would have the same
    /// addresses.
    pub(super) async fn watch_pod_cidrs(&mut self) -> Result<(), String> {
        let nodes = self.list_nodes().await?;
        let mut holders: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (node, cidr) in nodes
            .iter()
            .flat_map(|node| pod_cidrs(node).iter().map(move |cidr| (node, cidr)))
        {
            holders.entry(cidr).or_default().push(node.name_any());
        }
        let shared = holders.iter().filter(|(_, nodes)| nodes.len() > 1);
        self.wrongs
            .extend(shared.map(|(cidr, nodes)| format!("nodes {nodes:?} share Pod CIDR {cidr}")));
        Ok(())
    }

    /// Checks that each node has one Pod CIDR of each range, a route to each of them, and a
    /// condition that its network is available, and that there are no other routes. A node that
    /// waits for its initialization may become one of another provider: neither is required for it.
    pub(super) fn check_network(&self, nodes: &[Node], differences: &mut Vec<String>) {
        let mut missing = BTreeMap::new();
        for node in nodes {
            let name = node.name_any();
            let cidrs = pod_cidrs(node);
            let nets: Vec<IpNet> = cidrs.iter().filter_map(|cidr| cidr.parse().ok()).collect();
            let inside = |range: &str| {
                let range = range.parse::<IpNet>();
                range.map_or(0, |range| {
                    nets.iter().filter(|net| range.contains(*net)).count()
                })
            };
            if cidrs.len() != CLUSTER_CIDRS.len()
                || CLUSTER_CIDRS.iter().any(|range| inside(range) != 1)
            {
                differences.push(format!("Node {name} has Pod CIDRs {cidrs:?}"));
            }
            if waits(node) {
                continue;
            }
            if !has_network(node) {
                differences.push(format!("Node {name} does not say that it has a network"));
            }
            missing.extend(
                cidrs
                    .iter()
                    .map(|cidr| ((name.clone(), cidr.clone()), addresses(node))),
            );
        }
        let waiting: Vec<&Node> = nodes.iter().filter(|node| waits(node)).collect();
        let may_stay = |route: &Route| {
            let is_to = |node: &&&Node| {
                let target = route.target_node.as_ref();
                target.is_none_or(|name| *name == node.name_any())
            };
            let mut cidrs = waiting
                .iter()
                .filter(is_to)
                .flat_map(|node| pod_cidrs(node));
            cidrs.any(|cidr| *cidr == route.destination_cidr)
        };
        for route in self.cloud.routes() {
            if may_stay(&route) {
                continue;
            }
            let key = (
                route.target_node.clone().unwrap_or_default(),
                route.destination_cidr.clone(),
            );
            let made_with = route.target_addresses.as_ref().map(|addresses| {
                addresses
                    .iter()
                    .map(|address| address.address.clone())
                    .collect::<BTreeSet<_>>()
            });
            let wanted = missing.remove(&key);
            // For a route created by another client, the cloud may not know the addresses.
            if route.blackhole
                || wanted.is_none_or(|addresses| {
                    made_with.is_some_and(|made_with| made_with != addresses)
                })
            {
                differences.push(format!("a route is wrong, or there twice: {route:?}"));
            }
        }
        differences.extend(
            missing
                .keys()
                .map(|(node, cidr)| format!("there is no route to {node} for {cidr}")),
        );
    }
}

fn pod_cidrs(node: &Node) -> &[String] {
    node.spec
        .as_ref()
        .and_then(|spec| spec.pod_cidrs.as_deref())
        .unwrap_or_default()
}

/// Returns true for a node that waits for its initialization, and has no provider ID yet.
fn waits(node: &Node) -> bool {
    let taints = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten());
    let has_id = node
        .spec
        .as_ref()
        .is_some_and(|spec| spec.provider_id.is_some());
    !has_id
        && taints
            .into_iter()
            .any(|taint| taint.key == TAINT_UNINITIALIZED)
}

fn addresses(node: &Node) -> BTreeSet<String> {
    let addresses = node
        .status
        .iter()
        .flat_map(|status| status.addresses.iter().flatten());
    addresses.map(|address| address.address.clone()).collect()
}

fn has_network(node: &Node) -> bool {
    let mut conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .any(|condition| condition.type_ == "NetworkUnavailable" && condition.status == "False")
}
