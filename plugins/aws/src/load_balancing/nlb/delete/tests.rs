use std::cell::RefCell;

use super::*;
use crate::{
    client::api::{call::Call, failure::Failure, wire::Wire},
    cloud::Setup,
    testing::{Memory, Scripted, nothing, rejection, result, service, setup},
};

const OWN: &str = "arn:lb/net/a0123abcd456789abcdef0123456789a/1";

/// A region in which another Service with a similar name loses its target group between the list
/// request and the request for its tags.
#[derive(Default)]
struct Region(RefCell<Vec<&'static str>>);

impl Wire for Region {
    fn send(&self, calls: &[Call]) -> Vec<std::result::Result<String, Failure>> {
        calls.iter().map(|call| self.answer(call)).collect()
    }
}

impl Region {
    fn answer(&self, call: &Call) -> std::result::Result<String, Failure> {
        self.0.borrow_mut().push(call.action);
        match call.action {
            "DescribeLoadBalancers" => Ok(format!(
                "<DescribeLoadBalancersResponse><DescribeLoadBalancersResult><LoadBalancers><member><LoadBalancerArn>{OWN}\
                 </LoadBalancerArn><LoadBalancerName>a0123abcd456789abcdef0123456789a</LoadBalancerName><Type>network</Type>\
                 <VpcId>v</VpcId></member></LoadBalancers></DescribeLoadBalancersResult></DescribeLoadBalancersResponse>"
            )),
            "DescribeTargetGroups" => Ok("<DescribeTargetGroupsResponse><DescribeTargetGroupsResult><TargetGroups><member>\
                 <TargetGroupArn>arn:other</TargetGroupArn><TargetGroupName>k8s-default-web-0000000000</TargetGroupName>\
                 </member></TargetGroups></DescribeTargetGroupsResult></DescribeTargetGroupsResponse>"
                .into()),
            "DescribeTags" if call.params.iter().any(|(_, value)| value == "arn:other") => Err(Failure::Rejected {
                action: "DescribeTags",
                status: 400,
                code: "TargetGroupNotFound".into(),
                message: "Target groups 'arn:other' not found".into(),
            }),
            other => Ok(format!("<{other}Response/>")),
        }
    }
}

#[test]
fn a_vanished_foreign_group_is_not_reported_as_not_found() {
    let setup = Setup::read(
        "[Global]\nRegion = eu-west-1\nVPC = v\nKubernetesClusterID = c\n",
        "f",
        &[],
    )
    .unwrap();
    let (region, store) = (Region::default(), Memory::default());
    let none = Vec::new;
    let cloud = Cloud::new(&setup, &region, &store, &none, 0);
    let answer = delete(&cloud, &service(&[]));

    // The host interprets `not-found` as a deleted load balancer and releases the Service.
    assert!(
        !matches!(answer, Err(CloudError::NotFound(_))),
        "{answer:?} after {:?}",
        region.0.borrow()
    );
}

/// An AWS that does not allow reading tags, as with the official provider's policy. It has one load
/// balancer with one target group, which is in use for a moment after the load balancer is deleted.
#[derive(Default)]
struct Blind {
    gone: std::cell::Cell<bool>,
    remaining: std::cell::Cell<usize>,
    rejection: std::cell::Cell<bool>,
}

impl Wire for Blind {
    fn send(&self, calls: &[Call]) -> Vec<std::result::Result<String, Failure>> {
        let rejection = |action, code: &str| {
            Err(Failure::Rejected {
                action,
                status: 400,
                code: code.into(),
                message: "words".into(),
            })
        };
        let answer = |call: &Call| match call.action {
            "DescribeTags" => rejection("DescribeTags", "AccessDenied"),
            "DescribeLoadBalancers" if self.gone.get() => {
                rejection("DescribeLoadBalancers", "LoadBalancerNotFound")
            }
            "DescribeLoadBalancers" => Region::default().answer(call),
            "DeleteLoadBalancer" => {
                self.gone.set(true);
                Ok("<DeleteLoadBalancerResponse/>".into())
            }
            "DescribeTargetGroups" if self.remaining.get() == 0 => {
                Ok("<DescribeTargetGroupsResponse/>".into())
            }
            "DescribeTargetGroups" => {
                let of = if self.gone.get() {
                    String::new()
                } else {
                    format!("<member>{OWN}</member>")
                };
                Ok(format!(
                    "<DescribeTargetGroupsResponse><DescribeTargetGroupsResult><TargetGroups><member><TargetGroupArn>arn:own\
                     </TargetGroupArn><TargetGroupName>k8s-default-web-0000000000</TargetGroupName><LoadBalancerArns>{of}\
                     </LoadBalancerArns></member></TargetGroups></DescribeTargetGroupsResult></DescribeTargetGroupsResponse>"
                ))
            }
            "DeleteTargetGroup" if !self.rejection.replace(true) => {
                rejection("DeleteTargetGroup", "ResourceInUse")
            }
            "DeleteTargetGroup" => {
                self.remaining.set(0);
                Ok("<DeleteTargetGroupResponse/>".into())
            }
            other => Ok(format!("<{other}Response/>")),
        };
        calls.iter().map(answer).collect()
    }
}

#[test]
fn a_group_in_use_is_deleted_later_without_reading_tags() {
    let setup = Setup::read(
        "[Global]\nRegion = eu-west-1\nVPC = v\nKubernetesClusterID = c\n",
        "f",
        &[],
    )
    .unwrap();
    let (blind, store) = (Blind::default(), Memory::default());
    blind.remaining.set(1);
    let none = Vec::new;
    let cloud = Cloud::new(&setup, &blind, &store, &none, 0);
    let answers: Vec<_> = (0..4)
        .map(|_| delete(&cloud, &service(&[])).map(|deleted| deleted.existed))
        .collect();

    assert!(answers[0].is_err() && blind.gone.get());
    assert_eq!(blind.remaining.get(), 0, "{answers:?}");
}

/// An AWS emulation that ignores the parameter `Names` lists all load balancers.
#[test]
fn a_load_balancer_of_another_name_is_not_deleted() {
    let setup = Setup::read(
        "[Global]\nRegion = eu-west-1\nVPC = v\nKubernetesClusterID = c\n",
        "f",
        &[],
    )
    .unwrap();
    let (blind, store) = (Blind::default(), Memory::default());
    let none = Vec::new;
    let cloud = Cloud::new(&setup, &blind, &store, &none, 0);
    let other = Service {
        uid: "ffffffff-4567-89ab-cdef-0123456789ab".into(),
        ..service(&[])
    };
    let answer = delete(&cloud, &other);

    assert!(!blind.gone.get(), "{answer:?}");
}

const NAME: &str = "a0123abcd456789abcdef0123456789a";

fn balancers(names: &[(&str, &str)]) -> String {
    let member = |(arn, name): &(&str, &str)| {
        format!(
            "<member><LoadBalancerArn>{arn}</LoadBalancerArn><LoadBalancerName>{name}</LoadBalancerName><Type>network</Type>\
             <VpcId>v</VpcId></member>"
        )
    };
    format!(
        "<LoadBalancers>{}</LoadBalancers>",
        names.iter().map(member).collect::<String>()
    )
}

fn groups_named(names: &[(&str, &str)]) -> String {
    let member = |(arn, name): &(&str, &str)| {
        format!(
            "<member><TargetGroupArn>{arn}</TargetGroupArn><TargetGroupName>{name}</TargetGroupName></member>"
        )
    };
    format!(
        "<TargetGroups>{}</TargetGroups>",
        names.iter().map(member).collect::<String>()
    )
}

fn names(call: &Call, value: &str) -> bool {
    call.params.iter().any(|(_, one)| one == value)
}

/// The load balancer was recreated after it was read, so the remembered one does not exist.
#[test]
fn a_stale_remembered_load_balancer_is_looked_up_again() {
    let (setup, store) = (setup(), Memory::default());
    let wire = Scripted::new(|call: &Call| match call.action {
        "DescribeLoadBalancers" => result(call, &balancers(&[("arn:new", NAME)])),
        "DescribeTags" if names(call, "arn:old") => rejection(call, "LoadBalancerNotFound"),
        _ => nothing(call),
    });
    let none = Vec::new;
    let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
    let old = LoadBalancer {
        load_balancer_arn: "arn:old".into(),
        load_balancer_name: NAME.into(),
        vpc_id: "v".into(),
        ..LoadBalancer::default()
    };
    remember(&cloud, Some(&old));
    let answer = delete(&cloud, &service(&[])).map(|deleted| deleted.existed);

    assert_eq!(answer, Ok(true));
    assert_eq!(
        wire.all("DeleteLoadBalancer", "LoadBalancerArn"),
        ["arn:new"]
    );
}

/// AWS lists the load balancer but reports it as missing in the request for its tags, so its owner
/// is unknown.
#[test]
fn a_load_balancer_whose_tags_are_not_found_is_not_deleted() {
    let (setup, store) = (setup(), Memory::default());
    let wire = Scripted::new(|call: &Call| match call.action {
        "DescribeLoadBalancers" => result(call, &balancers(&[("arn:a", NAME)])),
        "DescribeTags" => rejection(call, "LoadBalancerNotFound"),
        _ => nothing(call),
    });
    let none = Vec::new;
    let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
    let answer = delete(&cloud, &service(&[])).map(|deleted| deleted.existed);

    assert!(
        matches!(answer, Err(CloudError::InProgress(_))),
        "{answer:?}"
    );
    assert!(wire.all("DeleteLoadBalancer", "LoadBalancerArn").is_empty());
}

#[test]
fn own_load_balancer_is_found_after_others_in_the_list() {
    let (setup, store) = (setup(), Memory::default());
    let list = balancers(&[("arn:other", "another"), ("arn:own", NAME)]);
    let wire = Scripted::new(|call: &Call| match call.action {
        "DescribeLoadBalancers" => result(call, &list),
        _ => nothing(call),
    });
    let none = Vec::new;
    let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
    let answer = delete(&cloud, &service(&[])).map(|deleted| deleted.existed);

    assert_eq!(answer, Ok(true));
    assert_eq!(
        wire.all("DeleteLoadBalancer", "LoadBalancerArn"),
        ["arn:own"]
    );
}

/// For a name that does not exist, AWS returns an error and never an empty answer.
#[test]
fn an_empty_list_for_a_name_is_an_error() {
    let (setup, store) = (setup(), Memory::default());
    let wire = Scripted::new(nothing);
    let none = Vec::new;
    let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
    for answer in [
        crate::load_balancing::nlb::find(&cloud, NAME).map(|_| ()),
        crate::load_balancing::classic::find(&cloud, NAME).map(|_| ()),
    ] {
        assert!(matches!(answer, Err(CloudError::Internal(_))), "{answer:?}");
    }
}

#[test]
fn own_classic_load_balancer_is_found_after_others() {
    let (setup, store) = (setup(), Memory::default());
    let member =
        |name: &str| format!("<member><LoadBalancerName>{name}</LoadBalancerName></member>");
    let list = format!(
        "<LoadBalancerDescriptions>{}{}</LoadBalancerDescriptions>",
        member("another"),
        member(NAME)
    );
    let wire = Scripted::new(|call: &Call| result(call, &list));
    let none = Vec::new;
    let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
    let found = crate::load_balancing::classic::find(&cloud, NAME)
        .unwrap()
        .map(|found| found.load_balancer_name);

    assert_eq!(found.as_deref(), Some(NAME));
}

/// Tags cannot be read, and after the load balancer is deleted, its target group is listed without
/// it.
#[test]
fn a_throttled_target_group_is_deleted_at_the_next_call() {
    let (setup, store) = (setup(), Memory::default());
    let (gone, throttled) = (std::cell::Cell::new(false), std::cell::Cell::new(false));
    let listed = |of: &str| {
        format!(
            "<TargetGroups><member><TargetGroupArn>arn:own</TargetGroupArn><TargetGroupName>k8s-default-web-0000000000\
             </TargetGroupName><LoadBalancerArns>{of}</LoadBalancerArns></member></TargetGroups>"
        )
    };
    let wire = Scripted::new(|call: &Call| match call.action {
        "DescribeTags" => rejection(call, "AccessDenied"),
        "DescribeLoadBalancers" if gone.get() => rejection(call, "LoadBalancerNotFound"),
        "DescribeLoadBalancers" => result(call, &balancers(&[(OWN, NAME)])),
        "DeleteLoadBalancer" => {
            gone.set(true);
            nothing(call)
        }
        "DescribeTargetGroups" if gone.get() => result(call, &listed("")),
        "DescribeTargetGroups" => result(call, &listed(&format!("<member>{OWN}</member>"))),
        "DeleteTargetGroup" if !throttled.replace(true) => rejection(call, "Throttling"),
        _ => nothing(call),
    });
    let none = Vec::new;
    let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
    let first = delete(&cloud, &service(&[])).map(|deleted| deleted.existed);

    assert!(matches!(first, Err(CloudError::Throttled(_))), "{first:?}");

    let second = delete(&cloud, &service(&[])).map(|deleted| deleted.existed);
    assert_eq!(second, Ok(false));
    assert_eq!(
        wire.all("DeleteTargetGroup", "TargetGroupArn"),
        ["arn:own", "arn:own"]
    );
    assert!(!store.has("left/"), "nothing is left: {store:?}");
}

/// The remembered resources are lost too, so target groups are found by the names that this
/// Service's ports result in.
#[test]
fn without_tags_target_groups_are_deleted_by_exact_name() {
    use skydock_sdk::types::Transport;
    let (setup, store) = (setup(), Memory::default());
    let web = service(&[("http", Transport::Tcp, 80, 30080)]);
    let key = name::GroupKey {
        port: 80,
        node_port: 30080,
        protocol: "TCP",
        health_protocol: "TCP",
        health_interval: 30,
        ipv6: false,
    };
    let own = name::group("c", &web, key);
    let list = groups_named(&[
        ("arn:own", &own),
        ("arn:other", "k8s-default-web-0000000000"),
    ]);
    let wire = Scripted::new(|call: &Call| match call.action {
        "DescribeTags" => rejection(call, "AccessDenied"),
        "DescribeLoadBalancers" => rejection(call, "LoadBalancerNotFound"),
        "DescribeTargetGroups" => result(call, &list),
        _ => nothing(call),
    });
    let none = Vec::new;
    let cloud = Cloud::new(&setup, &wire, &store, &none, 0);

    assert_eq!(
        delete(&cloud, &web).map(|deleted| deleted.existed),
        Ok(false)
    );
    assert_eq!(wire.all("DeleteTargetGroup", "TargetGroupArn"), ["arn:own"]);
}

/// Names of target groups do not contain a UID: a Service that is recreated with the same name
/// takes over existing groups.
#[test]
fn a_target_group_used_by_another_service_is_kept() {
    let (setup, store) = (setup(), Memory::default());
    let wire = Scripted::new(|call: &Call| match call.action {
        "DescribeLoadBalancers" => rejection(call, "LoadBalancerNotFound"),
        "DescribeTargetGroups" => result(
            call,
            "<TargetGroups><member><TargetGroupArn>arn:tg</TargetGroupArn><TargetGroupName>k8s-default-web-0000000000\
             </TargetGroupName><LoadBalancerArns><member>arn:lb/net/another/1</member></LoadBalancerArns></member></TargetGroups>",
        ),
        "DeleteTargetGroup" => rejection(call, "ResourceInUse"),
        _ => nothing(call),
    });
    let none = Vec::new;
    let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
    let remaining = Remaining {
        groups: BTreeSet::from(["arn:tg".to_owned()]),
        ..Remaining::default()
    };
    store::save(
        &store,
        &cloud.key(&format!("left/{NAME}")),
        &remaining,
        REMAINING,
    );

    assert_eq!(
        delete(&cloud, &service(&[])).map(|deleted| deleted.existed),
        Ok(false)
    );
    assert!(wire.all("DeleteTargetGroup", "TargetGroupArn").is_empty());
}
