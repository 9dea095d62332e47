//! Floating IPs that stay, although something else goes.

use super::*;

const FLOATING: &str = "http://network/v2.0/floatingips";
const OTHER: &str = "kube_service_c_shop_other";

fn floating(description: &str, port: Option<&str>) -> Value {
    json!({"id": "f", "floating_ip_address": "203.0.113.7", "description": description, "port_id": port, "floating_network_id": "ext"})
}

fn own() -> String {
    names::floating_ip("c", &service(true))
}

/// Sets up a load balancer with these tags and this floating IP.
fn cloud_with(script: &Script, tags: &[&str], description: &str) {
    let mut balancer = balancer("ACTIVE");
    balancer["tags"] = json!(tags);
    named(script, &[balancer]);
    let lbaas = "http://load-balancer/v2.0/lbaas";
    script
        .on(&format!("GET {lbaas}/pools?"), 200, json!({"pools": []}))
        .on(
            &format!("GET {FLOATING}?port_id=p"),
            200,
            json!({"floatingips": [floating(description, Some("p"))]}),
        )
        .on(
            "GET http://network/v2.0/security-groups",
            200,
            json!({"security_groups": []}),
        )
        .on(&format!("PUT {FLOATING}/f"), 200, json!({}))
        .on(&format!("DELETE {FLOATING}/f"), 204, Value::Null)
        .on(&format!("PUT {BALANCERS}/lb"), 200, json!({}))
        .on(&format!("DELETE {BALANCERS}/lb"), 204, Value::Null);
}

fn is_deleted(script: &Script) -> bool {
    script.requested().contains(&format!("DELETE {FLOATING}/f"))
}

/// A later Service has selected the kept floating IP with `loadBalancerIP`.
#[test]
fn a_kept_floating_ip_outlives_a_later_service() {
    for (description, deleted) in [(own(), true), (names::kept_floating_ip(&own()), false)] {
        let script = Script::new("");
        cloud_with(&script, &[NAME], &description);
        assert!(is_in_progress(&ensure_deleted(
            &script.cloud(),
            &service(true)
        )));
        assert_eq!(is_deleted(&script), deleted, "{description}");
    }
}

/// Somebody has kept it, with a provider that does not mark it.
#[test]
fn a_selected_floating_ip_is_marked_as_kept() {
    let script = Script::new("");
    cloud_with(&script, &[NAME], "");
    let earlier = names::floating_ip(
        "c",
        &Service {
            name: "earlier".to_owned(),
            ..service(false)
        },
    );
    let selecting = Service {
        load_balancer_ip: Some("203.0.113.7".to_owned()),
        ..service(false)
    };
    let marked = |description: &str| json!({"floatingip": {"port_id": "p", "description": names::kept_floating_ip(description)}});
    let plain = json!({"floatingip": {"port_id": "p"}});
    let cases = [
        (selecting.clone(), earlier.clone(), marked(&earlier)),
        (selecting.clone(), own(), marked(&own())),
        (
            selecting.clone(),
            names::kept_floating_ip(&own()),
            plain.clone(),
        ),
        (selecting.clone(), "mine".to_owned(), plain.clone()),
        // It is the address of this Service, which was detached.
        (
            Service {
                status: service(true).status,
                ..selecting
            },
            own(),
            plain,
        ),
    ];
    script.on(
        &format!("GET {FLOATING}?port_id=p"),
        200,
        json!({"floatingips": []}),
    );
    for (service, description, expected) in cases {
        let found = json!({"floatingips": [floating(&description, None)]});
        script.on(&format!("GET {FLOATING}?floating_ip_address"), 200, found);
        attached_to(&script, &service).unwrap();
        assert_eq!(
            script.sent(&format!("PUT {FLOATING}/f")).last(),
            Some(&expected),
            "{description}"
        );
    }
}

/// A Neutron that ignores the filter returns all floating IPs of the project.
#[test]
fn a_floating_ip_with_another_address_is_not_attached() {
    let script = Script::new("[LoadBalancer]\nfloating-network-id=ext");
    let selecting = Service {
        load_balancer_ip: Some("203.0.113.9".to_owned()),
        ..service(false)
    };
    script
        .on(
            &format!("GET {FLOATING}?port_id=p"),
            200,
            json!({"floatingips": []}),
        )
        .on(
            &format!("GET {FLOATING}?floating_ip_address"),
            200,
            json!({"floatingips": [floating("mine", None)]}),
        )
        .on(
            &format!("POST {FLOATING}"),
            201,
            json!({"floatingip": {"id": "g", "floating_ip_address": "203.0.113.9"}}),
        );
    assert_eq!(
        attached_to(&script, &selecting),
        Ok("203.0.113.9".to_owned())
    );
    assert_eq!(script.sent("PUT "), [Value::Null; 0]);
}

/// Returns the address after the floating IP of this Service was ensured.
fn attached_to(script: &Script, service: &Service) -> Result<String> {
    let cloud = script.cloud();
    let of_service = LoadBalancer {
        vip_port_id: Some("p".to_owned()),
        ..LoadBalancer::default()
    };
    let desired = requested(&cloud, service).unwrap();
    floating_ip::ensure(
        context(&cloud, service, &desired),
        &of_service,
        &Ownership {
            owner: true,
            ..Ownership::default()
        },
    )
}

/// Somebody has deleted the load balancer without the floating IP, or detached it.
#[test]
fn a_detached_floating_ip_is_attached_again() {
    let script = Script::new("[LoadBalancer]\nfloating-network-id=ext");
    script
        .on(
            &format!("GET {FLOATING}?port_id=p"),
            200,
            json!({"floatingips": []}),
        )
        .on(
            &format!("GET {FLOATING}?description"),
            200,
            json!({"floatingips": [floating(&own(), None)]}),
        )
        .on(&format!("PUT {FLOATING}/f"), 200, json!({}))
        .on(
            &format!("POST {FLOATING}"),
            201,
            json!({"floatingip": {"id": "g", "floating_ip_address": "203.0.113.8"}}),
        );
    assert_eq!(
        attached_to(&script, &service(true)),
        Ok("203.0.113.7".to_owned())
    );
    assert_eq!(
        attached_to(&script, &service(false)),
        Ok("203.0.113.8".to_owned())
    );

    let elsewhere = with(service(true), annotation::FLOATING_NETWORK_ID, "other");
    assert_eq!(
        attached_to(&script, &elsewhere),
        Ok("203.0.113.8".to_owned())
    );
}

/// It is found without the filter. Any other rejection of the list is an error, since the floating
/// IP would be left behind.
#[test]
fn a_neutron_without_filter_for_descriptions_lists_all_floating_ips() {
    let invalid =
        json!({"NeutronError": {"message": "['description'] is invalid attribute for filtering"}});
    for (status, is_found) in [(200, true), (400, false)] {
        let script = Script::new("");
        script
            .on(&format!("GET {FLOATING} "), status, {
                let all = [floating("another", None), floating(&own(), None)];
                json!({"floatingips": all, "NeutronError": invalid["NeutronError"]})
            })
            .on(&format!("GET {FLOATING}?description"), 400, invalid.clone())
            .on(&format!("DELETE {FLOATING}/f"), 204, Value::Null);
        let deleted = floating_ip::delete_unattached(&script.cloud(), &service(true));
        assert_eq!(deleted.is_ok(), is_found, "{deleted:?}");
        assert_eq!(is_deleted(&script), is_found);
    }
}

/// Another Service may have attached it since it was read.
#[test]
fn a_floating_ip_that_was_changed_is_not_deleted() {
    let script = Script::new("");
    let mut left = floating(&own(), None);
    left["revision_number"] = json!(3);
    script
        .on(
            &format!("GET {FLOATING}?description"),
            200,
            json!({"floatingips": [left]}),
        )
        .on(&format!("DELETE {FLOATING}/f"), 412, json!({}));
    let deleted = floating_ip::delete_unattached(&script.cloud(), &service(true));

    assert!(
        matches!(deleted, Err(CloudError::Conflict(_))),
        "{deleted:?}"
    );
    assert_eq!(
        script.conditions(),
        [(
            format!("DELETE {FLOATING}/f"),
            "revision_number=3".to_owned()
        )]
    );
}

/// It was kept while the Service was internal.
#[test]
fn a_service_that_is_public_again_gets_its_kept_address() {
    let internal = Service {
        status: LoadBalancerStatus {
            ingress: vec![Ingress {
                ip: Some("10.0.0.5".to_owned()),
                ..Ingress::default()
            }],
        },
        ..service(true)
    };
    let later = Service {
        uid: "v".to_owned(),
        ..internal.clone()
    };
    let kept = names::floating_ip_kept_by("c", &internal);
    for (again, found, reused) in [
        (&internal, floating(&kept, None), true),
        // Somebody else uses it.
        (&internal, floating(&kept, Some("q")), false),
        // An earlier Service with this name kept it.
        (&later, floating(&kept, None), false),
        (
            &internal,
            floating(&names::kept_floating_ip(&own()), None),
            false,
        ),
        (&service(false), floating(&kept, None), false),
    ] {
        let script = Script::new("[LoadBalancer]\nfloating-network-id=ext");
        script
            .on(
                &format!("GET {FLOATING}?port_id=p"),
                200,
                json!({"floatingips": []}),
            )
            .on(
                &format!("GET {FLOATING}?description"),
                200,
                json!({"floatingips": [found]}),
            )
            .on(&format!("PUT {FLOATING}/f"), 200, json!({}))
            .on(
                &format!("POST {FLOATING}"),
                201,
                json!({"floatingip": {"id": "g", "floating_ip_address": "203.0.113.8"}}),
            );
        let address = attached_to(&script, again).unwrap();
        let expected = if reused { "203.0.113.7" } else { "203.0.113.8" };
        assert_eq!(address, expected, "{found}");
        // It is deleted with the Service, or kept, like before.
        let changed = json!({"floatingip": {"port_id": "p", "description": own()}});
        let expected = if reused { vec![changed] } else { Vec::new() };
        assert_eq!(script.sent("PUT "), expected);
    }
}

/// It is the address of the other Service, too, with which it would be deleted.
#[test]
fn the_floating_ip_of_an_owner_that_leaves_is_kept() {
    let keeping = with(service(true), annotation::KEEP_FLOATING_IP, "true");
    for (leaving, marked) in [(service(true), false), (keeping, true)] {
        let script = Script::new("");
        cloud_with(&script, &[NAME, OTHER], &own());
        assert!(is_in_progress(&ensure_deleted(&script.cloud(), &leaving)));
        let mark = json!({"floatingip": {"description": names::kept_floating_ip(&own())}});
        assert_eq!(
            script.sent(&format!("PUT {FLOATING}/f")),
            if marked { vec![mark] } else { Vec::new() }
        );
        assert!(!is_deleted(&script));
    }
}

/// The cluster was renamed, or the floating IP was created for a Service that has left the load
/// balancer.
#[test]
fn floating_ips_of_any_service_are_marked_as_kept() {
    let script = Script::new("");
    let earlier = "Floating IP for Kubernetes external service shop/web from cluster old";
    cloud_with(&script, &[NAME], earlier);
    let keeping = with(service(true), annotation::KEEP_FLOATING_IP, "true");
    assert!(is_in_progress(&ensure_deleted(&script.cloud(), &keeping)));
    let mark = json!({"floatingip": {"description": names::kept_floating_ip(earlier)}});
    assert_eq!(script.sent(&format!("PUT {FLOATING}/f")), [mark]);
}

#[test]
fn a_failed_load_balancer_leaves_no_floating_ip() {
    for (keep, deleted) in [("false", true), ("true", false)] {
        let script = Script::new("");
        cloud_with(&script, &[NAME], &own());
        named(&script, &[balancer("ERROR")]);
        let failed = with(service(false), annotation::KEEP_FLOATING_IP, keep);
        assert!(matches!(
            ensure(&script.cloud(), &failed, &NoNodes),
            Err(CloudError::Unavailable(_))
        ));
        assert_eq!(is_deleted(&script), deleted);
    }
}

/// A Neutron that ignores the filter returns all floating IPs of the project.
#[test]
fn a_floating_ip_of_another_port_is_not_deleted() {
    let script = Script::new("");
    cloud_with(&script, &[NAME], &own());
    let others = json!({"floatingips": [floating(&own(), Some("q"))]});
    script.on(&format!("GET {FLOATING}?port_id=p"), 200, others);
    assert!(is_in_progress(&ensure_deleted(
        &script.cloud(),
        &service(true)
    )));
    assert!(!is_deleted(&script));
}

/// A 404 of a proxy proves nothing, and nobody would look for the floating IP again.
#[test]
fn a_404_from_a_proxy_is_not_a_deleted_floating_ip() {
    let script = Script::new("");
    cloud_with(&script, &[NAME], &own());
    script.on(
        &format!("DELETE {FLOATING}/f"),
        404,
        json!({"message": "no route"}),
    );
    assert!(matches!(
        ensure_deleted(&script.cloud(), &service(true)),
        Err(CloudError::Unavailable(_))
    ));

    script.on(
        &format!("DELETE {FLOATING}/f"),
        404,
        json!({"NeutronError": {"type": "FloatingIPNotFound"}}),
    );
    assert!(is_in_progress(&ensure_deleted(
        &script.cloud(),
        &service(true)
    )));
}
