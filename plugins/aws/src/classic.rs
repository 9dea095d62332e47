//! Classic load balancers, for Services without the annotation `aws-load-balancer-type: nlb`, as in
//! the official provider.

use std::collections::BTreeSet;

use skydock_sdk::{
    Result,
    types::{CloudError, Ingress, LoadBalancerStatus, Service},
};

use crate::{
    api::{
        self,
        call::Call,
        elb::{self, Attributes, Description, Found, ListenerDescription, Settings},
        failure::{Answer, Failure},
    },
    balancer::{
        annotation::{self, Annotations},
        machine::{self, Members},
        name,
        node_rules::ClusterGroups,
        security_group,
    },
    cloud::Cloud,
    tags::{Cluster, Tags},
};

mod access;
mod former;
mod health;
mod plan;
mod wish;

use plan::Observed;
use wish::Wish;

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
    members: &Members,
    has_network: &dyn Fn(&str) -> Result<bool>,
) -> Result<LoadBalancerStatus> {
    let cluster = cloud.identity()?.cluster;
    let wish = Wish::of(service, &cluster, cloud.config)?;
    let found = find(cloud, &wish.name)?;
    if found.is_none() && has_network(&wish.name)? {
        return Err(CloudError::invalid(
            "the Service has a network load balancer, and its type cannot be changed: delete and recreate the Service",
        ));
    }
    let observed = found.map(|balancer| look(cloud, balancer)).transpose()?;
    if let Some(observed) = &observed {
        cluster.check(&wish.name, observed.tags.as_ref())?;
    }
    let vpc = match &observed {
        Some(observed) => observed.balancer.vpc_id.clone(),
        None => cloud.vpc()?,
    };
    let subnets = cloud.subnets(&cluster, &vpc, &wish.subnets, wish.internal)?;
    let subnets: BTreeSet<String> = subnets.into_iter().map(|(id, _)| id).collect();
    let groups = security_groups(cloud, service, &cluster, &vpc, &wish)?;
    let mut places = cloud.places(&machine::ids(&members.all, &service.annotations))?;
    places.retain(|_, place| place.vpc == vpc || vpc.is_empty());
    let machines: BTreeSet<String> = places.keys().cloned().collect();
    let observed = match observed {
        Some(observed) => observed,
        None => create(cloud, &wish, &vpc, &subnets, &groups)?,
    };
    let former = former::exchange(
        cloud,
        &wish.name,
        &observed.balancer.security_groups.items,
        &groups,
    );
    for stage in plan::stages(&wish, &observed, &subnets, &groups, &machines) {
        carry_out(cloud, &stage)?;
    }
    if let Some(group) = groups.first() {
        cloud.sync_access(&cluster, &vpc, &wish.name, group, &places)?;
    }
    cloud.close_access(&cluster, Some(&vpc), &wish.name, &former.closing)?;
    let detached: Vec<String> = former.detached.into_iter().collect();
    cloud.remove_groups(&cluster, service, &detached, &kept(cloud, service))?;
    former::settled(cloud, &wish.name, former.opened);
    Ok(status(&observed.balancer))
}

fn look(cloud: &Cloud<'_>, balancer: Description) -> Result<Observed> {
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
    Ok(Observed {
        balancer,
        attributes,
        tags,
    })
}

/// Returns the security groups of a load balancer: those of the user, that of the operator, or one
/// created for it, and the extra groups.
fn security_groups(
    cloud: &Cloud<'_>,
    service: &Service,
    cluster: &Cluster,
    vpc: &str,
    wish: &Wish,
) -> Result<Vec<String>> {
    let mut groups = wish.groups.clone();
    if groups.is_empty() {
        let name = name::classic_security_group(service);
        let description = format!(
            "Security group for Kubernetes ELB {} ({})",
            wish.name, wish.service
        );
        let own = cloud.own_group(cluster, vpc, &name, &description, &wish.tags)?;
        let ports = wish.ports.iter().map(|port| ("tcp", *port)).collect();
        cloud.set_rules(&own, &security_group::rules(&ports, &wish.ranges))?;
        groups.push(own);
    }
    groups.extend(wish.extra_groups.iter().cloned());
    Ok(groups)
}

/// Returns the groups that this plugin must not delete.
fn kept(cloud: &Cloud<'_>, service: &Service) -> Vec<String> {
    let annotations = Annotations(&service.annotations);
    let mut kept = annotations.list(annotation::SECURITY_GROUPS);
    kept.extend(annotations.list(annotation::EXTRA_SECURITY_GROUPS));
    kept.extend(cloud.config.elb_security_group.clone());
    kept
}

fn create(
    cloud: &Cloud<'_>,
    wish: &Wish,
    vpc: &str,
    subnets: &BTreeSet<String>,
    groups: &[String],
) -> Result<Observed> {
    let call = elb::with_listeners(elb::on("CreateLoadBalancer", &wish.name), &wish.listeners)
        .with_some("Scheme", wish.internal.then_some("internal"))
        .list("Subnets", subnets)
        .list("SecurityGroups", groups)
        .tags("Tags", &wish.tags);
    let dns_name = ask(cloud, &call)?.dns_name;
    let described = |listener: &elb::Listener| ListenerDescription {
        listener: listener.clone(),
        ..Default::default()
    };
    let balancer = Description {
        load_balancer_name: wish.name.clone(),
        dns_name,
        vpc_id: vpc.to_owned(),
        listener_descriptions: wish
            .listeners
            .iter()
            .map(described)
            .collect::<Vec<_>>()
            .into(),
        subnets: subnets.iter().cloned().collect::<Vec<_>>().into(),
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
    Ok(Observed {
        balancer,
        attributes,
        tags: Some(wish.tags.clone()),
    })
}

/// Sends the calls of a stage at once. If calls fail, the first error is returned after all calls.
fn carry_out(cloud: &Cloud<'_>, stage: &[Call]) -> Result<()> {
    let mut failed = None;
    for answer in cloud.wire.send(stage) {
        match answer {
            Err(failure) if failure.code() != "DuplicatePolicyName" => {
                failed = failed.or(Some(failure));
            }
            _ => {}
        }
    }
    failed.map_or(Ok(()), |failure| Err(failure.into()))
}

/// Puts these nodes behind the load balancer, without other changes.
///
/// # Errors
/// Fails if the load balancer does not exist, or if a request to AWS fails.
pub(crate) fn update(cloud: &Cloud<'_>, service: &Service, members: &Members) -> Result<()> {
    let cluster = cloud.identity()?.cluster;
    let name = name::balancer(service);
    let none = || CloudError::not_found(format!("load balancer {name} does not exist"));
    let balancer = find(cloud, &name)?.ok_or_else(none)?;
    let tags: Option<Tags> = look_tags(cloud, &name)?;
    cluster.check(&name, tags.as_ref())?;
    let mut places = cloud.places(&machine::ids(&members.all, &service.annotations))?;
    places.retain(|_, place| place.vpc == balancer.vpc_id || balancer.vpc_id.is_empty());
    let (fresh, gone) = plan::machine_changes(&balancer, &places.keys().cloned().collect());
    let mut calls = Vec::new();
    if !fresh.is_empty() {
        calls.push(elb::change_instances(
            "RegisterInstancesWithLoadBalancer",
            &name,
            &fresh,
        ));
    }
    if !gone.is_empty() {
        calls.push(elb::change_instances(
            "DeregisterInstancesFromLoadBalancer",
            &name,
            &gone,
        ));
    }
    carry_out(cloud, &calls)?;
    match access::first(&balancer.security_groups.items, service) {
        Some(group) => cloud.sync_access(&cluster, &balancer.vpc_id, &name, group, &places),
        None => Ok(()),
    }
}

fn look_tags(cloud: &Cloud<'_>, name: &str) -> Result<Option<Tags>> {
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
    let cluster = cloud.identity()?.cluster;
    let name = name::balancer(service);
    let kept = kept(cloud, service);
    let found = find(cloud, &name)?;
    let own = found
        .as_ref()
        .map(|balancer| balancer.security_groups.items.clone())
        .unwrap_or_default();
    let vpc = found.as_ref().map(|balancer| balancer.vpc_id.as_str());
    if found.is_some() {
        cluster.check(&name, look_tags(cloud, &name)?.as_ref())?;
    }
    // This must happen before the load balancer is deleted: afterwards its groups are unknown.
    let former = former::end(cloud, &name, access::first(&own, service));
    cloud.close_access(&cluster, vpc, &name, &former.closing)?;
    let mut groups = own;
    if found.is_some() {
        match api::one(cloud.wire, &elb::on("DeleteLoadBalancer", &name)) {
            Err(failure) if !is_gone(&failure) => return Err(failure.into()),
            _ => {}
        }
    }
    // Also the group created for it, which it had before it got the user's group.
    groups.extend(cloud.groups_named(&name::classic_security_group(service), vpc, seen)?);
    groups.extend(former.detached);
    cloud.remove_groups(&cluster, service, &groups, &kept)?;
    former::forgotten(cloud, &name);
    Ok(found.is_some())
}
