//! The syntax of the official provider's configuration file (gcfg, Git's own dialect of INI).

/// One `key = value` of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Line it begins on, from 1.
    pub(crate) line: usize,
    /// Section, as `Global`.
    pub(crate) section: String,
    /// The quoted name behind the section, as in `[ServiceOverride "1"]`; empty without one.
    pub(crate) subsection: String,
    /// Name of the option as written.
    pub(crate) key: String,
    /// Its value; none for a key without `=`, which means true.
    pub(crate) value: Option<String>,
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {reason}")]
pub(crate) struct Problem {
    /// Line, from 1; 0 for the options of the plugin, which stand in no file.
    pub(crate) line: usize,
    /// What is wrong, and what would be right.
    pub(crate) reason: String,
}

impl Problem {
    /// At this line.
    pub(crate) fn at(line: usize, reason: impl Into<String>) -> Self {
        Self { line, reason: reason.into() }
    }
}

/// Reads a file into its entries.
///
/// # Errors
/// The first line that is none.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry>, Problem> {
    let mut entries = Vec::new();
    let (mut section, mut subsection) = (None, String::new());
    let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    while let Some((index, raw)) = lines.next() {
        let (line, mut content) = (index + 1, raw.trim().to_owned());
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        if content.starts_with('[') {
            let (name, sub) = header(&content).ok_or_else(|| Problem::at(line, "this is no [Section]"))?;
            (section, subsection) = (Some(name), sub);
            continue;
        }
        // A backslash at the end joins the next line.
        while content.ends_with('\\') {
            content.pop();
            content.push_str(lines.next().map_or("", |(_, next)| next));
        }
        let section =
            section.clone().ok_or_else(|| Problem::at(line, "an option stands before the first [Section]"))?;
        let (key, value) = match content.split_once('=') {
            Some((key, value)) => (key.trim(), Some(unquote(value.trim()).map_err(|why| Problem::at(line, why))?)),
            None => (content.split([';', '#']).next().unwrap_or_default().trim(), None),
        };
        if key.is_empty() || !key.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-') {
            return Err(Problem::at(line, "expected `Option = value`"));
        }
        entries.push(Entry { line, section, subsection: subsection.clone(), key: key.to_owned(), value });
    }
    Ok(entries)
}

/// `[Name]` or `[Name "sub"]`, perhaps with a comment behind it.
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
    let plain = !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-.".contains(letter));
    plain.then(|| (name.to_owned(), sub.to_owned()))
}

/// A value without its quotes, escapes and comment.
fn unquote(raw: &str) -> Result<String, &'static str> {
    let (mut value, mut kept, mut quoted) = (String::new(), 0, false);
    let mut letters = raw.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' => value.push(match letters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('b') => '\u{8}',
                Some(letter @ ('"' | '\\')) => letter,
                _ => return Err("this escape is unknown: there are \\\", \\\\, \\n, \\t and \\b"),
            }),
            ';' | '#' if !quoted => break,
            letter => value.push(letter),
        }
        // Blanks at the end count only inside quotes.
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
            .map(|Entry { line, section, subsection, key, value }| {
                (line, format!("{section}|{subsection}|{key}|{}", value.unwrap_or("<true>".into())))
            })
            .collect())
    }

    #[test]
    fn sections_options_comments_and_quotes_are_read_as_gcfg_does() {
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
        assert_eq!(flat(text), Ok(expected.map(|(line, text)| (line, text.to_owned())).to_vec()));
    }

    #[test]
    fn what_is_no_option_is_named_with_its_line() {
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
            assert_eq!(parse(text).map_err(|problem| problem.line), Err(line), "{text}");
        }
    }
}
