//! Errors in a configuration file, with their position.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde_saphyr::{Error, Location, MessageFormatter, UserMessageFormatter};
use skydock_cloud::text::{SENTENCE, shown};

/// Minimum similarity of two words for a suggestion, from 0 to 1.
const ALIKE: f64 = 0.7;

use super::tree::{self, Fault, Mistake, Place};

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file does not exist, or cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The content is not valid.
    #[error("{}", listed(path, problems))]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The mistakes and their positions; at least one.
        problems: Vec<Problem>,
    },
}

/// Returns all mistakes in one line.
fn listed(path: &Path, problems: &[Problem]) -> String {
    let each = |problem: &Problem| format!("{}:{problem}", path.display());
    problems.iter().map(each).collect::<Vec<_>>().join("; ")
}

impl ConfigurationError {
    /// Creates an error without a position.
    pub(crate) fn without_position(path: &Path, sentence: String) -> Self {
        Self::Wrong {
            path: path.to_owned(),
            problems: vec![Problem::of_the_whole(sentence)],
        }
    }
}

/// Returns a sentence whose values may be secrets, in the place of their files.
fn without_secrets(sentence: &str) -> String {
    let redacted = skydock_secrets::redacted(sentence);
    shown(&skydock_secrets::without_generated(&redacted), SENTENCE).into_owned()
}

/// A mistake: `LINE:COLUMN: PATH: SENTENCE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    place: Option<Place>,
    /// Where it is in the structure of the file, for example `plugins[0].egress[2].to`; empty for
    /// the file itself.
    path: String,
    sentence: String,
}

impl Problem {
    pub(super) fn new(error: &Error) -> Self {
        let error = error.without_snippet();
        let sentence = match error {
            Error::SerdeUnknownField {
                field, expected, ..
            } => unknown("field", field, expected),
            Error::SerdeUnknownVariant {
                variant, expected, ..
            } => unknown("word", variant, expected),
            error => UserMessageFormatter.format_message(error).into_owned(),
        };

        let place = error
            .location()
            .filter(|location| *location != Location::UNKNOWN);

        Self {
            place: place.map(|at| Place {
                line: at.line(),
                column: at.column(),
            }),
            path: String::new(),
            sentence: without_secrets(&sentence),
        }
    }

    /// Creates a problem of what is at this place.
    pub(super) fn at(place: Place, path: &tree::Path, sentence: impl AsRef<str>) -> Self {
        Self {
            place: Some(place),
            path: shown(&path.to_string(), SENTENCE).into_owned(),
            sentence: without_secrets(sentence.as_ref()),
        }
    }

    /// Creates the problem of a value that could not be read.
    pub(super) fn of_fault(fault: &Fault, place: Place, path: &tree::Path) -> Self {
        let sentence = match &fault.mistake {
            Mistake::UnknownField { field, expected } => unknown("field", field, expected),
            Mistake::UnknownWord { word, expected } => unknown("word", word, expected),
            Mistake::MissingField(field) => format!("missing field `{field}`"),
            Mistake::Other(sentence) => sentence.clone(),
        };
        Self::at(place, path, sentence)
    }

    /// Returns the problem as a line for editors, which begins with `FILE:LINE:COLUMN`.
    pub(crate) fn line(&self, file: &Path, severity: &str) -> String {
        let place = self
            .place
            .map(|at| format!("{}:{}:", at.line, at.column))
            .unwrap_or_default();
        let path = match self.path.as_str() {
            "" => String::new(),
            path => format!("{path}: "),
        };

        let file = file.display();
        format!("{file}:{place} {severity}: {path}{}", self.sentence)
    }

    /// Returns true if the problem is in what the path leads to.
    pub(crate) fn is_within(&self, path: &tree::Path) -> bool {
        let path = path.to_string();
        self.path
            .strip_prefix(&path)
            // A longer name with the same beginning is another field.
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }

    /// Returns its place, if it has any.
    pub(super) fn place(&self) -> Option<Place> {
        self.place
    }

    pub(super) fn of_the_whole(sentence: impl Into<String>) -> Self {
        Self {
            place: None,
            path: String::new(),
            sentence: sentence.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Place { line, column }) = self.place {
            write!(f, "{line}:{column}:")?;
        }
        if !self.path.is_empty() {
            write!(f, " {}:", self.path)?;
        }
        write!(f, " {}", self.sentence)
    }
}

/// Returns the known word that is most similar to the one that was found, if any is.
pub(super) fn nearest(found: &str, known: &[&'static str]) -> Option<&'static str> {
    // Of several that begin with it, the first is the usual one.
    let begun = known
        .iter()
        .find(|word| found.len() > 2 && word.starts_with(found));
    if begun.is_some() {
        return begun.copied();
    }

    let alike = |word: &&&str| strsim::jaro_winkler(&word.to_lowercase(), &found.to_lowercase());
    let nearest = known
        .iter()
        .max_by(|a, b| alike(a).total_cmp(&alike(b)))
        .filter(|word| alike(word) >= ALIKE);
    nearest.copied()
}

fn unknown(what: &str, found: &str, known: &[&'static str]) -> String {
    match nearest(found, known) {
        Some(word) => format!("unknown {what} `{found}`; did you mean `{word}`?"),
        None => format!(
            "unknown {what} `{found}`; expected one of `{}`",
            known.join("`, `")
        ),
    }
}
