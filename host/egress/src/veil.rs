//! Removes the secrets of a credential from the body of an answer. Servers may quote them, for example in an error that shows the
//! request.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use memchr::memmem;

use crate::credentials::secret::Secret;

/// Minimum length of hidden secrets in bytes. Shorter texts may occur for other reasons; tokens are longer.
const SHORTEST: usize = 20;

/// The secrets to hide, and the end of the data so far that may be the beginning of one.
#[derive(Default)]
pub(crate) struct Veil {
    secrets: Vec<Secret>,
    held: BytesMut,
}

impl Veil {
    /// Creates a veil that hides these secrets.
    pub(crate) fn new(mut secrets: Vec<Secret>) -> Self {
        secrets.retain(|secret| secret.expose().len() >= SHORTEST);
        Self { secrets, held: BytesMut::new() }
    }

    /// Returns the part of the body that is final after this piece, which may be empty. Each hidden byte becomes a `*`, so that
    /// the length is not changed.
    pub(crate) fn pass(&mut self, piece: Bytes) -> Bytes {
        if self.secrets.is_empty() {
            return piece;
        }
        let mut sure = if self.held.is_empty() {
            piece
        } else {
            self.held.extend_from_slice(&piece);
            self.held.split().freeze()
        };
        let mut hidden = Vec::new();
        let mut open = 0;
        for form in self.secrets.iter().flat_map(Secret::forms).map(|form| form.as_bytes()) {
            hidden.extend(found(&sure, form));
            open = open.max(beginning(&sure, form));
        }
        if !hidden.is_empty() {
            let mut veiled = BytesMut::from(sure);
            for at in hidden {
                veiled.get_mut(at).into_iter().for_each(|bytes| bytes.fill(b'*'));
            }
            sure = veiled.freeze();
        }
        self.held = BytesMut::from(sure.split_off(sure.len().saturating_sub(open)));
        sure
    }

    /// Returns the rest of the body after its last piece.
    pub(crate) fn rest(&mut self) -> Bytes {
        self.held.split().freeze()
    }

    /// Returns the number of bytes that are held back.
    pub(crate) fn held(&self) -> u64 {
        self.held.len() as u64
    }
}

/// Number of bytes of a form that are searched for. Preparing a search for a complete long form takes longer than most searches.
const START: usize = 16;

/// Returns the positions at which the start of this form occurs, including overlapping ones.
fn starts<'a>(text: &'a [u8], form: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let finder = memmem::Finder::new(form.get(..START).unwrap_or(form));
    let mut from = 0_usize;
    std::iter::from_fn(move || {
        let at = from.saturating_add(finder.find(text.get(from..)?)?);
        from = at.saturating_add(1);
        Some(at)
    })
}

/// Returns the ranges at which the complete form occurs.
fn found<'a>(text: &'a [u8], form: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
    let is_whole = |at: &usize| text.get(*at..).is_some_and(|rest| rest.starts_with(form));
    starts(text, form).filter(is_whole).map(|at| at..at.saturating_add(form.len()))
}

/// Returns how many bytes at the end of the text are the beginning of an incomplete form.
fn beginning(text: &[u8], form: &[u8]) -> usize {
    let first = text.len().saturating_sub(form.len().saturating_sub(1));
    let Some(end) = text.get(first..) else { return 0 };
    let shorter = end.len().saturating_sub(START.saturating_sub(1))..end.len();
    let begins = |at: &usize| end.get(*at..).is_some_and(|rest| form.starts_with(rest));
    let at = starts(end, form).chain(shorter).find(begins);
    at.map_or(0, |at| end.len().saturating_sub(at))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "abcabcabcabcabcabcabd";

    fn veiled(pieces: &[&[u8]], secret: &str) -> Vec<u8> {
        let mut veil = Veil::new(vec![Secret::from(secret)]);
        let mut all = Vec::new();
        for piece in pieces {
            all.extend(veil.pass(Bytes::copy_from_slice(piece)));
        }
        all.extend(veil.rest());
        all
    }

    #[test]
    fn secrets_in_every_encoding_become_stars_of_equal_length() {
        use base64::Engine as _;
        for form in [TOKEN.to_owned(), base64::engine::general_purpose::STANDARD.encode(TOKEN), hex::encode(TOKEN)] {
            let text = format!("sent '{form}' twice: '{form}'");
            let stars = "*".repeat(form.len());
            assert_eq!(veiled(&[text.as_bytes()], TOKEN), format!("sent '{stars}' twice: '{stars}'").as_bytes());
        }
    }

    #[test]
    fn short_secrets_are_not_hidden() {
        assert_eq!(veiled(&[b"kubernetes-cluster"], "kubernetes-cluster"), b"kubernetes-cluster");
    }

    #[test]
    fn bytes_that_do_not_start_a_secret_are_not_held_back() {
        let mut veil = Veil::new(vec![Secret::from(TOKEN)]);
        assert_eq!(veil.pass(Bytes::from_static(b"{\"servers\": []}")), "{\"servers\": []}");
        assert_eq!(veil.held(), 0);
        assert_eq!((veil.pass(Bytes::from_static(b"x abc")), veil.held()), (Bytes::from_static(b"x "), 3));
        assert_eq!(veil.pass(Bytes::from_static(b"d")), "abcd", "it went on as none");
    }

    proptest! {
        #[test]
        fn a_secret_is_hidden_however_the_body_is_split(
            words in prop::collection::vec(prop_oneof![Just(TOKEN), Just("abc"), Just("abcabcabcabcabcabc"), "[abd]{0,9}"
                .prop_map(|text| &*text.leak())], 0..12),
            cuts in prop::collection::vec(0_usize..9, 0..40),
        ) {
            let text = words.concat();
            let (mut pieces, mut left) = (Vec::new(), text.as_bytes());
            for cut in cuts {
                let (piece, rest) = left.split_at(cut.min(left.len()));
                pieces.push(piece);
                left = rest;
            }
            pieces.push(left);
            let expected = text.replace(TOKEN, &"*".repeat(TOKEN.len()));
            prop_assert_eq!(String::from_utf8(veiled(&pieces, TOKEN)).unwrap(), expected);
        }
    }
}
