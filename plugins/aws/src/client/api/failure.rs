//! Errors of AWS, and how they map to the errors of the host.

use std::time::Duration;

use serde::Deserialize;
use skydock_sdk::types::CloudError;

/// Maximum number of characters of AWS' message that are passed on. Some messages contain kilobytes
/// of encoded details.
const MAX_MESSAGE: usize = 300;

/// How long to wait when AWS throttles requests. AWS does not name a delay, and its token buckets
/// refill within seconds.
const SLOW_DOWN: Duration = Duration::from_secs(10);

/// The reason why a call has no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// AWS rejected the call.
    #[error("{action}: {message} ({code})")]
    Rejected {
        /// The action.
        action: &'static str,
        /// The HTTP status.
        status: u16,
        /// The AWS error code, for example `InvalidInstanceID.NotFound`. Decisions depend on it.
        code: String,
        /// The message of AWS.
        message: String,
    },
    /// The answer does not have the expected structure.
    #[error("{action}: cannot parse the answer: {reason}")]
    Unreadable {
        /// The action.
        action: &'static str,
        /// What is wrong with the answer.
        reason: String,
    },
    /// The request was not delivered, or there was no answer.
    #[error("{action}: no answer")]
    Unanswered {
        /// The action.
        action: &'static str,
        /// The error of the host.
        error: CloudError,
    },
}

/// An answer of AWS, or the reason why there is none.
pub(crate) type Answer<T> = Result<T, Failure>;

/// The element `<Error>` of any of the three APIs.
#[derive(Debug, Default, Deserialize)]
struct Detail {
    #[serde(default, rename = "Code")]
    code: String,
    #[serde(default, rename = "Message")]
    message: String,
}

/// The root element of an error: EC2 returns a list, the others a single error.
#[derive(Debug, Default, Deserialize)]
struct Body {
    #[serde(default, rename = "Error")]
    error: Option<Detail>,
    #[serde(default, rename = "Errors")]
    errors: Option<Errors>,
}

#[derive(Debug, Default, Deserialize)]
struct Errors {
    #[serde(default, rename = "Error")]
    error: Vec<Detail>,
}

impl Failure {
    /// Parses the body of an error answer.
    pub(crate) fn read(action: &'static str, status: u16, body: &str) -> Self {
        // What is not from AWS, for example an error page of a proxy, has no code.
        let body: Body = quick_xml::de::from_str(body).unwrap_or_default();
        let first = body
            .errors
            .and_then(|errors| errors.error.into_iter().next());
        let Detail { code, mut message } = body.error.or(first).unwrap_or_default();

        if let Some((cut, _)) = message.char_indices().nth(MAX_MESSAGE) {
            message.truncate(cut);
            message.push('…');
        }

        Self::Rejected {
            action,
            status,
            code,
            message,
        }
    }

    /// Returns the AWS error code, or an empty string if AWS did not reject the call.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Rejected { code, .. } => code,
            Self::Unreadable { .. } | Self::Unanswered { .. } => "",
        }
    }

    /// Returns true if the rejection may be about one of several elements of the request, for example
    /// of the instances, rather than about the whole request.
    pub(crate) fn may_be_about_one(&self) -> bool {
        let Self::Rejected { status, code, .. } = self else {
            return false;
        };

        match kind(code) {
            Kind::State | Kind::Invalid | Kind::Busy | Kind::NotFound => !matches!(
                code.as_str(),
                "TargetGroupNotFound"
                    | "LoadBalancerNotFound"
                    | "AccessPointNotFound"
                    | "TargetGroupAssociationLimit"
            ),
            Kind::Other => !code.is_empty() && matches!(status, 400 | 404 | 409),
            Kind::Throttled | Kind::Denied | Kind::Quota | Kind::Conflict | Kind::Unavailable => {
                false
            }
        }
    }

    /// Returns true if the load balancer or the target group has too many targets.
    pub(crate) fn is_target_quota(&self) -> bool {
        matches!(
            self.code(),
            "TooManyTargets" | "TooManyRegistrationsForTargetId"
        )
    }

    /// Returns true if AWS does not know an instance that is deregistered, which then is no target.
    pub(crate) fn is_no_target(&self) -> bool {
        matches!(self.code(), "InvalidTarget" | "InvalidInstance")
    }

    /// Returns true if a quota prevents the call, for which the deletion of something else can make
    /// room.
    pub(crate) fn is_quota(&self) -> bool {
        kind(self.code()) == Kind::Quota
    }

    /// Returns true if AWS asks for fewer requests.
    pub(crate) fn is_throttled(&self) -> bool {
        kind(self.code()) == Kind::Throttled
    }

    /// Returns true if AWS has certainly not done what was requested.
    pub(crate) fn is_certain(&self) -> bool {
        let Self::Rejected { status, code, .. } = self else {
            return false;
        };
        self.is_throttled() || (!code.is_empty() && (400..500).contains(status))
    }

    /// Returns true if a parameter has a value that EC2 does not offer.
    pub(crate) fn is_about_a_parameter(&self) -> bool {
        matches!(
            self.code(),
            "InvalidParameter"
                | "InvalidParameterCombination"
                | "InvalidParameterDependency"
                | "InvalidParameterValue"
                | "UnknownParameter"
                | "UnknownVolumeType"
                | "UnsupportedOperation"
                | "ValidationError"
        )
    }

    /// Returns true if AWS knows the credential, but does not permit what it requests.
    pub(crate) fn is_of_policy(&self) -> bool {
        matches!(
            self.code(),
            "UnauthorizedOperation" | "AccessDenied" | "AccessDeniedException"
        )
    }

    /// Returns true if the requested resource does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        kind(self.code()) == Kind::NotFound
    }
}

/// The meaning of an error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Throttled,
    Denied,
    Quota,
    NotFound,
    Busy,
    Conflict,
    Unavailable,
    /// The state of the cloud prevents the call. It can succeed later without a change of the
    /// Service.
    State,
    Invalid,
    Other,
}

/// Classifies a code, according to the lists of error codes of EC2 and Elastic Load Balancing.
fn kind(code: &str) -> Kind {
    match code {
        // The codes that the SDKs of AWS take for throttling.
        "Throttling"
        | "ThrottlingException"
        | "ThrottledException"
        | "RequestLimitExceeded"
        | "RequestThrottled"
        | "RequestThrottledException"
        | "TooManyRequestsException"
        | "SlowDown"
        | "BandwidthLimitExceeded"
        | "PriorRequestNotComplete"
        | "EC2ThrottledException"
        | "LimitExceededException" => Kind::Throttled,
        "AuthFailure"
        | "UnauthorizedOperation"
        | "AccessDenied"
        | "AccessDeniedException"
        | "InvalidClientTokenId"
        | "SignatureDoesNotMatch"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "RequestExpired"
        | "OptInRequired"
        | "MissingAuthenticationToken"
        | "IncompleteSignature"
        | "PendingVerification"
        | "Blocked"
        | "UnrecognizedClientException"
        | "InvalidAccessKeyId"
        | "InvalidSecurity" => Kind::Denied,
        "DependencyViolation"
        | "IncorrectInstanceState"
        | "IncorrectState"
        | "OperationInProgress" => Kind::Busy,
        "ResourceInUse"
        | "ResourceInUseException"
        | "InvalidSubnet"
        | "InvalidConfigurationRequest"
        | "InvalidTarget"
        | "InvalidInstance"
        | "InvalidEndPoint"
        | "AvailabilityZoneNotSupported"
        | "InsufficientFreeAddressesInSubnet"
        | "TargetGroupAssociationLimit"
        | "InvalidSecurityGroup"
        | "AddressLimitExceeded.InUse"
        | "Resource.AlreadyAssociated"
        | "OperationNotPermitted"
        | "InvalidLoadBalancerAction" => Kind::State,
        "InternalError"
        | "InternalFailure"
        | "InternalServiceError"
        | "ServiceUnavailable"
        | "Unavailable"
        | "ServerInternal"
        | "RequestTimeout"
        | "InsufficientCapacity" => Kind::Unavailable,
        _ => kind_by_pattern(code),
    }
}

/// Classifies other codes by parts of their names.
fn kind_by_pattern(code: &str) -> Kind {
    match code {
        _ if code.ends_with(".InUse") => Kind::State,
        _ if code.starts_with("TooMany")
            || code.contains("LimitExceeded")
            || code.contains("QuotaExceeded") =>
        {
            Kind::Quota
        }
        _ if code.contains("NotFound") || code.starts_with("NoSuch") => Kind::NotFound,
        _ if code.contains("Duplicate")
            || code.contains("AlreadyExists")
            || code.starts_with("Idempotent") =>
        {
            Kind::Conflict
        }
        _ if code.starts_with("Invalid")
            || code.starts_with("Malformed")
            || code.starts_with("Missing")
            || code.starts_with("Unsupported")
            || code.starts_with("Incompatible")
            || code.starts_with("ValidationError") =>
        {
            Kind::Invalid
        }
        _ => Kind::Other,
    }
}

impl From<Failure> for CloudError {
    fn from(failure: Failure) -> Self {
        let text = failure.to_string();
        match failure {
            Failure::Unanswered { error, .. } => error,
            Failure::Unreadable { .. } => Self::internal(text),
            Failure::Rejected {
                status, ref code, ..
            } => match kind(code) {
                Kind::Throttled => Self::throttled(SLOW_DOWN, text),
                Kind::Denied => Self::denied(format!(
                    "{text}: check {} Skydock's credential",
                    if failure.is_of_policy() {
                        "the IAM policy of"
                    } else {
                        "whether AWS accepts"
                    }
                )),
                Kind::Quota => Self::denied(format!(
                    "{text}: a quota of the account is exhausted; request an increase"
                )),
                Kind::NotFound => Self::not_found(text),
                Kind::Busy => Self::in_progress(SLOW_DOWN, text),
                Kind::Conflict => Self::conflict(text),
                Kind::Unavailable => Self::unavailable(text),
                // Whether AWS accepts a value depends on its state: on certificates, buckets,
                // subnets, quotas. The same value can be accepted later.
                Kind::Invalid | Kind::State => Self::internal(text),
                Kind::Other => match status {
                    401 | 403 => Self::denied(text),
                    429 => Self::throttled(SLOW_DOWN, text),
                    500.. => Self::unavailable(text),
                    _ => Self::internal(text),
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(code: &str, status: u16) -> CloudError {
        Failure::Rejected {
            action: "DoThis",
            status,
            code: code.into(),
            message: "words".into(),
        }
        .into()
    }

    #[test]
    fn both_error_formats_are_parsed() {
        for body in [
            "<Response><Errors><Error><Code>A.B</Code><Message>m &amp; n</Message></Error></Errors><RequestID>r</RequestID></Response>",
            "<ErrorResponse xmlns=\"x\"><Error><Type>Sender</Type><Code>A.B</Code><Message>m &amp; n</Message></Error></ErrorResponse>",
        ] {
            let failure = Failure::read("DoThis", 400, body);
            assert_eq!(failure.to_string(), "DoThis: m & n (A.B)");
        }
        assert_eq!(Failure::read("DoThis", 502, "<html>Bad gateway").code(), "");
    }

    #[test]
    fn each_error_code_maps_to_a_cloud_error() {
        let case = |code, status| {
            format!("{:?}", rejection(code, status))
                .replace("CloudError::", "")
                .split('(')
                .next()
                .unwrap()
                .to_owned()
        };

        for (code, status, expected) in [
            ("RequestLimitExceeded", 503, "Throttled"),
            ("Throttling", 400, "Throttled"),
            ("UnauthorizedOperation", 403, "Denied"),
            ("AuthFailure", 401, "Denied"),
            ("TooManyLoadBalancers", 400, "Denied"),
            ("RulesPerSecurityGroupLimitExceeded", 400, "Denied"),
            ("InvalidInstanceID.NotFound", 400, "NotFound"),
            ("LoadBalancerNotFound", 400, "NotFound"),
            ("DependencyViolation", 400, "InProgress"),
            ("ResourceInUse", 400, "Internal"),
            ("InvalidGroup.InUse", 400, "Internal"),
            ("AddressLimitExceeded.InUse", 400, "Internal"),
            ("InvalidGroup.Duplicate", 400, "Conflict"),
            ("RouteAlreadyExists", 400, "Conflict"),
            ("InternalError", 500, "Unavailable"),
            ("ValidationError", 400, "Internal"),
            ("InvalidParameterValue", 400, "Internal"),
            ("UnsupportedCertificate", 400, "Internal"),
            ("MalformedCertificate", 400, "Internal"),
            ("CertificateNotFound", 400, "NotFound"),
            ("InvalidSubnet", 400, "Internal"),
            ("InvalidTarget", 400, "Internal"),
            ("", 502, "Unavailable"),
            ("", 403, "Denied"),
            ("", 400, "Internal"),
            ("Strange", 429, "Throttled"),
        ] {
            assert_eq!(case(code, status), expected, "{code} {status}");
        }
    }

    #[test]
    fn only_an_error_of_the_request_is_certain() {
        for (code, status, certain) in [
            ("RequestLimitExceeded", 503, true),
            ("VolumeLimitExceeded", 400, true),
            ("UnauthorizedOperation", 403, true),
            ("InternalError", 500, false),
            ("Unavailable", 503, false),
            ("", 400, false),
        ] {
            let failure = Failure::Rejected {
                action: "DoThis",
                status,
                code: code.into(),
                message: "words".into(),
            };
            assert_eq!(failure.is_certain(), certain, "{code} {status}");
        }
        let lost = Failure::Unanswered {
            action: "DoThis",
            error: CloudError::unavailable("reset"),
        };
        assert!(!lost.is_certain());
    }

    #[test]
    fn quota_and_permission_errors_say_what_to_do() {
        for (code, word) in [
            ("TooManyTargetGroups", "quota"),
            ("AccessDenied", "IAM policy"),
            ("ExpiredToken", "accepts Skydock's credential"),
            ("AuthFailure", "accepts Skydock's credential"),
        ] {
            let CloudError::Denied(text) = rejection(code, 400) else {
                panic!("{code}")
            };
            assert!(text.contains(word) && text.contains("DoThis"), "{text}");
        }
    }

    #[test]
    fn long_error_messages_are_truncated() {
        let body = format!(
            "<R><Error><Code>A</Code><Message>{}</Message></Error></R>",
            "é".repeat(5000)
        );
        assert!(Failure::read("DoThis", 400, &body).to_string().len() < 1000);
    }
}
