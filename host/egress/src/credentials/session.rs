//! Sessions: log in, keep the token, attach it.

pub(crate) mod keystone;
pub(crate) mod template;
pub(crate) mod vsphere;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response, header};

use self::{keystone::Keystone, template::TemplateLogin, vsphere::Vsphere};
use super::{
    config::{Capture, Login, SessionConfig},
    failure::Failure,
    masked::{Mask, Protocol},
    minting::Mint,
    place::Place,
    renewed::{Fresh, Source},
    secret::Secret,
    token::{Token, TokenSource},
    upstream::{Upstream, missing, versions},
};

/// A login.
enum Kind {
    Keystone(Keystone),
    Vsphere(Vsphere),
    Template(Box<TemplateLogin>),
}

/// Gets sessions.
pub(crate) struct Session {
    upstream: Upstream,
    kind: Kind,
    masked: bool,
}

/// What logging in gave.
struct LoggedIn {
    token: Secret,
    lifetime: Option<std::time::Duration>,
    answer: Response<Bytes>,
}

impl Session {
    /// The source, where its token goes, what it could mint.
    pub(crate) fn new(config: &SessionConfig, upstream: Upstream) -> Result<(Self, Place, Mint), String> {
        let (kind, place, mint) = match &config.login {
            Login::Keystone(it) => {
                let place = Place::header("x-auth-token", "")?;
                (Kind::Keystone(Keystone::new(it, config.masked)?), place, Mint::Keystone)
            }
            Login::VsphereSoap(it) => {
                (Kind::Vsphere(Vsphere::new(it)), Place::Cookie(vsphere::COOKIE.to_owned()), Mint::VsphereSoap)
            }
            Login::Template(it) => {
                (Kind::Template(Box::new(TemplateLogin::new(it)?)), Place::of(&it.attach)?, Mint::OAuth2)
            }
        };
        Ok((Self { upstream, kind, masked: config.masked }, place, mint))
    }

    /// What guests that log in are answered with, or refused by. For Keystone by `cloudConf`, the file must be readable by now: it says where
    /// guests log in.
    pub(crate) fn mask(&self) -> Result<Option<Mask>, String> {
        let post = http::Method::POST;
        let mask = match &self.kind {
            // What could be minted there is known, and refused anyway.
            Kind::Keystone(_) | Kind::Vsphere(_) if !self.masked => return Ok(None),
            Kind::Keystone(it) => {
                let capture = Capture::Header("X-Subject-Token".to_owned());
                Mask::new(Protocol::Keystone, post, it.login_uri()?, capture)?
            }
            Kind::Vsphere(it) => {
                Mask::new(Protocol::VsphereSoap, post, it.uri(), Capture::Cookie(vsphere::COOKIE.to_owned()))?
            }
            Kind::Template(it) => Mask::new(Protocol::Plain, it.method(), it.uri(), it.capture())?,
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
        let LoggedIn { token, lifetime, answer } = match &self.kind {
            Kind::Keystone(it) => it.log_in(&self.upstream).await?,
            Kind::Vsphere(it) => it.log_in(&self.upstream).await?,
            Kind::Template(it) => it.log_in(&self.upstream).await?,
        };
        Ok(Fresh { value: Token { value: token, answer: self.masked.then_some(answer) }, lifetime })
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

/// The token where an answer has it.
fn captured(upstream: &Upstream, answer: &Response<Bytes>, capture: &Capture) -> Result<Secret, Failure> {
    match capture {
        Capture::Header(name) => {
            let value = answer.headers().get(name).filter(|value| !value.is_empty());
            value.map(|value| upstream.keep(value.as_bytes())).ok_or_else(|| missing(&format!("header `{name}`")))
        }
        Capture::Cookie(name) => {
            let cookies = answer.headers().get_all(header::SET_COOKIE).iter().filter_map(|value| value.to_str().ok());
            let mut pairs = cookies.filter_map(|text| text.split(';').next()?.split_once('='));
            let value = pairs.find(|(found, value)| found.trim() == name && !value.trim().is_empty());
            let value = value.map(|(_, value)| {
                upstream.keep(value.trim().trim_matches('"'));
                upstream.keep(value.trim())
            });
            value.ok_or_else(|| missing(&format!("cookie `{name}`")))
        }
        Capture::Json(pointer) => {
            let answer = serde_json::from_slice(answer.body())
                .map_err(|_| Failure::unavailable("its issuer answered with something that is not JSON"))?;
            upstream.secret_at(&answer, pointer)
        }
    }
}

/// A request with a body of this media type.
fn post(url: &str, kind: &str, body: impl Into<Bytes>) -> Result<Request<Bytes>, Failure> {
    let request = Request::post(url).header(header::CONTENT_TYPE, kind).header(header::ACCEPT, "*/*");
    super::upstream::finish(request, body.into())
}
