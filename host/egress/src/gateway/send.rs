//! Sending of an admitted request: [`Admitted::send`] takes the steps in order.

use std::sync::Arc;

use bytes::Bytes;
use http::{
    HeaderValue, Response,
    header::{ACCEPT_CHARSET, ACCEPT_ENCODING, CONTENT_LENGTH, HeaderName, IF_RANGE, RANGE},
    request::Parts,
};
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use super::{
    Admitted,
    answer::Sent,
    attempt::{Attempts, Outgoing},
    candidates::shortest_total,
    http_client::Timeouts,
    inspect::Content,
    policy::RuleClient,
};
use crate::{
    body::{
        download::{Bounds, ResponseBody, deadline_exceeded},
        upload::{BoxError, GuestBody},
    },
    limits::{host_limiter::HostLimiter, instance::Permits},
    request_error::{Cause, Code, RequestError},
    rules::{
        config::GuestAuth,
        headers::{self, strip_hop_by_hop},
    },
};

/// Why a header is not sent: the end of a sentence.
const BESIDE_CREDENTIAL: &str = "it is beside the credential of the rule; if the cloud needs it, add it to `headers` of the rule";
const OF_PROXIES: &str = "only proxies send it, to tell a server who is asking";

impl Admitted {
    /// Sends the request whose `head` was admitted, and returns the answer when its head has
    /// arrived. Dropping the future or the answer's body cancels the request.
    ///
    /// # Errors
    /// [`RequestError`] if the request is denied or fails. It is counted in the metrics.
    pub async fn send<B>(
        mut self,
        head: Parts,
        body: B,
    ) -> Result<Response<ResponseBody>, RequestError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let body: GuestBody = body.map_err(Into::into).boxed_unsync();
        let deadline = self.deadline();

        let sent = timeout_at(deadline, Box::pin(self.send_admitted(head, body, deadline))).await;
        match sent.unwrap_or_else(|_| Err(deadline_exceeded())) {
            Ok(sent) => Ok(sent.into_response(self.meter)),
            Err(error) => {
                self.meter.failed(&error);
                Err(error.of(self.meter.about()))
            }
        }
    }

    async fn send_admitted(
        &mut self,
        mut head: Parts,
        body: GuestBody,
        deadline: Instant,
    ) -> Result<Sent, RequestError> {
        let instance_slot = acquire(self.instance_slots.clone()).await?;
        let (client, content) = self.inspect(&head, body, deadline).await?;

        let rule = &client.rule;
        self.meter.rule(&client.metrics);
        let would_deny = self.would_deny(&head);
        self.meter.decided(rule, &self.actions, would_deny);
        let named = self.known_actions(&head, &content);
        self.meter.names(&named);

        let limiter = self.host.limiter(&rule.limits, self.capacity.kinds);
        let permits = self.permits(instance_slot, &limiter).await?;

        // Before `rewrite`, which removes the header.
        let length = headers::content_length(&head.headers);
        let removed = rewrite(&mut head, &content, length);
        client.log_removed(&self.shared.plugin, removed, OF_PROXIES);
        if rule.credential.is_some() {
            self.make_maskable(&mut head, &client);
        }

        let timeouts = Timeouts::of(rule, self.options);
        let bounds = Bounds {
            most: rule.limits.response_body,
            between: timeouts.between,
            deadline,
        };
        let outgoing = Outgoing {
            head,
            client,
            limiter,
            permits,
            timeouts,
            length,
            deadline,
        };

        let mut attempts = Attempts::new(content);
        let answer = loop {
            if let Some(answer) = self.attempt(&outgoing, &mut attempts).await? {
                break answer;
            }
        };

        Ok(Sent {
            answer,
            bounds,
            permits: outgoing.permits,
            mask: attempts.mask,
        })
    }

    /// Returns when the request must have ended.
    fn deadline(&self) -> Instant {
        let total = shortest_total(&self.candidates);
        self.started + total.map_or(self.left, |total| total.min(self.left))
    }

    /// Waits until the host and the plugin may have another request in flight. The slots of the
    /// plugin come last, so that requests that wait for a busy host do not use them up.
    async fn permits(
        &self,
        instance_slot: OwnedSemaphorePermit,
        limiter: &HostLimiter,
    ) -> Result<Arc<Permits>, RequestError> {
        let slots = [
            instance_slot,
            limiter.slots.acquire(self.kind).await?,
            self.capacity.slots.acquire(self.kind).await?,
        ];

        Ok(Arc::new(Permits {
            _ticket: self.ticket.clone(),
            _slots: slots,
        }))
    }

    /// Removes headers because of which secrets of the credential could not be found in the answer:
    /// in a compressed body, in a part of a body, or under a name that is not listed.
    fn make_maskable(&self, head: &mut Parts, client: &RuleClient) {
        let rule = &client.rule;
        if rule.guest_auth == GuestAuth::Denied {
            let removed = headers::keep_listed(&mut head.headers, &rule.listed);
            client.log_removed(&self.shared.plugin, removed, BESIDE_CREDENTIAL);
        }

        head.headers
            .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for name in [ACCEPT_CHARSET, RANGE, IF_RANGE] {
            head.headers.remove(name);
        }
    }
}

/// Converts the plugin's head into the one that is sent. Returns the headers that it removes,
/// except those of the connection.
fn rewrite(head: &mut Parts, content: &Content, length: Option<u64>) -> Vec<HeaderName> {
    strip_hop_by_hop(&mut head.headers);
    let removed = headers::strip_identity(&mut head.headers);
    head.headers.remove(CONTENT_LENGTH);

    // hyper sets the header itself if it knows the size of the body.
    if let (Content::Streamed(body), Some(length)) = (content, length)
        && body.size_hint().exact().is_none()
    {
        head.headers
            .insert(CONTENT_LENGTH, HeaderValue::from(length));
    }

    head.extensions.clear();
    head.version = http::Version::HTTP_11;
    removed
}

async fn acquire(slots: Arc<Semaphore>) -> Result<OwnedSemaphorePermit, RequestError> {
    // The semaphores are never closed.
    let closed = |_| {
        RequestError::new(
            Code::InternalError,
            Cause::Internal,
            "the gateway is closed",
        )
    };
    slots.acquire_owned().await.map_err(closed)
}
