//! Errors in a configuration file, with their position.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde_saphyr::{Error, Location, MessageFormatter, UserMessageFormatter};
use skydock_cloud::text::{SENTENCE, shown};

/// Minimum similarity of two words for a suggestion, from 0 to 1.
const ALIKE: f64 = 0.7;

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file does not exist, or cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The content is not valid.
    #[error("{}:{problem}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The mistake and its position.
        problem: Problem,
    },
}

impl ConfigurationError {
    /// Creates an error without a position.
    pub(crate) fn said(path: &Path, sentence: String) -> Self {
        Self::Wrong {
            path: path.to_owned(),
            problem: Problem::of_the_whole(sentence),
        }
    }
}

/// A mistake: `LINE:COLUMN: SENTENCE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    place: Option<(u64, u64)>,
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
            place: place.map(|at| (at.line(), at.column())),
            sentence: shown(&sentence, SENTENCE).into_owned(),
        }
    }

    pub(super) fn of_the_whole(sentence: impl Into<String>) -> Self {
        Self {
            place: None,
            sentence: sentence.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.place {
            write!(f, "{line}:{column}:")?;
        }
        write!(f, " {}", self.sentence)
    }
}

fn unknown(what: &str, found: &str, known: &[&'static str]) -> String {
    let alike = |word: &&&str| strsim::jaro_winkler(&word.to_lowercase(), &found.to_lowercase());
    let nearest = known
        .iter()
        .max_by(|a, b| alike(a).total_cmp(&alike(b)))
        .filter(|word| alike(word) >= ALIKE);
    match nearest {
        Some(word) => format!("unknown {what} `{found}`; did you mean `{word}`?"),
        None => format!(
            "unknown {what} `{found}`; expected one of `{}`",
            known.join("`, `")
        ),
    }
}
