//! Translation of the host's error codes.
use wasip2::http::types::ErrorCode;

use crate::http::failure::Failure;

/// Returns the failure that a code stands for. Its text contains the code in the notation of
/// `wasi:http`, so that its documentation can be searched for it.
#[rustfmt::skip]
pub(super) fn failure(code: &ErrorCode) -> Failure {
    use ErrorCode as E;
    match code {
        // The operator's rules do not allow the request.
        E::HttpRequestDenied => rejected("HTTP-request-denied"),
        E::DestinationIpProhibited => rejected("destination-IP-prohibited"),
        E::HttpRequestMethodInvalid => rejected("HTTP-request-method-invalid"),
        E::HttpRequestUriInvalid => rejected("HTTP-request-URI-invalid"),

        // The cloud cannot be reached at present.
        E::DnsTimeout => away("DNS-timeout", "the name of the cloud's host was not resolved in time", ""),
        E::DnsError(why) => away("DNS-error", "the name of the cloud's host cannot be resolved", why.rcode.as_deref().unwrap_or_default()),
        E::DestinationNotFound => away("destination-not-found", "the cloud's server was not found", ""),
        E::DestinationUnavailable => away("destination-unavailable", "the cloud's server cannot be reached, or Skydock has no credential for it", ""),
        E::DestinationIpUnroutable => away("destination-IP-unroutable", "there is no route to the cloud's server", ""),
        E::ConnectionRefused => away("connection-refused", "no connection to the cloud's server, or it did not answer before and is not contacted for a while; see Skydock's log", ""),
        E::ConnectionTerminated => away("connection-terminated", "the connection was closed", ""),
        E::ConnectionTimeout => away("connection-timeout", "the connection was not established in time", ""),
        E::ConnectionReadTimeout => away("connection-read-timeout", "the cloud stopped answering", ""),
        E::ConnectionWriteTimeout => away("connection-write-timeout", "the cloud stopped reading the request", ""),
        E::ConnectionLimitReached => away("connection-limit-reached", "too many requests, connections or hosts at the same time", ""),
        E::TlsProtocolError => away("TLS-protocol-error", "TLS with the cloud failed", ""),
        E::TlsCertificateError => away("TLS-certificate-error", "the certificate of the cloud's server is not trusted", ""),
        E::TlsAlertReceived(why) => away("TLS-alert-received", "the cloud's server sent a TLS alert", why.alert_message.as_deref().unwrap_or_default()),
        E::HttpResponseTimeout => away("HTTP-response-timeout", "no answer in time", ""),
        E::HttpResponseIncomplete => away("HTTP-response-incomplete", "the answer is incomplete", ""),
        E::HttpProtocolError => away("HTTP-protocol-error", "the answer is not valid HTTP", ""),
        E::HttpResponseTransferCoding(why) => away("HTTP-response-transfer-coding", "the encoding of the answer is not valid", why.as_deref().unwrap_or_default()),
        E::HttpResponseContentCoding(why) => away("HTTP-response-content-coding", "the answer is compressed or in another character set, so Skydock cannot mask secrets in it", why.as_deref().unwrap_or_default()),

        // Something is too large.
        E::HttpRequestUriTooLong => large("HTTP-request-URI-too-long", "the URL", None),
        E::HttpRequestBodySize(size) => large("HTTP-request-body-size", "the request's body", *size),
        E::HttpRequestHeaderSectionSize(size) => large("HTTP-request-header-section-size", "the request's headers", size.map(u64::from)),
        E::HttpRequestHeaderSize(_) => large("HTTP-request-header-size", "a header of the request", None),
        E::HttpRequestTrailerSectionSize(size) => large("HTTP-request-trailer-section-size", "the request's trailers", size.map(u64::from)),
        E::HttpRequestTrailerSize(_) => large("HTTP-request-trailer-size", "a trailer of the request", None),
        E::HttpResponseHeaderSectionSize(size) => large("HTTP-response-header-section-size", "the answer's headers", size.map(u64::from)),
        E::HttpResponseHeaderSize(_) => large("HTTP-response-header-size", "a header of the answer", None),
        E::HttpResponseBodySize(size) => large("HTTP-response-body-size", "the answer's body", *size),
        E::HttpResponseTrailerSectionSize(size) => large("HTTP-response-trailer-section-size", "the answer's trailers", size.map(u64::from)),
        E::HttpResponseTrailerSize(_) => large("HTTP-response-trailer-size", "a trailer of the answer", None),

        // The request, the host or the rules are wrong.
        E::HttpRequestLengthRequired => wrong("HTTP-request-length-required", "the request must have a Content-Length", ""),
        E::HttpUpgradeFailed => wrong("HTTP-upgrade-failed", "the cloud tried to switch protocols", ""),
        E::LoopDetected => wrong("loop-detected", "the request was sent in a loop", ""),
        E::ConfigurationError => wrong("configuration-error", "Skydock is not configured for this request", ""),
        E::InternalError(why) => wrong("internal-error", "internal error in Skydock", why.as_deref().unwrap_or_default()),
    }
}

fn rejected(code: &str) -> Failure {
    Failure::Rejected(code.to_owned())
}

fn away(code: &str, what: &str, why: &str) -> Failure {
    Failure::Unreachable(told(code, what, why))
}

fn wrong(code: &str, what: &str, why: &str) -> Failure {
    Failure::Wrong(told(code, what, why))
}

fn large(code: &str, what: &str, size: Option<u64>) -> Failure {
    let why = size.map(|size| format!("{size} bytes")).unwrap_or_default();
    Failure::Wrong(told(
        code,
        &format!("the size of {what} exceeds the limit"),
        &why,
    ))
}

fn told(code: &str, what: &str, why: &str) -> String {
    if why.is_empty() {
        format!("{what} ({code})")
    } else {
        format!("{what}: {why} ({code})")
    }
}

#[cfg(test)]
mod tests {
    use wasip2::http::types::{DnsErrorPayload, TlsAlertReceivedPayload};

    use super::*;
    use crate::types::CloudError;

    fn told(code: &ErrorCode) -> CloudError {
        failure(code).told("GET https://c/")
    }

    #[test]
    fn requests_rejected_by_the_host_are_denied() {
        let codes = [
            (ErrorCode::HttpRequestDenied, "(HTTP-request-denied)"),
            (
                ErrorCode::DestinationIpProhibited,
                "(destination-IP-prohibited)",
            ),
            (
                ErrorCode::HttpRequestMethodInvalid,
                "(HTTP-request-method-invalid)",
            ),
            (
                ErrorCode::HttpRequestUriInvalid,
                "(HTTP-request-URI-invalid)",
            ),
        ];
        for (code, name) in codes {
            let error = told(&code);
            assert!(
                matches!(&error, CloudError::Denied(message) if message.contains(name)),
                "{error:?}"
            );
        }
    }

    #[test]
    fn network_errors_are_unavailable() {
        let dns = ErrorCode::DnsError(DnsErrorPayload {
            rcode: Some("SERVFAIL".into()),
            info_code: None,
        });
        let alert = TlsAlertReceivedPayload {
            alert_id: None,
            alert_message: Some("bad_certificate".into()),
        };
        let codes = [
            (ErrorCode::DnsTimeout, "(DNS-timeout)"),
            (dns, "cannot be resolved: SERVFAIL (DNS-error)"),
            (ErrorCode::DestinationNotFound, "(destination-not-found)"),
            (
                ErrorCode::DestinationUnavailable,
                "(destination-unavailable)",
            ),
            (
                ErrorCode::DestinationIpUnroutable,
                "(destination-IP-unroutable)",
            ),
            (ErrorCode::ConnectionRefused, "(connection-refused)"),
            (ErrorCode::ConnectionTerminated, "(connection-terminated)"),
            (ErrorCode::ConnectionTimeout, "(connection-timeout)"),
            (
                ErrorCode::ConnectionReadTimeout,
                "(connection-read-timeout)",
            ),
            (
                ErrorCode::ConnectionWriteTimeout,
                "(connection-write-timeout)",
            ),
            (
                ErrorCode::ConnectionLimitReached,
                "(connection-limit-reached)",
            ),
            (ErrorCode::TlsProtocolError, "(TLS-protocol-error)"),
            (ErrorCode::TlsCertificateError, "(TLS-certificate-error)"),
            (
                ErrorCode::TlsAlertReceived(alert),
                ": bad_certificate (TLS-alert-received)",
            ),
            (ErrorCode::HttpResponseTimeout, "(HTTP-response-timeout)"),
            (
                ErrorCode::HttpResponseIncomplete,
                "(HTTP-response-incomplete)",
            ),
            (ErrorCode::HttpProtocolError, "(HTTP-protocol-error)"),
            (
                ErrorCode::HttpResponseTransferCoding(None),
                "(HTTP-response-transfer-coding)",
            ),
            (
                ErrorCode::HttpResponseContentCoding(Some("br".into())),
                ": br (HTTP-response-content-coding)",
            ),
        ];
        for (code, name) in codes {
            let error = told(&code);
            assert!(
                matches!(&error, CloudError::Unavailable(message) if message.contains(name)),
                "{error:?}"
            );
        }
    }

    #[test]
    fn size_and_configuration_errors_are_internal() {
        let codes = [
            (
                ErrorCode::HttpRequestUriTooLong,
                "(HTTP-request-URI-too-long)",
            ),
            (
                ErrorCode::HttpRequestBodySize(Some(7)),
                "the size of the request's body exceeds the limit: 7 bytes (HTTP-request-body-size)",
            ),
            (
                ErrorCode::HttpRequestHeaderSectionSize(Some(8)),
                ": 8 bytes (HTTP-request-header-section-size)",
            ),
            (
                ErrorCode::HttpRequestHeaderSize(None),
                "(HTTP-request-header-size)",
            ),
            (
                ErrorCode::HttpResponseHeaderSectionSize(None),
                "(HTTP-response-header-section-size)",
            ),
            (
                ErrorCode::HttpResponseBodySize(None),
                "(HTTP-response-body-size)",
            ),
            (
                ErrorCode::HttpRequestLengthRequired,
                "(HTTP-request-length-required)",
            ),
            (ErrorCode::LoopDetected, "(loop-detected)"),
            (ErrorCode::ConfigurationError, "(configuration-error)"),
            (
                ErrorCode::InternalError(Some("why".into())),
                "internal error in Skydock: why (internal-error)",
            ),
        ];
        for (code, name) in codes {
            let error = told(&code);
            assert!(
                matches!(&error, CloudError::Internal(message) if message.contains(name)),
                "{error:?}"
            );
        }
    }
}
