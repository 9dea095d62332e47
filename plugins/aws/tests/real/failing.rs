//! What AWS rejects stops only what depends on it.

use skydock_sdk::types::{CloudError, Ingress, LoadBalancerStatus, Service, TrafficPolicy};

use crate::world::{World, annotation, name, service, text, texts};

fn ensure(world: &World, service: &Service) -> Result<LoadBalancerStatus, CloudError> {
    world.call(|cloud| cloud.ensure_balancer(service, &world.targets()))
}

fn groups(world: &World, service: &Service) -> Vec<(String, String)> {
    let found = world.elbv2(
        "DescribeLoadBalancers",
        &[("Names.member.1", &name(service))],
    );
    let arn = text(&found, "LoadBalancerArn");
    let body = world.elbv2("DescribeTargetGroups", &[("LoadBalancerArn", &arn)]);
    let arns = texts(&body, "TargetGroupArn").into_iter();
    arns.zip(texts(&body, "Port")).collect()
}

fn targets(world: &World, group: &str) -> Vec<String> {
    let body = world.elbv2("DescribeTargetHealth", &[("TargetGroupArn", group)]);
    let mut ids = texts(&body, "Id");
    ids.sort();
    ids
}

fn listeners(world: &World, service: &Service) -> String {
    let found = world.elbv2(
        "DescribeLoadBalancers",
        &[("Names.member.1", &name(service))],
    );
    let arn = text(&found, "LoadBalancerArn");
    world.elbv2("DescribeListeners", &[("LoadBalancerArn", &arn)])
}

/// Returns the positions of these actions among those that were sent, in order.
fn position(sent: &[String], action: &str) -> Option<usize> {
    sent.iter().position(|one| one == action)
}

#[test]
fn a_listener_moves_after_targets_and_rules_are_there() {
    let world = World::new(2, "");
    let mut web = service(&[(80, 30080)]);
    ensure(&world, &web).unwrap();
    let before = groups(&world, &web)[0].0.clone();
    web.ports[0].node_port = 30081;

    for (action, code) in [
        (
            "AuthorizeSecurityGroupIngress",
            "RulesPerSecurityGroupLimitExceeded",
        ),
        ("RegisterTargets", "InternalError"),
        ("RegisterTargets", "InvalidTarget"),
    ] {
        let times = if code == "InternalError" { 1 } else { 100 };
        *world.line.faults.borrow_mut() = vec![(action, 0, times, code)];
        world.line.take();
        web.status.ingress = vec![Ingress::default()];
        assert!(ensure(&world, &web).is_err(), "{action} {code}");
        assert_eq!(position(&world.line.take(), "ModifyListener"), None);
        assert!(listeners(&world, &web).contains(&before), "{action} {code}");
        let rules = world.ec2("DescribeSecurityGroups", &[("GroupId.1", &world.group)]);
        assert!(rules.contains("<fromPort>30080<"), "{action}: {rules}");
    }

    world.line.faults.borrow_mut().clear();
    world.line.take();
    ensure(&world, &web).unwrap();
    let sent = world.line.take();
    let moved = position(&sent, "ModifyListener").unwrap();
    assert!(
        position(&sent, "RegisterTargets").unwrap() < moved,
        "{sent:?}"
    );
    assert!(!listeners(&world, &web).contains(&before));
}

#[test]
fn a_stopped_instance_does_not_keep_out_the_others() {
    for annotations in [vec![annotation("type", "nlb")], vec![]] {
        let world = World::new(3, "");
        let mut web = service(&[(80, 30080)]);
        web.annotations = annotations;
        world.ec2("StopInstances", &[("InstanceId.1", &world.instances[0])]);
        let registered = || {
            if web.annotations.is_empty() {
                let named = [("LoadBalancerNames.member.1", name(&web))];
                let named = named.each_ref().map(|(key, name)| (*key, name.as_str()));
                let mut ids = texts(&world.elb("DescribeLoadBalancers", &named), "InstanceId");
                ids.sort();
                ids
            } else {
                targets(&world, &groups(&world, &web)[0].0)
            }
        };
        let status = ensure(&world, &web).unwrap();
        assert_eq!(status.ingress.len(), 1);
        let mut others = world.instances[1..].to_vec();
        others.sort();
        assert_eq!(registered(), others);
        let told = world.warnings();
        assert!(
            told.contains(&world.instances[0]) && !told.contains(&world.instances[1]),
            "{told}"
        );

        // The address is published, so the error only leads to a retry.
        let served = Service {
            status,
            ..web.clone()
        };
        let again = ensure(&world, &served);
        assert!(matches!(again, Err(CloudError::Internal(_))), "{again:?}");
        let updated = world.call(|cloud| cloud.update_targets(&served, &world.targets()));
        assert!(
            matches!(updated, Err(CloudError::Internal(_))),
            "{updated:?}"
        );
        assert_eq!(world.warnings(), "", "it was told before");
        assert_eq!(registered(), others);

        world.ec2("StartInstances", &[("InstanceId.1", &world.instances[0])]);
        world
            .call(|cloud| cloud.update_targets(&served, &world.targets()))
            .unwrap();
        assert_eq!(registered().len(), 3);
    }
}

#[test]
fn a_rejected_bucket_stops_nothing_else() {
    let mut world = World::new(1, "");
    let mut web = service(&[(80, 30080)]);
    ensure(&world, &web).unwrap();
    world.line.problem(
        &["ModifyLoadBalancerAttributes"],
        "my-bucket",
        "InvalidConfigurationRequest",
    );
    web.annotations.extend([
        annotation("access-log-enabled", "true"),
        annotation("access-log-s3-bucket-name", "my-bucket"),
        annotation("cross-zone-load-balancing-enabled", "true"),
    ]);
    web.ports.push(service(&[(8443, 30843)]).ports[0].clone());
    let added = world.launch(0);

    let answer = ensure(&world, &web);
    assert!(matches!(answer, Err(CloudError::Internal(_))), "{answer:?}");
    let groups = groups(&world, &web);
    assert_eq!(groups.len(), 2);
    for (group, port) in groups {
        assert!(targets(&world, &group).contains(&added), "{port}");
    }
    let rules = world.ec2("DescribeSecurityGroups", &[("GroupId.1", &world.group)]);
    assert!(rules.contains("<fromPort>30843<"), "{rules}");
    world.line.take();
    let again = ensure(&world, &web);
    assert_eq!(answer, again, "only the bucket is left");
    let changed: Vec<String> = world.line.take();
    let changed = changed
        .iter()
        .filter(|action| !action.starts_with("Describe"));
    assert_eq!(
        changed.collect::<Vec<_>>(),
        ["ModifyLoadBalancerAttributes"]
    );
}

#[test]
fn a_full_load_balancer_gets_a_node_for_another() {
    let mut world = World::new(2, "");
    let web = service(&[(80, 30080)]);
    ensure(&world, &web).unwrap();
    world.instances.remove(0);
    world.launch(0);
    *world.line.faults.borrow_mut() = vec![("RegisterTargets", 0, 1, "TooManyTargets")];
    ensure(&world, &web).unwrap();
    let group = groups(&world, &web)[0].0.clone();
    let expected = |world: &World| {
        let mut ids = world.instances.clone();
        ids.sort();
        ids
    };
    assert_eq!(targets(&world, &group), expected(&world));

    world.instances.remove(0);
    world.launch(0);
    *world.line.faults.borrow_mut() = vec![("RegisterTargets", 0, 1, "TooManyTargets")];
    world
        .call(|cloud| cloud.update_targets(&web, &world.targets()))
        .unwrap();
    assert_eq!(targets(&world, &group), expected(&world));
}

#[test]
fn a_load_balancer_can_be_deleted_after_all_nodes() {
    for annotations in [vec![annotation("type", "nlb")], vec![]] {
        let mut world = World::new(2, "");
        world.reconfigure("NLBSecurityGroupMode = Managed");
        let mut web = service(&[(80, 30080)]);
        web.annotations = annotations;
        ensure(&world, &web).unwrap();
        for id in std::mem::take(&mut world.instances) {
            world.ec2("TerminateInstances", &[("InstanceId.1", &id)]);
        }
        world.store.clear();

        world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
        assert_eq!(world.call(|cloud| cloud.balancer(&web)), Ok(None));
        let filter = [
            ("Filter.1.Name", "vpc-id"),
            ("Filter.1.Value.1", world.vpc.as_str()),
        ];
        let groups = texts(&world.ec2("DescribeSecurityGroups", &filter), "groupName");
        let made = groups.iter().filter(|name| name.starts_with("k8s-"));
        assert_eq!(made.count(), 0, "{groups:?}");
        let nodes = world.ec2("DescribeSecurityGroups", &[("GroupId.1", &world.group)]);
        assert!(texts(&nodes, "fromPort").is_empty(), "{nodes}");

        // There is nothing left, and nothing tells the cluster.
        let again = world.call(|cloud| cloud.delete_balancer(&web));
        assert!(matches!(again, Err(CloudError::InProgress(_))), "{again:?}");
        world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
    }
}

#[test]
fn nodes_accept_the_load_balancer_if_it_hides_clients() {
    let world = World::new(1, "");
    let mut web = service(&[(80, 30080)]);
    web.source_ranges = vec!["203.0.113.0/24".into()];
    let hidden = annotation(
        "target-group-attributes",
        "preserve_client_ip.enabled=false",
    );
    let rules = || {
        let group = world.ec2("DescribeSecurityGroups", &[("GroupId.1", &world.group)]);
        let rules = texts(&group, "ipPermissions")[0].clone();
        let port = rules
            .split("<fromPort>")
            .filter(|one| one.starts_with("30080<"));
        let mut ranges: Vec<String> = port.flat_map(|one| texts(one, "cidrIp")).collect();
        ranges.sort();
        ranges.dedup();
        ranges
    };
    // Otherwise, the rules for health checks allow the same.
    web.external_traffic_policy = TrafficPolicy::Local;
    web.health_check_node_port = 32000;
    let clients = "203.0.113.0/24";
    ensure(&world, &web).unwrap();
    assert_eq!(rules(), [clients]);
    assert_eq!(world.warnings(), "");
    world.line.take();
    web.annotations.push(hidden);
    ensure(&world, &web).unwrap();
    assert_eq!(rules(), ["10.0.1.0/24", "10.0.2.0/24", clients]);
    assert!(
        world
            .warnings()
            .starts_with("LoadBalancerSourceRangesNotEnforced: ")
    );
    let sent = world.line.take();
    let at = |action| position(&sent, action);
    let opened = at("AuthorizeSecurityGroupIngress");
    assert!(
        opened.is_some() && opened < at("ModifyTargetGroupAttributes"),
        "{sent:?}"
    );

    web.annotations.pop();
    world.line.take();
    ensure(&world, &web).unwrap();
    assert_eq!(rules(), [clients]);
    let sent = world.line.take();
    let at = |action| position(&sent, action);
    let seen = at("ModifyTargetGroupAttributes");
    assert!(
        seen.is_some() && seen < at("RevokeSecurityGroupIngress"),
        "{sent:?}"
    );
}

#[test]
fn what_cannot_change_is_told_once() {
    for (kind, reason) in [(Some("nlb"), "network"), (None, "classic")] {
        let world = World::new(1, "");
        let mut web = service(&[(80, 30080)]);
        web.annotations = kind
            .into_iter()
            .map(|kind| annotation("type", kind))
            .collect();
        web.annotations.push(annotation("name", "x"));
        ensure(&world, &web).unwrap();
        let told = world.warnings();
        assert!(
            told.contains("LoadBalancerAnnotationIgnored: a") && told.contains(reason),
            "{told}"
        );
        let named = format!("{},{}", world.subnets[0], world.subnets[1]);
        web.annotations.push(annotation("subnets", &named));
        ensure(&world, &web).unwrap();
        assert_eq!(world.warnings(), "");

        web.annotations
            .retain(|(key, _)| !key.ends_with("-subnets"));
        web.annotations.push(annotation("internal", "true"));
        if kind.is_some() {
            web.annotations
                .push(annotation("subnets", &world.subnets[1]));
        }
        world.line.take();
        ensure(&world, &web).unwrap();
        let told = world.warnings();
        assert!(
            told.starts_with("LoadBalancerNotChanged: annotation"),
            "{told}"
        );
        assert!(
            told.contains("internal: true requests the scheme internal"),
            "{told}"
        );
        assert_eq!(
            told.contains(&format!("requests {}, but", world.subnets[1])),
            kind.is_some()
        );
        assert!(
            world
                .line
                .take()
                .iter()
                .all(|action| action.starts_with("Describe"))
        );
        ensure(&world, &web).unwrap();
        assert_eq!(world.warnings(), "");
    }
}

#[test]
fn the_scheme_of_the_other_controller_is_not_ignored() {
    let world = World::new(1, "");
    let mut web = service(&[(80, 30080)]);
    web.annotations.push(annotation("scheme", "internal"));
    ensure(&world, &web).unwrap();
    let found = world.elbv2("DescribeLoadBalancers", &[("Names.member.1", &name(&web))]);
    assert_eq!(text(&found, "Scheme"), "internal");
    web.annotations.push(annotation("scheme", "secret"));
    web.annotations.remove(1);
    let answer = ensure(&world, &web);
    assert!(matches!(answer, Err(CloudError::Invalid(_))), "{answer:?}");
}

#[test]
fn removed_tags_and_attributes_are_removed_in_the_cloud() {
    for kind in [Some("nlb"), None] {
        let world = World::new(1, "");
        let mut web = service(&[(80, 30080)]);
        let base: Vec<_> = kind
            .into_iter()
            .map(|kind| annotation("type", kind))
            .collect();
        web.annotations.clone_from(&base);
        web.annotations
            .push(annotation("additional-resource-tags", "team=a,env=x"));
        if kind.is_some() {
            let attributes = "proxy_protocol_v2.enabled=true";
            web.annotations
                .push(annotation("target-group-attributes", attributes));
        }
        ensure(&world, &web).unwrap();
        let tags = || {
            if kind.is_some() {
                let found =
                    world.elbv2("DescribeLoadBalancers", &[("Names.member.1", &name(&web))]);
                let arn = text(&found, "LoadBalancerArn");
                world.elbv2("DescribeTags", &[("ResourceArns.member.1", &arn)])
            } else {
                world.elb(
                    "DescribeTags",
                    &[("LoadBalancerNames.member.1", &name(&web))],
                )
            }
        };
        assert!(tags().contains("<Key>env<"));

        let mut less = web.clone();
        less.annotations = base;
        less.annotations
            .push(annotation("additional-resource-tags", "team=b"));
        ensure(&world, &less).unwrap();
        assert!(!tags().contains("<Key>env<") && tags().contains("<Value>b<"));
        if kind.is_some() {
            let group = groups(&world, &web)[0].0.clone();
            let read = [("TargetGroupArn", group.as_str())];
            let attributes = world.elbv2("DescribeTargetGroupAttributes", &read);
            let (_, proxy) = attributes.split_once("proxy_protocol_v2.enabled").unwrap();
            assert!(
                proxy.starts_with("</Key>") && text(proxy, "Value") == "false",
                "{proxy}"
            );
        }
        world.line.take();
        ensure(&world, &less).unwrap();
        assert!(
            world
                .line
                .take()
                .iter()
                .all(|action| action.starts_with("Describe"))
        );
    }
}

#[test]
fn tags_of_a_call_that_was_throttled_are_removed_later() {
    let mut world = World::new(1, "");
    let mut web = service(&[(80, 30080)]);
    web.annotations.push(annotation("type", "nlb"));
    ensure(&world, &web).unwrap();

    world.launch(1);
    let fault = ("RegisterTargets", 0, 1, "Throttling");
    world.line.faults.borrow_mut().push(fault);
    web.annotations
        .push(annotation("additional-resource-tags", "env=x"));
    let throttled = ensure(&world, &web);
    assert!(
        matches!(throttled, Err(CloudError::Throttled(_))),
        "{throttled:?}"
    );
    let has_tag = || {
        let found = world.elbv2("DescribeLoadBalancers", &[("Names.member.1", &name(&web))]);
        let arn = text(&found, "LoadBalancerArn");
        let tags = world.elbv2("DescribeTags", &[("ResourceArns.member.1", &arn)]);
        tags.contains("<Key>env<")
    };
    assert!(has_tag());

    let mut less = web.clone();
    less.annotations.pop();
    ensure(&world, &less).unwrap();
    assert!(!has_tag());
}
