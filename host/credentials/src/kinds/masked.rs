//! Masked logins, for SDKs that must log in: Skydock answers their login, with a handle instead of
//! the token.

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, Uri, header, request::Parts};
use jiff::Timestamp;
use ring::rand::SystemRandom;
use serde_json::{Value, json};

use crate::{
    config::Capture, masking::secret::Secret, request::encode, secret_requests::path_segments,
    sources::failure::Failure,
};

/// vSphere's answer to a logout.
const LOGOUT_RESPONSE: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope "#,
    r#"xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body>"#,
    r#"<LogoutResponse xmlns="urn:vim25"></LogoutResponse></soapenv:Body></soapenv:Envelope>"#
);

/// What a request of a plugin is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Login,
    Logout,
    Other,
}

/// The protocols for login and logout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Keystone,
    VsphereSoap,
    Plain,
}

/// A login that plugins may send.
#[derive(Debug)]
pub(crate) struct Mask {
    protocol: Protocol,
    method: Method,
    url: Uri,
    capture: Capture,
    /// JSON pointer to the expiry in the answer.
    expires: Option<String>,
    handle: String,
    /// True if logins are answered, false if they are denied.
    answers: bool,
}

impl Mask {
    /// Creates a mask for logins to this URL. The handle grants no access: it only lets an SDK
    /// recognize its session.
    pub(crate) fn new(
        protocol: Protocol,
        method: Method,
        url: Uri,
        capture: Capture,
    ) -> Result<Self, String> {
        let random: [u8; 16] = ring::rand::generate(&SystemRandom::new())
            .map_err(|_| "no random numbers available")?
            .expose();
        let handle = format!("skydock-{}", hex::encode(random));

        Ok(Self {
            protocol,
            method,
            url,
            capture,
            expires: None,
            handle,
            answers: true,
        })
    }

    /// Returns the same mask, whose answers also have the expiry at this JSON pointer: many SDKs
    /// reject a token without it.
    pub(crate) fn with_expiry(self, expires: Option<String>) -> Self {
        Self { expires, ..self }
    }

    /// Returns the same mask, which denies logins instead of answering them.
    pub(crate) fn denying(self) -> Self {
        Self {
            answers: false,
            ..self
        }
    }

    /// Returns true for requests to the URL of logins.
    pub(crate) fn is_at_login(&self, head: &Parts) -> bool {
        let same_origin = Origin::of(&head.uri) == Origin::of(&self.url);
        let login = path_segments(self.url.path());

        // A server may read another spelling of the path as the same, so every reading counts.
        same_origin
            && path_segments(head.uri.path())
                .iter()
                .any(|path| login.contains(path))
    }

    /// Distinguishes logins and logouts from other requests.
    pub(crate) fn recognize(&self, head: &Parts, body: Option<&Bytes>) -> Purpose {
        if !self.is_at_login(head) {
            return Purpose::Other;
        }

        match self.protocol {
            // Keystone revokes a token with DELETE at the URL of logins.
            Protocol::Keystone if head.method == Method::DELETE => Purpose::Logout,
            _ if head.method != self.method => Purpose::Other,
            Protocol::VsphereSoap => match body.and_then(|body| operation(body)).as_deref() {
                Some("Login") => Purpose::Login,
                Some("Logout") => Purpose::Logout,
                _ => Purpose::Other,
            },
            Protocol::Keystone | Protocol::Plain => Purpose::Login,
        }
    }

    /// Returns an error if logins are denied.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.answers {
            return Ok(());
        }
        Err(Failure::secret_request(
            "plugins must not log in: Skydock does, and adds its session (for SDKs that must log in, set `masked: true`)",
        ))
    }

    /// Returns true if the request asks Keystone about the plugin's own token.
    pub(crate) fn is_subject(&self, headers: &HeaderMap) -> bool {
        self.protocol == Protocol::Keystone
            && headers
                .get("x-subject-token")
                .is_some_and(|value| value.as_bytes() == self.handle.as_bytes())
    }

    /// Returns the answer to a login: the one that Skydock received, with the handle instead of
    /// the token.
    pub(crate) fn login(
        &self,
        answer: &Response<Bytes>,
        token: &Secret,
    ) -> Result<Response<Bytes>, Failure> {
        let body = match (self.protocol, &self.capture) {
            // It is not known which other parts of the answer are secrets.
            (Protocol::Plain, Capture::Json(pointer)) => {
                let shown = only(pointer, json!(self.handle));
                let expiry = self.expiry(answer.body());
                Bytes::from(expiry.into_iter().fold(shown, merged).to_string())
            }
            (Protocol::Plain, _) => Bytes::new(),
            _ => self.hide(answer.body(), token),
        };

        // Only the type is passed on: other headers, such as cookies, may contain a secret.
        let mut response = Response::builder().status(answer.status());
        if let Some(kind) = answer.headers().get(header::CONTENT_TYPE) {
            response = response.header(header::CONTENT_TYPE, kind);
        }

        response = match &self.capture {
            Capture::Header(name) => response.header(name, &self.handle),
            Capture::Cookie(name) => {
                // A client that uses plain HTTP would not send a cookie with `Secure`.
                response.header(
                    header::SET_COOKIE,
                    format!("{name}={}; Path=/; HttpOnly", self.handle),
                )
            }
            Capture::Json(_) => response,
        };

        response
            .body(body)
            .map_err(|_| Failure::malformed("the answer to its login cannot be passed on"))
    }

    /// Returns the expiry in an answer, as JSON that has nothing else: any other value may be a
    /// secret.
    fn expiry(&self, body: &[u8]) -> Option<Value> {
        let pointer = self.expires.as_ref()?;
        let answer: Value = serde_json::from_slice(body).ok()?;
        let value = answer.pointer(pointer)?;
        let is_time = |text: &str| text.parse::<u64>().is_ok() || text.parse::<Timestamp>().is_ok();

        (value.is_number() || value.as_str().is_some_and(is_time))
            .then(|| only(pointer, value.clone()))
    }

    /// Returns the answer to a logout. Skydock's session is kept.
    pub(crate) fn logout(&self) -> Response<Bytes> {
        let (status, kind, body) = match self.protocol {
            Protocol::VsphereSoap => (
                StatusCode::OK,
                Some("text/xml; charset=\"utf-8\""),
                LOGOUT_RESPONSE,
            ),
            _ => (StatusCode::NO_CONTENT, None, ""),
        };

        let mut response = Response::new(Bytes::from_static(body.as_bytes()));
        *response.status_mut() = status;
        if let Some(kind) = kind {
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
        }

        response
    }

    /// Returns the body with the handle instead of the token.
    fn hide(&self, body: &Bytes, token: &Secret) -> Bytes {
        // A token cannot be found in a body that is not text, so the plugin does not receive it.
        let (Some(token), Ok(text)) = (token.expose_str(), std::str::from_utf8(body)) else {
            return Bytes::new();
        };

        // The value of a cookie may be quoted there, but unquoted elsewhere.
        let forms = [
            token.to_owned(),
            token.trim_matches('"').to_owned(),
            encode::json(token),
            encode::xml(token),
        ];

        let hidden = forms.iter().fold(text.to_owned(), |text, form| {
            text.replace(form.as_str(), &self.handle)
        });
        Bytes::from(hidden)
    }
}

/// Returns JSON that has only this value, at this pointer.
fn only(pointer: &str, value: Value) -> Value {
    let within = |inner: Value, key: &str| {
        // RFC 6901, section 4: `~1` first, so that `~01` becomes `~1` and not `/`.
        let key = key.replace("~1", "/").replace("~0", "~");
        if key.parse::<usize>().is_ok() {
            json!([inner])
        } else {
            json!({ key: inner })
        }
    };

    let keys = pointer
        .strip_prefix('/')
        .into_iter()
        .flat_map(|keys| keys.rsplit('/'));
    keys.fold(value, within)
}

/// Returns JSON with the fields of both. Where they differ, that of the first is kept.
fn merged(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(mut one), Value::Object(other)) => {
            for (key, value) in other {
                let value = match one.remove(&key) {
                    Some(before) => merged(before, value),
                    None => value,
                };
                one.insert(key, value);
            }
            Value::Object(one)
        }
        (one, _) => one,
    }
}

/// The origin of a URL, in lower case and with its port.
#[derive(PartialEq, Eq)]
struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    fn of(uri: &Uri) -> Self {
        let scheme = uri.scheme_str().unwrap_or_default().to_ascii_lowercase();
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        let port = uri
            .port_u16()
            .unwrap_or(if scheme == "http" { 80 } else { 443 });

        Self {
            scheme,
            host: host.trim_end_matches('.').to_owned(),
            port,
        }
    }
}

/// Returns the local name of the first element in a SOAP body.
fn operation(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;

    let mut names = text
        .split('<')
        .skip(1)
        .filter(|rest| !rest.starts_with(['/', '!', '?']))
        .map(|rest| {
            let end = rest
                .find(|letter: char| letter.is_whitespace() || "/>".contains(letter))
                .unwrap_or(rest.len());
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

    fn purpose(mask: &Mask, method: &str, uri: &str, body: &str) -> Purpose {
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        mask.recognize(
            &request.into_parts().0,
            Some(&Bytes::copy_from_slice(body.as_bytes())),
        )
    }

    fn keystone() -> Mask {
        let url = "https://keystone.example.com:443/v3/auth/tokens"
            .parse()
            .unwrap();
        Mask::new(
            Protocol::Keystone,
            Method::POST,
            url,
            Capture::Header("X-Subject-Token".to_owned()),
        )
        .unwrap()
    }

    #[test]
    fn a_login_is_recognized_by_method_and_url() {
        let mask = keystone();
        for (method, uri, expected) in [
            (
                "POST",
                "https://keystone.example.com/v3/auth/tokens",
                Purpose::Login,
            ),
            (
                "POST",
                "https://KEYSTONE.example.com:443/v3//auth/tokens/?nocatalog",
                Purpose::Login,
            ),
            (
                "DELETE",
                "https://keystone.example.com/v3/auth/tokens",
                Purpose::Logout,
            ),
            (
                "GET",
                "https://keystone.example.com/v3/auth/tokens",
                Purpose::Other,
            ),
            (
                "POST",
                "https://keystone.example.com:5000/v3/auth/tokens",
                Purpose::Other,
            ),
            (
                "POST",
                "http://keystone.example.com:443/v3/auth/tokens",
                Purpose::Other,
            ),
            (
                "POST",
                "https://nova.example.com/v3/auth/tokens",
                Purpose::Other,
            ),
            (
                "POST",
                "https://keystone.example.com/v3/users",
                Purpose::Other,
            ),
        ] {
            assert_eq!(
                purpose(&mask, method, uri, "{}"),
                expected,
                "{method} {uri}"
            );
        }
    }

    #[test]
    fn a_soap_login_is_recognized_by_its_operation() {
        let url: Uri = "https://vcenter.example.com/sdk".parse().unwrap();
        let capture = Capture::Cookie("vmware_soap_session".to_owned());
        let mask = Mask::new(Protocol::VsphereSoap, Method::POST, url, capture).unwrap();
        let envelope = |inner: &str| {
            format!(
                "<?xml version=\"1.0\"?><e:Envelope><e:Header><Login/></e:Header><e:Body>{inner}</e:Body></e:Envelope>"
            )
        };
        for (method, url, inner, expected) in [
            (
                "POST",
                "/sdk/",
                "<Login xmlns=\"urn:vim25\">",
                Purpose::Login,
            ),
            ("POST", "/sdk", "<Login/>", Purpose::Login),
            ("POST", "/sdk/", "<!-- x --><v:Login>", Purpose::Login),
            ("POST", "/sdk/", "<Logout/>", Purpose::Logout),
            ("POST", "/sdk/", "<FindByUuid>", Purpose::Other),
            ("POST", "/sdk/", "<LoginByToken>", Purpose::Other),
            ("POST", "/sdk", "<RetrieveProperties/>", Purpose::Other),
            ("GET", "/sdk", "<Login/>", Purpose::Other),
        ] {
            let url = format!("https://vcenter.example.com{url}");
            let found = purpose(&mask, method, &url, &envelope(inner));
            assert_eq!(found, expected, "{method} {url} {inner}");
        }

        // The header is optional.
        let body = "<Envelope><Body><Login/></Body></Envelope>";
        let found = purpose(&mask, "POST", "https://vcenter.example.com/sdk", body);
        assert_eq!(found, Purpose::Login);

        assert!(mask.logout().body().starts_with(b"<?xml"));
    }

    #[test]
    fn the_answer_has_a_handle_instead_of_the_token() {
        let mask = keystone();
        let mut answer = Response::new(Bytes::from_static(
            b"{\"token\": {\"catalog\": [], \"x\": \"real-\\\"token\"}}",
        ));
        *answer.status_mut() = StatusCode::CREATED;
        answer
            .headers_mut()
            .insert("x-subject-token", "real-\"token".parse().unwrap());
        answer
            .headers_mut()
            .insert("set-cookie", "a=b".parse().unwrap());
        let shown = mask.login(&answer, &Secret::from("real-\"token")).unwrap();
        assert_eq!(shown.status(), 201);
        let handle = shown.headers()["x-subject-token"].to_str().unwrap();
        assert!(handle.starts_with("skydock-") && handle.len() == 40);
        assert_eq!(shown.headers().len(), 1);
        assert_eq!(
            *shown.body(),
            format!("{{\"token\": {{\"catalog\": [], \"x\": \"{handle}\"}}}}")
        );
        assert!(mask.is_subject(shown.headers()));
        assert_ne!(keystone().handle, mask.handle);
    }

    #[test]
    fn a_plain_answer_has_the_handle_and_the_expiry_only() {
        let shown = |body: &'static str| {
            let url = "https://login.example.com/token".parse().unwrap();
            let capture = Capture::Json("/data/token".to_owned());
            let mask = Mask::new(Protocol::Plain, Method::POST, url, capture).unwrap();
            let mask = mask.with_expiry(Some("/data/expires_in".to_owned()));
            let shown = mask
                .login(
                    &Response::new(Bytes::from_static(body.as_bytes())),
                    &Secret::from("real"),
                )
                .unwrap();
            String::from_utf8(shown.body().to_vec())
                .unwrap()
                .replace(&mask.handle, "handle")
        };
        let both =
            |expires: &str| format!(r#"{{"data":{{"expires_in":{expires},"token":"handle"}}}}"#);
        assert_eq!(
            shown(r#"{"data":{"token":"real","expires_in":3599,"refresh":"r"}}"#),
            both("3599")
        );
        assert_eq!(
            shown(r#"{"data":{"token":"real","expires_in":"3599"}}"#),
            both("\"3599\"")
        );
        let time = "\"2031-01-02T03:04:05Z\"";
        assert_eq!(
            shown(r#"{"data":{"token":"real","expires_in":"2031-01-02T03:04:05Z"}}"#),
            both(time)
        );
        for other in [
            r#"{"data":{"token":"real","expires_in":"never"}}"#,
            r#"{"data":{"token":"real"}}"#,
        ] {
            assert_eq!(shown(other), r#"{"data":{"token":"handle"}}"#);
        }
    }

    #[test]
    fn a_denying_mask_denies_logins() {
        assert!(keystone().check().is_ok());
        assert!(keystone().denying().check().is_err());
    }

    #[test]
    fn only_keystone_is_asked_about_the_handle() {
        let (mask, mut headers) = (keystone(), HeaderMap::new());
        assert!(!mask.is_subject(&headers));
        headers.insert("x-subject-token", "another".parse().unwrap());
        assert!(!mask.is_subject(&headers));
        headers.insert("x-subject-token", mask.handle.parse().unwrap());
        assert!(mask.is_subject(&headers));
        assert!(
            !Mask {
                protocol: Protocol::Plain,
                ..mask
            }
            .is_subject(&headers)
        );
    }

    #[test]
    fn the_answer_to_a_plain_login_shows_nothing_else() {
        let url = || "https://cloud.example.com:443/login".parse().unwrap();
        let token = Secret::from("s3cret-t0ken-of-the-cloud");
        let answer = || {
            Response::new(Bytes::from_static(
                b"{\"token\": \"s3cret-t0ken-of-the-cloud\", \"key\": \"k\"}",
            ))
        };
        let capture = Capture::Json("/token".to_owned());
        let mask = Mask::new(Protocol::Plain, Method::POST, url(), capture).unwrap();
        let shown = mask.login(&answer(), &token).unwrap();
        let body: Value = serde_json::from_slice(shown.body()).unwrap();
        assert_eq!(body, json!({"token": mask.handle}));
        let mask = Mask::new(
            Protocol::Plain,
            Method::POST,
            url(),
            Capture::Header("x-token".into()),
        )
        .unwrap();
        let shown = mask.login(&answer(), &token).unwrap();
        assert!(shown.body().is_empty(), "{shown:?}");
        assert_eq!(shown.headers()["x-token"], mask.handle.as_str());
    }
}
