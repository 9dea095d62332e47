//! Raw HTTP requests, so that statuses, headers and complete answers can be checked.

use anyhow::{Context, Result, ensure};
use futures::future::BoxFuture;
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use skydock_clusters::Plane;

/// A statement, and a function that fails if it is not true.
pub(crate) type Scenario = (
    &'static str,
    for<'a> fn(&'a dyn Plane) -> BoxFuture<'a, Result<()>>,
);

pub(crate) const JSON: &str = "application/json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// An answer of the API server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    /// Returns the body if the status is a success.
    pub(crate) fn ok(self) -> Result<Value> {
        ensure!(
            (200..300).contains(&self.status),
            "rejected with {}: {}",
            self.status,
            self.body["message"]
        );
        Ok(self.body)
    }

    /// Fails unless the request was rejected with this status and reason.
    pub(crate) fn rejected(self, status: u16, reason: &str) -> Result<Self> {
        ensure!(
            self.status == status && self.body["reason"] == reason,
            "expected {status} {reason}, got {}: {}",
            self.status,
            self.body
        );
        Ok(self)
    }
}

async fn send(
    plane: &dyn Plane,
    method: Method,
    path: &str,
    kind: &str,
    accept: &str,
    body: &Value,
) -> Result<Answer> {
    let body = if body.is_null() {
        Vec::new()
    } else {
        serde_json::to_vec(body)?
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Content-Type", kind)
        .header("Accept", accept);
    let answer = plane.client().send(request.body(Body::from(body))?).await?;
    let status = answer.status().as_u16();
    let bytes = answer.into_body().collect().await?.to_bytes();
    let body = serde_json::from_slice(&bytes).with_context(|| format!("{status}, and no JSON"))?;
    Ok(Answer { status, body })
}

pub(crate) async fn get(plane: &dyn Plane, path: &str) -> Result<Answer> {
    send(plane, Method::GET, path, JSON, JSON, &Value::Null).await
}

pub(crate) async fn post(plane: &dyn Plane, path: &str, body: Value) -> Result<Answer> {
    send(plane, Method::POST, path, JSON, JSON, &body).await
}

pub(crate) async fn patch(
    plane: &dyn Plane,
    path: &str,
    kind: &str,
    body: Value,
) -> Result<Answer> {
    send(plane, Method::PATCH, path, kind, JSON, &body).await
}

/// Sends a patch that requests only metadata in the answer, like the controllers.
pub(crate) async fn patch_for_metadata(
    plane: &dyn Plane,
    path: &str,
    kind: &str,
    body: Value,
) -> Result<Answer> {
    send(plane, Method::PATCH, path, kind, METADATA_ONLY, &body).await
}

pub(crate) async fn delete(plane: &dyn Plane, path: &str, options: Value) -> Result<Answer> {
    send(plane, Method::DELETE, path, JSON, JSON, &options).await
}

/// Fails unless the value is the expected one.
pub(crate) fn expect(what: &str, actual: &Value, expected: impl Into<Value>) -> Result<()> {
    let expected = expected.into();
    ensure!(
        *actual == expected,
        "{what} is {actual}, expected {expected}"
    );
    Ok(())
}

/// Returns metadata for a patch that must not change another object with the same name.
pub(crate) fn only_if_uid(uid: &Value) -> Value {
    json!({"uid": uid})
}
