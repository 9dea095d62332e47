//! Answers, from the network or from Skydock itself, and how a plugin receives them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header::RETRY_AFTER};
use hyper::body::Incoming;
use skydock_credentials::AnswerMask;

use super::policy::RuleClient;
use crate::{
    body::download::{Bounds, ResponseBody},
    limits::instance::Permits,
    observe::meter::RequestMeter,
    request_error::RequestError,
    rules::headers::strip_hop_by_hop,
};

/// In an answer of Skydock during a pause, so that plugins can tell it from one of the cloud.
/// `docs/operating.md` describes it.
const PAUSED: &str = "x-skydock-paused";

/// An answer, from the network or from Skydock itself.
pub(super) enum Answer {
    Network(Response<Incoming>),
    FromSkydock(Response<Bytes>),
}

/// Masks an answer of a credential itself. A plugin has no part in a login that is masked and
/// cannot guess, so all secrets are searched for.
pub(super) fn mask_whole(
    client: &RuleClient,
    answer: Response<Bytes>,
) -> Result<Answer, RequestError> {
    let secrets = client.rule.credential.as_ref().map(|it| it.secrets());
    let answer = AnswerMask::over_answer(secrets.unwrap_or_default(), answer)?;
    Ok(Answer::FromSkydock(answer))
}

/// Returns the answer during a pause that the cloud has asked for, without asking the cloud again.
pub(super) fn paused(pause: Duration) -> Response<Bytes> {
    // Rounded up, so that a plugin that waits for this long is not told to wait again.
    let seconds = pause.as_secs() + u64::from(pause.subsec_nanos() > 0);

    let mut response = Response::new(Bytes::from_static(
        b"the cloud has asked for a pause; this answer is Skydock's\n",
    ));
    // Also if the cloud has answered 503: this request was not tried, and can be sent later.
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;

    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
        .headers_mut()
        .insert(PAUSED, HeaderValue::from_static("true"));

    response
}

/// The answer to a request, and what its body needs until it ends.
pub(super) struct Sent {
    pub(super) answer: Answer,
    pub(super) bounds: Bounds,
    pub(super) permits: Arc<Permits>,
    pub(super) mask: AnswerMask,
}

impl Sent {
    /// Converts the answer into the one that the plugin receives.
    pub(super) fn into_response(self, mut meter: Box<RequestMeter>) -> Response<ResponseBody> {
        match self.answer {
            Answer::Network(mut answer) => {
                clean(&mut answer, &mut meter);
                answer.map(|body| {
                    ResponseBody::streamed(body, self.bounds, self.permits, self.mask, meter)
                })
            }
            Answer::FromSkydock(mut answer) => {
                clean(&mut answer, &mut meter);
                answer.map(|body| ResponseBody::whole(body, meter))
            }
        }
    }
}

/// Removes what is only for Skydock from the head of an answer, and records its status.
fn clean<B>(answer: &mut Response<B>, meter: &mut RequestMeter) {
    strip_hop_by_hop(answer.headers_mut());
    // hyper's information about the connection is not for the plugin.
    answer.extensions_mut().clear();
    meter.status = Some(answer.status().as_u16());
}
