//! Which gRPC code an error has.
//!
//! The sidecars do not see more than the code, and take all but four for the end of what they have
//! asked for: csi-provisioner forgets the volume that it wanted, and csi-snapshotter the snapshot.
//! If there is one in the cloud all the same, nobody ever deletes it. So a code is
//! [final](Code::is_final) only where the contract makes the plugin say that nothing is left.

use skydock_cloud::{CloudError, StorageError};

/// The codes of gRPC that are used, with their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The request cannot succeed.
    InvalidArgument = 3,
    /// A volume, a snapshot or a node does not exist.
    NotFound = 5,
    /// Something else has the name.
    AlreadyExists = 6,
    /// There is no room.
    ResourceExhausted = 8,
    /// Something uses the volume.
    FailedPrecondition = 9,
    /// It is not finished, or another operation is.
    Aborted = 10,
    /// There is no volume of that size.
    OutOfRange = 11,
    /// The plugin does not have the interface.
    Unimplemented = 12,
    /// Retrying helps.
    Unavailable = 14,
}

impl Code {
    /// Returns true if the sidecars give up what they have asked for (`checkError` of
    /// csi-provisioner, and its like in the others).
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Aborted | Self::Unavailable)
    }

    /// Returns the name as a metric label.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::ResourceExhausted => "resource_exhausted",
            Self::FailedPrecondition => "failed_precondition",
            Self::Aborted => "aborted",
            Self::OutOfRange => "out_of_range",
            Self::Unimplemented => "unimplemented",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What a sidecar decides by.
    pub code: Code,
    /// What it shows in an event.
    pub message: String,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Code::Unavailable, message)
    }
}

impl From<CloudError> for Failure {
    fn from(error: CloudError) -> Self {
        let code = match &error {
            CloudError::NotFound(_) => Code::NotFound,
            CloudError::Invalid(_) => Code::InvalidArgument,
            CloudError::Conflict(_) | CloudError::InProgress(_) => Code::Aborted,
            // Never ResourceExhausted: the volume may be on its way.
            CloudError::Throttled(_) | CloudError::Unavailable(_) => Code::Unavailable,
            // They say nothing about what earlier calls have left in the cloud. The same is true of
            // calls that ended without an answer of the plugin, which are `internal`.
            CloudError::Denied(_) | CloudError::Internal(_) => Code::Unavailable,
            // A dry run, or a configuration without the interface.
            CloudError::ImplementedElsewhere => Code::Unavailable,
        };
        Self::new(code, error.to_string())
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        let code = match error {
            StorageError::Cloud(error) => return error.into(),
            StorageError::Exists(_) => Code::AlreadyExists,
            StorageError::Exhausted(_) => Code::ResourceExhausted,
            StorageError::OutOfRange(_) => Code::OutOfRange,
            StorageError::InUse(_) => Code::FailedPrecondition,
        };
        Self::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use skydock_cloud::Retry;

    use super::*;

    #[test]
    fn only_what_says_that_nothing_is_left_is_final() {
        let text = || "vol-1".to_owned();
        let retry = || Retry {
            after: Duration::from_secs(1),
            message: text(),
        };
        let cloud = |error| StorageError::Cloud(error);
        for (error, code, is_final) in [
            (cloud(CloudError::NotFound(text())), Code::NotFound, true),
            (
                cloud(CloudError::Invalid(text())),
                Code::InvalidArgument,
                true,
            ),
            (StorageError::Exists(text()), Code::AlreadyExists, true),
            (
                StorageError::Exhausted(text()),
                Code::ResourceExhausted,
                true,
            ),
            (StorageError::OutOfRange(text()), Code::OutOfRange, true),
            (StorageError::InUse(text()), Code::FailedPrecondition, true),
            (cloud(CloudError::Conflict(text())), Code::Aborted, false),
            (cloud(CloudError::InProgress(retry())), Code::Aborted, false),
            (
                cloud(CloudError::Throttled(retry())),
                Code::Unavailable,
                false,
            ),
            (
                cloud(CloudError::Unavailable(text())),
                Code::Unavailable,
                false,
            ),
            (cloud(CloudError::Denied(text())), Code::Unavailable, false),
            (
                cloud(CloudError::Internal(text())),
                Code::Unavailable,
                false,
            ),
            (
                cloud(CloudError::ImplementedElsewhere),
                Code::Unavailable,
                false,
            ),
        ] {
            let sentence = error.to_string();
            let failure = Failure::from(error);
            assert_eq!(
                (failure.code, failure.to_string()),
                (code, sentence.clone())
            );
            assert_eq!(failure.code.is_final(), is_final, "{sentence}");
        }
    }
}
