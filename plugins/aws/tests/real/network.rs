use skydock_sdk::types::{CloudError, Service};

use crate::world::{World, annotation, certificate, name, service, text, texts};

/// Creates or updates the load balancer and returns its host name.
fn up(world: &World, service: &Service) -> String {
    let status = world
        .call(|cloud| cloud.ensure_balancer(service, &world.targets()))
        .unwrap();
    status.ingress[0].hostname.clone().unwrap()
}

/// Checks that a missing load balancer is looked for twice, because AWS may not list it yet.
fn is_looked_for_twice(world: &World, service: &Service) {
    let first = world.call(|cloud| cloud.delete_balancer(service));
    assert!(
        matches!(&first, Err(CloudError::InProgress(retry)) if retry.message.contains("checking again")),
        "{first:?}"
    );
    world.call(|cloud| cloud.delete_balancer(service)).unwrap();
}

fn arn(world: &World, service: &Service) -> String {
    text(
        &world.elbv2(
            "DescribeLoadBalancers",
            &[("Names.member.1", &name(service))],
        ),
        "LoadBalancerArn",
    )
}

fn targets(world: &World, group: &str) -> Vec<String> {
    let body = world.elbv2("DescribeTargetHealth", &[("TargetGroupArn", group)]);
    let mut ids = texts(&body, "Id");
    ids.sort();
    ids
}

#[test]
fn a_network_load_balancer_is_created_updated_and_deleted() {
    let mut world = World::new(3, "");
    let mut web = service(&[(80, 30080)]);

    let host = up(&world, &web);
    assert!(host.contains("elb"), "{host}");
    let made = world.line.take();
    assert_eq!(
        made,
        [
            "DescribeLoadBalancers",
            "DescribeInstances",
            "DescribeLoadBalancers",
            "DescribeInstances",
            "DescribeSubnets",
            "DescribeRouteTables",
            "DescribeAvailabilityZones",
            "CreateLoadBalancer",
            "CreateTargetGroup",
            "CreateListener",
            "RegisterTargets",
            "DescribeSecurityGroups",
            "AuthorizeSecurityGroupIngress",
        ]
    );
    assert_eq!(up(&world, &web), host);
    let idle = world.line.take();
    assert!(
        idle.iter().all(|action| action.starts_with("Describe")),
        "nothing to do, nothing done: {idle:?}"
    );
    assert_eq!(idle.len(), 7, "{idle:?}");

    let lb = arn(&world, &web);
    let group = text(
        &world.elbv2("DescribeTargetGroups", &[("LoadBalancerArn", &lb)]),
        "TargetGroupArn",
    );
    let mut expected = world.instances.clone();
    expected.sort();
    assert_eq!(targets(&world, &group), expected);
    let rules = world.ec2("DescribeSecurityGroups", &[("GroupId.1", &world.group)]);
    assert!(
        rules.contains(&format!("kubernetes.io/rule/nlb/client={}", name(&web))),
        "{rules}"
    );
    assert!(rules.contains("kubernetes.io/rule/nlb/mtu"), "{rules}");

    // One more node and one more port.
    world.launch(0);
    web.ports.push(service(&[(443, 30443)]).ports[0].clone());
    world.line.take();
    up(&world, &web);
    assert_eq!(
        world
            .line
            .take()
            .iter()
            .filter(|action| action.starts_with("Create"))
            .count(),
        2
    );
    assert_eq!(targets(&world, &group).len(), 4);
    let ports = texts(
        &world.elbv2("DescribeListeners", &[("LoadBalancerArn", &lb)]),
        "Port",
    );
    assert!(
        ports.contains(&"443".into()) && ports.contains(&"80".into()),
        "{ports:?}"
    );

    // One port less: its target group is deleted too.
    web.ports.remove(0);
    up(&world, &web);
    let groups = texts(
        &world.elbv2("DescribeTargetGroups", &[("LoadBalancerArn", &lb)]),
        "TargetGroupArn",
    );
    assert_eq!(groups.len(), 1);
    assert!(!groups.contains(&group));

    world.line.take();
    world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
    println!("delete: {:?}", world.line.take());
    assert_eq!(world.call(|cloud| cloud.balancer(&web)), Ok(None));
    let rules = world.ec2("DescribeSecurityGroups", &[("GroupId.1", &world.group)]);
    assert!(!rules.contains("kubernetes.io/rule/nlb"), "{rules}");
    is_looked_for_twice(&world, &web);
}

#[test]
fn five_load_balancers_need_at_most_52_calls() {
    let world = World::new(3, "");
    let services: Vec<_> = (0..5)
        .map(|index| service(&[(80, 30080 + index)]))
        .collect();
    for web in &services {
        up(&world, web);
    }
    let calls = world.line.take();
    println!("5 network load balancers, until up: {} calls", calls.len());
    assert!(calls.len() <= 52, "{}", calls.len());
}

#[test]
fn annotations_are_applied_in_the_cloud() {
    let world = World::new(1, "");
    let mut web = service(&[(80, 30080)]);
    web.annotations.extend([
        annotation("internal", "true"),
        annotation("cross-zone-load-balancing-enabled", "true"),
        annotation("additional-resource-tags", "team=a,empty"),
        annotation("healthcheck-protocol", "http"),
        annotation("healthcheck-path", "/ready"),
        annotation("subnets", &world.subnets[1]),
        annotation(
            "target-group-attributes",
            "preserve_client_ip.enabled=false,proxy_protocol_v2.enabled=true",
        ),
    ]);
    web.source_ranges = vec!["192.0.2.0/24".into()];
    up(&world, &web);
    let lb = arn(&world, &web);
    let body = world.elbv2("DescribeLoadBalancers", &[("Names.member.1", &name(&web))]);
    assert_eq!(text(&body, "Scheme"), "internal");
    assert_eq!(texts(&body, "SubnetId"), [world.subnets[1].clone()]);
    let body = world.elbv2(
        "DescribeLoadBalancerAttributes",
        &[("LoadBalancerArn", &lb)],
    );
    assert!(
        body.replace(char::is_whitespace, "")
            .contains("<Value>true</Value><Key>load_balancing.cross_zone.enabled</Key>")
            || body
                .replace(char::is_whitespace, "")
                .contains("<Key>load_balancing.cross_zone.enabled</Key><Value>true</Value>"),
        "{body}"
    );
    let tags = world.elbv2("DescribeTags", &[("ResourceArns.member.1", &lb)]);
    for word in [
        "team",
        "empty",
        "kubernetes.io/service-name",
        &format!("kubernetes.io/cluster/{}", world.cluster),
    ] {
        assert!(tags.contains(word), "{word}: {tags}");
    }
    let group = world.elbv2("DescribeTargetGroups", &[("LoadBalancerArn", &lb)]);
    assert_eq!(text(&group, "HealthCheckPath"), "/ready");
    let attributes = world.elbv2(
        "DescribeTargetGroupAttributes",
        &[("TargetGroupArn", &text(&group, "TargetGroupArn"))],
    );
    let flat = attributes.replace(char::is_whitespace, "");
    assert!(flat.contains("proxy_protocol_v2.enabled"), "{attributes}");
    let rules = world.ec2("DescribeSecurityGroups", &[("GroupId.1", &world.group)]);
    assert!(
        rules.contains("192.0.2.0/24") && rules.contains("10.0.2.0/24"),
        "clients and health checks: {rules}"
    );

    // Changes by others are reverted.
    let turned = [
        ("LoadBalancerArn", lb.as_str()),
        (
            "Attributes.member.1.Key",
            "load_balancing.cross_zone.enabled",
        ),
        ("Attributes.member.1.Value", "false"),
    ];
    world.elbv2("ModifyLoadBalancerAttributes", &turned);
    world.elbv2(
        "DeregisterTargets",
        &[
            ("TargetGroupArn", &text(&group, "TargetGroupArn")),
            ("Targets.member.1.Id", &world.instances[0]),
            ("Targets.member.1.Port", "30080"),
        ],
    );
    world.line.take();
    up(&world, &web);
    let mut repaired: Vec<_> = world
        .line
        .take()
        .into_iter()
        .filter(|action| !action.starts_with("Describe"))
        .collect();
    repaired.sort();
    assert_eq!(
        repaired,
        ["ModifyLoadBalancerAttributes", "RegisterTargets"]
    );
}

#[test]
fn a_certificate_creates_a_tls_listener() {
    let world = World::new(1, "");
    let mut web = service(&[(443, 30443)]);
    up(&world, &web);
    let certificate = certificate();
    web.annotations.push(annotation("ssl-cert", &certificate));
    up(&world, &web);
    let listener = world.elbv2(
        "DescribeListeners",
        &[("LoadBalancerArn", &arn(&world, &web))],
    );
    assert_eq!(
        (
            text(&listener, "Protocol").as_str(),
            text(&listener, "CertificateArn")
        ),
        ("TLS", certificate)
    );
    let group = world.elbv2(
        "DescribeTargetGroups",
        &[("LoadBalancerArn", &arn(&world, &web))],
    );
    assert_eq!(text(&group, "Protocol"), "TCP");
    // Without the certificate, the listener is one for TCP again.
    let plain = service_without(&web, "ssl-cert");
    for (wanted, expected) in [
        (&web, &[][..]),
        (&plain, &["ModifyListener"]),
        (&plain, &[]),
    ] {
        world.line.take();
        up(&world, wanted);
        let sent = world.line.take();
        let changed = sent.iter().filter(|action| !action.starts_with("Describe"));
        assert_eq!(changed.collect::<Vec<_>>(), expected);
    }
}

/// Returns the Service without this annotation.
fn service_without(web: &Service, name: &str) -> Service {
    let mut plain = web.clone();
    plain.annotations.retain(|(key, _)| !key.ends_with(name));
    plain
}

#[test]
fn a_node_change_only_updates_changed_targets() {
    let mut world = World::new(3, "");
    let web = service(&[(80, 30080), (443, 30443)]);
    up(&world, &web);
    let gone = world.instances.remove(0);
    let fresh = world.launch(1);
    world.line.take();
    let mut targets = world.targets();
    let target = |id: &str| skydock_aws::common::targets::Target {
        provider_id: Some(format!("aws:///us-east-1a/{id}")),
        labels: Vec::new(),
    };
    targets.changes = Some((vec![target(&fresh)], vec![target(&gone)]));
    world
        .call(|cloud| cloud.update_targets(&web, &targets))
        .unwrap();
    let calls = world.line.take();
    println!("update of 2 ports, 1 node in, 1 out: {calls:?}");
    assert_eq!(
        calls
            .iter()
            .filter(|action| action.ends_with("Targets"))
            .count(),
        4
    );
    assert!(calls.len() <= 9, "{calls:?}");
    targets.changes = None;
    world
        .call(|cloud| cloud.update_targets(&web, &targets))
        .unwrap();
    assert!(
        world
            .line
            .take()
            .iter()
            .all(|action| action.starts_with("Describe"))
    );
}

#[test]
fn a_failed_creation_is_continued() {
    for action in [
        "CreateTargetGroup",
        "CreateListener",
        "RegisterTargets",
        "AuthorizeSecurityGroupIngress",
    ] {
        let world = World::new(1, "");
        let web = service(&[(80, 30080)]);
        world
            .line
            .faults
            .borrow_mut()
            .push((action, 0, 1, "InternalError"));
        let first = world.call(|cloud| cloud.ensure_balancer(&web, &world.targets()));
        assert!(
            matches!(first, Err(CloudError::Unavailable(_))),
            "{action}: {first:?}"
        );
        up(&world, &web);
        let lb = arn(&world, &web);
        let groups = world.elbv2("DescribeTargetGroups", &[("LoadBalancerArn", &lb)]);
        assert_eq!(
            targets(&world, &text(&groups, "TargetGroupArn")),
            world.instances,
            "{action}"
        );
        world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
    }
}

#[test]
fn leftovers_of_a_failed_creation_are_deleted() {
    let world = World::new(1, "NLBSecurityGroupMode = Managed");
    let web = service(&[(80, 30080)]);
    world
        .line
        .faults
        .borrow_mut()
        .push(("CreateListener", 0, 1, "TooManyListeners"));
    let first = world.call(|cloud| cloud.ensure_balancer(&web, &world.targets()));
    assert!(
        matches!(&first, Err(CloudError::Denied(text)) if text.contains("quota")),
        "{first:?}"
    );
    // The load balancer is deleted manually; its target group and security group remain.
    world.elbv2(
        "DeleteLoadBalancer",
        &[("LoadBalancerArn", &arn(&world, &web))],
    );
    world
        .line
        .faults
        .borrow_mut()
        .push(("DeleteSecurityGroup", 0, 1, "DependencyViolation"));
    let waiting = world.call(|cloud| cloud.delete_balancer(&web));
    assert!(
        matches!(waiting, Err(CloudError::InProgress(_))),
        "{waiting:?}"
    );
    is_looked_for_twice(&world, &web);
    let groups = world.elbv2("DescribeTargetGroups", &[]);
    assert!(
        !groups.contains(&format!("k8s-default-{}", &web.name[..8])),
        "{groups}"
    );
    let filter = [
        ("Filter.1.Name", "vpc-id"),
        ("Filter.1.Value.1", world.vpc.as_str()),
    ];
    let names = texts(&world.ec2("DescribeSecurityGroups", &filter), "groupName");
    assert!(
        !names.iter().any(|name| name.starts_with("k8s-")),
        "{names:?}"
    );
}

#[test]
fn the_managed_security_group_follows_source_ranges() {
    let world = World::new(1, "NLBSecurityGroupMode = Managed");
    let mut web = service(&[(80, 30080)]);
    web.source_ranges = vec!["192.0.2.0/24".into()];
    up(&world, &web);
    let body = world.elbv2("DescribeLoadBalancers", &[("Names.member.1", &name(&web))]);
    let groups = body
        .split("<SecurityGroups>")
        .nth(1)
        .unwrap()
        .split("</SecurityGroups>")
        .next()
        .unwrap();
    let own = text(groups, "member");
    let rules = || world.ec2("DescribeSecurityGroups", &[("GroupId.1", &own)]);
    assert!(
        rules().contains("192.0.2.0/24") && rules().contains("[k8s] Managed SecurityGroup"),
        "{}",
        rules()
    );
    web.source_ranges = vec!["198.51.100.0/24".into()];
    up(&world, &web);
    assert!(
        !rules().contains("192.0.2.0/24") && rules().contains("198.51.100.0/24"),
        "{}",
        rules()
    );
    world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
    let filter = [
        ("Filter.1.Name", "group-id"),
        ("Filter.1.Value.1", own.as_str()),
    ];
    assert!(texts(&world.ec2("DescribeSecurityGroups", &filter), "groupId").is_empty());
}

#[test]
fn another_clusters_load_balancer_is_not_changed() {
    let world = World::new(1, "");
    let web = service(&[(80, 30080)]);
    up(&world, &web);
    let lb = arn(&world, &web);
    let key = format!("kubernetes.io/cluster/{}", world.cluster);
    world.elbv2(
        "RemoveTags",
        &[("ResourceArns.member.1", &lb), ("TagKeys.member.1", &key)],
    );
    let theirs = [
        ("ResourceArns.member.1", lb.as_str()),
        ("Tags.member.1.Key", "kubernetes.io/cluster/theirs"),
        ("Tags.member.1.Value", "owned"),
    ];
    world.elbv2("AddTags", &theirs);
    world.line.take();
    let rejection = world.call(|cloud| cloud.ensure_balancer(&web, &world.targets()));
    assert!(
        matches!(rejection, Err(CloudError::Internal(_))),
        "{rejection:?}"
    );
    assert!(world.call(|cloud| cloud.delete_balancer(&web)).is_err());
    assert!(
        world
            .call(|cloud| cloud.update_targets(&web, &world.targets()))
            .is_err()
    );
    assert!(
        world
            .line
            .take()
            .iter()
            .all(|action| action.starts_with("Describe"))
    );
}

#[test]
fn works_without_permission_to_read_tags() {
    let world = World::new(1, "");
    let web = service(&[(80, 30080)]);
    world
        .line
        .faults
        .borrow_mut()
        .push(("DescribeTags", 0, 100, "AccessDenied"));
    up(&world, &web);
    up(&world, &web);
    world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
}

#[test]
fn cluster_and_vpc_are_detected_from_the_nodes() {
    let mut world = World::new(2, "");
    world.reconfigure("");
    let web = service(&[(80, 30080)]);
    up(&world, &web);
    let tags = world.elbv2(
        "DescribeTags",
        &[("ResourceArns.member.1", &arn(&world, &web))],
    );
    assert!(
        tags.contains(&format!("kubernetes.io/cluster/{}", world.cluster)),
        "{tags}"
    );
}

#[test]
fn throttling_is_reported_as_throttled() {
    let world = World::new(1, "");
    let web = service(&[(80, 30080)]);
    world
        .line
        .faults
        .borrow_mut()
        .push(("CreateLoadBalancer", 0, 1, "Throttling"));
    let first = world.call(|cloud| cloud.ensure_balancer(&web, &world.targets()));
    assert!(matches!(first, Err(CloudError::Throttled(_))), "{first:?}");
    up(&world, &web);
}

#[test]
fn a_shared_health_port_stays_open_for_other_services() {
    let world = World::new(1, "ClusterServiceLoadBalancerHealthProbeMode = Shared");
    let services = [service(&[(80, 30080)]), service(&[(80, 30081)])];
    for web in &services {
        up(&world, web);
    }
    let rules = || world.ec2("DescribeSecurityGroups", &[("GroupId.1", &world.group)]);
    assert!(
        rules().contains(&format!(
            "kubernetes.io/rule/nlb/health={}",
            name(&services[0])
        )),
        "{}",
        rules()
    );
    world
        .call(|cloud| cloud.delete_balancer(&services[0]))
        .unwrap();
    assert!(
        rules().contains("10256"),
        "the other one's instances are checked there: {}",
        rules()
    );
    assert!(!rules().contains("30080"), "{}", rules());
    world
        .call(|cloud| cloud.delete_balancer(&services[1]))
        .unwrap();
    assert!(!rules().contains("kubernetes.io/rule/nlb"), "{}", rules());
}

/// As in the official provider: after the deletion nothing shows which group that was.
#[test]
fn rules_in_an_untagged_security_group_are_kept() {
    let mut world = World::new(0, "");
    let params = [
        ("GroupName", "untagged"),
        ("GroupDescription", "untagged"),
        ("VpcId", world.vpc.as_str()),
    ];
    world.group = text(&world.ec2("CreateSecurityGroup", &params), "groupId");
    world.launch(0);
    let web = service(&[(80, 30080)]);
    up(&world, &web);
    world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
    let rules = || world.ec2("DescribeSecurityGroups", &[("GroupId.1", &world.group)]);
    assert!(
        rules().contains(&format!("kubernetes.io/rule/nlb/client={}", name(&web))),
        "{}",
        rules()
    );
    // In a group with the tag, the rules are removed, as are those of load balancers created later.
    world.tag(
        &world.group,
        &format!("kubernetes.io/cluster/{}", world.cluster),
        "owned",
    );
    is_looked_for_twice(&world, &web);
    assert!(!rules().contains("kubernetes.io/rule/nlb"), "{}", rules());
}

#[test]
fn an_externally_changed_health_check_is_reported() {
    let world = World::new(1, "");
    let web = service(&[(80, 30080)]);
    world
        .call(|cloud| cloud.ensure_balancer(&web, &world.targets()))
        .unwrap();
    let balancer = arn(&world, &web);
    let group = text(
        &world.elbv2("DescribeTargetGroups", &[("LoadBalancerArn", &balancer)]),
        "TargetGroupArn",
    );
    world.elbv2(
        "ModifyTargetGroup",
        &[
            ("TargetGroupArn", &group),
            ("HealthCheckIntervalSeconds", "10"),
        ],
    );
    world.line.take();
    let answer = world.call(|cloud| cloud.ensure_balancer(&web, &world.targets()));
    assert!(
        matches!(&answer, Err(CloudError::Internal(text)) if text.contains("TCP every 10 s, but the Service requires TCP every 30 s")),
        "{answer:?}"
    );
    assert_eq!(
        world
            .line
            .take()
            .iter()
            .filter(|action| *action == "CreateTargetGroup")
            .count(),
        1
    );
}
