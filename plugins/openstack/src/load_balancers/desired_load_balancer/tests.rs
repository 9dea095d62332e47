use super::*;

fn full() -> Features {
    Features::of((2, 27), "amphora")
}

fn config(more: &str) -> Config {
    Config::parse(&format!("[Global]\nauth-url=http://k\n{more}"), &[]).unwrap()
}

fn service(annotations: &[(&str, &str)]) -> Service {
    Service {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "u".to_owned(),
        annotations: annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ports: vec![port(Transport::Tcp, 80, 30080)],
        ip_families: vec![IpFamily::Ipv4],
        ..Service::default()
    }
}

fn port(transport: Transport, port: u16, node_port: u16) -> ServicePort {
    ServicePort {
        name: String::new(),
        transport,
        app_protocol: None,
        port,
        target_port: "8080".to_owned(),
        node_port,
    }
}

fn desired(config: &Config, service: &Service) -> DesiredLoadBalancer {
    DesiredLoadBalancer::of(config, "c", full(), service).unwrap()
}

fn annotated(annotations: &[(&str, &str)]) -> DesiredLoadBalancer {
    desired(&config(""), &service(annotations))
}

fn rejection(service: &Service) -> String {
    let desired = DesiredLoadBalancer::of(&config(""), "c", full(), service);
    desired.map_or_else(|reason| reason, |desired| desired.rejected.unwrap())
}

const CLASSES: &str = "[LoadBalancer]\nfloating-network-id=fn\nfloating-subnet-id=fs\nsubnet-id=s\nnetwork-id=n\n\
    [LoadBalancerClass \"dmz\"]\nfloating-network-id=cfn\nfloating-subnet=cp*\nsubnet-id=cs\nnetwork-id=cn\nmember-subnet-id=cm";

#[test]
fn load_balancer_defaults_match_upstream() {
    let desired = annotated(&[]);
    assert_eq!(
        (desired.name.as_str(), desired.lb_method.as_str()),
        ("kube_service_c_shop_web", "ROUND_ROBIN")
    );
    assert_eq!(
        (
            desired.provider.as_str(),
            desired.internal,
            desired.affinity
        ),
        ("amphora", false, false)
    );
    assert_eq!(desired.listener.connection_limit, -1);
    assert_eq!(
        desired.listener.timeouts,
        Some(ListenerTimeouts {
            client_data: 50_000,
            member_connect: 5000,
            member_data: 50_000,
            tcp_inspect: 0,
        })
    );
    assert_eq!(
        desired.listener.allowed_cidrs,
        Some(vec!["0.0.0.0/0".to_owned()])
    );

    let port = &desired.ports[0];
    assert_eq!(
        (port.listener_protocol, port.pool_protocol, &port.monitor),
        ("TCP", "TCP", &None)
    );
    assert_eq!(desired.vip, Vip::default());
}

#[test]
fn annotations_configure_listeners() {
    let desired = annotated(&[
        (annotation::CONNECTION_LIMIT, "500"),
        (annotation::TIMEOUT_CLIENT_DATA, "1"),
        (annotation::TIMEOUT_MEMBER_CONNECT, "2"),
        (annotation::TIMEOUT_MEMBER_DATA, "3"),
        (annotation::TIMEOUT_TCP_INSPECT, "4"),
        (annotation::LB_METHOD, "LEAST_CONNECTIONS"),
        (annotation::FLAVOR_ID, "f1"),
        (annotation::AVAILABILITY_ZONE, "az1"),
    ]);
    assert_eq!(
        (desired.listener.connection_limit, desired.listener.timeouts),
        (
            500,
            Some(ListenerTimeouts {
                client_data: 1,
                member_connect: 2,
                member_data: 3,
                tcp_inspect: 4,
            })
        )
    );
    assert_eq!(
        (desired.lb_method.as_str(), desired.flavor_id.as_str()),
        ("LEAST_CONNECTIONS", "f1")
    );
    assert_eq!(desired.availability_zone, "az1");
}

#[test]
fn proxy_protocol_applies_only_to_tcp_pools() {
    let mut service = service(&[(annotation::PROXY_PROTOCOL, "v2")]);
    service.ports.push(port(Transport::Udp, 53, 30053));
    let desired = desired(&config(""), &service);
    let protocols: Vec<_> = desired
        .ports
        .iter()
        .map(|port| (port.listener_protocol, port.pool_protocol))
        .collect();
    assert_eq!(protocols, [("TCP", "PROXYV2"), ("UDP", "UDP")]);

    assert!(desired.speaks_proxy());

    for (value, protocol) in [
        ("true", "PROXY"),
        ("v1", "PROXY"),
        ("V2", "PROXYV2"),
        ("false", "TCP"),
        ("yes", "TCP"),
    ] {
        assert_eq!(
            annotated(&[(annotation::PROXY_PROTOCOL, value)]).ports[0].pool_protocol,
            protocol,
            "{value}"
        );
    }
}

#[test]
fn x_forwarded_for_and_tls_set_the_listener_protocol() {
    let http = annotated(&[(annotation::X_FORWARDED_FOR, "true")]);
    assert_eq!(
        (http.ports[0].listener_protocol, http.ports[0].pool_protocol),
        ("HTTP", "HTTP")
    );

    let tls = annotated(&[
        (annotation::TLS_CONTAINER_REF, "http://b/v1/containers/1"),
        (annotation::X_FORWARDED_FOR, "true"),
    ]);
    assert_eq!(
        (tls.ports[0].listener_protocol, tls.ports[0].pool_protocol),
        ("TERMINATED_HTTPS", "HTTP")
    );

    let by_config = desired(
        &config("[LoadBalancer]\ndefault-tls-container-ref=http://b/v1/containers/1"),
        &service(&[]),
    );
    assert_eq!(by_config.ports[0].listener_protocol, "TERMINATED_HTTPS");
}

#[test]
fn rejects_invalid_services() {
    let both = service(&[
        (annotation::PROXY_PROTOCOL, "true"),
        (annotation::X_FORWARDED_FOR, "true"),
    ]);
    assert!(rejection(&both).contains("are mutually exclusive"));
    assert!(
        rejection(&service(&[(annotation::CLASS, "none")]))
            .contains("unknown LoadBalancerClass `none`")
    );
    assert!(
        rejection(&Service {
            ports: Vec::new(),
            ..service(&[])
        })
        .contains("no ports")
    );

    let ranges = Service {
        source_ranges: vec!["10.0.0.0".to_owned()],
        ..service(&[])
    };
    assert!(rejection(&ranges).contains("`10.0.0.0` is not a valid CIDR"));
}

#[test]
fn source_ranges_are_filtered_by_ip_family() {
    let with = |ranges: &[&str], family: IpFamily| Service {
        source_ranges: ranges.iter().map(|range| (*range).to_owned()).collect(),
        ip_families: vec![family],
        ..service(&[])
    };
    let cidrs = |service: &Service| {
        desired(&config(""), service)
            .listener
            .allowed_cidrs
            .unwrap()
    };
    assert_eq!(
        cidrs(&with(&["10.1.2.3/8", "2001:db8::/32"], IpFamily::Ipv4)),
        ["10.0.0.0/8"]
    );
    assert_eq!(
        cidrs(&with(&["10.1.2.3/8", "2001:db8::/32"], IpFamily::Ipv6)),
        ["2001:db8::/32"]
    );
    assert_eq!(cidrs(&with(&[], IpFamily::Ipv6)), ["::/0"]);
    assert!(
        rejection(&with(&["10.0.0.0/8"], IpFamily::Ipv6)).contains("no range has the IP family")
    );
}

#[test]
fn source_ranges_that_are_not_enforced_are_reported() {
    let ovn = Features::of((2, 27), "ovn");
    let service = Service {
        source_ranges: vec!["10.0.0.0/8".to_owned()],
        ..service(&[])
    };
    let ignored = |config: &Config| {
        DesiredLoadBalancer::of(config, "c", ovn, &service)
            .unwrap()
            .ignored
            .len()
    };
    assert_eq!(ignored(&config("[LoadBalancer]\nlb-provider=ovn")), 1);
    assert_eq!(
        ignored(&config(
            "[LoadBalancer]\nlb-provider=ovn\nmanage-security-groups=true"
        )),
        0
    );
}

#[test]
fn an_unsupported_availability_zone_is_reported() {
    let service = service(&[(annotation::AVAILABILITY_ZONE, "az1")]);
    let desired =
        DesiredLoadBalancer::of(&config(""), "c", Features::of((2, 13), "amphora"), &service)
            .unwrap();
    assert_eq!(
        (desired.availability_zone.as_str(), desired.ignored[0].0),
        ("", "LoadBalancerAvailabilityZonesIgnored")
    );
}

#[test]
fn config_and_annotations_configure_monitors() {
    let by_config = desired(
        &config("[LoadBalancer]\ncreate-monitor=true\nmonitor-delay=7s"),
        &service(&[]),
    );
    let monitor = DesiredMonitor {
        kind: "TCP",
        delay: 7,
        timeout: 3,
        max_retries: 1,
        max_retries_down: 3,
    };
    assert_eq!(by_config.ports[0].monitor, Some(monitor));

    let annotated = annotated(&[
        (annotation::ENABLE_HEALTH_MONITOR, "true"),
        (annotation::HEALTH_MONITOR_DELAY, "11"),
        (annotation::HEALTH_MONITOR_TIMEOUT, "12"),
        (annotation::HEALTH_MONITOR_MAX_RETRIES, "4"),
        (annotation::HEALTH_MONITOR_MAX_RETRIES_DOWN, "5"),
    ]);
    let monitor = DesiredMonitor {
        kind: "TCP",
        delay: 11,
        timeout: 12,
        max_retries: 4,
        max_retries_down: 5,
    };
    assert_eq!(annotated.ports[0].monitor, Some(monitor));

    let off = service(&[(annotation::ENABLE_HEALTH_MONITOR, "false")]);
    assert_eq!(
        desired(&config("[LoadBalancer]\ncreate-monitor=true"), &off).ports[0].monitor,
        None
    );
}

#[test]
fn local_traffic_is_probed_at_the_health_check_port() {
    let local = Service {
        external_traffic_policy: TrafficPolicy::Local,
        health_check_node_port: 31000,
        ports: vec![
            port(Transport::Tcp, 80, 30080),
            port(Transport::Udp, 53, 30053),
        ],
        ..service(&[])
    };
    let monitored = config("[LoadBalancer]\ncreate-monitor=true");
    let kinds = |features: Features, service: &Service| {
        let desired = DesiredLoadBalancer::of(&monitored, "c", features, service).unwrap();
        desired
            .ports
            .iter()
            .map(|port| (port.monitor.as_ref().unwrap().kind, port.monitor_port))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(full(), &local),
        [("HTTP", Some(31000)), ("HTTP", Some(31000))]
    );
    assert_eq!(
        kinds(Features::of((2, 15), "amphora"), &local),
        [("HTTP", Some(31000)), ("UDP-CONNECT", None)]
    );
    assert_eq!(
        kinds(Features::of((2, 27), "ovn"), &local),
        [("TCP", None), ("UDP-CONNECT", None)]
    );

    let cluster = Service {
        external_traffic_policy: TrafficPolicy::Cluster,
        ..local.clone()
    };
    assert_eq!(
        kinds(full(), &cluster),
        [("TCP", None), ("UDP-CONNECT", None)]
    );
}

/// Otherwise, nodes without a Pod of the Service would receive its connections.
#[test]
fn local_traffic_is_probed_unless_the_service_disables_it() {
    let local = |annotations: &[(&str, &str)]| Service {
        external_traffic_policy: TrafficPolicy::Local,
        health_check_node_port: 31000,
        ..service(annotations)
    };
    let checked = |config: &Config, features: Features, service: &Service| {
        let desired = DesiredLoadBalancer::of(config, "c", features, service).unwrap();
        let port = &desired.ports[0];
        let is_warned = desired
            .ignored
            .iter()
            .any(|(reason, _)| *reason == LOCAL_WITHOUT_MONITOR);
        (
            port.monitor.as_ref().map(|it| it.kind),
            port.monitor_port,
            is_warned,
        )
    };
    let off = [(annotation::ENABLE_HEALTH_MONITOR, "false")];
    let on = [(annotation::ENABLE_HEALTH_MONITOR, "true")];
    let ovn = Features::of((2, 27), "ovn");
    let plain = config("");
    for (features, service, expected) in [
        (full(), local(&[]), (Some("HTTP"), Some(31000), false)),
        (full(), local(&off), (None, None, true)),
        (ovn, local(&[]), (None, None, true)),
        (ovn, local(&on), (Some("TCP"), None, false)),
        (full(), service(&off), (None, None, false)),
    ] {
        assert_eq!(
            checked(&plain, features, &service),
            expected,
            "{:?}",
            service.annotations
        );
    }
    // Files in use have this, which Octavia rejects.
    let longer = config("[LoadBalancer]\nmonitor-timeout=30s\nmonitor-max-retries=20");
    let monitor = desired(&longer, &local(&[]))
        .ports
        .remove(0)
        .monitor
        .unwrap();

    assert_eq!(
        (monitor.delay, monitor.timeout, monitor.max_retries),
        (5, 5, 10)
    );
}

#[test]
fn classes_annotations_and_defaults_have_upstream_precedence() {
    let config = config(CLASSES);
    let plain = desired(&config, &service(&[]));
    assert_eq!(
        (plain.vip.subnet_id.as_str(), plain.vip.network_id.as_str()),
        ("s", "n")
    );
    assert_eq!(
        (
            plain.floating.network_id.as_str(),
            plain.floating.subnet.id.as_str()
        ),
        ("fn", "fs")
    );

    let class = desired(
        &config,
        &service(&[(annotation::CLASS, "dmz"), (annotation::SUBNET_ID, "a")]),
    );
    assert_eq!(
        (class.vip.subnet_id.as_str(), class.vip.network_id.as_str()),
        ("cs", "cn")
    );
    assert_eq!(
        (
            class.floating.network_id.as_str(),
            class.floating.subnet.pattern.as_str()
        ),
        ("cfn", "cp*")
    );
    assert_eq!(class.member_subnet, "cm");

    let annotated = desired(
        &config,
        &service(&[
            (annotation::SUBNET_ID, "a"),
            (annotation::NETWORK_ID, "b"),
            (annotation::MEMBER_SUBNET_ID, "m"),
            (annotation::FLOATING_NETWORK_ID, "f"),
            (annotation::FLOATING_SUBNET_TAGS, "t"),
            (annotation::PORT_ID, "p"),
        ]),
    );
    assert_eq!(
        (
            annotated.vip.subnet_id.as_str(),
            annotated.vip.network_id.as_str()
        ),
        ("a", "b")
    );
    assert_eq!(
        (
            annotated.member_subnet.as_str(),
            annotated.vip.port_id.as_str()
        ),
        ("m", "p")
    );
    assert_eq!(
        (
            annotated.floating.network_id.as_str(),
            annotated.floating.subnet.tags.as_str()
        ),
        ("f", "t")
    );
    assert_eq!(
        desired(&config, &service(&[(annotation::SUBNET_ID, "a")])).member_subnet,
        "a"
    );
}

#[test]
fn an_internal_service_has_a_vip_but_no_floating_ip() {
    let service = Service {
        load_balancer_ip: Some("10.0.0.9".to_owned()),
        ..service(&[(annotation::INTERNAL, "true")])
    };
    let internal = desired(&config(CLASSES), &service);
    assert!(internal.internal && internal.floating == FloatingIpSettings::default());
    assert_eq!(internal.vip.address, "10.0.0.9");

    let external = Service {
        annotations: Vec::new(),
        ..service.clone()
    };
    let external = desired(&config(CLASSES), &external);
    assert_eq!(
        (
            external.vip.address.as_str(),
            external.floating.address.as_str()
        ),
        ("", "10.0.0.9")
    );

    let forced = desired(
        &config("[LoadBalancer]\ninternal-lb=true"),
        &Service {
            annotations: Vec::new(),
            ..service
        },
    );
    assert!(forced.internal);
}

#[test]
fn an_unreadable_internal_annotation_is_rejected() {
    for (value, internal, is_rejected) in [
        ("true", true, false),
        ("True", true, false),
        (" true", true, false),
        ("1", true, false),
        ("False", false, false),
        ("yes", true, true),
        ("", true, true),
    ] {
        let desired = annotated(&[(annotation::INTERNAL, value)]);
        assert_eq!(
            (desired.internal, desired.rejected.is_some()),
            (internal, is_rejected),
            "{value}"
        );
        assert_eq!(desired.ignored, [], "{value}");
    }
    let yes = service(&[(annotation::INTERNAL, "yes")]);
    let forced = desired(&config("[LoadBalancer]\ninternal-lb=true"), &yes);
    assert_eq!((forced.internal, forced.rejected), (true, None));
}

#[test]
fn an_ipv6_service_uses_load_balancer_ip_as_its_vip() {
    let service = Service {
        load_balancer_ip: Some("2001:db8::9".to_owned()),
        ip_families: vec![IpFamily::Ipv6],
        ..service(&[])
    };
    assert_eq!(desired(&config(""), &service).vip.address, "2001:db8::9");
}

#[test]
fn node_selectors_may_be_pairs_or_keys() {
    let by_config = desired(
        &config("[LoadBalancer]\nnode-selector=\"env=production, region=default\""),
        &service(&[]),
    );
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        by_config.node_selector,
        [pair("env", "production"), pair("region", "default")]
    );
    assert_eq!(
        annotated(&[(annotation::NODE_SELECTOR, "env, a=b=c")]).node_selector,
        [pair("env", ""), pair("a", "b=c")]
    );

    let none = service(&[(annotation::NODE_SELECTOR, "")]);
    assert!(!desired(&config("[LoadBalancer]\nnode-selector=a=b"), &none).selects());
}

#[test]
fn session_affinity_is_requested() {
    let service = Service {
        client_ip_affinity_seconds: Some(10_800),
        ..service(&[])
    };
    assert!(desired(&config(""), &service).affinity);
}

#[test]
fn a_setting_that_forbids_external_load_balancers_is_reported() {
    for (setting, value, reported) in [
        ("true", "false", true),
        ("true", "no", true),
        ("true", "True", false),
        ("false", "false", false),
    ] {
        let config = config(&format!("[LoadBalancer]\ninternal-lb={setting}"));
        let desired = desired(&config, &service(&[(annotation::INTERNAL, value)]));
        assert_eq!(
            desired.ignored.len(),
            usize::from(reported),
            "{setting} {value}"
        );
        assert_eq!(desired.internal, setting == "true");
    }
}
