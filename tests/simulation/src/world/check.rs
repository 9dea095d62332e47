//! Compares the world with the expected state.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Service};
use kube::{Api, ResourceExt as _, api::ListParams};
use skydock_controllers::constants::{
    FINALIZER, LABEL_EXCLUDE_FROM_LB, LABEL_INSTANCE_TYPE, LABEL_REGION, LABEL_ZONE,
    TAINT_SHUTDOWN, TAINT_UNINITIALIZED,
};

use super::{World, nodes::NodeModel, services::ServiceModel};
use crate::Balancer;

impl World {
    /// Returns all differences from the expected state, in sentences.
    ///
    /// # Errors
    /// Fails if a request to the API server fails.
    pub(super) async fn differences(&self) -> Result<Vec<String>, String> {
        let all = ListParams::default();
        let nodes = self.list_nodes().await?;
        let services = Api::<Service>::default_namespaced(self.operator.clone());
        let services = services
            .list(&all)
            .await
            .map_err(|error| error.to_string())?
            .items;
        let mut differences = Vec::new();
        self.check_nodes(&nodes, &mut differences);
        self.check_network(&nodes, &mut differences);
        self.check_services(&services, &nodes, &mut differences);
        Ok(differences)
    }

    fn check_nodes(&self, nodes: &[Node], differences: &mut Vec<String>) {
        let by_name: BTreeMap<String, &Node> =
            nodes.iter().map(|node| (node.name_any(), node)).collect();
        for (name, model) in &self.nodes {
            let node = by_name.get(*name).copied();
            match (&model.uid, node) {
                (None, None) => {}
                (Some(uid), Some(node)) if node.metadata.uid.as_ref() == Some(uid) => {
                    differences.extend(
                        self.wrong_node(model, node)
                            .map(|what| format!("Node {name} {what}")),
                    );
                }
                (Some(_), _) => {
                    differences.push(format!("Node {name} was deleted, and its machine is there"));
                }
                (None, Some(_)) => differences.push(format!(
                    "Node {name} is there, and nobody has registered it"
                )),
            }
        }
        for node in nodes.iter().filter(|node| self.is_left(node)) {
            differences.push(format!(
                "Node {} is left, and its machine is gone",
                node.name_any()
            ));
        }
    }

    /// Returns true if the node's instance is gone. A node without a provider ID does not count,
    /// because it is not recognized as the cloud's.
    pub(super) fn is_left(&self, node: &Node) -> bool {
        node.metadata
            .uid
            .as_ref()
            .is_some_and(|uid| self.vanished.contains(uid))
            && provider_id(node).is_some()
    }

    fn wrong_node(&self, model: &NodeModel, node: &Node) -> impl Iterator<Item = String> {
        let machine = self.cloud.machine(&model.machine);
        let address = machine.map(|machine| machine.address);
        let taints: BTreeSet<&str> = node
            .spec
            .iter()
            .flat_map(|spec| spec.taints.iter().flatten())
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
        let label =
            |key: &str, value: &str| node.labels().get(key).is_some_and(|found| found == value);
        [
            (
                taints.contains(TAINT_UNINITIALIZED),
                "is not initialized".to_owned(),
            ),
            (
                provider_id(node).as_ref() != Some(&model.machine),
                format!("has provider ID {:?}", provider_id(node)),
            ),
            (
                !shown.iter().eq(address.iter()),
                format!("has addresses {shown:?}, expected {address:?}"),
            ),
            (
                !label(LABEL_INSTANCE_TYPE, "sim.small")
                    || !label(LABEL_ZONE, "sim-1a")
                    || !label(LABEL_REGION, "sim-1"),
                format!("has labels {:?}", node.labels()),
            ),
            (
                taints.contains(TAINT_SHUTDOWN) == model.running,
                format!(
                    "has taints {taints:?}, and its machine runs: {}",
                    model.running
                ),
            ),
        ]
        .into_iter()
        .filter(|(wrong, _)| *wrong)
        .map(|(_, what)| what)
    }

    fn check_services(&self, services: &[Service], nodes: &[Node], differences: &mut Vec<String>) {
        let mut balancers = self.cloud.balancers();
        let behind = nodes
            .iter()
            .filter(|node| !node.labels().contains_key(LABEL_EXCLUDE_FROM_LB))
            .filter(|node| {
                self.nodes
                    .get(node.name_any().as_str())
                    .is_none_or(|model| model.running)
            })
            .map(|node| (node.name_any(), provider_id(node)))
            .collect();
        for service in services {
            let name = service.name_any();
            let uid = service.metadata.uid.clone().unwrap_or_default();
            let balancer = balancers.remove(&uid);
            let model = self
                .services
                .get(name.as_str())
                .filter(|model| model.uid == uid);
            let wrong = match model {
                None if name == "kubernetes" => Vec::new(),
                None => vec!["was deleted, and is still there".to_owned()],
                // The cloud rejects the service, so its previous load balancer may remain
                // unchanged.
                Some(model) if model.balanced && model.rejected => Vec::new(),
                Some(model) if model.balanced => {
                    wrong_balanced(model, service, balancer.as_ref(), &behind)
                }
                Some(_) => wrong_plain(service, balancer.as_ref()),
            };
            differences.extend(wrong.iter().map(|what| format!("Service {name} {what}")));
        }
        for (name, model) in &self.services {
            if !services
                .iter()
                .any(|service| service.metadata.uid.as_ref() == Some(&model.uid))
            {
                differences.push(format!("Service {name} is not there"));
            }
        }
        for (uid, balancer) in balancers {
            differences.push(format!(
                "a load balancer is leaked, of {} {uid}: {balancer:?}",
                balancer.service
            ));
        }
    }
}

fn wrong_balanced(
    model: &ServiceModel,
    service: &Service,
    balancer: Option<&Balancer>,
    wanted: &BTreeSet<(String, Option<String>)>,
) -> Vec<String> {
    let Some(balancer) = balancer else {
        return vec!["has no load balancer".to_owned()];
    };
    let shown = addresses(service);
    let finalizers = service.metadata.finalizers.as_deref().unwrap_or_default();
    let wrongs = [
        (!balancer.whole, "has half a load balancer".to_owned()),
        (
            balancer.ports != [model.port],
            format!(
                "is balanced on {:?}, expected {}",
                balancer.ports, model.port
            ),
        ),
        (
            balancer.note != model.note,
            format!("has note {:?}, expected {:?}", balancer.note, model.note),
        ),
        (
            balancer.nodes != *wanted,
            format!("is balanced over {:?}, expected {wanted:?}", balancer.nodes),
        ),
        (
            shown != [balancer.address.clone()],
            format!("shows {shown:?}, expected {:?}", balancer.address),
        ),
        (
            !finalizers.iter().any(|name| name == FINALIZER),
            "has no finalizer".to_owned(),
        ),
    ];
    wrongs
        .into_iter()
        .filter(|(wrong, _)| *wrong)
        .map(|(_, what)| what)
        .collect()
}

fn wrong_plain(service: &Service, balancer: Option<&Balancer>) -> Vec<String> {
    let shown = addresses(service);
    let wrongs = [
        (
            balancer.is_some(),
            format!("wants no load balancer and has one: {balancer:?}"),
        ),
        (
            !shown.is_empty(),
            format!("wants no load balancer and shows {shown:?}"),
        ),
        (
            service
                .metadata
                .finalizers
                .iter()
                .flatten()
                .any(|name| name == FINALIZER),
            "wants no load balancer and has the finalizer".to_owned(),
        ),
    ];
    wrongs
        .into_iter()
        .filter(|(wrong, _)| *wrong)
        .map(|(_, what)| what)
        .collect()
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

fn provider_id(node: &Node) -> Option<String> {
    node.spec
        .as_ref()?
        .provider_id
        .clone()
        .filter(|id| !id.is_empty())
}
