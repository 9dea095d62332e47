//! For tests: a fake API server that records requests and answers as it is told, and simple kinds
//! of objects.

pub mod protobuf;

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::StreamExt;
use http_body_util::BodyExt;
use k8s_openapi::{api::core::v1 as k8s, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde_json::{Value, json};

use crate::informer::{Entry, Identity, Kind, Read};

/// A request that the fake API server received.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: String,
    pub content_type: String,
    pub body: Value,
}

type Written = Arc<dyn Fn(&str, &Value) + Send + Sync>;
type Script = HashMap<(String, String), VecDeque<(u16, Value)>>;

/// A fake API server. By default, it answers PATCH, POST and DELETE with success, and never answers
/// GET.
#[derive(Clone, Default)]
pub struct FakeApi {
    requests: Arc<Mutex<Vec<Request>>>,
    script: Arc<Mutex<Script>>,
    written: Arc<Mutex<Option<Written>>>,
    date: Arc<Mutex<Option<&'static str>>>,
}

impl FakeApi {
    pub fn answer(&self, method: &str, path: &str, code: u16, body: Value) {
        let key = (method.to_owned(), path.to_owned());
        self.script
            .lock()
            .unwrap()
            .entry(key)
            .or_default()
            .push_back((code, body));
    }

    pub fn fail(&self, method: &str, path: &str, code: u16, reason: &str) {
        let verb = if method == "POST" {
            "create".to_owned()
        } else {
            method.to_lowercase()
        };

        let message = if code == 403 {
            format!("{path}: User \"ccm\" cannot {verb} resource")
        } else {
            reason.to_owned()
        };

        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
        });
        self.answer(method, path, code, status);
    }

    /// Removes the answers that were set; after that, the default applies.
    pub fn clear(&self, method: &str, path: &str) {
        self.script
            .lock()
            .unwrap()
            .remove(&(method.to_owned(), path.to_owned()));
    }

    /// From now on, calls this function with the path and body of each patch that succeeds, for
    /// example to update a cache as a watch does.
    pub fn on_patch(&self, written: impl Fn(&str, &Value) + Send + Sync + 'static) {
        *self.written.lock().unwrap() = Some(Arc::new(written));
    }

    /// From now on, all answers have this date.
    pub fn set_date(&self, date: &'static str) {
        *self.date.lock().unwrap() = Some(date);
    }

    /// Makes one request hang: it is never answered.
    pub fn hang(&self, method: &str, path: &str) {
        self.answer(method, path, 0, Value::Null);
    }

    /// Clears the recorded requests.
    pub fn forget(&self) {
        self.requests.lock().unwrap().clear();
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns every publication of an event; a repeated event is a patch that increases the count
    /// of the first.
    pub fn events(&self) -> Vec<Value> {
        let mut by_name = HashMap::new();
        let mut events = Vec::new();
        for request in self
            .requests()
            .into_iter()
            .filter(|request| request.path.contains("/events"))
        {
            let name = request
                .path
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned();

            let event = match by_name.get(&name) {
                Some(first) => with(first, &request.body),
                None => request.body,
            };

            by_name.insert(
                event["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                event.clone(),
            );

            events.push(event);
        }
        events
    }

    /// Returns `METHOD /path` of all requests, except those for events.
    pub fn calls(&self) -> Vec<String> {
        let requests = self.requests();
        let others = requests
            .iter()
            .filter(|request| !request.path.contains("/events"));
        others
            .map(|request| format!("{} {}", request.method, request.path))
            .collect()
    }

    pub fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.serve(request).await) }
        });
        kube::Client::new(service, "default")
    }

    async fn serve(
        &self,
        request: http::Request<kube::client::Body>,
    ) -> http::Response<kube::client::Body> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();

        let key = (parts.method.to_string(), parts.uri.path().to_owned());
        self.requests.lock().unwrap().push(Request {
            method: key.0.clone(),
            path: key.1.clone(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            content_type: parts
                .headers
                .get("content-type")
                .map(|v| v.to_str().unwrap().to_owned())
                .unwrap_or_default(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        });

        let scripted = self
            .script
            .lock()
            .unwrap()
            .get_mut(&key)
            .and_then(VecDeque::pop_front);

        if scripted.is_none() && key.0 == "PATCH" {
            let written = self.written.lock().unwrap().clone();
            if let Some(written) = written {
                written(&key.1, &serde_json::from_slice(&body).unwrap());
            }
        }

        let (code, body) = match scripted {
            Some((0, _)) => std::future::pending().await,
            Some(answer) => answer,
            None if key.0 == "GET" => std::future::pending().await,
            None if key.0 == "POST" => (201, serde_json::from_slice(&body).unwrap()),
            None if key.0 == "DELETE" => (
                200,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
            ),
            None => (
                200,
                json!({
                    "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"name": "x", "resourceVersion": "99", "labels": {"kubernetes.io/hostname": "x"}},
                }),
            ),
        };

        let body = kube::client::Body::from(body.to_string().into_bytes());
        let mut answer = http::Response::builder()
            .status(code)
            .header("content-type", "application/json");
        if let Some(date) = *self.date.lock().unwrap() {
            answer = answer.header("date", date);
        }
        answer.body(body).unwrap()
    }
}

/// Returns a client of an API server whose answers begin with these pieces, 20 s apart, and then
/// stop.
#[must_use]
pub fn stops_after(content_type: &'static str, pieces: &'static [&'static [u8]]) -> kube::Client {
    let serve = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
        let begin = futures::stream::iter(pieces).then(|piece| async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok::<_, tower::BoxError>(http_body::Frame::data(bytes::Bytes::from_static(piece)))
        });

        let body = http_body_util::StreamBody::new(begin.chain(futures::stream::pending()));
        Ok::<_, tower::BoxError>(
            http::Response::builder()
                .header("content-type", content_type)
                .body(BodyExt::boxed_unsync(body))
                .unwrap(),
        )
    });

    kube::Client::new(serve, "default")
}

/// Nodes; all of each object is kept.
#[derive(Debug)]
pub struct Nodes;

impl Kind for Nodes {
    type Object = k8s::Node;
    type Read = k8s::Node;
    type View = ();
    type Kept = k8s::Node;

    fn split(object: k8s::Node) -> (k8s::Node, ()) {
        (object, ())
    }

    fn identity(entry: &Entry<Self>) -> Identity<'_> {
        identity(&entry.object.metadata)
    }
}

/// Services; all of each object is kept.
#[derive(Debug)]
pub struct Services;

impl Kind for Services {
    type Object = k8s::Service;
    type Read = Read<k8s::Service>;
    type View = ();
    type Kept = k8s::Service;

    fn split(object: k8s::Service) -> (k8s::Service, ()) {
        (object, ())
    }

    fn identity(entry: &Entry<Self>) -> Identity<'_> {
        identity(&entry.object.metadata)
    }
}

fn identity(metadata: &ObjectMeta) -> Identity<'_> {
    Identity {
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        name: metadata.name.as_deref().unwrap_or_default(),
        uid: metadata.uid.as_deref().unwrap_or_default(),
        resource_version: metadata.resource_version.as_deref().unwrap_or_default(),
    }
}

/// Returns a Service of type LoadBalancer.
pub fn service(name: &str) -> k8s::Service {
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}]},
    }))
    .unwrap()
}

/// Merges a JSON object into an object, as in RFC 7386.
pub fn with<K: serde::Serialize + serde::de::DeserializeOwned>(object: &K, patch: &Value) -> K {
    fn merge(target: &mut Value, patch: &Value) {
        let Some(patch) = patch.as_object() else {
            *target = patch.clone();
            return;
        };

        if !target.is_object() {
            *target = json!({});
        }

        for (key, value) in patch {
            if value.is_null() {
                target.as_object_mut().unwrap().remove(key);
            } else {
                merge(&mut target[key], value);
            }
        }
    }

    let mut value = serde_json::to_value(object).unwrap();
    merge(&mut value, patch);
    serde_json::from_value(value).unwrap()
}
