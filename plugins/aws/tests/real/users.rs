//! What users reported of other providers: sequences of changes, and what others own.

use skydock_sdk::types::{
    CloudError, LoadBalancerStatus, Service, ServicePort, TrafficPolicy, Transport,
};

use crate::world::{World, annotation, name, service, text, texts};

fn ensure(world: &World, service: &Service) -> Result<LoadBalancerStatus, CloudError> {
    world.call(|cloud| cloud.ensure_balancer(service, &world.targets()))
}

fn balancer(world: &World, service: &Service) -> String {
    let named = [("Names.member.1", name(service))];
    let named = named.each_ref().map(|(key, name)| (*key, name.as_str()));
    text(
        &world.elbv2("DescribeLoadBalancers", &named),
        "LoadBalancerArn",
    )
}

fn groups(world: &World, service: &Service) -> String {
    let of = [("LoadBalancerArn", balancer(world, service))];
    world.elbv2(
        "DescribeTargetGroups",
        &of.each_ref().map(|(key, arn)| (*key, arn.as_str())),
    )
}

fn listeners(world: &World, service: &Service) -> String {
    let of = [("LoadBalancerArn", balancer(world, service))];
    world.elbv2(
        "DescribeListeners",
        &of.each_ref().map(|(key, arn)| (*key, arn.as_str())),
    )
}

fn rules(world: &World) -> String {
    world.ec2("DescribeSecurityGroups", &[("GroupId.1", &world.group)])
}

/// Returns the first ports of the rules of a group for TCP and UDP.
fn opened(world: &World) -> Vec<String> {
    let mut ports = texts(&rules(world), "fromPort");
    ports.retain(|port| port != "3" && port != "-1");
    ports.sort();
    ports.dedup();
    ports
}

fn attribute(world: &World, group: &str, key: &str) -> String {
    let found = world.elbv2(
        "DescribeTargetGroupAttributes",
        &[("TargetGroupArn", group)],
    );
    let (_, rest) = found.split_once(key).unwrap();
    text(rest, "Value")
}

#[test]
fn ports_are_swapped_renumbered_and_change_their_protocol() {
    let world = World::new(1, "");
    let mut web = service(&[(80, 30080), (443, 30443)]);
    ensure(&world, &web).unwrap();
    use Transport::{Tcp, Udp};
    let both = |one: (u16, u16, Transport), other| vec![one, other];
    for ports in [
        both((80, 30443, Tcp), (443, 30080, Tcp)),
        both((8080, 30443, Tcp), (443, 30080, Tcp)),
        both((8080, 30443, Udp), (443, 30080, Tcp)),
        vec![(443, 30443, Tcp)],
    ] {
        web.ports = ports
            .iter()
            .map(|(port, node_port, transport)| ServicePort {
                port: *port,
                node_port: *node_port,
                transport: *transport,
                ..web.ports[0].clone()
            })
            .collect();
        ensure(&world, &web).unwrap();
        let (groups, listeners) = (groups(&world, &web), listeners(&world, &web));
        let found = texts(&groups, "TargetGroupArn");
        assert_eq!(found.len(), ports.len(), "no leftovers: {groups}");
        for (port, node_port, transport) in &ports {
            let has = |one: &&str, part: &str| one.contains(part);
            let at = format!("<Port>{port}</Port>");
            let mut each = listeners.split("<ListenerArn>").skip(1);
            let leads = text(each.find(|one| has(one, &at)).unwrap(), "TargetGroupArn");
            let mut each = groups.split("<TargetGroupArn>").skip(1);
            let group = each.find(|one| one.starts_with(&leads)).unwrap();
            assert_eq!(text(group, "Port"), node_port.to_string());
            let protocol = if *transport == Udp { "UDP" } else { "TCP" };
            assert_eq!(text(group, "Protocol"), protocol);
        }
        let mut expected: Vec<String> = ports.iter().map(|(_, port, _)| port.to_string()).collect();
        expected.sort();
        let open = opened(&world);
        assert!(expected.iter().all(|port| open.contains(port)), "{open:?}");
        world.line.take();
        ensure(&world, &web).unwrap();
        let sent = world.line.take();
        assert!(
            sent.iter().all(|action| action.starts_with("Describe")),
            "{sent:?}"
        );
    }
}

#[test]
fn a_replaced_target_group_has_the_attributes_and_the_check() {
    let world = World::new(1, "");
    let mut web = service(&[(80, 30080)]);
    let attributes = annotation("target-group-attributes", "proxy_protocol_v2.enabled=true");
    web.annotations.push(attributes);
    ensure(&world, &web).unwrap();
    for (policy, check, port) in [
        (TrafficPolicy::Local, "HTTP", 32000),
        (TrafficPolicy::Cluster, "TCP", 0),
    ] {
        web.external_traffic_policy = policy;
        web.health_check_node_port = port;
        ensure(&world, &web).unwrap();
        let groups = groups(&world, &web);
        assert_eq!(texts(&groups, "HealthCheckProtocol"), [check]);
        let group = text(&groups, "TargetGroupArn");
        assert_eq!(
            attribute(&world, &group, "proxy_protocol_v2.enabled"),
            "true"
        );
        assert!(listeners(&world, &web).contains(&group));
    }
}

#[test]
fn removed_health_checks_are_those_of_a_new_service() {
    let world = World::new(1, "");
    let mut web = service(&[(80, 30080)]);
    ensure(&world, &web).unwrap();
    let check = |web: &Service| {
        let groups = groups(&world, web);
        [
            "HealthCheckPort",
            "HealthCheckTimeoutSeconds",
            "HealthyThresholdCount",
            "UnhealthyThresholdCount",
            "HealthCheckIntervalSeconds",
        ]
        .map(|field| text(&groups, field))
    };
    let mut before = check(&web);
    // moto has another default.
    before[1] = "10".to_owned();
    let set = [
        ("healthcheck-timeout", "7"),
        ("healthcheck-healthy-threshold", "5"),
        ("healthcheck-unhealthy-threshold", "6"),
        ("healthcheck-port", "10256"),
        ("healthcheck-interval", "20"),
    ];
    let plain = web.annotations.clone();
    web.annotations
        .extend(set.map(|(key, value)| annotation(key, value)));
    ensure(&world, &web).unwrap();
    assert_eq!(check(&web), ["10256", "7", "5", "6", "20"]);
    web.annotations = plain;
    ensure(&world, &web).unwrap();
    assert_eq!(check(&web), before);
}

#[test]
fn a_classic_load_balancer_stays_in_its_subnets() {
    let mut world = World::new(1, "");
    let mut web = service(&[(80, 30080)]);
    web.annotations.clear();
    ensure(&world, &web).unwrap();
    let named = name(&web);
    let subnets = |world: &World| {
        let found = world.elb(
            "DescribeLoadBalancers",
            &[("LoadBalancerNames.member.1", &named)],
        );
        let mut ids: Vec<String> = texts(&text(&found, "Subnets"), "member");
        ids.sort();
        ids
    };
    let before = subnets(&world);
    let key = format!("kubernetes.io/cluster/{}", world.cluster);
    // Among several, one has a lower ID.
    for index in 0..4 {
        let cidr = format!("10.0.{}.0/24", 100 + index);
        let params = [
            ("VpcId", world.vpc.as_str()),
            ("CidrBlock", &cidr),
            ("AvailabilityZone", "us-east-1a"),
        ];
        let subnet = text(&world.ec2("CreateSubnet", &params), "subnetId");
        world.tag(&subnet, &key, "owned");
        world.subnets.push(subnet);
    }
    world.store.clear();
    web.annotations
        .push(annotation("connection-idle-timeout", "61"));
    world.line.take();
    ensure(&world, &web).unwrap();
    let sent = world.line.take();
    let changed = sent.iter().filter(|action| !action.starts_with("Describe"));
    assert_eq!(
        changed.collect::<Vec<_>>(),
        ["ModifyLoadBalancerAttributes"]
    );
    assert_eq!(subnets(&world), before);
}

#[test]
fn services_and_clusters_with_similar_names_stay_apart() {
    let world = World::new(1, "");
    let mut one = service(&[(80, 30080)]);
    one.name = "frontend-web-a".into();
    one.namespace = "team-alpha-1".into();
    let mut two = service(&[(80, 30081)]);
    two.name.clone_from(&one.name);
    two.namespace = "team-alpha-2".into();
    ensure(&world, &one).unwrap();
    ensure(&world, &two).unwrap();

    // Another cluster in the same VPC has the same Service.
    let params = [
        ("GroupName", "other-nodes"),
        ("GroupDescription", "x"),
        ("VpcId", world.vpc.as_str()),
    ];
    let theirs = text(&world.ec2("CreateSecurityGroup", &params), "groupId");
    world.tag(&theirs, "kubernetes.io/cluster/other", "owned");
    let rule = [
        ("GroupId", theirs.as_str()),
        ("IpPermissions.1.IpProtocol", "tcp"),
        ("IpPermissions.1.FromPort", "30080"),
        ("IpPermissions.1.ToPort", "30080"),
        ("IpPermissions.1.IpRanges.1.CidrIp", "0.0.0.0/0"),
        (
            "IpPermissions.1.IpRanges.1.Description",
            "kubernetes.io/rule/nlb/client=aother",
        ),
    ];
    world.ec2("AuthorizeSecurityGroupIngress", &rule);
    let group = format!("k8s-teamalph-frontend-{}", &one.uid[22..]);
    let params = [
        ("Name", group.as_str()),
        ("Protocol", "TCP"),
        ("Port", "30080"),
        ("VpcId", world.vpc.as_str()),
        ("TargetType", "instance"),
        ("Tags.member.1.Key", "kubernetes.io/cluster/other"),
        ("Tags.member.1.Value", "owned"),
        ("Tags.member.2.Key", "kubernetes.io/service-name"),
        ("Tags.member.2.Value", "team-alpha-1/frontend-web-a"),
    ];
    let stray = text(&world.elbv2("CreateTargetGroup", &params), "TargetGroupArn");

    world.call(|cloud| cloud.delete_balancer(&one)).unwrap();
    assert_eq!(texts(&groups(&world, &two), "TargetGroupArn").len(), 1);
    assert_eq!(opened(&world), ["30081"]);
    world.elbv2(
        "DescribeTargetGroups",
        &[("TargetGroupArns.member.1", &stray)],
    );
    let there = world.ec2("DescribeSecurityGroups", &[("GroupId.1", &theirs)]);
    assert!(there.contains("client=aother"), "{there}");
}

#[test]
fn a_target_group_that_the_user_attached_is_kept() {
    let world = World::new(1, "");
    let web = service(&[(80, 30080)]);
    ensure(&world, &web).unwrap();
    let own = format!("blue-{}", &web.uid[20..]);
    let params = [
        ("Name", own.as_str()),
        ("Protocol", "TCP"),
        ("Port", "8080"),
        ("VpcId", world.vpc.as_str()),
        ("TargetType", "instance"),
    ];
    let theirs = text(&world.elbv2("CreateTargetGroup", &params), "TargetGroupArn");
    let lead = || {
        let listener = text(&listeners(&world, &web), "ListenerArn");
        let params = [
            ("ListenerArn", listener.as_str()),
            ("DefaultActions.member.1.Type", "forward"),
            ("DefaultActions.member.1.TargetGroupArn", &theirs),
        ];
        world.elbv2("ModifyListener", &params);
    };
    let is_there = || {
        world.elbv2(
            "DescribeTargetGroups",
            &[("TargetGroupArns.member.1", &theirs)],
        )
    };
    lead();
    ensure(&world, &web).unwrap();
    assert!(!listeners(&world, &web).contains(&theirs));
    is_there();
    lead();
    world
        .call(|cloud| cloud.update_targets(&web, &world.targets()))
        .unwrap();
    let health = world.elbv2("DescribeTargetHealth", &[("TargetGroupArn", &theirs)]);
    assert!(!health.contains(&world.instances[0]), "{health}");
    world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
    is_there();
}

#[test]
fn all_nodes_leave_and_come_back() {
    for kind in [Some("nlb"), None] {
        let mut world = World::new(2, "");
        let mut web = service(&[(80, 30080)]);
        web.annotations = kind
            .into_iter()
            .map(|kind| annotation("type", kind))
            .collect();
        ensure(&world, &web).unwrap();
        let before = rules(&world);
        let nodes = std::mem::take(&mut world.instances);
        let update = |world: &World| {
            world
                .call(|cloud| cloud.update_targets(&web, &world.targets()))
                .unwrap();
        };
        update(&world);
        world.instances = nodes;
        update(&world);
        let count = |text: &str| texts(text, "fromPort").len() + text.matches("<groupId>").count();
        assert_eq!(count(&rules(&world)), count(&before), "{kind:?}");
    }
}

#[test]
fn listeners_and_target_groups_of_others_are_kept_and_named() {
    let world = World::new(1, "");
    let web = service(&[(80, 30080)]);
    ensure(&world, &web).unwrap();
    world.warnings();
    let mut theirs = Vec::new();
    // The AWS Load Balancer Controller has names like the second one.
    for (port, prefix) in [("9000", "own"), ("9001", "k8s-shop-api")] {
        let name = format!("{prefix}-{}", &web.uid[22..]);
        let params = [
            ("Name", name.as_str()),
            ("Protocol", "TCP"),
            ("Port", "31999"),
            ("VpcId", world.vpc.as_str()),
            ("TargetType", "instance"),
        ];
        let group = text(&world.elbv2("CreateTargetGroup", &params), "TargetGroupArn");
        let params = [
            ("LoadBalancerArn", balancer(&world, &web)),
            ("Port", port.into()),
            ("Protocol", "TCP".into()),
            ("DefaultActions.member.1.Type", "forward".into()),
            ("DefaultActions.member.1.TargetGroupArn", group.clone()),
        ];
        let params = params.each_ref().map(|(key, text)| (*key, text.as_str()));
        world.elbv2("CreateListener", &params);
        theirs.push(group);
    }
    world.line.take();
    ensure(&world, &web).unwrap();
    let sent = world.line.take();
    let writes = sent.iter().filter(|action| !action.starts_with("Describe"));
    assert_eq!(writes.count(), 0, "{sent:?}");
    let told = world.warnings();
    for port in ["9000", "9001"] {
        let part = format!("the listener on port {port} stays");
        assert!(told.contains(&part), "{told}");
    }
    world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
    for group in &theirs {
        world.elbv2(
            "DescribeTargetGroups",
            &[("TargetGroupArns.member.1", group)],
        );
    }
}

#[test]
fn a_target_group_that_others_use_is_named() {
    let world = World::new(1, "");
    let mut web = service(&[(80, 30777)]);
    ensure(&world, &web).unwrap();
    // The Service was removed by force and installed again, or another cluster has the same one.
    let before = name(&web);
    web.uid = format!("{:0>32}", crate::world::unique());
    let answer = ensure(&world, &web);
    let is_told = matches!(&answer, Err(CloudError::Internal(text)) if text.contains(&before));
    assert!(is_told, "{answer:?}");
    web.ports[0].node_port = 30778;
    ensure(&world, &web).unwrap();
}

/// Of the control plane, or of a second pool.
#[test]
fn an_instance_with_two_tagged_groups_does_not_stop_the_others() {
    let config = "NLBSecurityGroupMode = Managed";
    for (kind, config) in [(Some("nlb"), ""), (Some("nlb"), config), (None, "")] {
        let mut world = World::new(1, config);
        let params = [
            ("GroupName", "second"),
            ("GroupDescription", "x"),
            ("VpcId", world.vpc.as_str()),
        ];
        let second = text(&world.ec2("CreateSecurityGroup", &params), "groupId");
        let key = format!("kubernetes.io/cluster/{}", world.cluster);
        world.tag(&second, &key, "owned");
        let of = |port: (u16, u16)| {
            let mut service = service(&[port]);
            service.annotations = kind
                .into_iter()
                .map(|kind| annotation("type", kind))
                .collect();
            service
        };
        let count = |world: &World, group: &str| {
            let found = world.ec2("DescribeSecurityGroups", &[("GroupId.1", group)]);
            let text = text(&found, "ipPermissions");
            texts(&text, "fromPort").len() + text.matches("<groupId>").count()
        };
        // The instance is alone in the second group before it also gets the first one.
        let odd = world.launch(1);
        let set = |groups: &[&str]| {
            let mut params = vec![("InstanceId", odd.as_str())];
            let keys = ["GroupId.1", "GroupId.2"];
            params.extend(keys.into_iter().zip(groups.iter().copied()));
            world.ec2("ModifyInstanceAttribute", &params);
        };
        set(&[&second]);
        let mut old = of((80, 30080));
        old.status = ensure(&world, &old).unwrap();
        let before = count(&world, &second);
        assert!(before > 0, "{kind:?}");
        set(&[&second, &world.group]);
        world.store.clear();
        world.warnings();

        // The address does not wait, and the other instance gets the traffic.
        let (first, mut new) = (count(&world, &world.group), of((80, 30081)));
        new.status = ensure(&world, &new).unwrap();
        assert_eq!(new.status.ingress.len(), 1);
        assert!(count(&world, &world.group) > first, "{kind:?}");
        let told = world.warnings();
        assert!(
            told.contains("LoadBalancerNodeGroupUnclear") && told.contains(&odd),
            "{told}"
        );
        assert_eq!(count(&world, &second), before, "{kind:?}");

        // A change of a Service that has an address is made, and is retried.
        old.ports[0].node_port = 30082;
        for _ in 0..2 {
            let answer = ensure(&world, &old);
            let is_told = matches!(&answer, Err(CloudError::Internal(text)) if text.contains(&odd));
            assert!(is_told, "{answer:?}");
            let update = world.call(|cloud| cloud.update_targets(&old, &world.targets()));
            assert_eq!(update, answer.map(|_| ()), "{kind:?}");
        }
        if kind.is_some() {
            assert!(opened(&world).contains(&"30082".to_owned()), "{kind:?}");
            assert!(
                listeners(&world, &old).contains(&text(&groups(&world, &old), "TargetGroupArn"))
            );
        }
        assert!(count(&world, &second) >= before, "{kind:?}");

        world.ec2(
            "DeleteTags",
            &[("ResourceId.1", &second), ("Tag.1.Key", &key)],
        );
        world.store.clear();
        for service in [&old, &new] {
            ensure(&world, service).unwrap();
            world
                .call(|cloud| cloud.update_targets(service, &world.targets()))
                .unwrap();
        }
    }
}
