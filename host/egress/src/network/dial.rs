//! Connections to checked addresses.
//!
//! A name is resolved once for each connection, every address found is checked by the rule's
//! [`AddressPolicy`], and the connection goes to an address that passed. So a name cannot resolve
//! to another address between the check and the connection.

mod attempts;
mod proxy;
mod resolve;
mod stream;
mod tls;

use std::{
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_util::rt::TokioIo;
use skydock_cloud::CallKind;
use skydock_credentials::config::ClientCertificate;
use tokio::{
    net::TcpStream,
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout_at},
};

use crate::{
    limits::connections::Connections,
    observe::metrics::EgressMetrics,
    request_error::{Cause, Code, RequestError},
    rules::{
        address::{AddressPolicy, ClusterAddresses},
        compiled::CompiledRule,
        config::TlsConfig,
        uri,
    },
    target::{Host, Scheme, Target},
};

pub use resolve::{Resolver, SystemResolver};
pub(crate) use stream::{HeadLimit, Opened, Stream, attached};
use tls::Tls;

/// Maximum number of addresses of a name that are considered.
const MAX_ADDRESSES: usize = 32;

/// A function that returns the current addresses of the cluster. It is called for every name
/// resolution, so it should be fast.
pub type ClusterAddressesSource = Arc<dyn Fn() -> ClusterAddresses + Send + Sync>;

/// A connector, which opens the connections of one rule and one kind of calls for the connection
/// pool of their client.
#[derive(Clone)]
pub(crate) struct Connector {
    dialer: Arc<Dialer>,
    kind: CallKind,
}

struct Dialer {
    resolver: Arc<dyn Resolver>,
    closed: ClusterAddressesSource,
    connections: Arc<Connections>,
    /// `None` for requests of Skydock itself.
    addresses: Option<AddressPolicy>,
    tls: Tls,
    proxy: Option<Target>,
    connect_timeout: Duration,
}

impl Connector {
    pub(crate) fn new(
        rule: &CompiledRule,
        resolver: Arc<dyn Resolver>,
        closed: ClusterAddressesSource,
        connections: Arc<Connections>,
        metrics: EgressMetrics,
    ) -> Self {
        Self::with(Dialer {
            resolver,
            closed,
            connections,
            addresses: Some(rule.addresses.clone()),
            tls: Tls::new(
                rule.tls.clone(),
                rule.certificate.clone(),
                rule.pin,
                metrics,
            ),
            proxy: rule.proxy.clone(),
            connect_timeout: rule.limits.connect,
        })
    }

    fn with(dialer: Dialer) -> Self {
        Self {
            dialer: Arc::new(dialer),
            kind: CallKind::Nodes,
        }
    }

    /// Returns the connector for this kind of calls.
    pub(crate) fn of(&self, kind: CallKind) -> Self {
        Self {
            dialer: self.dialer.clone(),
            kind,
        }
    }

    /// Creates a connector for requests of Skydock itself, which may go to any address.
    pub(crate) fn of_skydock(
        resolver: Arc<dyn Resolver>,
        tls: TlsConfig,
        certificate: Option<ClientCertificate>,
        connections: usize,
        connect_timeout: Duration,
    ) -> Self {
        Self::with(Dialer {
            resolver,
            closed: Arc::new(ClusterAddresses::default),
            connections: Arc::new(Connections::of_skydock(connections)),
            addresses: None,
            tls: Tls::new(tls, certificate, None, EgressMetrics::default()),
            proxy: None,
            connect_timeout,
        })
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = RequestError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, RequestError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), RequestError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { dialer, kind } = self.clone();
        Box::pin(async move {
            let target = uri::target(&uri)?;
            dialer.connect(&target, kind).await.map(TokioIo::new)
        })
    }
}

impl Dialer {
    async fn connect(&self, target: &Target, kind: CallKind) -> Result<Stream, RequestError> {
        let deadline = Instant::now() + self.connect_timeout;
        let late = |code, what: &str| {
            RequestError::new(
                code,
                Cause::Connect,
                format!(
                    "{what} {target} took longer than {:?}",
                    self.connect_timeout
                ),
            )
        };

        let permit = timeout_at(deadline, self.connections.acquire(kind));
        let Ok(Ok(permit)) = permit.await else {
            let limit = self.connect_timeout;
            let most = self.connections.most();
            let sentence = format!(
                "no connection became free within {limit:?}: the limit is {most}, with a part for each kind of calls"
            );
            return Err(RequestError::new(
                Code::ConnectionLimitReached,
                Cause::Limit,
                sentence,
            ));
        };

        let addresses = match timeout_at(deadline, self.addresses_of(target, kind)).await {
            Ok(addresses) => addresses?,
            Err(_) => {
                let sentence = format!(
                    "cannot resolve the name of {target} within {:?}",
                    self.connect_timeout
                );
                return Err(RequestError::new(Code::DnsTimeout, Cause::Dns, sentence));
            }
        };

        let tcp = timeout_at(deadline, self.tcp(target, &addresses, kind)).await;
        let tcp = tcp.map_err(|_| late(Code::ConnectionTimeout, "connecting to"))??;

        // Most requests are small and wait for their answer, so Nagle's algorithm would delay them.
        // An error here is harmless.
        let _ = tcp.set_nodelay(true);

        let secured = timeout_at(deadline, self.secure(target, tcp, permit)).await;
        secured.map_err(|_| late(Code::ConnectionTimeout, "the TLS handshake with"))?
    }

    /// Returns the allowed addresses of the target.
    async fn addresses_of(
        &self,
        target: &Target,
        kind: CallKind,
    ) -> Result<Vec<SocketAddr>, RequestError> {
        let found = match &target.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolve(name, kind).await?,
        };
        let found = found.into_iter().take(MAX_ADDRESSES);

        let Some(addresses) = &self.addresses else {
            return Ok(found
                .map(|address| SocketAddr::new(address, target.port))
                .collect());
        };

        let closed = (self.closed)();
        let mut last_denied = None;
        let mut passed = Vec::new();
        for address in found {
            match addresses.check(SocketAddr::new(address, target.port), &closed) {
                Ok(address) if passed.contains(&address) => {}
                Ok(address) => passed.push(address),
                Err(denied) => last_denied = Some(denied),
            }
        }

        match last_denied {
            Some(denied) if passed.is_empty() => {
                let sentence = format!("{target}: {denied}");
                Err(RequestError::new(
                    Code::DestinationIpProhibited,
                    Cause::Address,
                    sentence,
                ))
            }
            _ => Ok(passed),
        }
    }

    async fn resolve(&self, name: &str, kind: CallKind) -> Result<Vec<IpAddr>, RequestError> {
        let failed = |why: &dyn std::fmt::Display| {
            RequestError::new(
                Code::DnsError,
                Cause::Dns,
                format!("cannot resolve {name}: {why}"),
            )
        };

        match self.resolver.resolve(name, kind).await {
            Ok(addresses) if addresses.is_empty() => Err(failed(&"it has no addresses")),
            Ok(addresses) => Ok(addresses),
            Err(error) => Err(failed(&error)),
        }
    }

    async fn tcp(
        &self,
        target: &Target,
        addresses: &[SocketAddr],
        kind: CallKind,
    ) -> Result<TcpStream, RequestError> {
        let Some(proxy) = &self.proxy else {
            return attempts::connect(target, addresses).await;
        };

        // The operator has configured the proxy, so its address is not checked by the rule.
        let found = match &proxy.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolve(name, kind).await?,
        };
        let found: Vec<_> = found
            .into_iter()
            .map(|address| SocketAddr::new(address, proxy.port))
            .collect();

        let tcp = attempts::connect(proxy, &found).await?;

        // The proxy gets the checked address, since it could resolve the name to another one.
        let Some(address) = addresses.first() else {
            return Err(attempts::nowhere(target));
        };
        proxy::tunnel(tcp, *address, proxy).await
    }

    async fn secure(
        &self,
        target: &Target,
        tcp: TcpStream,
        permit: OwnedSemaphorePermit,
    ) -> Result<Stream, RequestError> {
        match target.scheme {
            Scheme::Http => Ok(Stream::plain(tcp, permit)),
            Scheme::Https => Ok(Stream::tls(self.tls.agree(target, tcp).await?, permit)),
        }
    }
}
