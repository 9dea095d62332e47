//! Tests with openstack-cloud-controller-manager: each provider takes over the resources of the
//! other without changes.
//!
//! `tests/occm` passes one call to the official provider.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    sync::OnceLock,
};

use serde_json::{Value, json};
use skydock_openstack::{
    instances,
    load_balancers::{self, annotation},
};
use skydock_sdk::types::{AddressKind, Node, Service, TrafficPolicy, Transport};
use tokio::runtime::Runtime;

use crate::{
    load_balancers::{CallNodes, annotated, changes, delete, dump, ensure, named, nodes, port},
    world::World,
};

/// Returns the path of `tests/occm`, which is built once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/occm");
        Runtime::new()
            .unwrap()
            .block_on(skydock_clusters::go_binary(&module, "openstack-provider"))
            .unwrap()
    })
}

fn kind(kind: AddressKind) -> &'static str {
    match kind {
        AddressKind::InternalIp => "InternalIP",
        AddressKind::ExternalIp => "ExternalIP",
        AddressKind::Hostname => "Hostname",
        _ => "InternalDNS",
    }
}

fn node_json(node: &Node) -> Value {
    let addresses: Vec<Value> = node
        .addresses
        .iter()
        .map(|address| json!({"type": kind(address.kind), "address": address.address}))
        .collect();
    json!({
        "metadata": {"name": node.name},
        "spec": {"providerID": node.provider_id.clone().unwrap_or_default()},
        "status": {"addresses": addresses},
    })
}

fn service_json(service: &Service) -> Value {
    let transport = |transport| match transport {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
        Transport::Sctp => "SCTP",
    };
    let ports: Vec<Value> = service
        .ports
        .iter()
        .map(|port| json!({"name": port.name, "protocol": transport(port.transport), "port": port.port, "nodePort": port.node_port}))
        .collect();
    let annotations: serde_json::Map<String, Value> = service
        .annotations
        .iter()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    let local = service.external_traffic_policy == TrafficPolicy::Local;
    json!({
        "metadata": {"namespace": service.namespace, "name": service.name, "uid": service.uid, "annotations": annotations},
        "spec": {
            "type": "LoadBalancer", "ports": ports, "ipFamilies": ["IPv4"], "sessionAffinity": if service.client_ip_affinity_seconds.is_some() { "ClientIP" } else { "None" },
            "loadBalancerSourceRanges": service.source_ranges, "externalTrafficPolicy": if local { "Local" } else { "Cluster" },
            "healthCheckNodePort": service.health_check_node_port,
        },
    })
}

/// Runs one call of the official provider. Returns its answer and the number of requests it sent.
fn official(
    world: &World,
    more: &str,
    call: &str,
    service: Option<&Service>,
    nodes: &CallNodes,
) -> (Value, usize) {
    let text = format!(
        "{}{}{more}",
        world.project.cloud_conf(&world.auth_url),
        world.external()
    );
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "{}-{}.conf",
        process::id(),
        world.project.name
    ));
    fs::write(&path, text).unwrap();
    let input = json!({"service": service.map(service_json), "nodes": nodes.0.iter().map(node_json).collect::<Vec<_>>()});
    let mut child = Command::new(program())
        .args(["-v=6", "-logtostderr=true", "-cluster=kubernetes", "-conf"])
        .arg(&path)
        .arg(call)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.to_string().as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    fs::remove_file(path).unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    let requests = log
        .lines()
        .filter(|line| line.contains("OpenStack Request URL: "))
        .count();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{log}"));
    assert_eq!(answer.get("error"), None, "{answer:#}");
    (answer, requests)
}

/// Sets the annotations that the official provider has left.
fn adopt(service: &mut Service, answer: &Value) {
    let annotations = answer["annotations"].as_object().unwrap();
    service.annotations = annotations
        .iter()
        .map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()))
        .collect();
}

/// Returns the configurations, each with the Services to test.
fn configurations() -> [(&'static str, Vec<Service>); 2] {
    // Security groups depend only on ports and health checks, in which the first two Services
    // differ.
    let guarded = kinds().into_iter().take(2).collect();
    [
        ("[LoadBalancer]\ncreate-monitor=true", kinds()),
        ("[LoadBalancer]\nmanage-security-groups=true", guarded),
    ]
}

/// Returns Services of all kinds.
fn kinds() -> Vec<Service> {
    let mut two = named("two", &[]);
    two.ports.push(port(Transport::Udp, 53));
    let mut local = named("local", &[(annotation::ENABLE_HEALTH_MONITOR, "true")]);
    local.external_traffic_policy = TrafficPolicy::Local;
    local.health_check_node_port = 31999;
    let mut ranges = named(
        "ranges",
        &[
            (annotation::CONNECTION_LIMIT, "7"),
            (annotation::TIMEOUT_TCP_INSPECT, "5"),
        ],
    );
    ranges.source_ranges = vec!["192.0.2.0/24".into(), "10.0.0.0/8".into()];
    ranges.client_ip_affinity_seconds = Some(10);
    vec![
        two,
        local,
        ranges,
        named(
            "inner",
            &[
                (annotation::INTERNAL, "true"),
                (annotation::PROXY_PROTOCOL, "v2"),
            ],
        ),
        named(
            "forwarded",
            &[
                (annotation::X_FORWARDED_FOR, "true"),
                (annotation::ENABLE_HEALTH_MONITOR, "true"),
            ],
        ),
    ]
}

#[test]
#[ignore = "one of those that take minutes together"]
fn load_balancers_of_upstream_are_taken_over_unchanged() {
    let world = World::new(3);
    let all = nodes(&world, 3);
    for (more, kinds) in configurations() {
        let config = world.config(more);
        for mut service in kinds {
            let (answer, requests) = official(&world, more, "ensure", Some(&service), &all);
            adopt(&mut service, &answer);
            let id = annotated(&service, annotation::LOAD_BALANCER_ID);
            let made = dump(&world, &id);
            let status = ensure(&world, &config, &mut service, &all).unwrap();
            let calls = world.calls();
            assert_eq!(changes(&calls), Vec::<&String>::new(), "{}", service.name);
            assert_eq!(dump(&world, &id), made, "{}", service.name);
            let ip = answer["status"]["ingress"][0]["ip"].as_str();
            assert_eq!(ip, status.ingress[0].ip.as_deref());
            println!(
                "{}: upstream made it with {requests} requests, taken over with {}",
                service.name,
                calls.len()
            );
            delete(&world, &config, &mut service);
        }
    }
}

#[test]
#[ignore = "one of those that take minutes together"]
fn upstream_takes_over_our_load_balancers_unchanged() {
    let world = World::new(3);
    let all = nodes(&world, 3);
    for (more, kinds) in configurations() {
        let config = world.config(more);
        for mut service in kinds {
            world.calls();
            ensure(&world, &config, &mut service, &all).unwrap();
            let calls = world.calls().len();
            let id = annotated(&service, annotation::LOAD_BALANCER_ID);
            let made = dump(&world, &id);
            let (answer, requests) = official(&world, more, "ensure", Some(&service), &all);
            println!(
                "{}: made here with {calls} requests; taken over by upstream with {requests}",
                service.name
            );
            assert_eq!(dump(&world, &id), made, "{}", service.name);
            adopt(&mut service, &answer);
            world.calls();
            delete(&world, &config, &mut service);
            println!(
                "{}: deleted with {} requests",
                service.name,
                world.calls().len()
            );
        }
    }
}

#[test]
fn node_metadata_matches_upstream() {
    let world = World::of_all_kinds();
    let all = nodes(&world, 4);
    let public = format!("[Networking]\npublic-network-name={}", world.project.name);
    for more in [
        "",
        "[Networking]\nipv6-support-disabled=true",
        &public,
        "[Networking]\naddress-sort-order=fd00::/8",
        "[Networking]\ninternal-network-name=other",
    ] {
        let (answer, requests) = official(&world, more, "describe", None, &all);
        let config = world.config(more);
        world.calls();
        let told = instances::describe(&world.cloud(&config), &all.0).unwrap();
        println!(
            "{more:?}: upstream {requests} requests, here {}",
            world.calls().len()
        );
        for (told, answer) in told
            .into_iter()
            .zip(answer["instances"].as_array().unwrap())
        {
            let metadata = &answer["metadata"];
            let Ok(told) = told else {
                assert!(
                    metadata["NodeAddresses"].as_array().unwrap().is_empty(),
                    "{told:?} {metadata}"
                );
                continue;
            };
            let addresses: Vec<Value> = told
                .addresses
                .iter()
                .map(|address| json!({"type": kind(address.kind), "address": address.address}))
                .collect();
            let here = json!([
                told.provider_id,
                told.instance_type,
                told.zone,
                told.region,
                addresses
            ]);
            let there = [
                "ProviderID",
                "InstanceType",
                "Zone",
                "Region",
                "NodeAddresses",
            ]
            .map(|key| &metadata[key]);
            assert_eq!(here, json!(there), "{more}");
        }
    }
}

#[test]
#[ignore = "one of those that take minutes together"]
fn upstream_deletes_our_load_balancers() {
    let world = World::new(2);
    let all = nodes(&world, 2);
    let more = "[LoadBalancer]\nmanage-security-groups=true";
    let config = world.config(more);
    let mut service = named("deleted-there", &[]);
    ensure(&world, &config, &mut service, &all).unwrap();
    let id = annotated(&service, annotation::LOAD_BALANCER_ID);
    official(
        &world,
        more,
        "update",
        Some(&service),
        &CallNodes(all.0[..1].to_vec()),
    );
    assert_eq!(dump(&world, &id)["members"][0].as_array().unwrap().len(), 1);
    official(&world, more, "delete", Some(&service), &all);
    assert_eq!(
        load_balancers::get(&world.cloud(&config), &service).unwrap(),
        None
    );
}
