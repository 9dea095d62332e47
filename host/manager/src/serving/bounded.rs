//! A listener that limits the number and duration of connections. Each connection uses a file
//! descriptor, and without free file descriptors the process can neither renew its Lease nor read a
//! plugin.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::serve::Listener;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};

/// A listener that accepts a limited number of concurrent connections, and closes each after a
/// maximum duration.
pub(super) struct Bounded {
    listener: TcpListener,
    room: Arc<Semaphore>,
    longest: Duration,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener, connections: usize, longest: Duration) -> Self {
        Self {
            listener,
            room: Arc::new(Semaphore::new(connections)),
            longest,
        }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // The semaphore is never closed. Further connections wait in the kernel.
        let room = Arc::clone(&self.room).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;

        (
            Connection {
                stream,
                end: Box::pin(sleep(self.longest)),
                _room: room,
            },
            address,
        )
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection with a deadline.
pub(super) struct Connection {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// Polls the stream, unless the deadline has passed.
    fn within<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Ready(ready!(poll(Pin::new(&mut self.stream), context)))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.within(context, |stream, context| stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.within(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.within(context, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.within(context, AsyncWrite::poll_shutdown)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::{Router, routing::get};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        time::timeout,
    };

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn slow_connections_are_closed_to_make_room() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let bounded = Bounded::new(listener, 2, Duration::from_secs(1));
        let address = bounded.local_addr().unwrap();
        let room = Arc::clone(&bounded.room);
        let router = Router::new().route("/healthz", get(async || "ok"));
        let serving = tokio::spawn(async move { axum::serve(bounded, router).await });
        let mut slow = Vec::new();
        for _ in 0..20 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream
                .write_all(b"GET /healthz HTTP/1.1\r\nX: ")
                .await
                .unwrap();
            slow.push(stream);
        }
        let held = async {
            while room.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(MINUTE, held).await.unwrap();
        let mut stream = slow.pop().unwrap();
        stream
            .write_all(b"\r\nHost: x\r\nConnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        timeout(MINUTE, stream.read_to_string(&mut answer))
            .await
            .unwrap()
            .unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200"),
            "the last of all is served: {answer}"
        );
        for mut stream in slow {
            // Closed, or reset because it sent more data.
            let _ = timeout(MINUTE, stream.read_to_end(&mut Vec::new()))
                .await
                .unwrap();
        }
        serving.abort();
    }
}
