use serde_json::json;
use skydock_cloud::{CloudError, NewRoute, NodeSet, Service};

use super::*;
use crate::{
    api::{Patch, Target, patch},
    testing::{FakeApi, FakeCloud},
};

fn all(client: Client) -> Clients {
    Clients { informers: client.clone(), node: client.clone(), service: client.clone(), route: client }
}

#[tokio::test]
async fn writes_reach_the_api_server_to_be_tried_and_events_do_not_reach_it() {
    let api = FakeApi::default();
    let (_, clients) = harmless(Arc::new(FakeCloud::default()), &all(api.client()));
    let target = Target { namespace: None, name: "n1", subresource: Some("status") };
    let body = Patch::Merge(json!({"status": {}}));
    let answer = patch::<k8s_openapi::api::core::v1::Node>(&clients.node, &target, &body).await;
    assert_eq!(answer.unwrap(), "99", "the answer is the API server's");
    let nodes = kube::Api::<k8s_openapi::api::core::v1::Node>::all(clients.node);
    nodes.delete("n1", &kube::api::DeleteParams::default()).await.unwrap();
    let event =
        json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Node", "name": "n1"}, "reason": "Synced"});
    let events = kube::Api::<k8s_openapi::api::core::v1::Event>::default_namespaced(clients.informers);
    events.create(&kube::api::PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();

    let sent: Vec<_> = api.requests().iter().map(|request| (request.method.clone(), request.query.clone())).collect();
    for (method, query) in &sent {
        assert!(query.split('&').any(|pair| pair == "dryRun=All"), "{method} ?{query}");
    }
    assert_eq!(sent.len(), 2, "no event: {sent:?}");
}

#[tokio::test]
async fn the_cloud_is_asked_and_never_told() {
    let cloud = Arc::new(FakeCloud::default());
    let (harmless, _) = harmless(cloud.clone(), &all(FakeApi::default().client()));
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
    assert_eq!(cloud.calls(), Vec::<String>::new());
    harmless.get_load_balancer(&service).await.unwrap();
    assert_eq!(cloud.calls(), ["get web"]);
}

#[test]
fn what_would_be_done_is_said_in_words() {
    let body = json!({"a": 1});
    for (method, path, expected) in [
        (Method::PATCH, "/api/v1/nodes/n1/status", "patch nodes/n1/status: {\"a\":1}"),
        (Method::DELETE, "/api/v1/nodes/n1", "delete nodes/n1"),
    ] {
        assert_eq!(asked(&method, path, &body), expected);
    }
    let event = json!({
        "involvedObject": {"kind": "Node", "name": "n1"}, "type": "Normal", "reason": "DeletingNode", "message": "gone",
    });
    assert_eq!(told(&event), "tell Normal DeletingNode of Node n1: gone");
}
