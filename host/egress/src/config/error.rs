//! Errors in a list of rules.

use std::fmt;

/// A mistake in one field of one rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("egress rule `{rule}`, field `{field}`: {problem}")]
pub struct ConfigError {
    pub(crate) rule: String,
    pub(crate) field: &'static str,
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
