//! Services that share the load balancer of another Service.

use skydock_sdk::types::IpFamily;

use super::*;

const LBAAS: &str = "http://load-balancer/v2.0/lbaas";
const OWNER: &str = "kube_service_c_shop_owner";

/// Sets up the load balancer of another Service, with or without a floating IP.
fn shared(script: &Script, vip: &str, has_floating: bool) {
    let balancer = json!({"id": "lb", "name": OWNER, "provisioning_status": "ACTIVE", "vip_address": vip, "vip_port_id": "p",
        "vip_subnet_id": "s", "tags": [OWNER]});
    let floating = json!({"id": "f", "floating_ip_address": "203.0.113.7", "port_id": "p"});
    let floating = if has_floating {
        vec![floating]
    } else {
        Vec::new()
    };
    script
        .on(
            &format!("GET {BALANCERS}/lb"),
            200,
            json!({"loadbalancer": balancer}),
        )
        .on(
            &format!("GET {LBAAS}/listeners"),
            200,
            json!({"listeners": []}),
        )
        .on(&format!("GET {LBAAS}/pools?"), 200, json!({"pools": []}))
        .on(
            "GET http://network/v2.0/floatingips",
            200,
            json!({"floatingips": floating}),
        )
        .on(&format!("PUT {LBAAS}"), 200, json!({}));
}

#[test]
fn a_guest_is_accepted_or_rejected_before_any_change() {
    for (vip, has_floating, internal, accepted) in [
        ("10.0.0.5", false, true, true),
        ("10.0.0.5", true, false, true),
        ("10.0.0.5", true, true, false),
        ("10.0.0.5", false, false, false),
        // Allowed client ranges of the other family would be rejected later.
        ("2001:db8::5", false, true, false),
    ] {
        let script = Script::new("");
        shared(&script, vip, has_floating);
        let guest = Service {
            ip_families: vec![IpFamily::Ipv4],
            ..with(service(false), annotation::LOAD_BALANCER_ID, "lb")
        };
        let guest = with(guest, annotation::INTERNAL, &internal.to_string());
        let answer = ensure(&script.cloud(), &guest, &NoNodes);
        assert_eq!(is_in_progress(&answer), accepted, "{answer:?}");
        let tags = json!({"loadbalancer": {"tags": [OWNER, NAME]}});
        let sent = script.sent("PUT ");
        assert_eq!(sent, if accepted { vec![tags] } else { Vec::new() });
        assert!(accepted || !matches!(answer, Err(CloudError::Invalid(_))));
    }
}

/// Its owner may not have its floating IP yet.
#[test]
fn a_guest_waits_until_the_load_balancer_is_complete() {
    let script = Script::new("");
    shared(&script, "10.0.0.5", false);
    let creating = json!({"id": "lb", "name": OWNER, "provisioning_status": "PENDING_CREATE", "tags": [OWNER]});
    script.on(
        &format!("GET {BALANCERS}/lb"),
        200,
        json!({"loadbalancer": creating}),
    );
    let guest = with(service(false), annotation::LOAD_BALANCER_ID, "lb");
    assert!(is_in_progress(&ensure(&script.cloud(), &guest, &NoNodes)));
}
