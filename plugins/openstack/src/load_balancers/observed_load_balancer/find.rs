//! Finds the load balancer of a Service.

use serde::Deserialize;
use skydock_sdk::{
    Result,
    http::{self, Method},
    types::{CloudError, Service},
};

use crate::{
    cloud::{Cloud, Kind},
    load_balancers::{
        Context, annotation,
        desired_load_balancer::DesiredLoadBalancer,
        floating_ip, had_address, is_id_stored, names,
        observed_load_balancer::{
            Ownership,
            cluster_check::{Location, location},
            old_name,
        },
    },
    services::octavia::{LoadBalancer, Phase},
};

/// A load balancer, and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) load_balancer: LoadBalancer,
    /// True if it was found by its name, not by an annotation.
    pub(crate) by_name: bool,
}

#[derive(Deserialize)]
struct Answer {
    loadbalancer: LoadBalancer,
}

/// Returns the load balancer of a Service, if there is one.
pub(crate) fn find(
    cloud: &Cloud<'_>,
    id: &str,
    name: &str,
    service: &Service,
) -> Result<Option<Found>> {
    if !id.is_empty() {
        let found = by_id(cloud, id)?.map(|load_balancer| Found {
            load_balancer,
            by_name: false,
        });
        // A deleted load balancer may have been replaced by one that is not in the annotation yet.
        return if found.is_some() {
            Ok(found)
        } else {
            by_name(cloud, name, service)
        };
    }

    let found = by_name(cloud, name, service)?;
    if found.is_some() || !(had_address(service) || service.deleting) {
        return Ok(found);
    }

    // Names used before Kubernetes 1.14, which only load balancers of old Services can have.
    match by_name(cloud, &names::legacy(service), service)? {
        Some(found) => Ok(Some(found)),
        None => by_address(cloud, name, service),
    }
}

/// Returns the load balancer with the address of a Service that was created for it when the cluster
/// had another name. An address that is not a floating IP may also exist in a network of another
/// cluster, so the members have to be nodes of this one.
fn by_address(cloud: &Cloud<'_>, name: &str, service: &Service) -> Result<Option<Found>> {
    for address in floating_ip::addresses(service) {
        let port = floating_ip::with_address(cloud, address)?.and_then(|floating| floating.port_id);
        let query = match port.as_deref() {
            Some(port) => ("vip_port_id", port),
            None => ("vip_address", address),
        };

        let found: Vec<LoadBalancer> =
            cloud.list(Kind::LoadBalancer, "/lbaas/loadbalancers", vec![query])?;

        let is_own = |balancer: &LoadBalancer| {
            let has = match port.as_deref() {
                Some(port) => balancer.vip_port_id.as_deref() == Some(port),
                None => balancer.vip_address.as_deref() == Some(address),
            };
            has && balancer.phase() != Phase::Deleting
                && names::cluster_of(&balancer.name, service).is_some()
                && old_name(balancer, name, service, cloud.cluster).is_some()
        };
        let Some(load_balancer) = found.into_iter().find(is_own) else {
            continue;
        };

        let named = DesiredLoadBalancer {
            name: load_balancer.name.clone(),
            ..DesiredLoadBalancer::default()
        };
        let found = Found {
            load_balancer,
            by_name: false,
        };

        let context = Context {
            cloud,
            service,
            desired: &named,
        };
        // A floating IP leads to one port only, so its members need not be checked.
        if port.is_some() || location(context, &found)? == Location::Here {
            return Ok(Some(found));
        }
    }

    Ok(None)
}

/// Returns the load balancer of a Service that needs one.
///
/// # Errors
/// Fails if the load balancer that the user named does not exist. Another one is not used instead.
pub(crate) fn find_or_none(
    cloud: &Cloud<'_>,
    desired: &DesiredLoadBalancer,
    service: &Service,
) -> Result<Option<Found>> {
    let found = find(cloud, &desired.id, &desired.name, service)?;
    if found.is_none() && !desired.id.is_empty() && !had_address(service) && !is_id_stored(service)
    {
        return Err(CloudError::not_found(format!(
            "load balancer {} in annotation {} does not exist",
            desired.id,
            annotation::LOAD_BALANCER_ID
        )));
    }

    Ok(found)
}

pub(crate) fn by_id(cloud: &Cloud<'_>, id: &str) -> Result<Option<LoadBalancer>> {
    let path = format!("/lbaas/loadbalancers/{}", http::segment(id)?);
    let request = cloud.request(
        Method::Get,
        Kind::LoadBalancer,
        &path,
        format!("cannot read load balancer {id}"),
    )?;

    match request.send_for("faultstring")? {
        Some(answer) => Ok(Some(answer.json::<Answer>()?.loadbalancer)),
        None => Ok(None),
    }
}

/// Returns the load balancer with this name. One that is being deleted is returned only if there is
/// no other.
///
/// A request of a client that was killed may reach Octavia after the next client has checked, so
/// that both create a load balancer. As long as none of them serves, or all of them are to be
/// deleted, any of them can be used if all clients choose the same one.
fn by_name(cloud: &Cloud<'_>, name: &str, service: &Service) -> Result<Option<Found>> {
    let found = with_name(cloud, name)?
        .into_iter()
        .filter(|balancer| balancer.provisioning_status != "DELETED");
    let (going, mut staying): (Vec<_>, Vec<_>) =
        found.partition(|balancer| balancer.phase() == Phase::Deleting);

    if staying.len() > 1 && had_address(service) && !service.deleting {
        return Err(CloudError::denied(format!(
            "there are {} load balancers with the name {name}: delete all but one, or select one with annotation {}",
            staying.len(),
            annotation::LOAD_BALANCER_ID
        )));
    }

    // By ID, so that all clients choose the same one.
    staying.sort_by(|one, other| one.id.cmp(&other.id));
    let found = staying
        .into_iter()
        .next()
        .or_else(|| going.into_iter().next());
    Ok(found.map(|load_balancer| Found {
        load_balancer,
        by_name: true,
    }))
}

/// Returns all load balancers with this name.
pub(crate) fn with_name(cloud: &Cloud<'_>, name: &str) -> Result<Vec<LoadBalancer>> {
    let found: Vec<LoadBalancer> = cloud.list(
        Kind::LoadBalancer,
        "/lbaas/loadbalancers",
        vec![("name", name)],
    )?;
    Ok(found
        .into_iter()
        .filter(|balancer| balancer.name == name)
        .collect())
}

/// Returns all load balancers with this tag.
pub(crate) fn tagged(cloud: &Cloud<'_>, tag: &str) -> Result<Vec<LoadBalancer>> {
    let mut found: Vec<LoadBalancer> = cloud.list(
        Kind::LoadBalancer,
        "/lbaas/loadbalancers",
        vec![("tags", tag)],
    )?;

    found.retain(|balancer| {
        balancer.provisioning_status != "DELETED" && balancer.tags.iter().any(|other| other == tag)
    });
    Ok(found)
}

/// Returns [`Ownership::of`]. Sends requests to the cloud only if the ownership depends on them.
pub(crate) fn ownership_of(
    context: Context<'_>,
    balancer: &LoadBalancer,
    found_by_name: bool,
) -> Result<Ownership> {
    let Context {
        cloud,
        service,
        desired,
    } = context;
    let serves = old_name(balancer, &desired.name, service, cloud.cluster).is_some()
        && floating_ip::serves(cloud, service, balancer)?;
    Ok(Ownership::of(
        balancer,
        desired,
        service,
        cloud.cluster,
        found_by_name,
        serves,
    ))
}
