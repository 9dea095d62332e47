//! The `Content-Type` of a request, read so strictly that no server reads another one.

use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};

use crate::request::Unclear;

/// Maximum number of parameters: each is compared with those before it.
const MAX_PARAMETERS: usize = 8;

/// Beginnings of charsets, without dashes and underscores, in which the bytes of ASCII characters
/// have no other meaning.
const CHARSETS: &[&str] = &[
    "utf8",
    "usascii",
    "ascii",
    "iso8859",
    "latin",
    "windows125",
    "cp125",
    "koi8",
    "euc",
];

/// What is wrong with another charset.
const OTHER_CHARSET: Unclear = "its charset is not a known extension of ASCII, such as UTF-8";

/// The parsed `Content-Type` header.
#[derive(Debug, Default)]
pub struct ContentType<'a> {
    /// The media type without parameters, in lower case; empty if the header is missing.
    pub kind: String,
    charset: Option<&'a str>,
    /// The `action` parameter of SOAP 1.2.
    pub action: Option<&'a str>,
}

impl<'a> ContentType<'a> {
    /// Parses the header.
    ///
    /// # Errors
    /// If servers may interpret it in different ways.
    pub fn of(headers: &'a HeaderMap) -> Result<Self, Unclear> {
        let mut all = headers.get_all(CONTENT_TYPE).iter();
        let Some(value) = all.next() else {
            return Ok(Self::default());
        };

        // Some servers split a field at commas.
        if all.next().is_some() || value.as_bytes().contains(&b',') {
            return Err("it has more than one Content-Type");
        }

        Self::parse(value)
    }

    fn parse(value: &'a HeaderValue) -> Result<Self, Unclear> {
        const INVALID: Unclear = "its Content-Type is invalid";
        let text = value.to_str().map_err(|_| "its Content-Type is not text")?;

        let mut parts = text.split(';').map(str::trim);
        let mut content = Self {
            kind: parts.next().unwrap_or_default().to_ascii_lowercase(),
            ..Self::default()
        };

        let halves = content.kind.split_once('/');
        if !content.kind.is_empty()
            && !halves.is_some_and(|(kind, sub)| is_token(kind) && is_token(sub))
        {
            return Err(INVALID);
        }

        let mut seen = [""; MAX_PARAMETERS];
        for (at, part) in parts.filter(|part| !part.is_empty()).enumerate() {
            let (name, value) = part
                .split_once('=')
                .filter(|(name, _)| is_token(name))
                .ok_or(INVALID)?;

            if seen.iter().any(|other| name.eq_ignore_ascii_case(other)) {
                return Err("its Content-Type has a duplicate parameter");
            }
            *seen.get_mut(at).ok_or(INVALID)? = name;

            let value = value
                .strip_prefix('"')
                .and_then(|value| value.strip_suffix('"'))
                .unwrap_or(value);

            if name.eq_ignore_ascii_case("charset") {
                if !is_token(value) {
                    return Err(OTHER_CHARSET);
                }
                content.charset = Some(value);
            } else if name.eq_ignore_ascii_case("action") {
                content.action = Some(value);
            }
        }

        Ok(content)
    }

    /// Returns true for JSON, and for formats that are written in it.
    pub fn is_json(&self) -> bool {
        self.kind == "application/json"
            || self.kind.ends_with("+json")
            || self.kind.starts_with("application/x-amz-json-")
    }

    /// Checks that ASCII characters in the body are as in ASCII.
    ///
    /// # Errors
    /// If they are not, or if that is not known.
    pub fn check_charset(&self) -> Result<(), Unclear> {
        let Some(charset) = self.charset else {
            return Ok(());
        };
        if extends_ascii(charset) {
            Ok(())
        } else {
            Err(OTHER_CHARSET)
        }
    }
}

/// Returns true if the bytes of ASCII characters have no other meaning in this charset.
pub fn extends_ascii(charset: &str) -> bool {
    let charset = plain(charset);
    CHARSETS.iter().any(|start| charset.starts_with(start))
}

/// Returns the name of a charset as in lists: in lower case, without dashes and underscores.
pub fn plain(charset: &str) -> String {
    charset.to_ascii_lowercase().replace(['-', '_'], "")
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-+._".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&[u8]]) -> HeaderMap {
        let values = values
            .iter()
            .map(|value| (CONTENT_TYPE, HeaderValue::from_bytes(value).unwrap()));
        values.collect()
    }

    #[test]
    fn a_content_type_that_servers_read_differently_is_unclear() {
        let many = format!(
            "a/b{}",
            (0..9).map(|at| format!("; a{at}=b")).collect::<String>()
        );
        for invalid in [
            "x",
            "a b/c",
            "a/b c",
            "/",
            "a/",
            "/b",
            "text/xml; charset=\"utf 8\"",
            "text/xml; charset=",
            "text/xml; charset*=utf-8''ibm037",
            "text/xml; a=b; A=c",
            "text/xml; a=b, application/x-www-form-urlencoded",
            "text/xml; a=\"b, application/x-www-form-urlencoded\"",
            &many,
        ] {
            let headers = headers(&[invalid.as_bytes()]);
            assert!(ContentType::of(&headers).is_err(), "{invalid:?}");
        }

        assert!(ContentType::of(&headers(&[b"a/b", b"a/b"])).is_err());
        assert!(ContentType::of(&headers(&[b"application/json; x=\xe9"])).is_err());
    }

    #[test]
    fn media_type_and_action_are_read() {
        for (text, kind, action) in [
            ("", "", None),
            ("; charset=utf-8", "", None),
            ("Text/XML", "text/xml", None),
            ("text/xml;", "text/xml", None),
            (
                "multipart/form-data; boundary=----=_Part_1/x:y",
                "multipart/form-data",
                None,
            ),
            (
                "application/soap+xml; action=\"urn:x/Stop\"",
                "application/soap+xml",
                Some("urn:x/Stop"),
            ),
        ] {
            let headers = headers(&[text.as_bytes()]);
            let content = ContentType::of(&headers).unwrap();
            let read = (content.kind.as_str(), content.action);
            assert_eq!(read, (kind, action), "{text:?}");
        }
    }

    #[test]
    fn only_charsets_with_ascii_are_fine() {
        let is_fine = |charset: &str| {
            let headers = headers(&[format!("a/b; x=y; charset={charset}").as_bytes()]);
            ContentType::of(&headers).unwrap().check_charset().is_ok()
        };
        for charset in [
            "utf-8",
            "UTF8",
            "\"utf-8\"",
            "us-ascii",
            "iso-8859-15",
            "ISO_8859-1",
            "latin1",
            "windows-1252",
            "koi8-r",
            "euc-jp",
        ] {
            assert!(is_fine(charset), "{charset}");
        }
        // In these, ASCII characters have other bytes, or are the second byte of another character.
        for charset in [
            "ibm037",
            "cp037",
            "cp500",
            "utf-7",
            "utf-16",
            "utf-32",
            "shift_jis",
            "gb18030",
            "big5",
            "iso-2022-jp",
            "hz-gb-2312",
            "unknown",
        ] {
            assert!(!is_fine(charset), "{charset}");
        }
    }
}
