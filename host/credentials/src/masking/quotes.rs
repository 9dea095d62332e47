//! Finds a secret in a text that quotes it, complete or cut, in the encodings that servers use.
//!
//! A plugin can let servers quote texts of its choice, and sees what is masked in the answer. So a
//! text is masked only if it contains a complete part of a secret. The parts do not overlap, and
//! each is too long to be guessed: guesses at single bytes after a known beginning tell nothing.
//! What surrounds a part is masked as well, as far as the complete secret would extend, whatever it
//! is.
//!
//! Parts are searched for in all encodings at once, by groups of six bytes. Every part has one that
//! starts at a multiple of the stride in the text, so most of the text is never looked at.

mod parts;
mod unescaped;

use std::{fmt, ops::Range};

use self::{
    parts::{Alphabet, Pattern, fold, patterns},
    unescaped::Unescaped,
};

pub(crate) use self::parts::{SHORTEST, SHORTEST_OWN, is_key};

/// Number of bytes of a group.
const GROUP: usize = 6;
/// The bytes of a group in a number.
const GROUP_MASK: u64 = 0xFFFF_FFFF_FFFF;
/// Folds all bytes of a group.
const FOLD: u64 = 0x2020_2020_2020;

/// Bits of the filter for each group, as a power of two: one of 16 other groups passes.
const FILTER: u32 = 4;

/// Number of bytes that an escape, or an escape within an escape, can have for one byte.
const LONGEST_ESCAPE: usize = 12;

/// Number of times that escapes within escapes are replaced: a URL in JSON in JSON.
const NESTED: usize = 3;

/// Bytes at which what surrounds a part ends: they do not occur in tokens.
const ENDS: &[u8] = b"\"'`<>()[]{}|\\%&=,;\x7f";

/// A few bytes of a pattern, by which it is found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    bytes: u64,
    /// Index of the pattern.
    pattern: usize,
    /// Where they are in the pattern.
    offset: usize,
}

/// What texts are searched for to find one secret.
pub(crate) struct Quotes {
    patterns: Vec<Pattern>,
    /// Length of the longest pattern.
    longest: usize,
    alphabet: Alphabet,
    /// Distance of the groups of a text that are looked up.
    stride: usize,
    /// Sorted.
    groups: Vec<Group>,
    /// A bit for the hash of each group.
    filter: Vec<u64>,
    /// Number of bits of a hash that are not used.
    shift: u32,
}

impl Quotes {
    /// Returns what to search for, or `None` if the secret is too short for any answer.
    pub(crate) fn of(secret: &[u8]) -> Option<Self> {
        if secret.len() < SHORTEST_OWN {
            return None;
        }

        let patterns = patterns(secret);
        let lengths = || patterns.iter().map(|pattern| pattern.text.len());
        let stride = (lengths().min()? + 1).checked_sub(GROUP)?.max(1);

        let mut groups = Vec::new();
        for (number, pattern) in patterns.iter().enumerate() {
            groups.extend((0..stride).map_while(|offset| {
                Some(Group {
                    bytes: group(&pattern.text, offset)?,
                    pattern: number,
                    offset,
                })
            }));
        }
        groups.sort_unstable();

        let bits = groups.len().next_power_of_two().ilog2() + FILTER;
        let mut all = Self {
            longest: lengths().max()?,
            alphabet: Alphabet::of(&patterns),
            patterns,
            stride,
            groups,
            filter: vec![0; 1 << bits.saturating_sub(6)],
            shift: u64::BITS - bits.max(6),
        };

        for group in &all.groups {
            let (word, bit) = slot(group.bytes, all.shift);
            all.filter
                .get_mut(word)
                .into_iter()
                .for_each(|word| *word |= bit);
        }

        Some(all)
    }

    /// Returns the number of bytes that must be known around a position to mask it: a part, and
    /// what may surround it.
    pub(crate) fn reach(&self) -> usize {
        2 * self.longest * LONGEST_ESCAPE
    }

    fn find(&self, text: &[u8], found: &mut Vec<Range<usize>>) {
        let starts = 0..(text.len() + 1).saturating_sub(GROUP);
        for at in starts.step_by(self.stride) {
            let Some(group) = group(text, at) else {
                break;
            };
            let (word, bit) = slot(group, self.shift);
            if self.filter.get(word).is_some_and(|word| word & bit != 0) {
                self.verify(text, at, group, found);
            }
        }
    }

    /// Adds the quotes that have this group at this position.
    fn verify(&self, text: &[u8], at: usize, bytes: u64, found: &mut Vec<Range<usize>>) {
        let first = self.groups.partition_point(|group| group.bytes < bytes);
        let same = self.groups.iter().skip(first);
        for group in same.take_while(|group| group.bytes == bytes) {
            let pattern = self.patterns.get(group.pattern);
            let Some((pattern, start)) = pattern.zip(at.checked_sub(group.offset)) else {
                continue;
            };

            let part = start..start + pattern.text.len();
            let is_quote = text.get(part.clone()).is_some_and(|part| {
                let mut both = part.iter().zip(pattern.text.iter());
                both.all(|(byte, folded)| fold(*byte) == *folded)
            });

            if is_quote {
                found.push(self.surrounded(text, part, pattern));
            }
        }
    }

    /// Returns the range of a part with what surrounds it.
    fn surrounded(&self, text: &[u8], part: Range<usize>, pattern: &Pattern) -> Range<usize> {
        let is_inner = |byte: &&u8| **byte > b' ' && !ENDS.contains(byte);
        // If more is quoted than one more part, that part is found itself.
        let most = |length: usize| length.min(self.longest);
        let left = text.get(..part.start);
        let right = text.get(part.end..);
        let left = left.unwrap_or_default().iter().rev();
        let left = left.take(most(pattern.before)).take_while(is_inner).count();
        let right = right.unwrap_or_default().iter();
        let right = right.take(most(pattern.after)).take_while(is_inner).count();

        // An escape is not masked in part: the text must stay readable.
        let start = part.start - left;
        let end_of_escape = match start.checked_sub(1).and_then(|at| text.get(at..)) {
            Some([b'\\', b'u', ..]) => 5,
            Some([b'\\', ..]) => 1,
            Some([b'%', ..]) => 2,
            _ => 0,
        };

        (start + end_of_escape).min(part.start)..part.end + right
    }
}

/// Returns the ranges of a text in which a secret is quoted, in any order.
pub(crate) fn find(text: &[u8], all: &[&Quotes]) -> Vec<Range<usize>> {
    let mut alphabet = Alphabet::default();
    for quotes in all {
        alphabet.add(&quotes.alphabet);
    }
    search(text, all, &alphabet, NESTED)
}

fn search(text: &[u8], all: &[&Quotes], alphabet: &Alphabet, nested: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for quotes in all {
        quotes.find(text, &mut found);
    }

    if nested > 0
        && let Some(view) = Unescaped::of(text, alphabet)
    {
        let inner = search(&view.text, all, alphabet, nested - 1);
        found.extend(inner.iter().map(|range| view.original(range)));
    }

    found
}

/// Returns the folded group at this position, if the text has one.
fn group(text: &[u8], at: usize) -> Option<u64> {
    let rest = text.get(at..)?;
    let bytes = match rest.first_chunk() {
        Some(bytes) => *bytes,
        // At its end, a text has fewer than eight bytes.
        None => {
            let [a, b, c, d, e, f] = *rest.first_chunk::<GROUP>()?;
            [a, b, c, d, e, f, 0, 0]
        }
    };

    Some(u64::from_le_bytes(bytes) & GROUP_MASK | FOLD)
}

/// Returns the word of the filter for a group, and the bit in it.
fn slot(group: u64, shift: u32) -> (usize, u64) {
    // The fraction of the golden ratio: its multiples are spread evenly.
    let hash = group.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift;
    ((hash >> 6) as usize, 1 << (hash & 63))
}

impl fmt::Debug for Quotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Quotes")
    }
}

#[cfg(test)]
mod tests;
