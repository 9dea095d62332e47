//! Writes what was planned for a node.

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use serde_json::{Value, json};
use skydock_cloud::{NodeAddress, Pairs};

use super::plan::Initialisation;
use crate::{
    api::{ApiError, Patch, Target, patch, pointer_step},
    constants::TAINT_UNINITIALIZED,
    informer::Entry,
};

fn target<'a>(entry: &'a Entry<Node>, subresource: Option<&'static str>) -> Target<'a> {
    Target { namespace: None, name: entry.name(), subresource }
}

/// Addresses first, so that nothing is scheduled to a node that cannot be reached; then provider ID, labels and taints in
/// one patch.
///
/// `spec.taints` is an atomic list: a merge patch can only replace it whole, and would undo what others did to it in
/// between. A JSON patch takes out the one taint, and tests that it is still where the cache has seen it.
pub(super) async fn initialise(client: &Client, entry: &Entry<Node>, plan: &Initialisation) -> Result<(), ApiError> {
    let mut operations = vec![json!({ "op": "test", "path": "/metadata/uid", "value": entry.uid() })];
    let mut current = entry.object.metadata.clone();
    if let Some(wanted) = &plan.addresses {
        current = write_addresses(client, entry, wanted).await?;
    }
    if let Some(id) = &plan.provider_id {
        operations.push(json!({ "op": "add", "path": "/spec/providerID", "value": id }));
    }
    if current.labels.is_none() && !plan.labels.is_empty() {
        // To add the first label is to add the map, over one that somebody else may just have added.
        operations
            .push(json!({ "op": "test", "path": "/metadata/resourceVersion", "value": current.resource_version }));
        operations.push(json!({ "op": "add", "path": "/metadata/labels", "value": {} }));
    }
    for (key, value) in &plan.labels {
        let path = format!("/metadata/labels/{}", pointer_step(key));
        operations.push(json!({ "op": "add", "path": path, "value": value }));
    }
    operations.extend(remove_taints(entry, TAINT_UNINITIALIZED));
    patch::<Node>(client, &target(entry, None), &Patch::Json(Value::from(operations))).await.map(drop)
}

/// Operations that take out all taints with this key, the last one first, so that no index moves.
pub(crate) fn remove_taints(entry: &Entry<Node>, key: &str) -> Vec<Value> {
    let taints = entry.object.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let mut operations = Vec::new();
    for (index, _) in taints.iter().enumerate().rev().filter(|(_, taint)| taint.key == key) {
        operations.push(json!({ "op": "test", "path": format!("/spec/taints/{index}/key"), "value": key }));
        operations.push(json!({ "op": "remove", "path": format!("/spec/taints/{index}") }));
    }
    operations
}

/// Replaces `status.addresses`.
pub(super) async fn addresses(client: &Client, entry: &Entry<Node>, wanted: &[NodeAddress]) -> Result<(), ApiError> {
    write_addresses(client, entry, wanted).await.map(drop)
}

async fn write_addresses(
    client: &Client,
    entry: &Entry<Node>,
    wanted: &[NodeAddress],
) -> Result<kube::api::ObjectMeta, ApiError> {
    let wanted: Vec<Value> =
        wanted.iter().map(|wanted| json!({ "type": wanted.kind.as_str(), "address": wanted.address })).collect();
    let body = json!({ "metadata": { "uid": entry.uid() }, "status": { "addresses": wanted } });
    patch::<Node>(client, &target(entry, Some("status")), &Patch::Merge(body)).await
}

/// Sets labels.
pub(super) async fn labels(client: &Client, entry: &Entry<Node>, labels: &Pairs) -> Result<(), ApiError> {
    let body = json!({ "metadata": { "uid": entry.uid(), "labels": labels } });
    patch::<Node>(client, &target(entry, None), &Patch::Merge(body)).await.map(drop)
}
