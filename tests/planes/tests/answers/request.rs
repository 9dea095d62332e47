//! A request as it goes to each plane, and how it reads in a report.

use std::fmt;

use serde_json::Value;

/// What is sent. What only a plane knows, or only the run, stands in it in braces: see [`crate::answers::memory`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) accept: &'static str,
    /// Of the body.
    pub(crate) media: &'static str,
    pub(crate) body: Body,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Body {
    Empty,
    Text(String),
    Json(Value),
    /// The object as this plane last showed it, with a merge patch on it; the other value, if it was never shown.
    Again(Value, Value),
}

impl Request {
    pub(crate) fn get(path: String) -> Self {
        Self { method: "GET", path, query: Vec::new(), accept: "", media: "", body: Body::Empty }
    }

    pub(crate) fn is_watch(&self) -> bool {
        // Even with `watch`, one object is got.
        self.method == "GET" && self.has("watch", "true") && self.object().1.is_empty()
    }

    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        self.query.iter().any(|(known, given)| *known == name && given == value)
    }

    /// Plural and name of the object that this is about, as far as the path or the body tells.
    pub(crate) fn object(&self) -> (String, String) {
        let mut parts = self.path.split('/').skip(if self.path.starts_with("/api/") { 3 } else { 4 });
        let mut plural = parts.next().unwrap_or_default();
        let mut name = parts.next();
        if plural == "namespaces"
            && let Some(inner) = parts.next().filter(|inner| !["status", "finalize"].contains(inner))
        {
            plural = inner;
            name = parts.next();
        }
        let in_body = match &self.body {
            Body::Json(body) | Body::Again(_, body) => body.pointer("/metadata/name").and_then(Value::as_str),
            Body::Empty | Body::Text(_) => None,
        };
        (plural.to_owned(), name.or(in_body).unwrap_or_default().to_owned())
    }

    /// The path with its query.
    pub(crate) fn uri(&self) -> String {
        let query: Vec<_> = self.query.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        if query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, query.join("&")) }
    }
}

/// As `curl` would send it.
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

/// Everything but letters, digits, `-._~` and the braces of what is yet to be filled in.
fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~{}".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
