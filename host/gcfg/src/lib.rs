//! Parses the configuration files of cloud providers in Go, for example `cloud.conf`: the syntax of
//! the library `gopkg.in/gcfg.v1`, which is that of Git's configuration with differences.
//!
//! - A section is `[name]` or `[name "subsection"]`, alone in its line. In the name of a subsection,
//!   `\\` and `\"` are escapes.
//! - A setting is `key = value`, or a key without a value. It may occur several times.
//! - A comment is from `#` or `;` to the end of the line.
//! - Quotes and whitespace around a value are removed. In quotes, `\\`, `\"`, `\n` and `\t` are escapes.
//!   Outside quotes, a backslash is allowed before a quote, and at the end of a line to continue on
//!   the next line.
//! - Carriage returns in a value are removed, also in quotes.
//!
//! Names of sections and keys begin with an ASCII letter, followed by letters, digits, `-` and `_`.
//! gcfg also allows letters of other alphabets, which no provider uses, and rejects `_`, which users
//! of this crate report as a part of an unknown name.
//!
//! The host and plugins use this crate, so that both see the same settings in a file.

#![forbid(unsafe_code)]

mod cursor;
mod statement;

use std::{fmt, ops::Range};

use self::{
    cursor::Cursor,
    statement::{Statement, read},
};

/// What is in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Headers of sections and settings, in the order of the file.
    pub entries: Vec<Entry>,
    /// Where comments are, in bytes, without the ends of their lines.
    pub comments: Vec<Range<usize>>,
    /// What is not valid, in the order of the file.
    pub problems: Vec<Problem>,
}

/// The header of a section if `key` is `None`, otherwise a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name of the section as written. Case does not matter.
    pub section: String,
    /// The name of the subsection, or empty.
    pub subsection: String,
    /// The name of the setting as written. Case does not matter.
    pub key: Option<String>,
    /// The value, or `None` for a key without a value.
    pub value: Option<String>,
    /// The numbers of its lines, from 1.
    pub lines: Range<usize>,
}

/// A line that is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The number of the line, from 1. If a value continues on further lines, the first one.
    pub line: usize,
    /// The name of the setting, or what is in its place, which may be a part of a secret.
    pub key: Option<String>,
    /// What is wrong or expected, without anything from the file.
    pub reason: &'static str,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "`{key}`: {}", self.reason),
            None => f.write_str(self.reason),
        }
    }
}

/// Parses a file. A line that is not valid is reported and skipped, so that all problems are found
/// at once.
#[must_use]
pub fn parse(text: &str) -> File {
    let mut file = File::default();
    let mut cursor = Cursor::new(text);
    let mut section = None;

    while !cursor.is_at_end() {
        let line = cursor.line();
        let statement = read(&mut cursor);
        let lines = line..cursor.line().saturating_add(1);
        let entry = |(section, subsection): &(String, String), key, value| Entry {
            section: section.clone(),
            subsection: subsection.clone(),
            key,
            value,
            lines,
        };

        match (statement, &section) {
            (Ok(None), _) => {}
            (Ok(Some(Statement::Header(name, subsection))), _) => {
                let header = section.insert((name, subsection));
                file.entries.push(entry(header, None, None));
            }
            (Ok(Some(Statement::Setting(key, value))), Some(header)) => {
                file.entries.push(entry(header, Some(key), value));
            }
            (Ok(Some(Statement::Setting(key, _))), None) => file.problems.push(Problem {
                line,
                key: Some(key),
                reason: "this setting is before the first section",
            }),
            (Err((key, reason)), _) => file.problems.push(Problem { line, key, reason }),
        }

        let is_comment = matches!(cursor.peek(), Some('#' | ';'));
        let rest = cursor.skip_line();
        if is_comment {
            file.comments.push(rest);
        }
    }

    file
}

/// Returns the boolean that a setting has. A key without a value means true. `None` if the value is
/// not a boolean.
#[must_use]
pub fn boolean(value: Option<&str>) -> Option<bool> {
    match value.map(str::to_ascii_lowercase).as_deref() {
        None | Some("true" | "yes" | "on" | "1") => Some(true),
        Some("false" | "no" | "off" | "0") => Some(false),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests;
