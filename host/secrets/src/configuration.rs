//! Decides whether a configuration contains a secret.

use std::fmt;

use crate::{Found, What, document, has_certain, secrets, value::is_trivial};

/// The first secret in a configuration. It shows the line and the name, but never the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Number of the line, from 1; none if only parsing the document shows the secret.
    pub line: Option<usize>,
    /// What it is found by.
    pub what: What,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => self.what.fmt(f),
        }
    }
}

/// Returns the first secret in the text of a configuration, whatever its format. Comments count,
/// unless they are sentences; empty values, booleans and masks do not.
#[must_use]
pub fn in_configuration(text: &str) -> Option<Finding> {
    in_text(text).or_else(|| {
        let is_secret = |inner: &str| has_certain(inner, &secrets(inner));
        let name = document::first(text, is_secret)?;
        Some(Finding {
            line: None,
            what: What::Named(name),
        })
    })
}

fn in_text(text: &str) -> Option<Finding> {
    let found = secrets(text);
    let first = found.iter().find(|it| is_kept(text, it))?;
    let before = text.get(..first.range.start)?;
    Some(Finding {
        line: Some(before.matches('\n').count() + 1),
        what: first.what.clone(),
    })
}

/// Returns true if this must not be in a configuration.
fn is_kept(text: &str, found: &Found) -> bool {
    let value = text.get(found.range.clone()).unwrap_or_default();
    let is_explanation = || found.is_prose && is_comment(text, found.range.start);
    !is_trivial(value) && !is_explanation()
}

/// Returns true if a place is in a comment of YAML, INI, JSON with comments, or XML. A comment that
/// begins far before counts as none.
fn is_comment(text: &str, at: usize) -> bool {
    const NEAR: usize = 1 << 10;
    const SIGNS: [&str; 6] = ["#", ";", "//", "/*", "<!--", "--"];

    let from = text.ceil_char_boundary(at.saturating_sub(NEAR));
    let before = text.get(from..at).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.split_whitespace()
        .any(|word| SIGNS.iter().any(|sign| word.starts_with(sign)))
}

#[cfg(test)]
mod tests;
