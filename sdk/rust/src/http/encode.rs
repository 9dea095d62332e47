//! Percent-encoding.
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::Result;
use crate::types::CloudError;

/// All characters except the unreserved ones of RFC 3986, 2.3, which every server reads in the same
/// way in a path, a query and a form.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Encodes a text as one segment of a path, for example the ID in `/servers/ID`, so that it cannot
/// change the rest of the path.
///
/// # Errors
///
/// [`invalid`](CloudError::Invalid) for a text that cannot be a segment, however it is encoded: an
/// empty one, `.` and `..`.
pub fn segment(text: &str) -> Result<String> {
    match text {
        "" | "." | ".." => Err(CloudError::invalid(format!(
            "`{text}` is not allowed in a path"
        ))),
        _ => Ok(encoded(text)),
    }
}

/// Encodes pairs for a query. A space becomes `%20`; a form uses `+` instead.
pub(super) fn pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs = pairs
        .into_iter()
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_encoded_and_cannot_be_a_dot_segment() {
        assert_eq!(
            segment("a/../b?c#d e%2f"),
            Ok("a%2F..%2Fb%3Fc%23d%20e%252f".into())
        );
        assert_eq!(segment("ü-._~9Z"), Ok("%C3%BC-._~9Z".into()));
        for text in ["", ".", ".."] {
            assert!(
                matches!(segment(text), Err(CloudError::Invalid(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn pairs_are_encoded_in_order() {
        assert_eq!(
            pairs([("b", "1&c=2"), ("a", ""), ("x y", "+")]),
            "b=1%26c%3D2&a=&x%20y=%2B"
        );
        assert_eq!(pairs([]), "");
    }
}
