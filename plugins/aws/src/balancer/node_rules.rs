//! What the nodes' security groups let in for a network load balancer: clients, health checks, and path MTU discovery.
//!
//! Rules are known by their descriptions, which are the official provider's.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{Result, types::CloudError};

use super::{machine, turn::Turn};
use crate::{
    api::{
        self,
        call::Call,
        ec2::{
            network::{self, SecurityGroup},
            permission::{self, Rule, Rules, Source},
        },
        elbv2,
    },
    cloud::{Cloud, invalid},
    tags::Cluster,
};

const CLIENT: &str = "kubernetes.io/rule/nlb/client";
const HEALTH: &str = "kubernetes.io/rule/nlb/health";
const MTU: &str = "kubernetes.io/rule/nlb/mtu";

/// How often the nodes' groups are looked at again when somebody else has changed them meanwhile.
const LOOKS: usize = 3;

/// Security groups with the cluster's tag, by ID.
pub(crate) type ClusterGroups = BTreeMap<String, SecurityGroup>;

/// What comes to the nodes from one load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Protocol (`tcp` or `udp`) and port of clients.
    pub(crate) clients: BTreeSet<(&'static str, u16)>,
    /// Ports of health checks.
    pub(crate) health: BTreeSet<u16>,
    /// Where clients come from.
    pub(crate) ranges: BTreeSet<String>,
    /// Where the load balancer itself is.
    pub(crate) subnets: BTreeSet<String>,
    /// What others need.
    pub(crate) probes: Probes,
}

/// Health checks of other load balancers. One rule has to do for all that come from the same subnets to the same port, and it bears the
/// name of the first that needed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probes {
    /// The port of kube-proxy's own check, if Services share that: others may be about to use it.
    pub(crate) shared: Option<u16>,
    /// Ports that others check; none if nobody has looked.
    pub(crate) others: Option<BTreeSet<u16>>,
}

impl Probes {
    fn may_need(&self, rule: &Rule) -> bool {
        let port = port(rule);
        self.others.as_ref().is_none_or(|others| others.contains(&port)) || self.shared == Some(port)
    }
}

/// The only port of a rule for health checks.
fn port(rule: &Rule) -> u16 {
    rule.ports.and_then(|(from, _)| from.try_into().ok()).unwrap_or_default()
}

/// The rules of one load balancer.
pub(crate) fn wanted(balancer: &str, traffic: &Traffic) -> Rules {
    let mut rules = Rules::new();
    for (protocol, port) in &traffic.clients {
        for range in &traffic.ranges {
            rules.insert(Rule::port(protocol, *port, Source::range(range)), format!("{CLIENT}={balancer}"));
        }
    }
    // Where all the world may come by TCP, health checks may, too.
    let by_tcp = traffic.clients.iter().filter(|(protocol, _)| *protocol == "tcp").map(|(_, port)| *port);
    let open = traffic.ranges.contains("0.0.0.0/0") && by_tcp.collect::<BTreeSet<_>>().is_superset(&traffic.health);
    if !open {
        for port in &traffic.health {
            for subnet in &traffic.subnets {
                let rule = Rule::port("tcp", *port, Source::range(subnet));
                rules.entry(rule).or_insert_with(|| format!("{HEALTH}={balancer}"));
            }
        }
    }
    rules
}

/// What is to be added to and taken from one group. Rules of others stay, also those that say the same; and of its own those for health
/// checks that others may need, while there are any.
pub(crate) fn changes(balancer: &str, there: &Rules, wanted: &Rules, probes: &Probes) -> (Rules, Rules) {
    let (client, health) = (format!("{CLIENT}={balancer}"), format!("{HEALTH}={balancer}"));
    let lacking = wanted.iter().filter(|(rule, _)| !there.contains_key(*rule));
    let mut grant: Rules = lacking.map(|(rule, text)| (rule.clone(), text.clone())).collect();
    let own_ports: BTreeSet<u16> =
        there.iter().chain(wanted).filter(|(_, text)| **text == client).map(|(rule, _)| port(rule)).collect();
    let others = there.values().any(|text| text.starts_with(CLIENT) && *text != client);
    let needed = |rule: &Rule| others && !own_ports.contains(&port(rule)) && probes.may_need(rule);
    let idle = there.iter().filter(|(rule, text)| {
        !wanted.contains_key(*rule) && (**text == client || (**text == health && !needed(rule)))
    });
    let mut revoke: Rules = idle.map(|(rule, text)| (rule.clone(), text.clone())).collect();
    if grant.is_empty() && revoke.is_empty() && wanted.is_empty() {
        return (grant, revoke);
    }
    let after = there.iter().filter(|(rule, _)| !revoke.contains_key(*rule)).chain(&grant);
    let after: Vec<&Rule> = after.filter(|(_, text)| text.contains(CLIENT)).map(|(rule, _)| rule).collect();
    // The last one takes with it what it shared, which may bear the name of one that is gone.
    if let (true, Some(others)) = (after.is_empty(), &probes.others) {
        let idle = there.iter().filter(|(rule, text)| text.starts_with(HEALTH) && !others.contains(&port(rule)));
        let idle = idle.filter(|(rule, _)| !wanted.contains_key(*rule));
        revoke.extend(idle.map(|(rule, text)| (rule.clone(), text.clone())));
    }
    // All load balancers share the rule for path MTU discovery from the same clients.
    let clients: BTreeSet<Rule> = after
        .into_iter()
        .filter(|rule| matches!(rule.source, Source::V4(_)))
        .map(|rule| Rule::path_mtu(rule.source.clone()))
        .collect();
    let idle = there.iter().filter(|(rule, text)| *text == MTU && !clients.contains(*rule));
    revoke.extend(idle.map(|(rule, text)| (rule.clone(), text.clone())));
    let lacking = clients.into_iter().filter(|rule| !there.contains_key(rule));
    grant.extend(lacking.map(|rule| (rule, MTU.to_owned())));
    (grant, revoke)
}

/// The groups of the nodes that are to let traffic in: of each machine the one with the cluster's tag, or its only one.
///
/// # Errors
/// If a machine has several that could be meant.
pub(crate) fn groups(places: &BTreeMap<String, machine::Place>, tagged: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let mut groups = BTreeSet::new();
    for (id, place) in places {
        let candidates: Vec<&String> = place.groups.intersection(tagged).collect();
        let candidates = if candidates.is_empty() { place.groups.iter().collect() } else { candidates };
        match candidates.as_slice() {
            [] => {}
            [one] => _ = groups.insert((*one).clone()),
            [..] => {
                return Err(invalid(format!(
                    "machine {id} has several security groups that could be the nodes': give exactly one of them the \
                     cluster's tag"
                )));
            }
        }
    }
    Ok(groups)
}

/// What is to be done about the nodes' groups.
struct Plan {
    /// Those with the cluster's tag.
    groups: ClusterGroups,
    calls: Vec<Call>,
    /// True if rules for health checks go.
    closes_checks: bool,
}

impl Cloud<'_> {
    /// Security groups with the cluster's tag, in its VPC.
    ///
    /// # Errors
    /// If AWS cannot be asked.
    pub(crate) fn cluster_groups(&self, cluster: &Cluster, vpc: Option<&str>) -> Result<ClusterGroups> {
        let in_vpc = vpc.map(|vpc| ("vpc-id", vec![vpc.to_owned()]));
        let call = network::groups_by(std::iter::once(network::of_cluster(cluster)).chain(in_vpc));
        let groups = network::groups(self.wire, &call)?.into_iter().filter(|group| cluster.has(&group.tags()));
        Ok(groups.map(|group| (group.group_id.clone(), group)).collect())
    }

    /// Lets a load balancer's traffic in at the nodes behind it, and nowhere else. Without nodes or traffic, takes all its rules
    /// away. Tells which groups bear the cluster's tag; nothing if the nodes' groups are not this plugin's to change.
    ///
    /// # Errors
    /// If AWS cannot be asked, or another instance is at it for too long.
    pub(crate) fn sync_node_rules(
        &self,
        cluster: &Cluster,
        vpc: Option<&str>,
        balancer: &str,
        places: &BTreeMap<String, machine::Place>,
        traffic: &Traffic,
        likely: bool,
    ) -> Result<Option<ClusterGroups>> {
        if self.config.keep_node_groups {
            return Ok(None);
        }
        if !likely {
            let Plan { groups, calls, .. } = self.node_rule_calls(cluster, vpc, balancer, places, traffic)?;
            if calls.is_empty() {
                return Ok(Some(groups));
            }
        }
        // The groups are shared by all Services: their rules are read and changed by one at a time.
        let Some(turn) = self.turn("node-rules") else {
            return Err(CloudError::conflict("others are at the nodes' security groups"));
        };
        for _ in 0..LOOKS {
            let mut plan = self.node_rule_calls(cluster, vpc, balancer, places, traffic)?;
            if plan.closes_checks && traffic.probes.others.is_some() {
                // Whoever has come to need them since they were looked at has made its target group before it waits for its turn.
                let mut traffic = traffic.clone();
                traffic.probes.others = Some(self.checked_by_others(vpc, balancer)?);
                plan = self.node_rule_calls(cluster, vpc, balancer, places, &traffic)?;
            }
            if self.change_rules(&turn, &plan.calls)? {
                return Ok(Some(plan.groups));
            }
        }
        Err(CloudError::conflict("the nodes' security groups change all the time: is anybody else at them?"))
    }

    /// False if others, who take no turns, have changed a group meanwhile: of several rules AWS then changes none.
    fn change_rules(&self, turn: &Turn<'_>, calls: &[Call]) -> Result<bool> {
        let mut is_done = true;
        for call in calls {
            if !turn.goes_on() {
                return Err(CloudError::conflict("it took too long, and others are at the nodes' security groups"));
            }
            match api::one(self.wire, call) {
                Ok(_) => {}
                Err(failure)
                    if matches!(failure.code(), "InvalidPermission.NotFound" | "InvalidPermission.Duplicate") =>
                {
                    is_done = false;
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        Ok(is_done)
    }

    fn node_rule_calls(
        &self,
        cluster: &Cluster,
        vpc: Option<&str>,
        balancer: &str,
        places: &BTreeMap<String, machine::Place>,
        traffic: &Traffic,
    ) -> Result<Plan> {
        let tagged = self.cluster_groups(cluster, vpc)?;
        let mut all = tagged.clone();
        let open = groups(places, &all.keys().cloned().collect())?;
        let untagged: Vec<String> = open.iter().filter(|id| !all.contains_key(*id)).cloned().collect();
        if !untagged.is_empty() {
            for group in network::groups(self.wire, &network::groups_by([("group-id", untagged)]))? {
                all.insert(group.group_id.clone(), group);
            }
        }
        let rules = wanted(balancer, traffic);
        let mut calls = Vec::new();
        let mut closes_checks = false;
        for (id, group) in &all {
            let none = Rules::new();
            let wanted = if open.contains(id) { &rules } else { &none };
            let (grant, revoke) = changes(balancer, &permission::rules(&group.ip_permissions), wanted, &traffic.probes);
            if !revoke.is_empty() {
                closes_checks |= revoke.values().any(|text| text.starts_with(HEALTH));
                calls.push(permission::revoke(id, &revoke));
            }
            if !grant.is_empty() {
                calls.push(permission::authorize(id, &grant));
            }
        }
        Ok(Plan { groups: tagged, calls, closes_checks })
    }

    /// Ports at which other load balancers check their targets.
    fn checked_by_others(&self, vpc: Option<&str>, balancer: &str) -> Result<BTreeSet<u16>> {
        let own = format!("/{balancer}/");
        let is_own = |of: &[String]| !of.is_empty() && of.iter().all(|arn| arn.contains(&own));
        let groups = elbv2::all_groups(self.wire)?.into_iter();
        let others = groups.filter(|group| {
            vpc.is_none_or(|vpc| group.vpc_id.is_empty() || group.vpc_id == vpc)
                && !is_own(&group.load_balancer_arns.items)
        });
        Ok(others.map(|group| group.health_check_port.parse().unwrap_or(group.port)).collect())
    }
}

#[cfg(test)]
mod tests;
