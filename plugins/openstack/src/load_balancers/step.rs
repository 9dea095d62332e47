//! One change of a load balancer.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use skydock_sdk::{
    Result,
    http::{self, Method, Response},
    types::CloudError,
};

use super::doubt::doubt;
use crate::{
    cloud::{Cloud, Kind},
    services::octavia::Reference,
};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The HTTP method.
    pub method: Method,
    /// The path of the resource, relative to Octavia's URL.
    pub path: String,
    /// The body of the request.
    pub body: Option<Value>,
    /// The purpose, which starts the error message.
    pub what: String,
    /// The reason of the event if the cloud rejects the step. The following steps are then taken
    /// anyway. `None` if the step is required.
    pub optional: Option<&'static str>,
    /// True if the step is only possible after the previous one: if the cloud rejects that one, this
    /// one is not taken.
    pub follows: bool,
}

/// A placeholder for the ID of the resource that the closest previous step [with
/// parts](Step::has_parts) created.
pub(super) const MADE: &str = "{made}";

impl Step {
    pub(super) fn new(method: Method, path: String, body: Value, what: String) -> Self {
        Self {
            method,
            path,
            body: Some(body),
            what,
            optional: None,
            follows: false,
        }
    }

    /// Returns the step, which is only taken after the previous one.
    pub(super) fn after(self) -> Self {
        Self {
            follows: true,
            ..self
        }
    }

    pub(super) fn delete(kind: &str, id: &str) -> Self {
        let path = format!("/lbaas/{kind}s/{id}");
        Self {
            method: Method::Delete,
            path,
            body: None,
            what: format!("cannot delete {kind} {id}"),
            optional: None,
            follows: false,
        }
    }

    pub(super) fn update(kind: &str, id: &str, fields: Map<String, Value>) -> Self {
        let path = format!("/lbaas/{kind}s/{id}");
        Self::new(
            Method::Put,
            path,
            json!({kind: Value::Object(fields)}),
            format!("cannot update {kind} {id}"),
        )
    }

    /// Returns true if the step creates a resource whose parts the following steps create.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        self.method == Method::Post
            && matches!(self.path.as_str(), "/lbaas/listeners" | "/lbaas/pools")
    }

    /// Returns the step with the ID of the previously created resource, or `None` if the ID is
    /// required but unknown.
    #[must_use]
    pub fn of_made(mut self, made: Option<&str>) -> Option<Self> {
        if self.path.contains(MADE) {
            self.path = self.path.replace(MADE, made?);
        }

        let things = self
            .body
            .as_mut()
            .and_then(Value::as_object_mut)
            .into_iter()
            .flat_map(Map::values_mut);
        for thing in things.filter_map(Value::as_object_mut) {
            for key in ["listener_id", "pool_id", "default_pool_id"] {
                if thing.get(key).is_some_and(|id| id == MADE) {
                    thing.insert(key.to_owned(), json!(made?));
                }
            }
        }

        Some(self)
    }

    /// Sends the request and returns the ID of the created resource, if there is one. Deleting a
    /// resource that does not exist is a success.
    ///
    /// # Errors
    /// Fails if the request fails.
    pub(super) fn take(&self, cloud: &Cloud<'_>) -> Result<Option<String>> {
        let ask = cloud.ask(
            self.method,
            Kind::LoadBalancer,
            &self.path,
            self.what.as_str(),
        )?;
        let ask = if let Some(body) = &self.body {
            ask.json(body)?
        } else {
            ask
        };

        match ask.send() {
            Ok(answer) => Ok(made(&answer)),
            Err(CloudError::NotFound(_)) if self.method == Method::Delete => Ok(None),
            Err(error) => Err(doubt(cloud, error)),
        }
    }
}

/// Returns the ID of the only resource in an answer.
fn made(answer: &Response) -> Option<String> {
    let answer: BTreeMap<String, Reference> = answer.json().ok()?;
    let (_, Reference { id }) = answer.into_iter().next()?;
    // The ID becomes part of a path.
    http::segment(&id).ok().filter(|segment| *segment == id)
}
