//! Removes the secrets of a credential from the body of an answer. Servers may quote them, for
//! example in an error that shows the request.
//!
//! A plugin can make servers quote a text of its choice. So nothing that it can see depends on
//! whether such a text is the beginning of a secret: the veil always holds back the same number of
//! bytes.

use std::ops::Range;

use base64::{Engine as _, engine::general_purpose};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use memchr::memmem;
use zeroize::Zeroizing;

use crate::secret::Secret;

/// Minimum length of hidden secrets in bytes. Shorter texts may occur for other reasons; tokens are
/// longer.
const SHORTEST: usize = 20;

/// The secrets to hide, and the end of the data so far.
#[derive(Default)]
pub(crate) struct Veil {
    secrets: Vec<Secret>,
    /// Number of bytes to hold back: the longest incomplete form of a secret.
    hold: usize,
    held: BytesMut,
    /// Number of bytes at the start of `held` that belong to a secret that began earlier.
    hidden: usize,
}

impl Veil {
    /// Creates a veil that hides those of a credential's `secrets` that it put into a request: the
    /// headers were `asked` by the plugin, and `sent` to the server. A server cannot quote the
    /// others.
    pub(crate) fn new(mut secrets: Vec<Secret>, asked: &HeaderMap, sent: &HeaderMap) -> Self {
        let added = added(asked, sent);
        let is_sent = |secret: &Secret| {
            secret.forms().iter().any(|form| {
                added
                    .iter()
                    .any(|value| memmem::find(value, form.as_bytes()).is_some())
            })
        };
        secrets.retain(|secret| secret.expose().len() >= SHORTEST && is_sent(secret));
        Self::over(secrets)
    }

    fn over(secrets: Vec<Secret>) -> Self {
        let longest = secrets
            .iter()
            .flat_map(Secret::forms)
            .map(|form| form.len())
            .max();
        Self {
            secrets,
            hold: longest.unwrap_or_default().saturating_sub(1),
            ..Self::default()
        }
    }

    /// Returns the part of the body that is final after this piece, which may be empty. Each hidden
    /// byte becomes a `*`, so that the length is not changed.
    pub(crate) fn pass(&mut self, piece: Bytes) -> Bytes {
        if self.secrets.is_empty() {
            return piece;
        }
        self.held.extend_from_slice(&piece);
        self.release(self.held.len().saturating_sub(self.hold))
    }

    /// Returns the rest of the body after its last piece.
    pub(crate) fn rest(&mut self) -> Bytes {
        self.release(self.held.len())
    }

    /// Returns the number of bytes that are held back.
    pub(crate) fn held(&self) -> u64 {
        self.held.len() as u64
    }

    fn release(&mut self, length: usize) -> Bytes {
        let mut hidden: Vec<_> = std::iter::once(0..self.hidden).collect();
        for form in self.secrets.iter().flat_map(Secret::forms) {
            hidden.extend(found(&self.held, form.as_bytes()));
        }
        let mut released = self.held.split_to(length);
        self.hidden = 0;
        // Those that begin later are found again.
        for Range { start, end } in hidden.into_iter().filter(|range| range.start <= length) {
            self.hidden = self.hidden.max(end.saturating_sub(length));
            released
                .get_mut(start..end.min(length))
                .into_iter()
                .for_each(|bytes| bytes.fill(b'*'));
        }
        released.freeze()
    }
}

/// Returns the values of headers that only the second map has. Basic authentication is also
/// returned decoded.
fn added(asked: &HeaderMap, sent: &HeaderMap) -> Vec<Zeroizing<Vec<u8>>> {
    let is_new = |(name, value): &(_, _)| !asked.get_all(*name).iter().any(|known| known == *value);
    let mut added = Vec::new();
    for (_, value) in sent.iter().filter(is_new) {
        let value = value.as_bytes();
        let basic = value
            .split_at_checked(6)
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"basic "));
        added.extend(
            basic
                .and_then(|(_, pair)| general_purpose::STANDARD.decode(pair).ok())
                .map(Zeroizing::new),
        );
        added.push(Zeroizing::new(value.to_vec()));
    }
    added
}

/// Number of bytes of a form that are searched for. Preparing a search for a complete long form
/// takes longer than most searches.
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
    starts(text, form)
        .filter(is_whole)
        .map(|at| at..at.saturating_add(form.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "abcabcabcabcabcabcabd";

    fn veiled(pieces: &[&[u8]], secret: &str) -> Vec<u8> {
        let mut veil = Veil::over(vec![Secret::from(secret)]);
        let mut all = Vec::new();
        for piece in pieces {
            all.extend(veil.pass(Bytes::copy_from_slice(piece)));
        }
        all.extend(veil.rest());
        all
    }

    #[test]
    fn secrets_in_every_encoding_become_stars_of_equal_length() {
        for form in [
            TOKEN.to_owned(),
            general_purpose::STANDARD.encode(TOKEN),
            hex::encode(TOKEN),
        ] {
            let text = format!("sent '{form}' twice: '{form}'");
            let stars = "*".repeat(form.len());
            assert_eq!(
                veiled(&[text.as_bytes()], TOKEN),
                format!("sent '{stars}' twice: '{stars}'").as_bytes()
            );
        }
    }

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(http::HeaderName::from_static(name), value.parse().unwrap())])
    }

    #[test]
    fn only_long_secrets_that_were_sent_are_hidden() {
        let (key, short, none) = (
            "wJalrXUtnFEMI/K7MDENG+bPxRfiCY",
            "kubernetes-cluster",
            HeaderMap::new(),
        );
        let secrets = || vec![Secret::from(TOKEN), Secret::from(key), Secret::from(short)];
        let basic = general_purpose::STANDARD.encode(format!("user:{key}"));
        for (sent, expected) in [
            (
                headers("authorization", &format!("Bearer {TOKEN}")),
                vec![TOKEN],
            ),
            (
                headers("authorization", &format!("basic {basic}")),
                vec![key],
            ),
            (
                headers("cookie", &format!("a={TOKEN}; b={short}")),
                vec![TOKEN],
            ),
            (
                headers("authorization", "AWS4-HMAC-SHA256 Signature=abc"),
                vec![],
            ),
        ] {
            let hidden: Vec<_> = Veil::new(secrets(), &none, &sent).secrets;
            assert_eq!(
                hidden,
                expected.into_iter().map(Secret::from).collect::<Vec<_>>(),
                "{sent:?}"
            );
        }
        let guest = headers("x-guess", TOKEN);
        assert!(
            Veil::new(secrets(), &guest, &guest).secrets.is_empty(),
            "the plugin sent it, not the credential"
        );
    }

    #[test]
    fn a_part_of_a_secret_that_no_server_encodes_is_hidden() {
        let text = "{\"token\": \"%2fabcdefghijklmnopqrst%3d\"}";
        let stars = text.replace("abcdefghijklmnopqrst", &"*".repeat(20));
        assert_eq!(
            veiled(&[text.as_bytes()], "/abcdefghijklmnopqrst="),
            stars.as_bytes()
        );
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

        #[test]
        fn lengths_of_pieces_do_not_depend_on_their_content(
            words in prop::collection::vec((0_usize..30, prop::bool::ANY), 0..20),
        ) {
            let lengths = |word: &dyn Fn(usize, bool) -> String| {
                let mut veil = Veil::over(vec![Secret::from(TOKEN)]);
                let pass = |(length, guess): &(usize, bool)| veil.pass(Bytes::from(word(*length, *guess))).len();
                let mut lengths: Vec<_> = words.iter().map(pass).collect();
                lengths.push(veil.rest().len());
                lengths
            };
            let guessed = |length, guess| if guess { TOKEN.repeat(2)[..length].to_owned() } else { "-".repeat(length) };
            prop_assert_eq!(lengths(&guessed), lengths(&|length, _| "-".repeat(length)));
        }
    }

    #[test]
    fn bytes_that_may_begin_a_secret_are_held() {
        let mut veil = Veil::over(vec![Secret::from(TOKEN)]);
        assert_eq!(
            (veil.pass(Bytes::from_static(b"hello")), veil.held()),
            (Bytes::new(), 5)
        );
        assert_eq!(
            (veil.rest(), veil.held()),
            (Bytes::from_static(b"hello"), 0)
        );
    }
}
