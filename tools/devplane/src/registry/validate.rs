//! Validation of `metadata`, for all objects.

use serde_json::Value;

use crate::{
    resources::{
        names::{self, NameRule, label_value, qualified_name},
        object::{self, strings, text},
    },
    status::Cause,
};

/// Maximum total bytes of all annotation keys and values.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Checks the metadata of an object. Its `name` must be set.
pub(crate) fn metadata(value: &Value, rule: NameRule) -> Vec<Cause> {
    let mut causes = Vec::new();

    let name = object::name(value);
    check(&mut causes, "metadata.name", name, names::name(name, rule));

    for (key, value) in strings_of(value, "labels") {
        check(&mut causes, "metadata.labels", key, qualified_name(key));
        check(&mut causes, "metadata.labels", value, label_value(value));
    }

    let mut size = 0;
    for (key, value) in strings_of(value, "annotations") {
        size += key.len() + value.len();
        // As upstream, the case of these keys does not matter.
        let result = qualified_name(&key.to_lowercase());
        check(&mut causes, "metadata.annotations", key, result);
    }

    finalizers(value, rule, &mut causes);
    owners(value, &mut causes);

    if size > ANNOTATIONS_LIMIT {
        causes.push(Cause {
            reason: "FieldValueTooLong",
            field: "metadata.annotations".to_owned(),
            message: format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes"),
        });
    }

    causes
}

/// Checks `metadata.finalizers`.
fn finalizers(value: &Value, rule: NameRule, causes: &mut Vec<Cause>) {
    let finalizers = strings(value, "/metadata/finalizers");
    for (index, finalizer) in finalizers.into_iter().enumerate() {
        let result = qualified_name(finalizer);
        check(causes, "metadata.finalizers", finalizer, result);

        let standard = ["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer);
        let any = matches!(rule, NameRule::Lease | NameRule::PathSegment);
        let known = if any || standard || finalizer.contains('/') {
            Ok(())
        } else {
            Err(UNQUALIFIED_FINALIZER)
        };
        let field = format!("metadata.finalizers[{index}]");
        check(causes, &field, finalizer, known);
    }
}

const UNQUALIFIED_FINALIZER: &str =
    "name is neither a standard finalizer name nor is it fully qualified";

/// Checks that no field of `metadata.ownerReferences` is missing.
fn owners(value: &Value, causes: &mut Vec<Cause>) {
    for owner in object::list(value, "/metadata/ownerReferences") {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, &format!("/{field}")).is_empty() {
                causes.push(Cause::invalid(
                    format!("metadata.ownerReferences.{field}"),
                    &"".into(),
                    "must not be empty",
                ));
            }
        }
    }
}

fn check(causes: &mut Vec<Cause>, field: &str, value: &str, result: Result<(), &'static str>) {
    if let Err(why) = result {
        causes.push(Cause::invalid(field, &value.into(), why));
    }
}

fn strings_of<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = value
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_invalid_metadata_field_is_named() {
        let object = json!({"metadata": {
            "name": "a", "labels": {"a b": "x", "ok": "no spaces"}, "annotations": {"/x": "1"}, "finalizers": ["a/b/c"],
            "ownerReferences": [{"name": "x", "kind": "y", "apiVersion": "v1"}],
        }});
        let fields: Vec<_> = metadata(&object, NameRule::Subdomain)
            .into_iter()
            .map(|cause| cause.field)
            .collect();
        let expected = [
            "metadata.labels",
            "metadata.labels",
            "metadata.annotations",
            "metadata.finalizers",
            "metadata.ownerReferences.uid",
        ];
        assert_eq!(fields, expected);
    }
}
