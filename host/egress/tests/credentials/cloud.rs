//! A cloud with all its issuers, in one server. It refuses what the real ones would, and can be told to fail.

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

/// The files that the credentials of a test read. All are secrets but those with `id` or `user` in their names.
pub(crate) fn files(url: &str) -> Vec<(&'static str, String)> {
    let key = include_str!("../data/rsa.key");
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
        ("tls.crt", include_str!("../data/rsa.crt")),
        ("assertion", ASSERTION),
        ("apikey", API_KEY),
        ("aws-id", "AKIDEXAMPLE"),
        ("aws-secret", AWS_SECRET),
        ("external-id", EXTERNAL_ID),
        ("web-identity", ASSERTION),
        ("pod-token", POD_TOKEN),
        ("google.json", &google.to_string()),
        ("cloud.conf", &conf),
        ("shared", &format!("[ccm]\naws_access_key_id=AKIDEXAMPLE\naws_secret_access_key={AWS_SECRET}\n")),
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

/// A request as it came.
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
    /// How many logins were answered.
    issued: AtomicU64,
    /// Tokens with a smaller number are refused.
    oldest: AtomicU64,
    /// Seconds that a token lives.
    lifetime: AtomicU64,
    /// With what issuers fail, and whether they answer with what is no JSON.
    failing: AtomicU16,
    garbage: AtomicU16,
}

/// A running cloud.
#[derive(Clone)]
pub(crate) struct Cloud {
    pub(crate) url: String,
    inner: Arc<Inner>,
}

impl Cloud {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cloud = Self { url: format!("http://{}", listener.local_addr().unwrap()), inner: Arc::default() };
        cloud.inner.lifetime.store(3600, SeqCst);
        let router = Router::new().fallback(handle).with_state(cloud.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        cloud
    }

    /// The request that came last.
    pub(crate) fn last(&self) -> Seen {
        self.inner.seen.lock().unwrap().last().unwrap().clone()
    }

    /// All requests to paths with this in them.
    pub(crate) fn seen(&self, path: &str) -> Vec<Seen> {
        let seen = self.inner.seen.lock().unwrap();
        seen.iter().filter(|seen| seen.uri.path().contains(path)).cloned().collect()
    }

    /// How many times anything was issued.
    pub(crate) fn issued(&self) -> u64 {
        self.inner.issued.load(SeqCst)
    }

    /// What was issued so far is worth nothing any more.
    pub(crate) fn revoke(&self) {
        self.inner.oldest.store(self.issued() + 1, SeqCst);
    }

    /// Issuers fail with this status, and quote all they were sent. 0 ends it.
    pub(crate) fn fail(&self, status: u16) {
        self.inner.failing.store(status, SeqCst);
    }

    /// Issuers answer with success and with what was sent, which is not what they should.
    pub(crate) fn garble(&self, garbled: bool) {
        self.inner.garbage.store(garbled.into(), SeqCst);
    }

    fn lifetime(&self) -> u64 {
        self.inner.lifetime.load(SeqCst)
    }

    /// A new token of this kind.
    fn issue(&self, kind: &str) -> String {
        format!("{kind}-issued-{:04}", self.inner.issued.fetch_add(1, SeqCst) + 1)
    }

    /// True if the token was issued, and not revoked.
    fn is_good(&self, token: &str) -> bool {
        let number = token.rsplit("-issued-").next().and_then(|number| number.get(..4)?.parse::<u64>().ok());
        number.is_some_and(|number| number >= self.inner.oldest.load(SeqCst))
    }
}

type Reply = Response<axum::body::Body>;

async fn handle(State(cloud): State<Cloud>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Reply {
    let body = String::from_utf8(body.to_vec()).unwrap();
    let seen = Seen { method, uri, headers, body };
    cloud.inner.seen.lock().unwrap().push(seen.clone());
    if seen.uri.path().starts_with("/cloud/") {
        return things(&cloud, &seen);
    }
    // The front is what may be quoted: now it is the body, now the headers that carry secrets.
    let texts = ["authorization", "x-aws-ec2-metadata-token", "x-auth-token"].map(|name| seen.header(name)).join(" ");
    let last_value = seen.body.rsplit('=').next().unwrap_or_default().to_owned();
    let echo = || match cloud.inner.failing.load(SeqCst) {
        400 => format!("{} {texts}", seen.body),
        401 => format!("{last_value} {}", seen.body),
        _ => format!("{} {:?} {} {}", texts.trim(), seen.headers, seen.uri, seen.body),
    };
    let failing = cloud.inner.failing.load(SeqCst);
    if failing != 0 {
        let body = json!({ "error": echo(), "error_description": echo() });
        return (StatusCode::from_u16(failing).unwrap(), body.to_string()).into_response();
    }
    if cloud.inner.garbage.load(SeqCst) != 0 {
        return echo().into_response();
    }
    let answer =
        oauth2::answer(&cloud, &seen).or_else(|| aws::answer(&cloud, &seen)).or_else(|| session::answer(&cloud, &seen));
    answer.unwrap_or_else(|| refused(404, &format!("nothing at {} {}", seen.method, seen.uri)))
}

/// What plugins are after: it takes any token that was issued, in any place.
fn things(cloud: &Cloud, seen: &Seen) -> Reply {
    let texts = ["authorization", "x-auth-token", "cookie", "x-amz-security-token"].map(|name| seen.header(name));
    let issued = texts.iter().find(|text| text.contains("-issued-"));
    if issued.is_some_and(|token| !cloud.is_good(token)) {
        return refused(401, "the token is not good any more");
    }
    let echo = texts.join(" ");
    ([("x-subject-token", echo.clone()), ("set-cookie", format!("a={echo}")), ("x-echo", echo)], "things")
        .into_response()
}

impl Seen {
    /// A header, or nothing.
    pub(crate) fn header(&self, name: &str) -> String {
        let values = self.headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        values.collect::<Vec<_>>().join(", ")
    }

    /// A field of the form, or nothing.
    pub(crate) fn field(&self, name: &str) -> String {
        let pairs = serde_urlencoded(&self.body);
        pairs.into_iter().find(|(found, _)| found == name).map(|(_, value)| value).unwrap_or_default()
    }
}

/// A form as servers read it: not by the code under test.
fn serde_urlencoded(body: &str) -> Vec<(String, String)> {
    let Ok(uri) = Uri::builder().path_and_query(format!("/?{body}")).build() else { return Vec::new() };
    axum::extract::Query::try_from_uri(&uri).map(|it| it.0).unwrap_or_default()
}

fn refused(status: u16, said: &str) -> Reply {
    (StatusCode::from_u16(status).unwrap(), json!({ "error": said }).to_string()).into_response()
}

fn json_reply(value: &Value) -> Reply {
    ([("content-type", "application/json")], value.to_string()).into_response()
}
