//! Writes the planned changes of a node: addresses, provider ID, labels, annotations, taint.

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Client;
use serde_json::{Map, Value, json};
use skydock_cloud::{NodeAddress, Pairs};
use skydock_controller_base::objects::{
    constants::{ANNOTATION_ANNOTATIONS, ANNOTATION_LABELS, TAINT_UNINITIALIZED},
    kinds::NodeKind,
};
use skydock_kube::{
    api::{ApiError, Patch, Target, patch},
    informer::Entry,
};

use super::plan::{initialize::Initialization, labels::KeyPlan, repair::Repair};

fn target<'a>(entry: &'a Entry<NodeKind>, subresource: Option<&'static str>) -> Target<'a> {
    Target {
        namespace: None,
        name: entry.name(),
        subresource,
    }
}

/// Replaces `status.addresses`; returns the resource version of the result.
pub(super) async fn addresses(
    client: &Client,
    entry: &Entry<NodeKind>,
    wanted: &[NodeAddress],
) -> Result<String, ApiError> {
    let mut list: Vec<Value> = wanted
        .iter()
        .map(|wanted| json!({ "type": wanted.kind.as_str(), "address": wanted.address }))
        .collect();

    // Without this, the list would be merged by type, and several addresses may have the same type.
    list.push(json!({ "$patch": "replace" }));

    let body = json!({ "metadata": { "uid": entry.uid() }, "status": { "addresses": list } });
    patch::<Node>(
        client,
        &target(entry, Some("status")),
        &Patch::Strategic(body),
    )
    .await
}

/// Sets provider ID and labels and removes the taint, in one patch; returns the resource version of
/// the result.
///
/// `spec.taints` is an atomic list, which can only be replaced as a whole: the patch contains the
/// resource version of the node whose taints it is based on, so that it does not revert changes of
/// others.
pub(super) async fn initialize(
    client: &Client,
    entry: &Entry<NodeKind>,
    plan: &Initialization,
) -> Result<String, ApiError> {
    let mut metadata = metadata(entry, &plan.labels, &plan.annotations);
    metadata.insert(
        "resourceVersion".to_owned(),
        Value::from(entry.resource_version()),
    );

    let taints: Vec<&Taint> = entry
        .object
        .taints
        .iter()
        .filter(|taint| taint.key != TAINT_UNINITIALIZED)
        .collect();

    let mut spec = json!({ "taints": Some(taints).filter(|taints| !taints.is_empty()) });
    if let (Some(id), Some(spec)) = (&plan.provider_id, spec.as_object_mut()) {
        spec.insert("providerID".to_owned(), Value::from(id.as_str()));
    }

    let body = json!({ "metadata": metadata, "spec": spec });
    patch::<Node>(client, &target(entry, None), &Patch::Strategic(body)).await
}

/// Updates an initialized node.
pub(super) async fn repair(
    client: &Client,
    entry: &Entry<NodeKind>,
    plan: &Repair,
) -> Result<(), ApiError> {
    // They belong to the subresource `status`, which needs a patch of its own.
    if let Some(wanted) = &plan.addresses {
        addresses(client, entry, wanted).await?;
    }

    if plan.labels.is_empty() && plan.annotations.is_empty() {
        return Ok(());
    }

    let body = json!({ "metadata": metadata(entry, &plan.labels, &plan.annotations) });
    patch::<Node>(client, &target(entry, None), &Patch::Strategic(body))
        .await
        .map(drop)
}

/// Returns the metadata of a patch: the UID, so that the patch does not apply to another node with
/// the same name, and the changes of labels and annotations.
fn metadata(
    entry: &Entry<NodeKind>,
    labels: &KeyPlan,
    annotations: &KeyPlan,
) -> Map<String, Value> {
    let mut metadata = Map::from_iter([("uid".to_owned(), Value::from(entry.uid()))]);
    let mut noted = changed(annotations);

    for (plan, annotation) in [
        (labels, ANNOTATION_LABELS),
        (annotations, ANNOTATION_ANNOTATIONS),
    ] {
        if let Some(names) = &plan.remembered {
            let names = if names.is_empty() {
                Value::Null
            } else {
                Value::from(names.as_str())
            };
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
    let set = plan
        .set
        .iter()
        .map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    // In a patch, null removes a key.
    set.chain(plan.remove.iter().map(|key| (key.clone(), Value::Null)))
        .collect()
}

/// Sets labels to the values of their beta counterparts.
pub(super) async fn labels(
    client: &Client,
    entry: &Entry<NodeKind>,
    labels: &Pairs,
) -> Result<(), ApiError> {
    let body = json!({ "metadata": { "uid": entry.uid(), "labels": labels } });
    patch::<Node>(client, &target(entry, None), &Patch::Strategic(body))
        .await
        .map(drop)
}
