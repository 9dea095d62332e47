//! Constructors for the errors of a cloud.
use std::time::Duration;

use crate::types::{CloudError, Retry};

/// Result of every function of a plugin.
pub type Result<T> = std::result::Result<T, CloudError>;

/// Constructors for each case; [`CloudError`] describes what the host does with it. Messages are for people: one sentence, without
/// secrets.
impl CloudError {
    /// Creates an error: the cloud answered that the object does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::NotFound(message.into())
    }

    /// Creates an error: another writer changed the object at the same time.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::Conflict(message.into())
    }

    /// Creates an error: the cloud asks for fewer requests.
    pub fn throttled(after: Duration, message: impl Into<String>) -> Self {
        Self::Throttled(retry(after, message.into()))
    }

    /// Creates an error: the request was accepted, and is not finished yet.
    pub fn in_progress(after: Duration, message: impl Into<String>) -> Self {
        Self::InProgress(retry(after, message.into()))
    }

    /// Creates an error: credentials or permissions are missing.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::Denied(message.into())
    }

    /// Creates an error: the object, or the configuration, asks for something that this cloud cannot do.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// Creates an error: the cloud cannot be reached, or answers with a server error.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::Unavailable(message.into())
    }

    /// Creates an error for everything else.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::Internal(message.into())
    }
}

fn retry(after: Duration, message: String) -> Retry {
    Retry { after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_in_milliseconds() {
        let error = CloudError::in_progress(Duration::from_secs(5), "creating");
        assert_eq!(error, CloudError::InProgress(Retry { after_ms: 5000, message: "creating".into() }));
    }
}
