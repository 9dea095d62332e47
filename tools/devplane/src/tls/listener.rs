//! Accepts connections with TLS. Handshakes have a task and a time limit each, so that a client
//! that sends nothing delays nobody.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::serve::Listener;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::status::{Reason, StatusError};

/// Time limit of a handshake, as in Go's `http.Transport`.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Limit of what is read from a client that does not use TLS, in bytes.
const PLAIN: u64 = 64 * 1024;

/// A listener whose connections have completed the handshake. When it is dropped, handshakes in
/// progress end.
pub(crate) struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
    handshakes: JoinSet<Option<(TlsStream<TcpStream>, SocketAddr)>>,
}

impl TlsListener {
    pub(crate) fn new(tcp: TcpListener, config: Arc<ServerConfig>) -> Self {
        Self {
            tcp,
            acceptor: config.into(),
            handshakes: JoinSet::new(),
        }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            tokio::select! {
                (stream, peer) = Listener::accept(&mut self.tcp) => {
                    self.handshakes.spawn(connect(self.acceptor.clone(), stream, peer));
                }
                Some(ended) = self.handshakes.join_next() => {
                    if let Ok(Some(connection)) = ended {
                        return connection;
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// Returns the connection if the handshake succeeds in time.
async fn connect(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    peer: SocketAddr,
) -> Option<(TlsStream<TcpStream>, SocketAddr)> {
    let failure = match timeout(HANDSHAKE, handshake(acceptor, stream)).await {
        Ok(Ok(stream)) => return Some((stream, peer)),
        Ok(Err(error)) => error,
        Err(elapsed) => elapsed.into(),
    };

    tracing::debug!(%peer, error = %failure, "TLS handshake failed");
    None
}

async fn handshake(
    acceptor: TlsAcceptor,
    mut stream: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let mut first = [0];
    stream.peek(&mut first).await?;

    // A method starts with a letter, and a TLS handshake with the byte 22.
    if first.iter().all(u8::is_ascii_alphabetic) {
        reject(&mut stream).await?;
        return Err(io::Error::other("the client uses plain HTTP"));
    }
    acceptor.accept(stream).await
}

/// Answers a request that was sent without TLS.
async fn reject(stream: &mut TcpStream) -> io::Result<()> {
    let error = StatusError::new(
        Reason::BadRequest,
        "this server uses HTTPS, and the request was sent over HTTP",
    );
    let body = error.status().to_string();
    let head = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );

    stream.write_all((head + &body).as_bytes()).await?;
    stream.shutdown().await?;

    // A connection that is closed with unread bytes is reset, and the client may lose the answer.
    tokio::io::copy(&mut stream.take(PLAIN), &mut tokio::io::sink()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::tls::Certificate;

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_disconnected_after_a_while() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let before = Instant::now();
        let config = Certificate::create(peer.ip()).unwrap().config;
        assert!(connect(config.into(), stream, peer).await.is_none());
        assert_eq!(before.elapsed().as_secs(), HANDSHAKE.as_secs());
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }
}
