//! Security groups that are made for a load balancer, and taken away with it.

use std::collections::BTreeSet;

use skydock_sdk::{
    Result, log,
    types::{CloudError, Service},
};

use super::{LETTING_GO, name, node_rules::ClusterGroups};
use crate::{
    api::{
        self,
        ec2::{
            network::{self, CreatedGroup, SecurityGroup},
            permission::{self, Rule, Rules, Source},
        },
    },
    cloud::{Cloud, invalid},
    tags::{self, Cluster, Owner, Tags},
};

/// The rules of a load balancer's own group: these protocols and ports from these ranges, and path MTU discovery.
pub(crate) fn rules(ports: &BTreeSet<(&'static str, u16)>, ranges: &[String]) -> Rules {
    let mut rules = Rules::new();
    for range in ranges {
        for (protocol, port) in ports {
            rules.insert(Rule::port(protocol, *port, Source::range(range)), String::new());
        }
        if !range.contains(':') {
            rules.insert(Rule::path_mtu(Source::range(range)), String::new());
        }
    }
    rules
}

impl Cloud<'_> {
    /// The group of this name in the VPC; makes it if there is none.
    ///
    /// # Errors
    /// If it is another cluster's, or AWS refuses.
    pub(crate) fn own_group(
        &self,
        cluster: &Cluster,
        vpc: &str,
        name: &str,
        description: &str,
        wanted: &Tags,
    ) -> Result<String> {
        // Not the Service's: the official provider leaves that out here.
        let additional: Tags =
            wanted.iter().filter(|(key, _)| *key != tags::SERVICE).map(|(k, v)| (k.clone(), v.clone())).collect();
        let filters = [("group-name", vec![name.to_owned()]), ("vpc-id", vec![vpc.to_owned()])];
        if let Some(group) = network::groups(self.wire, &network::groups_by(filters))?.into_iter().next() {
            match cluster.owner(&group.tags()) {
                Owner::Ours => {}
                Owner::Others => {
                    return Err(invalid(format!("security group {name} bears the tag of another cluster")));
                }
                Owner::Nobody => {
                    api::one(self.wire, &network::create_tags(&group.group_id, &cluster.owned(&Tags::new())))?;
                }
            }
            return Ok(group.group_id);
        }
        let call = network::create_group(name, description, vpc, &cluster.owned(&additional));
        let CreatedGroup { group_id } = api::ask(self.wire, &call)?;
        Ok(group_id)
    }

    /// Makes the rules of a group exactly these.
    ///
    /// # Errors
    /// If it is not there, or AWS refuses.
    pub(crate) fn set_rules(&self, group: &str, wanted: &Rules) -> Result<()> {
        let groups = network::groups(self.wire, &network::groups_by([("group-id", vec![group.to_owned()])]))?;
        let found = groups.first().ok_or_else(|| CloudError::not_found(format!("no security group {group}")))?;
        let there = permission::rules(&found.ip_permissions);
        let only = |one: &Rules, other: &Rules| -> Rules {
            let lacking = one.iter().filter(|(rule, _)| !other.contains_key(*rule));
            lacking.map(|(rule, text)| (rule.clone(), text.clone())).collect()
        };
        let (grant, revoke) = (only(wanted, &there), only(&there, wanted));
        if !grant.is_empty() {
            api::one(self.wire, &permission::authorize(group, &grant))?;
        }
        if !revoke.is_empty() {
            api::one(self.wire, &permission::revoke(group, &revoke))?;
        }
        Ok(())
    }

    /// IDs of groups of this name; out of those that bear the cluster's tag, if they were asked for already: others are not taken away.
    ///
    /// # Errors
    /// If AWS cannot be asked.
    pub(crate) fn groups_named(
        &self,
        name: &str,
        vpc: Option<&str>,
        seen: Option<&ClusterGroups>,
    ) -> Result<Vec<String>> {
        if let Some(seen) = seen {
            let named = seen.values().filter(|group| group.group_name == name);
            return Ok(named.map(|group| group.group_id.clone()).collect());
        }
        let in_vpc = vpc.map(|vpc| ("vpc-id", vec![vpc.to_owned()]));
        let call = network::groups_by(std::iter::once(("group-name", vec![name.to_owned()])).chain(in_vpc));
        Ok(network::groups(self.wire, &call)?.into_iter().map(|group| group.group_id).collect())
    }

    /// Takes away those of these groups that were made for this Service, and the rules of its other groups that speak of them.
    /// Those in `keep` stay, and so does what bears no tag of this cluster.
    ///
    /// # Errors
    /// `in-progress` if one is still in use; or if AWS refuses.
    pub(crate) fn remove_groups(
        &self,
        cluster: &Cluster,
        service: &Service,
        groups: &[String],
        keep: &[String],
    ) -> Result<()> {
        let candidates: Vec<String> = groups.iter().filter(|id| !keep.contains(id)).cloned().collect();
        if candidates.is_empty() {
            return Ok(());
        }
        let found = network::groups(self.wire, &network::groups_by([("group-id", candidates)]))?;
        // Who installs a cluster gives its own groups the same tag, and a user may have named a group of another Service.
        let names =
            [name::network_security_group(&self.config.cluster_name, service), name::classic_security_group(service)];
        let made = |group: &SecurityGroup| cluster.owns(&group.tags()) && names.contains(&group.group_name);
        let owned: Vec<String> = found.into_iter().filter(made).map(|group| group.group_id).collect();
        if owned.is_empty() {
            return Ok(());
        }
        self.revoke_references(cluster, &owned)?;
        let calls: Vec<_> = owned.iter().map(|id| network::delete_group(id)).collect();
        let mut waiting = None;
        for (id, answer) in owned.iter().zip(self.wire.send(&calls)) {
            match answer {
                Ok(_) => log::info("groups", format_args!("security group {id} is deleted")),
                Err(failure) if failure.is_not_found() => {}
                Err(failure) if failure.code() == "DependencyViolation" => waiting = Some(id),
                Err(failure) => return Err(failure.into()),
            }
        }
        match waiting {
            None => Ok(()),
            Some(id) => Err(CloudError::in_progress(
                LETTING_GO,
                format!("security group {id} is still in use by the load balancer that goes"),
            )),
        }
    }

    /// Takes away the rules that let members of these groups in, but for those of other clusters.
    fn revoke_references(&self, cluster: &Cluster, ids: &[String]) -> Result<()> {
        let call = network::groups_by([("ip-permission.group-id", ids.to_vec())]);
        for group in network::groups(self.wire, &call)? {
            let names = |rule: &Rule| matches!(&rule.source, Source::Group(id) if ids.contains(id));
            let rules = permission::rules(&group.ip_permissions);
            let speaking: Rules = rules.into_iter().filter(|(rule, _)| names(rule)).collect();
            // A group without any cluster's tag may be the nodes'. Rules of other clusters keep the group from going; that is
            // theirs to see to.
            if !speaking.is_empty() && cluster.owner(&group.tags()) != Owner::Others {
                match api::one(self.wire, &permission::revoke(&group.group_id, &speaking)) {
                    Err(failure) if !failure.is_not_found() => return Err(failure.into()),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Memory, Scripted, nothing, service, setup};

    #[test]
    fn a_group_of_its_own_lets_in_ports_and_path_mtu_discovery() {
        let ports = BTreeSet::from([("tcp", 80), ("udp", 53)]);
        let ranges = ["10.0.0.0/8".to_owned(), "::/0".to_owned()];
        let rules = rules(&ports, &ranges);
        let v4 = || Source::range("10.0.0.0/8");
        assert!(rules.contains_key(&Rule::port("tcp", 80, v4())));
        assert!(rules.contains_key(&Rule::port("udp", 53, Source::range("::/0"))));
        assert!(rules.contains_key(&Rule::path_mtu(v4())));
        assert_eq!(rules.len(), 5);
    }

    /// A region with one group, which bears the cluster's tag: its members may talk to each other.
    fn removed(name: &str) -> Vec<String> {
        let group = format!(
            "<DescribeSecurityGroupsResponse><securityGroupInfo><item><groupId>sg-1</groupId><groupName>{name}</groupName>\
             <vpcId>v</vpcId><ipPermissions><item><ipProtocol>-1</ipProtocol><groups><item><groupId>sg-1</groupId></item>\
             </groups></item></ipPermissions><tagSet><item><key>kubernetes.io/cluster/c</key><value>owned</value></item>\
             </tagSet></item></securityGroupInfo></DescribeSecurityGroupsResponse>"
        );
        let wire = Scripted::new(|call: &api::call::Call| match call.action {
            "DescribeSecurityGroups" => Ok(group.clone()),
            _ => nothing(call),
        });
        let (setup, store) = (setup(), Memory::default());
        let none = Vec::new;
        let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
        let cluster = Cluster { id: "c".into(), legacy: false };
        cloud.remove_groups(&cluster, &service(&[]), &["sg-1".to_owned()], &[]).unwrap();
        let sent = wire.sent.borrow();
        sent.iter().map(|call| call.action.to_owned()).filter(|action| !action.starts_with("Describe")).collect()
    }

    /// Whoever installs the cluster tags its groups alike, and other Services' groups bear the tag, too: the annotation
    /// `security-groups` named one, and does not any more.
    #[test]
    fn a_group_that_was_not_made_for_this_service_stays() {
        for name in ["nodes.c.example", "k8s-nodes", "k8s-default-web-0000000000", "k8s-elb-a0123"] {
            assert_eq!(removed(name), Vec::<String>::new(), "{name}");
        }
        let web = service(&[]);
        for name in [name::classic_security_group(&web), name::network_security_group("", &web)] {
            assert_eq!(removed(&name), ["RevokeSecurityGroupIngress", "DeleteSecurityGroup"], "{name}");
        }
    }
}
