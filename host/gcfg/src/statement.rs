//! Reads one statement of a file.

use crate::cursor::Cursor;

pub(crate) enum Statement {
    /// The names of a section and its subsection.
    Header(String, String),
    /// A key and its value.
    Setting(String, Option<String>),
}

/// The key, if it is known, and what is wrong.
type Failure = (Option<String>, &'static str);

/// Reads the statement in this line. Stops at its end, before a comment and the end of the line, or
/// where it is not valid.
///
/// # Errors
/// Returns what is wrong with it.
pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Option<Statement>, Failure> {
    if is_at_end(cursor) {
        return Ok(None);
    }

    if cursor.skip('[') {
        return header(cursor).map(Some).map_err(|reason| (None, reason));
    }

    let key = cursor
        .name()
        .ok_or((None, "expected `key = value` or `[section]`"))?;
    let value = value(cursor).map_err(|reason| (Some(key.to_owned()), reason))?;
    Ok(Some(Statement::Setting(key.to_owned(), value)))
}

/// Returns true at the end of a statement.
fn is_at_end(cursor: &mut Cursor<'_>) -> bool {
    cursor.skip_blanks();
    cursor.is_at_end_of_line() || matches!(cursor.peek(), Some('#' | ';'))
}

/// Reads what follows the `[` of a header.
fn header(cursor: &mut Cursor<'_>) -> Result<Statement, &'static str> {
    const EXPECTED: &str = "expected `[section]` or `[section \"subsection\"]`";

    cursor.skip_blanks();
    let name = cursor.name().ok_or(EXPECTED)?.to_owned();
    cursor.skip_blanks();

    let mut subsection = String::new();
    if cursor.skip('"') {
        subsection = self::subsection(cursor)?;
        cursor.skip_blanks();
    }

    if !cursor.skip(']') {
        return Err(EXPECTED);
    }
    if !is_at_end(cursor) {
        return Err("only a comment may follow a section in its line");
    }
    Ok(Statement::Header(name, subsection))
}

/// Reads the name of a subsection up to its closing quote.
fn subsection(cursor: &mut Cursor<'_>) -> Result<String, &'static str> {
    let mut name = String::new();
    loop {
        if cursor.is_at_end_of_line() {
            return Err("a `\"` is missing at the end of the name of the subsection");
        }
        match cursor.next() {
            Some('"') => break,
            Some('\\') => match cursor.peek() {
                Some('\\' | '"') => name.extend(cursor.next()),
                _ => {
                    return Err(
                        "in a subsection, a backslash is only allowed before `\\` and `\"`",
                    );
                }
            },
            letter => name.extend(letter),
        }
    }

    if name.is_empty() {
        return Err("the name of the subsection is empty");
    }
    Ok(name)
}

/// Reads what follows a key.
fn value(cursor: &mut Cursor<'_>) -> Result<Option<String>, &'static str> {
    if is_at_end(cursor) {
        return Ok(None);
    }
    if !cursor.skip('=') {
        return Err("expected `=`");
    }
    cursor.skip_blanks();

    let mut value = String::new();
    // The length without whitespace at the end, which counts only in quotes.
    let mut kept = 0;
    let mut is_quoted = false;
    while !cursor.is_at_end_of_line() {
        let is_comment = matches!(cursor.peek(), Some('#' | ';'));
        if is_comment && !is_quoted {
            break;
        }

        let letter = cursor.next();
        match letter {
            Some('"') => is_quoted = !is_quoted,
            Some('\\') => value.extend(escaped(cursor, is_quoted)?),
            Some('\r') => {}
            _ => value.extend(letter),
        }
        if is_quoted || !matches!(letter, Some(' ' | '\t' | '\r')) {
            kept = value.len();
        }
    }

    if is_quoted {
        return Err("a closing `\"` is missing");
    }
    value.truncate(kept);
    Ok(Some(value))
}

/// Reads what follows a backslash. Returns `None` at the end of a line, after which the value
/// continues.
fn escaped(cursor: &mut Cursor<'_>, is_quoted: bool) -> Result<Option<char>, &'static str> {
    if !is_quoted {
        cursor.skip('\r');
    }

    let letter = match (cursor.peek(), is_quoted) {
        (letter @ Some('"'), _) | (letter @ Some('\\'), true) => letter,
        (Some('n'), true) => Some('\n'),
        (Some('t'), true) => Some('\t'),
        (Some('\n'), false) => None,
        (_, true) => {
            return Err("in quotes, a backslash is only allowed before `\\`, `\"`, `n` and `t`");
        }
        (_, false) => {
            return Err(
                "a value with a backslash must be in quotes, with `\\\\` for each backslash",
            );
        }
    };

    cursor.next();
    Ok(letter)
}
