//! Encodings of values in URLs, forms, JSON and XML.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose};
use percent_encoding::percent_decode;

/// Percent-encodes all bytes except letters, digits, `-`, `.`, `_`, `~` (RFC 3986) and the `safe`
/// bytes.
pub fn percent(bytes: &[u8], safe: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) || safe.contains(byte) {
            out.push(char::from(*byte));
        } else {
            out.push('%');
            out.push_str(&hex::encode_upper([*byte]));
        }
    }
    out
}

/// Decodes percent-encoding. A `%` without two hexadecimal digits is not changed.
pub fn unpercent(text: impl AsRef<[u8]>) -> Vec<u8> {
    Cow::from(percent_decode(text.as_ref())).into_owned()
}

/// Encodes a value of `application/x-www-form-urlencoded`.
pub fn form(text: &str) -> String {
    percent(text.as_bytes(), b" ").replace(' ', "+")
}

/// Creates a body of `application/x-www-form-urlencoded`.
pub fn form_body<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(name, value)| format!("{}={}", form(name), form(value)))
        .collect();
    pairs.join("&")
}

/// Parses `application/x-www-form-urlencoded` as servers do.
pub fn form_pairs(text: &str) -> Vec<(String, String)> {
    let decode =
        |part: &str| String::from_utf8_lossy(&unpercent(part.replace('+', " "))).into_owned();

    text.split(['&', ';'])
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

/// Escapes text for the inside of a JSON string.
pub fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted
        .strip_prefix('"')
        .and_then(|it| it.strip_suffix('"'))
        .unwrap_or_default()
        .to_owned()
}

/// Escapes text for XML text and attributes.
pub fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            other => out.push(other),
        }
    }

    out
}

/// Decodes the five predefined entities of XML. Other entities are not changed.
pub fn unxml(text: &str) -> String {
    // `&amp;` comes last, so that `&amp;lt;` becomes `&lt;`.
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}

/// Encodes as Base64 for URLs, without padding (RFC 7515).
pub fn base64url(bytes: &[u8]) -> String {
    general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encodes_per_rfc_3986() {
        assert_eq!(
            percent("aZ09-._~/ +é%".as_bytes(), b""),
            "aZ09-._~%2F%20%2B%C3%A9%25"
        );
        assert_eq!(percent(b"/a b", b"/"), "/a%20b");
    }

    #[test]
    fn invalid_percent_encoding_is_kept() {
        for (text, bytes) in [
            ("%2Fa%2f", "/a/"),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
            ("%C3%A9", "é"),
            ("%+1", "%+1"),
        ] {
            assert_eq!(unpercent(text), bytes.as_bytes(), "{text}");
        }
    }

    #[test]
    fn a_form_body_round_trips() {
        let pairs = [("a b", "c+d&e=f"), ("é", ""), ("%", "%41")];
        let body = form_body(pairs);
        assert_eq!(body, "a+b=c%2Bd%26e%3Df&%C3%A9=&%25=%2541");
        let read = form_pairs(&body);
        assert_eq!(
            read,
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn escapes_json_and_xml() {
        assert_eq!(json("a\"b\\c\n\u{1}é"), "a\\\"b\\\\c\\n\\u0001é");
        assert_eq!(
            xml("<a b='c' d=\"e\">&"),
            "&lt;a b=&apos;c&apos; d=&quot;e&quot;&gt;&amp;"
        );
        assert_eq!(
            unxml(&xml("<a b='c' d=\"e\">& &lt;")),
            "<a b='c' d=\"e\">& &lt;"
        );
    }
}
