//! Network load balancers.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{
    Result, log,
    types::{CloudError, Ingress, LoadBalancerStatus, Service},
};

use crate::{
    client::api::{
        self,
        call::Call,
        elbv2::{self, Found, LoadBalancer, TargetGroup},
        failure::{Answer, Failure},
        partly,
    },
    cloud::{Cloud, invalid},
    load_balancing::common::{
        annotation::{self, Annotations, Kind},
        applied,
        immutable::{self, ImmutableProperty},
        node_rules::Traffic,
        subnet::SubnetRanges,
        targets::{self, InstanceNetwork, Targets},
        warning,
    },
    tags::{Cluster, Tags},
};

pub(crate) mod delete;
pub(crate) mod desired_load_balancer;
pub(crate) mod groups;
mod health;
mod observed_load_balancer;
mod plan;
mod steps;
mod update;

pub(crate) use update::update;

use desired_load_balancer::{DesiredLoadBalancer, DesiredTargetGroup, IpAddressType};
use observed_load_balancer::ObservedLoadBalancer;
use steps::Step;
use update::Sources;

/// Maximum number of rounds of calls. Creating a load balancer takes three; the others are for
/// concurrent changes by other clients.
const ROUNDS: usize = 10;

/// Returns the network load balancer with this name, if it exists.
///
/// # Errors
/// Fails if a request to AWS fails.
pub(crate) fn find(cloud: &Cloud<'_>, name: &str) -> Result<Option<LoadBalancer>> {
    let call = elbv2::balancer_named(name);
    Ok(elbv2::network(ask(cloud, &call), name)?)
}

fn ask(cloud: &Cloud<'_>, call: &Call) -> Answer<Found> {
    elbv2::read(call, &api::one(cloud.wire, call)?)
}

/// Returns the status of a load balancer. Its DNS name resolves once it is active, one to three
/// minutes after the creation. It is published earlier so that users can see it; clients have to
/// retry until then.
pub(crate) fn status(balancer: &LoadBalancer) -> LoadBalancerStatus {
    let works = balancer.state.code != "failed" && !balancer.dns_name.is_empty();
    let point = Ingress {
        hostname: Some(balancer.dns_name.clone()),
        ..Ingress::default()
    };
    LoadBalancerStatus {
        ingress: if works { vec![point] } else { Vec::new() },
    }
}

/// Creates or updates the load balancer. Before a load balancer is created, `has_classic` is called
/// to check for a classic load balancer.
///
/// # Errors
/// Fails if the Service is invalid, if a request to AWS fails, or if AWS failed to create the load
/// balancer.
pub(crate) fn ensure(
    cloud: &Cloud<'_>,
    service: &Service,
    nodes_of_host: &Targets,
    has_classic: &dyn Fn(&str) -> Result<bool>,
) -> Result<LoadBalancerStatus> {
    let cluster = cloud.identity()?.cluster;
    let mut desired = DesiredLoadBalancer::of(service, &cluster, cloud.config)?;

    // Read before `undo`, whose defaults are not set by annotations.
    let mut applied = desired.applied(service);
    let before = applied::before(cloud, &desired.name);
    desired.undo(&before);

    let ids = targets::ids(&nodes_of_host.all, &service.annotations);
    let found = find(cloud, &desired.name)?;
    let fresh = found.is_none();
    let mut instances = cloud.target_instances(&ids)?;
    let mut observed = match found {
        Some(balancer) => ObservedLoadBalancer::read(cloud.wire, balancer, service, &desired)?,
        None => ObservedLoadBalancer::created(create(
            cloud,
            &desired,
            &cluster,
            has_classic(&desired.name)?,
        )?),
    };

    check_owner(&observed, &cluster)?;
    if observed.balancer.state.code == "failed" {
        let reason = &observed.balancer.state.reason;
        return Err(CloudError::internal(format!(
            "AWS failed to create load balancer {}: {reason}",
            desired.name
        )));
    }

    let vpc = observed.balancer.vpc_id.clone();
    let annotations = Annotations(&service.annotations);
    cloud.warn(
        service,
        warning::ANNOTATION_IGNORED,
        &annotations.ignored(Kind::Network, service),
    );

    let mut fixed = if fresh {
        Vec::new()
    } else {
        fixed_differences(cloud, annotations, &desired, &cluster, &observed.balancer)
    };
    let (_, of_users) = plan::unrequested(&desired, &observed);
    fixed.extend(of_users.into_iter().map(|listener| {
        format!(
            "the listener on port {} stays, because it forwards to a target group that was not created for the Service",
            listener.port
        )
    }));
    cloud.warn(service, warning::NOT_CHANGED, &fixed);

    instances.retain(|id, instance| in_vpc(id, instance, &vpc));
    let awaited = cloud.awaited(&ids);
    let there: BTreeSet<&String> = observed
        .targets
        .values()
        .flatten()
        .map(|target| &target.id)
        .collect();
    let mut targets: BTreeSet<String> = instances.keys().cloned().collect();
    targets.extend(awaited.staying(there));

    // AWS accepts no security groups for a load balancer that was created without any.
    let may_have = !fresh && !observed.balancer.security_groups.items.is_empty();
    let mut errors = Vec::new();
    if let (desired_load_balancer::Security::Managed(name), true) = (&desired.security, may_have) {
        match groups::prepare(cloud, &cluster, name, &desired, &observed.balancer) {
            Ok(group) => observed.managed_group = Some(group),
            // The current groups stay.
            Err(error) => errors.push(error),
        }
    }

    let secured = observed.balancer.security_groups.items.clone();
    let nodes = Nodes {
        cluster: &cluster,
        instances: &instances,
        are_partial: !awaited.ids.is_empty(),
    };
    let work = Work {
        cloud,
        service,
        desired: &desired,
    };

    let will_hide = !desired_load_balancer::preserves(&desired.group_attributes)
        && hides_clients(&observed).contains(&false);
    if !fresh && (will_hide || plan::changes_target_group(&desired, &observed)) {
        // The nodes must accept the traffic before it comes.
        if let Err(error) = open_nodes(work, &observed, nodes, true) {
            observed.keeps_target_groups = true;
            errors.push(error);
        }
    }

    errors.extend(reconcile(work, &mut observed, &targets, &vpc));
    // AWS asks for a pause, so the call ends here.
    if let Some(throttled) = errors.iter().find(|error| is_throttled(error)) {
        // Part of it is set, and must be undone if the Service asks for something else by then.
        applied.extend(before);
        applied::remember(cloud, &desired.name, &applied);
        return Err(throttled.clone());
    }

    let settled = groups::settle(
        cloud, &cluster, service, &desired, &observed, &secured, fresh,
    );
    errors.extend(settled.err());
    errors.extend(open_nodes(work, &observed, nodes, fresh).err());
    let unclear = cloud.still_warned(service, warning::NODE_GROUP_UNCLEAR);
    if errors.is_empty() && unclear.is_none() {
        update::remember_groups(cloud, &desired.name, &instances);
    }
    // What failed may still have the earlier settings, which a later call then undoes.
    if !errors.is_empty() {
        applied.extend(before);
    }
    applied::remember(cloud, &desired.name, &applied);

    let ranges = not_enforced(&desired, &observed);
    cloud.warn(service, warning::NOT_ENFORCED, ranges.as_slice());
    let rejected = observed.rejected.values().flatten();
    let rejected = update::warn_rejected(cloud, service, rejected);
    // The address of a new load balancer does not wait for the last node.
    errors.extend(rejected.filter(|_| !service.status.ingress.is_empty()));
    errors.extend(unclear);
    errors.extend(awaited.error(cloud, service));

    match warning::join_errors(errors) {
        Some(error) => Err(error),
        None => Ok(status(&observed.balancer)),
    }
}

/// Returns sentences about requested properties that cannot change any more.
fn fixed_differences(
    cloud: &Cloud<'_>,
    annotations: Annotations<'_>,
    desired: &DesiredLoadBalancer,
    cluster: &Cluster,
    balancer: &LoadBalancer,
) -> Vec<String> {
    let zones = &balancer.availability_zones.items;
    let addresses = || {
        zones
            .iter()
            .flat_map(|zone| &zone.load_balancer_addresses.items)
    };
    let set = |values: &[String]| values.iter().cloned().collect::<BTreeSet<String>>();

    let mut subnets = set(&desired.subnets);
    if !subnets.iter().all(|word| word.starts_with("subnet-")) {
        let need = desired.need();
        match cloud.subnets(cluster, &balancer.vpc_id, &desired.subnets, need) {
            Ok(named) => subnets = named.into_iter().map(|(id, _)| id).collect(),
            // The words are told as they are.
            Err(error) => log::debug("subnets", error.message()),
        }
    }

    let mut sentences = Vec::new();
    sentences.extend(immutable::scheme(
        annotations,
        desired.internal,
        &balancer.scheme,
    ));

    // AWS neither adds the first group to a load balancer nor removes the last one.
    let secured = &balancer.security_groups.items;
    let (groups, secured) = match &desired.security {
        desired_load_balancer::Security::Given(groups) if secured.is_empty() => {
            (set(groups), BTreeSet::new())
        }
        desired_load_balancer::Security::Unchanged => (BTreeSet::new(), set(secured)),
        // In all other cases, the groups can change, or no annotation names them.
        _ => Default::default(),
    };

    for (name, wanted, real) in [
        (
            annotation::SUBNETS,
            subnets,
            zones.iter().map(|zone| zone.subnet_id.clone()).collect(),
        ),
        (
            annotation::ALLOCATIONS,
            set(&desired.allocations),
            addresses()
                .filter_map(|one| one.allocation_id.clone())
                .collect(),
        ),
        (
            annotation::PRIVATE_ADDRESSES,
            set(&desired.private_addresses),
            addresses()
                .filter_map(|one| one.private_address.clone())
                .collect(),
        ),
        (annotation::SECURITY_GROUPS, groups, secured),
    ] {
        let fixed = ImmutableProperty {
            name,
            wanted: &wanted,
            real: &real,
        };
        // Without the annotation, AWS chooses subnets, and addresses that it does not list.
        let is_set = !wanted.is_empty() || (name != annotation::SUBNETS && !real.is_empty());
        sentences.extend(fixed.difference().filter(|_| is_set));
    }
    sentences
}

fn is_throttled(error: &CloudError) -> bool {
    matches!(error, CloudError::Throttled(_))
}

/// The nodes behind a load balancer.
#[derive(Clone, Copy)]
struct Nodes<'a> {
    cluster: &'a Cluster,
    instances: &'a BTreeMap<String, InstanceNetwork>,
    /// True if EC2 does not know the instances of others.
    are_partial: bool,
}

/// Allows the traffic to the nodes that the load balancer has, and that the Service requests. `likely`
/// is true if rules are probably missing.
fn open_nodes(
    work: Work<'_>,
    observed: &ObservedLoadBalancer,
    nodes: Nodes<'_>,
    likely: bool,
) -> Result<()> {
    let Work {
        cloud,
        service,
        desired,
    } = work;

    let mut traffic = traffic(cloud, desired, observed)?;
    traffic.is_partial = nodes.are_partial;
    let vpc = observed.balancer.vpc_id.as_str();
    let Nodes {
        cluster, instances, ..
    } = nodes;
    cloud.sync_node_rules(service, cluster, Some(vpc), instances, &traffic, likely)?;
    Ok(())
}

/// Rejects a load balancer with the tag of another cluster. A load balancer without a cluster tag
/// belongs to this cluster, because its name contains the UID of the Service.
fn check_owner(observed: &ObservedLoadBalancer, cluster: &Cluster) -> Result<()> {
    let tags = observed
        .tags
        .as_ref()
        .and_then(|tags| tags.get(&observed.balancer.load_balancer_arn));
    cluster.check(&observed.balancer.load_balancer_name, tags)
}

fn in_vpc(id: &str, instance: &InstanceNetwork, vpc: &str) -> bool {
    let fits = instance.vpc == vpc || vpc.is_empty();
    if !fits {
        log::warn(
            "targets",
            format_args!("instance {id} is not in VPC {vpc} and cannot be a target"),
        );
    }
    fits
}

/// Creates the load balancer, without listeners and target groups.
fn create(
    cloud: &Cloud<'_>,
    desired: &DesiredLoadBalancer,
    cluster: &Cluster,
    has_classic: bool,
) -> Result<LoadBalancer> {
    if has_classic {
        return Err(CloudError::internal(
            "the Service has a classic load balancer, and its type cannot be changed: delete and recreate the Service",
        ));
    }

    let vpc = cloud.vpc()?;
    let security = match &desired.security {
        desired_load_balancer::Security::Unchanged => Vec::new(),
        desired_load_balancer::Security::Given(groups) => groups.clone(),
        desired_load_balancer::Security::Managed(name) => {
            vec![groups::ensure(cloud, cluster, &vpc, name, desired)?]
        }
    };

    let create = |subnets: &[SubnetRanges]| {
        let call = creation(desired, subnets)?.list("SecurityGroups", &security);
        Ok(ask(cloud, &call))
    };
    let found = cloud.create_in(cluster, &vpc, &desired.subnets, desired.need(), &create)?;

    let mut balancer = found
        .balancers
        .into_iter()
        .next()
        .ok_or_else(|| CloudError::internal("CreateLoadBalancer returned no load balancer"))?;
    if balancer.vpc_id.is_empty() {
        balancer.vpc_id = vpc;
    }

    Ok(balancer)
}

/// Returns the call that creates the load balancer in these subnets, without security groups.
fn creation(desired: &DesiredLoadBalancer, subnets: &[SubnetRanges]) -> Result<Call> {
    let mut call = elbv2::create_balancer(&desired.name).tags("Tags", &desired.tags);
    if desired.internal {
        call = call.with("Scheme", "internal");
    }

    for (what, values) in [
        ("eip-allocations", &desired.allocations),
        ("private-ipv4-addresses", &desired.private_addresses),
    ] {
        if !values.is_empty() && values.len() != subnets.len() {
            let text = format!(
                "annotation {} has {} values, but the load balancer has {} subnets: set one value for each, and set the subnets",
                annotation::key(what),
                values.len(),
                subnets.len()
            );
            // Without names, the number of subnets depends on AWS.
            return Err(if desired.subnets.is_empty() {
                CloudError::internal(text)
            } else {
                invalid(text)
            });
        }
    }

    for (index, (id, _)) in subnets.iter().enumerate() {
        let item = format!("SubnetMappings.member.{}", index + 1);
        call = call
            .with(format!("{item}.SubnetId"), id)
            .with_some(
                &format!("{item}.AllocationId"),
                desired.allocations.get(index),
            )
            .with_some(
                &format!("{item}.PrivateIPv4Address"),
                desired.private_addresses.get(index),
            );
    }

    let all_v6 = subnets.iter().all(|(_, ranges)| ranges.v6.is_some());
    if desired.ip_address_type == IpAddressType::Dualstack
        || (desired.ip_address_type == IpAddressType::DualstackIfPossible && all_v6)
    {
        call = call.with("IpAddressType", "dualstack");
    }

    Ok(call)
}

/// What is done for a Service.
#[derive(Clone, Copy)]
struct Work<'a> {
    cloud: &'a Cloud<'a>,
    service: &'a Service,
    desired: &'a DesiredLoadBalancer,
}

/// Sends steps until nothing is left to do. A step that fails stops only the steps that depend on
/// it, except if AWS throttles requests. Returns the errors.
fn reconcile(
    work: Work<'_>,
    observed: &mut ObservedLoadBalancer,
    targets: &BTreeSet<String>,
    vpc: &str,
) -> Vec<CloudError> {
    let Work { cloud, desired, .. } = work;
    let mut failed = Vec::new();
    let mut errors = Vec::new();
    for _ in 0..ROUNDS {
        let mut steps = plan::plan(desired, observed, targets);
        steps.retain(|step| !failed.contains(step));
        if steps.is_empty() || errors.iter().any(is_throttled) {
            return errors;
        }

        let arn = observed.balancer.load_balancer_arn.clone();
        let calls: Vec<Call> = steps
            .iter()
            .map(|step| steps::call(step, desired, &arn, vpc))
            .collect();
        let makes_room = steps.iter().any(|step| {
            matches!(
                step,
                Step::Deregister(..) | Step::DeleteListener(_) | Step::DeleteGroup(_)
            )
        });

        for (step, answer) in steps
            .iter()
            .zip(observed_load_balancer::send(cloud.wire, &calls))
        {
            // The next round repeats the step, when there is room.
            if makes_room && answer.as_ref().is_err_and(Failure::is_quota) {
                continue;
            }
            match outcome(work, observed, step, answer) {
                Ok(found) => observed.apply(step, found),
                Err(error) => {
                    failed.push(step.clone());
                    errors.push(error);
                }
            }
        }
    }

    errors.push(CloudError::conflict(format!(
        "load balancer {} keeps changing: check whether another client changes it",
        desired.name
    )));
    errors
}

/// Converts the answer to a step. Some errors mean that the step was done before.
fn outcome(
    work: Work<'_>,
    observed: &mut ObservedLoadBalancer,
    step: &Step,
    answer: Answer<Found>,
) -> Result<Found> {
    let Work {
        cloud,
        service,
        desired,
    } = work;
    let code = answer
        .as_ref()
        .err()
        .map(Failure::code)
        .unwrap_or_default()
        .to_owned();

    match (step, code.as_str()) {
        (Step::CreateGroup(group), "DuplicateTargetGroupName") => {
            adopt(cloud, desired, observed, group)
        }
        // AWS returns an existing group with the same settings.
        (Step::CreateGroup(_), _) => {
            let found = answer?;
            let mut groups = found.groups.iter();
            groups.try_for_each(|group| check_user(group, &observed.balancer))?;
            Ok(found)
        }
        (Step::AddTags(arns, tags), _) => match answer {
            Err(failure) => {
                let arns = || arns.iter().map(String::as_str);
                let send = |part: &Tags| ask(cloud, &elbv2::add_tags(arns(), part)).map(|_| ());
                partly::add_tags(tags, failure, &send)?;
                Ok(Found::default())
            }
            Ok(found) => Ok(found),
        },
        (Step::DeleteListener(_), "ListenerNotFound")
        | (Step::DeleteGroup(_), "TargetGroupNotFound") => Ok(Found::default()),
        // AWS may need a moment to notice that no listener uses it.
        (Step::DeleteGroup(_), "ResourceInUse") => {
            answer.map_err(|failure| cloud.in_use(service, &failure))
        }
        _ => Ok(answer?),
    }
}

/// Rejects a target group that another load balancer uses.
fn check_user(group: &TargetGroup, balancer: &LoadBalancer) -> Result<()> {
    let mut users = group.load_balancer_arns.items.iter();
    match users.find(|arn| **arn != balancer.load_balancer_arn) {
        None => Ok(()),
        Some(other) => {
            // An ARN ends with `loadbalancer/net/NAME/ID`.
            let other = other.split('/').nth(2).unwrap_or(other);
            Err(taken(group, &format!("belongs to load balancer {other}")))
        }
    }
}

/// Returns the error for a target group of somebody else with the name of one for the Service.
fn taken(group: &TargetGroup, whose: &str) -> CloudError {
    CloudError::internal(format!(
        "target group {}, which has the name that a port of the Service needs, {whose}: delete it if it is not in use, otherwise \
         change the node port",
        group.target_group_name
    ))
}

/// Returns an existing target group with the right name if nobody else uses it.
fn adopt(
    cloud: &Cloud<'_>,
    desired: &DesiredLoadBalancer,
    observed: &mut ObservedLoadBalancer,
    wanted: &DesiredTargetGroup,
) -> Result<Found> {
    let name = &wanted.name;
    let mut found = ask(cloud, &elbv2::group_named(name))?;
    found
        .groups
        .retain(|group| group.target_group_name == *name);
    let Some(group) = found.groups.first() else {
        return Err(CloudError::conflict(format!(
            "target group {name} exists but is not listed"
        )));
    };

    check_user(group, &observed.balancer)?;
    let vpc = &observed.balancer.vpc_id;
    if !group.vpc_id.is_empty() && group.vpc_id != *vpc {
        return Err(taken(
            group,
            &format!("is in another VPC, {}", group.vpc_id),
        ));
    }

    // Only what AWS cannot change counts. The next rounds set the rest.
    if !plan::fits(wanted, group) {
        return Err(CloudError::internal(format!(
            "target group {name} was changed by another client: its health check is {} every {} s, but the Service requires {} every {} s; \
             set it back, or delete it",
            group.health_check_protocol,
            group.health_check_interval_seconds,
            wanted.health.protocol,
            wanted.health.interval
        )));
    }

    let arn = group.target_group_arn.clone();
    let tags =
        observed_load_balancer::read_tags([ask(cloud, &elbv2::tags([arn.as_str()]))].into_iter())?;
    let tags: BTreeMap<String, Tags> = tags.unwrap_or_default();
    let is_others = |tags: &Tags| {
        tags.get(crate::tags::SERVICE) != desired.tags.get(crate::tags::SERVICE)
            || desired.clusters().all(|key| !tags.contains_key(key))
    };
    if tags.get(&arn).is_some_and(is_others) {
        return Err(taken(group, "has the tags of another Service or cluster"));
    }

    // Without them, the next round would not deregister surplus targets.
    let targets = ask(cloud, &elbv2::targets(&arn))?.targets;
    observed.targets.insert(arn, targets.into_iter().collect());
    Ok(found)
}

/// Returns the traffic to the nodes: of the target groups that the Service requests, and of those
/// that the load balancer has.
fn traffic(
    cloud: &Cloud<'_>,
    desired: &DesiredLoadBalancer,
    observed: &ObservedLoadBalancer,
) -> Result<Traffic> {
    let balancer = &observed.balancer;
    let mut traffic = Traffic::default();
    let ipv6 = desired
        .listeners
        .first()
        .is_some_and(|listener| listener.group.ipv6);

    for listener in &desired.listeners {
        let group = &listener.group;
        update::clients(&mut traffic, group.protocol, group.port);
        traffic
            .health
            .insert(group.health.port.parse().unwrap_or(group.port));
    }

    for group in &observed.groups {
        update::clients(&mut traffic, &group.protocol, group.port);
        traffic.health.insert(group.checked_port());
    }

    // If the nodes' groups are not changed, nobody needs the ranges.
    traffic.subnets = if cloud.config.keep_node_groups {
        BTreeSet::new()
    } else {
        update::subnets(cloud, balancer, ipv6)?
    };

    traffic.ranges = sources(desired, observed).ranges(&desired.ranges, &traffic.subnets);
    Ok(traffic)
}

/// Returns the addresses that nodes see, as the Service requests, or as it is of some target groups.
fn sources(desired: &DesiredLoadBalancer, observed: &ObservedLoadBalancer) -> Sources {
    Sources {
        ipv6: desired
            .listeners
            .first()
            .is_some_and(|listener| listener.group.ipv6),
        dual: observed.balancer.ip_address_type == "dualstack",
        hidden: !desired_load_balancer::preserves(&desired.group_attributes)
            || hides_clients(observed).contains(&true),
    }
}

/// Returns whether the target groups hide the addresses of clients.
fn hides_clients(observed: &ObservedLoadBalancer) -> BTreeSet<bool> {
    let hides_clients = observed.groups.iter().map(|group| {
        let attributes = observed.group_attributes.get(&group.target_group_arn);
        attributes.is_some_and(|attributes| !desired_load_balancer::preserves(attributes))
    });
    hides_clients.collect()
}

/// Returns a sentence if the nodes cannot enforce the ranges of a Service.
fn not_enforced(desired: &DesiredLoadBalancer, observed: &ObservedLoadBalancer) -> Option<String> {
    let sources = sources(desired, observed);
    let everybody = |range: &str| desired.ranges.iter().any(|one| one == range);
    // A security group of the load balancer enforces the ranges by itself.
    let grouped = !observed.balancer.security_groups.items.is_empty();

    let why = if grouped {
        return None;
    } else if sources.hidden && !everybody("0.0.0.0/0") {
        "with preserve_client_ip.enabled=false, nodes see addresses of the load balancer"
    } else if sources.translates(&desired.ranges)
        && !everybody(if sources.ipv6 { "0.0.0.0/0" } else { "::/0" })
    {
        "nodes see clients of the other address family with addresses of the load balancer"
    } else {
        return None;
    };

    Some(format!(
        "spec.loadBalancerSourceRanges cannot be enforced, because {why}: recreate the Service with annotation {}",
        annotation::key(annotation::SECURITY_GROUPS)
    ))
}
