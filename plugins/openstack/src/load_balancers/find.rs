//! Which load balancer is a Service's.

use serde::Deserialize;
use skydock_sdk::{
    Result,
    http::{self, Method},
    types::{CloudError, Service},
};

use super::{is_noted, names, served, want::Want};
use crate::{
    cloud::{Cloud, Kind},
    octavia::{LoadBalancer, Phase},
};

/// A load balancer, and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The load balancer.
    pub(super) load_balancer: LoadBalancer,
    /// True if its name led to it, not an annotation.
    pub(super) by_name: bool,
}

#[derive(Deserialize)]
struct Answer {
    loadbalancer: LoadBalancer,
}

/// The load balancer of a Service; none if there is none.
pub(super) fn find(cloud: &Cloud<'_>, id: &str, name: &str, service: &Service) -> Result<Option<Found>> {
    if !id.is_empty() {
        let found = by_id(cloud, id)?.map(|load_balancer| Found { load_balancer, by_name: false });
        // One that is gone may have a successor that the annotation does not know yet.
        return if found.is_some() { Ok(found) } else { by_name(cloud, name, service) };
    }
    let found = by_name(cloud, name, service)?;
    // Names from before Kubernetes 1.14: only what has served for long can have one.
    if found.is_none() && (served(service) || service.deleting) {
        return by_name(cloud, &names::legacy(service), service);
    }
    Ok(found)
}

/// The load balancer of a Service that is to have one.
///
/// # Errors
/// If the user has named one that is not there: another is not what was asked for.
pub(super) fn find_or_none(cloud: &Cloud<'_>, want: &Want, service: &Service) -> Result<Option<Found>> {
    let found = find(cloud, &want.id, &want.name, service)?;
    if found.is_none() && !want.id.is_empty() && !served(service) && !is_noted(service) {
        return Err(CloudError::not_found(format!(
            "there is no load balancer {}, which annotation {} names",
            want.id,
            super::annotation::LOAD_BALANCER_ID
        )));
    }
    Ok(found)
}

/// The load balancer of this ID.
pub(super) fn by_id(cloud: &Cloud<'_>, id: &str) -> Result<Option<LoadBalancer>> {
    let path = format!("/lbaas/loadbalancers/{}", http::segment(id)?);
    let ask = cloud.ask(Method::Get, Kind::LoadBalancer, &path, format!("cannot read load balancer {id}"))?;
    match ask.send_for("faultstring")? {
        Some(answer) => Ok(Some(answer.json::<Answer>()?.loadbalancer)),
        None => Ok(None),
    }
}

/// The load balancer of this name. One that is being deleted counts as long as there is no other.
///
/// A request whose sender was killed may reach Octavia after the next one has looked, and made another. As long as none serves, or all are
/// to go, any of them will do, as long as everybody takes the same.
fn by_name(cloud: &Cloud<'_>, name: &str, service: &Service) -> Result<Option<Found>> {
    let found = called(cloud, name)?.into_iter().filter(|balancer| balancer.provisioning_status != "DELETED");
    let (going, mut staying): (Vec<_>, Vec<_>) = found.partition(|balancer| balancer.phase() == Phase::Going);
    if staying.len() > 1 && served(service) && !service.deleting {
        return Err(CloudError::internal(format!(
            "{} load balancers are called {name}: delete all but one, or name one with annotation {}",
            staying.len(),
            super::annotation::LOAD_BALANCER_ID
        )));
    }
    staying.sort_by(|one, other| one.id.cmp(&other.id));
    let found = staying.into_iter().next().or_else(|| going.into_iter().next());
    Ok(found.map(|load_balancer| Found { load_balancer, by_name: true }))
}

/// All load balancers of this name.
pub(super) fn called(cloud: &Cloud<'_>, name: &str) -> Result<Vec<LoadBalancer>> {
    let found: Vec<LoadBalancer> = cloud.list(Kind::LoadBalancer, "/lbaas/loadbalancers", vec![("name", name)])?;
    Ok(found.into_iter().filter(|balancer| balancer.name == name).collect())
}
