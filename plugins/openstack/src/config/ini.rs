//! The syntax of `cloud.conf`, which is that of Go's `gcfg`: git's syntax with some differences.
//!
//! A file has sections `[name]` and `[name "subsection"]`, settings `key = value`, and comments
//! from `;` or `#` to the end of the line. Quotes and surrounding whitespace are removed from
//! values. Outside quotes, a backslash is allowed before a quote, and at the end of a line to
//! continue on the next line. Inside quotes, `\\`, `\"`, `\n` and `\t` are allowed.

use super::problem::Problem;

/// One statement: the header of a section if `key` is `None`, otherwise a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The name of the section, as written.
    pub(crate) section: String,
    /// The name of the subsection, or empty.
    pub(crate) subsection: String,
    /// The name of the setting, as written.
    pub(crate) key: Option<String>,
    /// The value, or `None` for a key without a value.
    pub(crate) value: Option<String>,
    /// The line, starting at 1.
    pub(crate) line: u64,
}

/// Reads a file. Lines with problems are reported and skipped.
pub(crate) fn read(text: &str) -> (Vec<Entry>, Vec<Problem>) {
    let mut cursor = Cursor {
        rest: text
            .strip_prefix('\u{feff}')
            .unwrap_or(text)
            .chars()
            .peekable(),
        line: 1,
    };

    let mut entries = Vec::new();
    let mut problems = Vec::new();
    let mut section = String::new();
    let mut subsection = String::new();

    while cursor.peek().is_some() {
        let line = cursor.line;
        match statement(&mut cursor) {
            Ok(None) => {}
            Ok(Some(Statement::Header(name, sub))) => {
                (section, subsection) = (name, sub);
                entries.push(Entry {
                    section: section.clone(),
                    subsection: subsection.clone(),
                    key: None,
                    value: None,
                    line,
                });
            }
            Ok(Some(Statement::Setting(key, _))) if section.is_empty() => {
                problems.push(Problem {
                    line,
                    reason: format!("`{key}` is before the first section"),
                });
            }
            Ok(Some(Statement::Setting(key, value))) => entries.push(Entry {
                section: section.clone(),
                subsection: subsection.clone(),
                key: Some(key),
                value,
                line,
            }),
            Err(reason) => problems.push(Problem { line, reason }),
        }

        // After a problem, reading continues with the next line, to report all problems at once.
        cursor.skip_line();
    }

    (entries, problems)
}

enum Statement {
    Header(String, String),
    Setting(String, Option<String>),
}

struct Cursor<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: u64,
}

impl Cursor<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest.peek().copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += u64::from(next == Some('\n'));
        next
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\r')) {
            self.next();
        }
    }

    /// Skips to the beginning of the next line.
    fn skip_line(&mut self) {
        while self.next().is_some_and(|next| next != '\n') {}
    }

    /// Returns true at the end of the line or file, or at the beginning of a comment.
    fn at_end(&mut self) -> bool {
        self.skip_blanks();
        matches!(self.peek(), None | Some('\n' | ';' | '#'))
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(next) = self
            .peek()
            .filter(|next| next.is_alphanumeric() || matches!(next, '-' | '_'))
        {
            word.push(next);
            self.next();
        }
        word
    }
}

/// Parses one statement. Stops at its end, before the line feed.
fn statement(cursor: &mut Cursor<'_>) -> Result<Option<Statement>, String> {
    if cursor.at_end() {
        return Ok(None);
    }

    let statement = if cursor.peek() == Some('[') {
        cursor.next();
        header(cursor)?
    } else {
        setting(cursor)?
    };

    if cursor.at_end() {
        Ok(Some(statement))
    } else {
        Err("unexpected text at the end".to_owned())
    }
}

fn header(cursor: &mut Cursor<'_>) -> Result<Statement, String> {
    cursor.skip_blanks();
    let name = cursor.word();
    cursor.skip_blanks();

    let mut subsection = String::new();
    if cursor.peek() == Some('"') {
        cursor.next();
        loop {
            match cursor.peek() {
                None | Some('\n') => {
                    return Err(
                        "a `\"` is missing at the end of the name of the subsection".to_owned()
                    );
                }
                Some('"') => break,
                Some('\\') => {
                    cursor.next();
                    subsection.extend(cursor.peek().filter(|next| *next != '\n'));
                }
                Some(other) => subsection.push(other),
            }
            cursor.next();
        }
        cursor.next();
        cursor.skip_blanks();
    }

    if name.is_empty() || cursor.peek() != Some(']') {
        return Err("expected a section: `[Name]` or `[Name \"subsection\"]`".to_owned());
    }

    cursor.next();
    Ok(Statement::Header(name, subsection))
}

fn setting(cursor: &mut Cursor<'_>) -> Result<Statement, String> {
    let key = cursor.word();
    if key.is_empty() {
        return Err("expected `key = value` or `[Section]`".to_owned());
    }

    // Like in git, a key may have no value, which means true for a boolean.
    if cursor.at_end() {
        return Ok(Statement::Setting(key, None));
    }

    if cursor.next() != Some('=') {
        return Err(format!("expected `=` after `{key}`"));
    }

    cursor.skip_blanks();
    value(cursor)
        .map(|value| Statement::Setting(key.clone(), Some(value)))
        .map_err(|reason| format!("`{key}`: {reason}"))
}

fn value(cursor: &mut Cursor<'_>) -> Result<String, String> {
    let mut value = String::new();
    let mut kept = 0;
    let mut quoted = false;

    loop {
        match cursor.peek() {
            None | Some('\n') if quoted => return Err("a closing `\"` is missing".to_owned()),
            None | Some('\n') => break,
            Some(';' | '#') if !quoted => break,
            Some('"') => {
                quoted = !quoted;
                kept = value.len();
            }
            Some('\\') => {
                cursor.next();
                if cursor.peek() == Some('\r') {
                    cursor.next();
                }

                match (cursor.peek(), quoted) {
                    (Some(escaped @ ('"' | '\\')), true) | (Some(escaped @ '"'), false) => {
                        value.push(escaped);
                    }
                    (Some('n'), true) => value.push('\n'),
                    (Some('t'), true) => value.push('\t'),
                    (Some('\n'), false) => {}
                    (_, true) => {
                        return Err(
                            r#"after `\` in quotes comes one of `\`, `"`, `n` and `t`"#.to_owned()
                        );
                    }
                    (_, false) => {
                        return Err("a value with a backslash must be in quotes".to_owned());
                    }
                }
                kept = value.len();
            }
            // As in gcfg, also in quotes.
            Some('\r') => {}
            Some(other) => {
                value.push(other);
                if quoted || !matches!(other, ' ' | '\t') {
                    kept = value.len();
                }
            }
        }

        cursor.next();
    }

    // Whitespace at the end of a value counts only in quotes.
    value.truncate(kept);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(String, Option<String>)> {
        let (entries, problems) = read(&format!("[S]\n{text}"));
        assert_eq!(problems, [], "{text}");
        entries
            .into_iter()
            .filter_map(|entry| Some((entry.key?, entry.value)))
            .collect()
    }

    #[test]
    fn values_are_unquoted_and_trimmed_like_in_gcfg() {
        for (text, value) in [
            ("k=v", "v"),
            ("k = v w  ; comment", "v w"),
            ("k = \"v ; w\" # comment", "v ; w"),
            ("k=a\"b c\"d", "ab cd"),
            (r#"k="a\"b\\c\n\t""#, "a\"b\\c\n\t"),
            (r#"k=a\"b"#, "a\"b"),
            ("k=a\\\nb", "ab"),
            ("k=\" v \"  ", " v "),
            ("k=v\r", "v"),
            ("k=\"v\rw\"", "vw"),
            ("k=", ""),
            (
                "k=env=production, region=default",
                "env=production, region=default",
            ),
        ] {
            assert_eq!(
                values(text),
                [("k".to_owned(), Some(value.to_owned()))],
                "{text}"
            );
        }
    }

    #[test]
    fn a_key_may_have_no_value_and_may_be_repeated() {
        let expected = [("a", None), ("b-c", Some("1")), ("a", Some("2"))];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.map(str::to_owned)));
        assert_eq!(values("a\n; comment\n\n# comment\nb-c=1\na=2"), expected);
    }

    #[test]
    fn subsection_names_may_contain_any_character() {
        let (entries, problems) =
            read("[LoadBalancerClass \"a \\\"b\\\" ]\"]\nk=v\n[Route]\nrouter-id=r");
        assert_eq!(problems, []);
        let names: Vec<_> = entries
            .iter()
            .map(|e| (e.section.as_str(), e.subsection.as_str(), e.line))
            .collect();
        let class = "LoadBalancerClass";
        assert_eq!(
            names,
            [
                (class, "a \"b\" ]", 1),
                (class, "a \"b\" ]", 2),
                ("Route", "", 3),
                ("Route", "", 4)
            ]
        );
    }

    #[test]
    fn every_invalid_line_is_reported() {
        let text = "k=v\n[S\n[S]\nk v\nk=\"v\n\n=v\nk=a\\b\n[S] x\nok=1";
        let (entries, problems) = read(text);
        assert_eq!(
            problems
                .iter()
                .map(|problem| problem.line)
                .collect::<Vec<_>>(),
            [1, 2, 4, 5, 7, 8, 9]
        );
        assert_eq!(entries.len(), 2);
        assert!(problems[0].reason.contains("before the first section"));
    }
}
