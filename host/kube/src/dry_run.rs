//! Reports what would be done, without doing it.
//!
//! Writes are sent with `dryRun=All`, so that the API server admits or rejects them as usual and
//! stores nothing; requests without a dry-run form are not sent at all (see `request`). As nothing
//! changes, controllers come to the same conclusions again and again: each is reported once.
//!
//! The text about a write is in `describe_request`, and about an event in `describe_event`. A field
//! whose value differs each time belongs in `VOLATILE_FIELDS`. A request in a further form is a
//! case of `Action` in `request.rs`. What is not done in the cloud has its text in
//! `manager/dry_run.rs` of `skydock-controllers`.

mod request;

use std::{
    collections::{HashSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    sync::Arc,
};

use http::{HeaderValue, Method, Request, Response, header};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::Value;

use self::request::Action;

/// Maximum number of remembered conclusions; if it is exceeded, some are reported a second time.
const REMEMBERED: usize = 65_536;

/// Fields whose values differ each time, even if the change is the same.
const VOLATILE_FIELDS: [&str; 3] = ["resourceVersion", "lastHeartbeatTime", "lastTransitionTime"];

/// The log of a dry run: what would be done, each thing once. Contains hashes of what was logged.
#[derive(Default)]
pub struct DryRunLog(Mutex<HashSet<u64>>);

impl DryRunLog {
    /// Logs it, unless it was logged before.
    pub fn once(&self, what: &str) {
        if self.is_new(what) {
            tracing::info!("dry run: would {what}");
        }
    }

    /// Returns true the first time.
    fn is_new(&self, what: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        let mut reported = self.0.lock();
        if reported.len() >= REMEMBERED {
            reported.clear();
        }
        reported.insert(hasher.finish())
    }
}

/// Returns a client whose writes the API server validates and does not store. They are reported
/// through `log`; events are not sent.
#[must_use]
pub fn client(client: &Client, log: &Arc<DryRunLog>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let log = Arc::clone(log);

    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        let log = Arc::clone(&log);
        async move { send(&client, &log, request).await }
    });
    Client::new(service, namespace)
}

async fn send(
    client: &Client,
    log: &DryRunLog,
    request: Request<Body>,
) -> Result<Response<Body>, kube::Error> {
    let (mut parts, body) = request.into_parts();
    let body = body.collect_bytes().await?;
    let action = request::action(&parts.method, &parts.uri, &body)
        .map_err(|unsupported| kube::Error::Service(unsupported.into()))?;
    let json = || serde_json::from_slice(&body).unwrap_or_default();

    let body = match action {
        Action::Read => body,
        Action::Event => {
            describe_event(&parts.method, &json())
                .iter()
                .for_each(|what| log.once(what));
            // The answer is the event itself, as if it was stored.
            return Ok(Response::new(Body::from(body)));
        }
        Action::DryRunInQuery(uri) => {
            log.once(&describe_request(&parts.method, parts.uri.path(), json()));
            parts.uri = uri;
            body
        }
        Action::DryRunInBody(options) => {
            log.once(&describe_request(&parts.method, parts.uri.path(), json()));
            parts.headers.insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            );
            // The options have another length than the body that they replace.
            parts.headers.remove(header::CONTENT_LENGTH);
            options.into()
        }
    };

    client
        .send(Request::from_parts(parts, Body::from(body)))
        .await
}

/// Returns what a write would do, in the words of the log.
fn describe_request(method: &Method, path: &str, mut body: Value) -> String {
    let object = path.strip_prefix("/api/v1/").unwrap_or(path);
    remove_volatile_fields(&mut body);
    match *method {
        Method::DELETE => format!("delete {object}"),
        Method::POST => format!("create {object}: {body}"),
        _ => format!("patch {object}: {body}"),
    }
}

/// Removes times and versions of the object: they differ each time, and are not part of the change.
fn remove_volatile_fields(body: &mut Value) {
    match body {
        Value::Object(fields) => {
            fields.retain(|name, _| !VOLATILE_FIELDS.contains(&name.as_str()));
            fields.values_mut().for_each(remove_volatile_fields);
        }
        Value::Array(items) => {
            // In a JSON patch, the version is an operation of its own.
            items.retain(|item| {
                item.get("path").and_then(Value::as_str) != Some("/metadata/resourceVersion")
            });
            items.iter_mut().for_each(remove_volatile_fields);
        }
        _ => {}
    }
}

/// Describes an event; returns `None` if it only increases the count of an earlier one.
fn describe_event(method: &Method, event: &Value) -> Option<String> {
    if *method != Method::POST {
        return None;
    }

    let text = |pointer: &str| {
        event
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let kind = text("/involvedObject/kind");
    let name = text("/involvedObject/name");

    Some(format!(
        "publish event {} {} on {kind} {name}: {}",
        text("/type"),
        text("/reason"),
        text("/message")
    ))
}

#[cfg(test)]
mod tests;
