//! ConfigMaps.

use serde_json::Value;

use crate::refusal::Cause;

/// Maximum total bytes of all values.
const SIZE_LIMIT: usize = 1024 * 1024;

pub(super) fn validate(value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut size = 0;

    for field in ["data", "binaryData"] {
        for (key, content) in value
            .get(field)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            size += content.as_str().map_or(0, str::len);
            let valid = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
            if key.is_empty()
                || key.len() > 253
                || key == "."
                || key == ".."
                || !key.chars().all(valid)
            {
                let why =
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
                causes.push(Cause::invalid(
                    format!("{field}[{key}]"),
                    &key.as_str().into(),
                    why,
                ));
            }
        }
    }

    let binary = value.get("binaryData").and_then(Value::as_object);
    for key in value
        .get("data")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
    {
        if binary.is_some_and(|binary| binary.contains_key(key)) {
            let why = "duplicate of key present in binaryData";
            causes.push(Cause::invalid(
                format!("data[{key}]"),
                &key.as_str().into(),
                why,
            ));
        }
    }

    if size > SIZE_LIMIT {
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
}
