//! A login with a request that the operator defines.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use jiff::Timestamp;
use serde_json::Value;

use super::{LoggedIn, captured};
use crate::{
    config::{Capture, Escape, Template},
    kinds::template::Filled,
    sources::{
        failure::Failure,
        file::SecretFile,
        issuer_client::{IssuerClient, finish},
    },
};

/// The parsed request, with placeholders for files.
pub(crate) struct TemplateLogin {
    config: Template,
    method: Method,
    headers: Vec<(HeaderName, Filled)>,
    body: Filled,
    lifetime: Option<Duration>,
    files: Vec<SecretFile>,
}

impl TemplateLogin {
    pub(crate) fn new(config: &Template) -> Result<Self, String> {
        let method = config
            .method
            .parse()
            .map_err(|_| format!("`{}` is not a valid HTTP method", config.method))?;

        let mut headers = Vec::new();
        for (name, text) in &config.headers {
            let filled = Filled::parse(text, Escape::None)
                .map_err(|error| format!("header `{name}`: {error}"))?;
            headers.push((
                name.parse()
                    .map_err(|_| format!("`{name}` is not a valid header name"))?,
                filled,
            ));
        }

        let body =
            Filled::parse(&config.body, config.escape).map_err(|error| format!("body: {error}"))?;

        let lifetime = config
            .lifetime
            .map(|it| Duration::try_from(it).ok().filter(|it| !it.is_zero()));
        let lifetime = lifetime
            .map(|it| it.ok_or("`lifetime` must be longer than zero"))
            .transpose()?;

        if config
            .expires
            .as_ref()
            .is_some_and(|pointer| !pointer.starts_with('/'))
        {
            return Err("`expires` must be a JSON pointer, which starts with `/`".to_owned());
        }

        let files = headers
            .iter()
            .flat_map(|(_, filled)| filled.files())
            .chain(body.files())
            .cloned()
            .collect();

        Ok(Self {
            config: config.clone(),
            method,
            headers,
            body,
            lifetime,
            files,
        })
    }

    pub(crate) fn files(&self) -> &[SecretFile] {
        &self.files
    }

    pub(crate) fn method(&self) -> Method {
        self.method.clone()
    }

    pub(crate) fn uri(&self) -> Uri {
        self.config.url.uri()
    }

    pub(crate) fn capture(&self) -> Capture {
        self.config.capture.clone()
    }

    pub(crate) fn expires(&self) -> Option<String> {
        self.config.expires.clone()
    }

    pub(super) async fn log_in(&self, issuer: &IssuerClient) -> Result<LoggedIn, Failure> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(self.config.url.as_str());

        for (name, text) in &self.headers {
            let text = text.fill(issuer).await?;
            let mut value = HeaderValue::from_str(&text).map_err(|_| {
                Failure::malformed(format!(
                    "header `{name}` contains bytes that are not allowed in headers"
                ))
            })?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }

        let body = self.body.fill(issuer).await?;
        let answer = issuer
            .send(finish(request, Bytes::copy_from_slice(body.as_bytes()))?)
            .await?;

        let token = captured(issuer, &answer, &self.config.capture)?;
        let said = self
            .config
            .expires
            .as_ref()
            .and_then(|pointer| expires(issuer, answer.body(), pointer));

        Ok(LoggedIn {
            token,
            lifetime: said.or(self.lifetime),
            answer,
        })
    }
}

/// Parses the expiry in an answer: seconds from now, seconds since 1970, or a time.
fn expires(issuer: &IssuerClient, body: &[u8], pointer: &str) -> Option<Duration> {
    /// Larger numbers are not durations (this one is about three years) but times.
    const DATES: u64 = 100_000_000;

    let answer: Value = serde_json::from_slice(body).ok()?;
    let value = answer.pointer(pointer)?;

    match crate::kinds::oauth2::seconds(value) {
        Some(seconds) if seconds < DATES => Some(Duration::from_secs(seconds)),
        Some(seconds) => {
            Some(issuer.until(Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?))
        }
        None => Some(issuer.until(value.as_str()?.parse().ok()?)),
    }
}
