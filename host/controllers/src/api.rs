//! Writing to the API server: patches that ask for the object's metadata only, and errors that say what to do.

mod deadline;
mod protobuf;

pub use self::deadline::with_deadline;
pub(crate) use self::protobuf::with_nodes_in_protobuf;
use http::{Request, header};
use kube::{
    Client, Resource,
    api::{DeleteParams, Preconditions},
    core::{Status, response::StatusCause},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

/// What to patch.
pub(crate) struct Target<'a> {
    /// `None` for nodes.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
    /// Such as `status`.
    pub(crate) subresource: Option<&'static str>,
}

/// A patch and its kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Patch {
    /// RFC 6902, a list of operations; its `test` operations make it fail if the object is not as expected.
    Json(Value),
    /// RFC 7386.
    Merge(Value),
    /// Kubernetes' own.
    Strategic(Value),
}

/// Why the API server did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The object does not exist any more.
    #[error("cannot {0}: the object does not exist any more")]
    Gone(Action),
    /// The object is not what the cache said: changed, or deleted and made anew.
    #[error("cannot {0}: the object was changed or made anew meanwhile")]
    Changed(Action),
    /// A right is missing.
    #[error(
        "not allowed to {0}: give this host's account the right \"{verb}\" on \"{resource}\" ({1})",
        verb = .0.verb, resource = .0.resource
    )]
    Forbidden(Action, String),
    /// The API server does not want what was asked for: an admission policy or a webhook is against it, or a value is not valid.
    #[error("cannot {0}: {1}")]
    Refused(Action, String),
    /// The API server failed, or cannot be reached.
    #[error("cannot {0}: {1}")]
    Failed(Action, String),
}

/// A verb and a resource as RBAC knows them, such as `patch nodes/status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Such as `patch`.
    pub verb: &'static str,
    /// Such as `nodes/status`.
    pub resource: String,
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)
    }
}

impl ApiError {
    pub(crate) fn new(action: Action, error: kube::Error) -> Self {
        let kube::Error::Api(status) = error else { return Self::Failed(action, with_causes(&error)) };
        let silent = status.message.trim().is_empty();
        let message = if silent { format!("the API server answered {}", status.code) } else { status.message.clone() };
        // With whatever code it likes.
        if message.starts_with("admission webhook ") {
            Self::Refused(action, message)
        } else if status.is_not_found() {
            Self::Gone(action)
        } else if status.is_conflict() || (status.is_invalid() && is_lost_race(&status)) {
            Self::Changed(action)
        } else if status.is_forbidden() && message.contains(&format!("cannot {} resource", action.verb)) {
            Self::Forbidden(action, message)
        } else if status.is_forbidden() || status.is_invalid() {
            Self::Refused(action, message)
        } else {
            Self::Failed(action, message)
        }
    }
}

/// What an error says, and those that it comes from: `client error (Connect)` alone does not tell a certificate that has
/// expired from a port that is closed.
#[must_use]
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| cause.source()) {
        let cause = cause.to_string();
        if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

/// True if a 422 says that the object is not as the patch has it, and nothing against the patch.
///
/// A `test` of a JSON patch that fails is one with empty details: the API server speaks of the request, and of no object. A change of
/// the uid is refused as an invalid value of that field. Pod CIDRs are written once: then somebody else did. An admission policy that
/// is against it gives a cause without a field.
fn is_lost_race(status: &Status) -> bool {
    let Some(details) = &status.details else { return false };
    let written_by_others = |cause: &StatusCause| ["metadata.uid", "spec.podCIDRs"].contains(&cause.field.as_str());
    match details.causes.as_slice() {
        [] => details.name.is_empty() && details.kind.is_empty(),
        causes => causes.iter().all(written_by_others),
    }
}

/// What is read of an answer: the managed fields in it are larger than all else.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    metadata: Version,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Version {
    resource_version: String,
}

/// Asks for the metadata alone, which spares the API server the encoding of whole nodes; a server that cannot do it sends
/// the whole object, of which the metadata is read.
const ACCEPT: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Deletes this very object of a cluster, not one that was made anew under its name. What it was is in the answer, and not read.
pub(crate) async fn delete<K>(client: &Client, name: &str, uid: &str) -> Result<(), ApiError>
where
    K: Resource<DynamicType = ()>,
{
    let action = Action { verb: "delete", resource: K::plural(&()).to_string() };
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    let params = DeleteParams::default().preconditions(preconditions);
    let request = match kube::core::Request::new(K::url_path(&(), None)).delete(name, &params) {
        Ok(request) => request,
        Err(error) => return Err(ApiError::Failed(action, error.to_string())),
    };
    client.request::<IgnoredAny>(request).await.map(drop).map_err(|error| ApiError::new(action, error))
}

/// Patches an object and gives its new version.
pub(crate) async fn patch<K>(client: &Client, target: &Target<'_>, patch: &Patch) -> Result<String, ApiError>
where
    K: Resource<DynamicType = ()>,
{
    let plural = K::plural(&());
    let resource = target.subresource.map_or_else(|| plural.to_string(), |sub| format!("{plural}/{sub}"));
    let action = Action { verb: "patch", resource };
    let mut path = format!("{}/{}", K::url_path(&(), target.namespace), target.name);
    if let Some(subresource) = target.subresource {
        path = format!("{path}/{subresource}");
    }
    let (content_type, body) = match patch {
        Patch::Json(body) => ("application/json-patch+json", body),
        Patch::Merge(body) => ("application/merge-patch+json", body),
        Patch::Strategic(body) => ("application/strategic-merge-patch+json", body),
    };
    let request = Request::patch(path)
        .header(header::ACCEPT, ACCEPT)
        .header(header::CONTENT_TYPE, content_type)
        .body(body.to_string().into_bytes());
    let request = match request {
        Ok(request) => request,
        Err(error) => return Err(ApiError::Failed(action, error.to_string())),
    };
    // Boxed, so that what waits for its turn to write is small.
    match Box::pin(client.request::<Written>(request)).await {
        Ok(answer) => Ok(answer.metadata.resource_version),
        Err(error) => Err(ApiError::new(action, error)),
    }
}

/// `/` and `~` inside one step of a JSON pointer.
pub(crate) fn pointer_step(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use kube::core::response::StatusDetails;
    use serde_json::json;

    use super::*;

    fn status(code: u16, reason: &str, field: Option<&str>) -> kube::Error {
        let causes = field
            .map(|field| StatusCause { reason: String::new(), message: String::new(), field: field.to_owned() })
            .into_iter()
            .collect();
        let details = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes,
            retry_after_seconds: 0,
        };
        let mut status = Status::failure("no", reason);
        status.code = code;
        status.details = Some(details);
        kube::Error::Api(Box::new(status))
    }

    fn error(code: u16, reason: &str, field: Option<&str>) -> ApiError {
        ApiError::new(Action { verb: "patch", resource: "nodes/status".to_owned() }, status(code, reason, field))
    }

    #[test]
    fn answers_are_told_apart_by_their_code() {
        assert!(matches!(error(404, "NotFound", None), ApiError::Gone(_)));
        assert!(matches!(error(409, "Conflict", None), ApiError::Changed(_)));
        assert!(matches!(error(422, "Invalid", None), ApiError::Changed(_)));
        assert!(matches!(error(422, "Invalid", Some("metadata.uid")), ApiError::Changed(_)));
        assert!(matches!(error(422, "Invalid", Some("spec.podCIDRs")), ApiError::Changed(_)));
        assert!(matches!(error(422, "Invalid", Some("spec.podCIDRs[0]")), ApiError::Refused(..)));
        assert!(matches!(error(422, "Invalid", Some("metadata.labels")), ApiError::Refused(..)));
        assert!(matches!(error(500, "InternalError", None), ApiError::Failed(..)));
    }

    #[test]
    fn a_failure_is_told_with_its_causes_and_silence_with_its_code() {
        let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused");
        let service = kube::Error::Service(Box::new(std::io::Error::other(refused)));
        assert_eq!(with_causes(&service), "ServiceError: connection refused");
        #[derive(Debug, thiserror::Error)]
        #[error("client error (Connect)")]
        struct Outer(#[source] std::num::ParseIntError);
        let service = kube::Error::Service(Box::new(Outer("x".parse::<u8>().unwrap_err())));
        assert_eq!(with_causes(&service), "ServiceError: client error (Connect): invalid digit found in string");
        let unauthorized = said(401, "", "", &json!({}));
        assert_eq!(unauthorized.to_string(), "cannot patch nodes/status: the API server answered 401");
    }

    fn said(code: u16, reason: &str, message: &str, details: &Value) -> ApiError {
        let status = json!({
            "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message, "details": details,
        });
        let status: Status = serde_json::from_value(status).unwrap();
        let action = Action { verb: "patch", resource: "nodes/status".to_owned() };
        ApiError::new(action, kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn a_403_names_the_missing_right() {
        let message = "nodes \"a\" is forbidden: User \"ccm\" cannot patch resource \"nodes/status\" in API group \"\" at the cluster scope";
        let text = said(403, "Forbidden", message, &json!({"name": "a", "kind": "nodes"})).to_string();
        assert!(text.contains("the right \"patch\" on \"nodes/status\""), "{text}");
    }

    #[test]
    fn who_is_against_a_write_is_neither_a_race_nor_a_missing_right() {
        let policy =
            "nodes \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not on Sundays";
        let webhook = "admission webhook \"w.example.com\" denied the request: not on Sundays";
        let ended =
            "events \"a\" is forbidden: unable to create new content in namespace x because it is being terminated";
        let about = |causes: Value| json!({"name": "a", "kind": "nodes", "causes": causes});
        for (code, reason, message, details) in [
            (422, "Invalid", policy, about(json!([{"message": policy}]))),
            (403, "Forbidden", policy, about(json!([{"message": policy}]))),
            (422, "", webhook, Value::Null),
            (409, "Conflict", webhook, Value::Null),
            (404, "NotFound", webhook, Value::Null),
            (403, "Forbidden", webhook, Value::Null),
            (
                403,
                "Forbidden",
                ended,
                about(json!([{"reason": "NamespaceTerminating", "field": "metadata.namespace"}])),
            ),
        ] {
            let error = said(code, reason, message, &details);
            assert!(matches!(error, ApiError::Refused(..)), "{code} {error:?}");
            assert_eq!(error.to_string(), format!("cannot patch nodes/status: {message}"));
        }
    }

    #[test]
    fn steps_of_a_json_pointer_are_escaped() {
        assert_eq!(pointer_step("a.io/b~c"), "a.io~1b~0c");
    }
}
