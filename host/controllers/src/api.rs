//! Writing to the API server: patches that ask for the object's metadata only, and errors that say what to do.

mod deadline;
mod protobuf;

pub use self::deadline::with_deadline;
pub(crate) use self::protobuf::with_nodes_in_protobuf;
use http::{Request, header};
use kube::{Client, Resource};
use serde::Deserialize;
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
    /// The API server refused, or cannot be reached.
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
        let kube::Error::Api(status) = error else { return Self::Failed(action, error.to_string()) };
        // A failed `test` of a JSON patch is a 422 without a field; a field is named if a value is not valid. A change of
        // the uid is refused as an invalid value of that field. Pod CIDRs are written once: then somebody else did.
        let fields =
            || status.details.iter().flat_map(|details| details.causes.iter().map(|cause| cause.field.as_str()));
        if status.is_not_found() {
            Self::Gone(action)
        } else if status.is_conflict()
            || (status.is_invalid() && fields().all(|field| ["", "metadata.uid", "spec.podCIDRs"].contains(&field)))
        {
            Self::Changed(action)
        } else if status.is_forbidden() {
            Self::Forbidden(action, status.message.clone())
        } else {
            Self::Failed(action, status.message.clone())
        }
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
    use kube::core::{
        Status,
        response::{StatusCause, StatusDetails},
    };

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
        assert!(matches!(error(422, "Invalid", Some("spec.podCIDRs[0]")), ApiError::Failed(..)));
        assert!(matches!(error(422, "Invalid", Some("metadata.labels")), ApiError::Failed(..)));
        assert!(matches!(error(500, "InternalError", None), ApiError::Failed(..)));
    }

    #[test]
    fn a_403_names_the_missing_right() {
        let text = error(403, "Forbidden", None).to_string();
        assert!(text.contains("the right \"patch\" on \"nodes/status\""), "{text}");
    }

    #[test]
    fn steps_of_a_json_pointer_are_escaped() {
        assert_eq!(pointer_step("a.io/b~c"), "a.io~1b~0c");
    }
}
