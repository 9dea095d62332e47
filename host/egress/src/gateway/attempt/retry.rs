//! When a request is sent again: which answers are a reason, and what must have changed.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use http::{StatusCode, request::Parts, response};
use skydock_credentials::{
    RequestKind,
    request::actions::{is_bodiless, of_head},
    server_time,
};

use super::Outgoing;
use crate::gateway::{Admitted, http_client::Unanswered};

/// Maximum number of retries after the authentication of a request was rejected. The first renewal
/// may have happened just before a change of the password took effect.
const REJECTIONS: u32 = 2;

/// Why a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// The server closed the idle connection that was used.
    Reconnected,
    /// The clock of the credential was corrected.
    ClockCorrected,
    /// There is a newer version of the credential.
    CredentialRenewed,
}

/// The retries of a request. Each reason is limited on its own, so that they end.
#[derive(Debug, Default)]
pub(super) struct Retries {
    reconnected: bool,
    clock_corrected: bool,
    credential_renewed: u32,
}

impl Retries {
    pub(super) fn count(&mut self, retry: Retry) {
        match retry {
            Retry::Reconnected => self.reconnected = true,
            Retry::ClockCorrected => self.clock_corrected = true,
            Retry::CredentialRenewed => self.credential_renewed += 1,
        }
    }

    /// Returns true if a streamed body should be kept, since its credential may be renewed.
    pub(super) fn none_renewed(&self) -> bool {
        self.credential_renewed == 0
    }

    /// Returns true if another connection may help.
    pub(super) fn may_reconnect(&self, head: &Parts, unanswered: &Unanswered) -> bool {
        !self.reconnected && unanswered.stale && is_repeatable(head)
    }

    /// Returns true if an answer with this status may be due to the time of the request.
    fn may_correct_clock(&self, status: StatusCode) -> bool {
        // EC2 answers 400 to a signature whose time is not within five minutes of its own.
        !self.clock_corrected && matches!(status.as_u16(), 400 | 401 | 403)
    }

    /// Returns true if an answer with this status may be due to the version of the credential.
    fn may_renew_credential(&self, status: StatusCode) -> bool {
        // ELB answers 403 both to a deleted key and to a request that a policy forbids.
        self.credential_renewed < REJECTIONS && matches!(status.as_u16(), 401 | 403)
    }
}

/// Returns true if it does no harm that the server may have started to process the request. With an
/// action in the query, even a GET may change something.
fn is_repeatable(head: &Parts) -> bool {
    is_bodiless(&head.method) && of_head(head).is_ok_and(|actions| actions.named.is_empty())
}

/// An answer to a request that a credential has authenticated.
pub(super) struct Answered<'a> {
    pub(super) head: &'a response::Parts,
    /// The version of the credential's authentication.
    pub(super) version: Option<u64>,
    /// The whole body is in memory, which is needed to send the request again.
    pub(super) has_body: bool,
}

impl Admitted {
    /// Corrects the clock of the credential or renews it, if the server may have rejected the
    /// request because of it. Returns why the request can be sent again.
    pub(super) async fn fix_authentication(
        &self,
        outgoing: &Outgoing,
        answered: Answered<'_>,
        retries: &Retries,
    ) -> Option<Retry> {
        let credential = outgoing.client.rule.credential.as_ref()?;
        let status = answered.head.status;

        if retries.may_correct_clock(status)
            && let Some(server) = server_time(&answered.head.headers)
            // Later requests need the right time too, so this does not depend on the body.
            && credential.follow_clock(server)
            && answered.has_body
        {
            return Some(Retry::ClockCorrected);
        }

        let version = answered.version?;
        if !retries.may_renew_credential(status) || !answered.has_body {
            return None;
        }

        // A renewal only because of the answer is for 401: what a policy forbids stays forbidden.
        let is_newer = credential.changed(version).await
            || (status == StatusCode::UNAUTHORIZED
                && credential
                    .rejected(version, self.request_kind(&outgoing.head))
                    .await);
        is_newer.then_some(Retry::CredentialRenewed)
    }

    /// Returns what a credential compares, to know whether the server accepts requests like this
    /// one.
    pub(super) fn request_kind(&self, head: &Parts) -> RequestKind {
        let mut hasher = DefaultHasher::new();
        (
            &self.target,
            &head.method,
            head.uri.path(),
            head.uri.query(),
            &self.actions.named,
        )
            .hash(&mut hasher);
        RequestKind(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_error::{Cause, Code, RequestError};

    fn head(method: &str, uri: &str) -> Parts {
        let request = http::Request::builder().method(method).uri(uri).body(());
        request.unwrap().into_parts().0
    }

    #[test]
    fn only_harmless_requests_are_sent_on_another_connection() {
        let unanswered = |stale| Unanswered {
            error: RequestError::new(Code::ConnectionTerminated, Cause::Protocol, "closed"),
            stale,
        };
        let table = [
            ("GET", "https://a.example/servers", true, true),
            ("GET", "https://a.example/servers", false, false),
            ("GET", "https://a.example/?Action=DeleteVolume", true, false),
            ("POST", "https://a.example/servers", true, false),
        ];
        for (method, uri, stale, expected) in table {
            let head = head(method, uri);
            let mut retries = Retries::default();
            let retry = retries.may_reconnect(&head, &unanswered(stale));
            assert_eq!(retry, expected, "{method} {uri} {stale}");

            retries.count(Retry::Reconnected);
            assert!(!retries.may_reconnect(&head, &unanswered(stale)));
        }
    }

    #[test]
    fn each_reason_for_a_retry_is_limited_on_its_own() {
        let may = |retries: &Retries, status| {
            let status = StatusCode::from_u16(status).unwrap();
            (
                retries.may_correct_clock(status),
                retries.may_renew_credential(status),
            )
        };

        let mut retries = Retries::default();
        let table = [
            (200, (false, false)),
            (400, (true, false)),
            (401, (true, true)),
            (403, (true, true)),
            (404, (false, false)),
        ];
        for (status, expected) in table {
            assert_eq!(may(&retries, status), expected, "{status}");
        }
        assert!(retries.none_renewed());

        retries.count(Retry::ClockCorrected);
        assert_eq!(may(&retries, 401), (false, true));
        retries.count(Retry::CredentialRenewed);
        assert_eq!(may(&retries, 401), (false, true));
        assert!(!retries.none_renewed());
        retries.count(Retry::CredentialRenewed);
        assert_eq!(may(&retries, 403), (false, false));
    }
}
