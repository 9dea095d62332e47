//! Changes the instances behind a classic load balancer, without other changes.

use skydock_sdk::{
    Result,
    types::{CloudError, Service},
};

use super::{access, changes::change_instances, find, observed_load_balancer::read_tags, staying};
use crate::{
    cloud::Cloud,
    load_balancing::common::{
        errors, name,
        targets::{self, Targets},
        warning,
    },
    tags::Tags,
};

/// Puts these nodes behind the load balancer, without other changes.
///
/// # Errors
/// Fails if the load balancer does not exist, or if a request to AWS fails.
pub(crate) fn update(cloud: &Cloud<'_>, service: &Service, targets: &Targets) -> Result<()> {
    let cluster = cloud.identity()?.cluster;
    let name = name::balancer(service);
    let none = || CloudError::not_found(format!("load balancer {name} does not exist"));
    let balancer = find(cloud, &name)?.ok_or_else(none)?;
    let tags: Option<Tags> = read_tags(cloud, &name)?;
    cluster.check(&name, tags.as_ref())?;

    let ids = targets::ids(&targets.all, &service.annotations);
    let mut instances = cloud.target_instances(&ids)?;
    let awaited = cloud.awaited(&ids);
    instances.retain(|_, instance| instance.vpc == balancer.vpc_id || balancer.vpc_id.is_empty());

    let instance_ids = instances
        .keys()
        .cloned()
        .chain(staying(&awaited, &balancer));
    let (rejected, mut errors) = change_instances(cloud, &balancer, &instance_ids.collect());

    let nodes = access::Nodes {
        instances: &instances,
        are_partial: !awaited.ids.is_empty(),
    };
    let opened = access::first(&balancer.security_groups.items, service)
        .map(|group| cloud.sync_access(service, &cluster, &balancer.vpc_id, group, nodes));
    errors.extend(opened.and_then(Result::err));

    errors.extend(cloud.warn_rejected(service, &rejected));
    errors.extend(cloud.still_warned(service, warning::NODE_GROUP_UNCLEAR));
    errors.extend(awaited.error(cloud, service));
    errors::join(errors).map_or(Ok(()), Err)
}
