//! Strict parsing of the URI of a request, and names of metadata services, which are denied.

use http::Uri;

use crate::{
    request_error::{Cause, Code, RequestError},
    target::{Host, Scheme, Target},
};

/// Maximum length of path and query in bytes. GET requests to query APIs have a few KiB; servers
/// rarely accept more than 8 KiB.
const MAX_PATH: usize = 16 * 1024;

/// Host names of the services whose addresses are [`metadata addresses`](crate::AddressPolicy).
const METADATA_NAMES: &[&str] = &[
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data",
    "instance-data.ec2.internal",
    "metadata.tencentyun.com",
    "metadata.platformequinix.com",
];

/// Returns true if this is the host name of a metadata service, in lower case.
#[must_use]
pub fn is_metadata_name(name: &str) -> bool {
    METADATA_NAMES.contains(&name)
}

/// Returns the target of an absolute URI.
///
/// # Errors
/// [`Code::HttpRequestUriInvalid`] if it is relative, or has user information, an invalid port, or
/// a host in an unusual notation; [`Code::HttpRequestUriTooLong`] if path and query are too long.
pub(crate) fn target(uri: &Uri) -> Result<Target, RequestError> {
    let bad = |sentence: &str| RequestError::new(Code::HttpRequestUriInvalid, Cause::Uri, sentence);

    let scheme = uri.scheme_str().and_then(Scheme::parse);
    let scheme = scheme.ok_or_else(|| bad("the URI is not an absolute http or https URI"))?;
    let authority = uri
        .authority()
        .ok_or_else(|| bad("the URI has no host"))?
        .as_str();

    if authority.contains('@') {
        return Err(bad("the URI has a user or a password"));
    }

    let (host, port) = host_and_port(authority, scheme)
        .ok_or_else(|| bad("the URI's port is not from 1 to 65535"))?;
    let host = Host::parse(host)
        .ok_or_else(|| bad("the URI's host is neither a DNS name nor a plain address"))?;

    if uri
        .path_and_query()
        .is_some_and(|it| it.as_str().len() > MAX_PATH)
    {
        let sentence = format!("path and query of the URI exceed {} KiB", MAX_PATH / 1024);
        return Err(RequestError::new(
            Code::HttpRequestUriTooLong,
            Cause::Uri,
            sentence,
        ));
    }

    Ok(Target { scheme, host, port })
}

/// Splits an authority, or the value of `Host`, into host and port. Returns `None` if the port is
/// not a number from 1 to 65535.
pub(crate) fn host_and_port(authority: &str, scheme: Scheme) -> Option<(&str, u16)> {
    // The colons of an IPv6 address are in brackets.
    let Some((host, digits)) = authority
        .rsplit_once(':')
        .filter(|(_, port)| !port.contains(']'))
    else {
        return Some((authority, scheme.default_port()));
    };

    // `parse` also accepts a sign.
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .parse()
        .ok()
        .filter(|port| is_number && *port != 0)
        .map(|port| (host, port))
}

/// Denies targets with the name of a metadata service.
///
/// # Errors
/// [`Code::HttpRequestDenied`] if the name is that of a metadata service.
pub(crate) fn deny_metadata(target: &Target) -> Result<(), RequestError> {
    match &target.host {
        Host::Name(name) if is_metadata_name(name) => {
            let sentence = format!("{name} is a metadata service, which is always denied");
            Err(RequestError::denied(Cause::Metadata, sentence))
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
            (
                "https://API.example.com/v1?x",
                Ok("https://api.example.com:443"),
            ),
            (
                "https://api.example.com.:8443/",
                Ok("https://api.example.com:8443"),
            ),
            ("http://[::1]:8080/", Ok("http://[::1]:8080")),
            ("http://[::1]/", Ok("http://[::1]:80")),
            (
                "http://169.254.169.254/latest",
                Ok("http://169.254.169.254:80"),
            ),
            (
                "https://xn--bcher-kva.example/",
                Ok("https://xn--bcher-kva.example:443"),
            ),
            (
                "http://user:secret@127.0.0.1/",
                Err(Code::HttpRequestUriInvalid),
            ),
            (
                "http://api.example.com@127.0.0.1/",
                Err(Code::HttpRequestUriInvalid),
            ),
            (
                "https://api.example.com:0/",
                Err(Code::HttpRequestUriInvalid),
            ),
            (
                "https://api.example.com:99999/",
                Err(Code::HttpRequestUriInvalid),
            ),
            (
                "https://api.example.com:/",
                Err(Code::HttpRequestUriInvalid),
            ),
            ("http://2130706433/", Err(Code::HttpRequestUriInvalid)),
            ("http://0x7f000001/", Err(Code::HttpRequestUriInvalid)),
            ("http://0177.0.0.1/", Err(Code::HttpRequestUriInvalid)),
            ("http://127.1/", Err(Code::HttpRequestUriInvalid)),
            ("ftp://api.example.com/", Err(Code::HttpRequestUriInvalid)),
            ("/relative", Err(Code::HttpRequestUriInvalid)),
            ("api.example.com:443", Err(Code::HttpRequestUriInvalid)),
            (
                "http://metadata.google.internal/",
                Err(Code::HttpRequestDenied),
            ),
            (
                "http://Metadata.Google.Internal./",
                Err(Code::HttpRequestDenied),
            ),
            ("http://metadata/", Err(Code::HttpRequestDenied)),
        ];
        for (uri, expected) in table {
            let Ok(uri) = uri.parse::<Uri>() else {
                assert!(expected.is_err(), "{uri}");
                continue;
            };
            let found =
                target(&uri).and_then(|target| deny_metadata(&target).map(|()| target.to_string()));
            let found = found.map_err(|error| error.code());
            assert_eq!(found, expected.map(str::to_owned), "{uri}");
        }
    }

    #[test]
    fn an_authority_is_split_into_host_and_port() {
        for (authority, expected) in [
            ("a.example", Some(("a.example", 443))),
            ("a.example:8443", Some(("a.example", 8443))),
            ("a.example:65535", Some(("a.example", 65535))),
            ("[::]", Some(("[::]", 443))),
            ("[2001:db8::]:80", Some(("[2001:db8::]", 80))),
            ("a.example:", None),
            ("a.example:0", None),
            ("a.example:65536", None),
            ("a.example:+443", None),
            ("a.example:-1", None),
            ("a.example:4 43", None),
        ] {
            assert_eq!(
                host_and_port(authority, Scheme::Https),
                expected,
                "{authority}"
            );
        }

        assert_eq!(
            host_and_port("a.example", Scheme::Http),
            Some(("a.example", 80))
        );
    }

    #[test]
    fn the_length_of_a_uri_is_limited() {
        let uri = |length: usize| {
            format!("https://a.example/{}", "x".repeat(length))
                .parse::<Uri>()
                .unwrap()
        };
        assert!(target(&uri(8 << 10)).is_ok(), "servers accept this length");
        assert!(target(&uri(MAX_PATH - 1)).is_ok());
        assert_eq!(
            target(&uri(MAX_PATH)).unwrap_err().code(),
            Code::HttpRequestUriTooLong
        );
    }
}
