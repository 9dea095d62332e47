//! Classic load balancers: what Services without the annotation `aws-load-balancer-type: nlb` have, as by the official provider.

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
    nlb,
    tags::{Cluster, Tags},
};

mod access;
mod former;
mod health;
mod plan;
mod wish;

use plan::Observed;
use wish::Wish;

/// The classic load balancer of this name, if there is one.
///
/// # Errors
/// If AWS cannot be asked.
pub(crate) fn find(cloud: &Cloud<'_>, name: &str) -> Result<Option<Description>> {
    match ask(cloud, &elb::balancer_named(name)) {
        // Of a name that there is not AWS says so: it answers no empty list.
        Ok(found) if found.balancers.is_empty() => {
            let reason = "an empty list".into();
            Err(Failure::Unreadable { action: "DescribeLoadBalancers", reason }.into())
        }
        Ok(found) => Ok(found.balancers.into_iter().find(|one| one.load_balancer_name == name)),
        Err(failure) if is_gone(&failure) => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

fn is_gone(failure: &Failure) -> bool {
    matches!(failure.code(), "LoadBalancerNotFound" | "AccessPointNotFound")
}

fn ask(cloud: &Cloud<'_>, call: &Call) -> Answer<Found> {
    elb::read(call, &api::one(cloud.wire, call)?)
}

/// The status of a load balancer: its name, which works soon after it was made.
pub(crate) fn status(balancer: &Description) -> LoadBalancerStatus {
    let point = Ingress { hostname: Some(balancer.dns_name.clone()), ..Ingress::default() };
    LoadBalancerStatus { ingress: if balancer.dns_name.is_empty() { Vec::new() } else { vec![point] } }
}

/// Makes the load balancer, or brings it to what the Service asks for.
///
/// # Errors
/// If the Service asks for what cannot be, or AWS refuses.
pub(crate) fn ensure(cloud: &Cloud<'_>, service: &Service, members: &Members) -> Result<LoadBalancerStatus> {
    let cluster = cloud.identity()?.cluster;
    let wish = Wish::of(service, &cluster, cloud.config)?;
    let found = find(cloud, &wish.name)?;
    if found.is_none() && !service.status.ingress.is_empty() && nlb::find(cloud, &wish.name)?.is_some() {
        return Err(CloudError::invalid(
            "the Service has a network load balancer: the type cannot change; delete the Service and make it anew",
        ));
    }
    let observed = found.map(|balancer| look(cloud, balancer)).transpose()?;
    if let Some(observed) = &observed {
        nlb::belongs(&wish.name, observed.tags.as_ref(), &cluster)?;
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
    let former = former::exchange(cloud, &wish.name, &observed.balancer.security_groups.items, &groups);
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
    let calls = [elb::on("DescribeLoadBalancerAttributes", name), elb::tags(name)];
    let mut answers = cloud.wire.send(&calls).into_iter();
    let mut read = |call: &Call| {
        let body = answers
            .next()
            .unwrap_or_else(|| Err(Failure::Unreadable { action: call.action, reason: "no answer at all".into() }));
        elb::read(call, &body?)
    };
    let [attributes, tags] = &calls;
    let attributes = read(attributes)?.attributes;
    let tags = match read(tags) {
        Ok(found) => Some(found.tags),
        // The official provider's policy does not ask for that right.
        Err(failure) if failure.code() == "AccessDenied" => None,
        Err(failure) => return Err(failure.into()),
    };
    Ok(Observed { balancer, attributes, tags })
}

/// The groups a load balancer is to have: the user's, or the operator's, or one that is made for it; and more.
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
        let description = format!("Security group for Kubernetes ELB {} ({})", wish.name, wish.service);
        let own = cloud.own_group(cluster, vpc, &name, &description, &wish.tags)?;
        let ports = wish.ports.iter().map(|port| ("tcp", *port)).collect();
        cloud.set_rules(&own, &security_group::rules(&ports, &wish.ranges))?;
        groups.push(own);
    }
    groups.extend(wish.extra_groups.iter().cloned());
    Ok(groups)
}

/// Groups that are not this plugin's to take away.
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
    let described = |listener: &elb::Listener| ListenerDescription { listener: listener.clone(), ..Default::default() };
    let balancer = Description {
        load_balancer_name: wish.name.clone(),
        dns_name,
        vpc_id: vpc.to_owned(),
        listener_descriptions: wish.listeners.iter().map(described).collect::<Vec<_>>().into(),
        subnets: subnets.iter().cloned().collect::<Vec<_>>().into(),
        security_groups: groups.to_vec().into(),
        ..Description::default()
    };
    // What AWS gives a new one.
    let attributes = Attributes { connection_settings: Settings { idle_timeout: Some(60) }, ..Attributes::default() };
    Ok(Observed { balancer, attributes, tags: Some(wish.tags.clone()) })
}

/// Sends the calls of a stage at once; the first that fails is told when all have been.
fn carry_out(cloud: &Cloud<'_>, stage: &[Call]) -> Result<()> {
    let mut failed = None;
    for answer in cloud.wire.send(stage) {
        match answer {
            Err(failure) if failure.code() != "DuplicatePolicyName" => failed = failed.or(Some(failure)),
            _ => {}
        }
    }
    failed.map_or(Ok(()), |failure| Err(failure.into()))
}

/// Puts these nodes behind the load balancer, and changes nothing else of it.
///
/// # Errors
/// If there is none, or AWS refuses.
pub(crate) fn update(cloud: &Cloud<'_>, service: &Service, members: &Members) -> Result<()> {
    let cluster = cloud.identity()?.cluster;
    let name = name::balancer(service);
    let none = || CloudError::not_found(format!("there is no load balancer {name}"));
    let balancer = find(cloud, &name)?.ok_or_else(none)?;
    let tags: Option<Tags> = look_tags(cloud, &name)?;
    nlb::belongs(&name, tags.as_ref(), &cluster)?;
    let mut places = cloud.places(&machine::ids(&members.all, &service.annotations))?;
    places.retain(|_, place| place.vpc == balancer.vpc_id || balancer.vpc_id.is_empty());
    let (fresh, gone) = plan::machine_changes(&balancer, &places.keys().cloned().collect());
    let mut calls = Vec::new();
    if !fresh.is_empty() {
        calls.push(elb::change_instances("RegisterInstancesWithLoadBalancer", &name, &fresh));
    }
    if !gone.is_empty() {
        calls.push(elb::change_instances("DeregisterInstancesFromLoadBalancer", &name, &gone));
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

/// Takes it away, with all that was made for it. False if there was none. `seen`: groups with the cluster's tag, if they were asked for.
///
/// # Errors
/// `in-progress` if something is still in use; or if AWS refuses.
pub(crate) fn delete(cloud: &Cloud<'_>, service: &Service, seen: Option<&ClusterGroups>) -> Result<bool> {
    let cluster = cloud.identity()?.cluster;
    let name = name::balancer(service);
    let kept = kept(cloud, service);
    let found = find(cloud, &name)?;
    let own = found.as_ref().map(|balancer| balancer.security_groups.items.clone()).unwrap_or_default();
    let vpc = found.as_ref().map(|balancer| balancer.vpc_id.as_str());
    if found.is_some() {
        nlb::belongs(&name, look_tags(cloud, &name)?.as_ref(), &cluster)?;
    }
    // Before the load balancer goes: then nothing tells any more which groups it had.
    let former = former::end(cloud, &name, access::first(&own, service));
    cloud.close_access(&cluster, vpc, &name, &former.closing)?;
    let mut groups = own;
    if found.is_some() {
        match api::one(cloud.wire, &elb::on("DeleteLoadBalancer", &name)) {
            Err(failure) if !is_gone(&failure) => return Err(failure.into()),
            _ => {}
        }
    }
    // Its own, too, that it had before it got the user's.
    groups.extend(cloud.groups_named(&name::classic_security_group(service), vpc, seen)?);
    groups.extend(former.detached);
    cloud.remove_groups(&cluster, service, &groups, &kept)?;
    former::forgotten(cloud, &name);
    Ok(found.is_some())
}
