//! The expected state, and its differences from the real one.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, NodeSpec, Service};
use kube::ResourceExt as _;
use skydock_support::{
    Seen, eventually,
    kubernetes::{SHUTDOWN, UNINITIALIZED},
};

use crate::{
    cluster::Cluster,
    site::{Machine, Site, View},
};

/// The state that users and operators request.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// All instances, and whether each runs.
    pub machines: Vec<(Machine, bool)>,
    /// The ports of each Service, for example `TCP/80`.
    pub services: BTreeMap<String, BTreeSet<String>>,
    /// Zone, region and type of every node, as labels.
    pub labels: Vec<(&'static str, &'static str)>,
    /// The provider serves nodes only: nodes have no network.
    pub only_nodes: bool,
}

impl Wanted {
    /// Returns the state of a cluster in an empty site.
    #[must_use]
    pub fn of(site: &dyn Site) -> Self {
        Self {
            labels: site.labels().to_vec(),
            only_nodes: site.has_only_nodes(),
            ..Self::default()
        }
    }

    /// Waits until cluster and cloud have the expected state.
    ///
    /// # Errors
    /// Returns the differences at the end of the time limit.
    pub async fn seen(&self, site: &dyn Site, cluster: &Cluster, limit: Duration) -> Result<()> {
        eventually(limit, || async {
            let (nodes, services) = (cluster.nodes().await?, cluster.services().await?);
            // Resources that are being deleted may disappear between two requests of the view.
            let view = match site.view().await {
                Ok(view) => view,
                Err(error) => return Ok(Seen::NotYet(format!("{error:#}"))),
            };
            let wrongs = wrongs(self, &nodes, &services, &view);
            Ok(Seen::when(wrongs.is_empty(), wrongs.join("\n")))
        })
        .await
    }
}

/// Returns all differences from the expected state, in sentences.
#[must_use]
pub fn wrongs(wanted: &Wanted, nodes: &[Node], services: &[Service], view: &View) -> Vec<String> {
    let mut wrongs = Vec::new();
    let mut routes = BTreeMap::new();
    for node in nodes {
        let name = node.name_any();
        match wanted
            .machines
            .iter()
            .find(|(machine, _)| machine.node == name)
        {
            None => wrongs.push(format!("node {name} has no machine")),
            Some((machine, runs)) => {
                let said = of_node(wanted, node, machine, *runs).into_iter();
                wrongs.extend(said.map(|wrong| format!("node {name}: {wrong}")));
                let cidrs = node
                    .spec
                    .iter()
                    .filter_map(|spec| spec.pod_cidrs.as_ref())
                    .flatten();
                routes.extend(cidrs.map(|cidr| (cidr.clone(), machine.id.clone())));
            }
        }
    }
    let missing = wanted
        .machines
        .iter()
        .filter(|(machine, _)| !nodes.iter().any(|node| node.name_any() == machine.node));
    wrongs.extend(missing.map(|(machine, _)| format!("node {} is not there", machine.node)));
    if routes != view.routes {
        wrongs.push(format!("routes are {:?} and not {routes:?}", view.routes));
    }

    let running = wanted.machines.iter().filter(|(_, runs)| *runs);
    let running: BTreeSet<String> = running.map(|(machine, _)| machine.id.clone()).collect();
    for (name, ports) in &wanted.services {
        let service = services.iter().find(|service| service.name_any() == *name);
        let said = service.map_or_else(
            || vec!["is not there".to_owned()],
            |service| of_service(service, ports, &running, view),
        );
        wrongs.extend(
            said.into_iter()
                .map(|wrong| format!("service {name}: {wrong}")),
        );
    }
    let unwanted = services
        .iter()
        .filter(|service| !wanted.services.contains_key(&service.name_any()));
    wrongs.extend(unwanted.map(|service| format!("service {} is still there", service.name_any())));
    if view.balancers.len() != wanted.services.len() {
        let names: Vec<_> = view
            .balancers
            .iter()
            .map(|balancer| &balancer.name)
            .collect();
        wrongs.push(format!(
            "load balancers are {names:?}, for {} services",
            wanted.services.len()
        ));
    }
    wrongs
}

fn of_node(wanted: &Wanted, node: &Node, machine: &Machine, runs: bool) -> Vec<String> {
    let mut wrongs = Vec::new();
    let nothing = NodeSpec::default();
    let spec = node.spec.as_ref().unwrap_or(&nothing);
    if spec.provider_id.as_ref() != Some(&machine.provider_id) {
        wrongs.push(format!(
            "its provider ID is {:?} and not {}",
            spec.provider_id, machine.provider_id
        ));
    }
    let taints: BTreeSet<&str> = spec
        .taints
        .iter()
        .flatten()
        .map(|taint| taint.key.as_str())
        .collect();
    if taints.contains(UNINITIALIZED) {
        wrongs.push("it is not initialized".to_owned());
    }
    if taints.contains(SHUTDOWN) == runs {
        wrongs.push(format!("its machine runs: {runs}, its taints: {taints:?}"));
    }
    for (label, value) in &wanted.labels {
        if node.labels().get(*label).map(String::as_str) != Some(*value) {
            wrongs.push(format!(
                "label {label} is {:?} and not {value}",
                node.labels().get(*label)
            ));
        }
    }
    let status = node.status.as_ref();
    let addresses = status
        .and_then(|status| status.addresses.as_deref())
        .unwrap_or_default();
    let addresses: BTreeSet<_> = addresses
        .iter()
        .map(|one| (one.type_.as_str(), one.address.as_str()))
        .collect();
    if !addresses.contains(&("InternalIP", &machine.address)) {
        wrongs.push(format!(
            "{} is none of its addresses {addresses:?}",
            machine.address
        ));
    }
    if let Some(others) = &machine.others {
        let internal = ("InternalIP", machine.address.as_str());
        let all: BTreeSet<_> = others
            .iter()
            .map(|(kind, it)| (*kind, it.as_str()))
            .chain([internal])
            .collect();
        if addresses != all {
            wrongs.push(format!("its addresses are {addresses:?} and not {all:?}"));
        }
    }
    if wanted.only_nodes {
        return wrongs;
    }
    let conditions = status
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    if !conditions
        .iter()
        .any(|one| one.type_ == "NetworkUnavailable" && one.status == "False")
    {
        wrongs.push("no condition says that it has a network".to_owned());
    }
    if spec.pod_cidrs.as_ref().is_none_or(Vec::is_empty) {
        wrongs.push("it has no Pod CIDR".to_owned());
    }
    wrongs
}

fn of_service(
    service: &Service,
    ports: &BTreeSet<String>,
    running: &BTreeSet<String>,
    view: &View,
) -> Vec<String> {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    let ingress = status
        .and_then(|status| status.ingress.as_deref())
        .unwrap_or_default();
    let told: BTreeSet<String> = ingress
        .iter()
        .filter_map(|one| one.ip.clone().or_else(|| one.hostname.clone()))
        .collect();
    let Some(balancer) = view
        .balancers
        .iter()
        .find(|balancer| !told.is_empty() && balancer.addresses == told)
    else {
        return vec![format!(
            "its status tells {told:?}, which is not a load balancer"
        )];
    };
    let mut wrongs = Vec::new();
    if !balancer.works {
        wrongs.push(format!("{} does not work", balancer.name));
    }
    let listens: BTreeSet<String> = balancer.ports.keys().cloned().collect();
    if listens != *ports {
        wrongs.push(format!(
            "{} listens on {listens:?} and not {ports:?}",
            balancer.name
        ));
    }
    let other = balancer
        .ports
        .iter()
        .filter(|(_, behind)| *behind != running);
    wrongs.extend(
        other.map(|(port, behind)| format!("behind {port} are {behind:?} and not {running:?}")),
    );
    wrongs
}

#[cfg(test)]
mod tests;
