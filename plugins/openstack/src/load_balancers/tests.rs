use serde_json::{Value, json};
use skydock_sdk::types::{
    AddressKind, Ingress, LoadBalancerStatus, NodeAddress, Retry, ServicePort, Transport,
};

use crate::{
    host_functions::HostFunctions,
    load_balancers::{observed_load_balancer::Ownership, *},
    services::octavia::LoadBalancer,
    testing::{NoNodes, Script},
};

const BALANCERS: &str = "http://load-balancer/v2.0/lbaas/loadbalancers";
mod address;
mod floating_ips;
mod foreign;
mod legacy;
mod partial;
mod repeats;
mod sharing;
mod subnets;
mod switching;

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
    let ingress = Ingress {
        ip: Some("203.0.113.7".to_owned()),
        ..Ingress::default()
    };
    Service {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "u".to_owned(),
        ports: vec![port],
        status: LoadBalancerStatus {
            ingress: if served { vec![ingress] } else { Vec::new() },
        },
        ..Service::default()
    }
}

fn context<'a>(
    cloud: &'a Cloud<'a>,
    service: &'a Service,
    desired: &'a DesiredLoadBalancer,
) -> Context<'a> {
    Context {
        cloud,
        service,
        desired,
    }
}

fn with(mut service: Service, key: &str, value: &str) -> Service {
    service.annotations.push((key.to_owned(), value.to_owned()));
    service
}

fn balancer(status: &str) -> Value {
    json!({"id": "lb", "name": NAME, "provisioning_status": status, "vip_address": "10.0.0.5", "vip_port_id": "p", "vip_subnet_id": "s", "tags": [NAME]})
}

/// Sets up the load balancers with the Service's name. They are known to lead to this cluster.
fn named(script: &Script, balancers: &[Value]) {
    for id in ["la", "lb"] {
        script
            .host
            .cache(&format!("used here {id}"), &[1], Duration::MAX);
    }
    script.on(
        &format!("GET {BALANCERS}?name={NAME}"),
        200,
        json!({"loadbalancers": balancers}),
    );
}

fn is_in_progress<T>(answer: &Result<T>) -> bool {
    matches!(answer, Err(CloudError::InProgress(_)))
}

/// It might be meant to be internal. Members are updated anyway.
#[test]
fn an_unreadable_internal_annotation_creates_nothing() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    let unclear = with(service(true), annotation::INTERNAL, "yes");
    let answer = ensure(&script.cloud(), &unclear, &NoNodes);
    assert!(
        matches!(&answer, Err(CloudError::Invalid(text)) if text.contains("not `yes`")),
        "{answer:?}"
    );
    assert_eq!(script.requested(), [""; 0]);

    named(&script, &[balancer("PENDING_UPDATE")]);
    assert!(is_in_progress(&update_nodes(
        &script.cloud(),
        &unclear,
        &NoNodes
    )));
}

#[test]
fn ignored_annotations_are_reported_once() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    named(&script, &[balancer("PENDING_UPDATE")]);
    let warnings = |service: &Service| {
        assert!(is_in_progress(&ensure(&script.cloud(), service, &NoNodes)));
        std::mem::take(&mut *script.host.events.borrow_mut())
            .into_iter()
            .map(|event| event.message)
            .collect::<Vec<_>>()
    };
    let wrong = with(service(true), annotation::CONNECTION_LIMIT, "7k");
    let message = "Annotations are ignored: loadbalancer.openstack.org/connection-limit: expected a number, not `7k`";

    assert_eq!(warnings(&wrong), [message]);
    assert_eq!(warnings(&wrong), [""; 0]);

    let worse = with(wrong.clone(), annotation::TIMEOUT_CLIENT_DATA, "1m");
    assert_eq!(warnings(&worse).len(), 1);
    assert_eq!(warnings(&service(true)), [""; 0]);
    assert_eq!(
        warnings(&wrong),
        [message],
        "it was corrected in the meantime"
    );
}

#[test]
fn the_id_is_stored_before_the_load_balancer_is_ready() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    named(&script, &[]);
    script.on(
        &format!("POST {BALANCERS}"),
        201,
        json!({"loadbalancer": balancer("PENDING_CREATE")}),
    );
    assert!(is_in_progress(&ensure(
        &script.cloud(),
        &service(false),
        &NoNodes
    )));
    assert_eq!(
        script.host.annotations.borrow()[annotation::LOAD_BALANCER_ID].as_deref(),
        Some("lb")
    );
    assert_eq!(
        script.requested(),
        [
            format!("GET {BALANCERS}?name={NAME}"),
            format!("POST {BALANCERS}")
        ]
    );
}

#[test]
fn a_pending_load_balancer_is_polled_with_growing_pauses() {
    let script = Script::new("");
    named(&script, &[balancer("PENDING_UPDATE")]);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        if let Err(CloudError::InProgress(Retry { after_ms, .. })) =
            ensure(&script.cloud(), &service(false), &NoNodes)
        {
            pauses.push(after_ms);
        }
        assert_eq!(script.requested().len(), 1);
    }

    assert_eq!(
        (pauses.len(), pauses[0], pauses[3], pauses[11]),
        (12, 1000, 2000, 8000)
    );

    named(&script, &[balancer("PENDING_DELETE")]);
    assert!(is_in_progress(&ensure(
        &script.cloud(),
        &service(false),
        &NoNodes
    )));
}

#[test]
fn a_creation_of_the_process_before_can_be_late() {
    let script = Script::new("");
    script.host.uncache("running");
    script
        .on(
            &format!("GET {BALANCERS}"),
            200,
            json!({"loadbalancers": []}),
        )
        .on(
            "GET http://network/v2.0/",
            200,
            json!({"floatingips": [], "security_groups": []}),
        );
    let unserved = Service {
        status: LoadBalancerStatus::default(),
        ..service(false)
    };
    assert!(is_in_progress(&ensure_deleted(&script.cloud(), &unserved)));
    assert_eq!(
        ensure_deleted(&script.cloud(), &service(true)),
        Ok(()),
        "it had an address, so it is known"
    );

    script.host.uncache("starting");
    assert_eq!(ensure_deleted(&script.cloud(), &unserved), Ok(()));
}

#[test]
fn a_deletion_is_polled_less_often() {
    let script = Script::new("");
    named(&script, &[balancer("PENDING_DELETE")]);
    let pauses: Vec<_> = (0..6)
        .map(|_| match ensure_deleted(&script.cloud(), &service(true)) {
            Err(CloudError::InProgress(Retry { after_ms, .. })) => after_ms,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(pauses, [4000, 4000, 4000, 4000, 8000, 8000]);
}

#[test]
fn a_failed_load_balancer_is_recreated_unless_it_served() {
    let script = Script::new("");
    named(&script, &[balancer("ERROR")]);
    script.on(
        "GET http://network/v2.0/floatingips",
        200,
        json!({"floatingips": []}),
    );
    script.on(&format!("DELETE {BALANCERS}/lb"), 204, Value::Null);
    // An error, so that retries back off and a creation that fails is not repeated every few
    // seconds.
    assert!(matches!(
        ensure(&script.cloud(), &service(false), &NoNodes),
        Err(CloudError::Unavailable(_))
    ));
    assert_eq!(
        script.requested()[2],
        format!("DELETE {BALANCERS}/lb?cascade=true")
    );
    assert_eq!(
        script.host.annotations.borrow()[annotation::LOAD_BALANCER_ID],
        None
    );

    let rejection = ensure(&script.cloud(), &service(true), &NoNodes).unwrap_err();
    assert!(
        matches!(&rejection, CloudError::Unavailable(text) if text.contains("failover lb")),
        "{rejection:?}"
    );
    assert_eq!(script.requested().len(), 1);
}

#[test]
fn a_missing_id_fails_only_a_service_without_an_address() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    named(&script, &[]);
    script.on(
        &format!("GET {BALANCERS}/old"),
        404,
        json!({"faultstring": "gone"}),
    );
    script.on(
        &format!("POST {BALANCERS}"),
        201,
        json!({"loadbalancer": balancer("PENDING_CREATE")}),
    );
    let new = with(service(false), annotation::LOAD_BALANCER_ID, "old");

    assert!(matches!(
        ensure(&script.cloud(), &new, &NoNodes),
        Err(CloudError::NotFound(_))
    ));

    let served = with(service(true), annotation::LOAD_BALANCER_ID, "old");
    assert!(is_in_progress(&ensure(&script.cloud(), &served, &NoNodes)));
    assert!(script.requested().last().unwrap().starts_with("POST "));
}

/// The load balancer was created and deleted again because the type of the Service changed, and the
/// host died before it removed the annotation.
#[test]
fn a_missing_id_stored_by_the_plugin_is_ignored() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    named(&script, &[]);
    script.on(
        &format!("POST {BALANCERS}"),
        201,
        json!({"loadbalancer": balancer("PENDING_CREATE")}),
    );
    assert!(is_in_progress(&ensure(
        &script.cloud(),
        &service(false),
        &NoNodes
    )));

    let stored = script
        .host
        .annotations
        .borrow()
        .iter()
        .filter_map(|(key, value)| Some((key.clone(), value.clone()?)))
        .collect();
    let again = Service {
        annotations: stored,
        ..service(false)
    };
    let next = Script::new("[LoadBalancer]\nsubnet-id=s");
    named(&next, &[]);
    next.on(
        &format!("GET {BALANCERS}/lb"),
        404,
        json!({"faultstring": "gone"}),
    );
    next.on(
        &format!("POST {BALANCERS}"),
        201,
        json!({"loadbalancer": balancer("PENDING_CREATE")}),
    );
    assert!(is_in_progress(&ensure(&next.cloud(), &again, &NoNodes)));
}

#[test]
fn waits_without_nodes_and_without_a_subnet() {
    let script = Script::new("");
    named(&script, &[]);
    let answer = ensure(&script.cloud(), &service(false), &NoNodes);
    assert!(
        matches!(&answer, Err(CloudError::InProgress(retry)) if retry.message.contains("subnet-id")),
        "{answer:?}"
    );
}

#[test]
fn a_duplicate_is_deleted_unless_both_may_serve() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    let two = |status: &str| {
        let mut other = balancer(status);
        other["id"] = json!("la");
        [balancer("ACTIVE"), other]
    };
    named(&script, &two("ACTIVE"));
    assert!(matches!(
        ensure(&script.cloud(), &service(true), &NoNodes),
        Err(CloudError::Denied(_))
    ));
    assert!(
        script
            .requested()
            .iter()
            .all(|line| line.starts_with("GET "))
    );

    // No Service has an address yet, so the first load balancer by ID is kept, whichever client
    // looks.
    script
        .on(
            "GET http://network/v2.0/floatingips",
            200,
            json!({"floatingips": []}),
        )
        .on(&format!("DELETE {BALANCERS}/lb"), 204, Value::Null);
    assert!(is_in_progress(&ensure(
        &script.cloud(),
        &service(false),
        &NoNodes
    )));
    assert_eq!(
        script.host.annotations.borrow()[annotation::LOAD_BALANCER_ID].as_deref(),
        Some("la")
    );

    let requested = script.requested();
    assert_eq!(
        requested.last().unwrap(),
        &format!("DELETE {BALANCERS}/lb?cascade=true"),
        "{requested:?}"
    );

    named(
        &script,
        &[balancer("PENDING_DELETE"), balancer("PENDING_UPDATE")],
    );
    assert!(is_in_progress(&ensure(
        &script.cloud(),
        &service(false),
        &NoNodes
    )));
}

#[test]
fn a_plan_is_executed_without_rereading_the_state() {
    let script = Script::new("[LoadBalancer]\ninternal-lb=true");
    named(&script, &[balancer("ACTIVE")]);
    let listener = |id: &str, port: u16| json!({"id": id, "protocol": "TCP", "protocol_port": port, "tags": [NAME]});
    let pool = |id: &str, listener: &str| json!({"id": id, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "listeners": [{"id": listener}]});
    let lbaas = "http://load-balancer/v2.0/lbaas";
    script
        .on(
            &format!("GET {lbaas}/listeners"),
            200,
            json!({"listeners": [listener("l1", 80), listener("l2", 443)]}),
        )
        .on(
            &format!("GET {lbaas}/pools?"),
            200,
            json!({"pools": [pool("p1", "l1"), pool("p2", "l2")]}),
        )
        .on(
            &format!("GET {lbaas}/pools/p1/members"),
            200,
            json!({"members": []}),
        )
        .on(
            &format!("GET {lbaas}/pools/p2/members"),
            200,
            json!({"members": []}),
        )
        .on(
            "GET http://network/v2.0/floatingips",
            200,
            json!({"floatingips": []}),
        )
        .on(
            "GET http://network/v2.0/security-groups",
            200,
            json!({"security_groups": []}),
        )
        .on(&format!("DELETE {lbaas}"), 204, Value::Null)
        .on(&format!("PUT {lbaas}"), 200, json!({}));
    let mut changes = Vec::new();
    let mut reads = 0;
    loop {
        let answer = ensure(&script.cloud(), &service(true), &NoNodes);
        let requested = script.requested();
        reads += requested
            .iter()
            .filter(|line| line.contains("/listeners?"))
            .count();
        changes.extend(
            requested
                .into_iter()
                .filter(|line| !line.starts_with("GET ")),
        );
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
fn a_plan_uses_ids_of_created_parts_without_rereading() {
    let lbaas = "http://load-balancer/v2.0/lbaas";
    for (listener, pool, reads) in [("1a", "2b", 1), ("", "2b", 2), ("1a", "../..", 2)] {
        let script = Script::new("[LoadBalancer]\ninternal-lb=true\nmember-subnet-id=s");
        named(&script, &[balancer("ACTIVE")]);
        script
            .on(
                &format!("GET {lbaas}/listeners"),
                200,
                json!({"listeners": []}),
            )
            .on(&format!("GET {lbaas}/pools"), 200, json!({"pools": []}))
            .on(
                "GET http://network/v2.0/",
                200,
                json!({"floatingips": [], "security_groups": []}),
            )
            .on(
                &format!("POST {lbaas}/listeners"),
                201,
                json!({"listener": {"id": listener}}),
            )
            .on(
                &format!("POST {lbaas}/pools"),
                201,
                json!({"pool": {"id": pool}}),
            )
            .on(&format!("PUT {lbaas}/pools/2b/members"), 202, json!({}));
        let mut read = 0;
        let mut changes = Vec::new();
        for _ in 0..6 {
            let answer = ensure(&script.cloud(), &service(true), &OneNode);
            let requested = script.requested();
            read += requested
                .iter()
                .filter(|line| line.contains("/listeners?"))
                .count();
            changes.extend(
                requested
                    .into_iter()
                    .filter(|line| !line.starts_with("GET ")),
            );
            if read == 2 || !is_in_progress(&answer) {
                break;
            }
        }
        assert_eq!(read, reads, "{changes:?}");
        if reads == 1 {
            let lines = ["POST listeners", "POST pools", "PUT pools/2b/members"];
            assert_eq!(
                changes,
                lines.map(|line| line.replace(' ', &format!(" {lbaas}/")))
            );
            assert_eq!(
                script.sent(&format!("POST {lbaas}/pools"))[0]["pool"]["listener_id"],
                json!("1a")
            );
        }
    }
}

#[test]
fn an_immutable_load_balancer_discards_the_plan() {
    let script = Script::new("");
    named(&script, &[balancer("ACTIVE")]);
    let lbaas = "http://load-balancer/v2.0/lbaas";
    script
        .on(
            &format!("GET {lbaas}/listeners"),
            200,
            json!({"listeners": []}),
        )
        .on(&format!("GET {lbaas}/pools?"), 200, json!({"pools": []}))
        .on(
            &format!("POST {lbaas}/listeners"),
            409,
            json!({"faultstring": "Load Balancer lb is immutable and cannot be updated."}),
        );
    assert!(is_in_progress(&ensure(
        &script.cloud(),
        &service(true),
        &NoNodes
    )));

    assert!(script.host.cached("todo lb").is_none());
}

#[test]
fn a_leftover_floating_ip_is_found_and_deleted() {
    let script = Script::new("");
    named(&script, &[]);
    script.on(
        &format!("GET {BALANCERS}?name=au"),
        200,
        json!({"loadbalancers": []}),
    );
    script.on(
        "GET http://network/v2.0/security-groups",
        200,
        json!({"security_groups": []}),
    );
    let address = json!({"id": "f", "floating_ip_address": "203.0.113.7", "port_id": null,
        "description": "Floating IP for Kubernetes external service shop/web from cluster c"});
    script.on(
        "GET http://network/v2.0/floatingips",
        200,
        json!({"floatingips": [address]}),
    );
    script.on("DELETE http://network/v2.0/floatingips/f", 204, Value::Null);

    assert_eq!(
        get(&script.cloud(), &service(true)),
        Ok(Some(LoadBalancerStatus::default()))
    );
    assert_eq!(get(&script.cloud(), &service(false)), Ok(None));

    script.requested();
    assert_eq!(ensure_deleted(&script.cloud(), &service(true)), Ok(()));
    assert!(
        script
            .requested()
            .contains(&"DELETE http://network/v2.0/floatingips/f".to_owned())
    );

    let kept = with(service(true), annotation::KEEP_FLOATING_IP, "true");
    assert_eq!(get(&script.cloud(), &kept), Ok(None));
    assert_eq!(ensure_deleted(&script.cloud(), &kept), Ok(()));
    assert!(
        !script
            .requested()
            .iter()
            .any(|line| line.starts_with("DELETE "))
    );
}

#[test]
fn of_a_deleted_service_only_the_load_balancer_is_read() {
    let script = Script::new("");
    named(&script, &[balancer("ACTIVE")]);
    let deleted = Service {
        deleting: true,
        ..service(true)
    };
    assert_eq!(
        get(&script.cloud(), &deleted),
        Ok(Some(LoadBalancerStatus::default()))
    );
    assert_eq!(script.requested(), [format!("GET {BALANCERS}?name={NAME}")]);
}

#[test]
fn updating_members_of_a_missing_load_balancer_is_not_found() {
    let script = Script::new("");
    named(&script, &[]);
    script.on(
        &format!("GET {BALANCERS}?name=au"),
        200,
        json!({"loadbalancers": []}),
    );
    assert!(matches!(
        update_nodes(&script.cloud(), &service(true), &NoNodes),
        Err(CloudError::NotFound(_))
    ));
}

/// A proxy in front of Neutron, or a Neutron without routers, returns 404 for the list of floating
/// IPs.
#[test]
fn a_404_for_a_list_does_not_count_as_deleted() {
    let script = Script::new("");
    named(&script, &[balancer("ACTIVE")]);
    script.on(
        "GET http://network/v2.0/floatingips",
        404,
        json!({"message": "The resource could not be found."}),
    );
    let answer = ensure_deleted(&script.cloud(), &service(true));
    // The host interprets `not-found` as a deleted load balancer, but this one was not changed.
    assert!(
        !matches!(answer, Err(CloudError::NotFound(_))),
        "{answer:?} after {:?}",
        script.requested()
    );
}

/// The user replaced the stored ID with another one, so that the Service shares that load balancer.
/// The load balancer with the Service's name may belong to another cluster with the same name.
#[test]
fn the_previous_load_balancer_is_deleted_only_if_it_is_ours() {
    let script = Script::new("");
    let lbaas = "http://load-balancer/v2.0/lbaas";
    let member = |address: &str| json!({"id": address, "address": address, "protocol_port": 30080});
    let shared = json!({"id": "shared", "name": "kube_service_c_shop_other", "provisioning_status": "ACTIVE", "vip_address": "10.0.0.6",
        "vip_port_id": "q", "vip_subnet_id": "s", "tags": ["kube_service_c_shop_other"]});
    script.on(
        "GET http://network/v2.0/",
        200,
        json!({"floatingips": [], "security_groups": []}),
    );
    script.on(
        &format!("GET {lbaas}/listeners"),
        200,
        json!({"listeners": []}),
    );
    script.on(&format!("GET {lbaas}/pools"), 200, json!({"pools": []}));
    let listener = json!({"id": "l", "protocol": "TCP", "protocol_port": 80, "tags": [NAME]});
    let pool = json!({"id": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "listeners": [{"id": "l"}]});
    script.on(
        &format!("GET {lbaas}/listeners?loadbalancer_id=lb"),
        200,
        json!({"listeners": [listener]}),
    );
    script.on(
        &format!("GET {lbaas}/pools?loadbalancer_id=lb"),
        200,
        json!({"pools": [pool]}),
    );
    script.on(
        &format!("GET {BALANCERS}/shared"),
        200,
        json!({"loadbalancer": shared}),
    );
    script.on(&format!("DELETE {BALANCERS}/lb"), 204, Value::Null);
    named(&script, &[balancer("ACTIVE")]);
    script
        .host
        .nodes
        .borrow_mut()
        .extend(["10.0.0.1", "10.0.0.2"]);
    let moved = with(service(true), annotation::LOAD_BALANCER_ID, "shared");
    let of_others = vec![member("10.0.0.1"), member("10.9.9.9")];
    for members in [Vec::new(), of_others] {
        script.on(
            &format!("GET {lbaas}/pools/p/members"),
            200,
            json!({"members": members}),
        );
        assert_eq!(ensure_deleted(&script.cloud(), &moved), Ok(()));
        assert!(
            script
                .requested()
                .iter()
                .all(|line| line.starts_with("GET "))
        );
        assert_eq!(
            script.host.events.borrow().last().unwrap().reason,
            "LoadBalancerLeft"
        );
    }
    script.on(
        &format!("GET {lbaas}/pools/p/members"),
        200,
        json!({"members": [member("10.0.0.1")]}),
    );

    assert!(is_in_progress(&ensure_deleted(&script.cloud(), &moved)));

    let requested = script.requested();
    assert!(
        requested
            .iter()
            .any(|line| line.starts_with(&format!("DELETE {BALANCERS}/lb"))),
        "{requested:?}"
    );
}

/// Sets up a load balancer of another cluster that has a Service with this name, with listeners of
/// both.
fn of_another_cluster(script: &Script, tags: &[&str], floating: &str) {
    let lbaas = "http://load-balancer/v2.0/lbaas";
    let theirs = "kube_service_other_shop_web";
    let balancer = json!({"id": "lb", "name": theirs, "provisioning_status": "ACTIVE", "vip_address": "10.0.0.5", "vip_port_id": "p",
        "vip_subnet_id": "s", "tags": tags});
    let listener = |id: &str, port: u16, tag: &str| json!({"id": id, "name": "x", "protocol": "TCP", "protocol_port": port, "tags": [tag]});
    let pool = json!({"id": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "listeners": [{"id": "l2"}]});
    let listeners = [listener("l1", 443, theirs), listener("l2", 80, NAME)];
    script
        .on(
            &format!("GET {BALANCERS}/lb"),
            200,
            json!({"loadbalancer": balancer}),
        )
        .on(
            &format!("GET {lbaas}/listeners"),
            200,
            json!({"listeners": listeners}),
        )
        .on(
            &format!("GET {lbaas}/pools?"),
            200,
            json!({"pools": [pool]}),
        )
        .on(
            &format!("GET {lbaas}/pools/p/members"),
            200,
            json!({"members": []}),
        )
        .on(
            "GET http://network/v2.0/security-groups",
            200,
            json!({"security_groups": []}),
        )
        .on(
            "GET http://network/v2.0/floatingips",
            200,
            json!({"floatingips": [{"id": "f", "floating_ip_address": floating, "port_id": "p"}]}),
        )
        .on(&format!("PUT {lbaas}"), 200, json!({}));
}

/// The Services of both clusters have the same name, and this one uses the load balancer of the
/// other by its ID.
#[test]
fn a_shared_load_balancer_is_not_renamed() {
    let script = Script::new("");
    let sharing = with(service(true), annotation::LOAD_BALANCER_ID, "lb");
    of_another_cluster(
        &script,
        &["kube_service_other_shop_web", NAME],
        "203.0.113.7",
    );
    for _ in 0..5 {
        if !is_in_progress(&ensure(&script.cloud(), &sharing, &NoNodes)) {
            break;
        }
    }
    let of_theirs = |line: &String| {
        line.contains("/listeners/l1") || line.contains("PUT http://load-balancer/v2.0/lbaas/loadb")
    };
    let requested = script.requested();

    assert!(!requested.iter().any(of_theirs), "{requested:?}");
}

/// The Service has an address, but of its own load balancer.
#[test]
fn a_service_shares_the_load_balancer_of_another_cluster() {
    let script = Script::new("");
    let moving = with(service(true), annotation::LOAD_BALANCER_ID, "lb");
    of_another_cluster(&script, &["kube_service_other_shop_web"], "203.0.113.99");
    assert!(is_in_progress(&ensure(&script.cloud(), &moving, &NoNodes)));

    let tags = json!({"loadbalancer": {"tags": ["kube_service_other_shop_web", NAME]}});
    assert_eq!(script.sent("PUT "), [tags]);

    // A load balancer with the Service's address always belonged to this Service.
    let script = Script::new("");
    of_another_cluster(&script, &["kube_service_other_shop_web"], "203.0.113.7");
    assert!(is_in_progress(&ensure(&script.cloud(), &moving, &NoNodes)));
    assert_eq!(
        script.host.events.borrow().last().unwrap().reason,
        "LoadBalancerRename"
    );
}

/// The owner of the port, or another Service on the load balancer, may leave: the Services of one
/// `kubectl apply` are processed at the same time.
#[test]
fn waits_for_a_port_used_by_another_service() {
    let script = Script::new("");
    let sharing = with(service(true), annotation::LOAD_BALANCER_ID, "lb");
    let wanting = Service {
        ports: vec![ServicePort {
            port: 443,
            ..sharing.ports[0].clone()
        }],
        ..sharing.clone()
    };
    of_another_cluster(
        &script,
        &["kube_service_other_shop_web", NAME],
        "203.0.113.7",
    );
    script.on("DELETE http://load-balancer/v2.0/lbaas", 204, Value::Null);
    // The port that it leaves may be what the other one waits for.
    for _ in 0..2 {
        assert!(is_in_progress(&ensure(&script.cloud(), &wanting, &NoNodes)));
    }
    let taken = ensure(&script.cloud(), &wanting, &NoNodes);

    assert!(
        matches!(&taken, Err(CloudError::Unavailable(text)) if text.contains("is used by listener l1")),
        "{taken:?}"
    );

    of_another_cluster(
        &script,
        &["kube_service_a_b_c", "kube_service_a_b_d"],
        "203.0.113.99",
    );
    let full = ensure(&script.cloud(), &sharing, &NoNodes);
    assert!(
        matches!(&full, Err(CloudError::Unavailable(text)) if text.contains("max-shared-lb")),
        "{full:?}"
    );
}

struct OneNode;

impl Nodes for OneNode {
    fn targets(&self) -> Rc<[Target]> {
        let address = NodeAddress {
            kind: AddressKind::InternalIp,
            address: "10.7.0.1".to_owned(),
        };
        let provider_id = Some("openstack:///server".to_owned());
        Rc::new([Target {
            name: "n".to_owned(),
            provider_id,
            zone: None,
            addresses: vec![address],
        }])
    }

    fn nodes(&self) -> Vec<Node> {
        Vec::new()
    }
}

/// The load balancer's address is in another subnet, because the user has set a port or the load
/// balancer.
#[test]
fn members_use_the_subnet_of_the_nodes() {
    let script = Script::new("[LoadBalancer]\ninternal-lb=true\nmanage-security-groups=true");
    named(&script, &[balancer("ACTIVE")]);
    let lbaas = "http://load-balancer/v2.0/lbaas";
    let listener = json!({"id": "l", "protocol": "TCP", "protocol_port": 80, "tags": [NAME]});
    let pool = json!({"id": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "listeners": [{"id": "l"}]});
    let port = json!({"id": "p", "device_id": "server", "fixed_ips": [{"subnet_id": "n", "ip_address": "10.7.0.1"}], "security_groups": ["g"]});
    script
        .on(
            &format!("GET {lbaas}/listeners"),
            200,
            json!({"listeners": [listener]}),
        )
        .on(
            &format!("GET {lbaas}/pools?"),
            200,
            json!({"pools": [pool]}),
        )
        .on(
            &format!("GET {lbaas}/pools/p/members"),
            200,
            json!({"members": []}),
        )
        .on(&format!("PUT {lbaas}"), 200, json!({}))
        .on(
            "GET http://network/v2.0/floatingips",
            200,
            json!({"floatingips": []}),
        )
        .on(
            "GET http://network/v2.0/ports",
            200,
            json!({"ports": [port]}),
        )
        .on(
            "GET http://network/v2.0/subnets/n",
            200,
            json!({"subnet": {"id": "n", "cidr": "10.7.0.0/24"}}),
        )
        .on(
            "POST http://network/v2.0/security-group-rules",
            201,
            json!({}),
        );
    let group = json!({"id": "g", "name": names::security_group(&service(true))});
    script.on(
        "GET http://network/v2.0/security-groups",
        200,
        json!({"security_groups": [group]}),
    );

    assert!(is_in_progress(&update_nodes(
        &script.cloud(),
        &service(true),
        &OneNode
    )));

    let members = script.sent(&format!("PUT {lbaas}/pools/p/members"));
    assert_eq!(members[0]["members"][0]["subnet_id"], json!("n"));

    // The security group allows this subnet and is kept on the node.
    script.requested();
    assert_eq!(
        update_nodes(&script.cloud(), &service(true), &OneNode),
        Ok(())
    );
    assert_eq!(
        script.sent("POST ")[0]["security_group_rules"][0]["remote_ip_prefix"],
        json!("10.7.0.0/24")
    );
    assert!(
        script
            .requested()
            .iter()
            .all(|line| !line.starts_with("PUT "))
    );

    // A new load balancer with a port that the user has set.
    let new = Script::new("");
    named(&new, &[]);
    new.on(
        "GET http://network/v2.0/ports",
        200,
        json!({"ports": [port]}),
    );
    new.on(
        &format!("POST {BALANCERS}"),
        201,
        json!({"loadbalancer": balancer("PENDING_CREATE")}),
    );
    let at_port = with(service(false), annotation::PORT_ID, "dmz");
    assert!(is_in_progress(&ensure(&new.cloud(), &at_port, &OneNode)));

    let made = &new.sent("POST ")[0]["loadbalancer"];
    assert_eq!(
        (&made["vip_port_id"], &made["vip_subnet_id"]),
        (&json!("dmz"), &Value::Null)
    );
    assert_eq!(
        made["listeners"][0]["default_pool"]["members"][0]["subnet_id"],
        json!("n")
    );
}

/// Parts that somebody else added to a load balancer are deleted with it, as in a cascade. Parts of
/// a load balancer in ERROR cannot be deleted individually.
#[test]
fn without_cascade_all_parts_are_deleted_one_by_one() {
    let script = Script::new("[LoadBalancer]\ncascade-delete=false");
    let lbaas = "http://load-balancer/v2.0/lbaas";
    let listener = json!({"id": "l", "protocol": "TCP", "protocol_port": 80, "tags": ["theirs"]});
    named(&script, &[balancer("ACTIVE")]);
    script
        .on(
            "GET http://network/v2.0/",
            200,
            json!({"floatingips": [], "security_groups": []}),
        )
        .on(
            &format!("GET {lbaas}/listeners"),
            200,
            json!({"listeners": [listener]}),
        )
        .on(&format!("GET {lbaas}/pools"), 200, json!({"pools": []}))
        .on(&format!("DELETE {lbaas}"), 204, Value::Null);
    let deleted = || {
        assert!(is_in_progress(&ensure_deleted(
            &script.cloud(),
            &service(true)
        )));
        script
            .requested()
            .into_iter()
            .find(|line| line.starts_with("DELETE "))
    };

    assert_eq!(deleted(), Some(format!("DELETE {lbaas}/listeners/l")));

    named(&script, &[balancer("ERROR")]);
    assert_eq!(
        deleted(),
        Some(format!("DELETE {BALANCERS}/lb?cascade=true"))
    );
}

/// A group whose creation was not answered was created in addition to the next one.
#[test]
fn duplicate_security_groups_are_both_deleted() {
    let script = Script::new("");
    named(&script, &[]);
    script.on(
        &format!("GET {BALANCERS}?name=au"),
        200,
        json!({"loadbalancers": []}),
    );
    let group = |id: &str| json!({"id": id, "name": names::security_group(&service(true))});
    script
        .on(
            "GET http://network/v2.0/",
            200,
            json!({"floatingips": [], "ports": []}),
        )
        .on(
            "GET http://network/v2.0/security-groups",
            200,
            json!({"security_groups": [group("b"), group("a")]}),
        )
        .on(
            "DELETE http://network/v2.0/security-groups/",
            204,
            Value::Null,
        );
    assert_eq!(ensure_deleted(&script.cloud(), &service(true)), Ok(()));
    let requested = script
        .requested()
        .into_iter()
        .filter(|line| line.starts_with("DELETE "))
        .collect::<Vec<_>>();
    assert_eq!(
        requested,
        ["a", "b"].map(|id| format!("DELETE http://network/v2.0/security-groups/{id}"))
    );
}

/// Octavia was slow and creates the load balancer anyway. It lists it a moment later.
#[test]
fn a_creation_without_an_answer_delays_the_deletion() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    named(&script, &[]);
    script.on(
        &format!("GET {BALANCERS}?name=au"),
        200,
        json!({"loadbalancers": []}),
    );
    script.on(
        "GET http://network/v2.0/",
        200,
        json!({"floatingips": [], "security_groups": []}),
    );
    script.on(&format!("POST {BALANCERS}"), 504, Value::Null);

    assert!(ensure(&script.cloud(), &service(false), &NoNodes).is_err());

    let first = ensure_deleted(&script.cloud(), &service(false));
    assert!(is_in_progress(&first), "{first:?}");
}

/// A kept floating IP has another description, because a later Service with the name deletes only
/// those with its own description.
#[test]
fn a_kept_floating_ip_is_marked_before_the_deletion() {
    let script = Script::new("");
    let description = names::floating_ip("c", &service(true));
    let floating = json!({"id": "f", "floating_ip_address": "203.0.113.7", "description": description, "port_id": "p"});
    named(&script, &[balancer("ACTIVE")]);
    script.on(
        "GET http://network/v2.0/floatingips?port_id=p",
        200,
        json!({"floatingips": [floating]}),
    );
    script.on(
        "GET http://network/v2.0/security-groups",
        200,
        json!({"security_groups": []}),
    );
    script.on("PUT http://network/v2.0/floatingips/f", 503, Value::Null);
    script.on(&format!("DELETE {BALANCERS}/lb"), 204, Value::Null);
    let keeping = with(service(true), annotation::KEEP_FLOATING_IP, "true");

    assert!(matches!(
        ensure_deleted(&script.cloud(), &keeping),
        Err(CloudError::Unavailable(_))
    ));
    assert!(
        script
            .requested()
            .iter()
            .all(|line| !line.starts_with("DELETE "))
    );

    script.on(
        "PUT http://network/v2.0/floatingips/f",
        200,
        json!({"floatingip": floating}),
    );
    assert!(is_in_progress(&ensure_deleted(&script.cloud(), &keeping)));

    let kept = format!("Kept: {description}");
    assert_eq!(
        script.sent("PUT ").last(),
        Some(&json!({"floatingip": {"description": kept}}))
    );

    // And when the Service comes to be internal, with the same request that takes it off.
    let internal = with(keeping, annotation::INTERNAL, "true");
    let cloud = script.cloud();
    let of_service = LoadBalancer {
        vip_port_id: Some("p".to_owned()),
        ..LoadBalancer::default()
    };
    let desired = requested(&cloud, &internal).unwrap();
    assert!(
        floating_ip::ensure(
            context(&cloud, &internal, &desired),
            &of_service,
            &Ownership::default()
        )
        .is_ok()
    );

    let kept = format!("Kept: Service u: {description}");
    let detached = json!({"floatingip": {"description": kept, "port_id": null}});
    assert_eq!(script.sent("PUT ").last(), Some(&detached));
}

/// An earlier Service with this name left the floating IP, under a provider that does not mark it.
#[test]
fn a_floating_ip_of_an_earlier_service_is_not_deleted() {
    let script = Script::new("");
    named(&script, &[]);
    script.on(
        &format!("GET {BALANCERS}?name=au"),
        200,
        json!({"loadbalancers": []}),
    );
    let description = names::floating_ip("c", &service(true));
    let kept = json!({"id": "f", "floating_ip_address": "203.0.113.99", "port_id": null, "description": description});
    script.on(
        "GET http://network/v2.0/",
        200,
        json!({"floatingips": [kept], "security_groups": []}),
    );

    assert_eq!(ensure_deleted(&script.cloud(), &service(true)), Ok(()));
    assert!(
        script
            .requested()
            .iter()
            .all(|line| line.starts_with("GET "))
    );
}

/// A proxy in front of Octavia returns 404 for the shared load balancer, on which this Service has
/// listeners.
#[test]
fn a_404_from_a_proxy_is_not_a_missing_load_balancer() {
    let script = Script::new("");
    named(&script, &[]);
    script.on(
        "GET http://network/v2.0/",
        200,
        json!({"floatingips": [], "security_groups": []}),
    );
    script.on(
        &format!("GET {BALANCERS}/shared"),
        404,
        json!({"message": "no route"}),
    );
    let sharing = with(service(true), annotation::LOAD_BALANCER_ID, "shared");

    assert!(matches!(
        ensure_deleted(&script.cloud(), &sharing),
        Err(CloudError::Unavailable(_))
    ));
}
