//! Converts the errors of a call for controllers, with where the call went.

use std::{fmt, time::Duration};

use skydock_cloud::{CloudError, Function, Retry, StorageError};

use crate::{answers::Element, call_error::CallError, load::source::Settings};

/// Delay after which a call that waited in vain for an instance queues again.
const QUEUE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Where a call went, for messages.
#[derive(Clone, Copy)]
pub(crate) struct CallSite<'a> {
    pub(crate) plugin: &'a str,
    pub(crate) generation: u64,
    pub(crate) function: Function,
    /// The configuration, whose secrets are redacted from errors.
    pub(crate) settings: &'a Settings,
}

impl fmt::Display for CallSite<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "plugin {} (generation {}), {}",
            self.plugin, self.generation, self.function
        )
    }
}

/// An error that an element of a batch can have.
pub(crate) trait ElementError: From<CloudError> + Send {
    /// Changes the text.
    #[must_use]
    fn change_text(self, change: impl Fn(&str) -> String) -> Self;
}

impl ElementError for CloudError {
    fn change_text(self, change: impl Fn(&str) -> String) -> Self {
        self.map_text(change)
    }
}

impl ElementError for StorageError {
    fn change_text(self, change: impl Fn(&str) -> String) -> Self {
        self.map_text(change)
    }
}

impl CallSite<'_> {
    /// Converts the error for controllers: to `Unavailable` if it may go away by itself, to
    /// `InProgress` if the call only waited for its turn, to `Internal` if someone must act.
    pub(crate) fn cloud_error(self, error: CallError) -> CloudError {
        let sentence = |error: &CallError| format!("{self}: {error}");

        let cloud_error = match error {
            CallError::Cloud(cloud_error) => cloud_error,
            // A configuration without this interface went into service while its controller was
            // running.
            CallError::Unsupported => CloudError::ImplementedElsewhere,
            // It says nothing about the object of the call, which only waited for its turn.
            CallError::TooBusy(_) => CloudError::InProgress(Retry {
                after: QUEUE_RETRY_DELAY,
                message: sentence(&error),
            }),
            _ if error.may_pass() => CloudError::Unavailable(sentence(&error)),
            _ => CloudError::Internal(sentence(&error)),
        };

        cloud_error.map_text(|text| self.settings.redact_secrets(text))
    }

    /// Converts one element of a batch for controllers. The outer error is one of the contract, the
    /// inner one is of the cloud.
    pub(crate) fn batch_element<T, E: ElementError>(self, element: Element<T, E>) -> Result<T, E> {
        match element {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(error.change_text(|text| self.settings.redact_secrets(text))),
            Err(error) => Err(self.cloud_error(CallError::BadAnswer(error)).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_error::HandleLimit;
    use skydock_resources::{deadline::Deadline, limits::Limits};

    fn settings() -> Settings {
        let options = [("password".to_owned(), "correct-horse".to_owned())];
        Settings::new(String::new(), Vec::new(), None, options.into())
    }

    fn call_site(settings: &Settings) -> CallSite<'_> {
        CallSite {
            plugin: "test",
            generation: 1,
            function: Function::Check,
            settings,
        }
    }

    #[test]
    fn secrets_of_the_configuration_are_redacted() {
        let error = CloudError::Denied("for me/correct-horse".to_owned());
        assert_eq!(
            call_site(&settings()).batch_element::<(), _>(Ok(Err(error))),
            Err(CloudError::Denied("for me/[redacted]".to_owned()))
        );

        let error = StorageError::InUse("by correct-horse".to_owned());
        assert_eq!(
            call_site(&settings()).batch_element::<(), _>(Ok(Err(error))),
            Err(StorageError::InUse("by [redacted]".to_owned()))
        );
    }

    #[test]
    fn exceeding_a_shared_limit_is_not_a_failure_of_the_call() {
        let settings = settings();
        let call_site = call_site(&settings);
        let table = [
            (CallError::Memory(1), true),
            (CallError::Table(1), true),
            (CallError::MemoryTotal(1), false),
            (CallError::Handles(HandleLimit::Count(1)), true),
            (CallError::HandlesTotal(HandleLimit::Memory(1)), false),
            (
                CallError::Waiting(Deadline::of_read(&Limits::default())),
                false,
            ),
        ];
        for (error, at_fault) in table {
            assert!(error.ends_instance(), "{error}");
            assert_eq!(error.is_plugin_failure(), at_fault, "{error}");
            let told = call_site.cloud_error(error);
            assert_eq!(
                matches!(told, CloudError::Internal(_)),
                at_fault,
                "it may pass by itself or not: {told:?}"
            );
        }
        assert!(!CallError::NoRoom.ends_instance() && !CallError::NoRoom.is_plugin_failure());
    }
}
