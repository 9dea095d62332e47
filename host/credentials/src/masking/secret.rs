//! Secrets: values that can be used but are never displayed.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use base64::{Engine as _, engine::general_purpose};
use http::HeaderValue;
use zeroize::Zeroizing;

use crate::masking::{
    encodings,
    quotes::{self, Quotes},
};

/// Replacement for secrets in texts.
const REDACTED: &str = "[redacted]";

/// Shorter values are not redacted in texts, since they would match everywhere. Real secrets are
/// longer.
const MIN_REDACTED: usize = 6;

/// A secret value. Its memory is overwritten when the last copy is dropped, and it is never
/// included in formatted output.
#[derive(Clone)]
pub struct Secret(Arc<Inner>);

struct Inner {
    value: Zeroizing<Vec<u8>>,
    /// Computed when a text is searched for the secret for the first time.
    forms: OnceLock<Vec<Zeroizing<String>>>,
    quotes: OnceLock<Option<Quotes>>,
    pair: OnceLock<Option<[Secret; 2]>>,
}

impl Secret {
    /// Creates a secret from the value.
    #[must_use]
    pub fn new(value: impl Into<Vec<u8>>) -> Self {
        Self(Arc::new(Inner {
            value: Zeroizing::new(value.into()),
            forms: OnceLock::new(),
            quotes: OnceLock::new(),
            pair: OnceLock::new(),
        }))
    }

    /// Returns the value itself. The caller is responsible for where it goes.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0.value
    }

    /// Returns the value as text, if it is valid UTF-8.
    #[must_use]
    pub fn expose_str(&self) -> Option<&str> {
        std::str::from_utf8(self.expose()).ok()
    }

    /// Returns the value after a prefix, as a sensitive header value, which is not logged and not
    /// kept in compression tables. `None` if it contains bytes that are not allowed in headers.
    pub(crate) fn header(&self, prefix: &str) -> Option<HeaderValue> {
        let mut text = Zeroizing::new(Vec::with_capacity(
            prefix.len().saturating_add(self.expose().len()),
        ));
        text.extend_from_slice(prefix.as_bytes());
        text.extend_from_slice(self.expose());

        let mut value = HeaderValue::from_bytes(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Returns the forms in which the secret may occur in a text; none if it is too short to be
    /// distinguished from other text.
    fn forms(&self) -> &[Zeroizing<String>] {
        let secret = self.expose();
        self.0.forms.get_or_init(|| {
            if secret.len() < MIN_REDACTED {
                Vec::new()
            } else {
                encodings::whole(secret)
            }
        })
    }

    /// Returns what to search for in texts that may quote a part of the secret; `None` if it is too
    /// short.
    pub(crate) fn quotes(&self) -> Option<&Quotes> {
        self.0
            .quotes
            .get_or_init(|| Quotes::of(self.expose()))
            .as_ref()
    }

    /// Returns the user name and the password if the value is that of basic authentication (RFC
    /// 7617), with or without the name of the scheme.
    pub(crate) fn pair(&self) -> Option<&[Self; 2]> {
        self.0.pair.get_or_init(|| pair(self.expose())).as_ref()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for Secret {}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// Removes all secrets from a text: plain, percent-encoded, in both alphabets of Base64, in
/// hexadecimal, and escaped for JSON, XML and forms. Of long secrets, parts are removed as well.
#[must_use]
pub fn redact(text: &str, secrets: &[Secret]) -> String {
    let mut forms: Vec<&Zeroizing<String>> = secrets.iter().flat_map(Secret::forms).collect();

    // Longest first, since a secret may be part of another.
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    let text = forms.iter().fold(text.to_owned(), |text, form| {
        // `replace` copies the text even if it has nothing to replace.
        if text.contains(form.as_str()) {
            text.replace(form.as_str(), REDACTED)
        } else {
            text
        }
    });

    without_parts(&text, secrets)
}

fn without_parts(text: &str, secrets: &[Secret]) -> String {
    let all: Vec<_> = secrets.iter().filter_map(Secret::quotes).collect();
    let mut found = quotes::find(text.as_bytes(), &all);
    found.sort_by_key(|range| range.start);
    let mut redacted = String::with_capacity(text.len());
    let mut done = 0;

    for range in found.into_iter().filter(|range| !range.is_empty()) {
        // A range that touches a character with several bytes includes it.
        let start = text.floor_char_boundary(range.start);
        if start >= done {
            redacted.push_str(text.get(done..start).unwrap_or_default());
            redacted.push_str(REDACTED);
        }
        done = done.max(text.ceil_char_boundary(range.end));
    }

    redacted.push_str(text.get(done..).unwrap_or_default());
    redacted
}

fn pair(value: &[u8]) -> Option<[Secret; 2]> {
    let (scheme, rest) = value.split_at_checked(6)?;
    let encoded = if scheme.eq_ignore_ascii_case(b"basic ") {
        rest.trim_ascii()
    } else {
        value
    };

    let decoded = Zeroizing::new(general_purpose::STANDARD.decode(encoded).ok()?);
    // Random bytes are no text, so a key that only looks like Base64 is no pair.
    let (user, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some([user.into(), password.into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatting_a_secret_shows_redacted() {
        let secret = Secret::from("hunter22");
        assert_eq!(
            format!("{secret} {secret:?} {:#?}", Some(&secret)),
            "[redacted] [redacted] Some(\n    [redacted],\n)"
        );
    }

    #[test]
    fn secrets_are_redacted_in_every_encoding() {
        let secret = Secret::from("pass/word &<\"é");
        for form in [
            "pass/word &<\"é",
            "pass%2Fword%20%26%3C%22%C3%A9",
            "pass/word%20%26%3C%22%C3%A9",
            "pass%2Fword+%26%3C%22%C3%A9",
            "pass/word &<\\\"é",
            "pass/word &amp;&lt;&quot;é",
            &general_purpose::STANDARD.encode("pass/word &<\"é"),
            &hex::encode("pass/word &<\"é"),
        ] {
            let text = redact(
                &format!("before {form} after"),
                std::slice::from_ref(&secret),
            );
            assert!(
                text.starts_with("before [redacted]") && text.ends_with(" after"),
                "{form}: {text}"
            );
        }
    }

    #[test]
    fn parts_of_a_long_secret_are_redacted() {
        let secret = Secret::from("xK9vQ2mB7tR4wZ8nL3pC6hJ1dF5gS0yT");
        for part in [
            "xK9vQ2mB7tR4wZ8n",
            "C6hJ1dF5gS0yT",
            &general_purpose::STANDARD_NO_PAD.encode("a xK9vQ2mB7tR4wZ8nL3pC6hJ1dF5gS0yT")[3..],
            "\\u0078\\u004b9vQ2mB7tR4wZ8n",
        ] {
            let text = redact(&format!("é {part} é"), std::slice::from_ref(&secret));
            assert_eq!(text, "é [redacted] é", "{part}");
        }
    }

    #[test]
    fn a_secret_inside_another_is_redacted_completely() {
        let secrets = [Secret::from("abcdef"), Secret::from("abcdefghij")];
        assert_eq!(
            redact("x abcdefghij y abcdef", &secrets),
            "x [redacted] y [redacted]"
        );
    }

    #[test]
    fn short_values_are_not_redacted() {
        assert_eq!(redact("a cat sat", &[Secret::from("at")]), "a cat sat");
    }

    #[test]
    fn a_secret_header_is_sensitive_and_has_valid_bytes() {
        let header = Secret::from("t0ken").header("Bearer ").unwrap();
        assert!(header.is_sensitive());
        assert_eq!(header, "Bearer t0ken");
        assert!(Secret::from("a\nb").header("").is_none());
    }
}
