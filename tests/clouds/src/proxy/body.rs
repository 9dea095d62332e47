//! Bodies of answers, complete or truncated.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use tokio::time::Sleep;

/// The body of an answer.
pub(super) type AnswerBody = UnsyncBoxBody<Bytes, io::Error>;

/// Returns a complete body.
pub(super) fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes)
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

/// Returns a body that is truncated after this number of bytes, after which the connection is
/// closed.
pub(super) fn cut(bytes: &Bytes, after: usize) -> AnswerBody {
    let sent = bytes.slice(..after.min(bytes.len()));
    Cut {
        first: Some(sent),
        whole: bytes.len(),
        pause: None,
    }
    .boxed_unsync()
}

struct Cut {
    first: Option<Bytes>,
    whole: usize,
    /// A delay so that the written bytes are sent before the connection is closed.
    pause: Option<Pin<Box<Sleep>>>,
}

impl Body for Cut {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let pause = self
            .pause
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(Duration::from_millis(20))));
        ready!(pause.as_mut().poll(cx));
        Poll::Ready(Some(Err(io::Error::other("cut off on purpose"))))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        // The length announced in the header.
        http_body::SizeHint::with_exact(u64::try_from(self.whole).unwrap_or(u64::MAX))
    }
}
