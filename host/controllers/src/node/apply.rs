//! Writes what was planned for a node.

use k8s_openapi::{
    api::core::v1::{Node, Taint},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Client;
use serde_json::{Map, Value, json};
use skydock_cloud::{NodeAddress, Pairs};

use super::{
    labels::LabelPlan,
    plan::{Initialisation, Repair},
};
use crate::{
    api::{ApiError, Patch, Target, patch, pointer_step},
    constants::{ANNOTATION_LABELS, TAINT_UNINITIALIZED},
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
    let mut version = entry.object.metadata.resource_version.clone();
    if let Some(wanted) = &plan.addresses {
        version = write_addresses(client, entry, wanted).await?.resource_version;
    }
    if let Some(id) = &plan.provider_id {
        operations.push(json!({ "op": "add", "path": "/spec/providerID", "value": id }));
    }
    operations.extend(label_operations(entry, version.as_deref(), &plan.labels));
    operations.extend(remove_taints(entry, |taint| taint.key == TAINT_UNINITIALIZED));
    patch::<Node>(client, &target(entry, None), &Patch::Json(Value::from(operations))).await.map(drop)
}

fn label_operations(entry: &Entry<Node>, version: Option<&str>, plan: &LabelPlan) -> Vec<Value> {
    let mut operations = Vec::new();
    let annotation = plan.remembered.as_ref();
    for (map, missing) in [
        ("labels", entry.view.labels.is_empty() && !plan.set.is_empty()),
        ("annotations", entry.view.annotations.is_empty() && annotation.is_some_and(|names| !names.is_empty())),
    ] {
        if missing {
            // To add the first one is to add the map, over one that somebody else may just have added.
            operations.push(json!({ "op": "test", "path": "/metadata/resourceVersion", "value": version }));
            operations.push(json!({ "op": "add", "path": format!("/metadata/{map}"), "value": {} }));
        }
    }
    let label = |key: &str| format!("/metadata/labels/{}", pointer_step(key));
    operations.extend(plan.set.iter().map(|(key, value)| json!({ "op": "add", "path": label(key), "value": value })));
    operations.extend(plan.remove.iter().map(|key| json!({ "op": "remove", "path": label(key) })));
    let path = format!("/metadata/annotations/{}", pointer_step(ANNOTATION_LABELS));
    operations.extend(annotation.map(|names| match names.as_str() {
        "" => json!({ "op": "remove", "path": path }),
        names => json!({ "op": "add", "path": path, "value": names }),
    }));
    operations
}

/// Brings an initialised node up to date.
pub(super) async fn repair(client: &Client, entry: &Entry<Node>, plan: &Repair) -> Result<(), ApiError> {
    if let Some(wanted) = &plan.addresses {
        write_addresses(client, entry, wanted).await?;
    }
    if plan.labels.is_empty() {
        return Ok(());
    }
    let mut labels: Map<String, Value> =
        plan.labels.set.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect();
    labels.extend(plan.labels.remove.iter().map(|key| (key.clone(), Value::Null)));
    let mut metadata = json!({ "uid": entry.uid(), "labels": labels });
    if let (Some(names), Some(metadata)) = (&plan.labels.remembered, metadata.as_object_mut()) {
        let names = if names.is_empty() { Value::Null } else { Value::from(names.as_str()) };
        metadata.insert("annotations".to_owned(), json!({ ANNOTATION_LABELS: names }));
    }
    let body = json!({ "metadata": metadata });
    patch::<Node>(client, &target(entry, None), &Patch::Merge(body)).await.map(drop)
}

/// Operations that take out these taints, the last one first, so that no index moves.
pub(crate) fn remove_taints(entry: &Entry<Node>, these: impl Fn(&Taint) -> bool) -> Vec<Value> {
    let taints = entry.object.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let mut operations = Vec::new();
    for (index, taint) in taints.iter().enumerate().rev().filter(|(_, taint)| these(taint)) {
        operations.push(json!({ "op": "test", "path": format!("/spec/taints/{index}/key"), "value": taint.key }));
        operations.push(json!({ "op": "remove", "path": format!("/spec/taints/{index}") }));
    }
    operations
}

/// Replaces `status.addresses`.
async fn write_addresses(client: &Client, entry: &Entry<Node>, wanted: &[NodeAddress]) -> Result<ObjectMeta, ApiError> {
    let wanted: Vec<Value> =
        wanted.iter().map(|wanted| json!({ "type": wanted.kind.as_str(), "address": wanted.address })).collect();
    let body = json!({ "metadata": { "uid": entry.uid() }, "status": { "addresses": wanted } });
    patch::<Node>(client, &target(entry, Some("status")), &Patch::Merge(body)).await
}

/// Sets labels that follow others.
pub(super) async fn labels(client: &Client, entry: &Entry<Node>, labels: &Pairs) -> Result<(), ApiError> {
    let body = json!({ "metadata": { "uid": entry.uid(), "labels": labels } });
    patch::<Node>(client, &target(entry, None), &Patch::Merge(body)).await.map(drop)
}
