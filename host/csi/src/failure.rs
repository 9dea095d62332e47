//! Which gRPC code an error has.
//!
//! The sidecars do not see more than the code, and take most of them for the end of what they have
//! asked for: csi-provisioner forgets the volume that it wanted, and csi-snapshotter the snapshot.
//! If there is one in the cloud all the same, nobody ever deletes it. So a code is
//! [final](Code::is_final) only where the contract makes the plugin say that nothing is left: in the
//! answer to a question, and never in the [error of a whole call](of_call).

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
    /// Returns true if a sidecar may give up what it has asked for (`checkError` of csi-provisioner,
    /// and its like in the others). `ResourceExhausted` is final for csi-provisioner only.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Aborted | Self::Unavailable)
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

    /// Returns the failure to create a snapshot. A user cannot delete a VolumeSnapshot that may still
    /// be created: csi-snapshotter takes this for the end of it, but not `ResourceExhausted`
    /// (`isCSIFinalError`).
    pub(crate) fn of_snapshot(self) -> Self {
        let code = match self.code {
            Code::ResourceExhausted => Code::FailedPrecondition,
            other => other,
        };
        Self { code, ..self }
    }
}

/// Returns the error of a call that has failed as a whole, for each of its questions. It says nothing
/// about any of them: also if the cloud answers that something does not exist, an earlier call may
/// have created what is asked for.
pub(crate) fn of_call(error: CloudError) -> CloudError {
    let is_final = Failure::from(error.clone()).code.is_final();
    if is_final {
        CloudError::Unavailable(error.to_string())
    } else {
        error
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

    #[test]
    fn the_error_of_a_whole_call_is_never_final() {
        let text = || "the catalog".to_owned();
        let retry = || Retry {
            after: Duration::from_secs(1),
            message: text(),
        };
        let kept = [
            CloudError::ImplementedElsewhere,
            CloudError::Conflict(text()),
            CloudError::Throttled(retry()),
            CloudError::InProgress(retry()),
            CloudError::Denied(text()),
            CloudError::Unavailable(text()),
            CloudError::Internal(text()),
        ];
        for error in kept {
            assert_eq!(of_call(error.clone()), error);
        }

        for (error, message) in [
            (CloudError::NotFound(text()), "not found: the catalog"),
            (CloudError::Invalid(text()), "invalid: the catalog"),
        ] {
            let expected = CloudError::Unavailable(message.to_owned());
            assert_eq!(of_call(error), expected);
        }
    }

    #[test]
    fn a_snapshot_that_has_no_room_can_be_deleted() {
        for (code, expected) in [
            (Code::ResourceExhausted, Code::FailedPrecondition),
            (Code::NotFound, Code::NotFound),
            (Code::Aborted, Code::Aborted),
        ] {
            let failure = Failure::new(code, "why").of_snapshot();
            assert_eq!(failure, Failure::new(expected, "why"));
        }
    }
}
