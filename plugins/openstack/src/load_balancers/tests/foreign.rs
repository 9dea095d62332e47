//! Load balancers of another cluster that has the same name, with a Service that has the same name.

use super::*;

const LBAAS: &str = "http://load-balancer/v2.0/lbaas";

/// Sets up a load balancer with the Service's name and these members.
fn theirs(script: &Script, status: &str, members: &[&str]) {
    named(script, &[balancer(status)]);
    script.host.uncache("used here lb");
    let listener = json!({"id": "l", "protocol": "TCP", "protocol_port": 80, "tags": [NAME]});
    let pool = json!({"id": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "listeners": [{"id": "l"}]});
    let member =
        |address: &&str| json!({"id": address, "address": address, "protocol_port": 30080});
    script
        .on(
            &format!("GET {BALANCERS}/lb"),
            200,
            json!({"loadbalancer": balancer(status)}),
        )
        .on(
            &format!("GET {LBAAS}/listeners"),
            200,
            json!({"listeners": [listener]}),
        )
        .on(
            &format!("GET {LBAAS}/pools?"),
            200,
            json!({"pools": [pool]}),
        )
        .on(
            &format!("GET {LBAAS}/pools/p/members"),
            200,
            json!({"members": members.iter().map(member).collect::<Vec<_>>()}),
        )
        .on(
            "GET http://network/v2.0/",
            200,
            json!({"floatingips": [], "security_groups": []}),
        )
        .on(&format!("PUT {LBAAS}"), 200, json!({}))
        .on(&format!("DELETE {LBAAS}"), 204, Value::Null);
    script
        .host
        .nodes
        .borrow_mut()
        .extend(["10.0.0.1", "2001:db8::1"]);
}

fn is_rejected<T>(answer: &Result<T>) -> bool {
    matches!(answer, Err(CloudError::Denied(text)) if text.contains("--cluster-name"))
}

fn changes(script: &Script) -> Vec<String> {
    let requested = script.requested().into_iter();
    requested.filter(|line| !line.starts_with("GET ")).collect()
}

/// A manifest with the annotations of a Service in another cluster.
fn copied(address: &str) -> Service {
    let service = with(service(false), annotation::LOAD_BALANCER_ID, "lb");
    with(service, annotation::LOAD_BALANCER_ADDRESS, address)
}

#[test]
fn a_load_balancer_of_another_cluster_is_not_changed() {
    for status in ["ACTIVE", "PENDING_CREATE", "ERROR"] {
        for unserved in [service(false), copied("203.0.113.99")] {
            let script = Script::new("");
            theirs(&script, status, &["10.9.0.1", "10.9.0.2"]);
            let cloud = script.cloud();
            assert!(is_rejected(&ensure(&cloud, &unserved, &NoNodes)));
            assert!(is_rejected(&update_nodes(&cloud, &unserved, &NoNodes)));
            assert_eq!(get(&cloud, &unserved), Ok(None));
            assert_eq!(ensure_deleted(&cloud, &unserved), Ok(()));
            assert_eq!(changes(&script), [""; 0]);
            let events = script.host.events.borrow();
            assert_eq!(events.last().unwrap().reason, "LoadBalancerLeft");
            // Otherwise, the next call would take it for its own.
            let stored = script.host.annotations.borrow();
            assert!(stored.values().all(Option::is_none), "{stored:?}");
        }
    }
}

/// The host died before it wrote the annotations, or another provider created it.
#[test]
fn a_load_balancer_with_own_nodes_is_adopted() {
    for members in [
        &[][..],
        &["10.0.0.1"],
        &["2001:db8:0::1"],
        &["10.9.0.1", "10.0.0.1"],
    ] {
        let script = Script::new("[LoadBalancer]\ninternal-lb=true");
        theirs(&script, "ACTIVE", members);
        assert!(is_in_progress(&ensure(
            &script.cloud(),
            &service(false),
            &NoNodes
        )));
        assert!(!changes(&script).is_empty(), "{members:?}");
        assert!(is_in_progress(&ensure_deleted(
            &script.cloud(),
            &service(false)
        )));
    }
}

#[test]
fn a_selected_or_used_load_balancer_is_not_checked() {
    for known in [
        // A user takes it over.
        with(service(false), annotation::LOAD_BALANCER_ID, "lb"),
        // It was created a moment ago.
        copied(""),
        // All nodes of the cluster were replaced.
        with(service(true), annotation::LOAD_BALANCER_ID, "lb"),
        service(true),
    ] {
        let script = Script::new("[LoadBalancer]\ninternal-lb=true");
        theirs(&script, "ACTIVE", &["10.9.0.1"]);
        assert!(is_in_progress(&ensure(&script.cloud(), &known, &NoNodes)));
        assert!(!changes(&script).is_empty());
    }
}

/// The load balancer of the Service was deleted, and the name leads to that of another cluster.
#[test]
fn another_load_balancer_does_not_replace_a_deleted_one() {
    let script = Script::new("");
    theirs(&script, "ACTIVE", &["10.9.0.1"]);
    script.on(
        &format!("GET {BALANCERS}/old"),
        404,
        json!({"faultstring": "gone"}),
    );
    let served = with(service(true), annotation::LOAD_BALANCER_ID, "old");
    assert!(is_rejected(&ensure(&script.cloud(), &served, &NoNodes)));
    assert_eq!(ensure_deleted(&script.cloud(), &served), Ok(()));
    assert_eq!(changes(&script), [""; 0]);
}

/// The Service shares a load balancer that a Service of another cluster with the same name shares,
/// too.
#[test]
fn listeners_of_a_guest_of_another_cluster_are_kept() {
    let script = Script::new("");
    theirs(&script, "ACTIVE", &["10.9.0.1"]);
    let mut shared = balancer("ACTIVE");
    shared["name"] = json!("kube_service_c_shop_other");
    shared["tags"] = json!(["kube_service_c_shop_other", NAME]);
    script.on(
        &format!("GET {BALANCERS}/lb"),
        200,
        json!({"loadbalancer": shared}),
    );
    let sharing = with(service(false), annotation::LOAD_BALANCER_ID, "lb");
    assert!(is_rejected(&ensure(&script.cloud(), &sharing, &NoNodes)));
    assert_eq!(changes(&script), [""; 0]);
}

/// Both clusters created one at the same time.
#[test]
fn a_duplicate_of_another_cluster_is_kept() {
    let script = Script::new("[LoadBalancer]\ninternal-lb=true");
    theirs(&script, "ACTIVE", &["10.9.0.1"]);
    let mut own = balancer("ACTIVE");
    own["id"] = json!("own");
    named(&script, &[own.clone(), balancer("ACTIVE")]);
    script.host.uncache("used here lb");
    script
        .on(
            &format!("GET {BALANCERS}/own"),
            200,
            json!({"loadbalancer": own}),
        )
        .on(
            &format!("GET {LBAAS}/listeners?loadbalancer_id=own"),
            200,
            json!({"listeners": []}),
        )
        .on(&format!("POST {LBAAS}"), 201, json!({}));
    let mut stored = copied("");
    stored.annotations[0].1 = "own".to_owned();

    assert!(is_in_progress(&ensure(&script.cloud(), &stored, &NoNodes)));

    let changes = changes(&script);
    assert!(
        changes.iter().all(|line| line.starts_with("POST ")),
        "{changes:?}"
    );
}

/// The provider is not asked about these nodes.
#[test]
fn members_may_be_nodes_of_other_providers() {
    let script = Script::new("[LoadBalancer]\ninternal-lb=true\nmember-subnet-id=s");
    theirs(&script, "ACTIVE", &["10.7.0.1", "10.7.0.2"]);
    let answer = ensure(&script.cloud(), &service(false), &OneNode);
    assert!(is_in_progress(&answer), "{answer:?}");
}

/// The host was just started.
#[test]
fn waits_until_the_nodes_of_the_cluster_are_known() {
    let script = Script::new("");
    theirs(&script, "ACTIVE", &["10.0.0.1"]);
    script.host.unsynced.set(true);
    let answer = ensure(&script.cloud(), &service(false), &NoNodes);
    assert!(
        matches!(answer, Err(CloudError::Unavailable(_))),
        "{answer:?}"
    );
}

/// Networks of clusters that were created in the same way have the same addresses.
#[test]
fn a_node_with_the_same_address_elsewhere_is_another_one() {
    for (subnet, ours) in [
        (json!("theirs"), false),
        (json!("near"), true),
        (json!("configured"), true),
        (Value::Null, true),
    ] {
        let script = Script::new("[LoadBalancer]\ninternal-lb=true\nmember-subnet-id=configured");
        theirs(&script, "ACTIVE", &[]);
        let member =
            json!({"id": "m", "address": "10.7.0.1", "protocol_port": 30080, "subnet_id": subnet});
        let port = json!({"id": "np", "device_id": "server", "fixed_ips": [{"subnet_id": "near", "ip_address": "10.7.0.1"}]});
        let configured =
            json!({"subnet": {"id": "configured", "ip_version": 4, "cidr": "10.7.0.0/24"}});
        script
            .on(
                &format!("GET {LBAAS}/pools/p/members"),
                200,
                json!({"members": [member]}),
            )
            .on(
                "GET http://network/v2.0/ports?device_id=server",
                200,
                json!({"ports": [port]}),
            )
            .on(
                "GET http://network/v2.0/subnets/configured",
                200,
                configured,
            );
        let answer = ensure(&script.cloud(), &service(false), &OneNode);
        assert_eq!(is_rejected(&answer), !ours, "{subnet}: {answer:?}");
        assert_eq!(changes(&script).is_empty(), !ours, "{subnet}");
    }
}
