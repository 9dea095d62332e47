//! The place in a file up to which it has been read.

use std::ops::Range;

pub(crate) struct Cursor<'a> {
    text: &'a str,
    /// In bytes.
    at: usize,
    line: usize,
}

impl<'a> Cursor<'a> {
    /// Begins after the byte order mark, with which some editors begin a file.
    pub(crate) fn new(text: &'a str) -> Self {
        let inner = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self {
            text,
            at: text.len() - inner.len(),
            line: 1,
        }
    }

    /// Returns the number of the line, from 1.
    pub(crate) fn line(&self) -> usize {
        self.line
    }

    /// Returns true at the end of the file.
    pub(crate) fn is_at_end(&self) -> bool {
        self.peek().is_none()
    }

    /// Returns true at the end of the line or file.
    pub(crate) fn is_at_end_of_line(&self) -> bool {
        matches!(self.peek(), None | Some('\n'))
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(crate) fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        self.line += usize::from(next == '\n');
        Some(next)
    }

    /// Skips this character. Returns false if it does not follow.
    pub(crate) fn skip(&mut self, expected: char) -> bool {
        let follows = self.peek() == Some(expected);
        if follows {
            self.next();
        }
        follows
    }

    /// Skips whitespace in the line.
    pub(crate) fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\r')) {
            self.next();
        }
    }

    /// Skips the rest of the line, and returns where it is, without the end of the line.
    pub(crate) fn skip_line(&mut self) -> Range<usize> {
        let start = self.at;
        let line = self.rest().split('\n').next().unwrap_or_default();
        self.at += line.len();
        self.next();

        start..start + line.strip_suffix('\r').unwrap_or(line).len()
    }

    /// Reads the name of a section or key. Returns `None` if there is none.
    pub(crate) fn name(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        let is_inner = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        let end = rest.find(|letter| !is_inner(letter)).unwrap_or(rest.len());

        let name = rest.get(..end)?;
        if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return None;
        }
        self.at += end;
        Some(name)
    }
}
