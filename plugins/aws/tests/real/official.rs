//! Tests with the official provider on the same cloud: each provider keeps what the other one
//! created.
//!
//! `tests/official` passes one call to it.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use serde_json::{Value, json};
use skydock_sdk::types::{AddressKind, Service, TrafficPolicy};
use tokio::runtime::Runtime;

use crate::world::{World, annotation, server, service};

/// Returns the path of `tests/official`, which is built once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/official");
        Runtime::new()
            .unwrap()
            .block_on(skydock_clusters::go_binary(&module, "aws-provider"))
            .unwrap()
    })
}

fn described(service: &Service) -> Value {
    let annotations: serde_json::Map<String, Value> = service
        .annotations
        .iter()
        .map(|(key, value)| (key.clone(), value.clone().into()))
        .collect();
    let port = |port: &skydock_sdk::types::ServicePort| json!({"name": port.name, "protocol": "TCP", "port": port.port, "nodePort": port.node_port});
    let local = service.external_traffic_policy == TrafficPolicy::Local;
    json!({
        "metadata": {
            "namespace": service.namespace, "name": service.name, "uid": service.uid, "annotations": annotations,
        },
        "spec": {
            "type": "LoadBalancer",
            "ports": service.ports.iter().map(port).collect::<Vec<_>>(),
            "sessionAffinity": "None",
            "externalTrafficPolicy": if local { "Local" } else { "Cluster" },
            "healthCheckNodePort": service.health_check_node_port,
            "loadBalancerSourceRanges": service.source_ranges,
        },
    })
}

/// Runs one call of the official provider and returns the requests it sent.
fn official(world: &World, action: &str, service: &Service) -> Vec<String> {
    let answer = call(world, action, service);
    answer["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call.as_str().unwrap().to_owned())
        .collect()
}

fn call(world: &World, action: &str, service: &Service) -> Value {
    let node = |id: &String| json!({"metadata": {"name": id}, "spec": {"providerID": format!("aws:///us-east-1a/{id}")}});
    let input = json!({
        "Config": format!(
            "[Global]\nRegion=us-east-1\nVPC={}\nSubnetID={}\nKubernetesClusterID={}\n",
            world.vpc, world.subnets[0], world.cluster
        ),
        "Endpoint": server(),
        "Action": action,
        "Nodes": world.instances.iter().map(node).collect::<Vec<_>>(),
        "Service": described(service),
    });
    let mut child = Command::new(program())
        .envs([
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ])
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
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    let answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said()));
    assert!(answer.get("error").is_none(), "{answer}");
    answer
}

/// Creates or updates the load balancer and returns the requests that changed something.
fn ensure(world: &World, service: &Service) -> Vec<String> {
    world.line.take();
    world
        .call(|cloud| cloud.ensure_balancer(service, &world.targets()))
        .unwrap();
    changes(world.line.take())
}

fn changes(mut calls: Vec<String>) -> Vec<String> {
    calls.retain(|action| !action.starts_with("Describe"));
    calls
}

fn there_and_back(world: impl Fn() -> World, service: &Service, repaired: &[&str]) {
    let first = world();
    let made = official(&first, "ensure", service);
    assert_eq!(
        ensure(&first, service),
        repaired,
        "what the official provider made is kept"
    );
    assert_eq!(ensure(&first, service), Vec::<String>::new());
    first.call(|cloud| cloud.delete_balancer(service)).unwrap();
    let filter = [
        ("Filter.1.Name", "vpc-id"),
        ("Filter.1.Value.1", first.vpc.as_str()),
    ];
    let left = first.ec2("DescribeSecurityGroups", &filter);
    assert!(
        !left.contains("k8s-elb") && !left.contains("kubernetes.io/rule"),
        "{left}"
    );

    let second = world();
    ensure(&second, service);
    let kept = changes(official(&second, "ensure", service));
    println!(
        "official: {} requests to make it; what was made here it changes by {kept:?}",
        made.len()
    );
    // The official provider sends Modify requests every time, even for its own load balancers, and
    // creates this policy although it exists.
    let creates =
        |action: &&String| action.starts_with("Create") && *action != "CreateLoadBalancerPolicy";
    assert_eq!(kept.iter().filter(creates).count(), 0, "{kept:?}");
    assert!(
        !kept.iter().any(|action| action.starts_with("De")),
        "{kept:?}"
    );
    official(&second, "delete", service);
    assert_eq!(second.call(|cloud| cloud.balancer(service)), Ok(None));
}

fn plain() -> World {
    World::new(2, "")
}

#[test]
fn a_plain_nlb_is_taken_over_in_both_directions() {
    there_and_back(plain, &service(&[(80, 30080)]), &[]);
}

#[test]
fn an_internal_nlb_with_ranges_is_taken_over_in_both_directions() {
    let mut web = service(&[(80, 30080), (443, 30443)]);
    web.external_traffic_policy = TrafficPolicy::Local;
    web.health_check_node_port = 32000;
    web.source_ranges = vec!["192.0.2.0/24".into(), "198.51.100.0/24".into()];
    web.annotations.extend([
        annotation("internal", "true"),
        annotation("cross-zone-load-balancing-enabled", "true"),
        annotation("additional-resource-tags", "a=b"),
    ]);
    there_and_back(plain, &web, &[]);
}

#[test]
fn an_nlb_with_tls_is_taken_over_in_both_directions() {
    let mut web = service(&[(443, 30443)]);
    web.annotations.extend([
        annotation("ssl-cert", &crate::world::certificate()),
        annotation(
            "ssl-negotiation-policy",
            "ELBSecurityPolicy-TLS13-1-2-2021-06",
        ),
        annotation("target-group-attributes", "proxy_protocol_v2.enabled=true"),
        annotation("healthcheck-protocol", "http"),
        annotation("healthcheck-path", "/x"),
    ]);
    // moto does not list this attribute, and the official provider sets only listed attributes.
    there_and_back(plain, &web, &["ModifyTargetGroupAttributes"]);
}

#[test]
fn classic_load_balancers_are_taken_over_in_both_directions() {
    let mut web = service(&[(80, 30080)]);
    web.annotations.clear();
    there_and_back(plain, &web, &[]);
    let mut web = service(&[(80, 30080), (81, 30081)]);
    web.annotations = vec![
        annotation("proxy-protocol", "*"),
        annotation("connection-idle-timeout", "90"),
        annotation("connection-draining-enabled", "true"),
        annotation("connection-draining-timeout", "60"),
        annotation("cross-zone-load-balancing-enabled", "true"),
        annotation("backend-protocol", "http"),
    ];
    web.external_traffic_policy = TrafficPolicy::Local;
    web.health_check_node_port = 32001;
    web.source_ranges = vec!["192.0.2.0/24".into()];
    there_and_back(plain, &web, &[]);
}

#[test]
fn node_metadata_matches_the_official_provider() {
    let world = World::new(3, "");
    let theirs = call(&world, "describe", &service(&[(80, 30080)]));
    let ours = world.call(|cloud| cloud.describe(&world.nodes())).unwrap();
    for (index, one) in ours.into_iter().enumerate() {
        let (ours, theirs) = (one.unwrap(), &theirs["nodes"][index]);
        let kind = |kind| match kind {
            AddressKind::Hostname => "Hostname",
            AddressKind::InternalIp => "InternalIP",
            AddressKind::ExternalIp => "ExternalIP",
            AddressKind::InternalDns => "InternalDNS",
            AddressKind::ExternalDns => "ExternalDNS",
        };
        let addresses: Vec<Value> = ours
            .addresses
            .iter()
            .map(|one| json!({"type": kind(one.kind), "address": one.address}))
            .collect();
        let labels: serde_json::Map<String, Value> = ours
            .labels
            .into_iter()
            .map(|(key, value)| (key, value.into()))
            .collect();
        assert_eq!(json!(ours.provider_id), theirs["ProviderID"]);
        assert_eq!(json!(ours.instance_type), theirs["InstanceType"]);
        assert_eq!(json!(ours.zone), theirs["Zone"]);
        assert_eq!(json!(ours.region), theirs["Region"]);
        assert_eq!(json!(addresses), theirs["NodeAddresses"]);
        assert_eq!(Value::Object(labels), theirs["AdditionalLabels"]);
    }
}
