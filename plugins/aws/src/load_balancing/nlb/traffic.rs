//! The traffic from a network load balancer to the nodes, which their security groups must allow.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use skydock_sdk::{Result, types::Service};

use super::{
    Context, Nodes,
    desired_load_balancer::{DesiredLoadBalancer, preserves},
    observed_load_balancer::ObservedLoadBalancer,
};
use crate::{
    client::api::elbv2::{LoadBalancer, TargetGroup},
    cloud::Cloud,
    load_balancing::common::{
        annotation::{self, Annotations},
        node_rules::{Expected, Traffic},
        targets::InstanceNetwork,
    },
};

/// How long it is remembered that the nodes' security groups allow a load balancer's traffic.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Allows the traffic to the nodes that the load balancer has, and that the Service requests.
pub(super) fn open_nodes(
    context: Context<'_>,
    observed: &ObservedLoadBalancer,
    nodes: Nodes<'_>,
    expected: Expected,
) -> Result<()> {
    let Context {
        cloud,
        service,
        cluster,
        desired,
        ..
    } = context;

    let mut traffic = requested(cloud, desired, observed)?;
    traffic.is_partial = nodes.are_partial;
    let vpc = Some(observed.balancer.vpc_id.as_str());
    cloud.sync_node_rules(service, cluster, vpc, nodes.instances, &traffic, expected)?;
    Ok(())
}

/// Returns the traffic to the nodes: of the target groups that the Service requests, and of those
/// that the load balancer has.
fn requested(
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
        add_clients(&mut traffic, group.protocol, group.port);
        traffic
            .health
            .insert(group.health.port.parse().unwrap_or(group.port));
    }

    for group in &observed.groups {
        add_clients(&mut traffic, &group.protocol, group.port);
        traffic.health.insert(group.checked_port());
    }

    // If the nodes' groups are not changed, nobody needs the ranges.
    traffic.subnets = if cloud.config.keep_node_groups {
        BTreeSet::new()
    } else {
        subnets(cloud, balancer, ipv6)?
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
        hidden: !preserves(&desired.group_attributes) || hides_clients(observed).contains(&true),
    }
}

/// Returns whether the target groups hide the addresses of clients.
pub(super) fn hides_clients(observed: &ObservedLoadBalancer) -> BTreeSet<bool> {
    let hides_clients = observed.groups.iter().map(|group| {
        let attributes = observed.group_attributes.get(&group.target_group_arn);
        attributes.is_some_and(|attributes| !preserves(attributes))
    });
    hides_clients.collect()
}

/// Returns a sentence if the nodes cannot enforce the ranges of a Service.
pub(super) fn not_enforced(
    desired: &DesiredLoadBalancer,
    observed: &ObservedLoadBalancer,
) -> Option<String> {
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

/// Returns the traffic to the nodes, from the current state of the load balancer.
pub(super) fn current(
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
        add_clients(&mut traffic, &group.protocol, group.port);
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
        hidden: !preserves(&attributes),
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
struct Sources {
    /// True if nodes are reached over IPv6.
    ipv6: bool,
    /// True if the load balancer has addresses of both families. Nodes see clients of the other
    /// family with an address of the load balancer.
    dual: bool,
    /// True if nodes see addresses of the load balancer instead of those of clients.
    hidden: bool,
}

impl Sources {
    /// Returns the ranges that nodes must accept, so that these clients reach them.
    fn ranges(self, clients: &[String], subnets: &BTreeSet<String>) -> BTreeSet<String> {
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
    fn translates(self, clients: &[String]) -> bool {
        self.dual && clients.iter().any(|range| range.contains(':') != self.ipv6)
    }
}

/// Adds the clients of a target group: over TCP, UDP, or both.
fn add_clients(traffic: &mut Traffic, protocol: &str, port: u16) {
    if protocol.contains("UDP") {
        traffic.clients.insert(("udp", port));
    }
    if protocol != "UDP" {
        traffic.clients.insert(("tcp", port));
    }
}

/// Returns the ranges of a load balancer's subnets.
fn subnets(cloud: &Cloud<'_>, balancer: &LoadBalancer, ipv6: bool) -> Result<BTreeSet<String>> {
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

/// Returns true if the rules of the security groups of these instances are up to date.
pub(super) fn are_groups_open(
    cloud: &Cloud<'_>,
    name: &str,
    instances: &BTreeMap<String, InstanceNetwork>,
) -> bool {
    cloud.store.get(&groups_key(cloud, name)) == Some(groups_of(instances))
}

/// Remembers the nodes' security groups whose rules are up to date.
pub(super) fn remember_groups(
    cloud: &Cloud<'_>,
    name: &str,
    instances: &BTreeMap<String, InstanceNetwork>,
) {
    cloud
        .store
        .set(&groups_key(cloud, name), &groups_of(instances), REMEMBERED);
}

fn groups_key(cloud: &Cloud<'_>, name: &str) -> String {
    cloud.key(&format!("open/{name}"))
}

fn groups_of(instances: &BTreeMap<String, InstanceNetwork>) -> String {
    let groups: BTreeSet<&String> = instances
        .values()
        .flat_map(|instance| &instance.groups)
        .collect();
    format!("{groups:?}")
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
