//! An answer's body on its way to the guest.

use std::{
    error::Error as _,
    fmt, io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::{
    task::AbortHandle,
    time::{Instant, Sleep, sleep_until},
};

use crate::{
    hosts::lock,
    instance::Permits,
    meter::Meter,
    refusal::{Cause, Code, Refusal},
};

/// The body of an answer: limited in size and in time, and measured. It holds the request's permits until it is read or dropped,
/// or the request's time is over.
pub struct ResponseBody {
    kind: Kind,
    meter: Option<Box<Meter>>,
}

enum Kind {
    Whole(Option<Bytes>),
    Streamed(Streamed),
}

struct Streamed {
    slot: Slot,
    reaper: AbortHandle,
    most: u64,
    left: u64,
    between: Duration,
    deadline: Instant,
    /// Set while nothing comes.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// What is given up at the deadline, though the guest may never look at it again.
type Slot = Arc<Mutex<Option<(Incoming, Arc<Permits>)>>>;

/// Limits on the body of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) most: u64,
    pub(crate) between: Duration,
    pub(crate) deadline: Instant,
}

impl ResponseBody {
    /// A body that is here.
    pub(crate) fn whole(body: Bytes, mut meter: Box<Meter>) -> Self {
        meter.received = body.len() as u64;
        Self { kind: Kind::Whole((!body.is_empty()).then_some(body)), meter: Some(meter) }
    }

    /// A body that is still coming.
    pub(crate) fn streamed(body: Incoming, bounds: Bounds, permits: Arc<Permits>, meter: Box<Meter>) -> Self {
        if body.is_end_stream() {
            return Self::whole(Bytes::new(), meter);
        }
        let slot: Slot = Arc::new(Mutex::new(Some((body, permits))));
        let reaper = tokio::spawn({
            let slot = slot.clone();
            async move {
                sleep_until(bounds.deadline).await;
                drop(lock(&slot).take());
            }
        });
        let Bounds { most, between, deadline } = bounds;
        let reaper = reaper.abort_handle();
        let streamed = Streamed { slot, reaper, most, left: most, between, deadline, alarm: None };
        Self { kind: Kind::Streamed(streamed), meter: Some(meter) }
    }

    fn fail(&mut self, refusal: Refusal) -> Poll<Option<Result<Frame<Bytes>, Refusal>>> {
        if let Some(mut meter) = self.meter.take() {
            meter.failed(&refusal);
        }
        self.kind = Kind::Whole(None);
        Poll::Ready(Some(Err(refusal)))
    }
}

impl Streamed {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Refusal>>> {
        loop {
            let polled = match lock(&self.slot).as_mut() {
                Some((body, _)) => Pin::new(body).poll_frame(cx),
                None => return Poll::Ready(Some(Err(over()))),
            };
            match polled {
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(broken(&error)))),
                Poll::Ready(Some(Ok(frame))) => {
                    self.alarm = None;
                    // Trailers are for nobody, and might hold what has to be masked.
                    let Ok(data) = frame.into_data() else { continue };
                    let Some(left) = self.left.checked_sub(data.len() as u64) else {
                        return Poll::Ready(Some(Err(too_large(self.most))));
                    };
                    self.left = left;
                    return Poll::Ready(Some(Ok(data)));
                }
                Poll::Pending => {
                    let due = || self.deadline.min(Instant::now() + self.between);
                    let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(due())));
                    if alarm.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    let refusal = if Instant::now() >= self.deadline { over() } else { silent(self.between) };
                    return Poll::Ready(Some(Err(refusal)));
                }
            }
        }
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        self.reaper.abort();
        // The reaper has a share in it until it gets to see that it is over.
        drop(lock(&self.slot).take());
    }
}

/// Answers longer than permitted.
pub(crate) fn too_large(most: u64) -> Refusal {
    Refusal::new(Code::HttpResponseBodySize, Cause::Response, format!("the answer's body is longer than {most} bytes"))
}

/// The time of the whole request is over.
pub(crate) fn over() -> Refusal {
    Refusal::new(
        Code::HttpResponseTimeout,
        Cause::Timeout,
        "the request took longer than it may, or than is left of its call",
    )
}

fn silent(between: Duration) -> Refusal {
    let sentence = format!("nothing of the answer's body came for {between:?}");
    Refusal::new(Code::ConnectionReadTimeout, Cause::Timeout, sentence)
}

fn broken(error: &hyper::Error) -> Refusal {
    let of_io = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    let ended = error.is_incomplete_message() || of_io.is_some();
    let code = if ended { Code::HttpResponseIncomplete } else { Code::HttpProtocolError };
    Refusal::new(code, Cause::Protocol, format!("the answer's body broke off: {error}"))
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Refusal;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Refusal>>> {
        let this = self.get_mut();
        let polled = match &mut this.kind {
            Kind::Whole(body) => return Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Kind::Streamed(streamed) => streamed.poll(cx),
        };
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(data))) => {
                if let Some(meter) = &mut this.meter {
                    meter.received += data.len() as u64;
                }
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Poll::Ready(Some(Err(refusal))) => this.fail(refusal),
            Poll::Ready(None) => {
                this.kind = Kind::Whole(None);
                this.meter = None;
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.kind, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Kind::Streamed(streamed) => {
                let slot = lock(&streamed.slot);
                slot.as_ref().map_or_else(SizeHint::default, |(body, _)| body.size_hint())
            }
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}
