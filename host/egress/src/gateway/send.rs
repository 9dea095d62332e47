//! Sending of admitted requests.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{
    HeaderValue, Request, Response, StatusCode,
    header::{ACCEPT_CHARSET, ACCEPT_ENCODING, CONTENT_LENGTH, IF_RANGE, RANGE, RETRY_AFTER},
    request::Parts,
    response,
};
use http_body::Body;
use hyper::body::Incoming;
use skydock_cloud::CallKind;
use skydock_credentials::{
    AnswerMask, Credential, certificate_needs_body, remove_session_headers,
    request::actions::{self, Actions, is_bodiless, of_head},
    server_time,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use super::{
    Options, Shared,
    admit::{choose, unruled},
    denial::{altered, guest_authenticates, other_method, revoked, unclear, writes},
    policy::{Policy, Wired},
    sign::{Sign, Signed},
    wire::{Times, Unanswered},
};
use crate::{
    body::{
        download::{Bounds, ResponseBody, over},
        upload::{BoxError, GuestBody, MAX_HELD, Progress, Upload, collect, too_long},
    },
    limits::{
        breaker::Outcome,
        held::Held,
        hosts::{Host, Lane},
        instance::{Capacity, Permits, Ticket},
        pace,
    },
    observe::meter::Meter,
    refusal::{Cause, Code, Refusal},
    rules::{
        config::GuestAuth,
        grant::{Grant, Verdict},
        headers::{self, Authentication, strip_hop_by_hop},
        overrides,
        rule::Target,
    },
};

/// Maximum number of retries after the authentication of a request was rejected. The first renewal
/// may have happened just before a change of the password took effect.
const REJECTIONS: u32 = 2;

/// A request that is allowed as far as its head shows. It is sent with [`Admitted::send`].
pub struct Admitted {
    pub(super) shared: Arc<Shared>,
    /// The rules that it was admitted with.
    pub(super) policy: Arc<Policy>,
    pub(super) candidates: Vec<Arc<Wired>>,
    pub(super) actions: Actions,
    pub(super) authentication: Authentication,
    pub(super) target: Target,
    pub(super) host: Arc<Host>,
    pub(super) kind: CallKind,
    pub(super) capacity: Arc<Capacity>,
    pub(super) started: Instant,
    pub(super) dry_run: bool,
    pub(super) left: Duration,
    pub(super) options: Options,
    pub(super) instance: Arc<Semaphore>,
    pub(super) ticket: Ticket,
    pub(super) meter: Box<Meter>,
}

/// A body, in memory or streamed.
enum Content {
    Held(Bytes),
    Streamed(GuestBody),
}

/// An answer, from the network or from Skydock itself.
enum Answer {
    Network(Response<Incoming>),
    Own(Response<Bytes>),
}

/// The answer to a request, and what its body needs until it ends.
struct Sent {
    answer: Answer,
    bounds: Bounds,
    permits: Arc<Permits>,
    mask: AnswerMask,
}

/// What all attempts to send a request have in common.
struct Sending {
    head: Parts,
    wired: Arc<Wired>,
    lane: Arc<Lane>,
    permits: Arc<Permits>,
    times: Times,
    /// The announced length of the body.
    length: Option<u64>,
    deadline: Instant,
}

/// What attempts leave to the next one. Each cause of another attempt is limited on its own, so
/// that they end.
struct Attempts {
    /// The body, until it is sent.
    content: Option<Content>,
    /// Number of attempts whose authentication the server rejected.
    rejected: u32,
    /// True after a connection turned out to be closed.
    resent: bool,
    /// True after the clock of the credential was corrected.
    corrected: bool,
    /// For all attempts, since an answer may quote a secret of an earlier one.
    mask: AnswerMask,
}

impl Attempts {
    fn new(content: Content) -> Self {
        Self {
            content: Some(content),
            rejected: 0,
            resent: false,
            corrected: false,
            mask: AnswerMask::default(),
        }
    }

    /// Returns the body if it is in memory.
    fn held(&self) -> Option<Bytes> {
        match &self.content {
            Some(Content::Held(bytes)) => Some(bytes.clone()),
            _ => None,
        }
    }

    /// Takes the body to send it.
    fn upload(&mut self, sending: &Sending, progress: &Arc<Progress>) -> Upload {
        let (progress, permits) = (progress.clone(), sending.permits.clone());
        match self.content.take() {
            Some(Content::Streamed(body)) => {
                let most = sending.wired.grant.limits.request_body;
                let length = sending.length;
                Upload::streamed(body, length, most, sending.deadline, progress, permits)
            }
            Some(Content::Held(bytes)) => Upload::whole(bytes, progress, permits),
            None => Upload::whole(Bytes::new(), progress, permits),
        }
    }
}

/// Returns true if it does no harm that the server may have started to process the request. With an
/// action in the query, even a GET may change something.
fn is_repeatable(head: &Parts) -> bool {
    is_bodiless(&head.method) && of_head(head).is_ok_and(|actions| actions.named.is_empty())
}

impl Admitted {
    /// Sends the request whose `head` was admitted, and returns the answer when its head has
    /// arrived. Dropping the future or the answer's body cancels the request.
    ///
    /// # Errors
    /// [`Refusal`] if the request is denied or fails. It is counted in the metrics.
    pub async fn send<B>(mut self, head: Parts, body: B) -> Result<Response<ResponseBody>, Refusal>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let body: GuestBody = Box::pin(Boxed(Box::pin(body)));

        // Only the body may show which rule applies, so the shortest limit counts.
        let total = self
            .candidates
            .iter()
            .filter_map(|wired| wired.grant.limits.total)
            .min();
        let deadline = self.started + total.map_or(self.left, |total| total.min(self.left));

        let sent = timeout_at(deadline, Box::pin(self.send_admitted(head, body, deadline))).await;
        match sent.unwrap_or_else(|_| Err(over())) {
            Ok(sent) => {
                let (mut head, body) = match sent.answer {
                    Answer::Network(answer) => {
                        let (head, body) = answer.into_parts();
                        (head, Ok(body))
                    }
                    Answer::Own(answer) => {
                        let (head, body) = answer.into_parts();
                        (head, Err(body))
                    }
                };

                strip_hop_by_hop(&mut head.headers);
                // hyper's information about the connection is not for the plugin.
                head.extensions.clear();
                self.meter.status = Some(head.status.as_u16());

                let body = match body {
                    Ok(body) => ResponseBody::streamed(
                        body,
                        sent.bounds,
                        sent.permits,
                        sent.mask,
                        self.meter,
                    ),
                    Err(body) => ResponseBody::whole(body, self.meter),
                };
                Ok(Response::from_parts(head, body))
            }
            Err(refusal) => {
                self.meter.failed(&refusal);
                Err(refusal.of(self.meter.about()))
            }
        }
    }

    async fn send_admitted(
        &mut self,
        mut head: Parts,
        body: GuestBody,
        deadline: Instant,
    ) -> Result<Sent, Refusal> {
        let slot = slot(self.instance.clone()).await?;
        let (wired, content) = self.look_inside(&head, body, deadline).await?;

        let grant = &wired.grant;
        self.meter.rule(&wired.metrics);
        let would_deny = self.would_deny(&head);
        self.meter.decided(grant, &self.actions, would_deny);

        let times = times(grant, self.options);
        let lane = self.host.lane(&grant.limits, self.capacity.kinds);
        // The slots of the plugin come last, so that requests that wait for a busy host do not use
        // them up.
        let slots = [
            slot,
            lane.slots.acquire(self.kind).await?,
            self.capacity.slots.acquire(self.kind).await?,
        ];
        let permits = Arc::new(Permits {
            _ticket: self.ticket.clone(),
            _slots: slots,
        });

        // Before `rewrite`, which removes the header.
        let length = headers::content_length(&head.headers);
        rewrite(&mut head, &content, length);
        if grant.credential.is_some() {
            self.make_maskable(&mut head, &wired);
        }

        let sending = Sending {
            head,
            wired: Arc::clone(&wired),
            lane,
            permits,
            times,
            length,
            deadline,
        };
        let mut attempts = Attempts::new(content);
        loop {
            if let Some(answer) = self.attempt(&sending, &mut attempts).await? {
                return Ok(Sent {
                    answer,
                    bounds: Bounds {
                        most: grant.limits.response_body,
                        between: times.between,
                        deadline,
                    },
                    permits: sending.permits,
                    mask: attempts.mask,
                });
            }
        }
    }

    /// Removes headers because of which secrets of the credential could not be found in the answer:
    /// in a compressed body, in a part of a body, or under a name that is not listed.
    fn make_maskable(&self, head: &mut Parts, wired: &Wired) {
        let grant = &wired.grant;
        if grant.guest_auth == GuestAuth::Denied {
            wired.tell(
                &self.shared.plugin,
                headers::keep_listed(&mut head.headers, &grant.listed),
            );
        }

        head.headers
            .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for name in [ACCEPT_CHARSET, RANGE, IF_RANGE] {
            head.headers.remove(name);
        }
    }

    /// Authenticates the request and sends it once. Returns `None` if it is to be sent again.
    async fn attempt(
        &self,
        sending: &Sending,
        attempts: &mut Attempts,
    ) -> Result<Option<Answer>, Refusal> {
        let Sending { head, wired, .. } = sending;
        let grant = &wired.grant;

        let turn = (self.kind, sending.deadline);
        match sending.lane.wait(&self.host, &grant.name, turn).await {
            Ok(false) => {}
            Ok(true) => wired.metrics.throttled(),
            Err(pause) => {
                wired.metrics.throttled();
                return Ok(Some(Answer::Own(paused(pause))));
            }
        }

        // The request may have waited for slots, a token or the end of a pause.
        self.check_again(head, wired)?;

        let sign = Sign {
            grant,
            authentication: &self.authentication,
            target: &self.target,
        };
        let held = attempts.held();
        let (prepared, used) = match sign.prepare(head.clone(), held.as_ref()).await? {
            Signed::Send(prepared, used) => (prepared, used),
            Signed::Answer(answer) => {
                // A plugin has no part in a login that is masked and cannot guess, so all secrets
                // are searched for.
                let secrets = grant.credential.as_ref().map(|it| it.secrets());
                let answer = AnswerMask::over_answer(secrets.unwrap_or_default(), answer)?;
                return Ok(Some(Answer::Own(answer)));
            }
        };

        if let Some(credential) = &grant.credential {
            let secrets = credential.secrets();
            attempts
                .mask
                .add(&secrets, &head.headers, &prepared.headers);
        }

        // A streamed body is kept for another attempt, which only a credential can cause.
        let keep = used.is_some() && held.is_none() && attempts.rejected == 0;
        let progress = Progress::new(
            self.meter.sent.clone(),
            keep.then(|| Held::of(&self.capacity, self.kind)),
        );
        let upload = attempts.upload(sending, &progress);
        let request = Request::from_parts(prepared, upload);

        // The credential may have waited for its issuer.
        self.check_again(head, wired)?;
        let answer = self
            .exchange(head, wired, request, &progress, sending.times)
            .await;

        if !attempts.resent && answer.as_ref().is_err_and(|it| it.stale) && is_repeatable(head) {
            attempts.content = Some(Content::Held(Bytes::new()));
            attempts.resent = true;
            return Ok(None);
        }

        let answer = answer.map_err(|unanswered| unanswered.refusal)?;
        let (mut answer, body) = answer.into_parts();
        if let Some(pause) = pace::pause(&answer, now(), grant.limits.pause) {
            self.host.pause(&grant.name, pause);
        }

        if let Some(credential) = &grant.credential {
            let whole = || held.clone().or_else(|| progress.whole());
            if self
                .can_cure(credential, &answer, head, used, attempts, whole)
                .await
            {
                return Ok(None);
            }

            if let Some(used) = used.filter(|_| answer.status.is_success()) {
                credential.accepted(used, self.kind(head));
            }
            credential.mask(&mut answer);
            let has_body = !body.is_end_stream();
            attempts.mask.begin(&mut answer.headers, has_body)?;
        }

        if grant.certificate.is_some() {
            remove_session_headers(&mut answer.headers);
        }

        Ok(Some(Answer::Network(Response::from_parts(answer, body))))
    }

    /// Returns true if the server rejected the authentication, the credential has a better one, and
    /// the request, whose whole body is needed for that, can be sent again with it.
    async fn can_cure(
        &self,
        credential: &Arc<dyn Credential>,
        answer: &response::Parts,
        head: &Parts,
        used: Option<u64>,
        attempts: &mut Attempts,
        whole: impl Fn() -> Option<Bytes>,
    ) -> bool {
        // EC2 answers 400 to a signature whose time is not within five minutes of its own.
        if let (400 | 401 | 403, false) = (answer.status.as_u16(), attempts.corrected)
            && let Some(server) = server_time(&answer.headers)
            && credential.follow_clock(server)
            && let Some(bytes) = whole()
        {
            attempts.content = Some(Content::Held(bytes));
            attempts.corrected = true;
            return true;
        }

        // ELB answers 403 both to a deleted key and to a request that a policy forbids.
        if let (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Some(used), ..REJECTIONS) =
            (answer.status, used, attempts.rejected)
            && let Some(bytes) = whole()
            && (credential.changed(used).await
                || (answer.status == StatusCode::UNAUTHORIZED
                    && credential.rejected(used, self.kind(head)).await))
        {
            attempts.content = Some(Content::Held(bytes));
            attempts.rejected += 1;
            return true;
        }

        false
    }

    /// Sends the request once and reports the outcome to the breaker.
    async fn exchange(
        &self,
        head: &Parts,
        wired: &Arc<Wired>,
        request: Request<Upload>,
        progress: &Arc<Progress>,
        times: Times,
    ) -> Result<Response<Incoming>, Unanswered> {
        let limits = &wired.grant.limits;
        // A third of the limit, since the default limit is longer than a call may take.
        let passed = self.host.enter(self.kind, limits.first_byte / 3)?;

        let wire = wired.wires.get(self.kind);
        let revoked = self.revoked(head, wired);
        let answer = wire.exchange(request, progress, times, revoked).await;

        // If the plugin requested shorter timeouts, a timeout does not mean that the host is down.
        let hurried = times.connect < limits.connect || times.first_byte < limits.first_byte;
        passed.ended(match &answer {
            Ok(_) => Outcome::Answered,
            Err(Unanswered { refusal, .. }) if !refusal.cause().is_unreachable() => {
                Outcome::Unknown
            }
            Err(Unanswered { refusal, .. }) => match refusal.code() {
                Code::ConnectionTimeout | Code::ConnectionReadTimeout if hurried => {
                    Outcome::Unknown
                }
                Code::ConnectionReadTimeout => Outcome::Late,
                _ => Outcome::Unreachable,
            },
        });

        answer
    }

    /// Determines the rule that applies, and reads the body if this is necessary to decide.
    async fn look_inside(
        &mut self,
        head: &Parts,
        body: GuestBody,
        deadline: Instant,
    ) -> Result<(Arc<Wired>, Content), Refusal> {
        let Some(first) = self.candidates.first() else {
            return Err(nothing_left());
        };
        let between = times(&first.grant, self.options).between;

        if is_bodiless(&head.method) {
            // Servers differ in whether they read the body of such requests, so its meaning cannot
            // be determined.
            let none = collect(body, 0, between, deadline).await;
            none.map_err(|refusal| match refusal.code() {
                Code::HttpRequestBodySize => Refusal::denied(
                    Cause::RequestBody,
                    format!("a {} request must not have a body", head.method),
                ),
                _ => refusal,
            })?;
            return Ok((self.decide(&self.candidates)?, Content::Held(Bytes::new())));
        }

        let undecided = self.actions.open
            && (self.dry_run
                || self
                    .candidates
                    .iter()
                    .any(|it| it.grant.permits_actions(&self.actions) == Verdict::Open));

        let inspected = |wired: &Arc<Wired>| {
            let Grant {
                credential,
                certificate,
                ..
            } = &wired.grant;
            let credential = credential.as_ref();
            credential.is_some_and(|it| it.needs_body(head))
                || certificate.is_some() && certificate_needs_body(head)
        };

        // If a rule allows all methods, it does not matter which one the body names.
        let limited = |wired: &Arc<Wired>| wired.grant.limits_methods();
        let overridable = overrides::may_be_in_body(head)
            && (self.dry_run || self.candidates.iter().any(limited));

        let needed = undecided || overridable || self.candidates.iter().any(inspected);
        // Other bodies are streamed, since a rule may allow more than `MAX_HELD`.
        if !needed {
            return Ok((self.decide(&self.candidates)?, Content::Streamed(body)));
        }

        let most = self
            .candidates
            .iter()
            .map(|wired| wired.grant.limits.request_body)
            .max()
            .unwrap_or_default();
        let most = most.min(MAX_HELD);
        let room = Held::of(&self.capacity, self.kind).room(most).await?;
        let bytes = room.hold(collect(body, most, between, deadline).await?);

        if overridable
            && let Some(name) = overrides::in_body(&head.headers, &bytes).map_err(unclear)?
        {
            return Err(other_method(
                Cause::RuleMethod,
                &format!("body parameter {name}"),
            ));
        }

        if undecided {
            self.actions
                .named
                .extend(actions::of_body(&head.headers, &bytes).map_err(unclear)?);
            self.actions.open = false;
        }

        let wired = self.decide(&self.candidates)?;
        if self.dry_run && wired.grant.reads(&head.method, &self.actions) == Verdict::No {
            return Err(writes(&head.method));
        }
        // The body was read with the largest limit of all candidates.
        if bytes.len() as u64 > wired.grant.limits.request_body {
            return Err(too_long(wired.grant.limits.request_body));
        }

        Ok((wired, Content::Held(bytes)))
    }

    /// Returns a number that is equal for requests of the same kind. A cloud may reject a
    /// credential for one kind of request only.
    fn kind(&self, head: &Parts) -> u64 {
        let mut hasher = DefaultHasher::new();
        (
            &self.target,
            &head.method,
            head.uri.path(),
            head.uri.query(),
            &self.actions.named,
        )
            .hash(&mut hasher);
        hasher.finish()
    }

    /// Checks that the rules in force, which may have been replaced while the request waited, still
    /// allow it in the same way.
    fn check_again(&self, head: &Parts, wired: &Arc<Wired>) -> Result<(), Refusal> {
        let policy = self.shared.policy.load();
        if Arc::ptr_eq(&policy, &self.policy) {
            return Ok(());
        }

        let name = &wired.grant.name;
        let rules = policy.for_target(&self.target);
        let candidates = choose(&rules, head, &self.target, &self.actions);
        let candidates = candidates.map_err(|(_, why)| revoked(name, &why))?;
        if candidates.is_empty() {
            return Err(revoked(name, &unruled(&self.target, &head.method)));
        }

        let decides = self.decide(&candidates);
        let decides = decides.map_err(|why| revoked(name, &why))?;

        if decides.grant.name == *name && decides.grant.acts_like(&wired.grant) {
            Ok(())
        } else {
            Err(altered(name))
        }
    }

    /// Waits until the rules in force do not allow the request any more.
    async fn revoked(&self, head: &Parts, wired: &Arc<Wired>) -> Refusal {
        // Before the check, so that it misses no replacement.
        let mut replaced = self.shared.replaced.subscribe();
        loop {
            if let Err(refusal) = self.check_again(head, wired) {
                return refusal;
            }
            if replaced.changed().await.is_err() {
                // The gateway keeps the sender as long as this request exists.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the first of the rules that allows the actions.
    fn decide(&self, candidates: &[Arc<Wired>]) -> Result<Arc<Wired>, Refusal> {
        let decides = candidates
            .iter()
            .find(|wired| wired.grant.permits_actions(&self.actions) == Verdict::Yes);
        let Some(wired) = decides else {
            return Err(nothing_left());
        };

        let Grant {
            guest_auth,
            credential,
            listed,
            name,
            ..
        } = &wired.grant;
        if *guest_auth == GuestAuth::Denied
            && credential.is_none()
            && let Some(what) = self.authentication.unlisted(listed)
        {
            return Err(guest_authenticates(name, &what));
        }

        Ok(wired.clone())
    }
}

/// Converts the plugin's head into the one that is sent.
fn rewrite(head: &mut Parts, content: &Content, length: Option<u64>) {
    strip_hop_by_hop(&mut head.headers);
    headers::strip_identity(&mut head.headers);
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
}

async fn slot(slots: Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Refusal> {
    // The semaphores are never closed.
    let closed = |_| {
        Refusal::new(
            Code::InternalError,
            Cause::Internal,
            "the gateway is closed",
        )
    };
    slots.acquire_owned().await.map_err(closed)
}

/// Returns the timeouts. A plugin may request shorter ones than those of the rule.
fn times(grant: &Grant, options: Options) -> Times {
    let least =
        |limit: Duration, wish: Option<Duration>| wish.map_or(limit, |wish| wish.min(limit));

    // The connector's own timeout produces a more specific error, so it should expire first.
    let connect = grant.limits.connect + Duration::from_secs(1);

    Times {
        connect: least(connect, options.connect),
        first_byte: least(grant.limits.first_byte, options.first_byte),
        between: least(grant.limits.between_bytes, options.between_bytes),
    }
}

fn nothing_left() -> Refusal {
    Refusal::denied(
        Cause::Action,
        "no rule allows the actions in the request body, or the body does not name one",
    )
}

/// Returns the answer during a pause that the cloud has asked for, without asking the cloud again.
fn paused(pause: Duration) -> Response<Bytes> {
    // Rounded up, so that a plugin that waits for this long is not told to wait again.
    let seconds = pause.as_secs() + u64::from(pause.subsec_nanos() > 0);

    let mut response = Response::new(Bytes::from_static(
        b"the cloud has asked for a pause; this answer is Skydock's\n",
    ));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;

    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
        .headers_mut()
        .insert("x-skydock-paused", HeaderValue::from_static("true"));

    response
}

/// Returns the time of the wall clock, for dates in answers.
fn now() -> jiff::Timestamp {
    jiff::Timestamp::try_from(SystemTime::now()).unwrap_or_default()
}

/// A body with any error type.
struct Boxed<B>(std::pin::Pin<Box<B>>);

impl<B> Body for Boxed<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, BoxError>>> {
        self.0
            .as_mut()
            .poll_frame(cx)
            .map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.0.size_hint()
    }
}

impl std::fmt::Debug for Admitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admitted")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}
