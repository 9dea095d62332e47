//! What must be true after a step.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use skydock_cloud::{CloudError, StorageError};

/// What must be true. Without anything, a call must succeed for each node, a request must be
/// answered with 2xx, and a program must end with 0.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Expect {
    /// The answer of a call; of functions that answer for each node, a list of answers or `{error:
    /// CASE}`. `*` in a text stands for any characters, and fields that are not named may have any
    /// value.
    #[serde(deserialize_with = "present")]
    pub(crate) answer: Option<Value>,
    /// The error of a call.
    pub(crate) error: Option<ErrorCase>,
    /// Maximum number of requests of a call, by method, or `all`.
    pub(crate) max_requests: BTreeMap<String, u64>,
    /// Status of an HTTP answer.
    pub(crate) status: Option<u16>,
    /// Exit code of a program.
    pub(crate) exit: Option<i32>,
    /// Body of an HTTP answer or output of a program. Lists must have the same elements in any
    /// order.
    #[serde(deserialize_with = "present")]
    pub(crate) json: Option<Value>,
}

/// Null is a value, too.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// A case of `cloud-error`, or of `storage-error`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // named as in the contract
pub(crate) enum ErrorCase {
    NotFound,
    ImplementedElsewhere,
    Conflict,
    Throttled,
    InProgress,
    Denied,
    Invalid,
    Unavailable,
    Internal,
    Exists,
    Exhausted,
    OutOfRange,
    InUse,
}

impl ErrorCase {
    pub(crate) const fn of_element(error: &StorageError) -> Self {
        match error {
            StorageError::Cloud(error) => Self::of(error),
            StorageError::Exists(_) => Self::Exists,
            StorageError::Exhausted(_) => Self::Exhausted,
            StorageError::OutOfRange(_) => Self::OutOfRange,
            StorageError::InUse(_) => Self::InUse,
        }
    }

    pub(crate) const fn of(error: &CloudError) -> Self {
        match error {
            CloudError::NotFound(_) => Self::NotFound,
            CloudError::ImplementedElsewhere => Self::ImplementedElsewhere,
            CloudError::Conflict(_) => Self::Conflict,
            CloudError::Throttled(_) => Self::Throttled,
            CloudError::InProgress(_) => Self::InProgress,
            CloudError::Denied(_) => Self::Denied,
            CloudError::Invalid(_) => Self::Invalid,
            CloudError::Unavailable(_) => Self::Unavailable,
            CloudError::Internal(_) => Self::Internal,
        }
    }

    /// Returns the name in the contract.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not-found",
            Self::ImplementedElsewhere => "implemented-elsewhere",
            Self::Conflict => "conflict",
            Self::Throttled => "throttled",
            Self::InProgress => "in-progress",
            Self::Denied => "denied",
            Self::Invalid => "invalid",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
            Self::Exists => "exists",
            Self::Exhausted => "exhausted",
            Self::OutOfRange => "out-of-range",
            Self::InUse => "in-use",
        }
    }
}
