//! The three ways to change a part of an object.

use serde_json::Value;

use crate::{
    refusal::{Reason, Refusal},
    schema,
};

pub(crate) mod strategic;

/// A patch, parsed.
#[derive(Debug)]
pub(crate) enum Patch {
    /// RFC 6902.
    Json(json_patch::Patch),
    /// RFC 7386.
    Merge(Value),
    /// Kubernetes' merge patch that knows lists with keys.
    Strategic(Value),
}

impl Patch {
    /// The object after the patch.
    pub(crate) fn apply(&self, mut value: Value, schema: &'static schema::Object) -> Result<Value, Refusal> {
        match self {
            Self::Json(patch) => {
                json_patch::patch(&mut value, patch).map_err(|error| {
                    Refusal::new(Reason::Invalid, format!("the JSON patch cannot be applied: {error}"))
                })?;
            }
            Self::Merge(patch) => json_patch::merge(&mut value, patch),
            Self::Strategic(patch) => {
                strategic::merge(&mut value, patch, schema).map_err(|error| Refusal::bad_request(error.to_string()))?;
            }
        }
        Ok(value)
    }
}
