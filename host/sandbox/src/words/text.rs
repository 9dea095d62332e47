//! Text from plugins and their files, made safe for logs, events and errors. Errors contain such
//! text only through these types.

use std::fmt;

use skydock_cloud::text::{SENTENCE, shown};
use wasmtime::{FrameInfo, WasmBacktrace};

/// Maximum bytes of a name in a list, so that a whole list fits into a sentence.
const MAX_NAME: usize = 60;
/// Maximum number of names of a list that are shown.
const MAX_NAMES: usize = 10;
/// Maximum bytes of a plugin's output in a sentence, which leaves room for the rest of an event.
pub(crate) const LAST_WORDS: usize = 512;
/// Maximum bytes of a plugin's text that is quoted in a sentence.
const MAX_QUOTE: usize = 80;

/// A plugin's text in an error: short, escaped and quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quoted(String);

impl Quoted {
    pub(crate) fn new(text: &str) -> Self {
        Self(shown(text, MAX_QUOTE).into_owned())
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0)
    }
}

/// What a plugin wrote to standard error before it ended: short and escaped. It may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastWords(String);

impl LastWords {
    pub(crate) fn new(text: &str) -> Self {
        Self(shown(text, LAST_WORDS).into_owned())
    }
}

impl fmt::Display for LastWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, "; its last output: {}", self.0)
        }
    }
}

/// Names from a plugin's file: the first few of them, each short and escaped, and their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    first: Vec<String>,
    count: usize,
}

impl Names {
    /// Returns the first names, as they are shown.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.first.iter().map(String::as_str)
    }
}

impl<S: AsRef<str>> FromIterator<S> for Names {
    fn from_iter<T: IntoIterator<Item = S>>(names: T) -> Self {
        let mut all = Self::default();
        for name in names {
            if all.first.len() < MAX_NAMES {
                all.first.push(shown(name.as_ref(), MAX_NAME).into_owned());
            }
            all.count += 1;
        }

        all
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first.is_empty() {
            return f.write_str("nothing");
        }

        for (index, name) in self.first.iter().enumerate() {
            write!(f, "{}`{name}`", if index > 0 { ", " } else { "" })?;
        }

        match self.count - self.first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The cause of an error whose text a plugin or its file may have influenced: the root cause, short
/// and escaped.
///
/// The context that the WebAssembly runtime adds to an error is omitted: it contains the function
/// names in the plugin's file, which may be anything. The index of the function is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause(String);

impl Cause {
    /// Creates a cause from any displayable error.
    #[must_use]
    pub fn of(error: impl fmt::Display) -> Self {
        Self(shown(&error.to_string(), SENTENCE).into_owned())
    }
}

impl From<wasmtime::Error> for Cause {
    fn from(error: wasmtime::Error) -> Self {
        let root = error.root_cause().to_string();
        let root = shown(&root, SENTENCE);
        match first_function(&error) {
            Some(index) => Self(format!("{root} (in function {index} of its code)")),
            None => Self(root.into_owned()),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the index of the function that the guest was in, if the error came from the guest.
pub(crate) fn first_function(error: &wasmtime::Error) -> Option<u32> {
    // Frames of the code that `wit-component` puts between a guest and its host, recognized by its
    // table, are skipped.
    let between = |frame: &&FrameInfo| {
        frame
            .module()
            .exports()
            .any(|export| export.name() == "$imports")
    };

    let mut frames = error.downcast_ref::<WasmBacktrace>()?.frames().iter();
    frames
        .find(|frame| !between(frame))
        .map(FrameInfo::func_index)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds: SEC-15
    #[test]
    fn a_long_list_of_names_is_shortened() {
        assert_eq!(Names::default().to_string(), "nothing");
        assert_eq!(["a", "b"].iter().collect::<Names>().to_string(), "`a`, `b`");
        let forged = format!("x\n\u{1b}[2J{}", "A".repeat(100_000));
        let many = std::iter::repeat_n(forged, 5_000)
            .collect::<Names>()
            .to_string();
        assert!(
            many.len() < 1200 && many.starts_with("`x\\n\\u{1b}[2JAAA"),
            "{many}"
        );
        assert!(many.ends_with(" and 4990 more"), "{many}");
    }

    #[test]
    fn a_cause_is_the_root_cause_on_one_short_line() {
        let error = wasmtime::Error::msg("poll list is empty").context("at `evil\n` of its names");
        assert_eq!(Cause::from(error).to_string(), "poll list is empty");
        let long = Cause::of("\n".repeat(100_000)).to_string();
        assert!(long.len() <= 1024 && !long.contains('\n'));
    }

    // Holds: SEC-15
    #[test]
    fn a_quote_is_short_and_escaped() {
        assert_eq!(Quoted::new("a\nb").to_string(), "`a\\nb`");
        assert_eq!(Quoted::new(&"x".repeat(1000)).to_string().len(), 82);
    }
}
