//! ConfigMaps.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;

use crate::status::Cause;

/// Maximum total bytes of all values, of those in `binaryData` as they are, not in base64.
const SIZE_LIMIT: usize = 1024 * 1024;

pub(super) fn validate(value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();

    for field in ["data", "binaryData"] {
        keys(value, field, &mut causes);
    }
    let binary = value.get("binaryData").and_then(Value::as_object);
    for (key, _) in entries(value, "data") {
        if binary.is_some_and(|binary| binary.contains_key(key)) {
            let why = "duplicate of key present in binaryData";
            causes.push(Cause::invalid(format!("data[{key}]"), &key.into(), why));
        }
    }

    if size(value) > SIZE_LIMIT {
        let message = format!("Too long: may not be more than {SIZE_LIMIT} bytes");
        causes.push(Cause {
            reason: "FieldValueTooLong",
            field: String::new(),
            message,
        });
    }

    if let Some(old) = old.filter(|old| old.get("immutable") == Some(&Value::Bool(true))) {
        for field in ["immutable", "data", "binaryData"] {
            if old.get(field) != value.get(field) {
                causes.push(Cause::forbidden(
                    field,
                    "field is immutable when `immutable` is set",
                ));
            }
        }
    }

    causes
}

/// Checks the keys in a field.
fn keys(value: &Value, field: &str, causes: &mut Vec<Cause>) {
    let valid = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    for (key, _) in entries(value, field) {
        let fits = !key.is_empty() && key.len() <= 253 && key.chars().all(valid);
        if !fits || key == "." || key == ".." {
            let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
            causes.push(Cause::invalid(format!("{field}[{key}]"), &key.into(), why));
        }
    }
}

/// Returns the total bytes of all values.
fn size(value: &Value) -> usize {
    let text = entries(value, "data").map(|(_, text)| text.len());
    let binary = entries(value, "binaryData")
        .map(|(_, text)| BASE64_STANDARD.decode(text).map_or(0, |bytes| bytes.len()));
    text.chain(binary).sum()
}

/// Returns the keys and values in a field.
fn entries<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = value.get(field).and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_immutable_config_map_cannot_be_changed() {
        let old = json!({"data": {"a": "1"}, "immutable": true});
        assert!(validate(&old, Some(&old)).is_empty());
        assert_eq!(
            validate(&json!({"data": {"a": "2"}, "immutable": true}), Some(&old)).len(),
            1
        );
        assert_eq!(validate(&json!({"data": {"a": "1"}}), Some(&old)).len(), 1);
    }

    #[test]
    fn keys_must_be_file_names_and_the_size_is_limited() {
        assert_eq!(
            validate(&json!({"data": {"a/b": "", "..": "", "ok.txt": ""}}), None).len(),
            2
        );
        assert_eq!(
            validate(&json!({"data": {"a": "x".repeat(SIZE_LIMIT + 1)}}), None).len(),
            1
        );
    }

    #[test]
    fn binary_data_counts_as_it_is_not_in_base64() {
        for (bytes, errors) in [(SIZE_LIMIT, 0), (SIZE_LIMIT + 1, 1)] {
            let text = BASE64_STANDARD.encode(vec![0; bytes]);
            let value = json!({"binaryData": {"a": text}});
            assert_eq!(validate(&value, None).len(), errors, "{bytes} bytes");
        }
    }
}
