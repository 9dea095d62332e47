//! What follows from an answer of the server: a pause, another attempt, or its head, masked.

use std::time::SystemTime;

use bytes::Bytes;
use http::Response;
use http_body::Body as _;
use hyper::body::Incoming;
use skydock_credentials::remove_session_headers;

use super::{Attempts, Outgoing, retry::Answered};
use crate::{
    gateway::{Admitted, answer::Answer},
    limits::pace,
    request_error::RequestError,
};

impl Admitted {
    /// Decides on an answer of the server: the request is sent again with better authentication, or
    /// the answer is masked and returned. `body` is the whole body, if it is in memory.
    pub(super) async fn receive(
        &self,
        outgoing: &Outgoing,
        attempts: &mut Attempts,
        answer: Response<Incoming>,
        version: Option<u64>,
        body: Option<Bytes>,
    ) -> Result<Option<Answer>, RequestError> {
        let rule = &outgoing.client.rule;
        let (mut answer, incoming) = answer.into_parts();
        if let Some(pause) = pace::pause(&answer, now(), rule.limits.pause) {
            self.host.pauses().begin(&rule.name, pause);
        }

        if let Some(credential) = &rule.credential {
            let answered = Answered {
                head: &answer,
                version,
                has_body: body.is_some(),
            };
            let retry = self
                .fix_authentication(outgoing, answered, &attempts.retries)
                .await;
            if let (Some(retry), Some(body)) = (retry, body) {
                attempts.repeat(retry, body);
                return Ok(None);
            }

            if let Some(version) = version.filter(|_| answer.status.is_success()) {
                credential.accepted(version, self.request_kind(&outgoing.head));
            }
            // Last, since masking changes what is read above.
            credential.mask(&mut answer);
            let has_body = !incoming.is_end_stream();
            attempts.mask.begin(&mut answer.headers, has_body)?;
        }

        if rule.certificate.is_some() {
            remove_session_headers(&mut answer.headers);
        }

        let answer = Response::from_parts(answer, incoming);
        Ok(Some(Answer::Network(answer)))
    }
}

/// Returns the time of the wall clock, for dates in answers.
fn now() -> jiff::Timestamp {
    jiff::Timestamp::try_from(SystemTime::now()).unwrap_or_default()
}
