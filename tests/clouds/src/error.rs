//! Errors of clouds.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// The reason why a cloud could not do what was requested.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written, or a program could not be started.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The action: "read", "start", …
        action: &'static str,
        /// The file, folder or program.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },

    /// A requirement is missing and cannot be fetched.
    #[error("{what} is needed: {hint}")]
    Missing {
        /// The missing requirement.
        what: &'static str,
        /// How to get it.
        hint: String,
    },

    /// A program that installs or prepares something failed.
    #[error("{chore} failed with {status}; its last lines:\n{output}")]
    Chore {
        /// The task of the program.
        chore: String,
        /// The exit status.
        status: ExitStatus,
        /// The end of its output.
        output: String,
    },

    /// A cloud ended unexpectedly.
    #[error("the cloud in {} ended with {status}; its last lines:\n{log}", home.display())]
    Ended {
        /// The folder of the cloud.
        home: PathBuf,
        /// The exit status.
        status: ExitStatus,
        /// The last lines of its log.
        log: String,
    },

    /// A condition was not met in time.
    #[error("waited {} s in vain for {what}; last seen: {seen}", waited.as_secs())]
    TimedOut {
        /// The condition.
        what: String,
        /// How long it was waited for.
        waited: Duration,
        /// The last state that was seen.
        seen: String,
    },

    /// The cloud answered a request with an error.
    #[error("{request} was answered with {status}: {body}")]
    Rejected {
        /// The method and URL, or the action.
        request: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of the answer.
        body: String,
    },

    /// A required field is missing in an answer.
    #[error("the answer to {request} has no {field}: {body}")]
    Unexpected {
        /// The method and URL, or the action.
        request: String,
        /// The missing field.
        field: String,
        /// The beginning of the answer.
        body: String,
    },

    /// A local problem: no port, no cache folder, no connection.
    #[error("cannot {action}: {reason}")]
    Setup {
        /// The action.
        action: String,
        /// The reason.
        reason: String,
    },
}

impl Error {
    /// Returns a closure for `map_err` of file operations.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// Returns a closure for `map_err` that converts any error to [`Error::Setup`].
    pub(crate) fn setup<E: std::fmt::Display>(action: impl Into<String>) -> impl FnOnce(E) -> Self {
        let action = action.into();
        move |reason| Self::Setup {
            action,
            reason: reason.to_string(),
        }
    }
}

/// Returns the part of an answer that an error shows.
pub(crate) fn beginning(body: &[u8]) -> String {
    const SHOWN: usize = 1000;
    String::from_utf8_lossy(body).chars().take(SHOWN).collect()
}

/// Returns the last lines of a text that an error shows.
pub(crate) fn last_lines(text: &str) -> String {
    const SHOWN: usize = 20;
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let skipped = lines.len().saturating_sub(SHOWN);
    lines
        .into_iter()
        .skip(skipped)
        .collect::<Vec<_>>()
        .join("\n")
}
