//! The kinds of patches that Skydock sends.

use serde_json::{Map, Value};

/// The reason why a patch is rejected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// 409: it has another version, or the UID of another object with the same name.
    Conflict,
    /// 422: a `test` operation failed.
    Invalid,
    /// 400: it cannot be parsed.
    Unreadable(String),
}

/// Lists whose elements are merged by `type`.
const BY_TYPE: [&str; 2] = ["conditions", "addresses"];
const FROM_LIST: &str = "$deleteFromPrimitiveList/";

/// Applies a patch with this content type.
pub(crate) fn apply(object: &mut Value, content_type: &str, body: &[u8]) -> Result<(), Rejected> {
    let unreadable = |error: serde_json::Error| Rejected::Unreadable(error.to_string());
    if content_type == "application/json-patch+json" {
        let patch: json_patch::Patch = serde_json::from_slice(body).map_err(unreadable)?;
        return json_patch::patch(object, &patch).map_err(|_| Rejected::Invalid);
    }
    let patch: Value = serde_json::from_slice(body).map_err(unreadable)?;
    for pointer in ["/metadata/uid", "/metadata/resourceVersion"] {
        if patch
            .pointer(pointer)
            .is_some_and(|named| object.pointer(pointer) != Some(named))
        {
            return Err(Rejected::Conflict);
        }
    }
    match content_type {
        "application/merge-patch+json" => json_patch::merge(object, &patch),
        "application/strategic-merge-patch+json" => strategic(object, patch),
        _ => {
            return Err(Rejected::Unreadable(format!(
                "no patch is of type {content_type:?}"
            )));
        }
    }
    Ok(())
}

/// Returns whether a patch contains a resource version, so that it fails for another version of the
/// object.
pub(crate) fn names_version(body: &[u8]) -> bool {
    const VERSION: &[u8] = b"resourceVersion";
    body.windows(VERSION.len()).any(|part| part == VERSION)
}

fn strategic(object: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *object = patch;
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(object) = object else {
        return;
    };
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(FROM_LIST) {
            if let (Some(Value::Array(list)), Value::Array(gone)) = (object.get_mut(list), &value) {
                list.retain(|element| !gone.contains(element));
            }
        } else if value.is_null() {
            object.remove(&key);
        } else if let (true, Value::Array(elements)) = (BY_TYPE.contains(&key.as_str()), &value) {
            let merged = by_type(object.get(&key), elements);
            object.insert(key, merged);
        } else if let ("finalizers", Value::Array(elements)) = (key.as_str(), &value) {
            let mut list = object
                .get(&key)
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            list.extend(
                elements
                    .iter()
                    .filter(|element| !list.contains(element))
                    .cloned()
                    .collect::<Vec<_>>(),
            );
            object.insert(key, list.into());
        } else {
            strategic(object.entry(key).or_insert(Value::Null), value);
        }
    }
}

fn by_type(list: Option<&Value>, elements: &[Value]) -> Value {
    let is_replacement = |element: &Value| {
        element
            .get("$patch")
            .is_some_and(|patch| patch == "replace")
    };
    if elements.iter().any(is_replacement) {
        return elements
            .iter()
            .filter(|element| !is_replacement(element))
            .cloned()
            .collect();
    }
    let mut list = list.and_then(Value::as_array).cloned().unwrap_or_default();
    for element in elements {
        match list
            .iter_mut()
            .find(|one| one.get("type") == element.get("type"))
        {
            Some(one) => strategic(one, element.clone()),
            None => list.push(element.clone()),
        }
    }
    list.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(content_type: &str, patch: &Value) -> Result<Value, Rejected> {
        let mut object = json!({
            "metadata": {"uid": "u", "resourceVersion": "7", "labels": {"a": "1", "b": "2"}, "finalizers": ["f"]},
            "spec": {"taints": [{"key": "k"}, {"key": "l"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "A", "address": "1"}]},
        });
        apply(
            &mut object,
            &format!("application/{content_type}+json"),
            patch.to_string().as_bytes(),
        )?;
        Ok(object)
    }

    #[test]
    fn strategic_patches_merge_lists_like_kubernetes() {
        let patch = json!({
            "metadata": {"uid": "u", "labels": {"a": null, "c": "3"}, "finalizers": ["g", "f"]},
            "spec": {"taints": [{"key": "l"}]},
            "status": {
                "conditions": [{"type": "NetworkUnavailable", "status": "False"}, {"type": "Ready", "reason": "r"}],
                "addresses": [{"type": "B", "address": "2"}, {"$patch": "replace"}],
            },
        });
        let expected = json!({
            "metadata": {"uid": "u", "resourceVersion": "7", "labels": {"b": "2", "c": "3"}, "finalizers": ["f", "g"]},
            "spec": {"taints": [{"key": "l"}]},
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "True", "reason": "r"}, {"type": "NetworkUnavailable", "status": "False"},
                ],
                "addresses": [{"type": "B", "address": "2"}],
            },
        });
        assert_eq!(patched("strategic-merge-patch", &patch).unwrap(), expected);
        let without = patched(
            "strategic-merge-patch",
            &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["f"]}, "spec": {"taints": null}}),
        );
        let without = without.unwrap();
        assert_eq!(
            (&without["metadata"]["finalizers"], &without["spec"]),
            (&json!([]), &json!({}))
        );
    }

    #[test]
    fn a_stale_patch_is_a_conflict_and_a_failed_test_is_invalid() {
        for kind in ["strategic-merge-patch", "merge-patch"] {
            for other in [json!({"uid": "v"}), json!({"resourceVersion": "6"})] {
                assert_eq!(
                    patched(kind, &json!({"metadata": other})),
                    Err(Rejected::Conflict)
                );
            }
            patched(
                kind,
                &json!({"metadata": {"uid": "u", "resourceVersion": "7"}}),
            )
            .unwrap();
        }
        let test = |value: &str| json!([{"op": "test", "path": "/metadata/uid", "value": value}]);
        assert_eq!(patched("json-patch", &test("v")), Err(Rejected::Invalid));
        patched("json-patch", &test("u")).unwrap();
        assert!(matches!(
            patched("unknown", &json!({})),
            Err(Rejected::Unreadable(_))
        ));
    }

    #[test]
    fn patches_with_a_resource_version_are_recognized() {
        assert!(names_version(br#"{"metadata":{"resourceVersion":"1"}}"#));
        assert!(!names_version(br#"{"metadata":{"uid":"1"}}"#));
    }
}
