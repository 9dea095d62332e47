//! The interface between the gateway, which sends requests of plugins, and the credentials, which
//! authenticate them.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use crate::masking::secret::Secret;

/// A credential that is bound to a rule.
#[async_trait]
pub trait Credential: Send + Sync + fmt::Debug {
    /// Returns the name in the configuration.
    fn name(&self) -> &str;

    /// Returns true if it signs each request, so that a server that receives one cannot send others
    /// with it.
    fn signs(&self) -> bool {
        false
    }

    /// Returns true if the complete body is needed before the request can be sent (SigV4, masked
    /// login). The gateway then buffers it, up to 1 MiB.
    fn needs_body(&self, head: &http::request::Parts) -> bool;

    /// Replaces authentication by the plugin with the real one, or returns an answer itself (masked
    /// login).
    ///
    /// # Errors
    /// [`CredentialError`] if the request must not be sent, for example because its answer would be
    /// a secret.
    async fn prepare(
        &self,
        head: &mut http::request::Parts,
        body: Option<&Bytes>,
    ) -> Result<Prepared, CredentialError>;

    /// Reports that the cloud accepted `version` of the authentication that `prepare`
    /// added.
    fn accepted(&self, version: u64, kind: RequestKind);

    /// Reports that the cloud answered 401 to `version` of the authentication, and renews
    /// it. Returns true if a retry may succeed. The number of renewals is limited for a `kind` of
    /// request that is always answered with 401.
    async fn rejected(&self, version: u64, kind: RequestKind) -> bool;

    /// Reports that the cloud answered 403 or 401 to `version` of the authentication.
    /// Returns true if there is another value because a file has changed; otherwise, nothing is
    /// renewed.
    async fn changed(&self, version: u64) -> bool;

    /// Reports the time that a server has stated when it rejected the authentication. Returns true
    /// if the credential follows it, so that a retry may succeed.
    fn follow_clock(&self, server: jiff::Timestamp) -> bool {
        let _ = server;
        false
    }

    /// Removes headers of an answer that hand out secrets (Set-Cookie, X-Subject-Token) before the
    /// plugin receives it. Quotes of secrets are masked by the gateway.
    fn mask(&self, head: &mut http::response::Parts);

    /// Returns all current secret values, so that they can be redacted in logs and errors, and
    /// masked in answers to requests that were sent with them.
    fn secrets(&self) -> Vec<Secret>;
}

/// Identifies a kind of request: a cloud may reject a credential for one of them only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKind(pub u64);

/// The result of [`Credential::prepare`].
#[derive(Debug)]
pub enum Prepared {
    /// The request can be sent.
    Send {
        /// Version of the authentication that was added, for [`Credential::rejected`].
        version: u64,
    },
    /// The request must not be sent: this is the answer to it.
    Answer(http::Response<Bytes>),
}

/// The kinds of failures of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CredentialErrorKind {
    /// Its file or its issuer is not available at the moment. A retry may succeed.
    Unavailable,
    /// Its issuer denied it, or this request must not be authenticated.
    Denied,
    /// The answer to the request would be a secret.
    SecretRequest,
    /// The request, or a file of the credential, is not valid or not supported.
    Malformed,
}

impl CredentialErrorKind {
    /// Returns the value of the metric label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Denied => "denied",
            Self::SecretRequest => "secret_request",
            Self::Malformed => "malformed",
        }
    }
}

/// Why a request was not sent, with the name of the credential and without secrets. The plugin
/// receives `destination-unavailable` if a retry may succeed, and `HTTP-request-denied` otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("credential `{name}`: {sentence}")]
pub struct CredentialError {
    name: String,
    kind: CredentialErrorKind,
    sentence: String,
}

impl CredentialError {
    /// Creates an error of the credential `name`. The sentence must not contain secrets.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        kind: CredentialErrorKind,
        sentence: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            kind,
            sentence: sentence.into(),
        }
    }

    /// Returns the name of the credential in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> CredentialErrorKind {
        self.kind
    }

    /// Returns what happened, without the name of the credential.
    #[must_use]
    pub fn sentence(&self) -> &str {
        &self.sentence
    }
}

/// Why an issuer did not answer: no connection, a timeout, or a body that exceeds the limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct IssuerError {
    sentence: String,
}

impl IssuerError {
    /// Creates an error. The sentence must not contain secrets.
    #[must_use]
    pub fn new(sentence: impl Into<String>) -> Self {
        Self {
            sentence: sentence.into(),
        }
    }
}

/// The HTTP client with which a credential asks its issuer (Keystone, STS, token endpoints, IMDS).
/// Metadata addresses are allowed for these requests; bodies are limited, and redirects are not
/// followed.
#[async_trait]
pub trait Issuer: Send + Sync {
    /// Sends a request with an absolute URI and returns the complete answer, whatever its status.
    ///
    /// # Errors
    /// [`IssuerError`] if there was no answer.
    async fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<Bytes>, IssuerError>;
}
