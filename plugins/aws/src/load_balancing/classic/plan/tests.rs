use skydock_sdk::types::{Service, Transport};

use super::*;
use crate::{
    client::api::elb::{Backend, Instance, ListenerDescription},
    config::Config,
    load_balancing::common::{annotation, applied::Applied},
    tags::Cluster,
    testing::{annotated, service},
};

fn asked(service: &Service) -> DesiredLoadBalancer {
    let config = Config::parse("[Global]\nRegion = eu-west-1\n", &[]).unwrap();
    DesiredLoadBalancer::of(
        service,
        &Cluster {
            id: "c".into(),
            legacy: false,
        },
        &config,
    )
    .unwrap()
}

fn web(pairs: &[(&str, &str)]) -> DesiredLoadBalancer {
    asked(&annotated(
        service(&[("web", Transport::Tcp, 80, 30080)]),
        pairs,
    ))
}

/// Returns a load balancer that matches the request, in subnet-1, with sg-1 and instance i-1.
fn settled(desired: &DesiredLoadBalancer) -> ObservedLoadBalancer {
    let listener = |one: &Listener| ListenerDescription {
        // AWS returns upper case.
        listener: Listener {
            protocol: one.protocol.to_uppercase(),
            instance_protocol: one.instance_protocol.to_uppercase(),
            ..one.clone()
        },
        ..ListenerDescription::default()
    };
    ObservedLoadBalancer {
        balancer: Description {
            listener_descriptions: desired
                .listeners
                .iter()
                .map(listener)
                .collect::<Vec<_>>()
                .into(),
            subnets: vec!["subnet-1".to_owned()].into(),
            security_groups: vec!["sg-1".to_owned()].into(),
            instances: vec![Instance {
                instance_id: "i-1".into(),
            }]
            .into(),
            health_check: desired.health.clone(),
            ..Description::default()
        },
        attributes: desired.attributes.clone(),
        tags: Some(desired.tags.clone()),
    }
}

fn actions(
    desired: &DesiredLoadBalancer,
    observed: &ObservedLoadBalancer,
    groups: &[&str],
) -> Vec<String> {
    let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
    let stages = stages(desired, observed, &groups);
    let numbered = stages.iter().enumerate();
    numbered
        .flat_map(|(index, stage)| {
            stage
                .iter()
                .map(move |call| format!("{index} {}", call.action))
        })
        .collect()
}

fn by(desired: &DesiredLoadBalancer, observed: &ObservedLoadBalancer) -> Vec<String> {
    actions(desired, observed, &["sg-1"])
}

#[test]
fn an_up_to_date_classic_load_balancer_needs_no_steps() {
    let desired = web(&[]);
    assert_eq!(by(&desired, &settled(&desired)), Vec::<String>::new());
    let untagged = ObservedLoadBalancer {
        tags: None,
        ..settled(&desired)
    };
    assert_eq!(
        by(&desired, &untagged),
        Vec::<String>::new(),
        "tags that cannot be read are left"
    );
}

#[test]
fn only_differences_are_changed_in_order() {
    let desired = web(&[]);
    let observed = settled(&desired);
    assert_eq!(
        actions(&desired, &observed, &["sg-2"]),
        ["1 ApplySecurityGroupsToLoadBalancer"]
    );

    let other = asked(&service(&[("web", Transport::Tcp, 80, 30081)]));
    assert_eq!(by(&other, &observed), ["1 ConfigureHealthCheck"]);
    assert_eq!(
        listener_changes(&other, &observed.balancer),
        ListenerChanges {
            gone: vec![
                observed.balancer.listener_descriptions.items[0]
                    .listener
                    .clone()
            ],
            fresh: other.listeners,
            certified: Vec::new(),
        }
    );
    assert_eq!(
        listener_changes(&desired, &observed.balancer),
        ListenerChanges::default()
    );
    assert_eq!(
        by(&web(&[("additional-resource-tags", "a=b")]), &observed),
        ["1 AddTags"]
    );
    for pair in [
        ("connection-idle-timeout", "90"),
        ("cross-zone-load-balancing-enabled", "true"),
        ("connection-draining-enabled", "true"),
        ("access-log-enabled", "true"),
    ] {
        assert_eq!(
            by(&web(&[pair]), &observed),
            ["1 ModifyLoadBalancerAttributes"],
            "{pair:?}"
        );
    }
}

#[test]
fn what_removed_annotations_set_is_undone() {
    let mut desired = web(&[]);
    let mut observed = settled(&desired);
    desired.removed_tags = BTreeSet::from(["env".to_owned()]);
    assert_eq!(by(&desired, &observed), Vec::<String>::new());
    let tags = observed.tags.as_mut().unwrap();
    tags.insert("env".into(), "x".into());
    assert_eq!(by(&desired, &observed), ["1 RemoveTags"]);

    let draining = ("connection-draining-enabled", "true");
    let timed = web(&[draining, ("connection-draining-timeout", "7")]);
    assert_eq!(
        by(&web(&[draining]), &settled(&timed)),
        ["1 ModifyLoadBalancerAttributes"]
    );
}

#[test]
fn the_default_policy_replaces_a_removed_one() {
    let mut desired = web(&[("ssl-cert", "arn")]);
    assert_eq!(by(&desired, &settled(&desired)), Vec::<String>::new());

    desired.undo(&Applied {
        has_policy: true,
        ..Applied::default()
    });

    assert_eq!(desired.policy.as_deref(), Some(annotation::DEFAULT_POLICY));
    assert_eq!(
        by(&desired, &settled(&desired)),
        [
            "0 CreateLoadBalancerPolicy",
            "1 SetLoadBalancerPoliciesOfListener"
        ]
    );
}

#[test]
fn listeners_match_the_official_provider() {
    let shown = |pairs: &[(&str, &str)]| {
        let one = web(pairs).listeners.remove(0);
        format!(
            "{}->{} {}",
            one.protocol, one.instance_protocol, one.certificate
        )
    };
    let cert = ("ssl-cert", "arn");

    assert_eq!(shown(&[]), "tcp->tcp ");
    assert_eq!(shown(&[("backend-protocol", "http")]), "http->http ");
    assert_eq!(shown(&[("backend-protocol", "https")]), "tcp->tcp ");
    assert_eq!(shown(&[cert]), "ssl->tcp arn");
    assert_eq!(
        shown(&[cert, ("backend-protocol", "http")]),
        "https->http arn"
    );
    assert_eq!(
        shown(&[cert, ("backend-protocol", "https")]),
        "https->https arn"
    );
    assert_eq!(shown(&[cert, ("backend-protocol", "ssl")]), "ssl->ssl arn");
    assert_eq!(shown(&[cert, ("ssl-ports", "443")]), "tcp->tcp ");
}

#[test]
fn proxy_protocol_can_be_enabled_and_disabled() {
    let (with, without) = (web(&[("proxy-protocol", "*")]), web(&[]));
    let set = "1 SetLoadBalancerPoliciesForBackendServer";
    assert_eq!(
        by(&with, &settled(&with)),
        ["0 CreateLoadBalancerPolicy", set]
    );

    let mut on = settled(&with);
    on.balancer.policies.other_policies = vec![PROXY_POLICY.to_owned()].into();
    on.balancer.backend_server_descriptions = vec![Backend {
        instance_port: 30080,
        policy_names: vec![PROXY_POLICY.to_owned()].into(),
    }]
    .into();

    assert_eq!(by(&with, &on), Vec::<String>::new());
    assert_eq!(by(&without, &on), [set]);
}

#[test]
fn a_tls_policy_is_created_once_and_set_on_tls_listeners() {
    let desired = web(&[("ssl-cert", "arn"), ("ssl-negotiation-policy", "P")]);
    let mut observed = settled(&desired);
    assert_eq!(
        by(&desired, &observed),
        [
            "0 CreateLoadBalancerPolicy",
            "1 SetLoadBalancerPoliciesOfListener"
        ]
    );
    assert_eq!(
        tls_policy("P"),
        "k8s-SSLNegotiationPolicy-P",
        "the official provider's name"
    );

    observed.balancer.policies.other_policies = vec![tls_policy("P")].into();
    for description in &mut observed.balancer.listener_descriptions.items {
        description.policy_names = vec![tls_policy("P")].into();
    }

    assert_eq!(by(&desired, &observed), Vec::<String>::new());

    let plain = web(&[("ssl-negotiation-policy", "P")]);
    assert_eq!(by(&plain, &settled(&plain)), ["0 CreateLoadBalancerPolicy"]);
}

#[test]
fn each_attribute_of_access_logs_is_restored() {
    let on = [
        ("access-log-enabled", "true"),
        ("access-log-emit-interval", "5"),
        ("access-log-s3-bucket-name", "bucket"),
        ("access-log-s3-bucket-prefix", "prefix"),
    ];
    let desired = web(&on);

    assert_eq!(by(&desired, &settled(&desired)), Vec::<String>::new());
    for (annotation, value) in [
        ("access-log-emit-interval", "60"),
        ("access-log-s3-bucket-name", "other"),
        ("access-log-s3-bucket-prefix", "other"),
    ] {
        let mut pairs = on.to_vec();
        pairs.retain(|(name, _)| *name != annotation);
        pairs.push((annotation, value));
        let observed = ObservedLoadBalancer {
            attributes: web(&pairs).attributes,
            ..settled(&desired)
        };
        assert_eq!(
            by(&desired, &observed),
            ["1 ModifyLoadBalancerAttributes"],
            "{annotation}"
        );
    }

    let off = web(&[]);
    let mut observed = settled(&off);
    observed.attributes.access_log.bucket = Some("former".into());
    assert_eq!(
        by(&off, &observed),
        Vec::<String>::new(),
        "what remains of disabled logs is left"
    );
}

#[test]
fn a_service_without_ipv4_is_rejected() {
    use skydock_sdk::types::IpFamily::{Ipv4, Ipv6};
    let config = Config::parse("[Global]\nRegion = eu-west-1\n", &[]).unwrap();
    let cluster = Cluster {
        id: "c".into(),
        legacy: false,
    };

    for (families, expected) in [
        (vec![], true),
        (vec![Ipv4], true),
        (vec![Ipv6, Ipv4], true),
        (vec![Ipv6], false),
    ] {
        let web = Service {
            ip_families: families,
            ..service(&[("web", Transport::Tcp, 80, 30080)])
        };
        let desired = DesiredLoadBalancer::of(&web, &cluster, &config);
        assert_eq!(desired.is_ok(), expected, "{:?}", web.ip_families);
    }
}
