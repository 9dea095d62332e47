use serde_json::Value;

use super::*;
use crate::testing::{World, service, targets};

fn addresses(status: &LoadBalancerStatus) -> Vec<&str> {
    status
        .ingress
        .iter()
        .map(|ingress| ingress.ip.as_deref().unwrap())
        .collect()
}

#[test]
fn a_load_balancer_is_created_changed_and_deleted() {
    let world = World::start();
    let (cloud, mut service) = (world.cluster("c1"), service());
    assert_eq!(get(&cloud, &service), Ok(None));
    assert_eq!(
        addresses(&ensure(&cloud, &service, &targets(&[1, 2])).unwrap()),
        ["198.19.0.1"]
    );

    let created = world.all("load_balancers").remove(0);
    assert_eq!(created["targets"], json!(["srv-1", "srv-2"]));
    assert_eq!(
        created["listeners"][1],
        json!({"protocol": "udp", "port": 53, "target_port": 30053})
    );
    assert_eq!(
        created["labels"],
        json!({"cluster": "c1", "service": "shop/web"})
    );
    assert_eq!(
        addresses(&get(&cloud, &service).unwrap().unwrap()),
        ["198.19.0.1"]
    );

    service.source_ranges = vec!["203.0.113.0/24".into()];
    (
        service.external_traffic_policy,
        service.health_check_node_port,
    ) = (TrafficPolicy::Local, 32000);
    service.ports.pop();
    ensure(&cloud, &service, &targets(&[2])).unwrap();
    let changed = world.all("load_balancers").remove(0);
    assert_eq!(
        (&changed["allowed_cidrs"], &changed["health_check_port"]),
        (&json!(["203.0.113.0/24"]), &json!(32000))
    );
    assert_eq!(
        (
            &changed["targets"],
            changed["listeners"].as_array().unwrap().len()
        ),
        (&json!(["srv-2"]), 1)
    );

    for _ in 0..2 {
        assert_eq!(ensure_deleted(&cloud, &service), Ok(()));
    }
    assert!(world.all("load_balancers").is_empty());
}

#[test]
fn an_unchanged_service_writes_nothing() {
    let world = World::start();
    let (cloud, service) = (world.cluster("c1"), service());
    ensure(&cloud, &service, &targets(&[1])).unwrap();
    world.calls();
    ensure(&cloud, &service, &targets(&[1])).unwrap();
    update_nodes(&cloud, &service, &targets(&[1])).unwrap();
    assert_eq!(
        world.calls(),
        ["load-balancers.list", "load-balancers.list"]
    );
}

#[test]
fn a_change_of_nodes_leaves_the_rest_to_ensure() {
    let world = World::start();
    let (cloud, mut service) = (world.cluster("c1"), service());
    assert!(matches!(
        update_nodes(&cloud, &service, &[]),
        Err(CloudError::NotFound(_))
    ));

    ensure(&cloud, &service, &targets(&[1])).unwrap();
    service.source_ranges = vec!["203.0.113.0/24".into()];
    update_nodes(&cloud, &service, &targets(&[1, 3])).unwrap();
    let current = world.all("load_balancers").remove(0);
    assert_eq!(
        (&current["targets"], &current["allowed_cidrs"]),
        (&json!(["srv-1", "srv-3"]), &json!([]))
    );
}

#[test]
fn a_pending_load_balancer_is_in_progress() {
    let world = World::start();
    let (cloud, service) = (world.cluster("c1"), service());
    world.hook("PATCH", "/_sim/settings", &json!({"lb_delay_ms": 5000}));
    let creating = |answer: &CloudError| matches!(answer, CloudError::InProgress(retry) if retry.after_ms == 1000);
    for _ in 0..2 {
        assert!(ensure(&cloud, &service, &targets(&[1])).is_err_and(|error| creating(&error)));
    }

    assert!(update_nodes(&cloud, &service, &[]).is_err_and(|error| creating(&error)));
    assert_eq!(
        get(&cloud, &service),
        Ok(Some(LoadBalancerStatus { ingress: vec![] }))
    );

    world.hook("POST", "/_sim/advance", &json!({"ms": 5000}));
    assert_eq!(
        addresses(&ensure(&cloud, &service, &targets(&[1])).unwrap()),
        ["198.19.0.1"]
    );
}

#[test]
fn a_broken_load_balancer_can_be_deleted() {
    let world = World::start();
    let (cloud, service) = (world.cluster("c1"), service());
    ensure(&cloud, &service, &[]).unwrap();
    world.hook(
        "PATCH",
        "/_sim/load-balancers/lb-1",
        &json!({"status": "error"}),
    );
    assert!(matches!(
        ensure(&cloud, &service, &[]),
        Err(CloudError::Unavailable(_))
    ));
    assert_eq!(ensure_deleted(&cloud, &service), Ok(()));
}

#[test]
fn a_lost_answer_creates_no_second_load_balancer() {
    for after in [false, true] {
        let world = World::start();
        let (cloud, service) = (world.cluster("c1"), service());
        world.hook("PATCH", "/_sim/settings", &json!({"lag_ms": 60_000}));
        world.lose("load-balancers.create", after);
        assert!(matches!(
            ensure(&cloud, &service, &targets(&[1])),
            Err(CloudError::Unavailable(_))
        ));
        ensure(&cloud, &service, &targets(&[1])).unwrap();
        world.lose("load-balancers.update", after);
        assert!(ensure(&cloud, &service, &targets(&[2])).is_err());
        ensure(&cloud, &service, &targets(&[2])).unwrap();
        assert_eq!(world.all("load_balancers")[0]["targets"], json!(["srv-2"]));
        world.lose("load-balancers.delete", after);
        assert!(ensure_deleted(&cloud, &service).is_err());
        assert_eq!(ensure_deleted(&cloud, &service), Ok(()));
        assert!(world.all("load_balancers").is_empty());
    }
}

#[test]
fn a_create_with_a_lost_answer_can_be_deleted() {
    let world = World::start();
    let (cloud, service) = (world.cluster("c1"), service());
    world.hook(
        "PATCH",
        "/_sim/settings",
        &json!({"lag_ms": 60_000, "lb_delay_ms": 60_000}),
    );
    world.lose("load-balancers.create", true);
    assert!(ensure(&cloud, &service, &[]).is_err());
    assert_eq!(ensure_deleted(&cloud, &service), Ok(()));
    assert!(world.all("load_balancers").is_empty());
}

#[test]
fn a_race_between_hosts_is_a_conflict() {
    let world = World::start();
    let (cloud, service) = (world.cluster("c1"), service());
    // The other host creates it after this one has looked.
    let body = wanted(&cloud, &service, &[]).unwrap();
    let guard = http::native::intercept({
        let body = json!(body);
        let url = world.sim.url();
        let sim = std::sync::Arc::new(std::sync::Mutex::new(Some((url, body))));
        move |request| {
            let first = (request.method == http::Method::Post)
                .then(|| sim.lock().unwrap().take())
                .flatten();
            if let Some((url, body)) = first {
                let token = "Bearer simcloud";
                let other = Request::post(format!("{url}/v1/{KIND}"))
                    .header("authorization", token)
                    .json(&body);
                std::thread::spawn(|| http::send(other.unwrap()).unwrap().success().unwrap())
                    .join()
                    .unwrap();
            }
            None
        }
    });

    assert!(matches!(
        ensure(&cloud, &service, &[]),
        Err(CloudError::Conflict(_))
    ));

    drop(guard);
    ensure(&cloud, &service, &[]).unwrap();
    assert_eq!(world.all("load_balancers").len(), 1);
}

#[test]
fn another_cluster_is_left_alone() {
    let world = World::start();
    let (one, other, service) = (world.cluster("c1"), world.cluster("c2"), service());
    ensure(&one, &service, &targets(&[1])).unwrap();
    let before = world.all("load_balancers");

    assert_eq!(get(&other, &service), Ok(None));
    assert!(matches!(
        ensure(&other, &service, &[]),
        Err(CloudError::Invalid(_))
    ));
    assert!(matches!(
        update_nodes(&other, &service, &[]),
        Err(CloudError::NotFound(_))
    ));
    assert_eq!(ensure_deleted(&other, &service), Ok(()));
    assert_eq!(world.all("load_balancers"), before);
}

#[test]
fn what_the_cloud_cannot_do_is_invalid() {
    let world = World::start();
    let cloud = world.cluster("c1");
    let with = |change: fn(&mut Service)| {
        let mut service = service();
        change(&mut service);
        ensure(&cloud, &service, &[])
    };
    let changes: [fn(&mut Service); 4] = [
        |service| service.load_balancer_ip = Some("198.19.0.9".into()),
        |service| service.ports[0].transport = Transport::Sctp,
        |service| service.ports[0].node_port = 0,
        |service| service.ports.clear(),
    ];
    for change in changes {
        assert!(matches!(with(change), Err(CloudError::Invalid(_))));
    }
    ensure(&cloud, &service(), &[]).unwrap();

    assert!(matches!(
        with(|service| service.ip_families.push(IpFamily::Ipv6)),
        Err(CloudError::Invalid(_))
    ));
}

#[test]
fn errors_of_the_cloud_keep_their_meaning() {
    let world = World::start();
    let (cloud, service) = (world.cluster("c1"), service());
    let after = |status: u16, retry_after: Value| {
        let failure = json!({"operation": "load-balancers.create", "status": status, "retry_after": retry_after});
        world.hook("POST", "/_sim/failures", &failure);
        ensure(&cloud, &service, &[]).unwrap_err()
    };
    assert!(matches!(after(429, json!(9)), CloudError::Throttled(retry) if retry.after_ms == 9000));
    assert!(matches!(after(403, Value::Null), CloudError::Denied(_)));
    assert!(matches!(
        after(500, Value::Null),
        CloudError::Unavailable(_)
    ));
    assert!(matches!(after(400, Value::Null), CloudError::Invalid(_)));
}

#[test]
fn a_load_balancer_without_its_label_is_deleted() {
    let world = World::start();
    let cloud = world.cluster("c1");
    for label in [json!({}), json!({"cluster": "c2"})] {
        ensure(&cloud, &service(), &targets(&[1])).unwrap();
        let id = world.all("load_balancers")[0]["id"]
            .as_str()
            .unwrap()
            .to_owned();
        world.hook(
            "PATCH",
            &format!("/v1/load-balancers/{id}"),
            &json!({"labels": label}),
        );
        ensure_deleted(&cloud, &service()).unwrap();
        assert_eq!(
            world.all("load_balancers").is_empty(),
            label == json!({}),
            "another cluster's is not touched"
        );
    }
}
