//! Resources of the official provider are kept as they are. They are created here with individual
//! calls, with the same names and tags as v1.37.0 uses.

use skydock_sdk::types::Service;

use crate::world::{World, annotation, name, service, text, texts};

/// Returns the tags that the official provider sets on all resources of a Service.
fn tags(world: &World, service: &Service) -> Vec<(String, String)> {
    let named = format!("{}/{}", service.namespace, service.name);
    let pairs = [
        (
            format!("kubernetes.io/cluster/{}", world.cluster),
            "owned".to_owned(),
        ),
        ("kubernetes.io/service-name".to_owned(), named),
    ];
    let numbered = pairs.into_iter().enumerate();
    numbered
        .flat_map(|(index, (key, value))| {
            let item = format!("Tags.member.{}", index + 1);
            [
                (format!("{item}.Key"), key),
                (format!("{item}.Value"), value),
            ]
        })
        .collect()
}

fn with<'a>(
    params: &[(&'a str, &'a str)],
    tags: &'a [(String, String)],
) -> Vec<(&'a str, &'a str)> {
    params
        .iter()
        .copied()
        .chain(
            tags.iter()
                .map(|(key, value)| (key.as_str(), value.as_str())),
        )
        .collect()
}

fn only_reads(world: &World, service: &Service) {
    world.line.take();
    let status = world
        .call(|cloud| cloud.ensure_balancer(service, &world.targets()))
        .unwrap();
    assert_eq!(status.ingress.len(), 1);
    let calls = world.line.take();
    assert!(
        calls.iter().all(|action| action.starts_with("Describe")),
        "{calls:?}"
    );
}

#[test]
fn an_official_network_load_balancer_is_kept_unchanged() {
    let world = World::new(2, "");
    let web = service(&[(80, 30080)]);
    let (lb_name, tags) = (name(&web), tags(&world, &web));
    let params = [
        ("Name", lb_name.as_str()),
        ("Type", "network"),
        ("SubnetMappings.member.1.SubnetId", &world.subnets[0]),
        ("SubnetMappings.member.2.SubnetId", &world.subnets[1]),
    ];
    let lb = text(
        &world.elbv2("CreateLoadBalancer", &with(&params, &tags)),
        "LoadBalancerArn",
    );
    let group_name = format!("k8s-default-{}-0123456789", web.name);
    let params = [
        ("Name", group_name.as_str()),
        ("VpcId", &world.vpc),
        ("Port", "30080"),
        ("Protocol", "TCP"),
        ("TargetType", "instance"),
        ("HealthCheckIntervalSeconds", "30"),
        ("HealthCheckPort", "traffic-port"),
        ("HealthCheckProtocol", "TCP"),
        ("HealthyThresholdCount", "3"),
        ("UnhealthyThresholdCount", "3"),
    ];
    let group = text(
        &world.elbv2("CreateTargetGroup", &with(&params, &tags)),
        "TargetGroupArn",
    );
    for instance in &world.instances {
        let params = [
            ("TargetGroupArn", group.as_str()),
            ("Targets.member.1.Id", instance),
            ("Targets.member.1.Port", "30080"),
        ];
        world.elbv2("RegisterTargets", &params);
    }
    let params = [
        ("LoadBalancerArn", lb.as_str()),
        ("Port", "80"),
        ("Protocol", "TCP"),
        ("DefaultActions.member.1.Type", "forward"),
        ("DefaultActions.member.1.TargetGroupArn", &group),
    ];
    world.elbv2("CreateListener", &with(&params, &tags));
    let client = format!("kubernetes.io/rule/nlb/client={lb_name}");
    let params = [
        ("GroupId", world.group.as_str()),
        ("IpPermissions.1.IpProtocol", "tcp"),
        ("IpPermissions.1.FromPort", "30080"),
        ("IpPermissions.1.ToPort", "30080"),
        ("IpPermissions.1.IpRanges.1.CidrIp", "0.0.0.0/0"),
        ("IpPermissions.1.IpRanges.1.Description", &client),
        ("IpPermissions.2.IpProtocol", "icmp"),
        ("IpPermissions.2.FromPort", "3"),
        ("IpPermissions.2.ToPort", "4"),
        ("IpPermissions.2.IpRanges.1.CidrIp", "0.0.0.0/0"),
        (
            "IpPermissions.2.IpRanges.1.Description",
            "kubernetes.io/rule/nlb/mtu",
        ),
    ];
    world.ec2("AuthorizeSecurityGroupIngress", &params);

    only_reads(&world, &web);
    world
        .call(|cloud| cloud.update_targets(&web, &world.targets()))
        .unwrap();
    assert!(
        world
            .line
            .take()
            .iter()
            .all(|action| action.starts_with("Describe"))
    );
    world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
    let rules = world.ec2("DescribeSecurityGroups", &[("GroupId.1", &world.group)]);
    assert!(!rules.contains("kubernetes.io/rule/nlb"), "{rules}");
    let names = texts(&world.elbv2("DescribeTargetGroups", &[]), "TargetGroupName");
    assert!(!names.contains(&group_name), "{names:?}");
}

#[test]
fn an_official_classic_load_balancer_is_kept_unchanged() {
    let world = World::new(2, "");
    let mut web = service(&[(80, 30080)]);
    web.annotations.clear();
    let (lb_name, tags) = (name(&web), tags(&world, &web));
    let group_name = format!("k8s-elb-{lb_name}");
    let key = format!("kubernetes.io/cluster/{}", world.cluster);
    let params = [
        ("GroupName", group_name.as_str()),
        ("GroupDescription", "Security group for Kubernetes ELB"),
        ("VpcId", &world.vpc),
        ("TagSpecification.1.ResourceType", "security-group"),
        ("TagSpecification.1.Tag.1.Key", &key),
        ("TagSpecification.1.Tag.1.Value", "owned"),
    ];
    let own = text(&world.ec2("CreateSecurityGroup", &params), "groupId");
    let params = [
        ("GroupId", own.as_str()),
        ("IpPermissions.1.IpProtocol", "tcp"),
        ("IpPermissions.1.FromPort", "80"),
        ("IpPermissions.1.ToPort", "80"),
        ("IpPermissions.1.IpRanges.1.CidrIp", "0.0.0.0/0"),
        ("IpPermissions.2.IpProtocol", "icmp"),
        ("IpPermissions.2.FromPort", "3"),
        ("IpPermissions.2.ToPort", "4"),
        ("IpPermissions.2.IpRanges.1.CidrIp", "0.0.0.0/0"),
    ];
    world.ec2("AuthorizeSecurityGroupIngress", &params);
    let params = [
        ("LoadBalancerName", lb_name.as_str()),
        ("Listeners.member.1.Protocol", "tcp"),
        ("Listeners.member.1.LoadBalancerPort", "80"),
        ("Listeners.member.1.InstanceProtocol", "tcp"),
        ("Listeners.member.1.InstancePort", "30080"),
        ("Subnets.member.1", &world.subnets[0]),
        ("Subnets.member.2", &world.subnets[1]),
        ("SecurityGroups.member.1", &own),
    ];
    world.elb("CreateLoadBalancer", &with(&params, &tags));
    let params = [
        ("LoadBalancerName", lb_name.as_str()),
        ("HealthCheck.Target", "TCP:30080"),
        ("HealthCheck.Interval", "10"),
        ("HealthCheck.Timeout", "5"),
        ("HealthCheck.UnhealthyThreshold", "6"),
        ("HealthCheck.HealthyThreshold", "2"),
    ];
    world.elb("ConfigureHealthCheck", &params);
    let params = [
        ("GroupId", world.group.as_str()),
        ("IpPermissions.1.IpProtocol", "-1"),
        ("IpPermissions.1.Groups.1.GroupId", &own),
    ];
    world.ec2("AuthorizeSecurityGroupIngress", &params);
    for instance in &world.instances {
        let params = [
            ("LoadBalancerName", lb_name.as_str()),
            ("Instances.member.1.InstanceId", instance),
        ];
        world.elb("RegisterInstancesWithLoadBalancer", &params);
    }

    only_reads(&world, &web);
    world
        .call(|cloud| cloud.update_targets(&web, &world.targets()))
        .unwrap();
    assert!(
        world
            .line
            .take()
            .iter()
            .all(|action| action.starts_with("Describe"))
    );
    world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
    let left = world.ec2(
        "DescribeSecurityGroups",
        &[("Filter.1.Name", "group-id"), ("Filter.1.Value.1", &own)],
    );
    assert!(texts(&left, "groupId").is_empty(), "{left}");
    let rules = world.ec2("DescribeSecurityGroups", &[("GroupId.1", &world.group)]);
    assert!(!rules.contains(&own), "{rules}");
}

#[test]
fn a_changed_service_updates_the_official_nlb_in_place() {
    let world = World::new(1, "");
    let mut web = service(&[(80, 30080)]);
    let (lb_name, tags) = (name(&web), tags(&world, &web));
    let params = [
        ("Name", lb_name.as_str()),
        ("Type", "network"),
        ("SubnetMappings.member.1.SubnetId", &world.subnets[0]),
    ];
    let lb = text(
        &world.elbv2("CreateLoadBalancer", &with(&params, &tags)),
        "LoadBalancerArn",
    );
    web.annotations
        .push(annotation("cross-zone-load-balancing-enabled", "true"));
    for _ in 0..3 {
        _ = world.call(|cloud| cloud.ensure_balancer(&web, &world.targets()));
    }
    let calls = world.line.take();
    assert_eq!(
        calls
            .iter()
            .filter(|action| *action == "CreateLoadBalancer")
            .count(),
        1,
        "the one made here: {calls:?}"
    );
    assert!(
        calls.contains(&"ModifyLoadBalancerAttributes".to_owned()),
        "{calls:?}"
    );
    let listeners = world.elbv2("DescribeListeners", &[("LoadBalancerArn", &lb)]);
    assert_eq!(texts(&listeners, "Port"), ["80"]);
}

#[test]
fn a_dual_stack_service_gets_a_dual_stack_load_balancer() {
    use skydock_sdk::types::{IpFamily, IpFamilyPolicy};
    let world = World::new(1, "");
    let mut web = service(&[(80, 30080)]);
    web.ip_families = vec![IpFamily::Ipv4, IpFamily::Ipv6];
    web.ip_family_policy = IpFamilyPolicy::RequireDualStack;
    for _ in 0..3 {
        _ = world.call(|cloud| cloud.ensure_balancer(&web, &world.targets()));
    }
    let created: Vec<_> = world.line.sent.borrow().clone();
    let created = created
        .iter()
        .find(|call| call.action == "CreateLoadBalancer")
        .unwrap();
    assert!(
        created
            .params
            .contains(&("IpAddressType".to_owned(), "dualstack".to_owned())),
        "{created:?}"
    );
}
