//! The cloud's interface for controllers.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use rand::Rng as _;
use skydock_cloud::{
    AddressKind, Answers, Capability, CloudError, CloudProvider, Ingress, Instance,
    LoadBalancerStatus, NewRoute, Node, NodeAddress, NodeSet, Presence, ProviderInfo, Route,
    Service, Zone,
};
use tokio::time::sleep;

use super::{Balancer, Cloud, Machine, Mishap, NOTE, PREFIX, REJECT, State};

/// The delay in milliseconds, both before and after the work of a call.
const LATENCY: std::ops::RangeInclusive<u64> = 1..=40;
/// How long the plugin runtime waits for an answer.
const DEADLINE: Duration = Duration::from_secs(30);

/// How much of its work a call does.
#[derive(Clone, Debug)]
enum Extent {
    Whole,
    /// A part of the work, followed by this error.
    Half(CloudError),
    /// No work, but a successful answer.
    Lie,
}

impl Cloud {
    /// Performs one call. It continues even if nobody waits for it, like a request that was sent
    /// before its sender was killed.
    async fn call<T: Send + 'static>(
        &self,
        call: &'static str,
        what: String,
        work: impl FnOnce(&mut State, Extent) -> Result<T, CloudError> + Send + 'static,
    ) -> Result<T, CloudError> {
        let cloud = self.clone();
        let answer = tokio::spawn(async move {
            let (mishap, before, after) = {
                let mut state = cloud.lock();
                state.calls.push(format!("{call} {what}"));
                let mishap = state.fate(call);
                (
                    mishap,
                    state.chance.random_range(LATENCY),
                    state.chance.random_range(LATENCY),
                )
            };
            let lost = || Err(CloudError::Unavailable("no answer in time".to_owned()));
            sleep(Duration::from_millis(before)).await;
            let (answer, wait) = {
                let mut state = cloud.lock();
                match mishap {
                    None => (work(&mut state, Extent::Whole), Duration::ZERO),
                    Some(Mishap::Slow(time)) => (work(&mut state, Extent::Whole), time),
                    Some(Mishap::Rejected(error)) => (Err(error), Duration::ZERO),
                    Some(Mishap::HalfDone(error)) => {
                        (work(&mut state, Extent::Half(error)), Duration::ZERO)
                    }
                    Some(Mishap::Lie) => (work(&mut state, Extent::Lie), Duration::ZERO),
                    Some(Mishap::Hangs { done: false }) => (lost(), DEADLINE),
                    Some(Mishap::Hangs { done: true }) => {
                        drop(work(&mut state, Extent::Whole));
                        (lost(), DEADLINE)
                    }
                    Some(Mishap::AnswerLost) => {
                        drop(work(&mut state, Extent::Whole));
                        (lost(), Duration::ZERO)
                    }
                }
            };
            sleep(Duration::from_millis(after) + wait).await;
            answer
        });
        answer
            .await
            .unwrap_or_else(|error| Err(CloudError::Internal(error.to_string())))
    }

    /// Performs a call that returns one answer per node.
    async fn about_nodes<T: Send + 'static>(
        &self,
        call: &'static str,
        nodes: &[Arc<Node>],
        one: impl Fn(&mut State, &Node, bool) -> Result<T, CloudError> + Send + 'static,
    ) -> Result<Answers<T>, CloudError> {
        let nodes = nodes.to_vec();
        self.call(call, names(&nodes), move |state, extent| {
            let lie = matches!(extent, Extent::Lie);
            let answer = |node: &Arc<Node>| match &extent {
                Extent::Half(error) if state.coin() => Err(error.clone()),
                _ => one(state, node, lie),
            };
            Ok(nodes.iter().map(answer).collect())
        })
        .await
    }
}

#[async_trait]
impl CloudProvider for Cloud {
    fn info(&self) -> Arc<ProviderInfo> {
        Arc::new(ProviderInfo {
            name: "sim".to_owned(),
            version: "1".to_owned(),
            capabilities: Capability::ALL.into(),
            provider_id_prefixes: vec![PREFIX.to_owned()],
            annotation_prefixes: Vec::new(),
            max_batch: 3,
            driver: None,
        })
    }

    async fn check(&self, nodes: &[Arc<Node>]) -> Result<Answers<Presence>, CloudError> {
        self.about_nodes("check", nodes, |state, node, lie| {
            if state.blind {
                return Ok(Presence::Absent);
            }
            let Some((id, machine)) = state
                .machine_of(node)
                .map(|(id, machine)| (id.clone(), machine.clone()))
            else {
                return Ok(Presence::Absent);
            };
            if lie && state.lied.insert(id.clone()) {
                return Ok(Presence::Absent);
            }
            state.lied.remove(&id);
            Ok(if machine.running {
                Presence::Running
            } else {
                Presence::Stopped
            })
        })
        .await
    }

    async fn describe(&self, nodes: &[Arc<Node>]) -> Result<Answers<Instance>, CloudError> {
        self.about_nodes("describe", nodes, |state, node, _| {
            let unknown = || CloudError::NotFound(format!("no machine for {}", node.name));
            let (
                id,
                Machine {
                    name, address: ip, ..
                },
            ) = state.machine_of(node).ok_or_else(unknown)?;
            let address = |kind, address: &str| NodeAddress {
                kind,
                address: address.to_owned(),
            };
            Ok(Instance {
                provider_id: Some(id.clone()),
                instance_type: Some("sim.small".to_owned()),
                zone: Some("sim-1a".to_owned()),
                region: Some("sim-1".to_owned()),
                addresses: vec![
                    address(AddressKind::InternalIp, ip),
                    address(AddressKind::Hostname, name),
                ],
                ..Instance::default()
            })
        })
        .await
    }

    async fn get_load_balancer(
        &self,
        service: &Service,
    ) -> Result<Option<LoadBalancerStatus>, CloudError> {
        let uid = service.uid.clone();
        self.call("get", key(service), move |state, extent| match extent {
            Extent::Half(error) => Err(error),
            _ => Ok(state
                .balancers
                .get(&uid)
                .filter(|balancer| balancer.whole)
                .map(Balancer::status)),
        })
        .await
    }

    async fn ensure_load_balancer(
        &self,
        service: &Service,
        nodes: &NodeSet,
    ) -> Result<LoadBalancerStatus, CloudError> {
        let (service, nodes) = (service.clone(), nodes.clone());
        let what = format!("{} [{}]", key(&service), names(&nodes));
        self.call("ensure", what, move |state, extent| {
            check_service(&service)?;
            if !state.balancers.contains_key(&service.uid) {
                let made = Balancer {
                    service: key(&service),
                    address: state.address("192.0"),
                    ports: Vec::new(),
                    note: String::new(),
                    nodes: [].into(),
                    whole: false,
                };
                state.balancers.insert(service.uid.clone(), made);
            }
            let Some(balancer) = state.balancers.get_mut(&service.uid) else {
                return Err(no_balancer(&service));
            };
            balancer.ports = service.ports.iter().map(|port| port.port).collect();
            if let Extent::Half(error) = extent {
                return Err(error);
            }
            balancer.note = service.annotations.get(NOTE).cloned().unwrap_or_default();
            balancer.nodes = ids(&nodes);
            balancer.whole = true;
            Ok(balancer.status())
        })
        .await
    }

    async fn update_load_balancer(
        &self,
        service: &Service,
        nodes: &NodeSet,
    ) -> Result<(), CloudError> {
        let (service, nodes) = (service.clone(), nodes.clone());
        let what = format!("{} [{}]", key(&service), names(&nodes));
        self.call("update", what, move |state, extent| {
            check_service(&service)?;
            let balancer = state
                .balancers
                .get_mut(&service.uid)
                .filter(|balancer| balancer.whole);
            let balancer = balancer.ok_or_else(|| no_balancer(&service))?;
            match extent {
                Extent::Half(error) => {
                    // The first node is set, the others are not.
                    balancer.nodes = ids(&nodes).into_iter().take(1).collect();
                    Err(error)
                }
                _ => {
                    balancer.nodes = ids(&nodes);
                    Ok(())
                }
            }
        })
        .await
    }

    async fn ensure_load_balancer_deleted(&self, service: &Service) -> Result<(), CloudError> {
        let service = service.clone();
        self.call("delete", key(&service), move |state, extent| {
            if !state.released.contains(&service.uid) {
                let wrong = format!(
                    "the load balancer of {} was deleted, which was wanted all along",
                    key(&service)
                );
                state.wrongs.push(wrong);
            }
            if let Extent::Half(error) = extent {
                if let Some(balancer) = state.balancers.get_mut(&service.uid) {
                    balancer.whole = false;
                }
                return Err(error);
            }
            state.balancers.remove(&service.uid);
            Ok(())
        })
        .await
    }

    async fn list_routes(&self) -> Result<Vec<Route>, CloudError> {
        self.call("list-routes", String::new(), |state, extent| match extent {
            Extent::Half(error) => Err(error),
            Extent::Lie => Ok(Vec::new()),
            Extent::Whole => Ok(state.list_routes()),
        })
        .await
    }

    async fn create_routes(&self, routes: &[NewRoute]) -> Result<Answers<()>, CloudError> {
        let routes = routes.to_vec();
        self.call(
            "create-routes",
            routes.len().to_string(),
            move |state, extent| {
                let create = |new: NewRoute| match &extent {
                    Extent::Half(error) if state.coin() => Err(error.clone()),
                    _ => state.create_route(new),
                };
                Ok(routes.into_iter().map(create).collect())
            },
        )
        .await
    }

    async fn delete_routes(&self, routes: &[Route]) -> Result<Answers<()>, CloudError> {
        let routes = routes.to_vec();
        self.call(
            "delete-routes",
            routes.len().to_string(),
            move |state, extent| {
                let delete = |gone: Route| match &extent {
                    Extent::Half(error) if state.coin() => Err(error.clone()),
                    _ => state.delete_route(&gone),
                };
                Ok(routes.into_iter().map(delete).collect())
            },
        )
        .await
    }

    async fn maintain(&self) -> Result<Duration, CloudError> {
        Ok(Duration::from_secs(3600))
    }

    async fn locate(&self, nodes: &[Arc<Node>]) -> Result<Answers<Zone>, CloudError> {
        self.about_nodes("locate", nodes, |state, node, _| {
            let known = state.machine_of(node).is_some();
            let zone = Zone {
                zone: Some("sim-1a".to_owned()),
                region: None,
            };
            if known {
                Ok(zone)
            } else {
                Err(CloudError::NotFound(format!(
                    "no machine for {}",
                    node.name
                )))
            }
        })
        .await
    }
}

impl Balancer {
    fn status(&self) -> LoadBalancerStatus {
        LoadBalancerStatus {
            ingress: vec![Ingress {
                ip: Some(self.address.clone()),
                ..Ingress::default()
            }],
        }
    }
}

/// Rejects unsupported services before any work is done.
fn check_service(service: &Service) -> Result<(), CloudError> {
    if service.annotations.contains_key(REJECT) {
        return Err(CloudError::Invalid(format!(
            "annotation {REJECT} asks to be rejected"
        )));
    }
    Ok(())
}

fn no_balancer(service: &Service) -> CloudError {
    CloudError::NotFound(format!("{} has no load balancer", key(service)))
}

fn ids(nodes: &[Arc<Node>]) -> std::collections::BTreeSet<(String, Option<String>)> {
    nodes
        .iter()
        .map(|node| (node.name.clone(), node.provider_id.clone()))
        .collect()
}

fn key(service: &Service) -> String {
    format!("{}/{}", service.namespace, service.name)
}

fn names(nodes: &[Arc<Node>]) -> String {
    nodes
        .iter()
        .map(|node| node.name.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}
