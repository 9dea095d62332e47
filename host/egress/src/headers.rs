//! Headers that plugins may send, and headers of answers that they receive.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{CONNECTION, CONTENT_LENGTH, HOST},
    request::Parts,
};

use crate::{
    actions::decode,
    refusal::{Cause, Code, Refusal},
    rule::{Host, Target},
    uri::host_and_port,
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

/// Headers with which some servers replace the method, path or host of the request line.
const OVERRIDES: &[&str] = &[
    "forwarded",
    "x-forwarded-host",
    "x-forwarded-server",
    "x-host",
    "x-http-host-override",
    "x-original-url",
    "x-rewrite-url",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-uri",
    "x-forwarded-uri",
    "x-forwarded-prefix",
    "x-original-host",
    "x-envoy-original-path",
    "x-http-path-override",
];

/// Headers that authenticate, in addition to all headers with `authorization` in their name.
const AUTHENTICATION: &[&str] = &[
    "cookie",
    "x-auth-token",
    "x-auth-key",
    "x-subject-token",
    "x-storage-token",
    "x-service-token",
    "x-amz-security-token",
    "x-aws-ec2-metadata-token",
    "x-api-key",
    "api-key",
    "apikey",
    "x-goog-api-key",
    "x-access-token",
    "x-session-token",
    "x-consul-token",
    "x-vault-token",
    "private-token",
    "vmware-api-session-id",
    "ocp-apim-subscription-key",
];

/// Query parameters that authenticate: those of presigned URLs, and API keys.
const AUTHENTICATION_QUERY: &[&str] = &[
    "x-amz-signature",
    "x-amz-credential",
    "x-amz-security-token",
    "x-goog-signature",
    "x-goog-credential",
    "awsaccesskeyid",
    "signature",
    "sig",
    "access_token",
    "auth_token",
    "api_key",
    "api-key",
    "apikey",
    "secret",
];

/// Checks that plugins may send this head.
///
/// # Errors
/// [`Code::HttpRequestHeaderSectionSize`] if it is too large; [`Code::HttpRequestDenied`] if a
/// header names another host, method or path, if the query names another method, or if there is not
/// exactly one valid length.
pub(crate) fn check(head: &Parts, target: &Target) -> Result<(), Refusal> {
    let bytes: usize = head
        .headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if bytes > MAX_BYTES || head.headers.len() > MAX_FIELDS {
        let sentence = format!(
            "the request has more than {MAX_FIELDS} headers, or more than {} KiB of them",
            MAX_BYTES / 1024
        );
        return Err(Refusal::new(
            Code::HttpRequestHeaderSectionSize,
            Cause::Header,
            sentence,
        ));
    }
    for value in head.headers.get_all(HOST) {
        if !value.to_str().is_ok_and(|text| is_host_of(text, target)) {
            return Err(Refusal::denied(
                Cause::Header,
                format!("its Host header does not match {target}"),
            ));
        }
    }
    if let Some(name) = OVERRIDES
        .iter()
        .find(|name| head.headers.contains_key(**name))
    {
        return Err(Refusal::denied(
            Cause::Header,
            format!("its header {name} could change the target, path or method"),
        ));
    }
    let query = head.uri.query().unwrap_or_default().as_bytes();
    let names = query
        .split(|byte| b"&;".contains(byte))
        .filter_map(|pair| pair.split(|byte| *byte == b'=').next());
    // Rails, Laravel and others use this parameter as the method.
    if names
        .map(decode)
        .any(|name| name.eq_ignore_ascii_case(b"_method"))
    {
        return Err(Refusal::denied(
            Cause::Header,
            "`_method` in its query could change the method",
        ));
    }
    if let Some(name) = head.headers.keys().find(|name| name.as_str().contains('_')) {
        let sentence =
            format!("its header {name} has an underscore, which many servers treat as a dash");
        return Err(Refusal::denied(Cause::Header, sentence));
    }
    let mut options = head.headers.get_all(CONNECTION).iter();
    if options.any(|value| {
        value
            .to_str()
            .is_ok_and(|text| text.split(',').any(is_judged))
    }) {
        let sentence =
            "its Connection header names a header that rules depend on and that would not be sent";
        return Err(Refusal::denied(Cause::Header, sentence));
    }
    let mut lengths = head.headers.get_all(CONTENT_LENGTH).iter();
    if lengths.next().is_some_and(|value| length(value).is_none()) || lengths.next().is_some() {
        return Err(Refusal::denied(
            Cause::Header,
            "its Content-Length is not a single number",
        ));
    }
    Ok(())
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
    for &name in HOP_BY_HOP {
        headers.remove(name);
    }
    headers.remove(HOST);
}

/// Authentication in a head: headers with their values, and query parameters as they were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Authentication {
    headers: Vec<(HeaderName, HeaderValue)>,
    query: Vec<String>,
}

impl Authentication {
    pub(crate) fn of(head: &Parts) -> Self {
        let is = |name: &HeaderName| {
            AUTHENTICATION.contains(&name.as_str()) || name.as_str().contains("authorization")
        };
        let headers = head.headers.iter().filter(|(name, _)| is(name));
        let query = head
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter(|pair| is_authentication(pair));
        Self {
            headers: headers
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            query: query.map(str::to_owned).collect(),
        }
    }

    /// Returns the name of one of them, for an error message.
    pub(crate) fn name(&self) -> Option<String> {
        let header = self
            .headers
            .first()
            .map(|(name, _)| format!("header {name}"));
        header.or_else(|| {
            let parameter = self.query.first()?;
            Some(format!(
                "query parameter {}",
                parameter.split('=').next().unwrap_or_default()
            ))
        })
    }

    /// Removes headers that still have the plugin's value, and so were not replaced.
    pub(crate) fn strip(&self, headers: &mut HeaderMap) {
        for (name, guest) in &self.headers {
            if headers.get_all(name).iter().any(|value| value == guest) {
                let kept: Vec<_> = headers
                    .get_all(name)
                    .iter()
                    .filter(|value| *value != guest)
                    .cloned()
                    .collect();
                headers.remove(name);
                for value in kept {
                    headers.append(name, value);
                }
            }
        }
    }

    /// Returns a query parameter that still has the plugin's value.
    pub(crate) fn kept_in(&self, query: Option<&str>) -> Option<&str> {
        let query = query.unwrap_or_default();
        self.query
            .iter()
            .map(String::as_str)
            .find(|parameter| query.split('&').any(|pair| pair == *parameter))
    }
}

fn is_authentication(pair: &str) -> bool {
    let name = decode(pair.split('=').next().unwrap_or_default().as_bytes());
    AUTHENTICATION_QUERY
        .iter()
        .any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Scheme;

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
    fn a_query_must_not_name_another_method() {
        for (query, expected) in [
            ("_method=DELETE", false),
            ("a=1&%5FMETHOD=DELETE", false),
            ("a=1;_method", false),
            ("a=_method", true),
            ("x_method=DELETE", true),
        ] {
            let uri = format!("https://api.example.com/?{query}");
            let head = http::Request::builder()
                .uri(uri)
                .body(())
                .unwrap()
                .into_parts()
                .0;
            assert_eq!(check(&head, &target()).is_ok(), expected, "{query}");
        }
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
    fn authentication_is_recognized_by_name() {
        for name in [
            "authorization",
            "Proxy-Authorization",
            "Cookie",
            "X-Auth-Token",
            "x-ms-authorization-auxiliary",
            "X-Api-Key",
        ] {
            let found = Authentication::of(&head(&[(name, "v")]));
            assert_eq!(
                found.name(),
                Some(format!("header {}", name.to_ascii_lowercase()))
            );
        }
        let found = Authentication::of(&head(&[("x-request-id", "v")]));
        assert_eq!(
            found.name().as_deref(),
            Some("query parameter X-Amz-Signature")
        );
        assert_eq!(found.query, ["X-Amz-Signature=ab", "sig=c"]);
        for hidden in ["X-Amz%2dSignature=ab", "%73ig=x", "sig"] {
            assert!(is_authentication(hidden), "{hidden}");
        }
        assert!(!is_authentication("marker=a%20b"));
    }

    #[test]
    fn authentication_that_was_not_replaced_is_removed() {
        let guest = head(&[
            ("authorization", "guest"),
            ("cookie", "guest"),
            ("x-api-key", "guest"),
        ]);
        let found = Authentication::of(&guest);
        let mut headers = guest.headers;
        headers.insert("authorization", HeaderValue::from_static("real"));
        headers.append("cookie", HeaderValue::from_static("real"));
        found.strip(&mut headers);
        assert_eq!(headers["authorization"], "real");
        assert!(!headers.contains_key("x-api-key"));
        assert_eq!(
            headers.get_all("cookie").iter().collect::<Vec<_>>(),
            ["real"]
        );
        assert_eq!(found.kept_in(Some("a=1&sig=c")), Some("sig=c"));
        assert_eq!(found.kept_in(Some("a=1&sig=d")), None);
    }
}
