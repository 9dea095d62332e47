//! The security group of a network load balancer's own (`NLBSecurityGroupMode = Managed`).

use std::collections::BTreeSet;

use skydock_sdk::{Result, log, types::Service};

use super::{
    observed::Observed,
    wish::{Security, Wish},
};
use crate::{balancer::security_group, cloud::Cloud, tags::Cluster};

/// The official provider's words.
const DESCRIPTION: &str = "[k8s] Managed SecurityGroup for LoadBalancer";

/// The group, which is made if there is none.
///
/// # Errors
/// If AWS refuses.
pub(crate) fn ensure(cloud: &Cloud<'_>, cluster: &Cluster, vpc: &str, name: &str, wish: &Wish) -> Result<String> {
    cloud.own_group(cluster, vpc, name, DESCRIPTION, &wish.tags)
}

/// Sees to the group's rules, and takes away the one before.
///
/// # Errors
/// If AWS refuses.
pub(super) fn settle(
    cloud: &Cloud<'_>,
    cluster: &Cluster,
    service: &Service,
    wish: &Wish,
    observed: &Observed,
    before: &[String],
    fresh: bool,
) -> Result<()> {
    let now = &observed.balancer.security_groups.items;
    let own = if fresh { now.first() } else { observed.managed_group.as_ref() };
    if let (Security::Managed(_), Some(own)) = (&wish.security, own) {
        cloud.set_rules(own, &security_group::rules(&ports(wish), &wish.ranges))?;
    }
    let detached: Vec<String> = before.iter().filter(|id| !now.contains(id)).cloned().collect();
    if let Err(error) = cloud.remove_groups(cluster, service, &detached, &[]) {
        // The load balancer is as asked for; what it had before is tried again when it is deleted by hand.
        log::warn("groups", format_args!("what load balancer {} had before stays: {error:?}", wish.name));
    }
    Ok(())
}

fn ports(wish: &Wish) -> BTreeSet<(&'static str, u16)> {
    let mut ports = BTreeSet::new();
    for front in &wish.fronts {
        if front.protocol.contains("UDP") {
            ports.insert(("udp", front.port));
        }
        if front.protocol != "UDP" {
            ports.insert(("tcp", front.port));
        }
    }
    ports
}
