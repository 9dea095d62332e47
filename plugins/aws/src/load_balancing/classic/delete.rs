//! Deletes a classic load balancer and everything that was created for it.

use skydock_sdk::{Result, types::Service};

use super::{
    access, find, groups_to_keep, is_gone, observed_load_balancer::read_tags, previous_groups,
};
use crate::{
    client::api::{self, elb},
    cloud::Cloud,
    load_balancing::common::{name, node_rules::ClusterGroups},
};

/// Deletes the load balancer and everything created for it. Returns false if it did not exist.
/// `seen` are the groups with the cluster's tag, if they have been read.
///
/// # Errors
/// Returns `in-progress` if something is still in use. Fails if a request to AWS fails.
pub(crate) fn delete(
    cloud: &Cloud<'_>,
    service: &Service,
    seen: Option<&ClusterGroups>,
) -> Result<bool> {
    let name = name::balancer(service);
    let groups_to_keep = groups_to_keep(cloud, service);
    let found = find(cloud, &name)?;

    let own = found
        .as_ref()
        .map(|balancer| balancer.security_groups.items.clone())
        .unwrap_or_default();
    let vpc = found.as_ref().map(|balancer| balancer.vpc_id.as_str());
    let tags = match &found {
        Some(_) => read_tags(cloud, &name)?,
        None => None,
    };
    let cluster = cloud.cluster_of(&tags)?;
    if let Some(cluster) = &cluster {
        cluster.check(&name, tags.as_ref())?;
    }

    // This must happen before the load balancer is deleted: afterwards its groups are unknown.
    let previous = previous_groups::delete(cloud, &name, access::first(&own, service));
    if let Some(cluster) = &cluster {
        cloud.close_access(cluster, vpc, &name, &previous.closing)?;
    }

    let mut groups = own;
    if found.is_some() {
        match api::one(cloud.wire, &elb::on("DeleteLoadBalancer", &name)) {
            Err(failure) if !is_gone(&failure) => return Err(failure.into()),
            _ => {}
        }
    }

    // Also the group created for it, which it had before it got the user's group.
    groups.extend(cloud.groups_named(&name::classic_security_group(service), vpc, seen)?);
    groups.extend(previous.detached);
    cloud.remove_groups(cluster.as_ref(), service, &groups, &groups_to_keep)?;
    previous_groups::forget(cloud, &name);
    Ok(found.is_some())
}
