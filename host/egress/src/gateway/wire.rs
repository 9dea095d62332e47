//! One HTTP exchange on one connection.

use std::{error::Error as _, io, sync::Arc, time::Duration};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::capture_connection},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::time::{Instant, sleep_until};

use super::Options;
use crate::{
    body::upload::{Progress, Upload},
    network::dial::{Connector, HeadLimit, Opened, attached},
    refusal::{Cause, Code, Refusal},
    rules::grant::Grant,
};

/// Maximum size of the head of an answer, and of a connection's buffer.
const MAX_HEAD: usize = 64 * 1024;
/// Maximum number of header fields in an answer.
const MAX_FIELDS: usize = 100;
/// How long an idle connection to a host that the rule names is kept.
const IDLE: Duration = Duration::from_secs(30);
/// How long an idle connection to a host below `*.DOMAIN` is kept. A plugin may use so many of these
/// hosts that the limit on connections is reached: then a request waits until one is closed, and
/// this must be sooner than it gives up.
const IDLE_BELOW: Duration = Duration::from_secs(2);
/// Maximum age of a connection: its address is only checked when it is opened.
const OLDEST: Duration = Duration::from_secs(300);

/// The HTTP client of a rule.
#[derive(Clone, Debug)]
pub(super) struct Wire(Client<Connector, Upload>);

/// Timeouts for the parts of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) connect: Duration,
    pub(super) first_byte: Duration,
    pub(super) between: Duration,
}

impl Times {
    /// Returns the timeouts of a rule, or the shorter ones that the plugin requests.
    pub(super) fn of(grant: &Grant, options: Options) -> Self {
        let least =
            |limit: Duration, wish: Option<Duration>| wish.map_or(limit, |wish| wish.min(limit));

        // The connector's own timeout produces a more specific error, so it should expire first.
        let connect = grant.limits.connect + Duration::from_secs(1);

        Self {
            connect: least(connect, options.connect),
            first_byte: least(grant.limits.first_byte, options.first_byte),
            between: least(grant.limits.between_bytes, options.between_bytes),
        }
    }
}

impl Wire {
    /// Creates a client with its own connections: HTTP/1.1, no redirects, no proxy except that of
    /// the rule. `exact` is true if the rule names its host.
    pub(super) fn new(connector: Connector, idle: usize, exact: bool) -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(if exact { IDLE } else { IDLE_BELOW })
            .pool_max_idle_per_host(idle)
            .http1_max_buf_size(MAX_HEAD)
            .http1_max_headers(MAX_FIELDS);
        Self(builder.build(connector))
    }

    /// Sends a request and waits for the head of the answer, unless `revoked` ends before there is a
    /// connection.
    ///
    /// # Errors
    /// Why there is no answer, and whether the cause may be that an idle connection was closed.
    pub(super) async fn exchange(
        &self,
        mut request: Request<Upload>,
        progress: &Arc<Progress>,
        times: Times,
        revoked: impl Future<Output = Refusal>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let started = Instant::now();
        let mut captured = capture_connection(&mut request);
        let mut answer = self.0.request(request);

        // The connector applies the rule's timeout itself and returns a more specific error.
        let connecting = sleep_until(started + times.connect);
        let early = tokio::select! {
            biased;
            answer = &mut answer => Some(answer),
            _ = captured.wait_for_connection_metadata() => None,
            () = connecting => {
                let sentence = format!("no connection within {:?}", times.connect);
                return Err(Refusal::new(Code::ConnectionTimeout, Cause::Connect, sentence).into());
            }
            refusal = revoked => return Err(refusal.into()),
        };

        let connected = Instant::now();
        let head = attached(&captured).remove::<HeadLimit>();
        // Before its answer, a server may send any number of informational ones (1xx).
        if early.is_none() {
            head.iter().for_each(HeadLimit::start);
        }

        let answer = match early {
            Some(answer) => answer,
            None => loop {
                let (due, _) = progress.due(connected, times.first_byte, times.between);
                tokio::select! {
                    biased;
                    answer = &mut answer => break answer,
                    () = sleep_until(due) => {
                        // The body may have made progress in the meantime.
                        let (due, code) = progress.due(connected, times.first_byte, times.between);
                        if due <= Instant::now() {
                            return Err(progress.failure().unwrap_or_else(|| silent(code, times)).into());
                        }
                    }
                }
            },
        };

        head.iter().for_each(HeadLimit::end);
        let answer = answer.map_err(|error| {
            let refusal = progress.failure().unwrap_or_else(|| failure(&error));
            // A server may close an idle connection just when the next request is sent.
            let closed = matches!(
                refusal.code(),
                Code::HttpResponseIncomplete | Code::ConnectionTerminated
            );
            let used_before = attached(&captured)
                .get::<Opened>()
                .is_some_and(|opened| opened.0 < started);
            Unanswered {
                refusal,
                stale: closed && used_before,
            }
        })?;

        if answer.status() == http::StatusCode::SWITCHING_PROTOCOLS {
            let sentence = "the cloud tried to switch protocols";
            return Err(Refusal::new(Code::HttpProtocolError, Cause::Protocol, sentence).into());
        }

        // The answer is still read, but the connection is not used for another request.
        let old = |opened: &Opened| opened.0.elapsed() > OLDEST;
        if answer.extensions().get::<Opened>().is_some_and(old)
            && let Some(connection) = captured.connection_metadata().as_ref()
        {
            connection.poison();
        }

        Ok(answer)
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) refusal: Refusal,
    /// The server closed an idle connection, which is normal. A retry on another connection may
    /// succeed.
    pub(super) stale: bool,
}

impl From<Refusal> for Unanswered {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            stale: false,
        }
    }
}

fn silent(code: Code, times: Times) -> Refusal {
    match code {
        Code::ConnectionWriteTimeout => {
            let sentence = format!(
                "no part of the request body could be sent for {:?}",
                times.between
            );
            // The plugin may have stopped writing or the cloud stopped reading; this cannot be
            // distinguished here.
            Refusal::new(code, Cause::Guest, sentence)
        }
        _ => Refusal::new(
            code,
            Cause::Timeout,
            format!("no answer within {:?}", times.first_byte),
        ),
    }
}

/// Returns the failure of the connection from the chain of errors.
fn failure(error: &hyper_util::client::legacy::Error) -> Refusal {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(refusal) = inner.downcast_ref::<Refusal>() {
            return refusal.clone();
        }
        if let Some(error) = inner.downcast_ref::<hyper::Error>() {
            return hyper_failure(error);
        }
        cause = inner.source();
    }

    Refusal::new(
        Code::ConnectionTerminated,
        Cause::Protocol,
        format!("no answer: {error}"),
    )
}

fn hyper_failure(error: &hyper::Error) -> Refusal {
    // The connection itself has ended the exchange.
    let inner = error
        .source()
        .and_then(|it| it.downcast_ref::<io::Error>())
        .and_then(io::Error::get_ref)
        .and_then(|it| it.downcast_ref::<Refusal>());
    if let Some(refusal) = inner {
        return refusal.clone();
    }

    let code = match error {
        it if it.is_parse_too_large() => {
            let sentence = format!(
                "the answer has more than {MAX_FIELDS} headers, or more than {} KiB of them",
                MAX_HEAD / 1024
            );
            return Refusal::new(
                Code::HttpResponseHeaderSectionSize,
                Cause::Response,
                sentence,
            );
        }
        it if it.is_incomplete_message() => Code::HttpResponseIncomplete,
        it if it.is_parse() => Code::HttpProtocolError,
        _ => Code::ConnectionTerminated,
    };

    Refusal::new(code, Cause::Protocol, format!("no answer: {error}"))
}
