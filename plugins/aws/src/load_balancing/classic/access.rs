//! Access from a classic load balancer to the nodes: their security groups allow all traffic from
//! its group.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{Result, types::Service};

use crate::{
    client::api::{
        call::Call,
        ec2::{
            network::{self, SecurityGroup},
            permission::{self, Rule, Rules, Source},
        },
        elb,
    },
    cloud::Cloud,
    load_balancing::common::{
        annotation::{self, Annotations},
        errors, name,
        node_rules::{ClusterGroups, NodeGroups},
        targets::InstanceNetwork,
    },
    tags::Cluster,
};

/// Returns the group of a load balancer that the nodes' groups refer to: the first one named by the
/// user, otherwise one that is not an extra group, otherwise the first extra group.
pub(super) fn first<'a>(groups: &'a [String], service: &Service) -> Option<&'a String> {
    let annotations = Annotations(&service.annotations);
    let named = annotations.list(annotation::SECURITY_GROUPS);
    let extra = annotations.list(annotation::EXTRA_SECURITY_GROUPS);

    let rank = |group: &String| match named.iter().position(|one| one == group) {
        Some(index) => (0, index),
        None if !extra.contains(group) => (1, 0),
        None => (
            2,
            extra
                .iter()
                .position(|one| one == group)
                .unwrap_or_default(),
        ),
    };

    groups.iter().min_by_key(|group| rank(group))
}

/// Returns the groups that need the rule, and the groups of the cluster that have the rule but do
/// not need it.
fn changes(
    groups: &BTreeMap<String, SecurityGroup>,
    NodeGroups { open, kept, .. }: &NodeGroups,
    cluster: &Cluster,
    rule: &Rule,
) -> (Vec<String>, Vec<String>) {
    let has = |group: &SecurityGroup| permission::rules(&group.ip_permissions).contains_key(rule);
    let grant = open
        .iter()
        .filter(|id| !groups.get(*id).is_some_and(has))
        .cloned()
        .collect();

    let stays = |id: &String| open.contains(id) || kept.contains(id);
    let idle = groups
        .values()
        .filter(|group| has(group) && !stays(&group.group_id));
    let revoke = idle
        .filter(|group| cluster.has(&group.tags()))
        .map(|group| group.group_id.clone())
        .collect();
    (grant, revoke)
}

/// Returns true for a group of the cluster itself, for example of its nodes: it is allowed whether
/// or not a load balancer has it.
fn is_clusters(groups: &ClusterGroups, id: &str) -> bool {
    groups
        .get(id)
        .is_some_and(|group| !name::is_classic_security_group(&group.group_name))
}

fn everything_from(group: &str) -> Rule {
    Rule::everything(Source::Group(group.to_owned()))
}

/// The nodes behind a load balancer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nodes<'a> {
    /// Their instances.
    pub(super) instances: &'a BTreeMap<String, InstanceNetwork>,
    /// True if EC2 does not know the instances of others, whose groups are therefore unknown.
    pub(super) are_partial: bool,
}

impl Cloud<'_> {
    /// Allows traffic from a load balancer's group to the nodes behind it. Other groups of the
    /// cluster lose the rule, unless another load balancer with the same group, or a node whose
    /// group is unknown, may need it.
    ///
    /// # Errors
    /// Fails if a request to AWS fails, or if the groups of all nodes are unclear.
    pub(super) fn sync_access(
        &self,
        service: &Service,
        cluster: &Cluster,
        vpc: &str,
        group: &str,
        nodes: Nodes<'_>,
    ) -> Result<()> {
        if self.config.keep_node_groups {
            return Ok(());
        }

        let tagged = self.cluster_groups(cluster, Some(vpc))?;
        let mut groups = tagged.clone();
        let mut of_nodes = self.node_groups(service, nodes.instances, &tagged)?;

        // The operator's group is not changed, even if instances have it.
        let open = &mut of_nodes.open;
        open.retain(|id| Some(id) != self.config.elb_security_group.as_ref());

        let untagged: Vec<String> = open
            .iter()
            .filter(|id| !groups.contains_key(*id))
            .cloned()
            .collect();
        if !untagged.is_empty() {
            let found = network::groups(self.wire, &network::groups_by([("group-id", untagged)]))?;
            groups.extend(
                found
                    .into_iter()
                    .map(|group| (group.group_id.clone(), group)),
            );
        }

        let rule = everything_from(group);
        let stays = is_clusters(&tagged, group);
        let (grant, mut revoke) = changes(&groups, &of_nodes, cluster, &rule);
        let stays = stays || nodes.are_partial;
        // Only if it matters, all load balancers of the region are read.
        if !revoke.is_empty()
            && (stays
                || self
                    .groups_of_others(&name::balancer(service))?
                    .contains(group))
        {
            revoke.clear();
        }

        let rules = Rules::from([(rule, String::new())]);
        let grant = grant.iter().map(|id| permission::authorize(id, &rules));
        let granted = self.change_access(&grant.collect::<Vec<_>>());
        // The groups that lose the rule are those of other nodes.
        let revoke = revoke.iter().map(|id| permission::revoke(id, &rules));
        let revoked = self.change_access(&revoke.collect::<Vec<_>>());

        let errors = [granted, revoked].into_iter().filter_map(Result::err);
        errors::join(errors.collect()).map_or(Ok(()), Err)
    }

    /// Removes the rules that allow traffic from these groups, except for groups that other load
    /// balancers have.
    ///
    /// # Errors
    /// Fails if a request to AWS fails.
    pub(super) fn close_access(
        &self,
        cluster: &Cluster,
        vpc: Option<&str>,
        balancer: &str,
        groups: &BTreeSet<String>,
    ) -> Result<()> {
        if self.config.keep_node_groups || groups.is_empty() {
            return Ok(());
        }
        let tagged = self.cluster_groups(cluster, vpc)?;
        let closing = groups.iter().filter(|group| !is_clusters(&tagged, group));
        let wanted: BTreeSet<Rule> = closing.map(|group| everything_from(group)).collect();

        let mut open = BTreeMap::new();
        for (id, nodes) in tagged {
            let there = permission::rules(&nodes.ip_permissions)
                .into_keys()
                .filter(|rule| wanted.contains(rule));
            let there: Vec<Rule> = there.collect();
            if !there.is_empty() {
                open.insert(id, there);
            }
        }
        if open.is_empty() {
            return Ok(());
        }

        let others = self.groups_of_others(balancer)?;
        let idle =
            |rule: &Rule| matches!(&rule.source, Source::Group(group) if !others.contains(group));

        let mut calls = Vec::new();
        for (id, there) in open {
            // One rule per call, because AWS removes none of several rules if one of them does not
            // exist.
            let idle = there.into_iter().filter(idle);
            calls.extend(
                idle.map(|rule| permission::revoke(&id, &Rules::from([(rule, String::new())]))),
            );
        }

        self.change_access(&calls)
    }

    /// Returns the security groups of all other classic load balancers: the rules of the nodes'
    /// groups do not show which load balancer they are for.
    fn groups_of_others(&self, balancer: &str) -> Result<BTreeSet<String>> {
        let others = elb::all(self.wire)?
            .into_iter()
            .filter(|one| one.load_balancer_name != balancer);
        Ok(others.flat_map(|one| one.security_groups.items).collect())
    }

    fn change_access(&self, calls: &[Call]) -> Result<()> {
        for answer in self.wire.send(calls) {
            match answer {
                // The rule already exists, or is already gone.
                Err(failure)
                    if matches!(
                        failure.code(),
                        "InvalidPermission.Duplicate" | "InvalidPermission.NotFound"
                    ) => {}
                Err(failure) => return Err(failure.into()),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_group_comes_before_the_own_group() {
        let pair = |name: &str, value: &str| (annotation::key(name), value.to_owned());
        let service = |annotations: Vec<(String, String)>| Service {
            annotations,
            ..Service::default()
        };
        let groups = [
            "sg-x".to_owned(),
            "sg-own".to_owned(),
            "sg-b".to_owned(),
            "sg-a".to_owned(),
        ];
        let named = service(vec![
            pair("security-groups", "sg-a,sg-b"),
            pair("extra-security-groups", "sg-x"),
        ]);

        assert_eq!(first(&groups, &named).map(String::as_str), Some("sg-a"));

        let extra = service(vec![pair("extra-security-groups", "sg-x,sg-a,sg-b")]);
        assert_eq!(first(&groups, &extra).map(String::as_str), Some("sg-own"));
        assert_eq!(
            first(&groups[..1], &extra).map(String::as_str),
            Some("sg-x")
        );
        assert_eq!(first(&[], &extra), None);
    }
}
