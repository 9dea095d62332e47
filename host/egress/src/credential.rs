//! The door between the gateway, which sends a plugin's requests, and the credentials, which authenticate them.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

pub use crate::credentials::secret::Secret;

/// What the gateway asks of a credential bound to a rule.
#[async_trait]
pub trait Credential: Send + Sync + fmt::Debug {
    /// Its name in the configuration.
    fn name(&self) -> &str;

    /// True if the whole body is needed before the request can go (SigV4; a masked login). The gateway then buffers it, at
    /// most 1 MiB.
    fn needs_body(&self, head: &http::request::Parts) -> bool;

    /// Strips what the guest put in the place of authentication and adds the real one; or answers by itself (masked login), or
    /// refuses (what would mint a secret).
    ///
    /// # Errors
    /// [`CredentialError`]: nothing may be sent.
    async fn prepare(&self, head: &mut http::request::Parts, body: Option<&Bytes>)
    -> Result<Prepared, CredentialError>;

    /// The cloud did what was asked with what `prepare` (number `used`) had made. `kind` is a number that requests of one kind share.
    fn accepted(&self, used: u64, kind: u64);

    /// The cloud said 401 to what `prepare` (number `used`) had made: renews; true if another try may go better. A `kind` that is
    /// refused whatever it carries should not cause renewals without end.
    async fn rejected(&self, used: u64, kind: u64) -> bool;

    /// The cloud said 403 to that number, or 401: true if there is another one since a file has changed. Nothing is renewed otherwise.
    async fn changed(&self, used: u64) -> bool;

    /// Takes secrets out of an answer's headers (Set-Cookie, X-Subject-Token), before the guest sees it.
    fn mask(&self, head: &mut http::response::Parts);

    /// Every secret value it holds now, for redaction of logs and errors.
    fn secrets(&self) -> Vec<Secret>;
}

/// What became of a request.
#[derive(Debug)]
pub enum Prepared {
    /// It may go.
    Send {
        /// Number of the authentication it carries, for [`Credential::rejected`].
        used: u64,
    },
    /// It does not go: this is the answer.
    Answer(http::Response<Bytes>),
}

/// In which way a credential failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CredentialErrorKind {
    /// Its file or its issuer cannot be reached at the moment. Worth another try later.
    Unavailable,
    /// Its issuer refused, or this request may not be authenticated.
    Denied,
    /// The request's answer would be a secret.
    Minting,
    /// The request, or a file of the credential, has a form that cannot be authenticated.
    Malformed,
}

impl CredentialErrorKind {
    /// As a metric label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Denied => "denied",
            Self::Minting => "minting",
            Self::Malformed => "malformed",
        }
    }
}

/// Why no request was sent, with the credential's name and no secret. The guest is told `destination-unavailable` of what may be
/// mended by itself, else `HTTP-request-denied`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("credential `{name}`: {sentence}")]
pub struct CredentialError {
    name: String,
    kind: CredentialErrorKind,
    sentence: String,
}

impl CredentialError {
    /// An error of the credential `name`. The sentence must hold no secret.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: CredentialErrorKind, sentence: impl Into<String>) -> Self {
        Self { name: name.into(), kind, sentence: sentence.into() }
    }

    /// The credential's name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// In which way it failed.
    #[must_use]
    pub fn kind(&self) -> CredentialErrorKind {
        self.kind
    }

    /// What happened, without the name.
    #[must_use]
    pub fn sentence(&self) -> &str {
        &self.sentence
    }
}

/// Why an issuer gave no answer at all: no connection, a deadline, a body beyond its bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct IssuerError {
    sentence: String,
}

impl IssuerError {
    /// The sentence must hold no secret.
    #[must_use]
    pub fn new(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into() }
    }
}

/// How a credential reaches its issuer (Keystone, STS, token endpoints, IMDS). The host's own requests: metadata addresses are
/// allowed here, bounded bodies, no redirects.
#[async_trait]
pub trait Issuer: Send + Sync {
    /// Sends one request, whose URI is absolute, and gives the whole answer, whatever its status.
    ///
    /// # Errors
    /// [`IssuerError`] if there was no answer.
    async fn send(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, IssuerError>;
}
