//! The order of changes, and requests of which AWS rejects a part.

use skydock_aws::api::call::Call;
use skydock_sdk::types::{CloudError, Ingress, Service};

use crate::world::{World, annotation, certificate, name, service, text, texts};

type Ensured = Result<Vec<Ingress>, CloudError>;

fn ensure(world: &World, service: &Service) -> Ensured {
    let status = world.call(|cloud| cloud.ensure_balancer(service, &world.targets()));
    status.map(|status| status.ingress)
}

fn is_internal(answer: &Ensured) -> bool {
    matches!(answer, Err(CloudError::Internal(_) | CloudError::Denied(_)))
}

/// Creates a classic Service with one TCP port for each pair.
fn classic(ports: &[(u16, u16)]) -> Service {
    let mut service = service(ports);
    service.annotations.clear();
    service
}

fn described(world: &World, service: &Service) -> String {
    world.elb(
        "DescribeLoadBalancers",
        &[("LoadBalancerNames.member.1", &name(service))],
    )
}

fn network(world: &World, service: &Service) -> String {
    world.elbv2(
        "DescribeLoadBalancers",
        &[("Names.member.1", &name(service))],
    )
}

fn new_group(world: &World, name: &str) -> String {
    let params = [
        ("GroupName", name),
        ("GroupDescription", "of the user"),
        ("VpcId", world.vpc.as_str()),
    ];
    text(&world.ec2("CreateSecurityGroup", &params), "groupId")
}

/// Returns the actions that were sent and are among these, in order.
fn sent(world: &World, actions: &[&str]) -> Vec<String> {
    let all = world.line.take().into_iter();
    all.filter(|action| actions.contains(&action.as_str()))
        .collect()
}

const AUTHORIZE: &str = "AuthorizeSecurityGroupIngress";
const FULL: &str = "RulesPerSecurityGroupLimitExceeded";

#[test]
fn a_security_group_has_its_rules_before_it_is_attached() {
    let world = World::new(1, "NLBSecurityGroupMode = Managed");
    let users = new_group(&world, "users");
    for (kind, attach) in [
        (Some("nlb"), "SetSecurityGroups"),
        (None, "ApplySecurityGroupsToLoadBalancer"),
    ] {
        let mut web = classic(&[(80, 30080)]);
        web.annotations
            .extend(kind.map(|kind| annotation("type", kind)));
        let mut others = web.clone();
        others
            .annotations
            .push(annotation("security-groups", &users));
        let there = || match kind {
            Some(_) => network(&world, &web),
            None => described(&world, &web),
        };
        ensure(&world, &others).unwrap();
        world.line.take();

        // The group is created, but its rules are rejected.
        *world.line.faults.borrow_mut() = vec![(AUTHORIZE, 0, 100, FULL)];
        let mut more = web.clone();
        more.annotations
            .push(annotation("additional-resource-tags", "team=a"));
        let answer = ensure(&world, &more);
        assert!(is_internal(&answer), "{kind:?} {answer:?}");
        assert!(there().contains(&users), "{kind:?}");
        let actions = sent(&world, &[attach, "AddTags"]);
        assert_eq!(actions, ["AddTags"], "{kind:?}: the rest is done");

        world.line.faults.borrow_mut().clear();
        ensure(&world, &more).unwrap();
        let actions = sent(&world, &[attach, AUTHORIZE]);
        assert_eq!(actions.last().map(String::as_str), Some(attach));
        assert!(actions.len() > 1, "{actions:?}");
        assert!(!there().contains(&users), "{kind:?}");
        ensure(&world, &more).unwrap();
        assert_eq!(sent(&world, &[attach, AUTHORIZE]), [""; 0], "{kind:?}");
        world.call(|cloud| cloud.delete_balancer(&more)).unwrap();
    }
}

#[test]
fn nodes_accept_the_next_group_before_it_is_attached() {
    let world = World::new(1, "");
    let mut web = classic(&[(80, 30080)]);
    ensure(&world, &web).unwrap();
    let users = new_group(&world, "users");
    web.annotations.push(annotation("security-groups", &users));
    world.line.problem(&[AUTHORIZE], &users, FULL);
    let attach = "ApplySecurityGroupsToLoadBalancer";
    assert!(is_internal(&ensure(&world, &web)));
    assert_eq!(sent(&world, &[attach, "DeleteSecurityGroup"]), [""; 0]);
    *world.line.rejects.borrow_mut() = None;
    ensure(&world, &web).unwrap();
    let actions = [AUTHORIZE, attach, "RevokeSecurityGroupIngress"];
    assert_eq!(sent(&world, &actions)[..3], actions);
}

#[test]
fn a_group_that_cannot_be_created_stops_nothing_else() {
    let world = World::new(1, "");
    let users = new_group(&world, "users");
    let mut web = classic(&[(80, 30080)]);
    web.annotations.push(annotation("security-groups", &users));
    ensure(&world, &web).unwrap();
    web.annotations.clear();
    web.ports.push(service(&[(443, 30443)]).ports[0].clone());
    let limit = "SecurityGroupLimitExceeded";
    *world.line.faults.borrow_mut() = vec![("CreateSecurityGroup", 0, 1, limit)];
    assert!(is_internal(&ensure(&world, &web)));
    let there = described(&world, &web);
    assert!(there.contains(&users), "{there}");
    assert_eq!(texts(&there, "LoadBalancerPort").len(), 2);
    ensure(&world, &web).unwrap();
    assert!(!described(&world, &web).contains(&users));
}

#[test]
fn listeners_at_the_quota_are_replaced_in_one_call() {
    let world = World::new(1, "");
    let mut web = service(&[(80, 30080)]);
    ensure(&world, &web).unwrap();
    web.ports[0].port = 8080;
    for (action, code) in [
        ("CreateListener", "TooManyListeners"),
        ("RegisterTargets", "TooManyTargets"),
    ] {
        *world.line.faults.borrow_mut() = vec![(action, 0, 1, code)];
        ensure(&world, &web).unwrap();
        web.ports[0].port += 1;
    }
    // Without a listener that is deleted, there is no room.
    web.ports[0].port -= 1;
    web.ports.push(service(&[(443, 30443)]).ports[0].clone());
    *world.line.faults.borrow_mut() = vec![("CreateListener", 0, 1, "TooManyListeners")];
    let answer = ensure(&world, &web);
    assert!(matches!(answer, Err(CloudError::Denied(_))), "{answer:?}");
}

#[test]
fn a_certificate_of_a_classic_listener_changes_in_place() {
    let world = World::new(1, "");
    let mut web = classic(&[(443, 30443)]);
    let arn = |name: &str| format!("arn:aws:iam::123456789012:server-certificate/{name}");
    web.annotations = vec![annotation("ssl-cert", &arn("a"))];
    ensure(&world, &web).unwrap();
    let set = "SetLoadBalancerListenerSSLCertificate";
    let (create, delete) = ("CreateLoadBalancerListeners", "DeleteLoadBalancerListeners");
    for (name, code, expected) in [
        ("b", None, &[set][..]),
        ("c", Some("UnsupportedCertificate"), &[set]),
        // Without the permission, the listener is replaced.
        ("d", Some("AccessDenied"), &[set, delete, create]),
    ] {
        let mut changed = web.clone();
        changed.annotations = vec![annotation("ssl-cert", &arn(name))];
        let faults = code.map(|code| (set, 0, 1, code));
        *world.line.faults.borrow_mut() = faults.into_iter().collect();
        world.line.take();
        let answer = ensure(&world, &changed);
        assert_eq!(sent(&world, &[set, create, delete]), expected, "{code:?}");
        let there = text(&described(&world, &web), "SSLCertificateId");
        let is_rejected = code == Some("UnsupportedCertificate");
        assert_eq!(is_internal(&answer), is_rejected, "{answer:?}");
        let now = if is_rejected { "b" } else { name };
        assert_eq!(there, arn(now));
    }
    // A rejected certificate does not cost the listener, whatever else changes.
    for (name, code, expected) in [
        ("e", Some("CertificateNotFound"), &[set][..]),
        ("f", None, &[set, delete, create]),
        ("g", Some("AccessDenied"), &[set, delete, create]),
    ] {
        web.annotations = vec![annotation("ssl-cert", &arn(name))];
        web.ports[0].node_port += 1;
        let faults = code.map(|code| (set, 0, 1, code));
        *world.line.faults.borrow_mut() = faults.into_iter().collect();
        world.line.take();
        let answer = ensure(&world, &web);
        assert_eq!(answer.is_ok(), expected.len() > 1, "{answer:?}");
        assert_eq!(sent(&world, &[set, create, delete]), expected, "{code:?}");
        let there = text(&described(&world, &web), "SSLCertificateId");
        let now = if expected.len() > 1 { name } else { "d" };
        assert_eq!(there, arn(now));
    }
}

#[test]
fn a_classic_port_is_added_before_another_is_removed() {
    let world = World::new(1, "");
    let mut web = classic(&[(80, 30080)]);
    ensure(&world, &web).unwrap();
    web.ports[0].port = 81;
    let (create, delete) = ("CreateLoadBalancerListeners", "DeleteLoadBalancerListeners");
    world.line.take();
    ensure(&world, &web).unwrap();
    assert_eq!(sent(&world, &[create, delete]), [create, delete]);
    // A removal that fails does not stop the addition.
    web.ports[0].port = 82;
    *world.line.faults.borrow_mut() = vec![(delete, 0, 1, "InternalError")];
    assert!(ensure(&world, &web).is_err());
    let ports = texts(&described(&world, &web), "LoadBalancerPort");
    assert_eq!(ports.len(), 2, "{ports:?}");
    ensure(&world, &web).unwrap();
    assert_eq!(texts(&described(&world, &web), "LoadBalancerPort"), ["82"]);
}

#[test]
fn an_instance_that_is_no_target_does_not_keep_others_there() {
    for kind in [Some("nlb"), None] {
        let mut world = World::new(4, "");
        let mut web = classic(&[(80, 30080)]);
        web.annotations
            .extend(kind.map(|kind| annotation("type", kind)));
        ensure(&world, &web).unwrap();
        let gone = [world.instances.remove(0), world.instances.remove(0)];
        let unknown = gone[0].clone();
        *world.line.rejects.borrow_mut() = Some(Box::new(move |call: &Call| {
            let names_it = call.params.iter().any(|(_, value)| *value == unknown);
            let code = match call.action {
                "DeregisterTargets" => "InvalidTarget",
                "DeregisterInstancesFromLoadBalancer" => "InvalidInstance",
                _ => return None,
            };
            names_it.then(|| (code, "The endpoint is not valid.".to_owned()))
        }));
        world
            .call(|cloud| cloud.update_targets(&web, &world.targets()))
            .unwrap();
        let there = match kind {
            Some(_) => {
                let arn = text(&network(&world, &web), "LoadBalancerArn");
                let found = world.elbv2("DescribeTargetGroups", &[("LoadBalancerArn", &arn)]);
                let group = text(&found, "TargetGroupArn");
                world.elbv2("DescribeTargetHealth", &[("TargetGroupArn", &group)])
            }
            None => described(&world, &web),
        };
        assert!(!there.contains(&gone[1]), "{kind:?}: {there}");
        assert!(there.contains(&world.instances[0]), "{kind:?}");
    }
}

#[test]
fn a_rejected_tag_or_bucket_stops_no_other_setting() {
    for kind in [Some("nlb"), None] {
        let world = World::new(1, "");
        let mut web = classic(&[(80, 30080)]);
        web.annotations
            .extend(kind.map(|kind| annotation("type", kind)));
        ensure(&world, &web).unwrap();
        let code = "InvalidConfigurationRequest";
        let changes = ["AddTags", "ModifyLoadBalancerAttributes"];
        *world.line.rejects.borrow_mut() = Some(Box::new(move |call: &Call| {
            let bad = |value: &str| ["my-bucket", "bad"].contains(&value);
            let is_bad = call.params.iter().any(|(_, value)| bad(value));
            (changes.contains(&call.action) && is_bad).then(|| (code, "not allowed".to_owned()))
        }));
        web.annotations.extend([
            annotation("access-log-enabled", "true"),
            annotation("access-log-s3-bucket-name", "my-bucket"),
            annotation("cross-zone-load-balancing-enabled", "true"),
            annotation("additional-resource-tags", "a=1,bad=2,c=3"),
        ]);
        let answer = ensure(&world, &web);
        let Err(CloudError::Internal(error)) = answer else {
            panic!("{kind:?} {answer:?}");
        };
        assert!(error.contains("rejects the tag bad"), "{error}");
        let (tags, attributes) = match kind {
            Some(_) => {
                let arn = text(&network(&world, &web), "LoadBalancerArn");
                let of = ("LoadBalancerArn", arn.as_str());
                (
                    world.elbv2("DescribeTags", &[("ResourceArns.member.1", &arn)]),
                    world.elbv2("DescribeLoadBalancerAttributes", &[of]),
                )
            }
            None => {
                let named = name(&web);
                let of = ("LoadBalancerName", named.as_str());
                (
                    world.elb("DescribeTags", &[("LoadBalancerNames.member.1", &named)]),
                    world.elb("DescribeLoadBalancerAttributes", &[of]),
                )
            }
        };
        for key in ["a", "c"] {
            assert!(tags.contains(&format!("<Key>{key}</Key>")), "{tags}");
        }
        assert!(!tags.contains("<Key>bad</Key>"), "{tags}");
        let (_, zones) = attributes.split_once("ross").unwrap();
        assert!(zones.contains("true"), "{kind:?}: {attributes}");
    }
}

#[test]
fn a_subnet_that_aws_rejects_by_name_is_replaced_or_left_out() {
    for kind in [Some("nlb"), None] {
        for has_other in [true, false] {
            let mut world = World::new(1, "");
            let mut web = classic(&[(80, 30080)]);
            web.annotations
                .extend(kind.map(|kind| annotation("type", kind)));
            let mut expected = vec![world.subnets[1].clone()];
            let mut rejected = world.subnets[0].clone();
            if has_other {
                let params = [
                    ("VpcId", world.vpc.as_str()),
                    ("CidrBlock", "10.0.3.0/24"),
                    ("AvailabilityZone", "us-east-1a"),
                ];
                let other = text(&world.ec2("CreateSubnet", &params), "subnetId");
                let key = format!("kubernetes.io/cluster/{}", world.cluster);
                world.tag(&other, &key, "shared");
                let first = rejected.clone().min(other.clone());
                expected.push(rejected.max(other));
                rejected = first;
            }
            world.subnets.clear();
            let named = rejected.clone();
            *world.line.rejects.borrow_mut() = Some(Box::new(move |call: &Call| {
                let has_it = call.params.iter().any(|(_, value)| *value == named);
                let message = || format!("Subnet '{named}' is on an Outpost");
                (call.action == "CreateLoadBalancer" && has_it)
                    .then(|| ("InvalidSubnet", message()))
            }));
            ensure(&world, &web).unwrap();
            let there = match kind {
                Some(_) => network(&world, &web),
                None => described(&world, &web),
            };
            assert!(!there.contains(&rejected), "{kind:?}: {there}");
            for subnet in expected {
                assert!(there.contains(&subnet), "{kind:?} {has_other}: {there}");
            }
            // Subnets that the user names are not exchanged.
            let mut named = web.clone();
            named.uid = format!("f{}", &web.uid[1..]);
            named.annotations.push(annotation("subnets", &rejected));
            assert!(is_internal(&ensure(&world, &named)));
        }
    }
}

#[test]
fn a_certificate_that_is_not_issued_yet_is_retried() {
    let world = World::new(1, "");
    let arn = certificate();
    let mut web = service(&[(443, 30443)]);
    web.annotations.push(annotation("ssl-cert", &arn));
    world
        .line
        .problem(&["CreateListener"], &arn, "UnsupportedCertificate");
    let answer = ensure(&world, &web);
    assert!(matches!(answer, Err(CloudError::Internal(_))), "{answer:?}");
    *world.line.rejects.borrow_mut() = None;
    assert_eq!(ensure(&world, &web).unwrap().len(), 1);
}

#[test]
fn an_address_in_use_is_reported_at_once() {
    let world = World::new(1, "");
    let web = service(&[(80, 30080)]);
    *world.line.faults.borrow_mut() = vec![("CreateLoadBalancer", 0, 1, "ResourceInUse")];
    let answer = ensure(&world, &web);
    assert!(matches!(answer, Err(CloudError::Internal(_))), "{answer:?}");
}

#[test]
fn a_target_group_of_another_vpc_or_cluster_is_not_taken() {
    for of_vpc in [true, false] {
        let (world, other) = (World::new(1, ""), World::new(0, ""));
        let mut web = service(&[(80, 30080)]);
        ensure(&world, &web).unwrap();
        let arn = text(&network(&world, &web), "LoadBalancerArn");
        let found = world.elbv2("DescribeTargetGroups", &[("LoadBalancerArn", &arn)]);
        let named = text(&found, "TargetGroupName");
        world.call(|cloud| cloud.delete_balancer(&web)).unwrap();
        let vpc = if of_vpc { &other.vpc } else { &world.vpc };
        let theirs = format!("kubernetes.io/cluster/{}", other.cluster);
        let ours = format!("kubernetes.io/cluster/{}", world.cluster);
        let of = format!("{}/{}", web.namespace, web.name);
        let params = [
            ("Name", named.as_str()),
            ("Protocol", "TCP"),
            ("Port", "30080"),
            ("VpcId", vpc),
            ("TargetType", "instance"),
            ("HealthCheckProtocol", "TCP"),
            ("HealthCheckIntervalSeconds", "30"),
            ("HealthyThresholdCount", "2"),
            ("Tags.member.1.Key", if of_vpc { &ours } else { &theirs }),
            ("Tags.member.1.Value", "owned"),
            ("Tags.member.2.Key", "kubernetes.io/service-name"),
            ("Tags.member.2.Value", &of),
        ];
        world.elbv2("CreateTargetGroup", &params);
        web.uid = format!("e{}", &web.uid[1..]);
        let answer = ensure(&world, &web);
        assert!(
            matches!(&answer, Err(CloudError::Internal(text)) if text.contains("another")),
            "{of_vpc}: {answer:?}"
        );
    }
}
