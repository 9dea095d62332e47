//! Says what would be done, and does nothing.
//!
//! Requests that write reach the API server as ones to be tried, so that it answers, admits and refuses as if they were meant,
//! and keeps nothing; what cannot be asked that way is not sent at all (see [`request`]). Nodes are not even tried to be
//! deleted. The cloud is asked, and never told (see [`Cloud`]). As nothing changes, the controllers come to the same
//! conclusions again and again: each is said once.

mod cloud;
mod request;

use std::{
    collections::{HashSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
};

use http::{HeaderValue, Method, Request, Response, header};
use kube::{Client, client::Body};
use serde_json::Value;
use skydock_cloud::CloudProvider;

pub(crate) use self::cloud::Cloud;
use self::request::Fate;
use crate::run::Clients;

/// Conclusions that are remembered; some may be said twice after so many.
const REMEMBERED: usize = 65_536;

/// Fields whose values are others each time that the same is to be done.
const PASSING: [&str; 3] = ["resourceVersion", "lastHeartbeatTime", "lastTransitionTime"];

/// What was said already.
#[derive(Default)]
pub(crate) struct Said(Mutex<HashSet<u64>>);

impl Said {
    /// Says it, unless it was said already.
    pub(crate) fn once(&self, what: &str) {
        if self.is_new(what) {
            tracing::info!("dry run: would {what}");
        }
    }

    /// True the first time.
    fn is_new(&self, what: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= REMEMBERED {
            said.clear();
        }
        said.insert(hasher.finish())
    }
}

/// The same provider and API server, without any effect on them; what they are not told goes to `said`.
pub(crate) fn harmless(
    provider: Arc<dyn CloudProvider>,
    clients: &Clients,
    said: &Arc<Said>,
) -> (Arc<dyn CloudProvider>, Clients) {
    let clients = Clients {
        informers: saying(&clients.informers, said),
        node: saying(&clients.node, said),
        service: saying(&clients.service, said),
        route: saying(&clients.route, said),
    };
    (Arc::new(Cloud::new(provider, Arc::clone(said))), clients)
}

/// A client that has the API server try its writes, and keeps its events from it.
#[must_use]
pub fn client(client: &Client) -> Client {
    saying(client, &Arc::default())
}

fn saying(client: &Client, said: &Arc<Said>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let (client, said) = (client.clone(), Arc::clone(said));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, said) = (client.clone(), Arc::clone(&said));
        async move { send(&client, &said, request).await }
    });
    Client::new(service, namespace)
}

async fn send(client: &Client, said: &Said, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
    let (mut parts, body) = request.into_parts();
    let body = body.collect_bytes().await?;
    let fate =
        request::fate(&parts.method, &parts.uri, &body).map_err(|refused| kube::Error::Service(refused.into()))?;
    let words = || serde_json::from_slice(&body).unwrap_or_default();
    let body = match fate {
        Fate::Read => body,
        Fate::Event => {
            told(&parts.method, &words()).iter().for_each(|what| said.once(what));
            return Ok(Response::new(Body::from(body)));
        }
        Fate::TryByAddress(uri) => {
            said.once(&asked(&parts.method, parts.uri.path(), words()));
            parts.uri = uri;
            body
        }
        Fate::TryByBody(options) => {
            said.once(&asked(&parts.method, parts.uri.path(), words()));
            parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            parts.headers.remove(header::CONTENT_LENGTH);
            options.into()
        }
    };
    client.send(Request::from_parts(parts, Body::from(body))).await
}

/// What a request asks for, in words.
fn asked(method: &Method, path: &str, mut body: Value) -> String {
    let object = path.strip_prefix("/api/v1/").unwrap_or(path);
    leave_out_what_passes(&mut body);
    match *method {
        Method::DELETE => format!("delete {object}"),
        Method::POST => format!("create {object}: {body}"),
        _ => format!("patch {object}: {body}"),
    }
}

/// Times, and versions of the object: they are others each time, and nothing that would be done.
fn leave_out_what_passes(body: &mut Value) {
    match body {
        Value::Object(fields) => {
            fields.retain(|name, _| !PASSING.contains(&name.as_str()));
            fields.values_mut().for_each(leave_out_what_passes);
        }
        Value::Array(items) => {
            items.retain(|item| item.get("path").and_then(Value::as_str) != Some("/metadata/resourceVersion"));
            items.iter_mut().for_each(leave_out_what_passes);
        }
        _ => {}
    }
}

/// What an event tells, in words; `None` if it is one that was told before, and is only counted on.
fn told(method: &Method, event: &Value) -> Option<String> {
    if *method != Method::POST {
        return None;
    }
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("/involvedObject/kind"), text("/involvedObject/name"));
    Some(format!("tell {} {} of {kind} {name}: {}", text("/type"), text("/reason"), text("/message")))
}

#[cfg(test)]
mod tests;
