//! How the host itself reaches those who issue credentials.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};
use tokio::time::timeout;

use crate::{
    config::TlsConfig,
    credential::{Issuer, IssuerError},
    dial::{Connector, Resolver, SystemResolver},
    uri,
};

/// Until there is a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// For the whole request.
const TOTAL: Duration = Duration::from_secs(30);
/// Largest answer. Catalogues of large clouds have some hundred KiB.
const MAX_ANSWER: usize = 4 << 20;
/// Connections at a time.
const CONNECTIONS: usize = 16;
/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(30);

/// Sends the host's own requests to issuers of credentials: to any address, metadata services included, since operators and not
/// plugins name them. No redirects, no proxy; bounded in time and size.
#[derive(Clone)]
pub struct HostIssuer(Client<Connector, Full<Bytes>>);

impl HostIssuer {
    /// With the system's resolver. `tls` as for a rule; its pin is not used.
    #[must_use]
    pub fn new(tls: TlsConfig) -> Self {
        Self::with(Arc::new(SystemResolver::default()), tls)
    }

    /// With another resolver.
    #[must_use]
    pub fn with(resolver: Arc<dyn Resolver>, tls: TlsConfig) -> Self {
        // Who issues it has a name of its own, whatever that of the hosts it is for is.
        let tls = TlsConfig { server_name: None, ..tls };
        let connector = Connector::of_host(resolver, tls, CONNECTIONS, CONNECT);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE).pool_max_idle_per_host(2);
        Self(builder.build(connector))
    }
}

#[async_trait]
impl Issuer for HostIssuer {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, IssuerError> {
        // Not the path: it may hold a secret.
        let target = uri::target(request.uri()).map_err(|refusal| IssuerError::new(refusal.sentence()))?;
        let failed = |why: &dyn fmt::Display| IssuerError::new(format!("{target} gave no answer: {why}"));
        let exchange = async {
            let answer = self.0.request(request.map(Full::new)).await.map_err(|error| failed(&cause(&error)))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(|error| failed(&error))?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        let answer = timeout(TOTAL, exchange).await;
        answer.unwrap_or_else(|_| Err(failed(&format_args!("it took longer than {} s", TOTAL.as_secs()))))
    }
}

/// The innermost cause, which says most.
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
