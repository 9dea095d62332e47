//! `metadata.managedFields`: who has written which annotations. Other fields are not recorded.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::resources::object::{child, list, text};

/// Where the keys of annotations are in an entry.
const ANNOTATIONS: &str = "/fieldsV1/f:metadata/f:annotations";

/// Records that `manager` has written those annotations of the object that are not like this in
/// `old`.
pub(crate) fn record(value: &mut Value, old: &Value, manager: &str) {
    let annotations = |of: &Value| -> Map<String, Value> {
        let found = of.pointer("/metadata/annotations");
        found
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    };
    let before = annotations(old);
    let now = annotations(value);

    let mut managers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in list(old, "/metadata/managedFields") {
        let fields = entry.pointer(ANNOTATIONS).and_then(Value::as_object);
        let keys = fields.into_iter().flat_map(Map::keys);
        let keys = keys.filter_map(|field| field.strip_prefix("f:"));
        // A manager keeps the annotations that have not changed since it wrote them.
        let kept = keys.filter(|key| now.contains_key(*key) && before.get(*key) == now.get(*key));
        managers
            .entry(text(entry, "/manager").to_owned())
            .or_default()
            .extend(kept.map(str::to_owned));
    }
    let written = now.keys().filter(|key| before.get(*key) != now.get(*key));
    managers
        .entry(manager.to_owned())
        .or_default()
        .extend(written.cloned());

    let entries = managers.into_iter().filter(|(_, keys)| !keys.is_empty());
    let entries: Vec<_> = entries
        .map(|(manager, keys)| {
            let fields: Map<_, _> = keys
                .into_iter()
                .map(|key| (format!("f:{key}"), json!({})))
                .collect();
            json!({
                "manager": manager,
                "operation": "Update",
                "apiVersion": "v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:annotations": fields}},
            })
        })
        .collect();

    let metadata = child(value, "metadata");
    if entries.is_empty() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields".into(), entries.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_writer_of_an_annotation_is_recorded() {
        let mut object = Value::Null;
        for (manager, annotations, expected) in [
            ("a", json!({"x": "1", "y": "1"}), json!({"a": ["x", "y"]})),
            (
                "b",
                json!({"x": "1", "y": "2", "z": "1"}),
                json!({"a": ["x"], "b": ["y", "z"]}),
            ),
            (
                "c",
                json!({"x": "1", "y": "2"}),
                json!({"a": ["x"], "b": ["y"]}),
            ),
            ("a", json!({"y": "2"}), json!({"b": ["y"]})),
            ("a", json!({}), json!({})),
        ] {
            let mut next = json!({"metadata": {"annotations": annotations}});
            record(&mut next, &object, manager);
            object = next;

            let recorded: Map<_, _> = list(&object, "/metadata/managedFields")
                .iter()
                .map(|entry| {
                    let keys = entry.pointer(ANNOTATIONS).unwrap().as_object().unwrap();
                    let keys: Vec<_> = keys.keys().map(|key| &key[2..]).collect();
                    (text(entry, "/manager").to_owned(), json!(keys))
                })
                .collect();

            assert_eq!(Value::from(recorded), expected, "{manager}: {object}");
        }
    }
}
