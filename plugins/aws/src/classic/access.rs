//! The way from a classic load balancer to the nodes: their security groups let all in that comes from its group.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{Result, types::Service};

use crate::{
    api::ec2::{
        network::{self, SecurityGroup},
        permission::{self, Rule, Rules, Source},
    },
    balancer::{
        annotation::{self, Annotations},
        machine::Place,
        node_rules,
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

impl Cloud<'_> {
    /// Lets traffic from a load balancer's group in at the nodes behind it, and nowhere else.
    ///
    /// # Errors
    /// If AWS cannot be asked, or it is not clear which group is the nodes'.
    pub(crate) fn sync_access(
        &self,
        cluster: &Cluster,
        vpc: &str,
        group: &str,
        places: &BTreeMap<String, Place>,
    ) -> Result<()> {
        if self.config.keep_node_groups {
            return Ok(());
        }
        let mut groups = self.cluster_groups(cluster, Some(vpc))?;
        let mut open = node_rules::groups(places, &groups.keys().cloned().collect())?;
        // The operator's group is not touched, even where machines are in it.
        open.retain(|id| Some(id) != self.config.elb_security_group.as_ref());
        let untagged: Vec<String> = open.iter().filter(|id| !groups.contains_key(*id)).cloned().collect();
        if !untagged.is_empty() {
            let found = network::groups(self.wire, &network::groups_by([("group-id", untagged)]))?;
            groups.extend(found.into_iter().map(|group| (group.group_id.clone(), group)));
        }
        let rule = Rule::everything(Source::Group(group.to_owned()));
        let (grant, revoke) = changes(&groups, &open, cluster, &rule);
        let rules = Rules::from([(rule, String::new())]);
        let calls: Vec<_> = grant
            .iter()
            .map(|id| permission::authorize(id, &rules))
            .chain(revoke.iter().map(|id| permission::revoke(id, &rules)))
            .collect();
        for answer in self.wire.send(&calls) {
            match answer {
                // The rule is there, or gone, already: a rule of one load balancer is nobody else's.
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
