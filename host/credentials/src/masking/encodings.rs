//! The list of the encodings in which answers are searched for a secret. Recordings have another
//! one (`skydock-recording`), for what they replace by text of the same length.
//!
//! [`ENCODINGS`] change the secret as a whole, so it is encoded before the search: `quotes` looks
//! for its parts in all of them, and `secret` for the complete secret in those that keep it
//! recognizable. An escape of a single character ([`escaped`]) can be anywhere, so `quotes` removes
//! escapes from the text instead (`quotes/unescaped.rs`); a secret that is too short for that is
//! searched for with all characters escaped. A further encoding goes into one of the two lists.

use std::ops::Range;

use base64::{
    Engine as _,
    engine::{
        GeneralPurpose,
        general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
    },
};
use zeroize::Zeroizing;

use crate::request::encode;

/// Maximum length of secrets that are also searched for encoded twice. Longer ones are not used for
/// Basic authentication, which is Base64 before a server encodes it again.
const TWICE: usize = 256;

/// Something that a server does with a text before it quotes it.
#[derive(Clone, Copy)]
enum Step {
    /// Changes the case, as some servers do before they encode.
    Upper,
    Lower,
    Utf16,
    /// Puts a plus in place of a space, as a form has it.
    Plus,
    Hex,
    /// Without padding, which matches texts with and without it.
    Base64,
    Base64Url,
}

/// An encoding, as the steps that lead to it.
struct Encoding {
    steps: &'static [Step],
    /// A complete secret is searched for in it, however short it is.
    whole: bool,
    /// Maximum length of secrets that are searched for in it.
    most: usize,
}

impl Encoding {
    const fn whole(steps: &'static [Step]) -> Self {
        Self {
            steps,
            whole: true,
            most: usize::MAX,
        }
    }

    const fn of_parts(steps: &'static [Step]) -> Self {
        Self {
            steps,
            whole: false,
            most: usize::MAX,
        }
    }

    const fn twice(steps: &'static [Step]) -> Self {
        Self {
            steps,
            whole: false,
            most: TWICE,
        }
    }
}

const ENCODINGS: [Encoding; 13] = [
    Encoding::whole(&[]),
    Encoding::whole(&[Step::Hex]),
    Encoding::whole(&[Step::Base64]),
    Encoding::whole(&[Step::Base64Url]),
    Encoding::of_parts(&[Step::Plus]),
    Encoding::of_parts(&[Step::Upper, Step::Hex]),
    Encoding::of_parts(&[Step::Lower, Step::Hex]),
    Encoding::of_parts(&[Step::Utf16, Step::Hex]),
    Encoding::of_parts(&[Step::Upper, Step::Base64]),
    Encoding::of_parts(&[Step::Lower, Step::Base64]),
    Encoding::of_parts(&[Step::Utf16, Step::Base64]),
    Encoding::twice(&[Step::Base64, Step::Base64]),
    Encoding::twice(&[Step::Base64, Step::Hex]),
];

/// Returns a text with all characters escaped that URLs, JSON, XML and forms escape.
fn escaped(bytes: &[u8]) -> Vec<String> {
    let mut all = vec![encode::percent(bytes, b""), encode::percent(bytes, b"/")];
    if let Ok(text) = std::str::from_utf8(bytes) {
        all.extend([encode::json(text), encode::xml(text), encode::form(text)]);
    }
    all
}

/// Returns the texts that quote a complete secret, without duplicates.
pub(super) fn whole(secret: &[u8]) -> Vec<Zeroizing<String>> {
    let encoded = |encoding: &Encoding| {
        // The first is the one without other bytes before the secret.
        let forms = encode_all(Encoded::plain(secret, Vec::new()), encoding);
        let first = forms.first()?;
        Some(String::from_utf8_lossy(&first.text).into_owned())
    };

    let mut all: Vec<String> = ENCODINGS
        .iter()
        .filter(|encoding| encoding.whole)
        .filter_map(encoded)
        .chain(escaped(secret))
        .collect();
    all.sort();
    all.dedup();
    all.into_iter().map(Zeroizing::new).collect()
}

/// Returns a secret, which is divided into these parts, in all encodings.
pub(super) fn encoded(secret: &[u8], parts: &[Range<usize>]) -> Vec<Encoded> {
    ENCODINGS
        .iter()
        .filter(|encoding| secret.len() <= encoding.most)
        .flat_map(|encoding| encode_all(Encoded::plain(secret, parts.to_vec()), encoding))
        .collect()
}

fn encode_all(plain: Encoded, encoding: &Encoding) -> Vec<Encoded> {
    let start = vec![plain];
    encoding.steps.iter().fold(start, |all, step| {
        all.iter().flat_map(|text| text.after(*step)).collect()
    })
}

/// A secret in an encoding.
pub(super) struct Encoded {
    pub(super) text: Zeroizing<Vec<u8>>,
    /// Where the secret is in the text. Its first and its last byte may encode other bits, too.
    pub(super) whole: Range<usize>,
    /// Where its parts are, without bytes that encode other bits.
    pub(super) parts: Vec<Range<usize>>,
}

impl Encoded {
    fn plain(secret: &[u8], parts: Vec<Range<usize>>) -> Self {
        Self {
            text: Zeroizing::new(secret.to_vec()),
            whole: 0..secret.len(),
            parts,
        }
    }

    /// Returns the results of a step. In Base64, they depend on the number of bytes before the
    /// text, modulo three.
    fn after(&self, step: Step) -> Vec<Self> {
        let base64 = |engine| (0..3).map(|shift| self.base64(engine, shift)).collect();
        match step {
            Step::Upper => vec![self.with(<[u8]>::to_ascii_uppercase)],
            Step::Lower => vec![self.with(<[u8]>::to_ascii_lowercase)],
            Step::Utf16 => vec![self.utf_16()],
            Step::Plus => vec![self.with(plus)],
            Step::Hex => vec![self.hex()],
            Step::Base64 => base64(&STANDARD_NO_PAD),
            Step::Base64Url => base64(&URL_SAFE_NO_PAD),
        }
    }

    /// Changes bytes, but not their number.
    fn with(&self, change: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        Self {
            text: Zeroizing::new(change(&self.text)),
            whole: self.whole.clone(),
            parts: self.parts.clone(),
        }
    }

    fn hex(&self) -> Self {
        let double = |range: &Range<usize>| range.start * 2..range.end * 2;
        Self {
            text: Zeroizing::new(hex::encode(&*self.text).into_bytes()),
            whole: double(&self.whole),
            parts: self.parts.iter().map(double).collect(),
        }
    }

    /// Encodes ASCII as UTF-16. Parts have no zero byte at an end, so that the order of the bytes
    /// does not matter.
    fn utf_16(&self) -> Self {
        let double = |range: &Range<usize>| range.start * 2..(range.end * 2).saturating_sub(1);
        Self {
            text: Zeroizing::new(self.text.iter().flat_map(|byte| [*byte, 0]).collect()),
            whole: double(&self.whole),
            parts: self.parts.iter().map(double).collect(),
        }
    }

    /// Encodes the text as it is encoded after `shift` other bytes.
    fn base64(&self, engine: &GeneralPurpose, shift: usize) -> Self {
        let mut shifted = Zeroizing::new(vec![0; shift]);
        shifted.extend_from_slice(&self.text);
        let encoded = engine.encode(&*shifted);

        // Bits of the first byte of a range, and after its last one. Six bits are a character.
        let bits = |range: &Range<usize>| (8 * (shift + range.start), 8 * (shift + range.end));
        let inner = |range: &Range<usize>| {
            let (start, end) = bits(range);
            start.div_ceil(6)..end / 6
        };
        let (start, end) = bits(&self.whole);

        Self {
            text: Zeroizing::new(encoded.into_bytes()),
            whole: start / 6..end.div_ceil(6),
            parts: self.parts.iter().map(inner).collect(),
        }
    }
}

fn plus(text: &[u8]) -> Vec<u8> {
    let byte = |byte: &u8| if *byte == b' ' { b'+' } else { *byte };
    text.iter().map(byte).collect()
}
