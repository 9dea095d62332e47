//! Authenticated requests.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};

use super::Service;
use crate::Error;
use crate::error::beginning;
use crate::http_client::HttpClient;

/// A user's token in a project, and the URLs of the services.
#[derive(Debug, Clone)]
pub struct Session {
    http: HttpClient,
    urls: [String; Service::ALL.len()],
    token: String,
    project_id: String,
}

impl Session {
    /// Requests a token with a password.
    pub(crate) async fn log_in(
        http: HttpClient,
        urls: [String; Service::ALL.len()],
        user: &str,
        password: &str,
        project: &str,
    ) -> Result<Self, Error> {
        let domain = json!({"id": "default"});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {"name": user, "domain": domain, "password": password}}},
            "scope": {"project": {"name": project, "domain": domain}},
        }});
        let mut session = Self {
            http,
            urls,
            token: String::new(),
            project_id: String::new(),
        };
        let request = session.request(
            Method::POST,
            Service::Identity,
            "/v3/auth/tokens",
            Some(&body),
        )?;
        let answer = session.http.send(request).await?;
        let what = format!("POST identity/v3/auth/tokens as {user}");
        if !answer.status().is_success() {
            let (status, body) = (answer.status().as_u16(), beginning(answer.body()));
            return Err(Error::Rejected {
                request: what,
                status,
                body,
            });
        }
        let missing = |field: &str| Error::Unexpected {
            request: what.clone(),
            field: field.to_owned(),
            body: beginning(answer.body()),
        };
        let token = answer
            .headers()
            .get("x-subject-token")
            .and_then(|value| value.to_str().ok());
        session.token = token.ok_or_else(|| missing("X-Subject-Token"))?.to_owned();
        let value: Value = serde_json::from_slice(answer.body()).map_err(|_| missing("JSON"))?;
        let id = value.pointer("/token/project/id").and_then(Value::as_str);
        session.project_id = id.ok_or_else(|| missing("token.project.id"))?.to_owned();
        Ok(session)
    }

    /// Returns a session of another user for the same services.
    pub(crate) async fn as_user(
        &self,
        user: &str,
        password: &str,
        project: &str,
    ) -> Result<Self, Error> {
        Self::log_in(
            self.http.clone(),
            self.urls.clone(),
            user,
            password,
            project,
        )
        .await
    }

    /// Returns the token, which is a secret.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the ID of the project of the token.
    #[must_use]
    pub fn project_id(&self) -> &str {
        &self.project_id
    }

    /// Returns the URL of a service: scheme, host and port.
    #[must_use]
    pub fn url(&self, service: Service) -> &str {
        let at = Service::ALL.iter().position(|one| *one == service);
        at.and_then(|at| self.urls.get(at))
            .map_or("", String::as_str)
    }

    fn request(
        &self,
        method: Method,
        service: Service,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Request<Bytes>, Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url(service)));
        if !self.token.is_empty() {
            request = request.header("x-auth-token", &self.token);
        }
        if service == Service::LoadBalancer || body.is_some() {
            request = request
                .header("content-type", "application/json")
                .header("accept", "application/json");
        }
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        request
            .body(body)
            .map_err(Error::setup(format!("ask for {path}")))
    }

    /// Sends a request to this path of a service, including the version (`/v2.1/servers`). Returns
    /// the JSON of the answer, or null if it is empty.
    ///
    /// # Errors
    /// Fails if there is no answer, or if it is not a success.
    pub async fn send(
        &self,
        method: Method,
        service: Service,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Error> {
        let what = format!("{method} {}{path}", service.name());
        let answer = self
            .http
            .send(self.request(method, service, path, body)?)
            .await?;
        if !answer.status().is_success() {
            let (status, body) = (answer.status().as_u16(), beginning(answer.body()));
            return Err(Error::Rejected {
                request: what,
                status,
                body,
            });
        }
        if answer.body().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(answer.body()).map_err(|_| Error::Unexpected {
            request: what,
            field: "JSON".to_owned(),
            body: beginning(answer.body()),
        })
    }

    /// Sends a `GET` request.
    ///
    /// # Errors
    /// See [`Self::send`].
    pub async fn get(&self, service: Service, path: &str) -> Result<Value, Error> {
        self.send(Method::GET, service, path, None).await
    }

    /// Sends a `POST` request.
    ///
    /// # Errors
    /// See [`Self::send`].
    pub async fn post(&self, service: Service, path: &str, body: &Value) -> Result<Value, Error> {
        self.send(Method::POST, service, path, Some(body)).await
    }

    /// Sends a `PUT` request.
    ///
    /// # Errors
    /// See [`Self::send`].
    pub async fn put(
        &self,
        service: Service,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Error> {
        self.send(Method::PUT, service, path, body).await
    }

    /// Sends a `DELETE` request. Returns true if the resource existed.
    ///
    /// # Errors
    /// See [`Self::send`]. Status 404 is not an error.
    pub async fn delete(&self, service: Service, path: &str) -> Result<bool, Error> {
        match self.send(Method::DELETE, service, path, None).await {
            Ok(_) => Ok(true),
            Err(Error::Rejected { status: 404, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates a resource of this kind and returns its fields without the envelope.
    ///
    /// # Errors
    /// See [`Self::send`]. Also fails if the answer has no such envelope.
    pub async fn create(
        &self,
        service: Service,
        path: &str,
        kind: &str,
        fields: Value,
    ) -> Result<Value, Error> {
        let mut answer = self.post(service, path, &json!({kind: fields})).await?;
        match answer.get_mut(kind) {
            Some(thing) => Ok(thing.take()),
            None => Err(unexpected(path, kind, &answer)),
        }
    }

    /// Sends a `GET` request and returns the list with this name in the answer.
    ///
    /// # Errors
    /// See [`Self::send`]. Also fails if the answer has no such list.
    pub async fn list(
        &self,
        service: Service,
        path: &str,
        kind: &str,
    ) -> Result<Vec<Value>, Error> {
        let mut answer = self.get(service, path).await?;
        match answer.get_mut(kind).map(Value::take) {
            Some(Value::Array(things)) => Ok(things),
            _ => Err(unexpected(path, kind, &answer)),
        }
    }

    /// Requests `path` until `done` returns true for the answer.
    ///
    /// # Errors
    /// See [`Self::send`]. Also fails after the time limit.
    pub async fn wait(
        &self,
        service: Service,
        path: &str,
        limit: Duration,
        done: impl Fn(&Value) -> bool,
    ) -> Result<Value, Error> {
        let began = std::time::Instant::now();
        loop {
            let seen = self.get(service, path).await?;
            if done(&seen) {
                return Ok(seen);
            }
            if began.elapsed() > limit {
                return Err(Error::TimedOut {
                    what: format!("{}{path}", service.name()),
                    waited: limit,
                    seen: beginning(seen.to_string().as_bytes()),
                });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Returns the text at this position of an answer.
pub(crate) fn text(answer: &Value, pointer: &str) -> Result<String, Error> {
    let text = answer.pointer(pointer).and_then(Value::as_str);
    text.map(str::to_owned)
        .ok_or_else(|| unexpected("what was asked for", pointer, answer))
}

fn unexpected(request: &str, field: &str, answer: &Value) -> Error {
    Error::Unexpected {
        request: request.to_owned(),
        field: field.to_owned(),
        body: beginning(answer.to_string().as_bytes()),
    }
}
