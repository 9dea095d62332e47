//! Whether secrets can be found in the body of an answer. They cannot if it is compressed, even if
//! its head does not say so, or if its letters are not those of ASCII. Other codings of which this
//! is not known are rejected, too.

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

/// Control characters in texts of consoles and old systems: other letters and back, the end of a
/// text, and DEL. Compressed data have them, too, but are not UTF-8.
const OLD_CONTROLS: &[u8] = b"\x0e\x0f\x1a\x7f";

/// Words in the media types of texts.
const TEXTS: &[&str] = &["text", "json", "xml", "html", "yaml", "javascript"];

/// Words in the media types of compressed data.
const PACKED: &[&str] = &[
    "gzip",
    "gz",
    "zstd",
    "zip",
    "brotli",
    "br",
    "deflate",
    "zlib",
    "compress",
    "compressed",
    "bzip",
    "bzip2",
    "xz",
    "7z",
    "lz4",
    "lzma",
    "snappy",
];

/// Words beside them, as in `x-compressed-tar`.
const BESIDE_PACKED: &[&str] = &["x", "tar", "framed", "json", "text", "xml"];

/// Ends of the media types of texts.
const SUFFIXES: &[&str] = &["+json", "+xml", "+yaml"];

/// Codings that change nothing, or say what is only known to servers. Servers of objects return
/// what their uploaders have set.
const PLAIN_CODINGS: &[&str] = &[
    "identity",
    "none",
    "binary",
    "8bit",
    "7bit",
    "chunked",
    "aws-chunked",
];

/// Beginnings of further charsets in which ASCII letters are themselves, or become so without zero
/// bytes. They are written as [`plain`] does, without `x` or `cs` before them.
const CHARSETS: &[&str] = &[
    "utf16", "utf32", "cesu8", "gb", "big5", "shift", "sjis", "mskanji", "johab", "ksc5601",
    "tis620", "ansix3.4", "iso646us", "isolatin", "isoir6", "isoir10", "isoir11", "isoir12",
    "isoir138", "isoir144", "isoir148", "isoir157", "mac", "hproman8", "roman8", "viscii",
    "armscii", "georgian", "kz1048", "rk1048", "ecma11", "elot928", "asmo708",
];

/// Beginnings of the names of code pages.
const CODE_PAGES: &[&str] = &["ibm", "cp", "windows", "dos", ""];

/// Code pages in which ASCII letters are themselves. EBCDIC has numbers between theirs.
const ASCII_PAGES: &[&str] = &[
    "437", "720", "737", "775", "808", "848", "850", "852", "855", "856", "857", "858", "00858",
    "859", "860", "861", "862", "863", "864", "865", "866", "868", "869", "872", "874", "932",
    "936", "943", "949", "950", "1361", "20127", "65001",
];

/// Values of `charset` that name none.
const NO_CHARSET: &[&str] = &["none", "default", "binary"];

/// Checks the head of an answer.
///
/// # Errors
/// [`Unmaskable`] if secrets could not be found in its body.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), Unmaskable> {
    // A body can be compressed for the connection, too.
    for header in [CONTENT_ENCODING, TRANSFER_ENCODING] {
        for codings in headers.get_all(header) {
            let codings = String::from_utf8_lossy(codings.as_bytes()).to_ascii_lowercase();
            codings
                .split(',')
                .map(str::trim)
                .try_for_each(check_coding)?;
        }
    }

    for kind in headers.get_all(CONTENT_TYPE) {
        let kind = String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase();
        let (media, parameters) = kind.split_once(';').unwrap_or((&kind, ""));
        if is_packed_media(media.trim()) {
            return Err(packed());
        }

        if let Some(name) = charsets(parameters).find(|name| !keeps_ascii(name)) {
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

/// Checks a coding of a body. A frequent mistake is to give its character set instead.
fn check_coding(coding: &str) -> Result<(), Unmaskable> {
    if coding.is_empty() || PLAIN_CODINGS.contains(&coding) || keeps_ascii(coding) {
        return Ok(());
    }
    if has_packed_words(coding) {
        return Err(packed());
    }

    let sentence = format!(
        "the answer has the coding `{}`, in which secrets of the credential cannot be masked: configure the server or its \
         proxy to respect `Accept-Encoding: identity`",
        coding.escape_debug()
    );
    Err(Unmaskable(sentence))
}

/// Returns true for media types of compressed data. Their words can be part of others, such as
/// `zipcode`.
fn is_packed_media(media: &str) -> bool {
    !SUFFIXES.iter().any(|suffix| media.ends_with(suffix))
        && media.split(['/', '+', '.', ' ']).any(has_packed_words)
}

fn has_packed_words(text: &str) -> bool {
    let words = || text.split('-');
    words().any(|word| PACKED.contains(&word))
        && words().all(|word| PACKED.contains(&word) || BESIDE_PACKED.contains(&word))
}

/// Returns true for charsets in which ASCII letters are themselves, or become so without zero bytes.
fn keeps_ascii(charset: &str) -> bool {
    let name = plain(charset);
    let name = ["x", "cs"]
        .iter()
        .find_map(|start| name.strip_prefix(start))
        .unwrap_or(&name);
    let is_page = |start: &&str| {
        let number = name.strip_prefix(*start);
        number.is_some_and(|number| ASCII_PAGES.contains(&number))
    };

    extends_ascii(name)
        || CHARSETS.iter().any(|known| name.starts_with(known))
        || CODE_PAGES.iter().any(is_page)
}

/// Returns the character sets that parameters name, also in the extended form (RFC 8187). An empty
/// one is none.
fn charsets(parameters: &str) -> impl Iterator<Item = &str> {
    parameters
        .split(';')
        .filter_map(|pair| pair.split_once('='))
        .filter_map(|(name, value)| {
            let rest = name.trim().strip_prefix("charset")?;
            let value = value.trim().trim_matches(['"', '\'']);
            if rest.is_empty() {
                return Some(value);
            }
            // The charset and the language of the value come before it.
            rest.trim_start()
                .starts_with('*')
                .then(|| value.rsplit('\'').next().unwrap_or(value))
        })
        .map(str::trim)
        .filter(|name| !name.is_empty() && !NO_CHARSET.contains(name))
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
        if is_packed(known) || self.is_text && !is_legible(known) {
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

    MAGIC.iter().any(|magic| beginning.starts_with(magic))
        || is_bzip2()
        || beginning.starts_with(ZLIB) && !(is_utf8(beginning) && is_legible(beginning))
}

/// Returns true for UTF-8, of which the last character may be cut.
fn is_utf8(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes);
    text.map_or_else(|error| error.error_len().is_none(), |_| true)
}

/// Returns true if all bytes may be those of a text.
fn is_legible(bytes: &[u8]) -> bool {
    let is_odd = |byte: &u8| is_strange(byte) && !OLD_CONTROLS.contains(byte);
    !bytes.iter().any(is_odd) && (is_utf8(bytes) || !bytes.iter().any(is_strange))
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
            ("content-encoding", "", true),
            ("content-encoding", "UTF-8", true),
            ("content-encoding", "iso-8859-1", true),
            ("content-encoding", "none", true),
            ("content-encoding", "binary", true),
            ("content-encoding", "8bit", true),
            ("content-encoding", "identity, identity", true),
            ("content-encoding", "aws-chunked", true),
            ("content-encoding", "aws-chunked,gzip", false),
            ("content-encoding", "utf-8, br", false),
            ("content-encoding", "x-gzip", false),
            ("content-encoding", "unheard-of", false),
            ("content-encoding", "ibm037", false),
            ("content-encoding", "utf-7", false),
            ("transfer-encoding", "deflate, chunked", false),
            ("transfer-encoding", "identity, chunked", true),
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
            ("content-type", "text/plain; charset*=utf-8''ibm037", false),
            (
                "content-type",
                "text/plain; charset *= \"utf-8'en'ibm037\"",
                false,
            ),
            (
                "content-type",
                "text/plain; charset*0=ibm; charset*1=037",
                false,
            ),
            ("content-type", "text/plain; charset*=us-ascii''utf-8", true),
            ("content-type", "application/vnd.zipcode+json", true),
            ("content-type", "application/vnd.zipcode", true),
            ("content-type", "application/compressed-status+json", true),
            ("content-type", "application/vnd.decompressor.v1", true),
            ("content-type", "application/x-zip-compressed", false),
            ("content-type", "application/x-7z-compressed", false),
            ("content-type", "application/x-compressed-tar", false),
            ("content-type", "application/x-bzip2", false),
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
    fn charsets_with_the_letters_of_ascii_are_accepted() {
        for name in [
            "ansi_x3.4-1968",
            "iso-ir-6",
            "ISO646-US",
            "csASCII",
            "us-ascii",
            "macintosh",
            "x-mac-roman",
            "cp437",
            "ibm850",
            "IBM866",
            "cp1252",
            "windows-874",
            "tis-620",
            "johab",
            "ks_c_5601-1987",
            "x-sjis",
            "hp-roman8",
            "none",
            "default",
        ] {
            let kind = format!("text/plain; charset={name}");
            assert_eq!(check(&headers("content-type", &kind)), Ok(()), "{name}");
        }

        for name in [
            "ibm037",
            "cp037",
            "cp500",
            "IBM1047",
            "ibm01140",
            "ibm870",
            "ibm871",
            "cp875",
            "cp1026",
            "csIBM273",
            "ebcdic-us",
            "utf-7",
            "unicode-1-1-utf-7",
            "x",
        ] {
            let kind = format!("text/plain; charset={name}");
            let sentence = check(&headers("content-type", &kind)).unwrap_err();
            let sentence = sentence.to_string();
            assert!(sentence.contains("character set"), "{name}: {sentence}");
        }
    }

    #[test]
    fn the_sentence_about_a_coding_is_true() {
        for (coding, expected) in [("gzip", "is compressed"), ("rot13", "the coding `rot13`")] {
            let sentence = check(&headers("content-encoding", coding)).unwrap_err();
            assert!(sentence.to_string().contains(expected), "{sentence}");
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
            ("text/plain", b"\x0elqqk\x0f\x7f end\x1a", true),
            ("text/plain", b"\x0f\x8a\xff", false),
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
