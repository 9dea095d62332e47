use serde_json::{Value, json};
use skydock_sdk::types::{Ingress, LoadBalancerStatus, Retry, ServicePort, Transport};

use super::*;
use crate::{
    host::Host,
    testing::{NoNodes, Script},
};

const BALANCERS: &str = "http://load-balancer/v2.0/lbaas/loadbalancers";
const NAME: &str = "kube_service_c_shop_web";

fn service(served: bool) -> Service {
    let port = ServicePort {
        name: String::new(),
        transport: Transport::Tcp,
        app_protocol: None,
        port: 80,
        target_port: "8080".to_owned(),
        node_port: 30080,
    };
    let ingress = Ingress { ip: Some("203.0.113.7".to_owned()), ..Ingress::default() };
    Service {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "u".to_owned(),
        ports: vec![port],
        status: LoadBalancerStatus { ingress: if served { vec![ingress] } else { Vec::new() } },
        ..Service::default()
    }
}

fn with(mut service: Service, key: &str, value: &str) -> Service {
    service.annotations.push((key.to_owned(), value.to_owned()));
    service
}

fn balancer(status: &str) -> Value {
    json!({"id": "lb", "name": NAME, "provisioning_status": status, "vip_address": "10.0.0.5", "vip_port_id": "p", "vip_subnet_id": "s", "tags": [NAME]})
}

fn named(script: &Script, balancers: &[Value]) {
    script.on(&format!("GET {BALANCERS}?name={NAME}"), 200, json!({"loadbalancers": balancers}));
}

fn is_in_progress<T>(answer: &Result<T>) -> bool {
    matches!(answer, Err(CloudError::InProgress(_)))
}

#[test]
fn the_id_is_noted_though_the_load_balancer_is_not_ready() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    named(&script, &[]);
    script.on(&format!("POST {BALANCERS}"), 201, json!({"loadbalancer": balancer("PENDING_CREATE")}));
    assert!(is_in_progress(&ensure(&script.cloud(), &service(false), &NoNodes)));
    assert_eq!(script.host.annotations.borrow()[annotation::LOAD_BALANCER_ID].as_deref(), Some("lb"));
    assert_eq!(script.asked(), [format!("GET {BALANCERS}?name={NAME}"), format!("POST {BALANCERS}")]);
}

#[test]
fn while_octavia_works_one_request_is_made_and_the_pauses_grow() {
    let script = Script::new("");
    named(&script, &[balancer("PENDING_UPDATE")]);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        if let Err(CloudError::InProgress(Retry { after_ms, .. })) = ensure(&script.cloud(), &service(false), &NoNodes)
        {
            pauses.push(after_ms);
        }
        assert_eq!(script.asked().len(), 1);
    }
    assert_eq!((pauses.len(), pauses[0], pauses[3], pauses[11]), (12, 1000, 2000, 8000));
    named(&script, &[balancer("PENDING_DELETE")]);
    assert!(is_in_progress(&ensure(&script.cloud(), &service(false), &NoNodes)));
}

#[test]
fn what_could_not_be_made_is_made_anew_unless_it_has_served() {
    let script = Script::new("");
    named(&script, &[balancer("ERROR")]);
    script.on(&format!("DELETE {BALANCERS}/lb"), 204, Value::Null);
    assert!(is_in_progress(&ensure(&script.cloud(), &service(false), &NoNodes)));
    assert_eq!(script.asked()[1], format!("DELETE {BALANCERS}/lb?cascade=true"));
    assert_eq!(script.host.annotations.borrow()[annotation::LOAD_BALANCER_ID], None);
    let refused = ensure(&script.cloud(), &service(true), &NoNodes).unwrap_err();
    assert!(matches!(&refused, CloudError::Unavailable(text) if text.contains("failover lb")), "{refused:?}");
    assert_eq!(script.asked().len(), 1);
}

#[test]
fn an_id_that_leads_nowhere_stops_only_who_never_had_an_address() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    named(&script, &[]);
    script.on(&format!("GET {BALANCERS}/old"), 404, json!({"faultstring": "gone"}));
    script.on(&format!("POST {BALANCERS}"), 201, json!({"loadbalancer": balancer("PENDING_CREATE")}));
    let new = with(service(false), annotation::LOAD_BALANCER_ID, "old");
    assert!(matches!(ensure(&script.cloud(), &new, &NoNodes), Err(CloudError::NotFound(_))));
    let served = with(service(true), annotation::LOAD_BALANCER_ID, "old");
    assert!(is_in_progress(&ensure(&script.cloud(), &served, &NoNodes)));
    assert!(script.asked().last().unwrap().starts_with("POST "));
}

/// It was made, noted and deleted again, as the Service was no more of this type; the host died before the note was taken back.
#[test]
fn an_id_that_was_noted_here_stops_nobody() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    named(&script, &[]);
    script.on(&format!("POST {BALANCERS}"), 201, json!({"loadbalancer": balancer("PENDING_CREATE")}));
    assert!(is_in_progress(&ensure(&script.cloud(), &service(false), &NoNodes)));
    let noted = script
        .host
        .annotations
        .borrow()
        .iter()
        .filter_map(|(key, value)| Some((key.clone(), value.clone()?)))
        .collect();
    let again = Service { annotations: noted, ..service(false) };
    let next = Script::new("[LoadBalancer]\nsubnet-id=s");
    named(&next, &[]);
    next.on(&format!("GET {BALANCERS}/lb"), 404, json!({"faultstring": "gone"}));
    next.on(&format!("POST {BALANCERS}"), 201, json!({"loadbalancer": balancer("PENDING_CREATE")}));
    assert!(is_in_progress(&ensure(&next.cloud(), &again, &NoNodes)));
}

#[test]
fn without_nodes_and_without_a_subnet_it_is_waited() {
    let script = Script::new("");
    named(&script, &[]);
    let answer = ensure(&script.cloud(), &service(false), &NoNodes);
    assert!(matches!(&answer, Err(CloudError::InProgress(retry)) if retry.message.contains("subnet-id")), "{answer:?}");
}

#[test]
fn of_two_of_a_name_one_is_kept_unless_they_may_both_serve() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    let two = |status: &str| {
        let mut other = balancer(status);
        other["id"] = json!("la");
        [balancer("ACTIVE"), other]
    };
    named(&script, &two("ACTIVE"));
    assert!(matches!(ensure(&script.cloud(), &service(true), &NoNodes), Err(CloudError::Internal(_))));
    assert!(script.asked().iter().all(|line| line.starts_with("GET ")));

    // Nobody was told of an address yet: the first by ID stays, for whoever looks.
    script.on("GET http://network/v2.0/floatingips", 200, json!({"floatingips": []})).on(
        &format!("DELETE {BALANCERS}/lb"),
        204,
        Value::Null,
    );
    assert!(is_in_progress(&ensure(&script.cloud(), &service(false), &NoNodes)));
    assert_eq!(script.host.annotations.borrow()[annotation::LOAD_BALANCER_ID].as_deref(), Some("la"));
    let asked = script.asked();
    assert_eq!(asked.last().unwrap(), &format!("DELETE {BALANCERS}/lb?cascade=true"), "{asked:?}");

    named(&script, &[balancer("PENDING_DELETE"), balancer("PENDING_UPDATE")]);
    assert!(is_in_progress(&ensure(&script.cloud(), &service(false), &NoNodes)));
}

#[test]
fn a_plan_is_gone_through_without_reading_anew() {
    let script = Script::new("[LoadBalancer]\ninternal-lb=true");
    named(&script, &[balancer("ACTIVE")]);
    let listener = |id: &str, port: u16| json!({"id": id, "protocol": "TCP", "protocol_port": port, "tags": [NAME]});
    let pool = |id: &str, listener: &str| json!({"id": id, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "listeners": [{"id": listener}]});
    let lbaas = "http://load-balancer/v2.0/lbaas";
    script
        .on(&format!("GET {lbaas}/listeners"), 200, json!({"listeners": [listener("l1", 80), listener("l2", 443)]}))
        .on(&format!("GET {lbaas}/pools?"), 200, json!({"pools": [pool("p1", "l1"), pool("p2", "l2")]}))
        .on(&format!("GET {lbaas}/pools/p1/members"), 200, json!({"members": []}))
        .on(&format!("GET {lbaas}/pools/p2/members"), 200, json!({"members": []}))
        .on("GET http://network/v2.0/floatingips", 200, json!({"floatingips": []}))
        .on("GET http://network/v2.0/security-groups", 200, json!({"security_groups": []}))
        .on(&format!("DELETE {lbaas}"), 204, Value::Null)
        .on(&format!("PUT {lbaas}"), 200, json!({}));
    let mut changes = Vec::new();
    let mut reads = 0;
    loop {
        let answer = ensure(&script.cloud(), &service(true), &NoNodes);
        let asked = script.asked();
        reads += asked.iter().filter(|line| line.contains("/listeners?")).count();
        changes.extend(asked.into_iter().filter(|line| !line.starts_with("GET ")));
        if !is_in_progress(&answer) {
            break;
        }
    }
    assert_eq!(
        changes,
        ["DELETE", "DELETE", "PUT"]
            .iter()
            .zip(["pools/p2", "listeners/l2", "listeners/l1"])
            .map(|(method, path)| format!("{method} {lbaas}/{path}"))
            .collect::<Vec<_>>()
    );
    assert_eq!(reads, 1);
}

#[test]
fn a_lost_race_throws_the_plan_away() {
    let script = Script::new("");
    named(&script, &[balancer("ACTIVE")]);
    let lbaas = "http://load-balancer/v2.0/lbaas";
    script
        .on(&format!("GET {lbaas}/listeners"), 200, json!({"listeners": []}))
        .on(&format!("GET {lbaas}/pools?"), 200, json!({"pools": []}))
        .on(
            &format!("POST {lbaas}/listeners"),
            409,
            json!({"faultstring": "Load Balancer lb is immutable and cannot be updated."}),
        );
    assert!(is_in_progress(&ensure(&script.cloud(), &service(true), &NoNodes)));
    assert!(script.host.kept("todo lb").is_none());
}

#[test]
fn what_is_left_of_a_load_balancer_is_something_to_delete() {
    let script = Script::new("");
    named(&script, &[]);
    script.on(&format!("GET {BALANCERS}?name=au"), 200, json!({"loadbalancers": []}));
    script.on("GET http://network/v2.0/security-groups", 200, json!({"security_groups": []}));
    let address = json!({"id": "f", "floating_ip_address": "203.0.113.7", "port_id": null,
        "description": "Floating IP for Kubernetes external service shop/web from cluster c"});
    script.on("GET http://network/v2.0/floatingips", 200, json!({"floatingips": [address]}));
    script.on("DELETE http://network/v2.0/floatingips/f", 204, Value::Null);
    assert_eq!(get(&script.cloud(), &service(true)), Ok(Some(LoadBalancerStatus::default())));
    assert_eq!(get(&script.cloud(), &service(false)), Ok(None));
    script.asked();
    assert_eq!(ensure_deleted(&script.cloud(), &service(true)), Ok(()));
    assert!(script.asked().contains(&"DELETE http://network/v2.0/floatingips/f".to_owned()));
    let kept = with(service(true), annotation::KEEP_FLOATING_IP, "true");
    assert_eq!(get(&script.cloud(), &kept), Ok(None));
    assert_eq!(ensure_deleted(&script.cloud(), &kept), Ok(()));
    assert!(!script.asked().iter().any(|line| line.starts_with("DELETE ")));
}

#[test]
fn members_of_a_load_balancer_that_is_gone_are_not_found() {
    let script = Script::new("");
    named(&script, &[]);
    script.on(&format!("GET {BALANCERS}?name=au"), 200, json!({"loadbalancers": []}));
    assert!(matches!(update_nodes(&script.cloud(), &service(true), &NoNodes), Err(CloudError::NotFound(_))));
}

/// A proxy before Neutron, or a Neutron without routers, answers 404 to the list of floating IPs.
#[test]
fn a_list_that_is_not_found_does_not_let_a_service_go() {
    let script = Script::new("");
    named(&script, &[balancer("ACTIVE")]);
    script.on("GET http://network/v2.0/floatingips", 404, json!({"message": "The resource could not be found."}));
    let answer = ensure_deleted(&script.cloud(), &service(true));
    // The host takes `not-found` for "there is no load balancer any more": this one was not touched.
    assert!(!matches!(answer, Err(CloudError::NotFound(_))), "{answer:?} after {:?}", script.asked());
}

/// The user has put another ID over the one that was noted: the Service shares that one from now on.
#[test]
fn the_load_balancer_that_was_left_for_a_shared_one_goes_with_the_service() {
    let script = Script::new("");
    let shared = json!({"id": "shared", "name": "kube_service_c_shop_other", "provisioning_status": "ACTIVE", "vip_address": "10.0.0.6",
        "vip_port_id": "q", "vip_subnet_id": "s", "tags": ["kube_service_c_shop_other"]});
    script.on("GET http://network/v2.0/", 200, json!({"floatingips": [], "security_groups": []}));
    script.on("GET http://load-balancer/v2.0/lbaas/listeners", 200, json!({"listeners": []}));
    script.on("GET http://load-balancer/v2.0/lbaas/pools", 200, json!({"pools": []}));
    script.on(&format!("GET {BALANCERS}/shared"), 200, json!({"loadbalancer": shared}));
    script.on(&format!("DELETE {BALANCERS}/lb"), 204, Value::Null);
    named(&script, &[balancer("ACTIVE")]);
    let moved = with(service(true), annotation::LOAD_BALANCER_ID, "shared");
    for _ in 0..5 {
        if ensure_deleted(&script.cloud(), &moved) == Ok(()) {
            break;
        }
    }
    let asked = script.asked();
    assert!(asked.iter().any(|line| line.starts_with(&format!("DELETE {BALANCERS}/lb"))), "{asked:?}");
}

/// Octavia was slow, and makes it all the same; its lists show it a moment later.
#[test]
fn what_was_asked_for_without_an_answer_is_looked_for_twice_before_the_service_goes() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    named(&script, &[]);
    script.on(&format!("GET {BALANCERS}?name=au"), 200, json!({"loadbalancers": []}));
    script.on("GET http://network/v2.0/", 200, json!({"floatingips": [], "security_groups": []}));
    script.on(&format!("POST {BALANCERS}"), 504, Value::Null);
    assert!(ensure(&script.cloud(), &service(false), &NoNodes).is_err());
    let first = ensure_deleted(&script.cloud(), &service(false));
    assert!(is_in_progress(&first), "{first:?}");
}

/// What is kept has another description: a later Service of the name sweeps away only what has its own.
#[test]
fn a_floating_ip_that_is_kept_is_marked_before_its_service_goes() {
    let script = Script::new("");
    let description = names::floating_ip("c", &service(true));
    let floating = json!({"id": "f", "floating_ip_address": "203.0.113.7", "description": description, "port_id": "p"});
    named(&script, &[balancer("ACTIVE")]);
    script.on("GET http://network/v2.0/floatingips?port_id=p", 200, json!({"floatingips": [floating]}));
    script.on("GET http://network/v2.0/security-groups", 200, json!({"security_groups": []}));
    script.on("PUT http://network/v2.0/floatingips/f", 503, Value::Null);
    script.on(&format!("DELETE {BALANCERS}/lb"), 204, Value::Null);
    let keeping = with(service(true), annotation::KEEP_FLOATING_IP, "true");
    assert!(matches!(ensure_deleted(&script.cloud(), &keeping), Err(CloudError::Unavailable(_))));
    assert!(script.asked().iter().all(|line| !line.starts_with("DELETE ")));
    script.on("PUT http://network/v2.0/floatingips/f", 200, json!({"floatingip": floating}));
    assert!(is_in_progress(&ensure_deleted(&script.cloud(), &keeping)));
    assert_ne!(names::kept_floating_ip("c", &keeping), description);
}

/// A proxy on the way to Octavia does not find the shared load balancer, on which this Service has listeners.
#[test]
fn a_load_balancer_that_only_a_proxy_does_not_find_is_there() {
    let script = Script::new("");
    named(&script, &[]);
    script.on("GET http://network/v2.0/", 200, json!({"floatingips": [], "security_groups": []}));
    script.on(&format!("GET {BALANCERS}/shared"), 404, json!({"message": "no route"}));
    let sharing = with(service(true), annotation::LOAD_BALANCER_ID, "shared");
    assert!(matches!(ensure_deleted(&script.cloud(), &sharing), Err(CloudError::Unavailable(_))));
}
