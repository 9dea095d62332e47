//! Text from plugins and their files, made fit for logs, events and errors: nothing of it gets into an error but through the
//! types here.

use std::fmt;

use skydock_cloud::text::{SENTENCE, shown};
use wasmtime::{FrameInfo, WasmBacktrace};

/// Bytes of a name in a list: a whole list fits into a sentence.
const MAX_NAME: usize = 60;
/// Names of a list that are shown.
const MAX_NAMES: usize = 10;
/// Bytes of a plugin's word in a sentence.
const MAX_QUOTE: usize = 80;

/// Text of a plugin in an error: short, escaped and quoted.
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

/// Names that a plugin's file gives: the first few of them, each short and escaped, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    first: Vec<String>,
    count: usize,
}

impl Names {
    /// The first names, as they are shown.
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

/// What went wrong below, where a plugin or its file may have had a say in the words: the first cause, short and escaped.
///
/// The context that WebAssembly's runtime puts around an error is left out: it holds the names that the plugin's file
/// gives to its functions, which may be anything. The index of the function stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause(String);

impl Cause {
    /// The cause, in whatever words it has.
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

/// Index of the function that the guest was in, if the error came out of the guest.
pub(crate) fn first_function(error: &wasmtime::Error) -> Option<u32> {
    // What `wit-component` puts between a guest and its host, known by its table, says nothing of the guest.
    let between = |frame: &&FrameInfo| frame.module().exports().any(|export| export.name() == "$imports");
    let mut frames = error.downcast_ref::<WasmBacktrace>()?.frames().iter();
    frames.find(|frame| !between(frame)).map(FrameInfo::func_index)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds: SEC-15
    #[test]
    fn a_list_of_names_is_short_however_long_it_is() {
        assert_eq!(Names::default().to_string(), "nothing");
        assert_eq!(["a", "b"].iter().collect::<Names>().to_string(), "`a`, `b`");
        let forged = format!("x\n\u{1b}[2J{}", "A".repeat(100_000));
        let many = std::iter::repeat_n(forged, 5_000).collect::<Names>().to_string();
        assert!(many.len() < 1200 && many.starts_with("`x\\n\\u{1b}[2JAAA"), "{many}");
        assert!(many.ends_with(" and 4990 more"), "{many}");
    }

    #[test]
    fn a_cause_is_the_first_one_and_fits_into_a_sentence() {
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
