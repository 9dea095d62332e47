//! Adds TLS to a cloud without it, with certificates that expire within seconds.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context as _, Result};
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};
use tokio_rustls::TlsAcceptor;

use crate::authority::{Authority, Leaf};

/// Maximum size of a request header in bytes.
const MAX_HEAD: usize = 64 << 10;

/// A TLS server in front of a server without TLS. Each connection is used for one request only, so
/// that each request needs a TLS handshake. The server stops when it is dropped.
pub(crate) struct Front {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    config: Mutex<Arc<ServerConfig>>,
    served: AtomicUsize,
    failed: AtomicUsize,
}

impl Front {
    /// Starts a server in front of the one at this address, `127.0.0.1:PORT`. Clients need a
    /// certificate that one of these authorities has signed, if there are any.
    ///
    /// # Errors
    /// Fails if it cannot listen.
    pub(crate) async fn before(server: &str, leaf: &Leaf, clients: &[&Authority]) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let config = Mutex::new(Arc::new(config(leaf, clients)?));
        let shared = Arc::new(Shared {
            config,
            served: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
        });
        let (of_task, server) = (Arc::clone(&shared), server.to_owned());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(stream, Arc::clone(&of_task), server.clone()));
            }
        });
        Ok(Self {
            address,
            shared,
            task: task.abort_handle(),
        })
    }

    /// Returns the URL: `https://127.0.0.1:PORT`.
    #[must_use]
    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Replaces the certificate, and the authorities of accepted clients.
    ///
    /// # Errors
    /// Fails if they are invalid.
    pub(crate) fn replace(&self, leaf: &Leaf, clients: &[&Authority]) -> Result<()> {
        let config = Arc::new(config(leaf, clients)?);
        *self
            .shared
            .config
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Returns the number of successful and of failed TLS handshakes.
    #[must_use]
    pub(crate) fn counts(&self) -> (usize, usize) {
        (
            self.shared.served.load(Ordering::Relaxed),
            self.shared.failed.load(Ordering::Relaxed),
        )
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn config(leaf: &Leaf, clients: &[&Authority]) -> Result<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for authority in clients {
        roots.add(authority.der().clone())?;
    }
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(leaf.private().to_vec()));
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    let builder = if clients.is_empty() {
        builder.with_no_client_auth()
    } else {
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        builder.with_client_cert_verifier(verifier)
    };
    let mut config = builder.with_single_cert(leaf.chain(), key)?;
    // A resumed session would not present a certificate.
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

async fn connection(stream: TcpStream, shared: Arc<Shared>, server: String) {
    let config = Arc::clone(&*shared.config.lock().unwrap_or_else(PoisonError::into_inner));
    let Ok(mut client) = TlsAcceptor::from(config).accept(stream).await else {
        shared.failed.fetch_add(1, Ordering::Relaxed);
        return;
    };
    shared.served.fetch_add(1, Ordering::Relaxed);
    // Errors are ignored, because clients and servers may close connections.
    let _ = pass_on(&mut client, &server).await;
}

/// Forwards one request.
async fn pass_on(
    client: &mut tokio_rustls::server::TlsStream<TcpStream>,
    server: &str,
) -> Result<()> {
    let mut head = Vec::new();
    let first = loop {
        if client.read_buf(&mut head).await? == 0 || head.len() > MAX_HEAD {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            break head
                .windows(2)
                .position(|end| end == b"\r\n")
                .context("a line")?
                + 2;
        }
    };
    let (line, rest) = head.split_at_checked(first).context("a line")?;
    let mut server = TcpStream::connect(server).await?;
    server
        .write_all(&[line, b"connection: close\r\n", rest].concat())
        .await?;
    copy_bidirectional(client, &mut server).await?;
    client.shutdown().await?;
    Ok(())
}
