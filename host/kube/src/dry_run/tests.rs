use k8s_openapi::api::core::v1 as k8s;
use kube::api::{DeleteParams, EvictParams, ListParams, PostParams, Preconditions};
use serde_json::json;

use super::*;
use crate::{
    api::{Patch, Target, patch},
    testing::FakeApi,
};

/// Decides like the API server: for deletions by the body if there is one, otherwise by the query.
fn is_dry(request: &crate::testing::Request) -> bool {
    let by_query = request.query.split('&').any(|pair| pair == "dryRun=All");
    match request.method.as_str() {
        "GET" => true,
        "DELETE" if !request.body.is_null() => request.body["dryRun"] == json!(["All"]),
        _ => by_query,
    }
}

#[tokio::test]
async fn writes_are_dry_runs_and_events_are_not_sent() {
    let api = FakeApi::default();
    let client = client(&api.client(), &Arc::default());
    let target = Target {
        namespace: None,
        name: "n1",
        subresource: Some("status"),
    };
    let body = Patch::Merge(json!({"status": {}}));
    let answer = patch::<k8s::Node>(&client, &target, &body).await;
    assert_eq!(answer.unwrap(), "99", "the answer is the API server's");
    let nodes = kube::Api::<k8s::Node>::all(client.clone());
    let preconditions = Preconditions {
        uid: Some("1".into()),
        resource_version: None,
    };
    for params in [
        DeleteParams::default(),
        DeleteParams::default().preconditions(preconditions),
    ] {
        nodes.delete("n1", &params).await.unwrap();
    }
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Node", "name": "n1"}, "reason": "Synced"});
    let events = kube::Api::<k8s::Event>::default_namespaced(client);
    events
        .create(
            &PostParams::default(),
            &serde_json::from_value(event).unwrap(),
        )
        .await
        .unwrap();

    let sent = api.requests();
    assert_eq!(sent.len(), 3, "no event: {sent:?}");
    for request in &sent {
        assert!(is_dry(request), "{request:?}");
    }
    assert_eq!(sent[2].body["preconditions"]["uid"], "1");
}

#[tokio::test]
async fn requests_that_could_still_act_fail_and_are_not_sent() {
    let api = FakeApi::default();
    let client = client(&api.client(), &Arc::default());
    let pods = kube::Api::<k8s::Pod>::default_namespaced(client.clone());
    let nodes = kube::Api::<k8s::Node>::all(client.clone());
    let accounts = kube::Api::<k8s::ServiceAccount>::default_namespaced(client);
    let request = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let errors = [
        pods.evict("p", &EvictParams::default()).await.unwrap_err(),
        nodes
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await
            .unwrap_err(),
        accounts
            .create_token_request("a", &PostParams::default(), &request)
            .await
            .unwrap_err(),
    ];

    for error in errors {
        assert!(error.to_string().contains("dry run: "), "{error}");
    }
    assert!(api.requests().is_empty());
}

#[test]
fn intended_changes_are_described_in_words() {
    let body = json!({"a": 1});
    for (method, path, expected) in [
        (
            Method::PATCH,
            "/api/v1/nodes/n1/status",
            "patch nodes/n1/status: {\"a\":1}",
        ),
        (Method::DELETE, "/api/v1/nodes/n1", "delete nodes/n1"),
    ] {
        assert_eq!(describe_request(&method, path, body.clone()), expected);
    }

    let event = json!({
        "involvedObject": {"kind": "Node", "name": "n1"}, "type": "Normal", "reason": "DeletingNode", "message": "gone",
    });
    assert_eq!(
        describe_event(&Method::POST, &event).unwrap(),
        "publish event Normal DeletingNode on Node n1: gone"
    );
    assert_eq!(
        describe_event(&Method::PATCH, &json!({"count": 2, "message": "gone"})),
        None,
        "it was logged"
    );
}

#[test]
fn each_message_is_new_only_once() {
    let log = DryRunLog::default();
    let new = ["delete nodes/a", "delete nodes/b", "delete nodes/a"].map(|what| log.is_new(what));
    assert_eq!(new, [true, true, false]);
}

// The version of a node changes with each heartbeat, and the time of a condition with each attempt.
#[test]
fn versions_and_timestamps_do_not_make_a_message_new() {
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

    for (one, other) in [
        (at("10:00"), at("10:05")),
        (of("7"), of("8")),
        (tested("7"), tested("8")),
    ] {
        let [one, other] =
            [one, other].map(|body| describe_request(&Method::PATCH, "/api/v1/nodes/a", body));
        assert_eq!(one, other);
        assert!(
            one.contains("NetworkUnavailable") || one.contains("taints"),
            "{one}"
        );
    }
}
