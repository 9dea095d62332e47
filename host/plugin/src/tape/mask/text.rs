//! Finds secrets in texts, by the names before them. The format of a text is not known; YAML, JSON,
//! TOML, INI, XML and forms have something in common.

use std::ops::Range;

use super::names::is_secret;

/// Minimum bytes of a token after the word `Bearer`. Shorter ones are words of a sentence.
const TOKEN: usize = 16;

const BLANKS: [char; 2] = [' ', '\t'];
const QUOTES: [char; 3] = ['"', '\'', '\\'];

/// Returns where a text contains secrets: after a name, in private keys, in URLs with a password,
/// and after `Bearer`.
pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let start = at + rest.find(is_word).unwrap_or(rest.len());
        // The letter of an escape is not part of a name.
        let is_escape = text
            .get(..start)
            .is_some_and(|before| before.ends_with('\\'));
        let is_escape = is_escape
            && text
                .get(start..)
                .is_some_and(|word| word.starts_with(['n', 'r', 't']));
        let start = start + usize::from(is_escape);
        let word = text.get(start..).unwrap_or_default();
        let end = start + word.find(|c| !is_word(c)).unwrap_or(word.len());
        at = end;
        let name = text.get(start..end).unwrap_or_default();
        let value = if is_secret(name) {
            value_after(text, start, end)
        } else {
            None
        };
        let range = value.or_else(|| {
            name.eq_ignore_ascii_case("bearer")
                .then(|| token(text, end))
                .flatten()
        });
        if let Some(range) = range {
            at = range.end.max(end);
            found.push(range);
        }
    }
    found.extend(private_keys(text));
    found.extend(passwords_of_urls(text));
    found.sort_unstable_by_key(|range| range.start);
    found.dedup_by(|later, earlier| {
        let overlaps = later.start < earlier.end;
        earlier.end = if overlaps {
            earlier.end.max(later.end)
        } else {
            earlier.end
        };
        overlaps
    });
    found.retain(|range| !range.is_empty());
    found
}

/// Returns the range of the value of a name at `start..end`.
fn value_after(text: &str, start: usize, end: usize) -> Option<Range<usize>> {
    let before = text.get(..start)?;
    let rest = text.get(end..)?;
    if let Some(inner) = rest.strip_prefix('>')
        && before.ends_with(['<', ':'])
    {
        // An element of XML.
        let begin = text.len() - inner.len();
        return Some(begin..begin + inner.find('<').unwrap_or(inner.len()));
    }
    let is_quoted = before.ends_with(['"', '\'']);
    let rest = rest.trim_start_matches(QUOTES).trim_start_matches(BLANKS);
    let rest = rest
        .strip_prefix([':', '='])
        .map(|rest| rest.trim_start_matches(BLANKS))?;
    let begin = text.len() - rest.len();
    let inner = rest.trim_start_matches('\\');
    if let Some(quote) = inner.chars().next().filter(|c| ['"', '\''].contains(c)) {
        let from = text.len() - inner.len() + 1;
        return Some(from..from + quoted(text.get(from..)?, quote, rest.starts_with('\\')));
    }
    if is_quoted {
        // A list of texts, or else a number or an object: replacing one of these would make the
        // text invalid.
        return rest.starts_with('[').then(|| list(rest, begin));
    }
    if begins_block(rest) || rest.trim_start_matches('\r').starts_with('\n') {
        return Some(block(text, start, begin));
    }
    let length = line(before, rest).unwrap_or_else(|| word(rest));
    Some(begin..begin + length)
}

/// Returns the length of a text that a quote ends.
fn quoted(inner: &str, quote: char, is_nested: bool) -> usize {
    let mut escaped = false;
    let length = inner.find(|c| {
        let ends = c == quote && !escaped || is_nested && c == '\\';
        escaped = c == '\\' && !escaped;
        ends
    });
    length.unwrap_or(inner.len())
}

/// Returns the range between the first quote and the last one in a list of JSON, without the
/// structure around it.
fn list(rest: &str, begin: usize) -> Range<usize> {
    let inner = rest
        .get(..rest.find(']').unwrap_or(rest.len()))
        .unwrap_or_default();
    let from = inner.find('"').map_or(inner.len(), |at| at + 1);
    let to = inner.rfind('"').unwrap_or(from).max(from);
    // The quotes and commas between the texts go, too: then it is a list of one.
    begin + from..begin + to
}

/// Returns the length of a value without quotes that ends with its line, if its name is the first
/// word in the line.
fn line(before: &str, rest: &str) -> Option<usize> {
    let indented = before.trim_end_matches([' ', '\t', '-']);
    // Lines may be in a text of JSON.
    let is_nested = indented.ends_with("\\n");
    if !(is_nested || indented.is_empty() || indented.ends_with('\n')) {
        return None;
    }
    let ends: &[char] = if is_nested {
        &['\n', '\\', '"']
    } else {
        &['\n']
    };
    let line = rest.get(..rest.find(ends).unwrap_or(rest.len()))?;
    let line = line.get(..line.find(" #").unwrap_or(line.len()))?;
    Some(
        line.trim_end_matches([' ', '\t', '\r', ',', '}', ']', ';', '"', '\''])
            .len(),
    )
}

/// Returns the length of a value in a line of other values: its first word, and the next one if
/// that is only a kind of authentication.
fn word(rest: &str) -> usize {
    let ends = |c: char| c.is_whitespace() || ",&;}]<\"'\\".contains(c);
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
fn begins_block(rest: &str) -> bool {
    let marks = |c: char| c.is_ascii_digit() || "+-".contains(c);
    let rest = rest
        .strip_prefix(['|', '>'])
        .map(|rest| rest.trim_start_matches(marks).trim_start_matches(BLANKS));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['\r', '\n', '#']))
}

/// Returns the range of a block of YAML: the lines after the value at `begin` that are indented
/// more than its name at `start`. Those of a list or a map are none.
fn block(text: &str, start: usize, begin: usize) -> Range<usize> {
    let line = text
        .get(..start)
        .and_then(|before| before.rfind('\n'))
        .map_or(0, |at| at + 1);
    let indent = start - line;
    let first = text
        .get(begin..)
        .and_then(|rest| rest.find('\n'))
        .map_or(text.len(), |at| begin + at + 1);
    let is_marked = text.get(begin..).is_some_and(begins_block);
    let mut end = first;
    for line in text.get(first..).unwrap_or_default().split_inclusive('\n') {
        let inner = line.trim();
        if !inner.is_empty() && line.len() - line.trim_start().len() <= indent {
            break;
        }
        let is_structure =
            inner.contains(": ") || inner.ends_with(':') || inner.starts_with(['-', '{', '[']);
        if !is_marked && is_structure {
            return first..first;
        }
        end += line.len();
    }
    first..end
}

/// Returns the token after the word `Bearer`, which ends at `end`.
fn token(text: &str, end: usize) -> Option<Range<usize>> {
    let rest = text.get(end..)?.strip_prefix(' ')?;
    let length = word(rest);
    (length >= TOKEN).then_some(end + 1..end + 1 + length)
}

/// Returns the ranges between the lines of PEM around private keys.
fn private_keys(text: &str) -> impl Iterator<Item = Range<usize>> {
    const END: &str = "PRIVATE KEY-----";
    /// Maximum bytes from `BEGIN` to there.
    const KIND: usize = 24;
    text.match_indices(END).filter_map(|(at, _)| {
        let from = at + END.len();
        let rest = text.get(from..)?;
        let end = rest.find("-----").unwrap_or(rest.len());
        // The one after END has no data behind it.
        let before = text.get(text.floor_char_boundary(at.saturating_sub(KIND))..at)?;
        before.contains("BEGIN").then_some(from..from + end)
    })
}

/// Returns the ranges of passwords in URLs: `https://USER:PASSWORD@HOST`.
fn passwords_of_urls(text: &str) -> impl Iterator<Item = Range<usize>> {
    /// Maximum bytes of user and password.
    const LONGEST: usize = 1024;
    text.match_indices("://").filter_map(|(at, marker)| {
        let from = at + marker.len();
        let most = text.floor_char_boundary((from + LONGEST).min(text.len()));
        let rest = text.get(from..most)?;
        let authority = rest.get(
            ..rest
                .find(|c: char| c.is_whitespace() || "/?#\"'<>\\".contains(c))
                .unwrap_or(rest.len()),
        )?;
        let (user, _) = authority.rsplit_once('@')?;
        let (name, password) = user.split_once(':')?;
        let begin = from + name.len() + 1;
        Some(begin..begin + password.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text with `*` for secrets.
    fn shown(text: &str) -> String {
        let mut shown = text.to_owned();
        secrets(text)
            .into_iter()
            .for_each(|range| shown.replace_range(range.clone(), &"*".repeat(range.len())));
        shown
    }

    #[test]
    fn a_value_is_masked_to_its_end() {
        for (text, expected) in [
            (
                "password: correct horse, battery # ours\nuser: me",
                "password: ********************** # ours\nuser: me",
            ),
            (
                "[g]\r\npassword = a;b&c,d\r\nuser=me\r\n",
                "[g]\r\npassword = *******\r\nuser=me\r\n",
            ),
            ("- password: a b\n  user: me", "- password: ***\n  user: me"),
            (
                "{\n  password: abc,\n  user: me\n}",
                "{\n  password: ***,\n  user: me\n}",
            ),
            ("{password: abc, user: me}", "{password: ***, user: me}"),
            ("password: |x9!\nuser: me", "password: ****\nuser: me"),
            (
                "password:\n  abc def\nuser: me",
                "password:\n**********user: me",
            ),
            (
                "credentials:\n  user: me\n  key: k\n",
                "credentials:\n  user: me\n  key: k\n",
            ),
            (
                "a: <s:password>hunter2</s:password>",
                "a: <s:password>*******</s:password>",
            ),
            (
                r#"{"conf":"[g]\npassword = my pass\nuser=me"}"#,
                r#"{"conf":"[g]\npassword = *******\nuser=me"}"#,
            ),
            (
                r#"{"tokens": ["abc","d"], "n": 1}"#,
                r#"{"tokens": ["*******"], "n": 1}"#,
            ),
            (
                "sent Authorization: Bearer abc.def to it",
                "sent Authorization: ************** to it",
            ),
            (
                "sent Bearer abcdefgh.ijklmnop to it",
                "sent Bearer ***************** to it",
            ),
            (
                "Bearer authentication failed",
                "Bearer authentication failed",
            ),
            (
                "https://me:p@ss:w@cloud/a@b and http://me@cloud",
                "https://me:******@cloud/a@b and http://me@cloud",
            ),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn a_hostile_text_takes_no_longer_than_another_one() {
        let begun = std::time::Instant::now();
        for part in [
            "PRIVATE KEY-----",
            "password:",
            "x password: |",
            "\\npassword:\\",
            "\"password\":\"",
            "\"password\":[",
            "<password>",
            "x://a:",
            "Bearer ",
        ] {
            let text = part.repeat((256 << 10) / part.len());
            secrets(&text);
        }
        // One that is quadratic takes minutes.
        assert!(
            begun.elapsed() < std::time::Duration::from_secs(30),
            "{:?}",
            begun.elapsed()
        );
    }
}
