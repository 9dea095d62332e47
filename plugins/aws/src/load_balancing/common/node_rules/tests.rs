use super::*;
use crate::client::api::call::Call;

fn traffic(clients: &[(&'static str, u16)], health: &[u16], ranges: &[&str]) -> Traffic {
    Traffic {
        clients: clients.iter().copied().collect(),
        health: health.iter().copied().collect(),
        ranges: ranges.iter().map(|range| (*range).to_owned()).collect(),
        subnets: BTreeSet::from(["10.0.1.0/24".to_owned()]),
        probes: Probes::default(),
        is_partial: false,
    }
}

/// Returns a Service whose load balancer has the name `alb`.
fn lb() -> Service {
    Service {
        uid: "lb".into(),
        ..Service::default()
    }
}

fn shown(rules: &Rules) -> Vec<String> {
    let shown = |(rule, text): (&Rule, &String)| {
        let source = match &rule.source {
            Source::V4(text) | Source::V6(text) | Source::Group(text) | Source::Prefix(text) => {
                text
            }
        };
        let (from, _) = rule.ports.unwrap_or_default();
        format!(
            "{} {from} {source} {}",
            rule.protocol,
            text.rsplit('/').next().unwrap_or_default()
        )
    };
    rules.iter().map(shown).collect()
}

#[test]
fn rules_allow_clients_and_health_checks() {
    for (traffic, expected) in [
        (
            traffic(&[("tcp", 30080)], &[30080], &["0.0.0.0/0"]),
            &["tcp 30080 0.0.0.0/0 client=lb"][..],
        ),
        (
            traffic(&[("tcp", 30080)], &[32000], &["0.0.0.0/0"]),
            &[
                "tcp 30080 0.0.0.0/0 client=lb",
                "tcp 32000 10.0.1.0/24 health=lb",
            ],
        ),
        (
            traffic(&[("tcp", 30080)], &[30080], &["192.0.2.0/24"]),
            &[
                "tcp 30080 10.0.1.0/24 health=lb",
                "tcp 30080 192.0.2.0/24 client=lb",
            ],
        ),
        (
            traffic(&[("udp", 30053)], &[30053], &["0.0.0.0/0"]),
            &[
                "tcp 30053 10.0.1.0/24 health=lb",
                "udp 30053 0.0.0.0/0 client=lb",
            ],
        ),
        (
            traffic(&[("tcp", 30053), ("udp", 30053)], &[30053], &["0.0.0.0/0"]),
            &[
                "tcp 30053 0.0.0.0/0 client=lb",
                "udp 30053 0.0.0.0/0 client=lb",
            ],
        ),
        (Traffic::default(), &[]),
    ] {
        assert_eq!(shown(&wanted("lb", &traffic)), expected, "{traffic:?}");
    }
}

fn open(balancer: &str, ranges: &[&str]) -> Rules {
    wanted(balancer, &traffic(&[("tcp", 30080)], &[30080], ranges))
}

fn mtu(range: &str) -> (Rule, String) {
    (Rule::path_mtu(Source::range(range)), MTU.to_owned())
}

#[test]
fn load_balancers_share_the_path_mtu_rule() {
    let (grant, revoke) = changes(
        "lb",
        &Rules::new(),
        &open("lb", &["0.0.0.0/0"]),
        &Probes::default(),
    );

    assert_eq!(
        shown(&grant),
        ["icmp 3 0.0.0.0/0 mtu", "tcp 30080 0.0.0.0/0 client=lb"]
    );
    assert!(revoke.is_empty());

    let there = grant;
    let (grant, revoke) = changes(
        "lb",
        &there,
        &open("lb", &["0.0.0.0/0"]),
        &Probes::default(),
    );

    assert!(grant.is_empty() && revoke.is_empty());

    // The last load balancer removes the shared rule.
    let (_, revoke) = changes("lb", &there, &Rules::new(), &Probes::default());
    assert_eq!(
        shown(&revoke),
        ["icmp 3 0.0.0.0/0 mtu", "tcp 30080 0.0.0.0/0 client=lb"]
    );

    // The rule is kept while another load balancer needs it.
    let mut two = there.clone();
    two.insert(
        Rule::port("tcp", 30081, Source::range("0.0.0.0/0")),
        format!("{CLIENT}=other"),
    );

    assert_eq!(
        shown(&changes("lb", &two, &Rules::new(), &Probes::default()).1),
        ["tcp 30080 0.0.0.0/0 client=lb"]
    );
}

#[test]
fn manual_rules_are_reused_and_never_revoked() {
    let by_hand = Rules::from([
        (
            Rule::port("tcp", 30080, Source::range("0.0.0.0/0")),
            "by hand".to_owned(),
        ),
        (
            Rule::port("tcp", 22, Source::range("0.0.0.0/0")),
            String::new(),
        ),
    ]);
    let (grant, revoke) = changes(
        "lb",
        &by_hand,
        &open("lb", &["0.0.0.0/0"]),
        &Probes::default(),
    );

    assert!(
        grant.is_empty() && revoke.is_empty(),
        "{grant:?} {revoke:?}"
    );

    let (grant, revoke) = changes("lb", &by_hand, &Rules::new(), &Probes::default());
    assert!(grant.is_empty() && revoke.is_empty());
}

#[test]
fn changed_source_ranges_replace_the_previous_rules() {
    let mut there = open("lb", &["192.0.2.0/24"]);
    there.extend([mtu("192.0.2.0/24")]);
    let (grant, revoke) = changes(
        "lb",
        &there,
        &open("lb", &["198.51.100.0/24"]),
        &Probes::default(),
    );

    assert_eq!(
        shown(&grant),
        [
            "icmp 3 198.51.100.0/24 mtu",
            "tcp 30080 198.51.100.0/24 client=lb"
        ]
    );
    assert_eq!(
        shown(&revoke),
        [
            "icmp 3 192.0.2.0/24 mtu",
            "tcp 30080 192.0.2.0/24 client=lb"
        ]
    );
}

#[test]
fn the_node_security_group_is_tagged_or_the_only_one() {
    let tagged = BTreeSet::from(["sg-1".to_owned(), "sg-2".to_owned(), "sg-3".to_owned()]);
    let joined = |ids: BTreeSet<String>| ids.into_iter().collect::<Vec<_>>().join(" ");
    // Of each instance, and then: groups to open, to keep, and a part of each sentence.
    for (groups, open, kept, shown) in [
        (&["sg-1 sg-8"][..], "sg-1", "", &[][..]),
        (&["sg-9"], "sg-9", "", &[]),
        (&[""], "", "", &[]),
        (&["sg-8 sg-9"], "", "sg-8 sg-9", &["add the cluster's tag"]),
        (&["sg-1 sg-2 sg-9"], "", "sg-1 sg-2", &["(sg-1, sg-2)"]),
        (
            &["sg-1", "sg-1 sg-2", "sg-2 sg-1", "sg-2 sg-3", "sg-8"],
            "sg-1 sg-8",
            "sg-2 sg-3",
            &["instance i-1 and 1 more have", "instance i-3 has several"],
        ),
    ] {
        let instance = |(index, ids): (usize, &&str)| {
            let instance = targets::InstanceNetwork {
                vpc: "v".into(),
                groups: ids.split_whitespace().map(str::to_owned).collect(),
            };
            (format!("i-{index}"), instance)
        };
        let found = NodeGroups::of(&groups.iter().enumerate().map(instance).collect(), &tagged);
        assert_eq!(joined(found.open), open, "{groups:?}");
        assert_eq!(joined(found.kept), kept, "{groups:?}");
        assert_eq!(found.unclear.len(), shown.len(), "{groups:?}");
        for (sentence, part) in found.unclear.iter().zip(shown) {
            assert!(sentence.contains(part), "{sentence}");
        }
    }
}

/// A port that several load balancers check has one rule, with the name of the first load balancer.
#[test]
fn groups_of_unknown_and_unclear_instances_keep_their_rules() {
    let group = |id: &str| {
        let text = described(id, true, &[(30080, CLIENT)]);
        let group: SecurityGroup = quick_xml::de::from_str(&text).unwrap();
        (id.to_owned(), group)
    };
    let tagged = ClusterGroups::from([group("sg-1"), group("sg-2")]);
    let mut current = CurrentRules {
        all: tagged.clone(),
        tagged,
        groups: NodeGroups {
            open: BTreeSet::from(["sg-1".to_owned()]),
            ..NodeGroups::default()
        },
    };

    for (is_partial, is_kept, expected) in [(false, false, 1), (true, false, 0), (false, true, 0)] {
        if is_kept {
            current.groups.kept.insert("sg-2".to_owned());
        }
        let traffic = Traffic {
            is_partial,
            ..traffic(&[("tcp", 30080)], &[], &["192.0.2.0/24"])
        };
        let (changes, _) = current.changes("alb", &traffic);
        let revoked = changes.iter().filter(|change| !change.revoke.is_empty());
        assert_eq!(revoked.count(), expected, "{is_partial}: {changes:?}");
    }
}

#[test]
fn a_health_check_rule_stays_while_others_need_it() {
    let client = |port, name: &str| {
        (
            Rule::port("tcp", port, Source::range("0.0.0.0/0")),
            format!("{CLIENT}={name}"),
        )
    };
    let check = |port| {
        (
            Rule::port("tcp", port, Source::range("10.0.1.0/24")),
            format!("{HEALTH}=lb"),
        )
    };
    let seen = |shared: Option<u16>, others: &[u16]| Probes {
        shared,
        others: Some(others.iter().copied().collect()),
    };
    let two = Rules::from([
        client(30080, "lb"),
        client(30081, "other"),
        check(10256),
        check(30080),
        mtu("0.0.0.0/0"),
    ]);
    let own = [
        "tcp 30080 0.0.0.0/0 client=lb",
        "tcp 30080 10.0.1.0/24 health=lb",
    ];
    let all = ["tcp 10256 10.0.1.0/24 health=lb", own[0], own[1]];

    for (probes, expected) in [
        (seen(None, &[10256]), &own[..]),
        (seen(Some(10256), &[]), &own),
        (Probes::default(), &own),
        (seen(None, &[30081]), &all),
    ] {
        let mut revoked = shown(&changes("lb", &two, &Rules::new(), &probes).1);
        revoked.sort();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(revoked, expected, "{probes:?}");
    }

    // The load balancer checks another port.
    let wanted = Rules::from([client(30080, "lb")]);
    assert_eq!(
        shown(&changes("lb", &two, &wanted, &Probes::default()).1),
        [own[1]]
    );

    // The last load balancer removes the rule, whichever name it has.
    let last = Rules::from([client(30081, "other"), check(10256), mtu("0.0.0.0/0")]);
    assert_eq!(
        shown(&changes("other", &last, &Rules::new(), &seen(Some(10256), &[])).1),
        [
            "icmp 3 0.0.0.0/0 mtu",
            "tcp 10256 10.0.1.0/24 health=lb",
            "tcp 30081 0.0.0.0/0 client=other"
        ]
    );
    // A load balancer whose client rule was created manually still has health checks.
    assert_eq!(
        shown(&changes("other", &last, &Rules::new(), &seen(None, &[10256])).1),
        ["icmp 3 0.0.0.0/0 mtu", "tcp 30081 0.0.0.0/0 client=other"]
    );
}

/// AWS removes none of several rules if one of them does not exist.
#[test]
fn a_rule_removed_concurrently_does_not_block_revocation() {
    use std::cell::Cell;

    use crate::{
        client::api::wire::Wire as _,
        testing::{Memory, Scripted, nothing, rejection, setup},
    };
    let (setup, store, open) = (setup(), Memory::default(), Cell::new(2));
    let item = |port: usize| {
        format!(
            "<item><ipProtocol>tcp</ipProtocol><fromPort>{port}</fromPort><toPort>{port}</toPort><ipRanges><item>\
             <cidrIp>192.0.2.0/24</cidrIp><description>{CLIENT}=alb</description></item></ipRanges></item>"
        )
    };
    let wire = Scripted::new(|call: &Call| match call.action {
        "DescribeSecurityGroups" => Ok(format!(
            "<DescribeSecurityGroupsResponse><securityGroupInfo><item><groupId>sg-1</groupId><vpcId>v</vpcId><ipPermissions>{}\
             </ipPermissions><tagSet><item><key>kubernetes.io/cluster/c</key><value>owned</value></item></tagSet></item>\
             </securityGroupInfo></DescribeSecurityGroupsResponse>",
            (0..open.get())
                .map(|port| item(30000 + port))
                .collect::<String>()
        )),
        "RevokeSecurityGroupIngress" if open.replace(open.get().saturating_sub(1)) == 2 => {
            rejection(call, "InvalidPermission.NotFound")
        }
        _ => nothing(call),
    });
    let none = Vec::new;
    let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
    let cluster = Cluster {
        id: "c".into(),
        legacy: false,
    };
    let sync = || {
        cloud.sync_node_rules(
            &lb(),
            &cluster,
            Some("v"),
            &BTreeMap::new(),
            &Traffic::default(),
            Expected::Outdated,
        )
    };
    sync().unwrap();
    assert_eq!(open.get(), 0, "it looked again");
    assert!(!store.has("turn"), "the lock is released");
    // Another client takes the lock during the call.
    open.set(2);
    let key = cloud.key("turn/node-rules");
    let rude = Scripted::new(|call: &Call| {
        store.keep(&key, "another");
        wire.send(std::slice::from_ref(call)).remove(0)
    });
    let cloud = Cloud::new(&setup, &rude, &store, &none, 0);
    let answer = cloud.sync_node_rules(
        &lb(),
        &cluster,
        Some("v"),
        &BTreeMap::new(),
        &Traffic::default(),
        Expected::Outdated,
    );
    assert!(matches!(answer, Err(CloudError::Conflict(_))), "{answer:?}");
    assert_eq!(open.get(), 2, "nothing is changed without the lock");
}

/// A Service is created while the only other Service with the same health checks is deleted.
#[test]
fn a_health_check_rule_needed_by_a_new_service_stays() {
    use crate::testing::{Memory, Scripted, nothing, result, setup};
    for (port, taken) in [(30999, true), (10256, false)] {
        let (setup, store) = (setup(), Memory::default());
        let item = |port: usize, text: &str, range: &str| {
            format!(
                "<item><ipProtocol>tcp</ipProtocol><fromPort>{port}</fromPort><toPort>{port}</toPort><ipRanges><item>\
                 <cidrIp>{range}</cidrIp><description>{text}</description></item></ipRanges></item>"
            )
        };
        let rules = [
            item(30001, &format!("{CLIENT}=other"), "192.0.2.0/24"),
            item(10256, &format!("{HEALTH}=alb"), "10.0.1.0/24"),
        ];
        let wire = Scripted::new(|call: &Call| match call.action {
            "DescribeSecurityGroups" => Ok(format!(
                "<DescribeSecurityGroupsResponse><securityGroupInfo><item><groupId>sg-1</groupId><vpcId>v</vpcId><ipPermissions>{}\
                 </ipPermissions><tagSet><item><key>kubernetes.io/cluster/c</key><value>owned</value></item></tagSet></item>\
                 </securityGroupInfo></DescribeSecurityGroupsResponse>",
                rules.concat()
            )),
            "DescribeTargetGroups" => result(
                call,
                &format!(
                    "<TargetGroups><member><TargetGroupArn>new</TargetGroupArn><VpcId>v</VpcId><HealthCheckPort>{port}\
                     </HealthCheckPort></member><member><TargetGroupArn>own</TargetGroupArn><VpcId>v</VpcId>\
                     <HealthCheckPort>10256</HealthCheckPort><LoadBalancerArns><member>arn:x/net/alb/1</member></LoadBalancerArns>\
                     </member></TargetGroups>"
                ),
            ),
            _ => nothing(call),
        });
        let none = Vec::new;
        let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
        let cluster = Cluster {
            id: "c".into(),
            legacy: false,
        };
        let probes = Probes {
            shared: None,
            others: Some(BTreeSet::new()),
        };
        let traffic = Traffic {
            probes,
            ..Traffic::default()
        };
        cloud
            .sync_node_rules(
                &lb(),
                &cluster,
                Some("v"),
                &BTreeMap::new(),
                &traffic,
                Expected::Outdated,
            )
            .unwrap();
        assert_eq!(
            !wire.all("RevokeSecurityGroupIngress", "GroupId").is_empty(),
            taken,
            "port {port}"
        );
    }
}

#[test]
fn own_health_checks_of_former_ports_are_revoked() {
    let client = (
        Rule::port("tcp", 30080, Source::range("0.0.0.0/0")),
        format!("{CLIENT}=lb"),
    );
    let check = (
        Rule::port("tcp", 32000, Source::range("10.0.1.0/24")),
        format!("{HEALTH}=lb"),
    );
    let by_hand = (
        Rule::port("tcp", 22, Source::range("0.0.0.0/0")),
        "by hand".to_owned(),
    );
    let there = Rules::from([client.clone(), check, by_hand, mtu("0.0.0.0/0")]);
    let (grant, revoke) = changes("lb", &there, &Rules::from([client]), &Probes::default());

    assert!(grant.is_empty(), "{grant:?}");
    assert_eq!(
        shown(&revoke),
        ["tcp 32000 10.0.1.0/24 health=lb"],
        "no other load balancer is in the rules"
    );
}

/// The rule for the clients of the other one was created manually.
#[test]
fn health_checks_of_others_stay_if_no_rule_names_them() {
    let there = Rules::from([
        (
            Rule::port("tcp", 30080, Source::range("0.0.0.0/0")),
            format!("{CLIENT}=lb"),
        ),
        (
            Rule::port("tcp", 30081, Source::range("0.0.0.0/0")),
            "by hand".to_owned(),
        ),
        (
            Rule::port("tcp", 10256, Source::range("10.0.1.0/24")),
            format!("{HEALTH}=lb"),
        ),
    ]);
    let probes = |ports: &[u16]| Probes {
        shared: None,
        others: Some(ports.iter().copied().collect()),
    };
    let revoked = |ports| shown(&changes("lb", &there, &Rules::new(), &probes(ports)).1);

    assert_eq!(revoked(&[10256]), ["tcp 30080 0.0.0.0/0 client=lb"]);
    assert_eq!(
        revoked(&[]),
        [
            "tcp 10256 10.0.1.0/24 health=lb",
            "tcp 30080 0.0.0.0/0 client=lb"
        ]
    );
}

/// What AWS answers about a group: its ID, whether it has the cluster's tag, and the ports with a
/// rule for clients of `alb`.
fn described(id: &str, tagged: bool, rules: &[(u16, &str)]) -> String {
    let rule = |(port, text): &(u16, &str)| {
        format!(
            "<item><ipProtocol>tcp</ipProtocol><fromPort>{port}</fromPort><toPort>{port}</toPort><ipRanges><item>\
             <cidrIp>192.0.2.0/24</cidrIp><description>{text}=alb</description></item></ipRanges></item>"
        )
    };
    let tag = if tagged {
        "<item><key>kubernetes.io/cluster/c</key><value>owned</value></item>"
    } else {
        ""
    };
    format!(
        "<item><groupId>{id}</groupId><vpcId>v</vpcId><ipPermissions>{}</ipPermissions><tagSet>{tag}</tagSet></item>",
        rules.iter().map(rule).collect::<String>()
    )
}

/// Synchronizes the rules for clients of `alb` on port 30080, with a node in `group`, in a cloud
/// where these groups have the cluster's tag and any other group has not. Returns the actions with
/// their groups, and the result.
fn synced(
    tagged: &str,
    group: &str,
    expected: Expected,
    code: Option<&str>,
    lock: Option<&str>,
) -> (Vec<String>, Result<Option<ClusterGroups>>) {
    use crate::testing::{Memory, Scripted, nothing, rejection, setup};
    let (setup, store, none) = (setup(), Memory::default(), Vec::new);
    let wire = Scripted::new(|call: &Call| match call.action {
        "DescribeSecurityGroups" => {
            let by_id = call.params.iter().any(|(_, value)| value == "group-id");
            let groups = if by_id {
                described(group, false, &[])
            } else {
                tagged.to_owned()
            };
            Ok(format!(
                "<DescribeSecurityGroupsResponse><securityGroupInfo>{groups}</securityGroupInfo></DescribeSecurityGroupsResponse>"
            ))
        }
        "DescribeTargetGroups" => crate::testing::result(call, "<TargetGroups/>"),
        _ => code.map_or_else(|| nothing(call), |code| rejection(call, code)),
    });
    let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
    if let Some(other) = lock {
        store.keep(&cloud.key("turn/node-rules"), other);
    }
    let instance = targets::InstanceNetwork {
        vpc: "v".into(),
        groups: BTreeSet::from([group.to_owned()]),
    };
    let instances = BTreeMap::from([("i-1".to_owned(), instance)]);
    let mut traffic = traffic(&[("tcp", 30080)], &[], &["192.0.2.0/24"]);
    traffic.subnets.clear();
    let cluster = Cluster {
        id: "c".into(),
        legacy: false,
    };
    let result = cloud.sync_node_rules(&lb(), &cluster, Some("v"), &instances, &traffic, expected);
    let sent = wire.sent.borrow();
    let shown = sent.iter().map(|call| {
        let group = call
            .params
            .iter()
            .find(|(key, _)| key == "GroupId")
            .map(|(_, id)| id.as_str());
        format!("{} {}", call.action, group.unwrap_or_default())
            .trim_end()
            .to_owned()
    });
    (shown.collect(), result)
}

const LOOK: &str = "DescribeSecurityGroups";

#[test]
fn up_to_date_rules_need_one_look_and_no_lock() {
    let there = described("sg-1", true, &[(30080, CLIENT)]).replace(
        "<ipPermissions>",
        "<ipPermissions><item><ipProtocol>icmp</ipProtocol><fromPort>3</fromPort><toPort>4</toPort><ipRanges><item><cidrIp>\
         192.0.2.0/24</cidrIp><description>kubernetes.io/rule/nlb/mtu</description></item></ipRanges></item>",
    );
    let (sent, result) = synced(&there, "sg-1", Expected::UpToDate, None, Some("another"));
    assert!(result.is_ok_and(|groups| groups.is_some_and(|groups| groups.contains_key("sg-1"))));
    assert_eq!(sent, [LOOK]);
    assert_eq!(
        synced(&there, "sg-1", Expected::Outdated, None, None).0,
        [LOOK],
        "an expected change is compared with the lock only"
    );
}

#[test]
fn lacking_rules_are_added_and_nothing_is_revoked() {
    let (sent, result) = synced(
        &described("sg-1", true, &[]),
        "sg-1",
        Expected::UpToDate,
        None,
        None,
    );
    result.unwrap();
    assert_eq!(sent, [LOOK, LOOK, "AuthorizeSecurityGroupIngress sg-1"]);
}

#[test]
fn a_group_of_nodes_without_tag_is_read_and_opened() {
    let (sent, result) = synced(
        &described("sg-1", true, &[]),
        "sg-9",
        Expected::Outdated,
        None,
        None,
    );
    result.unwrap();
    assert_eq!(sent, [LOOK, LOOK, "AuthorizeSecurityGroupIngress sg-9"]);
}

#[test]
fn rejected_changes_of_rules_are_errors_unless_others_were_first() {
    let lacking = described("sg-1", true, &[]);
    let (_, result) = synced(
        &lacking,
        "sg-1",
        Expected::Outdated,
        Some("UnauthorizedOperation"),
        None,
    );
    assert!(matches!(result, Err(CloudError::Denied(_))), "{result:?}");
    let (sent, result) = synced(
        &lacking,
        "sg-1",
        Expected::Outdated,
        Some("InvalidPermission.Duplicate"),
        None,
    );
    assert!(matches!(result, Err(CloudError::Conflict(_))), "{result:?}");
    assert_eq!(sent.len(), 2 * ATTEMPTS);
}

#[test]
fn checks_of_others_are_not_read_again_if_they_were_not_read() {
    let there = described("sg-1", true, &[(30080, CLIENT), (32000, HEALTH)]);
    let (sent, result) = synced(&there, "sg-1", Expected::Outdated, None, None);
    result.unwrap();
    assert!(
        sent.contains(&"RevokeSecurityGroupIngress sg-1".to_owned()),
        "{sent:?}"
    );
    assert!(
        !sent.contains(&"DescribeTargetGroups".to_owned()),
        "{sent:?}"
    );
}
