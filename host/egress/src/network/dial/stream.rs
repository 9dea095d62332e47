//! A connection, with or without TLS.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use http::Extensions;
use hyper_util::client::legacy::connect::{CaptureConnection, Connected, Connection};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::OwnedSemaphorePermit,
    time::Instant,
};
use tokio_rustls::client::TlsStream;

use crate::request_error::{Cause, Code, RequestError};

/// Maximum number of bytes that a server may send until the head of its answer is complete. Before
/// it, there may be any number of informational answers (1xx), and after it, a part of the body is
/// read with it.
const MAX_BEFORE_ANSWER: u64 = 256 * 1024;

/// When the connection was opened. It is attached to every answer on this connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened(pub(crate) Instant);

/// Returns what is attached to a connection: [`Opened`] and [`HeadLimit`].
pub(crate) fn attached(captured: &CaptureConnection) -> Extensions {
    let mut extensions = Extensions::new();
    if let Some(connection) = captured.connection_metadata().as_ref() {
        connection.get_extras(&mut extensions);
    }
    extensions
}

/// How many bytes a connection may receive until the head of an answer is complete. Clones refer to
/// the same connection.
#[derive(Clone, Debug)]
pub(crate) struct HeadLimit(Arc<AtomicU64>);

impl HeadLimit {
    /// A request is sent: what is received is counted.
    pub(crate) fn start(&self) {
        self.0.store(MAX_BEFORE_ANSWER, Ordering::Relaxed);
    }

    /// The head of the answer is complete.
    pub(crate) fn end(&self) {
        self.0.store(u64::MAX, Ordering::Relaxed);
    }

    fn receive(&self, bytes: usize) -> io::Result<()> {
        let left = self.0.load(Ordering::Relaxed);
        // No request waits for the head of an answer.
        if left == u64::MAX {
            return Ok(());
        }

        let Some(left) = left.checked_sub(bytes as u64) else {
            let sentence = format!(
                "the answer does not begin within {} KiB: the server sent too many informational answers (1xx)",
                MAX_BEFORE_ANSWER / 1024
            );
            return Err(io::Error::other(RequestError::new(
                Code::HttpResponseHeaderSectionSize,
                Cause::Response,
                sentence,
            )));
        };

        self.0.store(left, Ordering::Relaxed);
        Ok(())
    }
}

impl Default for HeadLimit {
    /// Returns the limit of a connection without a request.
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Stream {
    io: Io,
    opened: Opened,
    head: HeadLimit,
    _permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(super) fn plain(tcp: TcpStream, permit: OwnedSemaphorePermit) -> Self {
        Self {
            io: Io::Plain(tcp),
            opened: Opened(Instant::now()),
            head: HeadLimit::default(),
            _permit: permit,
        }
    }

    pub(super) fn tls(tls: TlsStream<TcpStream>, permit: OwnedSemaphorePermit) -> Self {
        Self {
            io: Io::Tls(Box::new(tls)),
            opened: Opened(Instant::now()),
            head: HeadLimit::default(),
            _permit: permit,
        }
    }

    fn io(self: Pin<&mut Self>) -> &mut Io {
        &mut self.get_mut().io
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new().extra(self.opened).extra(self.head.clone())
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let stream = self.get_mut();

        let read = match &mut stream.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Io::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        };

        std::task::ready!(read)?;
        Poll::Ready(stream.head.receive(buf.filled().len() - before))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.io() {
            Io::Plain(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Io::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.io() {
            Io::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Io::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.io() {
            Io::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Io::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.io() {
            Io::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, bufs),
            Io::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Plain(tcp) => tcp.is_write_vectored(),
            Io::Tls(tls) => tls.is_write_vectored(),
        }
    }
}
