//! Why there is no answer.
use std::time::Duration;

use crate::types::CloudError;

/// What both backends make of their errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "natively there is no host that refuses"))]
pub(super) enum Failure {
    /// The host does not send it. Its code, as `wasi:http` writes it.
    #[error(
        "the host refuses to send it ({0}): the operator's rules do not permit it, or its credential was refused; the host's log says which"
    )]
    Refused(String),
    /// No connection, or one that broke, or an answer that is no HTTP. What happened.
    #[error("{0}")]
    Unreachable(String),
    /// No whole answer in time.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// The call was over before it could be sent.
    #[error("it was not sent, as no time is left in this call")]
    NotSent,
    /// The answer's body has more bytes than this.
    #[error("the answer has more than {0} bytes of body, and no more are read")]
    TooLarge(usize),
    /// The host, or the request, is not as it should be. What is wrong.
    #[error("{0}")]
    Wrong(String),
}

impl Failure {
    /// What the caller is told. `request` is its method and URL, for people.
    pub(super) fn told(&self, request: &str) -> CloudError {
        let message = format!("{request}: {self}");
        match self {
            Self::Refused(_) => CloudError::denied(message),
            Self::Unreachable(_) | Self::Late(_) | Self::NotSent => CloudError::unavailable(message),
            Self::TooLarge(_) | Self::Wrong(_) => CloudError::internal(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_an_error_of_the_contract() {
        let told = |failure: Failure| failure.told("GET https://c/");
        let refused = told(Failure::Refused("HTTP-request-denied".into()));
        assert!(matches!(&refused, CloudError::Denied(text) if text.contains("(HTTP-request-denied)")), "{refused:?}");
        let late = CloudError::unavailable("GET https://c/: no answer within 1.5s");
        assert_eq!(told(Failure::Late(Duration::from_millis(1500))), late);
        let broken = CloudError::unavailable("GET https://c/: connection refused");
        assert_eq!(told(Failure::Unreachable("connection refused".into())), broken);
        assert!(matches!(told(Failure::NotSent), CloudError::Unavailable(_)));
        let large =
            CloudError::internal("GET https://c/: the answer has more than 9 bytes of body, and no more are read");
        assert_eq!(told(Failure::TooLarge(9)), large);
        assert!(matches!(told(Failure::Wrong("x".into())), CloudError::Internal(_)));
    }
}
