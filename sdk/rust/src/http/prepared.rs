//! Checks and completes a request, in the same way in a plugin and in its unit tests.
use std::borrow::Cow;

use super::address::Address;
use super::{Method, Request};
use crate::Result;
use crate::types::CloudError;

/// Headers that the host sets, and that `wasi:http` does not accept from a plugin.
const OF_THE_HOST: &[&str] = &[
    "connection",
    "content-length",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Maximum number of bytes of the authority that a host accepts, as stated in
/// `wit/v0.1.1/plugin.wit`; it ends a call that exceeds this.
const AUTHORITY: usize = 512;
/// Maximum number of bytes of path and query.
const PATH: usize = 8 << 10;
/// Maximum number of bytes of all headers.
const HEADERS: usize = 16 << 10;
/// Bytes that the host counts for each header in addition to its text: the sizes of two types of
/// the `http` crate.
const HEADER: usize = 72;

/// Maximum number of characters of an invalid URL or header name that a message contains.
const SHOWN: usize = 100;

/// A request that is ready to be sent.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    /// Target of the request.
    pub(super) address: Address<'a>,
    /// All headers, including `content-length`.
    pub(super) headers: Vec<(&'a str, Cow<'a, str>)>,
}

impl<'a> Prepared<'a> {
    /// Checks a request.
    ///
    /// # Errors
    ///
    /// [`internal`](CloudError::Internal) if the request is malformed: neither a retry nor a change
    /// of the object would fix it.
    pub(super) fn new(request: &'a Request) -> Result<Self> {
        let address = address_of(request)?;

        let too_long = |part: &str, most: usize| {
            let shown = address.shown();
            let shown = shown
                .get(..shown.floor_char_boundary(100))
                .unwrap_or_default();
            CloudError::internal(format!(
                "{} {shown}: the limit of {most} bytes of {part} is exceeded",
                request.method
            ))
        };

        if address.authority.len() > AUTHORITY {
            return Err(too_long("host", AUTHORITY));
        }
        if address.path_and_query().len() > PATH {
            return Err(too_long("path and query", PATH));
        }

        let mut headers: Vec<(&str, Cow<'_, str>)> = Vec::with_capacity(request.headers.len() + 1);
        for (name, value) in &request.headers {
            check_header(name, value).map_err(|what| {
                let (method, target) = (&request.method, address.shown());
                CloudError::internal(format!("{method} {target}: the header {what}"))
            })?;
            headers.push((name.as_str(), value.into()));
        }

        // Some servers, clouds among them, require a length for methods that usually have a body
        // (status 411).
        if !request.body.is_empty()
            || matches!(request.method, Method::Post | Method::Put | Method::Patch)
        {
            headers.push(("content-length", request.body.len().to_string().into()));
        }

        let size: usize = headers
            .iter()
            .map(|(name, value)| name.len() + value.len() + HEADER)
            .sum();
        if size > HEADERS {
            return Err(too_long("headers", HEADERS));
        }

        Ok(Self { address, headers })
    }
}

fn address_of(request: &Request) -> Result<Address<'_>> {
    Address::parse(&request.url).map_err(|what| {
        // A user in a URL is often followed by a password.
        let url = request
            .url
            .split(['?', '#'])
            .next()
            .filter(|url| !url.contains('@'))
            .unwrap_or("not shown");
        CloudError::internal(format!(
            "{}: the URL {what}: {}",
            request.method,
            shown(url)
        ))
    })
}

/// Checks a header that a plugin sends; the error starts with its name.
fn check_header(name: &str, value: &str) -> std::result::Result<(), String> {
    let is_set_by_host = OF_THE_HOST
        .iter()
        .any(|other| name.eq_ignore_ascii_case(other));
    let has_control = value
        .chars()
        .any(|letter| letter.is_control() && letter != '\t');

    let what = if !is_name(name) {
        "is not a valid header name"
    } else if is_set_by_host {
        "is set by Skydock"
    } else if has_control {
        "has a control character in its value"
    } else {
        return Ok(());
    };
    Err(format!("`{}` {what}", shown(name)))
}

/// Returns the beginning of a text that may come from the cloud and have any length and any
/// characters, for a message.
fn shown(text: &str) -> String {
    let mut rest = text.chars();
    let mut shown: String = rest
        .by_ref()
        .take(SHOWN)
        .flat_map(char::escape_debug)
        .collect();

    if rest.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Returns whether this is a token of RFC 9110, 5.6.2.
fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_length_is_set_where_a_body_is_expected() {
        let length = |request: Request| {
            let prepared = Prepared::new(&request).unwrap();
            prepared
                .headers
                .iter()
                .find(|(name, _)| *name == "content-length")
                .map(|(_, value)| value.to_string())
        };
        assert_eq!(length(Request::get("https://c/")), None);
        assert_eq!(length(Request::delete("https://c/")), None);
        assert_eq!(
            length(Request::delete("https://c/").text("a/b", "xy")),
            Some("2".into())
        );
        assert_eq!(length(Request::post("https://c/")), Some("0".into()));
    }

    #[test]
    fn requests_beyond_the_limits_of_the_host_are_rejected() {
        let rejection = |request: Request| match Prepared::new(&request) {
            Ok(_) => None,
            Err(CloudError::Internal(message)) => Some(message),
            Err(other) => panic!("{other:?}"),
        };
        let path = |length: usize| {
            rejection(Request::get(format!(
                "https://c/{}",
                "p".repeat(length - 1)
            )))
        };
        assert_eq!(path(PATH), None);

        let shown = format!(
            "GET https://c/{}: the limit of 8192 bytes of path and query is exceeded",
            "p".repeat(90)
        );
        assert_eq!(path(PATH + 1), Some(shown));

        let host =
            |length: usize| rejection(Request::get(format!("https://{}/", "c".repeat(length))));
        assert_eq!(host(AUTHORITY), None);
        assert!(
            host(AUTHORITY + 1)
                .is_some_and(|message| message.contains("limit of 512 bytes of host"))
        );

        let header = |length: usize| {
            let rest = "x".repeat(length - HEADER * 2 - 2);
            rejection(Request::get("https://c/").header("a", "").header("b", rest))
        };
        assert_eq!(header(HEADERS), None);
        assert!(
            header(HEADERS + 1)
                .is_some_and(|message| message.contains("limit of 16384 bytes of headers"))
        );
    }

    #[test]
    fn a_malformed_request_is_rejected_with_the_reason() {
        let rejection = |request: Request| match Prepared::new(&request) {
            Err(CloudError::Internal(message)) => message,
            other => panic!("{other:?}"),
        };
        let header = |name: &str, value: &str| {
            rejection(Request::get("https://c/p?q=secret").header(name, value))
        };
        assert_eq!(
            header("Host", "x"),
            "GET https://c/p: the header `Host` is set by Skydock"
        );
        assert_eq!(
            header("a b", "x"),
            "GET https://c/p: the header `a b` is not a valid header name"
        );
        assert_eq!(
            header("", "x"),
            "GET https://c/p: the header `` is not a valid header name"
        );

        let split = "GET https://c/p: the header `a` has a control character in its value";
        assert_eq!(header("a", "x\r\nb: secret"), split);

        let long = rejection(Request::get(format!(
            "https://c/\n{}",
            "p".repeat(10 << 20)
        )));
        let url = format!("https://c/\\n{}…", "p".repeat(SHOWN - 11));
        assert_eq!(
            long,
            format!("GET: the URL has a character that must be percent-encoded: {url}")
        );

        let name = "é".repeat(1 << 20);
        let told = format!(
            "GET https://c/p: the header `{}…` is not a valid header name",
            "é".repeat(SHOWN)
        );
        assert_eq!(header(&name, "x"), told);

        let url = rejection(Request::get("https://user:secret@c/"));
        assert!(!url.contains("secret"), "{url}");
    }
}
