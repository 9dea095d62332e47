//! Writes what was planned for a node.

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Client;
use serde_json::{Map, Value, json};
use skydock_cloud::{NodeAddress, Pairs};

use super::{
    labels::KeyPlan,
    plan::{Initialisation, Repair},
};
use crate::{
    api::{ApiError, Patch, Target, patch},
    constants::{ANNOTATION_ANNOTATIONS, ANNOTATION_LABELS, TAINT_UNINITIALIZED},
    informer::Entry,
};

fn target<'a>(entry: &'a Entry<Node>, subresource: Option<&'static str>) -> Target<'a> {
    Target { namespace: None, name: entry.name(), subresource }
}

/// Replaces `status.addresses`; gives the version of the node that has them.
pub(super) async fn addresses(
    client: &Client,
    entry: &Entry<Node>,
    wanted: &[NodeAddress],
) -> Result<String, ApiError> {
    let mut list: Vec<Value> =
        wanted.iter().map(|wanted| json!({ "type": wanted.kind.as_str(), "address": wanted.address })).collect();
    // Else the list would be merged by type, of which several may be the same.
    list.push(json!({ "$patch": "replace" }));
    let body = json!({ "metadata": { "uid": entry.uid() }, "status": { "addresses": list } });
    patch::<Node>(client, &target(entry, Some("status")), &Patch::Strategic(body)).await
}

/// Provider ID, labels and the end of the taint, in one patch; gives the version of the node that has them.
///
/// `spec.taints` is an atomic list, which can only be replaced whole: the patch names the version whose taints it knows, so
/// that it undoes nothing that others did since.
pub(super) async fn initialise(
    client: &Client,
    entry: &Entry<Node>,
    plan: &Initialisation,
) -> Result<String, ApiError> {
    let mut metadata = metadata(entry, &plan.labels, &plan.annotations);
    metadata.insert("resourceVersion".to_owned(), Value::from(entry.resource_version()));
    let taints: Vec<&Taint> = entry.object.taints.iter().filter(|taint| taint.key != TAINT_UNINITIALIZED).collect();
    let mut spec = json!({ "taints": Some(taints).filter(|taints| !taints.is_empty()) });
    if let (Some(id), Some(spec)) = (&plan.provider_id, spec.as_object_mut()) {
        spec.insert("providerID".to_owned(), Value::from(id.as_str()));
    }
    let body = json!({ "metadata": metadata, "spec": spec });
    patch::<Node>(client, &target(entry, None), &Patch::Strategic(body)).await
}

/// Brings an initialised node up to date.
pub(super) async fn repair(client: &Client, entry: &Entry<Node>, plan: &Repair) -> Result<(), ApiError> {
    if let Some(wanted) = &plan.addresses {
        addresses(client, entry, wanted).await?;
    }
    if plan.labels.is_empty() && plan.annotations.is_empty() {
        return Ok(());
    }
    let body = json!({ "metadata": metadata(entry, &plan.labels, &plan.annotations) });
    patch::<Node>(client, &target(entry, None), &Patch::Strategic(body)).await.map(drop)
}

/// The UID, which a patch must name so that it meets no other node of that name, and what becomes of labels and annotations.
fn metadata(entry: &Entry<Node>, labels: &KeyPlan, annotations: &KeyPlan) -> Map<String, Value> {
    let mut metadata = Map::from_iter([("uid".to_owned(), Value::from(entry.uid()))]);
    let mut noted = changed(annotations);
    for (plan, annotation) in [(labels, ANNOTATION_LABELS), (annotations, ANNOTATION_ANNOTATIONS)] {
        if let Some(names) = &plan.remembered {
            let names = if names.is_empty() { Value::Null } else { Value::from(names.as_str()) };
            noted.insert(annotation.to_owned(), names);
        }
    }
    for (field, map) in [("labels", changed(labels)), ("annotations", noted)] {
        if !map.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(map));
        }
    }
    metadata
}

fn changed(plan: &KeyPlan) -> Map<String, Value> {
    let set = plan.set.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    set.chain(plan.remove.iter().map(|key| (key.clone(), Value::Null))).collect()
}

/// Sets labels that follow others.
pub(super) async fn labels(client: &Client, entry: &Entry<Node>, labels: &Pairs) -> Result<(), ApiError> {
    let body = json!({ "metadata": { "uid": entry.uid(), "labels": labels } });
    patch::<Node>(client, &target(entry, None), &Patch::Strategic(body)).await.map(drop)
}
