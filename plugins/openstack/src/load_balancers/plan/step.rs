//! One change of a load balancer.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use skydock_sdk::{
    Result,
    http::{self, Method, Response},
    types::CloudError,
};

use crate::{
    cloud::{Cloud, Kind},
    load_balancers::plan::not_found::verify_not_found,
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
pub(crate) const CREATED_ID: &str = "{made}";

impl Step {
    pub(crate) fn new(method: Method, path: String, body: Value, what: String) -> Self {
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
    pub(crate) fn after(self) -> Self {
        Self {
            follows: true,
            ..self
        }
    }

    pub(crate) fn delete(kind: &str, id: &str) -> Self {
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

    pub(crate) fn update(kind: &str, id: &str, fields: Map<String, Value>) -> Self {
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
    pub fn with_created_id(mut self, id: Option<&str>) -> Option<Self> {
        if self.path.contains(CREATED_ID) {
            self.path = self.path.replace(CREATED_ID, id?);
        }

        let things = self
            .body
            .as_mut()
            .and_then(Value::as_object_mut)
            .into_iter()
            .flat_map(Map::values_mut);
        for thing in things.filter_map(Value::as_object_mut) {
            for key in ["listener_id", "pool_id", "default_pool_id"] {
                if thing.get(key).is_some_and(|id| id == CREATED_ID) {
                    thing.insert(key.to_owned(), json!(id?));
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
    pub(crate) fn take(&self, cloud: &Cloud<'_>) -> Result<Option<String>> {
        let request = cloud.request(
            self.method,
            Kind::LoadBalancer,
            &self.path,
            self.what.as_str(),
        )?;
        let request = if let Some(body) = &self.body {
            request.json(body)?
        } else {
            request
        };

        match request.send() {
            Ok(answer) => Ok(created_id(&answer)),
            Err(CloudError::NotFound(_)) if self.method == Method::Delete => Ok(None),
            Err(error) => Err(verify_not_found(cloud, error)),
        }
    }
}

/// Returns the ID of the only resource in an answer.
fn created_id(answer: &Response) -> Option<String> {
    let answer: BTreeMap<String, Reference> = answer.json().ok()?;
    let (_, Reference { id }) = answer.into_iter().next()?;
    // The ID becomes part of a path.
    http::segment(&id).ok().filter(|segment| *segment == id)
}
