//! What is below a name: the object, block, section or element that it begins.

use std::ops::Range;

use super::{
    BLANKS, PAIR,
    between::{Between, unquoted},
    extent::{after, indent},
};

/// Returns where the names are that are below the one at this place. `between` says how its value
/// begins.
pub(super) fn below(
    text: &str,
    name: &Range<usize>,
    between: Option<&Between>,
) -> Option<Range<usize>> {
    let before = text.get(..name.start)?;
    let rest = text.get(name.end..)?;

    if before.ends_with('<') && rest.starts_with([' ', '\n', '\t']) {
        let tag = rest.get(..rest.find('>')?)?;
        let begin = name.end + tag.len() + 1;
        let is_empty = tag.ends_with('/');
        return Some(
            name.end..if is_empty {
                begin
            } else {
                elements(text, begin)
            },
        );
    }

    if let Some(Between::Tag(begin)) = between {
        return Some(*begin..elements(text, *begin));
    }

    if let Some(length) = section(text, name) {
        return Some(name.end..name.end + length);
    }

    let close = unquoted(rest).trim_start_matches(BLANKS);
    let close = labeled(close).unwrap_or(close);
    let value = close.trim_start_matches([':', '=', '>']);
    if value.trim_start().starts_with(['{', '[']) && !value.trim_start().starts_with("{{") {
        let begin = text.len() - value.trim_start().len();
        return Some(begin..braces(text, begin));
    }

    let is_yaml = value.len() + 1 == close.len() && close.starts_with(':');
    let line = value.lines().next().unwrap_or_default().trim_start();
    (is_yaml && (line.is_empty() || line.starts_with(['#', '&', '!'])))
        .then(|| lines(text, name))?
}

/// Returns the rest of the text from the brace of a block with a label: `"eu" {`.
fn labeled(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('"')?;
    let near = inner
        .get(..inner.floor_char_boundary(PAIR))
        .unwrap_or(inner);
    let rest = inner.get(near.find('"')? + 1..)?.trim_start_matches(BLANKS);
    rest.starts_with('{').then_some(rest)
}

/// Returns the length of the rest of a section of INI or TOML with this name in its first line:
/// `[passwords]`, `[ "passwords" ]`, `[passwords eu]`.
fn section(text: &str, name: &Range<usize>) -> Option<usize> {
    let near = text.ceil_char_boundary(name.start.saturating_sub(PAIR));
    let before = text.get(near..name.start)?;
    let rest = text.get(name.end..)?;

    let line = before.rsplit('\n').next()?.trim_start();
    let is_whole = near == 0 || before.contains('\n');
    let header = rest.get(..rest.floor_char_boundary(PAIR)).unwrap_or(rest);
    let header = header.split('\n').next()?.trim_end();
    let (inner, comment) = header.split_once(']')?;

    // What is in quotes is a name of its own, unless it is all.
    let first = line.strip_prefix('[')?.trim_start_matches(['[', ' ', '\t']);
    let is_name = |part: &str| !part.contains([',', '=', '{', '[']) && !part.contains(": ");
    let is_plain = |quote: char| first.matches(quote).count() % 2 == 0;
    let is_kind = ["\"", "'"].contains(&first) || is_plain('"') && is_plain('\'');
    let comment = comment.trim_start_matches([']', ' ', '\t']);
    let is_alone = comment.is_empty() || comment.starts_with(['#', ';']);

    (is_whole && is_kind && is_name(first) && is_name(inner) && is_alone)
        .then(|| rest.find("\n[").unwrap_or(rest.len()))
}

/// Returns the end of the braces or brackets that open at `begin`. Those in quotes and comments are
/// others.
fn braces(text: &str, begin: usize) -> usize {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut is_comment = false;
    let mut before = ' ';
    let mut is_escape = false;

    let end = text.get(begin..).and_then(|rest| {
        rest.find(|c: char| {
            // An apostrophe within a word begins no quote.
            let starts = !before.is_ascii_alphanumeric();
            match c {
                // A quote that is not closed ends with its line: a mistake must hide no secret.
                '\n' => (quote, is_comment) = (None, false),
                _ if is_comment || is_escape => {}
                '"' | '\'' if quote == Some(c) => quote = None,
                _ if quote.is_some() => {}
                '"' | '\'' if starts => quote = Some(c),
                '#' if before.is_whitespace() => is_comment = true,
                '{' | '[' => depth += 1,
                '}' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            is_escape = c == '\\' && !is_escape;
            before = c;
            depth == 0
        })
    });

    end.map_or(text.len(), |end| begin + end)
}

/// Returns the end of the element whose content begins here.
fn elements(text: &str, begin: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = begin;

    while let Some(open) = text.get(at..).and_then(|rest| rest.find('<')) {
        let start = at + open;
        let tag = text.get(start + 1..).unwrap_or_default();
        // Tags in comments and character data are text.
        let close = match tag {
            _ if tag.starts_with("!--") => "-->",
            _ if tag.starts_with("![CDATA[") => "]]>",
            _ => ">",
        };
        let Some(length) = tag.find(close) else {
            break;
        };
        at = start + 1 + length + close.len();

        let tag = tag.get(..length).unwrap_or_default();
        if tag.starts_with(['!', '?']) || tag.ends_with('/') {
            continue;
        }

        if !tag.starts_with('/') {
            depth += 1;
        } else if depth == 0 {
            return start;
        } else {
            depth -= 1;
        }
    }

    text.len()
}

/// Returns the lines of YAML that are indented more than this name, or are items of its list.
fn lines(text: &str, name: &Range<usize>) -> Option<Range<usize>> {
    let near = text.ceil_char_boundary(name.start.saturating_sub(PAIR));
    if !text.get(near..name.start)?.contains('\n') && near > 0 {
        return None;
    }
    let (outer, first, lines) = after(text, name.start, name.end);
    let is_item = |line: &str| line.trim_start().starts_with("- ");
    let is_list = is_item(lines.trim_start_matches('\n'));
    let inner = lines.split_inclusive('\n').take_while(|line| {
        line.trim().is_empty()
            || indent(line) > outer
            || is_list && is_item(line) && indent(line) == outer
    });
    Some(first..first + inner.map(str::len).sum::<usize>())
}
