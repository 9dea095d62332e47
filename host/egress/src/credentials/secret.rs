//! Values that may be used and never shown.

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose};
use http::HeaderValue;
use zeroize::Zeroizing;

/// What takes the place of a secret in a text.
const REDACTED: &str = "[redacted]";

/// Shorter values are not looked for in texts: they would be found everywhere. A secret that short is none.
const MIN_REDACTED: usize = 6;

/// A secret value. Its memory is overwritten when the last copy goes, and no formatting shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<Vec<u8>>>);

impl Secret {
    /// Takes the value over.
    #[must_use]
    pub fn new(value: impl Into<Vec<u8>>) -> Self {
        Self(Arc::new(Zeroizing::new(value.into())))
    }

    /// The value itself. Whoever calls this answers for where it goes.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The value as text, if it is UTF-8.
    #[must_use]
    pub fn expose_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The value after a prefix, as a header that is not logged and not kept in compression tables. `None` if it has bytes
    /// that no header may have.
    pub(crate) fn header(&self, prefix: &str) -> Option<HeaderValue> {
        let mut text = Zeroizing::new(Vec::with_capacity(prefix.len().saturating_add(self.0.len())));
        text.extend_from_slice(prefix.as_bytes());
        text.extend_from_slice(&self.0);
        let mut value = HeaderValue::from_bytes(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

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

/// The text with every one of the secrets taken out: as it is, percent-encoded, in Base64 of either alphabet, and in hexadecimal.
#[must_use]
pub fn redact(text: &str, secrets: &[Secret]) -> String {
    let mut forms: Vec<Zeroizing<String>> = secrets.iter().flat_map(forms).collect();
    // Long ones first: a secret may be a part of another.
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms.iter().fold(text.to_owned(), |text, form| {
        if text.contains(form.as_str()) { text.replace(form.as_str(), REDACTED) } else { text }
    })
}

/// The forms a secret may take in a text. Those too short to be told from other text are left out.
pub(crate) fn forms(secret: &Secret) -> Vec<Zeroizing<String>> {
    let bytes = secret.expose();
    if bytes.len() < MIN_REDACTED {
        return Vec::new();
    }
    let mut forms = vec![
        String::from_utf8_lossy(bytes).into_owned(),
        super::encode::percent(bytes, b""),
        super::encode::percent(bytes, b"/"),
        // Without padding, so that it is found with and without.
        general_purpose::STANDARD_NO_PAD.encode(bytes),
        general_purpose::URL_SAFE_NO_PAD.encode(bytes),
        hex::encode(bytes),
    ];
    if let Some(text) = secret.expose_str() {
        forms.push(super::encode::json(text));
        forms.push(super::encode::xml(text));
        forms.push(super::encode::form(text));
    }
    forms.sort();
    forms.dedup();
    forms.into_iter().map(Zeroizing::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_formatting_shows_a_secret() {
        let secret = Secret::from("hunter22");
        assert_eq!(
            format!("{secret} {secret:?} {:#?}", Some(&secret)),
            "[redacted] [redacted] Some(\n    [redacted],\n)"
        );
    }

    #[test]
    fn a_secret_goes_from_texts_in_every_form() {
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
            let text = redact(&format!("before {form} after"), std::slice::from_ref(&secret));
            assert!(text.starts_with("before [redacted]") && text.ends_with(" after"), "{form}: {text}");
        }
    }

    #[test]
    fn a_secret_within_another_leaves_nothing_of_it() {
        let secrets = [Secret::from("abcdef"), Secret::from("abcdefghij")];
        assert_eq!(redact("x abcdefghij y abcdef", &secrets), "x [redacted] y [redacted]");
    }

    #[test]
    fn short_values_are_not_looked_for() {
        assert_eq!(redact("a cat sat", &[Secret::from("at")]), "a cat sat");
    }

    #[test]
    fn a_header_is_sensitive_and_of_legal_bytes() {
        let header = Secret::from("t0ken").header("Bearer ").unwrap();
        assert!(header.is_sensitive());
        assert_eq!(header, "Bearer t0ken");
        assert!(Secret::from("a\nb").header("").is_none());
    }
}
