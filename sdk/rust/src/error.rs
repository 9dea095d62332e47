//! Constructors for the errors of a cloud.
use std::fmt::Display;
use std::time::Duration;

use crate::storage::StorageError;
use crate::types::{CloudError, Retry};

/// Result of every function of a plugin. Elements of calls about volumes and snapshots have a
/// [`StorageError`].
pub type Result<T, E = CloudError> = std::result::Result<T, E>;

/// Constructors for each case; [`CloudError`] describes what the host does with it. Messages are
/// for people: one sentence, without secrets. `Display` is generated for developers, like `Debug`:
/// use [`message`](CloudError::message) for people.
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

    /// Creates an error: the object, or the configuration, asks for something that this cloud
    /// cannot do.
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

    /// Returns the message, without the case.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::NotFound(message)
            | Self::Conflict(message)
            | Self::Denied(message)
            | Self::Invalid(message)
            | Self::Unavailable(message)
            | Self::Internal(message)
            | Self::Throttled(Retry { message, .. })
            | Self::InProgress(Retry { message, .. }) => message,
            Self::ImplementedElsewhere => "it belongs to another implementation",
        }
    }

    /// Returns the same error with a text before its message, for example what was tried.
    ///
    /// ```
    /// use skydock_sdk::types::CloudError;
    ///
    /// let error = CloudError::unavailable("HTTP 503").about("cannot list the servers");
    /// assert_eq!(error, CloudError::unavailable("cannot list the servers: HTTP 503"));
    /// ```
    #[must_use]
    pub fn about(mut self, what: impl Display) -> Self {
        let text = format!("{what}: {}", self.message());

        match &mut self {
            Self::NotFound(message)
            | Self::Conflict(message)
            | Self::Denied(message)
            | Self::Invalid(message)
            | Self::Unavailable(message)
            | Self::Internal(message)
            | Self::Throttled(Retry { message, .. })
            | Self::InProgress(Retry { message, .. }) => *message = text,
            Self::ImplementedElsewhere => {}
        }

        self
    }
}

/// Constructors for each case; [`StorageError`] describes what the host does with it. For all other
/// errors, use [`CloudError`] with `?` or `into`.
impl StorageError {
    /// Creates an error: something else has this name.
    pub fn exists(message: impl Into<String>) -> Self {
        Self::Exists(message.into())
    }

    /// Creates an error: the cloud has no room for it, or a quota is used up.
    pub fn exhausted(message: impl Into<String>) -> Self {
        Self::Exhausted(message.into())
    }

    /// Creates an error: the cloud does not offer this size.
    pub fn out_of_range(message: impl Into<String>) -> Self {
        Self::OutOfRange(message.into())
    }

    /// Creates an error: it is attached to another node, or something else depends on it.
    pub fn in_use(message: impl Into<String>) -> Self {
        Self::InUse(message.into())
    }
}

impl From<CloudError> for StorageError {
    fn from(error: CloudError) -> Self {
        Self::Cloud(error)
    }
}

fn retry(after: Duration, message: String) -> Retry {
    Retry {
        after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_in_milliseconds() {
        let error = CloudError::in_progress(Duration::from_secs(5), "creating");
        assert_eq!(
            error,
            CloudError::InProgress(Retry {
                after_ms: 5000,
                message: "creating".into()
            })
        );
    }

    #[test]
    fn each_constructor_creates_its_case() {
        let text = || "vol-1".to_owned();
        for (error, expected) in [
            (StorageError::exists("vol-1"), StorageError::Exists(text())),
            (
                StorageError::exhausted("vol-1"),
                StorageError::Exhausted(text()),
            ),
            (
                StorageError::out_of_range("vol-1"),
                StorageError::OutOfRange(text()),
            ),
            (StorageError::in_use("vol-1"), StorageError::InUse(text())),
            (
                CloudError::not_found("vol-1").into(),
                StorageError::Cloud(CloudError::NotFound(text())),
            ),
        ] {
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn a_text_is_put_before_the_message_of_each_case() {
        let second = Duration::from_secs(1);
        for case in [
            |text: &str| CloudError::not_found(text),
            |text: &str| CloudError::conflict(text),
            |text: &str| CloudError::denied(text),
            |text: &str| CloudError::invalid(text),
            |text: &str| CloudError::unavailable(text),
            |text: &str| CloudError::internal(text),
        ] {
            assert_eq!(
                (case("a").message(), case("a").about("b")),
                ("a", case("b: a"))
            );
        }
        assert_eq!(
            CloudError::throttled(second, "a").about("b"),
            CloudError::throttled(second, "b: a")
        );
        assert_eq!(
            CloudError::in_progress(second, "a").about("b"),
            CloudError::in_progress(second, "b: a")
        );
        assert_eq!(CloudError::in_progress(second, "a").message(), "a");
        assert_eq!(
            CloudError::ImplementedElsewhere.about("b"),
            CloudError::ImplementedElsewhere
        );
    }
}
