//! Headers that plugins may send, and headers of answers that they receive.

mod authentication;
mod names;

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{CONNECTION, CONTENT_LENGTH, HOST},
    request::Parts,
};

use crate::{
    request_error::{Cause, Code, RequestError},
    rules::uri::host_and_port,
    target::{Host, Target},
};

pub(crate) use self::{
    authentication::Authentication,
    names::{Listed, is_identity, is_reserved},
};

/// Maximum size of the head of a request: bytes of names and values.
const MAX_BYTES: usize = 64 * 1024;
/// Maximum number of header fields of a request; the same as hyper's limit for answers.
const MAX_FIELDS: usize = 100;

/// Headers that belong to one connection and not to the request (RFC 9110, section 7.6.1), and
/// headers that Skydock sets itself.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authentication-info",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "expect",
];

/// Words at the end of a header's name for the path that servers may take from it.
const PATHS: &[&str] = &["path", "uri", "url", "prefix"];

/// Words for the server that servers may take from a header.
const HOSTS: &[&str] = &["host", "server", "target"];

/// Words that say that a host is that of the request itself.
const OF_REQUEST: &[&str] = &[
    "actual",
    "backend",
    "effective",
    "forwarded",
    "http",
    "orig",
    "original",
    "override",
    "proxy",
    "real",
    "request",
    "rewrite",
    "target",
    "upstream",
];

/// More words before `method` that say the same of a method. Other words say what kind of method it
/// is, for example that of a signature.
const METHODS_OF_REQUEST: &[&str] = &["api", "requested", "rest", "tunnel", "tunneled"];

/// Words of headers that are about something else: authentication, what the cloud stores, and where
/// answers and messages go.
const OTHER: &[&str] = &[
    "auth",
    "authentication",
    "callback",
    "meta",
    "metadata",
    "notification",
    "redirect",
    "webhook",
];

/// Headers of plugins that credentials read before they replace them: the scope of a signature, and
/// the subject of a request to Keystone.
const READ_BY_CREDENTIALS: &[&str] = &["authorization", "x-subject-token"];

/// Checks that plugins may send this head.
///
/// # Errors
/// [`Code::HttpRequestHeaderSectionSize`] if it is too large; [`Code::HttpRequestDenied`] if a
/// header names another host, method or path, or if there is not exactly one valid length.
pub(crate) fn check(head: &Parts, target: &Target) -> Result<(), RequestError> {
    check_size(&head.headers)?;

    for value in head.headers.get_all(HOST) {
        if !value.to_str().is_ok_and(|text| is_host_of(text, target)) {
            return Err(denied(format!("its Host header does not match {target}")));
        }
    }

    check_names(&head.headers)?;

    // Headers that `Connection` names are not sent, so it must not name those that rules decide on.
    let mut options = head.headers.get_all(CONNECTION).iter();
    if options.any(|value| {
        value
            .to_str()
            .is_ok_and(|text| text.split(',').any(is_judged))
    }) {
        return Err(denied(
            "its Connection header names a header that rules depend on and that would not be sent",
        ));
    }

    // Servers differ in which of several lengths they use.
    let mut lengths = head.headers.get_all(CONTENT_LENGTH).iter();
    if lengths.next().is_some_and(|value| length(value).is_none()) || lengths.next().is_some() {
        return Err(denied("its Content-Length is not a single number"));
    }

    Ok(())
}

fn denied(sentence: impl Into<String>) -> RequestError {
    RequestError::denied(Cause::Header, sentence)
}

fn check_size(headers: &HeaderMap) -> Result<(), RequestError> {
    let bytes: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if bytes <= MAX_BYTES && headers.len() <= MAX_FIELDS {
        return Ok(());
    }

    let sentence = format!(
        "the request has more than {MAX_FIELDS} headers, or more than {} KiB of them",
        MAX_BYTES / 1024
    );
    Err(RequestError::new(
        Code::HttpRequestHeaderSectionSize,
        Cause::Header,
        sentence,
    ))
}

fn check_names(headers: &HeaderMap) -> Result<(), RequestError> {
    let mut names = headers.keys().map(HeaderName::as_str);
    if let Some(name) = names.find(|name| replaces_target(name)) {
        return Err(denied(format!(
            "its header {name} could change the target, path or method"
        )));
    }

    let mut names = headers.keys().map(HeaderName::as_str);
    if let Some(name) = names.find(|name| !name.bytes().all(is_plain)) {
        return Err(denied(format!(
            "its header {name} has a character other than letters, digits and dashes, which many servers treat as a dash"
        )));
    }

    Ok(())
}

/// Returns true for characters in names of headers that all servers read as they are. CGI and the
/// like have one sign for all others.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

/// Returns true for headers with which some servers replace the method, path or host of the request
/// line: `Forwarded`, `X-Forwarded-Host`, `X-HTTP-Method-Override`, `X-Rewrite-URL` and the like.
pub(crate) fn replaces_target(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("x-") else {
        return name == "forwarded";
    };

    let is_host = |word: &str| HOSTS.contains(&word);
    let words = || rest.split('-');
    if words().any(|word| OTHER.contains(&word)) {
        return false;
    }

    let mut from_end = words().rev().filter(|word| *word != "override");
    replaces_method(rest)
        || from_end.next().is_some_and(|word| PATHS.contains(&word))
        || words().any(is_host) && words().all(|word| is_host(word) || OF_REQUEST.contains(&word))
}

/// Returns true for names, without `x-`, with a method that is not said to be another one than that
/// of the request.
fn replaces_method(name: &str) -> bool {
    let mut before = "";
    name.split('-').any(|word| {
        let word = word.strip_suffix("override").unwrap_or(word);
        let own = word
            .strip_suffix("method")
            .or_else(|| word.strip_suffix("verb"));
        let replaces = own.is_some_and(|own| {
            let kind = if own.is_empty() { before } else { own };
            let kind = kind.strip_prefix("http").unwrap_or(kind);
            kind.is_empty()
                || OF_REQUEST.contains(&kind)
                || METHODS_OF_REQUEST.contains(&kind)
                || name.ends_with("override")
        });

        before = word;
        replaces
    })
}

/// Returns true for headers that determine what a request does.
fn is_judged(option: &str) -> bool {
    const JUDGED: &[&str] = &[
        "content-type",
        "content-encoding",
        "soapaction",
        "x-amz-target",
        "x-tc-action",
        "x-acs-action",
    ];
    JUDGED.contains(&option.trim().to_ascii_lowercase().as_str())
}

/// Returns the length of the body according to the plugin.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    length(headers.get(CONTENT_LENGTH)?)
}

fn length(value: &HeaderValue) -> Option<u64> {
    let text = value
        .to_str()
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok()
}

fn is_host_of(text: &str, target: &Target) -> bool {
    host_and_port(text, target.scheme).is_some_and(|(host, port)| {
        Host::parse(host).as_ref() == Some(&target.host) && port == target.port
    })
}

/// Returns the authority of a target as in a URI and in `Host`: without a default port.
pub(crate) fn authority(target: &Target) -> String {
    if target.port == target.scheme.default_port() {
        target.host.to_string()
    } else {
        format!("{}:{}", target.host, target.port)
    }
}

/// Returns true for headers that plugins have no part in: those of the connection, and `Host`.
pub(crate) fn is_set_by_skydock(name: &str) -> bool {
    HOP_BY_HOP.contains(&name) || [HOST.as_str(), CONTENT_LENGTH.as_str()].contains(&name)
}

/// Removes headers of the connection, `Host`, and the headers that `Connection` names.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();

    for name in named {
        // Skydock determines the framing, whatever `Connection` says.
        if name != CONTENT_LENGTH {
            headers.remove(name);
        }
    }

    strip(headers, |name| {
        !HOP_BY_HOP.contains(&name) && name != HOST.as_str()
    });
}

/// Removes headers with which proxies tell servers who is asking, and returns their names.
pub(crate) fn strip_identity(headers: &mut HeaderMap) -> Vec<HeaderName> {
    strip(headers, |name| !is_identity(name))
}

/// Removes the headers that a plugin must not send beside a credential, and returns their names,
/// except those of authentication, which the credential replaces.
pub(crate) fn keep_listed(headers: &mut HeaderMap, listed: &Listed) -> Vec<HeaderName> {
    let is_kept = |name: &str| listed.allows(name) || READ_BY_CREDENTIALS.contains(&name);
    let mut removed = strip(headers, is_kept);
    removed.retain(|name| !names::authenticates(name.as_str()));
    removed
}

fn strip(headers: &mut HeaderMap, is_kept: impl Fn(&str) -> bool) -> Vec<HeaderName> {
    let removed = headers.keys().filter(|name| !is_kept(name.as_str()));
    let removed: Vec<_> = removed.cloned().collect();

    for name in &removed {
        headers.remove(name);
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Scheme;

    fn target() -> Target {
        Target {
            scheme: Scheme::Https,
            host: Host::parse("api.example.com").unwrap(),
            port: 443,
        }
    }

    fn head(headers: &[(&str, &str)]) -> Parts {
        let mut request =
            http::Request::builder().uri("https://api.example.com/?x=1&X-Amz-Signature=ab&sig=c");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn rejects_headers_that_contradict_the_request() {
        let table = [
            (("host", "api.example.com"), true),
            (("host", "API.example.com.:443"), true),
            (("host", "api.example.com:8443"), false),
            (("host", "evil.example"), false),
            (("host", "user@api.example.com"), false),
            (("host", "api.example.com:+443"), false),
            (("connection", "close, X-Hop"), true),
            (("connection", "close, Content-Type"), false),
            (("connection", "x-amz-target"), false),
            (("x-forwarded-host", "evil.example"), false),
            (("x-http-method-override", "DELETE"), false),
            (("x-original-url", "/admin"), false),
            (("forwarded", "host=evil.example"), false),
            (("x-http-verb", "DELETE"), false),
            (("x-verb", "DELETE"), false),
            (("x-original-method", "DELETE"), false),
            (("x-tunneled-method", "DELETE"), false),
            (("x-forwarded-method", "DELETE"), false),
            (("x-requested-method", "DELETE"), false),
            (("x-httpmethod", "DELETE"), false),
            (("x-methodoverride", "DELETE"), false),
            (("x-rest-method", "DELETE"), false),
            (("x-vendor-method-override", "DELETE"), false),
            (("x-acs-signature-method", "HMAC-SHA1"), true),
            (("x-ca-signature-method", "HmacSHA256"), true),
            (("x-compression-method", "gzip"), true),
            (("x-encryption-method", "a"), true),
            (("x-allowed-methods", "GET"), true),
            (("x-original-target", "/admin"), false),
            (("x-amz-target", "A.B"), true),
            (("x.remote.user", "admin"), false),
            (("remote.user", "admin"), false),
            (("x~original~url", "/admin"), false),
            (("x+rewrite+url", "/admin"), false),
            (("x.amz.target", "A.B"), false),
            (("x-auth!token", "a"), false),
            (("x-path", "/admin"), false),
            (("x-original-path", "/admin"), false),
            (("x-forwarded-path", "/admin"), false),
            (("x-request-uri", "/admin"), false),
            (("x-envoy-original-path", "/admin"), false),
            (("x-rewrite-url", "/admin"), false),
            (("x-invoke-path", "/admin"), false),
            (("x-orig-uri", "/admin"), false),
            (("x-http-path-override", "/admin"), false),
            (("x-http-host-override", "evil.example"), false),
            (("x-host", "evil.example"), false),
            (("x-server-side-encryption", "a"), true),
            (("x-webhook-url", "https://a.example"), true),
            (("x-callback-url", "https://a.example"), true),
            (("x-amz-meta-path", "/a"), true),
            (("x-auth-method", "token"), true),
            (("x-request-id", "1"), true),
            (("x-amz-website-redirect-location", "/a"), true),
            (("content-length", "12"), true),
            (("content-length", "+12"), false),
            (("content-length", "12,12"), false),
            (("x-anything", "else"), true),
        ];
        for (field, fine) in table {
            assert_eq!(check(&head(&[field]), &target()).is_ok(), fine, "{field:?}");
        }
        assert!(
            check(
                &head(&[("content-length", "1"), ("content-length", "1")]),
                &target()
            )
            .is_err()
        );
    }

    #[test]
    fn the_size_of_a_header_section_is_limited() {
        let many = vec![("x-a", "b"); MAX_FIELDS + 1];
        assert!(check(&head(&many[..MAX_FIELDS]), &target()).is_ok());
        assert_eq!(
            check(&head(&many), &target()).unwrap_err().code(),
            Code::HttpRequestHeaderSectionSize
        );
        let longest = "x".repeat(65535);
        assert!(check(&head(&[("x", &longest)]), &target()).is_ok());
        let long = "x".repeat(65536);
        assert_eq!(
            check(&head(&[("x", &long)]), &target()).unwrap_err().code(),
            Code::HttpRequestHeaderSectionSize
        );
    }

    #[test]
    fn host_has_the_port_of_the_target_unless_it_is_the_default() {
        for (scheme, host, port, expected) in [
            (Scheme::Https, "api.example.com", 443, "api.example.com"),
            (Scheme::Https, "api.example.com", 80, "api.example.com:80"),
            (Scheme::Http, "api.example.com", 80, "api.example.com"),
            (Scheme::Http, "[2001:db8::1]", 8080, "[2001:db8::1]:8080"),
        ] {
            let target = Target {
                scheme,
                host: Host::parse(host).unwrap(),
                port,
            };
            assert_eq!(authority(&target), expected);
            assert!(is_host_of(expected, &target), "{expected}");
            assert!(!is_host_of("api.example.com:1", &target), "{expected}");
        }
    }

    #[test]
    fn the_length_of_the_body_is_a_number() {
        for (value, expected) in [
            ("0", Some(0)),
            ("12", Some(12)),
            ("+12", None),
            ("", None),
            ("1e3", None),
        ] {
            assert_eq!(
                content_length(&head(&[("content-length", value)]).headers),
                expected,
                "{value}"
            );
        }

        assert_eq!(content_length(&head(&[]).headers), None);
    }

    #[test]
    fn hop_by_hop_headers_are_removed() {
        let mut headers = head(&[
            ("connection", "close, X-Hop, content-length"),
            ("x-hop", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("host", "x"),
            ("content-length", "1"),
            ("x-end", "2"),
        ])
        .headers;

        strip_hop_by_hop(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "x-end"]);
    }

    #[test]
    fn only_listed_headers_are_kept_beside_a_credential() {
        let sent = [
            ("content-type", "a/b"),
            ("x-request-id", "1"),
            ("authorization", "scope"),
            ("x-feature", "on"),
            ("x-other", "2"),
            ("token", "guest"),
            ("cookie", "guest"),
        ];
        let mut headers = head(&sent).headers;
        let listed = Listed {
            headers: vec![skydock_credentials::request::glob::Glob::parse("x-feature").unwrap()],
            parameters: Vec::new(),
        };
        let removed = keep_listed(&mut headers, &listed);
        assert_eq!(removed, ["x-other"], "what is told");
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(
            left,
            ["authorization", "content-type", "x-feature", "x-request-id"]
        );
    }

    #[test]
    fn headers_of_proxies_are_removed() {
        let sent = [
            ("x-forwarded-client-cert", "a"),
            ("via", "b"),
            ("accept", "c"),
        ];
        let mut headers = head(&sent).headers;
        let mut removed = strip_identity(&mut headers);
        removed.sort_by(|one, two| one.as_str().cmp(two.as_str()));
        assert_eq!(removed, ["via", "x-forwarded-client-cert"]);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["accept"]);
    }
}
