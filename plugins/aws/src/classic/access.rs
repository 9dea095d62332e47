//! The way from a classic load balancer to the nodes: their security groups let all in that comes from its group.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{Result, types::Service};

use crate::{
    api::{
        call::Call,
        ec2::{
            network::{self, SecurityGroup},
            permission::{self, Rule, Rules, Source},
        },
        elb,
    },
    balancer::{
        annotation::{self, Annotations},
        machine::Place,
        name,
        node_rules::{self, ClusterGroups},
    },
    cloud::Cloud,
    tags::Cluster,
};

/// The group of a load balancer that the nodes know: the first the user names, else one that is no extra, else any.
pub(super) fn first<'a>(groups: &'a [String], service: &Service) -> Option<&'a String> {
    let annotations = Annotations(&service.annotations);
    let named = annotations.list(annotation::SECURITY_GROUPS);
    let extra = annotations.list(annotation::EXTRA_SECURITY_GROUPS);
    let rank = |group: &String| match named.iter().position(|one| one == group) {
        Some(index) => (0, index),
        None if !extra.contains(group) => (1, 0),
        None => (2, extra.iter().position(|one| one == group).unwrap_or_default()),
    };
    groups.iter().min_by_key(|group| rank(group))
}

/// Which groups get the rule, and which lose it: the cluster's, where no machine needs it.
fn changes(
    groups: &BTreeMap<String, SecurityGroup>,
    open: &BTreeSet<String>,
    cluster: &Cluster,
    rule: &Rule,
) -> (Vec<String>, Vec<String>) {
    let has = |group: &SecurityGroup| permission::rules(&group.ip_permissions).contains_key(rule);
    let grant = open.iter().filter(|id| !groups.get(*id).is_some_and(has)).cloned().collect();
    let idle = groups.values().filter(|group| has(group) && !open.contains(&group.group_id));
    let revoke = idle.filter(|group| cluster.has(&group.tags())).map(|group| group.group_id.clone()).collect();
    (grant, revoke)
}

/// True for a group that the cluster has for itself, as its nodes': it is let in whether or not a load balancer bears it.
fn is_clusters(groups: &ClusterGroups, id: &str) -> bool {
    groups.get(id).is_some_and(|group| !name::is_classic_security_group(&group.group_name))
}

fn everything_from(group: &str) -> Rule {
    Rule::everything(Source::Group(group.to_owned()))
}

impl Cloud<'_> {
    /// Lets traffic from a load balancer's group in at the nodes behind it, and nowhere else but where another load balancer of that
    /// group may have nodes.
    ///
    /// # Errors
    /// If AWS cannot be asked, or it is not clear which group is the nodes'.
    pub(super) fn sync_access(
        &self,
        cluster: &Cluster,
        vpc: &str,
        balancer: &str,
        group: &str,
        places: &BTreeMap<String, Place>,
    ) -> Result<()> {
        if self.config.keep_node_groups {
            return Ok(());
        }
        let tagged = self.cluster_groups(cluster, Some(vpc))?;
        let mut groups = tagged.clone();
        let mut open = node_rules::groups(places, &groups.keys().cloned().collect())?;
        // The operator's group is not touched, even where machines are in it.
        open.retain(|id| Some(id) != self.config.elb_security_group.as_ref());
        let untagged: Vec<String> = open.iter().filter(|id| !groups.contains_key(*id)).cloned().collect();
        if !untagged.is_empty() {
            let found = network::groups(self.wire, &network::groups_by([("group-id", untagged)]))?;
            groups.extend(found.into_iter().map(|group| (group.group_id.clone(), group)));
        }
        let rule = everything_from(group);
        let stays = is_clusters(&tagged, group);
        let (grant, mut revoke) = changes(&groups, &open, cluster, &rule);
        if !revoke.is_empty() && (stays || self.groups_of_others(balancer)?.contains(group)) {
            revoke.clear();
        }
        let rules = Rules::from([(rule, String::new())]);
        let grant = grant.iter().map(|id| permission::authorize(id, &rules));
        let revoke = revoke.iter().map(|id| permission::revoke(id, &rules));
        self.change_access(&grant.chain(revoke).collect::<Vec<_>>())
    }

    /// Lets traffic from these groups in nowhere any more, but from those that other load balancers have.
    ///
    /// # Errors
    /// If AWS cannot be asked.
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
            let there = permission::rules(&nodes.ip_permissions).into_keys().filter(|rule| wanted.contains(rule));
            let there: Vec<Rule> = there.collect();
            if !there.is_empty() {
                open.insert(id, there);
            }
        }
        if open.is_empty() {
            return Ok(());
        }
        let others = self.groups_of_others(balancer)?;
        let idle = |rule: &Rule| matches!(&rule.source, Source::Group(group) if !others.contains(group));
        let mut calls = Vec::new();
        for (id, there) in open {
            // One by one: of several AWS takes none away if one is gone already.
            let idle = there.into_iter().filter(idle);
            calls.extend(idle.map(|rule| permission::revoke(&id, &Rules::from([(rule, String::new())]))));
        }
        self.change_access(&calls)
    }

    /// Security groups of all other classic load balancers: the nodes' groups do not tell for which of them they let one in.
    fn groups_of_others(&self, balancer: &str) -> Result<BTreeSet<String>> {
        let others = elb::all(self.wire)?.into_iter().filter(|one| one.load_balancer_name != balancer);
        Ok(others.flat_map(|one| one.security_groups.items).collect())
    }

    fn change_access(&self, calls: &[Call]) -> Result<()> {
        for answer in self.wire.send(calls) {
            match answer {
                // The rule is there, or gone, already.
                Err(failure)
                    if matches!(failure.code(), "InvalidPermission.Duplicate" | "InvalidPermission.NotFound") => {}
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
    fn the_group_nodes_know_is_the_users_first_then_the_own() {
        let pair = |name: &str, value: &str| (annotation::key(name), value.to_owned());
        let service = |annotations: Vec<(String, String)>| Service { annotations, ..Service::default() };
        let groups = ["sg-x".to_owned(), "sg-own".to_owned(), "sg-b".to_owned(), "sg-a".to_owned()];
        let named = service(vec![pair("security-groups", "sg-a,sg-b"), pair("extra-security-groups", "sg-x")]);
        assert_eq!(first(&groups, &named).map(String::as_str), Some("sg-a"));
        let extra = service(vec![pair("extra-security-groups", "sg-x,sg-a,sg-b")]);
        assert_eq!(first(&groups, &extra).map(String::as_str), Some("sg-own"));
        assert_eq!(first(&groups[..1], &extra).map(String::as_str), Some("sg-x"));
        assert_eq!(first(&[], &extra), None);
    }
}
