//! Where a value is in the structure of a file.

use std::fmt;

/// A step from a value to one in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The field of a map.
    Key(String),
    /// The item of a list.
    Index(usize),
}

/// The way from the root of a file to a value. Its text is for example `plugins[0].egress[2].to`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path(Vec<Step>);

impl Path {
    /// Appends a field.
    #[must_use]
    pub(crate) fn key(mut self, key: &str) -> Self {
        self.0.push(Step::Key(key.to_owned()));
        self
    }

    /// Appends an item.
    #[must_use]
    pub(crate) fn index(mut self, index: usize) -> Self {
        self.0.push(Step::Index(index));
        self
    }

    /// Appends fields that are separated by dots.
    #[must_use]
    pub(crate) fn keys(self, dotted: &str) -> Self {
        dotted
            .split('.')
            .filter(|key| !key.is_empty())
            .fold(self, Self::key)
    }

    /// Appends another path.
    #[must_use]
    pub(crate) fn join(mut self, rest: &Self) -> Self {
        self.0.extend(rest.0.iter().cloned());
        self
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Returns true if this path leads to what the other one leads to, or into it.
    pub(crate) fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// Returns true if this path leads to a part of what the other one leads to, one step away.
    pub(crate) fn is_in(&self, other: &Self) -> bool {
        self.0
            .split_last()
            .is_some_and(|(_, outer)| outer == other.0)
    }
}

impl FromIterator<Step> for Path {
    fn from_iter<I: IntoIterator<Item = Step>>(steps: I) -> Self {
        Self(steps.into_iter().collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if number == 0 => write!(f, "{key}")?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
