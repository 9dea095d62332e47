use k8s_openapi::api::core::v1 as k8s;
use kube::api::{DeleteParams, EvictParams, ListParams, PostParams, Preconditions};
use serde_json::json;
use skydock_cloud::{CloudError, NewRoute, NodeSet, Route, Service};

use super::*;
use crate::{
    api::{Patch, Target, patch},
    testing::{FakeApi, FakeCloud},
};

fn all(client: Client) -> Clients {
    Clients { informers: client.clone(), node: client.clone(), service: client.clone(), route: client }
}

/// As the API server decides: of a deletion the body counts, if there is one, and the query only if there is none.
fn is_dry(request: &crate::testing::Request) -> bool {
    let by_query = request.query.split('&').any(|pair| pair == "dryRun=All");
    match request.method.as_str() {
        "GET" => true,
        "DELETE" if !request.body.is_null() => request.body["dryRun"] == json!(["All"]),
        _ => by_query,
    }
}

#[tokio::test]
async fn writes_are_only_tried_and_events_not_sent() {
    let api = FakeApi::default();
    let (_, clients) = harmless(Arc::new(FakeCloud::default()), &all(api.client()), &Arc::default());
    let target = Target { namespace: None, name: "n1", subresource: Some("status") };
    let body = Patch::Merge(json!({"status": {}}));
    let answer = patch::<k8s::Node>(&clients.node, &target, &body).await;
    assert_eq!(answer.unwrap(), "99", "the answer is the API server's");
    let nodes = kube::Api::<k8s::Node>::all(clients.node.clone());
    let preconditions = Preconditions { uid: Some("1".into()), resource_version: None };
    for params in [DeleteParams::default(), DeleteParams::default().preconditions(preconditions)] {
        nodes.delete("n1", &params).await.unwrap();
    }
    let event =
        json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Node", "name": "n1"}, "reason": "Synced"});
    let events = kube::Api::<k8s::Event>::default_namespaced(clients.informers);
    events.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();

    let sent = api.requests();
    assert_eq!(sent.len(), 3, "no event: {sent:?}");
    for request in &sent {
        assert!(is_dry(request), "{request:?}");
    }
    assert_eq!(sent[2].body["preconditions"]["uid"], "1");
}

#[tokio::test]
async fn what_might_act_all_the_same_is_an_error_and_not_sent() {
    let api = FakeApi::default();
    let client = client(&api.client());
    let pods = kube::Api::<k8s::Pod>::default_namespaced(client.clone());
    let nodes = kube::Api::<k8s::Node>::all(client.clone());
    let accounts = kube::Api::<k8s::ServiceAccount>::default_namespaced(client);
    let request = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let errors = [
        pods.evict("p", &EvictParams::default()).await.unwrap_err(),
        nodes.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap_err(),
        accounts.create_token_request("a", &PostParams::default(), &request).await.unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().contains("in a dry run"), "{error}");
    }
    assert!(api.requests().is_empty());
}

// Holds: OPS-03
#[tokio::test]
async fn the_cloud_is_asked_and_never_told() {
    let cloud = Arc::new(FakeCloud::default());
    let (harmless, _) = harmless(cloud.clone(), &all(FakeApi::default().client()), &Arc::default());
    let service = Service { namespace: "ns".into(), name: "web".into(), ..Service::default() };
    let elsewhere = CloudError::ImplementedElsewhere;
    assert_eq!(harmless.ensure_load_balancer(&service, &NodeSet::default()).await, Err(elsewhere.clone()));
    assert_eq!(harmless.update_load_balancer(&service, &NodeSet::default()).await, Err(elsewhere.clone()));
    assert_eq!(harmless.ensure_load_balancer_deleted(&service).await, Err(elsewhere.clone()));
    let route = NewRoute {
        name_hint: String::new(),
        target_node: "n1".into(),
        target_provider_id: None,
        target_addresses: Vec::new(),
        destination_cidr: "10.0.0.0/24".into(),
    };
    assert_eq!(harmless.create_routes(&[route.clone(), route]).await, Ok(vec![Err(elsewhere.clone()), Err(elsewhere)]));
    let old = Route {
        name: "r".into(),
        target_node: None,
        target_addresses: None,
        destination_cidr: "10.0.0.0/24".into(),
        blackhole: false,
    };
    assert_eq!(harmless.delete_routes(&[old]).await, Ok(vec![Err(CloudError::ImplementedElsewhere)]));
    assert_eq!(cloud.calls(), Vec::<String>::new());
    harmless.get_load_balancer(&service).await.unwrap();
    assert_eq!(cloud.calls(), ["get web"]);
}

// Holds: OPS-01
#[test]
fn what_would_be_done_is_said_in_words() {
    let body = json!({"a": 1});
    for (method, path, expected) in [
        (Method::PATCH, "/api/v1/nodes/n1/status", "patch nodes/n1/status: {\"a\":1}"),
        (Method::DELETE, "/api/v1/nodes/n1", "delete nodes/n1"),
    ] {
        assert_eq!(asked(&method, path, body.clone()), expected);
    }
    let event = json!({
        "involvedObject": {"kind": "Node", "name": "n1"}, "type": "Normal", "reason": "DeletingNode", "message": "gone",
    });
    assert_eq!(told(&Method::POST, &event).unwrap(), "tell Normal DeletingNode of Node n1: gone");
    assert_eq!(told(&Method::PATCH, &json!({"count": 2, "message": "gone"})), None, "it was told");
}

// Holds: OPS-01
#[test]
fn each_thing_is_said_once() {
    let said = Said::default();
    let new = ["delete nodes/a", "delete nodes/b", "delete nodes/a"].map(|what| said.is_new(what));
    assert_eq!(new, [true, true, false]);
}

// A node has another version with each heartbeat, and a condition another time with each try.
// Holds: OPS-01
#[test]
fn what_only_passes_makes_nothing_new() {
    let at = |time: &str| {
        let condition = json!({"type": "NetworkUnavailable", "lastHeartbeatTime": time, "lastTransitionTime": time});
        json!({"metadata": {"uid": "u"}, "status": {"conditions": [condition]}})
    };
    let of = |version: &str| json!({"metadata": {"uid": "u", "resourceVersion": version}, "spec": {"taints": null}});
    let tested = |version: &str| {
        let taints = json!([{"key": "k", "effect": "NoSchedule"}]);
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "u"},
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/spec/taints", "value": taints},
        ])
    };
    for (one, other) in [(at("10:00"), at("10:05")), (of("7"), of("8")), (tested("7"), tested("8"))] {
        let [one, other] = [one, other].map(|body| asked(&Method::PATCH, "/api/v1/nodes/a", body));
        assert_eq!(one, other);
        assert!(one.contains("NetworkUnavailable") || one.contains("taints"), "{one}");
    }
}
