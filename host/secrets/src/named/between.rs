//! What is between a name and its value: a sign, a tag, another field, or only blanks.

use std::ops::Range;

use super::{BLANKS, LOOK, PAIR, QUOTES, extent::word, next_name};
use crate::{name::is_password, value::is_made_up};

/// Maximum bytes before and after a name in which another field of the same object has its value.
const OBJECT: usize = 512;

/// Words of fields that have the value of what another field names.
const FIELDS: [&str; 7] = [
    "value", "val", "content", "string", "text", "data", "default",
];

/// Words of fields that name what is in another field.
const NAMING: [&str; 4] = ["key", "name", "id", "k"];

/// What is between a name and its value.
pub(super) enum Between {
    /// `:` or `=`, and the value is in the rest of the text. The equals sign is the flag.
    Sign(usize, bool),
    /// `>`, the end of a tag of XML.
    Tag(usize),
    /// Another field, which has the value.
    Field(usize),
    /// Only blanks.
    Blank(usize),
}

/// Returns true for the name of a field that has the value of what another field names.
pub(super) fn is_field(name: &str) -> bool {
    FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field))
}

/// Returns what is between the name at this place and its value.
pub(super) fn between(text: &str, name: &Range<usize>) -> Option<Between> {
    let before = text.get(..name.start)?;
    let rest = text.get(name.end..)?;
    let is_parent = text.get(name.clone())?.ends_with('.');
    let at = |rest: &str| text.len() - rest.len();

    if before.ends_with(['<', ':'])
        && let Some(length) = rest_of_tag(rest)
    {
        return Some(Between::Tag(name.end + length));
    }

    let close = unquoted(rest);
    let sign = match quoted_key(rest).filter(|_| is_parent) {
        Some(sign) => sign,
        None => unindexed(close),
    };
    let sign = sign.trim_start_matches(BLANKS);

    if let Some((value, is_equals)) = after_sign(sign) {
        return Some(Between::Sign(at(value), is_equals));
    }

    if let Some(value) = close.strip_prefix('>').filter(|_| close.len() < rest.len()) {
        // `<property name="password">`.
        return Some(Between::Tag(at(value)));
    }

    if let Some(end) = open_tag(text, name) {
        // `<property name="password" type="string">`.
        return Some(match neighbour(text, name) {
            Some(field) => Between::Field(field),
            None => Between::Tag(end),
        });
    }

    let next = || {
        field(text, name.end)
            .or_else(|| sibling(text, name))
            .or_else(|| neighbour(text, name))
    };
    next().map(Between::Field).or_else(|| {
        let word = text.get(name.clone())?;
        let is_item = || word.starts_with("--") || before.trim_end_matches(QUOTES).ends_with('[');
        if let Some(value) = argument(rest).filter(|_| is_item()) {
            return Some(Between::Blank(at(value)));
        }
        let is_alone = sign.len() < close.len() && (stands_alone(word) || is_line(text, name));
        is_alone.then(|| Between::Blank(at(sign)))
    })
}

/// Returns the length of the rest of the tag of an element of XML, perhaps with attributes, unless
/// the element is empty.
fn rest_of_tag(rest: &str) -> Option<usize> {
    if !rest.starts_with(['>', ' ']) {
        return None;
    }
    let tag = rest.get(..rest.floor_char_boundary(PAIR)).unwrap_or(rest);
    let end = tag.find(['<', '>', '\n'])?;
    let is_end = tag.get(end..)?.starts_with('>');
    let is_empty = tag.get(..end)?.ends_with('/');
    (is_end && !is_empty).then_some(end + 1)
}

/// Returns the rest of the text after a colon or an equals sign, and whether it is an equals sign.
fn after_sign(text: &str) -> Option<(&str, bool)> {
    for (encoded, is_equals) in [("%3D", true), ("%3d", true), ("%3A", false), ("%3a", false)] {
        if let Some(rest) = text.strip_prefix(encoded) {
            return Some((without_encoded_quote(rest), is_equals));
        }
    }

    let rest = text.strip_prefix([':', '='])?;
    let is_equals = text.starts_with('=');
    // `:=` and `=>` are signs, too.
    let second = if is_equals { '>' } else { '=' };
    let rest = rest.strip_prefix(second).unwrap_or(rest);
    let rest = without_encoded_quote(rest.trim_start_matches(BLANKS));
    Some((rest, is_equals))
}

/// Returns the rest of the text after indices: `[0]`, `["admin"]`.
fn unindexed(text: &str) -> &str {
    let after = |rest: &'_ str, open: &str, close: &str| {
        let inner = rest.strip_prefix(open)?;
        let near = inner
            .get(..inner.floor_char_boundary(PAIR))
            .unwrap_or(inner);
        let end = near.find(|c| "[]{}=:,\n".contains(c) || close.starts_with(c))?;
        inner.get(end..)?.strip_prefix(close).map(str::len)
    };

    let mut rest = text;
    while let Some(length) = after(rest, "[", "]").or_else(|| after(rest, "%5B", "%5D")) {
        rest = rest.get(rest.len() - length..).unwrap_or_default();
    }
    rest
}

/// Returns the rest of the text after a key in quotes: of `passwords."admin" = 1`, the sign.
fn quoted_key(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| QUOTES.contains(c))?;
    let inner = text.get(1..)?;
    let near = inner
        .get(..inner.floor_char_boundary(PAIR))
        .unwrap_or(inner);
    inner.get(near.find(quote)? + 1..)
}

/// Returns the rest of the text from the next item of a list: `"--password", "x"`, or of a pair.
fn argument(rest: &str) -> Option<&str> {
    let (unquoted, is_quoted) = match rest.strip_prefix(['"', '\'', '\\']) {
        Some(rest) => (rest.trim_start_matches(QUOTES), true),
        None => (rest, false),
    };

    let next = unquoted.trim_start();
    let is_new_line = || {
        unquoted
            .trim_start_matches([' ', '\t', '\r'])
            .starts_with('\n')
    };

    let item = match next.strip_prefix(',') {
        Some(item) if is_quoted => item.trim_start(),
        Some(item) => {
            let item = item.trim_start();
            item.get(..word(item))
                .filter(|it| is_made_up(it))
                .map(|_| item)?
        }
        None => next.strip_prefix("- ").filter(|_| is_new_line())?,
    };
    Some(item.trim_start().trim_start_matches(QUOTES))
}

/// Returns true if the name is the first word of its line, and only one other word is behind it.
pub(super) fn is_line(text: &str, name: &Range<usize>) -> bool {
    let begins = |before: &str| {
        let before = before.trim_end_matches(BLANKS);
        before.is_empty() || before.ends_with('\n')
    };

    let line = text.get(name.end..).and_then(|rest| rest.lines().next());
    text.get(..name.start).is_some_and(begins)
        && line.is_some_and(|line| line.split_whitespace().nth(1).is_none())
}

/// Returns the end of the tag of XML with this attribute, unless it has no content.
fn open_tag(text: &str, name: &Range<usize>) -> Option<usize> {
    let from = text.ceil_char_boundary(name.start.saturating_sub(PAIR));
    let before = text.get(from..name.start)?;
    let begin = before.rfind(['<', '>'])?;
    let is_tag = before.get(begin..)?.starts_with('<') && is_named_by(before);
    let rest = text.get(name.end..).filter(|_| is_tag)?;
    let tag = rest.get(..rest.floor_char_boundary(LOOK))?;
    let end = tag.find(['<', '>'])?;
    let is_open = tag.get(end..)?.starts_with('>') && !tag.get(..end)?.ends_with('/');
    is_open.then(|| name.end + end + 1)
}

/// Returns true if the text ends in what has a name behind it: `name="`, `key: `.
fn is_named_by(before: &str) -> bool {
    let before = before.trim_end_matches(QUOTES).trim_end_matches(BLANKS);
    let field = before.strip_suffix([':', '=']).map(|before| {
        before
            .trim_end_matches(BLANKS)
            .trim_end_matches(QUOTES)
            .rsplit(|c: char| !c.is_ascii_alphanumeric())
            .next()
            .unwrap_or_default()
    });
    field.is_some_and(|field| NAMING.iter().any(|it| field.eq_ignore_ascii_case(it)))
}

/// Returns the place of the field with the value in the same object or tag, if this is its name:
/// `{"name": "password", "type": "string", "value": "x"}`.
fn neighbour(text: &str, name: &Range<usize>) -> Option<usize> {
    let from = text.ceil_char_boundary(name.start.saturating_sub(OBJECT));
    let before = text.get(from..name.start)?;
    if !is_named_by(before) {
        return None;
    }

    let rest = text.get(name.end..)?;
    let rest = rest.get(..rest.floor_char_boundary(OBJECT))?;
    let ends = ["{", "}", "<", ">", "\n- ", "\n\n", "- "];
    let begin = ends
        .iter()
        .filter_map(|end| Some(before.rfind(end)? + end.len()));
    let begin = from + begin.max().unwrap_or_default();
    let item = |line: &str| line.trim_start().starts_with("- ") || line.trim().is_empty();

    let whole = rest.find(['{', '}', '<', '>']).unwrap_or(rest.len());
    let lines = rest.get(..whole)?.split_inclusive('\n').enumerate();
    let end: usize = lines
        .take_while(|(number, line)| *number == 0 || !item(line))
        .map(|(_, line)| line.len())
        .sum();

    let near = text.get(..name.end + end)?;
    let mut at = begin;
    while let Some(place) = next_name(near, at) {
        at = place.end;
        let rest = near.get(place.end..)?;
        let is_assigned = unquoted(rest)
            .trim_start_matches(BLANKS)
            .starts_with([':', '=']);
        if is_assigned && is_field(near.get(place.clone())?) {
            return Some(place.start);
        }
    }

    None
}

/// Returns the place of the element with the value, if this is the text of the one with its name:
/// `<value>x</value><name>password</name>`, perhaps with others between.
fn sibling(text: &str, name: &Range<usize>) -> Option<usize> {
    let from = text.ceil_char_boundary(name.start.saturating_sub(OBJECT));
    let most = text.floor_char_boundary((name.end + OBJECT).min(text.len()));
    let before = text.get(from..name.start)?.trim_end();
    let (mut before, tag) = before.strip_suffix('>')?.rsplit_once('<')?;
    let end = format!("</{tag}>");
    let mut rest = text
        .get(name.end..most)?
        .trim_start()
        .strip_prefix(end.as_str())?;

    if !NAMING.iter().any(|it| tag.eq_ignore_ascii_case(it)) {
        return None;
    }
    let is_value = |tag: &str| is_field(tag.split_whitespace().next().unwrap_or_default());

    while let Some(element) = rest.trim_start().strip_prefix('<') {
        let at = most - element.len();
        if let Some(comment) = element.strip_prefix("!--") {
            rest = comment.split_once("-->")?.1;
            continue;
        }
        let (tag, inner) = element.split_once('>')?;
        if is_value(tag) {
            return Some(at);
        }
        if tag.starts_with('/') {
            break;
        }
        let end = format!("</{}>", tag.split_whitespace().next()?);
        rest = inner.split_once(end.as_str())?.1;
    }

    while let Some(element) = before.trim_end().strip_suffix('>') {
        if let Some(comment) = element.strip_suffix("--") {
            before = comment.rsplit_once("<!--")?.0;
            continue;
        }
        let (inner, tag) = element.rsplit_once("</")?;
        let begin = inner.rfind(&format!("<{tag}"))?;
        if is_value(tag) {
            return Some(from + begin + 1);
        }
        before = inner.get(..begin)?;
    }

    None
}

/// Quotes as URLs, XML and JSON write them.
const ENCODED_QUOTES: [&str; 6] = ["%22", "%27", "&quot;", "&apos;", "&#34;", "\\u0022"];

/// Returns the rest of the text after the quotes at its beginning.
pub(super) fn unquoted(text: &str) -> &str {
    let rest = without_encoded_quote(text);
    if rest.len() < text.len() {
        return rest;
    }
    text.trim_start_matches(QUOTES)
}

fn without_encoded_quote(text: &str) -> &str {
    let mut rests = ENCODED_QUOTES.iter().filter_map(|it| text.strip_prefix(it));
    rests.next().unwrap_or(text)
}

/// Returns true for a word that may have a secret behind it without a sign between.
fn stands_alone(word: &str) -> bool {
    word.starts_with("--")
        || is_password(word)
        || ["bearer", "basic"]
            .iter()
            .any(|it| word.eq_ignore_ascii_case(it))
}

/// Returns the place of the field with the value, if the text continues after a name with it:
/// `"name": "password", "value": "x"`.
fn field(text: &str, end: usize) -> Option<usize> {
    let most = text.floor_char_boundary((end + PAIR).min(text.len()));
    let near = text.get(end..most)?;
    let filler = |c: char| c.is_whitespace() || "\"',\\".contains(c);
    let mut rest = near.trim_start_matches(filler);
    if rest.len() == near.len() && !rest.starts_with("</") {
        return None;
    }

    if let Some(tag) = rest.strip_prefix("</") {
        // `<key>password</key><string>x</string>`.
        let (name, after) = tag.split_once('>')?;
        let is_name = NAMING.iter().any(|it| name.eq_ignore_ascii_case(it));
        rest = is_name.then(|| after.trim_start())?.strip_prefix('<')?;
    }

    let is_field = FIELDS.iter().any(|field| {
        let word = rest.get(..field.len()).unwrap_or_default();
        let after = rest.get(field.len()..).unwrap_or_default();
        word.eq_ignore_ascii_case(field) && !after.starts_with(|c: char| c.is_ascii_alphanumeric())
    });
    is_field.then(|| end + near.len() - rest.len())
}
