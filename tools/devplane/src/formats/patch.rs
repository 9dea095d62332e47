//! The three types of patches.

use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

use crate::{
    resources::schema,
    status::{Reason, StatusError},
};

pub(crate) mod strategic;

use strategic::PatchError;

/// Maximum number of operations of a JSON patch, as in an API server (`maxJSONPatchOperations`).
const MAX_OPERATIONS: usize = 10_000;

/// Maximum bytes that a JSON patch copies, as in an API server
/// (`jsonpatch.AccumulatedCopySizeLimit`): a short patch can double an object with each operation.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// A parsed patch.
#[derive(Debug)]
pub(crate) enum Patch {
    /// JSON patch, RFC 6902.
    Json(Vec<Value>),
    /// JSON merge patch, RFC 7386.
    Merge(Value),
    /// Kubernetes' strategic merge patch, which merges lists by keys.
    Strategic(Value),
}

impl Patch {
    /// Returns the object after the patch.
    pub(crate) fn apply(
        &self,
        mut value: Value,
        schema: &'static schema::Object,
    ) -> Result<Value, StatusError> {
        match self {
            Self::Json(operations) => {
                let failed = |error: &dyn std::fmt::Display| {
                    StatusError::of_server(
                        Reason::Invalid,
                        format!("the JSON patch cannot be applied: {error}"),
                    )
                };

                if operations.len() > MAX_OPERATIONS {
                    let found = operations.len();
                    let message = format!(
                        "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {found}"
                    );
                    return Err(StatusError::new(Reason::RequestEntityTooLarge, message));
                }

                let mut copied = 0;
                // One after the other, because the checks need the object as it is before each
                // operation.
                for operation in operations {
                    let mut operation: PatchOperation = serde_json::from_value(operation.clone())
                        .map_err(|error| failed(&error))?;
                    if let PatchOperation::Replace(replace) = &operation
                        && value.pointer(replace.path.as_str()).is_none()
                    {
                        // A missing value is added, if its parent is an object.
                        let parent = replace
                            .path
                            .as_str()
                            .rsplit_once('/')
                            .map_or("", |(parent, _)| parent);
                        if value.pointer(parent).is_some_and(Value::is_object) {
                            let path = replace.path.clone();
                            let value = replace.value.clone();
                            operation = PatchOperation::Add(AddOperation { path, value });
                        }
                    }

                    if let PatchOperation::Copy(copy) = &operation {
                        copied += value
                            .pointer(copy.from.as_str())
                            .map_or(0, |copy| copy.to_string().len());
                        if copied > MAX_COPIED {
                            return Err(failed(&format_args!(
                                "it copies more than {MAX_COPIED} bytes"
                            )));
                        }
                    }

                    json_patch::patch(&mut value, &[operation]).map_err(|error| failed(&error))?;
                }
            }
            Self::Merge(patch) => json_patch::merge(&mut value, patch),
            Self::Strategic(patch) => {
                strategic::merge(&mut value, patch, schema)?;
            }
        }
        Ok(value)
    }
}

impl From<PatchError> for StatusError {
    fn from(error: PatchError) -> Self {
        let message = error.to_string();
        match error {
            PatchError::NotAnObject | PatchError::NotAList(_) => Self::bad_request(message),
            PatchError::NotRetained(_) => Self::of_server(Reason::Invalid, message),
            // An API server returns an error without a reason for these.
            PatchError::UnknownDirective(_)
            | PatchError::NoMergeKey { .. }
            | PatchError::NotAMap { .. } => Self::new(Reason::Unknown, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resources::resource::Storage;

    fn apply(operations: Vec<Value>) -> Result<Value, StatusError> {
        Patch::Json(operations).apply(
            json!({"data": {"a": "x".repeat(1000)}}),
            Storage::ALL[0].resource().schema,
        )
    }

    #[test]
    fn a_json_patch_cannot_grow_without_limit() {
        let double = |from: &str, to: &str| json!({"op": "copy", "from": from, "path": to});
        let doubling: Vec<_> = (0..40)
            .map(|round| double("/data", &format!("/data/{round}")))
            .collect();
        let rejected = apply(doubling).unwrap_err().to_string();
        assert!(
            rejected.contains("copies more than 3145728 bytes"),
            "{rejected}"
        );
        assert!(apply(vec![double("/data", "/data/b"); 3]).is_ok());
        let rejected = apply(vec![json!({"op": "remove", "path": "/data"}); 10_001]).unwrap_err();
        assert_eq!(rejected.reason(), Reason::RequestEntityTooLarge);
    }
}
