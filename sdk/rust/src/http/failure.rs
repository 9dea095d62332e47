//! Reasons why there is no response.
use std::time::Duration;

use crate::types::CloudError;

/// Errors of both backends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    not(target_arch = "wasm32"),
    allow(dead_code, reason = "natively there is no host that rejects")
)]
pub(super) enum Failure {
    /// The host does not send the request. Contains the error code in the notation of `wasi:http`.
    #[error("Skydock denied the request ({0}); its log has the reason")]
    Rejected(String),
    /// There was no connection, or it broke, or the response is not valid HTTP. Contains what
    /// happened.
    #[error("{0}")]
    Unreachable(String),
    /// There was no complete response in time.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// The call's deadline passed before the request could be sent.
    #[error("it was not sent because the deadline of the call has passed")]
    NotSent,
    /// The body of the response exceeds this number of bytes.
    #[error("the body of the answer exceeds the limit of {0} bytes")]
    TooLarge(usize),
    /// The host or the request is faulty. Contains what is wrong.
    #[error("{0}")]
    Wrong(String),
}

impl Failure {
    /// Converts the failure to an error for the caller. `request` is the request's method and URL
    /// for messages.
    pub(super) fn told(&self, request: &str) -> CloudError {
        let message = format!("{request}: {self}");
        match self {
            Self::Rejected(_) => CloudError::denied(message),
            Self::Unreachable(_) | Self::Late(_) | Self::NotSent => {
                CloudError::unavailable(message)
            }
            Self::TooLarge(_) | Self::Wrong(_) => CloudError::internal(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_maps_to_a_cloud_error() {
        let told = |failure: Failure| failure.told("GET https://c/");
        let rejected = told(Failure::Rejected("HTTP-request-denied".into()));
        assert!(
            matches!(&rejected, CloudError::Denied(text) if text.contains("(HTTP-request-denied)")),
            "{rejected:?}"
        );

        let late = CloudError::unavailable("GET https://c/: no answer within 1.5s");
        assert_eq!(told(Failure::Late(Duration::from_millis(1500))), late);

        let broken = CloudError::unavailable("GET https://c/: connection refused");
        assert_eq!(
            told(Failure::Unreachable("connection refused".into())),
            broken
        );
        assert!(matches!(told(Failure::NotSent), CloudError::Unavailable(_)));

        let large = CloudError::internal(
            "GET https://c/: the body of the answer exceeds the limit of 9 bytes",
        );
        assert_eq!(told(Failure::TooLarge(9)), large);
        assert!(matches!(
            told(Failure::Wrong("x".into())),
            CloudError::Internal(_)
        ));
    }
}
