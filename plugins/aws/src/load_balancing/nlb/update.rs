//! Changes the nodes behind a network load balancer, without other changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use skydock_sdk::{
    Result,
    types::{CloudError, Service},
};

use super::{
    desired_load_balancer,
    observed_load_balancer::{DEREGISTER, REGISTER, made_groups, read_tags, send},
};
use crate::{
    client::api::{
        call::Call,
        elbv2::{self, LoadBalancer, TargetGroup},
        failure::Failure,
    },
    cloud::Cloud,
    load_balancing::common::{
        annotation::{self, Annotations},
        name,
        node_rules::Traffic,
        targets::{self, Awaited, InstanceNetwork, Target, Targets},
        warning,
    },
};

/// Maximum number of targets changed by one call, the limit of the official provider.
const CHUNK: usize = 100;

/// How long it is remembered that the nodes' security groups allow a load balancer's traffic.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Puts these nodes behind the load balancer, without other changes.
///
/// # Errors
/// Fails if the load balancer does not exist, or if a request to AWS fails.
pub(crate) fn update(cloud: &Cloud<'_>, service: &Service, nodes: &Targets) -> Result<()> {
    let cluster = cloud.identity()?.cluster;
    let name = name::balancer(service);
    let none = || CloudError::not_found(format!("load balancer {name} does not exist"));
    let balancer = super::find(cloud, &name)?.ok_or_else(none)?;
    let arn = balancer.load_balancer_arn.as_str();

    let calls = [elbv2::groups_of(arn), elbv2::tags([arn])];
    let mut answers = send(cloud.wire, &calls).into_iter();
    let groups = answers
        .next()
        .map(|answer| made_groups(answer, service))
        .transpose()?
        .unwrap_or_default();
    let tags = read_tags(answers)?;
    cluster.check(&name, tags.as_ref().and_then(|tags| tags.get(arn)))?;

    let ids = targets::ids(&nodes.all, &service.annotations);
    let mut instances = cloud.target_instances(&ids)?;
    instances.retain(|id, instance| super::in_vpc(id, instance, &balancer.vpc_id));
    let awaited = cloud.awaited(&ids);
    let wanted: BTreeSet<&str> = instances.keys().map(String::as_str).collect();

    let changes = nodes
        .changes
        .as_ref()
        .filter(|_| !targets::selects_by_label(&service.annotations));
    let calls = match changes {
        Some((added, removed)) => known(&groups, &ids_of(added), &ids_of(removed), &ids, &wanted),
        None => compared(cloud, &groups, &wanted, &awaited)?,
    };

    let (rejected, mut errors) = change(cloud, &calls);

    // The same groups have their rules since an earlier call.
    if cloud.store.get(&groups_key(cloud, &name)).as_ref() != Some(&shown(&instances)) {
        let opened = traffic(cloud, service, &balancer, &groups).and_then(|mut traffic| {
            traffic.is_partial = !awaited.ids.is_empty();
            let vpc = Some(balancer.vpc_id.as_str());
            cloud.sync_node_rules(service, &cluster, vpc, &instances, &traffic, false)
        });
        let unclear = cloud.still_warned(service, warning::NODE_GROUP_UNCLEAR);
        match opened {
            Ok(_) if unclear.is_none() => remember_groups(cloud, &name, &instances),
            opened => errors.extend(opened.err().into_iter().chain(unclear)),
        }
    }

    errors.extend(warn_rejected(cloud, service, &rejected));
    errors.extend(awaited.error(cloud, service));
    warning::join_errors(errors).map_or(Ok(()), Err)
}

/// Sends calls that change targets. Returns the targets that AWS rejected, and the errors of calls.
fn change(
    cloud: &Cloud<'_>,
    calls: &[Call],
) -> (BTreeMap<elbv2::Target, Failure>, Vec<CloudError>) {
    let mut rejected = BTreeMap::new();
    let mut errors = Vec::new();
    let mut later = Vec::new();
    let makes_room = calls.iter().any(|call| call.action != REGISTER);

    for (call, answer) in calls.iter().zip(send(cloud.wire, calls)) {
        match answer {
            Ok(found) => rejected.extend(found.rejected),
            Err(failure) if makes_room && failure.is_quota() => later.push(call.clone()),
            Err(failure) => errors.push(failure.into()),
        }
    }

    // After others have been deregistered, there is room.
    for answer in send(cloud.wire, &later) {
        match answer {
            Ok(found) => rejected.extend(found.rejected),
            Err(failure) => errors.push(failure.into()),
        }
    }

    (rejected, errors)
}

/// Publishes which instances AWS rejected as targets. Returns the error with which the call is
/// retried, or `None` if there are none.
pub(super) fn warn_rejected<'a>(
    cloud: &Cloud<'_>,
    service: &Service,
    rejected: impl IntoIterator<Item = (&'a elbv2::Target, &'a Failure)>,
) -> Option<CloudError> {
    let rejected = rejected
        .into_iter()
        .map(|(target, failure)| (target.id.clone(), failure.clone()));
    cloud.warn_rejected(service, &rejected.collect())
}

fn ids_of(nodes: &[Target]) -> BTreeSet<String> {
    targets::ids(nodes, &[])
}

/// Returns the calls for the changes that the host reports.
fn known(
    groups: &[TargetGroup],
    added: &BTreeSet<String>,
    removed: &BTreeSet<String>,
    all: &BTreeSet<String>,
    wanted: &BTreeSet<&str>,
) -> Vec<Call> {
    let mut calls = Vec::new();
    for group in groups {
        let target = |id: &str| elbv2::Target {
            id: id.to_owned(),
            port: group.port,
        };

        // A node with changed addresses is both added and removed.
        let gone: Vec<elbv2::Target> = removed
            .iter()
            .filter(|id| !all.contains(*id))
            .map(|id| target(id))
            .collect();
        let fresh: Vec<elbv2::Target> = added
            .iter()
            .filter(|id| wanted.contains(id.as_str()))
            .map(|id| target(id))
            .collect();

        calls.extend(both(&group.target_group_arn, &gone, &fresh));
    }
    calls
}

/// Returns the calls for the differences to the current targets of the load balancer.
fn compared(
    cloud: &Cloud<'_>,
    groups: &[TargetGroup],
    wanted: &BTreeSet<&str>,
    awaited: &Awaited,
) -> Result<Vec<Call>> {
    let questions: Vec<Call> = groups
        .iter()
        .map(|group| elbv2::targets(&group.target_group_arn))
        .collect();

    let mut calls = Vec::new();
    for (group, found) in groups.iter().zip(send(cloud.wire, &questions)) {
        let there: BTreeSet<elbv2::Target> = found?.targets.into_iter().collect();
        let wanted: BTreeSet<elbv2::Target> = wanted
            .iter()
            .map(|id| elbv2::Target {
                id: (*id).to_owned(),
                port: group.port,
            })
            .collect();

        // EC2 can forget an instance of a node for a moment.
        let gone = there.difference(&wanted);
        let gone: Vec<elbv2::Target> = gone
            .filter(|target| !awaited.ids.contains(&target.id))
            .cloned()
            .collect();
        let fresh: Vec<elbv2::Target> = wanted.difference(&there).cloned().collect();

        calls.extend(both(&group.target_group_arn, &gone, &fresh));
    }
    Ok(calls)
}

fn both(group: &str, gone: &[elbv2::Target], fresh: &[elbv2::Target]) -> Vec<Call> {
    let deregistered = gone
        .chunks(CHUNK)
        .map(|part| elbv2::change_targets(DEREGISTER, group, part));
    let into = fresh
        .chunks(CHUNK)
        .map(|part| elbv2::change_targets(REGISTER, group, part));
    deregistered.chain(into).collect()
}

/// Returns the traffic to the nodes, from the current state of the load balancer.
fn traffic(
    cloud: &Cloud<'_>,
    service: &Service,
    balancer: &LoadBalancer,
    groups: &[TargetGroup],
) -> Result<Traffic> {
    let mut traffic = Traffic::default();
    let ipv6 = groups
        .first()
        .is_some_and(|group| group.ip_address_type == "ipv6");

    for group in groups {
        clients(&mut traffic, &group.protocol, group.port);
        traffic.health.insert(group.checked_port());
    }

    traffic.subnets = if cloud.config.keep_node_groups {
        BTreeSet::new()
    } else {
        subnets(cloud, balancer, ipv6)?
    };

    let attributes = Annotations(&service.annotations).pairs(annotation::GROUP_ATTRIBUTES);
    let sources = Sources {
        ipv6,
        dual: balancer.ip_address_type == "dualstack",
        hidden: !desired_load_balancer::preserves(&attributes),
    };

    let every = ["0.0.0.0/0".to_owned(), "::/0".to_owned()];
    let ranges = match service.source_ranges.as_slice() {
        [] => &every,
        ranges => ranges,
    };

    traffic.ranges = sources.ranges(ranges, &traffic.subnets);
    Ok(traffic)
}

/// The addresses that the nodes see.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sources {
    /// True if nodes are reached over IPv6.
    pub(super) ipv6: bool,
    /// True if the load balancer has addresses of both families. Nodes see clients of the other
    /// family with an address of the load balancer.
    pub(super) dual: bool,
    /// True if nodes see addresses of the load balancer instead of those of clients.
    pub(super) hidden: bool,
}

impl Sources {
    /// Returns the ranges that nodes must accept, so that these clients reach them.
    pub(super) fn ranges(self, clients: &[String], subnets: &BTreeSet<String>) -> BTreeSet<String> {
        let seen = clients
            .iter()
            .filter(|range| range.contains(':') == self.ipv6);
        let mut ranges: BTreeSet<String> = seen.cloned().collect();

        let everybody = if self.ipv6 { "::/0" } else { "0.0.0.0/0" };
        if (self.hidden || self.translates(clients)) && !ranges.contains(everybody) {
            ranges.extend(subnets.iter().cloned());
        }

        ranges
    }

    /// Returns true if some of these clients have the family that the nodes do not see.
    pub(super) fn translates(self, clients: &[String]) -> bool {
        self.dual && clients.iter().any(|range| range.contains(':') != self.ipv6)
    }
}

/// Adds the clients of a target group: over TCP, UDP, or both.
pub(super) fn clients(traffic: &mut Traffic, protocol: &str, port: u16) {
    if protocol.contains("UDP") {
        traffic.clients.insert(("udp", port));
    }
    if protocol != "UDP" {
        traffic.clients.insert(("tcp", port));
    }
}

/// Returns the ranges of a load balancer's subnets.
pub(super) fn subnets(
    cloud: &Cloud<'_>,
    balancer: &LoadBalancer,
    ipv6: bool,
) -> Result<BTreeSet<String>> {
    let ids: Vec<String> = balancer
        .availability_zones
        .items
        .iter()
        .map(|zone| zone.subnet_id.clone())
        .collect();

    let ranges = cloud.ranges(&ids)?.into_iter();
    Ok(ranges
        .filter_map(|ranges| if ipv6 { ranges.v6 } else { Some(ranges.v4) })
        .collect())
}

fn groups_key(cloud: &Cloud<'_>, name: &str) -> String {
    cloud.key(&format!("open/{name}"))
}

fn shown(instances: &BTreeMap<String, InstanceNetwork>) -> String {
    let groups: BTreeSet<&String> = instances
        .values()
        .flat_map(|instance| &instance.groups)
        .collect();
    format!("{groups:?}")
}

/// Remembers the nodes' security groups whose rules are up to date.
pub(super) fn remember_groups(
    cloud: &Cloud<'_>,
    name: &str,
    instances: &BTreeMap<String, InstanceNetwork>,
) {
    cloud
        .store
        .set(&groups_key(cloud, name), &shown(instances), REMEMBERED);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_accept_the_addresses_that_they_see() {
        let set =
            |words: &str| -> Vec<String> { words.split_whitespace().map(str::to_owned).collect() };
        // Families of nodes and load balancer, and whether clients are hidden.
        for (ipv6, dual, hidden, clients, expected) in [
            (false, false, false, "192.0.2.0/24", "192.0.2.0/24"),
            (false, false, true, "192.0.2.0/24", "192.0.2.0/24 subnet"),
            (false, false, true, "0.0.0.0/0", "0.0.0.0/0"),
            (false, true, false, "0.0.0.0/0 ::/0", "0.0.0.0/0"),
            (
                false,
                true,
                false,
                "192.0.2.0/24 ::/0",
                "192.0.2.0/24 subnet",
            ),
            (false, true, false, "192.0.2.0/24", "192.0.2.0/24"),
            (
                true,
                true,
                false,
                "0.0.0.0/0 2001:db8::/32",
                "2001:db8::/32 subnet",
            ),
            (true, true, false, "0.0.0.0/0 ::/0", "::/0"),
        ] {
            let sources = Sources { ipv6, dual, hidden };
            let ranges = sources.ranges(&set(clients), &BTreeSet::from(["subnet".to_owned()]));
            assert_eq!(
                ranges,
                set(expected).into_iter().collect(),
                "{sources:?} {clients}"
            );
        }
    }
}
