//! The INI dialect of gcfg, which is that of Git's configuration: `[section]` and `[section
//! "subsection"]`, `key = value` and `key` alone, comments with `#` and `;`, values with quotes,
//! escapes and line continuation by a backslash.

use std::ops::Range;

use crate::masking::secret::Secret;

/// A variable.
#[derive(Debug)]
pub(crate) struct Entry {
    section: String,
    subsection: bool,
    /// In lower case.
    pub(crate) key: String,
    pub(crate) value: Secret,
    /// The line numbers, from 1.
    pub(crate) lines: Range<usize>,
}

impl Entry {
    /// Returns true if the variable is in section `[Global]`.
    pub(crate) fn is_global(&self) -> bool {
        self.section == "global" && !self.subsection
    }
}

/// What is in a file.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) entries: Vec<Entry>,
    /// Where the comments are, in bytes, without the ends of their lines.
    pub(crate) comments: Vec<Range<usize>>,
}

/// Returns all variables and comments, or the number of the first line that is not valid and what
/// is wrong with it.
pub(crate) fn contents(text: &str) -> Result<Contents, (usize, &'static str)> {
    let mut all = Contents::default();
    let mut section: Option<(String, bool)> = None;

    // Comments are places in the whole text, where a byte-order mark counts.
    let inner = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut at = text.len() - inner.len();
    let places = inner.split_inclusive('\n').map(|line| {
        at += line.len();
        at - line.len()
    });
    let mut lines = (1..).zip(places).zip(inner.lines());

    while let Some(((number, start), whole)) = lines.next() {
        let end = start + whole.len();
        let line = whole.trim_end();
        let blank = whole.len() - line.len();
        let line = line.trim_start();

        // A key may follow the header of its section in the same line.
        let rest = match line.strip_prefix('[') {
            Some(header) => {
                let (inner, after) = header.split_once(']').ok_or((number, "`]` is missing"))?;
                let (name, sub) = inner
                    .trim()
                    .split_once(char::is_whitespace)
                    .unwrap_or((inner.trim(), ""));
                section = Some((name.to_ascii_lowercase(), !sub.is_empty()));
                after.trim()
            }
            None => line,
        };

        if rest.is_empty() {
            continue;
        }
        if rest.starts_with(['#', ';']) {
            all.comments.push(end - blank - rest.len()..end);
            continue;
        }

        let (section, subsection) = section
            .clone()
            .ok_or((number, "this key is before the first section"))?;
        let (key, value) = rest
            .split_once('=')
            .map_or((rest, None), |(key, value)| (key, Some(value)));

        let key = key.trim().to_ascii_lowercase();
        let named = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if key.is_empty() || !key.bytes().all(named) {
            return Err((
                number,
                "a key may contain only letters, digits, `-` and `_`",
            ));
        }

        let mut reader = Reader::default();
        let mut last = number.saturating_add(1);
        // A key without a value is a boolean that is true, as in Git's configuration.
        let mut read = reader
            .line(value.unwrap_or("true"))
            .map_err(|problem| (number, problem))?;

        // The first line is read without its trailing spaces, further ones with them.
        let mut ends = (end - blank, end);
        while read == Read::Continues {
            let ((next, start), line) = lines
                .next()
                .ok_or((number, "its last line ends in a backslash"))?;
            last = next.saturating_add(1);
            ends = (start + line.len(), start + line.len());
            read = reader.line(line).map_err(|problem| (number, problem))?;
        }

        if let Read::Comment(length) = read {
            all.comments.push(ends.0 - length..ends.1);
        }

        let value = Secret::new(reader.value());
        all.entries.push(Entry {
            section,
            subsection,
            key,
            value,
            lines: number..last,
        });
    }

    Ok(all)
}

/// What follows what was read of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    /// The end of the line.
    Ends,
    /// The next line.
    Continues,
    /// A comment with this many bytes.
    Comment(usize),
}

/// A parser for a value that may continue on further lines.
#[derive(Default)]
struct Reader {
    text: String,
    /// Length of the text that is kept when trailing spaces are removed.
    kept: usize,
    quoted: bool,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<Read, &'static str> {
        let line = if self.text.is_empty() && !self.quoted {
            line.trim_start()
        } else {
            line
        };

        let mut letters = line.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.quoted = !self.quoted;
                    self.kept = self.text.len();
                }
                '#' | ';' if !self.quoted => return Ok(Read::Comment(line.len() - at)),
                '\\' => match letters.next().map(|(_, escaped)| escaped) {
                    None => return Ok(Read::Continues),
                    Some('n') => self.keep('\n'),
                    Some('t') => self.keep('\t'),
                    Some(escaped @ ('\\' | '"')) => self.keep(escaped),
                    Some(_) => {
                        return Err(
                            "a backslash is only allowed before `\\`, `\"`, `n`, `t` and the end of the line",
                        );
                    }
                },
                other if self.quoted || !other.is_whitespace() => self.keep(other),
                blank => self.text.push(blank),
            }
        }

        if self.quoted {
            Err("a quote is not closed")
        } else {
            Ok(Read::Ends)
        }
    }

    fn keep(&mut self, letter: char) {
        self.text.push(letter);
        self.kept = self.text.len();
    }

    fn value(mut self) -> Vec<u8> {
        self.text.truncate(self.kept);
        self.text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<String, &'static str> {
        let all = contents(&format!("[a]\nk={text}\n")).map_err(|(_, problem)| problem)?;
        Ok(all.entries[0].value.expose_str().unwrap().to_owned())
    }

    #[test]
    fn parses_values_like_gcfg() {
        for (text, expected) in [
            ("a", "a"),
            ("  a b  ", "a b"),
            ("\"  a # ; b \"  # c", "  a # ; b "),
            ("a\"b\"c", "abc"),
            ("a ; c", "a"),
            (r#"a\"b\\c\td"#, "a\"b\\c\td"),
            ("a\\\n  b", "a  b"),
            ("", ""),
            ("a=b", "a=b"),
            ("p@ss%word!", "p@ss%word!"),
        ] {
            assert_eq!(value(text).as_deref(), Ok(expected), "{text}");
        }

        for text in ["\"a", "a\\x", "a\\"] {
            assert!(value(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sections_and_keys_are_case_insensitive() {
        let all = contents("[GLOBAL]\nUserName = a\n[global \"x\"] password=b\n[b]\nflag\n")
            .unwrap()
            .entries;
        let found: Vec<_> = all
            .iter()
            .map(|it| (it.is_global(), it.key.as_str(), it.lines.clone()))
            .collect();
        assert_eq!(
            found,
            [
                (true, "username", 2..3),
                (false, "password", 3..4),
                (false, "flag", 5..6)
            ]
        );
        assert_eq!(all[2].value.expose(), b"true");
    }

    #[test]
    fn a_syntax_error_has_its_line_number() {
        for (text, line) in [
            ("a=b", 1),
            ("[a]\n\n[b\n", 3),
            ("[a]\n# x\na b=c", 3),
            ("[a]\n=c", 2),
        ] {
            assert_eq!(contents(text).unwrap_err().0, line, "{text}");
        }
    }

    #[test]
    fn comments_are_told_from_values() {
        let text = "\u{feff}; one\n[a] # two\r\nk = v ; three \r\nq = \"a # b\"\nc = x\\\n  y # four\n  # five";
        let comments: Vec<_> = contents(text)
            .unwrap()
            .comments
            .into_iter()
            .map(|range| &text[range])
            .collect();
        assert_eq!(comments, ["; one", "# two", "; three ", "# four", "# five"]);
    }
}
