//! What is below a name: the object, block, section or element that it begins.

use std::ops::Range;

use super::{
    BLANKS, Between, PAIR,
    extent::{after, indent},
    unquoted,
};

/// Returns where the names are that are below the one at this place. `between` says how its value
/// begins.
pub(super) fn below(
    text: &str,
    name: &Range<usize>,
    between: Option<&Between>,
) -> Option<Range<usize>> {
    if let Some(Between::Tag(begin)) = between {
        return Some(*begin..elements(text, *begin));
    }
    let rest = text.get(name.end..)?;
    if let Some(length) = section(text, name) {
        return Some(name.end..name.end + length);
    }
    let close = unquoted(rest).trim_start_matches(BLANKS);
    let value = close.trim_start_matches([':', '=', '>']);
    if value.trim_start().starts_with('{') && !value.trim_start().starts_with("{{") {
        let begin = text.len() - value.trim_start().len();
        return Some(begin..braces(text, begin));
    }
    let is_yaml = value.len() + 1 == close.len() && close.starts_with(':');
    let line = value.lines().next().unwrap_or_default().trim_start();
    (is_yaml && (line.is_empty() || line.starts_with(['#', '&', '!'])))
        .then(|| lines(text, name))?
}

/// Returns the length of the rest of a section of INI or TOML with this name, which is alone in its
/// line.
fn section(text: &str, name: &Range<usize>) -> Option<usize> {
    let before = text.get(..name.start)?.trim_end_matches('[');
    let is_first = before.is_empty() || before.trim_end_matches(BLANKS).ends_with('\n');
    let rest = text.get(name.end..)?;
    let inner = rest.strip_prefix(']')?.trim_start_matches(']');
    let is_alone = inner
        .trim_start_matches([' ', '\t', '\r'])
        .strip_prefix(['\n', '#', ';'])
        .is_some();
    (is_first && before.len() < name.start && is_alone)
        .then(|| rest.find("\n[").unwrap_or(rest.len()))
}

/// Returns the end of the braces that open at `begin`.
fn braces(text: &str, begin: usize) -> usize {
    let mut depth = 0_usize;
    let end = text.get(begin..).and_then(|rest| {
        rest.find(|c| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        })
    });
    end.map_or(text.len(), |end| begin + end)
}

/// Returns the end of the element whose content begins here.
fn elements(text: &str, begin: usize) -> usize {
    let (mut depth, mut at) = (0_usize, begin);
    let rest = text.get(begin..).unwrap_or_default();
    for piece in rest.split_inclusive('<') {
        let tag = piece.split('>').next().unwrap_or_default();
        let is_first = at == begin;
        at += piece.len();
        if is_first || tag.starts_with(['!', '?']) || tag.ends_with('/') {
            continue;
        }
        if !tag.starts_with('/') {
            depth += 1;
        } else if depth == 0 {
            return at - piece.len();
        } else {
            depth -= 1;
        }
    }
    text.len()
}

/// Returns the lines of YAML that are indented more than this name, unless they are a list.
fn lines(text: &str, name: &Range<usize>) -> Option<Range<usize>> {
    let near = text.ceil_char_boundary(name.start.saturating_sub(PAIR));
    if !text.get(near..name.start)?.contains('\n') && near > 0 {
        return None;
    }
    let (outer, first, lines) = after(text, name.start, name.end);
    if lines.trim_start().starts_with('-') {
        return None;
    }
    let inner = lines
        .split_inclusive('\n')
        .take_while(|line| line.trim().is_empty() || indent(line) > outer);
    Some(first..first + inner.map(str::len).sum::<usize>())
}
