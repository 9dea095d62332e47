//! Creates or updates a network load balancer.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{
    Result, log,
    types::{CloudError, LoadBalancerStatus, Service},
};

use super::{
    Context, Nodes,
    create::create,
    desired_load_balancer::{self, DesiredLoadBalancer, Security},
    find, in_vpc, managed_group,
    observed_load_balancer::ObservedLoadBalancer,
    plan,
    reconcile::{is_throttled, reconcile},
    status,
    traffic::{self, hides_clients, open_nodes},
    update::warn_rejected,
};
use crate::{
    client::api::elbv2::LoadBalancer,
    cloud::Cloud,
    load_balancing::common::{
        annotation::{self, Annotations, Kind},
        applied, errors,
        immutable::{self, ImmutableProperty},
        node_rules::Expected,
        targets::{self, Awaited, InstanceNetwork, Targets},
        warning,
    },
};

/// Creates or updates the load balancer. Before a load balancer is created, `has_classic` is called
/// to check for a classic load balancer.
///
/// # Errors
/// Fails if the Service is invalid, if a request to AWS fails, or if AWS failed to create the load
/// balancer.
pub(crate) fn ensure(
    cloud: &Cloud<'_>,
    service: &Service,
    targets: &Targets,
    has_classic: &dyn Fn(&str) -> Result<bool>,
) -> Result<LoadBalancerStatus> {
    let cluster = cloud.identity()?.cluster;
    let mut desired = DesiredLoadBalancer::of(service, &cluster, cloud.config)?;

    // Read before `undo`, whose defaults are not set by annotations.
    let applied = desired.applied(service);
    let before = applied::before(cloud, &desired.name);
    desired.undo(&before);

    let ids = targets::ids(&targets.all, &service.annotations);
    let found = find(cloud, &desired.name)?;
    let is_new = found.is_none();
    let mut instances = cloud.target_instances(&ids)?;
    let balancer = match found {
        Some(balancer) => balancer,
        None => create(cloud, &desired, &cluster, has_classic(&desired.name)?)?,
    };
    let mut observed = if is_new {
        ObservedLoadBalancer::created(balancer)
    } else {
        ObservedLoadBalancer::read(cloud.wire, balancer, service, &desired)?
    };

    let context = Context {
        cloud,
        service,
        cluster: &cluster,
        desired: &desired,
        is_new,
    };
    check(context, &observed)?;
    warn_before(context, &observed);

    let remember =
        |is_complete| applied::remember(cloud, &desired.name, &applied, &before, is_complete);
    instances.retain(|id, instance| in_vpc(id, instance, &observed.balancer.vpc_id));
    let awaited = cloud.awaited(&ids);
    let result = change(context, &mut observed, &instances, &awaited, &remember);
    result.map(|()| status(&observed.balancer))
}

/// Changes the load balancer to what is requested. What AWS rejects does not stop the rest.
/// `remember` is called with true if everything is as requested.
fn change(
    context: Context<'_>,
    observed: &mut ObservedLoadBalancer,
    instances: &BTreeMap<String, InstanceNetwork>,
    awaited: &Awaited,
    remember: &dyn Fn(bool),
) -> Result<()> {
    let Context {
        cloud,
        service,
        desired,
        ..
    } = context;
    let nodes = Nodes {
        instances,
        are_partial: !awaited.ids.is_empty(),
    };
    let wanted = target_ids(instances, awaited, observed);
    let groups_before = observed.balancer.security_groups.items.clone();

    let mut errors = Vec::new();
    errors.extend(prepare_group(context, observed).err());
    errors.extend(prepare_nodes(context, observed, nodes).err());
    errors.extend(reconcile(context, observed, &wanted));

    // AWS asks for a pause, so the call ends here.
    if let Some(throttled) = errors.iter().find(|error| is_throttled(error)) {
        // Part of it is set, and must be undone if the Service asks for something else by then.
        remember(false);
        return Err(throttled.clone());
    }

    errors.extend(managed_group::settle(context, observed, &groups_before).err());
    let expected = if context.is_new {
        Expected::Outdated
    } else {
        Expected::UpToDate
    };
    errors.extend(open_nodes(context, observed, nodes, expected).err());
    let unclear = cloud.still_warned(service, warning::NODE_GROUP_UNCLEAR);
    if errors.is_empty() && unclear.is_none() {
        traffic::remember_groups(cloud, &desired.name, instances);
    }
    remember(errors.is_empty());

    errors.extend(warn_after(context, observed));
    errors.extend(unclear);
    errors.extend(awaited.error(cloud, service));

    errors::join(errors).map_or(Ok(()), Err)
}

/// Rejects a load balancer that AWS failed to create, or with the tag of another cluster. A load
/// balancer without a cluster tag belongs to this cluster, because its name contains the UID of the
/// Service.
fn check(context: Context<'_>, observed: &ObservedLoadBalancer) -> Result<()> {
    let balancer = &observed.balancer;
    let tags = observed
        .tags
        .as_ref()
        .and_then(|tags| tags.get(&balancer.load_balancer_arn));
    context.cluster.check(&balancer.load_balancer_name, tags)?;

    if balancer.state.code == "failed" {
        let reason = &balancer.state.reason;
        return Err(CloudError::internal(format!(
            "AWS failed to create load balancer {}: {reason}",
            context.desired.name
        )));
    }
    Ok(())
}

/// Warns about annotations without effect, and about what is not changed.
fn warn_before(context: Context<'_>, observed: &ObservedLoadBalancer) {
    let Context {
        cloud,
        service,
        desired,
        ..
    } = context;
    let ignored = Annotations(&service.annotations).ignored(Kind::Network, service);
    cloud.warn(service, warning::ANNOTATION_IGNORED, &ignored);

    let mut not_changed = Vec::new();
    if !context.is_new {
        not_changed.extend(immutable_differences(context, &observed.balancer));
    }
    let (_, of_users) = plan::unrequested(desired, observed);
    not_changed.extend(of_users.into_iter().map(|listener| {
        format!(
            "the listener on port {} stays, because it forwards to a target group that was not created for the Service",
            listener.port
        )
    }));
    cloud.warn(service, warning::NOT_CHANGED, &not_changed);
}

/// Warns about source ranges that are not enforced, and about instances that AWS rejected as
/// targets. Returns the error with which the call is retried because of these.
fn warn_after(context: Context<'_>, observed: &ObservedLoadBalancer) -> Option<CloudError> {
    let Context { cloud, service, .. } = context;
    let ranges = traffic::not_enforced(context.desired, observed);
    cloud.warn(service, warning::NOT_ENFORCED, ranges.as_slice());

    let rejected = warn_rejected(cloud, service, observed.rejected.values().flatten());
    // The address of a new load balancer does not wait for the last node.
    rejected.filter(|_| !service.status.ingress.is_empty())
}

/// Returns the IDs of the instances that are targets: of the nodes, and current ones that EC2 does
/// not know at the moment.
fn target_ids(
    instances: &BTreeMap<String, InstanceNetwork>,
    awaited: &Awaited,
    observed: &ObservedLoadBalancer,
) -> BTreeSet<String> {
    let current = observed.targets.values().flatten();
    let staying = awaited.staying(current.map(|target| &target.id));
    instances.keys().cloned().chain(staying).collect()
}

/// Prepares the security group that is created for the load balancer, if an existing load balancer
/// can have it. After an error, the current groups stay.
fn prepare_group(context: Context<'_>, observed: &mut ObservedLoadBalancer) -> Result<()> {
    let Security::Managed(name) = &context.desired.security else {
        return Ok(());
    };

    // AWS accepts no security groups for a load balancer that was created without any.
    let may_have = !context.is_new && !observed.balancer.security_groups.items.is_empty();
    if may_have {
        let group = managed_group::prepare(context, name, &observed.balancer)?;
        observed.managed_group = Some(group);
    }
    Ok(())
}

/// Allows traffic that an existing load balancer will send, because the nodes must accept it before
/// it comes. After an error, listeners keep their target groups.
fn prepare_nodes(
    context: Context<'_>,
    observed: &mut ObservedLoadBalancer,
    nodes: Nodes<'_>,
) -> Result<()> {
    let desired = context.desired;
    let will_hide = !desired_load_balancer::preserves(&desired.group_attributes)
        && hides_clients(observed).contains(&false);
    if context.is_new || !(will_hide || plan::changes_target_group(desired, observed)) {
        return Ok(());
    }

    let opened = open_nodes(context, observed, nodes, Expected::Outdated);
    observed.keeps_target_groups |= opened.is_err();
    opened
}

/// Returns sentences about requested properties that cannot change any more.
fn immutable_differences(context: Context<'_>, balancer: &LoadBalancer) -> Vec<String> {
    let desired = context.desired;
    let annotations = Annotations(&context.service.annotations);
    let zones = &balancer.availability_zones.items;
    let addresses = || {
        zones
            .iter()
            .flat_map(|zone| &zone.load_balancer_addresses.items)
    };
    let allocations = addresses().filter_map(|one| one.allocation_id.clone());
    let private_addresses = addresses().filter_map(|one| one.private_address.clone());
    let (groups, current_groups) = immutable_groups(desired, balancer);

    let scheme = immutable::scheme(annotations, desired.internal, &balancer.scheme);
    let mut sentences: Vec<String> = scheme.into_iter().collect();

    let properties = [
        (
            annotation::SUBNETS,
            subnet_ids(context, balancer),
            zones.iter().map(|zone| zone.subnet_id.clone()).collect(),
        ),
        (
            annotation::ALLOCATIONS,
            set(&desired.allocations),
            allocations.collect(),
        ),
        (
            annotation::PRIVATE_ADDRESSES,
            set(&desired.private_addresses),
            private_addresses.collect(),
        ),
        (annotation::SECURITY_GROUPS, groups, current_groups),
    ];
    for (name, wanted, real) in properties {
        let property = ImmutableProperty {
            name,
            wanted: &wanted,
            real: &real,
        };
        // Without the annotation, AWS chooses subnets, and addresses that it does not list.
        let is_set = !wanted.is_empty() || (name != annotation::SUBNETS && !real.is_empty());
        sentences.extend(property.difference().filter(|_| is_set));
    }
    sentences
}

/// Returns the requested subnets by ID. If they do not exist, their names are returned as they are;
/// if AWS does not answer, none, because nothing is known to differ.
fn subnet_ids(context: Context<'_>, balancer: &LoadBalancer) -> BTreeSet<String> {
    let Context {
        cloud,
        cluster,
        desired,
        ..
    } = context;
    let requested = set(&desired.subnets);
    if requested.iter().all(|subnet| subnet.starts_with("subnet-")) {
        return requested;
    }

    match cloud.subnets(cluster, &balancer.vpc_id, &desired.subnets, desired.need()) {
        Ok(named) => named.into_iter().map(|(id, _)| id).collect(),
        Err(error) => {
            log::debug("subnets", error.message());
            if is_about_subnets(&error) {
                requested
            } else {
                BTreeSet::new()
            }
        }
    }
}

/// Returns true if an error is about subnets that were looked up, rather than about the lookup.
fn is_about_subnets(error: &CloudError) -> bool {
    !matches!(
        error,
        CloudError::Throttled(_)
            | CloudError::InProgress(_)
            | CloudError::Denied(_)
            | CloudError::Unavailable(_)
            | CloudError::Internal(_)
    )
}

/// Returns the requested security groups, and the current ones, if they differ in a way that cannot
/// change: AWS neither adds the first group to a load balancer nor removes the last one.
fn immutable_groups(
    desired: &DesiredLoadBalancer,
    balancer: &LoadBalancer,
) -> (BTreeSet<String>, BTreeSet<String>) {
    let current = &balancer.security_groups.items;
    match &desired.security {
        Security::Given(groups) if current.is_empty() => (set(groups), BTreeSet::new()),
        Security::Unchanged => (BTreeSet::new(), set(current)),
        // In all other cases, the groups can change, or no annotation names them.
        Security::Given(_) | Security::Managed(_) => Default::default(),
    }
}

fn set(values: &[String]) -> BTreeSet<String> {
    values.iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_subnets_that_aws_does_not_look_up_differ_from_nothing() {
        for (error, expected) in [
            (CloudError::Unavailable("down".into()), false),
            (CloudError::Denied("no".into()), false),
            (CloudError::Invalid("no such subnet".into()), true),
            (CloudError::NotFound("no such subnet".into()), true),
        ] {
            assert_eq!(is_about_subnets(&error), expected, "{error:?}");
        }
    }
}
