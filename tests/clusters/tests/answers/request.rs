//! A request for both planes, and its representation in reports.

use std::fmt;

use serde_json::Value;

/// A request. Values that depend on the plane or on the run are placeholders in braces: see
/// [`crate::answers::memory`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) accept: &'static str,
    /// The content type of the body.
    pub(crate) media: &'static str,
    pub(crate) body: Body,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    Empty,
    Text(String),
    Json(Value),
    /// The last version of the object from this plane, changed by a merge patch, or the second
    /// value if the object was never seen.
    Again(Value, Value),
}

impl Request {
    pub(crate) fn get(path: String) -> Self {
        Self {
            method: "GET",
            path,
            query: Vec::new(),
            accept: "",
            media: "",
            body: Body::Empty,
        }
    }

    pub(crate) fn is_watch(&self) -> bool {
        // A `GET` request for a single object ignores `watch`.
        self.method == "GET" && self.has("watch", "true") && self.object().1.is_empty()
    }

    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        self.query
            .iter()
            .any(|(known, given)| *known == name && given == value)
    }

    /// Returns the plural and the name of the object in the request, as far as the path or the body
    /// contains them.
    pub(crate) fn object(&self) -> (String, String) {
        let mut parts = self
            .path
            .split('/')
            .skip(if self.path.starts_with("/api/") { 3 } else { 4 });
        let mut plural = parts.next().unwrap_or_default();
        let mut name = parts.next();
        if plural == "namespaces"
            && let Some(inner) = parts
                .next()
                .filter(|inner| !["status", "finalize"].contains(inner))
        {
            plural = inner;
            name = parts.next();
        }
        let in_body = match &self.body {
            Body::Json(body) | Body::Again(_, body) => {
                body.pointer("/metadata/name").and_then(Value::as_str)
            }
            Body::Empty | Body::Text(_) => None,
        };
        (
            plural.to_owned(),
            name.or(in_body).unwrap_or_default().to_owned(),
        )
    }

    /// Returns the path with its query.
    pub(crate) fn uri(&self) -> String {
        let query: Vec<_> = self
            .query
            .iter()
            .map(|(name, value)| format!("{name}={}", encode(value)))
            .collect();
        if query.is_empty() {
            self.path.clone()
        } else {
            format!("{}?{}", self.path, query.join("&"))
        }
    }
}

/// Formats the request as a `curl` command.
impl fmt::Display for Request {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "curl -X {} '{}'", self.method, self.uri())?;
        for (header, value) in [("Accept", self.accept), ("Content-Type", self.media)] {
            if !value.is_empty() {
                write!(out, " -H '{header}: {value}'")?;
            }
        }
        match &self.body {
            Body::Empty => Ok(()),
            Body::Text(text) if text.len() > 200 => write!(out, " -d '({} bytes)'", text.len()),
            Body::Text(text) => write!(out, " -d '{text}'"),
            Body::Json(body) => write!(out, " -d '{body}'"),
            Body::Again(edit, _) => write!(out, " -d '(the object as it was last seen) + {edit}'"),
        }
    }
}

/// Percent-encodes everything except letters, digits, `-._~` and the braces of placeholders.
fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~{}".contains(&byte);
    text.bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}
