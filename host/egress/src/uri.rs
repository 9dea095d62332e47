//! Strict parsing of the target of a request.

use http::Uri;

use crate::{
    refusal::{Cause, Code, Refusal},
    rule::{Host, Scheme, Target},
};

/// Maximum length of path and query in bytes. GET requests to query APIs have a few KiB; servers rarely accept more than 8 KiB.
const MAX_PATH: usize = 16 * 1024;

/// Host names of the services whose addresses are [`metadata addresses`](crate::AddressPolicy).
const METADATA_NAMES: [&str; 7] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data",
    "instance-data.ec2.internal",
    "metadata.tencentyun.com",
    "metadata.platformequinix.com",
];

/// Returns the target of an absolute URI.
///
/// # Errors
/// [`Code::HttpRequestUriInvalid`] if it is relative, or has user information, an invalid port, or a host in an unusual notation;
/// [`Code::HttpRequestUriTooLong`] if path and query are too long.
pub(crate) fn target(uri: &Uri) -> Result<Target, Refusal> {
    let bad = |sentence: &str| Refusal::new(Code::HttpRequestUriInvalid, Cause::Uri, sentence);
    let scheme = uri.scheme_str().and_then(Scheme::parse);
    let scheme = scheme.ok_or_else(|| bad("the URI is not an absolute http or https URI"))?;
    let authority = uri.authority().ok_or_else(|| bad("the URI has no host"))?.as_str();
    if authority.contains('@') {
        return Err(bad("the URI has a user or a password"));
    }
    // IPv6 addresses contain colons.
    let after_bracket = authority.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match authority.get(after_bracket..).and_then(|rest| rest.rfind(':')) {
        Some(colon) => authority.split_at(after_bracket + colon),
        None => (authority, ""),
    };
    let port = match port.strip_prefix(':') {
        None => match scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        },
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port != 0).ok_or_else(|| bad("the URI's port is not from 1 to 65535"))?
        }
        Some(_) => return Err(bad("the URI's port is not from 1 to 65535")),
    };
    let host = Host::parse(host).ok_or_else(|| bad("the URI's host is neither a DNS name nor a plain address"))?;
    if uri.path_and_query().is_some_and(|it| it.as_str().len() > MAX_PATH) {
        let sentence = format!("path and query of the URI exceed {} KiB", MAX_PATH / 1024);
        return Err(Refusal::new(Code::HttpRequestUriTooLong, Cause::Uri, sentence));
    }
    Ok(Target { scheme, host, port })
}

/// Denies targets with the name of a metadata service.
///
/// # Errors
/// [`Code::HttpRequestDenied`] if the name is that of a metadata service.
pub(crate) fn refuse_metadata(target: &Target) -> Result<(), Refusal> {
    match &target.host {
        Host::Name(name) if METADATA_NAMES.contains(&name.as_str()) => {
            let sentence = format!("{name} is a metadata service, which is always denied");
            Err(Refusal::denied(Cause::Metadata, sentence))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_needs_a_valid_absolute_uri() {
        let table = [
            ("https://API.example.com/v1?x", Ok("https://api.example.com:443")),
            ("https://api.example.com.:8443/", Ok("https://api.example.com:8443")),
            ("http://[::1]:8080/", Ok("http://[::1]:8080")),
            ("http://[::1]/", Ok("http://[::1]:80")),
            ("http://169.254.169.254/latest", Ok("http://169.254.169.254:80")),
            ("https://xn--bcher-kva.example/", Ok("https://xn--bcher-kva.example:443")),
            ("http://user:secret@127.0.0.1/", Err(Code::HttpRequestUriInvalid)),
            ("http://api.example.com@127.0.0.1/", Err(Code::HttpRequestUriInvalid)),
            ("https://api.example.com:0/", Err(Code::HttpRequestUriInvalid)),
            ("https://api.example.com:99999/", Err(Code::HttpRequestUriInvalid)),
            ("https://api.example.com:/", Err(Code::HttpRequestUriInvalid)),
            ("http://2130706433/", Err(Code::HttpRequestUriInvalid)),
            ("http://0x7f000001/", Err(Code::HttpRequestUriInvalid)),
            ("http://0177.0.0.1/", Err(Code::HttpRequestUriInvalid)),
            ("http://127.1/", Err(Code::HttpRequestUriInvalid)),
            ("ftp://api.example.com/", Err(Code::HttpRequestUriInvalid)),
            ("/relative", Err(Code::HttpRequestUriInvalid)),
            ("api.example.com:443", Err(Code::HttpRequestUriInvalid)),
            ("http://metadata.google.internal/", Err(Code::HttpRequestDenied)),
            ("http://Metadata.Google.Internal./", Err(Code::HttpRequestDenied)),
            ("http://metadata/", Err(Code::HttpRequestDenied)),
        ];
        for (uri, expected) in table {
            let Ok(uri) = uri.parse::<Uri>() else {
                assert!(expected.is_err(), "{uri}");
                continue;
            };
            let found = target(&uri).and_then(|target| refuse_metadata(&target).map(|()| target.to_string()));
            let found = found.map_err(|refusal| refusal.code());
            assert_eq!(found, expected.map(str::to_owned), "{uri}");
        }
    }

    #[test]
    fn the_length_of_a_uri_is_limited() {
        let uri = |length: usize| format!("https://a.example/{}", "x".repeat(length)).parse::<Uri>().unwrap();
        assert!(target(&uri(MAX_PATH - 1)).is_ok());
        assert_eq!(target(&uri(MAX_PATH)).unwrap_err().code(), Code::HttpRequestUriTooLong);
    }
}
