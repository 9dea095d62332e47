//! Whether secrets can be found in the body of an answer. They cannot if it is compressed, even if
//! its head does not say so, or if its letters are not those of ASCII.

use http::{
    HeaderMap,
    header::{CONTENT_ENCODING, CONTENT_TYPE, TRANSFER_ENCODING},
};

use crate::request::content_type::{extends_ascii, plain};

/// Why secrets cannot be found in an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unmaskable(String);

/// Beginnings of compressed data: gzip, compress, zstd, xz, lz4, zip, 7z and snappy.
const MAGIC: &[&[u8]] = &[
    b"\x1f\x8b",
    b"\x1f\x9d",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ\0",
    b"\x04\x22\x4d\x18",
    b"PK\x03\x04",
    b"7z\xbc\xaf",
    b"\xff\x06\0\0sN",
    // zlib, for each level of compression but the one below.
    b"\x78\x01",
    b"\x78\x9c",
    b"\x78\xda",
];

/// How zlib begins at another level of compression: a text may begin so, too, but has no such bytes
/// behind it.
const ZLIB: &[u8] = b"x^";

/// What follows the level of compression in bzip2.
const BZIP2: (&[u8], &[u8]) = (b"BZh", b"1AY&SY");

/// Number of bytes of a body that are looked at. Of other compressed data, such as Brotli, which has
/// no magic number, one byte of ten is a control character that texts do not have.
const LOOKED_AT: usize = 64;

/// Words in the media types of texts.
const TEXTS: &[&str] = &["text", "json", "xml", "html", "yaml", "javascript"];

/// Words in the media types of compressed data.
const PACKED: &[&str] = &[
    "gzip", "zstd", "zip", "brotli", "x-br", "deflate", "zlib", "compress", "bzip", "x-xz", "7z",
    "lz4", "lzma", "snappy",
];

/// Beginnings of further charsets in which ASCII letters are themselves, or become so without zero
/// bytes. They are written as in [`plain`].
const CHARSETS: &[&str] = &["utf16", "utf32", "gb", "big5", "shift"];

/// Checks the head of an answer.
///
/// # Errors
/// [`Unmaskable`] if secrets could not be found in its body.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), Unmaskable> {
    // A body can be compressed for the connection, too.
    for (header, plain) in [
        (CONTENT_ENCODING, "identity"),
        (TRANSFER_ENCODING, "chunked"),
    ] {
        let is_plain = |coding: &[u8]| coding.trim_ascii().eq_ignore_ascii_case(plain.as_bytes());
        let mut codings = headers.get_all(header).iter();
        if codings.any(|coding| !is_plain(coding.as_bytes())) {
            return Err(packed());
        }
    }

    for kind in headers.get_all(CONTENT_TYPE) {
        let kind = String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase();
        let (media, parameters) = kind.split_once(';').unwrap_or((&kind, ""));
        let mut words = media.split(|letter: char| "/+. ".contains(letter));
        if words.any(|word| PACKED.iter().any(|packed| word.contains(packed))) {
            return Err(packed());
        }

        let is_other = |name: &&str| {
            let known = CHARSETS.iter();
            !extends_ascii(name)
                && !known
                    .into_iter()
                    .any(|known| plain(name).starts_with(known))
        };

        if let Some(name) = charsets(parameters).find(is_other) {
            let sentence = format!(
                "the answer has the character set `{}`, in which secrets of the credential cannot be masked: configure the \
                 server to use UTF-8",
                name.escape_debug()
            );
            return Err(Unmaskable(sentence));
        }
    }

    Ok(())
}

/// Returns the character sets that parameters name. An empty one is none.
fn charsets(parameters: &str) -> impl Iterator<Item = &str> {
    parameters
        .split(';')
        .filter_map(|pair| pair.split_once('='))
        .filter(|(name, _)| name.trim() == "charset")
        .map(|(_, name)| name.trim().trim_matches(['"', '\'']))
        .filter(|name| !name.is_empty())
}

/// The beginning of a body.
#[derive(Debug)]
pub(crate) struct Beginning {
    is_text: bool,
    bytes: [u8; LOOKED_AT],
    length: usize,
}

impl Beginning {
    /// Creates the beginning of the body of an answer with these headers.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let is_text = headers.get(CONTENT_TYPE).is_none_or(|kind| {
            let kind = String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase();
            TEXTS.iter().any(|text| kind.contains(text))
        });

        Self {
            is_text,
            bytes: [0; LOOKED_AT],
            length: 0,
        }
    }

    /// Adds the next piece of the body.
    ///
    /// # Errors
    /// [`Unmaskable`] if the body begins like compressed data.
    pub(crate) fn check(&mut self, piece: &[u8]) -> Result<(), Unmaskable> {
        if self.length == LOOKED_AT {
            return Ok(());
        }

        for (room, byte) in self.bytes.iter_mut().skip(self.length).zip(piece) {
            *room = *byte;
            self.length += 1;
        }

        let known = self.bytes.get(..self.length).unwrap_or_default();
        if is_packed(known) || self.is_text && known.iter().any(is_strange) {
            return Err(packed());
        }
        Ok(())
    }
}

/// Returns true for the beginning of compressed data.
fn is_packed(beginning: &[u8]) -> bool {
    let is_bzip2 = || {
        let (name, rest) = BZIP2;
        let after = beginning.strip_prefix(name).and_then(|it| it.get(1..));
        after.is_some_and(|it| it.starts_with(rest))
    };

    // The last character may be cut.
    let is_text = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes);
        text.map_or_else(|error| error.error_len().is_none(), |_| true)
            && !bytes.iter().any(is_strange)
    };

    MAGIC.iter().any(|magic| beginning.starts_with(magic))
        || is_bzip2()
        || beginning.starts_with(ZLIB) && !is_text(beginning)
}

/// Returns true for control characters that are neither white space, nor for terminals, nor between
/// records. Zero bytes are those of UTF-16.
fn is_strange(byte: &u8) -> bool {
    byte.is_ascii_control() && !b"\0\x07\x08\t\n\x0b\x0c\r\x1b\x1e".contains(byte)
}

fn packed() -> Unmaskable {
    let sentence = "the answer is compressed, so secrets of the credential cannot be masked in it: configure the server or its \
                    proxy to respect `Accept-Encoding: identity`";
    Unmaskable(sentence.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(http::HeaderName::from_static(name), value.parse().unwrap())])
    }

    #[test]
    fn only_heads_of_legible_bodies_are_accepted() {
        for (name, value, expected) in [
            ("content-encoding", "gzip", false),
            ("content-encoding", "Identity", true),
            ("transfer-encoding", "deflate, chunked", false),
            ("transfer-encoding", "Chunked", true),
            ("content-type", "application/json; charset=utf-8", true),
            ("content-type", "text/xml;charset=\"UTF-16\"", true),
            ("content-type", "text/plain; charset=ibm037", false),
            (
                "content-type",
                "text/plain; format=flowed; charset=UTF-7",
                false,
            ),
            ("content-type", "text/plain; charset=", true),
            (
                "content-type",
                "text/plain; charset=\"\"; charset=utf-8",
                true,
            ),
            (
                "content-type",
                "text/plain; charset=utf-8; charset=cp037",
                false,
            ),
            ("content-type", "application/gzip", false),
            ("content-type", "application/x-gzip", false),
            ("content-type", "application/vnd.x+zip; a=b", false),
            ("content-type", "application/x-brotli", false),
            ("content-type", "application/vnd.api+json", true),
            ("x-anything", "gzip", true),
        ] {
            assert_eq!(check(&headers(name, value)).is_ok(), expected, "{value}");
        }
    }

    #[test]
    fn compressed_data_is_recognized_by_its_beginning() {
        for (pieces, expected) in [
            (vec![b"\x1f\x8b\x08".as_slice()], false),
            (vec![b"\x1f", b"\x8b"], false),
            (vec![b"", b"\x28\xb5", b"\x2f", b"\xfd...."], false),
            (vec![b"x\x9c..."], false),
            (vec![b"x is", b" y"], true),
            (vec![b"x^2 + y", b"^2 = 1 \xc3", b"\xa9"], true),
            (vec![b"x^", b"\xab\x56\x4a\x4c"], false),
            (vec![b"x^", b"\x01\x10\0\xef\xff"], false),
            (vec![b"BZh91A is a text"], true),
            (vec![b"BZh", b"61AY&SY\x11"], false),
            (
                vec![
                    b"{\"a\": 1}                        ",
                    b"                              \x1f\x8b",
                ],
                true,
            ),
            (vec![b""], true),
        ] {
            let mut beginning = Beginning::of(&headers("content-type", "application/octet-stream"));
            let checked = pieces.iter().try_for_each(|it| beginning.check(it));
            assert_eq!(checked.is_ok(), expected, "{pieces:?}");
        }
    }

    #[test]
    fn a_text_has_no_control_characters() {
        // An error of Keystone, compressed as `python3 -c 'zlib.compress(…, wbits=-15)'` does.
        let deflated = b"\x25\x8b\x4b\x0a\xc3\x30\x0c\x05\xaf\x22\xb4\x2e\x25\x85\xac\x72\x8e\xf6\x00\x22\x7e\xc4\x82\xc6\x22\xb2\x5c\x68\x43\xee\x9e\x4f\x77\x6f\x66\x78\x2b\xc3\xdd\x9c\x07\x5a\x79\xb4\x84\x63\xf4\xdd\xe3\x46\x1c\x1a\xef\x93\xf8\x55\xa4\x45\x36\xd7\x1f\x12\x1f\x61\x46\xad\x32\x5d\xe9\x99\x41\x8e\xa5\xa1\x06\x7d\xad\x51\x96\x0f\x68\x96\xf4\xb7\xea\xa8\x74\x7e\x51\x42\x47\x09\xb5\x72\xe7\x6d\xdb\x01";
        for (kind, body, expected) in [
            ("application/json", deflated.as_slice(), false),
            ("text/html; charset=utf-8", b"<html>\x02", false),
            ("application/problem+json", b"{\"a\":\r\n\t1}", true),
            ("text/plain", b"\x1b[31mred\x1b[0m", true),
            ("text/plain", "\u{fffd}é".as_bytes(), true),
            ("application/json", b"\x1e{\"a\": 1}\n", true),
            ("text/plain", b"one\x0btwo", true),
            ("text/xml; charset=utf-16", b"\xff\xfe<\0a\0>\0", true),
            ("application/octet-stream", b"\x01\x02", true),
        ] {
            let mut beginning = Beginning::of(&headers("content-type", kind));
            assert_eq!(beginning.check(body).is_ok(), expected, "{kind}");
        }

        let mut unknown = Beginning::of(&HeaderMap::new());
        assert!(unknown.check(b"\x01").is_err());
    }
}
