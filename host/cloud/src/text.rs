//! Text that others wrote — plugins, clouds, users, the API server — made fit for a terminal, a log line or an event.

use std::borrow::Cow;

/// Bytes of a sentence: what an event holds.
pub const SENTENCE: usize = 1024;

/// The text with control characters written as escapes, so that it stays on its line and moves no terminal.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_odd(c) { escaped.extend(c.escape_default()) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
}

/// True if there is nothing in the text to escape.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    !text.contains(is_odd)
}

/// Control characters, and characters that reorder or hide others on a terminal.
fn is_odd(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// At most so many bytes of the text, ending between two characters.
#[must_use]
pub fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

/// At most so many bytes of the text, escaped. What is cut off is never looked at, however long it is.
#[must_use]
pub fn shown(text: &str, bytes: usize) -> Cow<'_, str> {
    match escape(cut(text, bytes)) {
        Cow::Owned(escaped) => Cow::Owned(cut(&escaped, bytes).to_owned()),
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_on_its_line() {
        assert_eq!(escape("plain, with ümlaut"), "plain, with ümlaut");
        assert_eq!(escape("a\nb\u{1b}[31mc\u{202e}d\u{9b}e"), "a\\nb\\u{1b}[31mc\\u{202e}d\\u{9b}e");
        assert!(is_plain("a b") && !is_plain("a\tb") && !is_plain("a\u{200b}b"));
        // All that Unicode has to reorder text with.
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
    }

    #[test]
    fn text_is_cut_also_where_escapes_make_it_longer() {
        assert_eq!(shown("abc", 3), "abc");
        assert_eq!(shown("\n\n\n\n", 4), "\\n\\n");
        assert!(shown(&"\u{1b}".repeat(100_000), SENTENCE).len() <= SENTENCE);
    }
}
