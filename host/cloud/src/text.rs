//! Makes text from plugins, clouds, users and the API server safe for terminals, log lines and
//! events.

use std::borrow::Cow;

/// Maximum length of a sentence in bytes, as in the message of an event.
pub const SENTENCE: usize = 1024;

/// Replaces control characters with escape sequences, so that the text stays on one line and cannot
/// control a terminal.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }

    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_odd(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }

    Cow::Owned(escaped)
}

/// Returns true if the text contains nothing to escape.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    !text.contains(is_odd)
}

/// Returns true for control characters, and for characters that reorder or hide other text on a
/// terminal.
fn is_odd(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns at most `bytes` bytes of the text, cut at a character boundary.
#[must_use]
pub fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

/// Returns the text, or its first `bytes` bytes and an ellipsis.
#[must_use]
pub fn beginning(text: &str, bytes: usize) -> Cow<'_, str> {
    match cut(text, bytes) {
        cut if cut.len() < text.len() => Cow::Owned(format!("{cut}…")),
        whole => Cow::Borrowed(whole),
    }
}

/// Returns at most `bytes` bytes of the escaped text. The rest is not processed, however long it
/// is.
#[must_use]
pub fn shown(text: &str, bytes: usize) -> Cow<'_, str> {
    match escape(cut(text, bytes)) {
        // Escape sequences are longer than what they replace.
        Cow::Owned(escaped) => Cow::Owned(cut(&escaped, bytes).to_owned()),
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escape("plain, with ümlaut"), "plain, with ümlaut");
        assert_eq!(
            escape("a\nb\u{1b}[31mc\u{202e}d\u{9b}e"),
            "a\\nb\\u{1b}[31mc\\u{202e}d\\u{9b}e"
        );
        assert!(is_plain("a b") && !is_plain("a\tb") && !is_plain("a\u{200b}b"));
        // All characters of Unicode that reorder text.
        assert!(
            "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}"
                .chars()
                .all(is_odd)
        );
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abc", 2), "ab");
        assert_eq!(cut("äöü", 3), "ä");
        assert_eq!(beginning("abc", 3), "abc");
        assert_eq!(beginning("äöü", 3), "ä…");
    }

    #[test]
    fn escaped_text_is_cut_to_the_limit() {
        assert_eq!(shown("abc", 3), "abc");
        assert_eq!(shown("\n\n\n\n", 4), "\\n\\n");
        assert!(shown(&"\u{1b}".repeat(100_000), SENTENCE).len() <= SENTENCE);
    }
}
