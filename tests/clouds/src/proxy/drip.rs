//! A connection whose answers can be sent byte by byte.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// The delay between two bytes of a connection. Zero means no delay.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace(Arc<AtomicU64>);

impl Pace {
    pub(super) fn set(&self, pace: Duration) {
        self.0.store(
            u64::try_from(pace.as_micros()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }

    fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// A connection with a [`Pace`].
#[derive(Debug)]
pub(super) struct Drip {
    stream: TcpStream,
    pace: Pace,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Drip {
    pub(super) fn new(stream: TcpStream, pace: Pace) -> Self {
        Self {
            stream,
            pace,
            pause: None,
        }
    }
}

impl AsyncRead for Drip {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Drip {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let pace = self.pace.get();
        if pace.is_zero() {
            return Pin::new(&mut self.stream).poll_write(cx, bytes);
        }
        let pause = self
            .pause
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(pace)));
        if pause.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.pause = None;
        Pin::new(&mut self.stream).poll_write(cx, bytes.get(..1).unwrap_or(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
