//! Errors of requests, in the form of a Kubernetes `Status`.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::resources::{object::as_map, resource::Resource};

/// A rejected request. The message is for people; programs use the reason.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct StatusError {
    reason: Reason,
    message: String,
    /// `metav1.StatusDetails`, or null.
    details: Value,
}

/// `metav1.StatusReason`, as far as it is used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Expired,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    Timeout,
    TooManyRequests,
    InternalError,
    ServiceUnavailable,
    /// An unexpected error: 500, without a reason.
    Unknown,
}

impl Reason {
    /// Returns the HTTP status code of the reason.
    pub(crate) fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::NotAcceptable => 406,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Expired => 410,
            Self::RequestEntityTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::Invalid => 422,
            Self::Timeout => 504,
            Self::TooManyRequests => 429,
            Self::InternalError | Self::Unknown => 500,
            Self::ServiceUnavailable => 503,
        }
    }
}

/// One field of an object that is not valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    /// `FieldValueInvalid` or a similar reason.
    pub(crate) reason: &'static str,
    /// Path, for example `spec.ports[0].port`.
    pub(crate) field: String,
    pub(crate) message: String,
}

impl Cause {
    fn json(&self) -> Value {
        json!({"reason": self.reason, "message": self.message, "field": self.field})
    }

    pub(crate) fn invalid(
        field: impl Into<String>,
        value: &Value,
        message: impl fmt::Display,
    ) -> Self {
        let message = format!("Invalid value: {value}: {message}");
        Self {
            reason: "FieldValueInvalid",
            field: field.into(),
            message,
        }
    }

    pub(crate) fn required(field: impl Into<String>, message: &str) -> Self {
        let message = if message.is_empty() {
            "Required value".into()
        } else {
            format!("Required value: {message}")
        };
        Self {
            reason: "FieldValueRequired",
            field: field.into(),
            message,
        }
    }

    pub(crate) fn forbidden(field: impl Into<String>, message: impl fmt::Display) -> Self {
        Self {
            reason: "FieldValueForbidden",
            field: field.into(),
            message: format!("Forbidden: {message}"),
        }
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self {
            reason: "FieldValueDuplicate",
            field: field.into(),
            message: format!("Duplicate value: {value}"),
        }
    }

    pub(crate) fn not_supported(field: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        let supported: Vec<_> = supported.iter().map(|value| format!("{value:?}")).collect();
        let message = format!(
            "Unsupported value: {value:?}: supported values: {}",
            supported.join(", ")
        );

        Self {
            reason: "FieldValueNotSupported",
            field: field.into(),
            message,
        }
    }
}

/// Returns the details of the object that a request was about. Empty fields are omitted.
fn details(name: &str, group: &str, kind: &str, causes: &[Cause]) -> Value {
    let mut details = Map::new();
    for (field, text) in [("name", name), ("group", group), ("kind", kind)] {
        if !text.is_empty() {
            details.insert(field.to_owned(), text.into());
        }
    }
    if !causes.is_empty() {
        details.insert(
            "causes".to_owned(),
            causes.iter().map(Cause::json).collect(),
        );
    }

    details.into()
}

impl StatusError {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            details: Value::Null,
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message)
    }

    /// Creates an error about the server itself, with empty details.
    pub(crate) fn of_server(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            details: json!({}),
        }
    }

    /// Creates an error for a patch whose result cannot be decoded.
    pub(crate) fn bad_patch(why: impl fmt::Display) -> Self {
        let cause = Cause::invalid("patch", &"".into(), why);
        Self::invalid_of("", "", "", &[cause])
    }

    /// Creates an error for a missing object.
    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        Self::about(Reason::NotFound, resource, name, "not found")
    }

    /// Creates an error for a path of an unknown resource.
    pub(crate) fn no_such_path() -> Self {
        Self::of_server(
            Reason::NotFound,
            "the server could not find the requested resource",
        )
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::about(Reason::AlreadyExists, resource, name, "already exists")
    }

    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        Self::about(
            Reason::Forbidden,
            resource,
            name,
            &format!("is forbidden: {why}"),
        )
    }

    /// Creates an error for an object that was changed by another client, or is another object than
    /// expected.
    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            resource.qualified()
        );
        Self {
            message,
            ..Self::about(Reason::Conflict, resource, name, "")
        }
    }

    /// Creates an error for an object that does not match the precondition.
    pub(crate) fn precondition(
        resource: &Resource,
        name: &str,
        what: &str,
        wanted: &str,
        found: &str,
    ) -> Self {
        let why = format!(
            "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
        );
        Self::conflict(resource, name, &why)
    }

    /// Creates an error for an object that does not match the precondition of its deletion.
    pub(crate) fn not_to_delete(
        resource: &Resource,
        name: &str,
        what: &str,
        wanted: &str,
        found: &str,
    ) -> Self {
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({found})"
        );
        // Unlike other conflicts, this one contains the kind instead of the resource.
        Self {
            reason: Reason::Conflict,
            message: format!(
                "Operation cannot be fulfilled on {} {name:?}: {why}",
                resource.kind
            ),
            details: details(name, resource.group, resource.kind, &[]),
        }
    }

    /// Creates an error for an update that is not based on the current version.
    pub(crate) fn stale(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// Creates an error for an object that is not valid.
    pub(crate) fn invalid(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        Self::invalid_of(resource.group, resource.kind, name, causes)
    }

    /// Creates the only error of this type that contains the resource instead of the kind.
    pub(crate) fn invalid_resource(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        Self::invalid_of(resource.group, resource.plural, name, causes)
    }

    fn invalid_of(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let lines: Vec<_> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();

        let lines = if let [line] = lines.as_slice() {
            line.clone()
        } else {
            format!("[{}]", lines.join(", "))
        };

        let qualified = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };

        Self {
            reason: Reason::Invalid,
            message: format!("{qualified} {name:?} is invalid: {lines}"),
            details: details(name, group, kind, causes),
        }
    }

    /// Creates an error for options of a request that are not valid. `kind` is that of the options,
    /// for example `CreateOptions`.
    pub(crate) fn invalid_options(kind: &str, causes: &[Cause]) -> Self {
        Self::invalid_of("meta.k8s.io", kind, "", causes)
    }

    /// Creates an error for a revision that the history does not contain.
    pub(crate) fn expired(wanted: u64, oldest: u64) -> Self {
        Self::new(
            Reason::Expired,
            format!("too old resource version: {wanted} ({oldest})"),
        )
    }

    /// Creates an error for a revision in the future.
    pub(crate) fn too_large(wanted: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {wanted}, current: {current}");
        let causes =
            json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
        Self {
            reason: Reason::Timeout,
            message,
            details: json!({"retryAfterSeconds": 1, "causes": causes}),
        }
    }

    /// Creates an error for too many requests, to be retried after this many seconds.
    pub(crate) fn throttled(retry_after: u64) -> Self {
        let details = json!({"retryAfterSeconds": retry_after});
        Self {
            details,
            ..Self::new(
                Reason::TooManyRequests,
                "too many requests, please try again later",
            )
        }
    }

    /// Adds one cause, for programs that check it.
    pub(crate) fn because(mut self, cause: &Cause) -> Self {
        as_map(&mut self.details).insert("causes".into(), json!([cause.json()]));
        self
    }

    fn about(reason: Reason, resource: &Resource, name: &str, what: &str) -> Self {
        Self {
            reason,
            message: format!("{} {name:?} {what}", resource.qualified()),
            details: details(name, resource.group, resource.plural, &[]),
        }
    }

    /// Returns the delay before a retry in seconds.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.details.get("retryAfterSeconds")?.as_u64()
    }

    pub(crate) fn reason(&self) -> Reason {
        self.reason
    }

    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.reason.code(),
        });

        if self.reason != Reason::Unknown {
            as_map(&mut status).insert("reason".into(), format!("{:?}", self.reason).into());
        }
        if !self.details.is_null() {
            as_map(&mut status).insert("details".into(), self.details.clone());
        }

        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::resource::{LEASES, SERVICES};

    #[test]
    fn messages_match_those_of_an_api_server() {
        let cause = Cause::invalid("spec.type", &json!("x"), "must be y");
        for (error, code, message) in [
            (
                StatusError::not_found(&LEASES, "a"),
                404,
                "leases.coordination.k8s.io \"a\" not found",
            ),
            (
                StatusError::already_exists(&SERVICES, "a"),
                409,
                "services \"a\" already exists",
            ),
            (
                StatusError::forbidden(&SERVICES, "a", "no"),
                403,
                "services \"a\" is forbidden: no",
            ),
            (
                StatusError::stale(&SERVICES, "a"),
                409,
                "Operation cannot be fulfilled on services \"a\": the object has been modified; please apply your changes to the \
                 latest version and try again",
            ),
            (
                StatusError::invalid(&SERVICES, "a", &[cause]),
                422,
                "Service \"a\" is invalid: spec.type: Invalid value: \"x\": must be y",
            ),
            (
                StatusError::expired(1, 5),
                410,
                "too old resource version: 1 (5)",
            ),
        ] {
            assert_eq!(error.to_string(), message);
            assert_eq!(error.status()["code"], code, "{message}");
        }
    }
}
