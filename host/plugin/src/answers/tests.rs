use skydock_cloud::Capability;

use super::*;

fn owner() -> ProviderInfo {
    ProviderInfo {
        name: "metal".into(),
        version: "1".into(),
        capabilities: BTreeSet::from([Capability::Instances]),
        provider_id_prefixes: vec!["metal://".into(), "other:///zone/".into()],
        annotation_prefixes: vec!["metal.example/".into(), "service.beta.kubernetes.io/metal-".into()],
        max_batch: 100,
    }
}

fn machine() -> instances::Instance {
    instances::Instance {
        provider_id: Some("metal://one".into()),
        instance_type: Some("c1.small".into()),
        zone: Some("z-1".into()),
        region: None,
        addresses: vec![node_address(wit::AddressKind::InternalIp, "10.0.0.1")],
        labels: vec![("example.com/rack".into(), "r1".into())],
        annotations: vec![("metal.example/rack".into(), "a b".into())],
    }
}

fn node_address(kind: wit::AddressKind, text: &str) -> wit::NodeAddress {
    wit::NodeAddress { kind, address: text.into() }
}

#[test]
fn a_provider_id_is_printable_and_has_an_owned_prefix() {
    let table = [
        ("metal://one", true),
        ("other:///zone/x", true),
        ("metal://", false),
        ("aws:///eu/i-1", false),
        ("xmetal://one", false),
        ("metal://o ne", false),
        ("metal://o\nne", false),
        ("metal://ö", false),
    ];
    for (id, expected) in table {
        assert_eq!(provider_id(id.into(), &owner()).is_ok(), expected, "{id}");
    }
    assert!(provider_id(format!("metal://{}", "x".repeat(504)), &owner()).is_ok());
    assert!(provider_id(format!("metal://{}", "x".repeat(505)), &owner()).is_err());
}

#[test]
fn an_instance_with_any_invalid_field_is_rejected() {
    let good = instance(machine(), &owner()).unwrap();
    assert_eq!(good.provider_id.as_deref(), Some("metal://one"));
    assert_eq!(good.labels.get("example.com/rack").map(String::as_str), Some("r1"));
    let long = "x".repeat(64);
    let bad: [(&str, instances::Instance); 7] = [
        ("zone", instances::Instance { zone: Some("not a label".into()), ..machine() }),
        ("region", instances::Instance { region: Some("-dash".into()), ..machine() }),
        ("type", instances::Instance { instance_type: Some(long.clone()), ..machine() }),
        ("labels", instances::Instance { labels: vec![(String::new(), String::new()); 65], ..machine() }),
        ("label key", instances::Instance { labels: vec![("a/b/c".into(), String::new())], ..machine() }),
        ("label value", instances::Instance { labels: vec![("a/b".into(), "?".into())], ..machine() }),
        (
            "twice",
            instances::Instance { labels: vec![("a".into(), "1".into()), ("a".into(), "2".into())], ..machine() },
        ),
    ];
    for (what, it) in bad {
        assert!(instance(it, &owner()).is_err(), "{what}");
    }
}

#[test]
fn empty_strings_count_as_absent() {
    let empty = || Some(String::new());
    let it = instances::Instance {
        provider_id: empty(),
        zone: empty(),
        region: empty(),
        instance_type: empty(),
        ..machine()
    };
    let it = instance(it, &owner()).unwrap();
    assert_eq!((it.provider_id, it.zone, it.region, it.instance_type), (None, None, None, None));
}

#[test]
fn kubernetes_labels_are_ignored() {
    let all = ["kubernetes.io/a", "node.kubernetes.io/b", "k8s.io/c", "x.k8s.io/d", "notk8s.io/e", "f"];
    let all = all.map(|key| (key.to_owned(), "1".to_owned())).to_vec();
    assert_eq!(labels(all).unwrap().into_keys().collect::<Vec<_>>(), ["f", "notk8s.io/e"]);
}

#[test]
fn addresses_are_validated_and_canonicalized() {
    use wit::AddressKind::{ExternalDns, ExternalIp, Hostname, InternalIp};
    let table = [
        (InternalIp, "10.0.0.1", Some("10.0.0.1")),
        (ExternalIp, "2001:DB8:0::1", Some("2001:db8::1")),
        (InternalIp, "10.0.0.1/24", None),
        (InternalIp, "010.0.0.1", None),
        (InternalIp, "host", None),
        (Hostname, "Node_1.local", Some("Node_1.local")),
        (ExternalDns, "a b", None),
        (ExternalDns, "", None),
    ];
    for (kind, text, expected) in table {
        let found = address(node_address(kind, text)).ok().map(|it| it.address);
        assert_eq!(found.as_deref(), expected, "{text}");
    }
    let many = vec![node_address(Hostname, "a"); 65];
    assert_eq!(addresses(many, address), Err(AnswerError::TooMany { what: "addresses", count: 65, limit: 64 }));
}

// Holds: SEC-16, OPS-80
#[test]
fn an_instance_with_a_special_address_is_rejected() {
    use wit::AddressKind::{ExternalIp, Hostname};
    for (kind, text) in [(ExternalIp, "127.0.0.1"), (Hostname, "169.254.169.254"), (ExternalIp, "::ffff:10.0.0.1")] {
        let bad = instances::Instance { addresses: vec![node_address(kind, text)], ..machine() };
        let refused = instance(bad, &owner()).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("address {text} is rejected: it is ")), "{refused}");
    }
    let noted = routes::Route {
        name: "r-1".into(),
        target_node: None,
        target_addresses: Some(vec![node_address(ExternalIp, "127.0.0.1")]),
        destination_cidr: "10.1.2.0/24".into(),
        blackhole: false,
    };
    assert!(route(noted).is_ok(), "what a route has noted is only compared");
}

// Holds: SEC-16, OPS-81
#[test]
fn a_load_balancer_with_a_cluster_address_is_rejected() {
    let rules = IngressRules { pods: vec!["10.244.0.0/16".parse().unwrap()], ..IngressRules::default() };
    let service = cloud::Service { cluster_ips: vec!["10.96.0.7".into()], ..cloud::Service::default() };
    let status = |ip: &str| {
        let point = wit::Ingress { ip: Some(ip.into()), hostname: None, ip_mode: None, ports: Vec::new() };
        wit::LoadBalancerStatus { ingress: vec![point] }
    };
    assert!(load_balancer(status("192.0.2.1"), &service, &rules).is_ok());
    for ip in ["10.244.1.1", "10.96.0.7", "169.254.169.254"] {
        let refused = load_balancer(status(ip), &service, &rules).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("ingress address {ip} is rejected: it is ")), "{refused}");
    }
}

#[test]
fn load_balancer_ingress_points_are_validated() {
    let service =
        |ports| cloud::Service { ports: vec![cloud::ServicePort::default(); ports], ..cloud::Service::default() };
    let ingress = |point| ingress(point, &service(1), &IngressRules::default());
    let point = |ip: Option<&str>, hostname: Option<&str>| wit::Ingress {
        ip: ip.map(Into::into),
        hostname: hostname.map(Into::into),
        ip_mode: Some(wit::IpMode::Vip),
        ports: Vec::new(),
    };
    let table = [
        (Some("192.0.2.1"), None, true),
        (None, Some("lb.example.com"), true),
        (Some("192.0.2.1"), Some("lb.example.com"), true),
        (None, None, false),
        (Some(""), Some(""), false),
        (Some("192.0.2.256"), None, false),
        (None, Some("192.0.2.1"), false),
        (None, Some("LB.example.com"), false),
    ];
    for (ip, hostname, expected) in table {
        assert_eq!(ingress(point(ip, hostname)).is_ok(), expected, "{ip:?} {hostname:?}");
    }
    assert_eq!(
        ingress(point(None, Some("lb"))).unwrap().ip_mode,
        None,
        "the API server refuses a mode without address"
    );
    let many = wit::LoadBalancerStatus { ingress: vec![point(Some("192.0.2.1"), None); 65] };
    assert!(load_balancer(many, &service(1), &IngressRules::default()).is_err());
    let port = wit::PortStatus { port: 80, transport: wit::Transport::Tcp, error: Some("PortTaken".into()) };
    let with = |ports: Vec<_>| wit::Ingress { ports, ..point(Some("192.0.2.1"), None) };
    assert!(ingress(with(vec![port.clone()])).is_ok());
    assert!(ingress(with(vec![port.clone(), port.clone()])).is_err());
    assert!(ingress(with(vec![wit::PortStatus { error: Some("not a word".into()), ..port }])).is_err());
}

#[test]
fn an_invalid_route_fails_the_list() {
    let good = routes::Route {
        name: "r-1".into(),
        target_node: Some("node-1".into()),
        target_addresses: None,
        destination_cidr: "10.1.2.3/24".into(),
        blackhole: false,
    };
    assert_eq!(route(good.clone()).unwrap().destination_cidr, "10.1.2.0/24");
    let bad = [
        routes::Route { destination_cidr: "10.1.2.0".into(), ..good.clone() },
        routes::Route { destination_cidr: "10.1.2.0/33".into(), ..good.clone() },
        routes::Route { name: String::new(), ..good.clone() },
        routes::Route { name: "a\nb".into(), ..good.clone() },
        routes::Route { target_node: Some("a b".into()), ..good.clone() },
    ];
    let page = |routes: Vec<routes::Route>| routes::RoutePage { routes, next: Some("p2".into()) };
    for it in bad {
        assert!(route_page(page(vec![good.clone(), it.clone()]), 0, 10).is_err(), "{}", it.name);
    }
    let (found, next) = route_page(page(vec![good.clone(), good.clone()]), 3, 5).unwrap();
    assert_eq!((found.len(), next.as_deref()), (2, Some("p2")));
    assert!(route_page(page(vec![good.clone(), good]), 4, 5).is_err(), "with those before it");
    let wordy = |bytes: usize| routes::RoutePage { routes: Vec::new(), next: Some("x".repeat(bytes)) };
    assert!(route_page(wordy(4096), 0, 1).is_ok() && route_page(wordy(4097), 0, 1).is_err());
}

#[test]
fn instance_annotations_must_have_a_prefix_of_the_plugin() {
    let with =
        |key: &str, value: &str| instances::Instance { annotations: vec![(key.into(), value.into())], ..machine() };
    assert_eq!(instance(machine(), &owner()).unwrap().annotations["metal.example/rack"], "a b");
    for (key, value, taken) in [
        ("service.beta.kubernetes.io/metal-id", "", true),
        ("metal.example/x", &*"v".repeat(4096), true),
        ("metal.example/x", &*"v".repeat(4097), false),
        ("service.beta.kubernetes.io/other", "", false),
        ("metal.example/", "", false),
        ("metal.example/a b", "", false),
        ("node.skydock.dev/labels", "", false),
    ] {
        assert_eq!(instance(with(key, value), &owner()).is_ok(), taken, "{key}");
    }
    let twice =
        instances::Instance { annotations: [machine().annotations, machine().annotations].concat(), ..machine() };
    assert!(instance(twice, &owner()).is_err());
}

#[test]
fn annotation_prefixes_are_own_domains_or_known_families() {
    for (text, taken) in [
        ("metal.example/", true),
        ("loadbalancer.openstack.org/", true),
        ("service.beta.kubernetes.io/do-", true),
        ("service.beta.kubernetes.io/aws-load-balancer", true),
        ("kubernetes.io/", false),
        ("service.beta.kubernetes.io/", false),
        ("node.k8s.io/", false),
        ("skydock.dev/", false),
        ("node.skydock.dev/x", false),
        ("metal/", false),
        ("metal.example", false),
        ("", false),
        ("/x", false),
        ("metal.example/a b", false),
        ("metal.example/a/b", false),
    ] {
        assert_eq!(is_annotation_prefix(text), taken, "{text}");
    }
}

// Holds: SEC-15
#[test]
fn a_configuration_error_is_redacted() {
    let settings = plugin::Settings {
        cluster_name: "c".into(),
        cluster_cidrs: Vec::new(),
        cloud_config: Some("password: correct-horse-battery".into()),
        cloud_config_path: Some("/etc/cloud.yaml".into()),
        options: Vec::new(),
    };
    let said = "/etc/cloud.yaml: password correct-horse-battery is \u{1b}[31mwrong";
    let told = config_refusal(wit::CloudError::Invalid(said.into()), &settings).to_string();
    assert_eq!(told, "invalid: /etc/cloud.yaml: password [redacted] is \\u{1b}[31mwrong");
}

// Holds: SEC-15
#[test]
fn an_error_keeps_its_case_within_limits() {
    let retry = |after_ms| wit::Retry { after_ms, message: "wait".into() };
    let CloudError::Throttled(soon) = cloud_error(wit::CloudError::Throttled(retry(0))) else { panic!() };
    assert_eq!(soon.after, Duration::from_millis(100));
    let CloudError::InProgress(late) = cloud_error(wit::CloudError::InProgress(retry(u64::MAX))) else { panic!() };
    assert_eq!(late.after, Duration::from_secs(3600));
    let CloudError::Denied(text) = cloud_error(wit::CloudError::Denied("x\n".repeat(10_000))) else { panic!() };
    assert!(text.len() <= 1024 && !text.contains('\n'));
}

#[test]
fn an_invalid_element_fails_alone_a_wrong_length_fails_all() {
    let found = batch(3, vec![Ok(1), Ok(2), Err(wit::CloudError::ImplementedElsewhere)], |it| {
        if it == 1 { Err(AnswerError::Missing("one")) } else { Ok(it) }
    });
    let expected = vec![Err(AnswerError::Missing("one")), Ok(Ok(2)), Ok(Err(CloudError::ImplementedElsewhere))];
    assert_eq!(found, Ok(expected));
    let none: Vec<Result<i32, wit::CloudError>> = Vec::new();
    assert_eq!(batch(1, none, Ok), Err(AnswerError::Length { questions: 1, answers: 0 }));
}

#[test]
fn plugin_info_is_validated() {
    let good = || plugin::PluginInfo {
        name: "metal".into(),
        version: "1.0.0".into(),
        provider_id_prefixes: vec!["metal://".into()],
        wanted_hosts: vec!["https://*.metal.example:443".into()],
        max_batch: 0,
        unused: Vec::new(),
        overlap: plugin::Overlap::Any,
        annotation_prefixes: Vec::new(),
    };
    // A provider ID with a prefix of 512 bytes would have nothing after the prefix.
    let prefix = |bytes: usize| format!("{:x<bytes$}", "metal://");
    let machines = BTreeSet::from([Capability::Instances]);
    let found = info(good(), machines.clone()).unwrap();
    assert_eq!((found.provider.max_batch, found.wanted_hosts.len()), (100, 1));
    let largest = plugin::PluginInfo {
        name: format!("metal-2{}", "x".repeat(56)),
        version: "v".repeat(64),
        provider_id_prefixes: vec![prefix(511)],
        max_batch: 1000,
        ..good()
    };
    assert_eq!(info(largest, machines.clone()).unwrap().provider.max_batch, 1000);
    let bad = [
        plugin::PluginInfo { name: String::new(), ..good() },
        plugin::PluginInfo { name: "Metal".into(), ..good() },
        plugin::PluginInfo { name: "m".repeat(64), ..good() },
        plugin::PluginInfo { version: "v".repeat(65), ..good() },
        plugin::PluginInfo { version: "1\n2".into(), ..good() },
        plugin::PluginInfo { provider_id_prefixes: vec!["metal".into()], ..good() },
        plugin::PluginInfo { provider_id_prefixes: vec!["://".into()], ..good() },
        plugin::PluginInfo { provider_id_prefixes: vec![String::new()], ..good() },
        plugin::PluginInfo { provider_id_prefixes: Vec::new(), ..good() },
        plugin::PluginInfo { provider_id_prefixes: vec![prefix(512)], ..good() },
        plugin::PluginInfo { wanted_hosts: vec!["metal.example".into()], ..good() },
        plugin::PluginInfo { max_batch: 1001, ..good() },
        plugin::PluginInfo { unused: vec!["routes".into()], ..good() },
        plugin::PluginInfo { annotation_prefixes: vec!["kubernetes.io/".into()], ..good() },
        plugin::PluginInfo { annotation_prefixes: vec!["metal.example/".into(); 17], ..good() },
    ];
    for it in bad {
        assert!(info(it, machines.clone()).is_err());
    }
    let routes = plugin::PluginInfo { provider_id_prefixes: Vec::new(), ..good() };
    assert!(info(routes, BTreeSet::from([Capability::Routes])).is_ok());
}
