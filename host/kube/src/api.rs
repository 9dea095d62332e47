//! Writes to the API server: patches that return only the object's metadata, and errors that say
//! what to do.

mod deadline;

pub use self::deadline::{with_deadline, with_limit};
use http::{Request, header};
use kube::{
    Client, Resource,
    api::{DeleteParams, Preconditions},
    core::{Status, response::StatusCause},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use crate::clients::reason;

/// Object to patch.
pub struct Target<'a> {
    /// Namespace of the object; `None` for nodes.
    pub namespace: Option<&'a str>,
    /// `metadata.name`.
    pub name: &'a str,
    /// Subresource, for example `status`.
    pub subresource: Option<&'static str>,
}

/// A patch and its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// JSON patch (RFC 6902), a list of operations. It fails if one of its `test` operations does
    /// not match the object.
    Json(Value),
    /// JSON merge patch (RFC 7386).
    Merge(Value),
    /// Strategic merge patch of Kubernetes.
    Strategic(Value),
}

/// Why a request to the API server failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The object does not exist.
    #[error("cannot {0}: the object no longer exists")]
    Gone(Action),
    /// The object is not the one in the cache: it was changed, or deleted and recreated.
    #[error("cannot {0}: the object was changed or recreated in the meantime")]
    Changed(Action),
    /// A permission is missing.
    #[error(
        "forbidden: cannot {0}: grant Skydock's account the verb \"{verb}\" on resource \"{resource}\" ({1})",
        verb = .0.verb, resource = .0.resource
    )]
    Forbidden(Action, String),
    /// The API server rejects the request: an admission policy or webhook denies it, or a value is
    /// not valid.
    #[error("cannot {0}: {1}")]
    Rejected(Action, String),
    /// The API server failed, or cannot be reached.
    #[error("cannot {0}: {1}")]
    Failed(Action, String),
}

/// A verb and a resource as in RBAC, for example `patch nodes/status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Verb, for example `patch`.
    pub verb: &'static str,
    /// Resource, for example `nodes/status`.
    pub resource: String,
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)
    }
}

impl ApiError {
    /// What an error of the client means for this action.
    pub fn new(action: Action, error: kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::Failed(action, with_causes(&error));
        };

        let silent = status.message.trim().is_empty();
        let message = if silent {
            format!("the API server answered {}", status.code)
        } else {
            status.message.clone()
        };

        // A webhook can deny a request with any status code.
        if message.starts_with("admission webhook ") {
            Self::Rejected(action, message)
        } else if status.is_not_found() {
            Self::Gone(action)
        } else if status.is_conflict() || (status.is_invalid() && is_lost_race(&status)) {
            Self::Changed(action)
        } else if status.is_forbidden()
            && message.contains(&format!("cannot {} resource", action.verb))
        {
            // RBAC says it in these words; admission answers 403, too.
            Self::Forbidden(action, message)
        } else if status.is_forbidden() || status.is_invalid() {
            Self::Rejected(action, message)
        } else {
            Self::Failed(action, message)
        }
    }
}

/// Returns the error's message and those of its causes. For example, `client error (Connect)` alone
/// does not distinguish an expired certificate from a closed port. What may have a token is left
/// out.
#[must_use]
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = || std::iter::successors(error.source(), |cause| cause.source());
    // Errors quote their causes, so that none of them can be shown.
    if let Some(reason) = causes().find_map(reason::of_exec) {
        return reason;
    }

    let mut text = error.to_string();
    for cause in causes() {
        let cause = cause.to_string();
        // Some errors already quote their cause.
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Returns true if a 422 means that the object differs from what the patch expects, and not that
/// the patch is invalid.
///
/// If a `test` operation of a JSON patch fails, the details name no object and have no cause. A
/// changed UID is rejected as an invalid value of that field. Pod CIDRs can be written only once:
/// if they are rejected, someone else has set them. The cause from an admission policy that denies
/// the request has no field.
fn is_lost_race(status: &Status) -> bool {
    let Some(details) = &status.details else {
        return false;
    };
    let written_by_others =
        |cause: &StatusCause| ["metadata.uid", "spec.podCIDRs"].contains(&cause.field.as_str());

    match details.causes.as_slice() {
        [] => details.name.is_empty() && details.kind.is_empty(),
        causes => causes.iter().all(written_by_others),
    }
}

/// The part of an answer that is read: the managed fields in it are larger than everything else.
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

/// Requests only the metadata, so that the API server does not have to encode whole nodes. A server
/// that does not support this returns the whole object, of which only the metadata is read.
const ACCEPT: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Deletes the cluster-scoped object with this name and UID, but not an object that was recreated
/// with the same name. The deleted object in the answer is not read.
pub async fn delete<K>(client: &Client, name: &str, uid: &str) -> Result<(), ApiError>
where
    K: Resource<DynamicType = ()>,
{
    let action = Action {
        verb: "delete",
        resource: K::plural(&()).to_string(),
    };
    let preconditions = Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    };
    let params = DeleteParams::default().preconditions(preconditions);

    let request = match kube::core::Request::new(K::url_path(&(), None)).delete(name, &params) {
        Ok(request) => request,
        Err(error) => return Err(ApiError::Failed(action, error.to_string())),
    };

    client
        .request::<IgnoredAny>(request)
        .await
        .map(drop)
        .map_err(|error| ApiError::new(action, error))
}

/// Patches an object and returns its new resource version.
pub async fn patch<K>(
    client: &Client,
    target: &Target<'_>,
    patch: &Patch,
) -> Result<String, ApiError>
where
    K: Resource<DynamicType = ()>,
{
    let plural = K::plural(&());
    let resource = target
        .subresource
        .map_or_else(|| plural.to_string(), |sub| format!("{plural}/{sub}"));
    let action = Action {
        verb: "patch",
        resource,
    };

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

    // Boxed to keep the futures small that wait for their turn to write.
    match Box::pin(client.request::<Written>(request)).await {
        Ok(answer) => Ok(answer.metadata.resource_version),
        Err(error) => Err(ApiError::new(action, error)),
    }
}

/// Escapes `/` and `~` in one step of a JSON pointer.
pub fn pointer_step(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use kube::core::response::StatusDetails;
    use serde_json::json;

    use super::*;

    fn status(code: u16, reason: &str, field: Option<&str>) -> kube::Error {
        let causes = field
            .map(|field| StatusCause {
                reason: String::new(),
                message: String::new(),
                field: field.to_owned(),
            })
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
        ApiError::new(
            Action {
                verb: "patch",
                resource: "nodes/status".to_owned(),
            },
            status(code, reason, field),
        )
    }

    #[test]
    fn errors_are_classified_by_code_and_cause() {
        assert!(matches!(error(404, "NotFound", None), ApiError::Gone(_)));
        assert!(matches!(error(409, "Conflict", None), ApiError::Changed(_)));
        assert!(matches!(error(422, "Invalid", None), ApiError::Changed(_)));
        assert!(matches!(
            error(422, "Invalid", Some("metadata.uid")),
            ApiError::Changed(_)
        ));
        assert!(matches!(
            error(422, "Invalid", Some("spec.podCIDRs")),
            ApiError::Changed(_)
        ));
        assert!(matches!(
            error(422, "Invalid", Some("spec.podCIDRs[0]")),
            ApiError::Rejected(..)
        ));
        assert!(matches!(
            error(422, "Invalid", Some("metadata.labels")),
            ApiError::Rejected(..)
        ));
        assert!(matches!(
            error(500, "InternalError", None),
            ApiError::Failed(..)
        ));
    }

    #[test]
    fn an_error_shows_its_causes_or_its_status_code() {
        let rejected =
            std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused");
        let service = kube::Error::Service(Box::new(std::io::Error::other(rejected)));
        assert_eq!(with_causes(&service), "ServiceError: connection refused");

        #[derive(Debug, thiserror::Error)]
        #[error("client error (Connect)")]
        struct Outer(#[source] std::num::ParseIntError);
        let service = kube::Error::Service(Box::new(Outer("x".parse::<u8>().unwrap_err())));
        assert_eq!(
            with_causes(&service),
            "ServiceError: client error (Connect): invalid digit found in string"
        );

        let unauthorized = answered(401, "", "", &json!({}));
        assert_eq!(
            unauthorized.to_string(),
            "cannot patch nodes/status: the API server answered 401"
        );
    }

    fn answered(code: u16, reason: &str, message: &str, details: &Value) -> ApiError {
        let status = json!({
            "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message, "details": details,
        });
        let status: Status = serde_json::from_value(status).unwrap();
        let action = Action {
            verb: "patch",
            resource: "nodes/status".to_owned(),
        };
        ApiError::new(action, kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn a_403_names_the_missing_permission() {
        let message = "nodes \"a\" is forbidden: User \"ccm\" cannot patch resource \"nodes/status\" in API group \"\" at the cluster scope";
        let text = answered(
            403,
            "Forbidden",
            message,
            &json!({"name": "a", "kind": "nodes"}),
        )
        .to_string();
        assert!(
            text.contains("the verb \"patch\" on resource \"nodes/status\""),
            "{text}"
        );
    }

    #[test]
    fn an_admission_denial_is_not_a_conflict_or_rbac_error() {
        let policy = "nodes \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not on Sundays";
        let webhook = "admission webhook \"w.example.com\" denied the request: not on Sundays";
        let ended = "events \"a\" is forbidden: unable to create new content in namespace x because it is being terminated";
        let about = |causes: Value| json!({"name": "a", "kind": "nodes", "causes": causes});

        for (code, reason, message, details) in [
            (422, "Invalid", policy, about(json!([{"message": policy}]))),
            (
                403,
                "Forbidden",
                policy,
                about(json!([{"message": policy}])),
            ),
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
            let error = answered(code, reason, message, &details);
            assert!(matches!(error, ApiError::Rejected(..)), "{code} {error:?}");
            assert_eq!(
                error.to_string(),
                format!("cannot patch nodes/status: {message}")
            );
        }
    }

    #[test]
    fn steps_of_a_json_pointer_are_escaped() {
        assert_eq!(pointer_step("a.io/b~c"), "a.io~1b~0c");
    }
}
