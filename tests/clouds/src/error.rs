use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Why a cloud could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written, or a program not be started.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: "read", "start" …
        action: &'static str,
        /// What it was tried on.
        path: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },

    /// Something that has to be there is not, and cannot be fetched.
    #[error("{what} is needed: {hint}")]
    Missing {
        /// What is not there.
        what: &'static str,
        /// How to get it.
        hint: String,
    },

    /// A program that installs or prepares something failed.
    #[error("{chore} failed with {status}; its last lines:\n{output}")]
    Chore {
        /// What it was to do.
        chore: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it wrote.
        output: String,
    },

    /// A cloud ended by itself.
    #[error("the cloud in {} ended with {status}; its last lines:\n{log}", home.display())]
    Ended {
        /// Its folder.
        home: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// The last lines of its log.
        log: String,
    },

    /// Something did not come true in time.
    #[error("waited {} s in vain for {what}; last seen: {seen}", waited.as_secs())]
    TimedOut {
        /// What was waited for.
        what: String,
        /// For how long.
        waited: Duration,
        /// The last that was seen of it.
        seen: String,
    },

    /// The cloud answered a request of ours with something else than success.
    #[error("{request} was answered with {status}: {body}")]
    Refused {
        /// Method and address, or the action.
        request: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of the answer.
        body: String,
    },

    /// An answer without what has to be in it.
    #[error("the answer to {request} has no {field}: {body}")]
    Unexpected {
        /// Method and address, or the action.
        request: String,
        /// What is not there.
        field: String,
        /// The beginning of the answer.
        body: String,
    },

    /// Something near at hand failed: no port, no cache folder, no connection.
    #[error("cannot {action}: {reason}")]
    Setup {
        /// What was tried.
        action: String,
        /// Why it failed.
        reason: String,
    },
}

impl Error {
    /// For `map_err` on file operations.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// For `map_err` on everything that only needs to be told.
    pub(crate) fn setup<E: std::fmt::Display>(action: impl Into<String>) -> impl FnOnce(E) -> Self {
        let action = action.into();
        move |reason| Self::Setup { action, reason: reason.to_string() }
    }
}

/// As much of an answer as an error shows.
pub(crate) fn beginning(body: &[u8]) -> String {
    const SHOWN: usize = 1000;
    String::from_utf8_lossy(body).chars().take(SHOWN).collect()
}

/// The last lines of a text, as many as an error shows.
pub(crate) fn last_lines(text: &str) -> String {
    const SHOWN: usize = 20;
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let skipped = lines.len().saturating_sub(SHOWN);
    lines.into_iter().skip(skipped).collect::<Vec<_>>().join("\n")
}
