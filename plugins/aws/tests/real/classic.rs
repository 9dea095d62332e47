use skydock_aws::common::targets::{Target, Targets};
use skydock_sdk::types::{CloudError, Service};

use crate::world::{World, annotation, name, service, text, texts};

fn classic(ports: &[(u16, u16)]) -> Service {
    let mut service = service(ports);
    service.annotations.clear();
    service
}

fn ensure(world: &World, service: &Service) -> String {
    let status = world
        .call(|cloud| cloud.ensure_balancer(service, &world.targets()))
        .unwrap();
    status.ingress[0].hostname.clone().unwrap()
}

fn described(world: &World, service: &Service) -> String {
    world.elb(
        "DescribeLoadBalancers",
        &[("LoadBalancerNames.member.1", &name(service))],
    )
}

#[test]
fn a_classic_load_balancer_is_created_updated_and_deleted() {
    let mut world = World::new(2, "");
    let mut web = classic(&[(80, 30080)]);
    let host = ensure(&world, &web);
    println!("classic, made: {:?}", world.line.take());
    assert_eq!(ensure(&world, &web), host);
    let idle = world.line.take();
    println!("classic, nothing to do: {idle:?}");
    assert!(
        idle.iter().all(|action| action.starts_with("Describe")),
        "{idle:?}"
    );
    let body = described(&world, &web);
    let mut behind = texts(&body, "InstanceId");
    behind.sort();
    let mut expected = world.instances.clone();
    expected.sort();
    assert_eq!(behind, expected);
    assert!(
        text(&body, "Target").eq_ignore_ascii_case("TCP:30080"),
        "{body}"
    );
    let own = texts(
        body.split("<SecurityGroups>")
            .nth(1)
            .unwrap()
            .split("</SecurityGroups>")
            .next()
            .unwrap(),
        "member",
    )[0]
    .clone();
    let rules = world.ec2("DescribeSecurityGroups", &[("GroupId.1", &world.group)]);
    assert!(
        rules.contains(&own),
        "the nodes let the load balancer in: {rules}"
    );

    world.launch(0);
    web.annotations.extend([
        annotation("cross-zone-load-balancing-enabled", "true"),
        annotation("connection-idle-timeout", "120"),
        annotation("proxy-protocol", "*"),
        annotation("additional-resource-tags", "team=a"),
        annotation("healthcheck-protocol", "http"),
    ]);
    world.line.take();
    ensure(&world, &web);
    println!("classic, changed: {:?}", world.line.take());
    ensure(&world, &web);
    let idle = world.line.take();
    assert!(
        idle.iter().all(|action| action.starts_with("Describe")),
        "{idle:?}"
    );
    let body = described(&world, &web);
    assert_eq!(texts(&body, "InstanceId").len(), 3);
    assert!(body.contains("k8s-proxyprotocol-enabled"), "{body}");

    // moto does not support policies of listeners that are added later.
    web.annotations
        .retain(|(key, _)| !key.ends_with("proxy-protocol"));
    ensure(&world, &web);
    assert!(!described(&world, &web).contains("<InstancePort>30080</InstancePort><PolicyNames>"));
    web.ports.push(service(&[(443, 30443)]).ports[0].clone());
    ensure(&world, &web);
    assert_eq!(texts(&described(&world, &web), "LoadBalancerPort").len(), 2);
    web.ports.remove(0);
    ensure(&world, &web);
    assert_eq!(texts(&described(&world, &web), "LoadBalancerPort"), ["443"]);

    let gone = world.instances.remove(0);
    world.line.take();
    world
        .call(|cloud| cloud.update_targets(&web, &world.targets()))
        .unwrap();
    println!("classic, a node less: {:?}", world.line.take());
    assert!(!described(&world, &web).contains(&gone));

    world.line.take();
    world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
    println!("classic, deleted: {:?}", world.line.take());
    assert_eq!(world.call(|cloud| cloud.balancer(&web)), Ok(None));
    let rules = world.ec2("DescribeSecurityGroups", &[("GroupId.1", &world.group)]);
    assert!(!rules.contains(&own), "{rules}");
    let left = world.ec2(
        "DescribeSecurityGroups",
        &[("Filter.1.Name", "group-id"), ("Filter.1.Value.1", &own)],
    );
    assert!(texts(&left, "groupId").is_empty(), "{left}");
}

#[test]
fn a_type_change_is_rejected_and_deletion_still_works() {
    let world = World::new(1, "");
    let mut web = classic(&[(80, 30080)]);
    ensure(&world, &web);
    web.status = world.call(|cloud| cloud.balancer(&web)).unwrap().unwrap();
    web.annotations.push(annotation("type", "nlb"));
    let rejection = world.call(|cloud| cloud.ensure_balancer(&web, &world.targets()));
    assert!(
        matches!(rejection, Err(CloudError::Internal(_))),
        "{rejection:?}"
    );
    world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
    web.annotations.clear();
    assert_eq!(world.call(|cloud| cloud.balancer(&web)), Ok(None));
}

#[test]
fn the_configured_security_group_is_never_deleted() {
    let mut world = World::new(1, "");
    let params = [
        ("GroupName", "shared"),
        ("GroupDescription", "shared"),
        ("VpcId", world.vpc.as_str()),
    ];
    let shared = text(&world.ec2("CreateSecurityGroup", &params), "groupId");
    let cluster = world.cluster.clone();
    world.reconfigure(&format!(
        "KubernetesClusterID = {cluster}\nElbSecurityGroup = {shared}\n"
    ));
    let services = [classic(&[(80, 30080)]), classic(&[(80, 30081)])];
    for web in &services {
        ensure(&world, web);
    }
    let rules = || world.ec2("DescribeSecurityGroups", &[("GroupId.1", &world.group)]);
    world
        .call(|cloud| cloud.delete_balancer(&services[0]))
        .unwrap();
    assert!(
        rules().contains(&shared),
        "the other one still needs it: {}",
        rules()
    );
    world
        .call(|cloud| cloud.delete_balancer(&services[1]))
        .unwrap();
    assert!(!rules().contains(&shared), "{}", rules());
    assert!(
        world
            .ec2("DescribeSecurityGroups", &[("GroupId.1", &shared)])
            .contains(&shared)
    );
}

fn group(world: &World, name: &str) -> String {
    let params = [
        ("GroupName", name),
        ("GroupDescription", name),
        ("VpcId", world.vpc.as_str()),
    ];
    text(&world.ec2("CreateSecurityGroup", &params), "groupId")
}

/// Returns true if the nodes' group allows traffic from another group.
fn lets_in(world: &World, nodes: &str, group: &str) -> bool {
    world
        .ec2("DescribeSecurityGroups", &[("GroupId.1", nodes)])
        .contains(group)
}

#[test]
fn services_sharing_a_group_keep_each_others_node_rules() {
    let mut world = World::new(1, "");
    let (first, second) = (world.group.clone(), group(&world, "pool-b"));
    world.tag(
        &second,
        &format!("kubernetes.io/cluster/{}", world.cluster),
        "owned",
    );
    world.group = second.clone();
    world.launch(0);
    let shared = group(&world, "shared");
    let target = |(id, pool): (&String, &str)| Target {
        provider_id: Some(format!("aws:///us-east-1a/{id}")),
        labels: vec![("pool".to_owned(), pool.to_owned())],
    };
    let targets = Targets {
        all: world.instances.iter().zip(["a", "b"]).map(target).collect(),
        changes: None,
    };
    let mut services = [classic(&[(80, 30080)]), classic(&[(80, 30081)])];
    for (web, pool) in services.iter_mut().zip(["pool=a", "pool=b"]) {
        web.annotations = vec![
            annotation("security-groups", &shared),
            annotation("target-node-labels", pool),
        ];
    }
    for web in services.iter().chain(&services) {
        world
            .call(|cloud| cloud.ensure_balancer(web, &targets))
            .unwrap();
    }
    world
        .call(|cloud| cloud.update_targets(&services[0], &targets))
        .unwrap();
    for nodes in [&first, &second] {
        assert!(
            lets_in(&world, nodes, &shared),
            "both pools are behind load balancers of the group"
        );
    }
    world
        .call(|cloud| cloud.delete_balancer(&services[0]))
        .unwrap();
    assert!(lets_in(&world, &second, &shared));
    world
        .call(|cloud| cloud.delete_balancer(&services[1]))
        .unwrap();
    for nodes in [&first, &second] {
        assert!(!lets_in(&world, nodes, &shared), "nobody needs it any more");
    }
}

#[test]
fn a_user_groups_node_rule_is_removed_after_a_failed_call() {
    let world = World::new(1, "");
    let users = group(&world, "users");
    let mut web = classic(&[(80, 30080)]);
    web.annotations = vec![annotation("security-groups", &users)];
    ensure(&world, &web);
    assert!(lets_in(&world, &world.group, &users));
    world
        .line
        .faults
        .borrow_mut()
        .push(("RevokeSecurityGroupIngress", 0, 1, "Throttling"));
    let first = world.call(|cloud| cloud.delete_balancer(&web));
    assert!(matches!(first, Err(CloudError::Throttled(_))), "{first:?}");
    world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
    assert!(!lets_in(&world, &world.group, &users));
    assert!(
        world
            .ec2("DescribeSecurityGroups", &[("GroupId.1", &users)])
            .contains(&users),
        "it is the user's"
    );
}

#[test]
fn a_replaced_security_group_loses_its_node_rule() {
    let world = World::new(1, "");
    let (before, after) = (group(&world, "before"), group(&world, "after"));
    let mut web = classic(&[(80, 30080)]);
    web.annotations = vec![annotation("security-groups", &before)];
    ensure(&world, &web);
    web.annotations = vec![annotation("security-groups", &after)];
    world
        .line
        .faults
        .borrow_mut()
        .push(("RevokeSecurityGroupIngress", 0, 1, "Throttling"));
    let first = world.call(|cloud| cloud.ensure_balancer(&web, &world.targets()));
    assert!(matches!(first, Err(CloudError::Throttled(_))), "{first:?}");
    ensure(&world, &web);
    assert!(lets_in(&world, &world.group, &after) && !lets_in(&world, &world.group, &before));
    let text = described(&world, &web);
    assert!(text.contains(&after) && !text.contains(&before), "{text}");
    world.line.take();
    ensure(&world, &web);
    assert!(
        world
            .line
            .take()
            .iter()
            .all(|action| action.starts_with("Describe"))
    );
}

/// Allows all traffic from this group to the nodes.
fn let_in_by_hand(world: &World, group: &str) {
    world.ec2(
        "AuthorizeSecurityGroupIngress",
        &[
            ("GroupId", &world.group),
            ("IpPermissions.1.IpProtocol", "-1"),
            ("IpPermissions.1.Groups.1.GroupId", group),
        ],
    );
}

#[test]
fn manual_rules_for_extra_groups_are_kept() {
    let world = World::new(1, "");
    let bastion = group(&world, "bastion");
    let nodes = world.group.clone();
    for group in [&bastion, &nodes] {
        let_in_by_hand(&world, group);
    }
    let mut web = classic(&[(80, 30080)]);
    web.annotations = vec![annotation(
        "extra-security-groups",
        &format!("{bastion},{nodes}"),
    )];
    ensure(&world, &web);
    web.annotations.clear();
    ensure(&world, &web);
    // The nodes' own group in the first place, as a careless user might set it.
    web.annotations = vec![annotation("security-groups", &nodes)];
    ensure(&world, &web);
    world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
    let rules = texts(
        &world.ec2("DescribeSecurityGroups", &[("GroupId.1", &nodes)]),
        "ipPermissions",
    )
    .join(" ");
    assert!(
        rules.contains(&bastion),
        "nobody but its maker may close it: {rules}"
    );
    assert!(rules.contains(&nodes), "nodes talk to each other: {rules}");
}

#[test]
fn a_group_moved_from_first_place_loses_its_node_rule() {
    let world = World::new(1, "");
    let (a, b) = (group(&world, "a"), group(&world, "b"));
    let mut web = classic(&[(80, 30080)]);
    web.annotations = vec![annotation("security-groups", &format!("{a},{b}"))];
    ensure(&world, &web);
    assert!(lets_in(&world, &world.group, &a) && !lets_in(&world, &world.group, &b));
    web.annotations = vec![annotation("security-groups", &format!("{b},{a}"))];
    ensure(&world, &web);
    assert!(lets_in(&world, &world.group, &b) && !lets_in(&world, &world.group, &a));
    world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
    assert!(!lets_in(&world, &world.group, &b));
}

#[test]
fn the_own_group_is_deleted_even_after_a_restart() {
    let world = World::new(1, "");
    let mut web = classic(&[(80, 30080)]);
    ensure(&world, &web);
    let name = format!("k8s-elb-{}", name(&web));
    let own = || {
        world.ec2(
            "DescribeSecurityGroups",
            &[("Filter.1.Name", "group-name"), ("Filter.1.Value.1", &name)],
        )
    };
    let id = text(&own(), "groupId");
    web.annotations = vec![annotation("security-groups", &group(&world, "user"))];
    world
        .line
        .faults
        .borrow_mut()
        .push(("DeleteSecurityGroup", 0, 1, "DependencyViolation"));
    let first = world.call(|cloud| cloud.ensure_balancer(&web, &world.targets()));
    assert!(matches!(first, Err(CloudError::InProgress(_))), "{first:?}");
    // The host is restarted.
    world.store.clear();
    world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
    assert!(texts(&own(), "groupId").is_empty(), "{}", own());
    assert!(!lets_in(&world, &world.group, &id));
}
