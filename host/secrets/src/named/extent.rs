//! Where values end.

use std::ops::Range;

const BLANKS: [char; 2] = [' ', '\t'];

/// Returns the range of the text of an element of XML.
pub(super) fn element(text: &str, begin: usize) -> Range<usize> {
    const CDATA: &str = "<![CDATA[";
    /// Maximum bytes of a comment before the text.
    const COMMENT: usize = 256;

    let mut inner = text.get(begin..).unwrap_or_default();
    while let Some(comment) = inner.trim_start().strip_prefix("<!--") {
        let near = comment.get(..comment.floor_char_boundary(COMMENT));
        let Some(end) = near.and_then(|near| near.find("-->")) else {
            break;
        };
        inner = comment.get(end + "-->".len()..).unwrap_or_default();
    }

    let end = match inner.trim_start().strip_prefix(CDATA) {
        Some(data) => {
            inner = data;
            "]]>"
        }
        None => "<",
    };

    let from = text.len() - inner.len();
    from..from + inner.find(end).unwrap_or(inner.len())
}

/// Returns the length of a text that a quote ends.
pub(super) fn quoted(inner: &str, quote: char, is_nested: bool) -> usize {
    let mut escaped = false;
    let length = inner.find(|c| {
        // In a text of JSON, the quote that ends is escaped itself.
        let ends = c == quote && !escaped || is_nested && c == '\\';
        escaped = c == '\\' && !escaped;
        ends
    });
    length.unwrap_or(inner.len())
}

/// Returns the range between the first quote and the last one in a list of JSON, without the
/// structure around it.
pub(super) fn list(rest: &str, begin: usize) -> Range<usize> {
    let inner = rest
        .get(..rest.find(']').unwrap_or(rest.len()))
        .unwrap_or_default();

    let from = inner.find('"').map_or(inner.len(), |at| at + 1);
    let to = inner.rfind('"').unwrap_or(from).max(from);
    // The quotes and commas between the texts go, too: then it is a list of one.
    begin + from..begin + to
}

/// Returns the range of the lines of a heredoc: `<<EOF`.
pub(super) fn heredoc(rest: &str, begin: usize) -> Option<Range<usize>> {
    let marker = rest.strip_prefix("<<")?;
    let (marker, lines) = marker.split_once('\n')?;
    let marker = marker.trim_start_matches(['-', '~']).trim();
    let marker = marker.trim_matches(['"', '\'']);

    if marker.is_empty() {
        return None;
    }

    let from = begin + rest.len() - lines.len();
    let before: usize = lines
        .split_inclusive('\n')
        .take_while(|line| line.trim() != marker)
        .map(str::len)
        .sum();
    Some(from..from + before)
}

/// Returns the length of a value without quotes that ends with its line, if its name is the first
/// word in the line.
pub(super) fn line(before: &str, rest: &str) -> Option<usize> {
    const COMMENTS: [char; 7] = [' ', '\t', '-', '#', ';', '/', '*'];

    let indented = before.trim_end_matches(COMMENTS);
    let indented = indented
        .strip_suffix("export")
        .map_or(indented, |rest| rest.trim_end_matches(BLANKS));

    // Lines may be in a text of JSON.
    let is_nested = indented.ends_with("\\n");
    if !(is_nested || indented.is_empty() || indented.ends_with(['\n', '\r', '\u{feff}'])) {
        return None;
    }

    let ends: &[char] = if is_nested {
        &['\n', '\\', '"']
    } else {
        &['\n']
    };
    let mut end = rest.find(ends).unwrap_or(rest.len());
    // A backslash continues the line.
    while let Some(more) = rest.get(end..).and_then(|rest| rest.strip_prefix('\n'))
        && !is_nested
        && rest
            .get(..end)
            .is_some_and(|line| line.trim_end_matches('\r').ends_with('\\'))
    {
        end += 1 + more.find('\n').unwrap_or(more.len());
    }

    let line = rest.get(..end)?;
    let line = line.get(..line.find(" #").unwrap_or(line.len()))?;
    Some(
        line.trim_end_matches([' ', '\t', '\r', ',', '}', ']', ';', '"', '\''])
            .len(),
    )
}

/// Returns the length of a value in a line of other values: its first word, and the next one if
/// that is only a kind of authentication.
pub(super) fn word(rest: &str) -> usize {
    let ends = |c: char| c.is_whitespace() || ",&;}]<\"'\\`".contains(c);
    let length = rest.find(ends).unwrap_or(rest.len());
    let is_kind = rest.get(..length).is_some_and(|kind| {
        ["bearer", "basic", "digest", "token", "negotiate"]
            .iter()
            .any(|it| kind.eq_ignore_ascii_case(it))
    });

    let next = rest
        .get(length..)
        .and_then(|rest| rest.strip_prefix(' '))
        .filter(|_| is_kind);
    next.map_or(length, |next| {
        length + 1 + next.find(ends).unwrap_or(next.len())
    })
}

/// Returns true if a value of YAML is in the next lines: `|`, `>-` and so on.
pub(super) fn begins_block(rest: &str) -> bool {
    let marks = |c: char| c.is_ascii_digit() || "+-".contains(c);
    let rest = rest
        .strip_prefix(['|', '>'])
        .map(|rest| rest.trim_start_matches(marks).trim_start_matches(BLANKS));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['\r', '\n', '#']))
}

/// Returns the lines after the value at `begin`, with the place of the first one, and how far its
/// name at `start` is indented.
pub(super) fn after(text: &str, start: usize, begin: usize) -> (usize, usize, &str) {
    let line = text
        .get(..start)
        .and_then(|before| before.rfind('\n'))
        .map_or(0, |at| at + 1);
    let first = text
        .get(begin..)
        .and_then(|rest| rest.find('\n'))
        .map_or(text.len(), |at| begin + at + 1);

    (start - line, first, text.get(first..).unwrap_or_default())
}

pub(super) fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns the range of a block of YAML: the lines after the value at `begin` that are indented
/// more than its name at `start`. Those of a list or a map are none.
pub(super) fn block(text: &str, start: usize, begin: usize, is_equals: bool) -> Range<usize> {
    let (outer, first, lines) = after(text, start, begin);
    let is_marked = text.get(begin..).is_some_and(begins_block);
    let is_assignment = |line: &str| {
        is_equals
            && line
                .split_once('=')
                .is_some_and(|(_, value)| !value.is_empty())
    };

    let mut end = first;
    for line in lines.split_inclusive('\n') {
        let inner = line.trim();
        if !inner.is_empty() && indent(line) <= outer {
            break;
        }

        let is_structure = inner.contains(": ")
            || inner.ends_with(':')
            || inner.starts_with(['-', '{', '['])
            || is_assignment(inner);
        // A line of PEM begins like an item of a list.
        if !is_marked && is_structure && !inner.starts_with("-----BEGIN ") {
            return first..first;
        }
        end += line.len();
    }
    first..end
}

/// Returns the ranges of the texts in a list of YAML, which begins in the line after `begin`.
pub(super) fn items(text: &str, start: usize, begin: usize) -> Vec<Range<usize>> {
    let (outer, first, lines) = after(text, start, begin);
    let mut found = Vec::new();
    let mut at = first;

    for line in lines.split_inclusive('\n') {
        let from = at;
        at += line.len();

        let inner = line.trim();
        if inner.is_empty() {
            continue;
        }

        let Some(item) = inner.strip_prefix("- ").filter(|_| indent(line) >= outer) else {
            break;
        };
        // A map has names of its own.
        if item.contains(": ") || item.ends_with(':') || item.starts_with(['{', '[']) {
            break;
        }

        let item = item.trim_matches([' ', '"', '\'']);
        let place = line.find(item).unwrap_or_default();
        found.push(from + place..from + place + item.len());
    }

    found
}
