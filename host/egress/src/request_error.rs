//! Errors of requests: why they were not sent, or why there is no answer.

use std::{fmt, sync::Arc};

use http::Method;
use skydock_credentials::Unmaskable;

use crate::target::Target;

/// The error code that the plugin receives. The names are those of wasi:http 0.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[expect(missing_docs, reason = "wasi:http documents them")]
pub enum Code {
    DnsTimeout,
    DnsError,
    DestinationIpProhibited,
    DestinationUnavailable,
    ConnectionRefused,
    ConnectionTerminated,
    ConnectionTimeout,
    ConnectionReadTimeout,
    ConnectionWriteTimeout,
    ConnectionLimitReached,
    TlsProtocolError,
    TlsCertificateError,
    HttpRequestDenied,
    HttpRequestMethodInvalid,
    HttpRequestUriInvalid,
    HttpRequestUriTooLong,
    HttpRequestBodySize,
    HttpRequestHeaderSectionSize,
    HttpResponseIncomplete,
    HttpResponseHeaderSectionSize,
    HttpResponseBodySize,
    HttpResponseContentCoding,
    HttpResponseTimeout,
    HttpProtocolError,
    InternalError,
}

/// The cause of an error, as counted in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The plugin is being instantiated, configured or asked for its info, and must not send
    /// requests.
    Loading,
    /// No rule can allow this method.
    Method,
    /// The URI has no valid target, or is ambiguous.
    Uri,
    /// The name is that of a metadata service.
    Metadata,
    /// No rule allows the target.
    NoRule,
    /// Rules allow the target, but not the method.
    RuleMethod,
    /// Rules allow the target, but not the path.
    Path,
    /// Rules allow the target, but not the action.
    Action,
    /// The plugin set a header that is not allowed, or too many headers.
    Header,
    /// The plugin sets authentication itself.
    GuestAuth,
    /// The request may change something in a dry run.
    DryRun,
    /// The credential is not available, or denies the request.
    Credential,
    /// The answer to the request would be a secret, or give the plugin an identity.
    SecretRequest,
    /// The name does not resolve to an allowed address.
    Address,
    /// The body exceeds the limit, or has a format that cannot be checked.
    RequestBody,
    /// The rule or its credential was changed or removed while the request waited.
    RuleChanged,
    /// A limit on concurrency is exceeded.
    Limit,
    /// The cloud asked for a pause, or the rate limit is exceeded.
    Throttled,
    /// The breaker of the host is open, since it repeatedly did not answer.
    Breaker,
    /// The name could not be resolved.
    Dns,
    /// The connection failed.
    Connect,
    /// The TLS handshake or the verification of the server failed.
    Tls,
    /// A timeout.
    Timeout,
    /// The connection was closed, or the answer was not valid HTTP.
    Protocol,
    /// The answer exceeded the limit.
    Response,
    /// The plugin aborted the body of its request.
    Guest,
    /// An internal error of Skydock.
    Internal,
}

impl Cause {
    /// Returns the value of the metric label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Method => "method",
            Self::Uri => "uri",
            Self::Metadata => "metadata",
            Self::NoRule => "no_rule",
            Self::RuleMethod => "rule_method",
            Self::Path => "path",
            Self::Action => "action",
            Self::Header => "header",
            Self::GuestAuth => "guest_auth",
            Self::DryRun => "dry_run",
            Self::Credential => "credential",
            Self::SecretRequest => "secret_request",
            Self::Address => "address",
            Self::RequestBody => "request_body",
            Self::RuleChanged => "rule_changed",
            Self::Limit => "limit",
            Self::Throttled => "throttled",
            Self::Breaker => "breaker",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
            Self::Response => "response",
            Self::Guest => "guest",
            Self::Internal => "internal",
        }
    }

    /// Returns true if Skydock denied the request; false if it was tried and the network, the cloud
    /// or the plugin failed.
    #[must_use]
    pub fn is_denial(self) -> bool {
        !matches!(
            self,
            Self::Dns
                | Self::Connect
                | Self::Tls
                | Self::Timeout
                | Self::Protocol
                | Self::Response
                | Self::Guest
                | Self::Internal
        )
    }

    /// Returns true if the server could not be reached or did not answer, which may open the
    /// breaker.
    pub(crate) fn is_unreachable(self) -> bool {
        matches!(self, Self::Dns | Self::Connect | Self::Tls | Self::Timeout)
    }
}

/// The request that an error is about, for fields of the log. It contains no path, query or header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The rule that applies, or that denies the request, if any.
    pub rule: Option<Arc<str>>,
    /// The method, which the plugin chooses.
    pub method: Method,
    /// The target, if the URI has one.
    pub target: Option<Target>,
}

/// Why a request was not sent, or why there is no answer. Contains no secrets of credentials; the
/// beginning of the path may be in the sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct RequestError {
    code: Code,
    cause: Cause,
    sentence: String,
    about: Option<Box<About>>,
}

impl From<Unmaskable> for RequestError {
    fn from(error: Unmaskable) -> Self {
        Self::new(
            Code::HttpResponseContentCoding,
            Cause::Response,
            error.to_string(),
        )
    }
}

impl RequestError {
    pub(crate) fn new(code: Code, cause: Cause, sentence: impl Into<String>) -> Self {
        Self {
            code,
            cause,
            sentence: sentence.into(),
            about: None,
        }
    }

    /// Creates the error of a request that a rule denies.
    pub(crate) fn denied(cause: Cause, sentence: impl Into<String>) -> Self {
        Self::new(Code::HttpRequestDenied, cause, sentence)
    }

    /// Adds the request that it is about.
    pub(crate) fn of(self, about: About) -> Self {
        Self {
            about: Some(Box::new(about)),
            ..self
        }
    }

    /// Returns the request that it is about, if it is known.
    #[must_use]
    pub fn about(&self) -> Option<&About> {
        self.about.as_deref()
    }

    /// Returns the error code that the plugin receives.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns the cause, as counted in metrics.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Returns the sentence for the log.
    #[must_use]
    pub fn sentence(&self) -> &str {
        &self.sentence
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}
