use serde_json::json;

use super::*;
use crate::resources::schema::{self, core, groups, meta};

/// Objects as `k8s.io/api` v0.36.3 and its serializers write them, in JSON and in protobuf: for
/// every type, one with all fields set, and one with as few as possible.
const SAMPLES: &str = include_str!("samples.json");

fn schema(api_version: &str, kind: &str) -> &'static Object {
    match (api_version, kind) {
        ("v1", "Node") => &core::NODE,
        ("v1", "Service") => &core::SERVICE,
        ("v1", "Event") => &core::EVENT,
        ("v1", "Namespace") => &core::NAMESPACE,
        ("v1", "ConfigMap") => &core::CONFIG_MAP,
        ("v1", "ServiceAccount") => &core::SERVICE_ACCOUNT,
        ("v1", "DeleteOptions") => &meta::DELETE_OPTIONS,
        ("coordination.k8s.io/v1", "Lease") => &groups::LEASE,
        ("events.k8s.io/v1", "Event") => &groups::EVENT,
        ("authentication.k8s.io/v1", "TokenRequest") => &groups::TOKEN_REQUEST,
        other => panic!("no schema for {other:?}"),
    }
}

/// Returns the sparse sample of a kind, decoded from protobuf.
fn sample(kind: &str) -> Value {
    let samples: Vec<Value> = serde_json::from_str(SAMPLES).unwrap();
    let sample = samples
        .iter()
        .rfind(|sample| sample["json"]["kind"] == kind)
        .unwrap();
    let body = BASE64.decode(sample["protobuf"].as_str().unwrap()).unwrap();
    decode(&body, schema("v1", kind)).unwrap()
}

/// Removes values that mean the same as a missing field.
fn without_empty(value: Value) -> Value {
    let empty = |value: &Value| value.is_null() || *value == "" || *value == 0;
    match value {
        Value::Object(mut map) => {
            // Go writes these two in protobuf even if they are false, but not in JSON.
            for field in ["unschedulable", "publishNotReadyAddresses"] {
                if map.get(field) == Some(&Value::Bool(false)) {
                    map.remove(field);
                }
            }
            map.into_iter()
                .filter(|(_, value)| !empty(value))
                .map(|(key, value)| (key, without_empty(value)))
                .collect()
        }
        Value::Array(list) => list.into_iter().map(without_empty).collect(),
        other => other,
    }
}

#[test]
fn every_field_is_decoded_as_from_json() {
    let samples: Vec<Value> = serde_json::from_str(SAMPLES).unwrap();
    assert_eq!(samples.len(), 20);
    for sample in samples {
        let (json, body) = (
            sample["json"].clone(),
            BASE64.decode(sample["protobuf"].as_str().unwrap()).unwrap(),
        );
        let schema = schema(
            object::text(&json, "/apiVersion"),
            object::text(&json, "/kind"),
        );
        let read = decode(&body, schema).unwrap();
        let mut unknown = Vec::new();
        let json = schema::decode(json, schema, &mut unknown).unwrap();
        let expected = without_empty(json);
        let read = without_empty(schema::decode(read, schema, &mut Vec::new()).unwrap());
        assert_eq!(read, expected, "{}", schema.name);
        unknown.retain(|field| field != "status");
        assert!(
            unknown.is_empty(),
            "{}: the schema lacks {unknown:?}",
            schema.name
        );
    }
}

#[test]
fn explicit_empty_values_are_kept() {
    let service = sample("Service");
    assert_eq!(service["spec"]["allocateLoadBalancerNodePorts"], false);
    assert_eq!(service["spec"]["ports"], json!([{"port": 80}]));
    assert_eq!(
        sample("ConfigMap")["data"],
        json!({"": "nameless", "empty": ""})
    );
}

#[test]
fn truncated_bodies_are_mostly_rejected_and_never_panic() {
    let samples: Vec<Value> = serde_json::from_str(SAMPLES).unwrap();
    let body = BASE64
        .decode(samples[1]["protobuf"].as_str().unwrap())
        .unwrap();
    let rejected = (0..body.len())
        .filter(|end| decode(&body[..*end], &core::SERVICE).is_err())
        .count();
    assert!(rejected > body.len() / 2, "{rejected} of {}", body.len());
}

#[test]
fn an_invalid_protobuf_body_gets_a_specific_error() {
    let with =
        |rest: &[u8]| decode(&[MAGIC, rest].concat(), &core::CONFIG_MAP).map_err(|error| error.0);
    assert_eq!(with(&[]), Ok(json!({})));
    for (body, expected) in [
        (&[0x12, 5, 1][..], "it breaks off"),
        (&[0xff; 12], "a number is too long"),
        (&[0x0b], "a field is of an unknown wire type"),
        (&[0x00, 0], "a field has no valid number"),
        (&[0x12, 2, 0x0a, 0xff], "it breaks off"),
        (&[0x12, 2, 0x08, 1], "a text or a message was expected"),
        (&[0x12, 2, 0x22, 0], "a number was expected"),
        (&[0x1a, 1, b'x'], "its content is encoded"),
        (
            &[
                0x22, 16, b'a', b'p', b'p', b'l', b'i', b'c', b'a', b't', b'i', b'o', b'n', b'/',
                b'j', b's', b'o', b'n',
            ],
            "its content is of another type",
        ),
    ] {
        assert_eq!(with(body).unwrap_err(), expected, "{body:?}");
    }
    assert!(decode(b"{}", &core::CONFIG_MAP).is_err());
}
