//! Services that leave a load balancer which others use, or change to another one.

use super::*;

const LBAAS: &str = "http://load-balancer/v2.0/lbaas";
const OTHER: &str = "kube_service_c_shop_other";

/// Sets up a load balancer of another Service, which this Service shares, at this address.
fn listed(script: &Script, status: &str, address: &str) {
    let shared = json!({"id": "shared", "name": OTHER, "provisioning_status": status, "vip_address": address,
        "vip_port_id": "q", "vip_subnet_id": "s", "tags": [OTHER, NAME]});
    script
        .on(
            &format!("GET {BALANCERS}/shared"),
            200,
            json!({"loadbalancer": shared}),
        )
        .on(
            &format!("GET {BALANCERS}?tags={NAME}"),
            200,
            json!({"loadbalancers": [shared]}),
        );
}

/// Sets up a shared load balancer with its parts.
fn shared(script: &Script, status: &str, address: &str) {
    listed(script, status, address);
    let listener = |id: &str, tag: &str| json!({"id": id, "protocol": "TCP", "protocol_port": 80, "tags": [tag]});
    let listeners = json!({"listeners": [listener("l1", OTHER), listener("l2", NAME)]});
    let pool = json!({"id": "p2", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "listeners": [{"id": "l2"}]});
    let member = json!({"id": "m", "address": "10.0.0.1", "protocol_port": 30080});
    script
        .on(
            "GET http://network/v2.0/",
            200,
            json!({"floatingips": [], "security_groups": []}),
        )
        .on(&format!("GET {LBAAS}/pools?"), 200, json!({"pools": []}))
        .on(
            &format!("GET {LBAAS}/listeners?loadbalancer_id=shared"),
            200,
            listeners,
        )
        .on(
            &format!("GET {LBAAS}/pools?loadbalancer_id=shared"),
            200,
            json!({"pools": [pool]}),
        )
        .on(
            &format!("GET {LBAAS}/pools/p2/members"),
            200,
            json!({"members": [member]}),
        )
        .on(&format!("PUT {LBAAS}"), 200, json!({}))
        .on(&format!("POST {LBAAS}"), 201, json!({}))
        .on(&format!("DELETE {LBAAS}"), 204, Value::Null);
    script.host.nodes.borrow_mut().push("10.0.0.1");
}

fn deleted(script: &Script) -> Vec<String> {
    let requested = script.requested().into_iter();
    requested
        .filter_map(|line| {
            line.strip_prefix(&format!("DELETE {LBAAS}"))
                .map(str::to_owned)
        })
        .collect()
}

/// The user removed the annotation with the ID of the shared load balancer, so that the Service has
/// its own.
#[test]
fn a_shared_load_balancer_of_before_is_left() {
    let script = Script::new("");
    named(&script, &[]);
    script.on(
        &format!("GET {BALANCERS}?name=au"),
        200,
        json!({"loadbalancers": []}),
    );
    shared(&script, "ACTIVE", "10.0.0.6");

    assert!(is_in_progress(&ensure_deleted(
        &script.cloud(),
        &service(true)
    )));
    assert_eq!(deleted(&script), ["/pools/p2"]);

    script.on(&format!("GET {LBAAS}/pools?"), 200, json!({"pools": []}));
    // The host was restarted in the meantime.
    script.host.uncache("leads here shared");
    assert!(is_in_progress(&ensure_deleted(
        &script.cloud(),
        &service(true)
    )));
    assert_eq!(deleted(&script), ["/listeners/l2"]);

    script.on(
        &format!("GET {LBAAS}/listeners?"),
        200,
        json!({"listeners": []}),
    );
    assert!(is_in_progress(&ensure_deleted(
        &script.cloud(),
        &service(true)
    )));
    assert_eq!(
        script.sent(&format!("PUT {BALANCERS}/shared")),
        [json!({"loadbalancer": {"tags": [OTHER]}})]
    );
}

#[test]
fn a_shared_load_balancer_of_another_cluster_is_not_left() {
    let script = Script::new("");
    named(&script, &[]);
    script.on(
        &format!("GET {BALANCERS}?name=au"),
        200,
        json!({"loadbalancers": []}),
    );
    shared(&script, "ACTIVE", "10.0.0.6");
    script.host.nodes.borrow_mut().clear();

    assert_eq!(ensure_deleted(&script.cloud(), &service(true)), Ok(()));
    assert_eq!(deleted(&script), [""; 0]);
    assert_eq!(
        script.host.events.borrow().last().unwrap().reason,
        "LoadBalancerLeft"
    );
}

/// Without members, nothing shows that it belongs to this cluster.
#[test]
fn a_previous_load_balancer_is_deleted_to_the_end() {
    let script = Script::new("[LoadBalancer]\ncascade-delete=false");
    named(&script, &[balancer("ACTIVE")]);
    shared(&script, "ACTIVE", "10.0.0.6");
    let left =
        json!({"id": "shared", "name": OTHER, "provisioning_status": "ACTIVE", "tags": [OTHER]});
    let listener = json!({"id": "l", "protocol": "TCP", "protocol_port": 80, "tags": [NAME]});
    let pool = json!({"id": "p2", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "listeners": [{"id": "l"}]});
    let other = json!({"id": "l1", "protocol": "TCP", "protocol_port": 80, "tags": [OTHER]});
    script
        .on(
            &format!("GET {BALANCERS}?tags={NAME}"),
            200,
            json!({"loadbalancers": []}),
        )
        .on(
            &format!("GET {BALANCERS}/shared"),
            200,
            json!({"loadbalancer": left}),
        )
        .on(
            &format!("GET {LBAAS}/listeners?loadbalancer_id=shared"),
            200,
            json!({"listeners": [other]}),
        )
        .on(
            &format!("GET {LBAAS}/listeners?loadbalancer_id=lb"),
            200,
            json!({"listeners": [listener]}),
        )
        .on(
            &format!("GET {LBAAS}/pools?loadbalancer_id=lb"),
            200,
            json!({"pools": [pool]}),
        );
    let moved = with(service(true), annotation::LOAD_BALANCER_ID, "shared");

    assert!(is_in_progress(&ensure_deleted(&script.cloud(), &moved)));
    assert_eq!(deleted(&script), ["/pools/p2"]);

    script.on(
        &format!("GET {LBAAS}/pools?loadbalancer_id=lb"),
        200,
        json!({"pools": []}),
    );
    assert!(is_in_progress(&ensure_deleted(&script.cloud(), &moved)));
    assert_eq!(deleted(&script), ["/listeners/l"]);
}

/// Otherwise its port would stay in use, and its owner could not delete it.
#[test]
fn a_service_that_changes_leaves_the_previous_one() {
    for (status, address, left) in [
        ("ACTIVE", "203.0.113.7", true),
        // The status does not prove that the Service used it.
        ("ACTIVE", "10.0.0.6", false),
        // An operator has to fix it, and the Service does not wait for that.
        ("ERROR", "203.0.113.7", false),
    ] {
        let script = Script::new("[LoadBalancer]\ninternal-lb=true");
        named(&script, &[balancer("ACTIVE")]);
        let listener = json!({"id": "l", "protocol": "TCP", "protocol_port": 80, "tags": [NAME], "connection_limit": -1,
            "allowed_cidrs": ["0.0.0.0/0"], "timeout_client_data": 50000, "timeout_member_connect": 5000,
            "timeout_member_data": 50000, "timeout_tcp_inspect": 0});
        shared(&script, status, address);
        let pool = json!({"id": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "listeners": [{"id": "l"}]});
        script
            .on(
                &format!("GET {LBAAS}/listeners?loadbalancer_id=lb"),
                200,
                json!({"listeners": [listener]}),
            )
            .on(
                &format!("GET {LBAAS}/pools?loadbalancer_id=lb"),
                200,
                json!({"pools": [pool]}),
            )
            .on(
                &format!("GET {LBAAS}/pools/p/members"),
                200,
                json!({"members": []}),
            );
        let answer = ensure(&script.cloud(), &service(true), &NoNodes);
        assert_eq!(
            (is_in_progress(&answer), answer.is_ok()),
            (left, !left),
            "{answer:?}"
        );
        let expected: &[&str] = if left { &["/pools/p2"] } else { &[] };
        assert_eq!(deleted(&script), expected);
        if left {
            // It stays pending.
            listed(&script, "PENDING_UPDATE", address);
            let retries = (0..100)
                .take_while(|_| is_in_progress(&ensure(&script.cloud(), &service(true), &NoNodes)));
            assert!((10..20).contains(&retries.count()));
        }
    }
}

/// Tags were lost because two Services changed them at the same time, or the owner is from before
/// tags were used.
#[test]
fn a_load_balancer_with_listeners_of_others_is_not_deleted() {
    let listener = |id: &str, tags: &[&str]| json!({"id": id, "protocol": "TCP", "protocol_port": 80, "tags": tags});
    for (name, others, deletes) in [
        (NAME, listener("l1", &[OTHER]), "/listeners/l2"),
        (OTHER, listener("l1", &[]), "/listeners/l2"),
        (
            OTHER,
            listener("l1", &[NAME]),
            "/loadbalancers/shared?cascade=true",
        ),
        // Like upstream, the owner deletes what somebody added without a Service.
        (
            NAME,
            listener("l1", &["mine"]),
            "/loadbalancers/shared?cascade=true",
        ),
    ] {
        let script = Script::new("");
        shared(&script, "ACTIVE", "203.0.113.7");
        let seems_own =
            json!({"id": "shared", "name": name, "provisioning_status": "ACTIVE", "tags": [NAME]});
        let listeners = json!({"listeners": [others, listener("l2", &[NAME])]});
        script
            .on(
                &format!("GET {BALANCERS}/shared"),
                200,
                json!({"loadbalancer": seems_own}),
            )
            .on(&format!("GET {LBAAS}/pools?"), 200, json!({"pools": []}))
            .on(
                &format!("GET {LBAAS}/listeners?loadbalancer_id=shared"),
                200,
                listeners,
            );
        let sharing = with(service(true), annotation::LOAD_BALANCER_ID, "shared");
        assert!(is_in_progress(&ensure_deleted(&script.cloud(), &sharing)));
        assert_eq!(deleted(&script), [deletes], "{name} {others}");
    }
}

/// The host was just started.
#[test]
fn unknown_nodes_prove_nothing_about_a_load_balancer() {
    let script = Script::new("");
    named(&script, &[]);
    script.on(
        &format!("GET {BALANCERS}?name=au"),
        200,
        json!({"loadbalancers": []}),
    );
    shared(&script, "ACTIVE", "10.0.0.6");
    script.host.unsynced.set(true);

    assert!(matches!(
        ensure_deleted(&script.cloud(), &service(true)),
        Err(CloudError::Unavailable(_))
    ));
    assert!(script.host.events.borrow().is_empty());
}

/// The cluster was renamed, and the Service was deleted before anything was renamed in the cloud.
#[test]
fn a_renamed_cluster_leaves_a_shared_load_balancer() {
    let script = Script::new("");
    let (old, other) = ("kube_service_old_shop_web", "kube_service_old_shop_other");
    shared(&script, "ACTIVE", "203.0.113.7");
    let mut balancer = balancer("ACTIVE");
    (balancer["name"], balancer["tags"]) = (json!(old), json!([old, other]));
    balancer["vip_address"] = json!("203.0.113.7");
    let listener = |id: &str, tag: &str| json!({"id": id, "protocol": "TCP", "protocol_port": 80, "tags": [tag]});
    let listeners = |all: &[Value]| json!({"listeners": all});
    let of_balancer = format!("GET {LBAAS}/listeners?loadbalancer_id=lb");
    script
        .on(
            &format!("GET {BALANCERS}/lb"),
            200,
            json!({"loadbalancer": balancer}),
        )
        .on(
            &of_balancer,
            200,
            listeners(&[listener("l1", other), listener("l2", old)]),
        );
    let stored = with(service(true), annotation::LOAD_BALANCER_ID, "lb");

    assert!(is_in_progress(&ensure_deleted(&script.cloud(), &stored)));
    assert_eq!(deleted(&script), ["/listeners/l2"]);

    script.on(&of_balancer, 200, listeners(&[listener("l1", other)]));
    assert!(is_in_progress(&ensure_deleted(&script.cloud(), &stored)));
    assert_eq!(
        script.sent(&format!("PUT {BALANCERS}/lb")),
        [json!({"loadbalancer": {"tags": [other]}})]
    );
}

/// Its owner has left it, and a Service of another cluster with this name may share it.
#[test]
fn a_load_balancer_without_members_is_only_left() {
    for (members, gone) in [(&["10.0.0.1"][..], true), (&[], false)] {
        let script = Script::new("");
        named(&script, &[]);
        script.on(
            &format!("GET {BALANCERS}?name=au"),
            200,
            json!({"loadbalancers": []}),
        );
        shared(&script, "ACTIVE", "10.0.0.6");
        let alone = json!({"id": "shared", "name": OTHER, "provisioning_status": "ACTIVE", "vip_address": "10.0.0.6",
            "vip_port_id": "q", "tags": [NAME]});
        let listener = json!({"id": "l2", "protocol": "TCP", "protocol_port": 80, "tags": [NAME]});
        let members: Vec<_> = members
            .iter()
            .map(|address| json!({"id": "m", "address": address, "protocol_port": 30080}))
            .collect();
        script
            .on(
                &format!("GET {BALANCERS}?tags={NAME}"),
                200,
                json!({"loadbalancers": [alone]}),
            )
            .on(
                &format!("GET {LBAAS}/listeners?loadbalancer_id=shared"),
                200,
                json!({"listeners": [listener]}),
            )
            .on(
                &format!("GET {LBAAS}/pools/p2/members"),
                200,
                json!({"members": members}),
            );
        assert!(is_in_progress(&ensure_deleted(
            &script.cloud(),
            &service(true)
        )));
        let expected = if gone {
            "/loadbalancers/shared?cascade=true"
        } else {
            "/pools/p2"
        };
        assert_eq!(deleted(&script), [expected]);
    }
}
