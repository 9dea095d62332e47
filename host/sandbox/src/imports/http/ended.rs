//! Why the body of an answer ended early, as the guest asks for it with `http-error-code`.

use wasmtime_wasi_http::{
    Error,
    p2::bindings::http::types::{ErrorCode, IoError},
};

/// Returns the code of the error that a stream has reported. `None` if the error is not one of
/// HTTP.
///
/// wasmtime-wasi-http 48.0.8 looks for a type that the errors of bodies do not have, and therefore
/// never finds a code. Without it, a guest cannot tell an answer that is too large, which it must
/// not request again, from one whose connection broke.
pub(super) fn code(error: &IoError) -> Option<ErrorCode> {
    if let Some(code) = error.downcast_ref::<ErrorCode>() {
        return Some(code.clone());
    }

    Some(match error.downcast_ref::<Error>()? {
        Error::ConnectionReadTimeout => ErrorCode::ConnectionReadTimeout,
        Error::ConnectionTerminated => ErrorCode::ConnectionTerminated,
        Error::HttpResponseIncomplete => ErrorCode::HttpResponseIncomplete,
        Error::HttpResponseBodySize(size) => ErrorCode::HttpResponseBodySize(*size),
        Error::HttpResponseContentCoding(coding) => {
            ErrorCode::HttpResponseContentCoding(coding.clone())
        }
        Error::HttpResponseTimeout => ErrorCode::HttpResponseTimeout,
        Error::HttpProtocolError => ErrorCode::HttpProtocolError,
        other => ErrorCode::InternalError(Some(other.to_string())),
    })
}

#[cfg(test)]
mod tests {
    use skydock_egress::Code;

    use super::*;
    use crate::imports::http::{Failure, error};

    #[test]
    fn each_error_of_a_body_has_its_code() {
        let told = |it: Code| {
            format!(
                "{:?}",
                code(&IoError::from(error(Failure {
                    code: it,
                    message: None
                })))
                .unwrap()
            )
        };
        assert_eq!(
            told(Code::HttpResponseBodySize),
            "ErrorCode::HttpResponseBodySize(None)"
        );
        assert_eq!(
            told(Code::HttpResponseContentCoding),
            "ErrorCode::HttpResponseContentCoding(None)"
        );

        for it in [
            Code::ConnectionReadTimeout,
            Code::ConnectionTerminated,
            Code::HttpResponseIncomplete,
            Code::HttpResponseTimeout,
            Code::HttpProtocolError,
        ] {
            assert_eq!(told(it), format!("ErrorCode::{it:?}"));
        }
        assert_eq!(
            told(Code::DnsTimeout),
            "ErrorCode::InternalError(Some(\"DNS lookup timed out\"))"
        );
    }

    #[test]
    fn an_error_of_another_stream_has_no_code() {
        assert!(code(&IoError::msg("broken pipe")).is_none());
        assert!(code(&IoError::from(ErrorCode::HttpRequestBodySize(Some(7)))).is_some());
    }
}
