use skydock_sdk::types::CloudError;

use super::*;
use crate::testing::{annotated, service};

fn config(text: &str) -> Config {
    Config::parse(&format!("[Global]\nRegion = eu-west-1\n{text}\n"), &[]).unwrap()
}

fn cluster() -> Cluster {
    Cluster {
        id: "c".into(),
        legacy: false,
    }
}

fn desired(service: &Service) -> Result<DesiredLoadBalancer> {
    DesiredLoadBalancer::of(service, &cluster(), &config(""))
}

/// Formats the listeners as `PORT PROTOCOL[ POLICY] -> NODE-PORT PROTOCOL`.
fn listeners(service: &Service) -> Vec<String> {
    let shown = |listener: DesiredListener| {
        let policy = listener
            .policy
            .map(|policy| format!(" {policy}"))
            .unwrap_or_default();
        let family = if listener.group.ipv6 { " ipv6" } else { "" };
        format!(
            "{} {}{policy} -> {} {}{family}",
            listener.port, listener.protocol, listener.group.port, listener.group.protocol
        )
    };
    desired(service)
        .unwrap()
        .listeners
        .into_iter()
        .map(shown)
        .collect()
}

#[test]
fn each_port_gets_a_listener_and_a_target_group() {
    let plain = service(&[
        ("web", Transport::Tcp, 80, 30080),
        ("dns", Transport::Udp, 53, 30053),
    ]);
    assert_eq!(
        listeners(&plain),
        ["80 TCP -> 30080 TCP", "53 UDP -> 30053 UDP"]
    );
    let unreachable = service(&[
        ("a", Transport::Tcp, 80, 0),
        ("b", Transport::Tcp, 81, 30081),
    ]);
    assert_eq!(listeners(&unreachable), ["81 TCP -> 30081 TCP"]);
}

#[test]
fn tcp_and_udp_on_one_node_port_share_a_listener() {
    let both = service(&[
        ("t", Transport::Tcp, 53, 30053),
        ("u", Transport::Udp, 53, 30053),
    ]);
    assert_eq!(listeners(&both), ["53 TCP_UDP -> 30053 TCP_UDP"]);
    let separate = service(&[
        ("t", Transport::Tcp, 53, 30053),
        ("u", Transport::Udp, 53, 30054),
    ]);
    assert!(
        matches!(desired(&separate), Err(CloudError::Invalid(text)) if text.contains("nodePort"))
    );
}

#[test]
fn a_certificate_enables_tls_on_the_named_ports() {
    let ports = [
        ("https", Transport::Tcp, 443, 30443),
        ("web", Transport::Tcp, 80, 30080),
        ("u", Transport::Udp, 1, 30001),
    ];
    let tls = |pairs: &[(&str, &str)]| listeners(&annotated(service(&ports), pairs));
    let (plain_web, udp) = ("80 TCP -> 30080 TCP", "1 UDP -> 30001 UDP");

    assert_eq!(
        tls(&[("ssl-cert", "arn:x")]),
        ["443 TLS -> 30443 TCP", "80 TLS -> 30080 TCP", udp],
        "all TCP ports unless set"
    );
    assert_eq!(
        tls(&[("ssl-cert", "arn:x"), ("ssl-ports", "443")]),
        ["443 TLS -> 30443 TCP", plain_web, udp]
    );
    assert_eq!(
        tls(&[
            ("ssl-cert", "arn:x"),
            ("ssl-ports", "https"),
            ("backend-protocol", "ssl"),
            ("ssl-negotiation-policy", "P")
        ]),
        ["443 TLS P -> 30443 TLS", plain_web, udp]
    );
}

#[test]
fn rejects_unsupported_ports_and_annotations_by_name() {
    let tcp = || service(&[("", Transport::Tcp, 80, 30080)]);
    let udp = || service(&[("", Transport::Udp, 80, 30080)]);
    for (service, word) in [
        (service(&[("", Transport::Sctp, 80, 30080)]), "SCTP"),
        (service(&[("", Transport::Tcp, 80, 0)]), "node port"),
        (
            annotated(tcp(), &[("extra-security-groups", "sg-1")]),
            "extra-security-groups",
        ),
        (
            annotated(
                tcp(),
                &[("target-group-attributes", "stickiness.enabled=true")],
            ),
            "stickiness.enabled",
        ),
        (
            annotated(
                tcp(),
                &[("target-group-attributes", "preserve_client_ip.enabled=yes")],
            ),
            "true or false",
        ),
        (
            annotated(
                udp(),
                &[(
                    "target-group-attributes",
                    "preserve_client_ip.enabled=false",
                )],
            ),
            "UDP",
        ),
        (
            annotated(tcp(), &[("cross-zone-load-balancing-enabled", "yes")]),
            "cross-zone",
        ),
        (
            annotated(tcp(), &[("ip-address-type", "ipv6")]),
            "ip-address-type",
        ),
    ] {
        let rejection = desired(&service);
        assert!(
            matches!(&rejection, Err(CloudError::Invalid(text)) if text.contains(word)),
            "{word}: {rejection:?}"
        );
    }
}

#[test]
fn security_groups_are_managed_only_if_configured() {
    let plain = service(&[("", Transport::Tcp, 80, 30080)]);
    let given = annotated(plain.clone(), &[("security-groups", "sg-1, sg-2")]);
    let managed = config("NLBSecurityGroupMode = Managed");
    let security = |service: &Service, config: &Config| {
        DesiredLoadBalancer::of(service, &cluster(), config)
            .unwrap()
            .security
    };

    assert_eq!(security(&plain, &config("")), Security::Unchanged);
    assert_eq!(
        security(&given, &config("")),
        Security::Given(vec!["sg-1".into(), "sg-2".into()])
    );
    assert_eq!(
        security(&given, &managed),
        Security::Given(vec!["sg-1".into(), "sg-2".into()])
    );
    assert!(
        matches!(security(&plain, &managed), Security::Managed(name) if name.starts_with("k8s-"))
    );
}

#[test]
fn tags_name_the_service_and_the_cluster() {
    let service = annotated(
        service(&[("", Transport::Tcp, 80, 30080)]),
        &[("additional-resource-tags", "a=b,c")],
    );
    let tags = desired(&service).unwrap().tags;
    let shown: Vec<String> = tags
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();

    assert_eq!(
        shown,
        [
            "a=b",
            "c=",
            "kubernetes.io/cluster/c=owned",
            "kubernetes.io/service-name=default/web"
        ]
    );
}

#[test]
fn ip_families_select_the_address_type() {
    use IpFamily::{Ipv4, Ipv6};
    type Case<'a> = (
        &'a [IpFamily],
        IpFamilyPolicy,
        Option<&'a str>,
        IpAddressType,
        &'a str,
        &'a str,
    );
    let cases: [Case<'_>; 7] = [
        (
            &[Ipv4],
            IpFamilyPolicy::SingleStack,
            None,
            IpAddressType::Unchanged,
            "80 TCP -> 30080 TCP",
            "0.0.0.0/0",
        ),
        (
            &[Ipv4, Ipv6],
            IpFamilyPolicy::PreferDualStack,
            None,
            IpAddressType::DualstackIfPossible,
            "80 TCP -> 30080 TCP",
            "0.0.0.0/0 ::/0",
        ),
        (
            &[Ipv4, Ipv6],
            IpFamilyPolicy::RequireDualStack,
            None,
            IpAddressType::Dualstack,
            "80 TCP -> 30080 TCP",
            "0.0.0.0/0 ::/0",
        ),
        (
            &[Ipv6],
            IpFamilyPolicy::SingleStack,
            None,
            IpAddressType::Dualstack,
            "80 TCP -> 30080 TCP ipv6",
            "0.0.0.0/0 ::/0",
        ),
        (
            &[Ipv4],
            IpFamilyPolicy::SingleStack,
            Some("dualstack"),
            IpAddressType::Dualstack,
            "80 TCP -> 30080 TCP",
            "0.0.0.0/0 ::/0",
        ),
        (
            &[Ipv4, Ipv6],
            IpFamilyPolicy::RequireDualStack,
            Some("ipv4"),
            IpAddressType::Ipv4,
            "80 TCP -> 30080 TCP",
            "0.0.0.0/0",
        ),
        (
            &[],
            IpFamilyPolicy::SingleStack,
            None,
            IpAddressType::Unchanged,
            "80 TCP -> 30080 TCP",
            "0.0.0.0/0",
        ),
    ];

    for (families, policy, annotation, ip_address_type, listener, ranges) in cases {
        let pairs: Vec<(&str, &str)> = annotation
            .map(|value| ("ip-address-type", value))
            .into_iter()
            .collect();
        let service = Service {
            ip_families: families.to_vec(),
            ip_family_policy: policy,
            ..annotated(service(&[("", Transport::Tcp, 80, 30080)]), &pairs)
        };
        let desired = desired(&service).unwrap();
        assert_eq!(
            (desired.ip_address_type, desired.ranges.join(" ").as_str()),
            (ip_address_type, ranges),
            "{families:?} {policy:?}"
        );
        assert_eq!(listeners(&service), [listener], "{families:?} {policy:?}");
    }
}

#[test]
fn removed_annotations_are_undone() {
    let tls = || service(&[("", Transport::Tcp, 443, 30443)]);
    let cert = ("ssl-cert", "arn");
    let all = annotated(
        tls(),
        &[
            cert,
            ("additional-resource-tags", "team=a,env=x"),
            (
                "target-group-attributes",
                "preserve_client_ip.enabled=false,proxy_protocol_v2.enabled=true",
            ),
            ("ssl-negotiation-policy", "P"),
            ("ip-address-type", "dualstack"),
            ("healthcheck-timeout", "7"),
        ],
    );
    let applied = desired(&all).unwrap().applied(&all);
    let none = annotated(tls(), &[cert, ("additional-resource-tags", "team=b")]);
    let mut undone = desired(&none).unwrap();
    undone.undo(&Applied::default());
    assert_eq!(undone, desired(&none).unwrap(), "nothing was set before");
    undone.undo(&applied);
    assert_eq!(undone.removed_tags, BTreeSet::from(["env".to_owned()]));
    let attributes: Vec<String> = undone
        .group_attributes
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    assert_eq!(
        attributes,
        [
            "preserve_client_ip.enabled=true",
            "proxy_protocol_v2.enabled=false"
        ]
    );
    let policy = undone.listeners[0].policy.as_deref();
    assert_eq!(policy, Some("ELBSecurityPolicy-2016-08"));
    assert_eq!(undone.ip_address_type, IpAddressType::Ipv4);
    assert_eq!(undone.listeners[0].group.health.timeout, Some(10));

    let mut same = desired(&all).unwrap();
    same.undo(&applied);
    assert_eq!(same, desired(&all).unwrap(), "nothing was removed");
}
