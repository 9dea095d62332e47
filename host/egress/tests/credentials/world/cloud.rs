//! A fake cloud with all its issuers in one server. It rejects what the real ones reject, and can
//! simulate failures.

mod aws;
mod oauth2;
mod session;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU16, AtomicU64, Ordering::SeqCst},
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, response::IntoResponse as _};
use http::{Method, Response, StatusCode, Uri};
use serde_json::{Value, json};

/// The files that the credentials of a test read. All of them are secrets except those with `id` or
/// `user` in their names.
pub(crate) fn files(url: &str) -> Vec<(&'static str, String)> {
    let key = include_str!("../../../../credentials/tests/data/rsa.key");
    let google = json!({
        "type": "service_account", "client_email": "ccm@project.iam.gserviceaccount.com",
        "private_key_id": "key-1", "private_key": key, "token_uri": format!("{url}/oauth/token"),
    });
    let conf = format!(
        "[Global]\nauth-url={url}/identity/v3\nusername=ccm\npassword=\"{PASSWORD}\"\ntenant-name=k8s\ndomain-name=Default\n"
    );
    [
        ("token", "static-t0ken\n"),
        ("user", "ccm\n"),
        ("password", PASSWORD),
        ("client-secret", CLIENT_SECRET),
        ("tls.key", key),
        (
            "tls.crt",
            include_str!("../../../../credentials/tests/data/rsa.crt"),
        ),
        ("assertion", ASSERTION),
        ("apikey", API_KEY),
        ("aws-id", "AKIDEXAMPLE"),
        ("aws-secret", AWS_SECRET),
        ("external-id", EXTERNAL_ID),
        ("web-identity", ASSERTION),
        ("pod-token", POD_TOKEN),
        ("google.json", &google.to_string()),
        ("cloud.conf", &conf),
        (
            "shared",
            &format!("[ccm]\naws_access_key_id=AKIDEXAMPLE\naws_secret_access_key={AWS_SECRET}\n"),
        ),
    ]
    .map(|(name, text)| (name, text.to_owned()))
    .to_vec()
}

pub(crate) const PASSWORD: &str = "p4ss/word+&<tag>%41 ü";
pub(crate) const CLIENT_SECRET: &str = "cl1ent~secret/+=&";
pub(crate) const ASSERTION: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2lnbmF0dXJl";
pub(crate) const API_KEY: &str = "ap1-key-of-a-cloud";
pub(crate) const AWS_SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
pub(crate) const EXTERNAL_ID: &str = "ext3rnal-id-of-owner";
pub(crate) const POD_TOKEN: &str = "p0d-identity-token";

/// A request as received.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

#[derive(Default)]
struct Inner {
    seen: Mutex<Vec<Seen>>,
    /// Number of logins that were answered.
    issued: AtomicU64,
    /// Tokens with a smaller number are rejected.
    oldest: AtomicU64,
    /// Lifetime of tokens in seconds.
    lifetime: AtomicU64,
    /// The status with which issuers fail, and whether they return invalid JSON.
    failing: AtomicU16,
    garbage: AtomicU16,
}

/// A running fake cloud.
#[derive(Clone)]
pub(crate) struct Cloud {
    pub(crate) url: String,
    inner: Arc<Inner>,
}

impl Cloud {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cloud = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            inner: Arc::default(),
        };
        cloud.inner.lifetime.store(3600, SeqCst);
        let router = Router::new().fallback(handle).with_state(cloud.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        cloud
    }

    /// Returns the last request.
    pub(crate) fn last(&self) -> Seen {
        self.inner.seen.lock().unwrap().last().unwrap().clone()
    }

    /// Returns all requests whose path contains this text.
    pub(crate) fn seen(&self, path: &str) -> Vec<Seen> {
        let seen = self.inner.seen.lock().unwrap();
        seen.iter()
            .filter(|seen| seen.uri.path().contains(path))
            .cloned()
            .collect()
    }

    /// Returns how often a token, session or keys were issued.
    pub(crate) fn issued(&self) -> u64 {
        self.inner.issued.load(SeqCst)
    }

    /// Revokes everything that was issued so far.
    pub(crate) fn revoke(&self) {
        self.inner.oldest.store(self.issued() + 1, SeqCst);
    }

    /// Lets issuers fail with this status and quote everything they received. 0 ends this.
    pub(crate) fn fail(&self, status: u16) {
        self.inner.failing.store(status, SeqCst);
    }

    /// Lets issuers answer with success, but with the content of the request instead of a valid
    /// answer.
    pub(crate) fn garble(&self, garbled: bool) {
        self.inner.garbage.store(garbled.into(), SeqCst);
    }

    fn lifetime(&self) -> u64 {
        self.inner.lifetime.load(SeqCst)
    }

    /// Issues a token of this kind.
    fn issue(&self, kind: &str) -> String {
        format!(
            "{kind}-issued-{:04}",
            self.inner.issued.fetch_add(1, SeqCst) + 1
        )
    }

    /// Returns true if the token was issued and is not revoked.
    fn is_good(&self, token: &str) -> bool {
        let number = token
            .rsplit("-issued-")
            .next()
            .and_then(|number| number.get(..4)?.parse::<u64>().ok());
        number.is_some_and(|number| number >= self.inner.oldest.load(SeqCst))
    }
}

type Reply = Response<axum::body::Body>;

async fn handle(
    State(cloud): State<Cloud>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Reply {
    let body = String::from_utf8(body.to_vec()).unwrap();
    let seen = Seen {
        method,
        uri,
        headers,
        body,
    };
    cloud.inner.seen.lock().unwrap().push(seen.clone());
    if seen.uri.path().starts_with("/cloud/") {
        return things(&cloud, &seen);
    }
    // Only the beginning of an answer may be quoted, so it contains either the body or the headers
    // with secrets.
    let texts = ["authorization", "x-aws-ec2-metadata-token", "x-auth-token"]
        .map(|name| seen.header(name))
        .join(" ");
    let last_value = seen.body.rsplit('=').next().unwrap_or_default().to_owned();
    let echo = || match cloud.inner.failing.load(SeqCst) {
        400 => format!("{} {texts}", seen.body),
        401 => format!("{last_value} {}", seen.body),
        _ => format!(
            "{} {:?} {} {}",
            texts.trim(),
            seen.headers,
            seen.uri,
            seen.body
        ),
    };
    let failing = cloud.inner.failing.load(SeqCst);
    if failing != 0 {
        let body = json!({ "error": echo(), "error_description": echo() });
        return (StatusCode::from_u16(failing).unwrap(), body.to_string()).into_response();
    }
    if cloud.inner.garbage.load(SeqCst) != 0 {
        return echo().into_response();
    }
    let answer = oauth2::answer(&cloud, &seen)
        .or_else(|| aws::answer(&cloud, &seen))
        .or_else(|| session::answer(&cloud, &seen));
    answer.unwrap_or_else(|| rejected(404, &format!("nothing at {} {}", seen.method, seen.uri)))
}

/// The API for plugins, which accepts any issued token in any place.
fn things(cloud: &Cloud, seen: &Seen) -> Reply {
    let texts = [
        "authorization",
        "x-auth-token",
        "cookie",
        "x-amz-security-token",
    ]
    .map(|name| seen.header(name));
    let issued = texts.iter().find(|text| text.contains("-issued-"));
    if issued.is_some_and(|token| !cloud.is_good(token)) {
        return rejected(401, "the token is not good any more");
    }
    let echo = texts.join(" ");
    (
        [
            ("x-subject-token", echo.clone()),
            ("set-cookie", format!("a={echo}")),
        ],
        "things",
    )
        .into_response()
}

impl Seen {
    /// Returns the values of a header, or an empty text.
    pub(crate) fn header(&self, name: &str) -> String {
        let values = self
            .headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()));
        values.collect::<Vec<_>>().join(", ")
    }

    /// Returns a field of the form, or an empty text.
    pub(crate) fn field(&self, name: &str) -> String {
        let pairs = serde_urlencoded(&self.body);
        pairs
            .into_iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value)
            .unwrap_or_default()
    }
}

/// Parses a form like a server, without the code under test.
fn serde_urlencoded(body: &str) -> Vec<(String, String)> {
    let Ok(uri) = Uri::builder().path_and_query(format!("/?{body}")).build() else {
        return Vec::new();
    };
    axum::extract::Query::try_from_uri(&uri)
        .map(|it| it.0)
        .unwrap_or_default()
}

fn rejected(status: u16, said: &str) -> Reply {
    (
        StatusCode::from_u16(status).unwrap(),
        json!({ "error": said }).to_string(),
    )
        .into_response()
}

fn json_reply(value: &Value) -> Reply {
    ([("content-type", "application/json")], value.to_string()).into_response()
}
