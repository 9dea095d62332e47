//! Network load balancers.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{
    Result, log,
    types::{CloudError, Ingress, LoadBalancerStatus, Service},
};

use crate::{
    api::{
        self,
        call::Call,
        elbv2::{self, Found, LoadBalancer},
        failure::{Answer, Failure},
    },
    balancer::{
        machine::{self, Members, Place},
        node_rules::Traffic,
    },
    cloud::{Cloud, invalid},
    tags::{Cluster, Owner, Tags},
};

pub(crate) mod delete;
pub(crate) mod groups;
mod health;
mod observed;
mod plan;
mod steps;
mod update;
pub(crate) mod wish;

pub(crate) use update::update;

use observed::Observed;
use plan::Step;
use wish::{Group, Stack, Wish};

/// Most rounds of calls. Three make a load balancer; the rest is for what others change meanwhile.
const ROUNDS: usize = 10;

/// The network load balancer of this name, if there is one.
///
/// # Errors
/// If AWS cannot be asked.
pub(crate) fn find(cloud: &Cloud<'_>, name: &str) -> Result<Option<LoadBalancer>> {
    let call = elbv2::balancer_named(name);
    Ok(elbv2::network(ask(cloud, &call), name)?)
}

fn ask(cloud: &Cloud<'_>, call: &Call) -> Answer<Found> {
    elbv2::read(call, &api::one(cloud.wire, call)?)
}

/// The status of a load balancer. Its name leads to it once it is up, one to three minutes after it was made; clients that ask earlier
/// try again, and users see where it will be.
pub(crate) fn status(balancer: &LoadBalancer) -> LoadBalancerStatus {
    let works = balancer.state.code != "failed" && !balancer.dns_name.is_empty();
    let point = Ingress { hostname: Some(balancer.dns_name.clone()), ..Ingress::default() };
    LoadBalancerStatus { ingress: if works { vec![point] } else { Vec::new() } }
}

/// Makes the load balancer, or brings it to what the Service asks for.
///
/// # Errors
/// If the Service asks for what cannot be, or AWS refuses, or could not set it up.
pub(crate) fn ensure(cloud: &Cloud<'_>, service: &Service, members: &Members) -> Result<LoadBalancerStatus> {
    let cluster = cloud.identity()?.cluster;
    let wish = Wish::of(service, &cluster, cloud.config)?;
    let ids = machine::ids(&members.all, &service.annotations);
    let found = find(cloud, &wish.name)?;
    let fresh = found.is_none();
    let mut places = cloud.places(&ids)?;
    let mut observed = match found {
        Some(balancer) => Observed::look(cloud.wire, balancer, &wish)?,
        None => Observed::fresh(create(cloud, service, &wish, &cluster)?),
    };
    check_owner(&observed, &cluster)?;
    if observed.balancer.state.code == "failed" {
        let reason = &observed.balancer.state.reason;
        return Err(CloudError::internal(format!("AWS could not set up load balancer {}: {reason}", wish.name)));
    }
    let vpc = observed.balancer.vpc_id.clone();
    places.retain(|id, place| in_vpc(id, place, &vpc));
    let targets: BTreeSet<String> = places.keys().cloned().collect();
    // AWS takes none on a load balancer that was made without.
    let may_have = !fresh && !observed.balancer.security_groups.items.is_empty();
    if let (wish::Security::Managed(name), true) = (&wish.security, may_have) {
        observed.managed_group = Some(groups::ensure(cloud, &cluster, &vpc, name, &wish)?);
    }
    let before = observed.balancer.security_groups.items.clone();
    reconcile(cloud, &wish, &mut observed, &targets, &vpc)?;
    groups::settle(cloud, &cluster, service, &wish, &observed, &before, fresh)?;
    let traffic = traffic(cloud, &wish, &observed.balancer)?;
    cloud.sync_node_rules(&cluster, Some(&vpc), &wish.name, &places, &traffic, fresh)?;
    update::note_groups(cloud, &wish.name, &places);
    Ok(status(&observed.balancer))
}

/// A load balancer that bears another cluster's tag is left alone. One that bears nobody's is ours by its name, which has the
/// Service's UID in it.
fn check_owner(observed: &Observed, cluster: &Cluster) -> Result<()> {
    let tags = observed.tags.as_ref().and_then(|tags| tags.get(&observed.balancer.load_balancer_arn));
    belongs(&observed.balancer.load_balancer_name, tags, cluster)
}

/// Refuses what is another cluster's.
pub(crate) fn belongs(name: &str, tags: Option<&Tags>, cluster: &Cluster) -> Result<()> {
    match tags.map_or(Owner::Nobody, |tags| cluster.owner(tags)) {
        Owner::Others => {
            Err(invalid(format!("load balancer {name} bears the tag of another cluster: it is left alone")))
        }
        Owner::Ours | Owner::Nobody => Ok(()),
    }
}

fn in_vpc(id: &str, place: &Place, vpc: &str) -> bool {
    let fits = place.vpc == vpc || vpc.is_empty();
    if !fits {
        log::warn("targets", format_args!("machine {id} is not in VPC {vpc}: it cannot be a target"));
    }
    fits
}

/// Makes the load balancer itself.
fn create(cloud: &Cloud<'_>, service: &Service, wish: &Wish, cluster: &Cluster) -> Result<LoadBalancer> {
    if !service.status.ingress.is_empty() && crate::classic::find(cloud, &wish.name)?.is_some() {
        return Err(invalid(
            "the Service has a classic load balancer: the type cannot change; delete the Service and make it anew",
        ));
    }
    let vpc = cloud.vpc()?;
    let subnets = cloud.subnets(cluster, &vpc, &wish.subnets, wish.internal)?;
    let mut call = elbv2::create_balancer(&wish.name).tags("Tags", &wish.tags);
    if wish.internal {
        call = call.with("Scheme", "internal");
    }
    for (what, values) in [("eip-allocations", &wish.allocations), ("private-ipv4-addresses", &wish.private_addresses)]
    {
        if !values.is_empty() && values.len() != subnets.len() {
            return Err(invalid(format!(
                "annotation {} has {} values, and the load balancer {} subnets: give one for each, and name the subnets",
                crate::balancer::annotation::key(what),
                values.len(),
                subnets.len()
            )));
        }
    }
    for (index, (id, _)) in subnets.iter().enumerate() {
        let item = format!("SubnetMappings.member.{}", index + 1);
        call = call
            .with(format!("{item}.SubnetId"), id)
            .with_some(&format!("{item}.AllocationId"), wish.allocations.get(index))
            .with_some(&format!("{item}.PrivateIPv4Address"), wish.private_addresses.get(index));
    }
    let all_v6 = subnets.iter().all(|(_, ranges)| ranges.v6.is_some());
    if wish.stack == Stack::Dual || (wish.stack == Stack::Preferred && all_v6) {
        call = call.with("IpAddressType", "dualstack");
    }
    let security = match &wish.security {
        wish::Security::Left => Vec::new(),
        wish::Security::Given(groups) => groups.clone(),
        wish::Security::Managed(name) => vec![groups::ensure(cloud, cluster, &vpc, name, wish)?],
    };
    let found = ask(cloud, &call.list("SecurityGroups", &security))?;
    let mut balancer = found
        .balancers
        .into_iter()
        .next()
        .ok_or_else(|| CloudError::internal("CreateLoadBalancer answers no load balancer"))?;
    if balancer.vpc_id.is_empty() {
        balancer.vpc_id = vpc;
    }
    Ok(balancer)
}

/// Goes on until nothing is left to do.
fn reconcile(
    cloud: &Cloud<'_>,
    wish: &Wish,
    observed: &mut Observed,
    targets: &BTreeSet<String>,
    vpc: &str,
) -> Result<()> {
    for _ in 0..ROUNDS {
        let steps = plan::plan(wish, observed, targets);
        if steps.is_empty() {
            return Ok(());
        }
        let arn = observed.balancer.load_balancer_arn.clone();
        let calls: Vec<Call> = steps.iter().map(|step| steps::call(step, wish, &arn, vpc)).collect();
        let mut failed = None;
        for (step, answer) in steps.iter().zip(observed::send(cloud.wire, &calls)) {
            match outcome(cloud, wish, observed, step, answer) {
                Ok(found) => observed.absorb(step, found),
                // What else went well is kept; the rest is for the next call.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Err(CloudError::conflict(format!("load balancer {} changes all the time: is anybody else at it?", wish.name)))
}

/// What became of a step; some refusals mean that it was done already.
fn outcome(
    cloud: &Cloud<'_>,
    wish: &Wish,
    observed: &mut Observed,
    step: &Step,
    answer: Answer<Found>,
) -> Result<Found> {
    let code = answer.as_ref().err().map(Failure::code).unwrap_or_default().to_owned();
    match (step, code.as_str()) {
        (Step::CreateGroup(group), "DuplicateTargetGroupName") => adopt(cloud, wish, observed, group),
        (Step::DeleteListener(_), "ListenerNotFound") | (Step::DeleteGroup(_), "TargetGroupNotFound") => {
            Ok(Found::default())
        }
        _ => Ok(answer?),
    }
}

/// A target group of the right name that was made earlier, and is led to by nobody else.
fn adopt(cloud: &Cloud<'_>, wish: &Wish, observed: &mut Observed, wanted: &Group) -> Result<Found> {
    let name = &wanted.name;
    let mut found = ask(cloud, &elbv2::group_named(name))?;
    let ours = &observed.balancer.load_balancer_arn;
    found.groups.retain(|group| {
        group.target_group_name == *name && group.load_balancer_arns.items.iter().all(|arn| arn == ours)
    });
    let Some(group) = found.groups.first() else {
        return Err(CloudError::conflict(format!("target group {name} belongs to another load balancer")));
    };
    if !plan::fits(wanted, group) {
        return Err(CloudError::internal(format!(
            "target group {name} was changed by somebody else: its health check is {} every {} s, and by the Service {} every {} s; \
             set it back, or delete it",
            group.health_check_protocol,
            group.health_check_interval_seconds,
            wanted.health.protocol,
            wanted.health.interval
        )));
    }
    let arn = group.target_group_arn.clone();
    let tags = observed::read_tags([ask(cloud, &elbv2::tags([arn.as_str()]))].into_iter())?;
    let tags: BTreeMap<String, Tags> = tags.unwrap_or_default();
    if tags.get(&arn).is_some_and(|tags| tags.get(crate::tags::SERVICE) != wish.tags.get(crate::tags::SERVICE)) {
        return Err(CloudError::conflict(format!("target group {name} is there and bears another Service's tag")));
    }
    let targets = ask(cloud, &elbv2::targets(&arn))?.targets;
    observed.targets.insert(arn, targets.into_iter().collect());
    Ok(found)
}

/// What comes to the nodes.
fn traffic(cloud: &Cloud<'_>, wish: &Wish, balancer: &LoadBalancer) -> Result<Traffic> {
    let mut traffic = Traffic::default();
    let ipv6 = wish.fronts.first().is_some_and(|front| front.group.ipv6);
    for front in &wish.fronts {
        let group = &front.group;
        update::clients(&mut traffic, group.protocol, group.port);
        traffic.health.insert(group.health.port.parse().unwrap_or(group.port));
    }
    traffic.ranges = wish.ranges.iter().filter(|range| range.contains(':') == ipv6).cloned().collect();
    traffic.subnets =
        if cloud.config.keep_node_groups { BTreeSet::new() } else { update::subnets(cloud, balancer, ipv6)? };
    if balancer.ip_address_type == "dualstack" && !ipv6 && !traffic.ranges.contains("0.0.0.0/0") {
        // Who comes by IPv6 is seen with an address of the load balancer.
        traffic.ranges.extend(traffic.subnets.iter().cloned());
    }
    Ok(traffic)
}
