//! For SDKs that insist on logging in: their login is answered by the host, with a handle in the place of the token.

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, Uri, header, request::Parts};
use ring::rand::SystemRandom;
use serde_json::{Value, json};

use super::{config::Capture, encode, failure::Failure, minting::path_segments, secret::Secret, token::Token};

/// What a guest's request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guest {
    Login,
    Logout,
    Other,
}

/// How logging in and out look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Keystone,
    VsphereSoap,
    Plain,
}

/// A login that guests may send.
#[derive(Debug)]
pub(crate) struct Mask {
    protocol: Protocol,
    method: Method,
    url: Uri,
    capture: Capture,
    handle: String,
    /// Logins are answered, and not refused.
    answers: bool,
}

impl Mask {
    /// A mask for logins to this URL. Its handle opens nothing: it only lets an SDK tell a session from none.
    pub(crate) fn new(protocol: Protocol, method: Method, url: Uri, capture: Capture) -> Result<Self, String> {
        let random: [u8; 16] =
            ring::rand::generate(&SystemRandom::new()).map_err(|_| "no random numbers can be had")?.expose();
        Ok(Self { protocol, method, url, capture, handle: format!("skydock-{}", hex::encode(random)), answers: true })
    }

    /// The same, that refuses logins and answers none.
    pub(crate) fn refusing(self) -> Self {
        Self { answers: false, ..self }
    }

    /// True for requests to where logins go.
    pub(crate) fn is_at_login(&self, head: &Parts) -> bool {
        let same_place = place(&head.uri) == place(&self.url);
        let login = path_segments(self.url.path());
        same_place && path_segments(head.uri.path()).iter().any(|path| login.contains(path))
    }

    /// Tells logging in and out from other requests.
    pub(crate) fn recognize(&self, head: &Parts, body: Option<&Bytes>) -> Guest {
        if !self.is_at_login(head) {
            return Guest::Other;
        }
        match self.protocol {
            Protocol::Keystone if head.method == Method::DELETE => Guest::Logout,
            Protocol::VsphereSoap if head.method == Method::POST => {
                match body.and_then(|body| operation(body)).as_deref() {
                    Some("Login") => Guest::Login,
                    Some("Logout") => Guest::Logout,
                    _ => Guest::Other,
                }
            }
            Protocol::VsphereSoap => Guest::Other,
            _ if head.method == self.method => Guest::Login,
            _ => Guest::Other,
        }
    }

    /// Refuses a login that is not to be answered.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.answers {
            return Ok(());
        }
        Err(Failure::minting(
            "a login is not for a plugin: the host logs in, and adds its session (SDKs that must log in need `masked: true`)",
        ))
    }

    /// True if the request asks Keystone about the guest's own token.
    pub(crate) fn is_subject(&self, headers: &HeaderMap) -> bool {
        self.protocol == Protocol::Keystone
            && headers.get("x-subject-token").is_some_and(|value| value.as_bytes() == self.handle.as_bytes())
    }

    /// The answer to a login: the one the host got, with the handle for the token.
    pub(crate) fn login(&self, token: &Token) -> Result<Response<Bytes>, Failure> {
        let answer = token.answer.as_ref().ok_or_else(|| Failure::unavailable("the host's own login is not kept"))?;
        let body = match (self.protocol, &self.capture) {
            // Nobody here knows what else in it is a secret.
            (Protocol::Plain, Capture::Json(pointer)) => only(pointer, &self.handle),
            (Protocol::Plain, _) => Bytes::new(),
            _ => self.hide(answer.body(), &token.value),
        };
        let mut response = Response::builder().status(answer.status());
        if let Some(kind) = answer.headers().get(header::CONTENT_TYPE) {
            response = response.header(header::CONTENT_TYPE, kind);
        }
        response = match &self.capture {
            Capture::Header(name) => response.header(name, &self.handle),
            Capture::Cookie(name) => {
                // Without `Secure`, a client that was told to speak plain HTTP would not send it.
                response.header(header::SET_COOKIE, format!("{name}={}; Path=/; HttpOnly", self.handle))
            }
            Capture::Json(_) => response,
        };
        response.body(body).map_err(|_| Failure::malformed("its login's answer cannot be handed on"))
    }

    /// The answer to a logout, which the host's session survives.
    pub(crate) fn logout(&self) -> Response<Bytes> {
        let (status, kind, body) = match self.protocol {
            Protocol::VsphereSoap => (StatusCode::OK, Some("text/xml; charset=\"utf-8\""), LOGOUT_RESPONSE),
            _ => (StatusCode::NO_CONTENT, None, ""),
        };
        let mut response = Response::new(Bytes::from_static(body.as_bytes()));
        *response.status_mut() = status;
        if let Some(kind) = kind {
            response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
        }
        response
    }

    /// The body with the handle wherever the token is.
    fn hide(&self, body: &Bytes, token: &Secret) -> Bytes {
        let (Some(token), Ok(text)) = (token.expose_str(), std::str::from_utf8(body)) else { return Bytes::new() };
        // A cookie's value may stand in quotes that are no part of it elsewhere.
        let forms = [token.to_owned(), token.trim_matches('"').to_owned(), encode::json(token), encode::xml(token)];
        let hidden = forms.iter().fold(text.to_owned(), |text, form| text.replace(form.as_str(), &self.handle));
        Bytes::from(hidden)
    }
}

/// JSON with this value where the pointer leads, and nothing else.
fn only(pointer: &str, value: &str) -> Bytes {
    let within = |inner: Value, key: &str| {
        let key = key.replace("~1", "/").replace("~0", "~");
        if key.parse::<usize>().is_ok() { json!([inner]) } else { json!({ key: inner }) }
    };
    let keys = pointer.strip_prefix('/').into_iter().flat_map(|keys| keys.rsplit('/'));
    Bytes::from(keys.fold(json!(value), within).to_string())
}

/// What vSphere answers to a logout.
const LOGOUT_RESPONSE: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope "#,
    r#"xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body>"#,
    r#"<LogoutResponse xmlns="urn:vim25"></LogoutResponse></soapenv:Body></soapenv:Envelope>"#
);

/// Scheme, host and port.
fn place(uri: &Uri) -> (String, String, u16) {
    let scheme = uri.scheme_str().unwrap_or_default().to_ascii_lowercase();
    let port = uri.port_u16().unwrap_or(if scheme == "http" { 80 } else { 443 });
    let host = uri.host().unwrap_or_default().to_ascii_lowercase();
    (scheme, host.trim_end_matches('.').to_owned(), port)
}

/// Local name of the first element in a SOAP body.
fn operation(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let mut names = text.split('<').skip(1).filter(|rest| !rest.starts_with(['/', '!', '?'])).map(|rest| {
        let end = rest.find(|letter: char| letter.is_whitespace() || "/>".contains(letter)).unwrap_or(rest.len());
        let name = rest.get(..end).unwrap_or_default();
        name.rsplit(':').next().unwrap_or(name)
    });
    names.find(|name| *name == "Body")?;
    names.next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn guest(mask: &Mask, method: &str, uri: &str, body: &str) -> Guest {
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        mask.recognize(&request.into_parts().0, Some(&Bytes::copy_from_slice(body.as_bytes())))
    }

    fn keystone() -> Mask {
        let url = "https://keystone.example.com:443/v3/auth/tokens".parse().unwrap();
        Mask::new(Protocol::Keystone, Method::POST, url, Capture::Header("X-Subject-Token".to_owned())).unwrap()
    }

    #[test]
    fn a_login_is_told_by_method_and_url() {
        let mask = keystone();
        for (method, uri, expected) in [
            ("POST", "https://keystone.example.com/v3/auth/tokens", Guest::Login),
            ("POST", "https://KEYSTONE.example.com:443/v3//auth/tokens/?nocatalog", Guest::Login),
            ("DELETE", "https://keystone.example.com/v3/auth/tokens", Guest::Logout),
            ("GET", "https://keystone.example.com/v3/auth/tokens", Guest::Other),
            ("POST", "https://keystone.example.com:5000/v3/auth/tokens", Guest::Other),
            ("POST", "http://keystone.example.com:443/v3/auth/tokens", Guest::Other),
            ("POST", "https://nova.example.com/v3/auth/tokens", Guest::Other),
            ("POST", "https://keystone.example.com/v3/users", Guest::Other),
        ] {
            assert_eq!(guest(&mask, method, uri, "{}"), expected, "{method} {uri}");
        }
    }

    #[test]
    fn a_soap_login_is_told_by_its_operation() {
        let url: Uri = "https://vcenter.example.com/sdk".parse().unwrap();
        let capture = Capture::Cookie("vmware_soap_session".to_owned());
        let mask = Mask::new(Protocol::VsphereSoap, Method::POST, url, capture).unwrap();
        let envelope = |inner: &str| {
            format!(
                "<?xml version=\"1.0\"?><e:Envelope><e:Header><Login/></e:Header><e:Body>{inner}</e:Body></e:Envelope>"
            )
        };
        for (inner, expected) in [
            ("<Login xmlns=\"urn:vim25\">", Guest::Login),
            ("<!-- x --><v:Login>", Guest::Login),
            ("<Logout/>", Guest::Logout),
            ("<FindByUuid>", Guest::Other),
            ("<LoginByToken>", Guest::Other),
        ] {
            assert_eq!(guest(&mask, "POST", "https://vcenter.example.com/sdk/", &envelope(inner)), expected, "{inner}");
        }
        assert!(mask.logout().body().starts_with(b"<?xml"));
    }

    #[test]
    fn the_answer_has_a_handle_and_never_the_token() {
        let mask = keystone();
        let mut answer =
            Response::new(Bytes::from_static(b"{\"token\": {\"catalog\": [], \"x\": \"real-\\\"token\"}}"));
        *answer.status_mut() = StatusCode::CREATED;
        answer.headers_mut().insert("x-subject-token", "real-\"token".parse().unwrap());
        answer.headers_mut().insert("set-cookie", "a=b".parse().unwrap());
        let token = Token { value: Secret::from("real-\"token"), answer: Some(answer) };
        let shown = mask.login(&token).unwrap();
        assert_eq!(shown.status(), 201);
        let handle = shown.headers()["x-subject-token"].to_str().unwrap();
        assert!(handle.starts_with("skydock-") && handle.len() == 40);
        assert_eq!(shown.headers().len(), 1);
        assert_eq!(*shown.body(), format!("{{\"token\": {{\"catalog\": [], \"x\": \"{handle}\"}}}}"));
        assert!(mask.is_subject(shown.headers()));
        assert_ne!(keystone().handle, mask.handle);
    }
}
