//! Reads a load balancer with its parts, with few concurrent requests.

use serde::Deserialize;
use skydock_sdk::{Result, http::Method, types::CloudError};

use super::{
    tree::{Ownership, Tree},
    want::Want,
};
use crate::{
    cloud::{Cloud, Kind, send_all},
    services::octavia::{LoadBalancer, Member, Monitor, Pool},
};

#[derive(Deserialize)]
struct MonitorAnswer {
    healthmonitor: Monitor,
}

/// Which parts of a load balancer are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// All parts.
    Whole,
    /// All parts except monitors.
    Members,
    /// Listeners and pools.
    Listeners,
}

/// Reads the parts of a load balancer. Members and monitors are read only for this Service's
/// listeners.
pub(super) fn read(
    cloud: &Cloud<'_>,
    load_balancer: LoadBalancer,
    want: &Want,
    ownership: &Ownership,
    depth: Depth,
) -> Result<Tree> {
    let query = || vec![("loadbalancer_id", load_balancer.id.as_str())];
    let listeners = cloud.list(Kind::LoadBalancer, "/lbaas/listeners", query())?;
    let pools: Vec<Pool> = cloud.list(Kind::LoadBalancer, "/lbaas/pools", query())?;

    let mut tree = Tree {
        load_balancer,
        listeners,
        pools,
        ..Tree::default()
    };
    if depth == Depth::Listeners {
        return Ok(tree);
    }

    // If the cluster was renamed, its listeners still have the old tag.
    let is_own = |tree: &Tree, listener: &&crate::services::octavia::Listener| {
        tree.is_own(listener, want, ownership) || ownership.renamed_from.is_some()
    };

    let own: Vec<&Pool> = tree
        .listeners
        .iter()
        .filter(|listener| is_own(&tree, listener))
        .filter_map(|listener| tree.pool(&listener.id))
        .collect();

    let mut asks = Vec::new();
    for pool in &own {
        let path = format!("/lbaas/pools/{}/members", pool.id);
        asks.push(cloud.ask(
            Method::Get,
            Kind::LoadBalancer,
            &path,
            "cannot list members",
        )?);
    }

    let monitors = own
        .iter()
        .filter_map(|pool| pool.healthmonitor_id.as_ref())
        .filter(|_| depth == Depth::Whole);
    for id in monitors {
        let path = format!("/lbaas/healthmonitors/{id}");
        asks.push(cloud.ask(
            Method::Get,
            Kind::LoadBalancer,
            &path,
            "cannot read a health monitor",
        )?);
    }

    // Members come first in the answers, in the order of the pools.
    let ids: Vec<String> = own.iter().map(|pool| pool.id.clone()).collect();
    let mut answers = send_all(asks).into_iter();
    for (id, answer) in ids.into_iter().zip(answers.by_ref()) {
        let (mut members, mut next) = crate::cloud::page::<Member>(&answer?, "members")?;
        if next.take().is_some() {
            members = cloud.list(
                Kind::LoadBalancer,
                &format!("/lbaas/pools/{id}/members"),
                vec![],
            )?;
        }
        tree.members.insert(id, members);
    }

    for answer in answers {
        match answer {
            Ok(answer) => {
                let monitor = answer.json::<MonitorAnswer>()?.healthmonitor;
                tree.monitors.insert(monitor.id.clone(), monitor);
            }
            // It was deleted after its pool was read.
            Err(CloudError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }

    Ok(tree)
}
