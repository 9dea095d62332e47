//! The rules of the nodes' security groups for a network load balancer: clients, health checks, and
//! path MTU discovery.
//!
//! Rules are identified by their descriptions, which are those of the official provider.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{
    Result,
    types::{CloudError, Service},
};

use super::{
    errors,
    lock::Lock,
    name,
    rule_change::{Changed, RuleChange},
    targets, warning,
};
use crate::{
    client::api::{
        ec2::{
            network::{self, SecurityGroup},
            permission::{self, Rule, Rules, Source},
        },
        elbv2,
    },
    cloud::Cloud,
    tags::Cluster,
};

const CLIENT: &str = "kubernetes.io/rule/nlb/client";
const HEALTH: &str = "kubernetes.io/rule/nlb/health";
const MTU: &str = "kubernetes.io/rule/nlb/mtu";

/// How often the nodes' security groups are read again if another client changes them at the same
/// time.
const ATTEMPTS: usize = 3;

/// Security groups with the cluster's tag, by ID.
pub(crate) type ClusterGroups = BTreeMap<String, SecurityGroup>;

/// What a call expects of the rules before it has read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// They are probably up to date, and are compared before the call waits for the lock.
    UpToDate,
    /// They probably have to change.
    Outdated,
}

/// The traffic from one load balancer to the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Protocol (`tcp` or `udp`) and port of client traffic.
    pub(crate) clients: BTreeSet<(&'static str, u16)>,
    /// The ports of health checks.
    pub(crate) health: BTreeSet<u16>,
    /// The source ranges of clients.
    pub(crate) ranges: BTreeSet<String>,
    /// The ranges of the load balancer's subnets.
    pub(crate) subnets: BTreeSet<String>,
    /// The health checks of other load balancers.
    pub(crate) probes: Probes,
    /// True if EC2 does not know the instances of some nodes behind the load balancer, whose groups
    /// are therefore unknown and keep their rules.
    pub(crate) is_partial: bool,
}

/// Health checks of other load balancers. Load balancers in the same subnets share one rule per
/// checked port, with the name of the first load balancer that needed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probes {
    /// The port of kube-proxy's health check if Services share it. Other Services may be about to
    /// use it.
    pub(crate) shared: Option<u16>,
    /// The ports that other load balancers check, or `None` if they have not been read.
    pub(crate) others: Option<BTreeSet<u16>>,
}

impl Probes {
    fn may_need(&self, rule: &Rule) -> bool {
        let port = port(rule);
        self.others
            .as_ref()
            .is_none_or(|others| others.contains(&port))
            || self.shared == Some(port)
    }
}

/// Returns the only port of a rule for health checks.
fn port(rule: &Rule) -> u16 {
    rule.ports
        .and_then(|(from, _)| from.try_into().ok())
        .unwrap_or_default()
}

/// Returns the rules for one load balancer.
pub(crate) fn wanted(balancer: &str, traffic: &Traffic) -> Rules {
    let mut rules = Rules::new();
    for (protocol, port) in &traffic.clients {
        for range in &traffic.ranges {
            rules.insert(
                Rule::port(protocol, *port, Source::range(range)),
                format!("{CLIENT}={balancer}"),
            );
        }
    }

    // If all clients are allowed over TCP, health checks are allowed too.
    let by_tcp = traffic
        .clients
        .iter()
        .filter(|(protocol, _)| *protocol == "tcp")
        .map(|(_, port)| *port);
    let open = traffic.ranges.contains("0.0.0.0/0")
        && by_tcp.collect::<BTreeSet<_>>().is_superset(&traffic.health);

    if !open {
        for port in &traffic.health {
            for subnet in &traffic.subnets {
                let rule = Rule::port("tcp", *port, Source::range(subnet));
                rules
                    .entry(rule)
                    .or_insert_with(|| format!("{HEALTH}={balancer}"));
            }
        }
    }
    rules
}

/// Returns the rules to add to and to remove from one group. Rules of others are kept, including
/// identical ones. The load balancer's own rules for health checks are kept if other load balancers
/// may need them.
pub(crate) fn changes(
    balancer: &str,
    there: &Rules,
    wanted: &Rules,
    probes: &Probes,
) -> (Rules, Rules) {
    let client = format!("{CLIENT}={balancer}");
    let health = format!("{HEALTH}={balancer}");

    let lacking = wanted.iter().filter(|(rule, _)| !there.contains_key(*rule));
    let mut grant: Rules = lacking
        .map(|(rule, text)| (rule.clone(), text.clone()))
        .collect();

    let own_ports: BTreeSet<u16> = there
        .iter()
        .chain(wanted)
        .filter(|(_, text)| **text == client)
        .map(|(rule, _)| port(rule))
        .collect();

    // Without the ports that others check, the names in the rules tell whether there are others.
    let others = probes.others.is_some()
        || there
            .values()
            .any(|text| text.starts_with(CLIENT) && *text != client);
    let needed = |rule: &Rule| others && !own_ports.contains(&port(rule)) && probes.may_need(rule);
    let idle = there.iter().filter(|(rule, text)| {
        !wanted.contains_key(*rule) && (**text == client || (**text == health && !needed(rule)))
    });
    let mut revoke: Rules = idle
        .map(|(rule, text)| (rule.clone(), text.clone()))
        .collect();

    // The load balancer has nothing to do with this group.
    if grant.is_empty() && revoke.is_empty() && wanted.is_empty() {
        return (grant, revoke);
    }

    let after = there
        .iter()
        .filter(|(rule, _)| !revoke.contains_key(*rule))
        .chain(&grant);
    let after: BTreeSet<Rule> = after
        .filter(|(_, text)| text.contains(CLIENT))
        .map(|(rule, _)| rule.clone())
        .collect();

    // The last load balancer also removes the shared rules, which may have the name of a deleted
    // load balancer.
    if let (true, Some(others)) = (after.is_empty(), &probes.others) {
        let idle = there
            .iter()
            .filter(|(rule, text)| text.starts_with(HEALTH) && !others.contains(&port(rule)));
        let idle = idle.filter(|(rule, _)| !wanted.contains_key(*rule));
        revoke.extend(idle.map(|(rule, text)| (rule.clone(), text.clone())));
    }

    let (missing, idle) = path_mtu_changes(there, &after);
    grant.extend(missing);
    revoke.extend(idle);
    (grant, revoke)
}

/// Returns the rules for path MTU discovery to add and to remove. All load balancers with the same
/// client ranges share one. `after` are the rules for clients that the group will have.
fn path_mtu_changes(there: &Rules, after: &BTreeSet<Rule>) -> (Rules, Rules) {
    let wanted: BTreeSet<Rule> = after
        .iter()
        .filter(|rule| matches!(rule.source, Source::V4(_)))
        .map(|rule| Rule::path_mtu(rule.source.clone()))
        .collect();

    let idle = there
        .iter()
        .filter(|(rule, text)| *text == MTU && !wanted.contains(*rule))
        .map(|(rule, text)| (rule.clone(), text.clone()))
        .collect();
    let missing = wanted
        .into_iter()
        .filter(|rule| !there.contains_key(rule))
        .map(|rule| (rule, MTU.to_owned()))
        .collect();
    (missing, idle)
}

/// The security groups of the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeGroups {
    /// The groups that must allow the traffic: for each instance the group with the cluster's tag,
    /// or its only group.
    pub(crate) open: BTreeSet<String>,
    /// The groups that are not opened but keep their rules: instances have several of them that
    /// could be the nodes' group.
    pub(crate) kept: BTreeSet<String>,
    /// Sentences about these instances.
    unclear: Vec<String>,
}

impl NodeGroups {
    fn of(
        instances: &BTreeMap<String, targets::InstanceNetwork>,
        tagged: &BTreeSet<String>,
    ) -> Self {
        let mut groups = Self::default();
        let mut unclear: BTreeMap<BTreeSet<String>, Vec<&String>> = BTreeMap::new();
        for (id, instance) in instances {
            let mut candidates: BTreeSet<String> =
                instance.groups.intersection(tagged).cloned().collect();
            if candidates.is_empty() {
                candidates.clone_from(&instance.groups);
            }
            if candidates.len() > 1 {
                unclear.entry(candidates).or_default().push(id);
            } else {
                groups.open.extend(candidates);
            }
        }

        for (candidates, ids) in unclear {
            groups.unclear.push(sentence(&candidates, &ids, tagged));
            groups.kept.extend(candidates);
        }

        // A group that is the clear choice for another instance is opened.
        groups
            .kept
            .retain(|candidate| !groups.open.contains(candidate));
        groups
    }
}

/// Returns a sentence about instances with several groups that could be the nodes' group.
fn sentence(candidates: &BTreeSet<String>, ids: &[&String], tagged: &BTreeSet<String>) -> String {
    let who = match ids {
        [] => String::new(),
        [id] => format!("instance {id} has"),
        [id, others @ ..] => format!("instance {id} and {} more have", others.len()),
    };

    let advice = if candidates.is_subset(tagged) {
        "remove the cluster's tag from all but one of them"
    } else {
        "add the cluster's tag to exactly one of them"
    };

    let all: Vec<&str> = candidates.iter().map(String::as_str).collect();
    format!(
        "{who} several security groups that could be the nodes' group ({}), whose rules are not changed for that: {advice}",
        all.join(", ")
    )
}

/// Security groups whose rules were read.
struct CurrentRules {
    /// The groups with the cluster's tag.
    tagged: ClusterGroups,
    /// These groups and the nodes' own groups.
    all: ClusterGroups,
    groups: NodeGroups,
}

impl CurrentRules {
    /// Returns the changes of the groups, and true if rules for health checks are removed.
    fn changes(&self, balancer: &str, traffic: &Traffic) -> (Vec<RuleChange>, bool) {
        let rules = wanted(balancer, traffic);
        let none = Rules::new();
        let mut all = Vec::new();
        let mut closes_checks = false;
        for (id, group) in &self.all {
            let wanted = match self.groups.open.contains(id) {
                true => &rules,
                false if traffic.is_partial || self.groups.kept.contains(id) => continue,
                false => &none,
            };

            let there = permission::rules(&group.ip_permissions);
            let (grant, revoke) = changes(balancer, &there, wanted, &traffic.probes);
            closes_checks |= revoke.values().any(|text| text.starts_with(HEALTH));
            let change = RuleChange {
                group: id.clone(),
                there,
                grant,
                revoke,
            };
            all.extend(Some(change).filter(|change| !change.is_empty()));
        }

        (all, closes_checks)
    }
}

impl Cloud<'_> {
    /// Returns the security groups with the cluster's tag, in its VPC.
    ///
    /// # Errors
    /// Fails if a request to AWS fails.
    pub(crate) fn cluster_groups(
        &self,
        cluster: &Cluster,
        vpc: Option<&str>,
    ) -> Result<ClusterGroups> {
        let in_vpc = vpc.map(|vpc| ("vpc-id", vec![vpc.to_owned()]));
        let call = network::groups_by(std::iter::once(network::of_cluster(cluster)).chain(in_vpc));
        let groups = network::groups(self.wire, &call)?
            .into_iter()
            .filter(|group| cluster.has(&group.tags()));
        Ok(groups
            .map(|group| (group.group_id.clone(), group))
            .collect())
    }

    /// Returns the security groups of nodes, and publishes a warning about those that are unclear.
    /// They do not keep others from being opened.
    ///
    /// # Errors
    /// Fails if the groups of all nodes are unclear.
    pub(crate) fn node_groups(
        &self,
        service: &Service,
        instances: &BTreeMap<String, targets::InstanceNetwork>,
        tagged: &ClusterGroups,
    ) -> Result<NodeGroups> {
        let groups = NodeGroups::of(instances, &tagged.keys().cloned().collect());
        self.warn(service, warning::NODE_GROUP_UNCLEAR, &groups.unclear);
        if groups.open.is_empty() && !groups.unclear.is_empty() {
            return Err(CloudError::internal(groups.unclear.join("; ")));
        }
        Ok(groups)
    }

    /// Allows the traffic of a Service's load balancer to the nodes behind it, and only to them.
    /// Without nodes or traffic, all its rules are removed. Returns the groups with the cluster's
    /// tag, or `None` if the plugin does not manage the nodes' groups.
    ///
    /// # Errors
    /// Fails if a request to AWS fails, or if another plugin instance holds the lock for too long.
    pub(crate) fn sync_node_rules(
        &self,
        service: &Service,
        cluster: &Cluster,
        vpc: Option<&str>,
        instances: &BTreeMap<String, targets::InstanceNetwork>,
        traffic: &Traffic,
        expected: Expected,
    ) -> Result<Option<ClusterGroups>> {
        if self.config.keep_node_groups {
            return Ok(None);
        }

        let balancer = &name::balancer(service);
        // Most calls change nothing, and do not need the lock for that.
        if expected == Expected::UpToDate {
            let current = self.read_groups(service, cluster, vpc, instances)?;
            if current.changes(balancer, traffic).0.is_empty() {
                return Ok(Some(current.tagged));
            }
        }

        // All Services share the groups, so only one call at a time reads and changes their rules.
        let Some(lock) = self.lock("node-rules") else {
            return Err(CloudError::conflict(
                "another client is changing the nodes' security groups",
            ));
        };

        for _ in 0..ATTEMPTS {
            let current = self.read_groups(service, cluster, vpc, instances)?;
            let (mut changes, closes_checks) = current.changes(balancer, traffic);
            if closes_checks && traffic.probes.others.is_some() {
                // A load balancer that needs the checks since then has created its target group
                // before it waits for the lock.
                let mut traffic = traffic.clone();
                traffic.probes.others = Some(self.checked_by_others(vpc, balancer)?);
                (changes, _) = current.changes(balancer, &traffic);
            }
            if self.change_groups(&lock, &changes)? {
                return Ok(Some(current.tagged));
            }
        }

        Err(CloudError::conflict(
            "the nodes' security groups keep changing: check whether another client changes them",
        ))
    }

    /// Changes groups; an error of one does not stop the others. Returns false if a client without
    /// the lock has changed a group in the meantime.
    fn change_groups(&self, lock: &Lock<'_>, changes: &[RuleChange]) -> Result<bool> {
        let mut is_done = true;
        let mut errors = Vec::new();
        for change in changes {
            if !lock.renew() {
                return Err(CloudError::conflict(
                    "it took too long, and another client is changing the nodes' security groups",
                ));
            }
            match self.change_rules(change) {
                Ok(Changed::Done) => {}
                Ok(Changed::Raced) => is_done = false,
                Err(failure) => errors.push(failure.into()),
            }
        }

        errors::join(errors).map_or(Ok(is_done), Err)
    }

    /// Reads the cluster's groups and the nodes' own groups.
    fn read_groups(
        &self,
        service: &Service,
        cluster: &Cluster,
        vpc: Option<&str>,
        instances: &BTreeMap<String, targets::InstanceNetwork>,
    ) -> Result<CurrentRules> {
        let tagged = self.cluster_groups(cluster, vpc)?;
        let mut all = tagged.clone();
        let groups = self.node_groups(service, instances, &tagged)?;

        // The only group of an instance may be without the tag.
        let untagged: Vec<String> = groups
            .open
            .iter()
            .filter(|id| !all.contains_key(*id))
            .cloned()
            .collect();
        if !untagged.is_empty() {
            for group in network::groups(self.wire, &network::groups_by([("group-id", untagged)]))?
            {
                all.insert(group.group_id.clone(), group);
            }
        }

        Ok(CurrentRules {
            tagged,
            all,
            groups,
        })
    }

    /// Returns the ports on which other load balancers check their targets.
    fn checked_by_others(&self, vpc: Option<&str>, balancer: &str) -> Result<BTreeSet<u16>> {
        let own = format!("/{balancer}/");
        // A target group without a load balancer may be for one that is being created.
        let is_own = |of: &[String]| !of.is_empty() && of.iter().all(|arn| arn.contains(&own));
        let groups = elbv2::all_groups(self.wire)?.into_iter();
        let others = groups.filter(|group| {
            vpc.is_none_or(|vpc| group.vpc_id.is_empty() || group.vpc_id == vpc)
                && !is_own(&group.load_balancer_arns.items)
        });
        Ok(others.map(|group| group.checked_port()).collect())
    }
}

#[cfg(test)]
mod tests;
