//! Rules of security groups, with one source each. EC2 groups the rules with the same ports.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    api::{answer::Items, call::Call},
    endpoint::Api,
};

/// Rules in an EC2 answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Permission {
    ip_protocol: String,
    from_port: Option<i32>,
    to_port: Option<i32>,
    groups: Items<GroupPair>,
    ip_ranges: Items<Range>,
    ipv6_ranges: Items<Range6>,
    prefix_list_ids: Items<Prefix>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GroupPair {
    group_id: String,
    description: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Range {
    cidr_ip: String,
    description: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Range6 {
    cidr_ipv6: String,
    description: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Prefix {
    prefix_list_id: String,
    description: String,
}

/// The source of the allowed traffic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// An IPv4 range.
    V4(String),
    /// An IPv6 range.
    V6(String),
    /// The members of a security group.
    Group(String),
    /// A prefix list.
    Prefix(String),
}

impl Source {
    /// Returns the source for a range of either family.
    pub(crate) fn range(cidr: &str) -> Self {
        if cidr.contains(':') {
            Self::V6(cidr.to_owned())
        } else {
            Self::V4(cidr.to_owned())
        }
    }
}

/// The identity of a rule. Descriptions are not part of it, neither here nor in EC2.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    /// `tcp`, `udp`, `icmp`, `-1` for all protocols, or a number.
    pub(crate) protocol: String,
    /// The first and the last port, or the ICMP type and code. `None` for all protocols.
    pub(crate) ports: Option<(i32, i32)>,
    pub(crate) source: Source,
}

impl Rule {
    /// Returns a rule for one port of a protocol.
    pub(crate) fn port(protocol: &str, port: u16, source: Source) -> Self {
        let port = i32::from(port);
        Self {
            protocol: protocol.to_owned(),
            ports: Some((port, port)),
            source,
        }
    }

    /// Returns a rule for "Fragmentation needed" and the other codes of ICMP types 3 and 4. Without
    /// it, large packets are lost.
    pub(crate) fn path_mtu(source: Source) -> Self {
        Self {
            protocol: "icmp".into(),
            ports: Some((3, 4)),
            source,
        }
    }

    /// Returns a rule for all traffic.
    pub(crate) fn everything(source: Source) -> Self {
        Self {
            protocol: "-1".into(),
            ports: None,
            source,
        }
    }
}

/// Rules with their descriptions, which are empty if there is none.
pub(crate) type Rules = BTreeMap<Rule, String>;

/// Splits the rules of an answer into rules with one source each.
pub(crate) fn rules(permissions: &Items<Permission>) -> Rules {
    let mut rules = Rules::new();
    for permission in &permissions.items {
        let v4 = permission
            .ip_ranges
            .items
            .iter()
            .map(|one| (Source::V4(one.cidr_ip.clone()), &one.description));
        let v6 = permission
            .ipv6_ranges
            .items
            .iter()
            .map(|one| (Source::V6(one.cidr_ipv6.clone()), &one.description));
        let groups = permission
            .groups
            .items
            .iter()
            .map(|one| (Source::Group(one.group_id.clone()), &one.description));
        let lists = permission.prefix_list_ids.items.iter();
        let lists = lists.map(|one| (Source::Prefix(one.prefix_list_id.clone()), &one.description));

        let all = permission.ip_protocol == "-1";
        let ports = permission
            .from_port
            .zip(permission.to_port)
            .filter(|_| !all);

        for (source, description) in v4.chain(v6).chain(groups).chain(lists) {
            let rule = Rule {
                protocol: permission.ip_protocol.clone(),
                ports,
                source,
            };
            rules.insert(rule, description.clone());
        }
    }

    rules
}

/// Creates an `AuthorizeSecurityGroupIngress` request.
pub(crate) fn authorize(group: &str, rules: &Rules) -> Call {
    change("AuthorizeSecurityGroupIngress", group, rules)
}

/// Creates a `RevokeSecurityGroupIngress` request.
pub(crate) fn revoke(group: &str, rules: &Rules) -> Call {
    change("RevokeSecurityGroupIngress", group, rules)
}

fn change(action: &'static str, group: &str, rules: &Rules) -> Call {
    let mut call = Call::new(Api::Ec2, action).with("GroupId", group);
    for (index, (rule, description)) in rules.iter().enumerate() {
        let item = format!("IpPermissions.{}", index + 1);
        call = call.with(format!("{item}.IpProtocol"), &rule.protocol);
        if let Some((from, to)) = rule.ports {
            call = call
                .with(format!("{item}.FromPort"), from)
                .with(format!("{item}.ToPort"), to);
        }

        let (list, key, value) = match &rule.source {
            Source::V4(cidr) => ("IpRanges", "CidrIp", cidr),
            Source::V6(cidr) => ("Ipv6Ranges", "CidrIpv6", cidr),
            Source::Group(id) => ("Groups", "GroupId", id),
            Source::Prefix(id) => ("PrefixListIds", "PrefixListId", id),
        };
        call = call.with(format!("{item}.{list}.1.{key}"), value);
        if !description.is_empty() {
            call = call.with(format!("{item}.{list}.1.Description"), description);
        }
    }
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grouped_ec2_permissions_are_split_into_single_rules() {
        let permissions: Items<Permission> = quick_xml::de::from_str(
            "<ipPermissions><item><ipProtocol>tcp</ipProtocol><fromPort>80</fromPort><toPort>80</toPort>\
             <groups><item><groupId>sg-1</groupId></item></groups><ipRanges><item><cidrIp>10.0.0.0/8</cidrIp>\
             <description>d</description></item><item><cidrIp>0.0.0.0/0</cidrIp></item></ipRanges>\
             <ipv6Ranges><item><cidrIpv6>::/0</cidrIpv6></item></ipv6Ranges></item>\
             <item><ipProtocol>-1</ipProtocol><groups><item><groupId>sg-2</groupId></item></groups></item></ipPermissions>",
        )
        .unwrap();
        let expected = Rules::from([
            (
                Rule::port("tcp", 80, Source::range("10.0.0.0/8")),
                "d".into(),
            ),
            (
                Rule::port("tcp", 80, Source::range("0.0.0.0/0")),
                String::new(),
            ),
            (Rule::port("tcp", 80, Source::range("::/0")), String::new()),
            (
                Rule::port("tcp", 80, Source::Group("sg-1".into())),
                String::new(),
            ),
            (
                Rule::everything(Source::Group("sg-2".into())),
                String::new(),
            ),
        ]);

        assert_eq!(rules(&permissions), expected);
    }

    #[test]
    fn a_change_sends_each_rule_as_one_permission() {
        let rules = Rules::from([
            (
                Rule::port("udp", 53, Source::range("10.0.0.0/8")),
                "why".into(),
            ),
            (
                Rule::everything(Source::Group("sg-2".into())),
                String::new(),
            ),
        ]);

        assert_eq!(
            authorize("sg-1", &rules).form(),
            "Action=AuthorizeSecurityGroupIngress&Version=2016-11-15&GroupId=sg-1&IpPermissions.1.IpProtocol=-1\
             &IpPermissions.1.Groups.1.GroupId=sg-2&IpPermissions.2.IpProtocol=udp&IpPermissions.2.FromPort=53\
             &IpPermissions.2.ToPort=53&IpPermissions.2.IpRanges.1.CidrIp=10.0.0.0%2F8\
             &IpPermissions.2.IpRanges.1.Description=why"
        );
    }
}
