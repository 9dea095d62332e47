//! Writes the decided changes of a node's taints, and deletes nodes.

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Client;
use serde_json::{Value, json};
use skydock_controller_base::objects::{
    constants::{
        ANNOTATION_OUT_OF_SERVICE, OUT_OF_SERVICE_VALUE, TAINT_OUT_OF_SERVICE, TAINT_SHUTDOWN,
    },
    kinds::NodeKind,
};
use skydock_kube::{
    api::{self, ApiError, Patch, Target, patch, pointer_step},
    dry_run::DryRunLog,
    informer::Entry,
};

use super::plan::Change;

/// Effect of the shutdown taint, as upstream. With another effect, it is a taint of someone else.
const SHUTDOWN_EFFECT: &str = "NoSchedule";
/// Effect of the out-of-service taint that Skydock sets.
const OUT_OF_SERVICE_EFFECT: &str = "NoExecute";

/// Changes taints in one patch.
///
/// `spec.taints` is an atomic list: a merge patch would revert changes that others made in the
/// meantime.
pub(super) async fn taints(
    client: &Client,
    entry: &Entry<NodeKind>,
    changes: &[Change],
) -> Result<(), ApiError> {
    let mut body = vec![json!({ "op": "test", "path": "/metadata/uid", "value": entry.uid() })];
    body.extend(operations(entry, changes));

    let target = Target {
        namespace: None,
        name: entry.name(),
        subresource: None,
    };

    patch::<Node>(client, &target, &Patch::Json(Value::from(body)))
        .await
        .map(drop)
}

fn operations(entry: &Entry<NodeKind>, changes: &[Change]) -> Vec<Value> {
    let mark = format!(
        "/metadata/annotations/{}",
        pointer_step(ANNOTATION_OUT_OF_SERVICE)
    );
    let mut added = Vec::new();
    let mut gone = Vec::new();
    let mut operations = Vec::new();

    for change in changes {
        match change {
            Change::AddShutdown => {
                added.push(json!({ "key": TAINT_SHUTDOWN, "effect": SHUTDOWN_EFFECT }));
            }
            Change::AddOutOfService => {
                added
                    .push(json!({ "key": TAINT_OUT_OF_SERVICE, "value": OUT_OF_SERVICE_VALUE, "effect": OUT_OF_SERVICE_EFFECT }));
                // A key cannot be added to a map that does not exist.
                if entry.view.annotations.is_empty() {
                    operations.push(unchanged(entry));
                    operations
                        .push(json!({ "op": "add", "path": "/metadata/annotations", "value": {} }));
                }
                // Shows later that the taint is Skydock's to remove.
                operations
                    .push(json!({ "op": "add", "path": mark, "value": OUT_OF_SERVICE_VALUE }));
            }
            Change::RemoveShutdown => gone.push((TAINT_SHUTDOWN, SHUTDOWN_EFFECT)),
            Change::RemoveOutOfService => {
                gone.push((TAINT_OUT_OF_SERVICE, OUT_OF_SERVICE_EFFECT));
                operations.push(json!({ "op": "remove", "path": mark }));
            }
        }
    }

    // A taint with another effect, or an out-of-service taint with another value, was set by someone
    // else, and stays.
    operations.extend(remove_taints(entry, |taint| {
        gone.contains(&(taint.key.as_str(), taint.effect.as_str()))
            && (taint.key == TAINT_SHUTDOWN || taint.value.as_deref() == Some(OUT_OF_SERVICE_VALUE))
    }));

    // An element can only be appended to a list that exists.
    if !entry.object.taints.is_empty() {
        operations.extend(
            added
                .iter()
                .map(|taint| json!({ "op": "add", "path": "/spec/taints/-", "value": taint })),
        );
    } else if !added.is_empty() {
        operations.push(unchanged(entry));
        operations.push(json!({ "op": "add", "path": "/spec/taints", "value": added }));
    }

    operations
}

/// Returns operations that remove these taints, the last one first, so that the other indices stay
/// valid.
fn remove_taints(entry: &Entry<NodeKind>, these: impl Fn(&Taint) -> bool) -> Vec<Value> {
    let mut operations = Vec::new();

    for (index, taint) in entry
        .object
        .taints
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, taint)| these(taint))
    {
        // Fails if someone else has changed the list, and with it the indices.
        operations.push(json!({ "op": "test", "path": format!("/spec/taints/{index}/key"), "value": taint.key }));
        operations.push(json!({ "op": "test", "path": format!("/spec/taints/{index}/effect"), "value": taint.effect }));
        operations.push(json!({ "op": "remove", "path": format!("/spec/taints/{index}") }));
    }

    operations
}

/// Returns a test of the resource version. Adding the first element means adding the whole list or
/// map, which would overwrite one that someone else has just added.
fn unchanged(entry: &Entry<NodeKind>) -> Value {
    json!({ "op": "test", "path": "/metadata/resourceVersion", "value": entry.resource_version() })
}

/// Deletes this node, but not one that was recreated with the same name. In a dry run, this is only
/// reported, and the API server is not called.
pub(super) async fn delete(
    client: &Client,
    entry: &Entry<NodeKind>,
    dry_run: Option<&DryRunLog>,
) -> Result<(), ApiError> {
    if let Some(log) = dry_run {
        log.once(&format!("delete nodes/{}", entry.name()));
        return Ok(());
    }

    match api::delete::<Node>(client, entry.name(), entry.uid()).await {
        Err(ApiError::Gone(_)) => Ok(()),
        deleted => deleted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skydock_controller_base::testing::{node, with};

    fn entry(change: &Value) -> Entry<NodeKind> {
        Entry::new(with(&node("a"), change))
    }

    fn shutdown() -> Value {
        json!({"key": TAINT_SHUTDOWN, "effect": "NoSchedule"})
    }

    fn out_of_service() -> Value {
        json!({"key": TAINT_OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"})
    }

    // Holds: L-09, L-15
    #[test]
    fn taints_are_added_to_others_together_with_the_annotation() {
        let changes = [Change::AddShutdown, Change::AddOutOfService];
        let mark = "/metadata/annotations/node.skydock.dev~1out-of-service";
        let version = json!({"op": "test", "path": "/metadata/resourceVersion", "value": "1"});
        assert_eq!(
            operations(
                &entry(&json!({"metadata": {"annotations": {"a": "b"}}})),
                &changes
            ),
            [
                json!({"op": "add", "path": mark, "value": "nodeshutdown"}),
                json!({"op": "add", "path": "/spec/taints/-", "value": shutdown()}),
                json!({"op": "add", "path": "/spec/taints/-", "value": out_of_service()}),
            ]
        );
        assert_eq!(
            operations(&entry(&json!({"spec": {"taints": null}})), &changes),
            [
                version.clone(),
                json!({"op": "add", "path": "/metadata/annotations", "value": {}}),
                json!({"op": "add", "path": mark, "value": "nodeshutdown"}),
                version,
                json!({"op": "add", "path": "/spec/taints", "value": [shutdown(), out_of_service()]}),
            ]
        );
    }

    // Holds: L-09, L-15
    #[test]
    fn only_our_own_taints_are_removed_the_last_one_first() {
        let taints = json!([shutdown(), {"key": "other", "effect": "NoExecute"}, out_of_service()]);
        let mark = json!({"op": "remove", "path": "/metadata/annotations/node.skydock.dev~1out-of-service"});
        assert_eq!(
            operations(
                &entry(&json!({"spec": {"taints": taints}})),
                &[Change::RemoveShutdown, Change::RemoveOutOfService]
            ),
            [
                mark.clone(),
                json!({"op": "test", "path": "/spec/taints/2/key", "value": TAINT_OUT_OF_SERVICE}),
                json!({"op": "test", "path": "/spec/taints/2/effect", "value": "NoExecute"}),
                json!({"op": "remove", "path": "/spec/taints/2"}),
                json!({"op": "test", "path": "/spec/taints/0/key", "value": TAINT_SHUTDOWN}),
                json!({"op": "test", "path": "/spec/taints/0/effect", "value": "NoSchedule"}),
                json!({"op": "remove", "path": "/spec/taints/0"}),
            ]
        );
        let foreign = json!([
            {"key": TAINT_SHUTDOWN, "effect": "NoExecute"},
            {"key": TAINT_OUT_OF_SERVICE, "value": "other", "effect": "NoExecute"},
            {"key": TAINT_OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoSchedule"},
        ]);
        assert_eq!(
            operations(
                &entry(&json!({"spec": {"taints": foreign}})),
                &[Change::RemoveShutdown, Change::RemoveOutOfService]
            ),
            [mark]
        );
    }
}
