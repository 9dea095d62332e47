use serde_json::{Value, json};

use super::*;
use crate::testing::{World, node};

const FIRST: Option<&str> = Some("simcloud:///zone-a/srv-1");

#[test]
fn a_node_is_described_by_name_then_by_provider_id() {
    let world = World::start();
    let nodes = [
        node("node-1", None),
        node("renamed", FIRST),
        node("stranger", None),
    ];
    let [by_name, by_id, stranger] = describe(&world.config, &nodes).try_into().unwrap();
    let instance = by_name.unwrap();

    assert_eq!(instance.provider_id.as_deref(), FIRST);

    let labels = [&instance.instance_type, &instance.zone, &instance.region]
        .map(|label| label.as_deref().unwrap());
    assert_eq!(labels, ["small", "zone-a", "sim"]);
    let addresses: Vec<_> = instance
        .addresses
        .iter()
        .map(|it| (it.kind, it.address.as_str()))
        .collect();
    let expected = [
        (AddressKind::InternalIp, "10.0.0.1"),
        (AddressKind::ExternalIp, "198.18.0.1"),
        (AddressKind::Hostname, "node-1"),
    ];
    assert_eq!(addresses, expected);
    assert_eq!(by_id.unwrap().provider_id.as_deref(), FIRST);
    assert!(matches!(stranger, Err(CloudError::NotFound(_))));
}

#[test]
fn an_ambiguous_name_is_invalid() {
    let world = World::start();
    world.hook("POST", "/_sim/servers", &json!({"name": "node-1"}));
    let answer = describe(&world.config, &[node("node-1", None)]).remove(0);
    assert!(matches!(answer, Err(CloudError::Invalid(_))), "{answer:?}");
}

#[test]
fn only_a_deleted_server_is_absent() {
    let world = World::start();
    let ids = [
        "simcloud:///zone-a/srv-1",
        "simcloud:///zone-b/srv-2",
        "simcloud:///zone-c/srv-3",
    ];
    world.hook("PATCH", "/_sim/servers/srv-2", &json!({"state": "stopped"}));
    world.hook("DELETE", "/_sim/servers/srv-3", &Value::Null);
    let nodes = ids.map(|id| node("n", Some(id)));

    assert_eq!(
        check(&world.config, &nodes),
        [
            Ok(Presence::Running),
            Ok(Presence::Stopped),
            Ok(Presence::Absent)
        ]
    );
    assert!(matches!(
        check(&world.config, &[node("stranger", None)])[0],
        Err(CloudError::NotFound(_))
    ));

    // A 404 of something else than the cloud.
    world.hook(
        "POST",
        "/_sim/failures",
        &json!({"operation": "servers.get", "status": 404}),
    );
    assert!(check(&world.config, &nodes[..1])[0].is_err());
}

#[test]
fn a_failure_concerns_one_node() {
    let world = World::start();
    let failure = json!({"operation": "servers.get", "status": 429, "retry_after": 7});
    world.hook("POST", "/_sim/failures", &failure);
    let answers = check(
        &world.config,
        &[
            node("a", FIRST),
            node("b", FIRST),
            node("c", Some("simcloud://x")),
        ],
    );
    let throttled = |answer: &&Result<Presence>| matches!(answer, Err(CloudError::Throttled(retry)) if retry.after_ms == 7000);

    assert_eq!(answers.iter().filter(throttled).count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(matches!(answers[2], Err(CloudError::Invalid(_))));
}

#[test]
fn a_server_of_another_region_is_not_found() {
    let world = World::start();
    let config = Config {
        region: "elsewhere".to_owned(),
        ..world.config.clone()
    };
    assert!(matches!(
        describe(&config, &[node("node-1", None)])[0],
        Err(CloudError::NotFound(_))
    ));
}
