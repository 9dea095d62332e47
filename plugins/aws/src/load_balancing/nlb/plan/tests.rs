use super::*;
use crate::{
    client::api::{
        elbv2::{Action, Certificate, LoadBalancer},
        failure::Failure,
    },
    load_balancing::nlb::{desired_load_balancer::IpAddressType, health::Health},
};

fn health() -> Health {
    Health {
        protocol: "TCP",
        port: "traffic-port".into(),
        path: None,
        interval: 30,
        timeout: None,
        healthy: 3,
        unhealthy: 3,
    }
}

fn desired_listener(port: u16, protocol: &'static str) -> DesiredListener {
    let behind = if protocol == "TLS" { "TCP" } else { protocol };
    DesiredListener {
        port,
        protocol,
        certificate: (protocol == "TLS").then(|| "arn:cert".into()),
        policy: None,
        group: DesiredTargetGroup {
            name: format!("g{port}"),
            port: 30000 + port,
            protocol: behind,
            health: health(),
            ipv6: false,
        },
    }
}

fn desired(listeners: Vec<DesiredListener>) -> DesiredLoadBalancer {
    DesiredLoadBalancer {
        name: "a1".into(),
        tags: Tags::from([("k".into(), "v".into())]),
        removed_tags: BTreeSet::new(),
        internal: false,
        subnets: Vec::new(),
        allocations: Vec::new(),
        private_addresses: Vec::new(),
        listeners,
        attributes: BTreeMap::from([("cross".into(), "false".into())]),
        group_attributes: BTreeMap::new(),
        ranges: vec!["0.0.0.0/0".into()],
        security: Security::Unchanged,
        ip_address_type: IpAddressType::Unchanged,
    }
}

fn group(port: u16, protocol: &str) -> TargetGroup {
    TargetGroup {
        target_group_arn: format!("tg{port}"),
        protocol: protocol.into(),
        port: 30000 + port,
        health_check_protocol: "TCP".into(),
        health_check_port: "traffic-port".into(),
        health_check_interval_seconds: 30,
        health_check_timeout_seconds: 10,
        healthy_threshold_count: 3,
        unhealthy_threshold_count: 3,
        ..TargetGroup::default()
    }
}

fn listener(port: u16, protocol: &str, leads_to: &str) -> Listener {
    Listener {
        listener_arn: format!("l{port}"),
        port,
        protocol: protocol.into(),
        default_actions: vec![Action {
            target_group_arn: leads_to.into(),
        }]
        .into(),
        ..Listener::default()
    }
}

fn target(id: &str, port: u16) -> Target {
    Target {
        id: id.into(),
        port: 30000 + port,
    }
}

/// Returns a load balancer that matches `desired(vec![desired_listener(80, "TCP")])`, with instance i-1.
fn settled() -> ObservedLoadBalancer {
    ObservedLoadBalancer {
        balancer: LoadBalancer {
            load_balancer_arn: "lb".into(),
            ip_address_type: "ipv4".into(),
            ..Default::default()
        },
        tags: Some(BTreeMap::from([
            (
                "lb".into(),
                Tags::from([("k".into(), "v".into()), ("mine".into(), "x".into())]),
            ),
            ("tg80".into(), Tags::from([("k".into(), "v".into())])),
        ])),
        listeners: vec![listener(80, "TCP", "tg80")],
        groups: vec![group(80, "TCP")],
        targets: BTreeMap::from([("tg80".into(), BTreeSet::from([target("i-1", 80)]))]),
        attributes: BTreeMap::from([("cross".into(), "false".into())]),
        ..ObservedLoadBalancer::default()
    }
}

fn instances(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn web() -> DesiredLoadBalancer {
    desired(vec![desired_listener(80, "TCP")])
}

#[test]
fn an_up_to_date_network_load_balancer_needs_no_steps() {
    assert_eq!(plan(&web(), &settled(), &instances(&["i-1"])), []);
}

#[test]
fn a_new_load_balancer_gets_group_then_listener_and_targets() {
    let mut observed = ObservedLoadBalancer {
        attributes: settled().attributes,
        ..ObservedLoadBalancer::default()
    };

    assert_eq!(
        plan(&web(), &observed, &instances(&["i-1"])),
        [Step::CreateGroup(desired_listener(80, "TCP").group)]
    );

    observed.groups = vec![group(80, "TCP")];
    assert_eq!(
        plan(&web(), &observed, &instances(&["i-1"])),
        [
            Step::CreateListener(desired_listener(80, "TCP"), "tg80".into()),
            Step::Register("tg80".into(), vec![target("i-1", 80)]),
        ]
    );
}

#[test]
fn changed_targets_are_sent_in_batches_of_100() {
    let many: Vec<String> = (0..150).map(|number| format!("i-{number:03}")).collect();
    let wanted: BTreeSet<String> = many.iter().cloned().collect();
    let steps = plan(&web(), &settled(), &wanted);
    let sizes: Vec<(bool, usize)> = steps
        .iter()
        .map(|step| match step {
            Step::Register(_, targets) => (true, targets.len()),
            Step::Deregister(_, targets) => (false, targets.len()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sizes, [(false, 1), (true, 100), (true, 50)]);
}

#[test]
fn a_port_that_changes_its_protocol_keeps_its_listener() {
    let steps = plan(
        &desired(vec![desired_listener(80, "TLS")]),
        &settled(),
        &instances(&["i-1"]),
    );

    assert_eq!(
        steps,
        [Step::ModifyListener(
            "l80".into(),
            desired_listener(80, "TLS"),
            "tg80".into()
        )]
    );

    // UDP needs another target group. The old one is deleted when no listener uses it.
    let udp = desired(vec![desired_listener(80, "UDP")]);
    let mut observed = settled();
    assert_eq!(
        plan(&udp, &observed, &instances(&["i-1"])),
        [Step::CreateGroup(desired_listener(80, "UDP").group)]
    );

    observed.groups.push(TargetGroup {
        target_group_arn: "new".into(),
        ..group(80, "UDP")
    });

    assert_eq!(
        plan(&udp, &observed, &instances(&["i-1"])),
        [Step::Register("new".into(), vec![target("i-1", 80)])],
        "targets come first"
    );

    observed
        .targets
        .insert("new".into(), BTreeSet::from([target("i-1", 80)]));
    assert_eq!(
        plan(&udp, &observed, &instances(&["i-1"])),
        [Step::ModifyListener(
            "l80".into(),
            desired_listener(80, "UDP"),
            "new".into()
        )]
    );

    observed.listeners = vec![listener(80, "UDP", "new")];
    assert_eq!(
        plan(&udp, &observed, &instances(&["i-1"])),
        [Step::DeleteGroup("tg80".into())]
    );
}

#[test]
fn a_listener_moves_only_to_a_group_with_targets() {
    let udp = desired(vec![desired_listener(80, "UDP")]);
    let mut observed = settled();
    observed.groups.push(TargetGroup {
        target_group_arn: "new".into(),
        ..group(80, "UDP")
    });
    let failure = || Failure::Unreadable {
        action: "RegisterTargets",
        reason: "test".into(),
    };
    let rejected = |ids: &[&str]| {
        let rejected = ids.iter().map(|id| (target(id, 80), failure())).collect();
        BTreeMap::from([("new".to_owned(), rejected)])
    };
    let changes_target_group = |observed: &ObservedLoadBalancer, ids: &[&str]| {
        let steps = plan(&udp, observed, &instances(ids));
        assert!(changes_target_group(&udp, observed));
        steps
            .iter()
            .any(|step| matches!(step, Step::ModifyListener(..)))
    };

    assert!(changes_target_group(&observed, &[]), "there are no nodes");

    observed.rejected = rejected(&["i-1", "i-2"]);
    assert!(
        !changes_target_group(&observed, &["i-1", "i-2"]),
        "all are rejected"
    );

    observed.rejected = rejected(&["i-1"]);
    assert!(
        !changes_target_group(&observed, &["i-1", "i-2"]),
        "i-2 is not registered"
    );

    observed
        .targets
        .insert("new".into(), BTreeSet::from([target("i-2", 80)]));
    assert!(changes_target_group(&observed, &["i-1", "i-2"]));

    observed.keeps_target_groups = true;
    assert!(!changes_target_group(&observed, &["i-1", "i-2"]));
}

#[test]
fn a_listener_moves_only_to_a_group_with_its_attributes() {
    let mut desired = web();
    desired.listeners[0].group.port = 30081;
    desired.group_attributes = BTreeMap::from([("p".into(), "true".into())]);
    let mut observed = settled();
    let next = group(81, "TCP");
    let arn = next.target_group_arn.clone();
    let set = Step::SetGroupAttributes(arn.clone(), desired.group_attributes.clone());
    observed.groups.push(next);
    observed
        .targets
        .insert(arn.clone(), [target("i-1", 81)].into());

    assert_eq!(plan(&desired, &observed, &instances(&["i-1"])), [set]);

    observed
        .group_attributes
        .insert(arn.clone(), desired.group_attributes.clone());
    let steps = plan(&desired, &observed, &instances(&["i-1"]));

    assert!(
        matches!(&steps[..], [Step::ModifyListener(_, _, group)] if *group == arn),
        "{steps:?}"
    );
}

#[test]
fn settings_of_logs_do_not_affect_other_attributes() {
    let mut desired = web();
    desired
        .attributes
        .insert("access_logs.s3.enabled".into(), "true".into());
    desired.attributes.insert("cross".into(), "true".into());
    let set = |key: &str| Step::SetAttributes(BTreeMap::from([(key.into(), "true".into())]));
    assert_eq!(
        plan(&desired, &settled(), &instances(&["i-1"])),
        [set("cross"), set("access_logs.s3.enabled")]
    );
}

#[test]
fn a_removed_port_deletes_its_listener_then_its_group() {
    let mut observed = settled();
    observed.listeners.push(listener(81, "TCP", "tg81"));
    observed.groups.push(group(81, "TCP"));
    assert_eq!(
        plan(&web(), &observed, &instances(&["i-1"])),
        [Step::DeleteListener("l81".into())]
    );
    observed.listeners.pop();
    assert_eq!(
        plan(&web(), &observed, &instances(&["i-1"])),
        [Step::DeleteGroup("tg81".into())]
    );
}

#[test]
fn a_listener_of_a_user_stays() {
    let mut observed = settled();
    observed.listeners.push(listener(9000, "TCP", "of-user"));
    assert_eq!(plan(&web(), &observed, &instances(&["i-1"])), []);
    let (_, of_users) = unrequested(&web(), &observed);
    assert_eq!(of_users, [&observed.listeners[1]]);
    // A port that the Service has is its own.
    let mut observed = settled();
    observed.listeners[0] = listener(80, "TCP", "of-user");
    let steps = plan(&web(), &observed, &instances(&["i-1"]));
    assert!(
        matches!(steps.as_slice(), [Step::ModifyListener(..)]),
        "{steps:?}"
    );
}

#[test]
fn changed_health_checks_modify_or_recreate_the_group() {
    let with = |change: fn(&mut Health)| {
        let mut listener = desired_listener(80, "TCP");
        change(&mut listener.group.health);
        plan(&desired(vec![listener]), &settled(), &instances(&["i-1"]))
    };

    for change in [
        (|health| health.port = "32000".into()) as fn(&mut Health),
        |health| health.healthy = 2,
        |health| health.unhealthy = 2,
        |health| health.timeout = Some(7),
    ] {
        assert!(matches!(with(change).as_slice(), [Step::ModifyGroup(arn, _)] if arn == "tg80"));
    }
    for change in [
        (|health| health.interval = 10) as fn(&mut Health),
        |health| health.protocol = "HTTP",
    ] {
        assert!(matches!(with(change).as_slice(), [Step::CreateGroup(_)]));
    }
}

#[test]
fn a_changed_certificate_or_policy_is_set() {
    let mut observed = settled();
    observed.listeners = vec![Listener {
        certificates: vec![Certificate {
            certificate_arn: "arn:cert".into(),
        }]
        .into(),
        ssl_policy: "AWS-default".into(),
        ..listener(80, "TLS", "tg80")
    }];
    let tls = |certificate: &str, policy: Option<&str>| {
        let listener = DesiredListener {
            certificate: Some(certificate.into()),
            policy: policy.map(str::to_owned),
            ..desired_listener(80, "TLS")
        };
        plan(&desired(vec![listener]), &observed, &instances(&["i-1"])).len()
    };

    assert_eq!(
        tls("arn:cert", None),
        0,
        "a policy that is not asked for is left"
    );
    assert_eq!(tls("arn:cert", Some("AWS-default")), 0);
    assert_eq!(tls("arn:cert", Some("other")), 1);
    assert_eq!(tls("arn:other", None), 1);
}

#[test]
fn externally_changed_tags_and_attributes_are_restored() {
    let mut observed = settled();
    observed.attributes.insert("cross".into(), "true".into());
    observed
        .tags
        .as_mut()
        .unwrap()
        .insert("tg80".into(), Tags::new());

    assert_eq!(
        plan(&web(), &observed, &instances(&["i-1"])),
        [
            Step::SetAttributes(BTreeMap::from([("cross".into(), "false".into())])),
            Step::AddTags(vec!["tg80".into()], web().tags),
        ]
    );

    observed = ObservedLoadBalancer {
        tags: None,
        ..settled()
    };

    assert_eq!(
        plan(&web(), &observed, &instances(&["i-1"])),
        [],
        "tags that cannot be read are left"
    );
}

#[test]
fn tags_that_are_not_requested_any_more_are_removed() {
    let mut desired = web();
    desired.removed_tags = ["mine", "absent"].map(str::to_owned).into();
    assert_eq!(
        plan(&desired, &settled(), &instances(&["i-1"])),
        [Step::RemoveTags(vec!["lb".into()], desired.removed_tags)]
    );
}

#[test]
fn requested_target_group_attributes_are_set() {
    let mut desired = web();
    desired.group_attributes = BTreeMap::from([("p".into(), "true".into())]);
    let set = Step::SetGroupAttributes("tg80".into(), desired.group_attributes.clone());
    assert_eq!(plan(&desired, &settled(), &instances(&["i-1"])), [set]);
    let mut observed = settled();
    observed
        .group_attributes
        .insert("tg80".into(), desired.group_attributes.clone());
    assert_eq!(plan(&desired, &observed, &instances(&["i-1"])), []);
}

#[test]
fn security_groups_are_set_only_if_the_nlb_has_some() {
    let mut desired = web();
    desired.security = Security::Given(vec!["sg-2".into(), "sg-1".into()]);
    let with = |there: &[&str]| {
        let mut observed = settled();
        observed.balancer.security_groups = there
            .iter()
            .map(|id| (*id).to_owned())
            .collect::<Vec<_>>()
            .into();
        plan(&desired, &observed, &instances(&["i-1"]))
    };

    assert_eq!(with(&[]), []);
    assert_eq!(with(&["sg-1", "sg-2"]), []);
    assert_eq!(
        with(&["sg-9"]),
        [Step::SetSecurityGroups(vec!["sg-2".into(), "sg-1".into()])]
    );
}

#[test]
fn the_address_type_changes_only_if_required() {
    let with = |ip_address_type| {
        plan(
            &DesiredLoadBalancer {
                ip_address_type,
                ..web()
            },
            &settled(),
            &instances(&["i-1"]),
        )
    };
    assert_eq!(with(IpAddressType::Unchanged), []);
    assert_eq!(with(IpAddressType::DualstackIfPossible), []);
    assert_eq!(with(IpAddressType::Ipv4), []);
    assert_eq!(
        with(IpAddressType::Dualstack),
        [Step::SetIpAddressType("dualstack")]
    );
}

#[test]
fn a_listener_keeps_its_group_among_several_that_fit() {
    let mut observed = settled();
    observed.groups.insert(
        0,
        TargetGroup {
            target_group_arn: "first".into(),
            ..group(80, "TCP")
        },
    );
    assert_eq!(
        plan(&web(), &observed, &instances(&["i-1"])),
        [Step::DeleteGroup("first".into())]
    );
}

#[test]
fn a_listener_with_another_protocol_or_group_is_modified() {
    assert!(!changes_target_group(&web(), &settled()));
    for there in [listener(80, "UDP", "tg80"), listener(80, "TCP", "gone")] {
        let observed = ObservedLoadBalancer {
            listeners: vec![there],
            ..settled()
        };
        let steps = plan(&web(), &observed, &instances(&["i-1"]));
        assert_eq!(
            steps,
            [Step::ModifyListener(
                "l80".into(),
                desired_listener(80, "TCP"),
                "tg80".into()
            )]
        );
    }
}

#[test]
fn a_changed_path_of_health_checks_modifies_the_group() {
    let mut listener = desired_listener(80, "TCP");
    listener.group.health.path = Some("/healthz".into());
    for (there, steps) in [("/healthz", 0), ("/", 1)] {
        let mut observed = settled();
        observed.groups = vec![TargetGroup {
            health_check_path: there.into(),
            ..group(80, "TCP")
        }];
        assert_eq!(
            plan(
                &desired(vec![listener.clone()]),
                &observed,
                &instances(&["i-1"])
            )
            .len(),
            steps,
            "{there}"
        );
    }
}

#[test]
fn the_group_of_another_port_is_not_taken_for_that_of_a_port() {
    let mut observed = settled();
    observed.groups = vec![
        group(80, "TCP"),
        TargetGroup {
            target_group_arn: "new".into(),
            ..group(80, "TCP")
        },
    ];
    observed.listeners = vec![listener(81, "TCP", "new")];
    let steps = plan(&web(), &observed, &instances(&["i-1"]));

    assert_eq!(steps.len(), 2, "{steps:?}");
    assert!(
        matches!(&steps[0], Step::CreateListener(_, group) if group == "tg80"),
        "{steps:?}"
    );
    assert_eq!(steps[1], Step::DeleteListener("l81".into()));
}
