//! The parts of a secret that texts are searched for, in all encodings.

use std::ops::Range;

use zeroize::Zeroizing;

use crate::masking::encodings::{Encoded, encoded};

/// Length of the shortest secret that texts are searched for, in bytes. A plugin could guess a
/// shorter one, and see from the answer whether the guess is right.
pub(crate) const SHORTEST: usize = 16;
/// The same for answers in which a plugin has no part, so that it cannot guess.
pub(crate) const SHORTEST_OWN: usize = 8;

/// Minimum length of a part of a secret that looks random. Case is ignored, so it is one of at least
/// 36^10 texts: too many to let a server quote all of them.
const RANDOM: usize = 10;
/// Minimum length of a part of another secret: hexadecimal, which has 16^16 texts, or words, which
/// occur in answers for other reasons.
const OTHER: usize = 16;
/// Minimum length of a part of a secret that has only digits.
const DIGITS: usize = 20;

/// What a text contains if it quotes a part of a secret in one encoding.
#[derive(Debug)]
pub(super) struct Pattern {
    /// The bytes, folded.
    pub(super) text: Zeroizing<Vec<u8>>,
    /// Number of bytes before and after them if the text quotes the complete secret.
    pub(super) before: usize,
    pub(super) after: usize,
}

/// Removes the difference between upper and lower case.
pub(super) fn fold(byte: u8) -> u8 {
    byte | 0x20
}

/// The bytes that occur in patterns.
#[derive(Debug)]
pub(super) struct Alphabet([bool; 256]);

impl Default for Alphabet {
    fn default() -> Self {
        Self([false; 256])
    }
}

impl Alphabet {
    pub(super) fn of(patterns: &[Pattern]) -> Self {
        let mut all = Self::default();
        for byte in patterns.iter().flat_map(|pattern| pattern.text.iter()) {
            all.0
                .get_mut(usize::from(*byte))
                .into_iter()
                .for_each(|has| *has = true);
        }
        all
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (has, other) in self.0.iter_mut().zip(other.0) {
            *has |= other;
        }
    }

    /// Returns true if the byte, however its case, occurs in a pattern.
    pub(super) fn has(&self, byte: u8) -> bool {
        let has = self.0.get(usize::from(fold(byte)));
        has.is_some_and(|has| *has)
    }
}

/// Returns the parts in all encodings, without duplicates.
pub(super) fn patterns(secret: &[u8]) -> Vec<Pattern> {
    let forms = encoded(secret, &parts(secret));
    let mut patterns: Vec<_> = forms.iter().flat_map(patterns_of).collect();
    patterns.sort_by(|one, other| one.text.cmp(&other.text));
    patterns.dedup_by(|one, kept| {
        let is_same = one.text == kept.text;
        if is_same {
            kept.before = kept.before.max(one.before);
            kept.after = kept.after.max(one.after);
        }
        is_same
    });

    patterns
}

/// Returns the parts in one encoding.
fn patterns_of(encoded: &Encoded) -> impl Iterator<Item = Pattern> {
    let Encoded { text, whole, parts } = encoded;
    parts.iter().filter_map(move |part| {
        let folded = text.get(part.clone())?.iter().copied().map(fold);
        Some(Pattern {
            text: Zeroizing::new(folded.collect()),
            before: part.start.saturating_sub(whole.start),
            after: whole.end.saturating_sub(part.end),
        })
    })
}

/// Divides a secret into parts. They do not overlap: otherwise, who knows one of them could guess
/// the next byte alone, and see whether this part is found.
fn parts(secret: &[u8]) -> Vec<Range<usize>> {
    let of_field = |field: Range<usize>| {
        let text = secret.get(field.clone()).unwrap_or_default();
        parts_of(text)
            .into_iter()
            .map(move |part| field.start + part.start..field.start + part.end)
    };
    fields(secret).into_iter().flat_map(of_field).collect()
}

/// Returns what is secret in a text with several fields, such as `SharedAccessSignature sr=URI&sig=KEY`:
/// everybody knows schemes and names, and ordinary answers have them. Otherwise, this is all.
fn fields(secret: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;

    for field in secret.split(|byte| b"&;, ".contains(byte)) {
        let end = at + field.len();
        let mut value = field;
        while let Some(sign) = value.iter().position(|byte| *byte == b'=')
            && let Some((name, [_, rest @ ..])) = value.split_at_checked(sign)
            && is_word(name)
            && !rest.is_empty()
        {
            value = rest;
        }

        if is_key(value) {
            found.push(end - value.len()..end);
        }
        at = end + 1;
    }

    if found.is_empty() {
        found.push(0..secret.len());
    }

    found
}

/// Returns true for what can be a secret of its own: it looks random, and is no URL.
pub(crate) fn is_key(text: &[u8]) -> bool {
    let is_url = [b"%3A%2F%2F".as_slice(), b"%3a%2f%2f", b"://"]
        .iter()
        .any(|sign| memchr::memmem::find(text, sign).is_some());
    let is_random = || is_random(text) && !is_camel(text);
    let is_hex = || is_mostly(text, u8::is_ascii_hexdigit);
    !is_url && (text.len() >= OTHER && is_hex() || text.len() >= RANDOM && is_random())
}

/// Divides a secret, or a field of one, into parts.
fn parts_of(secret: &[u8]) -> Vec<Range<usize>> {
    let known = known(secret);
    let rest = secret.get(known..).unwrap_or_default();
    let count = (rest.len() / least(rest)).max(1);
    let border = |number: usize| known + number * rest.len() / count;
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut start = known;

    for end in (1..=count).map(border) {
        let is_long = |part: &[u8]| part.len() >= least_of_part(part);
        // A part that is easier to guess than the secret on average is joined with the next one.
        if secret.get(start..end).is_some_and(is_long) {
            parts.push(start..end);
            start = end;
        }
    }

    // What remains is too easy to guess to be a part of its own.
    match parts.last_mut() {
        Some(last) => last.end = secret.len(),
        None => parts.push(known..secret.len()),
    }

    // The known beginning belongs to the first part, although it makes it no harder to guess.
    if let Some(first) = parts.first_mut() {
        first.start = 0;
    }

    parts
}

/// Returns the length of the words with which tokens of this kind begin, such as `ghp_`: everybody
/// knows them. Words before words are a part of a passphrase.
fn known(secret: &[u8]) -> usize {
    let mut known = 0;
    let mut rest = secret;

    while let Some(end) = rest.iter().position(|byte| b"_-.:= ".contains(byte))
        && let Some((word, [_, after @ ..])) = rest.split_at_checked(end)
        && is_word(word)
    {
        known += end + 1;
        rest = after;
    }

    let is_token = is_mostly(rest, u8::is_ascii_hexdigit) || is_random(rest);
    if is_token && rest.len() >= RANDOM {
        known
    } else {
        0
    }
}

/// Returns true for a word, or words in camel case.
fn is_word(text: &[u8]) -> bool {
    text.first().is_some_and(u8::is_ascii_alphabetic) && (changes(text) < 2 || is_camel(text))
}

/// Returns true for words in camel case. Random letters change their case more often. The last word
/// may be cut.
fn is_camel(text: &[u8]) -> bool {
    const WORD: usize = 3;
    let mut begins = (1..text.len()).filter(|at| text.get(*at).is_some_and(u8::is_ascii_uppercase));
    let mut start = 0;
    text.iter().all(u8::is_ascii_alphabetic)
        && begins.all(|at| at - std::mem::replace(&mut start, at) >= WORD)
}

/// Returns the minimum length of a part of this secret.
fn least(secret: &[u8]) -> usize {
    if is_mostly(secret, u8::is_ascii_digit) {
        DIGITS
    } else if is_random(secret) && !is_mostly(secret, u8::is_ascii_hexdigit) {
        RANDOM
    } else {
        OTHER
    }
}

/// Returns the minimum length of this part of a secret.
fn least_of_part(part: &[u8]) -> usize {
    if is_mostly(part, u8::is_ascii_digit) {
        DIGITS
    } else if is_mostly(part, u8::is_ascii_hexdigit) || changes(part) < 2 || is_camel(part) {
        OTHER
    } else {
        RANDOM
    }
}

/// Returns true if at most one of the letters and digits is of another kind.
fn is_mostly(text: &[u8], is: fn(&u8) -> bool) -> bool {
    let others = text
        .iter()
        .filter(|byte| kind(**byte).is_some() && !is(byte));
    others.count() < 2
}

/// Returns true for what looks random. Random letters and digits change between upper case, lower
/// case and digits about as often as not; words do so rarely.
fn is_random(text: &[u8]) -> bool {
    let kinds = text.iter().copied().filter_map(kind).count();
    changes(text) * 10 >= kinds * 3 && kinds * 2 >= text.len()
}

/// Returns how often letters and digits change between upper case, lower case and digits.
fn changes(text: &[u8]) -> usize {
    let kinds = || text.iter().copied().filter_map(kind);
    let pairs = kinds().zip(kinds().skip(1));
    pairs.filter(|(one, next)| one != next).count()
}

fn kind(byte: u8) -> Option<u8> {
    match byte {
        b'a'..=b'z' => Some(b'a'),
        b'A'..=b'Z' => Some(b'A'),
        b'0'..=b'9' => Some(b'0'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};

    use super::*;

    #[test]
    fn a_secret_is_divided_into_parts_that_cannot_be_guessed() {
        for (secret, expected) in [
            ("xK9vQ2mB7tR4wZ8n", vec![16]),
            ("xK9vQ2mB7tR4wZ8nL3pC", vec![10, 10]),
            (
                "xK9vQ2mB7tR4wZ8nL3pC6hJ1dF5gS0yTxK9vQ2mB7tR4wZ8n",
                vec![12, 12, 12, 12],
            ),
            ("0123456789abcdef0123456789abcdef", vec![16, 16]),
            ("0123456789abcdef0123456789abcde", vec![31]),
            ("12345678901234567890123456789012345678", vec![38]),
            ("1234567890123456789012345678901234567890", vec![20, 20]),
            ("a-session-token-that-is-long", vec![28]),
            ("correct-horse-battery-staple-again", vec![17, 17]),
            // What tells the kind of the token is known, and does not count.
            ("ghp_xK9vQ2mB7tR4wZ8nL3pC6hJ1dF5gS0yTcV2b", vec![16, 12, 12]),
            (
                "dop_v1_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                vec![23, 16, 16, 16],
            ),
            (
                "github_pat_11ABCDEFG0xK9vQ2mB7tR4wZ8n_0123456789abcdef0123456789abcdef",
                vec![22, 12, 12, 24],
            ),
            // Schemes and names are no parts.
            (
                "Bearer 0123456789abcdef0123456789abcdef01234567",
                vec![20, 20],
            ),
            ("key=0123456789abcdef0123456789abcdef", vec![16, 16]),
            (
                "SharedAccessSignature sr=https%3A%2F%2Fbus.example%2Fhub&sig=xK9vQ2mB7tR4wZ8nL3pC6hJ1dF5gS0yTcV2bN4mA8sD%3D&se=1735689600&skn=RootManageSharedAccessKey",
                vec![11, 12, 11, 12],
            ),
            (
                "SharedAccessSignature sr=x&sig=kKBhyPlEeujNgUGh8XIpIdPnBMZWmBYH",
                vec![10, 11, 11],
            ),
            (
                "svc_admin:8f6574e2712aa1120720cace4bb15d52100e4761",
                vec![30, 20],
            ),
            (
                "PVEAPIToken=root@pam!ccm=9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d",
                vec![18, 18],
            ),
            ("9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", vec![18, 18]),
            // Each part has its own alphabet.
            (
                "xK9vQ2mB7tR4wZ8nL3pC0123456789abcdef0123456789abcdef",
                vec![10, 10, 32],
            ),
            (
                "1234567890123456789012345xK9vQ2mB7tR4wZ8n",
                vec![20, 10, 11],
            ),
            ("myproductionpasswordxK9vQ2mB7tR4wZ8nL3pC", vec![20, 10, 10]),
        ] {
            let parts = parts(secret.as_bytes());
            let lengths: Vec<_> = parts.iter().map(ExactSizeIterator::len).collect();
            assert_eq!(lengths, expected, "{secret}");
            assert!(parts.is_sorted_by(|one, next| one.end == next.start));
        }
    }

    #[test]
    fn patterns_have_only_bytes_that_the_part_determines() {
        let secret = "xK9vQ2mB7tR4wZ8nL3pC";
        let patterns = patterns(secret.as_bytes());
        let shortest = patterns.iter().map(|it| it.text.len()).min();
        assert_eq!(shortest, Some(10));
        for other in ["", "a", "bb", "ccc"] {
            let text = STANDARD_NO_PAD.encode(format!("{other}{secret}{other}"));
            let folded: Vec<u8> = text.bytes().map(fold).collect();
            let found = patterns
                .iter()
                .filter(|it| memchr::memmem::find(&folded, &it.text).is_some());
            assert_eq!(found.count(), 2, "both parts after {other:?}");
        }
    }
}
