//! The name of a new provider.

use std::str::FromStr;

/// Maximum length: that of a label in a domain name, since the name is part of one
/// (`NAME.example/rack`).
const MAX_LENGTH: usize = 63;

/// Names that a project cannot have: words of Rust, and the packages that every provider uses.
const RESERVED: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "skydock",
    "skydock-sdk",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

/// A name that is valid for a crate, for the scheme of a URI, and in the domain of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProviderName(String);

/// Why a name is not valid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    /// It has other characters, or is too long.
    #[error(
        "expected at most {MAX_LENGTH} characters a-z, 0-9 and -, with a letter first and no - at the end, for example my-cloud"
    )]
    Form,
    /// It is a word of Rust, or the name of a package that every provider uses.
    #[error("this name is reserved; choose another, for example {0}-cloud")]
    Reserved(String),
}

impl ProviderName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the library, and thus of the WebAssembly file.
    pub(crate) fn library(&self) -> String {
        self.0.replace('-', "_")
    }
}

impl FromStr for ProviderName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let allowed = |character: char| {
            character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-'
        };
        let is_valid = text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.chars().all(allowed)
            && !text.ends_with('-')
            && text.len() <= MAX_LENGTH;

        if !is_valid {
            return Err(NameError::Form);
        }
        if RESERVED.contains(&text) {
            return Err(NameError::Reserved(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_valid_for_a_crate_a_uri_and_a_domain() {
        let longest = "a".repeat(MAX_LENGTH);
        for text in ["my-cloud", "a", "metal2", "a--b", &longest] {
            assert_eq!(text.parse::<ProviderName>().unwrap().as_str(), text);
        }
        let too_long = format!("{longest}a");
        for text in [
            "", "2metal", "-a", "a-", "My-cloud", "my_cloud", "my cloud", "a/b", "../a", "müller",
            "a.b", &too_long,
        ] {
            assert_eq!(text.parse::<ProviderName>(), Err(NameError::Form), "{text}");
        }
    }

    #[test]
    fn words_of_rust_are_not_names() {
        for text in ["static", "crate", "std", "test", "skydock-sdk"] {
            assert_eq!(
                text.parse::<ProviderName>(),
                Err(NameError::Reserved(text.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn a_library_has_underscores() {
        assert_eq!(
            "my-big-cloud".parse::<ProviderName>().unwrap().library(),
            "my_big_cloud"
        );
    }
}
