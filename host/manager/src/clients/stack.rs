//! The way of a request to the API server: kube's, but over HTTP/2, for which kube has no switch.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Config, Error,
    client::{Body, ClientBuilder, ConfigExt as _, DynBody, RustlsTlsError, retry::RetryPolicy},
};
use tower::{BoxError, ServiceBuilder, ServiceExt as _, retry::RetryLayer, util::BoxService};

use super::unprocessed::Unprocessed;

/// A connection on which nothing has come for so long is asked for a sign of life. One whose other end has gone without a word
/// holds up all requests that share it; client-go's 30 s and 15 s are long for that, and a ping costs nothing.
const PING: Duration = Duration::from_secs(10);
/// It is given up if none comes for so long.
const PONG: Duration = Duration::from_secs(5);

/// What a client is made of.
pub(super) type Stack = ClientBuilder<BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>>;

/// All requests and watches share a connection if the server speaks HTTP/2; otherwise each takes one out of a pool.
///
/// # Errors
/// If TLS or credentials of the configuration do not work.
pub(super) fn shared(config: Config) -> Result<Stack, Error> {
    // Only kube can do these. It speaks HTTP/1.1.
    if config.proxy_url.is_some() || config.auth_info.exec.is_some() {
        return ClientBuilder::try_from(config);
    }
    let client = Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(PING)
        .http2_keep_alive_timeout(PONG)
        // Or a request that is given up on a dead connection would go to one that was idle, and be given up there again.
        .http2_keep_alive_while_idle(true)
        .build::<_, Body>(connector(&config)?);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.default_retry.then(|| RetryLayer::new(RetryPolicy::server_retry())))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_request(|request: Request<Body>| {
            tracing::debug!(method = %request.method(), path = %request.uri(), "requesting");
            request
        })
        .layer(RetryLayer::new(Unprocessed::default()))
        .map_err(BoxError::from)
        .service(client)
        .map_response(|response| response.map(|body| Box::new(body.map_err(BoxError::from)) as Box<DynBody>))
        .boxed();
    Ok(ClientBuilder::new(service, config.default_namespace))
}

type Connector = TimeoutConnector<hyper_rustls::HttpsConnector<HttpConnector>>;

fn connector(config: &Config) -> Result<Connector, Error> {
    let mut tls = HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(RustlsTlsError::InvalidServerName).map_err(Error::RustlsTls)?;
        tls = tls.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    // Small frames of one request must not wait for what the other end says about those of another.
    tcp.set_nodelay(true);
    // What pings are for HTTP/2, but only the other machine answers them, and not its server.
    tcp.set_keepalive(Some(PING));
    tcp.set_keepalive_interval(Some(PONG));
    tcp.set_keepalive_retries(Some(1));
    let mut connector = TimeoutConnector::new(tls.enable_all_versions().wrap_connector(tcp));
    connector.set_connect_timeout(config.connect_timeout);
    Ok(connector)
}
