//! Compares the cluster with the expected state.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::{Api, ResourceExt, api::ListParams};
use skydock_controllers::constants::{
    FINALIZER, LABEL_INSTANCE_TYPE, LABEL_REGION, LABEL_ZONE, TAINT_SHUTDOWN, TAINT_UNINITIALIZED,
};

use super::{
    cluster::{Cluster, Machine, PLACE, POOL, Wish, provider_id},
    list_nodes,
};

impl Cluster {
    /// Returns all differences from the expected state, in sentences.
    pub(super) async fn differences(&self) -> Result<Vec<String>> {
        let nodes = list_nodes(&self.client).await?;
        let services = Api::<Service>::default_namespaced(self.client.clone())
            .list(&ListParams::default())
            .await?;
        let mut differences = Vec::new();
        for (name, machine) in &self.machines {
            let wrong = match (&machine.uid, nodes.get(*name)) {
                (None, None) => Vec::new(),
                (Some(uid), Some(node)) if node.uid().as_ref() == Some(uid) => {
                    wrong_node(name, machine, node)
                }
                (Some(_), _) => vec!["was deleted, and its machine is there".to_owned()],
                (None, Some(_)) => vec!["is there, and nobody has registered it".to_owned()],
            };
            differences.extend(wrong.iter().map(|what| format!("Node {name} {what}")));
        }
        // A node without a provider ID is not recognized as this provider's, and a node that was
        // never initialized is deleted after ten minutes, which is longer than a test waits.
        let left = nodes.values().filter(|node| {
            let spec = node.spec.as_ref();
            let taints = spec.iter().flat_map(|spec| spec.taints.iter().flatten());
            node.uid().is_some_and(|uid| self.vanished.contains(&uid))
                && spec.is_some_and(|spec| spec.provider_id.is_some())
                && !taints
                    .into_iter()
                    .any(|taint| taint.key == TAINT_UNINITIALIZED)
        });
        differences.extend(
            left.map(|node| format!("Node {} is left, and its machine is gone", node.name_any())),
        );
        differences.extend(shared_cidrs(&nodes));
        differences.extend(self.wrong_services(&services.items));
        Ok(differences)
    }

    fn wrong_services(&self, services: &[Service]) -> Vec<String> {
        let mut differences = Vec::new();
        let mut given = BTreeSet::new();
        for service in services
            .iter()
            .filter(|service| service.name_any() != "kubernetes")
        {
            let name = service.name_any();
            let shown = addresses(service);
            let wish = self
                .services
                .get(name.as_str())
                .filter(|wish| service.uid().as_ref() == Some(&wish.uid));
            differences.extend(
                wrong_service(wish, service, &shown).map(|what| format!("Service {name} {what}")),
            );
            let twice = shown
                .iter()
                .filter(|address| !given.insert((*address).clone()));
            differences.extend(twice.map(|address| format!("{address} is given twice")));
        }
        let names: BTreeSet<_> = services.iter().map(ResourceExt::name_any).collect();
        let missing = self.services.keys().filter(|name| !names.contains(**name));
        differences.extend(missing.map(|name| format!("Service {name} is not there")));
        differences
    }
}

fn wrong_node(name: &str, machine: &Machine, node: &Node) -> Vec<String> {
    let spec = node.spec.clone().unwrap_or_default();
    let taints: BTreeSet<&str> = spec
        .taints
        .iter()
        .flatten()
        .map(|taint| taint.key.as_str())
        .collect();
    let shown = node
        .status
        .iter()
        .flat_map(|status| status.addresses.iter().flatten());
    let shown: Vec<_> = shown
        .filter(|address| address.type_ == "InternalIP")
        .map(|address| address.address.clone())
        .collect();
    let label = |key: &str, value: &str| node.labels().get(key).is_some_and(|found| found == value);
    let [zone, region, kind] = PLACE;
    let cidrs = spec.pod_cidrs.unwrap_or_default();
    let inside = |cidr: &String| {
        let range: Option<IpNet> = "10.244.0.0/16".parse().ok();
        range
            .zip(cidr.parse::<IpNet>().ok())
            .is_some_and(|(range, cidr)| range.contains(&cidr))
    };
    let wrongs = [
        (
            taints.contains(TAINT_UNINITIALIZED),
            "is not initialized".to_owned(),
        ),
        (
            spec.provider_id != Some(provider_id(name)),
            format!("has provider ID {:?}", spec.provider_id),
        ),
        (
            shown != [machine.address.clone()],
            format!("has addresses {shown:?}, expected {:?}", machine.address),
        ),
        (
            !label(LABEL_ZONE, zone)
                || !label(LABEL_REGION, region)
                || !label(LABEL_INSTANCE_TYPE, kind),
            format!("has labels {:?}", node.labels()),
        ),
        (
            taints.contains(TAINT_SHUTDOWN) == machine.running,
            format!(
                "has taints {taints:?}, and its machine runs: {}",
                machine.running
            ),
        ),
        (
            cidrs.len() != 1 || !cidrs.iter().all(inside),
            format!("has Pod CIDRs {cidrs:?}"),
        ),
    ];
    wrongs
        .into_iter()
        .filter(|(wrong, _)| *wrong)
        .map(|(_, what)| what)
        .collect()
}

fn shared_cidrs(nodes: &BTreeMap<String, Node>) -> Vec<String> {
    let mut holders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, node) in nodes {
        for cidr in node
            .spec
            .iter()
            .flat_map(|spec| spec.pod_cidrs.iter().flatten())
        {
            holders.entry(cidr).or_default().push(name);
        }
    }
    let shared = holders.iter().filter(|(_, nodes)| nodes.len() > 1);
    shared
        .map(|(cidr, nodes)| format!("nodes {nodes:?} share Pod CIDR {cidr}"))
        .collect()
}

fn wrong_service(
    wish: Option<&Wish>,
    service: &Service,
    shown: &[String],
) -> impl Iterator<Item = String> {
    let finalizer = service.finalizers().iter().any(|name| name == FINALIZER);
    let wrongs = match wish {
        None => vec![(true, "was deleted, and is still there".to_owned())],
        // The status is not changed, whatever it is.
        Some(wish) if wish.balanced && wish.rejected => Vec::new(),
        Some(wish) if wish.balanced => vec![
            (!finalizer, "has no finalizer".to_owned()),
            (
                !matches!(shown, [address] if address.starts_with(POOL)),
                format!("shows {shown:?}, expected one address of {POOL}0/24"),
            ),
        ],
        Some(_) => vec![
            (
                finalizer,
                "wants no load balancer and has the finalizer".to_owned(),
            ),
            (
                !shown.is_empty(),
                format!("wants no load balancer and shows {shown:?}"),
            ),
        ],
    };
    wrongs
        .into_iter()
        .filter(|(wrong, _)| *wrong)
        .map(|(_, what)| what)
}

fn addresses(service: &Service) -> Vec<String> {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    let ingress = status
        .iter()
        .flat_map(|status| status.ingress.iter().flatten());
    ingress.filter_map(|ingress| ingress.ip.clone()).collect()
}
