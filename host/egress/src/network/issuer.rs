//! Requests of Skydock to issuers of credentials.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::{
    client::legacy::{Client, connect::capture_connection},
    rt::{TokioExecutor, TokioTimer},
};
use skydock_credentials::{Issuer, IssuerError, config::ClientCertificate};
use tokio::time::timeout;

use crate::{
    network::dial::{Connector, HeadLimit, Resolver, SystemResolver, attached},
    rules::{config::TlsConfig, uri},
};

/// Timeout for connecting.
const CONNECT: Duration = Duration::from_secs(5);
/// Timeout for the whole request.
const TOTAL: Duration = Duration::from_secs(30);
/// Maximum size of an answer. Catalogs of large clouds have a few hundred KiB.
const MAX_ANSWER: usize = 4 << 20;
/// Maximum number of connections.
const CONNECTIONS: usize = 16;
/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(30);

/// The client for requests of Skydock to issuers of credentials. All addresses are allowed,
/// including metadata services, since they are configured by operators and not by plugins. No
/// redirects, no proxy; time and size are limited.
#[derive(Clone)]
pub struct HostIssuer(Client<Connector, Full<Bytes>>);

impl HostIssuer {
    /// Creates an issuer client with the system resolver. `tls` and the client certificate are as
    /// for a rule, except that the pin is ignored.
    #[must_use]
    pub fn new(tls: TlsConfig, certificate: Option<ClientCertificate>) -> Self {
        Self::with(Arc::new(SystemResolver::default()), tls, certificate)
    }

    /// Creates an issuer client with another resolver.
    #[must_use]
    pub fn with(
        resolver: Arc<dyn Resolver>,
        tls: TlsConfig,
        certificate: Option<ClientCertificate>,
    ) -> Self {
        // The issuer has its own name, which differs from the server name of the rule.
        let tls = TlsConfig {
            server_name: None,
            ..tls
        };

        let connector = Connector::of_skydock(resolver, tls, certificate, CONNECTIONS, CONNECT);
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(2);
        Self(builder.build(connector))
    }
}

#[async_trait]
impl Issuer for HostIssuer {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, IssuerError> {
        // The path is not included: it may contain a secret.
        let target =
            uri::target(request.uri()).map_err(|error| IssuerError::new(error.sentence()))?;
        let failed =
            |why: &dyn fmt::Display| IssuerError::new(format!("{target} did not answer: {why}"));

        let exchange = async {
            let mut request = request.map(Full::new);
            let mut captured = capture_connection(&mut request);
            let mut answer = self.0.request(request);
            let early = tokio::select! {
                biased;
                answer = &mut answer => Some(answer),
                _ = captured.wait_for_connection_metadata() => None,
            };

            let answer = match early {
                Some(answer) => answer,
                None => {
                    // Before its answer, a server may send any number of informational ones (1xx).
                    let head = attached(&captured).remove::<HeadLimit>();
                    head.iter().for_each(HeadLimit::start);
                    let answer = answer.await;
                    head.iter().for_each(HeadLimit::end);
                    answer
                }
            };

            let answer = answer.map_err(|error| failed(&cause(&error)))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, MAX_ANSWER)
                .collect()
                .await
                .map_err(|error| failed(&error))?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };

        let answer = timeout(TOTAL, exchange).await;
        answer.unwrap_or_else(|_| {
            Err(failed(&format_args!(
                "it took longer than {} s",
                TOTAL.as_secs()
            )))
        })
    }
}

/// Returns the innermost error, which is the most specific.
fn cause(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }

    error.to_string()
}

impl fmt::Debug for HostIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostIssuer").finish_non_exhaustive()
    }
}
