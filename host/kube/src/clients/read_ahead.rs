//! Connections that read ahead.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use tokio::{io::BufReader, net::TcpStream};
use tower::util::MapResponse;

/// Maximum bytes that are read at once: an event of a watch with the 20 KiB of a typical kubelet's
/// node, and two TLS records.
const AHEAD: usize = 32 << 10;

/// Connects to a server; the connections read ahead.
pub(super) type ReadAheadConnector =
    MapResponse<HttpConnector, fn(TokioIo<TcpStream>) -> ReadAhead>;

/// Returns a connector whose connections read ahead.
pub(super) fn read_ahead(tcp: HttpConnector) -> ReadAheadConnector {
    let new: fn(TokioIo<TcpStream>) -> ReadAhead = ReadAhead::new;
    MapResponse::new(tcp, new)
}

/// A connection that reads all bytes that have arrived. rustls asks for 4 KiB at a time, which would
/// be a system call each, five for one record.
pub(super) struct ReadAhead(TokioIo<BufReader<TcpStream>>);

impl ReadAhead {
    fn new(tcp: TokioIo<TcpStream>) -> Self {
        Self(TokioIo::new(BufReader::with_capacity(
            AHEAD,
            tcp.into_inner(),
        )))
    }
}

impl Connection for ReadAhead {
    fn connected(&self) -> Connected {
        self.0.inner().get_ref().connected()
    }
}

impl Read for ReadAhead {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for ReadAhead {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, bytes)
    }
}

#[cfg(test)]
mod tests {
    use http::Uri;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        task::yield_now,
    };
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn all_that_has_arrived_is_read_at_once_and_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Uri = format!("http://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let (connected, accepted) = tokio::join!(
            read_ahead(HttpConnector::new()).oneshot(url),
            listener.accept()
        );
        let mut stream = TokioIo::new(connected.unwrap());
        let (mut server, _) = accepted.unwrap();

        let sent: Vec<u8> = (0..=255).cycle().take(20_000).collect();
        server.write_all(&sent).await.unwrap();
        let mut arrived = vec![0; sent.len()];
        while stream
            .inner()
            .0
            .inner()
            .get_ref()
            .peek(&mut arrived)
            .await
            .unwrap()
            < sent.len()
        {
            yield_now().await;
        }

        let mut read = vec![0; 10];
        stream.read_exact(&mut read).await.unwrap();
        assert_eq!(stream.inner().0.inner().buffer().len(), 19_990);

        server.write_all(&sent).await.unwrap();
        drop(server);
        stream.read_to_end(&mut read).await.unwrap();
        assert!(read == [sent.as_slice(), &sent].concat());
    }
}
