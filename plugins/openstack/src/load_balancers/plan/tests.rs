use std::collections::BTreeMap;

use skydock_sdk::types::{Service, ServicePort, TrafficPolicy, Transport};

use super::*;
use crate::{
    cloud::Features,
    config::Config,
    load_balancers::{annotation, desired_load_balancer::DesiredLoadBalancer},
    services::octavia::{LoadBalancer, Persistence, Reference},
};

const NAME: &str = "kube_service_c_shop_web";

fn service(annotations: &[(&str, &str)], ports: &[u16]) -> Service {
    let port = |port: &u16| ServicePort {
        name: String::new(),
        transport: Transport::Tcp,
        app_protocol: None,
        port: *port,
        target_port: "8080".to_owned(),
        node_port: 30000 + port,
    };
    Service {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        annotations: annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ports: ports.iter().map(port).collect(),
        ..Service::default()
    }
}

fn desired_with(config: &str, service: &Service) -> DesiredLoadBalancer {
    let config = Config::parse(&format!("[Global]\nauth-url=http://k\n{config}"), &[]).unwrap();
    DesiredLoadBalancer::of(&config, "c", Features::of((2, 27), "amphora"), service).unwrap()
}

fn desired(annotations: &[(&str, &str)], ports: &[u16]) -> DesiredLoadBalancer {
    desired_with("", &service(annotations, ports))
}

fn member_nodes() -> Vec<MemberNode> {
    let node = |number: u8| MemberNode {
        name: format!("n{number}"),
        address: format!("10.0.0.{number}"),
        ..MemberNode::default()
    };
    vec![node(1), node(2)]
}

fn owner() -> Ownership {
    Ownership {
        owner: true,
        attached: true,
        services: 1,
        renamed_from: None,
    }
}

/// Returns the resources in Octavia after this request.
fn created(desired: &DesiredLoadBalancer) -> ObservedLoadBalancer {
    let mut observed = ObservedLoadBalancer {
        load_balancer: LoadBalancer {
            id: "lb".into(),
            name: NAME.into(),
            tags: vec![NAME.into()],
            ..LoadBalancer::default()
        },
        ..ObservedLoadBalancer::default()
    };
    for port in &desired.ports {
        let index = port.index;
        let ListenerTimeouts {
            client_data,
            member_connect,
            member_data,
            tcp_inspect,
        } = desired.listener.timeouts.unwrap();
        let headers = BTreeMap::from([("X-Forwarded-For".to_owned(), "true".to_owned())]);
        observed.listeners.push(Listener {
            id: format!("l{index}"),
            name: format!("listener_{index}_{NAME}"),
            protocol: port.listener_protocol.to_owned(),
            protocol_port: port.port,
            connection_limit: Some(desired.listener.connection_limit),
            insert_headers: Some(if port.forwards(desired) {
                headers
            } else {
                BTreeMap::new()
            }),
            default_tls_container_ref: None,
            timeout_client_data: Some(client_data),
            timeout_member_connect: Some(member_connect),
            timeout_member_data: Some(member_data),
            timeout_tcp_inspect: Some(tcp_inspect),
            allowed_cidrs: desired.listener.allowed_cidrs.clone(),
            tags: vec![NAME.to_owned()],
        });
        let monitor = port.monitor.as_ref().map(|monitor| Monitor {
            id: format!("m{index}"),
            name: format!("monitor_{index}_{NAME}"),
            kind: monitor.kind.to_owned(),
            delay: monitor.delay,
            timeout: monitor.timeout,
            max_retries: monitor.max_retries,
            max_retries_down: monitor.max_retries_down,
            url_path: (monitor.kind == "HTTP").then(|| "/healthz".to_owned()),
        });
        observed.pools.push(Pool {
            id: format!("p{index}"),
            name: format!("pool_{index}_{NAME}"),
            protocol: port.pool_protocol.to_owned(),
            lb_algorithm: desired.lb_method.clone(),
            session_persistence: desired.affinity.then(|| Persistence {
                kind: "SOURCE_IP".to_owned(),
            }),
            listeners: vec![Reference {
                id: format!("l{index}"),
            }],
            healthmonitor_id: monitor.as_ref().map(|monitor| monitor.id.clone()),
        });
        observed
            .monitors
            .extend(monitor.map(|monitor| (monitor.id.clone(), monitor)));
        let member = |wanted: DesiredMember| Member {
            id: format!("{}-{}", wanted.name, wanted.port),
            name: wanted.name,
            address: wanted.address,
            protocol_port: wanted.port,
            monitor_port: wanted.monitor_port,
            subnet_id: Some(desired.member_subnet.clone()).filter(|subnet| !subnet.is_empty()),
        };
        observed.members.insert(
            format!("p{index}"),
            members(port, &member_nodes())
                .into_iter()
                .map(member)
                .collect(),
        );
    }
    observed
}

/// Returns the steps as lines.
fn steps(desired: &DesiredLoadBalancer, observed: &ObservedLoadBalancer) -> Vec<String> {
    steps_of(desired, observed, &owner())
}

fn steps_of(
    desired: &DesiredLoadBalancer,
    observed: &ObservedLoadBalancer,
    ownership: &Ownership,
) -> Vec<String> {
    plan(desired, &member_nodes(), observed, ownership, "c")
        .steps
        .iter()
        .map(line)
        .collect()
}

fn line(step: &Step) -> String {
    let body = step
        .body
        .as_ref()
        .map(|body| format!(" {body}"))
        .unwrap_or_default();
    format!("{} {}{body}", step.method, step.path)
}

fn lines<const N: usize>(lines: [&str; N]) -> Vec<String> {
    lines.map(str::to_owned).to_vec()
}

#[test]
fn an_up_to_date_load_balancer_needs_no_steps() {
    for annotations in [
        &[][..],
        &[
            (annotation::ENABLE_HEALTH_MONITOR, "true"),
            (annotation::X_FORWARDED_FOR, "true"),
        ],
    ] {
        let desired = desired(annotations, &[80, 443]);
        assert_eq!(steps(&desired, &created(&desired)), Vec::<String>::new());
    }
}

#[test]
fn a_listener_is_updated_to_match_the_service() {
    let observed = created(&desired(&[], &[80]));
    for (annotations, body) in [
        (
            [(annotation::CONNECTION_LIMIT, "5")],
            r#"{"connection_limit":5}"#,
        ),
        (
            [(annotation::TIMEOUT_TCP_INSPECT, "7")],
            r#"{"timeout_tcp_inspect":7}"#,
        ),
        (
            [(annotation::TIMEOUT_CLIENT_DATA, "7")],
            r#"{"timeout_client_data":7}"#,
        ),
        (
            [(annotation::TIMEOUT_MEMBER_CONNECT, "7")],
            r#"{"timeout_member_connect":7}"#,
        ),
        (
            [(annotation::TIMEOUT_MEMBER_DATA, "7")],
            r#"{"timeout_member_data":7}"#,
        ),
    ] {
        let expected = format!(r#"PUT /lbaas/listeners/l0 {{"listener":{body}}}"#);
        assert_eq!(steps(&desired(&annotations, &[80]), &observed), [expected]);
    }
    let ranges = Service {
        source_ranges: vec!["10.0.0.0/8".to_owned()],
        ..service(&[], &[80])
    };
    let expected = r#"PUT /lbaas/listeners/l0 {"listener":{"allowed_cidrs":["10.0.0.0/8"]}}"#;

    assert_eq!(steps(&desired_with("", &ranges), &observed), [expected]);
}

#[test]
fn a_changed_protocol_recreates_the_listener() {
    let observed = created(&desired(&[], &[80]));
    let steps = steps(
        &desired(&[(annotation::X_FORWARDED_FOR, "true")], &[80]),
        &observed,
    );
    assert_eq!(
        steps[..2],
        lines(["DELETE /lbaas/pools/p0", "DELETE /lbaas/listeners/l0"])
    );
    assert!(
        steps[2].starts_with("POST /lbaas/listeners ") && steps[2].contains(r#""protocol":"HTTP""#),
        "{steps:#?}"
    );
}

#[test]
fn changed_ports_create_and_delete_listeners() {
    let monitored = [(annotation::ENABLE_HEALTH_MONITOR, "true")];
    let steps = steps(
        &desired(&monitored, &[80, 8080]),
        &created(&desired(&monitored, &[80, 443])),
    );
    assert_eq!(
        steps[..2],
        lines(["DELETE /lbaas/pools/p1", "DELETE /lbaas/listeners/l1"])
    );
    assert!(
        steps[2].starts_with(r#"POST /lbaas/listeners {"listener":{"allowed_cidrs":["0.0.0.0/0"]"#),
        "{steps:#?}"
    );
    assert_eq!(
        steps[3..],
        lines([
            r#"POST /lbaas/pools {"pool":{"lb_algorithm":"ROUND_ROBIN","listener_id":"{made}","name":"pool_1_kube_service_c_shop_web","protocol":"TCP"}}"#,
            r#"PUT /lbaas/pools/{made}/members {"members":[{"address":"10.0.0.1","name":"n1","protocol_port":38080},{"address":"10.0.0.2","name":"n2","protocol_port":38080}]}"#,
            r#"POST /lbaas/healthmonitors {"healthmonitor":{"delay":5,"max_retries":1,"max_retries_down":3,"name":"monitor_1_kube_service_c_shop_web","pool_id":"{made}","timeout":3,"type":"TCP"}}"#,
        ])
    );
}

#[test]
fn steps_use_the_id_of_the_part_created_before() {
    let mut observed = created(&desired(&[], &[80]));
    observed.listeners.clear();
    let Plan { steps, .. } = plan(
        &desired(&[], &[80]),
        &member_nodes(),
        &observed,
        &owner(),
        "c",
    );
    assert_eq!(
        steps.iter().map(Step::has_parts).collect::<Vec<_>>(),
        [true, true, false]
    );

    let lines = |made| {
        steps
            .iter()
            .map(|step| step.clone().with_created_id(made).as_ref().map(line))
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(None)[1..], [None, None]);

    let [listener, pool, members] = lines(Some("ab-1")).try_into().unwrap();
    assert_eq!(listener, Some(line(&steps[0])));
    assert!(pool.unwrap().contains(r#""listener_id":"ab-1""#));
    assert!(
        members
            .unwrap()
            .starts_with("PUT /lbaas/pools/ab-1/members ")
    );
}

#[test]
fn incomplete_parts_are_completed_in_order() {
    let desired = desired(&[(annotation::ENABLE_HEALTH_MONITOR, "true")], &[80]);
    let mut observed = created(&desired);
    observed.pools[0].healthmonitor_id = None;
    observed.monitors.clear();
    let monitor = r#"POST /lbaas/healthmonitors {"healthmonitor":{"delay":5,"max_retries":1,"max_retries_down":3,"name":"monitor_0_kube_service_c_shop_web","pool_id":"p0","timeout":3,"type":"TCP"}}"#;

    assert_eq!(steps(&desired, &observed), [monitor]);

    observed.members.clear();
    let members = r#"PUT /lbaas/pools/p0/members {"members":[{"address":"10.0.0.1","name":"n1","protocol_port":30080},{"address":"10.0.0.2","name":"n2","protocol_port":30080}]}"#;
    assert_eq!(steps(&desired, &observed), [members, monitor]);

    observed.pools.clear();
    let pool = r#"POST /lbaas/pools {"pool":{"lb_algorithm":"ROUND_ROBIN","listener_id":"l0","name":"pool_0_kube_service_c_shop_web","protocol":"TCP"}}"#;
    let of_new = [members, monitor].map(|step| step.replace("p0", "{made}"));
    assert_eq!(
        steps(&desired, &observed),
        [pool.to_owned()]
            .into_iter()
            .chain(of_new)
            .collect::<Vec<_>>()
    );
}

#[test]
fn members_are_set_with_one_request() {
    let desired = desired_with("[LoadBalancer]\nmember-subnet-id=s", &service(&[], &[80]));
    let mut observed = created(&desired);
    let pool = observed.members.get_mut("p0").unwrap();
    pool[0].address = "10.0.0.9".to_owned();
    let members = r#"PUT /lbaas/pools/p0/members {"members":[{"address":"10.0.0.1","name":"n1","protocol_port":30080,"subnet_id":"s"},{"address":"10.0.0.2","monitor_port":null,"name":"n2","protocol_port":30080}]}"#;
    assert_eq!(steps(&desired, &observed), [members]);
    let Plan {
        steps: only,
        shortfall: missing,
    } = plan_members(&desired, &member_nodes(), &observed, &owner(), "c");
    assert_eq!(only.iter().map(line).collect::<Vec<_>>(), [members]);
    assert_eq!(missing, None);
}

#[test]
fn changed_nodes_change_only_members() {
    let mut observed = created(&desired(&[], &[80, 443]));
    observed.members.get_mut("p1").unwrap().clear();
    let requested = desired(&[(annotation::CONNECTION_LIMIT, "5")], &[80, 443, 8080]);
    let Plan {
        steps,
        shortfall: missing,
    } = plan_members(&requested, &member_nodes(), &observed, &owner(), "c");
    assert_eq!(
        steps
            .iter()
            .map(|step| step.path.as_str())
            .collect::<Vec<_>>(),
        ["/lbaas/pools/p1/members"]
    );
    assert_eq!(missing, None, "the listener for port 8080 is not there yet");
}

/// Otherwise, nothing would show that the members do not follow the nodes.
#[test]
fn nodes_without_a_listener_are_reported() {
    let observed = created(&desired(&[], &[443]));
    let of_another = {
        let mut observed = created(&desired(&[], &[80]));
        observed.listeners[0].tags = vec!["kube_service_c_shop_other".to_owned()];
        observed
    };
    for observed in [observed, of_another] {
        let Plan {
            steps,
            shortfall: missing,
        } = plan_members(
            &desired(&[], &[80]),
            &member_nodes(),
            &observed,
            &owner(),
            "c",
        );
        assert_eq!(steps, []);
        assert_eq!(
            missing.as_deref(),
            Some("load balancer lb has no listener of this Service")
        );
    }
}

#[test]
fn serial_providers_change_members_one_by_one() {
    let desired = desired_with(
        "[LoadBalancer]\nprovider-requires-serial-api-calls=true",
        &service(&[], &[80]),
    );
    let mut observed = created(&desired);
    let pool = observed.members.get_mut("p0").unwrap();
    pool[0].address = "10.0.0.9".to_owned();
    // The name that upstream uses.
    pool[1].name = "member_n2_10.0.0.2_30080".to_owned();
    pool[1].monitor_port = Some(31000);

    assert_eq!(
        steps(&desired, &observed),
        lines([
            r#"POST /lbaas/pools/p0/members {"member":{"address":"10.0.0.1","name":"n1","protocol_port":30080}}"#,
            r#"PUT /lbaas/pools/p0/members/n2-30080 {"member":{"monitor_port":null}}"#,
            "DELETE /lbaas/pools/p0/members/n1-30080",
        ])
    );
    assert_eq!(
        steps(&desired, &created(&desired)),
        lines([]),
        "members that are as wanted are left"
    );
    assert!(
        body::load_balancer(&desired, &member_nodes())["loadbalancer"]
            .get("listeners")
            .is_none()
    );
}

#[test]
fn pools_follow_method_affinity_and_protocol() {
    let observed = created(&desired(&[], &[80]));
    let plan = plan(
        &desired(&[(annotation::LB_METHOD, "SOURCE_IP")], &[80]),
        &member_nodes(),
        &observed,
        &owner(),
        "c",
    )
    .steps;
    assert_eq!(
        line(&plan[0]),
        r#"PUT /lbaas/pools/p0 {"pool":{"lb_algorithm":"SOURCE_IP"}}"#
    );
    assert_eq!(plan[0].optional, Some("LoadBalancerLbMethodUnknown"));

    let sticky = desired_with(
        "",
        &Service {
            client_ip_affinity_seconds: Some(1),
            ..service(&[], &[80])
        },
    );
    let expected = r#"PUT /lbaas/pools/p0 {"pool":{"session_persistence":{"type":"SOURCE_IP"}}}"#;
    assert_eq!(steps(&sticky, &observed), [expected]);

    let expected = r#"PUT /lbaas/pools/p0 {"pool":{"session_persistence":null}}"#;
    assert_eq!(steps(&desired(&[], &[80]), &created(&sticky)), [expected]);
}

const SWITCH: [&str; 2] = [
    r#"PUT /lbaas/listeners/l0 {"listener":{"default_pool_id":"{made}"}}"#,
    "DELETE /lbaas/pools/p0",
];

/// Neither the protocol of a pool nor the subnet of a member can be changed.
#[test]
fn a_pool_is_used_until_another_one_has_its_members() {
    let monitored = (annotation::ENABLE_HEALTH_MONITOR, "true");
    let proxy = desired(&[(annotation::PROXY_PROTOCOL, "v2"), monitored], &[80]);
    let replaced = steps(&proxy, &created(&desired(&[monitored], &[80])));
    assert_eq!(replaced[2..4], SWITCH);

    for (step, beginning) in replaced.iter().zip([
        r#"POST /lbaas/pools {"pool":{"lb_algorithm":"ROUND_ROBIN","loadbalancer_id":"lb","#,
        r#"PUT /lbaas/pools/{made}/members {"members":[{"address":"10.0.0.1","#,
        SWITCH[0],
        SWITCH[1],
        r#"POST /lbaas/healthmonitors {"healthmonitor":{"#,
    ]) {
        assert!(step.starts_with(beginning), "{step}");
    }
    // The listener is not changed if the new pool is rejected.
    let Plan { steps: plan, .. } = plan(
        &proxy,
        &member_nodes(),
        &created(&desired(&[monitored], &[80])),
        &owner(),
        "c",
    );
    let follows: Vec<bool> = plan.iter().map(|step| step.follows).collect();
    assert_eq!(follows, [false, true, true, true, true]);

    let step = plan[2].clone().with_created_id(Some("new")).unwrap();
    assert!(line(&step).contains(r#""default_pool_id":"new""#));
}

/// All other settings of a pool are changed in place.
#[test]
fn only_the_protocol_or_subnet_replaces_a_pool() {
    let monitored = (annotation::ENABLE_HEALTH_MONITOR, "true");
    let of = |changed: (&str, &str)| service(&[monitored, changed], &[80]);
    let none = ("", "");
    let sticky = Service {
        client_ip_affinity_seconds: Some(1),
        ..of(none)
    };
    let local = Service {
        external_traffic_policy: TrafficPolicy::Local,
        health_check_node_port: 30999,
        ..of(none)
    };
    for changed in [
        of((annotation::LB_METHOD, "LEAST_CONNECTIONS")),
        of((annotation::CONNECTION_LIMIT, "7")),
        of((annotation::TIMEOUT_MEMBER_DATA, "7")),
        of((annotation::HEALTH_MONITOR_DELAY, "7")),
        service(&[], &[80]),
        sticky,
        local,
    ] {
        let (before, after) = (desired_with("", &of(none)), desired_with("", &changed));
        for (one, other) in [(&before, &after), (&after, &before)] {
            let steps = steps(other, &created(one));
            assert!(!steps.is_empty());
            for step in steps {
                let is_pool = |method: &str| step.starts_with(&format!("{method} /lbaas/pools"));
                assert!(!is_pool("POST") && !is_pool("DELETE"), "{step}");
            }
        }
    }
}

#[test]
fn members_move_to_the_subnet_that_the_service_sets() {
    let of_config = desired_with("[LoadBalancer]\nmember-subnet-id=s", &service(&[], &[80]));
    let moved = desired(&[(annotation::MEMBER_SUBNET_ID, "t")], &[80]);
    let steps_then = steps(&moved, &created(&of_config));
    assert_eq!(steps_then[2..], SWITCH);
    assert!(steps_then[1].contains(r#""subnet_id":"t""#));
    assert_eq!(steps(&moved, &created(&moved)), [""; 0]);
    // Defaults are meant for new members, and not every provider returns subnets.
    assert_eq!(steps(&of_config, &created(&moved)), [""; 0]);
    assert_eq!(steps(&moved, &created(&desired(&[], &[80]))), [""; 0]);
}

/// The replacement of a pool was interrupted. Otherwise, a pool without a listener is not changed.
#[test]
fn a_pool_is_replaced_only_once() {
    let tcp = desired(&[], &[80]);
    let mut observed = created(&tcp);
    let pool = |id: &str, name: &str| Pool {
        id: id.to_owned(),
        name: name.to_owned(),
        ..Pool::default()
    };
    observed.pools.extend([
        pool("p7", &format!("pool_0_{NAME}")),
        pool("p8", "pool_0_kube_service_c_shop_other"),
        pool("p9", "pool_of_layer_7"),
    ]);

    assert_eq!(steps(&tcp, &observed), [""; 0]);

    let proxy = desired(&[(annotation::PROXY_PROTOCOL, "true")], &[80]);
    let replaced = steps(&proxy, &observed);
    assert_eq!(replaced[0], "DELETE /lbaas/pools/p7");
    assert_eq!(replaced[3..], SWITCH);
}

/// One that another Service uses does not stop the others.
#[test]
fn a_used_port_does_not_stop_the_others() {
    let desired = desired(&[], &[80, 443]);
    let mut observed = created(&desired);
    observed.listeners[0].tags = vec!["kube_service_c_shop_other".to_owned()];
    observed.members.get_mut("p1").unwrap().clear();
    let Plan {
        steps: plan,
        shortfall: taken,
    } = plan(&desired, &member_nodes(), &observed, &owner(), "c");
    assert_eq!(
        plan.iter()
            .map(|step| step.path.as_str())
            .collect::<Vec<_>>(),
        ["/lbaas/pools/p1/members"]
    );
    assert!(taken.unwrap().starts_with("port 80 (TCP) "));
}

#[test]
fn health_monitors_follow_the_service() {
    let monitored = |delay: &str| {
        desired(
            &[
                (annotation::ENABLE_HEALTH_MONITOR, "true"),
                (annotation::HEALTH_MONITOR_DELAY, delay),
            ],
            &[80],
        )
    };
    let observed = created(&monitored("5"));
    assert_eq!(
        steps(&desired(&[], &[80]), &observed),
        ["DELETE /lbaas/healthmonitors/m0"]
    );

    let changed = steps(&monitored("9"), &observed);
    assert!(
        changed[0].starts_with(r#"PUT /lbaas/healthmonitors/m0 {"healthmonitor":{"delay":9,"#),
        "{changed:#?}"
    );

    let mut other = observed.clone();
    other.monitors.get_mut("m0").unwrap().kind = "HTTP".to_owned();
    let again = steps(&monitored("5"), &other);
    assert_eq!(
        (again.len(), again[0].as_str()),
        (2, "DELETE /lbaas/healthmonitors/m0")
    );

    // With local traffic, the check uses HTTP and kube-proxy's path.
    let local = Service {
        external_traffic_policy: TrafficPolicy::Local,
        health_check_node_port: 31000,
        ..service(&[(annotation::ENABLE_HEALTH_MONITOR, "true")], &[80])
    };
    let local = desired_with("", &local);
    let mut observed = created(&local);
    assert_eq!(
        (
            observed.monitors["m0"].kind.as_str(),
            steps(&local, &observed)
        ),
        ("HTTP", vec![])
    );

    observed.monitors.get_mut("m0").unwrap().url_path = Some("/".to_owned());
    let elsewhere = steps(&local, &observed);
    assert!(
        elsewhere.len() == 1 && elsewhere[0].contains(r#""url_path":"/healthz""#),
        "{elsewhere:?}"
    );

    observed.monitors.get_mut("m0").unwrap().url_path = Some("/healthz".to_owned());
    observed.monitors.get_mut("m0").unwrap().delay = 77;
    let slower = steps(&local, &observed);
    assert!(
        slower.len() == 1 && !slower[0].contains("url_path"),
        "{slower:?}"
    );
}

#[test]
fn a_missing_value_from_octavia_is_its_default() {
    let desired = desired(&[], &[80]);
    let mut observed = created(&desired);
    observed.listeners[0].connection_limit = None;
    assert_eq!(steps(&desired, &observed), [""; 0]);
}

#[test]
fn session_persistence_is_source_ip_or_none() {
    let sticky = desired_with(
        "",
        &Service {
            client_ip_affinity_seconds: Some(10800),
            ..service(&[], &[80])
        },
    );
    assert_eq!(steps(&sticky, &created(&sticky)), [""; 0]);

    let by = |kind: &str, desired: &DesiredLoadBalancer| {
        let mut observed = created(desired);
        observed.pools[0].session_persistence = Some(Persistence {
            kind: kind.to_owned(),
        });
        steps(desired, &observed)
    };
    let source = r#"PUT /lbaas/pools/p0 {"pool":{"session_persistence":{"type":"SOURCE_IP"}}}"#;
    let none = r#"PUT /lbaas/pools/p0 {"pool":{"session_persistence":null}}"#;
    assert_eq!(by("HTTP_COOKIE", &sticky), [source]);

    let free = desired(&[], &[80]);
    assert_eq!(
        (by("HTTP_COOKIE", &free), by("SOURCE_IP", &free)),
        (vec![none.to_owned()], vec![none.to_owned()])
    );
}

#[test]
fn a_wrong_monitor_port_of_a_member_is_corrected() {
    let monitored = desired(&[(annotation::ENABLE_HEALTH_MONITOR, "true")], &[80]);
    let mut observed = created(&monitored);
    observed.members.get_mut("p0").unwrap()[0].monitor_port = Some(31000);
    let steps = steps(&monitored, &observed);
    assert!(
        steps[0].contains(r#"{"address":"10.0.0.1","monitor_port":null,"#),
        "{steps:#?}"
    );
}

#[test]
fn rejects_a_port_of_another_service() {
    let desired = desired(&[], &[80]);
    let mut observed = created(&desired);
    observed.listeners[0].tags = vec!["kube_service_c_shop_other".to_owned()];
    let rejection = plan(&desired, &member_nodes(), &observed, &owner(), "c")
        .shortfall
        .unwrap();
    assert!(
        rejection.contains("port 80 (TCP) of load balancer lb is used by listener l0"),
        "{rejection}"
    );
    // This includes another protocol on top of TCP, for which upstream fails.
    observed.listeners[0].protocol = "HTTP".to_owned();
    assert!(
        plan(&desired, &member_nodes(), &observed, &owner(), "c")
            .shortfall
            .is_some()
    );
    observed.listeners[0].protocol = "UDP".to_owned();
    assert_eq!(
        plan(&desired, &member_nodes(), &observed, &owner(), "c")
            .steps
            .len(),
        3
    );
}

#[test]
fn a_sharing_service_is_tagged_first() {
    let other = "kube_service_c_shop_other";
    let mut observed = created(&desired(&[], &[443]));
    observed.load_balancer.name = other.to_owned();
    observed.load_balancer.tags = vec![other.to_owned()];
    observed.listeners[0].tags = vec![other.to_owned()];
    let guest = Ownership {
        owner: false,
        attached: false,
        services: 1,
        renamed_from: None,
    };
    let steps = steps_of(&desired(&[], &[80]), &observed, &guest);
    let tags = format!(
        r#"PUT /lbaas/loadbalancers/lb {{"loadbalancer":{{"tags":["{other}","{NAME}"]}}}}"#
    );

    assert_eq!((steps.len(), steps[0].as_str()), (4, tags.as_str()));
    assert!(steps[1].starts_with("POST /lbaas/listeners"));
}

#[test]
fn untagged_listeners_belong_to_the_owner() {
    let desired = desired(&[], &[80]);
    let mut observed = created(&desired);
    observed.listeners[0].tags.clear();
    let expected = format!(r#"PUT /lbaas/listeners/l0 {{"listener":{{"tags":["{NAME}"]}}}}"#);
    assert_eq!(steps(&desired, &observed), [expected]);
    let guest = Ownership {
        owner: false,
        ..owner()
    };
    assert!(
        plan(&desired, &member_nodes(), &observed, &guest, "c")
            .shortfall
            .is_some()
    );
    assert_eq!(plan_removal(&desired, &observed, &guest), []);
    assert_eq!(plan_removal(&desired, &observed, &owner()).len(), 2);
}

#[test]
fn a_renamed_cluster_renames_its_resources() {
    let desired = desired(&[(annotation::ENABLE_HEALTH_MONITOR, "true")], &[80]);
    let mut observed = created(&desired);
    let old = |name: &mut String| *name = names::with_cluster(name, "c", "old");
    old(&mut observed.load_balancer.name);
    old(&mut observed.load_balancer.tags[0]);
    old(&mut observed.listeners[0].name);
    old(&mut observed.listeners[0].tags[0]);
    old(&mut observed.pools[0].name);
    old(&mut observed.monitors.get_mut("m0").unwrap().name);
    let service = service(&[], &[80]);
    let of = |observed: &ObservedLoadBalancer, serves| {
        Ownership::of(
            &observed.load_balancer,
            &desired,
            &service,
            "c",
            false,
            serves,
        )
    };

    assert_eq!(of(&observed, false).renamed_from, None);

    let mut shared = observed.clone();
    shared.load_balancer.tags.push(NAME.to_owned());
    assert_eq!(
        of(&shared, true),
        Ownership {
            owner: false,
            attached: true,
            services: 2,
            renamed_from: None
        }
    );

    let mut of_another = observed.clone();
    of_another.load_balancer.tags = vec!["kube_service_old_shop_other".to_owned()];
    assert_eq!(of(&of_another, true).renamed_from, None);

    let ownership = of(&observed, true);
    assert_eq!(
        (ownership.owner, ownership.attached, ownership.is_shared()),
        (true, true, false)
    );
    assert_eq!(
        steps_of(&desired, &observed, &ownership),
        lines([
            r#"PUT /lbaas/healthmonitors/m0 {"healthmonitor":{"name":"monitor_0_kube_service_c_shop_web"}}"#,
            r#"PUT /lbaas/pools/p0 {"pool":{"name":"pool_0_kube_service_c_shop_web"}}"#,
            r#"PUT /lbaas/listeners/l0 {"listener":{"name":"listener_0_kube_service_c_shop_web","tags":["kube_service_c_shop_web"]}}"#,
            r#"PUT /lbaas/loadbalancers/lb {"loadbalancer":{"name":"kube_service_c_shop_web","tags":["kube_service_c_shop_web"]}}"#,
        ])
    );
}

/// Otherwise, both might write the tags of the load balancer at the same time.
#[test]
fn a_sharing_service_leaves_the_renaming_to_the_owner() {
    let desired = desired(&[], &[80]);
    let (old, other) = ("kube_service_old_shop_web", "kube_service_old_shop_other");
    let mut observed = created(&desired);
    observed.load_balancer.name = other.to_owned();
    observed.load_balancer.tags = vec![other.to_owned(), old.to_owned()];
    observed.listeners[0].name = format!("listener_0_{old}");
    observed.listeners[0].tags = vec![old.to_owned()];
    observed.listeners.push(Listener {
        id: "l9".to_owned(),
        name: format!("listener_0_{other}"),
        protocol_port: 443,
        protocol: "TCP".to_owned(),
        tags: vec![other.to_owned()],
        ..Listener::default()
    });
    let service = service(&[], &[80]);
    let of = |serves| {
        Ownership::of(
            &observed.load_balancer,
            &desired,
            &service,
            "c",
            false,
            serves,
        )
    };

    assert!(!of(false).attached, "a copied manifest");

    let ownership = of(true);
    assert_eq!(
        ownership,
        Ownership {
            owner: false,
            attached: true,
            services: 2,
            renamed_from: Some("old".to_owned())
        }
    );
    assert_eq!(steps_of(&desired, &observed, &ownership), [""; 0]);

    observed.listeners[0].connection_limit = Some(7);
    let Plan {
        steps,
        shortfall: taken,
    } = plan(&desired, &member_nodes(), &observed, &ownership, "c");
    let expected = r#"PUT /lbaas/listeners/l0 {"listener":{"connection_limit":-1}}"#;
    assert_eq!(
        (steps.iter().map(line).collect(), taken),
        (lines([expected]), None)
    );
}

#[test]
fn members_follow_nodes_before_their_cluster_is_renamed() {
    let desired = desired(&[], &[80]);
    for (owner, name) in [(true, "kube_service_old_shop_web"), (false, "mine")] {
        let mut observed = created(&desired);
        observed.load_balancer.name = name.to_owned();
        observed.load_balancer.tags = vec!["kube_service_old_shop_web".to_owned()];
        observed.listeners[0].tags = observed.load_balancer.tags.clone();
        observed.members.get_mut("p0").unwrap().clear();
        let service = service(&[], &[80]);
        let ownership = Ownership::of(
            &observed.load_balancer,
            &desired,
            &service,
            "c",
            false,
            true,
        );
        assert_eq!((ownership.owner, ownership.attached), (owner, true));
        let Plan {
            steps,
            shortfall: missing,
        } = plan_members(&desired, &member_nodes(), &observed, &ownership, "c");
        assert_eq!((steps.len(), missing), (1, None));
    }
}

#[test]
fn a_load_balancer_is_created_with_all_parts_at_once() {
    let desired = desired_with(
        "[LoadBalancer]\nsubnet-id=s\ncreate-monitor=true",
        &service(&[], &[80]),
    );
    let expected = serde_json::json!({"loadbalancer": {
        "name": NAME,
        "description": "Kubernetes external service shop/web from cluster c",
        "provider": "amphora",
        "tags": [NAME],
        "vip_subnet_id": "s",
        "listeners": [{
            "name": format!("listener_0_{NAME}"), "protocol": "TCP", "protocol_port": 80, "connection_limit": -1,
            "tags": [NAME], "timeout_client_data": 50000, "timeout_member_connect": 5000, "timeout_member_data": 50000,
            "timeout_tcp_inspect": 0, "allowed_cidrs": ["0.0.0.0/0"],
            "default_pool": {
                "name": format!("pool_0_{NAME}"), "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
                "members": [
                    {"name": "n1", "address": "10.0.0.1", "protocol_port": 30080, "subnet_id": "s"},
                    {"name": "n2", "address": "10.0.0.2", "protocol_port": 30080, "subnet_id": "s"}],
                "healthmonitor": {"name": format!("monitor_0_{NAME}"), "type": "TCP", "delay": 5, "timeout": 3,
                    "max_retries": 1, "max_retries_down": 3},
            },
        }],
    }});
    assert_eq!(body::load_balancer(&desired, &member_nodes()), expected);
}

#[test]
fn flavor_zone_and_tls_container_are_sent_to_octavia() {
    let config =
        "[LoadBalancer]\nsubnet-id=s\nflavor-id=f\navailability-zone=z\ncontainer-store=external";
    let tls = "https://k/v1/containers/t";
    let desired = desired_with(
        config,
        &service(&[(annotation::TLS_CONTAINER_REF, tls)], &[443]),
    );
    let body = body::load_balancer(&desired, &member_nodes());
    let made = &body["loadbalancer"];

    assert_eq!(
        (&made["flavor_id"], &made["availability_zone"]),
        (&json!("f"), &json!("z"))
    );

    let listener = &made["listeners"][0];
    assert_eq!(listener["default_tls_container_ref"], json!(tls));

    // It is changed with the Service.
    let mut observed = created(&desired);
    observed.listeners[0].default_tls_container_ref =
        Some("https://k/v1/containers/old".to_owned());
    let expected = format!(
        r#"PUT /lbaas/listeners/l0 {{"listener":{{"default_tls_container_ref":"{tls}"}}}}"#
    );
    assert_eq!(steps(&desired, &observed), [expected]);
}
