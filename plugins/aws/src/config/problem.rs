//! A problem of the configuration and its position.

/// A problem of the configuration and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Problem {
    /// The line, starting at 1. `None` for the options of the plugin, which are not in a file.
    pub(crate) line: Option<usize>,
    /// What is wrong, and what is expected.
    pub(crate) reason: String,
}

impl Problem {
    /// Creates a problem at this line.
    pub(crate) fn at(line: Option<usize>, reason: impl Into<String>) -> Self {
        Self {
            line,
            reason: reason.into(),
        }
    }
}
