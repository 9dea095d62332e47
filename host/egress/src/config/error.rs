//! What is wrong with a list of rules.

use std::fmt;

/// A mistake in one field of one rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("egress rule `{rule}`, field `{field}`: {problem}")]
pub struct ConfigError {
    pub(super) rule: String,
    pub(super) field: &'static str,
    pub(super) problem: String,
}

impl ConfigError {
    /// The rule's name, or its place in the list if it has no usable one.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// The field's name as it is written.
    #[must_use]
    pub fn field(&self) -> &'static str {
        self.field
    }
}

/// Every mistake in a list of rules; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(pub(super) Vec<ConfigError>);

impl ConfigErrors {
    /// One by one.
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
