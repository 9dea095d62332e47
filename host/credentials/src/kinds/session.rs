//! Sessions: log in, keep the token, add it to requests.

pub(crate) mod keystone;
pub(crate) mod template;
pub(crate) mod vsphere;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response, header};

use self::{keystone::Keystone, template::TemplateLogin, vsphere::Vsphere};
use crate::masking::secret::Secret;
use crate::{
    config::{Capture, Login, SessionConfig},
    kinds::{
        masked::{Mask, Protocol},
        place::Place,
        renewed::{Fresh, Source},
        token::{Token, TokenSource},
    },
    sources::{
        failure::Failure,
        upstream::{Upstream, missing, versions},
    },
};

/// The kinds of logins.
enum Kind {
    Keystone(Keystone),
    Vsphere(Vsphere),
    Template(Box<TemplateLogin>),
}

/// A source of sessions.
pub(crate) struct Session {
    upstream: Upstream,
    kind: Kind,
    masked: bool,
}

/// The result of a login.
struct LoggedIn {
    token: Secret,
    lifetime: Option<std::time::Duration>,
    answer: Response<Bytes>,
}

impl Session {
    /// Returns the source, and the place for its token.
    pub(crate) fn new(config: &SessionConfig, upstream: Upstream) -> Result<(Self, Place), String> {
        let (kind, place) = match &config.login {
            Login::Keystone(it) => {
                let place = Place::header("x-auth-token", "")?;
                (Kind::Keystone(Keystone::new(it, config.masked)?), place)
            }
            Login::VsphereSoap(it) => (
                Kind::Vsphere(Vsphere::new(it)),
                Place::Cookie(vsphere::COOKIE.to_owned()),
            ),
            Login::Template(it) => (
                Kind::Template(Box::new(TemplateLogin::new(it)?)),
                Place::of(&it.attach)?,
            ),
        };

        Ok((
            Self {
                upstream,
                kind,
                masked: config.masked,
            },
            place,
        ))
    }

    /// Returns the mask that answers or denies logins by plugins. For Keystone with `cloudConf`,
    /// the file must be readable at this time, since it contains the URL of logins.
    pub(crate) fn mask(&self) -> Result<Option<Mask>, String> {
        let post = http::Method::POST;
        let mask = match &self.kind {
            // Requests that return secrets of these clouds are known and denied in any case.
            Kind::Keystone(_) | Kind::Vsphere(_) if !self.masked => return Ok(None),
            Kind::Keystone(it) => {
                let capture = Capture::Header("X-Subject-Token".to_owned());
                Mask::new(Protocol::Keystone, post, it.login_uri()?, capture)?
            }
            Kind::Vsphere(it) => Mask::new(
                Protocol::VsphereSoap,
                post,
                it.uri(),
                Capture::Cookie(vsphere::COOKIE.to_owned()),
            )?,
            Kind::Template(it) => Mask::new(Protocol::Plain, it.method(), it.uri(), it.capture())?
                .with_expiry(it.expires()),
        };

        Ok(Some(if self.masked { mask } else { mask.refusing() }))
    }
}

#[async_trait]
impl Source for Session {
    type Value = Token;

    fn name(&self) -> &str {
        self.upstream.name()
    }

    async fn renew(&self) -> Result<Fresh<Token>, Failure> {
        let LoggedIn {
            token,
            lifetime,
            answer,
        } = match &self.kind {
            Kind::Keystone(it) => it.log_in(&self.upstream).await?,
            Kind::Vsphere(it) => it.log_in(&self.upstream).await?,
            Kind::Template(it) => it.log_in(&self.upstream).await?,
        };

        let shows_answer = self.masked && !matches!(self.kind, Kind::Template(_));
        self.upstream.warn_of_short(&token, shows_answer);
        Ok(Fresh {
            value: Token {
                value: token,
                answer: self.masked.then_some(answer),
            },
            lifetime,
        })
    }

    async fn inputs(&self) -> u64 {
        match &self.kind {
            Kind::Keystone(it) => versions(it.files()).await,
            Kind::Vsphere(it) => versions(it.files()).await,
            Kind::Template(it) => versions(it.files()).await,
        }
    }
}

impl TokenSource for Session {
    fn upstream(&self) -> &Upstream {
        &self.upstream
    }
}

/// Extracts the token from an answer.
fn captured(
    upstream: &Upstream,
    answer: &Response<Bytes>,
    capture: &Capture,
) -> Result<Secret, Failure> {
    match capture {
        Capture::Header(name) => {
            let value = answer.headers().get(name).filter(|value| !value.is_empty());
            value
                .map(|value| upstream.keep(value.as_bytes()))
                .ok_or_else(|| missing(&format!("header `{name}`")))
        }
        Capture::Cookie(name) => {
            let cookies = answer
                .headers()
                .get_all(header::SET_COOKIE)
                .iter()
                .filter_map(|value| value.to_str().ok());

            let mut pairs = cookies.filter_map(|text| text.split(';').next()?.split_once('='));
            let value =
                pairs.find(|(found, value)| found.trim() == name && !value.trim().is_empty());
            let value = value.map(|(_, value)| {
                // A server may show the value elsewhere without its quotation marks.
                upstream.keep(value.trim().trim_matches('"'));
                upstream.keep(value.trim())
            });
            value.ok_or_else(|| missing(&format!("cookie `{name}`")))
        }
        Capture::Json(pointer) => {
            let answer = serde_json::from_slice(answer.body())
                .map_err(|_| Failure::unavailable("its issuer did not return JSON"))?;
            upstream.secret_at(&answer, pointer)
        }
    }
}

/// Creates a request with a body of this media type.
fn post(url: &str, kind: &str, body: impl Into<Bytes>) -> Result<Request<Bytes>, Failure> {
    let request = Request::post(url)
        .header(header::CONTENT_TYPE, kind)
        .header(header::ACCEPT, "*/*");
    crate::sources::upstream::finish(request, body.into())
}
