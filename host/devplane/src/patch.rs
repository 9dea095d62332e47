//! The three types of patches.

use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

use crate::{
    refusal::{Reason, Refusal},
    schema,
};

pub(crate) mod strategic;

use strategic::PatchError;

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
    pub(crate) fn apply(&self, mut value: Value, schema: &'static schema::Object) -> Result<Value, Refusal> {
        match self {
            Self::Json(operations) => {
                let failed = |error: &dyn std::fmt::Display| {
                    Refusal::of_server(Reason::Invalid, format!("the JSON patch cannot be applied: {error}"))
                };
                for operation in operations {
                    let mut operation: PatchOperation =
                        serde_json::from_value(operation.clone()).map_err(|error| failed(&error))?;
                    if let PatchOperation::Replace(replace) = &operation
                        && value.pointer(replace.path.as_str()).is_none()
                    {
                        // A missing value is added, if its parent is an object.
                        let parent = replace.path.as_str().rsplit_once('/').map_or("", |(parent, _)| parent);
                        if value.pointer(parent).is_some_and(Value::is_object) {
                            let (path, value) = (replace.path.clone(), replace.value.clone());
                            operation = PatchOperation::Add(AddOperation { path, value });
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

impl From<PatchError> for Refusal {
    fn from(error: PatchError) -> Self {
        let message = error.to_string();
        match error {
            PatchError::NotAnObject | PatchError::NotAList(_) => Self::bad_request(message),
            PatchError::NotRetained(_) => Self::of_server(Reason::Invalid, message),
            // An API server returns an error without a reason for these.
            PatchError::UnknownDirective(_) | PatchError::NoMergeKey { .. } | PatchError::NotAMap { .. } => {
                Self::new(Reason::Unknown, message)
            }
        }
    }
}
