use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use futures::stream;
use http::StatusCode;
use kube::{
    Api,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use skydock_kube::{api::with_deadline, informer::Entry, testing::stops_after};

use super::*;

use crate::kinds::NodeKind;

/// Samples written by Go (k8s.io/api): a node with all fields set, an empty one, and others.
const SAMPLES: &str = include_str!("../../../devplane/src/protobuf/samples.json");

/// Returns the samples that are nodes: as JSON, and as protobuf without the prefix of an object.
fn samples() -> Vec<(Node, Vec<u8>)> {
    let samples: Vec<Value> = serde_json::from_str(SAMPLES).unwrap();
    let sample = |sample: &Value| {
        let bytes = BASE64.decode(sample["protobuf"].as_str().unwrap()).unwrap();
        let node = serde_json::from_value(sample["json"].clone()).unwrap();
        // The prefix has the same length as the one that `object` writes for an empty object.
        let before = object("Node", &[]).len() - field(3, b"").len() - field(4, b"").len() - 1;
        let length = bytes[before..].iter().take_while(|byte| **byte >= 0x80).count() + 1;
        let end = bytes.len() - field(3, b"").len() - field(4, b"").len();
        (node, bytes[before + length..end].to_vec())
    };
    samples.iter().filter(|it| it["json"]["kind"] == "Node").map(sample).collect()
}

fn varint(mut value: usize, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    to.push(u8::try_from(value).unwrap());
}

/// Encodes a field that contains bytes, text or another message.
fn field(number: usize, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(number << 3 | 2, &mut bytes);
    varint(content.len(), &mut bytes);
    bytes.extend_from_slice(content);
    bytes
}

/// Encodes a field that contains a number.
fn number(number: usize, value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(number << 3, &mut bytes);
    varint(value, &mut bytes);
    bytes
}

/// Encodes an object as the API server does.
fn object(kind: &str, raw: &[u8]) -> Vec<u8> {
    let types = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &types), field(2, raw), field(3, b""), field(4, b"")].concat()
}

/// Encodes an event of a watch with its length.
fn event(kind: &str, object: &[u8]) -> Vec<u8> {
    let event = [field(1, kind.as_bytes()), field(2, &field(1, object))].concat();
    [u32::try_from(event.len()).unwrap().to_be_bytes().to_vec(), event].concat()
}

fn status(code: usize, reason: &str) -> Vec<u8> {
    let raw = [field(2, b"Failure"), field(3, b"no"), field(4, reason.as_bytes()), number(6, code)].concat();
    object("Status", &raw)
}

/// Returns a client whose requests are all answered with this body, one byte at a time, and the `Accept` headers of the
/// requests.
fn client(code: u16, content_type: &'static str, body: Vec<u8>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let accepted = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&accepted);
    let service = service_fn(move |request: Request<Body>| {
        let accept = request.headers().get(header::ACCEPT).map(|it| it.to_str().unwrap().to_owned());
        seen.lock().unwrap().push(accept.unwrap_or_default());
        let bytes: Vec<_> =
            body.iter().map(|byte| Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(vec![*byte])))).collect();
        let mut answer = Response::new(StreamBody::new(stream::iter(bytes)));
        *answer.status_mut() = StatusCode::from_u16(code).unwrap();
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        async move { Ok::<_, Infallible>(answer) }
    });
    (with_nodes_in_protobuf(&Client::new(service, "default")), accepted)
}

async fn watch(body: Vec<u8>) -> Vec<Result<WatchEvent<Node>, kube::Error>> {
    let (client, _) = client(200, "application/vnd.kubernetes.protobuf;stream=watch", body);
    let events = Api::<Node>::all(client).watch(&WatchParams::default(), "0").await.unwrap();
    events.collect().await
}

#[tokio::test]
async fn a_protobuf_list_equals_the_json_list() {
    let (expected, raw): (Vec<_>, Vec<_>) = samples().into_iter().unzip();
    assert_eq!(expected.len(), 2);
    let metadata = [field(2, b"77"), field(3, b"more"), number(4, 5)].concat();
    let items: Vec<u8> = raw.iter().flat_map(|raw| field(2, raw)).collect();
    let body = object("NodeList", &[field(1, &metadata), items].concat());
    let (client, accepted) = client(200, "application/vnd.kubernetes.protobuf", body);
    let list = Api::<Node>::all(client).list(&ListParams::default()).await.unwrap();
    assert_eq!(*accepted.lock().unwrap(), ["application/vnd.kubernetes.protobuf,application/json"]);
    assert_eq!(list.metadata.resource_version.as_deref(), Some("77"));
    assert_eq!(list.metadata.continue_.as_deref(), Some("more"));
    assert_eq!(list.metadata.remaining_item_count, Some(5));
    for (got, expected) in list.items.into_iter().zip(expected) {
        let (got, expected) = (Entry::<NodeKind>::new(got), Entry::<NodeKind>::new(expected));
        assert_eq!(got.object, expected.object);
        assert_eq!(got.view, expected.view);
    }
}

#[tokio::test]
async fn protobuf_watch_events_may_arrive_in_any_chunks() {
    let condition = |kind: &str| field(4, &[field(1, kind.as_bytes()), field(2, b"True")].concat());
    let conditions = [condition("Ready"), condition("MemoryPressure"), condition("NetworkUnavailable")].concat();
    let node = [field(1, &[field(1, b"n1"), field(6, b"5")].concat()), field(3, &conditions)].concat();
    let bookmark = field(1, &field(6, b"9"));
    let body = [
        event("MODIFIED", &object("Node", &node)),
        event("BOOKMARK", &object("Node", &bookmark)),
        event("ERROR", &status(410, "Expired")),
    ];
    let events = watch(body.concat()).await;
    let [Ok(WatchEvent::Modified(node)), Ok(WatchEvent::Bookmark(bookmark)), Ok(WatchEvent::Error(error))] =
        events.as_slice()
    else {
        panic!("{events:?}")
    };
    let expected = json!({
        "metadata": {"name": "n1", "resourceVersion": "5"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "NetworkUnavailable", "status": "True"}]},
    });
    assert_eq!(*node, serde_json::from_value(expected).unwrap());
    assert_eq!(bookmark.metadata.resource_version, "9");
    assert_eq!((error.code, error.reason.as_str(), error.message.as_str()), (410, "Expired", "no"));
}

#[tokio::test]
async fn an_unreadable_event_is_an_error_after_the_valid_ones() {
    let whole = event("ADDED", &object("Node", b""));
    for bad in [
        event("ADDED", b"{}"),
        event("ADDED", &object("Pod", b"")),
        event("ADDED", &object("Node", b"\x0a\xff")),
        whole[..whole.len() - 1].to_vec(),
        vec![0xff; 4],
    ] {
        let events = watch([whole.clone(), bad].concat()).await;
        assert!(matches!(events.as_slice(), [Ok(WatchEvent::Added(_)), Err(_)]), "{events:?}");
    }
}

/// A kubelet writes in protobuf, where text may be invalid UTF-8 and a time may be any number.
#[tokio::test]
async fn a_node_with_invalid_text_and_times_can_be_read() {
    let time = |at: usize| number(1, at);
    let pair = [field(1, b"a"), field(2, b"x\xff")].concat();
    let meta = [field(1, b"n1"), field(8, &time(usize::MAX >> 1)), field(11, &pair), field(12, &pair)].concat();
    let owner = [field(1, b"\xff"), field(3, b"\xff"), field(4, b"\xff"), field(5, b"\xff")].concat();
    let taint = [field(1, b"k"), field(3, b"NoSchedule"), field(4, &time(253_402_300_799))].concat();
    let spec = [field(3, b"x\xff"), field(5, &taint)].concat();
    let condition = [b"Ready".as_slice(), b"True"].into_iter().zip(1..).map(|(text, number)| field(number, text));
    let told = [field(3, &time(253_402_300_799)), field(4, &time(1)), field(5, b"\xff"), field(6, b"\xff")].concat();
    let condition = [condition.flatten().collect(), told].concat();
    let address = [field(1, b"InternalIP"), field(2, b"\xff")].concat();
    let info: Vec<u8> = (1..=10).flat_map(|number| field(number, b"\xff")).collect();
    let status = [field(4, &condition), field(4, &field(1, b"\xff")), field(5, &address), field(7, &info)].concat();
    let node = [field(1, &[meta, field(13, &owner)].concat()), field(2, &spec), field(3, &status)].concat();
    let events = watch(event("ADDED", &object("Node", &node))).await;
    let [Ok(WatchEvent::Added(node))] = events.as_slice() else { panic!("{events:?}") };
    let Entry { object, view } = Entry::<NodeKind>::new(node.clone());
    assert_eq!((view.name.as_str(), view.ready), ("n1", true));
    assert_eq!((view.annotations["a"].as_str(), view.labels["a"].as_str()), ("x\u{fffd}", "x\u{fffd}"));
    assert_eq!((view.provider_id.as_deref(), view.creation_timestamp), (Some("x\u{fffd}"), 0));
    assert_eq!(object.taints[0].time_added, None);
    assert_eq!(object.conditions[0].last_heartbeat_time, None);
    assert!(object.conditions[0].last_transition_time.is_some());
}

#[tokio::test]
async fn a_protobuf_error_status_is_an_api_error() {
    let (client, _) = client(403, "application/vnd.kubernetes.protobuf", status(403, "Forbidden"));
    let error = Api::<Node>::all(client).list(&ListParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error:?}") };
    assert!(status.is_forbidden() && status.message == "no", "{status:?}");
}

#[tokio::test]
async fn json_works_and_other_requests_do_not_ask_for_protobuf() {
    let list = json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"name": "n"}}]});
    let (client, accepted) = client(200, "application/json", list.to_string().into_bytes());
    let nodes = Api::<Node>::all(client.clone());
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items[0].metadata.name.as_deref(), Some("n"));
    nodes.get("list").await.unwrap_err();
    Api::<k8s_openapi::api::core::v1::Service>::all(client).list(&ListParams::default()).await.unwrap();
    let accepted = accepted.lock().unwrap();
    assert!(accepted[1..].iter().all(|accept| !accept.contains("protobuf")), "{accepted:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stalls_midway_fails() {
    const PIECES: &[&[u8]] = &[br#"{"kind":"NodeList","#, br#""apiVersion":"v1","#, br#""items":["#];
    for content_type in ["application/json", "application/vnd.kubernetes.protobuf"] {
        let client = with_nodes_in_protobuf(&with_deadline(&stops_after(content_type, PIECES)));
        let nodes = Api::<Node>::all(client);
        let listed = tokio::time::timeout(Duration::from_secs(600), nodes.list(&ListParams::default())).await;
        assert!(listed.expect("it ends").is_err(), "{content_type}");
    }
}
