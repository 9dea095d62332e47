//! Connections of clients, within limits: each uses a file descriptor, and without free file
//! descriptors the process can neither renew its Lease nor read a plugin.
//!
//! If there are too many, the source with the most of them loses its oldest one. So whoever opens as
//! many as they can closes their own, and a scraper, which has one or two, keeps these. Probes come
//! from this machine, for which some places are kept. Also questions for the API server are limited
//! for each source, so that none has to wait for those of another.

use std::{
    cmp::Reverse,
    collections::VecDeque,
    convert::Infallible,
    io::{self, ErrorKind},
    net::{IpAddr, Ipv6Addr, SocketAddr},
    pin::{Pin, pin},
    sync::{
        Arc, OnceLock,
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
    sync::{Semaphore, SemaphorePermit},
    task::AbortHandle,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower_service::Service as _;

use crate::ServeError;

/// Maximum number of connections from other machines. There are only a few scrapers.
const REMOTE: usize = 48;
/// Maximum number of connections from this machine. There are only a few probes.
const LOCAL: usize = 16;
/// Maximum number of requests of one source for which the API server is asked at a time.
const TURNS: usize = 2;
/// The part of an IPv6 address that names a network. A machine can have all addresses of one.
const NETWORK: u128 = u128::MAX << 64;
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
/// Maximum time to send the answers of a connection that ends because a request had no valid
/// credentials.
const GRACE: Duration = Duration::from_secs(2);
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
#[derive(Debug)]
pub(crate) struct Peer {
    /// Known after the handshake.
    certificates: OnceLock<Vec<CertificateDer<'static>>>,
    /// Shared by the connections of a source.
    turns: Arc<Semaphore>,
    authorized: AtomicBool,
    last: CancellationToken,
}

impl Peer {
    fn new(turns: Arc<Semaphore>) -> Self {
        Self {
            certificates: OnceLock::new(),
            turns,
            authorized: AtomicBool::new(false),
            last: CancellationToken::new(),
        }
    }

    /// Returns its certificates, the first of which is its own.
    pub(crate) fn certificates(&self) -> &[CertificateDer<'static>] {
        self.certificates
            .get()
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// Waits until the API server may be asked about a request of this source, and as long as the
    /// permit is kept.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.turns.acquire().await.ok()
    }

    /// Notes that a page for which a known user needs permission was served on this connection.
    pub(crate) fn mark_authorized(&self) {
        self.authorized.store(true, Ordering::Relaxed);
    }

    /// Returns a guard that ends the connection when it is dropped, for example because the client
    /// resets the request.
    pub(crate) fn ends_unless_disarmed(&self) -> DropGuard {
        self.last.clone().drop_guard()
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

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Source {
    /// The address, or the network of a remote IPv6 address.
    address: IpAddr,
    /// Whether it is this machine.
    is_local: bool,
}

impl Source {
    /// Returns the source of a connection with these addresses.
    fn new(client: IpAddr, server: IpAddr) -> Self {
        let client = client.to_canonical();
        // A machine connects to its own address from this same address.
        let is_local = client.is_loopback() || client == server.to_canonical();
        let address = match client {
            IpAddr::V6(address) if !is_local => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK))
            }
            _ => client,
        };
        Self { address, is_local }
    }
}

/// A connection that is open.
struct Open {
    source: Source,
    peer: Arc<Peer>,
    task: AbortHandle,
}

impl Open {
    fn is_authorized(&self) -> bool {
        self.peer.authorized.load(Ordering::Relaxed)
    }
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
        let accepted = accepted.and_then(|(stream, client)| {
            let source = Source::new(client.ip(), stream.local_addr()?.ip());
            Ok((stream, source))
        });
        let (stream, source) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if !is_of_client(&error) {
                    stop.run_until_cancelled(sleep(PAUSE)).await;
                }
                continue;
            }
        };

        make_room(&mut open, source);
        let turns = turns(&open, source);
        let peer = Arc::new(Peer::new(turns));
        let serving = connection(
            stream,
            protocol.clone(),
            router.clone(),
            Arc::clone(&peer),
            stop.clone(),
        );
        let task = tokio::spawn(serving).abort_handle();
        open.push_back(Open { source, peer, task });
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

/// Returns the turns of a source.
fn turns(open: &VecDeque<Open>, source: Source) -> Arc<Semaphore> {
    let other = open.iter().find(|it| it.source == source);
    other.map_or_else(
        || Arc::new(Semaphore::new(TURNS)),
        |it| Arc::clone(&it.peer.turns),
    )
}

/// Closes a connection if there are too many to open one from this source.
fn make_room(open: &mut VecDeque<Open>, newest: Source) {
    open.retain(|connection| !connection.task.is_finished());

    let is_rival = |it: &&Open| it.source.is_local == newest.is_local;
    let places = if newest.is_local { LOCAL } else { REMOTE };
    if open.iter().filter(is_rival).count() < places {
        return;
    }

    let number_of = |source: Source| {
        let opened = open.iter().filter(|it| it.source == source).count();
        opened + usize::from(source == newest)
    };
    let closed = open
        .iter()
        .enumerate()
        .filter(|(_, it)| is_rival(it))
        .max_by_key(|(position, it)| {
            (
                number_of(it.source),
                !it.is_authorized(),
                Reverse(*position),
            )
        })
        .map(|(position, _)| position);
    if let Some(connection) = closed.and_then(|position| open.remove(position)) {
        connection.task.abort();
    }
}

/// Serves a connection.
async fn connection(
    stream: TcpStream,
    protocol: Protocol,
    router: Router,
    peer: Arc<Peer>,
    stop: CancellationToken,
) {
    let (config, streams) = match protocol {
        Protocol::Plain => return http1(stream, router, peer, stop).await,
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
    let certificates = session.peer_certificates().unwrap_or_default().to_vec();
    // A connection has one handshake.
    let _ = peer.certificates.set(certificates);

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
    // Over HTTP/2, a client may go on although it was told that the connection ends.
    if peer.last.is_cancelled() {
        return std::future::pending().await;
    }
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
    let rest = tokio::select! {
        _ = connection.as_mut() => return,
        () = peer.last.cancelled() => GRACE,
        () = stop.cancelled() => LAST_ANSWER,
        () = sleep(LONGEST) => LAST_ANSWER,
    };

    shutdown(connection.as_mut());
    let _ = timeout(rest, connection).await;
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
        asks_from(Ipv4Addr::LOCALHOST, address).await
    }

    async fn asks_from(client: Ipv4Addr, address: SocketAddr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((client, 0).into()).unwrap();
        let mut stream = socket.connect(address).await.unwrap();
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
        for _ in 0..3 * REMOTE {
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

    #[tokio::test]
    async fn an_answer_is_not_lost_to_a_flood_from_elsewhere() {
        let (address, _stop) = started().await;
        let probe = asks(address).await;
        let mut flood = Vec::new();
        for _ in 0..200 {
            flood.push(asks_from(Ipv4Addr::new(127, 0, 0, 2), address).await);
        }
        let answer = answered(probe).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    #[test]
    fn sources_are_machines() {
        for (client, server, address, is_local) in [
            ("127.0.0.1", "127.0.0.1", "127.0.0.1", true),
            ("::1", "::1", "::1", true),
            ("10.0.0.9", "10.0.0.9", "10.0.0.9", true),
            ("::ffff:10.0.0.9", "::ffff:10.0.0.9", "10.0.0.9", true),
            ("2001:db8::9", "2001:db8::9", "2001:db8::9", true),
            ("10.0.0.1", "10.0.0.9", "10.0.0.1", false),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.9", "10.0.0.1", false),
            ("2001:db8:0:1:2::3", "2001:db8::9", "2001:db8:0:1::", false),
        ] {
            let source = Source::new(client.parse().unwrap(), server.parse().unwrap());
            let expected = Source {
                address: address.parse().unwrap(),
                is_local,
            };
            assert_eq!(source, expected, "{client}");
        }
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

    fn source(client: &str) -> Source {
        Source::new(client.parse().unwrap(), [10, 0, 0, 9].into())
    }

    fn open(number: usize, client: &str) -> VecDeque<Open> {
        let open = |_| Open {
            source: source(client),
            peer: Arc::new(Peer::new(Arc::new(Semaphore::new(TURNS)))),
            task: tokio::spawn(std::future::pending::<()>()).abort_handle(),
        };
        (0..number).map(open).collect()
    }

    #[tokio::test]
    async fn the_source_with_the_most_connections_loses_its_oldest() {
        let mut all = open(1, "10.0.0.1");
        all.extend(open(REMOTE - 1, "10.0.0.2"));
        let (scraper, oldest) = (all[0].task.id(), all[1].task.id());
        for client in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
            make_room(&mut all, source(client));
            assert_eq!(all.len(), REMOTE - 1, "{client}");
            all.extend(open(1, client));
        }
        assert_eq!(all[0].task.id(), scraper);
        assert!(all.iter().all(|it| it.task.id() != oldest));
    }

    #[tokio::test]
    async fn places_are_kept_for_this_machine() {
        let mut all = open(REMOTE, "10.0.0.2");
        all.extend(open(LOCAL - 1, "127.0.0.1"));
        make_room(&mut all, source("10.0.0.9"));
        assert_eq!(all.len(), REMOTE + LOCAL - 1);

        all.extend(open(1, "10.0.0.9"));
        make_room(&mut all, source("127.0.0.1"));
        let remote = all.iter().filter(|it| !it.source.is_local);
        assert_eq!((remote.count(), all.len()), (REMOTE, REMOTE + LOCAL - 1));
    }

    #[tokio::test]
    async fn a_connection_with_a_user_is_not_closed_to_make_room() {
        // All come from one source, or each from another.
        let one = open(REMOTE, "10.0.0.2");
        let several = (0..REMOTE).flat_map(|number| open(1, &format!("10.0.1.{number}")));
        for mut all in [one, several.collect()] {
            all[0].peer.mark_authorized();
            let first = all[0].task.id();
            make_room(&mut all, source("10.0.0.3"));
            assert_eq!((all.len(), all[0].task.id()), (REMOTE - 1, first));
        }
    }

    #[tokio::test]
    async fn users_leave_room_for_probes() {
        let mut all = open(REMOTE, "10.0.0.2");
        for connection in &all {
            connection.peer.mark_authorized();
        }
        make_room(&mut all, source("10.0.0.3"));
        all.extend(open(1, "10.0.0.3"));
        let probe = all[REMOTE - 1].task.id();

        // Others come while the probe is answered, and are authorized at once.
        for _ in 1..3 * REMOTE {
            make_room(&mut all, source("10.0.0.2"));
            all.extend(open(1, "10.0.0.2"));
            let newest = all.back().unwrap();
            newest.peer.mark_authorized();
        }
        assert!(all.iter().any(|connection| connection.task.id() == probe));
        assert_eq!(all.len(), REMOTE);
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
