//! Load balancers of Services. Each has a name that follows from the Service's UID: a create whose
//! answer was lost is found by it.
use std::time::Duration;

use serde_json::{Map, Value, json};
use skydock_sdk::{
    Result,
    http::{self, Request},
    load_balancers::Target,
    types::{CloudError, Ingress, IpFamily, LoadBalancerStatus, Service, TrafficPolicy, Transport},
};

use crate::{
    api::{Listener, LoadBalancer, LoadBalancerSpec, Page, Status},
    cloud::{Cloud, ask, deleted, server_id},
};

/// When to look again at a load balancer that is being created.
const CREATING: Duration = Duration::from_secs(1);
const KIND: &str = "load-balancers";

/// Returns the load balancer of a Service.
pub(crate) fn get(cloud: &Cloud<'_>, service: &Service) -> Result<Option<LoadBalancerStatus>> {
    Ok(find_own(cloud, service)?.as_ref().map(status))
}

/// Creates or updates the load balancer of a Service.
pub(crate) fn ensure(
    cloud: &Cloud<'_>,
    service: &Service,
    targets: &[Target],
) -> Result<LoadBalancerStatus> {
    let wanted = wanted(cloud, service, targets)?;

    let current = match find(cloud, service)? {
        // If another host creates it at the same time, this is a conflict, and the retry finds it.
        None => ask(Request::post(cloud.config.list(KIND)).json(&wanted)?)?,
        Some(current) if cloud.owns(&current.spec.labels) => current,
        Some(other) => {
            return Err(CloudError::invalid(format!(
                "the load balancer {} is another cluster's",
                other.id
            )));
        }
    };

    settled(&current)?;
    if current.spec.ip_families != wanted.ip_families {
        let message =
            "the IP families of a load balancer cannot be changed: create the Service again";
        return Err(CloudError::invalid(message));
    }

    Ok(status(&update(cloud, current, changes(&wanted))?))
}

/// Sets the targets of the load balancer of a Service, and nothing else.
pub(crate) fn update_nodes(cloud: &Cloud<'_>, service: &Service, targets: &[Target]) -> Result<()> {
    let none = || CloudError::not_found(format!("no load balancer {}", name(service)));
    let current = find_own(cloud, service)?.ok_or_else(none)?;
    settled(&current)?;
    let changes = Map::from_iter([("targets".to_owned(), json!(servers(targets)))]);
    update(cloud, current, changes).map(|_| ())
}

/// Deletes the load balancer of a Service, in whatever state it is.
pub(crate) fn ensure_deleted(cloud: &Cloud<'_>, service: &Service) -> Result<()> {
    let Some(current) = find_own(cloud, service)? else {
        return Ok(());
    };
    deleted(http::send(Request::delete(
        cloud.config.object(KIND, &current.id)?,
    ))?)
}

fn name(service: &Service) -> String {
    format!("k8s-{}", service.uid)
}

fn find(cloud: &Cloud<'_>, service: &Service) -> Result<Option<LoadBalancer>> {
    let page: Page<LoadBalancer> = ask(cloud.config.named(KIND, &name(service)))?;
    // Names are unique.
    Ok(page.items.into_iter().next())
}

fn find_own(cloud: &Cloud<'_>, service: &Service) -> Result<Option<LoadBalancer>> {
    Ok(find(cloud, service)?.filter(|found| cloud.owns(&found.spec.labels)))
}

/// Returns the load balancer that a Service asks for.
fn wanted(cloud: &Cloud<'_>, service: &Service, targets: &[Target]) -> Result<LoadBalancerSpec> {
    if let Some(address) = &service.load_balancer_ip {
        return Err(CloudError::invalid(format!(
            "the address {address} cannot be requested: remove loadBalancerIP"
        )));
    }

    let listener = |port: &skydock_sdk::types::ServicePort| {
        let protocol = match port.transport {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
            Transport::Sctp => {
                return Err(CloudError::invalid(format!(
                    "port {}: SCTP is not supported",
                    port.port
                )));
            }
        };

        // The targets are servers, on which only a node port leads to Pods.
        if port.node_port == 0 {
            let message = format!(
                "port {} has no node port: set allocateLoadBalancerNodePorts",
                port.port
            );
            return Err(CloudError::invalid(message));
        }

        Ok(Listener {
            protocol: protocol.to_owned(),
            port: port.port,
            target_port: port.node_port,
        })
    };

    let family = |family: &IpFamily| match family {
        IpFamily::Ipv4 => "ipv4".to_owned(),
        IpFamily::Ipv6 => "ipv6".to_owned(),
    };

    let local = service.external_traffic_policy == TrafficPolicy::Local
        && service.health_check_node_port != 0;

    Ok(LoadBalancerSpec {
        name: name(service),
        ip_families: service.ip_families.iter().map(family).collect(),
        listeners: service.ports.iter().map(listener).collect::<Result<_>>()?,
        targets: servers(targets),
        allowed_cidrs: service.source_ranges.clone(),
        health_check_port: local.then_some(service.health_check_node_port),
        labels: cloud.labels([(
            "service",
            &format!("{}/{}", service.namespace, service.name),
        )]),
    })
}

/// Returns the IDs of the nodes' servers. Nodes without a provider ID come with a later call;
/// others are another cloud's.
fn servers(targets: &[Target]) -> Vec<String> {
    targets
        .iter()
        .filter_map(|target| server_id(target.provider_id.as_deref()?))
        .map(str::to_owned)
        .collect()
}

/// Returns what can be changed.
fn changes(wanted: &LoadBalancerSpec) -> Map<String, Value> {
    let fields = [
        ("listeners", json!(wanted.listeners)),
        ("targets", json!(wanted.targets)),
        ("allowed_cidrs", json!(wanted.allowed_cidrs)),
        ("health_check_port", json!(wanted.health_check_port)),
        ("labels", json!(wanted.labels)),
    ];
    fields
        .into_iter()
        .map(|(field, value)| (field.to_owned(), value))
        .collect()
}

/// Sends the changes that are different from the current state, if there are any.
fn update(
    cloud: &Cloud<'_>,
    current: LoadBalancer,
    mut changes: Map<String, Value>,
) -> Result<LoadBalancer> {
    let there = json!(current.spec);
    changes.retain(|field, value| there.get(field) != Some(value));
    if changes.is_empty() {
        return Ok(current);
    }
    ask(Request::patch(cloud.config.object(KIND, &current.id)?).json(&changes)?)
}

/// Checks that the load balancer is neither being created nor broken.
fn settled(current: &LoadBalancer) -> Result<()> {
    let id = &current.id;
    match current.status {
        Status::Active => Ok(()),
        Status::Pending => Err(CloudError::in_progress(
            CREATING,
            format!("the load balancer {id} is being created"),
        )),
        Status::Error => Err(CloudError::unavailable(format!(
            "the load balancer {id} is broken: create the Service again"
        ))),
    }
}

fn status(current: &LoadBalancer) -> LoadBalancerStatus {
    let ingress = |ip: &std::net::IpAddr| Ingress {
        ip: Some(ip.to_string()),
        ..Ingress::default()
    };

    LoadBalancerStatus {
        ingress: current.addresses.iter().map(ingress).collect(),
    }
}

#[cfg(test)]
mod tests;
