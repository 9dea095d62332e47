//! Why a request did not go, or its answer did not come.

use std::fmt;

/// What the guest is told: an error code of wasi:http 0.2, by the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    HttpResponseTimeout,
    HttpProtocolError,
    InternalError,
}

/// What stood in the way, as operators count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A plugin that is being made, configured or asked what it is calls nobody.
    Loading,
    /// The method is none that any rule could permit.
    Method,
    /// The URI has no target, or hides another one.
    Uri,
    /// The name belongs to a service that hands out identities.
    Metadata,
    /// No rule permits the target.
    NoRule,
    /// Rules permit the target, but not the method.
    RuleMethod,
    /// Rules permit the target, but not the path.
    Path,
    /// Rules permit the target, but not the action.
    Action,
    /// A header that no guest may set, or too many headers.
    Header,
    /// The guest authenticates itself.
    GuestAuth,
    /// The request may change something in a dry run.
    DryRun,
    /// The credential has nothing to give, or refuses.
    Credential,
    /// The name leads to no permitted address.
    Address,
    /// The body is longer than permitted, or has a form that cannot be judged.
    RequestBody,
    /// Too much at a time.
    Limit,
    /// The cloud asked for a pause, or the rate is used up.
    Throttled,
    /// The host is left alone, since it did not answer for a while.
    Breaker,
    /// The name could not be resolved.
    Dns,
    /// There was no connection.
    Connect,
    /// There was no trusted connection.
    Tls,
    /// It took too long.
    Timeout,
    /// The connection ended or what came over it was no HTTP.
    Protocol,
    /// The answer was larger than permitted.
    Response,
    /// The guest broke off its own body.
    Guest,
    /// The host itself.
    Internal,
}

impl Cause {
    /// As a metric label.
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
            Self::Address => "address",
            Self::RequestBody => "request_body",
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

    /// True if this host refused; false if it tried and the network, the cloud or the guest failed.
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

    /// True if the far end was not to be reached or did not answer: what opens the breaker.
    pub(crate) fn is_unreachable(self) -> bool {
        matches!(self, Self::Dns | Self::Connect | Self::Tls | Self::Timeout)
    }
}

/// Why a request did not go, or its answer did not come. Holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    code: Code,
    cause: Cause,
    sentence: String,
}

impl Refusal {
    pub(crate) fn new(code: Code, cause: Cause, sentence: impl Into<String>) -> Self {
        Self { code, cause, sentence: sentence.into() }
    }

    /// Refused by a rule of this host.
    pub(crate) fn denied(cause: Cause, sentence: impl Into<String>) -> Self {
        Self::new(Code::HttpRequestDenied, cause, sentence)
    }

    /// What the guest is told.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// What stood in the way.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// The sentence for the log.
    #[must_use]
    pub fn sentence(&self) -> &str {
        &self.sentence
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}
