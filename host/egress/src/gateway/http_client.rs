//! The HTTP client of a rule: one exchange at a time on a connection, without redirects.

use std::{error::Error as _, io, sync::Arc, time::Duration};

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{
        self, Client, ResponseFuture,
        connect::{CaptureConnection, capture_connection},
    },
    rt::{TokioExecutor, TokioTimer},
};
use tokio::time::{Instant, sleep_until};

use super::Options;
use crate::{
    body::upload::{Progress, Upload},
    network::dial::{Connector, HeadLimit, Opened, attached},
    request_error::{Cause, Code, RequestError},
    rules::compiled::CompiledRule,
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
pub(super) struct HttpClient(Client<Connector, Upload>);

/// Timeouts for the parts of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timeouts {
    pub(super) connect: Duration,
    pub(super) first_byte: Duration,
    pub(super) between: Duration,
}

impl Timeouts {
    /// Returns the timeouts of a rule, or the shorter ones that the plugin requests.
    pub(super) fn of(rule: &CompiledRule, options: Options) -> Self {
        let least =
            |limit: Duration, wish: Option<Duration>| wish.map_or(limit, |wish| wish.min(limit));

        // The connector's own timeout produces a more specific error, so it should expire first.
        let connect = rule.limits.connect + Duration::from_secs(1);

        Self {
            connect: least(connect, options.connect),
            first_byte: least(rule.limits.first_byte, options.first_byte),
            between: least(rule.limits.between_bytes, options.between_bytes),
        }
    }
}

impl HttpClient {
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
        timeouts: Timeouts,
        revoked: impl Future<Output = RequestError>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let started = Instant::now();
        let mut connection = capture_connection(&mut request);
        let mut answer = self.0.request(request);

        // The connector applies the rule's timeout itself and returns a more specific error.
        let connecting = sleep_until(started + timeouts.connect);
        let early = tokio::select! {
            biased;
            answer = &mut answer => Some(answer),
            _ = connection.wait_for_connection_metadata() => None,
            () = connecting => return Err(no_connection(timeouts).into()),
            error = revoked => return Err(error.into()),
        };

        let connected = Instant::now();
        let head = attached(&connection).remove::<HeadLimit>();
        let answer = match early {
            Some(answer) => answer,
            None => {
                // Before its answer, a server may send any number of informational ones (1xx).
                head.iter().for_each(HeadLimit::start);
                wait_for_head(&mut answer, progress, connected, timeouts).await?
            }
        };
        head.iter().for_each(HeadLimit::end);

        let answer = answer.map_err(|error| unanswered(&error, progress, &connection, started))?;
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            let sentence = "the cloud tried to switch protocols";
            let error = RequestError::new(Code::HttpProtocolError, Cause::Protocol, sentence);
            return Err(error.into());
        }

        close_if_old(&answer, &connection);
        Ok(answer)
    }
}

/// Waits for the head of the answer, as long as the body of the request makes progress.
async fn wait_for_head(
    answer: &mut ResponseFuture,
    progress: &Progress,
    connected: Instant,
    timeouts: Timeouts,
) -> Result<Result<Response<Incoming>, legacy::Error>, RequestError> {
    let due = || progress.due(connected, timeouts.first_byte, timeouts.between);
    loop {
        let (at, _) = due();
        tokio::select! {
            biased;
            answer = &mut *answer => return Ok(answer),
            () = sleep_until(at) => {
                // The body may have made progress in the meantime.
                let (at, code) = due();
                if at <= Instant::now() {
                    return Err(progress.failure().unwrap_or_else(|| silent(code, timeouts)));
                }
            }
        }
    }
}

/// Returns why a request that was sent at this time has no answer.
fn unanswered(
    error: &legacy::Error,
    progress: &Progress,
    connection: &CaptureConnection,
    started: Instant,
) -> Unanswered {
    let error = progress.failure().unwrap_or_else(|| failure(error));

    // A server may close an idle connection just when the next request is sent.
    let closed = matches!(
        error.code(),
        Code::HttpResponseIncomplete | Code::ConnectionTerminated
    );
    let used_before = attached(connection)
        .get::<Opened>()
        .is_some_and(|opened| opened.0 < started);

    Unanswered {
        error,
        stale: closed && used_before,
    }
}

/// Keeps an old connection from being used for another request. Its answer is still read.
fn close_if_old(answer: &Response<Incoming>, connection: &CaptureConnection) {
    let old = |opened: &Opened| opened.0.elapsed() > OLDEST;
    if answer.extensions().get::<Opened>().is_some_and(old)
        && let Some(connection) = connection.connection_metadata().as_ref()
    {
        connection.poison();
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) error: RequestError,
    /// The server closed an idle connection, which is normal. A retry on another connection may
    /// succeed.
    pub(super) stale: bool,
}

impl From<RequestError> for Unanswered {
    fn from(error: RequestError) -> Self {
        Self {
            error,
            stale: false,
        }
    }
}

fn no_connection(timeouts: Timeouts) -> RequestError {
    let sentence = format!("no connection within {:?}", timeouts.connect);
    RequestError::new(Code::ConnectionTimeout, Cause::Connect, sentence)
}

fn silent(code: Code, timeouts: Timeouts) -> RequestError {
    match code {
        Code::ConnectionWriteTimeout => {
            let sentence = format!(
                "no part of the request body could be sent for {:?}",
                timeouts.between
            );
            // The plugin may have stopped writing or the cloud stopped reading; this cannot be
            // distinguished here.
            RequestError::new(code, Cause::Guest, sentence)
        }
        _ => RequestError::new(
            code,
            Cause::Timeout,
            format!("no answer within {:?}", timeouts.first_byte),
        ),
    }
}

/// Returns the failure of the connection from the chain of errors.
fn failure(error: &legacy::Error) -> RequestError {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref::<RequestError>() {
            return error.clone();
        }
        if let Some(error) = inner.downcast_ref::<hyper::Error>() {
            return hyper_failure(error);
        }
        cause = inner.source();
    }

    RequestError::new(
        Code::ConnectionTerminated,
        Cause::Protocol,
        format!("no answer: {error}"),
    )
}

fn hyper_failure(error: &hyper::Error) -> RequestError {
    // The connection itself has ended the exchange.
    let inner = error
        .source()
        .and_then(|it| it.downcast_ref::<io::Error>())
        .and_then(io::Error::get_ref)
        .and_then(|it| it.downcast_ref::<RequestError>());
    if let Some(error) = inner {
        return error.clone();
    }

    let code = match error {
        it if it.is_parse_too_large() => {
            let sentence = format!(
                "the answer has more than {MAX_FIELDS} headers, or more than {} KiB of them",
                MAX_HEAD / 1024
            );
            return RequestError::new(
                Code::HttpResponseHeaderSectionSize,
                Cause::Response,
                sentence,
            );
        }
        it if it.is_incomplete_message() => Code::HttpResponseIncomplete,
        it if it.is_parse() => Code::HttpProtocolError,
        _ => Code::ConnectionTerminated,
    };

    RequestError::new(code, Cause::Protocol, format!("no answer: {error}"))
}
