//! Removes the secrets of a credential from an answer. Servers may quote them, for example in an
//! error that shows the request.
//!
//! A plugin can make servers quote a text of its choice. So nothing that it can see depends on
//! whether such a text is the beginning of a secret: the mask always holds back the same number of
//! bytes, and [`quotes`] finds only parts that are too long to be guessed.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use memchr::memmem;

use crate::masking::{
    maskable::{self, Beginning, Unmaskable},
    quotes::{self, Quotes, SHORTEST, SHORTEST_OWN},
    secret::Secret,
};

/// The secrets to hide, and the end of the data so far.
#[derive(Default)]
pub struct AnswerMask {
    secrets: Vec<Secret>,
    /// Number of bytes to hold back.
    hold: usize,
    held: BytesMut,
    /// What was found in `held` before. It may not be found again without what was before it.
    hidden: Vec<Range<usize>>,
    /// The beginning of the body of an answer to a request with a credential.
    beginning: Option<Box<Beginning>>,
}

impl AnswerMask {
    /// Also hides those of a credential's `secrets` that it put into a request: the headers were
    /// `asked` by the plugin, and `sent` to the server. A server cannot quote the others, and a
    /// plugin could guess them if their quotes were hidden. Those of earlier attempts of the same
    /// request stay hidden: a server can quote them, too.
    pub fn add(&mut self, secrets: &[Secret], asked: &HeaderMap, sent: &HeaderMap) {
        for value in added(asked, sent) {
            for secret in in_header(value, secrets) {
                self.hide(secret, SHORTEST);
            }
        }
    }

    /// Hides all these secrets in an answer that Skydock has received itself, to a request in which
    /// a plugin has no part. So it hides shorter ones, too.
    ///
    /// # Errors
    /// [`Unmaskable`] if secrets cannot be found in it.
    pub fn over_answer(
        secrets: Vec<Secret>,
        answer: Response<Bytes>,
    ) -> Result<Response<Bytes>, Unmaskable> {
        let (mut head, body) = answer.into_parts();
        let mut mask = Self::over(secrets, SHORTEST_OWN);
        mask.begin(&mut head.headers, !body.is_empty())?;
        let body = [mask.pass(body)?, mask.rest()].concat();
        Ok(Response::from_parts(head, body.into()))
    }

    /// Hides secrets in the headers of the answer, and expects the body that they announce.
    ///
    /// # Errors
    /// [`Unmaskable`] if secrets cannot be found in the body.
    pub fn begin(&mut self, headers: &mut HeaderMap, has_body: bool) -> Result<(), Unmaskable> {
        self.mask(headers);
        if has_body {
            maskable::check(headers)?;
            self.beginning = Some(Box::new(Beginning::of(headers)));
        }
        Ok(())
    }

    fn over(secrets: Vec<Secret>, least: usize) -> Self {
        let mut mask = Self::default();
        secrets
            .into_iter()
            .for_each(|secret| mask.hide(secret, least));
        mask
    }

    /// Returns true if there is a secret to hide.
    pub fn hides(&self) -> bool {
        !self.secrets.is_empty()
    }

    /// Hides a secret that has at least this number of bytes.
    fn hide(&mut self, secret: Secret, least: usize) {
        if secret.expose().len() >= least
            && let Some(reach) = secret.quotes().map(Quotes::reach)
            && !self.secrets.contains(&secret)
        {
            self.hold = self.hold.max(reach);
            self.secrets.push(secret);
        }
    }

    fn mask(&self, headers: &mut HeaderMap) {
        if self.secrets.is_empty() {
            return;
        }

        let quoting = |name: &&HeaderName| !self.find(name.as_str().as_bytes()).is_empty();
        let names: Vec<_> = headers.keys().filter(quoting).cloned().collect();
        for name in names {
            headers.remove(name);
        }

        for value in headers.values_mut() {
            let found = self.find(value.as_bytes());
            if !found.is_empty() {
                let mut masked = value.as_bytes().to_vec();
                found.into_iter().for_each(|range| fill(&mut masked, range));
                *value = HeaderValue::from_bytes(&masked)
                    .unwrap_or_else(|_| HeaderValue::from_static("*"));
            }
        }
    }

    /// Returns the part of the body that is final after this piece, which may be empty. Each hidden
    /// byte becomes a `*`, so that the length is not changed.
    ///
    /// # Errors
    /// [`Unmaskable`] if secrets cannot be found in the body.
    pub fn pass(&mut self, piece: Bytes) -> Result<Bytes, Unmaskable> {
        if let Some(beginning) = &mut self.beginning {
            beginning.check(&piece)?;
        }

        if self.secrets.is_empty() {
            return Ok(piece);
        }

        self.held.extend_from_slice(&piece);
        // What is held back is searched again with the next piece, which may be a single byte.
        if self.held.len() < 2 * self.hold {
            return Ok(Bytes::new());
        }

        Ok(self.release(self.held.len().saturating_sub(self.hold)))
    }

    /// Returns the rest of the body after its last piece.
    pub fn rest(&mut self) -> Bytes {
        self.release(self.held.len())
    }

    /// Returns the number of bytes that are held back.
    pub fn held(&self) -> u64 {
        self.held.len() as u64
    }

    fn find(&self, text: &[u8]) -> Vec<Range<usize>> {
        let all: Vec<_> = self.secrets.iter().filter_map(Secret::quotes).collect();
        quotes::find(text, &all)
    }

    fn release(&mut self, length: usize) -> Bytes {
        if length == 0 {
            return Bytes::new();
        }

        let mut hidden = self.find(&self.held);
        hidden.append(&mut self.hidden);
        let mut released = self.held.split_to(length);

        for Range { start, end } in hidden {
            fill(&mut released, start..end.min(length));
            if end > length {
                self.hidden.push(start.saturating_sub(length)..end - length);
            }
        }

        released.freeze()
    }
}

fn fill(text: &mut [u8], range: Range<usize>) {
    text.get_mut(range)
        .into_iter()
        .for_each(|bytes| bytes.fill(b'*'));
}

/// Returns the values of headers that only the second map has.
fn added<'a>(asked: &HeaderMap, sent: &'a HeaderMap) -> impl Iterator<Item = &'a HeaderValue> {
    let is_new = |(name, value): &(_, _)| !asked.get_all(*name).iter().any(|known| known == *value);
    sent.iter().filter(is_new).map(|(_, value)| value)
}

/// Returns the secrets that a value of a header has. Of basic authentication, only the user name and
/// the password count, and not their encoding: a part of that has a part of the user name, which
/// the plugin may know.
fn in_header(value: &HeaderValue, secrets: &[Secret]) -> Vec<Secret> {
    let within = |text: &[u8]| {
        let has = |secret: &&Secret| memmem::find(text, secret.expose()).is_some();
        secrets.iter().filter(has).cloned().collect::<Vec<_>>()
    };

    let encoded = within(value.as_bytes());
    let basic = value.as_bytes().get(..6);
    if !basic.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic ")) {
        return encoded;
    }

    let sent = Secret::new(value.as_bytes());
    let Some([user, password]) = sent.pair() else {
        return encoded;
    };

    let mut found = [within(user.expose()), within(password.expose())].concat();
    if !secrets.contains(password) {
        // Only their encoding is known, which the file or the issuer has. Tokens may be the user.
        for [user, password] in encoded.iter().filter_map(Secret::pair) {
            let is_token = password.expose().is_empty() || quotes::is_key(user.expose());
            found.extend(is_token.then(|| user.clone()));
            found.push(password.clone());
        }
    }

    found
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose};
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &str = "abcabcabcabcabcabcabd";
    /// A secret that is searched for in parts.
    const RANDOM: &str = "xK9vQ2mB7tR4wZ8nL3pC6hJ1dF5gS0yT";

    fn masked(pieces: &[&[u8]], secret: &str) -> Vec<u8> {
        let mut mask = AnswerMask::over(vec![Secret::from(secret)], SHORTEST);
        let mut all = Vec::new();
        for piece in pieces {
            all.extend(mask.pass(Bytes::copy_from_slice(piece)).unwrap());
        }
        all.extend(mask.rest());
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
                masked(&[text.as_bytes()], TOKEN),
                format!("sent '{stars}' twice: '{stars}'").as_bytes()
            );
        }
    }

    fn mask(secrets: &[Secret], asked: &HeaderMap, sent: &HeaderMap) -> AnswerMask {
        let mut mask = AnswerMask::default();
        mask.add(secrets, asked, sent);
        mask
    }

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(HeaderName::from_static(name), value.parse().unwrap())])
    }

    #[test]
    fn only_long_secrets_that_were_sent_are_hidden() {
        let key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCY";
        let short = "a-short-secret";
        let none = HeaderMap::new();
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
            let hidden = mask(&secrets(), &none, &sent).secrets;
            assert_eq!(
                hidden,
                expected.into_iter().map(Secret::from).collect::<Vec<_>>(),
                "{sent:?}"
            );
        }

        let guest = headers("x-guess", TOKEN);
        assert!(
            !mask(&secrets(), &guest, &guest).hides(),
            "the plugin sent it, not the credential"
        );
    }

    #[test]
    fn a_short_password_cannot_be_guessed_with_its_user() {
        let pair = |password: &str| general_purpose::STANDARD.encode(format!("admin:{password}"));
        let right = pair("hunter22hunter2");
        let wrong = pair("hunter22hunter3");
        let secrets = vec![Secret::from("hunter22hunter2"), Secret::from(&*right)];
        let sent = headers("authorization", &format!("Basic {right}"));
        let mask = mask(&secrets, &HeaderMap::new(), &sent);
        for guess in [&right, &wrong] {
            let mut answer = headers("location", &format!("/{guess}"));
            mask.mask(&mut answer);
            assert_eq!(answer["location"], format!("/{guess}"));
        }
    }

    // Holds: SEC-18
    #[test]
    fn what_a_value_of_basic_authentication_encodes_is_hidden() {
        let encode = |text: &str| general_purpose::STANDARD.encode(text);
        let pair = encode(&format!("admin:{RANDOM}"));
        for (name, sent, file, expected) in [
            (
                "authorization",
                format!("Basic {pair}"),
                pair.clone(),
                vec![RANDOM],
            ),
            (
                "authorization",
                format!("basic {pair}"),
                format!("basic {pair}"),
                vec![RANDOM],
            ),
            (
                "x-other",
                format!("BASIC  {pair}"),
                pair.clone(),
                vec![RANDOM],
            ),
            // The token is the user name.
            (
                "authorization",
                format!("Basic {}", encode(&format!("{RANDOM}:"))),
                encode(&format!("{RANDOM}:")),
                vec![RANDOM],
            ),
            (
                "authorization",
                format!("Basic {}", encode(&format!("{RANDOM}:x-oauth-basic"))),
                encode(&format!("{RANDOM}:x-oauth-basic")),
                vec![RANDOM],
            ),
            // A user name occurs in ordinary answers.
            (
                "authorization",
                format!(
                    "Basic {}",
                    encode(&format!("kubernetes-cloud-controller:{RANDOM}"))
                ),
                encode(&format!("kubernetes-cloud-controller:{RANDOM}")),
                vec![RANDOM],
            ),
            // A key that is not Base64, or only looks like it.
            (
                "authorization",
                format!("Basic {RANDOM}"),
                RANDOM.to_owned(),
                vec![RANDOM],
            ),
            (
                "authorization",
                format!("Basic k:{RANDOM}"),
                RANDOM.to_owned(),
                vec![RANDOM],
            ),
            (
                "authorization",
                format!("Basic {}", encode(RANDOM)),
                encode(RANDOM),
                vec![&*encode(RANDOM)],
            ),
            // Another scheme, in which servers do not decode it.
            (
                "authorization",
                format!("Bearer {pair}"),
                pair.clone(),
                vec![&*pair],
            ),
        ] {
            let secrets = [Secret::from(&*file)];
            let mask = mask(&secrets, &HeaderMap::new(), &headers(name, &sent));
            let expected: Vec<_> = expected.into_iter().map(Secret::from).collect();
            assert_eq!(mask.secrets, expected, "{sent}");
            let quoted = headers("location", &sent);
            let mut answer = quoted.clone();
            mask.mask(&mut answer);
            assert!(
                answer["location"].to_str().unwrap().matches('*').count() >= 32,
                "{answer:?}"
            );
        }
    }

    // Holds: SEC-18
    #[test]
    fn secrets_of_earlier_attempts_are_hidden() {
        let tokens = [TOKEN, RANDOM].map(Secret::from);
        let mut mask = AnswerMask::default();
        for token in [TOKEN, RANDOM, RANDOM] {
            let sent = headers("authorization", &format!("Bearer {token}"));
            mask.add(&tokens, &HeaderMap::new(), &sent);
        }
        assert_eq!(mask.secrets, tokens);
        assert_eq!(mask.hold, AnswerMask::over(tokens.to_vec(), SHORTEST).hold);
    }

    #[test]
    fn headers_that_quote_a_secret_are_masked() {
        let sent = headers("authorization", &format!("Bearer {RANDOM}"));
        let mask = mask(&[Secret::from(RANDOM)], &HeaderMap::new(), &sent);
        let mut answer = HeaderMap::new();
        for (name, value) in [
            ("location", format!("/login?for={RANDOM}&x=1")),
            (
                "x-echo",
                general_purpose::STANDARD.encode(format!("a{RANDOM}")),
            ),
            ("x-cut", RANDOM[..20].to_owned()),
            ("x-other", "kept".to_owned()),
        ] {
            answer.insert(name, value.parse().unwrap());
        }
        let name = format!("x-{}", RANDOM.to_lowercase());
        answer.insert(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            "1".parse().unwrap(),
        );
        mask.mask(&mut answer);
        assert_eq!(
            answer["location"],
            format!("/login?for={}&x=1", "*".repeat(32))
        );
        assert_eq!(answer["x-echo"].to_str().unwrap().trim_matches('*'), "Y");
        assert_eq!(answer["x-cut"], "*".repeat(20));
        assert_eq!(answer["x-other"], "kept");
        assert_eq!(answer.len(), 4, "a name that quotes the secret is removed");
    }

    #[test]
    fn a_compressed_body_is_rejected_also_without_secrets() {
        let mut mask = AnswerMask::default();
        mask.begin(&mut HeaderMap::new(), true).unwrap();
        assert!(mask.pass(Bytes::from_static(b"\x1f\x8b\x08")).is_err());
        let mut without_credential = AnswerMask::default();
        assert!(
            without_credential
                .pass(Bytes::from_static(b"\x1f\x8b\x08"))
                .is_ok()
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
            let mut pieces = Vec::new();
            let mut left = text.as_bytes();
            for cut in cuts {
                let (piece, rest) = left.split_at(cut.min(left.len()));
                pieces.push(piece);
                left = rest;
            }
            pieces.push(left);
            let expected = text.replace(TOKEN, &"*".repeat(TOKEN.len()));
            prop_assert_eq!(String::from_utf8(masked(&pieces, TOKEN)).unwrap(), expected);
        }

        #[test]
        fn a_part_of_a_secret_is_hidden_however_the_body_is_split(
            words in prop::collection::vec(prop_oneof![
                Just(RANDOM.to_owned()),
                Just(RANDOM[3..30].to_owned()),
                Just(general_purpose::STANDARD.encode(RANDOM)),
                (0_usize..80).prop_map(|before| {
                    let lines = general_purpose::STANDARD.encode(format!("{}{RANDOM}", "a".repeat(before)));
                    lines.as_bytes().chunks(76).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\n")
                }),
                Just(RANDOM.bytes().map(|byte| format!("%{byte:02x}")).collect()),
                Just(RANDOM.bytes().map(|byte| format!("\\u{byte:04x}")).collect()),
                "[a-z ]{0,300}",
            ], 0..12),
            cuts in prop::collection::vec(0_usize..400, 0..40),
        ) {
            let text = words.join(" ");
            let mut pieces = Vec::new();
            let mut left = text.as_bytes();
            for cut in cuts {
                let (piece, rest) = left.split_at(cut.min(left.len()));
                pieces.push(piece);
                left = rest;
            }
            pieces.push(left);
            prop_assert_eq!(
                String::from_utf8(masked(&pieces, RANDOM)).unwrap(),
                String::from_utf8(masked(&[text.as_bytes()], RANDOM)).unwrap()
            );
        }

        #[test]
        fn lengths_of_pieces_do_not_depend_on_their_content(
            words in prop::collection::vec((0_usize..30, prop::bool::ANY), 0..20),
        ) {
            let lengths = |word: &dyn Fn(usize, bool) -> String| {
                let mut mask = AnswerMask::over(vec![Secret::from(TOKEN)], SHORTEST);
                let pass = |(length, guess): &(usize, bool)| mask.pass(Bytes::from(word(*length, *guess))).unwrap().len();
                let mut lengths: Vec<_> = words.iter().map(pass).collect();
                lengths.push(mask.rest().len());
                lengths
            };
            let guessed = |length, guess| if guess { TOKEN.repeat(2)[..length].to_owned() } else { "-".repeat(length) };
            prop_assert_eq!(lengths(&guessed), lengths(&|length, _| "-".repeat(length)));
        }
    }

    #[test]
    fn bytes_that_may_begin_a_secret_are_held() {
        let mut mask = AnswerMask::over(vec![Secret::from(TOKEN)], SHORTEST);
        assert_eq!(
            (
                mask.pass(Bytes::from_static(b"hello")).unwrap(),
                mask.held()
            ),
            (Bytes::new(), 5)
        );
        assert_eq!(
            (mask.rest(), mask.held()),
            (Bytes::from_static(b"hello"), 0)
        );
    }
}
