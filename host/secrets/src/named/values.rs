//! The values of a name.

use std::ops::Range;

use super::{
    BLANKS, LOOK, QUOTES,
    between::{self, Between, is_line},
    extent::{begins_block, block, element, heredoc, items, line, list, quoted, word},
    next_name,
};
use crate::{
    Found, What,
    name::is_password,
    value::{is_generated, is_made_up},
};

/// Adds the values of a name of a secret.
pub(super) fn values(text: &str, name: &Range<usize>, between: &Between, found: &mut Vec<Found>) {
    let label = || What::Named(text.get(name.clone()).unwrap_or_default().to_owned());
    let mut add = |range: Range<usize>, is_prose: bool| {
        let found_here = Found::new(range, label());
        found.push(Found {
            is_prose,
            ..found_here
        });
    };

    match *between {
        Between::Tag(begin) => {
            let range = element(text, begin);
            // Then its attributes may have the value.
            if text
                .get(range.clone())
                .is_some_and(|it| !it.trim().is_empty())
            {
                add(range, false);
            }
        }
        Between::Field(at) => {
            let field = next_name(text, at).filter(|field| field.start == at);
            let inner = field.and_then(|field| Some((between::between(text, &field)?, field)));
            if let Some((inner @ (Between::Sign(..) | Between::Tag(_)), field)) = inner {
                let mut inside = Vec::new();
                values(text, &field, &inner, &mut inside);
                inside.into_iter().for_each(|it| add(it.range, it.is_prose));
            }
        }
        Between::Blank(begin) => {
            if let Some(range) = after_blanks(text, name, begin) {
                add(range, false);
            }
        }
        Between::Sign(begin, is_equals) => {
            for range in assigned(text, name, begin, is_equals) {
                let is_prose = is_prose(text, &range);
                add(range, is_prose);
            }
        }
    }
}

/// Returns the range of the word that has only blanks between it and a name, if it is a value.
fn after_blanks(text: &str, name: &Range<usize>, begin: usize) -> Option<Range<usize>> {
    let rest = text.get(begin..)?;
    let name_text = text.get(name.clone())?;
    let is_flag = name_text.starts_with("--");
    let is_password = is_password(name_text);

    // `password hunter2`, and also `password is hunter2`.
    let skipped = ["is ", "was ", "to ", "-> "]
        .iter()
        .find(|it| rest.starts_with(**it));
    let begin = begin + skipped.map_or(0, |it| it.len());
    let rest = text.get(begin..)?;

    let quote = usize::from(rest.starts_with(['"', '\'']));
    let begin = begin + quote;
    let value = text.get(begin..begin + word(rest.get(quote..)?))?;
    let value = value.trim_end_matches(['.', ':', ')']);

    let is_value = is_made_up(value) && (is_password || is_line(text, name))
        || is_generated(value) && is_line(text, name);
    (is_flag && !value.starts_with('-') || is_value).then(|| begin..begin + value.len())
}

/// Returns the ranges of what is assigned to a name; the value begins at `begin`.
fn assigned(text: &str, name: &Range<usize>, begin: usize, is_equals: bool) -> Vec<Range<usize>> {
    let before = text.get(..name.start).unwrap_or_default();
    let rest = text.get(begin..).unwrap_or_default();
    if let Some(range) = in_quotes(rest, begin) {
        return vec![range];
    }

    if before.ends_with(['"', '\'']) {
        // An object has names of its own.
        return match rest.chars().next() {
            Some('[') => vec![list(rest, begin)],
            None | Some('{' | '\r' | '\n') => Vec::new(),
            Some(_) => one(begin, word(rest)),
        };
    }

    if let Some(range) = heredoc(rest, begin) {
        return vec![range];
    }

    let is_marked = begins_block(rest);
    // In INI, such a value is no comment.
    let is_hash = is_equals && !rest.starts_with("# ");
    let is_comment = rest.starts_with('#')
        && !is_hash
        && text.get(..begin).is_some_and(|it| it.ends_with(BLANKS));

    if is_marked || is_comment || rest.trim_start_matches('\r').starts_with('\n') {
        let block = block(text, name.start, begin, is_equals);
        return if block.is_empty() {
            items(text, name.start, begin)
        } else {
            vec![block]
        };
    }

    // A map in one line has names of its own.
    if rest.starts_with('{') {
        let near = rest.get(..rest.floor_char_boundary(LOOK)).unwrap_or(rest);
        let end = near.find(['\n', '}']).unwrap_or(near.len());
        let inside = near.get(1..end).unwrap_or_default();
        if inside.trim().is_empty() || inside.contains([':', '=']) {
            return Vec::new();
        }
    }

    let length = line(before, rest).unwrap_or_else(|| word(rest));
    one(begin, length)
}

/// Returns the range of a value in quotes.
fn in_quotes(rest: &str, begin: usize) -> Option<Range<usize>> {
    let inner = rest.trim_start_matches('\\');
    let is_nested = inner.len() < rest.len();
    let begin = begin + rest.len() - inner.len();

    for quotes in ["\"\"\"", "'''"] {
        if let Some(inside) = inner.strip_prefix(quotes) {
            let from = begin + quotes.len();
            return Some(from..from + inside.find(quotes).unwrap_or(inside.len()));
        }
    }

    let quote = inner.chars().next()?;
    let inside = inner.strip_prefix(['"', '\'', '`'])?;
    let from = begin + quote.len_utf8();
    Some(from..from + quoted(inside, quote, is_nested))
}

/// Returns the range of a value with this length.
fn one(begin: usize, length: usize) -> Vec<Range<usize>> {
    let range = begin..begin + length;
    vec![range]
}

/// Returns true if a value is the beginning of a sentence: it has several words, and the first two
/// consist of letters.
fn is_prose(text: &str, range: &Range<usize>) -> bool {
    let is_quoted = text
        .get(..range.start)
        .is_some_and(|it| it.ends_with(QUOTES));
    let rest = text.get(range.start..).unwrap_or_default();
    let near = rest.get(..rest.floor_char_boundary(LOOK));
    let line = near.unwrap_or(rest).lines().next();
    let mut words = line.unwrap_or_default().split_whitespace();

    let is_word = |word: &str| {
        let word = word.trim_end_matches(['.', ',', ':', ';', ')']);
        !word.is_empty()
            && word
                .bytes()
                .all(|b| b.is_ascii_alphabetic() || b"'-".contains(&b))
    };
    !is_quoted && words.next().is_some_and(is_word) && words.next().is_some_and(is_word)
}
