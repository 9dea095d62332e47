//! The INI dialect of gcfg, which is that of Git's configuration: `[section]` and `[section
//! "subsection"]`, `key = value` and `key` alone, comments with `#` and `;`, values with quotes,
//! escapes and line continuation by a backslash.

use std::ops::Range;

use crate::masking::secret::Secret;

/// A variable.
#[derive(Debug)]
pub(crate) struct Entry {
    section: Section,
    /// In lower case.
    pub(crate) key: String,
    pub(crate) value: Secret,
    /// The line numbers, from 1.
    pub(crate) lines: Range<usize>,
}

#[derive(Clone, Debug)]
struct Section {
    /// In lower case.
    name: String,
    is_subsection: bool,
}

impl Entry {
    /// Returns true if the variable is in section `[Global]`.
    pub(crate) fn is_global(&self) -> bool {
        self.section.name == "global" && !self.section.is_subsection
    }
}

/// What is in a file.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) entries: Vec<Entry>,
    /// Where the comments are, in bytes, without the ends of their lines.
    pub(crate) comments: Vec<Range<usize>>,
}

/// The number of a line that is not valid, and what is wrong with it.
type SyntaxError = (usize, &'static str);

/// Returns all variables and comments, or the first error.
pub(crate) fn contents(text: &str) -> Result<Contents, SyntaxError> {
    let mut all = Contents::default();
    let mut section: Option<Section> = None;
    let mut lines = lines(text);

    while let Some(line) = lines.next() {
        let failed = |problem| (line.number, problem);
        let content = line.text.trim();

        // A key may follow the header of its section in the same line.
        let rest = match content.strip_prefix('[') {
            Some(header) => {
                let (inner, after) = header
                    .split_once(']')
                    .ok_or_else(|| failed("`]` is missing"))?;
                section = Some(read_section(inner.trim()));
                after.trim()
            }
            None => content,
        };

        if rest.is_empty() {
            continue;
        }
        if rest.starts_with(['#', ';']) {
            all.comments
                .push(line.content_end() - rest.len()..line.end());
            continue;
        }

        let section = section.clone();
        let section = section.ok_or_else(|| failed("this key is before the first section"))?;
        let (key, value) = read_key(rest).map_err(failed)?;
        let value = read_value(value, &line, &mut lines)?;

        all.comments.extend(value.comment);
        all.entries.push(Entry {
            section,
            key,
            value: value.secret,
            lines: line.number..value.next_line,
        });
    }

    Ok(all)
}

/// A line of a file.
struct Line<'a> {
    /// From 1.
    number: usize,
    /// Where it starts in the file, in bytes.
    start: usize,
    /// Without the end of the line.
    text: &'a str,
}

impl Line<'_> {
    /// Returns where it ends in the file.
    fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Returns where it ends without trailing spaces.
    fn content_end(&self) -> usize {
        self.start + self.text.trim_end().len()
    }
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    // Comments are places in the whole text, where a byte-order mark counts.
    let inner = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut at = text.len() - inner.len();
    let starts = inner.split_inclusive('\n').map(move |line| {
        at += line.len();
        at - line.len()
    });

    let lines = (1..).zip(starts).zip(inner.lines());
    lines.map(|((number, start), text)| Line {
        number,
        start,
        text,
    })
}

fn read_section(text: &str) -> Section {
    let (name, sub) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    Section {
        name: name.to_ascii_lowercase(),
        is_subsection: !sub.is_empty(),
    }
}

/// Returns the key in lower case, and the text of the value. A key without a value is a boolean that
/// is true, as in Git's configuration.
fn read_key(text: &str) -> Result<(String, &str), &'static str> {
    let (key, value) = text.split_once('=').unwrap_or((text, "true"));

    let key = key.trim().to_ascii_lowercase();
    let named = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if key.is_empty() || !key.bytes().all(named) {
        return Err("a key may contain only letters, digits, `-` and `_`");
    }

    Ok((key, value))
}

/// A value, which may continue on further lines.
struct Value {
    secret: Secret,
    /// The number of the line after its last one.
    next_line: usize,
    /// Where the comment behind it is.
    comment: Option<Range<usize>>,
}

/// Reads a value, whose text is in the `first` line and the next ones.
fn read_value<'a>(
    text: &str,
    first: &Line<'_>,
    lines: &mut impl Iterator<Item = Line<'a>>,
) -> Result<Value, SyntaxError> {
    let failed = |problem| (first.number, problem);
    let mut reader = Reader::default();
    let mut read = reader.line(text).map_err(failed)?;

    let mut last = first.number;
    // The first line is read without its trailing spaces, further ones with them.
    let mut text_end = first.content_end();
    let mut line_end = first.end();
    while read == Read::Continues {
        let next = lines.next();
        let next = next.ok_or_else(|| failed("its last line ends in a backslash"))?;
        last = next.number;
        text_end = next.end();
        line_end = next.end();
        read = reader.line(next.text).map_err(failed)?;
    }

    let comment = match read {
        Read::Comment(length) => Some(text_end - length..line_end),
        Read::Ends | Read::Continues => None,
    };
    Ok(Value {
        secret: Secret::new(reader.value()),
        next_line: last.saturating_add(1),
        comment,
    })
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
