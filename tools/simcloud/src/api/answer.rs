//! What goes into the cloud, and what comes out.
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use serde::Serialize;

use crate::api::error::{Error, Result};

/// One HTTP request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Method, in upper case.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Query without `?`; may be empty.
    pub query: String,
    /// Header `Authorization`.
    pub authorization: Option<String>,
    /// Header `If-Match`.
    pub if_match: Option<String>,
    /// Header `If-None-Match`.
    pub if_none_match: Option<String>,
    /// The body; may be empty. One byte more than the limit is enough to have it rejected.
    pub body: Vec<u8>,
}

/// The end of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How long the answer takes.
    pub after: Duration,
    /// The answer.
    pub answer: Answer,
}

/// What the client sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A response.
    Reply(Reply),
    /// The connection is cut without a response.
    Cut,
}

/// One HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Header `ETag`.
    pub etag: Option<String>,
    /// Header `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// JSON, or empty.
    pub body: String,
}

impl Reply {
    /// Returns a response with a value.
    pub(crate) fn json(status: u16, value: &impl Serialize) -> Result<Self> {
        let body = serde_json::to_string(value)
            .map_err(|error| Error::invalid(None, error.to_string()))?;
        Ok(Self {
            status,
            etag: None,
            retry_after: None,
            body,
        })
    }

    /// Returns a response with a value and its tag, or 304 if the client has this value.
    pub(crate) fn tagged(
        status: u16,
        value: &impl Serialize,
        if_none_match: Option<&str>,
    ) -> Result<Self> {
        let reply = Self::json(status, value)?;
        let etag = tag(&reply.body);

        if if_none_match.is_some_and(|tags| matches(tags, &etag)) {
            return Ok(Self {
                status: 304,
                etag: Some(etag),
                retry_after: None,
                body: String::new(),
            });
        }

        Ok(Self {
            etag: Some(etag),
            ..reply
        })
    }

    /// Returns the response after a deletion.
    pub(crate) fn empty() -> Self {
        Self {
            status: 204,
            etag: None,
            retry_after: None,
            body: String::new(),
        }
    }
}

/// Checks `If-Match` against the current value.
///
/// # Errors
/// If the client has seen another value.
pub(crate) fn check_match(if_match: Option<&str>, current: &impl Serialize) -> Result<()> {
    let Some(tags) = if_match else { return Ok(()) };
    let etag = Reply::tagged(200, current, None)?.etag.unwrap_or_default();
    if matches(tags, &etag) {
        Ok(())
    } else {
        Err(Error::precondition_failed(&etag))
    }
}

/// Returns the entity tag of a body.
fn tag(body: &str) -> String {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

fn matches(tags: &str, etag: &str) -> bool {
    tags.split(',')
        .map(str::trim)
        .any(|tag| tag == "*" || tag == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_has_the_value_gets_no_body() {
        let first = Reply::tagged(200, &"a", None).unwrap();
        let etag = first.etag.clone().unwrap();
        assert_eq!(first.body, "\"a\"");
        for tags in [etag.as_str(), "*", &format!("\"x\", {etag}")] {
            let again = Reply::tagged(200, &"a", Some(tags)).unwrap();
            assert_eq!(
                (again.status, again.body.as_str(), again.etag),
                (304, "", Some(etag.clone())),
                "{tags}"
            );
        }
        assert_eq!(Reply::tagged(200, &"b", Some(&etag)).unwrap().status, 200);
    }

    #[test]
    fn a_write_needs_the_current_tag_if_it_states_one() {
        let etag = Reply::tagged(200, &"a", None).unwrap().etag.unwrap();
        assert!(check_match(None, &"a").is_ok());
        assert!(check_match(Some(&etag), &"a").is_ok());
        assert!(check_match(Some("*"), &"a").is_ok());
        assert_eq!(check_match(Some(&etag), &"b").unwrap_err().status, 412);
    }
}
