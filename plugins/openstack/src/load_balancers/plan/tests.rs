use std::collections::BTreeMap;

use skydock_sdk::types::{Service, ServicePort, TrafficPolicy, Transport};

use super::*;
use crate::{
    cloud::Features,
    config::Config,
    load_balancers::{annotation, want::Want},
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

fn want_with(config: &str, service: &Service) -> Want {
    let config = Config::parse(&format!("[Global]\nauth-url=http://k\n{config}"), &[]).unwrap();
    Want::of(&config, "c", Features::of((2, 27), "amphora"), service).unwrap()
}

fn want(annotations: &[(&str, &str)], ports: &[u16]) -> Want {
    want_with("", &service(annotations, ports))
}

fn backends() -> Vec<Backend> {
    let backend = |number: u8| Backend {
        name: format!("n{number}"),
        address: format!("10.0.0.{number}"),
        ..Backend::default()
    };
    vec![backend(1), backend(2)]
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
fn made(want: &Want) -> Tree {
    let mut tree = Tree {
        load_balancer: LoadBalancer {
            id: "lb".into(),
            name: NAME.into(),
            tags: vec![NAME.into()],
            ..LoadBalancer::default()
        },
        ..Tree::default()
    };
    for port in &want.ports {
        let index = port.index;
        let [client_data, member_connect, member_data, tcp_inspect] =
            want.listener.timeouts.unwrap();
        let headers = BTreeMap::from([("X-Forwarded-For".to_owned(), "true".to_owned())]);
        tree.listeners.push(Listener {
            id: format!("l{index}"),
            name: format!("listener_{index}_{NAME}"),
            protocol: port.listener_protocol.to_owned(),
            protocol_port: port.port,
            connection_limit: Some(want.listener.connection_limit),
            insert_headers: Some(if port.forwards(want) {
                headers
            } else {
                BTreeMap::new()
            }),
            default_tls_container_ref: None,
            timeout_client_data: Some(client_data),
            timeout_member_connect: Some(member_connect),
            timeout_member_data: Some(member_data),
            timeout_tcp_inspect: Some(tcp_inspect),
            allowed_cidrs: want.listener.allowed_cidrs.clone(),
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
        tree.pools.push(Pool {
            id: format!("p{index}"),
            name: format!("pool_{index}_{NAME}"),
            protocol: port.pool_protocol.to_owned(),
            lb_algorithm: want.lb_method.clone(),
            session_persistence: want.affinity.then(|| Persistence {
                kind: "SOURCE_IP".to_owned(),
            }),
            listeners: vec![Reference {
                id: format!("l{index}"),
            }],
            healthmonitor_id: monitor.as_ref().map(|monitor| monitor.id.clone()),
        });
        tree.monitors
            .extend(monitor.map(|monitor| (monitor.id.clone(), monitor)));
        let member = |wanted: MemberWant| Member {
            id: format!("{}-{}", wanted.name, wanted.port),
            name: wanted.name,
            address: wanted.address,
            protocol_port: wanted.port,
            monitor_port: wanted.monitor_port,
            subnet_id: Some(want.member_subnet.clone()).filter(|subnet| !subnet.is_empty()),
        };
        tree.members.insert(
            format!("p{index}"),
            members(port, &backends()).into_iter().map(member).collect(),
        );
    }
    tree
}

/// Returns the steps as lines.
fn steps(want: &Want, tree: &Tree) -> Vec<String> {
    steps_of(want, tree, &owner())
}

fn steps_of(want: &Want, tree: &Tree, ownership: &Ownership) -> Vec<String> {
    plan(want, &backends(), tree, ownership, "c")
        .0
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
        let want = want(annotations, &[80, 443]);
        assert_eq!(steps(&want, &made(&want)), Vec::<String>::new());
    }
}

#[test]
fn a_listener_is_updated_to_match_the_service() {
    let tree = made(&want(&[], &[80]));
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
        assert_eq!(steps(&want(&annotations, &[80]), &tree), [expected]);
    }
    let ranges = Service {
        source_ranges: vec!["10.0.0.0/8".to_owned()],
        ..service(&[], &[80])
    };
    let expected = r#"PUT /lbaas/listeners/l0 {"listener":{"allowed_cidrs":["10.0.0.0/8"]}}"#;

    assert_eq!(steps(&want_with("", &ranges), &tree), [expected]);
}

#[test]
fn a_changed_protocol_recreates_the_listener() {
    let tree = made(&want(&[], &[80]));
    let steps = steps(
        &want(&[(annotation::X_FORWARDED_FOR, "true")], &[80]),
        &tree,
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
        &want(&monitored, &[80, 8080]),
        &made(&want(&monitored, &[80, 443])),
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
    let mut tree = made(&want(&[], &[80]));
    tree.listeners.clear();
    let (steps, _) = plan(&want(&[], &[80]), &backends(), &tree, &owner(), "c");
    assert_eq!(
        steps.iter().map(Step::has_parts).collect::<Vec<_>>(),
        [true, true, false]
    );

    let lines = |made| {
        steps
            .iter()
            .map(|step| step.clone().of_made(made).as_ref().map(line))
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
    let want = want(&[(annotation::ENABLE_HEALTH_MONITOR, "true")], &[80]);
    let mut tree = made(&want);
    tree.pools[0].healthmonitor_id = None;
    tree.monitors.clear();
    let monitor = r#"POST /lbaas/healthmonitors {"healthmonitor":{"delay":5,"max_retries":1,"max_retries_down":3,"name":"monitor_0_kube_service_c_shop_web","pool_id":"p0","timeout":3,"type":"TCP"}}"#;

    assert_eq!(steps(&want, &tree), [monitor]);

    tree.members.clear();
    let members = r#"PUT /lbaas/pools/p0/members {"members":[{"address":"10.0.0.1","name":"n1","protocol_port":30080},{"address":"10.0.0.2","name":"n2","protocol_port":30080}]}"#;
    assert_eq!(steps(&want, &tree), [members, monitor]);

    tree.pools.clear();
    let pool = r#"POST /lbaas/pools {"pool":{"lb_algorithm":"ROUND_ROBIN","listener_id":"l0","name":"pool_0_kube_service_c_shop_web","protocol":"TCP"}}"#;
    let of_new = [members, monitor].map(|step| step.replace("p0", "{made}"));
    assert_eq!(
        steps(&want, &tree),
        [pool.to_owned()]
            .into_iter()
            .chain(of_new)
            .collect::<Vec<_>>()
    );
}

#[test]
fn members_are_set_with_one_request() {
    let want = want_with("[LoadBalancer]\nmember-subnet-id=s", &service(&[], &[80]));
    let mut tree = made(&want);
    let pool = tree.members.get_mut("p0").unwrap();
    pool[0].address = "10.0.0.9".to_owned();
    let members = r#"PUT /lbaas/pools/p0/members {"members":[{"address":"10.0.0.1","name":"n1","protocol_port":30080,"subnet_id":"s"},{"address":"10.0.0.2","monitor_port":null,"name":"n2","protocol_port":30080}]}"#;
    assert_eq!(steps(&want, &tree), [members]);
    let (only, missing) = plan_members(&want, &backends(), &tree, &owner(), "c");
    assert_eq!(only.iter().map(line).collect::<Vec<_>>(), [members]);
    assert_eq!(missing, None);
}

#[test]
fn changed_nodes_change_only_members() {
    let mut tree = made(&want(&[], &[80, 443]));
    tree.members.get_mut("p1").unwrap().clear();
    let asked = want(&[(annotation::CONNECTION_LIMIT, "5")], &[80, 443, 8080]);
    let (steps, missing) = plan_members(&asked, &backends(), &tree, &owner(), "c");
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
    let tree = made(&want(&[], &[443]));
    let of_another = {
        let mut tree = made(&want(&[], &[80]));
        tree.listeners[0].tags = vec!["kube_service_c_shop_other".to_owned()];
        tree
    };
    for tree in [tree, of_another] {
        let (steps, missing) = plan_members(&want(&[], &[80]), &backends(), &tree, &owner(), "c");
        assert_eq!(steps, []);
        assert_eq!(
            missing.as_deref(),
            Some("load balancer lb has no listener of this Service")
        );
    }
}

#[test]
fn serial_providers_change_members_one_by_one() {
    let want = want_with(
        "[LoadBalancer]\nprovider-requires-serial-api-calls=true",
        &service(&[], &[80]),
    );
    let mut tree = made(&want);
    let pool = tree.members.get_mut("p0").unwrap();
    pool[0].address = "10.0.0.9".to_owned();
    // The name that upstream uses.
    pool[1].name = "member_n2_10.0.0.2_30080".to_owned();
    pool[1].monitor_port = Some(31000);

    assert_eq!(
        steps(&want, &tree),
        lines([
            r#"POST /lbaas/pools/p0/members {"member":{"address":"10.0.0.1","name":"n1","protocol_port":30080}}"#,
            r#"PUT /lbaas/pools/p0/members/n2-30080 {"member":{"monitor_port":null}}"#,
            "DELETE /lbaas/pools/p0/members/n1-30080",
        ])
    );
    assert_eq!(
        steps(&want, &made(&want)),
        lines([]),
        "members that are as wanted are left"
    );
    assert!(
        body::load_balancer(&want, &backends())["loadbalancer"]
            .get("listeners")
            .is_none()
    );
}

#[test]
fn pools_follow_method_affinity_and_protocol() {
    let tree = made(&want(&[], &[80]));
    let plan = plan(
        &want(&[(annotation::LB_METHOD, "SOURCE_IP")], &[80]),
        &backends(),
        &tree,
        &owner(),
        "c",
    )
    .0;
    assert_eq!(
        line(&plan[0]),
        r#"PUT /lbaas/pools/p0 {"pool":{"lb_algorithm":"SOURCE_IP"}}"#
    );
    assert_eq!(plan[0].optional, Some("LoadBalancerLbMethodUnknown"));

    let sticky = want_with(
        "",
        &Service {
            client_ip_affinity_seconds: Some(1),
            ..service(&[], &[80])
        },
    );
    let expected = r#"PUT /lbaas/pools/p0 {"pool":{"session_persistence":{"type":"SOURCE_IP"}}}"#;
    assert_eq!(steps(&sticky, &tree), [expected]);

    let expected = r#"PUT /lbaas/pools/p0 {"pool":{"session_persistence":null}}"#;
    assert_eq!(steps(&want(&[], &[80]), &made(&sticky)), [expected]);
}

const SWITCH: [&str; 2] = [
    r#"PUT /lbaas/listeners/l0 {"listener":{"default_pool_id":"{made}"}}"#,
    "DELETE /lbaas/pools/p0",
];

/// Neither the protocol of a pool nor the subnet of a member can be changed.
#[test]
fn a_pool_is_used_until_another_one_has_its_members() {
    let monitored = (annotation::ENABLE_HEALTH_MONITOR, "true");
    let proxy = want(&[(annotation::PROXY_PROTOCOL, "v2"), monitored], &[80]);
    let replaced = steps(&proxy, &made(&want(&[monitored], &[80])));
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
    let (plan, _) = plan(
        &proxy,
        &backends(),
        &made(&want(&[monitored], &[80])),
        &owner(),
        "c",
    );
    let follows: Vec<bool> = plan.iter().map(|step| step.follows).collect();
    assert_eq!(follows, [false, true, true, true, true]);

    let step = plan[2].clone().of_made(Some("new")).unwrap();
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
        let (before, after) = (want_with("", &of(none)), want_with("", &changed));
        for (one, other) in [(&before, &after), (&after, &before)] {
            let steps = steps(other, &made(one));
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
    let of_config = want_with("[LoadBalancer]\nmember-subnet-id=s", &service(&[], &[80]));
    let moved = want(&[(annotation::MEMBER_SUBNET_ID, "t")], &[80]);
    let steps_then = steps(&moved, &made(&of_config));
    assert_eq!(steps_then[2..], SWITCH);
    assert!(steps_then[1].contains(r#""subnet_id":"t""#));
    assert_eq!(steps(&moved, &made(&moved)), [""; 0]);
    // Defaults are meant for new members, and not every provider returns subnets.
    assert_eq!(steps(&of_config, &made(&moved)), [""; 0]);
    assert_eq!(steps(&moved, &made(&want(&[], &[80]))), [""; 0]);
}

/// The replacement of a pool was interrupted. Otherwise, a pool without a listener is not changed.
#[test]
fn a_pool_is_replaced_only_once() {
    let tcp = want(&[], &[80]);
    let mut tree = made(&tcp);
    let pool = |id: &str, name: &str| Pool {
        id: id.to_owned(),
        name: name.to_owned(),
        ..Pool::default()
    };
    tree.pools.extend([
        pool("p7", &format!("pool_0_{NAME}")),
        pool("p8", "pool_0_kube_service_c_shop_other"),
        pool("p9", "pool_of_layer_7"),
    ]);

    assert_eq!(steps(&tcp, &tree), [""; 0]);

    let proxy = want(&[(annotation::PROXY_PROTOCOL, "true")], &[80]);
    let replaced = steps(&proxy, &tree);
    assert_eq!(replaced[0], "DELETE /lbaas/pools/p7");
    assert_eq!(replaced[3..], SWITCH);
}

/// One that another Service uses does not stop the others.
#[test]
fn a_used_port_does_not_stop_the_others() {
    let want = want(&[], &[80, 443]);
    let mut tree = made(&want);
    tree.listeners[0].tags = vec!["kube_service_c_shop_other".to_owned()];
    tree.members.get_mut("p1").unwrap().clear();
    let (plan, taken) = plan(&want, &backends(), &tree, &owner(), "c");
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
        want(
            &[
                (annotation::ENABLE_HEALTH_MONITOR, "true"),
                (annotation::HEALTH_MONITOR_DELAY, delay),
            ],
            &[80],
        )
    };
    let tree = made(&monitored("5"));
    assert_eq!(
        steps(&want(&[], &[80]), &tree),
        ["DELETE /lbaas/healthmonitors/m0"]
    );

    let changed = steps(&monitored("9"), &tree);
    assert!(
        changed[0].starts_with(r#"PUT /lbaas/healthmonitors/m0 {"healthmonitor":{"delay":9,"#),
        "{changed:#?}"
    );

    let mut other = tree.clone();
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
    let local = want_with("", &local);
    let mut tree = made(&local);
    assert_eq!(
        (tree.monitors["m0"].kind.as_str(), steps(&local, &tree)),
        ("HTTP", vec![])
    );

    tree.monitors.get_mut("m0").unwrap().url_path = Some("/".to_owned());
    let elsewhere = steps(&local, &tree);
    assert!(
        elsewhere.len() == 1 && elsewhere[0].contains(r#""url_path":"/healthz""#),
        "{elsewhere:?}"
    );

    tree.monitors.get_mut("m0").unwrap().url_path = Some("/healthz".to_owned());
    tree.monitors.get_mut("m0").unwrap().delay = 77;
    let slower = steps(&local, &tree);
    assert!(
        slower.len() == 1 && !slower[0].contains("url_path"),
        "{slower:?}"
    );
}

#[test]
fn a_missing_value_from_octavia_is_its_default() {
    let want = want(&[], &[80]);
    let mut tree = made(&want);
    tree.listeners[0].connection_limit = None;
    assert_eq!(steps(&want, &tree), [""; 0]);
}

#[test]
fn session_persistence_is_source_ip_or_none() {
    let sticky = want_with(
        "",
        &Service {
            client_ip_affinity_seconds: Some(10800),
            ..service(&[], &[80])
        },
    );
    assert_eq!(steps(&sticky, &made(&sticky)), [""; 0]);

    let by = |kind: &str, want: &Want| {
        let mut tree = made(want);
        tree.pools[0].session_persistence = Some(Persistence {
            kind: kind.to_owned(),
        });
        steps(want, &tree)
    };
    let source = r#"PUT /lbaas/pools/p0 {"pool":{"session_persistence":{"type":"SOURCE_IP"}}}"#;
    let none = r#"PUT /lbaas/pools/p0 {"pool":{"session_persistence":null}}"#;
    assert_eq!(by("HTTP_COOKIE", &sticky), [source]);

    let free = want(&[], &[80]);
    assert_eq!(
        (by("HTTP_COOKIE", &free), by("SOURCE_IP", &free)),
        (vec![none.to_owned()], vec![none.to_owned()])
    );
}

#[test]
fn a_wrong_monitor_port_of_a_member_is_corrected() {
    let monitored = want(&[(annotation::ENABLE_HEALTH_MONITOR, "true")], &[80]);
    let mut tree = made(&monitored);
    tree.members.get_mut("p0").unwrap()[0].monitor_port = Some(31000);
    let steps = steps(&monitored, &tree);
    assert!(
        steps[0].contains(r#"{"address":"10.0.0.1","monitor_port":null,"#),
        "{steps:#?}"
    );
}

#[test]
fn rejects_a_port_of_another_service() {
    let want = want(&[], &[80]);
    let mut tree = made(&want);
    tree.listeners[0].tags = vec!["kube_service_c_shop_other".to_owned()];
    let refusal = plan(&want, &backends(), &tree, &owner(), "c").1.unwrap();
    assert!(
        refusal.contains("port 80 (TCP) of load balancer lb is used by listener l0"),
        "{refusal}"
    );
    // This includes another protocol on top of TCP, for which upstream fails.
    tree.listeners[0].protocol = "HTTP".to_owned();
    assert!(plan(&want, &backends(), &tree, &owner(), "c").1.is_some());
    tree.listeners[0].protocol = "UDP".to_owned();
    assert_eq!(plan(&want, &backends(), &tree, &owner(), "c").0.len(), 3);
}

#[test]
fn a_sharing_service_is_tagged_first() {
    let other = "kube_service_c_shop_other";
    let mut tree = made(&want(&[], &[443]));
    tree.load_balancer.name = other.to_owned();
    tree.load_balancer.tags = vec![other.to_owned()];
    tree.listeners[0].tags = vec![other.to_owned()];
    let guest = Ownership {
        owner: false,
        attached: false,
        services: 1,
        renamed_from: None,
    };
    let steps = steps_of(&want(&[], &[80]), &tree, &guest);
    let tags = format!(
        r#"PUT /lbaas/loadbalancers/lb {{"loadbalancer":{{"tags":["{other}","{NAME}"]}}}}"#
    );

    assert_eq!((steps.len(), steps[0].as_str()), (4, tags.as_str()));
    assert!(steps[1].starts_with("POST /lbaas/listeners"));
}

#[test]
fn untagged_listeners_belong_to_the_owner() {
    let want = want(&[], &[80]);
    let mut tree = made(&want);
    tree.listeners[0].tags.clear();
    let expected = format!(r#"PUT /lbaas/listeners/l0 {{"listener":{{"tags":["{NAME}"]}}}}"#);
    assert_eq!(steps(&want, &tree), [expected]);
    let guest = Ownership {
        owner: false,
        ..owner()
    };
    assert!(plan(&want, &backends(), &tree, &guest, "c").1.is_some());
    assert_eq!(plan_removal(&want, &tree, &guest), []);
    assert_eq!(plan_removal(&want, &tree, &owner()).len(), 2);
}

#[test]
fn a_renamed_cluster_renames_its_resources() {
    let want = want(&[(annotation::ENABLE_HEALTH_MONITOR, "true")], &[80]);
    let mut tree = made(&want);
    let old = |name: &mut String| *name = names::with_cluster(name, "c", "old");
    old(&mut tree.load_balancer.name);
    old(&mut tree.load_balancer.tags[0]);
    old(&mut tree.listeners[0].name);
    old(&mut tree.listeners[0].tags[0]);
    old(&mut tree.pools[0].name);
    old(&mut tree.monitors.get_mut("m0").unwrap().name);
    let service = service(&[], &[80]);
    let of = |tree: &Tree, serves| {
        Ownership::of(&tree.load_balancer, &want, &service, "c", false, serves)
    };

    assert_eq!(of(&tree, false).renamed_from, None);

    let mut shared = tree.clone();
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

    let mut of_another = tree.clone();
    of_another.load_balancer.tags = vec!["kube_service_old_shop_other".to_owned()];
    assert_eq!(of(&of_another, true).renamed_from, None);

    let ownership = of(&tree, true);
    assert_eq!(
        (ownership.owner, ownership.attached, ownership.is_shared()),
        (true, true, false)
    );
    assert_eq!(
        steps_of(&want, &tree, &ownership),
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
    let want = want(&[], &[80]);
    let (old, other) = ("kube_service_old_shop_web", "kube_service_old_shop_other");
    let mut tree = made(&want);
    tree.load_balancer.name = other.to_owned();
    tree.load_balancer.tags = vec![other.to_owned(), old.to_owned()];
    tree.listeners[0].name = format!("listener_0_{old}");
    tree.listeners[0].tags = vec![old.to_owned()];
    tree.listeners.push(Listener {
        id: "l9".to_owned(),
        name: format!("listener_0_{other}"),
        protocol_port: 443,
        protocol: "TCP".to_owned(),
        tags: vec![other.to_owned()],
        ..Listener::default()
    });
    let service = service(&[], &[80]);
    let of = |serves| Ownership::of(&tree.load_balancer, &want, &service, "c", false, serves);

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
    assert_eq!(steps_of(&want, &tree, &ownership), [""; 0]);

    tree.listeners[0].connection_limit = Some(7);
    let (steps, taken) = plan(&want, &backends(), &tree, &ownership, "c");
    let expected = r#"PUT /lbaas/listeners/l0 {"listener":{"connection_limit":-1}}"#;
    assert_eq!(
        (steps.iter().map(line).collect(), taken),
        (lines([expected]), None)
    );
}

#[test]
fn members_follow_nodes_before_their_cluster_is_renamed() {
    let want = want(&[], &[80]);
    for (owner, name) in [(true, "kube_service_old_shop_web"), (false, "mine")] {
        let mut tree = made(&want);
        tree.load_balancer.name = name.to_owned();
        tree.load_balancer.tags = vec!["kube_service_old_shop_web".to_owned()];
        tree.listeners[0].tags = tree.load_balancer.tags.clone();
        tree.members.get_mut("p0").unwrap().clear();
        let service = service(&[], &[80]);
        let ownership = Ownership::of(&tree.load_balancer, &want, &service, "c", false, true);
        assert_eq!((ownership.owner, ownership.attached), (owner, true));
        let (steps, missing) = plan_members(&want, &backends(), &tree, &ownership, "c");
        assert_eq!((steps.len(), missing), (1, None));
    }
}

#[test]
fn a_load_balancer_is_created_with_all_parts_at_once() {
    let want = want_with(
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
    assert_eq!(body::load_balancer(&want, &backends()), expected);
}

#[test]
fn flavor_zone_and_tls_container_are_sent_to_octavia() {
    let config =
        "[LoadBalancer]\nsubnet-id=s\nflavor-id=f\navailability-zone=z\ncontainer-store=external";
    let tls = "https://k/v1/containers/t";
    let want = want_with(
        config,
        &service(&[(annotation::TLS_CONTAINER_REF, tls)], &[443]),
    );
    let body = body::load_balancer(&want, &backends());
    let made = &body["loadbalancer"];

    assert_eq!(
        (&made["flavor_id"], &made["availability_zone"]),
        (&json!("f"), &json!("z"))
    );

    let listener = &made["listeners"][0];
    assert_eq!(listener["default_tls_container_ref"], json!(tls));

    // It is changed with the Service.
    let mut tree = self::made(&want);
    tree.listeners[0].default_tls_container_ref = Some("https://k/v1/containers/old".to_owned());
    let expected = format!(
        r#"PUT /lbaas/listeners/l0 {{"listener":{{"default_tls_container_ref":"{tls}"}}}}"#
    );
    assert_eq!(steps(&want, &tree), [expected]);
}
