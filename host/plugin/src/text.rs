//! Text from plugins, made fit for logs, events and errors.

use std::borrow::Cow;

/// The text with control characters written as escapes, so that it stays on its line and moves no terminal.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    // Also characters that reorder or hide others on a terminal.
    let odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    if !text.contains(odd) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if odd(c) { escaped.extend(c.escape_default()) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
}

/// At most so many bytes of the text, ending between two characters.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_on_its_line() {
        assert_eq!(escape("plain, with ümlaut"), "plain, with ümlaut");
        assert_eq!(escape("a\nb\u{1b}[31mc\u{202e}d"), "a\\nb\\u{1b}[31mc\\u{202e}d");
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abc", 2), "ab");
        assert_eq!(cut("äöü", 3), "ä");
    }
}
