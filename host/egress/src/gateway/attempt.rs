//! One attempt to send a request: it waits for its turn, is authenticated and sent.

mod receive;
mod retry;
mod sign;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use hyper::body::Incoming;
use skydock_credentials::AnswerMask;
use tokio::time::Instant;

use self::{
    retry::{Retries, Retry},
    sign::{Sign, Signed},
};
use super::{
    Admitted,
    answer::{Answer, mask_whole, paused},
    http_client::{Timeouts, Unanswered},
    inspect::Content,
    policy::RuleClient,
};
use crate::{
    body::upload::{Progress, Upload},
    limits::{
        body_memory::BodyMemory,
        breaker::Reachability,
        host_limiter::{HostLimiter, RateRequest, TokenWait},
        instance::Permits,
    },
    request_error::{Code, RequestError},
    rules::compiled::Limits,
};

/// Divisor of the limit of the first byte. If the plugin gives up, the breaker counts a request as not
/// answered after this part of the limit: the whole default limit is longer than a call may take.
const FIRST_BYTE_DIVISOR: u32 = 3;

/// What all attempts to send a request have in common.
pub(super) struct Outgoing {
    pub(super) head: Parts,
    pub(super) client: Arc<RuleClient>,
    pub(super) limiter: Arc<HostLimiter>,
    pub(super) permits: Arc<Permits>,
    pub(super) timeouts: Timeouts,
    /// The announced length of the body.
    pub(super) length: Option<u64>,
    pub(super) deadline: Instant,
}

/// What attempts leave to the next one.
pub(super) struct Attempts {
    /// The body, until it is sent.
    content: Option<Content>,
    retries: Retries,
    /// For all attempts, since an answer may quote a secret of an earlier one.
    pub(super) mask: AnswerMask,
}

impl Attempts {
    pub(super) fn new(content: Content) -> Self {
        Self {
            content: Some(content),
            retries: Retries::default(),
            mask: AnswerMask::default(),
        }
    }

    /// Prepares another attempt.
    fn repeat(&mut self, retry: Retry, body: Bytes) {
        self.content = Some(Content::Buffered(body));
        self.retries.count(retry);
    }

    /// Returns the body if it is in memory.
    fn buffered(&self) -> Option<Bytes> {
        match &self.content {
            Some(Content::Buffered(bytes)) => Some(bytes.clone()),
            _ => None,
        }
    }

    /// Takes the body to send it.
    fn upload(&mut self, outgoing: &Outgoing, progress: &Arc<Progress>) -> Upload {
        let progress = Arc::clone(progress);
        let permits = Arc::clone(&outgoing.permits);

        match self.content.take() {
            Some(Content::Streamed(body)) => {
                let most = outgoing.client.rule.limits.request_body;
                let length = outgoing.length;
                Upload::streamed(body, length, most, outgoing.deadline, progress, permits)
            }
            Some(Content::Buffered(bytes)) => Upload::whole(bytes, progress, permits),
            None => Upload::whole(Bytes::new(), progress, permits),
        }
    }
}

impl Admitted {
    /// Authenticates the request and sends it once. Returns `None` if it is to be sent again.
    pub(super) async fn attempt(
        &self,
        outgoing: &Outgoing,
        attempts: &mut Attempts,
    ) -> Result<Option<Answer>, RequestError> {
        let Outgoing { head, client, .. } = outgoing;
        if let Err(pause) = self.wait_for_token(outgoing).await {
            return Ok(Some(Answer::FromSkydock(paused(pause))));
        }

        // The request may have waited for slots, a token or the end of a pause.
        self.check_again(head, client)?;
        let buffered = attempts.buffered();
        let prepared = self
            .sign(client)
            .prepare(head.clone(), buffered.as_ref())
            .await?;
        let (signed, version) = match prepared {
            Signed::Send { head, version } => (head, version),
            Signed::Answer(answer) => return mask_whole(client, answer).map(Some),
        };
        if let Some(credential) = &client.rule.credential {
            let secrets = credential.secrets();
            attempts.mask.add(&secrets, &head.headers, &signed.headers);
        }

        // A streamed body is kept for another attempt, which only a credential can cause.
        let may_repeat = version.is_some() && buffered.is_none() && attempts.retries.none_renewed();
        let memory = may_repeat.then(|| BodyMemory::of(&self.capacity.body_memory, self.kind));
        let progress = Progress::new(self.meter.sent.clone(), memory);
        let request = Request::from_parts(signed, attempts.upload(outgoing, &progress));

        // The credential may have waited for its issuer.
        self.check_again(head, client)?;
        let answer = match self.exchange(outgoing, request, &progress).await {
            Ok(answer) => answer,
            Err(unanswered) if attempts.retries.may_reconnect(head, &unanswered) => {
                // Only a request without a body may be sent on another connection.
                attempts.repeat(Retry::Reconnected, Bytes::new());
                return Ok(None);
            }
            Err(unanswered) => return Err(unanswered.error),
        };

        let body = buffered.or_else(|| progress.whole());
        self.receive(outgoing, attempts, answer, version, body)
            .await
    }

    /// Waits for a token of the rate limit and for the end of a pause of the host.
    ///
    /// # Errors
    /// The remaining time of the pause, if the request should not wait for so long.
    async fn wait_for_token(&self, outgoing: &Outgoing) -> Result<(), Duration> {
        let request = RateRequest {
            pauses: self.host.pauses(),
            rule: &outgoing.client.rule.name,
            kind: self.kind,
            deadline: outgoing.deadline,
        };

        let wait = outgoing.limiter.wait(request).await;
        if wait != TokenWait::AtOnce {
            outgoing.client.metrics.throttled();
        }

        match wait {
            TokenWait::AtOnce | TokenWait::Waited => Ok(()),
            TokenWait::Paused(remaining) => Err(remaining),
        }
    }

    fn sign<'a>(&'a self, client: &'a RuleClient) -> Sign<'a> {
        Sign {
            rule: &client.rule,
            authentication: &self.authentication,
            target: &self.target,
        }
    }

    /// Sends the request once and reports the outcome to the breaker.
    async fn exchange(
        &self,
        outgoing: &Outgoing,
        request: Request<Upload>,
        progress: &Arc<Progress>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let Outgoing {
            head,
            client,
            timeouts,
            ..
        } = outgoing;
        let limits = &client.rule.limits;
        let passed = self
            .host
            .enter(self.kind, limits.first_byte / FIRST_BYTE_DIVISOR)?;

        let http_client = client.clients.get(self.kind);
        let revoked = self.revoked(head, client);
        let answer = http_client
            .exchange(request, progress, *timeouts, revoked)
            .await;

        passed.ended(match &answer {
            Ok(_) => Reachability::Answered,
            Err(unanswered) => failed(&unanswered.error, *timeouts, limits),
        });
        answer
    }
}

/// Returns what a failed request tells about the host.
fn failed(error: &RequestError, timeouts: Timeouts, limits: &Limits) -> Reachability {
    if !error.cause().is_unreachable() {
        return Reachability::Unrelated;
    }

    // If the plugin requested shorter timeouts, a timeout does not mean that the host is down.
    let hurried = timeouts.connect < limits.connect || timeouts.first_byte < limits.first_byte;
    match error.code() {
        Code::ConnectionTimeout | Code::ConnectionReadTimeout if hurried => Reachability::Unknown,
        Code::ConnectionReadTimeout => Reachability::Late,
        _ => Reachability::Unreachable,
    }
}
