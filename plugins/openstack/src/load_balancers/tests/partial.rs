//! What the cloud rejects stops only what depends on it, and nothing that serves is deleted first.

use skydock_sdk::types::{IpFamily, IpFamilyPolicy};

use super::*;

const LBAAS: &str = "http://load-balancer/v2.0/lbaas";
const FLOATING: &str = "http://network/v2.0/floatingips";

/// Sets up a complete load balancer for TCP ports 80 and 443, with a floating IP.
fn complete(script: &Script) {
    named(script, &[balancer("ACTIVE")]);
    let listener = |id: &str, port: u16| json!({"id": id, "protocol": "TCP", "protocol_port": port, "tags": [NAME]});
    let pool = |id: &str, listener: &str| json!({"id": id, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "listeners": [{"id": listener}]});
    let floating = json!({"id": "f", "floating_ip_address": "203.0.113.7", "port_id": "p"});
    script
        .on(
            &format!("GET {LBAAS}/listeners"),
            200,
            json!({"listeners": [listener("l1", 80), listener("l2", 443)]}),
        )
        .on(
            &format!("GET {LBAAS}/pools?"),
            200,
            json!({"pools": [pool("p1", "l1"), pool("p2", "l2")]}),
        )
        .on(&format!("GET {LBAAS}/pools/"), 200, json!({"members": []}))
        .on(
            &format!("GET {FLOATING}"),
            200,
            json!({"floatingips": [floating]}),
        )
        .on(
            "GET http://network/v2.0/security-groups",
            200,
            json!({"security_groups": []}),
        )
        .on(&format!("PUT {LBAAS}"), 200, json!({}))
        .on(
            &format!("POST {LBAAS}"),
            201,
            json!({"pool": {"id": "new"}}),
        )
        .on(&format!("DELETE {LBAAS}"), 204, Value::Null);
}

fn two_ports(annotations: &[(&str, &str)]) -> Service {
    let mut service = service(true);
    let mut second = service.ports[0].clone();
    (second.port, second.node_port) = (443, 30443);
    service.ports.push(second);
    annotations
        .iter()
        .fold(service, |service, (key, value)| with(service, key, value))
}

/// Calls until the answer is final, and returns it with the changes.
fn settled<T>(script: &Script, mut call: impl FnMut() -> Result<T>) -> (Result<T>, Vec<String>) {
    script.requested();
    for _ in 0..20 {
        let answer = call();
        if !is_in_progress(&answer) {
            let requested = script.requested().into_iter();
            let changes = requested
                .filter(|line| !line.starts_with("GET "))
                .map(|line| line.replace("http://load-balancer/v2.0/lbaas", ""))
                .collect();
            return (answer, changes);
        }
    }
    panic!("the call does not end");
}

/// The timeouts of a listener are rejected, and the other port needs members.
#[test]
fn a_rejected_listener_does_not_stop_the_others() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    complete(&script);
    let rejection = json!({"faultstring": "Flavor x not found."});
    script.on(&format!("PUT {LBAAS}/listeners/l1"), 400, rejection);
    let service = two_ports(&[(annotation::CONNECTION_LIMIT, "7")]);
    let (answer, changes) = settled(&script, || ensure(&script.cloud(), &service, &OneNode));

    assert!(
        matches!(&answer, Err(CloudError::Denied(text)) if text.contains("update listener l1")),
        "{answer:?}"
    );

    let expected = [
        "PUT /listeners/l1",
        "PUT /pools/p1/members",
        "PUT /listeners/l2",
        "PUT /pools/p2/members",
    ];
    assert_eq!(changes, expected);
}

/// Nor does it stop the address of a Service that has been complete.
#[test]
fn a_rejected_listener_does_not_stop_the_floating_ip() {
    for (is_served, created) in [(true, true), (false, false)] {
        let script = Script::new("[LoadBalancer]\nsubnet-id=s\nfloating-network-id=ext");
        complete(&script);
        let rejection = json!({"faultstring": "Flavor x not found."});
        script
            .on(&format!("PUT {LBAAS}/listeners"), 400, rejection)
            .on(&format!("GET {FLOATING}"), 200, json!({"floatingips": []}))
            .on(
                &format!("POST {FLOATING}"),
                201,
                json!({"floatingip": {"id": "g", "floating_ip_address": "203.0.113.8"}}),
            );
        let mut service = two_ports(&[(annotation::CONNECTION_LIMIT, "7")]);
        if !is_served {
            service.status = LoadBalancerStatus::default();
        }
        let (answer, changes) = settled(&script, || ensure(&script.cloud(), &service, &NoNodes));
        assert!(matches!(answer, Err(CloudError::Denied(_))), "{answer:?}");
        let is_created = changes.contains(&format!("POST {FLOATING}"));
        assert_eq!(is_created, created, "{changes:?}");
    }
}

/// Nor does a port that another Service uses.
#[test]
fn a_used_port_does_not_stop_the_floating_ip() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s\nfloating-network-id=ext");
    complete(&script);
    let listener = |id: &str, port: u16, tag: &str| json!({"id": id, "protocol": "TCP", "protocol_port": port, "tags": [tag]});
    let listeners = [
        listener("l1", 80, NAME),
        listener("l2", 443, "kube_service_c_shop_other"),
    ];
    script
        .on(
            &format!("GET {LBAAS}/listeners"),
            200,
            json!({"listeners": listeners}),
        )
        .on(&format!("GET {FLOATING}"), 200, json!({"floatingips": []}))
        .on(
            &format!("POST {FLOATING}"),
            201,
            json!({"floatingip": {"id": "g", "floating_ip_address": "203.0.113.8"}}),
        );
    let service = two_ports(&[]);
    let (answer, changes) = settled(&script, || ensure(&script.cloud(), &service, &NoNodes));

    assert!(
        matches!(&answer, Err(CloudError::Unavailable(text)) if text.starts_with("port 443")),
        "{answer:?}"
    );
    assert!(changes.contains(&format!("POST {FLOATING}")), "{changes:?}");
}

/// A pool that cannot be replaced goes on serving.
#[test]
fn a_rejected_replacement_keeps_the_pool() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    complete(&script);
    let quota = json!({"faultstring": "Quota has been met for resources: Pool"});
    script.on(&format!("POST {LBAAS}/pools"), 403, quota);
    let service = two_ports(&[(annotation::PROXY_PROTOCOL, "true")]);
    let (answer, changes) = settled(&script, || ensure(&script.cloud(), &service, &OneNode));
    assert!(matches!(answer, Err(CloudError::Denied(_))), "{answer:?}");
    let of_pools: Vec<_> = changes
        .iter()
        .filter(|line| line.contains("pool"))
        .collect();
    assert_eq!(of_pools, ["POST /pools", "POST /pools"]);
}

/// Without its tag, the owner would delete what the Service creates.
#[test]
fn nothing_is_created_without_the_tag() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    complete(&script);
    let mut untagged = balancer("ACTIVE");
    untagged["tags"] = json!([]);
    named(&script, &[untagged]);
    let forbidden = json!({"faultstring": "Policy does not allow this request to be performed."});
    script.on(&format!("PUT {BALANCERS}/lb"), 403, forbidden);
    let mut service = two_ports(&[]);
    service.ports[1].port = 8443;
    let (answer, changes) = settled(&script, || ensure(&script.cloud(), &service, &NoNodes));
    assert!(matches!(answer, Err(CloudError::Denied(_))), "{answer:?}");
    assert_eq!(changes, ["PUT /loadbalancers/lb"]);
}

/// Ranges that are not valid do not keep new nodes from the load balancer.
#[test]
fn members_follow_although_the_service_is_rejected() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    complete(&script);
    let mut service = two_ports(&[
        (annotation::PROXY_PROTOCOL, "true"),
        (annotation::X_FORWARDED_FOR, "true"),
    ]);
    service.source_ranges = vec!["everybody".to_owned()];
    let (answer, changes) = settled(&script, || ensure(&script.cloud(), &service, &OneNode));

    assert!(matches!(answer, Err(CloudError::Invalid(_))), "{answer:?}");
    assert_eq!(changes, [""; 0]);

    let (answer, changes) = settled(&script, || {
        update_nodes(&script.cloud(), &service, &OneNode)
    });
    assert_eq!(answer, Ok(()));
    assert_eq!(changes, ["PUT /pools/p1/members", "PUT /pools/p2/members"]);
}

/// Node ports are opened before the load balancer sends traffic there, and closed afterwards.
#[test]
fn security_groups_are_opened_first_and_closed_last() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s\nmanage-security-groups=true");
    complete(&script);
    let neutron = "http://network/v2.0";
    let rule = |port: u16| {
        json!({"id": format!("r{port}"), "direction": "ingress", "ethertype": "IPv4", "protocol": "tcp",
        "remote_ip_prefix": "10.7.0.0/24", "port_range_min": port, "port_range_max": port})
    };
    let group = |ports: &[u16]| {
        let rules: Vec<_> = ports.iter().map(|port| rule(*port)).collect();
        json!({"security_groups": [{"id": "g", "name": names::security_group(&service(true)), "security_group_rules": rules}]})
    };
    // The subnet of the load balancer is not that of the nodes.
    let port = json!({"id": "np", "device_id": "server", "fixed_ips": [{"subnet_id": "n", "ip_address": "10.7.0.1"}], "revision_number": 1});
    script
        .on(
            &format!("GET {neutron}/subnets/s"),
            200,
            json!({"subnet": {"id": "s", "ip_version": 4, "cidr": "10.7.0.0/24"}}),
        )
        .on(
            &format!("GET {neutron}/security-groups"),
            200,
            group(&[30080, 31000]),
        )
        .on(
            &format!("GET {neutron}/ports"),
            200,
            json!({"ports": [port]}),
        )
        .on(
            &format!("POST {neutron}/security-group-rules"),
            201,
            json!({}),
        )
        .on(
            &format!("DELETE {neutron}/security-group-rules"),
            204,
            Value::Null,
        )
        .on(&format!("PUT {neutron}/ports/"), 200, json!({}));
    let service = two_ports(&[]);
    let mut changes = Vec::new();
    for has_all in [false, true, true] {
        if has_all {
            script.on(
                &format!("GET {neutron}/security-groups"),
                200,
                group(&[30080, 30443, 31000]),
            );
        }
        let answer = update_nodes(&script.cloud(), &service, &OneNode);
        assert_eq!(answer.is_ok(), changes.len() >= 4, "{answer:?}");
        let requested = script.requested().into_iter();
        changes.extend(requested.filter(|line| !line.starts_with("GET ")));
    }
    let at = |part: &str| changes.iter().position(|line| line.contains(part));

    assert!(at("POST http://network").is_some());
    assert!(
        at("POST http://network") < at("/pools/p1/members"),
        "{changes:?}"
    );
    assert!(at("PUT http://network/v2.0/ports/np") < at("/pools/p1/members"));
    assert!(
        at("/pools/p2/members") < at("DELETE http://network"),
        "{changes:?}"
    );
    assert!(changes.last().is_some());
}

#[test]
fn families_that_cannot_be_given_are_reported() {
    use IpFamily::{Ipv4, Ipv6};
    use IpFamilyPolicy::{PreferDualStack, RequireDualStack, SingleStack};
    for (policy, families, nodes, reasons) in [
        (
            RequireDualStack,
            &[Ipv4, Ipv6][..],
            true,
            &["LoadBalancerIPFamilyIgnored"][..],
        ),
        (PreferDualStack, &[Ipv4, Ipv6], true, &[]),
        (SingleStack, &[Ipv4], true, &[]),
        (SingleStack, &[Ipv6], true, &["LoadBalancerWithoutMembers"]),
        // The host reports a cluster without nodes.
        (SingleStack, &[Ipv6], false, &[]),
    ] {
        let script = Script::new("[LoadBalancer]\ninternal-lb=true\nsubnet-id=s");
        complete(&script);
        let mut made = balancer("ACTIVE");
        if families.first() == Some(&Ipv6) {
            made["vip_address"] = json!("2001:db8::5");
        }
        named(&script, &[made]);
        let subnet = json!({"subnet": {"id": "s", "ip_version": if families.first() == Some(&Ipv6) { 6 } else { 4 }}});
        script.on("GET http://network/v2.0/subnets/s", 200, subnet);
        let service = Service {
            ip_families: families.to_vec(),
            ip_family_policy: policy,
            ..two_ports(&[])
        };
        for _ in 0..2 {
            let answer = if nodes {
                ensure(&script.cloud(), &service, &OneNode)
            } else {
                ensure(&script.cloud(), &service, &NoNodes)
            };
            assert!(is_in_progress(&answer), "{answer:?}");
        }
        let events = script.host.events.borrow();
        let published: Vec<_> = events.iter().map(|event| event.reason).collect();
        assert_eq!(published, reasons, "{policy:?} {families:?}");
    }
}
