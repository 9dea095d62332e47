use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};
use skydock_kube::{
    informer::{Entry, Kind},
    testing::protobuf::{field, number, object},
};

use super::*;
use crate::objects::kinds::NodeKind;

/// Samples written by Go (k8s.io/api): a node with all fields set, an empty one, and others.
const SAMPLES: &str =
    include_str!("../../../../../../tools/devplane/src/formats/protobuf/samples.json");

/// Returns the samples that are nodes: as JSON, and as protobuf without the prefix of an object.
fn samples() -> Vec<(core::Node, Vec<u8>)> {
    let samples: Vec<Value> = serde_json::from_str(SAMPLES).unwrap();
    let sample = |sample: &Value| {
        let bytes = BASE64.decode(sample["protobuf"].as_str().unwrap()).unwrap();
        let node = serde_json::from_value(sample["json"].clone()).unwrap();
        // The prefix has the same length as the one that `object` writes for an empty object.
        let before = object("Node", &[]).len() - field(3, b"").len() - field(4, b"").len() - 1;
        let length = bytes[before..]
            .iter()
            .take_while(|byte| **byte >= 0x80)
            .count()
            + 1;
        let end = bytes.len() - field(3, b"").len() - field(4, b"").len();
        (node, bytes[before + length..end].to_vec())
    };
    samples
        .iter()
        .filter(|it| it["json"]["kind"] == "Node")
        .map(sample)
        .collect()
}

/// Decodes a node as the informer does.
fn read(raw: Vec<u8>) -> Entry<NodeKind> {
    NodeKind::PROTOBUF.unwrap()(raw.into(), &|_: &str| None).unwrap()
}

#[test]
fn a_protobuf_node_equals_the_json_node() {
    let samples = samples();
    assert_eq!(samples.len(), 2);
    for (expected, raw) in samples {
        let (mut got, expected) = (read(raw), Entry::<NodeKind>::new(expected));
        assert!(got.object.digest.take().is_some());
        assert_eq!(got.object, expected.object);
        assert_eq!(got.view, expected.view);
    }
}

#[test]
fn conditions_that_nobody_reads_are_skipped() {
    let condition = |kind: &str| field(4, &[field(1, kind.as_bytes()), field(2, b"True")].concat());
    let conditions = [
        condition("Ready"),
        condition("MemoryPressure"),
        condition("NetworkUnavailable"),
    ]
    .concat();
    let raw = [
        field(1, &[field(1, b"n1"), field(6, b"5")].concat()),
        field(3, &conditions),
    ]
    .concat();

    let expected = json!({
        "metadata": {"name": "n1", "resourceVersion": "5"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "NetworkUnavailable", "status": "True"}]},
    });
    assert_eq!(
        node(raw.into()).unwrap(),
        serde_json::from_value(expected).unwrap()
    );
}

/// A kubelet writes in protobuf, where text may be invalid UTF-8 and a time may be any number.
#[test]
fn a_node_with_invalid_text_and_times_can_be_read() {
    let time = |at: usize| number(1, at);
    let pair = [field(1, b"a"), field(2, b"x\xff")].concat();
    let meta = [
        field(1, b"n1"),
        field(8, &time(usize::MAX >> 1)),
        field(11, &pair),
        field(12, &pair),
    ]
    .concat();
    let owner = [
        field(1, b"\xff"),
        field(3, b"\xff"),
        field(4, b"\xff"),
        field(5, b"\xff"),
    ]
    .concat();
    let taint = [
        field(1, b"k"),
        field(3, b"NoSchedule"),
        field(4, &time(253_402_300_799)),
    ]
    .concat();
    let spec = [field(3, b"x\xff"), field(5, &taint)].concat();
    let condition = [b"Ready".as_slice(), b"True"]
        .into_iter()
        .zip(1..)
        .map(|(text, number)| field(number, text));
    let reported = [
        field(3, &time(253_402_300_799)),
        field(4, &time(1)),
        field(5, b"\xff"),
        field(6, b"\xff"),
    ]
    .concat();
    let condition = [condition.flatten().collect(), reported].concat();
    let address = [field(1, b"InternalIP"), field(2, b"\xff")].concat();

    let info: Vec<u8> = (1..=10).flat_map(|number| field(number, b"\xff")).collect();
    let status = [
        field(4, &condition),
        field(4, &field(1, b"\xff")),
        field(5, &address),
        field(7, &info),
    ]
    .concat();
    let node = [
        field(1, &[meta, field(13, &owner)].concat()),
        field(2, &spec),
        field(3, &status),
    ]
    .concat();
    let Entry { object, view } = read(node);
    assert_eq!((view.name.as_str(), view.ready), ("n1", true));
    assert_eq!(
        (view.annotations["a"].as_str(), view.labels["a"].as_str()),
        ("x\u{fffd}", "x\u{fffd}")
    );
    assert_eq!(
        (view.provider_id.as_deref(), view.creation_timestamp),
        (Some("x\u{fffd}"), 0)
    );
    assert_eq!(object.taints[0].time_added, None);
    assert_eq!(object.conditions[0].last_heartbeat_time, None);
    assert!(object.conditions[0].last_transition_time.is_some());
}
