//! Bodies: a valid object with some edits for its kind or for all kinds, and the same edits as
//! patches.

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};

use crate::answers::kinds::{Kind, METADATA};

/// A JSON pointer and the value to write there. Null removes the field.
type Edit = (&'static str, Value);

fn edit(kind: &'static Kind) -> impl Strategy<Value = Edit> {
    let parse = |(pointer, text): (&'static str, &str)| {
        (pointer, serde_json::from_str(text).unwrap_or_default())
    };
    let metadata = select(METADATA).prop_map(parse);
    if kind.edits.is_empty() {
        return metadata.boxed();
    }
    prop_oneof![2 => metadata, 3 => select(kind.edits).prop_map(parse)].boxed()
}

/// Returns an object to create: valid with this probability, otherwise with edits.
pub(super) fn named(kind: &'static Kind, good: f64) -> impl Strategy<Value = Value> {
    proptest::option::weighted(1.0 - good, vec(edit(kind), 1..4)).prop_map(move |edits| {
        let mut object = kind.good();
        edits
            .iter()
            .flatten()
            .for_each(|(pointer, value)| write(&mut object, pointer, value));
        object
    })
}

/// Returns a merge patch for the current object, and an object to use if there is none.
pub(super) fn again(kind: &'static Kind) -> impl Strategy<Value = (Value, Value)> {
    merge_patch(kind).prop_map(|edit| (edit, kind.good()))
}

pub(super) fn merge_patch(kind: &'static Kind) -> impl Strategy<Value = Value> {
    vec(edit(kind), 0..3).prop_map(|edits| {
        let mut patch = json!({});
        edits
            .iter()
            .for_each(|(pointer, value)| write(&mut patch, pointer, value));
        patch
    })
}

pub(super) fn strategic_patch(kind: &'static Kind) -> impl Strategy<Value = Value> {
    let directives: Vec<Value> = kind
        .patches
        .iter()
        .filter_map(|text| serde_json::from_str(text).ok())
        .collect();
    prop_oneof![merge_patch(kind), select(directives)]
}

pub(super) fn json_patch(kind: &'static Kind) -> impl Strategy<Value = Value> {
    let operation = (
        edit(kind),
        select(&["add", "add", "replace", "remove", "test", "odd"][..]),
    )
        .prop_map(|((pointer, value), operation)| match operation {
            "remove" => json!({"op": "remove", "path": pointer}),
            _ if value.is_null() => json!({"op": "remove", "path": pointer}),
            _ => json!({"op": operation, "path": pointer, "value": value}),
        });
    let tested = json!({"op": "test", "path": "/metadata/uid", "value": "{uid}"});
    (proptest::bool::weighted(0.3), vec(operation, 0..3)).prop_map(move |(guarded, rest)| {
        guarded
            .then(|| tested.clone())
            .into_iter()
            .chain(rest)
            .collect()
    })
}

pub(super) fn token_request() -> impl Strategy<Value = Value> {
    let spec = [
        json!({}),
        json!({"expirationSeconds": 600}),
        json!({"expirationSeconds": 3600, "audiences": ["x"]}),
        json!({"expirationSeconds": 10}),
        json!({"expirationSeconds": "10"}),
        json!({"audiences": ["https://kubernetes.default.svc"]}),
    ];
    select(spec.to_vec())
        .prop_map(|spec| json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec}))
}

/// Writes a value at a JSON pointer and creates missing parents. In a patch, elements of lists
/// cannot be addressed.
fn write(value: &mut Value, pointer: &str, new: &Value) {
    let mut parts = pointer.split('/').skip(1).peekable();
    let mut place = value;
    while let Some(part) = parts.next() {
        let part = part.replace("~1", "/");
        if let Value::Array(items) = place {
            items.pop();
            return;
        }
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        let Value::Object(fields) = place else { return };
        if parts.peek().is_none() {
            fields.insert(part, new.clone());
            return;
        }
        place = fields.entry(part).or_insert(Value::Null);
    }
}
