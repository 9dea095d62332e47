//! The body of an answer on its way to the plugin. `observe/meter.rs` counts its bytes, and reports
//! the request when the body ends.

use std::{
    error::Error as _,
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use skydock_credentials::AnswerMask;
use tokio::{
    task::AbortHandle,
    time::{Instant, Sleep, sleep_until},
};

use crate::{
    limits::instance::Permits,
    observe::meter::RequestMeter,
    request_error::{Cause, Code, RequestError},
};

/// The body of an answer. Its size and time are limited and measured. It holds the permits of the
/// request until it is read or dropped, or until the deadline of the request.
pub struct ResponseBody {
    form: Form,
    meter: Option<Box<RequestMeter>>,
}

enum Form {
    Whole(Option<Bytes>),
    Streamed(Streamed),
}

struct Streamed {
    held: Held,
    reaper: AbortHandle,
    most: u64,
    left: u64,
    between: Duration,
    deadline: Instant,
    /// Set while no data arrives.
    alarm: Option<Pin<Box<Sleep>>>,
    mask: AnswerMask,
}

/// Released at the deadline, even if the plugin does not read the body any more.
type Held = Arc<Mutex<Option<Connection>>>;

/// A connection on which the body arrives.
struct Connection {
    body: Incoming,
    _permits: Arc<Permits>,
}

/// Limits for the body of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) most: u64,
    pub(crate) between: Duration,
    pub(crate) deadline: Instant,
}

impl ResponseBody {
    /// Creates a body that is completely available.
    pub(crate) fn whole(body: Bytes, mut meter: Box<RequestMeter>) -> Self {
        meter.received = body.len() as u64;
        Self {
            form: Form::Whole((!body.is_empty()).then_some(body)),
            meter: Some(meter),
        }
    }

    /// Creates a body that is still being received.
    pub(crate) fn streamed(
        body: Incoming,
        bounds: Bounds,
        permits: Arc<Permits>,
        mask: AnswerMask,
        meter: Box<RequestMeter>,
    ) -> Self {
        if body.is_end_stream() {
            return Self::whole(Bytes::new(), meter);
        }
        let held: Held = Arc::new(Mutex::new(Some(Connection {
            body,
            _permits: permits,
        })));
        let reaper = tokio::spawn({
            let held = held.clone();
            async move {
                sleep_until(bounds.deadline).await;
                drop(held.lock().take());
            }
        });

        let Bounds {
            most,
            between,
            deadline,
        } = bounds;
        let reaper = reaper.abort_handle();

        let streamed = Streamed {
            held,
            reaper,
            most,
            left: most,
            between,
            deadline,
            alarm: None,
            mask,
        };

        Self {
            form: Form::Streamed(streamed),
            meter: Some(meter),
        }
    }

    fn fail(&mut self, error: RequestError) -> Poll<Option<Result<Frame<Bytes>, RequestError>>> {
        if let Some(mut meter) = self.meter.take() {
            meter.failed(&error);
        }
        self.form = Form::Whole(None);
        Poll::Ready(Some(Err(error)))
    }
}

impl Streamed {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, RequestError>>> {
        loop {
            let polled = match self.held.lock().as_mut() {
                Some(connection) => Pin::new(&mut connection.body).poll_frame(cx),
                None => return Poll::Ready(Some(Err(deadline_exceeded()))),
            };

            match polled {
                Poll::Ready(None) => {
                    let rest = self.mask.rest();
                    return Poll::Ready((!rest.is_empty()).then_some(Ok(rest)));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(broken(&error)))),
                Poll::Ready(Some(Ok(frame))) => {
                    self.alarm = None;
                    // Trailers are not passed on: they might contain secrets.
                    let Ok(data) = frame.into_data() else {
                        continue;
                    };

                    let Some(left) = self.left.checked_sub(data.len() as u64) else {
                        return Poll::Ready(Some(Err(too_large(self.most))));
                    };
                    self.left = left;

                    match self.mask.pass(data) {
                        // All of it may belong to a secret that is not complete yet.
                        Ok(sure) if sure.is_empty() => continue,
                        sure => return Poll::Ready(Some(sure.map_err(RequestError::from))),
                    }
                }
                Poll::Pending => {
                    let due = || self.deadline.min(Instant::now() + self.between);
                    let alarm = self
                        .alarm
                        .get_or_insert_with(|| Box::pin(sleep_until(due())));
                    if alarm.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }

                    let error = if Instant::now() >= self.deadline {
                        deadline_exceeded()
                    } else {
                        silent(self.between)
                    };
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        self.reaper.abort();
        // The reaper shares what is held until its cancellation takes effect, so it is released
        // here.
        drop(self.held.lock().take());
    }
}

/// Returns the error for a body that exceeds the limit.
pub(crate) fn too_large(most: u64) -> RequestError {
    RequestError::new(
        Code::HttpResponseBodySize,
        Cause::Response,
        format!("the body of the answer exceeds {most} bytes"),
    )
}

/// Returns the error for a request that has exceeded its deadline.
pub(crate) fn deadline_exceeded() -> RequestError {
    RequestError::new(
        Code::HttpResponseTimeout,
        Cause::Timeout,
        "the request exceeded its deadline or that of its call",
    )
}

fn silent(between: Duration) -> RequestError {
    let sentence = format!("no part of the answer's body received for {between:?}");
    RequestError::new(Code::ConnectionReadTimeout, Cause::Timeout, sentence)
}

fn broken(error: &hyper::Error) -> RequestError {
    let of_io = error
        .source()
        .and_then(|cause| cause.downcast_ref::<io::Error>());
    let ended = error.is_incomplete_message() || of_io.is_some();

    let code = if ended {
        Code::HttpResponseIncomplete
    } else {
        Code::HttpProtocolError
    };

    RequestError::new(
        code,
        Cause::Protocol,
        format!("the body of the answer is incomplete: {error}"),
    )
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = RequestError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestError>>> {
        let this = self.get_mut();
        let polled = match &mut this.form {
            Form::Whole(body) => return Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Form::Streamed(streamed) => streamed.poll(cx),
        };

        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(data))) => {
                if let Some(meter) = &mut this.meter {
                    meter.received += data.len() as u64;
                }
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Poll::Ready(Some(Err(error))) => this.fail(error),
            Poll::Ready(None) => {
                this.form = Form::Whole(None);
                this.meter = None;
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.form, Form::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.form {
            Form::Whole(body) => {
                SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64))
            }
            Form::Streamed(streamed) => {
                let held = streamed.held.lock();
                // What the mask holds back is still to come.
                let coming = held
                    .as_ref()
                    .and_then(|connection| connection.body.size_hint().exact());
                coming.map_or_else(SizeHint::default, |coming| {
                    SizeHint::with_exact(coming + streamed.mask.held())
                })
            }
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}
