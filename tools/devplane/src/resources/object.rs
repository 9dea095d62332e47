//! Access to parts of an object.

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Map, Value};

/// An object at one revision. It is immutable: a write replaces it.
#[derive(Debug)]
pub(crate) struct Object {
    /// The object in the storage version, with `apiVersion` and `kind`.
    pub(crate) value: Value,
    /// `metadata.resourceVersion` as a number.
    pub(crate) revision: u64,
    json: OnceLock<Bytes>,
}

impl Object {
    pub(crate) fn new(value: Value, revision: u64) -> Self {
        Self {
            value,
            revision,
            json: OnceLock::new(),
        }
    }

    /// Returns the object as JSON, which is serialized once, however many watches send it.
    pub(crate) fn json(&self) -> Bytes {
        self.json
            .get_or_init(|| Bytes::from(self.value.to_string()))
            .clone()
    }
}

/// Returns the string at a JSON pointer; empty if it is missing.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns the list at a JSON pointer; empty if it is missing.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Returns the strings in the list at a JSON pointer.
pub(crate) fn strings<'a>(value: &'a Value, pointer: &str) -> Vec<&'a str> {
    list(value, pointer)
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

/// Returns the object in a field, and creates it if the field is missing or contains something
/// else.
pub(crate) fn child<'a>(value: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    as_map(as_map(value).entry(field).or_insert(Value::Null))
}

/// Returns the fields of an object; any other value is replaced by an empty object.
pub(crate) fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// Copies a field from another object, or removes it if it is missing there.
pub(crate) fn copy_field(from: &Value, to: &mut Map<String, Value>, field: &str) {
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

/// Returns `metadata.name`.
pub(crate) fn name(value: &Value) -> &str {
    text(value, "/metadata/name")
}

/// Returns `metadata.namespace`; empty for objects without one.
pub(crate) fn namespace(value: &Value) -> &str {
    text(value, "/metadata/namespace")
}

/// Returns whether `metadata.deletionTimestamp` is set.
pub(crate) fn deleting(value: &Value) -> bool {
    value.pointer("/metadata/deletionTimestamp").is_some()
}

/// Formats a time like `metav1.Time`: whole seconds.
pub(crate) fn time(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats a time like `metav1.MicroTime`.
pub(crate) fn micro_time(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_as_in_kubernetes() {
        let at: jiff::Timestamp = "2024-05-06T07:08:09.1234567Z".parse().unwrap();
        assert_eq!(time(at), "2024-05-06T07:08:09Z");
        assert_eq!(micro_time(at), "2024-05-06T07:08:09.123456Z");
    }
}
