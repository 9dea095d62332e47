//! The syntax of the official provider's configuration file (gcfg, Git's dialect of INI).

/// One `key = value` of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The line that it begins on, starting at 1.
    pub(crate) line: usize,
    /// The section, for example `Global`.
    pub(crate) section: String,
    /// The quoted name after the section, as in `[ServiceOverride "1"]`, or empty.
    pub(crate) subsection: String,
    /// The name of the option as written.
    pub(crate) key: String,
    /// The value, or `None` for a key without `=`, which means true.
    pub(crate) value: Option<String>,
}

/// A problem of a file and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {reason}")]
pub(crate) struct Problem {
    /// The line, starting at 1, or 0 for the options of the plugin, which are not in a file.
    pub(crate) line: usize,
    /// What is wrong, and what is expected.
    pub(crate) reason: String,
}

impl Problem {
    /// Creates a problem at this line.
    pub(crate) fn at(line: usize, reason: impl Into<String>) -> Self {
        Self {
            line,
            reason: reason.into(),
        }
    }
}

/// Parses a file into its entries.
///
/// # Errors
/// Returns the first invalid line.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry>, Problem> {
    let mut entries = Vec::new();
    let mut section = None;
    let mut subsection = String::new();
    // Some editors begin a file with a byte order mark.
    let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    while let Some((index, raw)) = lines.next() {
        let line = index + 1;
        let mut content = raw.trim().to_owned();
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        if content.starts_with('[') {
            let (name, sub) =
                header(&content).ok_or_else(|| Problem::at(line, "expected [Section]"))?;
            (section, subsection) = (Some(name), sub);
            continue;
        }

        // A backslash at the end of a line joins it with the next one.
        while content.ends_with('\\') {
            content.pop();
            content.push_str(lines.next().map_or("", |(_, next)| next));
        }

        let section = section
            .clone()
            .ok_or_else(|| Problem::at(line, "an option is before the first [Section]"))?;
        let (key, value) = match content.split_once('=') {
            Some((key, value)) => (
                key.trim(),
                Some(unquote(value.trim()).map_err(|why| Problem::at(line, why))?),
            ),
            None => (
                content.split([';', '#']).next().unwrap_or_default().trim(),
                None,
            ),
        };

        if key.is_empty()
            || !key
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
        {
            return Err(Problem::at(line, "expected `Option = value`"));
        }

        entries.push(Entry {
            line,
            section,
            subsection: subsection.clone(),
            key: key.to_owned(),
            value,
        });
    }
    Ok(entries)
}

/// Parses `[Name]` or `[Name "sub"]`, optionally followed by a comment.
fn header(line: &str) -> Option<(String, String)> {
    let (inner, rest) = line.strip_prefix('[')?.split_once(']')?;
    let rest = rest.trim();
    if !rest.is_empty() && !rest.starts_with(['#', ';']) {
        return None;
    }

    let (name, sub) = match inner.split_once('"') {
        Some((name, sub)) => (name.trim(), sub.strip_suffix('"')?),
        None => (inner.trim(), ""),
    };

    let plain = !name.is_empty()
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-.".contains(letter));
    plain.then(|| (name.to_owned(), sub.to_owned()))
}

/// Returns a value without quotes, escapes and comment.
fn unquote(raw: &str) -> Result<String, &'static str> {
    let mut value = String::new();
    let mut kept = 0;
    let mut quoted = false;
    let mut letters = raw.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' => value.push(match letters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('b') => '\u{8}',
                Some(letter @ ('"' | '\\')) => letter,
                _ => return Err("unknown escape sequence: expected \\\", \\\\, \\n, \\t or \\b"),
            }),
            ';' | '#' if !quoted => break,
            letter => value.push(letter),
        }
        // Trailing whitespace is kept only inside quotes.
        if quoted || !letter.is_whitespace() {
            kept = value.len();
        }
    }

    if quoted {
        return Err("a quote is not closed");
    }
    value.truncate(kept);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(text: &str) -> Result<Vec<(usize, String)>, Problem> {
        Ok(parse(text)?
            .into_iter()
            .map(
                |Entry {
                     line,
                     section,
                     subsection,
                     key,
                     value,
                 }| {
                    (
                        line,
                        format!(
                            "{section}|{subsection}|{key}|{}",
                            value.unwrap_or("<true>".into())
                        ),
                    )
                },
            )
            .collect())
    }

    #[test]
    fn parses_sections_options_comments_and_quotes_like_gcfg() {
        let text = "; comment\n[Global]\nRegion = eu-west-1 ; here\nVPC=\"vpc-1 # no comment \"\nFlag\n\n\
                    [ServiceOverride \"1\"] # x\n  URL = https://a.example/?b=c\n  Name = one\\\n two\nE = \"a\\\"b\"\n";
        let expected = [
            (3, "Global||Region|eu-west-1"),
            (4, "Global||VPC|vpc-1 # no comment "),
            (5, "Global||Flag|<true>"),
            (8, "ServiceOverride|1|URL|https://a.example/?b=c"),
            (9, "ServiceOverride|1|Name|one two"),
            (11, "ServiceOverride|1|E|a\"b"),
        ];

        assert_eq!(
            flat(text),
            Ok(expected
                .map(|(line, text)| (line, text.to_owned()))
                .to_vec())
        );
    }

    #[test]
    fn rejects_invalid_syntax_with_its_line() {
        for (text, line) in [
            ("Region = a", 1),
            ("[Global]\n\n= a", 3),
            ("[Global\nA = b", 1),
            ("[]\n", 1),
            ("[A \"b]\n", 1),
            ("[Global] x\n", 1),
            ("[Global]\nA = \"b", 2),
            ("[Global]\nA = \\x", 2),
            ("[Global]\nA b = c", 2),
        ] {
            assert_eq!(
                parse(text).map_err(|problem| problem.line),
                Err(line),
                "{text}"
            );
        }
    }
}
