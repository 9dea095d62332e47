use skydock_cloud::{AddressKind, Ingress, LoadBalancerStatus, NodeAddress};

use super::*;

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

fn cluster_ip(name: &str) -> Holder {
    Holder::ClusterIp {
        namespace: "ns".into(),
        name: name.into(),
    }
}

fn held(holder: Holder) -> Taken {
    Taken {
        holders: vec![holder],
        ..Taken::default()
    }
}

/// Node `n1`, whose kubelet reports 10.244.7.1.
fn n1() -> Node {
    Node {
        name: "n1".into(),
        addresses: vec![NodeAddress {
            kind: AddressKind::InternalIp,
            address: "10.244.7.1".into(),
        }],
        ..Node::default()
    }
}

fn web() -> Service {
    Service {
        namespace: "ns".into(),
        name: "web".into(),
        cluster_ips: vec!["172.20.0.1".into(), "None".into()],
        ..Service::default()
    }
}

// Holds: SEC-16
#[test]
fn special_addresses_are_rejected() {
    let (rules, nobody) = (AddressRules::default(), Taken::default());
    let table = [
        ("10.0.0.1", None),
        ("192.0.2.1", None),
        ("198.18.0.1", None),
        ("100.64.0.1", None),
        ("2001:db8::1", None),
        ("2a00::1", None),
        ("fd00::1", None),
        ("2002:c000:201::1", None),
        ("0.0.0.0", Some(Rejected::Unspecified)),
        ("0.1.2.3", Some(Rejected::Unspecified)),
        ("::", Some(Rejected::Unspecified)),
        ("127.0.0.1", Some(Rejected::Loopback)),
        ("127.255.255.254", Some(Rejected::Loopback)),
        ("::1", Some(Rejected::Loopback)),
        ("169.254.1.1", Some(Rejected::LinkLocal)),
        ("fe80::1", Some(Rejected::LinkLocal)),
        ("febf::1", Some(Rejected::LinkLocal)),
        ("224.0.0.1", Some(Rejected::Multicast)),
        ("239.255.255.255", Some(Rejected::Multicast)),
        ("ff02::1", Some(Rejected::Multicast)),
        ("255.255.255.255", Some(Rejected::Broadcast)),
        ("192.0.0.8", Some(Rejected::Reserved)),
        ("192.88.99.1", Some(Rejected::Reserved)),
        ("100::1", Some(Rejected::Reserved)),
        ("2001:20::1", Some(Rejected::Reserved)),
        ("4000::1", Some(Rejected::Reserved)),
        ("::ffff:10.0.0.1", Some(Rejected::Embedded)),
        ("::10.0.0.1", Some(Rejected::Embedded)),
        ("::ffff:0:10.0.0.1", Some(Rejected::Embedded)),
        ("64:ff9b::10.0.0.1", Some(Rejected::Embedded)),
        ("64:ff9b:1::1", Some(Rejected::Embedded)),
        ("2001::1", Some(Rejected::Embedded)),
        ("2002:7f00:1::1", Some(Rejected::Embedded)),
        ("169.254.169.254", Some(Rejected::Metadata)),
        ("168.63.129.16", Some(Rejected::Metadata)),
        ("100.100.100.200", Some(Rejected::Metadata)),
        ("192.0.0.192", Some(Rejected::Metadata)),
        ("fd00:ec2::254", Some(Rejected::Metadata)),
        ("::ffff:168.63.129.16", Some(Rejected::Metadata)),
        ("64:ff9b::a9fe:a9fe", Some(Rejected::Metadata)),
        ("2002:a83f:8110::1", Some(Rejected::Metadata)),
    ];
    for (text, expected) in table {
        let node = rules.node(ip(text), &n1(), &nobody);
        let balancer = rules.load_balancer(ip(text), &web(), &nobody);
        assert_eq!(
            (node.err(), balancer.err()),
            (expected.clone(), expected),
            "{text}"
        );
    }

    // Google Cloud has subnets of this range, whose machines are nodes.
    assert_eq!(rules.node(ip("240.0.0.1"), &n1(), &nobody), Ok(()));
    let reserved = rules.load_balancer(ip("240.0.0.1"), &web(), &nobody);
    assert_eq!(reserved, Err(Rejected::Reserved));
}

// Holds: SEC-16
#[test]
fn addresses_of_the_cluster_are_not_a_load_balancers() {
    let lb = Holder::LoadBalancer {
        namespace: "ns".into(),
        name: "other".into(),
    };
    let pods = Holder::Pods {
        node: "n1".into(),
        cidr: "10.244.1.0/24".into(),
    };
    let api_server = Taken {
        api_server: true,
        ..Taken::default()
    };
    let everything = AddressRules {
        allowed: nets(&["0.0.0.0/0", "::/0"]),
        node_addresses: true,
        ..AddressRules::default()
    };
    let held_by = |holder: &Holder| Some(Rejected::Held(holder.clone()));
    // By default, and if the operator allows all that can be allowed.
    let table = [
        (Taken::default(), None, None),
        (
            api_server,
            Some(Rejected::ApiServer),
            Some(Rejected::ApiServer),
        ),
        (
            held(cluster_ip("dns")),
            held_by(&cluster_ip("dns")),
            held_by(&cluster_ip("dns")),
        ),
        (held(lb.clone()), held_by(&lb), held_by(&lb)),
        (
            held(Holder::Node("n1".into())),
            held_by(&Holder::Node("n1".into())),
            None,
        ),
        (held(pods.clone()), held_by(&pods), None),
    ];
    for (taken, by_default, at_most) in table {
        let check =
            |rules: &AddressRules| rules.load_balancer(ip("192.0.2.1"), &web(), &taken).err();
        assert_eq!(check(&AddressRules::default()), by_default, "{taken:?}");
        assert_eq!(check(&everything), at_most, "{taken:?}");
    }
    for never in [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "172.20.0.1",
        "64:ff9b::172.20.0.1",
    ] {
        let checked = everything.load_balancer(ip(never), &web(), &Taken::default());
        assert!(checked.is_err(), "{never}");
    }
}

/// A range that is allowed for Pods must not open the machines in it.
// Holds: SEC-16
#[test]
fn an_allowed_range_does_not_open_node_addresses() {
    let rules = AddressRules {
        allowed: nets(&["10.0.0.0/8"]),
        ..AddressRules::default()
    };
    let node = held(Holder::Node("n1".into()));
    let rejected = rules
        .load_balancer(ip("10.0.0.1"), &web(), &node)
        .unwrap_err();

    assert_eq!(
        rejected.to_string(),
        "it is an address of node n1; to allow addresses of nodes, set --load-balancer-allow-node-addresses"
    );
}

// Holds: SEC-16
#[test]
fn ranges_of_the_cluster_need_to_be_allowed() {
    let rules = AddressRules {
        pods: nets(&["10.244.0.0/16", "fd00:10:244::/56"]),
        services: nets(&["10.96.0.0/12"]),
        allowed: nets(&["10.244.9.0/24", "127.0.0.0/8"]),
        node_addresses: false,
    };
    let pod = |text: &str| Some(Rejected::Pod(text.parse().unwrap()));
    let service = |text: &str| Some(Rejected::Service(text.parse().unwrap()));
    let table = [
        ("192.0.2.1", None),
        ("10.244.1.1", pod("10.244.0.0/16")),
        ("fd00:10:244::1", pod("fd00:10:244::/56")),
        ("10.96.0.1", service("10.96.0.0/12")),
        ("172.20.0.1", Some(Rejected::Held(cluster_ip("web")))),
        ("172.20.0.2", None),
        ("10.244.9.1", None),
        ("127.0.0.1", None),
        ("::1", Some(Rejected::Loopback)),
    ];
    for (text, expected) in table {
        let checked = rules.load_balancer(ip(text), &web(), &Taken::default());
        assert_eq!(checked.err(), expected, "{text}");
    }
}

/// Whoever can write a Service can write any external IP.
// Holds: SEC-16
#[test]
fn an_external_ip_is_not_another_load_balancers() {
    let external = |name: &str| Holder::ExternalIp {
        namespace: "ns".into(),
        name: name.into(),
    };
    let with = |status: &str| Service {
        status: LoadBalancerStatus {
            ingress: vec![Ingress {
                ip: Some(status.into()),
                ..Ingress::default()
            }],
        },
        ..web()
    };
    let rules = AddressRules::default();
    for (service, holder, expected) in [
        (web(), external("db"), Some(Rejected::Held(external("db")))),
        (web(), external("web"), None),
        (with("192.0.2.1"), external("db"), None),
        (
            with("192.0.2.2"),
            external("db"),
            Some(Rejected::Held(external("db"))),
        ),
    ] {
        let taken = held(holder);
        let checked = rules.load_balancer(ip("192.0.2.1"), &service, &taken);
        assert_eq!(checked.err(), expected, "{taken:?}");
        assert_eq!(rules.node(ip("192.0.2.1"), &n1(), &taken), Ok(()));
    }
}

// Holds: SEC-16
#[test]
fn addresses_of_nat64_translators_are_judged_by_where_they_lead() {
    let everything = AddressRules {
        allowed: nets(&["::/0"]),
        ..AddressRules::default()
    };
    let own = Some(Rejected::Held(cluster_ip("web")));
    for (to, by_default, at_most) in [
        ("198.51.100.1", Some(Rejected::Embedded), None),
        ("127.0.0.1", Some(Rejected::Embedded), None),
        (
            "169.254.169.254",
            Some(Rejected::Metadata),
            Some(Rejected::Metadata),
        ),
        ("172.20.0.1", own.clone(), own),
    ] {
        let taken = Taken {
            translated: Some(ip(to)),
            ..Taken::default()
        };
        let address = ip("2001:db8:64::1");
        let check = |rules: &AddressRules| rules.load_balancer(address, &web(), &taken).err();
        assert_eq!(check(&AddressRules::default()), by_default, "{to}");
        assert_eq!(check(&everything), at_most, "{to}");
        assert!(everything.node(address, &n1(), &taken).is_err(), "{to}");
    }
}

// Holds: SEC-60
#[test]
fn a_node_has_no_address_of_services_or_other_pods() {
    let rules = AddressRules {
        pods: nets(&["10.0.0.0/8"]),
        services: nets(&["10.96.0.0/12"]),
        ..AddressRules::default()
    };
    let pods = |node: &str, cidr: &str| Holder::Pods {
        node: node.into(),
        cidr: cidr.into(),
    };
    let pods_of = |node: &str| pods(node, "10.244.0.0/16");
    let check = |text: &str, taken: Taken| rules.node(ip(text), &n1(), &taken).err();
    let rejected = |holder: Holder| Some(Rejected::Held(holder));
    assert_eq!(
        check("10.1.0.1", held(cluster_ip("dns"))),
        rejected(cluster_ip("dns"))
    );
    assert_eq!(
        check("10.96.0.9", Taken::default()),
        Some(Rejected::Service("10.96.0.0/12".parse().unwrap()))
    );
    assert_eq!(
        check("10.244.2.1", held(pods_of("n2"))),
        rejected(pods_of("n2"))
    );
    assert_eq!(
        check("10.244.2.1", held(pods_of("n1"))),
        rejected(pods_of("n1")),
        "a Pod on itself"
    );

    for (text, taken) in [
        // The range of Pods may be that of the cloud's network.
        ("10.1.0.1", Taken::default()),
        ("10.244.7.1", held(pods_of("n2"))),
        ("10.244.7.1", held(pods_of("n1"))),
        // A kubelet may write these into its Node.
        ("10.1.0.1", held(pods("thief", "0.0.0.0/0"))),
        ("10.1.0.1", held(pods("thief", "8.0.0.0/5"))),
        ("172.31.0.1", held(pods("thief", "172.31.0.0/16"))),
        ("10.1.0.1", held(Holder::Node("n2".into()))),
        (
            "10.1.0.1",
            Taken {
                api_server: true,
                ..Taken::default()
            },
        ),
    ] {
        assert_eq!(check(text, taken), None, "{text}");
    }

    // A question may have nothing but the name of the node.
    let asked = Node {
        name: "n1".into(),
        ..Node::default()
    };
    let of = |node: &str| Taken {
        holders: vec![Holder::Node(node.into()), pods_of("n2")],
        ..Taken::default()
    };
    assert_eq!(rules.node(ip("10.244.7.1"), &asked, &of("n1")), Ok(()));
    assert!(rules.node(ip("10.244.7.1"), &asked, &of("n3")).is_err());
}

// Holds: SEC-16
// Holds: SEC-60
#[test]
fn names_of_other_objects_are_rejected() {
    let dns = Holder::Node("n2".into());
    let named = |node: &str| Holder::NodeName(node.into());
    let balancer = Holder::LoadBalancer {
        namespace: "ns".into(),
        name: "theirs".into(),
    };
    let (strict, open) = (
        AddressRules::default(),
        AddressRules {
            node_addresses: true,
            ..AddressRules::default()
        },
    );
    // For a node, a load balancer, and one that may have addresses of nodes.
    for (holder, of_node, balanced, opened) in [
        (dns, true, false, true),
        (named("n1"), true, false, true),
        (named("n2"), false, false, true),
        (balancer, true, false, false),
    ] {
        let one = || vec![holder.clone()];
        assert_eq!(
            (
                AddressRules::node_name(&n1(), one()).is_ok(),
                strict.load_balancer_name(one()).is_ok(),
                open.load_balancer_name(one()).is_ok()
            ),
            (of_node, balanced, opened),
            "{holder}"
        );
    }

    for other in ["a-thief", "thief"] {
        let both = vec![named(other), named("n1")];
        assert_eq!(AddressRules::node_name(&n1(), both), Ok(()), "{other}");
    }
}

#[test]
fn a_rejection_for_a_node_names_no_flag() {
    let net: IpNet = "10.96.0.0/12".parse().unwrap();
    let pods = Holder::Pods {
        node: "n2".into(),
        cidr: "10.244.2.0/24".into(),
    };
    for why in [
        Rejected::Service(net),
        Rejected::Pod(net),
        Rejected::Held(pods),
        Rejected::Held(Holder::NodeName("n2".into())),
    ] {
        assert!(why.to_string().contains("--load-balancer"), "{why}");
        let of_node = Rejected::OfNode(Box::new(why));
        assert!(!of_node.to_string().contains("--"), "{of_node}");
    }
}

#[test]
fn a_rejection_names_the_range_and_the_flag() {
    let rules = AddressRules {
        services: nets(&["10.96.0.0/12"]),
        ..AddressRules::default()
    };
    let message = rules
        .load_balancer(ip("10.96.0.1"), &web(), &Taken::default())
        .unwrap_err()
        .to_string();
    assert_eq!(
        message,
        "it is in the cluster IP range 10.96.0.0/12; to allow it, set --load-balancer-allowed-cidrs"
    );
}
