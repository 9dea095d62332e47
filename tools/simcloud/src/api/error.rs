//! Errors, as clients see them.
use std::fmt::Display;

use serde::Serialize;

/// Result of an operation.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// An error: a status, and a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Error {
    #[serde(skip)]
    pub(crate) status: u16,
    /// Header `Retry-After`, in seconds.
    #[serde(skip)]
    pub(crate) retry_after: Option<u64>,
    /// For programs.
    code: &'static str,
    /// For people.
    message: String,
    /// Path of the field that is wrong.
    field: Option<String>,
    /// ID of the object that has the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

impl Error {
    fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            retry_after: None,
            code,
            message: message.into(),
            field: None,
            id: None,
        }
    }

    /// The request is wrong.
    pub(crate) fn invalid(field: Option<&str>, message: impl Into<String>) -> Self {
        Self {
            field: field.map(str::to_owned),
            ..Self::new(400, "invalid", message)
        }
    }

    /// A field of the request is wrong.
    pub(crate) fn field(field: impl Display, message: impl Into<String>) -> Self {
        Self::invalid(Some(&field.to_string()), message)
    }

    /// There is no token.
    pub(crate) fn unauthorized() -> Self {
        Self::new(
            401,
            "unauthorized",
            "no token: set Authorization: Bearer TOKEN",
        )
    }

    /// The token is wrong.
    pub(crate) fn forbidden() -> Self {
        Self::new(403, "forbidden", "the token is not valid")
    }

    /// There are as many objects as the cloud can have.
    pub(crate) fn quota(most: usize, what: &str) -> Self {
        Self::new(403, "quota", format!("at most {most} {what}"))
    }

    /// The object does not exist.
    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        Self::new(404, "not_found", format!("no {what} {id}"))
    }

    /// Nothing has this path.
    pub(crate) fn no_such_path(path: &str) -> Self {
        Self::new(404, "no_such_path", format!("no such path: {path}"))
    }

    /// The path has no such method.
    pub(crate) fn method_not_allowed(method: &str, path: &str) -> Self {
        Self::new(
            405,
            "method_not_allowed",
            format!("{method} is not possible for {path}"),
        )
    }

    /// Another object has the name.
    pub(crate) fn exists(what: &str, id: String, name: &str) -> Self {
        let message = format!("the {what} {id} has the name {name}");
        Self {
            field: Some("name".to_owned()),
            id: Some(id),
            ..Self::new(409, "exists", message)
        }
    }

    /// The object is being created or changed.
    pub(crate) fn pending(what: &str, id: &str) -> Self {
        Self::new(409, "pending", format!("the {what} {id} is not ready"))
    }

    /// Something else uses the object.
    pub(crate) fn in_use(what: &str, id: &str) -> Self {
        Self::new(409, "in_use", format!("the {what} {id} is in use"))
    }

    /// The object has changed.
    pub(crate) fn precondition_failed(etag: &str) -> Self {
        Self::new(
            412,
            "precondition_failed",
            format!("the object has changed: its ETag is {etag}"),
        )
    }

    /// The body is too large.
    pub(crate) fn too_large(most: usize) -> Self {
        Self::new(413, "too_large", format!("the body exceeds {most} bytes"))
    }

    /// Too many requests.
    pub(crate) fn rate_limited(retry_after: u64) -> Self {
        Self {
            retry_after: Some(retry_after),
            ..Self::new(429, "rate_limited", "too many requests")
        }
    }

    /// A failure that a test has asked for.
    pub(crate) fn injected(status: u16, retry_after: Option<u64>) -> Self {
        Self {
            retry_after,
            ..Self::new(status, "injected", "this failure was injected by a test")
        }
    }
}
