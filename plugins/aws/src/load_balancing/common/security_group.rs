//! Security groups that are created and deleted with a load balancer.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use skydock_sdk::{
    Result, log,
    types::{CloudError, Service},
};

use super::{
    name,
    node_rules::ClusterGroups,
    rule_change::{Changed, RuleChange},
};
use crate::{
    client::api::{
        self,
        ec2::{
            network::{self, CreatedGroup, SecurityGroup},
            permission::{self, Rule, Rules, Source},
        },
        failure::Failure,
    },
    cloud::Cloud,
    store,
    tags::{self, Cluster, Owner, Tags},
};

/// How long it takes until a resource that is being deleted releases the resources it uses.
pub(crate) const RELEASE_TIME: Duration = Duration::from_secs(10);

/// How long, in seconds, a Service waits for AWS until it is an error.
const LONG_WAIT: u64 = 60;

/// How long it is remembered since when a Service waits.
const WAITING: Duration = Duration::from_hours(24);

/// Returns the rules of a load balancer's own group: these protocols and ports from these ranges,
/// and path MTU discovery.
pub(crate) fn rules(ports: &BTreeSet<(&'static str, u16)>, ranges: &[String]) -> Rules {
    let mut rules = Rules::new();
    for range in ranges {
        for (protocol, port) in ports {
            rules.insert(
                Rule::port(protocol, *port, Source::range(range)),
                String::new(),
            );
        }
        if !range.contains(':') {
            rules.insert(Rule::path_mtu(Source::range(range)), String::new());
        }
    }
    rules
}

impl Cloud<'_> {
    /// Returns the group with this name in the VPC, and creates it if it does not exist.
    ///
    /// # Errors
    /// Fails if the group belongs to another cluster, or if a request to AWS fails.
    pub(crate) fn own_group(
        &self,
        cluster: &Cluster,
        vpc: &str,
        name: &str,
        description: &str,
        wanted: &Tags,
    ) -> Result<String> {
        // Without the tag of the Service, which the official provider does not set here.
        let additional: Tags = wanted
            .iter()
            .filter(|(key, _)| *key != tags::SERVICE)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();

        let filters = [
            ("group-name", vec![name.to_owned()]),
            ("vpc-id", vec![vpc.to_owned()]),
        ];
        if let Some(group) = network::groups(self.wire, &network::groups_by(filters))?
            .into_iter()
            .next()
        {
            match cluster.owner(&group.tags()) {
                Owner::Ours => {}
                Owner::Others => {
                    return Err(CloudError::internal(format!(
                        "security group {} ({name}) has the tag of another cluster: remove that tag, or delete the group",
                        group.group_id
                    )));
                }
                Owner::Nobody => {
                    // A group without the tag would not be deleted with the Service.
                    api::one(
                        self.wire,
                        &network::create_tags(&group.group_id, &cluster.owned(&Tags::new())),
                    )?;
                }
            }
            return Ok(group.group_id);
        }

        let call = network::create_group(name, description, vpc, &cluster.owned(&additional));
        let CreatedGroup { group_id } = api::ask(self.wire, &call)?;
        Ok(group_id)
    }

    /// Replaces the rules of a group with these.
    ///
    /// # Errors
    /// Fails if the group does not exist, or if a request to AWS fails.
    pub(crate) fn set_rules(&self, group: &str, wanted: &Rules) -> Result<()> {
        let groups = network::groups(
            self.wire,
            &network::groups_by([("group-id", vec![group.to_owned()])]),
        )?;
        let found = groups.first().ok_or_else(|| {
            CloudError::not_found(format!("security group {group} does not exist"))
        })?;

        let there = permission::rules(&found.ip_permissions);
        let only = |one: &Rules, other: &Rules| -> Rules {
            let lacking = one.iter().filter(|(rule, _)| !other.contains_key(*rule));
            lacking
                .map(|(rule, text)| (rule.clone(), text.clone()))
                .collect()
        };
        let change = RuleChange {
            group: group.to_owned(),
            grant: only(wanted, &there),
            revoke: only(&there, wanted),
            there,
        };

        match self.change_rules(&change)? {
            Changed::Done => Ok(()),
            Changed::Raced => Err(CloudError::conflict(format!(
                "another client is changing security group {group}"
            ))),
        }
    }

    /// Returns the IDs of the groups with this name. If the groups with the cluster's tag have
    /// already been read, only those are searched, because other groups are not deleted.
    ///
    /// # Errors
    /// Fails if a request to AWS fails.
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
        let call = network::groups_by(
            std::iter::once(("group-name", vec![name.to_owned()])).chain(in_vpc),
        );
        Ok(network::groups(self.wire, &call)?
            .into_iter()
            .map(|group| group.group_id)
            .collect())
    }

    /// Deletes those of these groups that were created for this Service, and the rules in other
    /// groups of the cluster that refer to them. Groups in `keep`, and groups without a tag of this
    /// cluster, are not deleted. If the cluster is unknown, it is the one that their own tags name:
    /// their names contain the UID of the Service.
    ///
    /// # Errors
    /// Returns `in-progress` if a group is still in use. Fails if a request to AWS fails.
    pub(crate) fn remove_groups(
        &self,
        cluster: Option<&Cluster>,
        service: &Service,
        groups: &[String],
        keep: &[String],
    ) -> Result<()> {
        let candidates: Vec<String> = groups
            .iter()
            .filter(|id| !keep.contains(id))
            .cloned()
            .collect();
        if candidates.is_empty() {
            return Ok(());
        }
        let found = network::groups(self.wire, &network::groups_by([("group-id", candidates)]))?;

        // The cluster's installer gives its own groups the same tag, and a user may have named a
        // group of another Service.
        let names = [
            name::network_security_group(&self.config.cluster_name, service),
            name::classic_security_group(service),
        ];
        let created = |group: &SecurityGroup| {
            let tags = group.tags();
            let cluster = cluster.cloned().or_else(|| tags::only_cluster(&tags));
            cluster.filter(|cluster| cluster.owns(&tags) && names.contains(&group.group_name))
        };

        let mut owned: BTreeMap<String, Cluster> = BTreeMap::new();
        for group in found {
            if let Some(cluster) = created(&group) {
                owned.insert(group.group_id, cluster);
            }
        }

        let Some(cluster) = owned.values().next().cloned() else {
            return Ok(());
        };

        // AWS does not delete a group that a rule of another group names.
        let owned: Vec<String> = owned.into_keys().collect();
        self.revoke_references(&cluster, &owned)?;
        let calls: Vec<_> = owned.iter().map(|id| network::delete_group(id)).collect();
        let mut waiting = None;
        for (id, answer) in owned.iter().zip(self.wire.send(&calls)) {
            match answer {
                Ok(_) => log::info("groups", format_args!("deleted security group {id}")),
                Err(failure) if failure.is_not_found() => {}
                Err(failure) if failure.code() == "DependencyViolation" => waiting = Some(id),
                Err(failure) => return Err(failure.into()),
            }
        }

        match waiting {
            Some(id) => Err(self.waiting_for(service, id)),
            None => Ok(()),
        }
    }

    /// Returns the error for a security group that AWS does not delete because it is in use.
    fn waiting_for(&self, service: &Service, id: &str) -> CloudError {
        if !self.has_waited_long(service) {
            return CloudError::in_progress(
                RELEASE_TIME,
                format!(
                    "security group {id} is still in use by the load balancer that is being deleted"
                ),
            );
        }
        // An error instead of "in progress", so that people hear of it and retries back off.
        CloudError::internal(format!(
            "security group {id} cannot be deleted, because {}",
            self.user_of(id)
        ))
    }

    /// Returns true if a Service waits for AWS for some time: AWS needs less to release what a deleted
    /// load balancer uses, or to know an instance.
    pub(crate) fn has_waited_long(&self, service: &Service) -> bool {
        let key = self.key(&format!("waits/{}", service.uid));
        let since: u64 = store::load(self.store, &key).unwrap_or(self.now);
        store::save(self.store, &key, &since, WAITING);
        self.now.saturating_sub(since) >= LONG_WAIT
    }

    /// Returns the error for something that AWS does not delete because it is in use: in progress for
    /// as long as AWS may need to release it.
    pub(crate) fn in_use(&self, service: &Service, failure: &Failure) -> CloudError {
        let text = failure.to_string();
        if self.has_waited_long(service) {
            CloudError::internal(text)
        } else {
            CloudError::in_progress(RELEASE_TIME, text)
        }
    }

    /// Forgets since when a Service waits.
    pub(crate) fn end_wait(&self, service: &Service) {
        self.store
            .remove(&self.key(&format!("waits/{}", service.uid)));
    }

    /// Returns a clause about what uses a security group.
    fn user_of(&self, id: &str) -> String {
        // Without the permission to read them, the clause is less precise, and nothing else fails.
        let interfaces = network::interfaces_with(self.wire, id).unwrap_or_default();
        if let Some(one) = interfaces.first() {
            return format!(
                "network interface {} ({}) has it: remove the group from it, or delete it",
                one.network_interface_id, one.description
            );
        }

        let by = network::groups_by([("ip-permission.group-id", vec![id.to_owned()])]);
        let groups = network::groups(self.wire, &by).unwrap_or_default();
        match groups.iter().find(|group| group.group_id != id) {
            Some(group) => format!(
                "a rule of security group {} ({}) allows its traffic: remove the rule",
                group.group_id, group.group_name
            ),
            None => "something in AWS still uses it".into(),
        }
    }

    /// Deletes the rules that allow traffic from members of these groups, except in groups of other
    /// clusters.
    fn revoke_references(&self, cluster: &Cluster, ids: &[String]) -> Result<()> {
        let call = network::groups_by([("ip-permission.group-id", ids.to_vec())]);
        for group in network::groups(self.wire, &call)? {
            let names = |rule: &Rule| matches!(&rule.source, Source::Group(id) if ids.contains(id));
            let rules = permission::rules(&group.ip_permissions);
            let speaking: Rules = rules.into_iter().filter(|(rule, _)| names(rule)).collect();

            // A group without a cluster tag may be the nodes' group. Rules in groups of other
            // clusters prevent the deletion, and must be removed by their owner.
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
    fn the_managed_group_allows_ports_and_path_mtu_discovery() {
        let ports = BTreeSet::from([("tcp", 80), ("udp", 53)]);
        let ranges = ["10.0.0.0/8".to_owned(), "::/0".to_owned()];
        let rules = rules(&ports, &ranges);
        let v4 = || Source::range("10.0.0.0/8");
        assert!(rules.contains_key(&Rule::port("tcp", 80, v4())));
        assert!(rules.contains_key(&Rule::port("udp", 53, Source::range("::/0"))));
        assert!(rules.contains_key(&Rule::path_mtu(v4())));
        assert_eq!(rules.len(), 5);
    }

    #[test]
    fn what_prevents_a_deletion_is_named_after_a_minute() {
        let group = |id: &str, name: &str| {
            format!(
                "<item><groupId>{id}</groupId><groupName>{name}</groupName><tagSet><item><key>kubernetes.io/cluster/c</key>\
                 <value>owned</value></item></tagSet></item>"
            )
        };
        let web = service(&[]);
        let own = group("sg-1", &name::classic_security_group(&web));
        let other = group("sg-2", "monitoring");

        for (interfaces, expected) in [
            (
                "<item><networkInterfaceId>eni-1</networkInterfaceId><description>VPN</description></item>",
                "network interface eni-1 (VPN) has it",
            ),
            ("", "a rule of security group sg-2 (monitoring)"),
        ] {
            let wire = Scripted::new(|call: &api::call::Call| {
                let asks = |text: &str| call.params.iter().any(|(_, value)| value == text);
                let action = call.action;
                match action {
                    "DescribeSecurityGroups" => {
                        let found = if asks("group-id") { &own } else { &other };
                        Ok(format!(
                            "<{action}Response><securityGroupInfo>{found}</securityGroupInfo></{action}Response>"
                        ))
                    }
                    "DescribeNetworkInterfaces" => Ok(format!(
                        "<{action}Response><networkInterfaceSet>{interfaces}</networkInterfaceSet></{action}Response>"
                    )),
                    "DeleteSecurityGroup" => crate::testing::rejection(call, "DependencyViolation"),
                    _ => nothing(call),
                }
            });
            let (setup, store, none) = (setup(), Memory::default(), Vec::new);
            let at = |now: u64| {
                let cloud = Cloud::new(&setup, &wire, &store, &none, now);
                let groups = ["sg-1".to_owned()];
                cloud.remove_groups(None, &web, &groups, &[]).unwrap_err()
            };
            for now in [1000, 1030] {
                assert!(matches!(at(now), CloudError::InProgress(_)), "{now}");
            }
            let CloudError::Internal(text) = at(1060) else {
                panic!("still in progress");
            };
            assert!(text.contains(expected), "{text}");
        }
    }

    /// Removes a group with this name and the cluster's tag, whose members can reach each other,
    /// and returns the actions that changed something.
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
        let cluster = Cluster {
            id: "c".into(),
            legacy: false,
        };
        cloud
            .remove_groups(Some(&cluster), &service(&[]), &["sg-1".to_owned()], &[])
            .unwrap();
        let sent = wire.sent.borrow();
        sent.iter()
            .map(|call| call.action.to_owned())
            .filter(|action| !action.starts_with("Describe"))
            .collect()
    }

    /// The cluster's installer gives its own groups the same tag, and so do other Services: the
    /// annotation `security-groups` may have named one of them before.
    #[test]
    fn a_group_not_created_for_this_service_is_kept() {
        for name in [
            "nodes.c.example",
            "k8s-nodes",
            "k8s-default-web-0000000000",
            "k8s-elb-a0123",
        ] {
            assert_eq!(removed(name), Vec::<String>::new(), "{name}");
        }

        let web = service(&[]);
        for name in [
            name::classic_security_group(&web),
            name::network_security_group("", &web),
        ] {
            assert_eq!(
                removed(&name),
                ["RevokeSecurityGroupIngress", "DeleteSecurityGroup"],
                "{name}"
            );
        }
    }
}
