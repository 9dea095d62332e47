//! Headers and cookies that carry authentication in requests and answers.

use http::{HeaderMap, HeaderName, header};

use crate::{config::Attach, masking::secret::Secret, sources::failure::Failure};

/// Headers with which a plugin could authenticate to any cloud, or change the meaning of a request
/// after it was checked.
const FROM_GUEST: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "x-auth-token",
    "x-subject-token",
    "x-service-token",
    "vmware-api-session-id",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
];

/// Headers in which an answer may contain a secret.
const FROM_CLOUD: &[&str] = &[
    "authorization",
    "set-cookie",
    "set-cookie2",
    "x-subject-token",
    "x-auth-token",
    "vmware-api-session-id",
    "authentication-info",
    "proxy-authentication-info",
];

/// The header or cookie that carries a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Header { name: HeaderName, prefix: String },
    Cookie(String),
}

impl Place {
    /// Creates a header place from the name in the configuration.
    pub(crate) fn header(name: &str, prefix: &str) -> Result<Self, String> {
        let name: HeaderName = name
            .parse()
            .map_err(|_| format!("`{name}` is not a valid header name"))?;

        // These headers define the framing or the destination of a request.
        let fixed = [
            header::HOST,
            header::CONTENT_LENGTH,
            header::TRANSFER_ENCODING,
            header::CONNECTION,
        ];
        if fixed.contains(&name) {
            return Err(format!("header `{name}` cannot carry a credential"));
        }

        Ok(Self::Header {
            name,
            prefix: prefix.to_owned(),
        })
    }

    pub(crate) fn of(attach: &Attach) -> Result<Self, String> {
        match attach {
            Attach::Header { name, prefix } => Self::header(name, prefix),
            Attach::Cookie(name) => {
                let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
                let good = !name.is_empty() && name.bytes().all(token);
                good.then(|| Self::Cookie(name.clone()))
                    .ok_or_else(|| format!("`{name}` is not a valid cookie name"))
            }
        }
    }

    /// Returns true if this is the header with this name.
    pub(crate) fn is_header(&self, wanted: &str) -> bool {
        matches!(self, Self::Header { name, .. } if name.as_str() == wanted)
    }

    /// Removes authentication by the plugin.
    pub(crate) fn strip(&self, headers: &mut HeaderMap) {
        strip(headers);
        match self {
            Self::Header { name, .. } => remove(headers, &[name.as_str()]),
            // A server may accept another cookie as a session.
            Self::Cookie(_) => remove(headers, &["cookie", "cookie2"]),
        }
    }

    /// Removes the header from an answer.
    pub(crate) fn remove(&self, headers: &mut HeaderMap) {
        if let Self::Header { name, .. } = self {
            headers.remove(name);
        }
    }

    /// Adds the secret.
    pub(crate) fn insert(&self, headers: &mut HeaderMap, secret: &Secret) -> Result<(), Failure> {
        let malformed =
            || Failure::malformed("the secret contains bytes that are not allowed in headers");
        match self {
            Self::Header { name, prefix } => {
                headers.insert(name, secret.header(prefix).ok_or_else(malformed)?);
            }
            Self::Cookie(name) => {
                let cookie = secret.header(&format!("{name}="));
                headers.insert(header::COOKIE, cookie.ok_or_else(malformed)?);
            }
        }

        Ok(())
    }
}

/// Removes headers that plugins must not send together with a credential of Skydock.
pub(crate) fn strip(headers: &mut HeaderMap) {
    remove(headers, FROM_GUEST);
}

/// Removes these headers under every name that a server could treat as the same: many (WSGI, CGI)
/// do not distinguish `_` and `-`.
pub(crate) fn remove(headers: &mut HeaderMap, names: &[&str]) {
    let alike = |name: &&HeaderName| names.contains(&name.as_str().replace('_', "-").as_str());
    let found: Vec<HeaderName> = headers.keys().filter(alike).cloned().collect();

    for name in found {
        headers.remove(name);
    }
}

/// Removes the headers of an answer that hand out sessions.
pub fn remove_session_headers(headers: &mut HeaderMap) {
    for &name in FROM_CLOUD {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn the_credential_replaces_authentication_of_the_guest() {
        let mut map = headers(&[
            ("authorization", "Bearer guest"),
            ("authorization", "Basic guest"),
            ("x-auth-token", "guest"),
            ("x-http-method-override", "DELETE"),
            ("x_http_method_override", "DELETE"),
            ("x_auth-token", "guest"),
            ("accept", "text/plain"),
        ]);
        let place = Place::header("X-Auth-Token", "").unwrap();
        place.strip(&mut map);
        assert_eq!(map.keys().collect::<Vec<_>>(), ["accept"]);
        place.insert(&mut map, &Secret::from("real")).unwrap();
        assert_eq!(map["x-auth-token"], "real");
        assert!(map["x-auth-token"].is_sensitive());
    }

    #[test]
    fn a_session_cookie_replaces_all_cookies() {
        let mut map = headers(&[
            ("cookie", "a=1; SID=guest;sid=guest"),
            ("cookie", "JSESSIONID=guest"),
        ]);
        let place = Place::of(&Attach::Cookie("sid".to_owned())).unwrap();
        place.strip(&mut map);
        assert!(map.is_empty());
        place.insert(&mut map, &Secret::from("real")).unwrap();
        assert_eq!(map["cookie"], "sid=real");
    }

    #[test]
    fn sessions_are_removed_from_answer_headers() {
        let mut map = headers(&[
            ("set-cookie", "sid=x"),
            ("x-subject-token", "t"),
            ("content-type", "text/plain"),
        ]);
        remove_session_headers(&mut map);
        assert_eq!(map, headers(&[("content-type", "text/plain")]));
    }

    #[test]
    fn only_its_own_header_is_removed_from_an_answer() {
        let place = Place::header("X-Session", "").unwrap();
        assert!(place.is_header("x-session") && !place.is_header("x-other"));
        let mut map = headers(&[("x-session", "real"), ("x-other", "kept")]);
        place.remove(&mut map);
        assert_eq!(map, headers(&[("x-other", "kept")]));

        let place = Place::of(&Attach::Cookie("x-session".to_owned())).unwrap();
        assert!(!place.is_header("x-session"));
        let mut map = headers(&[("x-session", "no cookie")]);
        place.remove(&mut map);
        assert_eq!(map, headers(&[("x-session", "no cookie")]));
    }

    #[test]
    fn rejects_headers_that_cannot_carry_a_credential() {
        for name in ["Host", "content-length", "a b", ""] {
            assert!(Place::header(name, "").is_err(), "{name}");
        }
        assert!(Place::of(&Attach::Cookie("a=b".to_owned())).is_err());
    }
}
