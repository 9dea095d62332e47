//! The cluster of a scenario, which changes as controllers change it after a call.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::{Value, json};
use skydock_cloud::{
    Answer, ArgumentKind, Arguments, Function, Instance, LoadBalancerStatus, NewRoute, Node,
    NodeSet, Route, Service,
};

use super::{
    disks::Disks,
    file::{Given, Step},
};
use crate::harness::{answer::Part as _, fake_cluster::FakeCluster};

/// Objects of the cluster, of which the plugin sees those that exist.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) cluster: Arc<FakeCluster>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    nodes: BTreeMap<String, Node>,
    services: BTreeMap<String, Served>,
    /// The last list of routes.
    routes: Option<Vec<Route>>,
    disks: Disks,
}

/// A Service. After its load balancer was deleted, it does not exist in the cluster until it is
/// ensured again.
struct Served {
    service: Service,
    exists: bool,
}

impl World {
    /// Creates or replaces objects. A Service keeps its status, and a node its provider ID unless
    /// it is given one.
    pub(crate) fn give(&self, given: &Given) {
        let mut state = self.state();
        for spec in &given.nodes {
            let mut node = spec.node();
            node.provider_id = node
                .provider_id
                .or_else(|| state.nodes.get(&node.name)?.provider_id.clone());
            state.nodes.insert(node.name.clone(), node);
        }

        for spec in &given.services {
            let mut service = spec.service();
            if let Some(before) = state.services.get(&service.name) {
                service.status = before.service.status.clone();
            }
            state.services.insert(
                service.name.clone(),
                Served {
                    service,
                    exists: true,
                },
            );
        }

        state.disks.give(given);
        self.show(&state);
    }

    /// Returns what a function is called with in a step.
    ///
    /// # Errors
    /// A sentence, if something does not exist.
    pub(super) fn arguments(&self, function: Function, step: &Step) -> Result<Arguments, String> {
        let names = step.nodes.as_deref();
        let mut arguments = Arguments {
            nodes: self.nodes(names),
            node_set: self.targets(names),
            new_routes: self.new_routes(names),
            ..Arguments::default()
        };

        if function.takes(ArgumentKind::Service) {
            let name = step.service.as_deref().unwrap_or_default();
            let deleting = match function {
                Function::Ensure => Some(false),
                Function::EnsureDeleted => Some(true),
                _ => None,
            };
            arguments.service = self
                .service(name, deleting)
                .ok_or_else(|| format!("unknown Service `{name}`"))?;
        }

        if function.takes(ArgumentKind::Routes) {
            arguments.routes = self
                .routes(names)
                .ok_or("no routes were listed: call routes.list-routes first")?;
        }

        let state = self.state();
        state.disks.add_to(&mut arguments, function, step)?;
        Ok(arguments)
    }

    /// Writes an answer, as controllers do.
    pub(super) fn write(&self, arguments: &Arguments, answer: &Answer) {
        let service = &arguments.service.name;
        match answer {
            Answer::Describe(described) => {
                for (node, instance) in arguments.nodes.iter().zip(described) {
                    if let Ok(instance) = instance {
                        self.described(&node.name, instance);
                    }
                }
            }
            Answer::Ensure(status) => self.ensured(service, status),
            Answer::EnsureDeleted(()) => self.deleted(service),
            Answer::ListRoutes(routes) => self.listed(routes),
            _ => self.state().disks.write(arguments, answer),
        }
    }

    /// Returns the nodes with these names; all by default.
    fn nodes(&self, names: Option<&[String]>) -> Vec<Arc<Node>> {
        let state = self.state();
        let find = |name: &String| state.nodes.get(name).cloned().map(Arc::new);
        match names {
            Some(names) => names.iter().filter_map(find).collect(),
            None => state.nodes.values().cloned().map(Arc::new).collect(),
        }
    }

    /// Returns the targets of a load balancer: without duplicates, ordered by name.
    fn targets(&self, names: Option<&[String]>) -> NodeSet {
        let mut nodes = self.nodes(names);
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        nodes.dedup_by(|one, other| one.name == other.name);
        nodes.into()
    }

    /// Returns a Service as it is passed to a call; before it is deleted, it is marked.
    fn service(&self, name: &str, deleting: Option<bool>) -> Option<Service> {
        let mut state = self.state();
        let served = state.services.get_mut(name)?;

        if let Some(deleting) = deleting {
            served.service.deleting = deleting;
            // Also if it is already gone: the call is then repeated for a Service that still has
            // its finalizer.
            served.exists = true;
        }

        let service = served.service.clone();
        self.show(&state);
        Some(service)
    }

    /// Writes what was described to a node, as the node controller does.
    fn described(&self, name: &str, instance: &Instance) {
        let mut state = self.state();
        let Some(node) = state.nodes.get_mut(name) else {
            return;
        };

        // Kubernetes does not allow a provider ID to change.
        if node.provider_id.is_none() {
            node.provider_id.clone_from(&instance.provider_id);
        }
        // The node controller keeps the addresses of a node for which the cloud has none.
        if !instance.addresses.is_empty() {
            node.addresses.clone_from(&instance.addresses);
        }

        let labels = [
            ("node.kubernetes.io/instance-type", &instance.instance_type),
            ("topology.kubernetes.io/zone", &instance.zone),
            ("topology.kubernetes.io/region", &instance.region),
        ];
        for (key, value) in labels {
            if let Some(value) = value {
                node.labels.insert(key.to_owned(), value.clone());
            }
        }

        node.labels.extend(instance.labels.clone());
        node.annotations.extend(instance.annotations.clone());

        self.show(&state);
    }

    /// Writes the status of a Service, as the service controller does.
    fn ensured(&self, name: &str, status: &LoadBalancerStatus) {
        let mut state = self.state();
        if let Some(served) = state.services.get_mut(name) {
            served.service.status = status.clone();
        }
        self.show(&state);
    }

    /// Deletes a Service whose load balancer was deleted.
    fn deleted(&self, name: &str) {
        let mut state = self.state();
        if let Some(served) = state.services.get_mut(name) {
            served.service.status = LoadBalancerStatus::default();
            served.exists = false;
        }
        self.show(&state);
    }

    fn listed(&self, routes: &[Route]) {
        self.state().routes = Some(routes.to_vec());
    }

    /// Returns the routes of the last list that lead to these nodes; all by default. `None` if
    /// there was no list.
    fn routes(&self, names: Option<&[String]>) -> Option<Vec<Route>> {
        let routes = self.state().routes.clone()?;
        let leads = |route: &Route| {
            names.is_none_or(|names| {
                route
                    .target_node
                    .as_ref()
                    .is_some_and(|node| names.contains(node))
            })
        };
        Some(routes.into_iter().filter(leads).collect())
    }

    /// Returns a route for each Pod CIDR of these nodes, as the route controller does.
    fn new_routes(&self, names: Option<&[String]>) -> Vec<NewRoute> {
        let of = |node: &Arc<Node>| -> Vec<NewRoute> {
            let route = |cidr: &String| NewRoute {
                name_hint: node.uid.clone(),
                target_node: node.name.clone(),
                target_provider_id: node.provider_id.clone(),
                target_addresses: node.addresses.clone(),
                destination_cidr: cidr.clone(),
            };
            node.pod_cidrs.iter().map(route).collect()
        };
        self.nodes(names).iter().flat_map(of).collect()
    }

    /// Returns nodes and Services for programs.
    pub(super) fn shown(&self) -> (Value, Value) {
        let state = self.state();
        let nodes = state.nodes.values().map(
            |node| json!({"name": node.name, "uid": node.uid, "providerID": node.provider_id, "podCIDRs": node.pod_cidrs}),
        );

        let services = state.services.values().map(|Served { service, .. }| {
            json!({
                "name": service.name, "namespace": service.namespace, "uid": service.uid,
                "status": service.status.json(),
            })
        });

        (nodes.collect(), services.collect())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, state: &State) {
        self.cluster
            .set_nodes(state.nodes.values().cloned().map(Arc::new).collect());
        let services = state.services.values().filter(|served| served.exists);
        self.cluster.set_services(
            services
                .map(|served| Arc::new(served.service.clone()))
                .collect(),
        );
    }
}

#[cfg(test)]
mod tests {
    use skydock_cloud::{AddressKind, Cluster as _, Ingress, NodeAddress};

    use super::*;

    fn world(text: &str) -> World {
        let world = World::default();
        world.give(&serde_saphyr::from_str(text).unwrap());
        world
    }

    #[test]
    fn a_described_node_gets_its_provider_id() {
        let world = world(
            "nodes: [{name: n2, podCIDRs: [10.1.0.0/24]}, {name: n1, podCIDRs: [10.2.0.0/24]}]",
        );
        let instance = Instance {
            provider_id: Some("x://1".into()),
            zone: Some("z".into()),
            ..Instance::default()
        };
        world.described("n1", &instance);

        let names = ["n2".to_owned(), "n1".to_owned(), "n1".to_owned()];
        let routes = world.new_routes(Some(names.get(1..2).unwrap()));
        assert_eq!(
            routes.first().unwrap().target_provider_id.as_deref(),
            Some("x://1")
        );

        let order: Vec<_> = world
            .targets(Some(&names))
            .iter()
            .map(|node| node.name.clone())
            .collect();
        assert_eq!(order, ["n1", "n2"]);

        let node = world.cluster.node("n1").unwrap();
        assert_eq!(
            node.labels
                .get("topology.kubernetes.io/zone")
                .map(String::as_str),
            Some("z")
        );

        world.give(&serde_saphyr::from_str("nodes: [{name: n1}]").unwrap());
        assert_eq!(
            world.cluster.node("n1").unwrap().provider_id.as_deref(),
            Some("x://1")
        );
    }

    #[test]
    fn a_deleted_service_does_not_exist() {
        let world = world("services: [{name: web, ports: [{port: 80}]}]");
        let status = LoadBalancerStatus {
            ingress: vec![Ingress {
                ip: Some("192.0.2.1".into()),
                ..Ingress::default()
            }],
        };
        world.service("web", Some(false)).unwrap();
        world.ensured("web", &status);
        assert_eq!(
            world.cluster.service("default", "web").unwrap().status,
            status
        );
        assert!(world.service("web", Some(true)).unwrap().deleting);
        world.deleted("web");
        assert!(world.cluster.services().is_empty());
        assert_eq!(
            world.service("web", None).unwrap().status,
            LoadBalancerStatus::default()
        );
    }

    #[test]
    fn a_described_node_gets_addresses_and_keeps_them() {
        let world = world("nodes: [{name: n1}]");
        let address = NodeAddress {
            kind: AddressKind::InternalIp,
            address: "10.0.0.1".into(),
        };
        world.described(
            "n1",
            &Instance {
                addresses: vec![address.clone()],
                ..Instance::default()
            },
        );
        world.described("n1", &Instance::default());
        assert_eq!(world.cluster.node("n1").unwrap().addresses, [address]);
    }

    #[test]
    fn routes_are_those_of_the_last_list() {
        let world = world("nodes: [{name: n1, podCIDRs: [10.1.0.0/24]}]");
        assert_eq!(world.routes(None), None);
        let to = |node: &str| Route {
            name: node.into(),
            target_node: Some(node.into()),
            target_addresses: None,
            destination_cidr: "10.1.0.0/24".into(),
            blackhole: false,
        };
        world.listed(&[to("n1"), to("n2")]);
        assert_eq!(world.routes(None), Some(vec![to("n1"), to("n2")]));
        assert_eq!(world.routes(Some(&["n2".to_owned()])), Some(vec![to("n2")]));
    }

    #[test]
    fn programs_see_nodes_and_services() {
        let (nodes, services) =
            world("nodes: [{name: n1}]\nservices: [{name: web, ports: [{port: 80}]}]").shown();
        assert_eq!(nodes[0]["name"], "n1");
        assert_eq!(
            (&services[0]["namespace"], &services[0]["name"]),
            (&"default".into(), &"web".into())
        );
    }
}
