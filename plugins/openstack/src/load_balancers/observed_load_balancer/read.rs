//! Reads a load balancer with its parts, with few concurrent requests.

use serde::Deserialize;
use skydock_sdk::{
    Result,
    http::{Method, Response},
    types::CloudError,
};

use crate::{
    cloud::{Cloud, Kind, ServiceRequest, page, send_all},
    load_balancers::{
        Context,
        observed_load_balancer::{ObservedLoadBalancer, Ownership},
    },
    services::octavia::{Listener, LoadBalancer, Member, Monitor, Pool},
};

#[derive(Deserialize)]
struct MonitorAnswer {
    healthmonitor: Monitor,
}

/// Which parts of a load balancer are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// All parts.
    Whole,
    /// All parts except monitors.
    Members,
    /// Listeners and pools.
    Listeners,
}

/// Reads the parts of a load balancer. Members and monitors are read only for this Service's
/// listeners.
pub(crate) fn read(
    context: Context<'_>,
    load_balancer: LoadBalancer,
    ownership: &Ownership,
    depth: Depth,
) -> Result<ObservedLoadBalancer> {
    let Context { cloud, desired, .. } = context;
    let query = || vec![("loadbalancer_id", load_balancer.id.as_str())];
    let listeners = cloud.list(Kind::LoadBalancer, "/lbaas/listeners", query())?;
    let pools: Vec<Pool> = cloud.list(Kind::LoadBalancer, "/lbaas/pools", query())?;

    let mut observed = ObservedLoadBalancer {
        load_balancer,
        listeners,
        pools,
        ..ObservedLoadBalancer::default()
    };
    if depth == Depth::Listeners {
        return Ok(observed);
    }

    // If the cluster was renamed, its listeners still have the old tag.
    let is_own = |observed: &ObservedLoadBalancer, listener: &&Listener| {
        observed.is_own(listener, desired, ownership) || ownership.renamed_from.is_some()
    };

    let own: Vec<&Pool> = observed
        .listeners
        .iter()
        .filter(|listener| is_own(&observed, listener))
        .filter_map(|listener| observed.pool(&listener.id))
        .collect();

    let requests = requests(cloud, &own, depth)?;

    // Members come first in the answers, in the order of the pools.
    let ids: Vec<String> = own.iter().map(|pool| pool.id.clone()).collect();
    let mut answers = send_all(requests).into_iter();
    for (id, answer) in ids.into_iter().zip(answers.by_ref()) {
        let members = members(cloud, &id, &answer?)?;
        observed.members.insert(id, members);
    }

    for answer in answers {
        match answer {
            Ok(answer) => {
                let monitor = answer.json::<MonitorAnswer>()?.healthmonitor;
                observed.monitors.insert(monitor.id.clone(), monitor);
            }
            // It was deleted after its pool was read.
            Err(CloudError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }

    Ok(observed)
}

/// Returns the requests for the members of these pools, and then for their monitors.
fn requests(cloud: &Cloud<'_>, pools: &[&Pool], depth: Depth) -> Result<Vec<ServiceRequest>> {
    let mut requests = Vec::new();
    for pool in pools {
        let path = format!("/lbaas/pools/{}/members", pool.id);
        requests.push(cloud.request(
            Method::Get,
            Kind::LoadBalancer,
            &path,
            "cannot list members",
        )?);
    }

    let monitors = pools
        .iter()
        .filter_map(|pool| pool.healthmonitor_id.as_ref())
        .filter(|_| depth == Depth::Whole);
    for id in monitors {
        let path = format!("/lbaas/healthmonitors/{id}");
        requests.push(cloud.request(
            Method::Get,
            Kind::LoadBalancer,
            &path,
            "cannot read a health monitor",
        )?);
    }
    Ok(requests)
}

/// Returns the members of a pool from an answer with the first page of them.
fn members(cloud: &Cloud<'_>, pool: &str, answer: &Response) -> Result<Vec<Member>> {
    let (members, next) = page::<Member>(answer, "members")?;
    if next.is_none() {
        return Ok(members);
    }
    let path = format!("/lbaas/pools/{pool}/members");
    cloud.list(Kind::LoadBalancer, &path, vec![])
}
