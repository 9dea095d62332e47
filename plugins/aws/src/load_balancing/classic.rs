//! Classic load balancers, for Services without the annotation `aws-load-balancer-type: nlb`, as in
//! the official provider.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{
    Result,
    types::{CloudError, Ingress, LoadBalancerStatus, Service},
};

use crate::{
    client::api::{
        self,
        call::Call,
        elb::{self, Attributes, Description, Found, Listener, ListenerDescription, Settings},
        failure::{Answer, Failure},
        partly,
    },
    cloud::Cloud,
    load_balancing::common::{
        annotation::{self, Annotations, Kind},
        applied, immutable, name,
        node_rules::ClusterGroups,
        security_group,
        subnet::SubnetRanges,
        targets::{self, Awaited, Targets},
        warning,
    },
    tags::{Cluster, Tags},
};

mod access;
mod desired_load_balancer;
mod health;
mod plan;
mod previous_groups;
mod subnets;

use desired_load_balancer::DesiredLoadBalancer;
use plan::{ListenerChanges, ObservedLoadBalancer};

/// Returns the classic load balancer with this name, if it exists.
///
/// # Errors
/// Fails if a request to AWS fails.
pub(crate) fn find(cloud: &Cloud<'_>, name: &str) -> Result<Option<Description>> {
    match ask(cloud, &elb::balancer_named(name)) {
        // For a name that does not exist, AWS returns an error instead of an empty list.
        Ok(found) if found.balancers.is_empty() => {
            let reason = "an empty list".into();
            Err(Failure::Unreadable {
                action: "DescribeLoadBalancers",
                reason,
            }
            .into())
        }
        Ok(found) => Ok(found
            .balancers
            .into_iter()
            .find(|one| one.load_balancer_name == name)),
        Err(failure) if is_gone(&failure) => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

fn is_gone(failure: &Failure) -> bool {
    matches!(
        failure.code(),
        "LoadBalancerNotFound" | "AccessPointNotFound"
    )
}

fn ask(cloud: &Cloud<'_>, call: &Call) -> Answer<Found> {
    elb::read(call, &api::one(cloud.wire, call)?)
}

/// Returns the status of a load balancer: its DNS name, which resolves soon after the creation.
pub(crate) fn status(balancer: &Description) -> LoadBalancerStatus {
    let point = Ingress {
        hostname: Some(balancer.dns_name.clone()),
        ..Ingress::default()
    };
    LoadBalancerStatus {
        ingress: if balancer.dns_name.is_empty() {
            Vec::new()
        } else {
            vec![point]
        },
    }
}

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
    let mut applied = desired.applied(service);
    let applied_before = applied::before(cloud, &desired.name);
    desired.undo(&applied_before);

    let found = find(cloud, &desired.name)?;
    let fresh = found.is_none();
    if fresh && has_network(&desired.name)? {
        return Err(CloudError::internal(
            "the Service has a network load balancer, and its type cannot be changed: delete and recreate the Service",
        ));
    }

    let observed = found.map(|balancer| read(cloud, balancer)).transpose()?;
    if let Some(observed) = &observed {
        cluster.check(&desired.name, observed.tags.as_ref())?;
    }

    let vpc = match &observed {
        Some(observed) => observed.balancer.vpc_id.clone(),
        None => cloud.vpc()?,
    };
    let secured = security_groups(cloud, service, &cluster, &vpc, &desired);

    let ids = targets::ids(&targets.all, &service.annotations);
    let mut instances = cloud.target_instances(&ids)?;
    let awaited = cloud.awaited(&ids);
    instances.retain(|_, instance| instance.vpc == vpc || vpc.is_empty());

    let observed = match observed {
        Some(observed) => observed,
        None => create(
            cloud,
            &desired,
            &cluster,
            &vpc,
            &secured.as_ref().map_err(Clone::clone)?.0,
        )?,
    };

    let there = &observed.balancer;
    let annotations = Annotations(&service.annotations);
    let ignored = annotations.ignored(Kind::Classic, service);
    cloud.warn(service, warning::ANNOTATION_IGNORED, &ignored);
    let fixed = immutable::scheme(annotations, desired.internal, &there.scheme);
    cloud.warn(service, warning::NOT_CHANGED, fixed.as_slice());

    // What AWS rejects does not stop the rest.
    let mut errors = Vec::new();
    let open = |group: &str| {
        let nodes = access::Nodes {
            instances: &instances,
            are_partial: !awaited.ids.is_empty(),
        };
        cloud.sync_access(service, &cluster, &vpc, group, nodes)
    };
    let (groups, failed) = ready_groups(secured, service, there, &open);
    errors.extend(failed);

    let before = &there.security_groups.items;
    let previous = previous_groups::replace(cloud, &desired.name, before, &groups);
    if !fresh {
        errors.extend(subnets::settle(cloud, &cluster, &desired, there));
    }

    // Listeners need policies that exist, and policies are set for listeners that exist.
    let [first, second] = plan::stages(&desired, &observed, &groups);
    errors.extend(carry_out(cloud, &first));
    errors.extend(change_listeners(
        cloud,
        &desired.name,
        plan::listener_changes(&desired, there),
    ));
    errors.extend(carry_out(cloud, &second));

    let instance_ids = instances.keys().cloned().chain(staying(&awaited, there));
    let (rejected, failed) = change_instances(cloud, there, &instance_ids.collect());
    errors.extend(failed);

    if errors.is_empty() {
        // The previous groups are in use until all changes are made.
        let detached: Vec<String> = previous.detached.into_iter().collect();
        let closed = cloud
            .close_access(&cluster, Some(&vpc), &desired.name, &previous.closing)
            .and_then(|()| {
                let groups_to_keep = groups_to_keep(cloud, service);
                cloud.remove_groups(Some(&cluster), service, &detached, &groups_to_keep)
            });
        match closed {
            Ok(()) => previous_groups::finish(cloud, &desired.name, previous.opened),
            Err(error) => errors.push(error),
        }
    }
    // What failed may still have the earlier settings, which a later call then undoes.
    if !errors.is_empty() {
        applied.extend(applied_before);
    }
    applied::remember(cloud, &desired.name, &applied);

    let rejected = cloud.warn_rejected(service, &rejected);
    // The address of a new load balancer does not wait for the last node.
    errors.extend(rejected.filter(|_| !service.status.ingress.is_empty()));
    errors.extend(cloud.still_warned(service, warning::NODE_GROUP_UNCLEAR));
    errors.extend(awaited.error(cloud, service));

    match warning::join_errors(errors) {
        Some(error) => Err(error),
        None => Ok(status(there)),
    }
}

fn read(cloud: &Cloud<'_>, balancer: Description) -> Result<ObservedLoadBalancer> {
    let name = &balancer.load_balancer_name;
    let calls = [
        elb::on("DescribeLoadBalancerAttributes", name),
        elb::tags(name),
    ];
    let mut answers = cloud.wire.send(&calls).into_iter();
    let mut read = |call: &Call| {
        let body = answers.next().unwrap_or_else(|| {
            Err(Failure::Unreadable {
                action: call.action,
                reason: "no answer".into(),
            })
        });
        elb::read(call, &body?)
    };

    let [attributes, tags] = &calls;
    let attributes = read(attributes)?.attributes;
    let tags = match read(tags) {
        Ok(found) => Some(found.tags),
        // The IAM policy of the official provider does not include this permission.
        Err(failure) if failure.code() == "AccessDenied" => None,
        Err(failure) => return Err(failure.into()),
    };

    Ok(ObservedLoadBalancer {
        balancer,
        attributes,
        tags,
    })
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

/// Returns the groups that this plugin must not delete.
fn groups_to_keep(cloud: &Cloud<'_>, service: &Service) -> Vec<String> {
    let annotations = Annotations(&service.annotations);
    let mut groups_to_keep = annotations.list(annotation::SECURITY_GROUPS);
    groups_to_keep.extend(annotations.list(annotation::EXTRA_SECURITY_GROUPS));
    groups_to_keep.extend(cloud.config.elb_security_group.clone());
    groups_to_keep
}

fn create(
    cloud: &Cloud<'_>,
    desired: &DesiredLoadBalancer,
    cluster: &Cluster,
    vpc: &str,
    groups: &[String],
) -> Result<ObservedLoadBalancer> {
    let create = |subnets: &[SubnetRanges]| {
        let subnets: BTreeSet<&String> = subnets.iter().map(|(id, _)| id).collect();
        let call = elb::with_listeners(
            elb::on("CreateLoadBalancer", &desired.name),
            &desired.listeners,
        )
        .with_some("Scheme", desired.internal.then_some("internal"))
        .list("Subnets", &subnets)
        .list("SecurityGroups", groups)
        .tags("Tags", &desired.tags);
        let subnets: Vec<String> = subnets.into_iter().cloned().collect();
        Ok(ask(cloud, &call).map(|found| (found.dns_name, subnets)))
    };
    let (dns_name, subnets) =
        cloud.create_in(cluster, vpc, &desired.subnets, desired.need(), &create)?;

    // AWS returns only the DNS name. The rest is as requested.
    let described = |listener: &Listener| ListenerDescription {
        listener: listener.clone(),
        ..Default::default()
    };
    let balancer = Description {
        load_balancer_name: desired.name.clone(),
        dns_name,
        vpc_id: vpc.to_owned(),
        scheme: scheme(desired.internal).to_owned(),
        listener_descriptions: desired
            .listeners
            .iter()
            .map(described)
            .collect::<Vec<_>>()
            .into(),
        subnets: subnets.into(),
        security_groups: groups.to_vec().into(),
        ..Description::default()
    };

    // The attributes of a new load balancer in AWS.
    let attributes = Attributes {
        connection_settings: Settings {
            idle_timeout: Some(60),
        },
        ..Attributes::default()
    };

    Ok(ObservedLoadBalancer {
        balancer,
        attributes,
        tags: Some(desired.tags.clone()),
    })
}

/// Sends the calls of a stage at once, and returns the errors.
fn carry_out(cloud: &Cloud<'_>, stage: &[Call]) -> Vec<CloudError> {
    let mut errors = Vec::new();
    for (call, answer) in stage.iter().zip(cloud.wire.send(stage)) {
        match answer {
            // An earlier call created it.
            Err(failure) if failure.code() == "DuplicatePolicyName" => {}
            Err(failure) if call.action == elb::ADD_TAGS => {
                let (name, tags) = elb::tags_in(call);
                let send =
                    |part: &Tags| api::one(cloud.wire, &elb::add_tags(&name, part)).map(|_| ());
                errors.extend(partly::add_tags(&tags, failure, &send).err());
            }
            Err(failure) => errors.push(failure.into()),
            Ok(_) => {}
        }
    }
    errors
}

/// Changes listeners, and returns the errors: certificates in place, then additional listeners, and
/// then those that are replaced or removed. A listener whose certificate AWS rejects stays as it is;
/// one whose replacement AWS rejects is created again as it was.
fn change_listeners(cloud: &Cloud<'_>, name: &str, changes: ListenerChanges) -> Vec<CloudError> {
    let ListenerChanges {
        mut gone,
        mut fresh,
        certified,
    } = changes;
    let create =
        |listener| elb::with_listeners(elb::on("CreateLoadBalancerListeners", name), [listener]);

    let mut errors = Vec::new();
    let calls: Vec<Call> = certified
        .iter()
        .map(|(_, after)| elb::set_certificate(name, after))
        .collect();
    for ((before, after), answer) in certified.into_iter().zip(cloud.wire.send(&calls)) {
        match answer.map_err(CloudError::from) {
            Ok(_) if before.is_except_certificate(&after) => {}
            // The policy of the official provider does not include this permission.
            Ok(_) | Err(CloudError::Denied(_)) => {
                gone.push(before);
                fresh.push(after);
            }
            Err(error) => errors.push(error),
        }
    }

    // AWS allows one listener per port, so successors are created after the deletion.
    let is_taken = |listener: &Listener| {
        let port = listener.load_balancer_port;
        gone.iter().any(|one| one.load_balancer_port == port)
    };
    let (replacing, added): (Vec<Listener>, Vec<Listener>) = fresh.into_iter().partition(is_taken);
    let calls: Vec<Call> = added.iter().map(create).collect();
    errors.extend(carry_out(cloud, &calls));

    if gone.is_empty() {
        return errors;
    }
    let ports = gone.iter().map(|one| one.load_balancer_port);
    let call = elb::on("DeleteLoadBalancerListeners", name).list("LoadBalancerPorts", ports);
    if let Err(failure) = api::one(cloud.wire, &call) {
        errors.push(failure.into());
        return errors;
    }

    let calls: Vec<Call> = replacing.iter().map(create).collect();
    for (listener, answer) in replacing.iter().zip(cloud.wire.send(&calls)) {
        let Err(failure) = answer else { continue };
        errors.push(failure.into());
        let same_port = |one: &&Listener| one.load_balancer_port == listener.load_balancer_port;
        if let Some(before) = gone.iter().find(same_port) {
            // If this fails too, the error above leads to a retry.
            _ = api::one(cloud.wire, &create(before));
        }
    }
    errors
}

/// Registers and deregisters instances. Returns the instances that AWS rejected, and the errors.
fn change_instances(
    cloud: &Cloud<'_>,
    there: &Description,
    instance_ids: &BTreeSet<String>,
) -> (BTreeMap<String, Failure>, Vec<CloudError>) {
    let name = &there.load_balancer_name;
    let (fresh, gone) = plan::instance_changes(there, instance_ids);
    let mut rejected = BTreeMap::new();
    let mut errors = Vec::new();
    let send = |action: &'static str, ids: &[String]| match ids {
        [] => Ok(()),
        ids => api::one(cloud.wire, &elb::change_instances(action, name, ids)).map(|_| ()),
    };
    let register = |ids: &[String]| send("RegisterInstancesWithLoadBalancer", ids);

    let mut registered = register(&fresh);
    let deregister = |ids: &[String]| send("DeregisterInstancesFromLoadBalancer", ids);
    let deregistered = deregister(&gone);
    // After others have been deregistered, there is room.
    if registered.as_ref().is_err_and(Failure::is_target_quota) && !gone.is_empty() {
        registered = register(&fresh);
    }

    if let Err(failure) = registered {
        let outcome = partly::without_rejected(&fresh, failure, &|id| id, &register);
        rejected.extend(outcome.rejected);
        errors.extend(outcome.failed.map(CloudError::from));
    }
    if let Err(failure) = deregistered {
        let outcome = partly::without_rejected(&gone, failure, &|id| id, &deregister);
        // What AWS does not know is not behind the load balancer.
        let failed = outcome.rejected.into_iter().map(|(_, failure)| failure);
        let failed = failed.filter(|failure| !failure.is_no_target());
        errors.extend(failed.chain(outcome.failed).map(CloudError::from));
    }

    (rejected, errors)
}

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
    warning::join_errors(errors).map_or(Ok(()), Err)
}

/// Returns the instances behind a load balancer that stay although EC2 does not know them.
fn staying(awaited: &Awaited, there: &Description) -> Vec<String> {
    let behind = there.instances.items.iter().map(|one| &one.instance_id);
    awaited.staying(behind).collect()
}

/// Returns the name of a scheme.
fn scheme(internal: bool) -> &'static str {
    if internal {
        "internal"
    } else {
        "internet-facing"
    }
}

fn read_tags(cloud: &Cloud<'_>, name: &str) -> Result<Option<Tags>> {
    match ask(cloud, &elb::tags(name)) {
        Ok(found) => Ok(Some(found.tags)),
        Err(failure) if failure.code() == "AccessDenied" => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

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
