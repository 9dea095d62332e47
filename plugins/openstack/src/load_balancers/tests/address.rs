//! Changes of the requested address, and other settings that a load balancer cannot follow.

use super::*;

const FLOATING: &str = "http://network/v2.0/floatingips";

fn floating(id: &str, address: &str, description: &str, port: Option<&str>) -> Value {
    json!({"id": id, "floating_ip_address": address, "description": description, "port_id": port, "floating_network_id": "ext"})
}

/// Returns the current floating IP of the Service after it was detached.
fn detached(description: &str) -> Value {
    let mut detached = floating("f", "203.0.113.7", description, None);
    detached["revision_number"] = json!(8);
    detached
}

/// Returns the address of a Service with `203.0.113.7` that requests `203.0.113.200`, and the
/// changes.
fn requesting(
    script: &Script,
    current: &str,
    requested: &[Value],
    shared: bool,
) -> (Result<String>, Vec<String>) {
    script
        .on(
            &format!("GET {FLOATING}?port_id=p"),
            200,
            json!({"floatingips": [floating("f", "203.0.113.7", current, Some("p"))]}),
        )
        .on(
            &format!("GET {FLOATING}?floating_ip_address=203.0.113.200"),
            200,
            json!({"floatingips": requested}),
        )
        // It is read again after it was detached.
        .on(
            &format!("GET {FLOATING}?floating_ip_address=203.0.113.7"),
            200,
            json!({"floatingips": [detached(current)]}),
        )
        .on(
            &format!("GET {FLOATING}?description"),
            200,
            json!({"floatingips": []}),
        )
        .on(&format!("PUT {FLOATING}"), 200, json!({}))
        .on(&format!("DELETE {FLOATING}"), 204, Value::Null);
    request(script, shared)
}

/// Like [`requesting`], with other floating IPs that can be requested.
fn answered(script: &Script, requested: &[Value]) -> (Result<String>, Vec<String>) {
    script.on(
        &format!("GET {FLOATING}?floating_ip_address=203.0.113.200"),
        200,
        json!({"floatingips": requested}),
    );
    request(script, false)
}

fn request(script: &Script, shared: bool) -> (Result<String>, Vec<String>) {
    request_for(&service(true), script, shared)
}

fn request_for(service: &Service, script: &Script, shared: bool) -> (Result<String>, Vec<String>) {
    let service = Service {
        load_balancer_ip: Some("203.0.113.200".to_owned()),
        ..service.clone()
    };
    let cloud = script.cloud();
    let balancer = LoadBalancer {
        vip_port_id: Some("p".to_owned()),
        ..LoadBalancer::default()
    };
    let ownership = Ownership {
        owner: true,
        attached: true,
        services: if shared { 2 } else { 1 },
        renamed_from: None,
    };
    let desired = requested(&cloud, &service).unwrap();
    let answer = floating_ip::ensure(context(&cloud, &service, &desired), &balancer, &ownership);
    let requested = script.requested().into_iter();
    (
        answer,
        requested.filter(|line| !line.starts_with("GET ")).collect(),
    )
}

#[test]
fn a_requested_floating_ip_replaces_the_current_one() {
    let own = names::floating_ip("c", &service(true));
    let free = floating("g", "203.0.113.200", "", None);
    for (current, deleted) in [(own.as_str(), true), ("mine", false)] {
        let script = Script::new("");
        let (address, changes) = requesting(&script, current, std::slice::from_ref(&free), false);
        assert_eq!(address, Ok("203.0.113.200".to_owned()));
        let mut expected = vec![format!("PUT {FLOATING}/f"), format!("PUT {FLOATING}/g")];
        expected.extend(deleted.then(|| format!("DELETE {FLOATING}/f")));
        assert_eq!(changes, expected);
        assert!(script.host.events.borrow().is_empty());
    }
}

/// Another client may use it at the same time.
#[test]
fn a_rejected_floating_ip_costs_nobody_the_current_one() {
    let own = names::floating_ip("c", &service(true));
    let free = floating("g", "203.0.113.200", "", None);
    for current in [own.as_str(), "mine"] {
        let script = Script::new("");
        // The last matching answer is used.
        _ = requesting(&script, current, &[], false);
        script.on(&format!("PUT {FLOATING}/g"), 412, json!({}));
        let put = script.sent("PUT ").len();
        let (address, changes) = answered(&script, std::slice::from_ref(&free));
        assert!(
            matches!(address, Err(CloudError::Conflict(_))),
            "{address:?}"
        );
        let [f, g] = ["f", "g"].map(|id| format!("PUT {FLOATING}/{id}"));
        assert_eq!(changes, [f.clone(), g, f]);
        let sent = script.sent("PUT ").split_off(put);
        assert_eq!(sent[2], json!({"floatingip": {"port_id": "p"}}));
    }
}

/// Another Service may request the previous address while it is not attached.
#[test]
fn a_replaced_floating_ip_that_another_service_uses_is_not_deleted() {
    let own = names::floating_ip("c", &service(true));
    let free = floating("g", "203.0.113.200", "", None);
    let delete = format!("DELETE {FLOATING}/f");
    let condition = (delete.clone(), "revision_number=8".to_owned());
    for (previous, deleted) in [
        (detached(&own), true),
        (floating("f", "203.0.113.7", &own, Some("q")), false),
    ] {
        let script = Script::new("");
        _ = requesting(&script, &own, &[], false);
        script.on(
            &format!("GET {FLOATING}?floating_ip_address=203.0.113.7"),
            200,
            json!({"floatingips": [previous]}),
        );
        let (address, changes) = answered(&script, std::slice::from_ref(&free));

        assert_eq!(address, Ok("203.0.113.200".to_owned()));
        assert_eq!(changes.contains(&delete), deleted);
        assert_eq!(script.conditions().contains(&condition), deleted);
    }
}

/// It is deleted with the Service once `keep-floatingip` is removed.
#[test]
fn a_floating_ip_that_is_attached_again_is_not_marked_as_kept() {
    let own = names::floating_ip("c", &service(true));
    let keeping = with(service(true), annotation::KEEP_FLOATING_IP, "true");
    let script = Script::new("");
    let free = floating("g", "203.0.113.200", "", None);
    _ = requesting(&script, &own, &[free], true);
    script.on(&format!("PUT {FLOATING}/g"), 412, json!({}));
    let (address, _) = request_for(&keeping, &script, false);

    assert!(
        matches!(address, Err(CloudError::Conflict(_))),
        "{address:?}"
    );
    let kept = names::kept_floating_ip(&own);
    assert_eq!(
        script.sent(&format!("PUT {FLOATING}/f")),
        [
            json!({"floatingip": {"port_id": null, "description": kept}}),
            json!({"floatingip": {"port_id": "p", "description": own}}),
        ]
    );
}

#[test]
fn both_errors_are_reported_if_no_floating_ip_can_be_attached() {
    let script = Script::new("");
    let free = floating("g", "203.0.113.200", "", None);
    _ = requesting(&script, "mine", &[free], true);
    script.on(&format!("PUT {FLOATING}/g"), 412, json!({})).on(
        &format!("GET {FLOATING}?floating_ip_address=203.0.113.7"),
        503,
        json!({}),
    );
    let error = request(&script, false).0.unwrap_err();

    assert!(matches!(error, CloudError::Unavailable(_)), "{error:?}");
    let text = error.message();
    assert!(text.contains("203.0.113.200: HTTP 412"), "{text}");
    assert!(text.contains("HTTP 503"), "{text}");
}

/// Returns a cloud in which the Service gets a floating IP of a subnet named `pub…`, of which there
/// are two, and the answer to its creation.
fn with_two_subnets(status: u16, message: &str) -> Script {
    let script = Script::new("[LoadBalancer]\nfloating-network-id=ext\nfloating-subnet=pub*");
    let subnet = |id: &str| json!({"id": id, "name": id, "network_id": "ext", "ip_version": 4});
    script
        .on(&format!("GET {FLOATING}?"), 200, json!({"floatingips": []}))
        .on(
            "GET http://network/v2.0/subnets?",
            200,
            json!({"subnets": [subnet("pub-a"), subnet("pub-b")]}),
        )
        .on(
            &format!("POST {FLOATING}"),
            status,
            json!({"NeutronError": {"type": "T", "message": message}}),
        );
    script
}

#[test]
fn the_next_subnet_is_tried_only_if_no_address_is_free() {
    for (status, message, requests) in [
        (409, "No more IP addresses available for subnet 1.", 2),
        (
            400,
            "Unable to find any IP address on external network 1.",
            2,
        ),
        (409, "Quota exceeded for resources: ['floatingip'].", 1),
        (401, "Authentication required", 1),
        (429, "Too many requests", 1),
        (504, "Gateway timeout", 1),
    ] {
        let script = with_two_subnets(status, message);
        let cloud = script.cloud();
        let service = service(false);
        let desired = requested(&cloud, &service).unwrap();
        let balancer = LoadBalancer {
            vip_port_id: Some("p".to_owned()),
            ..LoadBalancer::default()
        };
        let ownership = Ownership {
            owner: true,
            ..Ownership::default()
        };
        let address =
            floating_ip::ensure(context(&cloud, &service, &desired), &balancer, &ownership);
        assert!(address.is_err());
        assert_eq!(script.sent("POST ").len(), requests, "{message}");
    }
}

#[test]
fn a_missing_external_network_is_reported_once() {
    let script = Script::new("");
    script
        .on(&format!("GET {FLOATING}?"), 200, json!({"floatingips": []}))
        .on(
            "GET http://network/v2.0/networks",
            200,
            json!({"networks": []}),
        );
    let cloud = script.cloud();
    let service = service(false);
    let desired = requested(&cloud, &service).unwrap();
    let balancer = LoadBalancer {
        vip_port_id: Some("p".to_owned()),
        vip_address: Some("10.0.0.5".to_owned()),
        ..LoadBalancer::default()
    };
    let ownership = Ownership {
        owner: true,
        ..Ownership::default()
    };
    for _ in 0..2 {
        let address =
            floating_ip::ensure(context(&cloud, &service, &desired), &balancer, &ownership);
        assert_eq!(address, Ok("10.0.0.5".to_owned()));
    }

    let events = script.host.events.borrow();
    let reasons: Vec<_> = events.iter().map(|event| event.reason).collect();
    assert_eq!(reasons, ["LoadBalancerForcedInternal"]);
}

/// The previous process ended before it deleted the previous one.
#[test]
fn a_replaced_floating_ip_that_was_left_is_deleted() {
    let own = names::floating_ip("c", &service(true));
    let script = Script::new("");
    _ = requesting(&script, &own, &[], false);
    script
        .on(
            &format!("GET {FLOATING}?port_id=p"),
            200,
            json!({"floatingips": [floating("g", "203.0.113.200", "", Some("p"))]}),
        )
        .on(
            &format!("GET {FLOATING}?description"),
            200,
            json!({"floatingips": [floating("f", "203.0.113.7", &own, None)]}),
        );
    let (address, changes) = answered(&script, &[]);

    assert_eq!(address, Ok("203.0.113.200".to_owned()));
    assert_eq!(changes, [format!("DELETE {FLOATING}/f")]);
}

#[test]
fn a_requested_floating_ip_that_is_not_free_is_reported_once() {
    let used = floating("g", "203.0.113.200", "", Some("q"));
    let free = floating("g", "203.0.113.200", "", None);
    for (requested, shared, message) in [
        (vec![used], false, "the requested one is in use"),
        (Vec::new(), false, "no floating IP of the project has"),
        (vec![free], true, "it is also the address of other Services"),
    ] {
        let script = Script::new("");
        for _ in 0..2 {
            let (address, changes) = requesting(&script, "", &requested, shared);
            assert_eq!(address, Ok("203.0.113.7".to_owned()));
            assert_eq!(changes, [""; 0]);
        }
        let events = script.host.events.borrow();
        assert_eq!(events.len(), 1);
        assert!(events[0].message.contains(message));
    }
}

#[test]
fn a_floating_ip_in_another_network_is_reported() {
    let script = Script::new("");
    script.on(
        &format!("GET {FLOATING}?port_id=p"),
        200,
        json!({"floatingips": [floating("f", "203.0.113.7", "", Some("p"))]}),
    );
    let balancer = LoadBalancer {
        vip_port_id: Some("p".to_owned()),
        ..LoadBalancer::default()
    };
    for (network, events) in [("ext", 0), ("other", 1)] {
        let service = with(service(true), annotation::FLOATING_NETWORK_ID, network);
        let cloud = script.cloud();
        let desired = requested(&cloud, &service).unwrap();
        let ownership = Ownership::default();
        let address =
            floating_ip::ensure(context(&cloud, &service, &desired), &balancer, &ownership);
        assert_eq!(address, Ok("203.0.113.7".to_owned()));
        assert_eq!(script.host.events.borrow().len(), events, "{network}");
    }
}

/// Upstream uses the first external network.
#[test]
fn the_external_network_is_the_one_that_the_router_reaches() {
    let network = |id: &str| json!({"id": id, "router:external": true, "subnets": [id]});
    let subnet = |id: &str| json!({"id": id, "network_id": id, "ip_version": 4});
    let unreachable = json!({"NeutronError": {"type": "ExternalGatewayForFloatingIPNotFound"}});
    let script = Script::new("");
    _ = requesting(&script, "", &[], false);
    script
        .on(
            &format!("GET {FLOATING}?port_id=p"),
            200,
            json!({"floatingips": []}),
        )
        .on(
            "GET http://network/v2.0/networks",
            200,
            json!({"networks": [network("far"), network("near")]}),
        )
        .on(
            "GET http://network/v2.0/subnets?",
            200,
            json!({"subnets": [subnet("far"), subnet("near")]}),
        )
        .on(&format!("POST {FLOATING}"), 404, unreachable);
    let (address, changes) = answered(&script, &[]);

    assert!(
        matches!(address, Err(CloudError::NotFound(_))),
        "{address:?}"
    );

    let create = format!("POST {FLOATING}");
    assert_eq!(changes, [create.clone(), create.clone()]);

    script.on(
        &format!("POST {FLOATING}"),
        201,
        json!({"floatingip": {"id": "g", "floating_ip_address": "203.0.113.200"}}),
    );
    let networks = |script: &Script| {
        let sent = script.sent("POST ").into_iter();
        sent.map(|body| body["floatingip"]["floating_network_id"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(networks(&script), ["far", "near"]);

    let (address, _) = answered(&script, &[]);
    assert_eq!(address, Ok("203.0.113.200".to_owned()));
}

/// `floating-subnet-id` says which network is meant.
#[test]
fn the_network_of_the_floating_subnet_is_used() {
    for (network, sent) in [("", Some("its")), ("its", Some("its")), ("other", None)] {
        let script = Script::new(&format!(
            "[LoadBalancer]\nfloating-subnet-id=fs\nfloating-network-id={network}"
        ));
        _ = requesting(&script, "", &[], false);
        let subnet = json!({"subnet": {"id": "fs", "network_id": "its", "ip_version": 4}});
        script
            .on(
                &format!("GET {FLOATING}?port_id=p"),
                200,
                json!({"floatingips": []}),
            )
            .on("GET http://network/v2.0/subnets/fs", 200, subnet)
            .on(
                &format!("POST {FLOATING}"),
                201,
                json!({"floatingip": {"id": "g", "floating_ip_address": "203.0.113.200"}}),
            );
        let (address, _) = answered(&script, &[]);
        assert_eq!(address.is_ok(), sent.is_some(), "{address:?}");
        let body = script.sent("POST ").pop();
        let used = body.map(|body| body["floatingip"]["floating_network_id"].clone());
        assert_eq!(used, sent.map(|network| json!(network)));
    }
}

#[test]
fn a_floating_ip_in_another_subnet_is_reported() {
    let subnets = "GET http://network/v2.0/subnets";
    let near = json!({"id": "near", "name": "near", "cidr": "203.0.113.0/24"});
    let far = json!({"id": "far", "name": "far", "cidr": "198.51.100.0/24"});
    for (key, value, events) in [
        (annotation::FLOATING_SUBNET_ID, "near", 0),
        (annotation::FLOATING_SUBNET_ID, "far", 1),
        (annotation::FLOATING_SUBNET, "near*", 0),
        (annotation::FLOATING_SUBNET, "f*", 1),
        // Nothing shows where it should be.
        (annotation::FLOATING_SUBNET, "none*", 0),
        (annotation::HOSTNAME, "far", 0),
    ] {
        let script = Script::new("[LoadBalancer]\nfloating-subnet-id=far");
        _ = requesting(&script, "", &[], false);
        script.host.events.borrow_mut().clear();
        script
            .on(&format!("{subnets}?"), 200, json!({"subnets": [near, far]}))
            .on(&format!("{subnets}/near"), 200, json!({"subnet": near}))
            .on(&format!("{subnets}/far"), 200, json!({"subnet": far}));
        let service = with(service(true), key, value);
        let cloud = script.cloud();
        let balancer = LoadBalancer {
            vip_port_id: Some("p".to_owned()),
            ..LoadBalancer::default()
        };
        let desired = requested(&cloud, &service).unwrap();
        for _ in 0..2 {
            let ownership = Ownership::default();
            let address =
                floating_ip::ensure(context(&cloud, &service, &desired), &balancer, &ownership);
            assert_eq!(address, Ok("203.0.113.7".to_owned()));
        }
        assert_eq!(script.host.events.borrow().len(), events, "{key} {value}");
        let reads = script.requested();
        assert!(
            reads
                .iter()
                .filter(|line| line.contains("/subnets"))
                .count()
                <= 1
        );
    }
}

#[test]
fn settings_of_new_load_balancers_are_reported_once() {
    let script = Script::new("");
    let mut made = balancer("PENDING_UPDATE");
    made["flavor_id"] = json!("small");
    named(&script, &[made]);
    let changed = with(service(true), annotation::FLAVOR_ID, "big");
    for _ in 0..2 {
        assert!(is_in_progress(&ensure(&script.cloud(), &changed, &NoNodes)));
    }
    let events = script.host.events.borrow();
    let reasons: Vec<_> = events.iter().map(|event| event.reason).collect();
    assert_eq!(reasons, ["LoadBalancerSettingsIgnored"]);
}

/// The label may be set later, and removed again.
#[test]
fn a_selector_without_nodes_is_reported() {
    struct Labeled(bool);
    impl Nodes for Labeled {
        fn targets(&self) -> Rc<[Target]> {
            Rc::default()
        }

        fn nodes(&self) -> Vec<Node> {
            let label = ("pool".to_owned(), "edge".to_owned());
            vec![Node {
                labels: Some(label).filter(|_| self.0).into_iter().collect(),
                ..Node::default()
            }]
        }
    }
    let script = Script::new("[LoadBalancer]\nsubnet-id=s");
    let selecting = with(service(false), annotation::NODE_SELECTOR, "pool=edge");
    let cloud = script.cloud();
    let desired = requested(&cloud, &selecting).unwrap();
    for (labeled, events) in [(false, 1), (false, 1), (true, 1), (false, 2)] {
        let targets = targets(&Labeled(labeled), &desired);
        let member_nodes: Vec<_> = targets.iter().map(|_| MemberNode::default()).collect();
        warn_no_members(
            context(&cloud, &selecting, &desired),
            &targets,
            &member_nodes,
        );
        assert_eq!(script.host.events.borrow().len(), events);
    }

    assert!(
        script.host.events.borrow()[0]
            .message
            .contains("node selector `pool=edge`")
    );
}
