//! A problem of the configuration and its position.

/// A problem of the configuration and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {reason}")]
pub(crate) struct Problem {
    /// The line, starting at 1, or 0 for the options of the plugin, which are not in a file.
    pub(crate) line: usize,
    /// What is wrong, and what is expected.
    pub(crate) reason: String,
}

impl Problem {
    /// Creates a problem at this line.
    pub(crate) fn at(line: usize, reason: impl Into<String>) -> Self {
        Self {
            line,
            reason: reason.into(),
        }
    }
}
