//! Requests to a cloud: method, URL, query, headers, body, and time limit.
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::encode;
use crate::Result;
use crate::types::CloudError;

/// Method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "those of RFC 9110 and RFC 5789")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
        })
    }
}

/// One request. `Debug` omits the query, the values of headers, and the body, because they may
/// contain secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// Method of the request.
    pub method: Method,
    /// Absolute, percent-encoded URL with the scheme `https` or `http`.
    pub url: String,
    /// Names and values, in order; names are not case-sensitive. Headers that the host sets are not
    /// allowed: `Host`, `Content-Length`, `Connection` and similar ones.
    pub headers: Vec<(String, String)>,
    /// The body; may be empty.
    pub body: Vec<u8>,
    pub(super) limit: Option<Duration>,
    pub(super) at_most: usize,
}

/// Default maximum size of a response's body in bytes: the host's limit as well, and an eighth of a
/// plugin's memory.
const AT_MOST: usize = 16 << 20;

impl Request {
    /// Creates a request without headers and body.
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        Self {
            method,
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            limit: None,
            at_most: AT_MOST,
        }
    }

    /// Creates a GET request, which reads a resource.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new(Method::Get, url)
    }

    /// Creates a POST request, which creates something or starts an action.
    pub fn post(url: impl Into<String>) -> Self {
        Self::new(Method::Post, url)
    }

    /// Creates a PUT request, which replaces a whole resource.
    pub fn put(url: impl Into<String>) -> Self {
        Self::new(Method::Put, url)
    }

    /// Creates a PATCH request, which changes a part of a resource.
    pub fn patch(url: impl Into<String>) -> Self {
        Self::new(Method::Patch, url)
    }

    /// Creates a DELETE request.
    pub fn delete(url: impl Into<String>) -> Self {
        Self::new(Method::Delete, url)
    }

    /// Adds a header, even if there is one with this name.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Adds pairs to the query, percent-encoded.
    #[must_use]
    pub fn query<'a>(mut self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let added = encode::pairs(pairs);
        if added.is_empty() {
            return self;
        }

        // A fragment comes after the query.
        let fragment = self
            .url
            .find('#')
            .map(|at| self.url.split_off(at))
            .unwrap_or_default();

        match self.url.split_once('?') {
            None => self.url.push('?'),
            Some((_, query)) if query.is_empty() || query.ends_with('&') => {}
            Some(_) => self.url.push('&'),
        }

        self.url = self.url + &added + &fragment;
        self
    }

    /// Sets the body to a value as JSON, and `Content-Type` to `application/json` unless the
    /// request has that header, for example with `application/merge-patch+json`.
    ///
    /// # Errors
    ///
    /// [`internal`](CloudError::Internal) if the value cannot be written as JSON, for example a map
    /// whose keys are not strings.
    pub fn json<T: Serialize + ?Sized>(self, body: &T) -> Result<Self> {
        let body = serde_json::to_vec(body).map_err(|error| {
            CloudError::internal(format!(
                "the body of a request cannot be written as JSON: {error}"
            ))
        })?;
        Ok(self.body("application/json", body))
    }

    /// Sets the body to pairs, encoded like an HTML form (`application/x-www-form-urlencoded`).
    #[must_use]
    pub fn form<'a>(self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        // A form encodes a space as `+`. A query must not: whoever signs it expects `%20`.
        self.body(
            "application/x-www-form-urlencoded",
            encode::pairs(pairs).replace("%20", "+").into_bytes(),
        )
    }

    /// Sets the body to a text with the given content type, for example `text/xml; charset=utf-8`.
    #[must_use]
    pub fn text(self, content_type: &str, body: impl Into<String>) -> Self {
        self.body(content_type, body.into().into_bytes())
    }

    /// Sets the time limit for the complete exchange, including the body of the response, from the
    /// moment it is sent. Both the default and the maximum are the remaining time of the current
    /// call, less one second in which to return its result.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Sets the maximum size of the response's body in bytes; the default is 16 MiB. A larger body
    /// is an error.
    #[must_use]
    pub fn at_most(mut self, bytes: usize) -> Self {
        self.at_most = bytes;
        self
    }

    fn body(mut self, content_type: &str, body: Vec<u8>) -> Self {
        if !self
            .headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            self.headers
                .push(("content-type".to_owned(), content_type.to_owned()));
        }

        self.body = body;
        self
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        let url = self.url.split(['?', '#']).next().unwrap_or_default();

        f.debug_struct("Request")
            .field("method", &self.method)
            .field("url", &url)
            .field("headers", &names)
            .field("body", &format_args!("{} bytes", self.body.len()))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_query_is_appended_to_the_url() {
        let url = |url: &str| Request::get(url).query([("a", "1 2"), ("b", "é")]).url;
        assert_eq!(url("https://c/p"), "https://c/p?a=1%202&b=%C3%A9");
        assert_eq!(url("https://c/p?"), "https://c/p?a=1%202&b=%C3%A9");
        assert_eq!(url("https://c/p?x=y"), "https://c/p?x=y&a=1%202&b=%C3%A9");
        assert_eq!(url("https://c/p?x&#f"), "https://c/p?x&a=1%202&b=%C3%A9#f");
        assert_eq!(Request::get("https://c/p").query([]).url, "https://c/p");
    }

    #[test]
    fn a_body_sets_the_content_type_unless_it_is_set() {
        let types = |request: Request| request.headers;
        let json = |request: Request| request.json(&BTreeMap::from([("a", [1, 2])])).unwrap();
        let patch =
            Request::patch("https://c/").header("Content-Type", "application/merge-patch+json");
        assert_eq!(json(Request::post("https://c/")).body, br#"{"a":[1,2]}"#);
        assert_eq!(
            types(json(Request::post("https://c/"))),
            [("content-type".into(), "application/json".into())]
        );
        assert_eq!(types(json(patch.clone())), patch.headers);

        let form =
            Request::post("https://c/").form([("Action", "Describe Things"), ("Filter.1", "a=b")]);
        assert_eq!(form.body, b"Action=Describe+Things&Filter.1=a%3Db");
        assert_eq!(
            types(form),
            [(
                "content-type".into(),
                "application/x-www-form-urlencoded".into()
            )]
        );

        let text = Request::post("https://c/").text("text/xml", "<a/>");
        assert_eq!(
            (text.body.as_slice(), types(text.clone())),
            (
                &b"<a/>"[..],
                vec![("content-type".into(), "text/xml".into())]
            )
        );
    }

    #[test]
    fn answers_are_limited_to_16_mib_by_default() {
        let request = Request::get("https://c/");
        assert_eq!((request.at_most, request.limit), (16 * 1024 * 1024, None));
        let request = request.at_most(7).timeout(Duration::from_secs(2));
        assert_eq!(
            (request.at_most, request.limit),
            (7, Some(Duration::from_secs(2)))
        );
    }

    #[test]
    fn a_value_that_json_cannot_express_is_an_error() {
        let answer = Request::post("https://c/").json(&BTreeMap::from([([1], 2)]));
        assert!(matches!(answer, Err(CloudError::Internal(_))), "{answer:?}");
    }

    #[test]
    fn debug_output_of_a_request_hides_secrets() {
        let request = Request::post("https://c/p?token=secret")
            .header("X-Auth-Token", "secret")
            .text("a/b", "secret");
        let shown = format!("{request:?}");
        assert!(
            shown.contains("X-Auth-Token")
                && shown.contains("https://c/p")
                && !shown.contains("secret"),
            "{shown}"
        );
    }
}
