//! The ways a cloud can fail.

use std::time::Duration;

/// When to ask again, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How long to wait.
    pub after: Duration,
    /// One sentence for the operator.
    pub message: String,
}

impl std::fmt::Display for Retry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (asking again in {:?})", self.message, self.after)
    }
}

/// Why a cloud did not give what was asked. Controllers decide by the case, never by the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    /// The cloud answered, and the thing is not there.
    #[error("not found: {0}")]
    NotFound(String),
    /// Another implementation owns this object: leave it alone.
    #[error("implemented elsewhere")]
    ImplementedElsewhere,
    /// Lost a race against another writer: try again soon.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The cloud asks to slow down.
    #[error("throttled by the cloud: {0}")]
    Throttled(Retry),
    /// Accepted and not finished: ask again, this is no failure.
    #[error("in progress: {0}")]
    InProgress(Retry),
    /// Credentials or permissions are missing.
    #[error("denied: {0}")]
    Denied(String),
    /// The object asks for what this cloud cannot do: no retry until it changes.
    #[error("invalid: {0}")]
    Invalid(String),
    /// The cloud, or the plugin that speaks for it, cannot be reached in time: back off.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// Anything else, a broken plugin included: back off.
    #[error("internal error: {0}")]
    Internal(String),
}

impl CloudError {
    /// The case as a metric label.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_a_label_for_metrics_and_a_sentence_for_people() {
        let text = || "eu-1".to_owned();
        let retry = || Retry { after: Duration::from_millis(1500), message: text() };
        for (error, kind, sentence) in [
            (CloudError::NotFound(text()), "not_found", "not found: eu-1"),
            (CloudError::ImplementedElsewhere, "implemented_elsewhere", "implemented elsewhere"),
            (CloudError::Conflict(text()), "conflict", "conflict: eu-1"),
            (CloudError::Throttled(retry()), "throttled", "throttled by the cloud: eu-1 (asking again in 1.5s)"),
            (CloudError::InProgress(retry()), "in_progress", "in progress: eu-1 (asking again in 1.5s)"),
            (CloudError::Denied(text()), "denied", "denied: eu-1"),
            (CloudError::Invalid(text()), "invalid", "invalid: eu-1"),
            (CloudError::Unavailable(text()), "unavailable", "unavailable: eu-1"),
            (CloudError::Internal(text()), "internal", "internal error: eu-1"),
        ] {
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, sentence));
        }
    }
}
