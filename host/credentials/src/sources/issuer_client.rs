//! Requests of Skydock to issuers. Errors quote only a short, redacted part of an issuer's answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::Value;

use crate::credential::Issuer;
use crate::sources::{
    clock::Clock,
    failure::{Failure, RecentSecrets},
    file::{FileError, SecretFile},
    skew::{self, Skew},
};
use crate::{
    masking::{
        quotes::{SHORTEST, SHORTEST_OWN},
        secret::Secret,
    },
    request::encode,
};

/// Dependencies of all sources.
pub(crate) struct IssuerClient {
    name: String,
    issuer: Arc<dyn Issuer>,
    clock: Arc<dyn Clock>,
    skew: Skew,
    /// Set if the clock was corrected because an issuer rejected a request.
    is_corrected: AtomicBool,
    secrets_seen: RecentSecrets,
    /// Set if the operator was told that a secret is too short.
    is_warned: AtomicBool,
}

impl IssuerClient {
    pub(crate) fn new(name: &str, issuer: Arc<dyn Issuer>, clock: Arc<dyn Clock>) -> Self {
        Self {
            name: name.to_owned(),
            issuer,
            clock,
            skew: Skew::default(),
            is_corrected: AtomicBool::default(),
            secrets_seen: RecentSecrets::default(),
            is_warned: AtomicBool::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the current time, by the clock of the servers.
    pub(crate) fn now(&self) -> Timestamp {
        self.skew.corrected(self.clock.now())
    }

    /// Follows the clock of a server that has rejected authentication. Returns true if a retry may
    /// succeed.
    pub(crate) fn follow(&self, server: Timestamp) -> bool {
        self.skew.follow(&self.name, server, self.clock.now())
    }

    /// Returns true once after an issuer has rejected a request and the clock was corrected.
    pub(crate) fn was_corrected(&self) -> bool {
        self.is_corrected.swap(false, Ordering::Relaxed)
    }

    /// Returns the secrets seen so far.
    pub(crate) fn secrets_seen(&self) -> &RecentSecrets {
        &self.secrets_seen
    }

    /// Remembers a secret for redaction.
    pub(crate) fn keep(&self, value: impl Into<Vec<u8>>) -> Secret {
        let secret = Secret::new(value);
        self.secrets_seen.add(&secret);
        secret
    }

    /// Reads a text file as a secret, and remembers it for redaction.
    pub(crate) async fn read(&self, file: &SecretFile) -> Result<Secret, FileError> {
        let secret = file.text().await?;
        self.secrets_seen.add(&secret);
        Ok(secret)
    }

    /// Warns once if secrets are too short to be masked where a plugin may see them: the token in
    /// answers to requests, and those of the login in the answer to it, if that is shown.
    pub(crate) fn warn_of_short(&self, token: &Secret, shows_login: bool) {
        let is_short = |secret: &Secret| secret.expose().len() < SHORTEST_OWN;

        let sentence = if token.expose().len() < SHORTEST {
            format!(
                "its token has fewer than {SHORTEST} bytes: it is not masked in answers that quote it"
            )
        } else if shows_login && self.secrets_seen.all().iter().any(is_short) {
            format!(
                "a secret of its login has fewer than {SHORTEST_OWN} bytes: it is not masked if the answer to the login, which \
                 the plugin receives, quotes it; use a longer one"
            )
        } else {
            return;
        };

        if !self.is_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(credential = self.name, "{sentence}");
        }
    }

    /// Sends a request and returns the answer, whatever its status.
    pub(crate) async fn ask(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Failure> {
        self.issuer.send(request).await.map_err(|error| {
            let failure = Failure::from(error);
            Failure {
                sentence: crate::masking::secret::redact(
                    &failure.sentence,
                    &self.secrets_seen.all(),
                ),
                ..failure
            }
        })
    }

    /// Sends a request. Any status other than success is a failure.
    pub(crate) async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Failure> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let response = self.ask(request).await?;
        self.succeeded(&host, response)
    }

    /// Returns the answer if it is a success, or else the failure.
    pub(crate) fn succeeded(
        &self,
        host: &str,
        response: Response<Bytes>,
    ) -> Result<Response<Bytes>, Failure> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }

        // Issuers answer with these to an assertion or a signature that a wrong clock makes
        // invalid.
        if matches!(status.as_u16(), 400 | 401 | 403)
            && skew::server_time(response.headers()).is_some_and(|date| self.follow(date))
        {
            self.is_corrected.store(true, Ordering::Relaxed);
        }

        let code = error_code(response.body())
            .map(|code| format!(" ({})", self.secrets_seen.quote(&code)));
        let sentence = format!(
            "its issuer {host} answered {}{}",
            status.as_u16(),
            code.unwrap_or_default()
        );

        Err(if is_passing(status) {
            Failure::unavailable(sentence)
        } else {
            Failure::denied(format!("{sentence}: check its login and its URL"))
        })
    }

    /// Sends a form and parses the answer as JSON.
    pub(crate) async fn form(
        &self,
        url: &str,
        pairs: &[(&str, &str)],
        authorization: Option<&Secret>,
    ) -> Result<Value, Failure> {
        let mut request = Request::post(url)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json");
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, self.header_value(authorization, "")?);
        }

        let body = Bytes::from(encode::form_body(pairs.iter().copied()));
        self.json(finish(request, body)?).await
    }

    /// Sends a request and parses the answer as JSON.
    pub(crate) async fn json(&self, request: Request<Bytes>) -> Result<Value, Failure> {
        let response = self.send(request).await?;
        serde_json::from_slice(response.body())
            .map_err(|_| Failure::unavailable("its issuer did not return JSON"))
    }

    /// Returns a secret as a header value.
    pub(crate) fn header_value(
        &self,
        secret: &Secret,
        prefix: &str,
    ) -> Result<http::HeaderValue, Failure> {
        secret.header(prefix).ok_or_else(|| {
            Failure::malformed("the secret contains bytes that are not allowed in headers")
        })
    }

    /// Returns the text at a JSON pointer in the answer as a secret.
    pub(crate) fn secret_at(&self, answer: &Value, pointer: &str) -> Result<Secret, Failure> {
        let text = answer
            .pointer(pointer)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty());

        text.map(|text| self.keep(text))
            .ok_or_else(|| missing(pointer))
    }

    /// Returns the time until `end`; zero if it has passed.
    pub(crate) fn until(&self, end: Timestamp) -> Duration {
        Duration::try_from(end.duration_since(self.now())).unwrap_or(Duration::ZERO)
    }
}

/// Returns the failure for an answer without a required part.
pub(crate) fn missing(what: &str) -> Failure {
    Failure::unavailable(format!("its issuer's answer has no {what}"))
}

/// Completes a request.
pub(crate) fn finish(
    request: http::request::Builder,
    body: Bytes,
) -> Result<Request<Bytes>, Failure> {
    request.body(body).map_err(|_| {
        Failure::malformed("cannot create a request to its issuer: check its URL and headers")
    })
}

/// Returns true for answers after which a retry may succeed.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
        )
}

/// Returns the short name of an error, if the issuer uses one of these formats: OAuth2 (`error`),
/// Google (`error.status`), Keystone (`error.title`), AWS (XML `Code`, JSON `code`).
fn error_code(body: &[u8]) -> Option<String> {
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        let pointers = ["/error", "/error/status", "/error/title", "/code", "/Code"];
        return pointers
            .iter()
            .find_map(|pointer| value.pointer(pointer)?.as_str().map(str::to_owned));
    }

    element(std::str::from_utf8(body).ok()?, "Code")
}

/// Returns the text of the first XML element with this name; `None` if it has children.
pub(crate) fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (inner, _) = rest.split_once(&format!("</{name}>"))?;
    (!inner.contains('<')).then(|| encode::unxml(inner.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_error_code_of_an_issuer() {
        for (body, code) in [
            (
                r#"{"error":"invalid_client","error_description":"x"}"#,
                Some("invalid_client"),
            ),
            (
                r#"{"error":{"code":403,"status":"PERMISSION_DENIED"}}"#,
                Some("PERMISSION_DENIED"),
            ),
            (
                r#"{"error":{"code":401,"title":"Unauthorized"}}"#,
                Some("Unauthorized"),
            ),
            (
                "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>",
                Some("AccessDenied"),
            ),
            ("<html>", None),
            ("{}", None),
        ] {
            assert_eq!(error_code(body.as_bytes()).as_deref(), code, "{body}");
        }
    }

    #[test]
    fn some_statuses_are_transient() {
        for (status, passing) in [
            (400, false),
            (401, false),
            (403, false),
            (404, false),
            (429, true),
            (408, true),
            (500, true),
        ] {
            assert_eq!(
                is_passing(StatusCode::from_u16(status).unwrap()),
                passing,
                "{status}"
            );
        }
    }

    #[test]
    fn reads_the_text_of_an_xml_element() {
        assert_eq!(
            element("<a><Code> x&amp;y </Code></a>", "Code").as_deref(),
            Some("x&y")
        );
        assert_eq!(element("<Code><b/></Code>", "Code"), None);
        assert_eq!(element("<Code>x", "Code"), None);
    }
}
