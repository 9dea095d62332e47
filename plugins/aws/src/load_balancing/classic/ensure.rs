//! Creates or updates a classic load balancer.

use skydock_sdk::{
    Result,
    types::{CloudError, LoadBalancerStatus, Service},
};

use super::{
    access,
    changes::{self, change_instances},
    create,
    desired_load_balancer::DesiredLoadBalancer,
    find, groups_to_keep,
    observed_load_balancer::ObservedLoadBalancer,
    previous_groups::{self, PreviousGroups},
    status, staying, subnets,
};
use crate::{
    client::api::elb::Description,
    cloud::Cloud,
    load_balancing::common::{
        annotation::{Annotations, Kind},
        applied, errors, immutable, name, security_group,
        targets::{self, Targets},
        warning,
    },
    tags::Cluster,
};

/// Creates or updates the load balancer. Before a load balancer is created, `has_network` is called
/// to check for a network load balancer.
///
/// # Errors
/// Fails if the Service is invalid, or if a request to AWS fails.
pub(crate) fn ensure(
    cloud: &Cloud<'_>,
    service: &Service,
    targets: &Targets,
    has_network: &dyn Fn(&str) -> Result<bool>,
) -> Result<LoadBalancerStatus> {
    let cluster = cloud.identity()?.cluster;
    let mut desired = DesiredLoadBalancer::of(service, &cluster, cloud.config)?;

    // Read before `undo`, whose defaults are not set by annotations.
    let applied = desired.applied(service);
    let before = applied::before(cloud, &desired.name);
    desired.undo(&before);

    let existing = existing(cloud, &cluster, &desired, has_network)?;
    let is_new = existing.is_none();
    let vpc = existing.as_ref().map(|observed| &observed.balancer.vpc_id);
    let vpc = vpc.map_or_else(|| cloud.vpc(), |vpc| Ok(vpc.clone()))?;
    let secured = security_groups(cloud, service, &cluster, &vpc, &desired);

    let ids = targets::ids(&targets.all, &service.annotations);
    let mut instances = cloud.target_instances(&ids)?;
    let awaited = cloud.awaited(&ids);
    instances.retain(|_, instance| instance.vpc == vpc || vpc.is_empty());

    let observed = match existing {
        Some(observed) => observed,
        None => {
            let (groups, _) = secured.as_ref().map_err(Clone::clone)?;
            create::create(cloud, &desired, &cluster, &vpc, groups)?
        }
    };
    let balancer = &observed.balancer;
    warn(cloud, service, &desired, balancer);

    // What AWS rejects does not stop the rest.
    let nodes = access::Nodes {
        instances: &instances,
        are_partial: !awaited.ids.is_empty(),
    };
    let open = |group: &str| cloud.sync_access(service, &cluster, &vpc, group, nodes);
    let (groups, mut errors) = ready_groups(secured, service, balancer, &open);

    let groups_before = &balancer.security_groups.items;
    let previous = previous_groups::replace(cloud, &desired.name, groups_before, &groups);
    if !is_new {
        errors.extend(subnets::settle(cloud, &cluster, &desired, balancer));
    }
    errors.extend(changes::apply(cloud, &desired, &observed, &groups));

    let wanted = instances.keys().cloned().chain(staying(&awaited, balancer));
    let (rejected, failed) = change_instances(cloud, balancer, &wanted.collect());
    errors.extend(failed);

    if errors.is_empty() {
        // The previous groups are in use until all changes are made.
        errors.extend(remove_previous(cloud, service, &cluster, balancer, previous).err());
    }
    applied::remember(cloud, &desired.name, &applied, &before, errors.is_empty());

    let rejected = cloud.warn_rejected(service, &rejected);
    // The address of a new load balancer does not wait for the last node.
    errors.extend(rejected.filter(|_| !service.status.ingress.is_empty()));
    errors.extend(cloud.still_warned(service, warning::NODE_GROUP_UNCLEAR));
    errors.extend(awaited.error(cloud, service));

    errors::join(errors).map_or_else(|| Ok(status(balancer)), Err)
}

/// Returns the state of the load balancer, if it exists.
///
/// # Errors
/// Fails if it belongs to another cluster, if the Service has a network load balancer instead, or
/// if a request to AWS fails.
fn existing(
    cloud: &Cloud<'_>,
    cluster: &Cluster,
    desired: &DesiredLoadBalancer,
    has_network: &dyn Fn(&str) -> Result<bool>,
) -> Result<Option<ObservedLoadBalancer>> {
    let Some(balancer) = find(cloud, &desired.name)? else {
        if has_network(&desired.name)? {
            return Err(CloudError::internal(
                "the Service has a network load balancer, and its type cannot be changed: delete and recreate the Service",
            ));
        }
        return Ok(None);
    };

    let observed = ObservedLoadBalancer::read(cloud, balancer)?;
    cluster.check(&desired.name, observed.tags.as_ref())?;
    Ok(Some(observed))
}

/// Warns about annotations without effect, and about what is not changed.
fn warn(
    cloud: &Cloud<'_>,
    service: &Service,
    desired: &DesiredLoadBalancer,
    balancer: &Description,
) {
    let annotations = Annotations(&service.annotations);
    let ignored = annotations.ignored(Kind::Classic, service);
    cloud.warn(service, warning::ANNOTATION_IGNORED, &ignored);
    let not_changed = immutable::scheme(annotations, desired.internal, &balancer.scheme);
    cloud.warn(service, warning::NOT_CHANGED, not_changed.as_slice());
}

/// Returns the security groups of a load balancer: those of the user, that of the operator, or one
/// created for it, and the extra groups. The second value is the outcome of setting the rules of a
/// group created for it.
///
/// # Errors
/// Fails if the group cannot be found or created.
fn security_groups(
    cloud: &Cloud<'_>,
    service: &Service,
    cluster: &Cluster,
    vpc: &str,
    desired: &DesiredLoadBalancer,
) -> Result<(Vec<String>, Result<()>)> {
    let mut groups = desired.groups.clone();
    let mut ruled = Ok(());
    if groups.is_empty() {
        let name = name::classic_security_group(service);
        let description = format!(
            "Security group for Kubernetes ELB {} ({})",
            desired.name, desired.service
        );
        let own = cloud.own_group(cluster, vpc, &name, &description, &desired.tags)?;
        let ports = desired.ports.iter().map(|port| ("tcp", *port)).collect();
        ruled = cloud.set_rules(&own, &security_group::rules(&ports, &desired.ranges));
        groups.push(own);
    }

    groups.extend(desired.extra_groups.iter().cloned());
    Ok((groups, ruled))
}

/// Lets the nodes accept the traffic of the load balancer, and returns its security groups: if the
/// rules of the next ones cannot be set, the current ones. Also returns the errors.
fn ready_groups(
    secured: Result<(Vec<String>, Result<()>)>,
    service: &Service,
    there: &Description,
    open: &dyn Fn(&str) -> Result<()>,
) -> (Vec<String>, Vec<CloudError>) {
    let before = &there.security_groups.items;
    let mut errors = Vec::new();
    match secured {
        Ok((groups, ruled)) => {
            errors.extend(ruled.err());
            errors.extend(groups.first().and_then(|group| open(group).err()));
            if errors.is_empty() || groups.iter().all(|group| before.contains(group)) {
                return (groups, errors);
            }
        }
        Err(error) => {
            errors.push(error);
            errors.extend(access::first(before, service).and_then(|group| open(group).err()));
        }
    }
    (before.clone(), errors)
}

/// Removes the access of previous security groups to the nodes, and deletes those groups that were
/// created for the load balancer.
///
/// # Errors
/// Fails if a request to AWS fails. The next call then tries it again.
fn remove_previous(
    cloud: &Cloud<'_>,
    service: &Service,
    cluster: &Cluster,
    balancer: &Description,
    previous: PreviousGroups,
) -> Result<()> {
    let name = &balancer.load_balancer_name;
    let detached: Vec<String> = previous.detached.into_iter().collect();
    cloud.close_access(cluster, Some(&balancer.vpc_id), name, &previous.closing)?;
    cloud.remove_groups(
        Some(cluster),
        service,
        &detached,
        &groups_to_keep(cloud, service),
    )?;
    previous_groups::finish(cloud, name, previous.opened);
    Ok(())
}
