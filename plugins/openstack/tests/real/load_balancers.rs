use std::{
    collections::BTreeSet,
    rc::Rc,
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use skydock_openstack::{
    cloud::{Cloud, Kind},
    config::Config,
    instances,
    load_balancers::{self, Nodes, annotation},
};
use skydock_sdk::{
    Result,
    http::Method,
    load_balancers::Target,
    types::{
        CloudError, IpFamily, IpMode, LoadBalancerStatus, Node, Service, ServicePort,
        TrafficPolicy, Transport,
    },
};

use crate::world::World;

/// The nodes of a call.
pub(crate) struct CallNodes(pub(crate) Vec<Node>);

impl Nodes for CallNodes {
    fn targets(&self) -> Rc<[Target]> {
        let target = |node: &Node| Target {
            name: node.name.clone(),
            provider_id: node.provider_id.clone(),
            zone: None,
            addresses: node.addresses.clone(),
        };
        self.0.iter().map(target).collect()
    }

    fn nodes(&self) -> Vec<Node> {
        self.0.clone()
    }
}

/// Returns the first `count` servers as nodes.
pub(crate) fn nodes(world: &World, count: usize) -> CallNodes {
    let config = world.config("");
    let named = |number: usize| Node {
        name: format!("node{number}"),
        ..Node::default()
    };
    let named: Vec<Node> = (0..count).map(named).collect();
    let told = instances::describe(&world.cloud(&config), &named).unwrap();
    let node = |(node, told): (Node, Result<skydock_sdk::instances::Instance>)| {
        let told = told.unwrap();
        Node {
            provider_id: told.provider_id,
            addresses: told.addresses,
            ..node
        }
    };
    CallNodes(named.into_iter().zip(told).map(node).collect())
}

pub(crate) fn named(name: &str, annotations: &[(&str, &str)]) -> Service {
    Service {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("0b9b2d4c-1234-5678-9abc-{:0>12}", name.len()),
        annotations: annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ports: vec![port(Transport::Tcp, 80)],
        ip_families: vec![IpFamily::Ipv4],
        ..Service::default()
    }
}

pub(crate) fn port(transport: Transport, port: u16) -> ServicePort {
    ServicePort {
        name: format!("p{port}"),
        transport,
        app_protocol: None,
        port,
        target_port: "80".to_owned(),
        node_port: 30000 + port,
    }
}

/// Acts like the host: writes annotations and retries while the call is in progress.
pub(crate) fn settle<T>(
    world: &World,
    service: &mut Service,
    mut call: impl FnMut(&Service) -> Result<T>,
) -> Result<T> {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(120) {
        let answer = call(service);
        for (key, value) in world.host.annotations.take() {
            service.annotations.retain(|(other, _)| *other != key);
            service.annotations.extend(value.map(|value| (key, value)));
        }
        match answer {
            Err(CloudError::InProgress(retry)) => {
                sleep(Duration::from_millis(retry.after_ms).min(world.retry_delay.get()));
            }
            other => return other,
        }
    }
    panic!("it does not settle");
}

pub(crate) fn ensure(
    world: &World,
    config: &Config,
    service: &mut Service,
    nodes: &CallNodes,
) -> Result<LoadBalancerStatus> {
    let status = settle(world, service, |service| {
        load_balancers::ensure(&world.cloud(config), service, nodes)
    })?;
    service.status = status.clone();
    Ok(status)
}

pub(crate) fn delete(world: &World, config: &Config, service: &mut Service) {
    settle(world, service, |service| {
        load_balancers::ensure_deleted(&world.cloud(config), service)
    })
    .unwrap();
}

pub(crate) fn annotated(service: &Service, key: &str) -> String {
    service
        .annotations
        .iter()
        .find(|(other, _)| other == key)
        .map(|(_, value)| value.clone())
        .unwrap_or_default()
}

fn list(cloud: &Cloud<'_>, kind: Kind, path: &str, query: Vec<(&str, &str)>) -> Vec<Value> {
    cloud.list(kind, path, query).unwrap()
}

/// Returns all parts of a load balancer, without fields that change by themselves.
pub(crate) fn dump(world: &World, id: &str) -> Value {
    let config = world.config("");
    let cloud = world.cloud(&config);
    let of = |path: &str| {
        list(
            &cloud,
            Kind::LoadBalancer,
            path,
            vec![("loadbalancer_id", id)],
        )
    };
    let balancers: Vec<Value> = list(
        &cloud,
        Kind::LoadBalancer,
        "/lbaas/loadbalancers",
        vec![("id", id)],
    );
    let mut pools: Vec<Value> = of("/lbaas/pools");
    for pool in &mut pools {
        // Octavia's database does not preserve the order of members.
        pool["members"]
            .as_array_mut()
            .unwrap()
            .sort_by_key(Value::to_string);
    }
    let members: Vec<Vec<Value>> = pools
        .iter()
        .map(|pool| {
            list(
                &cloud,
                Kind::LoadBalancer,
                &format!("/lbaas/pools/{}/members", pool["id"].as_str().unwrap()),
                vec![],
            )
        })
        .collect();
    let monitors: Vec<Value> = pools
        .iter()
        .filter_map(|pool| pool["healthmonitor_id"].as_str())
        .map(|id| {
            cloud
                .get(
                    Kind::LoadBalancer,
                    &format!("/lbaas/healthmonitors/{id}"),
                    "",
                )
                .unwrap()
        })
        .collect();
    let port = balancers
        .first()
        .and_then(|balancer| balancer["vip_port_id"].as_str())
        .unwrap_or("none")
        .to_owned();
    let floating = list(
        &cloud,
        Kind::Network,
        "/floatingips",
        vec![("port_id", &port)],
    );
    world.calls();
    json!({"loadbalancer": balancers, "listeners": of("/lbaas/listeners"), "pools": pools, "members": members, "monitors": monitors, "floating": floating})
}

/// Returns the calls that change something.
pub(crate) fn changes(calls: &[String]) -> Vec<&String> {
    calls
        .iter()
        .filter(|call| !call.starts_with("GET "))
        .collect()
}

const EXTERNAL: &str = "[LoadBalancer]\ncreate-monitor=true";

#[test]
fn load_balancers_are_created_repaired_and_deleted() {
    let world = World::new(3);
    let config = world.config(EXTERNAL);
    let all = nodes(&world, 3);
    let mut service = named("life", &[]);
    service.ports.push(port(Transport::Udp, 53));
    let status = ensure(&world, &config, &mut service, &all).unwrap();
    let calls = world.calls();
    println!("CREATE {} calls: {calls:#?}", calls.len());
    assert_eq!(changes(&calls).len(), 2, "{calls:#?}");
    assert_eq!(status.ingress[0].ip_mode, Some(IpMode::Vip));
    let id = annotated(&service, annotation::LOAD_BALANCER_ID);
    assert_eq!(
        annotated(&service, annotation::LOAD_BALANCER_ADDRESS),
        status.ingress[0].ip.clone().unwrap()
    );
    let before = dump(&world, &id);
    assert_eq!(
        before["loadbalancer"][0]["name"],
        "kube_service_kubernetes_default_life"
    );
    assert_eq!(
        before["floating"][0]["floating_ip_address"],
        json!(status.ingress[0].ip)
    );
    assert_eq!(before["members"][0].as_array().unwrap().len(), 3);
    // Nothing to do.
    ensure(&world, &config, &mut service, &all).unwrap();
    let calls = world.calls();
    println!("STEADY {} calls: {calls:#?}", calls.len());
    assert_eq!(changes(&calls), Vec::<&String>::new());
    // The annotations are lost.
    service.annotations.clear();
    ensure(&world, &config, &mut service, &all).unwrap();
    assert_eq!(annotated(&service, annotation::LOAD_BALANCER_ID), id);
    assert_eq!(changes(&world.calls()), Vec::<&String>::new());
    assert_eq!(dump(&world, &id), before);
    let got = load_balancers::get(&world.cloud(&config), &service)
        .unwrap()
        .unwrap();
    println!("GET {:?}", world.calls());
    assert_eq!(got, status);
    // Other nodes.
    let fewer = CallNodes(all.0[..2].to_vec());
    settle(&world, &mut service, |service| {
        load_balancers::update_nodes(&world.cloud(&config), service, &fewer)
    })
    .unwrap();
    let calls = world.calls();
    println!("UPDATE {} calls: {calls:#?}", calls.len());
    assert_eq!(changes(&calls).len(), 2);
    let after = dump(&world, &id);
    assert!(
        after["members"]
            .as_array()
            .unwrap()
            .iter()
            .all(|members| members.as_array().unwrap().len() == 2)
    );
    // Drift: a listener is deleted, members change, the floating IP is detached, a monitor changes.
    let cloud = world.cloud(&config);
    let send = |method: Method, kind: Kind, path: String, body: Value| {
        for _ in 0..40 {
            let request = cloud.request(method, kind, &path, "drift").unwrap();
            let request = if body == json!({}) {
                request
            } else {
                request.json(&body).unwrap()
            };
            if request.send().is_ok() {
                return;
            }
            sleep(Duration::from_millis(500)); // Octavia is changing the load balancer
        }
        panic!("no drift");
    };
    let listener = after["listeners"]
        .as_array()
        .unwrap()
        .iter()
        .find(|listener| listener["protocol"] == "UDP")
        .unwrap();
    send(
        Method::Delete,
        Kind::LoadBalancer,
        format!("/lbaas/listeners/{}", listener["id"].as_str().unwrap()),
        json!({}),
    );
    let tcp = after["listeners"]
        .as_array()
        .unwrap()
        .iter()
        .find(|listener| listener["protocol"] == "TCP")
        .unwrap();
    let path = format!("/lbaas/listeners/{}", tcp["id"].as_str().unwrap());
    send(
        Method::Put,
        Kind::LoadBalancer,
        path,
        json!({"listener": {"connection_limit": 7, "allowed_cidrs": ["192.0.2.0/24"]}}),
    );
    let floating = after["floating"][0]["id"].as_str().unwrap().to_owned();
    send(
        Method::Delete,
        Kind::Network,
        format!("/floatingips/{floating}"),
        json!({}),
    );
    world.calls();
    let status = ensure(&world, &config, &mut service, &fewer).unwrap();
    let calls = world.calls();
    println!(
        "REPAIR {} calls, changes: {:#?}",
        calls.len(),
        changes(&calls)
    );
    let after = dump(&world, &id);
    assert_eq!(after["listeners"].as_array().unwrap().len(), 2);
    assert_eq!(
        after["pools"].as_array().unwrap().len(),
        3,
        "the pool of a listener that somebody deleted is his"
    );
    assert_eq!(
        annotated(&service, annotation::LOAD_BALANCER_ADDRESS),
        status.ingress[0].ip.clone().unwrap()
    );
    // Deletion.
    world.calls();
    delete(&world, &config, &mut service);
    let calls = world.calls();
    println!("DELETE {} calls: {calls:#?}", calls.len());
    assert_eq!(dump(&world, &id)["loadbalancer"], json!([]));
    let left = list(
        &world.cloud(&config),
        Kind::Network,
        "/floatingips",
        vec![(
            "description",
            "Floating IP for Kubernetes external service default/life from cluster kubernetes",
        )],
    );
    assert_eq!(left, Vec::<Value>::new());
    assert_eq!(annotated(&service, annotation::LOAD_BALANCER_ID), "");
    world.calls();
    delete(&world, &config, &mut service);
    println!("DELETE AGAIN {:#?}", world.calls());
}

#[test]
#[ignore = "one of those that take minutes together"]
fn service_changes_are_applied_to_the_load_balancer() {
    let world = World::new(2);
    let config = world.config(EXTERNAL);
    let all = nodes(&world, 2);
    let mut service = named("changing", &[]);
    ensure(&world, &config, &mut service, &all).unwrap();
    let id = annotated(&service, annotation::LOAD_BALANCER_ID);
    let mut step = |what: &str, change: &dyn Fn(&mut Service), holds: &dyn Fn(&Value) -> bool| {
        change(&mut service);
        world.calls();
        ensure(&world, &config, &mut service, &all)
            .unwrap_or_else(|error| panic!("{what}: {error:?}"));
        let calls = world.calls();
        println!("{what}: {} calls {:#?}", calls.len(), changes(&calls));
        ensure(&world, &config, &mut service, &all).unwrap();
        let again = world.calls();
        assert_eq!(changes(&again), Vec::<&String>::new(), "{what}");
        let dump = dump(&world, &id);
        assert!(holds(&dump), "{what}: {dump:#}");
    };
    let set = |service: &mut Service, key: &str, value: &str| {
        service.annotations.retain(|(other, _)| other != key);
        service.annotations.push((key.to_owned(), value.to_owned()));
    };
    step(
        "ports",
        &|s| s.ports.push(port(Transport::Tcp, 443)),
        &|d| d["listeners"].as_array().unwrap().len() == 2,
    );
    step("ports away", &|s| _ = s.ports.remove(0), &|d| {
        d["listeners"][0]["protocol_port"] == 443 && d["pools"].as_array().unwrap().len() == 1
    });
    step(
        "affinity",
        &|s| s.client_ip_affinity_seconds = Some(10),
        &|d| d["pools"][0]["session_persistence"]["type"] == "SOURCE_IP",
    );
    step(
        "no affinity",
        &|s| s.client_ip_affinity_seconds = None,
        &|d| d["pools"][0]["session_persistence"].is_null(),
    );
    step(
        "ranges",
        &|s| s.source_ranges = vec!["192.0.2.0/24".into()],
        &|d| d["listeners"][0]["allowed_cidrs"] == json!(["192.0.2.0/24"]),
    );
    step(
        "timeouts",
        &|s| set(s, annotation::TIMEOUT_CLIENT_DATA, "1234"),
        &|d| d["listeners"][0]["timeout_client_data"] == 1234,
    );
    step(
        "limit",
        &|s| set(s, annotation::CONNECTION_LIMIT, "99"),
        &|d| d["listeners"][0]["connection_limit"] == 99,
    );
    step(
        "method",
        &|s| set(s, annotation::LB_METHOD, "LEAST_CONNECTIONS"),
        &|d| d["pools"][0]["lb_algorithm"] == "LEAST_CONNECTIONS",
    );
    step(
        "monitor",
        &|s| set(s, annotation::HEALTH_MONITOR_DELAY, "9"),
        &|d| d["monitors"][0]["healthmonitor"]["delay"] == 9,
    );
    step(
        "no monitor",
        &|s| set(s, annotation::ENABLE_HEALTH_MONITOR, "false"),
        &|d| d["monitors"] == json!([]),
    );
    step(
        "local",
        &|s| {
            set(s, annotation::ENABLE_HEALTH_MONITOR, "true");
            s.external_traffic_policy = TrafficPolicy::Local;
            s.health_check_node_port = 31999;
        },
        &|d| {
            d["monitors"][0]["healthmonitor"]["type"] == "HTTP"
                && d["members"][0][0]["monitor_port"] == 31999
        },
    );
    step(
        "cluster",
        &|s| {
            s.external_traffic_policy = TrafficPolicy::Cluster;
            s.health_check_node_port = 0;
        },
        &|d| {
            d["monitors"][0]["healthmonitor"]["type"] == "TCP"
                && d["members"][0][0]["monitor_port"].is_null()
        },
    );
    step(
        "proxy",
        &|s| set(s, annotation::PROXY_PROTOCOL, "v2"),
        &|d| d["pools"][0]["protocol"] == "PROXYV2",
    );
    step(
        "forwarded for",
        &|s| {
            set(s, annotation::PROXY_PROTOCOL, "false");
            set(s, annotation::X_FORWARDED_FOR, "true");
        },
        &|d| {
            d["listeners"][0]["protocol"] == "HTTP"
                && d["listeners"][0]["insert_headers"]["X-Forwarded-For"] == "true"
        },
    );
    step(
        "internal",
        &|s| set(s, annotation::INTERNAL, "true"),
        &|d| d["floating"] == json!([]),
    );
    step(
        "external",
        &|s| set(s, annotation::INTERNAL, "false"),
        &|d| d["floating"].as_array().unwrap().len() == 1,
    );
    // An unknown method is reported, and the other changes are made.
    set(&mut service, annotation::LB_METHOD, "NONSENSE");
    world.host.events.take();
    ensure(&world, &config, &mut service, &all).unwrap();
    let reasons: BTreeSet<&str> = world
        .host
        .events
        .take()
        .into_iter()
        .map(|event| event.reason)
        .collect();
    assert!(
        reasons.contains("LoadBalancerLbMethodUnknown"),
        "{reasons:?}"
    );
    delete(&world, &config, &mut service);
}

#[test]
fn a_shared_load_balancer_outlives_its_owner() {
    let world = World::new(2);
    let config = world.config("");
    let all = nodes(&world, 2);
    let mut first = named("first", &[]);
    let status = ensure(&world, &config, &mut first, &all).unwrap();
    let id = annotated(&first, annotation::LOAD_BALANCER_ID);
    let mut second = named("second", &[(annotation::LOAD_BALANCER_ID, &id)]);
    let conflict = ensure(&world, &config, &mut second, &all).unwrap_err();
    assert!(
        matches!(&conflict, CloudError::Unavailable(text) if text.contains("port 80 (TCP)")),
        "{conflict:?}"
    );
    second.ports = vec![port(Transport::Tcp, 8080)];
    assert_eq!(ensure(&world, &config, &mut second, &all).unwrap(), status);
    let third = named("third", &[(annotation::LOAD_BALANCER_ID, &id)]);
    let full = load_balancers::ensure(&world.cloud(&config), &third, &all).unwrap_err();
    assert!(
        matches!(&full, CloudError::Unavailable(text) if text.contains("max-shared-lb")),
        "{full:?}"
    );
    let tags = dump(&world, &id)["loadbalancer"][0]["tags"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(tags, 2);
    delete(&world, &config, &mut first);
    let left = dump(&world, &id);
    assert_eq!(left["listeners"].as_array().unwrap().len(), 1);
    assert_eq!(
        left["loadbalancer"][0]["tags"],
        json!(["kube_service_kubernetes_default_second"])
    );
    assert_eq!(ensure(&world, &config, &mut second, &all).unwrap(), status);
    delete(&world, &config, &mut second);
    assert_eq!(dump(&world, &id)["loadbalancer"], json!([]));
}

#[test]
#[ignore = "one of those that take minutes together"]
fn an_internal_load_balancer_is_shared_by_internal_services() {
    let world = World::new(1);
    let config = world.config("[LoadBalancer]\nmax-shared-lb=3");
    let all = nodes(&world, 1);
    let mut first = named("inner", &[(annotation::INTERNAL, "True")]);
    let status = ensure(&world, &config, &mut first, &all).unwrap();
    let id = annotated(&first, annotation::LOAD_BALANCER_ID);
    let sharing = (annotation::LOAD_BALANCER_ID, id.as_str());
    let mut second = named("second", &[sharing, (annotation::INTERNAL, "true")]);
    second.ports = vec![port(Transport::Tcp, 8080)];
    assert_eq!(ensure(&world, &config, &mut second, &all).unwrap(), status);
    let before = dump(&world, &id);
    assert_eq!(before["floating"], json!([]));
    let mut public = named("public", &[sharing]);
    public.ports = vec![port(Transport::Tcp, 8081)];
    let rejected = ensure(&world, &config, &mut public, &all).unwrap_err();
    assert!(
        matches!(&rejected, CloudError::Unavailable(text) if text.contains("no floating IP")),
        "{rejected:?}"
    );
    assert_eq!(dump(&world, &id), before);
    delete(&world, &config, &mut second);
    delete(&world, &config, &mut first);
}

#[test]
fn a_cluster_with_the_same_name_does_not_take_it_over() {
    let world = World::new(1);
    let config = world.config("[LoadBalancer]\ninternal-lb=true");
    let all = nodes(&world, 1);
    let mut service = named("twin", &[]);
    ensure(&world, &config, &mut service, &all).unwrap();
    let id = annotated(&service, annotation::LOAD_BALANCER_ID);
    let before = dump(&world, &id);
    let mut twin = named("twin", &[]);
    let elsewhere = CallNodes(Vec::new());
    let rejected = ensure(&world, &config, &mut twin, &elsewhere).unwrap_err();
    assert!(
        matches!(&rejected, CloudError::Denied(text) if text.contains("--cluster-name")),
        "{rejected:?}"
    );
    delete(&world, &config, &mut twin);
    assert_eq!(dump(&world, &id), before);
    delete(&world, &config, &mut service);
    assert_eq!(dump(&world, &id)["loadbalancer"], json!([]));
}

#[test]
#[ignore = "one of those that take minutes together"]
fn a_service_that_changes_leaves_its_shared_load_balancer() {
    let world = World::new(1);
    let config = world.config("");
    let all = nodes(&world, 1);
    let mut first = named("host", &[]);
    ensure(&world, &config, &mut first, &all).unwrap();
    let shared = annotated(&first, annotation::LOAD_BALANCER_ID);
    let sharing = |port_number: u16| {
        let mut service = named("guest", &[(annotation::LOAD_BALANCER_ID, &shared)]);
        service.ports = vec![port(Transport::Tcp, port_number)];
        service
    };
    let left = || {
        let left = dump(&world, &shared);
        (
            left["listeners"].as_array().unwrap().len(),
            left["loadbalancer"][0]["tags"].clone(),
        )
    };
    let alone = (1, json!(["kube_service_kubernetes_default_host"]));
    // The user removes the annotation, and the Service gets its own load balancer.
    let mut guest = sharing(8080);
    ensure(&world, &config, &mut guest, &all).unwrap();
    assert_eq!(left().0, 2);
    guest.annotations.clear();
    ensure(&world, &config, &mut guest, &all).unwrap();
    assert_ne!(annotated(&guest, annotation::LOAD_BALANCER_ID), shared);
    assert_eq!(left(), alone);
    delete(&world, &config, &mut guest);
    // The annotation is removed, and the Service is deleted before anything else happens.
    let mut guest = sharing(8081);
    ensure(&world, &config, &mut guest, &all).unwrap();
    assert_eq!(left().0, 2);
    guest.annotations.clear();
    world.host.nodes.replace(all.0.clone());
    delete(&world, &config, &mut guest);
    assert_eq!(left(), alone);
    delete(&world, &config, &mut first);
}

#[test]
#[ignore = "one of those that take minutes together"]
fn security_groups_follow_the_nodes() {
    let world = World::new(3);
    let config = world.config("[LoadBalancer]\nmanage-security-groups=true");
    let all = nodes(&world, 3);
    let mut service = named("guarded", &[(annotation::INTERNAL, "true")]);
    ensure(&world, &config, &mut service, &all).unwrap();
    let cloud = world.cloud(&config);
    let group = || {
        let name = format!("lb-sg-{}-default-guarded", service.uid);
        list(
            &cloud,
            Kind::Network,
            "/security-groups",
            vec![("name", &name)],
        )
    };
    let found = group();
    let id = found[0]["id"].as_str().unwrap().to_owned();
    let rules = found[0]["security_group_rules"].as_array().unwrap();
    assert_eq!(
        (
            rules.len(),
            &rules[0]["port_range_min"],
            &rules[0]["remote_ip_prefix"]
        ),
        (1, &json!(30080), &json!("10.9.0.0/16"))
    );
    let having = || {
        list(
            &cloud,
            Kind::Network,
            "/ports",
            vec![("security_groups", &id)],
        )
        .len()
    };
    assert_eq!(having(), 3);
    world.calls();
    let mut same = service.clone();
    ensure(&world, &config, &mut same, &all).unwrap();
    println!("STEADY WITH GROUP {:#?}", world.calls());
    let fewer = CallNodes(all.0[..1].to_vec());
    settle(&world, &mut same, |service| {
        load_balancers::update_nodes(&world.cloud(&config), service, &fewer)
    })
    .unwrap();
    assert_eq!(having(), 1);
    delete(&world, &config, &mut same);
    assert_eq!(group(), Vec::<Value>::new());
}

#[test]
#[ignore = "one of those that take minutes together"]
fn ipv6_services_use_only_ipv6_addresses() {
    let world = World::new(2);
    let config = world.config("");
    let all = nodes(&world, 2);
    let mut service = named("six", &[]);
    service.ip_families = vec![IpFamily::Ipv6, IpFamily::Ipv4];
    let status = ensure(&world, &config, &mut service, &all).unwrap();
    assert!(
        status.ingress[0]
            .ip
            .as_deref()
            .unwrap()
            .starts_with("fd00:9:")
    );
    let id = annotated(&service, annotation::LOAD_BALANCER_ID);
    let dump = dump(&world, &id);
    assert_eq!(dump["listeners"][0]["allowed_cidrs"], json!(["::/0"]));
    assert!(
        dump["members"][0][0]["address"]
            .as_str()
            .unwrap()
            .starts_with("fd00:9:")
    );
    delete(&world, &config, &mut service);
}

#[test]
#[ignore = "one of those that take minutes together"]
fn floating_ips_can_be_kept_selected_and_taken_from_subnets() {
    let world = World::new(1);
    let config =
        world.config("[LoadBalancer]\nfloating-subnet=public-b\n[LoadBalancerClass \"a\"]\nfloating-subnet=public-v4");
    let all = nodes(&world, 1);
    let mut service = named("kept", &[(annotation::KEEP_FLOATING_IP, "true")]);
    let status = ensure(&world, &config, &mut service, &all).unwrap();
    let address = status.ingress[0].ip.clone().unwrap();
    assert!(address.starts_with("198.51.100."), "{address}");
    delete(&world, &config, &mut service);
    let cloud = world.cloud(&config);
    let kept = list(
        &cloud,
        Kind::Network,
        "/floatingips",
        vec![("floating_ip_address", &address)],
    );
    assert_eq!((kept.len(), &kept[0]["port_id"]), (1, &Value::Null));
    // The floating IP is selected by its address, and outlives the Service that selects it.
    let mut chosen = Service {
        load_balancer_ip: Some(address.clone()),
        ..named("chosen", &[])
    };
    assert_eq!(
        ensure(&world, &config, &mut chosen, &all).unwrap().ingress[0]
            .ip
            .as_deref(),
        Some(address.as_str())
    );
    let mut taken = Service {
        load_balancer_ip: Some(address.clone()),
        ..named("taken", &[])
    };
    let in_use = ensure(&world, &config, &mut taken, &all).unwrap_err();
    assert!(
        matches!(&in_use, CloudError::Unavailable(text) if text.contains("in use")),
        "{in_use:?}"
    );
    delete(&world, &config, &mut taken);
    delete(&world, &config, &mut chosen);
    let kept = list(
        &cloud,
        Kind::Network,
        "/floatingips",
        vec![("floating_ip_address", &address)],
    );
    assert_eq!((kept.len(), &kept[0]["port_id"]), (1, &Value::Null));
    let path = format!("/floatingips/{}", kept[0]["id"].as_str().unwrap());
    cloud
        .request(Method::Delete, Kind::Network, &path, "the kept floating IP")
        .unwrap()
        .send()
        .unwrap();
    let mut class = named("classy", &[(annotation::CLASS, "a")]);
    let status = ensure(&world, &config, &mut class, &all).unwrap();
    assert!(
        status.ingress[0]
            .ip
            .as_deref()
            .unwrap()
            .starts_with("198.18.")
    );
    delete(&world, &config, &mut class);
}

#[test]
#[ignore = "one of those that take minutes together"]
fn parts_are_created_one_by_one_if_configured() {
    let world = World::new(2);
    let config = world.config(&format!(
        "{EXTERNAL}\nprovider-requires-serial-api-calls=true\ncascade-delete=false"
    ));
    let all = nodes(&world, 2);
    let mut service = named("serial", &[(annotation::INTERNAL, "true")]);
    ensure(&world, &config, &mut service, &all).unwrap();
    let calls = world.calls();
    println!("SERIAL {} calls {:#?}", calls.len(), changes(&calls));
    let id = annotated(&service, annotation::LOAD_BALANCER_ID);
    let made = dump(&world, &id);
    assert_eq!(
        (
            made["members"][0].as_array().unwrap().len(),
            made["monitors"].as_array().unwrap().len()
        ),
        (2, 1)
    );
    delete(&world, &config, &mut service);
    println!("SERIAL DELETE {:#?}", changes(&world.calls()));
    assert_eq!(dump(&world, &id)["loadbalancer"], json!([]));
}

#[test]
#[ignore = "counts looks at an Octavia that is to have the machine to itself"]
fn five_services_need_fewer_than_50_octavia_requests() {
    let world = World::new(1);
    world.retry_delay.set(Duration::MAX);
    let config = world.config(EXTERNAL);
    let mut all = nodes(&world, 1);
    for number in 1..20 {
        let mut node = all.0[0].clone();
        node.name = format!("more{number}");
        node.addresses.truncate(1);
        node.addresses[0].address = format!("10.9.200.{}", 220 + number);
        all.0.push(node);
    }
    let mut services: Vec<Service> = (0..5)
        .map(|number| named(&format!("many{number}"), &[]))
        .collect();
    world.calls();
    for service in &mut services {
        ensure(&world, &config, service, &all).unwrap();
    }
    let calls = world.calls();
    let octavia = calls.iter().filter(|call| call.contains("/lbaas/")).count();
    println!(
        "5 services, 20 members: {} requests, {octavia} of Octavia",
        calls.len()
    );
    let made = dump(
        &world,
        &annotated(&services[0], annotation::LOAD_BALANCER_ID),
    );
    assert_eq!(made["members"][0].as_array().unwrap().len(), 20);
    all.0.pop();
    for service in &mut services {
        settle(&world, service, |service| {
            load_balancers::update_nodes(&world.cloud(&config), service, &all)
        })
        .unwrap();
    }
    let calls = world.calls();
    println!("a node leaves 5 services: {} requests", calls.len());
    assert_eq!(changes(&calls).len(), 5);
    for service in &mut services {
        delete(&world, &config, service);
    }
    println!("5 services deleted: {} requests", world.calls().len());
    assert!(octavia < 50, "{octavia}");
}

#[test]
#[ignore = "one of those that take minutes together"]
fn a_renamed_cluster_renames_its_load_balancer() {
    let world = World::new(1);
    let config = world.config(EXTERNAL);
    let all = nodes(&world, 1);
    let mut service = named("renamed", &[(annotation::INTERNAL, "true")]);
    let before = Cloud::new(&config, "before", &world.host);
    let status = settle(&world, &mut service, |service| {
        load_balancers::ensure(&before, service, &all)
    })
    .unwrap();
    service.status = status.clone();
    let id = annotated(&service, annotation::LOAD_BALANCER_ID);
    let ids = |dump: &Value| {
        [
            &dump["listeners"][0]["id"],
            &dump["pools"][0]["id"],
            &dump["members"][0][0]["id"],
        ]
        .map(Clone::clone)
    };
    let old = dump(&world, &id);
    assert_eq!(
        old["loadbalancer"][0]["name"],
        "kube_service_before_default_renamed"
    );
    assert_eq!(ensure(&world, &config, &mut service, &all).unwrap(), status);
    println!("RENAME {:#?}", changes(&world.calls()));
    let new = dump(&world, &id);
    assert_eq!(ids(&old), ids(&new));
    assert!(!new.to_string().contains("before_default"), "{new:#}");
    assert_eq!(
        new["loadbalancer"][0]["tags"],
        json!(["kube_service_kubernetes_default_renamed"])
    );
    delete(&world, &config, &mut service);
}

#[test]
#[ignore = "one of those that take minutes together"]
fn vips_follow_the_address_network_and_port_settings() {
    let world = World::new(1);
    let config = world.config(EXTERNAL);
    let all = nodes(&world, 1);
    let cloud = world.cloud(&config);
    let (network, subnet) = (
        world.project.network_id.as_str(),
        world.project.subnet_id.as_str(),
    );
    // By address: one outside of the range that Neutron allocates from.
    let mut service = named("address", &[(annotation::INTERNAL, "true")]);
    service.load_balancer_ip = Some("10.9.200.9".to_owned());
    assert_eq!(
        ensure(&world, &config, &mut service, &all).unwrap().ingress[0]
            .ip
            .as_deref(),
        Some("10.9.200.9")
    );
    delete(&world, &config, &mut service);
    // By network, with SCTP, which annotations for TCP do not affect.
    let annotations = [
        (annotation::INTERNAL, "true"),
        (annotation::NETWORK_ID, network),
        (annotation::MEMBER_SUBNET_ID, subnet),
        (annotation::X_FORWARDED_FOR, "true"),
    ];
    let mut service = named("network", &annotations);
    service.ports.push(port(Transport::Sctp, 90));
    ensure(&world, &config, &mut service, &all).unwrap();
    let made = dump(&world, &annotated(&service, annotation::LOAD_BALANCER_ID));
    assert_eq!(made["loadbalancer"][0]["vip_network_id"], network);
    let protocols: BTreeSet<&str> = made["listeners"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|listener| listener["protocol"].as_str())
        .collect();
    assert_eq!(protocols, BTreeSet::from(["HTTP", "SCTP"]));
    world.calls();
    ensure(&world, &config, &mut service, &all).unwrap();
    assert_eq!(changes(&world.calls()), Vec::<&String>::new());
    delete(&world, &config, &mut service);
    // By a port of the user, which is kept when the load balancer is deleted, with members in a
    // configured subnet.
    let body = json!({"port": {"network_id": network, "name": "mine", "fixed_ips": [{"subnet_id": subnet}]}});
    let request = cloud
        .request(Method::Post, Kind::Network, "/ports", "port")
        .unwrap()
        .json(&body)
        .unwrap();
    let made: Value = request.send().unwrap().json().unwrap();
    let (id, address) = (
        made["port"]["id"].as_str().unwrap(),
        made["port"]["fixed_ips"][0]["ip_address"].as_str(),
    );
    let annotations = [
        (annotation::INTERNAL, "true"),
        (annotation::PORT_ID, id),
        (annotation::MEMBER_SUBNET_ID, subnet),
    ];
    let mut service = named("port", &annotations);
    assert_eq!(
        ensure(&world, &config, &mut service, &all).unwrap().ingress[0]
            .ip
            .as_deref(),
        address
    );
    let made = dump(&world, &annotated(&service, annotation::LOAD_BALANCER_ID));
    assert_eq!(made["members"][0][0]["subnet_id"], subnet);
    delete(&world, &config, &mut service);
    let path = format!("/ports/{id}");
    cloud
        .request(Method::Delete, Kind::Network, &path, "the port of the user")
        .unwrap()
        .send()
        .unwrap();
}

#[test]
#[ignore = "one of those that take minutes together"]
fn ovn_gets_only_supported_settings() {
    let world = World::new(2);
    let config = world.config(
        "[LoadBalancer]\nlb-provider=ovn\nlb-method=SOURCE_IP_PORT\ncreate-monitor=true\nmanage-security-groups=true",
    );
    let cloud = world.cloud(&config);
    let providers = list(&cloud, Kind::LoadBalancer, "/lbaas/providers", vec![]);
    assert!(
        providers.iter().any(|provider| provider["name"] == "ovn"),
        "{providers:?}"
    );
    let all = nodes(&world, 2);
    let mut service = named("ovn", &[(annotation::TIMEOUT_CLIENT_DATA, "7")]);
    service.ports.push(port(Transport::Udp, 53));
    service.source_ranges = vec!["192.0.2.0/24".to_owned()];
    ensure(&world, &config, &mut service, &all).unwrap();
    let id = annotated(&service, annotation::LOAD_BALANCER_ID);
    let made = dump(&world, &id);
    assert_eq!(
        (
            &made["loadbalancer"][0]["provider"],
            &made["listeners"][0]["allowed_cidrs"]
        ),
        (&json!("ovn"), &Value::Null)
    );
    let name = format!("lb-sg-{}-default-ovn", service.uid);
    let group = list(
        &cloud,
        Kind::Network,
        "/security-groups",
        vec![("name", &name)],
    );
    let rules = group[0]["security_group_rules"].as_array().unwrap();
    assert!(
        rules.len() == 2
            && rules
                .iter()
                .all(|rule| rule["remote_ip_prefix"] == "192.0.2.0/24"),
        "{rules:?}"
    );
    world.calls();
    ensure(&world, &config, &mut service, &all).unwrap();
    assert_eq!(changes(&world.calls()), Vec::<&String>::new());
    // An unsupported setting is reported once and not retried.
    service
        .annotations
        .push((annotation::X_FORWARDED_FOR.to_owned(), "true".to_owned()));
    let rejection = ensure(&world, &config, &mut service, &all).unwrap_err();
    assert!(
        matches!(&rejection, CloudError::Invalid(text) if text.contains("HTTP protocol")),
        "{rejection:?}"
    );
    delete(&world, &config, &mut service);
}
