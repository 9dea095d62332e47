//! Short ways to say how a cloud failed.
use std::time::Duration;

use crate::types::{CloudError, Retry};

/// What every function of a plugin answers.
pub type Result<T> = std::result::Result<T, CloudError>;

/// Constructors for each case; see [`CloudError`] for what the host does with it. Messages are for people: one sentence,
/// no secrets.
impl CloudError {
    /// The cloud answered, and the thing is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::NotFound(message.into())
    }

    /// A race against another writer was lost.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::Conflict(message.into())
    }

    /// The cloud asks to slow down.
    pub fn throttled(after: Duration, message: impl Into<String>) -> Self {
        Self::Throttled(retry(after, message.into()))
    }

    /// Accepted, and not finished yet.
    pub fn in_progress(after: Duration, message: impl Into<String>) -> Self {
        Self::InProgress(retry(after, message.into()))
    }

    /// Credentials or permissions are missing.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::Denied(message.into())
    }

    /// The object, or the configuration, asks for what this cloud cannot do.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// The cloud cannot be reached, or answers with a server error.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::Unavailable(message.into())
    }

    /// Anything else.
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
    fn a_delay_is_told_in_milliseconds() {
        let error = CloudError::in_progress(Duration::from_secs(5), "creating");
        assert_eq!(error, CloudError::InProgress(Retry { after_ms: 5000, message: "creating".into() }));
    }
}
