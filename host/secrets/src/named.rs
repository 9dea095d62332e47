//! Finds values behind the names of secrets. The format of a text is not known; YAML, JSON, TOML,
//! INI, HCL, properties, XML and forms have something in common: a name, what is between it and its
//! value (`between`), the value (`values`), where that ends (`extent`), and names below the name
//! (`below`).

mod below;
mod between;
mod extent;
mod values;

use std::ops::Range;

use self::{
    below::below,
    between::{Between, between, is_field},
    extent::word,
    values::values,
};
use crate::{
    Found, What,
    name::{Holder, Strength, holder, strength},
    value::{are_names, is_generated, is_held, is_login, is_told_by, is_worth},
};

const BLANKS: [char; 2] = [' ', '\t'];
const QUOTES: [char; 3] = ['"', '\'', '\\'];

/// Minimum bytes of a token after the word `Bearer`. Shorter ones are words of a sentence.
const TOKEN: usize = 16;

/// Maximum bytes of a value that is looked at because its name is suspicious.
const LOOK: usize = 256;

/// Maximum bytes between a name and the field with its value.
const PAIR: usize = 128;

/// Maximum bytes that are below the name of a single secret.
const SINGLE: usize = 1024;

/// What shows that a text has a private key in parts, and the names of these: JWK, and XML of .NET.
const KEYS: [(&str, &[&str]); 2] = [
    ("kty", &["d", "p", "q", "dp", "dq", "qi", "k"]),
    ("RSAKeyValue", &["D", "P", "Q", "DP", "DQ", "InverseQ"]),
];

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
