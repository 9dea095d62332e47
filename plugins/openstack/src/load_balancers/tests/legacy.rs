//! Load balancers from before Kubernetes 1.14, which are named after the UID of their Service.

use super::*;

const LBAAS: &str = "http://load-balancer/v2.0/lbaas";
const LEGACY: &str = "au";

/// Sets up a load balancer with this name, a listener with these tags, and a pool with one member.
fn set_up(script: &Script, name: &str, tags: &[&str], of_listener: &[&str]) {
    let mut balancer = balancer("ACTIVE");
    (balancer["name"], balancer["tags"]) = (json!(name), json!(tags));
    let listener = json!({"id": "l", "protocol": "TCP", "protocol_port": 80, "tags": of_listener});
    let pool = json!({"id": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "listeners": [{"id": "l"}]});
    let member = json!({"id": "m", "address": "10.0.0.1", "protocol_port": 30080});
    let floating =
        json!({"id": "f", "floating_ip_address": "203.0.113.7", "port_id": "p", "description": ""});
    named(script, &[]);
    script
        .on(
            &format!("GET {BALANCERS}?name={LEGACY}"),
            200,
            json!({"loadbalancers": [balancer]}),
        )
        .on(
            &format!("GET {BALANCERS}/lb"),
            200,
            json!({"loadbalancer": balancer}),
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
            json!({"members": [member]}),
        )
        .on(
            "GET http://network/v2.0/",
            200,
            json!({"floatingips": [floating], "security_groups": []}),
        )
        .on(&format!("PUT {LBAAS}"), 200, json!({}))
        .on(&format!("DELETE {LBAAS}"), 204, Value::Null);
}

fn stored() -> Service {
    let service = with(service(true), annotation::LOAD_BALANCER_ID, "lb");
    with(service, annotation::LOAD_BALANCER_ADDRESS, "")
}

/// The first pass has written the ID and the tag.
#[test]
fn listeners_without_tags_belong_to_the_service() {
    for (tags, known) in [(&[][..], service(true)), (&[NAME], stored())] {
        let script = Script::new("");
        set_up(&script, LEGACY, tags, &[]);
        for _ in 0..9 {
            if !is_in_progress(&ensure(&script.cloud(), &known, &NoNodes)) {
                break;
            }
        }
        let listener = script.sent(&format!("PUT {LBAAS}/listeners/l"));
        assert_eq!(listener[0]["listener"]["tags"], json!([NAME]), "{tags:?}");
        assert!(script.sent("POST ").is_empty());
        assert!(is_in_progress(&update_nodes(
            &script.cloud(),
            &known,
            &NoNodes
        )));
    }
}

#[test]
fn an_old_load_balancer_is_deleted_with_its_service() {
    for (tags, known) in [
        (&[][..], service(true)),
        (&[NAME], stored()),
        // The cluster was renamed in the meantime.
        (&["kube_service_old_shop_web"], stored()),
    ] {
        let script = Script::new("");
        set_up(&script, LEGACY, tags, tags);
        assert!(is_in_progress(&ensure_deleted(&script.cloud(), &known)));
        let deleted = format!("DELETE {BALANCERS}/lb?cascade=true");
        assert!(script.requested().contains(&deleted), "{tags:?}");
    }
}

/// The user can switch back, and it is deleted with the Service.
#[test]
fn an_old_load_balancer_is_kept_until_the_service_is_deleted() {
    let script = Script::new("[LoadBalancer]\ninternal-lb=true");
    set_up(&script, LEGACY, &[NAME], &[NAME]);
    script.host.nodes.borrow_mut().push("10.0.0.1");
    let mut other = balancer("ACTIVE");
    (other["id"], other["name"]) = (json!("other"), json!("mine"));
    other["vip_port_id"] = json!("q");
    (other["vip_address"], other["tags"]) = (json!("10.0.0.6"), json!([]));
    let mut old = balancer("ACTIVE");
    old["name"] = json!(LEGACY);
    script
        .on(
            &format!("GET {BALANCERS}/other"),
            200,
            json!({"loadbalancer": other}),
        )
        .on(
            &format!("GET {BALANCERS}?tags={NAME}"),
            200,
            json!({"loadbalancers": [old]}),
        )
        .on(
            &format!("GET {LBAAS}/listeners?loadbalancer_id=other"),
            200,
            json!({"listeners": []}),
        )
        .on(
            &format!("GET {LBAAS}/pools?loadbalancer_id=other"),
            200,
            json!({"pools": []}),
        );
    let moved = with(service(true), annotation::LOAD_BALANCER_ID, "other");
    let cloud = script.cloud();
    let desired = requested(&cloud, &moved).unwrap();

    assert_eq!(
        operations::delete::leave_previous(context(&cloud, &moved, &desired), "other", "10.0.0.6"),
        Ok(())
    );
    assert!(
        script
            .requested()
            .iter()
            .all(|line| line.starts_with("GET "))
    );
    assert!(is_in_progress(&ensure_deleted(&cloud, &moved)));

    let deleted = format!("DELETE {BALANCERS}/lb?cascade=true");
    assert!(script.requested().contains(&deleted));
}

/// Nothing shows that a load balancer with another name was created for a Service.
#[test]
fn a_load_balancer_that_is_left_is_told() {
    for (name, tags, is_reported) in [
        ("mine", &[NAME][..], true),
        ("mine", &[], true),
        ("mine", &[NAME, "kube_service_c_shop_other"], false),
        (
            "kube_service_c_shop_other",
            &["kube_service_c_shop_other"],
            false,
        ),
    ] {
        let script = Script::new("");
        set_up(&script, name, tags, &["mine"]);
        while is_in_progress(&ensure_deleted(&script.cloud(), &stored())) {
            let mut left = balancer("ACTIVE");
            left["name"] = json!(name);
            let tags: Vec<_> = tags.iter().filter(|tag| **tag != NAME).collect();
            left["tags"] = json!(tags);
            script.on(
                &format!("GET {BALANCERS}/lb"),
                200,
                json!({"loadbalancer": left}),
            );
        }
        let deleted = script.requested().into_iter();
        assert!(deleted.into_iter().all(|line| !line.starts_with("DELETE ")));
        let events = script.host.events.borrow();
        let message: Vec<_> = events
            .iter()
            .map(|event| (event.reason, event.warning))
            .collect();
        let expected: &[_] = if is_reported {
            &[("LoadBalancerLeft", false)]
        } else {
            &[]
        };
        assert_eq!(message, expected, "{name} {tags:?}");
    }
}

/// The annotations were removed, for example by a tool that applies manifests, and the cluster was
/// renamed.
#[test]
fn a_load_balancer_of_before_is_found_by_its_address() {
    const OLD: &str = "kube_service_old_shop_web";
    for (name, tags, address, found) in [
        (OLD, &[OLD][..], "203.0.113.7", true),
        (OLD, &[], "203.0.113.7", true),
        (OLD, &[OLD], "10.0.0.5", true),
        (OLD, &[], "10.0.0.5", true),
        (OLD, &[OLD], "203.0.113.9", false),
        (OLD, &[OLD, NAME], "203.0.113.7", false),
        ("kube_service_old_shop_other", &[OLD], "203.0.113.7", false),
        ("mine", &[], "203.0.113.7", false),
    ] {
        let script = Script::new("[LoadBalancer]\nsubnet-id=s");
        set_up(&script, name, tags, tags);
        let mut balancer = balancer("ACTIVE");
        (balancer["name"], balancer["tags"]) = (json!(name), json!(tags));
        script
            .on(
                &format!("GET {BALANCERS}?name={LEGACY}"),
                200,
                json!({"loadbalancers": []}),
            )
            // An Octavia that ignores these filters.
            .on(
                &format!("GET {BALANCERS}?vip_"),
                200,
                json!({"loadbalancers": [balancer]}),
            )
            .on(&format!("POST {BALANCERS}"), 403, Value::Null);
        script.host.nodes.borrow_mut().push("10.0.0.1");
        let ingress = Ingress {
            ip: Some(address.to_owned()),
            ..Ingress::default()
        };
        let served = Service {
            status: LoadBalancerStatus {
                ingress: vec![ingress],
            },
            ..service(true)
        };
        let answer = ensure(&script.cloud(), &served, &NoNodes);
        assert_eq!(is_in_progress(&answer), found, "{name} {tags:?} {answer:?}");
        let created = script.requested().contains(&format!("POST {BALANCERS}"));
        assert_eq!(created, !found, "{name} {tags:?} {address}");
        let answer = ensure_deleted(&script.cloud(), &served);
        assert_eq!(is_in_progress(&answer), found, "{name} {tags:?} {answer:?}");
        // A network of another cluster can have the same addresses, but not the same floating IPs.
        script.host.uncache("leads here lb");
        script.host.nodes.borrow_mut().clear();
        let answer = ensure_deleted(&script.cloud(), &served);
        let found = found && address == "203.0.113.7";
        assert_eq!(is_in_progress(&answer), found, "{name} {tags:?} {answer:?}");
    }
}
