//! Errors in a list of rules.

use std::fmt;

/// A mistake in one field of one rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("egress rule `{rule}`, field `{field}`: {problem}")]
pub struct ConfigError {
    pub(crate) rule: String,
    pub(crate) index: usize,
    pub(crate) field: &'static str,
    pub(crate) item: Option<usize>,
    pub(crate) problem: String,
}

impl ConfigError {
    /// Returns the name of the rule, or its position in the list if it does not have a valid name.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Returns the name of the field as in the configuration.
    #[must_use]
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// Returns the position of the rule in the list.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the position of the wrong value in the field, if that is a list.
    #[must_use]
    pub fn item(&self) -> Option<usize> {
        self.item
    }

    /// Returns what is wrong, without the rule and the field.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

/// All mistakes in a list of rules; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(pub(crate) Vec<ConfigError>);

impl ConfigErrors {
    /// Iterates over the mistakes.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if number == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// A rule that is valid but may not do what was intended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigWarning {
    pub(crate) index: usize,
    pub(crate) field: &'static str,
    pub(crate) sentence: String,
}

impl ConfigWarning {
    /// Returns the position of the rule in the list.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the name of the field, or an empty text for the whole rule.
    #[must_use]
    pub fn field(&self) -> &'static str {
        self.field
    }
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}
