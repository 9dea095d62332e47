use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures::stream;
use http::{Response, StatusCode};
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1 as k8s;
use prost::{DecodeError, Message};
use serde_json::json;
use tower::service_fn;

use super::*;
use crate::{
    api::with_deadline,
    informer::{Before, FromProtobuf, Identity},
    testing::{
        Services,
        protobuf::{event, field, number, object},
        stops_after,
    },
};

/// Nodes, of which only name and version are read in protobuf.
#[derive(Debug)]
struct Nodes;

#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "6")]
    version: String,
}

fn node(raw: Bytes, _: &Before<'_, Nodes>) -> Result<Entry<Nodes>, DecodeError> {
    let Metadata { name, version } = Named::decode(raw)?.metadata.unwrap_or_default();
    let mut node = k8s::Node::default();
    (node.metadata.name, node.metadata.resource_version) = (Some(name), Some(version));
    Ok(Entry::new(node))
}

impl Kind for Nodes {
    type Object = k8s::Node;
    type Read = k8s::Node;
    type View = ();
    type Kept = k8s::Node;

    const PROTOBUF: Option<FromProtobuf<Self>> = Some(node);

    fn split(object: k8s::Node) -> (k8s::Node, ()) {
        (object, ())
    }

    fn identity(entry: &Entry<Self>) -> Identity<'_> {
        Identity {
            name: entry.object.metadata.name.as_deref().unwrap_or_default(),
            resource_version: entry
                .object
                .metadata
                .resource_version
                .as_deref()
                .unwrap_or_default(),
            ..Identity::default()
        }
    }
}

/// Returns a cache without nodes.
fn empty() -> &'static Informer<Nodes> {
    Box::leak(Box::<Informer<Nodes>>::default())
}

/// Encodes a node with this name and version.
fn raw(name: &str, version: &str) -> Vec<u8> {
    field(
        1,
        &[field(1, name.as_bytes()), field(6, version.as_bytes())].concat(),
    )
}

fn status(code: usize, reason: &str) -> Vec<u8> {
    let raw = [
        field(2, b"Failure"),
        field(3, b"no"),
        field(4, reason.as_bytes()),
        number(6, code),
    ]
    .concat();
    object("Status", &raw)
}

/// Returns a client whose requests are all answered with this body, one byte at a time, and the
/// `Accept` headers of the requests.
fn client(
    code: u16,
    content_type: &'static str,
    body: Vec<u8>,
) -> (Client, Arc<Mutex<Vec<String>>>) {
    let accepted = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&accepted);
    let service = service_fn(move |request: Request<Body>| {
        let accept = request
            .headers()
            .get(header::ACCEPT)
            .map(|it| it.to_str().unwrap().to_owned());
        seen.lock().unwrap().push(accept.unwrap_or_default());
        let bytes: Vec<_> = body
            .iter()
            .map(|byte| Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(vec![*byte]))))
            .collect();
        let mut answer = Response::new(StreamBody::new(stream::iter(bytes)));
        *answer.status_mut() = StatusCode::from_u16(code).unwrap();
        answer
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        async move { Ok::<_, Infallible>(answer) }
    });
    (Client::new(service, "default"), accepted)
}

async fn events(content_type: &'static str, body: Vec<u8>) -> Vec<Result<Event<Nodes>, Error>> {
    let (client, _) = client(200, content_type, body);
    let events = watch(&client, "0", empty()).await.unwrap();
    events.collect().await
}

async fn in_frames(body: Vec<u8>) -> Vec<Result<Event<Nodes>, Error>> {
    events("application/vnd.kubernetes.protobuf;stream=watch", body).await
}

#[tokio::test]
async fn a_list_in_protobuf_has_its_objects_version_and_next_page() {
    let metadata = [field(2, b"77"), field(3, b"more"), number(4, 5)].concat();
    let items = [field(2, &raw("a", "1")), field(2, &raw("b", "2"))].concat();
    let body = object("NodeList", &[field(1, &metadata), items].concat());
    let (client, accepted) = client(200, "application/vnd.kubernetes.protobuf", body);
    let page: Page<Nodes> = list(&client, None, empty()).await.unwrap();

    assert_eq!(
        *accepted.lock().unwrap(),
        ["application/vnd.kubernetes.protobuf,application/json"]
    );
    assert_eq!(
        (page.version.as_deref(), page.next.as_deref()),
        (Some("77"), Some("more"))
    );
    assert_eq!(
        page.entries.iter().map(Entry::name).collect::<Vec<_>>(),
        ["a", "b"]
    );
}

#[tokio::test]
async fn protobuf_watch_events_may_arrive_in_any_chunks() {
    let body = [
        event("MODIFIED", &object("Node", &raw("n1", "5"))),
        event("DELETED", &object("Node", &raw("n1", "6"))),
        event("BOOKMARK", &object("Node", &raw("", "9"))),
        event("ERROR", &status(410, "Expired")),
    ];
    let events = in_frames(body.concat()).await;
    let [
        Ok(Event::Applied(node)),
        Ok(Event::Deleted(gone)),
        Ok(Event::Bookmark(version)),
        Err(Error::Api(error)),
    ] = events.as_slice()
    else {
        panic!("{events:?}")
    };

    assert_eq!((node.name(), node.resource_version()), ("n1", "5"));
    assert_eq!((gone.name(), gone.resource_version()), ("n1", "6"));
    assert_eq!(version, "9");
    assert_eq!(
        (error.code, error.reason.as_str(), error.message.as_str()),
        (410, "Expired", "no")
    );
}

#[tokio::test]
async fn an_undecodable_event_does_not_hide_the_next_ones() {
    let whole = event("ADDED", &object("Node", &raw("n1", "5")));
    for bad in [
        event("ADDED", b"{}"),
        event("ADDED", &object("Pod", b"")),
        event("ADDED", &object("Node", b"\x0a\xff")),
        event("RENAMED", &object("Node", b"")),
    ] {
        let events = in_frames([bad, whole.clone()].concat()).await;
        assert!(
            matches!(events.as_slice(), [Err(_), Ok(Event::Applied(_))]),
            "{events:?}"
        );
    }
    let whole = r#"{"type":"ADDED","object":{"metadata":{"name":"n1","resourceVersion":"5"}}}"#;
    for bad in [
        r#"{"type":"ADDED","object":{"metadata":[]}}"#,
        "what?",
        r#"{"kind":"Status","code":500}"#,
    ] {
        let events = events("application/json", format!("{bad}\n{whole}\n").into()).await;
        assert!(
            matches!(events.as_slice(), [Err(_), Ok(Event::Applied(_))]),
            "{events:?}"
        );
    }
}

#[tokio::test]
async fn an_interrupted_event_ends_the_watch_after_the_valid_ones() {
    let whole = event("ADDED", &object("Node", &raw("n1", "5")));
    for bad in [whole[..whole.len() - 1].to_vec(), vec![0xff; 4]] {
        let events = in_frames([whole.clone(), bad].concat()).await;
        assert!(
            matches!(events.as_slice(), [Ok(Event::Applied(_)), Err(_)]),
            "{events:?}"
        );
    }
    let whole = r#"{"type":"ADDED","object":{"metadata":{"name":"n1","resourceVersion":"5"}}}"#;
    let events = events(
        "application/json",
        format!("{whole}\n{}", &whole[..20]).into(),
    )
    .await;
    assert!(
        matches!(events.as_slice(), [Ok(Event::Applied(_))]),
        "{events:?}"
    );
}

#[tokio::test]
async fn an_error_status_is_an_api_error_in_any_encoding() {
    let in_json =
        json!({"kind": "Status", "message": "no", "reason": "Forbidden", "code": 403}).to_string();
    for (content_type, body) in [
        (
            "application/vnd.kubernetes.protobuf",
            status(403, "Forbidden"),
        ),
        ("application/json", in_json.into_bytes()),
        ("text/plain", b"no\n".to_vec()),
        ("application/vnd.kubernetes.protobuf", b"no".to_vec()),
    ] {
        let (client, _) = client(403, content_type, body);
        let Err(Error::Api(listed)) = list(&client, None, empty()).await.map(drop) else {
            panic!("{content_type}")
        };
        let Err(Error::Api(watched)) = watch(&client, "0", empty()).await.map(drop) else {
            panic!("{content_type}")
        };
        for status in [listed, watched] {
            assert_eq!(
                (status.code, status.message.as_str()),
                (403, "no"),
                "{content_type}"
            );
        }
    }
}

#[tokio::test]
async fn a_server_may_answer_in_json() {
    let body = json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"name": "n"}}]});
    let (client, _) = client(200, "application/json", body.to_string().into_bytes());
    let page: Page<Nodes> = list(&client, None, empty()).await.unwrap();
    assert_eq!(
        (page.entries[0].name(), page.version, page.next),
        ("n", None, None)
    );

    let body = [
        json!({"type": "ADDED", "object": {"metadata": {"name": "n", "resourceVersion": "1"}}}),
        json!({"type": "DELETED", "object": {"metadata": {"name": "n", "resourceVersion": "2"}}}),
        json!({"type": "BOOKMARK", "object": {"kind": "Node", "apiVersion": "v1", "metadata": {"resourceVersion": "3"}}}),
        json!({"type": "ERROR", "object": {"status": "Failure", "message": "", "reason": "Expired", "code": 410}}),
    ];
    let events = events(
        "application/json",
        body.map(|event| format!("{event}\n")).concat().into(),
    )
    .await;
    let [
        Ok(Event::Applied(_)),
        Ok(Event::Deleted(_)),
        Ok(Event::Bookmark(version)),
        Err(Error::Api(status)),
    ] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!((version.as_str(), status.code), ("3", 410));
}

#[tokio::test]
async fn kinds_that_are_read_as_json_do_not_ask_for_protobuf() {
    let body = json!({"metadata": {"resourceVersion": "1"}, "items": null}).to_string();
    let (client, accepted) = client(200, "application/json", body.into_bytes());
    assert_eq!(
        list::<Services>(&client, None, &Informer::default())
            .await
            .unwrap()
            .version
            .as_deref(),
        Some("1")
    );
    let cache = Informer::<Services>::default();
    drop(watch(&client, "1", &cache).await.unwrap());
    assert_eq!(*accepted.lock().unwrap(), ["", ""]);
}

/// Returns a client whose requests are answered with this much and no line break, and the MiB that
/// were read.
fn flood(code: u16, mib: usize) -> (Client, Arc<Mutex<usize>>) {
    let read = Arc::<Mutex<usize>>::default();
    let counted = Arc::clone(&read);
    let service = service_fn(move |_: Request<Body>| {
        let counted = Arc::clone(&counted);
        let chunks = stream::iter(0..mib).map(move |_| {
            *counted.lock().unwrap() += 1;
            Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(vec![b' '; 1 << 20])))
        });
        let mut answer = Response::new(StreamBody::new(chunks));
        *answer.status_mut() = StatusCode::from_u16(code).unwrap();
        async move { Ok::<_, Infallible>(answer) }
    });
    (Client::new(service, "default"), read)
}

// Holds: SEC-63
#[tokio::test]
async fn an_answer_or_event_that_is_too_long_is_an_error() {
    let (client, read) = flood(200, 200);
    let events = watch(&client, "0", empty()).await.unwrap();
    let first = events.into_future().await.0;
    assert!(matches!(first, Some(Err(_))), "{first:?}");
    assert!(*read.lock().unwrap() <= 18);

    for (code, most) in [(200, 64), (500, 1)] {
        let (client, read) = flood(code, 200);
        let rejected = list(&client, None, empty())
            .await
            .err()
            .unwrap()
            .to_string();
        assert!(
            rejected.contains(&format!("exceeds {most} MiB")),
            "{rejected}"
        );
        assert!(*read.lock().unwrap() <= most + 2, "{code}");
    }
    let length = (32_u32 << 20).to_be_bytes();
    let events = in_frames(length.to_vec()).await;
    assert!(matches!(events.as_slice(), [Err(_)]), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stalls_midway_fails() {
    const PIECES: &[&[u8]] = &[
        br#"{"kind":"NodeList","#,
        br#""apiVersion":"v1","#,
        br#""items":["#,
    ];
    for content_type in ["application/json", "application/vnd.kubernetes.protobuf"] {
        let client = with_deadline(&stops_after(content_type, PIECES));
        let listed =
            tokio::time::timeout(Duration::from_secs(600), list(&client, None, empty())).await;
        assert!(listed.expect("it ends").is_err(), "{content_type}");
    }
}
