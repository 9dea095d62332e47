//! Connections of clients, within limits: each uses a file descriptor, and without free file
//! descriptors the process can neither renew its Lease nor read a plugin.
//!
//! If there are too many, the oldest one without a request that was authorized is closed. So a probe
//! is answered also while somebody keeps as many open as they can. That somebody may be authorized,
//! too: every Pod of the cluster has some account, and one may be stolen.

use std::{
    collections::VecDeque,
    convert::Infallible,
    io::{self, ErrorKind},
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use axum::{Router, body::Body, response::Response};
use http::Request;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls_pki_types::CertificateDer;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpSocket, TcpStream},
    task::AbortHandle,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;

use crate::ServeError;

/// Maximum number of connections. There are only a few probes and scrapers.
const CONNECTIONS: usize = 64;
/// Maximum number of those that are kept because a request was authorized. The others are enough for
/// probes: one of them is only closed when as many newer ones have come while it was served.
const KEPT: usize = CONNECTIONS / 2;
/// Maximum duration of a connection. A scrape takes milliseconds, a question for the API server at
/// most ten seconds, and clients reconnect.
const LONGEST: Duration = Duration::from_secs(60);
/// Maximum time for a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Maximum time for the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// Maximum time for the answers of a connection that is to end, longer than that of a question for
/// the API server.
const LAST_ANSWER: Duration = Duration::from_secs(15);
/// Maximum size of the head of a request in bytes. A token has one or two thousand.
const MAX_HEAD: usize = 32 * 1024;
/// Maximum number of headers.
const MAX_HEADERS: usize = 64;
/// Length of the queue of connections in the kernel.
const BACKLOG: u32 = 1024;
/// Pause after the kernel could not accept a connection, for example without a free file descriptor.
const PAUSE: Duration = Duration::from_secs(1);

/// What is spoken on a connection.
#[derive(Clone)]
pub(crate) enum Protocol {
    /// HTTP/1.1 without TLS.
    Plain,
    /// HTTP over TLS.
    Tls {
        /// The configuration, which may change.
        config: Arc<ArcSwap<ServerConfig>>,
        /// Maximum number of streams of HTTP/2.
        streams: u32,
    },
}

/// The other end of a connection.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// Its certificates, the first of which is its own.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    authorized: AtomicBool,
    last: CancellationToken,
}

impl Peer {
    /// Notes that a request of a known user was authorized on this connection.
    pub(crate) fn is_authorized(&self) {
        self.authorized.store(true, Ordering::Relaxed);
    }

    /// Ends the connection after the current request.
    pub(crate) fn ends(&self) {
        self.last.cancel();
    }
}

/// Listens on an address. The flags are those that set it.
pub(crate) fn listen(
    address: SocketAddr,
    shares_port: bool,
    flags: &'static str,
) -> Result<(TcpListener, SocketAddr), ServeError> {
    let listening = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // As Go and Tokio do: a restart need not wait for the kernel.
        socket.set_reuseaddr(true)?;
        if shares_port {
            socket.set_reuseport(true)?;
        }
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let bound = listener.local_addr()?;
        Ok((listener, bound))
    };
    listening().map_err(|source| ServeError::Listen {
        address,
        flags,
        source,
    })
}

/// A connection that is open.
struct Open {
    peer: Arc<ArcSwap<Peer>>,
    task: AbortHandle,
}

/// Serves connections until `stop`.
pub(crate) async fn serve(
    listener: TcpListener,
    protocol: Protocol,
    router: Router,
    stop: CancellationToken,
) {
    let mut open = VecDeque::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                if !is_of_client(&error) {
                    sleep(PAUSE).await;
                }
                continue;
            }
        };

        make_room(&mut open);
        let peer = Arc::new(ArcSwap::default());
        let serving = connection(
            stream,
            protocol.clone(),
            router.clone(),
            Arc::clone(&peer),
            stop.clone(),
        );
        let task = tokio::spawn(serving).abort_handle();
        open.push_back(Open { peer, task });
    }
}

/// Returns whether a connection could not be accepted because its client has closed it. Others do not
/// wait for that, so that no client can delay probes.
fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::Interrupted
    )
}

/// Closes a connection, if there are too many.
fn make_room(open: &mut VecDeque<Open>) {
    open.retain(|connection| !connection.task.is_finished());
    if open.len() < CONNECTIONS {
        return;
    }

    let is_kept = |connection: &Open| connection.peer.load().authorized.load(Ordering::Relaxed);
    let too_many_are_kept = open.iter().filter(|it| is_kept(it)).count() > KEPT;
    let oldest = open
        .iter()
        .position(|connection| is_kept(connection) == too_many_are_kept)
        .unwrap_or_default();
    if let Some(connection) = open.remove(oldest) {
        connection.task.abort();
    }
}

/// Serves a connection.
async fn connection(
    stream: TcpStream,
    protocol: Protocol,
    router: Router,
    known: Arc<ArcSwap<Peer>>,
    stop: CancellationToken,
) {
    let (config, streams) = match protocol {
        Protocol::Plain => return http1(stream, router, known.load_full(), stop).await,
        Protocol::Tls { config, streams } => (config.load_full(), streams),
    };

    let handshake = timeout(HANDSHAKE, TlsAcceptor::from(config).accept(stream));
    let stream = match handshake.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => return,
    };
    let (_, session) = stream.get_ref();
    let is_http2 = session.alpn_protocol() == Some(&b"h2"[..]);
    known.store(Arc::new(Peer {
        certificates: session.peer_certificates().unwrap_or_default().to_vec(),
        ..Peer::default()
    }));
    let peer = known.load_full();

    if is_http2 {
        http2(stream, router, streams, peer, stop).await;
    } else {
        http1(stream, router, peer, stop).await;
    }
}

async fn http1<S>(stream: S, router: Router, peer: Arc<Peer>, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let ending = Arc::clone(&peer);
    let service = service_fn(move |request: Request<Incoming>| {
        answer(router.clone(), Arc::clone(&peer), request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    until_its_end(
        connection,
        http1::Connection::graceful_shutdown,
        &ending,
        &stop,
    )
    .await;
}

async fn http2<S>(stream: S, router: Router, streams: u32, peer: Arc<Peer>, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let ending = Arc::clone(&peer);
    let service = service_fn(move |request: Request<Incoming>| {
        answer(router.clone(), Arc::clone(&peer), request)
    });
    let max_head = u32::try_from(MAX_HEAD).unwrap_or(u32::MAX);
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams)
        .max_header_list_size(max_head)
        .serve_connection(TokioIo::new(stream), service);
    until_its_end(
        connection,
        http2::Connection::graceful_shutdown,
        &ending,
        &stop,
    )
    .await;
}

async fn answer(
    mut router: Router,
    peer: Arc<Peer>,
    mut request: Request<Incoming>,
) -> Result<Response, Infallible> {
    request.extensions_mut().insert(peer);
    router.call(request.map(Body::new)).await
}

/// Waits until a connection ends, or lets it end when it has to.
async fn until_its_end<C: Future>(
    connection: C,
    shutdown: impl FnOnce(Pin<&mut C>),
    peer: &Peer,
    stop: &CancellationToken,
) {
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = peer.last.cancelled() => {}
        () = stop.cancelled() => {}
        () = sleep(LONGEST) => {}
    }

    shutdown(connection.as_mut());
    let _ = timeout(LAST_ANSWER, connection).await;
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    async fn started() -> (SocketAddr, CancellationToken) {
        let local = (Ipv4Addr::LOCALHOST, 0).into();
        let (listener, address) = listen(local, false, "").unwrap();
        let router = Router::new().route("/healthz", get(async || "ok"));
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, Protocol::Plain, router, stop.clone()));
        (address, stop)
    }

    async fn asks(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let begin = b"GET /healthz HTTP/1.1\r\nX: ";
        stream.write_all(begin).await.unwrap();
        stream
    }

    async fn answered(mut stream: TcpStream) -> String {
        let end = b"\r\nHost: x\r\nConnection: close\r\n\r\n";
        // It may be closed.
        let _ = stream.write_all(end).await;
        let mut answer = String::new();
        let read = timeout(MINUTE, stream.read_to_string(&mut answer));
        let _ = read.await.expect("the connection ends");
        answer
    }

    #[tokio::test]
    async fn slow_connections_are_closed_to_make_room() {
        let (address, _stop) = started().await;
        let mut slow = VecDeque::new();
        for _ in 0..3 * CONNECTIONS {
            slow.push_back(asks(address).await);
        }

        // The newest ones are served, also if nobody has ended the others.
        let answer = answered(asks(address).await).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let last = slow.pop_back().unwrap();
        let answer = answered(last).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let first = slow.pop_front().unwrap();
        assert_eq!(answered(first).await, "", "it was closed");
    }

    #[test]
    fn only_errors_of_this_machine_delay_other_clients() {
        for (kind, is_client) in [
            (ErrorKind::ConnectionAborted, true),
            (ErrorKind::ConnectionReset, true),
            (ErrorKind::Interrupted, true),
            (ErrorKind::OutOfMemory, false),
            (ErrorKind::Other, false),
        ] {
            assert_eq!(is_of_client(&kind.into()), is_client, "{kind:?}");
        }
        // EMFILE.
        assert!(!is_of_client(&io::Error::from_raw_os_error(24)));
    }

    fn open(number: usize) -> VecDeque<Open> {
        let open = |_| Open {
            peer: Arc::default(),
            task: tokio::spawn(std::future::pending::<()>()).abort_handle(),
        };
        (0..number).map(open).collect()
    }

    #[tokio::test]
    async fn a_connection_with_a_user_is_not_closed_to_make_room() {
        let mut all = open(CONNECTIONS);
        all[0].peer.load().is_authorized();
        let first = all[0].task.id();
        make_room(&mut all);
        assert_eq!((all.len(), all[0].task.id()), (CONNECTIONS - 1, first));
    }

    #[tokio::test]
    async fn users_leave_room_for_probes() {
        let mut all = open(CONNECTIONS);
        for connection in &all {
            connection.peer.load().is_authorized();
        }
        make_room(&mut all);
        all.extend(open(1));
        let probe = all[CONNECTIONS - 1].task.id();

        // Others come while the probe is answered, and are authorized at once.
        for _ in 1..KEPT {
            make_room(&mut all);
            all.extend(open(1));
            let newest = all.back().unwrap();
            newest.peer.load().is_authorized();
        }
        assert!(all.iter().any(|connection| connection.task.id() == probe));
        assert_eq!(all.len(), CONNECTIONS);
    }

    #[tokio::test]
    async fn large_heads_and_silence_end_a_connection() {
        let (address, _stop) = started().await;
        let mut stream = asks(address).await;
        let large = vec![b'x'; 2 * MAX_HEAD];
        // It may be closed before everything is sent.
        let _ = stream.write_all(&large).await;
        let mut answer = Vec::new();
        let _ = timeout(MINUTE, stream.read_to_end(&mut answer))
            .await
            .unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
            "{answer}"
        );

        let mut silent = asks(address).await;
        let mut nothing = Vec::new();
        let waited = timeout(MINUTE, silent.read_to_end(&mut nothing));
        assert!(waited.await.is_ok());
    }
}
