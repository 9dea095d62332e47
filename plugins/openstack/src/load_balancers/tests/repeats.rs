//! Calls that are repeated, after failures and with other requests in between.

use super::*;

const LBAAS: &str = "http://load-balancer/v2.0/lbaas";

/// The floating IP cannot be created, and the Service is changed and changed back in the meantime.
#[test]
fn a_change_that_is_undone_is_undone_in_the_cloud() {
    for with_nodes in [false, true] {
        let script = Script::new("[LoadBalancer]\nsubnet-id=s");
        named(&script, &[]);
        script.on(
            &format!("POST {BALANCERS}"),
            201,
            json!({"loadbalancer": balancer("PENDING_CREATE")}),
        );
        let listener = json!({"id": "l", "protocol": "TCP", "protocol_port": 80, "tags": [NAME]});
        let pool = json!({"id": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "listeners": [{"id": "l"}]});
        script
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
                json!({"members": []}),
            )
            .on(&format!("PUT {LBAAS}"), 200, json!({}))
            .on(&format!("DELETE {LBAAS}"), 204, Value::Null);
        let reads = || {
            script
                .requested()
                .iter()
                .filter(|line| line.contains("/listeners?"))
                .count()
        };
        assert!(is_in_progress(&ensure(
            &script.cloud(),
            &service(false),
            &NoNodes
        )));
        named(&script, &[balancer("ACTIVE")]);
        assert!(matches!(
            ensure(&script.cloud(), &service(false), &NoNodes),
            Err(CloudError::Unavailable(_))
        ));
        assert_eq!(reads(), 0, "it is as it was created");
        if with_nodes {
            assert!(is_in_progress(&update_nodes(
                &script.cloud(),
                &service(false),
                &OneNode
            )));
        } else {
            let changed = with(service(false), annotation::CONNECTION_LIMIT, "7");
            assert!(is_in_progress(&ensure(&script.cloud(), &changed, &NoNodes)));
        }
        assert_eq!(reads(), 1);
        assert!(is_in_progress(&ensure(
            &script.cloud(),
            &service(false),
            &NoNodes
        )));
        assert_eq!(reads(), 1);
    }
}

/// Octavia was slow and may create the load balancer anyway.
#[test]
fn a_creation_without_an_answer_is_not_repeated_at_once() {
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    named(&script, &[]);
    script.on(&format!("POST {BALANCERS}"), 504, Value::Null);
    for _ in 0..2 {
        assert!(matches!(
            ensure(&script.cloud(), &service(false), &NoNodes),
            Err(CloudError::Unavailable(_))
        ));
    }
    assert_eq!(script.sent("POST ").len(), 1);
}

/// Somebody has deleted the load balancer of a Service. It is created again, and the Service is
/// deleted.
#[test]
fn a_recreated_load_balancer_leaves_no_security_group() {
    for (config, served) in [("", true), ("\nmanage-security-groups=true", false)] {
        let script = Script::new(&format!("[LoadBalancer]\nsubnet-id=s{config}"));
        named(&script, &[]);
        script.on(
            &format!("GET {BALANCERS}?name=au"),
            200,
            json!({"loadbalancers": []}),
        );
        script.on(
            &format!("POST {BALANCERS}"),
            201,
            json!({"loadbalancer": balancer("PENDING_CREATE")}),
        );
        let group = json!({"id": "g", "name": names::security_group(&service(true))});
        script
            .on(
                "GET http://network/v2.0/",
                200,
                json!({"floatingips": [], "ports": []}),
            )
            .on(
                "GET http://network/v2.0/security-groups",
                200,
                json!({"security_groups": [group]}),
            )
            .on(
                "DELETE http://network/v2.0/security-groups/g",
                204,
                Value::Null,
            );
        assert!(is_in_progress(&ensure(
            &script.cloud(),
            &service(served),
            &NoNodes
        )));
        assert_eq!(ensure_deleted(&script.cloud(), &service(served)), Ok(()));
        assert!(
            script
                .requested()
                .contains(&"DELETE http://network/v2.0/security-groups/g".to_owned())
        );
    }
}

/// A Neutron without this filter for ports returns all ports of the project.
#[test]
fn ports_without_the_security_group_are_not_changed() {
    let script = Script::new("");
    named(&script, &[]);
    script.on(
        &format!("GET {BALANCERS}?name=au"),
        200,
        json!({"loadbalancers": []}),
    );
    let group = json!({"id": "g", "name": names::security_group(&service(true))});
    let port = |id: &str, groups: &[&str]| json!({"id": id, "security_groups": groups});
    script
        .on("GET http://network/v2.0/", 200, json!({"floatingips": []}))
        .on(
            "GET http://network/v2.0/ports",
            200,
            json!({"ports": [port("p", &["g", "x"]), port("q", &["x"])]}),
        )
        .on(
            "GET http://network/v2.0/security-groups",
            200,
            json!({"security_groups": [group]}),
        )
        .on("PUT http://network/v2.0/ports/", 200, json!({}))
        .on(
            "DELETE http://network/v2.0/security-groups/g",
            204,
            Value::Null,
        );
    assert_eq!(ensure_deleted(&script.cloud(), &service(true)), Ok(()));
    let changed: Vec<String> = script
        .requested()
        .into_iter()
        .filter(|line| line.starts_with("PUT "))
        .collect();
    assert_eq!(changed, ["PUT http://network/v2.0/ports/p"]);
    // A 404 of a proxy is not a deleted group.
    script.on(
        "DELETE http://network/v2.0/security-groups/g",
        404,
        json!({"message": "no route"}),
    );
    script
        .host
        .uncache(&format!("no group {}", service(true).uid));
    assert!(matches!(
        ensure_deleted(&script.cloud(), &service(true)),
        Err(CloudError::Unavailable(_))
    ));
}
