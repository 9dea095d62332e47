//! Whether secrets can be found in the body of an answer. They cannot if it is compressed, even if
//! its head does not say so, or if its letters are not those of ASCII.

use http::{
    HeaderMap,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};

use crate::refusal::{Cause, Code, Refusal};

/// Beginnings of compressed data: gzip, compress, zstd, xz, bzip2, lz4, zip, 7z and snappy.
const MAGIC: &[&[u8]] = &[
    b"\x1f\x8b",
    b"\x1f\x9d",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ\0",
    b"BZh91A",
    b"\x04\x22\x4d\x18",
    b"PK\x03\x04",
    b"7z\xbc\xaf",
    b"\xff\x06\0\0sN",
    // zlib, for each level of compression.
    b"\x78\x01",
    b"\x78\x9c",
    b"\x78\xda",
    b"\x78\x5e",
];

/// Length of the longest of them.
const LONGEST: usize = 6;

/// Words in the media types of compressed data.
const PACKED: &[&str] = &[
    "gzip", "zstd", "zip", "brotli", "x-br", "deflate", "zlib", "compress", "bzip", "x-xz", "7z",
    "lz4", "lzma", "snappy",
];

/// Beginnings of the names of character sets in which ASCII letters are themselves, or become so
/// without zero bytes.
const CHARSETS: &[&str] = &[
    "utf-8", "utf8", "utf-16", "utf-32", "us-ascii", "ascii", "iso-8859", "iso8859", "latin",
    "windows-", "cp125", "gb", "big5", "euc", "shift", "koi8",
];

/// Checks the head of an answer.
///
/// # Errors
/// [`Code::HttpResponseContentCoding`] if secrets could not be found in its body.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), Refusal> {
    let is_identity = |coding: &[u8]| coding.trim_ascii().eq_ignore_ascii_case(b"identity");
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    if codings.any(|coding| !is_identity(coding.as_bytes())) {
        return Err(packed());
    }
    for kind in headers.get_all(CONTENT_TYPE) {
        let kind = String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase();
        let (media, parameters) = kind.split_once(';').unwrap_or((&kind, ""));
        let mut words = media.split(|letter: char| "/+. ".contains(letter));
        if words.any(|word| PACKED.iter().any(|packed| word.contains(packed))) {
            return Err(packed());
        }
        if let Some(name) = charset(parameters)
            && !CHARSETS.iter().any(|known| name.starts_with(known))
        {
            let sentence = format!(
                "the answer has the character set `{}`, in which secrets of the credential cannot be masked: configure the \
                 server to use UTF-8",
                name.escape_debug()
            );
            return Err(Refusal::new(
                Code::HttpResponseContentCoding,
                Cause::Response,
                sentence,
            ));
        }
    }
    Ok(())
}

fn charset(parameters: &str) -> Option<&str> {
    let mut pairs = parameters
        .split(';')
        .filter_map(|pair| pair.split_once('='));
    let (_, name) = pairs.find(|(name, _)| name.trim() == "charset")?;
    Some(name.trim().trim_matches(['"', '\'']))
}

/// The beginning of a body.
#[derive(Debug, Default)]
pub(crate) struct Beginning {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Beginning {
    /// Adds the next piece of the body.
    ///
    /// # Errors
    /// [`Code::HttpResponseContentCoding`] if the body begins like compressed data.
    pub(crate) fn check(&mut self, piece: &[u8]) -> Result<(), Refusal> {
        if self.length == LONGEST {
            return Ok(());
        }
        for (room, byte) in self.bytes.iter_mut().skip(self.length).zip(piece) {
            *room = *byte;
            self.length += 1;
        }
        let known = self.bytes.get(..self.length).unwrap_or_default();
        if MAGIC.iter().any(|magic| known.starts_with(magic)) {
            return Err(packed());
        }
        Ok(())
    }
}

fn packed() -> Refusal {
    let sentence = "the answer is compressed, so secrets of the credential cannot be masked in it: configure the server or its \
                    proxy to respect `Accept-Encoding: identity`";
    Refusal::new(Code::HttpResponseContentCoding, Cause::Response, sentence)
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
            ("content-type", "application/json; charset=utf-8", true),
            ("content-type", "text/xml;charset=\"UTF-16\"", true),
            ("content-type", "text/plain; charset=ibm037", false),
            (
                "content-type",
                "text/plain; format=flowed; charset=UTF-7",
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
            (vec![b"{\"a\": 1}", b"\x1f\x8b"], true),
            (vec![b""], true),
        ] {
            let mut beginning = Beginning::default();
            let checked = pieces.iter().try_for_each(|it| beginning.check(it));
            assert_eq!(checked.is_ok(), expected, "{pieces:?}");
        }
    }
}
