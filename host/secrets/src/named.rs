//! Finds values behind the names of secrets. The format of a text is not known; YAML, JSON, TOML,
//! INI, HCL, properties, XML and forms have something in common.

mod below;
mod extent;

use std::ops::Range;

use self::{
    below::below,
    extent::{block, element, heredoc, items, line, list, quoted, word},
};
use crate::{
    Found, What,
    name::{Holder, Strength, holder, is_password, strength},
    value::{are_names, is_generated, is_held, is_login, is_made_up, is_told_by, is_worth},
};

const BLANKS: [char; 2] = [' ', '\t'];
const QUOTES: [char; 3] = ['"', '\'', '\\'];

/// Minimum bytes of a token after the word `Bearer`. Shorter ones are words of a sentence.
const TOKEN: usize = 16;

/// Maximum bytes of a value that is looked at because its name is suspicious.
const LOOK: usize = 256;

/// Maximum bytes between a name and the field with its value.
const PAIR: usize = 128;

/// Maximum bytes before and after a name in which another field of the same object has its value.
const OBJECT: usize = 512;

/// Maximum bytes that are below the name of a single secret.
const SINGLE: usize = 1024;

/// Words of fields that have the value of what another field names.
const FIELDS: [&str; 7] = [
    "value", "val", "content", "string", "text", "data", "default",
];

/// Words of fields that name what is in another field.
const NAMING: [&str; 4] = ["key", "name", "id", "k"];

/// What shows that a text has a private key in parts, and the names of these: JWK, and XML of .NET.
const KEYS: [(&str, &[&str]); 2] = [
    ("kty", &["d", "p", "q", "dp", "dq", "qi", "k"]),
    ("RSAKeyValue", &["D", "P", "Q", "DP", "DQ", "InverseQ"]),
];

/// What is between a name and its value.
enum Between {
    /// `:` or `=`, and the value is in the rest of the text. The equals sign is the flag.
    Sign(usize, bool),
    /// `>`, the end of a tag of XML.
    Tag(usize),
    /// Another field, which has the value.
    Field(usize),
    /// Only blanks.
    Blank(usize),
}

/// What is below the name of a secret.
struct Below {
    range: Range<usize>,
    holder: Holder,
    name: String,
}

/// The name of a secret that a value is below.
#[derive(Clone, Copy)]
struct Above<'a> {
    holder: Holder,
    name: &'a str,
}

impl Below {
    fn as_above(&self) -> Above<'_> {
        Above {
            holder: self.holder,
            name: &self.name,
        }
    }

    fn has(&self, place: &Range<usize>) -> bool {
        self.range.contains(&place.start)
    }
}

/// Adds all values behind names of secrets.
pub(crate) fn named(text: &str, found: &mut Vec<Found>) {
    let parts_of_keys = KEYS
        .iter()
        .filter(|(mark, _)| text.contains(mark))
        .flat_map(|(_, names)| names.iter().copied())
        .collect();
    let mut search = Search {
        text,
        parts_of_keys,
        map: None,
        single: None,
    };

    let mut at = 0;
    let mut previous = 0..0;
    while let Some(place) = next_name(text, at) {
        at = place.end;
        let before = std::mem::replace(&mut previous, place.clone());
        let between = between(text, &place);
        if is_file(text, &place, between.as_ref()) {
            continue;
        }

        let strength = search.strength(&before, &place);
        if strength == Strength::Secret {
            search.enter(&place, between.as_ref());
        }

        let Some(between) = between else {
            continue;
        };
        let begin = found.len();
        let name = Name {
            place,
            before,
            strength,
        };
        search.add(&name, &between, found);

        // Names within a value that was found are a part of it.
        let ends = found.iter().skip(begin).map(|it| it.range.end).max();
        at = at.max(ends.unwrap_or_default());
    }
}

/// A word that may be the name of a value.
struct Name {
    place: Range<usize>,
    /// The place of the word before it.
    before: Range<usize>,
    strength: Strength,
}

/// What was seen of a text up to a name.
struct Search<'a> {
    text: &'a str,
    /// Names of the parts of a private key, if the text has one in parts.
    parts_of_keys: Vec<&'a str>,
    /// What is below the last name of a map of secrets.
    map: Option<Below>,
    /// What is below the last name of a single secret.
    single: Option<Below>,
}

impl<'a> Search<'a> {
    fn text_at(&self, place: &Range<usize>) -> &'a str {
        self.text.get(place.clone()).unwrap_or_default()
    }

    /// Returns how surely a word is the name of a secret, alone or with the word before it.
    fn strength(&self, before: &Range<usize>, place: &Range<usize>) -> Strength {
        // `api key` are two words.
        let two = self
            .text
            .get(before.end..place.start)
            .is_some_and(|it| it == " ")
            .then(|| self.text.get(before.start..place.end))
            .flatten();

        // Limited, since the time must stay in proportion to the length of the text.
        let two = two.filter(|two| two.len() <= PAIR);
        strength(self.text_at(place)).max(two.map_or(Strength::None, strength))
    }

    /// Remembers what is below the name of a secret.
    fn enter(&mut self, place: &Range<usize>, between: Option<&Between>) {
        let name = self.text_at(place);
        let Some(holder) = holder(name) else {
            return;
        };

        let is_map = holder.is_map();
        // A map within a map of secrets belongs to the outer one.
        if is_map
            && self
                .map
                .as_ref()
                .is_some_and(|it| place.start < it.range.end)
        {
            return;
        }

        let most = self
            .text
            .floor_char_boundary((place.end + SINGLE).min(self.text.len()));
        let near = if is_map {
            Some(self.text)
        } else {
            self.text.get(..most)
        };
        if let Some(range) = near.and_then(|near| below(near, place, between)) {
            let kept = if is_map {
                &mut self.map
            } else {
                &mut self.single
            };
            *kept = Some(Below {
                range,
                holder,
                name: name.to_owned(),
            });
        }
    }

    /// Adds the values of a name.
    fn add(&self, name: &Name, between: &Between, found: &mut Vec<Found>) {
        let text = self.text;
        let place = &name.place;
        let word = self.text_at(place);

        match (token(text, word, between), name.strength) {
            (Some(token), _) => found.push(Found::new(token, What::Token)),
            (None, Strength::Secret) => self.add_secret(place, between, found),
            (None, _)
                if let Some(above) = [&self.single, &self.map]
                    .into_iter()
                    .flatten()
                    .find(|it| it.has(place)) =>
            {
                entries(text, place, between, above.as_above(), found);
            }
            (None, _)
                if let Some(above) = parent(text, &name.before, place)
                    && let Some(holder) = holder(above) =>
            {
                let above = Above {
                    holder,
                    name: above,
                };
                entries(text, place, between, above, found);
            }
            (None, _) if self.parts_of_keys.contains(&word) => {
                let mut inside = Vec::new();
                values(text, place, between, &mut inside);
                inside.retain(|it| is_generated(self.text_at(&it.range)));
                found.append(&mut inside);
            }
            (None, Strength::Maybe) => suspicious(text, place, between, found),
            (None, Strength::None) => {}
        }
    }

    /// Adds the values of a name of a secret, without what only names another one.
    fn add_secret(&self, place: &Range<usize>, between: &Between, found: &mut Vec<Found>) {
        let name = self.text_at(place);
        let is_list_of_names = holder(name) == Some(Holder::Logins);

        let mut inside = Vec::new();
        values(self.text, place, between, &mut inside);
        inside.retain(|it| {
            let value = self.text_at(&it.range);
            !(is_told_by(name, value) || is_list_of_names && is_list(self.text, it))
        });
        found.append(&mut inside);
    }
}

/// Returns true for a file with a place in it, as in messages of parsers: `/etc/token.conf:6: …`,
/// `/etc/token.conf: line 6: …`.
fn is_file(text: &str, name: &Range<usize>, between: Option<&Between>) -> bool {
    let Some(Between::Sign(value, false)) = between else {
        return false;
    };
    let value = text.get(*value..).unwrap_or_default();
    let number = value.strip_prefix("line ").unwrap_or(value);
    let digits = number.bytes().take_while(u8::is_ascii_digit).count();
    let after = number.get(digits..).unwrap_or_default();
    let in_folder = text.get(..name.start).is_some_and(|it| it.ends_with('/'));
    in_folder && (1..=5).contains(&digits) && after.starts_with([':', ','])
}

/// Returns the name before a name in one key: `passwords.admin`, `passwords/admin`.
fn parent<'a>(text: &'a str, before: &Range<usize>, name: &Range<usize>) -> Option<&'a str> {
    let word = text.get(name.clone())?;
    let parts = word.rsplit_once('.').map(|(above, _)| above);
    let is_path = text.get(before.end..name.start) == Some("/");
    parts.or_else(|| text.get(before.clone()).filter(|_| is_path))
}

fn is_field(name: &str) -> bool {
    FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field))
}

/// Adds the value of a name below that of a secret.
fn entries(
    text: &str,
    name: &Range<usize>,
    between: &Between,
    above: Above<'_>,
    found: &mut Vec<Found>,
) {
    let Above {
        holder,
        name: above,
    } = above;
    if matches!(between, Between::Blank(_)) {
        return;
    }
    let inner = text.get(name.clone()).unwrap_or_default();
    let inner = inner.rsplit('.').next().unwrap_or_default();
    let is_alone = is_field(inner) && holder != Holder::Logins;
    let label = if is_alone {
        above.to_owned()
    } else {
        format!("{above}.{inner}")
    };

    let mut inside = Vec::new();
    values(text, name, between, &mut inside);
    found.extend(inside.into_iter().filter_map(|it| {
        let value = text.get(it.range.clone())?;
        let is_quoted = text.get(..it.range.start)?.ends_with(QUOTES);
        // In YAML, `&a` and `*a` are an anchor and its alias.
        let is_yaml = matches!(between, Between::Sign(_, false)) && !is_quoted;
        let is_anchor = is_yaml && value.starts_with(['&', '*']);
        let value = match value.split_once(' ').filter(|_| is_anchor) {
            Some((_, value)) => value,
            None if is_anchor => "",
            None => value,
        };
        (is_alone || is_held(holder, inner, value)).then(|| Found {
            what: What::Named(label.clone()),
            ..it
        })
    }));
}

/// Returns true for a list of names of Secrets.
fn is_list(text: &str, found: &Found) -> bool {
    let before = text.get(..found.range.start).unwrap_or_default();
    let before = before.trim_end_matches(QUOTES).trim_end_matches(BLANKS);
    let value = text.get(found.range.clone()).unwrap_or_default();
    (before.ends_with(['[', '-']) || value.starts_with('[')) && are_names(value)
}

/// Returns the range of the next word that may be a name.
fn next_name(text: &str, at: usize) -> Option<Range<usize>> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let start = at + text.get(at..)?.find(is_word)?;

    // The letter of an escape is not part of a name.
    let is_escape =
        text.get(..start)?.ends_with('\\') && text.get(start..)?.starts_with(['n', 'r', 't']);
    let start = start + usize::from(is_escape);

    let rest = text.get(start..)?;
    Some(start..start + rest.find(|c| !is_word(c)).unwrap_or(rest.len()))
}

/// Returns what is between the name at this place and its value.
fn between(text: &str, name: &Range<usize>) -> Option<Between> {
    let before = text.get(..name.start)?;
    let rest = text.get(name.end..)?;
    let is_parent = text.get(name.clone())?.ends_with('.');
    let at = |rest: &str| text.len() - rest.len();

    if before.ends_with(['<', ':']) && rest.starts_with(['>', ' ']) {
        // An element of XML, perhaps with attributes.
        let tag = rest.get(..rest.floor_char_boundary(PAIR)).unwrap_or(rest);
        if let Some(end) = tag
            .find(['<', '>', '\n'])
            .filter(|end| tag.get(*end..).is_some_and(|it| it.starts_with('>')))
            && !tag.get(..end).is_some_and(|it| it.ends_with('/'))
        {
            return Some(Between::Tag(name.end + end + 1));
        }
    }

    let close = unquoted(rest);
    let sign = match quoted_key(rest).filter(|_| is_parent) {
        Some(sign) => sign,
        None => unindexed(close),
    };
    let sign = sign.trim_start_matches(BLANKS);

    for (encoded, is_equals) in [("%3D", true), ("%3d", true), ("%3A", false), ("%3a", false)] {
        if let Some(rest) = sign.strip_prefix(encoded) {
            return Some(Between::Sign(at(without_encoded_quote(rest)), is_equals));
        }
    }

    if let Some(rest) = sign.strip_prefix([':', '=']) {
        let is_equals = sign.starts_with('=');
        // `:=` and `=>` are signs, too.
        let rest = if is_equals {
            rest.strip_prefix('>')
        } else {
            rest.strip_prefix('=')
        }
        .unwrap_or(rest);
        let rest = without_encoded_quote(rest.trim_start_matches(BLANKS));
        return Some(Between::Sign(at(rest), is_equals));
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
fn is_line(text: &str, name: &Range<usize>) -> bool {
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
fn unquoted(text: &str) -> &str {
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

/// Adds the values of a name of a secret.
fn values(text: &str, name: &Range<usize>, between: &Between, found: &mut Vec<Found>) {
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
            let inner = field.and_then(|field| Some((self::between(text, &field)?, field)));
            if let Some((inner @ (Between::Sign(..) | Between::Tag(_)), field)) = inner {
                let mut inside = Vec::new();
                values(text, &field, &inner, &mut inside);
                inside.into_iter().for_each(|it| add(it.range, it.is_prose));
            }
        }
        Between::Blank(begin) => {
            let rest = text.get(begin..).unwrap_or_default();
            let word_before = text.get(name.clone()).unwrap_or_default();
            let is_flag = word_before.starts_with("--");
            let is_password = is_password(word_before);

            // `password hunter2`, and also `password is hunter2`.
            let skipped = ["is ", "was ", "to ", "-> "]
                .iter()
                .find(|it| rest.starts_with(**it));
            let begin = begin + skipped.map_or(0, |it| it.len());
            let rest = text.get(begin..).unwrap_or_default();

            let quote = usize::from(rest.starts_with(['"', '\'']));
            let length = word(rest.get(quote..).unwrap_or_default());
            let range = begin + quote..begin + quote + length;
            let value = text.get(range.clone()).unwrap_or_default();
            let value = value.trim_end_matches(['.', ':', ')']);

            let is_value = is_made_up(value) && (is_password || is_line(text, name))
                || is_generated(value) && is_line(text, name);
            if is_flag && !value.starts_with('-') || is_value {
                add(range.start..range.start + value.len(), false);
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

/// Returns the ranges of what is assigned to a name; the value begins at `begin`.
fn assigned(text: &str, name: &Range<usize>, begin: usize, is_equals: bool) -> Vec<Range<usize>> {
    let before = text.get(..name.start).unwrap_or_default();
    let rest = text.get(begin..).unwrap_or_default();
    let inner = rest.trim_start_matches('\\');

    for quotes in ["\"\"\"", "'''"] {
        if let Some(inside) = inner.strip_prefix(quotes) {
            let from = text.len() - inside.len();
            return one(from, inside.find(quotes).unwrap_or(inside.len()));
        }
    }

    if let Some(quote) = inner
        .chars()
        .next()
        .filter(|c| ['"', '\'', '`'].contains(c))
    {
        let from = text.len() - inner.len() + 1;
        let length = quoted(
            text.get(from..).unwrap_or_default(),
            quote,
            rest.starts_with('\\'),
        );
        return one(from, length);
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

    let is_marked = extent::begins_block(rest);
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

/// Adds the value of a suspicious name, if it looks like a secret.
fn suspicious(text: &str, name: &Range<usize>, between: &Between, found: &mut Vec<Found>) {
    let most = text.floor_char_boundary((name.end + LOOK).min(text.len()));
    let Some(near) = text.get(..most) else { return };
    let label = text.get(name.clone()).unwrap_or_default();

    let mut inside = Vec::new();
    values(near, name, between, &mut inside);
    found.extend(inside.into_iter().filter(|it| {
        // A value that ends at the limit may be cut off.
        let is_whole = it.range.end < most || most == text.len();
        let value = near.get(it.range.clone()).unwrap_or_default();
        is_whole && (is_worth(label, value) || is_login(value))
    }));
}

/// Returns the range of the token after the word `Bearer` or `Basic`.
fn token(text: &str, name: &str, between: &Between) -> Option<Range<usize>> {
    let Between::Blank(begin) = *between else {
        return None;
    };
    let is_bearer = name.eq_ignore_ascii_case("bearer");
    let is_basic = name.eq_ignore_ascii_case("basic");
    if !is_bearer && !is_basic {
        return None;
    }

    let rest = text.get(begin..)?;
    let value = rest.get(..word(rest))?;
    let is_token = is_bearer && value.len() >= TOKEN || is_basic && is_login(value);
    is_token.then_some(begin..begin + value.len())
}

#[cfg(test)]
mod tests;
