//! The body of a request on its way to the server. Its bytes are counted in `Progress`, which
//! `observe/meter.rs` reports.

use std::{
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use crate::{
    limits::{
        body_memory::{BodyMemory, Reservation},
        instance::Permits,
    },
    request_error::{Cause, Code, RequestError},
};

/// Any error of a plugin's body.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a plugin's request.
pub(crate) type GuestBody = UnsyncBoxBody<Bytes, BoxError>;

/// Maximum size of a body that is buffered to inspect, sign or resend it.
pub(crate) const MAX_BUFFERED: u64 = 1 << 20;

/// Reads a body completely.
///
/// # Errors
/// [`Code::HttpRequestBodySize`] if it exceeds `most`; other codes if it is aborted or arrives too
/// slowly.
pub(crate) async fn collect(
    mut body: GuestBody,
    most: u64,
    between: Duration,
    deadline: Instant,
) -> Result<Bytes, RequestError> {
    let mut all = BytesMut::new();
    loop {
        let due = deadline.min(Instant::now() + between);
        let Ok(frame) = timeout_at(due, body.frame()).await else {
            return Err(slow());
        };

        match frame {
            None => return Ok(all.freeze()),
            Some(Err(_)) => return Err(broken_off()),
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    if all.len() as u64 + data.len() as u64 > most {
                        return Err(too_long(most));
                    }
                    all.extend_from_slice(data);
                }
            }
        }
    }
}

pub(crate) fn too_long(most: u64) -> RequestError {
    let sentence = format!("the request body exceeds {most} bytes");
    RequestError::new(Code::HttpRequestBodySize, Cause::RequestBody, sentence)
}

fn broken_off() -> RequestError {
    RequestError::new(
        Code::ConnectionTerminated,
        Cause::Guest,
        "the plugin aborted the request body",
    )
}

fn longer() -> RequestError {
    let sentence = "the request body is longer than its Content-Length";
    RequestError::new(Code::HttpRequestBodySize, Cause::Guest, sentence)
}

fn slow() -> RequestError {
    RequestError::new(
        Code::ConnectionWriteTimeout,
        Cause::Guest,
        "the plugin wrote the request body too slowly",
    )
}

/// The progress of a body, for the code that waits for the answer.
#[derive(Debug)]
pub(crate) struct Progress {
    start: Instant,
    /// Milliseconds since `start`.
    last: AtomicU64,
    done: AtomicBool,
    sent: Arc<AtomicU64>,
    failure: OnceLock<RequestError>,
    kept: Mutex<Option<Kept>>,
}

/// The bytes of a body that were sent, while they are small enough to be buffered.
#[derive(Debug)]
struct Kept {
    bytes: BytesMut,
    memory: BodyMemory,
    reservation: Reservation,
}

impl Kept {
    fn new(memory: BodyMemory) -> Option<Self> {
        let reservation = memory.try_reserve(0)?;
        Some(Self {
            bytes: BytesMut::new(),
            memory,
            reservation,
        })
    }

    /// Appends data if memory is free at the moment. It does not wait for memory, since the body
    /// may not have to be sent again.
    fn with(mut self, data: &Bytes) -> Option<Self> {
        let more = data.len() as u64;
        if self.bytes.len() as u64 + more > MAX_BUFFERED {
            return None;
        }

        self.reservation.merge(self.memory.try_reserve(more)?);
        self.bytes.extend_from_slice(data);
        Some(self)
    }
}

impl Progress {
    /// Creates the progress of a body. `keep` is the memory for buffering the body, if it may have
    /// to be sent again.
    pub(crate) fn new(sent: Arc<AtomicU64>, keep: Option<BodyMemory>) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            last: AtomicU64::default(),
            done: AtomicBool::default(),
            sent,
            failure: OnceLock::new(),
            kept: Mutex::new(keep.and_then(Kept::new)),
        })
    }

    /// Returns why the body failed, if it did.
    pub(crate) fn failure(&self) -> Option<RequestError> {
        self.failure.get().cloned()
    }

    /// Returns the deadline for the next progress: more of the body, or the first byte of the
    /// answer after the end of the body.
    pub(crate) fn due(
        &self,
        connected: Instant,
        first_byte: Duration,
        between: Duration,
    ) -> (Instant, Code) {
        // The time that a request waits for a connection does not count.
        let last =
            (self.start + Duration::from_millis(self.last.load(Ordering::Relaxed))).max(connected);

        if self.done.load(Ordering::Relaxed) {
            (last + first_byte, Code::ConnectionReadTimeout)
        } else {
            (last + between, Code::ConnectionWriteTimeout)
        }
    }

    /// Returns the complete body, if it was sent and buffered.
    pub(crate) fn whole(&self) -> Option<Bytes> {
        if !self.done.load(Ordering::Relaxed) {
            return None;
        }

        self.kept
            .lock()
            .take()
            .map(|kept| kept.reservation.attach_to(kept.bytes.freeze()))
    }

    fn moved(&self, data: &Bytes) {
        self.sent.fetch_add(data.len() as u64, Ordering::Relaxed);

        let mut kept = self.kept.lock();
        *kept = kept.take().and_then(|kept| kept.with(data));
        self.touch();
    }

    fn touch(&self) {
        let millis = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(millis, Ordering::Relaxed);
    }

    fn end(&self) {
        self.touch();
        self.done.store(true, Ordering::Relaxed);
    }

    fn fail(&self, error: RequestError) -> BoxError {
        // Only the first reason is reported.
        Box::new(self.failure.get_or_init(|| error).clone())
    }
}

/// A body that is being sent. It is limited and measured, and ends at the deadline of the request,
/// whatever the plugin does.
pub(crate) struct Upload {
    form: Form,
    progress: Arc<Progress>,
    _permits: Arc<Permits>,
}

enum Form {
    Whole(Option<Bytes>),
    Streamed(Box<Streamed>),
}

struct Streamed {
    body: GuestBody,
    most: u64,
    left: u64,
    /// Number of remaining bytes, if the length is known. After these, the plugin is not asked for
    /// more.
    rest: Option<u64>,
    alarm: Pin<Box<Sleep>>,
}

impl Upload {
    /// Creates a body that is completely available.
    pub(crate) fn whole(body: Bytes, progress: Arc<Progress>, permits: Arc<Permits>) -> Self {
        if body.is_empty() {
            progress.end();
        }
        Self {
            form: Form::Whole((!body.is_empty()).then_some(body)),
            progress,
            _permits: permits,
        }
    }

    /// Creates a body that the plugin is still writing, with its length if the plugin declared one.
    pub(crate) fn streamed(
        body: GuestBody,
        length: Option<u64>,
        most: u64,
        deadline: Instant,
        progress: Arc<Progress>,
        permits: Arc<Permits>,
    ) -> Self {
        // hyper would send an empty body of unknown length with `Transfer-Encoding: chunked`.
        if body.is_end_stream() {
            return Self::whole(Bytes::new(), progress, permits);
        }

        let rest = body.size_hint().exact().or(length);
        let streamed = Streamed {
            body,
            most,
            left: most,
            rest,
            alarm: Box::pin(sleep_until(deadline)),
        };

        Self {
            form: Form::Streamed(Box::new(streamed)),
            progress,
            _permits: permits,
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let progress = &this.progress;

        let streamed = match &mut this.form {
            Form::Whole(body) => {
                let data = body.take();
                if let Some(data) = &data {
                    progress.moved(data);
                }
                progress.end();
                return Poll::Ready(data.map(|data| Ok(Frame::data(data))));
            }
            Form::Streamed(streamed) => streamed,
        };

        if streamed.alarm.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(progress.fail(slow()))));
        }

        loop {
            match ready!(Pin::new(&mut streamed.body).poll_frame(cx)) {
                None if streamed.rest.is_some_and(|rest| rest > 0) => {
                    return Poll::Ready(Some(Err(progress.fail(broken_off()))));
                }
                None => {
                    progress.end();
                    return Poll::Ready(None);
                }
                Some(Err(_)) => return Poll::Ready(Some(Err(progress.fail(broken_off())))),
                Some(Ok(frame)) => {
                    // Trailers of requests are not sent.
                    let Ok(data) = frame.into_data() else {
                        continue;
                    };

                    let Some(left) = streamed.left.checked_sub(data.len() as u64) else {
                        return Poll::Ready(Some(Err(progress.fail(too_long(streamed.most)))));
                    };
                    streamed.left = left;

                    let rest = streamed
                        .rest
                        .map(|rest| rest.checked_sub(data.len() as u64));
                    if rest == Some(None) {
                        return Poll::Ready(Some(Err(progress.fail(longer()))));
                    }
                    streamed.rest = rest.flatten();

                    progress.moved(&data);
                    // hyper does not ask for more than the announced length, so the end itself may
                    // not be polled.
                    if streamed.rest == Some(0) || streamed.body.is_end_stream() {
                        progress.end();
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.form {
            Form::Whole(body) => body.is_none(),
            Form::Streamed(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.form {
            Form::Whole(body) => {
                SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64))
            }
            Form::Streamed(streamed) => streamed.body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skydock_cloud::CallKind;

    use crate::limits::{
        body_memory::{MOST, PART, shares},
        shares::Kinds,
    };

    #[test]
    fn a_body_without_memory_is_not_kept() {
        let memory = BodyMemory::of(&shares(Kinds::ALL), CallKind::Nodes);
        let common = MOST - CallKind::ALL.len() * PART;
        let _common = memory.try_reserve(common as u64).unwrap();
        let keep = || {
            let progress = Progress::new(Arc::default(), Some(memory.clone()));
            progress.moved(&Bytes::from_static(b"hel"));
            progress.moved(&Bytes::from_static(b"lo"));
            progress.end();
            progress.whole()
        };

        let kept = keep();
        assert_eq!(kept.as_deref(), Some(b"hello".as_slice()));
        let _others = memory.try_reserve(PART as u64 - 9).unwrap();
        assert_eq!(keep(), None, "there are four left");
        drop(kept);
        assert_eq!(keep().as_deref(), Some(b"hello".as_slice()));
    }
}
