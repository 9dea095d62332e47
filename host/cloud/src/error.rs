//! Errors of a cloud, by which controllers decide whether and when to retry.

use std::time::Duration;

/// When to retry, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Delay before the retry.
    pub after: Duration,
    /// One sentence for the operator.
    pub message: String,
}

impl Retry {
    /// Minimum and maximum delay that a cloud may ask for, as in the plugin contract.
    const MIN_DELAY: Duration = Duration::from_millis(100);
    const MAX_DELAY: Duration = Duration::from_secs(3600);

    /// Returns the delay, if a cloud may ask for it, or the nearest one that it may ask for.
    #[must_use]
    pub fn bounded(after: Duration) -> Duration {
        after.clamp(Self::MIN_DELAY, Self::MAX_DELAY)
    }
}

impl std::fmt::Display for Retry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (retrying in {:?})", self.message, self.after)
    }
}

/// Why a call to the cloud failed. Controllers decide by the variant, never by the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    /// The cloud answered that the object does not exist.
    #[error("not found: {0}")]
    NotFound(String),
    /// Another implementation owns this object; it is not changed.
    #[error("implemented elsewhere")]
    ImplementedElsewhere,
    /// Another writer changed the object at the same time; retry soon.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The cloud asks for fewer requests.
    #[error("throttled by the cloud: {0}")]
    Throttled(Retry),
    /// The operation was accepted and is not finished. This is not a failure: ask again later.
    #[error("in progress: {0}")]
    InProgress(Retry),
    /// Credentials or permissions are missing.
    #[error("denied: {0}")]
    Denied(String),
    /// The object asks for something that this cloud cannot do; there is no retry until the object
    /// changes.
    #[error("invalid: {0}")]
    Invalid(String),
    /// The cloud or its plugin cannot be reached in time; retry with back-off.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// Anything else, including a broken plugin; retry with back-off.
    #[error("internal error: {0}")]
    Internal(String),
}

impl CloudError {
    /// Changes the text.
    #[must_use]
    pub fn map_text(self, change: impl Fn(&str) -> String) -> Self {
        let retry = |retry: Retry| Retry {
            message: change(&retry.message),
            ..retry
        };

        match self {
            Self::NotFound(text) => Self::NotFound(change(&text)),
            Self::ImplementedElsewhere => Self::ImplementedElsewhere,
            Self::Conflict(text) => Self::Conflict(change(&text)),
            Self::Throttled(it) => Self::Throttled(retry(it)),
            Self::InProgress(it) => Self::InProgress(retry(it)),
            Self::Denied(text) => Self::Denied(change(&text)),
            Self::Invalid(text) => Self::Invalid(change(&text)),
            Self::Unavailable(text) => Self::Unavailable(change(&text)),
            Self::Internal(text) => Self::Internal(change(&text)),
        }
    }

    /// Returns the name of the variant as a metric label.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "not_found",
            Self::ImplementedElsewhere => "implemented_elsewhere",
            Self::Conflict(_) => "conflict",
            Self::Throttled(_) => "throttled",
            Self::InProgress(_) => "in_progress",
            Self::Denied(_) => "denied",
            Self::Invalid(_) => "invalid",
            Self::Unavailable(_) => "unavailable",
            Self::Internal(_) => "internal",
        }
    }
}

/// Why a call about a volume, an attachment or a snapshot failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// An error that any call can have.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// Something else has this name.
    #[error("exists and is different: {0}")]
    Exists(String),
    /// The cloud has no room for it, or a quota is used up.
    #[error("no capacity: {0}")]
    Exhausted(String),
    /// The cloud does not offer this size.
    #[error("out of range: {0}")]
    OutOfRange(String),
    /// It is attached elsewhere, or something else depends on it.
    #[error("in use: {0}")]
    InUse(String),
}

impl StorageError {
    /// Changes the text.
    #[must_use]
    pub fn map_text(self, change: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Cloud(error) => Self::Cloud(error.map_text(change)),
            Self::Exists(text) => Self::Exists(change(&text)),
            Self::Exhausted(text) => Self::Exhausted(change(&text)),
            Self::OutOfRange(text) => Self::OutOfRange(change(&text)),
            Self::InUse(text) => Self::InUse(change(&text)),
        }
    }

    /// Returns the name of the variant as a metric label.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Cloud(error) => error.kind(),
            Self::Exists(_) => "exists",
            Self::Exhausted(_) => "exhausted",
            Self::OutOfRange(_) => "out_of_range",
            Self::InUse(_) => "in_use",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_a_label_for_metrics_and_a_sentence_for_people() {
        let text = || "eu-1".to_owned();
        let retry = || Retry {
            after: Duration::from_millis(1500),
            message: text(),
        };
        for (error, kind, sentence) in [
            (CloudError::NotFound(text()), "not_found", "not found: eu-1"),
            (
                CloudError::ImplementedElsewhere,
                "implemented_elsewhere",
                "implemented elsewhere",
            ),
            (CloudError::Conflict(text()), "conflict", "conflict: eu-1"),
            (
                CloudError::Throttled(retry()),
                "throttled",
                "throttled by the cloud: eu-1 (retrying in 1.5s)",
            ),
            (
                CloudError::InProgress(retry()),
                "in_progress",
                "in progress: eu-1 (retrying in 1.5s)",
            ),
            (CloudError::Denied(text()), "denied", "denied: eu-1"),
            (CloudError::Invalid(text()), "invalid", "invalid: eu-1"),
            (
                CloudError::Unavailable(text()),
                "unavailable",
                "unavailable: eu-1",
            ),
            (
                CloudError::Internal(text()),
                "internal",
                "internal error: eu-1",
            ),
        ] {
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, sentence));
        }
    }
    #[test]
    fn an_error_about_volumes_has_a_label_and_a_sentence() {
        let text = || "vol-1".to_owned();
        for (error, kind, sentence) in [
            (
                StorageError::Cloud(CloudError::NotFound(text())),
                "not_found",
                "not found: vol-1",
            ),
            (
                StorageError::Exists(text()),
                "exists",
                "exists and is different: vol-1",
            ),
            (
                StorageError::Exhausted(text()),
                "exhausted",
                "no capacity: vol-1",
            ),
            (
                StorageError::OutOfRange(text()),
                "out_of_range",
                "out of range: vol-1",
            ),
            (StorageError::InUse(text()), "in_use", "in use: vol-1"),
        ] {
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, sentence));
            let changed = error.map_text(|text| text.replace("vol", "disk"));
            assert_eq!(changed.to_string(), sentence.replace("vol", "disk"));
        }
    }
}
