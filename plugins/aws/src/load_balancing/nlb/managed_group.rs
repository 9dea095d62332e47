//! The security group that is created for a network load balancer (`NLBSecurityGroupMode =
//! Managed`).

use std::collections::BTreeSet;

use skydock_sdk::{Result, log};

use super::{
    Context,
    desired_load_balancer::{DesiredLoadBalancer, Security},
    observed_load_balancer::ObservedLoadBalancer,
};
use crate::{
    client::api::elbv2::LoadBalancer, cloud::Cloud, load_balancing::common::security_group,
    tags::Cluster,
};

/// The description that the official provider uses.
const DESCRIPTION: &str = "[k8s] Managed SecurityGroup for LoadBalancer";

/// Returns the group, and creates it if it does not exist.
///
/// # Errors
/// Fails if a request to AWS fails.
pub(crate) fn ensure(
    cloud: &Cloud<'_>,
    cluster: &Cluster,
    vpc: &str,
    name: &str,
    desired: &DesiredLoadBalancer,
) -> Result<String> {
    cloud.own_group(cluster, vpc, name, DESCRIPTION, &desired.tags)
}

/// Returns the group for an existing load balancer. If the load balancer does not have it yet, its
/// rules are set before it gets it, so that clients keep their access.
///
/// # Errors
/// Fails if a request to AWS fails.
pub(super) fn prepare(context: Context<'_>, name: &str, balancer: &LoadBalancer) -> Result<String> {
    let Context {
        cloud,
        cluster,
        desired,
        ..
    } = context;
    let group = ensure(cloud, cluster, &balancer.vpc_id, name, desired)?;
    if !balancer.security_groups.items.contains(&group) {
        let rules = security_group::rules(&ports(desired), &desired.ranges);
        cloud.set_rules(&group, &rules)?;
    }
    Ok(group)
}

/// Sets the rules of the group, and deletes the previous group. `before` are the groups that the
/// load balancer had before the call.
///
/// # Errors
/// Fails if a request to AWS fails.
pub(super) fn settle(
    context: Context<'_>,
    observed: &ObservedLoadBalancer,
    before: &[String],
) -> Result<()> {
    let Context {
        cloud,
        service,
        cluster,
        desired,
        is_new,
    } = context;
    let now = &observed.balancer.security_groups.items;
    let own = if is_new {
        now.first()
    } else {
        observed.managed_group.as_ref()
    };

    if let (Security::Managed(_), Some(own)) = (&desired.security, own) {
        let rules = security_group::rules(&ports(desired), &desired.ranges);
        cloud.set_rules(own, &rules)?;
    }

    let detached: Vec<String> = before
        .iter()
        .filter(|id| !now.contains(id))
        .cloned()
        .collect();
    if let Err(error) = cloud.remove_groups(Some(cluster), service, &detached, &[]) {
        // The load balancer is as requested, so this failure is only logged. If groups are managed,
        // the deletion of the Service retries.
        log::warn(
            "groups",
            format_args!(
                "previous resources of load balancer {} cannot be deleted: {error}",
                desired.name
            ),
        );
    }
    Ok(())
}

fn ports(desired: &DesiredLoadBalancer) -> BTreeSet<(&'static str, u16)> {
    let mut ports = BTreeSet::new();
    // `TCP_UDP` is both.
    for listener in &desired.listeners {
        if listener.protocol.contains("UDP") {
            ports.insert(("udp", listener.port));
        }
        if listener.protocol != "UDP" {
            ports.insert(("tcp", listener.port));
        }
    }
    ports
}
