//! Reading and writing parts of an object.

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Map, Value};

/// An object as it was at one revision. It never changes: a write puts another in its place.
#[derive(Debug)]
pub(crate) struct Object {
    /// In the storage version, with `apiVersion` and `kind`.
    pub(crate) value: Value,
    /// `metadata.resourceVersion` as a number.
    pub(crate) revision: u64,
    json: OnceLock<Bytes>,
}

impl Object {
    pub(crate) fn new(value: Value, revision: u64) -> Self {
        Self { value, revision, json: OnceLock::new() }
    }

    /// Serialised once, however many watch it.
    pub(crate) fn json(&self) -> Bytes {
        self.json.get_or_init(|| Bytes::from(self.value.to_string())).clone()
    }
}

/// The string at a JSON pointer; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The list at a JSON pointer; empty if there is none.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The strings in the list at a JSON pointer.
pub(crate) fn strings<'a>(value: &'a Value, pointer: &str) -> Vec<&'a str> {
    list(value, pointer).iter().filter_map(Value::as_str).collect()
}

/// The object in a field, made if it is missing or something else.
pub(crate) fn child<'a>(value: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    as_map(as_map(value).entry(field).or_insert(Value::Null))
}

/// The fields of an object; anything else becomes an empty one.
pub(crate) fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// Takes a field over from another object, its absence too.
pub(crate) fn copy_field(from: &Value, to: &mut Map<String, Value>, field: &str) {
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

/// `metadata.name`.
pub(crate) fn name(value: &Value) -> &str {
    text(value, "/metadata/name")
}

/// `metadata.namespace`; empty for objects without one.
pub(crate) fn namespace(value: &Value) -> &str {
    text(value, "/metadata/namespace")
}

/// Whether `metadata.deletionTimestamp` is set.
pub(crate) fn deleting(value: &Value) -> bool {
    value.pointer("/metadata/deletionTimestamp").is_some()
}

/// As Kubernetes writes `metav1.Time`: whole seconds.
pub(crate) fn time(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// As Kubernetes writes `metav1.MicroTime`.
pub(crate) fn micro_time(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_kubernetes_writes_them() {
        let at: jiff::Timestamp = "2024-05-06T07:08:09.1234567Z".parse().unwrap();
        assert_eq!(time(at), "2024-05-06T07:08:09Z");
        assert_eq!(micro_time(at), "2024-05-06T07:08:09.123456Z");
    }
}
