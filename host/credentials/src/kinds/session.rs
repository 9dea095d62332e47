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
        renewed::{Issued, Source},
        token::{Token, TokenSource},
    },
    place::Place,
    secret_requests::soap::SESSION_COOKIE,
    sources::{
        failure::Failure,
        file,
        issuer_client::{IssuerClient, missing},
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
    issuer: IssuerClient,
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
    pub(crate) fn new(
        config: &SessionConfig,
        issuer: IssuerClient,
    ) -> Result<(Self, Place), String> {
        let (kind, place) = match &config.login {
            Login::Keystone(it) => {
                let place = Place::header("x-auth-token", "")?;
                (Kind::Keystone(Keystone::new(it, config.masked)?), place)
            }
            Login::VsphereSoap(it) => (
                Kind::Vsphere(Vsphere::new(it)),
                Place::Cookie(SESSION_COOKIE.to_owned()),
            ),
            Login::Template(it) => (
                Kind::Template(Box::new(TemplateLogin::new(it)?)),
                Place::of(&it.attach)?,
            ),
        };

        Ok((
            Self {
                issuer,
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
                Capture::Cookie(SESSION_COOKIE.to_owned()),
            )?,
            Kind::Template(it) => Mask::new(Protocol::Plain, it.method(), it.uri(), it.capture())?
                .with_expiry(it.expires()),
        };

        Ok(Some(if self.masked { mask } else { mask.denying() }))
    }
}

#[async_trait]
impl Source for Session {
    type Value = Token;

    fn name(&self) -> &str {
        self.issuer.name()
    }

    async fn renew(&self) -> Result<Issued<Token>, Failure> {
        let LoggedIn {
            token,
            lifetime,
            answer,
        } = match &self.kind {
            Kind::Keystone(it) => it.log_in(&self.issuer).await?,
            Kind::Vsphere(it) => it.log_in(&self.issuer).await?,
            Kind::Template(it) => it.log_in(&self.issuer).await?,
        };

        let shows_answer = self.masked && !matches!(self.kind, Kind::Template(_));
        self.issuer.warn_of_short(&token, shows_answer);
        Ok(Issued {
            value: Token {
                value: token,
                answer: self.masked.then_some(answer),
            },
            lifetime,
        })
    }

    async fn inputs(&self) -> u64 {
        match &self.kind {
            Kind::Keystone(it) => file::inputs(it.files()).await,
            Kind::Vsphere(it) => file::inputs(&it.files()).await,
            Kind::Template(it) => file::inputs(it.files()).await,
        }
    }
}

impl TokenSource for Session {
    fn issuer(&self) -> &IssuerClient {
        &self.issuer
    }
}

/// Extracts the token from an answer.
fn captured(
    issuer: &IssuerClient,
    answer: &Response<Bytes>,
    capture: &Capture,
) -> Result<Secret, Failure> {
    match capture {
        Capture::Header(name) => {
            let value = answer.headers().get(name).filter(|value| !value.is_empty());
            value
                .map(|value| issuer.keep(value.as_bytes()))
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
                issuer.keep(value.trim().trim_matches('"'));
                issuer.keep(value.trim())
            });
            value.ok_or_else(|| missing(&format!("cookie `{name}`")))
        }
        Capture::Json(pointer) => {
            let answer = serde_json::from_slice(answer.body())
                .map_err(|_| Failure::unavailable("its issuer did not return JSON"))?;
            issuer.secret_at(&answer, pointer)
        }
    }
}

/// Creates a request with a body of this media type.
fn post(url: &str, kind: &str, body: impl Into<Bytes>) -> Result<Request<Bytes>, Failure> {
    let request = Request::post(url)
        .header(header::CONTENT_TYPE, kind)
        .header(header::ACCEPT, "*/*");
    crate::sources::issuer_client::finish(request, body.into())
}
