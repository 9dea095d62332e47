//! What users report of OpenStack, with the real services: they accept one change at a time, reject
//! what is missing or exceeds a quota, and take some settings only at creation.

use std::{thread::sleep, time::Duration};

use serde_json::{Value, json};
use skydock_clouds::Service as Cataloged;
use skydock_openstack::{
    cloud::Cloud,
    load_balancers::{self, annotation, names},
};
use skydock_sdk::types::{CloudError, IpFamily, IpFamilyPolicy, Service, Transport};

use crate::{
    load_balancers::{annotated, delete, dump, ensure, named, nodes, port, settle},
    world::World,
};

const INTERNAL: (&str, &str) = (annotation::INTERNAL, "true");

/// Creates a resource of Neutron and returns it.
fn create(world: &World, path: &str, kind: &str, fields: Value) -> Value {
    let session = &world.project.session;
    world.wait(session.create(Cataloged::Network, path, kind, fields))
}

/// Creates a second IPv4 subnet in the network of the project, and returns its ID.
fn second_subnet(world: &World, name: &str) -> String {
    let subnet = json!({"network_id": world.project.network_id, "name": name, "ip_version": 4, "cidr": "10.10.0.0/24"});
    let made = create(world, "/v2.0/subnets", "subnet", subnet);
    made["id"].as_str().unwrap().to_owned()
}

/// Returns the number of members of the pool that the only listener of a load balancer uses.
fn members_of_listener(world: &World, id: &str) -> usize {
    let session = &world.project.session;
    let path = format!("/v2.0/lbaas/listeners?loadbalancer_id={id}");
    let listeners = world.wait(session.list(Cataloged::LoadBalancer, &path, "listeners"));
    let pool = listeners[0]["default_pool_id"].as_str().unwrap();
    let path = format!("/v2.0/lbaas/pools/{pool}/members");
    world
        .wait(session.list(Cataloged::LoadBalancer, &path, "members"))
        .len()
}

fn reasons(world: &World) -> Vec<&'static str> {
    let events = world.host.events.take();
    events.into_iter().map(|event| event.reason).collect()
}

/// Neither the protocol of a pool nor the subnet of a member can be changed.
#[test]
#[ignore = "one of those that take minutes together"]
fn a_listener_always_has_a_pool_with_members() {
    let world = World::new(1);
    let config = world.config("[LoadBalancer]\ncreate-monitor=true");
    let all = nodes(&world, 1);
    let mut service = named("steady", &[INTERNAL]);
    ensure(&world, &config, &mut service, &all).unwrap();
    let id = annotated(&service, annotation::LOAD_BALANCER_ID);
    let elsewhere = second_subnet(&world, "second");
    for (key, value) in [
        (annotation::PROXY_PROTOCOL, "true"),
        (annotation::MEMBER_SUBNET_ID, elsewhere.as_str()),
    ] {
        service.annotations.push((key.to_owned(), value.to_owned()));
        let before = dump(&world, &id)["pools"][0]["id"].clone();
        settle(&world, &mut service, |service| {
            let answer = load_balancers::ensure(&world.cloud(&config), service, &all);
            assert_eq!(members_of_listener(&world, &id), 1);
            answer
        })
        .unwrap();
        let now = dump(&world, &id);
        assert_ne!(now["pools"][0]["id"], before, "{key}");
        assert_eq!(now["pools"].as_array().unwrap().len(), 1);
        assert_eq!(now["pools"][0]["protocol"], "PROXY");
        assert_eq!(now["monitors"].as_array().unwrap().len(), 1);
    }
    assert_eq!(
        dump(&world, &id)["members"][0][0]["subnet_id"],
        json!(elsewhere)
    );
    delete(&world, &config, &mut service);
}

/// A rejected listener does not stop the other one, and is created when the quota is raised.
#[test]
#[ignore = "one of those that take minutes together"]
fn an_exceeded_quota_stops_only_what_exceeds_it() {
    let world = World::new(2);
    let config = world.config("");
    let all = nodes(&world, 2);
    let quota = |number: i32| {
        let path = format!("/v2.0/lbaas/quotas/{}", world.project.id);
        let body = json!({"quota": {"listener": number}});
        let admin = world.admin();
        world.wait(admin.put(Cataloged::LoadBalancer, &path, Some(&body)));
    };
    let mut service = named("growing", &[INTERNAL]);
    ensure(&world, &config, &mut service, &all).unwrap();
    let id = annotated(&service, annotation::LOAD_BALANCER_ID);
    quota(1);
    service.ports.insert(0, port(Transport::Tcp, 81));
    service
        .annotations
        .push((annotation::CONNECTION_LIMIT.to_owned(), "7".to_owned()));
    let denied = ensure(&world, &config, &mut service, &all).unwrap_err();
    assert!(
        matches!(&denied, CloudError::Denied(text) if text.contains("port 81") && text.contains("uota")),
        "{denied:?}"
    );
    let now = dump(&world, &id);
    assert_eq!(now["listeners"].as_array().unwrap().len(), 1);
    assert_eq!(now["listeners"][0]["connection_limit"], 7);
    quota(-1);
    ensure(&world, &config, &mut service, &all).unwrap();
    assert_eq!(dump(&world, &id)["listeners"].as_array().unwrap().len(), 2);
    delete(&world, &config, &mut service);
}

/// What does not exist may be created a minute later, so nothing waits for a change of the Service.
#[test]
#[ignore = "one of those that take minutes together"]
fn what_is_missing_or_fixed_is_reported() {
    let world = World::new(1);
    let config = world.config("");
    let all = nodes(&world, 1);
    let nowhere = "0b9b2d4c-1234-5678-9abc-def012345678";
    for key in [
        annotation::FLAVOR_ID,
        annotation::AVAILABILITY_ZONE,
        annotation::SUBNET_ID,
        annotation::NETWORK_ID,
    ] {
        let mut missing = named("missing", &[INTERNAL, (key, nowhere)]);
        let error = ensure(&world, &config, &mut missing, &all).unwrap_err();
        assert!(matches!(error, CloudError::Denied(_)), "{key}: {error:?}");
    }
    let mut service = named("fixed", &[]);
    let address = ensure(&world, &config, &mut service, &all).unwrap().ingress[0]
        .ip
        .clone()
        .unwrap();
    reasons(&world);
    let second = second_subnet(&world, "second");
    let other = if address.starts_with("198.51.100.") {
        "public-v4"
    } else {
        "public-b"
    };
    for (key, value, reason) in [
        (
            annotation::FLAVOR_ID,
            nowhere,
            "LoadBalancerSettingsIgnored",
        ),
        (
            annotation::AVAILABILITY_ZONE,
            "far",
            "LoadBalancerSettingsIgnored",
        ),
        (
            annotation::SUBNET_ID,
            second.as_str(),
            "LoadBalancerSettingsIgnored",
        ),
        (
            annotation::FLOATING_SUBNET,
            other,
            "LoadBalancerFloatingIPKept",
        ),
    ] {
        let mut changed = service.clone();
        changed.annotations.push((key.to_owned(), value.to_owned()));
        ensure(&world, &config, &mut changed, &all).unwrap();
        assert_eq!(reasons(&world), [reason], "{key}");
        // Each Service reports once.
        ensure(&world, &config, &mut changed, &all).unwrap();
        assert_eq!(reasons(&world), [""; 0], "{key}");
    }
    // Another floating IP replaces the current one, which does not stay.
    let session = &world.project.session;
    let (_, chosen) = world.wait(world.project.floating_ip(None));
    let mut requesting = Service {
        load_balancer_ip: Some(chosen.clone()),
        ..service.clone()
    };
    let told = ensure(&world, &config, &mut requesting, &all).unwrap();
    assert_eq!(told.ingress[0].ip, Some(chosen));
    let path = format!("/v2.0/floatingips?floating_ip_address={address}");
    let left = world.wait(session.list(Cataloged::Network, &path, "floatingips"));
    assert_eq!(left, [Value::Null; 0]);
    delete(&world, &config, &mut requesting);
}

/// In a network with subnets of both families, Octavia would choose the IPv4 subnet.
#[test]
#[ignore = "one of those that take minutes together"]
fn the_vip_has_the_family_of_the_service() {
    let world = World::new(1);
    let network = &world.project.network_id;
    let config = world.config(&format!("[LoadBalancer]\nnetwork-id={network}"));
    let all = nodes(&world, 1);
    let mut service = Service {
        ip_families: vec![IpFamily::Ipv6, IpFamily::Ipv4],
        ip_family_policy: IpFamilyPolicy::RequireDualStack,
        ..named("six", &[])
    };
    let status = ensure(&world, &config, &mut service, &all).unwrap();
    let address = status.ingress[0].ip.clone().unwrap();
    assert!(address.starts_with("fd00:9:"), "{address}");
    let made = dump(&world, &annotated(&service, annotation::LOAD_BALANCER_ID));
    assert_eq!(
        made["loadbalancer"][0]["vip_subnet_id"],
        json!(world.project.subnet6_id)
    );
    let member = made["members"][0][0]["address"].as_str().unwrap();
    assert!(member.starts_with("fd00:9:"), "{member}");
    assert!(reasons(&world).contains(&"LoadBalancerIPFamilyIgnored"));
    delete(&world, &config, &mut service);
}

/// Octavia gives up, until what it needs works again.
#[test]
fn a_load_balancer_in_error_is_recreated() {
    let world = World::new(1);
    let config = world.config("");
    let all = nodes(&world, 1);
    let subnet = second_subnet(&world, "faulty");
    let mut service = named("unlucky", &[INTERNAL, (annotation::SUBNET_ID, &subnet)]);
    let failed = ensure(&world, &config, &mut service, &all).unwrap_err();
    assert!(
        matches!(&failed, CloudError::Unavailable(text) if text.contains("is being deleted")),
        "{failed:?}"
    );
    assert_eq!(reasons(&world), ["LoadBalancerFailed"]);
    let path = format!("/v2.0/subnets/{subnet}");
    let works = json!({"subnet": {"name": "works"}});
    let session = &world.project.session;
    world.wait(session.put(Cataloged::Network, &path, Some(&works)));
    let status = ensure(&world, &config, &mut service, &all).unwrap();
    let address = status.ingress[0].ip.clone().unwrap();
    assert!(address.starts_with("10.10.0."), "{address}");
    delete(&world, &config, &mut service);
}

/// The annotations were removed, too.
#[test]
#[ignore = "one of those that take minutes together"]
fn a_load_balancer_is_found_by_its_address() {
    let world = World::new(1);
    let config = world.config("");
    let all = nodes(&world, 1);
    world.host.nodes.replace(all.0.clone());
    for annotations in [&[][..], &[INTERNAL]] {
        let mut service = named("found", annotations);
        let before = Cloud::new(&config, "before", &world.host);
        let status = settle(&world, &mut service, |service| {
            load_balancers::ensure(&before, service, &all)
        })
        .unwrap();
        let id = annotated(&service, annotation::LOAD_BALANCER_ID);
        let mut service = Service {
            status: status.clone(),
            ..named("found", annotations)
        };
        assert_eq!(ensure(&world, &config, &mut service, &all).unwrap(), status);
        assert_eq!(annotated(&service, annotation::LOAD_BALANCER_ID), id);
        assert_eq!(
            dump(&world, &id)["loadbalancer"][0]["name"],
            "kube_service_kubernetes_default_found"
        );
        delete(&world, &config, &mut service);
    }
}

/// The in-tree provider created it before Kubernetes 1.14.
#[test]
#[ignore = "one of those that take minutes together"]
fn a_load_balancer_named_after_a_uid_is_served_and_deleted() {
    let world = World::new(2);
    let config = world.config("");
    let mut service = named("intree", &[INTERNAL]);
    ensure(&world, &config, &mut service, &nodes(&world, 1)).unwrap();
    let id = annotated(&service, annotation::LOAD_BALANCER_ID);
    let listener = dump(&world, &id)["listeners"][0]["id"].clone();
    let session = &world.project.session;
    let change = |path: &str, body: Value| {
        let path = format!("/v2.0/lbaas/{path}");
        world.wait(session.put(Cataloged::LoadBalancer, &path, Some(&body)));
        sleep(Duration::from_secs(2));
    };
    let path = format!("listeners/{}", listener.as_str().unwrap());
    change(&path, json!({"listener": {"tags": []}}));
    let old = json!({"loadbalancer": {"name": names::legacy(&service), "tags": []}});
    change(&format!("loadbalancers/{id}"), old);
    service.annotations = named("intree", &[INTERNAL]).annotations;
    // Each pass finds it in another way: by its name, and by the ID that the first one stored.
    for count in [1, 2] {
        let all = nodes(&world, count);
        ensure(&world, &config, &mut service, &all).unwrap();
        assert_eq!(annotated(&service, annotation::LOAD_BALANCER_ID), id);
        assert_eq!(members_of_listener(&world, &id), count);
        load_balancers::update_nodes(&world.cloud(&config), &service, &all).unwrap();
    }
    assert_eq!(dump(&world, &id)["listeners"][0]["id"], listener);
    delete(&world, &config, &mut service);
    assert_eq!(dump(&world, &id)["loadbalancer"], json!([]));
}

#[test]
#[ignore = "one of those that take minutes together"]
fn a_service_gets_its_kept_floating_ip_back() {
    let world = World::new(1);
    let config = world.config("");
    let all = nodes(&world, 1);
    let keep = (annotation::KEEP_FLOATING_IP, "true");
    let mut service = named("again", &[keep]);
    let public = ensure(&world, &config, &mut service, &all).unwrap();
    let (key, value) = INTERNAL;
    service.annotations.push((key.to_owned(), value.to_owned()));
    let internal = ensure(&world, &config, &mut service, &all).unwrap();
    assert_ne!(internal, public);
    service.annotations.retain(|(other, _)| other != key);
    assert_eq!(ensure(&world, &config, &mut service, &all).unwrap(), public);
    delete(&world, &config, &mut service);
}
